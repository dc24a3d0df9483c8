// Finishes the sums of a block of outputs: output scales, bias, bias of a row, row scale, addend and type.
#pragma once

#include <cstddef>

#include "call/element.hpp"
#include "call/linear_call.hpp"

namespace {

// Stores the results of `rows` rows from `first` on, whose sums are [rows][64]. Only `outputs` of a row
// exist.
template <class A>
[[gnu::noinline, gnu::flatten]] void store_results(const rapt::LinearCall &call, std::size_t first,
                                                   std::size_t rows, std::size_t output, std::size_t outputs,
                                                   const A *sums) {
  using S = simd<A>;
  using batch = typename S::batch;
  const rapt_linear_options &o = call.options;
  const A *const output_scales = o.output_scales ? static_cast<const A *>(o.output_scales) + output : nullptr;
  const A *const bias = o.bias ? static_cast<const A *>(o.bias) + output : nullptr;
  const A *const row_bias = static_cast<const A *>(call.row_bias);
  rapt::with_element<A>(o.y_type, [&](auto element) {
    using Y = typename decltype(element)::type;
    for (std::size_t r = 0; r < rows; ++r, sums += rapt::linear_block) {
      Y *const y = call.y_at<Y>(first + r, output);
      const batch scale(o.row_scales ? call.row_scale<A>(first + r) : A(1));
      for (std::size_t n = 0; n < outputs; n += S::width) {
        const std::size_t left = outputs - n;
        batch v = S::load(sums + n) + batch(A(0));
        if (output_scales) v = v * S::load_first(output_scales + n, left);
        if (row_bias) v = v + batch(row_bias[first + r]);
        if (bias) v = v + S::load_first(bias + n, left);
        if (o.row_scales) v = v * scale;
        if (o.add) {
          rapt::with_element<A>(o.add_type, [&](auto addend) {
            v = v + S::load_first(call.add_at<typename decltype(addend)::type>(first + r, output + n), left);
          });
        }
        if (left >= S::width) {
          S::store(y + n, v);
        } else {
          S::store_first(y + n, v, left);
        }
      }
    }
  });
}

}  // namespace
