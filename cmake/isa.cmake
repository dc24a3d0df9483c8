# The instruction-set levels: which there are, which are compiled, and how.

# One row a level, weakest first: name, processor, flags beyond the processor's own. src/dispatch/requirements.hpp holds
# the CPU features that these flags let the compiler use: change both together.
set(x86_64_v3 "-mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mmovbe -mpopcnt -mcx16 -msahf")
set(x86_64_v4 "${x86_64_v3} -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl")
set(RAPT_ISA_ROWS
  "scalar|any|"
  "avx2|x86|${x86_64_v3}"
  "avx512|x86|${x86_64_v4}"
  "neon|arm64|")

# What every CPU of a processor has, whatever the flags before say: -march takes -march=native back, but -mavx512f only
# -mno-sse3 and the like, and after these no -march=x86-64-v3 turns AVX2 on again.
set(RAPT_BASELINE_x86 "-march=x86-64 -mtune=generic -msse2 -mfpmath=sse -mrecip=none -mno-sse3 -mno-popcnt -mno-cx16 \
-mno-movbe -mno-lzcnt -mno-bmi -mno-bmi2 -mno-tbm -mno-gfni -mno-prfchw")
set(RAPT_BASELINE_arm64 "-march=armv8-a -mcpu=generic -mtune=generic")
set(RAPT_BASELINE_other "")

# The compiler knows what it compiles for. CMAKE_SYSTEM_PROCESSOR is what a toolchain file says, or nothing.
list(GET RAPT_CONFIGS 0 config)
rapt_flags_around(around ${config})
rapt_macros(macros ${around})
if(macros MATCHES "__x86_64__")
  set(RAPT_PROCESSOR x86)
elseif(macros MATCHES "__aarch64__")
  set(RAPT_PROCESSOR arm64)
else()
  set(RAPT_PROCESSOR other)
endif()

foreach(name IN ITEMS RAPT_ISA RAPT_ISAS)
  if(DEFINED ${name})
    message(FATAL_ERROR "rapt has no build option ${name}: RAPT_LEVELS chooses the levels that are compiled. (The "
            "environment variable RAPT_ISA chooses the one that runs.)")
  endif()
endforeach()

set(RAPT_LEVELS "" CACHE STRING "Levels to compile beside scalar, such as avx2;avx512. Empty: all of the processor")
string(REPLACE "," ";" wanted "${RAPT_LEVELS}")
list(TRANSFORM RAPT_ISA_ROWS REPLACE "\\|.*" "" OUTPUT_VARIABLE known)
foreach(name IN LISTS wanted)
  if(NOT name IN_LIST known)
    list(JOIN known " " known)
    message(FATAL_ERROR "RAPT_LEVELS names '${name}'. rapt's levels are: ${known}")
  endif()
endforeach()

# The levels to compile, weakest first, and the flags of each: RAPT_ISA_FLAGS_<name>.
set(RAPT_COMPILED_LEVELS)
set(left_out)
foreach(row IN LISTS RAPT_ISA_ROWS)
  string(REPLACE "|" ";" fields "${row}")
  list(GET fields 0 name)
  list(GET fields 1 processor)
  list(GET fields 2 flags)
  if(NOT processor MATCHES "^(any|${RAPT_PROCESSOR})$")
    continue()
  endif()
  if(wanted AND NOT name IN_LIST wanted AND NOT name STREQUAL "scalar")
    list(APPEND left_out ${name})
    continue()
  endif()
  list(APPEND RAPT_COMPILED_LEVELS ${name})
  separate_arguments(RAPT_ISA_FLAGS_${name} UNIX_COMMAND "${RAPT_BASELINE_${RAPT_PROCESSOR}} ${flags}")
  rapt_check_flags(${name} ${RAPT_NUMERIC_FLAGS} ${RAPT_ISA_FLAGS_${name}})
endforeach()
list(JOIN RAPT_COMPILED_LEVELS " " levels)
if(left_out)
  list(JOIN left_out " " left_out)
  string(APPEND levels "; left out by RAPT_LEVELS: ${left_out}")
endif()
message(STATUS "rapt: levels: ${levels}")

# The same list for the sources: RAPT_LEVELS expands to LEVEL(scalar) LEVEL(avx2) ...
list(TRANSFORM RAPT_COMPILED_LEVELS REPLACE "(.+)" "LEVEL(\\1)" OUTPUT_VARIABLE list)
list(JOIN list " " list)
add_library(rapt_levels INTERFACE)
target_compile_definitions(rapt_levels INTERFACE "RAPT_LEVELS=${list}")

# rapt_add_isas(target): compiles the kernels of every level and adds them, closed, to `target`.
function(rapt_add_isas target)
  foreach(name IN LISTS RAPT_COMPILED_LEVELS)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/isa/${name}/*.cpp")
    set(parts ${sources})
    list(TRANSFORM parts REPLACE ".*/(.+)\\.cpp" "PART(\\1)")
    list(JOIN parts " " parts)
    add_library(rapt_isa_${name} OBJECT ${sources} src/isa/table.cpp)
    target_compile_definitions(rapt_isa_${name} PRIVATE RAPT_TABLE=rapt_table_${name} "RAPT_PARTS=${parts}")
    target_link_libraries(rapt_isa_${name} PRIVATE rapt_warnings rapt_internal)
    if(NOT name STREQUAL "scalar")
      target_link_libraries(rapt_isa_${name} PRIVATE rapt_xsimd)
    endif()
    # -O2 in every configuration: without inlining, each intrinsic would become a function of its own, and a
    # debug build of the caller's program is no reason for kernels fifty times slower. With sanitizers -O1: clang takes
    # up to twice as long at -O2.
    rapt_set_last_flags("${sources}" ${RAPT_NUMERIC_FLAGS} ${RAPT_ISA_FLAGS_${name}}
                        $<IF:$<CONFIG:Sanitizer>,-O1,-O2>)
    # These checks of addresses take clang four fifths of a vector level's time. Guard pages and the address sanitizer
    # see the same.
    if(NOT name STREQUAL "scalar")
      target_compile_options(rapt_isa_${name} PRIVATE
        $<$<CONFIG:Sanitizer>:-fno-sanitize=null,alignment,object-size,pointer-overflow>)
    endif()
    rapt_add_closed_object(${target} rapt_${name}.o rapt_isa_${name} rapt_table_${name})
  endforeach()
endfunction()
