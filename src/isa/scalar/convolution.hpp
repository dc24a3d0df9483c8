// Sums over the taps of a convolution that does not mix channels, as rapt.h says.
#pragma once

#include <cstddef>

#include "call/tap_sums.hpp"
#include "contract/fused.hpp"
#include "contract/linear.hpp"
#include "contract/types.hpp"

namespace {

template <class E>
void convolution_gradient(const rapt::TapGradient &call) {
  using A = rapt::Arithmetic<E>;
  for (std::size_t t = 0; t < call.tap_count; ++t) {
    const rapt::TapRun &run = call.runs[t];
    const E *x = static_cast<const E *>(run.x),
            *dy = static_cast<const E *>(call.dy) + call.dy_step * static_cast<std::ptrdiff_t>(run.first);
    A *const sums = static_cast<A *>(call.sums) + t * call.n;
    for (std::size_t r = 0; r < run.count; ++r, x += call.x_step, dy += call.dy_step) {
      for (std::size_t i = 0; i < call.n; ++i)
        sums[i] = fused(rapt::widened(dy[i]), rapt::widened(x[i]), sums[i]);
    }
  }
}

template <class E>
void convolution(const rapt::TapSums *call) {
  using A = rapt::Arithmetic<E>;
  if (call->gradient) return convolution_gradient<E>(*call->gradient);
  for (std::size_t i = 0; i < call->n; ++i) {
    const std::size_t of_weights = call->has_one_weight ? 0 : i;
    A t = 0, p = 0;
    for (std::size_t k = 0; k < call->tap_count; ++k) {
      const rapt::Tap &tap = call->taps[k];
      const bool begins =
          k > 0 && tap.number / rapt::linear_sum_group != call->taps[k - 1].number / rapt::linear_sum_group;
      if (begins) t = t + p, p = 0;
      p = fused(rapt::widened(static_cast<const E *>(tap.x)[i]), static_cast<const A *>(tap.w)[of_weights],
                p);
    }
    t = t + p + A(0);
    if (call->bias) t = t + static_cast<const A *>(call->bias)[of_weights];
    static_cast<E *>(call->y)[i] = rapt::narrowed<E>(t);
  }
}

}  // namespace
