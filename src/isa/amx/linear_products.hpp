// Multiplies 16 rows by 64 outputs with AMX.
//
// Tiles 0 to 3 accumulate sums, tile 4 has rows, and tiles 5 to 7 have weights. Sums are stored only when the
// next products need their tiles, because an immediate store would wait for the last product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "contract/linear.hpp"
#include "contract/types.hpp"
#include "isa/amx/linear_fetches.hpp"
#include "isa/amx/tiles.hpp"
#include "kernels/linear/ways.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// AMX multiplies 16 rows, of which only some may exist.
struct TilesByAmx : TileTraits {
  using A = float;
  static constexpr std::size_t least_rows = amx_rows, most_rows = amx_rows;
  static constexpr bool takes_whole_tasks = true;
  static constexpr std::size_t passes(std::size_t) { return 1; }
};

// Describes the weights of 64 outputs, which AMX can load as four tiles. The rows of a tile are `row_bytes`
// apart, and the tile of the next 16 outputs is `pitch` elements further. The next inputs follow.
template <class E>
struct WeightTiles {
  const E *first;
  std::size_t row_bytes, pitch;
};

// Sums of bf16 are f32, and sums of bytes are integers.
template <class E>
class LinearProducts {
 public:
  static constexpr bool of_bytes = std::is_same_v<E, std::int8_t>;
  using Sum = std::conditional_t<of_bytes, std::int32_t, float>;
  // A tile has this many elements of 16 rows, and inputs of a row.
  static constexpr std::size_t tile_length = amx_rows * amx_row_bytes / sizeof(E),
                               inputs = amx_row_bytes / sizeof(E);

  // Adds the products of `steps` times a tile's inputs to the sums: [row][64] of f32, or [16 outputs][row][output]
  // of integers. The tiles of rows follow each other. If `fresh`, the sums count as 0. flush(), or the next call,
  // stores the sums.
  [[gnu::noinline, gnu::flatten]] void multiply(const E *rows, const WeightTiles<E> &weights,
                                                std::size_t steps, bool fresh, Sum *sums,
                                                LinesToFetch next_rows, LinesToFetch next_weights) {
    Sum *const pending = pending_;
    const E *weight = weights.first;
    const std::size_t row_bytes = weights.row_bytes, pitch = weights.pitch;
    const auto step = [&](auto is_first) RAPT_INNER {
      load_tile<4>(rows, amx_row_bytes);
      load_tile<5>(weight, row_bytes);
      load_tile<6>(weight + pitch, row_bytes);
      load_tile<7>(weight + 2 * pitch, row_bytes);
      unroll<4>([&](auto i) RAPT_INNER {
        if constexpr (is_first) {
          if (pending) store_tile<i>(pending + i * sums_pitch, sums_stride);
          if (fresh) {
            zero_tile<i>();
          } else {
            load_tile<i>(sums + i * sums_pitch, sums_stride);
          }
        }
        constexpr int b = i == 3 ? 5 : 5 + i;
        if constexpr (of_bytes) {
          multiply_signed_bytes<i, 4, b>();
        } else {
          multiply_tiles<i, 4, b>();
        }
        if constexpr (i == 0) load_tile<5>(weight + 3 * pitch, row_bytes);
      });
      next_weights.step();
      next_rows.step();
      rows += tile_length;
      weight += inputs * rapt::linear_block;
    };
    step(std::true_type{});
    for (std::size_t s = 1; s < steps; ++s) step(std::false_type{});
    pending_ = sums;
  }

  void flush() {
    if (!pending_) return;
    unroll<4>([&](auto i) RAPT_INNER { store_tile<i>(pending_ + i * sums_pitch, sums_stride); });
    pending_ = nullptr;
  }

 private:
  static constexpr std::size_t sums_stride = of_bytes ? amx_row_bytes : rapt::linear_block * sizeof(Sum),
                               sums_pitch = of_bytes ? amx_rows * amx_rows : amx_rows;
  Sum *pending_ = nullptr;  // where to store the accumulators
};

}  // namespace
