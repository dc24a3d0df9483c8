// Multiplies 16 rows by 64 outputs with AMX.
//
// Tiles 0 to 3 accumulate sums, tile 4 has rows, and tiles 5 to 7 have weights. Sums are stored only when the
// next products need their tiles, because an immediate store would wait for the last product.
#pragma once

#include <cstddef>

#include "contract/linear.hpp"
#include "contract/types.hpp"
#include "isa/amx/linear_fetches.hpp"
#include "isa/amx/tiles.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Describes the weights of 64 outputs, which AMX can load as four tiles. The rows of a tile are `row_bytes`
// apart, and the tile of the next 16 outputs is `pitch` elements further. The next 32 inputs follow.
struct WeightTiles {
  const rapt::BF16 *first;
  std::size_t row_bytes, pitch;
};

class LinearProducts {
 public:
  // Adds the products of `steps` times 32 inputs to the sums, which are [row][64]. The tiles of rows follow each
  // other. If `fresh`, the sums count as 0. flush(), or the next call, stores the sums.
  [[gnu::noinline, gnu::flatten]] void multiply(const rapt::BF16 *rows, const WeightTiles &weights,
                                                std::size_t steps, bool fresh, float *sums,
                                                LinesToFetch next_rows, LinesToFetch next_weights) {
    float *const pending = pending_;
    const rapt::BF16 *weight = weights.first;
    const std::size_t row_bytes = weights.row_bytes, pitch = weights.pitch;
    const auto step = [&](auto is_first) __attribute__((always_inline)) {
      load_tile<4>(rows, amx_row_bytes);
      load_tile<5>(weight, row_bytes);
      load_tile<6>(weight + pitch, row_bytes);
      load_tile<7>(weight + 2 * pitch, row_bytes);
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        if constexpr (is_first) {
          if (pending) store_tile<i>(pending + i * amx_rows, sums_stride);
          if (fresh) {
            zero_tile<i>();
          } else {
            load_tile<i>(sums + i * amx_rows, sums_stride);
          }
        }
        multiply_tiles<i, 4, i == 3 ? 5 : 5 + i>();
        if constexpr (i == 0) load_tile<5>(weight + 3 * pitch, row_bytes);
      });
      next_weights.step();
      next_rows.step();
      rows += amx_elements;
      weight += amx_k32 * rapt::linear_block;
    };
    step(std::true_type{});
    for (std::size_t s = 1; s < steps; ++s) step(std::false_type{});
    pending_ = sums;
  }

  void flush() {
    if (!pending_) return;
    unroll<4>([&](auto i)
                  __attribute__((always_inline)) { store_tile<i>(pending_ + i * amx_rows, sums_stride); });
    pending_ = nullptr;
  }

 private:
  static constexpr std::size_t sums_stride = rapt::linear_block * sizeof(float);
  float *pending_ = nullptr;  // where to store the accumulators
};

}  // namespace
