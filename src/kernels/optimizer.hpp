// Steps of optimizers, in one pass over their arrays (contract/optimizer.hpp).
#pragma once

#include <cstddef>

#include "call/optimizer_call.hpp"
#include "kernels/norm/whole_or_first.hpp"
#include "kernels/vector/inner.hpp"

namespace {

template <class A>
[[gnu::flatten]] void adamw_step(const rapt::AdamwCall *call) {
  using S = simd<A>;
  using batch = typename S::batch;
  const rapt::AdamwCall c = *call;
  const batch sign(c.sign), param_factor(c.param_factor), decay(c.decay), weight(c.weight),
      rest(1 - c.weight), beta2(c.beta2), square_factor(c.square_factor), root(c.root), eps(c.eps),
      step_size(c.step_size);
  const bool decays = c.decay != 0, is_near = c.weight < A(0.5);
  each_vector<A>(c.count, [&](auto part, std::size_t i) RAPT_INNER {
    const batch p = part.load(c.param + i) * param_factor;
    batch g = part.load(c.grad + i) * sign;
    if (decays) g = g + decay * p;
    const batch before = part.load(c.exp_avg + i), way = g - before;
    const batch m = is_near ? before + weight * way : g - way * rest;
    const batch v = part.load(c.exp_avg_sq + i) * beta2 + (square_factor * g) * g;
    part.store(c.exp_avg + i, m);
    part.store(c.exp_avg_sq + i, v);
    batch w = v;
    if (c.max_exp_avg_sq) {
      const batch most = part.load(c.max_exp_avg_sq + i);
      w = S::select(S::either(S::less(most, v), S::unordered(v, v)), v, most);
      part.store(c.max_exp_avg_sq + i, w);
    }
    const batch denominator = S::divide(S::square_root(w), root) + eps;
    part.store(c.param + i, p + S::divide(step_size * m, denominator));
  });
}

template <class A>
[[gnu::flatten]] void sgd_step(const rapt::SgdCall *call) {
  using batch = typename simd<A>::batch;
  const rapt::SgdCall c = *call;
  const batch sign(c.sign), decay(c.decay), momentum(c.momentum), grad_factor(c.grad_factor),
      step_size(c.step_size);
  const bool decays = c.decay != 0;
  each_vector<A>(c.count, [&](auto part, std::size_t i) RAPT_INNER {
    const batch p = part.load(c.param + i);
    batch g = part.load(c.grad + i) * sign;
    if (decays) g = g + decay * p;
    if (c.momentum_buffer) {
      const batch b = c.first_step ? g : part.load(c.momentum_buffer + i) * momentum + grad_factor * g;
      part.store(c.momentum_buffer + i, b);
      g = c.nesterov ? g + momentum * b : b;
    }
    part.store(c.param + i, p + step_size * g);
  });
}

}  // namespace
