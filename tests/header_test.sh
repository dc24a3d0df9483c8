#!/usr/bin/env bash
# Compiles the headers with the warnings that strict projects turn into errors, not as system headers: header_test.sh
# INCLUDE_FOLDER CC CXX. gcc does not see old-style casts within extern "C"; clang does, and is used too where it is
# installed. Headers are copied to other projects, so each must name its licence.
set -euo pipefail

include=$1 cc=$2 cxx=$3
failures=0

for header in "$include"/rapt/*; do
  if ! head -n 1 "$header" | grep -qF 'SPDX-License-Identifier: Apache-2.0'; then
    echo "$header does not begin with its licence"
    failures=$((failures + 1))
  fi
done

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

# Names that <windows.h> and other headers of systems and toolkits define as macros, after the standard headers.
standard_c='#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
'
standard_cxx="$(grep -hE '^#include <(c?[a-z_]+)(\.h)?>$' "$include"/rapt/*.h "$include"/rapt/*.hpp | sort -u)
"
macros='#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define near
#define far
#define small char
#define interface struct
#define IN
#define OUT
#define CONST const
#define VOID void
#define BOOL int
#define TRUE 1
#define FALSE 0
#define ERROR 0
#define DELETE 0x10000
#define NO_ERROR 0
#define None 0L
#define Status int
#define Success 0
#define Bool int
#define Always 2
#define Complex 0
#define major(x) (x)
#define minor(x) (x)
#define check(x) (x)
#define verify(x) (x)
#define require(x, label) (x)
#define slots
#define signals public
#define emit
#define foreach(x, y) for (;;)
#define unix 1
#define linux 1
#define I 1i
#define B0 0
#define _B 0200
'
all_headers=$'#include <rapt/rapt.h>\n#include <rapt/parallel.h>\n'
all_of_cxx=$all_headers$'#include <rapt/rapt.hpp>\n#include <rapt/parallel.hpp>\n'

# A C++ module exports every function of the headers. clang refuses those that only the file has (static).
inline_functions() { grep -hoE '^(RAPT_INLINE|static inline) [^;{(]*\brapt_[a-z_]+\(' "$include"/rapt/*.h | grep -oE 'rapt_[a-z_]+\($' | tr -d '('; }
functions() { grep -hoE '^(RAPT_API|RAPT_INLINE|static inline) [^;{(]*\brapt_[a-z0-9_]+\(' "$include"/rapt/*.h | grep -oE 'rapt_[a-z0-9_]+\($' | tr -d '('; }
module() {
  printf 'module;\n%sexport module user;\n' "$all_of_cxx"
  functions | sed 's/.*/export using ::&;/'
  echo 'export namespace rapt { using rapt::softmax; using rapt::attention; using rapt::parallel_attention; using rapt::std_threads; }'
}
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

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
  compiles c "${pair%,*}" -std=gnu99 -fopenmp -Wno-pedantic <<<"$standard_c$macros$all_headers"
  compiles c++ "${pair#*,}" -std=gnu++20 -fopenmp -Wno-pedantic <<<"$standard_cxx$macros$all_of_cxx"
  "${pair#*,}" -std=c++20 -fopenmp -w -I "$include" -x c++ -c -o "$temporary/inline.o" - <<<"$all_of_cxx
void (*functions[])() = {$(inline_functions | sed 's/.*/(void (*)())\&&,/')};"
  nm -C "$temporary/inline.o" | sed -nE 's/^[0-9a-f]* ([A-Za-z]) _?(rapt_[a-z_]+)(\(.*\))?$/\1 \2/p' >"$temporary/inline"
  if (($(grep -cE '^[WT] ' "$temporary/inline") < $(inline_functions | wc -l))) || grep '^t ' "$temporary/inline"; then
    echo "${pair#*,}: an inline function of the headers has internal linkage, and no module exports it"
    failures=$((failures + 1))
  fi
  if "${pair#*,}" --version | grep -q clang; then
    module >"$temporary/user.cppm"
    if ! "${pair#*,}" -std=c++20 -fopenmp -I "$include" --precompile "$temporary/user.cppm" -o "$temporary/user.pcm"; then
      echo "${pair#*,}: the headers' functions are not exported from a module"
      failures=$((failures + 1))
    fi
  fi
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
