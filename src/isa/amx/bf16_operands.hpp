// Packs queries, keys and values of bf16 as AMX tiles.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "call/attention_tile.hpp"
#include "contract/bf16_arithmetic.hpp"
#include "contract/types.hpp"
#include "isa/amx/tiles.hpp"
#include "kernels/attention/gathered_rows.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Loads `count` elements from p; the lanes after them are 0.
RAPT_INNER inline __m512i first_elements(const rapt::BF16 *p, std::size_t count) {
  if (count >= 32) return _mm512_loadu_si512(p);
  return _mm512_maskz_loadu_epi16(static_cast<__mmask32>((std::uint64_t{1} << count) - 1), p);
}
inline __m128i first_eight(const rapt::BF16 *p, std::size_t count) {
  if (count >= 8) return _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
  return _mm_maskz_loadu_epi16(static_cast<__mmask8>((1u << count) - 1), p);
}

// Packs queries as [32 dimensions][vector of rows][pair of dimensions][row]. row(r) returns the address of
// row r.
template <class Row>
[[gnu::noinline, gnu::flatten]] void pack_queries(std::size_t vectors, std::size_t dim, bool negated, Row row,
                                                  rapt::BF16 *to) {
  const __m512i sign = _mm512_set1_epi16(negated ? -0x8000 : 0);
  for (std::size_t d = 0; d < dim; d += amx_k32) {
    for (std::size_t r = 0; r < vectors * amx_rows; r += amx_rows, to += amx_elements) {
      __m512i v[16];
      unroll<16>([&](std::size_t i)
                     RAPT_INNER { v[i] = _mm512_xor_si512(first_elements(row(r + i) + d, dim - d), sign); });
      transpose_words(v);
      unroll<16>([&](std::size_t i) RAPT_INNER { _mm512_storeu_si512(to + i * amx_k32, v[i]); });
    }
  }
}

// Packs 16 rows as [32 dimensions][row][dimension]. Only `rows` of the 16 exist, and the others become 0.
// row(i) returns the address of row i.
template <class Row>
RAPT_INNER inline void pack_16_rows(std::size_t rows, std::size_t dim, Row row, rapt::BF16 *to) {
  if (rows == amx_rows && dim % amx_k32 == 0) {
    for (std::size_t i = 0; i < amx_rows; ++i) {
      const rapt::BF16 *const from = row(i);
      rapt::BF16 *at = to + i * amx_k32;
      for (std::size_t d = 0; d < dim; d += amx_k32, at += amx_elements) {
        _mm512_storeu_si512(at, _mm512_loadu_si512(from + d));
      }
    }
    return;
  }
  for (std::size_t d = 0; d < dim; d += amx_k32, to += amx_elements) {
    for (std::size_t i = 0; i < amx_rows; ++i) {
      _mm512_storeu_si512(to + i * amx_k32,
                          i < rows ? first_elements(row(i) + d, dim - d) : _mm512_setzero_si512());
    }
  }
}

// Packs the 16 keys from `first` like pack_16_rows(). Only `keys` of the 16 exist.
[[gnu::noinline, gnu::flatten]] inline void pack_16_keys(const AttentionTile &tile, std::size_t first,
                                                         std::size_t keys, rapt::BF16 *to) {
  const auto [from, stride] =
      keys == 0 ? RowsOfUnit<rapt::BF16>{to, 0} : key_rows<rapt::BF16>(tile, first, keys);
  pack_16_rows(
      keys, tile.options().qk_dim,
      [from = from, stride = stride](std::size_t i) { return from + at(stride, i); }, to);
}
// Packs 16 keys like pack_16_keys(), from a cache of packed keys. A block of packed keys also has room for
// missing keys.
[[gnu::noinline, gnu::flatten]] inline void pack_16_packed_keys(const AttentionTile &tile, std::size_t first,
                                                                std::size_t keys, rapt::BF16 *to) {
  const std::size_t dim = tile.options().qk_dim;
  const __mmask16 exist = static_cast<__mmask16>((1u << keys) - 1);
  const rapt::BF16 *const from = keys == 0 ? to : tile.k<rapt::BF16>(first);
  for (std::size_t d = 0; d < dim; d += amx_k32, to += amx_elements) {
    __m512i v[16];
    unroll<16>([&](std::size_t i) RAPT_INNER {
      const auto column = [&](std::size_t of) RAPT_INNER {
        return _mm512_cvtepu16_epi32(
            _mm256_maskz_loadu_epi16(of < dim ? exist : __mmask16{0}, from + rapt::packed_dim_stride * of));
      };
      v[i] = _mm512_or_si512(column(d + 2 * i), _mm512_slli_epi32(column(d + 2 * i + 1), 16));
    });
    transpose_words(v);
    unroll<16>([&](std::size_t i) RAPT_INNER { _mm512_storeu_si512(to + i * amx_k32, v[i]); });
  }
}

// Interleaves 8 dimensions of 32 keys, one row of memory per key. `low` has the first 16 keys, and `high` has
// the others.
RAPT_INNER inline void pack_eight(const rapt::BF16 *low, const rapt::BF16 *high, std::ptrdiff_t stride,
                                  rapt::BF16 *to) {
  const auto load = [](const rapt::BF16 *p)
                        RAPT_INNER { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(p)); };
  __m512i a[8], b[8];
  unroll<8>([&](std::size_t i) RAPT_INNER {
    const __m512i first = _mm512_broadcast_i32x4(load(low + at(stride, i)));
    const __m512i second = _mm512_mask_broadcast_i32x4(first, 0xf0, load(low + at(stride, 8 + i)));
    const __m512i third = _mm512_mask_broadcast_i32x4(second, 0xf00, load(high + at(stride, i)));
    a[i] = _mm512_mask_broadcast_i32x4(third, 0xf000, load(high + at(stride, 8 + i)));
  });
  unroll<4>([&](std::size_t i) RAPT_INNER {
    b[2 * i] = _mm512_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = _mm512_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
  });
  unroll<2>([&](std::size_t i) RAPT_INNER {
    a[4 * i] = _mm512_unpacklo_epi32(b[4 * i], b[4 * i + 2]);
    a[4 * i + 1] = _mm512_unpackhi_epi32(b[4 * i], b[4 * i + 2]);
    a[4 * i + 2] = _mm512_unpacklo_epi32(b[4 * i + 1], b[4 * i + 3]);
    a[4 * i + 3] = _mm512_unpackhi_epi32(b[4 * i + 1], b[4 * i + 3]);
  });
  unroll<4>([&](std::size_t i) RAPT_INNER {
    _mm512_storeu_si512(to + 2 * i * amx_k32, _mm512_unpacklo_epi64(a[i], a[4 + i]));
    _mm512_storeu_si512(to + (2 * i + 1) * amx_k32, _mm512_unpackhi_epi64(a[i], a[4 + i]));
  });
}

// Packs the values of the 32 keys from `first` as [16 dimensions][dimension][key]. Only `keys` of the 32
// exist. Groups of 16 dimensions are `pitch` elements apart, and the number of groups is even.
[[gnu::noinline, gnu::flatten]] inline void pack_values_of_k32(const AttentionTile &tile, std::size_t first,
                                                               std::size_t keys, std::size_t pitch,
                                                               rapt::BF16 *to) {
  const std::size_t dim = tile.options().v_dim;
  const rapt::BF16 *unit[2] = {to, to};
  const std::ptrdiff_t stride = value_units(tile, first, keys, unit);
  const rapt::BF16 *const low = unit[0], *const high = unit[1];
  const std::size_t end = (dim + amx_k32 - 1) / amx_k32 * amx_k32;
  if (keys == amx_k32 && dim % amx_k32 == 0) {
    // Each row is one cache line of 64 bytes, and the loop stores lines in order.
    for (std::size_t d = 0; d < dim; d += amx_k32, to += 2 * pitch) {
      unroll<4>([&](std::size_t i) RAPT_INNER {
        pack_eight(low + d + 8 * i, high + d + 8 * i, stride, to + i / 2 * pitch + i % 2 * 8 * amx_k32);
      });
    }
    return;
  }
  for (std::size_t d = 0; d < end; d += amx_rows, to += pitch) {
    for (std::size_t half = 0; half < 16; half += 8) {
      const std::size_t c = d + half, left = c < dim ? dim - c : 0;
      if (keys == amx_k32 && left >= 8) {
        pack_eight(low + c, high + c, stride, to + half * amx_k32);
        continue;
      }
      alignas(64) rapt::BF16 part[amx_k32 * 8];
      for (std::size_t i = 0; i < amx_k32; ++i) {
        const rapt::BF16 *const row = i < 16 ? low : high;
        _mm_store_si128(
            reinterpret_cast<__m128i *>(part + i * 8),
            i < keys && left > 0 ? first_eight(row + at(stride, i % 16) + c, left) : _mm_setzero_si128());
      }
      pack_eight(part, part + 16 * 8, 8, to + half * amx_k32);
    }
  }
}

}  // namespace
