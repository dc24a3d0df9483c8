// Computes the gradients of the delta rule (contract/delta_rule.hpp) for a head: first the states of all tokens, then
// the gradients token by token, from the last one on.
#pragma once

#include <cstddef>

#include "call/delta_backward_call.hpp"
#include "kernels/delta_rule/arithmetic.hpp"
#include "kernels/delta_rule/backward_passes.hpp"
#include "kernels/flushes.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Blocks have `most` vectors of columns while so many exist, and then those of one set of lanes.
template <class S, class Math, std::size_t most>
struct DeltaBackwardHead {
  using V = typename S::batch;
  static constexpr std::size_t lanes = rapt::delta_lanes, registers = lanes / S::width;

  const rapt::DeltaBackwardCall &call;
  const rapt::DeltaBackwardScratch parts{call.key_dim, call.columns};

  // Without gradients, one token's part of the scratch serves all.
  std::size_t kept() const { return call.after ? 1 : call.tokens; }
  float *decayed(std::size_t t) const { return call.scratch + (call.after ? 0 : t * parts.state); }
  float *u(std::size_t t) const {
    return call.scratch + parts.values(kept()) + (call.after ? 0 : 2 * t * parts.pitch);
  }
  float *difference(std::size_t t) const { return u(t) + parts.pitch; }
  // p of two tokens lies in memory at a time.
  float *p(std::size_t t, std::size_t query) const {
    return call.scratch + parts.rows(kept()) + (t % 2 * call.queries + query) * parts.pitch;
  }
  float *w() const { return call.scratch + parts.rows(kept()) + 2 * call.queries * parts.pitch; }
  float *back() const { return w() + parts.pitch; }
  float *sums() const { return call.scratch + parts.sums(kept(), call.queries); }
  float *dg_rows() const { return sums() + 3 * lanes * call.key_dim; }

  RAPT_INNER DeltaFactors factors(std::size_t t, std::size_t query) const {
    const auto at = static_cast<std::ptrdiff_t>(t), of = static_cast<std::ptrdiff_t>(query);
    return {call.q + at * call.q_step + of * call.query_step, call.k + at * call.k_step,
            call.decay + at * call.decay_step, call.decay_key_step};
  }
  RAPT_INNER DeltaFactors last_query(std::size_t t) const { return factors(t, call.queries - 1); }
  RAPT_INNER DeltaColumns columns(std::size_t t, std::size_t query) const {
    return {u(t), p(t, query), back()};
  }

  // Calls f with each block. In small blocks, some columns may not exist.
  template <class F>
  RAPT_INNER void each_block(F f) const {
    std::size_t first = 0;
    if constexpr (most > registers) {
      for (; first + most * S::width <= call.columns; first += most * S::width)
        f(DeltaBackwardBlock<S, Math, most, false>{first, most * S::width, call.key_dim, parts.pitch});
    }
    for (; first < call.columns; first += lanes)
      f(DeltaBackwardBlock<S, Math, registers, true>{first, call.columns - first, call.key_dim, parts.pitch});
  }

  // Computes the states of all tokens for a block, and what they add.
  template <class Block>
  [[gnu::noinline, gnu::flatten]] static void see(const DeltaBackwardHead &head, const Block &block) {
    constexpr std::size_t n = Block::vectors;
    const rapt::DeltaBackwardCall &call = head.call;
    V r[n], u[n];
    unroll<n>([&](std::size_t j) RAPT_INNER { u[j] = V(0.0f); });
    for (std::size_t t = 0; t < call.tokens; ++t) {
      const DeltaFactors token = head.factors(t, 0);
      if (t == 0) {
        block.template decay<false>(call.before, token, u, token, head.decayed(0), r);
      } else {
        block.template decay<true>(head.decayed(t - 1), head.factors(t - 1, 0), u, token, head.decayed(t), r);
      }
      head.make_u(block, t, r, u);
    }
    if (call.after) block.add(head.decayed(0), head.factors(call.tokens - 1, 0), u, call.after);
  }
  template <class Block, std::size_t n>
  RAPT_INNER void make_u(const Block &block, std::size_t t, const V (&r)[n], V (&u_of)[n]) const {
    const auto at = static_cast<std::ptrdiff_t>(t);
    const float *const v = call.v + at * call.v_step;
    typename Block::Mask masks[n];
    block.make_masks(masks);
    unroll<n>([&](std::size_t j) RAPT_INNER {
      const std::size_t column = block.first + j * S::width;
      const V value = Math::operand(block.load(v, j));
      const V off = Block::kept(masks, j, Math::difference(value, r[j]));
      u_of[j] = value;
      if (call.beta) {
        const V beta = Math::operand(V(call.beta[at * call.beta_step]));
        u_of[j] = Block::kept(masks, j, Math::product(beta, off));
      }
      S::store(u(t) + column, u_of[j]);
      S::store(difference(t) + column, off);
    });
  }

  // Multiplies the gradients of a token's outputs by the scale.
  template <class Block>
  RAPT_INNER void make_p(const Block &block, std::size_t t) const {
    constexpr std::size_t n = Block::vectors;
    typename Block::Mask masks[n];
    block.make_masks(masks);
    for (std::size_t query = 0; query < call.queries; ++query) {
      const float *const dout = call.dout + static_cast<std::ptrdiff_t>(t) * call.dout_step +
                                static_cast<std::ptrdiff_t>(query) * call.answer_step;
      unroll<n>([&](std::size_t j) RAPT_INNER {
        const V scaled = Math::product(V(call.scale), Math::operand(block.load(dout, j)));
        S::store(p(t, query) + block.first + j * S::width, Block::kept(masks, j, scaled));
      });
    }
  }
  // The heads of q before the last one, and then the last one's output.
  template <class Block>
  [[gnu::noinline, gnu::flatten]] static void enter(const DeltaBackwardHead &head, const Block &block,
                                                    std::size_t t) {
    constexpr std::size_t n = Block::vectors;
    V w[n];
    const DeltaFactors token = head.last_query(t);
    const DeltaColumns columns = head.columns(t, head.call.queries - 1);
    block.template pass<false, true, false>(token, columns, token, columns, nullptr, head.call.gradient,
                                            head.sums(), w);
    head.store_w(block, w);
  }
  template <class Block>
  [[gnu::noinline, gnu::flatten]] static void answer(const DeltaBackwardHead &head, const Block &block,
                                                     std::size_t t, std::size_t query) {
    block.answer(head.factors(t, query), head.columns(t, query), head.decayed(t), head.call.gradient,
                 head.sums());
  }
  // Leaves token t. With `enters`, its only query is followed by that of the token before.
  template <bool enters, bool has_delta, class Block>
  [[gnu::noinline, gnu::flatten]] static void leave(const DeltaBackwardHead &head, const Block &block,
                                                    std::size_t t) {
    constexpr std::size_t n = Block::vectors;
    V w[n];
    const std::size_t next = enters ? t - 1 : t, query = head.call.queries - 1;
    if constexpr (enters) head.make_p(block, next);
    block.template pass<true, enters, has_delta>(head.last_query(t), head.columns(t, query),
                                                 head.last_query(next), head.columns(next, query),
                                                 head.decayed(t), head.call.gradient, head.sums(), w);
    if constexpr (enters) head.store_w(block, w);
  }
  template <class Block, std::size_t n>
  RAPT_INNER void store_w(const Block &block, const V (&of)[n]) const {
    unroll<n>([&](std::size_t j) RAPT_INNER { S::store(w() + block.first + j * S::width, of[j]); });
  }

  // dv, and the lanes of dbeta.
  template <class Block>
  RAPT_INNER void make_dv(const Block &block, std::size_t t, V (&dbeta)[registers]) const {
    constexpr std::size_t n = Block::vectors;
    const auto at = static_cast<std::ptrdiff_t>(t);
    typename Block::Mask masks[n];
    block.make_masks(masks);
    unroll<n>([&](std::size_t j) RAPT_INNER {
      const std::size_t column = block.first + j * S::width;
      const V of = Block::kept(masks, j, S::load(w() + column));
      dbeta[j % registers] = Math::fma(of, S::load(difference(t) + column), dbeta[j % registers]);
      V dv = of;
      if (call.beta) {
        dv = Math::product(Math::operand(V(call.beta[at * call.beta_step])), of);
        S::store(back() + column, Block::kept(masks, j, V(-0.0f) - dv));
      }
      block.store(call.dv + at * call.dv_step, j, dv);
    });
  }

  struct Sum {
    V operator()(V a, V b) const { return Math::sum(a, b); }
  };
  // The lanes of a sum, as one vector.
  RAPT_INNER static V folded(V (&all)[registers]) {
    if constexpr (registers == 4) {
      all[0] = Math::sum(all[0], all[2]), all[1] = Math::sum(all[1], all[3]);
    }
    if constexpr (registers > 1) return Math::sum(all[0], all[1]);
    return all[0];
  }
  RAPT_INNER static V folded(const float *of) {
    V all[registers];
    unroll<registers>([&](std::size_t r) RAPT_INNER { all[r] = S::load(of + r * S::width); });
    return folded(all);
  }
  // Folds the sums of all rows, each `step` elements after the last.
  [[gnu::noinline, gnu::flatten]] static void fold_rows(const float *from, std::size_t step, float *to,
                                                        std::size_t rows) {
    for (std::size_t i = 0; i < rows; i += S::width) {
      V v[S::width];
      unroll<S::width>([&](std::size_t r)
                           RAPT_INNER { v[r] = i + r < rows ? folded(from + (i + r) * step) : V(0.0f); });
      const V all = S::fold_each(v, Sum());
      S::store_first(to + i, all, rows - i);
    }
  }
  [[gnu::noinline, gnu::flatten]] static void make_sums(const DeltaBackwardHead &head, std::size_t t,
                                                        V (&dbeta)[registers]) {
    const rapt::DeltaBackwardCall &call = head.call;
    const std::size_t n = call.key_dim;
    float *const dg = call.decay_key_step != 0 ? call.dg + t * n : head.dg_rows();
    fold_rows(head.sums(), 3 * lanes, call.dq + (t * call.queries + call.queries - 1) * n, n);
    fold_rows(head.sums() + lanes, 3 * lanes, call.dk + t * n, n);
    fold_rows(head.sums() + 2 * lanes, 3 * lanes, dg, n);
    V all[S::width], of_head[registers];
    unroll<S::width>([&](std::size_t r) RAPT_INNER { all[r] = V(0.0f); });
    unroll<registers>([&](std::size_t r) RAPT_INNER { of_head[r] = V(0.0f); });
    all[0] = folded(dbeta);
    if (call.decay_key_step == 0) {
      for (std::size_t i = n; i % lanes != 0; ++i) dg[i] = 0;
      for (std::size_t i = 0; i < n; i += lanes) {
        unroll<registers>([&](std::size_t r) RAPT_INNER {
          of_head[r] = Math::fma(S::load(dg + i + r * S::width), V(1.0f), of_head[r]);
        });
      }
      all[1] = folded(of_head);
    }
    float results[S::width];
    S::store(results, S::fold_each(all, Sum()));
    call.dbeta[t] = results[0];
    if (call.decay_key_step == 0) call.dg[t] = results[1];
  }

  // Computes all tokens. It is not inlined, so that no operation leaves the mode it needs.
  template <bool has_delta>
  [[gnu::noinline, gnu::flatten]] static void run(const DeltaBackwardHead &head) {
    const rapt::DeltaBackwardCall &call = head.call;
    head.each_block([&](const auto &block) RAPT_INNER { see(head, block); });
    if (call.after) return;
    head.take_gradient();
    bool is_entered = false;
    for (std::size_t t = call.tokens; t-- > 0;) {
      if (!is_entered) enter_all(head, t);
      V dbeta[registers];
      unroll<registers>([&](std::size_t r) RAPT_INNER { dbeta[r] = V(0.0f); });
      make_all_dv(head, t, dbeta);
      is_entered = t > 0 && call.queries == 1;
      head.each_block([&](const auto &block) RAPT_INNER {
        is_entered ? leave<true, has_delta>(head, block, t) : leave<false, has_delta>(head, block, t);
      });
      make_sums(head, t, dbeta);
    }
  }
  [[gnu::noinline, gnu::flatten]] static void enter_all(const DeltaBackwardHead &head, std::size_t t) {
    head.each_block([&](const auto &block) RAPT_INNER { make_all_p(head, block, t); });
    for (std::size_t query = 0; query + 1 < head.call.queries; ++query) {
      head.each_block([&](const auto &block) RAPT_INNER { answer(head, block, t, query); });
      fold_rows(head.sums(), lanes, head.call.dq + (t * head.call.queries + query) * head.call.key_dim,
                head.call.key_dim);
    }
    head.each_block([&](const auto &block) RAPT_INNER { enter(head, block, t); });
  }
  template <class Block>
  [[gnu::noinline, gnu::flatten]] static void make_all_p(const DeltaBackwardHead &head, const Block &block,
                                                         std::size_t t) {
    head.make_p(block, t);
  }
  [[gnu::noinline, gnu::flatten]] static void make_all_dv(const DeltaBackwardHead &head, std::size_t t,
                                                          V (&dbeta)[registers]) {
    head.each_block([&](const auto &block) RAPT_INNER { head.make_dv(block, t, dbeta); });
  }
  // The caller's gradient may have subnormal numbers.
  [[gnu::noinline, gnu::flatten]] void take_gradient() const {
    for (std::size_t i = 0; i < parts.state; i += S::width)
      S::store(call.gradient + i, Math::operand(S::load(call.gradient + i)));
  }
};

template <class Head>
void run_delta_backward(const rapt::DeltaBackwardCall &call) {
  call.beta ? Head::template run<true>(Head{call}) : Head::template run<false>(Head{call});
}

template <class E>
void delta_rule_backward(const rapt::DeltaBackwardCall *call) {
  using S = simd<E>;
  constexpr std::size_t registers = rapt::delta_lanes / S::width, most = S::registers == 32 ? 8 : 4;
  const rapt::DeltaBackwardScratch parts(call->key_dim, call->columns);
  // Gradients are replaced: for CPUs that flush before they round, they are copied.
  const bool is_doubtful = flushes_before_rounding<typename S::Flushing>();
  float *const copy = call->scratch + parts.copy(call->tokens);
  const auto copy_gradient = [&](const float *from, float *to) {
    for (std::size_t i = 0; i < parts.state && !call->after; ++i) to[i] = from[i];
  };
  if (is_doubtful) copy_gradient(call->gradient, copy);
  bool has_flushed;
  {
    const typename S::Flushing flushing;
    run_delta_backward<DeltaBackwardHead<S, FlushedByCpu<S>, most>>(*call);
    has_flushed = flushing.has_flushed();
  }
  if (!is_doubtful || !has_flushed) return;
  copy_gradient(copy, call->gradient);
  run_delta_backward<DeltaBackwardHead<S, FlushedExactly<S>, registers>>(*call);
}

}  // namespace
