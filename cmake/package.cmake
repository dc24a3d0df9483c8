# Debian packages using cpack: the shared library, its development files, and rapt-validate. The packages dpkg-dev, file
# and help2man have the tools.
#
#   export DEBFULLNAME='Your Name' DEBEMAIL=your@address
#   cmake -B build/deb -DRAPT_PACKAGE=ON -DBUILD_SHARED_LIBS=ON -DCMAKE_INSTALL_PREFIX=/usr && cmake --build build/deb
#   cpack --config build/deb/CPackConfig.cmake -G DEB -B build/deb/packages
if(NOT BUILD_SHARED_LIBS OR NOT RAPT_BUILD_VALIDATE)
  message(FATAL_ERROR "RAPT_PACKAGE needs BUILD_SHARED_LIBS and RAPT_BUILD_VALIDATE.")
endif()
# CMake's cache keeps RAPT_LEVELS. Packages have fewer levels only if the command that asks for packages names these.
if(RAPT_LEVELS_IS_NAMED)
  set(RAPT_PACKAGED_LEVELS "${RAPT_LEVELS}" CACHE INTERNAL "")
elseif(RAPT_PACKAGE_IS_NAMED)
  set(RAPT_PACKAGED_LEVELS "" CACHE INTERNAL "")
endif()
if(RAPT_LEFT_OUT AND NOT RAPT_PACKAGED_LEVELS)
  list(JOIN RAPT_LEFT_OUT " " left_out)
  message(FATAL_ERROR "The packages would lack the levels ${left_out}: RAPT_LEVELS is '${RAPT_LEVELS}' from an earlier "
          "command. For all levels give -DRAPT_LEVELS= too, for these -DRAPT_LEVELS='${RAPT_LEVELS}'.")
endif()
set(abi "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(work "${PROJECT_BINARY_DIR}/packaging")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME librapt${abi})
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME librapt-dev)
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME rapt-tools)

# Lists the library's symbols, which are the functions of rapt.h, for dpkg-shlibdeps.
file(STRINGS include/rapt/rapt.h functions REGEX "^RAPT_API .*rapt_[a-z0-9_]+\\(")
set(symbols "librapt.so.${abi} librapt${abi} #MINVER#\n")
foreach(line IN LISTS functions)
  string(REGEX REPLACE ".*(rapt_[a-z0-9_]+)\\(.*" "\\1" function "${line}")
  string(APPEND symbols " ${function}@Base ${PROJECT_VERSION}\n")
endforeach()
string(REPLACE "#MINVER#" "(>= ${PROJECT_VERSION})" symbols "${symbols}")
file(CONFIGURE OUTPUT "${work}/symbols" CONTENT "${symbols}" @ONLY)
file(CONFIGURE OUTPUT "${work}/shlibs" CONTENT "librapt ${abi} librapt${abi} (>= ${PROJECT_VERSION})\n")
file(CONFIGURE OUTPUT "${work}/triggers" CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${work}/symbols;${work}/shlibs;${work}/triggers")

# Every package must contain its changelog and its copyright.
find_program(RAPT_GZIP gzip REQUIRED)
find_program(RAPT_HELP2MAN help2man REQUIRED)
find_program(RAPT_FILE file REQUIRED)  # cpack finds a library's dependencies by these two, after everything is built
find_program(RAPT_SHLIBDEPS dpkg-shlibdeps REQUIRED)
execute_process(COMMAND git -C "${PROJECT_SOURCE_DIR}" log -1 --format=%cD OUTPUT_VARIABLE commit_date
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit_date)
  set(commit_date "Thu, 01 Jan 1970 00:00:00 +0000")
endif()
# Whoever makes the packages is their maintainer. Debian's own tools read the same two variables.
set(contact)
if(DEFINED ENV{DEBFULLNAME} AND DEFINED ENV{DEBEMAIL})
  set(contact "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(CPACK_PACKAGE_CONTACT "${contact}" CACHE STRING "Maintainer of the packages: Name <address>")
if(NOT CPACK_PACKAGE_CONTACT)
  message(FATAL_ERROR "RAPT_PACKAGE needs the maintainer's name and address: DEBFULLNAME and DEBEMAIL in the environment, or "
          "-DCPACK_PACKAGE_CONTACT='Name <address>'.")
endif()
file(CONFIGURE OUTPUT "${work}/changelog" @ONLY CONTENT
"rapt (${PROJECT_VERSION}) unstable; urgency=medium

  * See CHANGELOG.md.

 -- ${CPACK_PACKAGE_CONTACT}  ${commit_date}
")
file(CONFIGURE OUTPUT "${work}/copyright" @ONLY CONTENT
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: rapt

Files: *
Copyright: 2026 the authors of rapt
License: Apache-2.0
 The text of this license is in /usr/share/common-licenses/Apache-2.0.
")
execute_process(COMMAND "${RAPT_GZIP}" -9nkf "${work}/changelog")
foreach(part IN ITEMS LIBRARY DEVELOPMENT TOOLS)
  string(TOLOWER ${part} component)
  install(FILES "${work}/changelog.gz" "${work}/copyright" COMPONENT ${component}
          DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/${CPACK_DEBIAN_${part}_PACKAGE_NAME}")
endforeach()
# cpack writes these scripts for any shared library, although the trigger would be enough.
file(CONFIGURE OUTPUT "${work}/overrides" CONTENT "librapt${abi}: maintscript-calls-ldconfig *\n")
install(FILES "${work}/overrides" DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/lintian/overrides" COMPONENT library
        RENAME librapt${abi})
add_custom_command(OUTPUT "${work}/rapt-validate.1.gz"
  COMMAND "${RAPT_HELP2MAN}" --no-info --no-discard-stderr --version-string=${PROJECT_VERSION}
          --name "check rapt's kernels on this CPU" --output "${work}/rapt-validate.1" $<TARGET_FILE:rapt-validate>
  COMMAND "${RAPT_GZIP}" -9nf "${work}/rapt-validate.1"
  DEPENDS rapt-validate VERBATIM)
add_custom_target(rapt_man_page ALL DEPENDS "${work}/rapt-validate.1.gz")
install(FILES "${work}/rapt-validate.1.gz" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT tools)

set(CPACK_PACKAGE_NAME rapt)
set(CPACK_PACKAGE_VENDOR "rapt")
set(CPACK_COMPONENTS_ALL library development tools)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "librapt${abi} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "librapt${abi} (= ${PROJECT_VERSION})")
set(long "Dot products, scaling, exponentials, softmax and attention for AVX2,\nAVX-512, AMX and NEON, chosen at run time. Every result has the same\n\
bits on every processor. Instruction sets:\n${rapt_pc_levels}.")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "CPU kernels for attention\n${long}")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "CPU kernels for attention: development files\n${long}\n.\nHeaders, the CMake package and the pkg-config file.")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "CPU kernels for attention: rapt-validate\n${long}\n.\nrapt-validate checks the kernels on this processor.")
include(CPack)
