# rapt_xsimd: the headers of xsimd, which only the kernels use. xsimd's own CMake target is not used, because Debian's
# version of it requires the library xtl, which rapt does not need.
option(RAPT_FETCH_XSIMD "Fetch the headers of xsimd by git where they are not installed" OFF)
find_path(RAPT_XSIMD_INCLUDE_DIR xsimd/xsimd.hpp PATHS /usr/include
          DOC "Folder that holds xsimd/xsimd.hpp (8.1 or newer)")
if(NOT RAPT_XSIMD_INCLUDE_DIR AND NOT RAPT_FETCH_XSIMD)
  message(FATAL_ERROR "rapt needs the headers of xsimd 8.1 or newer: install libxsimd-dev (Debian, Ubuntu) or xsimd-devel "
          "(Fedora), name their folder by RAPT_XSIMD_INCLUDE_DIR, or let git fetch them by -DRAPT_FETCH_XSIMD=ON.")
elseif(NOT RAPT_XSIMD_INCLUDE_DIR)
  message(STATUS "rapt: fetching xsimd")
  include(FetchContent)
  FetchContent_Declare(xsimd GIT_REPOSITORY https://github.com/xtensor-stack/xsimd.git GIT_TAG 14.0.0
                       GIT_SHALLOW ON SOURCE_SUBDIR none)
  FetchContent_MakeAvailable(xsimd)
  set(RAPT_XSIMD_INCLUDE_DIR "${xsimd_SOURCE_DIR}/include" CACHE PATH "" FORCE)
endif()
message(STATUS "rapt: xsimd from ${RAPT_XSIMD_INCLUDE_DIR}")

add_library(rapt_xsimd INTERFACE)
rapt_include_alone(rapt_xsimd INTERFACE "${RAPT_XSIMD_INCLUDE_DIR}" xsimd)
