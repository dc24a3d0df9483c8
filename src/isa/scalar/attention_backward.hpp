// Implements the scalar reference of attention's gradient. The code computes one row at a time, and the row's
// keys in order.
#pragma once

#include <cstddef>
#include <limits>

#include "call/attention_call.hpp"
#include "call/attention_scale.hpp"
#include "call/attention_tile.hpp"
#include "call/backward_task.hpp"
#include "contract/fused.hpp"
#include "isa/scalar/attention.hpp"

namespace {

// Returns a dot product, computed as one chain of fused operations.
template <class A, class E>
A chain(const A *a, const E *b, std::size_t n) {
  A sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum = fused(a[i], rapt::widened(b[i]), sum);
  return sum;
}

// Returns the weight 2^distance, or 1 if rounding has made the distance positive. `distance` is a logit minus
// the log-sum-exp, in units of log 2.
template <class A>
A final_weight(A distance) {
  return weight(distance > 0 ? A(0) : distance, A(1), rapt::AttentionContract<A>::lowest_log2);
}

// Holds a row's inputs in the arithmetic type, and its dq. If share.dq is false, dq is only scratch.
template <class A>
struct GradientRow {
  const A *q, *out, *dout;
  A *dq;
};

template <class KV, class A>
void add_gradients(const AttentionTile &tile, AttentionTile::Row row, const TileShare &share,
                   const KeySums<A> &sums, const GradientRow<A> &numbers) {
  using C = rapt::AttentionContract<A>;
  const rapt_attention_options &o = tile.options();
  const AttentionRow<KV> scores(tile, row);
  const AttentionScale<A> scale(tile, row);
  const auto [q, out, dout, dq] = numbers;
  const A lse = *tile.lse<A>(row);
  // If lse is -inf, the row sees no key and has no weights, so lse_log2 may be any finite number.
  const A lse_log2 =
      lse == -std::numeric_limits<A>::infinity() ? A(0) : static_cast<A>(double{lse} * C::log2_e);
  const A to_score = static_cast<A>(tile.scale<A>(row));
  const A mean = chain(dout, out, o.v_dim);
  for (std::size_t d = 0; d < o.qk_dim; ++d) dq[d] = 0;
  for (std::size_t j = 0; j < tile.kv_len(); ++j) {
    const bool is_shared = j >= share.keys.first && j < share.keys.end;
    if (!scores.visible(j) || !(share.dq || is_shared)) continue;
    constexpr std::size_t block = rapt::attention_block;
    A slope = 1;
    const A s = scores.score(j / block * block, j % block, &slope);
    if (s == -std::numeric_limits<A>::infinity()) continue;  // weight 0, even in a row of NaN
    const A w = final_weight(fused(s, scale.to_log2, -lse_log2));
    if (w == 0) continue;
    const A ds = w * (chain(dout, tile.v<KV>(j), o.v_dim) - mean);
    const A g = scale.cap != 0 ? ds * slope * to_score : ds * to_score;
    const KV *k = tile.k<KV>(j);
    for (std::size_t d = 0; d < o.qk_dim; ++d) dq[d] = fused(g, rapt::widened(k[d]), dq[d]);
    if (!is_shared) continue;
    if (A *dbias = tile.dbias<A>(row)) dbias[j] = dbias[j] + ds;
    A *dk = sums.dk(j), *dv = sums.dv(j);
    for (std::size_t d = 0; d < o.v_dim; ++d) dv[d] = fused(w, dout[d], dv[d]);
    for (std::size_t d = 0; d < o.qk_dim; ++d) dk[d] = fused(g, q[d], dk[d]);
  }
  if (share.sinks) {
    A *dsinks = static_cast<A *>(tile.gradients().dsinks);
    const A sink_log2 = static_cast<A>(double{tile.sink<A>(row)} * C::log2_e);
    const bool none = lse == -std::numeric_limits<A>::infinity();
    const A w = none ? A(0) : final_weight(sink_log2 - lse_log2);
    if (w != 0) dsinks[row.q_head] = fused(-w, mean, dsinks[row.q_head]);
  }
}

// Makes every zero of a gradient positive, so that its sign does not depend on which terms of 0 were left
// out.
template <class A>
void make_zeros_positive(A *x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] = x[i] + A(0);
}

template <class E>
void attention_backward(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                        void *workspace) {
  using A = rapt::Arithmetic<E>;
  const rapt_attention_options &o = call->options;
  A *const q = static_cast<A *>(workspace), *const out = q + o.qk_dim, *const dout = out + o.v_dim,
           *const dq = dout + o.v_dim;
  const auto take = [&](const AttentionTile &tile, const TileShare &share) {
    const KeySums<A> sums(tile, static_cast<A *>(workspace));
    for (std::size_t r = 0; r < tile.rows(); ++r) {
      const AttentionTile::Row row = tile.row(r);
      rapt::with_element<A>(o.q_type, [&]<class Q>(rapt::Element<Q>) { widen(tile.q<Q>(row), q, o.qk_dim); });
      rapt::with_element<A>(o.out_type, [&]<class Out>(rapt::Element<Out>) {
        widen(tile.forward_out<Out>(row), out, o.v_dim);
        widen(tile.dout<Out>(row), dout, o.v_dim);
      });
      rapt::with_element<A>(o.kv_type, [&]<class KV>(rapt::Element<KV>) {
        add_gradients<KV>(tile, row, share, sums, GradientRow<A>{q, out, dout, dq});
      });
      if (!share.dq) continue;
      rapt::with_element<A>(tile.dq_type(), [&]<class D>(rapt::Element<D>) {
        for (std::size_t d = 0; d < o.qk_dim; ++d) tile.dq<D>(row)[d] = rapt::narrowed<D>(dq[d] + A(0));
      });
    }
  };
  const auto round = []<class D>(const A *x, D *y, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) y[i] = rapt::narrowed<D>(x[i]);
  };
  for (std::size_t index = first; index < last;) {
    const BackwardTasks tasks(*call, {first, last}, index);
    tasks.run(static_cast<A *>(workspace), take, make_zeros_positive<A>, round);
    index = tasks.end();
  }
}

}  // namespace
