# The headers with which rapt-validate and the decoder are built. The library builds without them. If one is missing,
# both are left out, unless tests are built, which need them.
find_path(RAPT_CLI11_INCLUDE_DIR CLI/CLI.hpp PATHS /usr/include DOC "Folder that holds CLI/CLI.hpp")
find_path(RAPT_NLOHMANN_JSON_INCLUDE_DIR nlohmann/json.hpp PATHS /usr/include DOC "Folder that holds nlohmann/json.hpp")
find_path(RAPT_FMT_INCLUDE_DIR fmt/format.h PATHS /usr/include DOC "Folder that holds fmt/format.h")

if(NOT RAPT_CLI11_INCLUDE_DIR OR NOT RAPT_NLOHMANN_JSON_INCLUDE_DIR OR NOT RAPT_FMT_INCLUDE_DIR)
  set(needs "rapt-validate and the decoder need the headers of CLI11, nlohmann/json and {fmt} (Debian, Ubuntu: libcli11-dev \
nlohmann-json3-dev libfmt-dev)")
  if(RAPT_BUILD_TESTS)
    message(FATAL_ERROR "${needs}.")
  endif()
  message(STATUS "rapt: rapt-validate and the decoder are left out. ${needs}.")
  set(RAPT_BUILD_VALIDATE OFF)
endif()
