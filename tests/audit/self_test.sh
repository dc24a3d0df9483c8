#!/usr/bin/env bash
# Each of these objects breaks one rule of the audit, which must refuse it.
#   self_test.sh COMPILER SOURCE_DIR      (x86-64 only: the compiler's own target)
set -euo pipefail
compiler=$1 source_dir=$2
audit=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/audit.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
caught=0 missed=0
echo "avx512 __SSE3__ __AVX__ __AVX512F__" >rapt_levels.txt

flags=(-std=c++20 -O2 -ffp-contract=off -fno-exceptions -fno-rtti -fPIC -I "$source_dir/src" -I "$source_dir/include")

compile() { # OUTPUT FLAGS... (the source on standard input)
  local output=$1
  shift
  "$compiler" "${flags[@]}" "$@" -x c++ -c - -o "$output"
}
close() { # INPUT OUTPUT
  "$compiler" -r -nostdlib -fuse-ld=bfd -Wl,--force-group-allocation "$1" -o "$2"
  objcopy --keep-global-symbol=rapt_table_avx512 "$2"
}
expect_refusal() { # WHAT AUDIT-ARGUMENTS...
  local what=$1
  shift
  if "$audit" "$@" >output 2>&1; then
    echo "MISSED: $what"
    missed=$((missed + 1))
  else
    echo "caught: $what ($(grep -m 1 '^audit:' output | cut -c 1-100))"
    caught=$((caught + 1))
  fi
}

table='#include "kernels/kernels.hpp"
extern "C" const rapt::KernelTable *const rapt_table_avx512[];
constinit const rapt::KernelTable *const rapt_table_avx512[] = {nullptr};'

compile good.o -march=x86-64-v4 <<<"$table
float (*volatile escapes)(float) = [](float x) { return x + x; };"
close good.o rapt_avx512.o
"$audit" object avx512 rapt_avx512.o  # nothing is wrong here: set -e ends the test if the audit says so

compile vector.o -march=x86-64-v4 <<<"$table
#include <vector>
std::vector<float> &keep(std::vector<float> &v) { v.push_back(1); return v; }"
close vector.o rapt_avx512.o
expect_refusal "a std::vector in a closed AVX-512 object" object avx512 rapt_avx512.o
cp vector.o rapt_avx512.o
expect_refusal "a std::vector in an AVX-512 object that was not closed" object avx512 rapt_avx512.o

compile inline.o -march=x86-64-v4 <<<"$table
inline float twice(float x) { return x + x; }
float (*volatile escapes)(float) = twice;"
cp inline.o rapt_avx512.o
expect_refusal "an inline function's weak copy" object avx512 rapt_avx512.o

# The compiler's way to keep levels apart: an inline function of its namespaces may be there, no other. The build's own
# check (cmake/check_symbols.cmake) says the same.
part="#define rapt rapt_avx512
$table"
check_symbols() { # OBJECT
  cmake -DNM=nm -DLEVEL=avx512 "-DOBJECTS=$PWD/$1" "-DOUTPUT=$PWD/symbols" -P "$source_dir/cmake/check_symbols.cmake" >output 2>&1
}
compile part.o -march=x86-64-v4 <<<"$part
namespace rapt {
template <class T> float twice(T x) { return x + x; }
float (*volatile escapes)(float) = twice<float>;
}"
"$audit" part avx512 part.o
check_symbols part.o
compile part.o -march=x86-64-v4 <<<"$part
inline float twice(float x) { return x + x; }
namespace rapt { float (*volatile escapes)(float) = twice; }"
expect_refusal "an inline function's weak copy in a part" part avx512 part.o
if check_symbols part.o; then
  echo "MISSED: an inline function's weak copy, by the build's check"
  missed=$((missed + 1))
else
  echo "caught: an inline function's weak copy, by the build's check ($(grep -m 1 _Z output))"
  caught=$((caught + 1))
fi

compile constructor.o -march=x86-64-v4 <<<"$table
static const float value = *reinterpret_cast<volatile float *>(16);
float (*volatile escapes)() = [] { return value; };"
close constructor.o rapt_avx512.o
expect_refusal "a static constructor" object avx512 rapt_avx512.o

compile vnni.o -march=x86-64-v4 -mavx512vnni <<<"$table
#include <immintrin.h>
__m512i (*volatile escapes)(__m512i, __m512i) = [](__m512i a, __m512i b) { return _mm512_dpbusd_epi32(a, a, b); };"
close vnni.o rapt_avx512.o
expect_refusal "an instruction of AVX512-VNNI in the avx512 level" object avx512 rapt_avx512.o

compile api.o -mavx2 <<<"#include <immintrin.h>
__m256 (*volatile escapes)(__m256, __m256) = [](__m256 a, __m256 b) { return _mm256_add_ps(a, b); };"
ar cr archive.a api.o
expect_refusal "AVX outside the levels" archive archive.a
compile api.o -mpopcnt <<<"int (*volatile escapes)(unsigned) = [](unsigned a) { return __builtin_popcount(a); };"
rm archive.a && ar cr archive.a api.o
expect_refusal "popcnt outside the levels" archive archive.a
compile api.o -O0 -D_GLIBCXX_ASSERTIONS <<<"#include <atomic>
int load(const std::atomic<int> &x) { return x.load(std::memory_order_acquire); }"
rm archive.a && ar cr archive.a api.o
expect_refusal "a checked std::atomic, which calls the C++ library" archive archive.a
compile api.o -O0 -D_GLIBCXX_ASSERTIONS -include "$source_dir/src/contract/library_checks.hpp" <<<"#include <atomic>
int load(const std::atomic<int> &x) { return x.load(std::memory_order_acquire); }"
rm archive.a && ar cr archive.a api.o
"$audit" archive archive.a

# A product of ACCUMULATORS vectors: 8 fit AVX2's registers, 20 do not. STATEMENT is in its loop.
product() { # ACCUMULATORS [STATEMENT]
  compile rapt_avx2.o -march=x86-64-v3 <<<"#include <immintrin.h>
#include \"kernels/vector/unroll.hpp\"
namespace {
template <class A> [[gnu::noinline, gnu::flatten]] void tile_values(const A *x, const A *weight, std::size_t n, A *y) {
  __m256 sum[$1];
  unroll<$1>([&](std::size_t i) RAPT_INNER { sum[i] = _mm256_loadu_ps(y + 8 * i); });
  for (; n > 0; --n, x += 8 * $1, ++weight) {
    ${2-}
    unroll<$1>([&](std::size_t i) RAPT_INNER {
      sum[i] = _mm256_fmadd_ps(_mm256_broadcast_ss(weight), _mm256_loadu_ps(x + 8 * i), sum[i]);
    });
  }
  unroll<$1>([&](std::size_t i) RAPT_INNER { _mm256_storeu_ps(y + 8 * i, sum[i]); });
}
}
void (*volatile escapes)(const float *, const float *, std::size_t, float *) = tile_values<float>;"
  # The other kernels are missing, which this must complain of in any case.
  ! "$(dirname "$audit")/spills.py" objdump rapt_avx2.o >output 2>&1 && grep -q "no loop of row_values" output
}
product 8
if grep "avx2: tile_values" output; then  # nothing is wrong with it
  missed=$((missed + 1))
fi
product 20
if grep -q "avx2: tile_values" output; then
  echo "caught: accumulators on the stack ($(grep -m 1 "tile_values" output | cut -c 1-100))"
  caught=$((caught + 1))
else
  echo "MISSED: accumulators on the stack"
  missed=$((missed + 1))
fi

prefetches() { # whether tile_values has too few
  "$(dirname "$audit")/prefetches.py" objdump rapt_avx2.o >output 2>&1 || grep -q "tile_values.*prefetches, not" output
}
product 8
if prefetches; then
  echo "caught: a loop without its prefetches"
  caught=$((caught + 1))
else
  echo "MISSED: a loop without its prefetches"
  missed=$((missed + 1))
fi
line="__builtin_prefetch(x + 64);"
product 8 "$line $line $line $line"
if prefetches; then  # nothing is wrong with it
  missed=$((missed + 1))
fi

echo "$caught caught, $missed missed"
((missed == 0))
