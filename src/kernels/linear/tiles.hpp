// Divides the rows of a task into tiles, and describes weights and prefetches for the products of a tile.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>

#include "contract/linear.hpp"
#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// A tile has one of these numbers of rows. Copies of the last row fill the last tile.
inline constexpr std::size_t tile_heights[] = {1, 2, 3, 4, 6, 16};

constexpr bool is_tile_height(std::size_t rows) {
  for (const std::size_t height : tile_heights) {
    if (height == rows) return true;
  }
  return false;
}

// Calls f(first row, number of rows as a constant) for the tiles of `rows` rows. Tiles has their least_rows and
// most_rows.
template <class Tiles, class F>
RAPT_INNER inline void each_tile(std::size_t rows, F f) {
  constexpr std::size_t least = Tiles::least_rows, most = Tiles::most_rows;
  static_assert(is_tile_height(most));  // else the loop would not end
  std::size_t r = 0;
  while (r < rows) {
    const std::size_t left = rows - r;
    unroll_while<std::size(tile_heights)>([&](auto i) RAPT_INNER {
      constexpr std::size_t height = tile_heights[i];
      if constexpr (height >= least && height <= most) {
        if (left <= height || height == most) {
          f(r, std::integral_constant<std::size_t, height>{});
          r += height;
          return false;
        }
      }
      return true;
    });
  }
}

// Weights lie in memory as one E per input and output, as pairs of bf16, or as a row of inputs for each output.
template <class E>
struct WeightsOf {
  using Element = E;
  static constexpr std::size_t inputs = 1;
};
struct PairsOfBf16 {
  using Element = rapt::BF16;
  static constexpr std::size_t inputs = 2;
};

// The weights of each input begin at the offset that the call has for it.
template <class E>
struct WeightsAtOffsets {
  using Element = E;
  static constexpr std::size_t inputs = 1;
};
template <class Weights>
inline constexpr bool are_at_offsets = false;
template <class E>
inline constexpr bool are_at_offsets<WeightsAtOffsets<E>> = true;

template <class E>
struct RowsOfWeights {
  using Element = const E *;
  static constexpr std::size_t inputs = 1;
};

// Returns how many vectors of outputs a tile processes at a time, a power of two up to `most`. `chains`
// accumulators per vector must leave registers for weights and a broadcast.
template <class A>
constexpr std::size_t tile_vectors(std::size_t chains, std::size_t most = 8) {
  using S = simd<A>;
  constexpr std::size_t accumulators = S::registers == 32 ? 24 : 12, all = rapt::linear_block / S::width;
  std::size_t vectors = all < most ? all : most;
  while (vectors > 1 && chains * vectors > accumulators) vectors /= 2;
  return vectors;
}

// Describes memory that tiles prefetch to L2 while they multiply, a line of every `stride` bytes. Each pass over a
// group's inputs prefetches the next `bytes`, a few lines with every input whose number is a multiple of `every`.
// `in_order` says that tiles read weights in the order of memory instead, and prefetch what follows to L1. `to_l1` says
// that tiles also prefetch the weights of the next inputs from L2.
struct Prefetch {
  const char *at = nullptr;
  std::size_t bytes = 0, stride = 64;
  bool in_order = false, to_l1 = false;
};
template <std::size_t every = 4>
class PassOfPrefetch {
 public:
  PassOfPrefetch(Prefetch &fetch, std::size_t inputs)
      : line_(fetch.at),
        end_(fetch.at + fetch.bytes),
        stride_(fetch.stride),
        lines_((fetch.bytes + stride_ / every * inputs - 1) / (stride_ / every * inputs)) {
    fetch.at = end_;
  }
  RAPT_INNER void step(std::size_t input) {
    if (input % every != 0) return;
    for (std::size_t i = 0; i < lines_ && line_ < end_; ++i, line_ += stride_)
      __builtin_prefetch(line_, 0, 2);
  }

 private:
  const char *line_, *end_;
  std::size_t stride_, lines_;
};

// Says where a tile's operands and sums are. x is [inputs][rows], and w is [inputs][64]. The sum of a row
// and an output is at sums[row * 64 + output]. A tile of two blocks finds the second block's weights and
// sums at these distances. Tiles may leave out sums of outputs from `outputs` on.
template <class X, class W, class A>
struct TileOperands {
  const X *x;
  const W *w;
  A *sums;
  std::size_t to_next_weights = 0, to_next_sums = 0, outputs = rapt::linear_block;
  const std::ptrdiff_t *offsets = nullptr;  // of WeightsAtOffsets, from w on
};
// clang 14 deduces the types of an aggregate only with a guide.
template <class X, class W, class A>
TileOperands(const X *, const W *, A *, std::size_t, std::size_t, std::size_t, const std::ptrdiff_t *)
    -> TileOperands<X, W, A>;

// Weights without scales add their sums of products as they are.
struct NoTerms {};

// Loads the weights of a number of vectors. If they are pairs, `half` 0 is the first input of each pair.
template <class A, class Weights, std::size_t half, std::size_t vectors, class Address>
RAPT_INNER inline void load_weights(Address at, typename simd<A>::batch (&weight)[vectors]) {
  using S = simd<A>;
  unroll<vectors>([&](std::size_t j) RAPT_INNER {
    if constexpr (Weights::inputs == 1) {
      weight[j] = S::load(at(j));
    } else {
      const auto pair = S::load(reinterpret_cast<const float *>(at(j)));
      weight[j] = half == 0 ? S::lower_bf16(pair) : S::upper_bf16(pair);
    }
  });
}

// Adds the products of one input of each row with its weights to the sums from vector `first` on.
template <class A, std::size_t first = 0, std::size_t rows, std::size_t vectors, std::size_t all>
RAPT_INNER inline void add_products(const A *row, const typename simd<A>::batch (&weight)[vectors],
                                    typename simd<A>::batch (&sum)[rows][all]) {
  using S = simd<A>;
  unroll<rows>([&](std::size_t r) RAPT_INNER {
    const typename S::batch element(row[r]);
    unroll<vectors>([&](std::size_t j) RAPT_INNER {
      auto &to = sum[r][first + j];
      to = S::fma(element, weight[j], to);
    });
  });
}

}  // namespace
