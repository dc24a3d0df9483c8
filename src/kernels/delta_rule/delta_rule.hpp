// Computes the delta rule (contract/delta_rule.hpp) for a head: block by block of its columns.
//
//   us a head of 128 x 128, Sapphire Rapids, f32  | AVX-512 | AVX2  | ggml
//   a token of a prompt of 512                    | .67     | 1.22  | 5.26
//   one token, states in L2, rows contiguous      | 2.7     | 3.2   |
//   one token, states in L2, columns contiguous   | 4.1     | 5.6   | 7.6
//   one token, states in memory, rows             | 9.8     | 11    |
//   one token, states in memory, columns          | 11.2    | 13    | 25.9
//
// Of a single token whose columns are contiguous, transposing the new state too took 5.1 us in L2, and without
// prefetches 18.7 from memory.
#pragma once

#include <cstddef>
#include <type_traits>

#include "call/delta_call.hpp"
#include "kernels/delta_rule/arithmetic.hpp"
#include "kernels/delta_rule/passes.hpp"
#include "kernels/delta_rule/state_block.hpp"
#include "kernels/flushes.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Of a single token, so many vectors of columns are computed at a time where columns are contiguous, or where rows
// are: rows are long where they can be. Columns are few, so that L1 has them when they are read again.
inline constexpr std::size_t delta_columns_together = 2, delta_row_vectors = 8;

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
    Passes::template begin<true>(block.token(0), block.before(), block.state(), r, {});
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
      Passes::template begin<true>(block.token(t + 1), block.before(), block.state(), r, {});
    }
  }

  // Computes a single token of a single query on states whose rows are contiguous, without scratch.
  [[gnu::noinline, gnu::flatten]] static void run_in_rows(const DeltaBlock &block) {
    using Passes = DeltaPasses<S, FlushedByCpu<S>, n>;
    const rapt::DeltaCall &call = block.call;
    const StateRows<const float> from{call.from + block.first, call.from_layout.key};
    const StateRows<float> to{call.to + block.first, call.to_layout.key};
    V r[n], u[n], o[n];
    Passes::template begin<false>(block.token(0), from, to, r, {block.ahead(), from.step});
    block.template make_u<FlushedByCpu<S>>(0, r, u);
    Passes::template end<true>(block.token(0), from, to, u, o);
    block.template write<FlushedByCpu<S>>(0, 0, o);
  }
  // The same on states whose columns are contiguous. They are transposed only where they are read: for the store, the
  // new state is computed once more.
  [[gnu::noinline, gnu::flatten]] static void run_in_columns(const DeltaBlock &block) {
    using Passes = DeltaPasses<S, FlushedByCpu<S>, n>;
    const rapt::DeltaCall &call = block.call;
    const std::ptrdiff_t from_step = call.from_layout.value, to_step = call.to_layout.value;
    const auto first = static_cast<std::ptrdiff_t>(block.first);
    const float *const from = call.from + first * from_step;
    float *const to = call.to + first * to_step;
    const DeltaToken token = block.token(0);
    V r[n], u[n], o[n];
    Passes::begin_columns(token, from, from_step, block.scratch, r, {block.ahead(), from_step});
    block.template make_u<FlushedByCpu<S>>(0, r, u);
    Passes::sum_end(token, block.before(), u, o);
    block.template write<FlushedByCpu<S>>(0, 0, o);
    float all_u[width];
    unroll<n>([&](std::size_t j) RAPT_INNER { S::store(all_u + j * S::width, u[j]); });
    for (std::size_t c = 0; c < width; ++c) {
      const auto at = static_cast<std::ptrdiff_t>(c);
      Passes::end_column(token, from + at * from_step, to + at * to_step, all_u[c]);
    }
  }

  [[gnu::noinline, gnu::flatten]] static void run_one_token(const DeltaBlock &block) {
    const typename S::Flushing flushing;
    if constexpr (n == delta_columns_together) {
      if (block.call.from_layout.value != 1) return run_in_columns(block);
    }
    run_in_rows(block);
  }
  // Where the next block's state is.
  const float *ahead() const {
    const std::size_t next = first + width;
    return next + width <= call.columns
               ? call.from + static_cast<std::ptrdiff_t>(next) * call.from_layout.value
               : call.ahead;
  }

  // Computes the block. `copy` holds a block, for CPUs that flush before they round.
  [[gnu::noinline, gnu::flatten]] void compute(bool is_doubtful, float *copy) const {
    using Flushing = typename S::Flushing;
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
    if (call.to)
      Copy::store(call.to + column * call.to_layout.value, call.to_layout, call.key_dim, columns, scratch);
  }

 private:
  RAPT_INNER void copy_block(const float *from, float *to) const {
    for (std::size_t i = 0; i < call.key_dim * width; i += S::width) S::store(to + i, S::load(from + i));
  }
};

// A single token of a head may need no scratch.
inline bool is_one_token(const rapt::DeltaCall &call) {
  const bool is_alone = call.tokens == 1 && call.queries == 1 && call.begins && call.ends;
  return is_alone && call.from && call.to &&
         ((call.from_layout.value == 1 && call.to_layout.value == 1) ||
          (call.from_layout.key == 1 && call.to_layout.key == 1));
}

template <class E>
[[gnu::flatten]] void delta_rule(const rapt::DeltaCall *call) {
  using S = simd<E>;
  // With 16 registers, more sums and what is added to them would not fit.
  constexpr std::size_t most = S::registers == 32 ? 4 : 2;
  const bool is_doubtful = flushes_before_rounding<typename S::Flushing>();
  const bool in_place = !is_doubtful && is_one_token(*call), in_rows = call->from_layout.value == 1;
  float *const copy = call->scratch + (call->columns + rapt::delta_block - 1) / rapt::delta_block *
                                          rapt::delta_block * call->key_dim;
  for (std::size_t first = 0; first < call->columns;) {
    const std::size_t left = call->columns - first;
    float *const scratch = call->scratch + first * call->key_dim;
    const auto one_token = [&](auto n) RAPT_INNER {
      constexpr std::size_t width = n * S::width;
      if (left < width) return false;
      DeltaBlock<S, n>::run_one_token({*call, first, width, scratch});
      first += width;
      return true;
    };
    if (in_place && in_rows && one_token(std::integral_constant<std::size_t, delta_row_vectors>{})) continue;
    if (in_place && one_token(std::integral_constant<std::size_t, delta_columns_together>{})) continue;
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
