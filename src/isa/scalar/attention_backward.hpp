// The reference of attention's gradient: one row at a time, its keys in order.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "call/attention_call.hpp"
#include "call/begin_gradients.hpp"
#include "isa/scalar/attention.hpp"

namespace {

template <class T>
T chain(const T *a, const T *b, std::size_t n) {
  T sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum = std::fma(a[i], b[i], sum);
  return sum;
}

// Of a logit in units of log 2. No weight is above 1, however far the rounding of large scores is off.
template <class T>
T final_weight(T distance) {
  return weight(distance > 0 ? T(0) : distance, T(1), rapt::AttentionContract<T>::lowest_log2);
}

template <class T>
void add_gradients(const AttentionTile &tile, AttentionTile::Row row, T *dq) {
  using C = rapt::AttentionContract<T>;
  const rapt_attention_options &o = tile.options();
  const AttentionRow<T> scores(tile, row);
  const AttentionScale<T> scale(tile, row);
  const T *q = tile.q<T>(row), *dout = tile.dout<T>(row);
  const T lse = *tile.lse<T>(row);
  // A row that has seen nothing has no weights.
  const T lse_log2 =
      lse == -std::numeric_limits<T>::infinity() ? T(0) : static_cast<T>(double{lse} * C::log2_e);
  const T to_score = static_cast<T>(tile.scale<T>(row));
  const T mean = chain(dout, tile.forward_out<T>(row), o.v_dim);
  for (std::size_t d = 0; d < o.qk_dim; ++d) dq[d] = 0;
  for (std::size_t j = 0; j < tile.kv_len(); ++j) {
    if (!scores.visible(j)) continue;
    constexpr std::size_t block = rapt::attention_block;
    T slope = 1;
    const T s = scores.score(j / block * block, j % block, &slope);
    if (s == -std::numeric_limits<T>::infinity()) continue;  // weight 0, in a row of NaN too
    const T w = final_weight(std::fma(s, scale.to_log2, -lse_log2));
    if (w == 0) continue;
    const T ds = w * (chain(dout, tile.v<T>(j), o.v_dim) - mean);
    if (T *dbias = tile.dbias<T>(row)) dbias[j] = dbias[j] + ds;
    const T g = scale.cap != 0 ? ds * slope * to_score : ds * to_score;
    const T *k = tile.k<T>(j);
    T *dk = tile.dk<T>(j), *dv = tile.dv<T>(j);
    for (std::size_t d = 0; d < o.v_dim; ++d) dv[d] = std::fma(w, dout[d], dv[d]);
    for (std::size_t d = 0; d < o.qk_dim; ++d) {
      dk[d] = std::fma(g, q[d], dk[d]);
      dq[d] = std::fma(g, k[d], dq[d]);
    }
  }
  if (T *dsinks = static_cast<T *>(tile.gradients().dsinks)) {
    const T sink_log2 = static_cast<T>(double{tile.sink<T>(row)} * C::log2_e);
    const bool none = lse == -std::numeric_limits<T>::infinity();
    const T w = none ? T(0) : final_weight(sink_log2 - lse_log2);
    if (w != 0) dsinks[row.q_head] = std::fma(-w, mean, dsinks[row.q_head]);
  }
}

// No zero of a gradient is negative, wherever terms that are 0 have been left out.
template <class T>
void make_zeros_positive(T *x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] = x[i] + T(0);
}

template <class T>
void end_gradients(const BackwardTask &task) {
  const auto of_head = [](const AttentionTile &tile) {
    for (std::size_t j = 0; j < tile.kv_len(); ++j) {
      make_zeros_positive(tile.dk<T>(j), tile.options().qk_dim);
      make_zeros_positive(tile.dv<T>(j), tile.options().v_dim);
    }
    if (T *dsinks = static_cast<T *>(tile.gradients().dsinks)) {
      make_zeros_positive(dsinks + tile.kv_head() * tile.group(), tile.group());
    }
  };
  task.for_each_head(of_head);
}

template <class T>
void attention_backward(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                        void *workspace) {
  const rapt_attention_options &o = call->options;
  T *const dq = static_cast<T *>(workspace);
  for (std::size_t index = first; index < last; ++index) {
    const BackwardTask task(*call, index);
    begin_gradients<T>(task);
    task.for_each_tile([&](const AttentionTile &tile) {
      for (std::size_t r = 0; r < tile.rows(); ++r) {
        const AttentionTile::Row row = tile.row(r);
        add_gradients(tile, row, dq);
        for (std::size_t d = 0; d < o.qk_dim; ++d) tile.dq<T>(row)[d] = dq[d] + T(0);
      }
    });
    end_gradients<T>(task);
  }
}

}  // namespace
