// Computes the delta rule (contract/delta_rule.hpp) for a head: block by block of its columns.
#pragma once

#include <cstddef>

#include "call/delta_call.hpp"
#include "kernels/delta_rule/arithmetic.hpp"
#include "kernels/delta_rule/passes.hpp"
#include "kernels/delta_rule/state_block.hpp"
#include "kernels/flushes.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// A block of n vectors of columns, of which the first `columns` exist.
template <class S, std::size_t n>
struct DeltaBlock {
  using V = typename S::batch;
  using Copy = StateBlock<S, n>;
  static constexpr std::size_t width = n * S::width;

  const rapt::DeltaCall &call;
  std::size_t first, columns;
  float *scratch;  // the block's part

  RAPT_INNER DeltaToken token(std::size_t t) const {
    const auto at = static_cast<std::ptrdiff_t>(t);
    return {call.q + at * call.q_step, call.k + at * call.k_step, call.decay + at * call.decay_step,
            call.decay_key_step, call.key_dim};
  }
  RAPT_INNER StateRows<float> state() const { return {scratch, width}; }
  RAPT_INNER StateRows<const float> before() const { return {scratch, width}; }

  // What is added to the state for a unit of k. r has the products of k and the state.
  template <class Math>
  RAPT_INNER void make_u(std::size_t t, const V (&r)[n], V (&u)[n]) const {
    const auto at = static_cast<std::ptrdiff_t>(t);
    const float *const v = call.v + at * call.v_step + first;
    unroll<n>([&](std::size_t j) RAPT_INNER {
      const std::size_t left = Copy::left(columns, j * S::width);
      u[j] = left == 0 ? V(0.0f) : Math::operand(S::load_first(v + j * S::width, left));
    });
    if (!call.beta) return;
    const V beta = Math::operand(V(call.beta[at * call.beta_step]));
    unroll<n>([&](std::size_t j) RAPT_INNER { u[j] = Math::product(beta, Math::difference(u[j], r[j])); });
  }
  template <class Math>
  RAPT_INNER void write(std::size_t t, std::size_t query, const V (&o)[n]) const {
    float *const out = call.out + static_cast<std::ptrdiff_t>(t) * call.out_step +
                       static_cast<std::ptrdiff_t>(query) * call.answer_step + first;
    const V scale = V(call.scale);
    unroll<n>([&](std::size_t j) RAPT_INNER {
      const std::size_t left = Copy::left(columns, j * S::width);
      if (left > 0) S::store_first(out + j * S::width, Math::product(scale, o[j]), left);
    });
  }

  // Computes all tokens on the state in scratch. It is not inlined, so that no operation leaves the mode it needs.
  template <class Math>
  [[gnu::noinline, gnu::flatten]] static void run(const DeltaBlock &block) {
    using Passes = DeltaPasses<S, Math, n>;
    const rapt::DeltaCall &call = block.call;
    const std::size_t last = call.tokens - 1;
    V r[n], u[n], o[n];
    Passes::template begin<true>(block.token(0), block.before(), block.state(), r);
    for (std::size_t t = 0;; ++t) {
      block.template make_u<Math>(t, r, u);
      if (t < last && call.queries == 1) {
        Passes::advance(block.token(t), block.token(t + 1), block.state(), u, o, r);
        block.template write<Math>(t, 0, o);
        continue;
      }
      Passes::template end<false>(block.token(t), block.before(), block.state(), u, o);
      block.template write<Math>(t, 0, o);
      for (std::size_t query = 1; query < call.queries; ++query) {
        const float *const q = block.token(t).q + static_cast<std::ptrdiff_t>(query) * call.query_step;
        Passes::answer(q, call.key_dim, block.before(), o);
        block.template write<Math>(t, query, o);
      }
      if (t == last) return;
      Passes::template begin<true>(block.token(t + 1), block.before(), block.state(), r);
    }
  }

  // Computes a single token of a single query on states whose rows are contiguous, without scratch.
  [[gnu::noinline, gnu::flatten]] static void run_in_place(const DeltaBlock &block) {
    using Math = FlushedByCpu<S>;
    using Passes = DeltaPasses<S, Math, n>;
    const rapt::DeltaCall &call = block.call;
    const StateRows<const float> from{call.from + block.first, call.from_layout.key};
    const StateRows<float> to{call.to + block.first, call.to_layout.key};
    V r[n], u[n], o[n];
    Passes::template begin<false>(block.token(0), from, to, r);
    block.template make_u<Math>(0, r, u);
    Passes::template end<true>(block.token(0), from, to, u, o);
    block.template write<Math>(0, 0, o);
  }

  bool runs_in_place() const {
    return call.tokens == 1 && call.queries == 1 && call.begins && call.from && call.to && columns == width &&
           call.from_layout.value == 1 && call.to_layout.value == 1;
  }

  // Computes the block. `copy` holds a block, for CPUs that flush before they round.
  [[gnu::noinline, gnu::flatten]] void compute(bool is_doubtful, float *copy) const {
    using Flushing = typename S::Flushing;
    if (!is_doubtful && runs_in_place()) {
      const Flushing flushing;
      return run_in_place(*this);
    }
    const auto column = static_cast<std::ptrdiff_t>(first);
    if (call.begins) {
      const float *const from = call.from ? call.from + column * call.from_layout.value : nullptr;
      Copy::load(from, call.from_layout, call.key_dim, columns, scratch);
    }
    if (is_doubtful) copy_block(scratch, copy);
    bool has_flushed;
    {
      const Flushing flushing;
      run<FlushedByCpu<S>>(*this);
      has_flushed = flushing.has_flushed();
    }
    if (is_doubtful && has_flushed) {
      copy_block(copy, scratch);
      run<FlushedExactly<S>>(*this);
    }
    if (call.to) Copy::store(call.to + column * call.to_layout.value, call.to_layout, call.key_dim, columns, scratch);
  }

 private:
  RAPT_INNER void copy_block(const float *from, float *to) const {
    for (std::size_t i = 0; i < call.key_dim * width; i += S::width) S::store(to + i, S::load(from + i));
  }
};

template <class E>
[[gnu::flatten]] void delta_rule(const rapt::DeltaCall *call) {
  using S = simd<E>;
  // With 16 registers, more sums and what is added to them would not fit.
  constexpr std::size_t most = S::registers == 32 ? 4 : 2;
  const bool is_doubtful = flushes_before_rounding<typename S::Flushing>();
  float *const copy =
      call->scratch + (call->columns + rapt::delta_block - 1) / rapt::delta_block * rapt::delta_block * call->key_dim;
  for (std::size_t first = 0; first < call->columns;) {
    const std::size_t left = call->columns - first;
    float *const scratch = call->scratch + first * call->key_dim;
    if (left >= most * S::width) {
      DeltaBlock<S, most>{*call, first, most * S::width, scratch}.compute(is_doubtful, copy);
      first += most * S::width;
    } else {
      DeltaBlock<S, 1>{*call, first, left < S::width ? left : S::width, scratch}.compute(is_doubtful, copy);
      first += S::width;
    }
  }
}

}  // namespace
