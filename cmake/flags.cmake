# The flags that decide bits. They come last on every compile line of the library, so that no flag of a surrounding
# project changes a result.

# -ffp-contract=off: the source spells out every fused multiply-add. It must follow -fno-fast-math, which turns contraction on
# in clang. -fno-lto: link-time optimisation would carry code from one level to another.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(RAPT_NUMERIC_FLAGS -fno-unsafe-math-optimizations -fno-associative-math -fno-reciprocal-math -fno-finite-math-only
      -fsigned-zeros -ftrapping-math -fno-signaling-nans -fno-single-precision-constant)
else()
  set(RAPT_NUMERIC_FLAGS -fno-trapping-math -fdenormal-fp-math=ieee -mrecip=none)
  # clang warns if -fno-fast-math takes a flag back.
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 18)
    list(APPEND RAPT_NUMERIC_FLAGS -Wno-overriding-t-option)
  else()
    list(APPEND RAPT_NUMERIC_FLAGS -Wno-overriding-option)
  endif()
endif()
list(APPEND RAPT_NUMERIC_FLAGS -fno-fast-math -fmath-errno -fno-rounding-math -ffp-contract=off -fno-lto)

# gcc removes a call of a function that only prefetches, because such a function is "pure". These flags keep the call
# until it has been inlined (src/kernels/vector/inner.hpp). A test counts the prefetches of the kernels.
set(RAPT_KERNEL_FLAGS)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  include(CheckCXXCompilerFlag)
  foreach(flag IN ITEMS -fno-ipa-pure-const -fno-ipa-modref)
    string(MAKE_C_IDENTIFIER "RAPT_HAS${flag}" has)
    check_cxx_compiler_flag(${flag} ${has})
    if(${has})
      list(APPEND RAPT_KERNEL_FLAGS ${flag})
    endif()
  endforeach()
endif()

# rapt_sources_of(result folder...): the C++ files of folders of the checkout, whose path may have a bracket.
function(rapt_sources_of result)
  string(REGEX REPLACE "([][*?])" "[\\1]" root "${PROJECT_SOURCE_DIR}")
  list(TRANSFORM ARGN REPLACE "(.+)" "${root}/\\1/*.cpp" OUTPUT_VARIABLE patterns)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  set(${result} "${sources}" PARENT_SCOPE)
endfunction()

# rapt_set_last_flags(sources flag...): the options of a source file follow those of targets, directories and the
# command line. CMake drops none of them as a repetition.
function(rapt_set_last_flags sources)
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${ARGN}")
endfunction()

# -ffast-math on a link line adds an object that flushes subnormals to zero in the whole process. -Ofast does the same;
# of several -O the last one counts.
set(RAPT_NUMERIC_LINK_FLAGS -O2 -fno-fast-math -fno-unsafe-math-optimizations)

# The compiler and its fixed arguments.
separate_arguments(RAPT_COMPILER UNIX_COMMAND "${CMAKE_CXX_COMPILER_ARG1}")
list(PREPEND RAPT_COMPILER "${CMAKE_CXX_COMPILER}")
if(CMAKE_CXX_COMPILER_TARGET AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND RAPT_COMPILER --target=${CMAKE_CXX_COMPILER_TARGET})
endif()

# An empty source. Windows has no /dev/null.
set(RAPT_EMPTY "${PROJECT_BINARY_DIR}/CMakeFiles/rapt_empty.cpp")
file(WRITE "${RAPT_EMPTY}" "")

# rapt_macros(result flag...): the predefined macros that tell the processor, the size of an address, the arithmetic,
# and the instructions that the compiler may use by itself. Empty if the compiler refuses the flags.
function(rapt_macros result)
  execute_process(COMMAND ${RAPT_COMPILER} ${ARGN} -dM -E -x c++ "${RAPT_EMPTY}"
                  OUTPUT_VARIABLE text ERROR_QUIET RESULT_VARIABLE failed)
  set(arithmetic "FLT_EVAL_METHOD|FAST_MATH|FINITE_MATH_ONLY|(ASSOCIATIVE|RECIPROCAL|ROUNDING)_MATH|NO_SIGNED_ZEROS")
  set(x86 "S?SSE[0-9_]*|(AVX|APX|FMA|BMI|F16C|XOP|TBM|LZCNT|POPCNT|MOVBE|GFNI)[A-Z0-9_]*")
  set(arm64 "ARM_FEATURE_(SVE|SME|DOTPROD|FP16|BF16|MATMUL|QRDMX|COMPLEX|JCVT|FRINT|ATOMICS|RCPC|MOPS|CSSC)[A-Z0-9_]*")
  string(REGEX MATCHALL "__(x86_64|aarch64|AARCH64EB|SIZEOF_POINTER|${arithmetic}|${x86}|${arm64})_* [-0-9]+" macros "${text}")
  list(SORT macros)
  if(failed)
    set(macros)
  endif()
  set(${result} "${macros}" PARENT_SCOPE)
endfunction()

# rapt_predefined(result flag...): the names of the predefined macros whose value is 1, which includes the macros of
# instruction sets. __FP_FAST_FMA is left out: it says that an instruction is fast for which __FMA__ already stands.
function(rapt_predefined result)
  execute_process(COMMAND ${RAPT_COMPILER} ${ARGN} -dM -E -x c++ "${RAPT_EMPTY}" OUTPUT_VARIABLE text ERROR_QUIET)
  string(REGEX MATCHALL "#define __[A-Za-z0-9_]+ 1\n" macros "${text}")
  list(TRANSFORM macros REPLACE "#define ([A-Za-z0-9_]+) 1\n" "\\1")
  list(FILTER macros EXCLUDE REGEX "^__FP_FAST_FMA")
  set(${result} "${macros}" PARENT_SCOPE)
endfunction()

set(RAPT_CONFIGS "${CMAKE_CONFIGURATION_TYPES}")
if(NOT RAPT_CONFIGS)
  set(RAPT_CONFIGS "${CMAKE_BUILD_TYPE}")
endif()
if(NOT RAPT_CONFIGS)
  set(RAPT_CONFIGS None)
endif()

# rapt_flags_around(result config): the flags that the surrounding project gives every file. Generator expressions are
# left out, because they have no value yet.
function(rapt_flags_around result config)
  string(TOUPPER "CMAKE_CXX_FLAGS_${config}" of_config)
  get_directory_property(options COMPILE_OPTIONS)
  string(GENEX_STRIP "${options}" options)
  list(TRANSFORM options REPLACE "^SHELL:" "")
  list(JOIN options " " options)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${${of_config}} ${options}")
  set(${result} "${flags}" PARENT_SCOPE)
endfunction()

# rapt_check_flags(level flag...): stops if flags of the surrounding project change the arithmetic or the instructions
# of the level, although the level's own flags follow them.
function(rapt_check_flags level)
  rapt_macros(expected ${ARGN})
  if(NOT expected)
    message(FATAL_ERROR "rapt: ${CMAKE_CXX_COMPILER} does not know the flags of level ${level}: ${ARGN}\n"
            "rapt is built by gcc 12 or clang 14, or newer.")
  endif()
  foreach(config IN LISTS RAPT_CONFIGS)
    rapt_flags_around(around ${config})
    rapt_macros(macros ${around} ${ARGN})
    if(macros STREQUAL expected OR NOT macros)
      continue()
    endif()
    set(blamed)
    foreach(flag IN LISTS around)
      rapt_macros(alone ${flag} ${ARGN})
      if(alone AND NOT alone STREQUAL expected)
        list(APPEND blamed ${flag})
      endif()
    endforeach()
    if(NOT blamed)
      set(blamed ${around})
    endif()
    list(JOIN blamed " " blamed)
    list(REMOVE_ITEM macros ${expected})
    message(FATAL_ERROR "rapt: the compile flag ${blamed} would change the results of level ${level}, or the CPUs that "
            "can run it (${macros}). Take it out of CMAKE_CXX_FLAGS and add_compile_options.")
  endforeach()
endfunction()
