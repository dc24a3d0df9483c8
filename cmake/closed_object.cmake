# Closed objects: a level becomes one relocatable object with one global symbol, so that no code leaks from it.

# rapt_add_closed_object(target file objects symbol): links the object library `objects` of a level into the relocatable
# object `file`, keeps `symbol` as its only global symbol, and adds it to `target`.
#
# Without this, an inline function of a header is a weak symbol of an AVX-512 object. The linker may keep that copy for
# every caller in the program, on every CPU.
function(rapt_add_closed_object target file objects symbol)
  target_compile_options(${objects} PRIVATE -fno-lto
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-uninitialized>)  # false alarms in <immintrin.h>
  set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON)

  set(closed "${CMAKE_CURRENT_BINARY_DIR}/${file}")
  if(CMAKE_CONFIGURATION_TYPES)
    set(closed "${CMAKE_CURRENT_BINARY_DIR}/$<CONFIG>/${file}")
  endif()
  add_custom_command(OUTPUT "${closed}"
    COMMAND ${RAPT_CLOSE} $<TARGET_OBJECTS:${objects}> -o "${closed}"
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=${symbol} "${closed}"
    DEPENDS ${objects} $<TARGET_OBJECTS:${objects}>
    COMMENT "Closing ${file}"
    COMMAND_EXPAND_LISTS VERBATIM)
  target_sources(${target} PRIVATE "${closed}")
endfunction()

set(RAPT_CLOSE ${RAPT_COMPILER} -r -nostdlib -fuse-ld=bfd -Wl,--force-group-allocation)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND RAPT_CLOSE -no-pie)  # -r excludes a default of -pie, which clang drops by itself
endif()

# An empty object tries the tools, so that configuring names a missing one.
set(try "${PROJECT_BINARY_DIR}/CMakeFiles/rapt_empty")
execute_process(COMMAND ${RAPT_COMPILER} -x c++ -c /dev/null -o "${try}.o" OUTPUT_QUIET ERROR_QUIET)
execute_process(COMMAND ${RAPT_CLOSE} "${try}.o" -o "${try}_closed.o" RESULT_VARIABLE failed ERROR_VARIABLE complaint)
if(failed)
  message(FATAL_ERROR "rapt needs GNU ld, as ld.bfd (Debian, Ubuntu: binutils; for a cross compiler "
          "binutils-<its triplet>). ${CMAKE_CXX_COMPILER} -fuse-ld=bfd says: ${complaint}")
endif()
if(NOT CMAKE_OBJCOPY)
  message(FATAL_ERROR "rapt needs objcopy (Debian, Ubuntu: binutils; for a cross compiler binutils-<its triplet>); "
          "CMAKE_OBJCOPY may name it.")
endif()
