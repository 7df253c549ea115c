# Installing and finding: the library, shared or static, the header, libattn.pc for pkg-config, the CMake package attn, and the
# command with its manual page. Included by the root after the targets exist; how the library is made, its SONAME and
# its symbol versions, is src/CMakeLists.txt's business.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS attn EXPORT attnTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/include/attn.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# pkg-config: everything relative to the folder of the .pc file.
set(pc_folder ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH ATTN_PC_PREFIX ${pc_folder} ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH ATTN_PC_LIBDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH ATTN_PC_INCLUDEDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
string(REGEX REPLACE "/$" "" ATTN_PC_PREFIX "${ATTN_PC_PREFIX}")
# A static library takes what it needs along. In Libs, not in Libs.private: with no shared library installed, every
# program needs it.
set(ATTN_PC_LIBRARIES -lattn)
set(ATTN_NEEDS_OPENMP OFF)
set(ATTN_NEEDS_THREADS OFF)
if(NOT BUILD_SHARED_LIBS)
  set(ATTN_NEEDS_THREADS ON)
  get_target_property(private_libraries attn LINK_LIBRARIES)
  if("OpenMP::OpenMP_C" IN_LIST private_libraries)
    set(ATTN_NEEDS_OPENMP ON)
    list(TRANSFORM OpenMP_C_LIB_NAMES PREPEND -l OUTPUT_VARIABLE openmp_libraries)
  endif()
  list(APPEND ATTN_PC_LIBRARIES ${openmp_libraries} -lpthread -ldl -lm)
endif()
list(JOIN ATTN_PC_LIBRARIES " " ATTN_PC_LIBRARIES)
configure_file(${CMAKE_CURRENT_LIST_DIR}/libattn.pc.in ${PROJECT_BINARY_DIR}/libattn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/libattn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# CMake package. Before 1.0 a new minor version may break sources.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/attn)
install(EXPORT attnTargets NAMESPACE attn:: DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/attnConfig.cmake.in ${PROJECT_BINARY_DIR}/attnConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attnConfig.cmake ${PROJECT_BINARY_DIR}/attnConfigVersion.cmake
  DESTINATION ${package_folder})

# The command finds the library beside it wherever the tree is put.
if(TARGET attn_tool)
  file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(attn_tool PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS attn_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(EXISTS ${PROJECT_SOURCE_DIR}/docs/man/attn.1)
    install(FILES ${PROJECT_SOURCE_DIR}/docs/man/attn.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  endif()
endif()
