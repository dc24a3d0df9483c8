# Writes commit.hpp, the commit of the sources, at each build. Run with -DSOURCE and -DFILE.
cmake_policy(VERSION 3.25)
find_package(Git QUIET)
set(commit)
if(Git_FOUND)
  execute_process(COMMAND "${GIT_EXECUTABLE}" -C "${SOURCE}" describe --always --dirty --tags --abbrev=12
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT commit)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT "${FILE}" CONTENT "#define RAPT_BENCH_COMMIT \"@commit@\"\n" @ONLY)  # untouched if the same
