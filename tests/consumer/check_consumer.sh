#!/usr/bin/env bash
# One check of the installed library, as a user meets it. Called by ctest, or by hand:
#
#   check_consumer.sh CHECK BUILD_FOLDER SCRATCH_FOLDER
#
#   install      installs into SCRATCH/prefix, then moves it: nothing may depend on the first place
#   header       attn.h compiles alone and without a warning as C11, C17, C++17 (and as part of two files of a program)
#   pkg_config   a program in C and one in C++ through pkg-config, run
#   find_package the same through find_package, run
#   static       a static library, installed into a folder with a blank in its name, through both
#   subproject   libattn as a folder of another project, static and shared: it adds the library and nothing else
#   makefile     make install, from and into folders with blanks in their names
#   symbols      exactly the functions of attn.h are exported, at version LIBATTN_0
#   command      the attn command finds its library in the moved tree; its manual page is there
#   library      SONAME, size, and what the library itself needs
#
# Every check but install, static, subproject and makefile needs install to have run.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
check=${1:?check}
build=${2:?build folder}
scratch=${3:?scratch folder}
prefix=$scratch/prefix

fail() {
    echo "FAILED: $*" >&2
    exit 1
}
# The folder of libattn.pc's pkgconfig below the prefix: lib, lib64 or lib/x86_64-linux-gnu.
lib_folder() { dirname "$(dirname "$(find "$prefix" -name libattn.pc)")"; }
expect_result() {
    local said
    said=$(LD_LIBRARY_PATH=$(lib_folder) "$1") || fail "$1 did not work"
    echo "$said"
    case "$said" in *"o = 3 30, lse = 1.38629"*) ;; *) fail "$1 printed something else" ;; esac
}

check_install() {
    rm -rf "$scratch"
    mkdir -p "$scratch"
    cmake --install "$build" --prefix "$scratch/first" >/dev/null
    mv "$scratch/first" "$prefix"
    local file
    [ -f "$prefix/include/attn.h" ] || fail "include/attn.h is not installed"
    for file in libattn.so libattn.so.0 libattn.pc attnConfig.cmake attnConfigVersion.cmake; do
        [ -n "$(find "$prefix" -name "$file")" ] || fail "$file is not installed"
    done
    [ "$(find "$prefix/include" -type f | wc -l)" -eq 1 ] || fail "more than one header is installed"
    if grep -rlF "$scratch/first" "$prefix" || grep -rIlF "$build" "$prefix"; then
        fail "these installed files name the folder they were built in"
    fi
}

check_header() {
    local folder=$scratch/header include=$prefix/include
    rm -rf "$folder" && mkdir -p "$folder"
    echo '#include <attn.h>' >"$folder/alone.c"
    printf '#include <attn.h>\n#include <attn.h>\n' >"$folder/twice.c"
    echo 'int main(void) { return 0; }' >>"$folder/twice.c"
    local std compiler source
    for compiler in cc clang; do
        command -v "$compiler" >/dev/null || continue
        for std in c11 c17; do
            for source in alone twice; do
                "$compiler" -std=$std -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror -I"$include" -c \
                    "$folder/$source.c" -o "$folder/$source.o" || fail "attn.h as $std with $compiler"
            done
        done
    done
    for compiler in c++ clang++; do
        command -v "$compiler" >/dev/null || continue
        "$compiler" -xc++ -std=c++17 -Wall -Wextra -Wpedantic -Wold-style-cast -Werror -I"$include" -c \
            "$folder/alone.c" -o "$folder/alone_cxx.o" || fail "attn.h as C++17 with $compiler"
    done
    cc "$folder/alone.o" "$folder/twice.o" -o "$folder/both" || fail "attn.h in two files of one program"
    [ "$(wc -l <"$include/attn.h")" -le 600 ] || fail "attn.h has more than 600 lines"
}

check_pkg_config() {
    local folder=$scratch/pkg_config flags=()
    rm -rf "$folder" && mkdir -p "$folder"
    export PKG_CONFIG_PATH
    PKG_CONFIG_PATH=$(lib_folder)/pkgconfig
    flags=$(pkg-config --cflags --libs libattn) || fail "pkg-config does not know libattn"
    # pkg-config quotes blanks for a shell.
    eval "flags=($flags)"
    cc -std=c11 -Wall -Wextra -Werror "$here/consumer.c" "${flags[@]}" -lm -o "$folder/consumer_c"
    c++ -std=c++17 -Wall -Wextra -Werror -xc++ "$here/consumer.c" -xnone "${flags[@]}" -lm -o "$folder/consumer_cxx"
    expect_result "$folder/consumer_c"
    expect_result "$folder/consumer_cxx"
}

check_find_package() {
    local folder=$scratch/find_package
    rm -rf "$folder"
    cmake -S "$here/find_package" -B "$folder" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
    cmake --build "$folder" >/dev/null
    expect_result "$folder/consumer_c"
    expect_result "$folder/consumer_cxx"
    if cmake -S "$here/find_package" -B "$folder-refused" -DCMAKE_PREFIX_PATH="$prefix/nowhere" >/dev/null 2>&1; then
        fail "find_package finds another libattn than the one under test"
    fi
}

# Unoptimised, which builds in seconds: what is checked is the linking.
check_static() {
    scratch+="/with blank"
    prefix=$scratch/prefix
    rm -rf "$scratch" && mkdir -p "$scratch"
    cmake -S "$source" -B "$scratch/build" -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS=OFF -DATTN_TOOLS=OFF \
        -DATTN_TESTS=OFF >/dev/null
    cmake --build "$scratch/build" >/dev/null
    cmake --install "$scratch/build" --prefix "$scratch/first" >/dev/null
    mv "$scratch/first" "$prefix"
    [ -z "$(find "$prefix" -name 'libattn.so*')" ] || fail "a shared library is installed"
    check_pkg_config
    check_find_package
}

check_subproject() {
    local folder=$scratch/subproject shared
    rm -rf "$folder"
    for shared in OFF ON; do
        cmake -S "$here/subproject" -B "$folder/$shared" -DCMAKE_BUILD_TYPE=Debug -DATTN_SOURCE="$source" \
            -DBUILD_SHARED_LIBS=$shared >/dev/null
        cmake --build "$folder/$shared" >/dev/null
        LD_LIBRARY_PATH='' "$folder/$shared/consumer_c" || fail "a program with libattn inside does not run"
        cmake --install "$folder/$shared" --prefix "$folder/prefix" >/dev/null
        [ ! -e "$folder/prefix" ] || fail "the other project installs parts of libattn"
    done
}

check_makefile() {
    local folder="$scratch/with a blank"
    rm -rf "$folder"
    env -u MAKEFLAGS make -C "$source" install BUILD="$folder/build" PREFIX="$folder/prefix" \
        CMAKE_ARGS=-DCMAKE_BUILD_TYPE=Debug >/dev/null
    [ -n "$(find "$folder/prefix" -name libattn.so)" ] || fail "make install installs no library"
}

check_symbols() {
    local declared exported
    # The preprocessor joins declarations to one text; a function is the name before "(" after the visibility mark.
    declared=$(echo '#include <attn.h>' | cc -E -P -I"$prefix/include" -xc - | tr '\n' ' ' | tr ';{}' '\n' |
        sed -n 's/.*visibility("default")))[^(]*[ *]\(attn_[a-z0-9_]*\) *(.*/\1/p' | sort)
    exported=$(nm -D --defined-only "$(lib_folder)/libattn.so" | awk '$2 != "A" { print $3 }' | sort)
    [ -n "$declared" ] || fail "no declaration was found in attn.h"
    diff <(sed 's/$/@@LIBATTN_0/' <<<"$declared") - <<<"$exported" || fail "attn.h (<) and the exported symbols (>) differ"
    echo "$(wc -l <<<"$declared") functions"
}

check_command() {
    [ -n "$(find "$prefix" -path '*/man1/attn.1')" ] || fail "the manual page is not installed"
    (cd / && env -u LD_LIBRARY_PATH "$prefix/bin/attn" --help >/dev/null) || fail "the installed command does not start"
}

check_library() {
    local library needed size
    library=$(lib_folder)/libattn.so
    readelf -d "$library" | grep -q 'SONAME.*\[libattn\.so\.0\]' || fail "the SONAME is not libattn.so.0"
    size=$(stat -Lc %s "$library")
    [ "$size" -lt 2000000 ] || fail "the library has $size bytes, 2 MB or more"
    needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE '^(libc|libm|libgomp|ld-linux.*|libpthread|libdl)\.so' || true)
    [ -z "$needed" ] || fail "the library needs more than the C library and OpenMP: $needed"
    readelf -lW "$library" | grep -q 'GNU_STACK.* RWE' && fail "the library asks for an executable stack"
    echo "$size bytes"
}

case "$check" in
install | header | pkg_config | find_package | static | subproject | makefile | symbols | command | library) "check_$check" ;;
*) fail "no check '$check'" ;;
esac
