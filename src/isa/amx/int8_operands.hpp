// Packs integer queries and int8 keys and values as AMX tiles of 16 rows of 64 bytes.
//
// The left operand of a product is keys or values: each row is 64 bytes of a key or of a dimension. The right
// operand is either the high or the low digits of 16 rows of queries or weights, as [four bytes][row]. An
// integer is 256 * high + low, where low is 0 to 255. So both digits are bytes of the integer itself.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "call/attention_tile.hpp"
#include "call/attention_workspace.hpp"
#include "call/element.hpp"
#include "isa/amx/tiles.hpp"
#include "isa/avx512/integer_simd.hpp"
#include "isa/avx512/simd.hpp"
#include "isa/x86/vnni.hpp"
#include "kernels/attention/gathered_rows.hpp"
#include "kernels/attention/integers.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

inline constexpr std::size_t tile_bytes = rapt::Int8BatchSizes::amx_tile;

// Packs the columns of 64 rows of 16 bytes as a tile. load(four, i) returns row 4 * four + i.
template <class Load>
RAPT_INNER inline void pack_columns(Load load, std::int8_t *to) {
  const __m512i by_lane = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  const __m512i in_lane = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
  __m512i v[16];
  unroll<16>([&](std::size_t four) RAPT_INNER {
    __m512i rows = _mm512_castsi128_si512(load(four, 0));
    rows = _mm512_inserti32x4(rows, load(four, 1), 1);
    rows = _mm512_inserti32x4(rows, load(four, 2), 2);
    rows = _mm512_inserti32x4(rows, load(four, 3), 3);
    v[four] = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(by_lane, rows), in_lane);
  });
  transpose_words(v);
  unroll<16>([&](std::size_t i) RAPT_INNER { _mm512_storeu_si512(to + i * amx_row_bytes, v[i]); });
}
inline __m128i first_bytes(const std::int8_t *p, std::size_t count) {
  const unsigned first = static_cast<unsigned>(count < 16 ? count : 16);
  return _mm_maskz_loadu_epi8(static_cast<__mmask16>(_bzhi_u32(0xffff, first)), p);
}

// Describes a segment of dimensions, whose products have one integer sum. Also says where the digits of its
// queries are.
struct QuerySegment {
  std::size_t group, step, steps, tile;  // step: index of its first 64 dimensions; tile: of its first tile
};
struct QuerySegments {
  std::size_t count = 0;
  QuerySegment at[rapt::Int8BatchSizes::most_segments];

  explicit QuerySegments(const rapt_attention_options &o) {
    const std::size_t group = rapt::scale_group_of(o, o.qk_dim);
    std::size_t tile = 0;
    for (std::size_t d = 0; d < o.qk_dim; d += group) {
      for (std::size_t from = 0; from < group; from += rapt::Int8Attention::segment) {
        const std::size_t left = group - from;
        const std::size_t dims = left < rapt::Int8Attention::segment ? left : rapt::Int8Attention::segment;
        const std::size_t steps = (dims + 63) / 64;
        at[count++] = {d / group, (d + from) / 64, steps, tile};
        tile += 2 * steps;
      }
    }
  }
};

// Packs a tile's queries as digits, [vector of rows][segment][64 dimensions][digit], and stores their steps.
// `integers` is scratch for 16 rows of a scale group.
[[gnu::noinline, gnu::flatten]] inline void pack_queries(const AttentionTile &tile,
                                                         const TileRows<float> &rows,
                                                         const QuerySegments &segments,
                                                         std::size_t tiles_of_vector, std::int16_t *integers,
                                                         std::int8_t *to, float *steps) {
  const rapt_attention_options &o = tile.options();
  const std::size_t group = rapt::scale_group_of(o, o.qk_dim), pitch = (group + 63) / 64 * 64;
  for (std::size_t r = 0; r < rows.lanes; r += amx_rows, to += tiles_of_vector * tile_bytes) {
    for (std::size_t s = 0; s < segments.count;) {
      const std::size_t g = segments.at[s].group, from = g * group;
      for (std::size_t i = 0; i < amx_rows; ++i) {
        rapt::with_element<float>(o.q_type, [&](auto element) {
          const auto *q = tile.q<typename decltype(element)::type>(rows.of[r + i]);
          steps[g * rapt::attention_tile_rows + r + i] =
              rows.sign[r + i] *
              make_integers<VnniIntegers<IntegerSimd>>(q + from, group, pitch, integers + i * pitch);
        });
      }
      // A scale group of 32 dimensions may belong in the second half of a row of 64 bytes.
      const unsigned shift = from % 64 != 0 ? 32 : 0;
      std::size_t at = 0;
      for (; s < segments.count && segments.at[s].group == g; ++s) {
        for (std::size_t step = 0; step < segments.at[s].steps; ++step, at += 64) {
          __m512i low[16], high[16];
          const auto bytes = [&](__m512i a, __m512i b) RAPT_INNER {
            const __m512i all = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(a)),
                                                   _mm512_cvtepi16_epi8(b), 1);
            return shift == 0 ? all : _mm512_shuffle_i64x2(all, all, 0x4e);
          };
          unroll<16>([&](std::size_t i) RAPT_INNER {
            const __m512i a = _mm512_loadu_si512(integers + i * pitch + at),
                          b = _mm512_loadu_si512(integers + i * pitch + at + 32);
            low[i] = bytes(a, b);
            high[i] = bytes(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(b, 8));
          });
          std::int8_t *const tiles = to + (segments.at[s].tile + 2 * step) * tile_bytes;
          const auto store = [&](__m512i(&v)[16], std::int8_t *of) RAPT_INNER {
            transpose_words(v);
            unroll<16>([&](std::size_t i) RAPT_INNER { _mm512_storeu_si512(of + i * amx_row_bytes, v[i]); });
          };
          store(high, tiles);
          store(low, tiles + tile_bytes);
        }
      }
    }
  }
}

// Packs the 16 keys from `first` as [64 dimensions][key][dimension]. Only `keys` of the 16 exist.
[[gnu::noinline, gnu::flatten]] inline void pack_keys(const AttentionTile &tile, std::size_t first,
                                                      std::size_t keys, std::int8_t *to) {
  const std::size_t dim = tile.options().qk_dim;
  const auto [from, stride] =
      keys == 0 ? RowsOfUnit<std::int8_t>{to, 0} : key_rows<std::int8_t>(tile, first, keys);
  for (std::size_t d = 0; d < dim; d += 64, to += tile_bytes) {
    const __mmask64 exist = _bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(dim - d < 64 ? dim - d : 64));
    for (std::size_t i = 0; i < amx_rows; ++i) {
      _mm512_storeu_si512(
          to + i * amx_row_bytes,
          _mm512_maskz_loadu_epi8(i < keys ? exist : 0, from + at(stride, i < keys ? i : 0) + d));
    }
  }
}
// Packs 16 keys like pack_keys(), from a cache of packed keys. A block of packed keys also has room for
// missing keys.
[[gnu::noinline, gnu::flatten]] inline void pack_packed_keys(const AttentionTile &tile, std::size_t first,
                                                             std::size_t keys, std::int8_t *to) {
  const std::size_t dim = tile.options().qk_dim;
  const std::int8_t *const from = keys == 0 ? to : tile.k<std::int8_t>(first);
  for (std::size_t d = 0; d < dim; d += 64, to += tile_bytes) {
    pack_columns(
        [&](std::size_t four, std::size_t i) RAPT_INNER {
          const std::size_t of = d + 4 * four + i;
          return of < dim ? first_bytes(from + rapt::packed_dim_stride * of, keys) : _mm_setzero_si128();
        },
        to);
  }
}

// Packs a block of values as [16 dimensions][dimension][key]. Only `keys` keys exist. The four bytes of a
// word belong to keys that are 16 apart.
[[gnu::noinline, gnu::flatten]] inline void pack_values(const AttentionTile &tile, std::size_t first,
                                                        std::size_t keys, std::int8_t *to) {
  const std::size_t dim = tile.options().v_dim;
  const std::int8_t *from[4] = {to, to, to, to};
  const std::ptrdiff_t stride = value_units(tile, first, keys, from);
  for (std::size_t d = 0; d < dim; d += amx_rows, to += tile_bytes) {
    if (keys == rapt::attention_block && dim - d >= amx_rows) {
      pack_columns(
          [&](std::size_t four, std::size_t i) RAPT_INNER {
            return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from[i] + at(stride, four) + d));
          },
          to);
    } else {
      pack_columns(
          [&](std::size_t four, std::size_t i) RAPT_INNER {
            const bool exists = 16 * i + four < keys;
            return exists ? first_bytes(from[i] + at(stride, four) + d, dim - d) : _mm_setzero_si128();
          },
          to);
    }
  }
}

}  // namespace
