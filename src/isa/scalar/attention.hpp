// The reference of attention: one row at a time, and every score of a block in key order.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "call/attention_call.hpp"
#include "contract/attention.hpp"
#include "contract/log.hpp"
#include "isa/scalar/dot.hpp"
#include "isa/scalar/exp.hpp"
#include "isa/scalar/softmax.hpp"

namespace {

// 2^(distance * to_log2); 0 at `cutoff` and below.
template <class T>
T weight(T distance, T to_log2, T cutoff) {
  using C = rapt::AttentionContract<T>;
  if (std::isnan(distance) || std::isnan(to_log2)) return std::numeric_limits<T>::quiet_NaN();
  if (distance <= cutoff) return 0;
  const T n = std::fma(distance, to_log2, C::round_magic) - C::round_magic;
  const T r = std::fma(distance, to_log2, -n);
  T p = C::c[C::coefficient_count - 1];
  for (std::size_t i = C::coefficient_count - 1; i-- > 0;) p = std::fma(p, r, C::c[i]);
  p = std::fma(p, r, T(1));
  return std::isfinite(n) ? p * power_of_two<T>(static_cast<int>(n)) : std::numeric_limits<T>::quiet_NaN();
}

// A result over some keys: relative to their largest score, the sum of weights and the weighted sum of
// values.
template <class T>
struct AttentionState {
  T max = -std::numeric_limits<T>::infinity();
  T sum = 0;
  T *values;

  AttentionState(T *storage, std::size_t v_dim) : values(storage) {
    for (std::size_t d = 0; d < v_dim; ++d) values[d] = 0;
  }
  // What distances are taken from: -inf - -inf would be NaN.
  T reference() const { return max == -std::numeric_limits<T>::infinity() ? T(0) : max; }
};

template <class T>
class AttentionRow {
 public:
  AttentionRow(const AttentionTile &tile, AttentionTile::Row row)
      : tile_(tile),
        row_(row),
        o_(tile.options()),
        scale_(tile, row),
        range_(tile.range(row)),
        natural_(1.0) {}

  // Keys [begin, end), which lie in one chunk.
  void take_keys(AttentionState<T> &state, std::size_t begin, std::size_t end) const {
    constexpr std::size_t block = rapt::attention_block;
    for (std::size_t key = begin; key < end; key += block) {
      take_block(state, key, end - key < block ? end - key : block);
    }
  }

  void fold(AttentionState<T> &total, const AttentionState<T> &next) const {
    const T total_max = total.max;
    if (next.max > total.max) total.max = next.max;
    const T a = weight_of(total_max - total.reference()), b = weight_of(next.max - total.reference());
    total.sum = std::fma(next.sum, b, total.sum * a);
    for (std::size_t d = 0; d < o_.v_dim; ++d) {
      total.values[d] = std::fma(next.values[d], b, total.values[d] * a);
    }
  }

  void finish(const AttentionState<T> &state) const {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    T *out = tile_.out<T>(row_), *lse = tile_.lse<T>(row_);
    const T sink = tile_.sink<T>(row_);
    if (state.max == -infinity && state.sum == 0) {
      for (std::size_t d = 0; d < o_.v_dim; ++d) out[d] = 0;
      if (lse) *lse = sink;
      return;
    }
    using C = rapt::AttentionContract<T>;
    T to_weight = 1, sum = state.sum;
    double base = double{state.max} * scale_.to_natural;
    if (sink != -infinity) {
      // In units of log 2.
      const T largest = state.max * scale_.to_log2, sink_log2 = static_cast<T>(double{sink} * C::log2_e);
      const T top = sink_log2 > largest ? sink_log2 : largest;
      to_weight = weight(largest - top, T(1), C::lowest_log2);
      sum = std::fma(sum, to_weight, weight(sink_log2 - top, T(1), C::lowest_log2));
      base = double{top} * C::ln_2;
    }
    const T factor = to_weight / sum;
    for (std::size_t d = 0; d < o_.v_dim; ++d) out[d] = state.values[d] * factor + T(0);
    if (lse) {
      *lse = std::isfinite(sum) && std::isfinite(base) ? static_cast<T>(base + log_of_sum(double{sum}))
                                                       : std::numeric_limits<T>::quiet_NaN();
    }
  }

  bool visible(std::size_t key) const {
    if (key < range_.first || key >= range_.end) return false;
    if (const std::uint8_t *mask = tile_.mask(row_); mask && mask[key] == 0) return false;
    const T *bias = tile_.bias<T>(row_);
    return !bias || bias[key] != -std::numeric_limits<T>::infinity();
  }

  // Of key block + j; `slope` becomes the derivative of the softcap there.
  T score(std::size_t block, std::size_t j, T *slope = nullptr) const {
    const std::size_t key = block + j;
    const T *q = tile_.q<T>(row_), *k = tile_.k<T>(key);
    const std::size_t step = o_.packed_keys ? rapt::attention_block : 1;
    T t = 0;
    for (std::size_t d = 0; d < o_.qk_dim; ++d) t = std::fma(q[d] * scale_.sign, k[d * step], t);
    if (!scale_.made) return t;
    t = t * scale_.factor;
    if (scale_.cap != 0) {
      const T tanh = tanh_one(natural_, t);
      if (slope) *slope = std::fma(-tanh, tanh, T(1));
      t = scale_.cap * tanh;
    }
    if (o_.alibi_slopes) {
      const auto to_block = static_cast<std::int64_t>(block) - tile_.position(row_);
      t = std::fma(scale_.slope, static_cast<T>(to_block) + static_cast<T>(j), t);
    }
    if (o_.bias) t = t + tile_.bias<T>(row_)[key];
    return t;
  }

 private:
  T weight_of(T distance) const { return weight(distance, scale_.to_log2, scale_.cutoff); }

  // Scores of excluded keys are not computed: they count as a weight of 0, and their values not at all.
  void take_block(AttentionState<T> &state, std::size_t first, std::size_t keys) const {
    constexpr std::size_t block = rapt::attention_block;
    T w[block] = {};
    bool is_visible[block] = {};
    const T max_before = state.max;
    for (std::size_t j = 0; j < keys; ++j) {
      is_visible[j] = visible(first + j);
      if (!is_visible[j]) continue;
      w[j] = score(first, j);
      if (w[j] > state.max) state.max = w[j];
    }
    const T reference = state.reference();
    const T rescale = weight_of(max_before - reference);
    for (std::size_t d = 0; d < o_.v_dim; ++d) state.values[d] = state.values[d] * rescale;
    for (std::size_t j = 0; j < keys; ++j) {
      if (!is_visible[j]) continue;
      w[j] = weight_of(w[j] - reference);
      const T *v = tile_.v<T>(first + j);
      for (std::size_t d = 0; d < o_.v_dim; ++d) state.values[d] = std::fma(w[j], v[d], state.values[d]);
    }
    state.sum = std::fma(state.sum, rescale, ::fold(w));
  }

  const AttentionTile &tile_;
  AttentionTile::Row row_;
  const rapt_attention_options &o_;
  AttentionScale<T> scale_;
  AttentionTile::Range range_;
  Reduction<T> natural_;
};

template <class T>
void attention_whole(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  const std::size_t v_dim = call->options.v_dim;
  T *const storage = static_cast<T *>(workspace);
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task);
    for (std::size_t r = 0; r < tile.rows(); ++r) {
      const AttentionRow<T> row(tile, tile.row(r));
      AttentionState<T> total(storage, v_dim);
      for (std::size_t key = 0; key < tile.kv_len(); key += rapt::attention_chunk) {
        AttentionState<T> chunk(storage + v_dim, v_dim);
        const std::size_t left = tile.kv_len() - key;
        row.take_keys(chunk, key, key + (left < rapt::attention_chunk ? left : rapt::attention_chunk));
        row.fold(total, chunk);
      }
      row.finish(total);
    }
  }
}

// Tasks chunk by chunk. No zero of a partial result is negative.
template <class T>
void attention_partial(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                       void *workspace) {
  const std::size_t v_dim = call->options.v_dim;
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task % call->tiles());
    const std::size_t chunk = task / call->tiles(), begin = chunk * rapt::attention_chunk;
    for (std::size_t r = 0; r < tile.rows(); ++r) {
      AttentionState<T> state(static_cast<T *>(workspace), v_dim);
      if (begin < tile.kv_len()) {
        const std::size_t left = tile.kv_len() - begin;
        AttentionRow<T>(tile, tile.row(r))
            .take_keys(state, begin, begin + (left < rapt::attention_chunk ? left : rapt::attention_chunk));
      }
      T *partial = tile.partial<T>(tile.row(r), chunk);
      partial[0] = state.max + T(0);
      partial[1] = state.sum;
      for (std::size_t d = 0; d < v_dim; ++d) partial[2 + d] = state.values[d] + T(0);
    }
  }
}

template <class T>
void attention_merge(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  const std::size_t v_dim = call->options.v_dim;
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task);
    for (std::size_t r = 0; r < tile.rows(); ++r) {
      const AttentionRow<T> row(tile, tile.row(r));
      AttentionState<T> total(static_cast<T *>(workspace), v_dim);
      for (std::size_t c = 0; c < call->chunks(); ++c) {
        T *partial = tile.partial<T>(tile.row(r), c);
        AttentionState<T> chunk(partial + 2, 0);
        chunk.max = partial[0];
        chunk.sum = partial[1];
        row.fold(total, chunk);
      }
      row.finish(total);
    }
  }
}

template <class T>
void attention(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  switch (call->stage) {
    case rapt::AttentionStage::whole:
      return attention_whole<T>(call, first, last, workspace);
    case rapt::AttentionStage::partial:
      return attention_partial<T>(call, first, last, workspace);
    case rapt::AttentionStage::merge:
      return attention_merge<T>(call, first, last, workspace);
  }
}

}  // namespace
