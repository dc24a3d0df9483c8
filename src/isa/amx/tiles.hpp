// Owns the AMX tile registers during a call, and wraps AMX's instructions by tile number.
//
// The instructions are inline assembly, because gcc's intrinsics do not declare that they read and write
// memory.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "contract/bf16_arithmetic.hpp"
#include "contract/types.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"
#include "machine/questions.hpp"

namespace {

// A tile has 16 rows of 64 bytes: 16 x 16 numbers of 32 bits, or 16 rows of 32 bf16.
inline constexpr std::size_t amx_rows = 16, amx_row_bytes = 64, amx_elements = 512;
inline constexpr std::size_t amx_k32 = rapt::Bf16Contract::k32;

// Transposes the 16 x 16 words of a tile. A word is four bytes or two bf16.
RAPT_INNER inline void transpose_words(__m512i (&v)[16]) {
  using batch = simd<float>::batch;
  batch words[16];
  unroll<16>([&](std::size_t i) RAPT_INNER { words[i] = batch(_mm512_castsi512_ps(v[i])); });
  simd<float>::transpose(words);
  unroll<16>([&](std::size_t i) RAPT_INNER { v[i] = _mm512_castps_si512(words[i]); });
}

struct alignas(64) TileConfiguration {
  std::uint8_t palette = 0, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  static TileConfiguration present() {
    TileConfiguration now;
    __asm__ volatile("sttilecfg %0" : "=m"(now));
    return now;
  }
};

// Owns eight tiles of full size, from configure() until the object is destroyed.
class TileRegisters {
 public:
  TileRegisters() = default;
  ~TileRegisters() {
    if (configured_) __asm__ volatile("tilerelease");
  }
  TileRegisters(const TileRegisters &) = delete;
  TileRegisters &operator=(const TileRegisters &) = delete;

  bool configured() const { return configured_; }
  // Returns false, and changes nothing, if the process may not use tiles or the caller has already configured
  // tiles.
  bool configure() {
    if (!rapt_may_use_tiles() || TileConfiguration::present().palette != 0) return false;
    TileConfiguration whole;
    whole.palette = 1;
    for (std::size_t i = 0; i < 8; ++i) {
      whole.row_bytes[i] = amx_row_bytes;
      whole.rows[i] = amx_rows;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(whole) : "memory");
    return configured_ = true;
  }

 private:
  bool configured_ = false;
};

template <int tile>
RAPT_INNER inline void load_tile(const void *at, std::size_t stride) {
  __asm__ volatile("tileloadd (%0,%1), %%tmm%c2" : : "r"(at), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
RAPT_INNER inline void store_tile(void *at, std::size_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1)" : : "r"(at), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
RAPT_INNER inline void zero_tile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(tile));
}
// Multiplies bf16: to += a * b, where a has 16 rows of 16 pairs and b has 16 columns of 16 pairs.
template <int to, int a, int b>
RAPT_INNER inline void multiply_tiles() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(to), "i"(a), "i"(b));
}
// Adds products of bytes, four to each sum. Bytes of a are signed. multiply_signed_bytes() takes signed bytes
// of b, and multiply_unsigned_bytes() takes unsigned ones.
template <int to, int a, int b>
RAPT_INNER inline void multiply_signed_bytes() {
  __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(to), "i"(a), "i"(b));
}
template <int to, int a, int b>
RAPT_INNER inline void multiply_unsigned_bytes() {
  __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(to), "i"(a), "i"(b));
}

}  // namespace
