# cmake --install: the library, its headers, the CMake package and the pkg-config file, as the component `rapt`.
#
# RAPT_INSTALL=OFF keeps the rules, but leaves them out of a whole installation: a project that exports a library which
# links rapt needs rapt's export.
include(CMakePackageConfigHelpers)
set(component COMPONENT rapt)
if(NOT RAPT_INSTALL)
  list(APPEND component EXCLUDE_FROM_ALL)
endif()

install(TARGETS rapt EXPORT rapt-targets ${component})
install(DIRECTORY include/rapt DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" ${component})
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/rapt" ${component})

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rapt")
install(EXPORT rapt-targets NAMESPACE rapt:: DESTINATION "${package_dir}" ${component})
export(EXPORT rapt-targets NAMESPACE rapt:: FILE "${PROJECT_BINARY_DIR}/rapt-targets.cmake")
configure_package_config_file(cmake/rapt-config.cmake.in "${PROJECT_BINARY_DIR}/rapt-config.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/rapt-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/rapt-config.cmake" "${PROJECT_BINARY_DIR}/rapt-config-version.cmake"
        DESTINATION "${package_dir}" ${component})

# The file computes the prefix from its own place, so that an installed tree can be moved.
file(RELATIVE_PATH rapt_pc_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
configure_file(cmake/rapt.pc.in "${PROJECT_BINARY_DIR}/rapt.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/rapt.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" ${component})
