#!/usr/bin/env bash
# Compiles the headers with the warnings that strict projects turn into errors, not as system headers: header_test.sh
# INCLUDE_FOLDER CC CXX. gcc does not see old-style casts within extern "C"; clang does, and is used too where it is installed.
set -euo pipefail

include=$1 cc=$2 cxx=$3
failures=0

# compiles LANGUAGE COMPILER FLAG... < SOURCE
compiles() {
  local language=$1 compiler=$2
  shift 2
  if ! "$compiler" -x "$language" -I "$include" -fsyntax-only -Werror -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion \
    -Wshadow -Wundef -Wcast-qual "$@" -; then
    echo "$compiler $* warns of a header"
    failures=$((failures + 1))
  fi
}

uses='#include <rapt/rapt.h>
rapt_softmax_options softmax_options_of(void);
rapt_softmax_options softmax_options_of(void) { rapt_softmax_options o = RAPT_SOFTMAX_OPTIONS_INIT; return o; }
rapt_attention_options options_of(void);
rapt_attention_options options_of(void) {
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
  o.q_strides = rapt_strides_bhtd(2, 3, 4);
  o.k_strides = rapt_strides_bthd(2, 3, 4);
  o.k_strides.head = RAPT_REPEAT;
  return o;
}
rapt_attention_gradients gradients_of(void);
rapt_attention_gradients gradients_of(void) { rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT; return g; }'

compilers=("$cc,$cxx")
if command -v clang++ >/dev/null && ! "$cxx" --version | grep -q clang; then compilers+=("clang,clang++"); fi
for pair in "${compilers[@]}"; do
  of_cxx=(-Wold-style-cast -Wzero-as-null-pointer-constant -Wmissing-declarations)
  if ! "${pair#*,}" --version | grep -q clang; then of_cxx+=(-Wuseless-cast -Weffc++); fi
  for standard in c99 c17; do
    compiles c "${pair%,*}" -std=$standard -Wc++-compat -Wstrict-prototypes -Wmissing-prototypes <<<"$uses"
  done
  for standard in c++98 c++17; do
    compiles c++ "${pair#*,}" -std=$standard -Wno-long-long -Wno-c++11-long-long "${of_cxx[@]}" <<<"$uses"
  done
  compiles c++ "${pair#*,}" -std=c++20 "${of_cxx[@]}" <<<'#include <rapt/parallel.hpp>'
  for openmp in -fno-openmp -fopenmp; do
    for standard in c99 c11 c17; do
      compiles c "${pair%,*}" -std=$standard $openmp -Wc++-compat -Wstrict-prototypes -Wmissing-prototypes \
        <<<'#include <rapt/parallel.h>'
    done
    for standard in c++11 c++20; do
      compiles c++ "${pair#*,}" -std=$standard $openmp "${of_cxx[@]}" <<<'#include <rapt/parallel.h>'
    done
  done
  # Without OpenMP there is no pool of OpenMP: an error, not one thread.
  openmp_pool=$'#include <rapt/parallel.h>\nsize_t threads(void);\nsize_t threads(void) { return rapt_openmp_pool(8).threads; }'
  compiles c "${pair%,*}" -std=c99 -fopenmp <<<"$openmp_pool"
  if "${pair%,*}" -x c -std=c99 -I "$include" -fsyntax-only - <<<"$openmp_pool" 2>/dev/null; then
    echo "${pair%,*} without -fopenmp accepts rapt_openmp_pool"
    failures=$((failures + 1))
  fi
done
# Another compiler, such as MSVC's cl, is told what to use instead.
error=$("$cc" -x c -I "$include" -U__GNUC__ -U__clang__ -E - <<<'#include <rapt/parallel.h>' 2>&1 >/dev/null) || true
if [[ $error != *"needs gcc or clang. Else: parallel.hpp in C++20, or rapt_attention_run() on your threads"* ]]; then
  echo "parallel.h does not say what to use without gcc and clang"
  failures=$((failures + 1))
fi
((failures == 0)) && echo "no warning"
