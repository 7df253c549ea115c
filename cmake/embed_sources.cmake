# Writes a C file that holds the texts of the kernels: cmake -DROOT=src -DOUT=file.c -DFILES=a;b -P embed_sources.cmake.
# Bytes and not string literals, whose length C limits to 4095.
set(table "")
set(index 0)
set(content "// The texts of src/device and src/shared, as attn_source_find gives them out. Made by cmake/embed_sources.cmake.\n")
string(APPEND content "#include \"cuda/kernel_source.h\"\n\n")
foreach(file IN LISTS FILES)
  file(READ ${ROOT}/${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  # Lines of 16 bytes: compilers dislike lines of a megabyte.
  string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
  string(APPEND content "static const char text_${index}[] = {\n${bytes}0};\n")
  string(APPEND table "    {\"${file}\", text_${index}},\n")
  math(EXPR index "${index} + 1")
endforeach()
string(APPEND content "\nconst attn_source_t attn_embedded_sources[] = {\n${table}};\n")
string(APPEND content "const int32_t attn_embedded_source_count = ${index};\n")
file(WRITE ${OUT} "${content}")
