# No code of a level may serve another level or the program around it. An inline function of a header is a weak symbol
# in an AVX-512 object, and the linker may keep that copy for every caller, on every CPU. RAPT_CLOSE says what prevents
# it:
#
#   linker     a level becomes one relocatable object with one global symbol, its table. Needs ELF, GNU ld and objcopy.
#   compiler   the code of a level is in namespaces that only this level uses, so that no other code has its symbols.
#              Every build checks the symbols of each object (cmake/check_symbols.cmake). Needs nm.
set(RAPT_CLOSE "" CACHE STRING "What keeps the levels apart: linker, compiler, or empty: the linker where it can")
set_property(CACHE RAPT_CLOSE PROPERTY STRINGS "" linker compiler)
if(NOT RAPT_CLOSE MATCHES "^(linker|compiler)?$")
  message(FATAL_ERROR "RAPT_CLOSE is '${RAPT_CLOSE}', but must be linker, compiler or empty.")
endif()

# rapt_parts_apart(result level source...): the sources to compile for a level. If the compiler keeps the levels apart,
# each includes a source within the level's namespaces. The name of its object is unique in the archive.
function(rapt_parts_apart result level)
  if(RAPT_CLOSING STREQUAL "linker")
    set(${result} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(parts)
  foreach(source IN LISTS ARGN)
    get_filename_component(name "${source}" NAME)
    set(part "${PROJECT_BINARY_DIR}/generated/rapt_${level}.${name}")
    file(CONFIGURE OUTPUT "${part}" @ONLY
         CONTENT "#define rapt rapt_${level}\n#define xsimd xsimd_${level}\n#include \"${source}\"\n")
    list(APPEND parts "${part}")
  endforeach()
  set(${result} ${parts} PARENT_SCOPE)
endfunction()

# The folder of generated files of this directory, one for each configuration.
set(RAPT_CLOSED_FOLDER "")
if(CMAKE_CONFIGURATION_TYPES)
  set(RAPT_CLOSED_FOLDER "/$<CONFIG>")
endif()

function(rapt_set_object_options objects)
  target_compile_options(${objects} PRIVATE -fno-lto
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-uninitialized>)  # false alarms in <immintrin.h>
  set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# rapt_add_closed_object(target file objects symbol): for the linker. Links the object library `objects` into the
# relocatable object `file`, keeps `symbol` as its only global symbol, and adds it to `target`.
function(rapt_add_closed_object target file objects symbol)
  rapt_set_object_options(${objects})
  set(closed "${CMAKE_CURRENT_BINARY_DIR}${RAPT_CLOSED_FOLDER}/${file}")
  add_custom_command(OUTPUT "${closed}"
    COMMAND ${RAPT_CLOSE_COMMAND} $<TARGET_OBJECTS:${objects}> -o "${closed}"
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=${symbol} "${closed}"
    DEPENDS ${objects} $<TARGET_OBJECTS:${objects}>
    COMMENT "Closing ${file}"
    COMMAND_EXPAND_LISTS VERBATIM)
  target_sources(${target} PRIVATE "${closed}")
endfunction()

# rapt_add_checked_objects(target objects level): for the compiler. Adds the objects to `target` unchanged, and a check
# of their symbols.
function(rapt_add_checked_objects target objects level)
  rapt_set_object_options(${objects})
  set(symbols "${CMAKE_CURRENT_BINARY_DIR}${RAPT_CLOSED_FOLDER}/rapt_${level}.symbols")
  set(check "${PROJECT_SOURCE_DIR}/cmake/check_symbols.cmake")
  add_custom_command(OUTPUT "${symbols}"
    COMMAND ${CMAKE_COMMAND} "-DNM=${CMAKE_NM}" -DLEVEL=${level} "-DOBJECTS=$<TARGET_OBJECTS:${objects}>"
            "-DOUTPUT=${symbols}" -P "${check}"
    DEPENDS ${objects} $<TARGET_OBJECTS:${objects}> "${check}"
    COMMENT "Checking the symbols of level ${level}"
    VERBATIM)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  # Not a source of `target`: then the file would not be made if only `target` is built.
  add_custom_target(${target}_symbols_${level} DEPENDS "${symbols}")
  add_dependencies(${target} ${target}_symbols_${level})
endfunction()

# Tries the tools on an empty object, so that configuring names a missing one.
set(RAPT_CLOSE_COMMAND ${RAPT_COMPILER} -r -nostdlib -fuse-ld=bfd -Wl,--force-group-allocation)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND RAPT_CLOSE_COMMAND -no-pie)  # -r excludes a default of -pie, which clang drops by itself
endif()
set(missing)
rapt_predefined(predefined)
if(NOT "__ELF__" IN_LIST predefined)
  set(missing "objects in the format ELF")
elseif(NOT CMAKE_OBJCOPY)
  set(missing "objcopy (Debian, Ubuntu: binutils; for a cross compiler binutils-<its triplet>), which CMAKE_OBJCOPY may name")
else()
  set(try "${PROJECT_BINARY_DIR}/CMakeFiles/rapt_empty")
  execute_process(COMMAND ${RAPT_COMPILER} -c "${RAPT_EMPTY}" -o "${try}.o" OUTPUT_QUIET ERROR_QUIET)
  execute_process(COMMAND ${RAPT_CLOSE_COMMAND} "${try}.o" -o "${try}_closed.o" RESULT_VARIABLE failed
                  ERROR_VARIABLE complaint)
  if(failed)
    string(STRIP "${complaint}" complaint)
    set(missing "GNU ld, as ld.bfd (Debian, Ubuntu: binutils; for a cross compiler binutils-<its triplet>). \
${CMAKE_CXX_COMPILER} -fuse-ld=bfd says: ${complaint}")
  endif()
endif()
set(RAPT_CLOSING "${RAPT_CLOSE}")
if(missing AND RAPT_CLOSE STREQUAL "linker")
  message(FATAL_ERROR "RAPT_CLOSE=linker needs ${missing}")
elseif(missing AND NOT RAPT_CLOSE)
  set(RAPT_CLOSING compiler)
  message(STATUS "rapt: the compiler keeps the levels apart: the linker's way needs ${missing}")
elseif(NOT RAPT_CLOSE)
  set(RAPT_CLOSING linker)
endif()
if(RAPT_CLOSING STREQUAL "compiler" AND NOT CMAKE_NM)
  message(FATAL_ERROR "rapt needs nm (Debian, Ubuntu: binutils or llvm), which CMAKE_NM may name.")
endif()
