# One row an instruction-set level, weakest first: name, processors, compiler flags.
# src/dispatch/levels.cpp holds the CPU features that each level's flags call for: change both together.
set(RAPT_ISA_ROWS
  "scalar|any|"
  "avx2|x86|-march=x86-64-v3"
  "avx512|x86|-march=x86-64-v4"
  "neon|arm64|-march=armv8-a")

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(RAPT_PROCESSOR x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(RAPT_PROCESSOR arm64)
else()
  set(RAPT_PROCESSOR other)
endif()

# The levels of this processor, weakest first, and the compiler flags of each: RAPT_ISA_FLAGS_<name>.
set(RAPT_ISAS)
foreach(row IN LISTS RAPT_ISA_ROWS)
  string(REPLACE "|" ";" fields "${row}")
  list(GET fields 0 name)
  list(GET fields 1 processor)
  list(GET fields 2 flags)
  if(processor STREQUAL "any" OR processor STREQUAL RAPT_PROCESSOR)
    list(APPEND RAPT_ISAS ${name})
    separate_arguments(RAPT_ISA_FLAGS_${name} UNIX_COMMAND "${flags}")
  endif()
endforeach()

# rapt_add_closed_object(target file objects symbol): links the object library `objects`, compiled for one level,
# into one relocatable object, `file`, in which `symbol` is the only global symbol, and adds it to `target`.
#
# Without this an inline function that some header leaves in an AVX-512 object is a weak symbol, and the linker
# may keep that copy for every caller in the program, on every CPU.
function(rapt_add_closed_object target file objects symbol)
  set(no_pie)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(no_pie -no-pie)  # -r and a compiler's default of -pie exclude each other; clang drops it unasked
  endif()
  target_compile_options(${objects} PRIVATE -fno-lto
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-uninitialized>)  # false alarms in <immintrin.h>
  set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON)

  set(closed "${CMAKE_CURRENT_BINARY_DIR}/${file}")
  add_custom_command(OUTPUT "${closed}"
    COMMAND ${CMAKE_CXX_COMPILER} ${RAPT_LINK_TARGET_FLAG} -r -nostdlib ${no_pie} -fuse-ld=bfd
            -Wl,--force-group-allocation $<TARGET_OBJECTS:${objects}> -o "${closed}"
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=${symbol} "${closed}"
    DEPENDS ${objects} $<TARGET_OBJECTS:${objects}>
    COMMENT "Closing ${file}"
    COMMAND_EXPAND_LISTS VERBATIM)
  set_source_files_properties("${closed}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(${target} PRIVATE "${closed}")
endfunction()

# rapt_add_isas(target): compiles the kernels of every level of this processor and adds them, closed, to `target`.
function(rapt_add_isas target)
  foreach(name IN LISTS RAPT_ISAS)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/isa/${name}/*.cpp")
    add_library(rapt_isa_${name} OBJECT ${sources})
    target_link_libraries(rapt_isa_${name} PRIVATE rapt_warnings rapt_internal)
    if(NOT name STREQUAL "scalar")
      target_link_libraries(rapt_isa_${name} PRIVATE rapt_xsimd)
    endif()
    # -O2 in every configuration: without inlining, each intrinsic would become a function of its own, and a
    # debug build of the caller's program is no reason for kernels fifty times slower. (The last -O wins.) With
    # sanitizers -O1: clang then takes 1 to 2 minutes for a file of a level, and up to twice as long at -O2.
    target_compile_options(rapt_isa_${name} PRIVATE ${RAPT_ISA_FLAGS_${name}} $<IF:$<CONFIG:Sanitizer>,-O1,-O2>)
    # Four of the five minutes that a sanitized level compiles are the undefined behaviour sanitizer's. One vector
    # level shows it the bodies that all share; the address sanitizer sees every level.
    if(name STREQUAL "avx512")
      target_compile_options(rapt_isa_${name} PRIVATE $<$<CONFIG:Sanitizer>:-fno-sanitize=undefined>)
    endif()
    rapt_add_closed_object(${target} rapt_${name}.o rapt_isa_${name} rapt_table_${name})
  endforeach()
endfunction()
