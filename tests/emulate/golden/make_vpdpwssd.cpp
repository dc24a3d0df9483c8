// Writes vpdpwssd.bin, on a CPU with AVX512-VNNI:
//   c++ -std=c++20 -O1 -mavx512vnni -I .. make_vpdpwssd.cpp -o /tmp/make && /tmp/make >vpdpwssd.bin
#include <immintrin.h>

#include <random>

#include "golden.hpp"

using rapt::emulate::SumRecord;
using rapt::emulate::Word;

int main() {
  std::mt19937 random(20261122);
  for (int i = 0; i < 400; ++i) {
    SumRecord record;
    for (unsigned e = 0; e < 16; ++e) {
      // Extreme sums are far beyond 32 bits, exactly at the ends of the 32-bit range, or ordinary.
      static constexpr Word shorts[] = {0x80008000, 0x7fff7fff, 0x7fff8000,
                                        0x00008000, 0xffffffff, 0x00010001};
      static constexpr Word sums[] = {0x80000000, 0x7fffffff, 0x3fffffff, 0xc0000000, 0, 1};
      const bool extreme = i % 2 == 1;
      record.c.words[e] = extreme ? sums[random() % 6] : Word(random());
      record.a.words[e] = extreme ? shorts[random() % 6] : Word(random());
      record.b.words[e] = extreme ? shorts[random() % 6] : Word(random());
    }
    const __m512i c = _mm512_loadu_si512(&record.c), a = _mm512_loadu_si512(&record.a),
                  b = _mm512_loadu_si512(&record.b);
    _mm512_storeu_si512(&record.wrapped, _mm512_dpwssd_epi32(c, a, b));
    _mm512_storeu_si512(&record.saturated, _mm512_dpwssds_epi32(c, a, b));
    std::fwrite(&record, sizeof record, 1, stdout);
  }
}
