# cmake --install: the library, its headers, the CMake package and the pkg-config file, as the component `rapt`.
# Packages of a distribution have them in three components (cmake/package.cmake).
#
# RAPT_INSTALL=OFF keeps the rules, but leaves them out of a whole installation: a project that exports a library which
# links rapt needs rapt's export.
include(CMakePackageConfigHelpers)
if(RAPT_PACKAGE)
  set(RAPT_library COMPONENT library)
  set(component COMPONENT development)
  set(RAPT_tools COMPONENT tools)
else()
  set(component COMPONENT rapt)
  set(RAPT_library ${component})
  set(RAPT_tools ${component})
endif()
if(NOT RAPT_INSTALL)
  list(APPEND component EXCLUDE_FROM_ALL)
  list(APPEND RAPT_library EXCLUDE_FROM_ALL)
endif()

list(GET component 1 development)
# Archive and shared library in one prefix: each has its own file of targets, and rapt-config.cmake chooses.
set(kind static)
if(BUILD_SHARED_LIBS)
  set(kind shared)
endif()
install(TARGETS rapt EXPORT rapt-${kind}-targets
        ARCHIVE ${component} LIBRARY ${RAPT_library} NAMELINK_COMPONENT ${development} RUNTIME ${RAPT_library})
install(DIRECTORY include/rapt DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" ${component})
if(NOT RAPT_PACKAGE)
  install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/rapt" ${component})
endif()

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rapt")
install(EXPORT rapt-${kind}-targets NAMESPACE rapt:: DESTINATION "${package_dir}" ${component})
export(EXPORT rapt-${kind}-targets NAMESPACE rapt:: FILE "${PROJECT_BINARY_DIR}/rapt-${kind}-targets.cmake")
configure_package_config_file(cmake/rapt-config.cmake.in "${PROJECT_BINARY_DIR}/rapt-config.cmake"
                              INSTALL_DESTINATION "${package_dir}" NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/rapt-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/rapt-config.cmake" "${PROJECT_BINARY_DIR}/rapt-config-version.cmake"
        DESTINATION "${package_dir}" ${component})

# The file computes the prefix from its own place, so that an installed tree can be moved. A tree whose library has an
# absolute place cannot.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(rapt_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH rapt_pc_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
  string(PREPEND rapt_pc_prefix "\${pcfiledir}/")
endif()
foreach(folder IN ITEMS LIBDIR INCLUDEDIR)
  set(rapt_pc_${folder} "${CMAKE_INSTALL_${folder}}")
  if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
    string(PREPEND rapt_pc_${folder} "\${prefix}/")
  endif()
endforeach()
# An archive needs libm from whoever links it, and not every user asks for --static.
set(rapt_pc_libs)
set(rapt_pc_private_libs -lm)
if(NOT BUILD_SHARED_LIBS)
  set(rapt_pc_libs " -lm")
  set(rapt_pc_private_libs)
endif()
list(JOIN RAPT_COMPILED_LEVELS " " rapt_pc_levels)
# The name of the library may have a postfix (CMAKE_DEBUG_POSTFIX), which is known after the whole configuration.
configure_file(cmake/rapt.pc.in "${PROJECT_BINARY_DIR}/CMakeFiles/rapt.pc.in" @ONLY)
set(rapt_pc "${PROJECT_BINARY_DIR}${RAPT_CLOSED_FOLDER}/rapt.pc")
file(GENERATE OUTPUT "${rapt_pc}" INPUT "${PROJECT_BINARY_DIR}/CMakeFiles/rapt.pc.in")
install(FILES "${rapt_pc}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" ${component})
