// Multiplies a few rows by quantized weights of a block of 64 outputs, as one chain of fused operations per
// group. Weights are numbers in scratch, or codes that become numbers on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/linear/chain_tiles.hpp"
#include "kernels/linear/codes.hpp"
#include "kernels/linear/scaled_terms.hpp"
#include "kernels/linear/tiles.hpp"
#include "kernels/linear/ways.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// x_sums is [groups][rows of the tile], and zeros [groups][64] with code_magic added.
struct NumberTerms : ScaledTerms {
  const float *x_sums, *zeros, *table;
};

// Codes is what a level provides for codes (integer_tiles.hpp).
template <class Codes>
struct NumberTiles : TileTraits {
  using A = float;
  using S = simd<float>;
  using batch = S::batch;
  static constexpr std::size_t block = rapt::linear_block, group = rapt::linear_sum_group;
  static constexpr std::size_t most_rows = ChainTiles<float>::most_rows;
  // More rows multiply numbers in scratch: 6 to 12 rows of codes took 1.25 to 1.6 of the time, 3 and 4 rows .6 and .8.
  template <class Weights>
  static constexpr std::size_t most_rows_of = std::is_same_v<Weights, WeightsOf<float>> ? most_rows : 4;
  // With 16 registers, codes of 4 vectors for 3 rows spill sums: 2 vectors have 1.2 to 1.4 of the speed.
  static constexpr std::size_t vectors_of(std::size_t rows) {
    return S::registers == 16 && rows == 3 ? 2 : tile_vectors<A>(rows);
  }
  static constexpr std::size_t passes(std::size_t rows) { return block / (S::width * vectors_of(rows)); }

  template <class Weights, std::size_t rows, std::size_t blocks>
  [[gnu::noinline, gnu::flatten]] static void multiply(
      const TileOperands<float, typename Weights::Element, float> &tile, NumberTerms terms,
      std::size_t inputs, bool first, Prefetch &fetch) {
    static_assert(blocks == 1);
    // With eight vectors, one row of numbers of 8 bits spills on AVX2: it took 1.5 of the time.
    constexpr std::size_t vectors = IsOfF8<Weights> && vectors_of(rows) == 8 ? 4 : vectors_of(rows);
    for (std::size_t v = 0; v < block; v += vectors * S::width) {
      const float *row = tile.x;
      PassOfPrefetch<> prefetch(fetch, inputs);
      if (first) ScaledTerms::clear<rows, vectors>(v, tile.sums);
      for (std::size_t begin = 0, g = 0; begin < inputs; begin += terms.sum_group, ++g) {
        const std::size_t end = inputs - begin < terms.sum_group ? inputs : begin + terms.sum_group;
        batch sum[rows][vectors];
        unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j)
                                        RAPT_INNER { sum[r][j] = batch(0.0f); });
        if constexpr (std::is_same_v<Weights, WeightsOf<float>>) {
          for (std::size_t k = begin; k < end; ++k, row += rows) {
            batch weight[vectors];
            unroll<vectors>([&](std::size_t j)
                                RAPT_INNER { weight[j] = S::load(tile.w + k * block + v + j * S::width); });
            add_products<A>(row, weight, sum);
          }
        } else {
          add_codes<Weights>(tile.w + Weights::words_of(v), begin, end, terms, g * block + v, row, prefetch,
                             sum);
          row += rows * (end - begin);
        }
        batch scale[vectors];
        terms.scales.load(g, v, scale);
        terms.add(sum, scale, g, v, tile.sums,
                  [&](std::size_t r) RAPT_INNER { return batch(terms.x_sums[g * rows + r]); });
      }
    }
  }

 private:
  template <class Kind, std::size_t rows, std::size_t vectors>
  RAPT_INNER static void add_codes(const std::uint8_t *codes, std::size_t k, std::size_t end,
                                   const NumberTerms &terms, std::size_t at, const float *row,
                                   PassOfPrefetch<> &prefetch, batch (&sum)[rows][vectors]) {
    codes += k / Kind::inputs * Kind::bytes;
    batch weight[vectors];
    if constexpr (Kind::whole_units) {
      constexpr std::size_t together = Kind::inputs / Kind::groups;
      const auto add_from = [&](auto first) RAPT_INNER {
        unroll<together>([&](auto h) RAPT_INNER {
          unroll<vectors>([&](std::size_t j) RAPT_INNER {
            weight[j] = number_in_planes<Codes, Kind, first + h>(codes + Kind::words_of(j * S::width),
                                                                 S::load(terms.zeros + at + j * S::width));
          });
          add_products<A>(row, weight, sum);
          row += rows;
        });
      };
      for (; k < end; k += together) {
        prefetch.step(k);
        if (Kind::groups == 1 || k % Kind::inputs == 0) {
          add_from(std::integral_constant<std::size_t, 0>{});
        } else {
          add_from(std::integral_constant<std::size_t, Kind::inputs - together>{});
        }
        if (Kind::groups == 1) codes += Kind::bytes;
      }
      return;
    }
    CodeWords words[vectors];
    const auto add = [&](auto h) RAPT_INNER {
      unroll<vectors>([&](std::size_t j) RAPT_INNER {
        weight[j] =
            number_of<Codes, Kind, h>(words[j], S::load(terms.zeros + at + j * S::width), terms.table);
      });
      add_products<A>(row, weight, sum);
      row += rows;
    };
    const auto load = [&]() RAPT_INNER {
      unroll<vectors>([&](std::size_t j)
                          RAPT_INNER { words[j] = load_words(codes + Kind::words_of(j * S::width)); });
      codes += 4 * block;
    };
    for (; end - k >= Kind::inputs; k += Kind::inputs) {
      prefetch.step(k);
      load();
      unroll<Kind::inputs>(add);
    }
    if (k == end) return;
    load();  // the last word, whose first code is always the next input
    for (std::size_t h = 1; k < end; ++k, ++h) {
      add(std::integral_constant<std::size_t, 0>{});
      if (h == 4) {
        codes -= 4 * block;
        load();
      }
      unroll<vectors>([&](std::size_t j) RAPT_INNER { words[j] = h == 4 ? words[j] >> 4 : words[j] >> 8; });
    }
  }
};

}  // namespace
