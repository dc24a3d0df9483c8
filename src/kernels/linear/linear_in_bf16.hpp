// Computes linear layers in bf16 arithmetic.
#pragma once

#include <cstddef>

#include "call/packed_weights.hpp"
#include "kernels/flushes.hpp"
#include "kernels/linear/k32_tiles.hpp"
#include "kernels/linear/linear.hpp"

namespace {

// Computes sums again if a CPU that flushes before it rounds has flushed a result since the last
// correction.
class FlushedSums {
 public:
  void note(const K32Tiles::Mode &mode) { guard_.note(mode); }

  void correct(const rapt::LinearCall &call, std::size_t first, std::size_t rows, std::size_t output,
               std::size_t outputs, float *sums) const {
    if (guard_.is_doubtful()) [[unlikely]]
      compute(call, first, rows, output, outputs, sums);
  }

 private:
  [[gnu::noinline, gnu::flatten]] static void compute(const rapt::LinearCall &call, std::size_t first,
                                                      std::size_t rows, std::size_t output,
                                                      std::size_t outputs, float *sums) {
    const rapt_linear_options &o = call.options;
    const auto *const packed = static_cast<const rapt::BF16 *>(call.w);
    for (std::size_t r = 0; r < rows; ++r) {
      const rapt::BF16 *const x = call.x_at<rapt::BF16>(first + r);
      for (std::size_t n = 0; n < outputs; ++n) {
        sums[r * rapt::linear_block + n] = add_with_flushes(
            0, o.in_features,
            [&](std::size_t k) {
              return rapt::widened(x[o.x_strides.column * static_cast<std::ptrdiff_t>(k)]);
            },
            [&](std::size_t k) {
              return rapt::widened(
                  o.packed_w ? packed[rapt::packed_weight_offset<rapt::BF16>(output + n, k, o.in_features)]
                             : *call.w_at<rapt::BF16>(output + n, k));
            });
      }
    }
  }

  FlushGuard<K32Tiles::Mode> guard_;
};

template <class E>
struct Bf16Layer {
  using A = float;
  using Tiles = K32Tiles;
  using Rows = PackedRows<Tiles>;
  using Weights = WeightGroups<E, Tiles>;
  using Guard = FlushedSums;
};

template <class E>
void linear_in_bf16(const rapt::LinearCall *call, std::size_t first, std::size_t last, void *workspace) {
  linear_tasks<Bf16Layer<E>>(call, first, last, workspace);
}

}  // namespace
