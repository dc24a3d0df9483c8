# The instruction-set levels: which there are, which are compiled, and how.

# One row per level, weakest first:
#   name | processor | the level that it builds on | parts | registers | flags beyond the processor's own and that level's
#
# A level has the flags of the level that it builds on, and inherits the kernels that it lacks. It needs every CPU
# feature of src/dispatch/features.def whose macro its flags define. A test compares these with the table of
# src/manual/levels.md. The benchmark measures its limits with the registers of bench/limits/registers/<registers>.hpp.
# Its parts are the .cpp files of src/isa/<name>/. A level with "all" has every kernel: it also has the parts of
# src/isa/parts.def.
set(RAPT_ISA_ROWS
  "scalar|any||own|element|"
  "avx2|x86|scalar|all|ymm|-mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mmovbe -mpopcnt -mcx16 -msahf"
  "avx2_vnni|x86|avx2|own|ymm|-mavxvnni"
  "avx512|x86|avx2|all|zmm|-mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl"
  "avx512_vnni|x86|avx512|own|zmm|-mavx512vnni"
  "amx|x86|avx512_vnni|own|zmm|-mamx-tile -mamx-bf16 -mamx-int8"
  "neon|arm64|scalar|all|q|"
  "neon_dotprod|arm64|neon|own|q|-march=armv8-a+dotprod"
  "neon_i8mm|arm64|neon_dotprod|own|q|-march=armv8-a+dotprod+i8mm"
  "neon_bf16|arm64|neon_i8mm|own|q|-march=armv8-a+dotprod+i8mm+bf16")

# Flags of a level for one compiler, by CMAKE_CXX_COMPILER_ID. gcc schedules instructions before it allocates registers.
# It then spills accumulators of panels that would fit, which makes a chain of load, FMLA and store. Bodies are written
# in the order in which they should run.
#
#   gcc 12, cycles modelled on Neoverse N1 / V2 | scheduled   | --param=sched-pressure-algorithm=1 | unscheduled
#   24 operations of a panel                    | 14.1 / 6.8  | 12.1 / 6.1                         | 12.1 / 6.1
#   the same of outer products                  | 4 spills    | 2 spills                           | none
#   four vectors of weights                     | 36.9 / 17.2 | 34.1 / 16.7                        | 33.6 / 16.2
#   four vectors of exp                         | 36.9 / 16.5 | 38.9 / 18.2                        | 40.8 / 17.0
set(RAPT_ISA_FLAGS_neon_GNU -fno-schedule-insns)

# gcc spills vectors with aligned moves, but Windows aligns the stack only to 16 bytes (gcc's bug 54412, for which
# Debian's gcc has a patch). GNU as 2.38 turns them into unaligned moves, which are as fast at an aligned address.
if(WIN32)
  set(RAPT_ISA_FLAGS_avx2_GNU -Wa,-muse-unaligned-vector-move)
endif()

# Flags for every CPU of a processor, which take back all flags before them. -march takes back -march=native, but only
# -mno-sse3 and similar flags take back -mavx512f. After these, no -march=x86-64-v3 turns AVX2 on again.
set(RAPT_BASELINE_x86 "-march=x86-64 -mtune=generic -msse2 -mfpmath=sse -mrecip=none -mno-sse3 -mno-popcnt -mno-cx16 \
-mno-movbe -mno-lzcnt -mno-bmi -mno-bmi2 -mno-tbm -mno-gfni -mno-prfchw")
set(RAPT_BASELINE_arm64 "-march=armv8-a -mcpu=generic -mtune=generic")
set(RAPT_BASELINE_other "")

# CPU seconds of compiling each level with gcc 12 on a Zen 5, in Release; the code around the levels counts with scalar.
# A test compares them with the manual's table.
set(RAPT_COMPILE_SECONDS scalar 14 avx2 116 avx2_vnni 7 avx512 139 avx512_vnni 10 amx 10 neon 190 neon_dotprod 9 neon_i8mm 4
    neon_bf16 12)

# Asks the compiler for its processor. CMAKE_SYSTEM_PROCESSOR comes from a toolchain file and may be empty.
list(GET RAPT_CONFIGS 0 config)
rapt_flags_around(around ${config})
rapt_macros(macros ${around})
if(macros AND NOT macros MATCHES "__SIZEOF_POINTER__ 8")
  message(FATAL_ERROR "rapt needs a processor with 64-bit addresses, and ${CMAKE_CXX_COMPILER} compiles for one without.")
elseif(macros MATCHES "__AARCH64EB__")
  message(FATAL_ERROR "rapt needs little-endian AArch64, and ${CMAKE_CXX_COMPILER} compiles for big-endian.")
endif()
if(macros MATCHES "__x86_64__")
  set(RAPT_PROCESSOR x86)
elseif(macros MATCHES "__aarch64__")
  set(RAPT_PROCESSOR arm64)
else()
  set(RAPT_PROCESSOR other)
endif()

# The processor's features of src/dispatch/features.def: RAPT_FEATURE_OF_<macro> is a feature.
string(TOUPPER ${RAPT_PROCESSOR} prefix)
file(STRINGS "${PROJECT_SOURCE_DIR}/src/dispatch/features.def" rows REGEX "^(${prefix}_FEATURE|IMPLIED)")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/dispatch/features.def")
foreach(row IN LISTS rows)
  if(row MATCHES "_FEATURE\\(([a-z0-9_]+), [^,]*, ([A-Za-z0-9_]+)")
    set(RAPT_FEATURE_OF_${CMAKE_MATCH_2} ${CMAKE_MATCH_1})
  elseif(row MATCHES "IMPLIED\\(([A-Za-z0-9_]+), ([a-z0-9_]+)")
    set(RAPT_FEATURE_OF_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
  endif()
endforeach()

# rapt_level_features(level features macros): the CPU features that the level needs, and the macros by which its flags
# differ from the processor's own. Stops at a macro that features.def does not know.
function(rapt_level_features level features macros)
  rapt_predefined(of_processor ${RAPT_BASELINE_FLAGS})
  rapt_predefined(of_level ${RAPT_ISA_FLAGS_${level}})
  set(known)
  foreach(macro IN LISTS of_level)
    if(RAPT_FEATURE_OF_${macro})
      list(APPEND known Feature::${RAPT_FEATURE_OF_${macro}})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES known)
  list(REMOVE_ITEM of_level ${of_processor})
  foreach(macro IN LISTS of_level)
    if(NOT DEFINED RAPT_FEATURE_OF_${macro})
      message(FATAL_ERROR "rapt: the flags of level ${level} define ${macro}, which src/dispatch/features.def lacks.")
    endif()
  endforeach()
  set(${features} "${known}" PARENT_SCOPE)
  set(${macros} "${of_level}" PARENT_SCOPE)
endfunction()

# Each level of the processor has RAPT_ISA_FLAGS_<name> and RAPT_ISA_REGISTERS_<name>. RAPT_COMPLETE_LEVELS are those
# with the parts of src/isa/parts.def.
separate_arguments(RAPT_BASELINE_FLAGS UNIX_COMMAND "${RAPT_BASELINE_${RAPT_PROCESSOR}}")
set(of_processor)
set(RAPT_COMPLETE_LEVELS)
foreach(row IN LISTS RAPT_ISA_ROWS)
  string(REPLACE "|" ";" fields "${row}")
  list(POP_FRONT fields name processor base parts registers flags)
  if(NOT processor MATCHES "^(any|${RAPT_PROCESSOR})$")
    continue()
  endif()
  list(APPEND of_processor ${name})
  separate_arguments(flags UNIX_COMMAND "${flags}")
  list(APPEND flags ${RAPT_ISA_FLAGS_${name}_${CMAKE_CXX_COMPILER_ID}})
  set(RAPT_ISA_REGISTERS_${name} ${registers})
  if(parts STREQUAL "all")
    list(APPEND RAPT_COMPLETE_LEVELS ${name})
  endif()
  set(base_${name} "${base}")
  if(base)
    set(RAPT_ISA_FLAGS_${name} ${RAPT_ISA_FLAGS_${base}} ${flags})
  else()
    set(RAPT_ISA_FLAGS_${name} ${RAPT_BASELINE_FLAGS} ${flags})
  endif()
endforeach()

# rapt_add_native_levels(list): adds the levels that this machine runs, as the compiler says. Where the tests are built,
# it also adds AMX over AVX-512, which tests/emulate executes. RAPT_NATIVE_FLAGS lets a test present another machine.
set(RAPT_NATIVE_FLAGS "" CACHE STRING "What RAPT_LEVELS=native asks the compiler about; empty: this machine")
mark_as_advanced(RAPT_NATIVE_FLAGS)
set(RAPT_NATIVE ${RAPT_NATIVE_FLAGS})
if(NOT RAPT_NATIVE AND RAPT_PROCESSOR STREQUAL "arm64")
  set(RAPT_NATIVE -mcpu=native)
elseif(NOT RAPT_NATIVE)
  set(RAPT_NATIVE -march=native)
endif()
function(rapt_add_native_levels list)
  if(CMAKE_CROSSCOMPILING)
    message(FATAL_ERROR "RAPT_LEVELS=native asks about this machine, but another one runs what is compiled.")
  endif()
  rapt_predefined(native ${RAPT_NATIVE})
  foreach(name IN LISTS of_processor)
    rapt_level_features(${name} features macros)
    list(REMOVE_ITEM macros ${native})
    if(NOT macros)
      list(APPEND ${list} ${name})
    endif()
  endforeach()
  if(RAPT_BUILD_TESTS AND avx512 IN_LIST ${list} AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
    list(APPEND ${list} amx)
  endif()
  set(${list} "${${list}}" PARENT_SCOPE)
endfunction()

foreach(name IN ITEMS RAPT_ISA RAPT_ISAS)
  if(DEFINED ${name})
    message(FATAL_ERROR "rapt has no build option ${name}: RAPT_LEVELS chooses the levels that are compiled. (The "
            "environment variable RAPT_ISA chooses the one that runs.)")
  endif()
endforeach()

set(RAPT_LEVELS "" CACHE STRING
    "Levels to compile beside scalar, such as avx2;avx512, or native, which this machine runs. Empty: all of the processor")
string(REPLACE "," ";" wanted "${RAPT_LEVELS}")
list(TRANSFORM RAPT_ISA_ROWS REPLACE "\\|.*" "" OUTPUT_VARIABLE RAPT_LEVEL_NAMES)
if("native" IN_LIST wanted)
  list(REMOVE_ITEM wanted native)
  rapt_add_native_levels(wanted)
endif()
foreach(name IN LISTS wanted)
  if(NOT name IN_LIST RAPT_LEVEL_NAMES)
    list(JOIN RAPT_LEVEL_NAMES " " known)
    message(FATAL_ERROR "RAPT_LEVELS names '${name}'. rapt's levels are: ${known}")
  elseif(NOT name IN_LIST of_processor)
    list(JOIN of_processor " " known)
    message(FATAL_ERROR "RAPT_LEVELS names '${name}', a level of another processor. This processor's levels are: ${known}")
  endif()
endforeach()
# A level without all kernels also needs the levels whose kernels serve. The strongest comes first, because a level is
# after the one that it builds on.
set(backwards ${of_processor})
list(REVERSE backwards)
foreach(name IN LISTS backwards)
  if(name IN_LIST wanted AND base_${name} AND NOT name IN_LIST RAPT_COMPLETE_LEVELS)
    list(APPEND wanted ${base_${name}})
  endif()
endforeach()

# RAPT_COMPILED_LEVELS are the levels to compile, weakest first. The sources read them from rapt_levels.def
# (src/dispatch/requirements.hpp). Scripts read them from rapt_levels.txt: "# compiler", "#native flags of this
# machine", a row "name macro..." per level, and "# left out: name..." if RAPT_LEVELS leaves any out (RAPT_LEFT_OUT).
set(RAPT_COMPILED_LEVELS)
set(RAPT_LEFT_OUT)
set(def)
list(JOIN RAPT_COMPILER " " text)
list(JOIN RAPT_NATIVE " " native)
string(PREPEND text "# ")
string(APPEND text "\n#native ${native}")
foreach(name IN LISTS of_processor)
  set(base "${base_${name}}")
  set(serving_${name} ${serving_${base}})
  if(wanted AND NOT name IN_LIST wanted AND NOT name STREQUAL "scalar")
    list(APPEND RAPT_LEFT_OUT ${name})
    continue()
  endif()
  list(APPEND RAPT_COMPILED_LEVELS ${name})
  rapt_check_flags(${name} ${RAPT_NUMERIC_FLAGS} ${RAPT_ISA_FLAGS_${name}})
  rapt_level_features(${name} features macros)
  if(NOT base)
    set(features)  # every CPU of the processor
  endif()
  list(JOIN features ", " features)
  string(APPEND def "LEVEL(${name}, ${serving_${name}}, ${features})\n")
  string(JOIN " " macros ${name} ${macros})
  string(APPEND text "\n${macros}")
  set(serving_${name} ${name})
endforeach()
if(RAPT_LEFT_OUT)
  list(JOIN RAPT_LEFT_OUT " " left_out)
  string(APPEND text "\n# left out: ${left_out}")
endif()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/rapt_levels.def" CONTENT "${def}" @ONLY)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/rapt_levels.txt" CONTENT "${text}\n" @ONLY)
list(JOIN RAPT_COMPILED_LEVELS " " levels)
if(RAPT_LEFT_OUT)
  string(APPEND levels "; left out by RAPT_LEVELS: ${left_out}")
endif()
message(STATUS "rapt: levels: ${levels}")

add_library(rapt_levels INTERFACE)
target_include_directories(rapt_levels INTERFACE "${PROJECT_BINARY_DIR}/generated")

# For tests/try: "softmax;f32" compiles softmax only, over f32, on the vector levels, and "softmax;f32;avx2" on one of
# them. A level lacks the other kernels. Objects of whole levels stay in the build, so that nothing throws them away
# meanwhile.
set(RAPT_ONLY "" CACHE STRING "An operation and its elements, and a level: all that vector levels compile")
mark_as_advanced(RAPT_ONLY)

# rapt_compile_time(text level...): what RAPT_COMPILE_SECONDS says of these levels, in words.
function(rapt_compile_time text)
  set(total 0)
  foreach(level IN LISTS ARGN)
    list(FIND RAPT_COMPILE_SECONDS ${level} at)
    math(EXPR at "${at} + 1")
    list(GET RAPT_COMPILE_SECONDS ${at} seconds)
    math(EXPR total "${total} + ${seconds}")
  endforeach()
  if(total LESS 90)
    set(${text} "${total} CPU-seconds" PARENT_SCOPE)
  else()
    math(EXPR minutes "(${total} + 30) / 60")
    set(${text} "${minutes} CPU-minutes" PARENT_SCOPE)
  endif()
endfunction()

# rapt_parts_of(result level): the sources of a level, one for each part. Those of src/isa/parts.def are written into
# the build. A file of the level's folder takes the place of the row with its name.
set(RAPT_PARTS_DEF "${PROJECT_SOURCE_DIR}/src/isa/parts.def")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${RAPT_PARTS_DEF}")
function(rapt_parts_of result level)
  rapt_sources_of(sources "src/isa/${level}")
  set(rows)
  if(level IN_LIST RAPT_COMPLETE_LEVELS)
    file(STRINGS "${RAPT_PARTS_DEF}" rows REGEX "^PART")
  endif()
  foreach(row IN LISTS rows)
    if(NOT row MATCHES "^PART\\(([a-z0-9_]+), ([a-z_]+), ([a-z0-9_]+), (.+)\\)$")
      message(FATAL_ERROR "${RAPT_PARTS_DEF}: not understood: ${row}")
    endif()
    set(source "${PROJECT_BINARY_DIR}/generated/${level}/${CMAKE_MATCH_1}.cpp")
    if(NOT EXISTS "${PROJECT_SOURCE_DIR}/src/isa/${level}/${CMAKE_MATCH_1}.cpp")
      file(CONFIGURE OUTPUT "${source}" @ONLY
           CONTENT "#include \"isa/${level}/${CMAKE_MATCH_2}.hpp\"\n#include \"kernels/families/${CMAKE_MATCH_3}.hpp\"\n\n\
RAPT_PART(${CMAKE_MATCH_1}) = {${CMAKE_MATCH_4}};\n")
      list(APPEND sources "${source}")
    endif()
  endforeach()
  set(${result} "${sources}" PARENT_SCOPE)
endfunction()

# rapt_add_level(objects level source...): the object library `objects` of a level's sources.
function(rapt_add_level objects level)
  add_library(${objects} OBJECT ${ARGN})
  target_link_libraries(${objects} PRIVATE rapt_warnings rapt_internal)
  # -O2 in every configuration: without inlining each intrinsic would be a function call, and kernels would be fifty times
  # slower. -O1 with sanitizers: clang takes up to twice as long at -O2, and gcc half as long again for tests/mutations.
  set(kernel_flags)  # the scalar level's plain loops prefetch nothing, and take 5 to 15 % longer with these flags
  if(NOT level STREQUAL "scalar")
    set(kernel_flags ${RAPT_KERNEL_FLAGS})
  endif()
  rapt_set_last_flags("${ARGN}" ${RAPT_NUMERIC_FLAGS} ${kernel_flags} ${RAPT_ISA_FLAGS_${level}}
                      $<IF:$<CONFIG:Sanitizer,Mutations>,-O1,-O2>)
  if(NOT level STREQUAL "scalar")
    target_link_libraries(${objects} PRIVATE rapt_xsimd)
    # These checks of addresses would take four fifths of clang's time for a vector level. Guard pages and the address
    # sanitizer find the same faults.
    target_compile_options(${objects} PRIVATE
      $<$<CONFIG:Sanitizer>:-fno-sanitize=null,alignment,object-size,pointer-overflow>)
  endif()
  rapt_set_object_options(${objects})
endfunction()

# rapt_add_level_of(objects level name source...): the same with the level's table, which lists the sources. `name`
# tells the file of the table from others of the level.
function(rapt_add_level_of objects level name)
  set(sources ${ARGN})
  set(parts ${sources})
  list(TRANSFORM parts REPLACE ".*/(.+)\\.cpp" "PART(\\1)")
  list(JOIN parts " " parts)
  # Each level has one file, because the level's flags are properties of its files.
  set(table "${PROJECT_BINARY_DIR}/generated/${name}_${level}.cpp")
  file(CONFIGURE OUTPUT "${table}" @ONLY
       CONTENT "#define RAPT_TABLE rapt_table_${level}\n#define RAPT_PARTS ${parts}\n#include \"isa/table.hpp\"\n")
  rapt_parts_apart(sources ${level} ${sources} "${table}")
  rapt_add_level(${objects} ${level} ${sources})
endfunction()

# rapt_add_isas(target): compiles the kernels of every level and adds them, closed, to `target`.
function(rapt_add_isas target)
  list(LENGTH rapt_sources files)
  set(only ${RAPT_ONLY} "" "" "")
  list(POP_FRONT only only_operation only_element only_level)
  foreach(name IN LISTS RAPT_COMPILED_LEVELS)
    rapt_parts_of(sources ${name})
    set(objects rapt_isa_${name})
    rapt_add_level_of(${objects} ${name} table ${sources})
    list(LENGTH sources of_level)
    math(EXPR files "${files} + ${of_level} + 1")
    if(RAPT_ONLY AND NOT name STREQUAL "scalar")
      set_target_properties(${objects} PROPERTIES EXCLUDE_FROM_ALL ON)
      list(FILTER sources INCLUDE REGEX "(_${only_element}|/${only_operation}|/bytes)\\.cpp$")
      if(only_level AND NOT name STREQUAL only_level)
        set(sources)
      endif()
      set(objects rapt_only_${name})
      rapt_add_level_of(${objects} ${name} only_table ${sources})
      target_compile_definitions(${objects} PRIVATE RAPT_ONLY="${only_operation}")
    endif()
    if(RAPT_CLOSING STREQUAL "linker")
      rapt_add_closed_object(${target} rapt_${name}.o ${objects} rapt_table_${name})
    else()
      rapt_add_checked_objects(${target} ${objects} ${name})
    endif()
  endforeach()
  rapt_compile_time(time ${RAPT_COMPILED_LEVELS})
  set(fewer)
  if(NOT RAPT_LEVELS AND of_processor MATCHES ";")
    list(GET of_processor 1 first)
    rapt_compile_time(fewer scalar ${first})
    set(fewer "; ${fewer} with RAPT_LEVELS=${first}")
  endif()
  if(NOT RAPT_ONLY)
    message(STATUS "rapt: ${files} files to compile: ${time} of gcc 12 on a Zen 5${fewer}")
  endif()
  if(RAPT_BUILD_TESTS AND RAPT_LEVELS MATCHES "native")
    foreach(name IN LISTS RAPT_LEFT_OUT)
      rapt_parts_of(sources ${name})
      rapt_add_level(rapt_syntax_${name} ${name} ${sources})
      set_target_properties(rapt_syntax_${name} PROPERTIES
        CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/tests/syntax_only.sh")
    endforeach()
  endif()
endfunction()
