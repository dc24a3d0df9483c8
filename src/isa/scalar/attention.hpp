// Implements the scalar reference of attention. The code computes one row at a time, and the scores of a
// block in key order.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "call/attention_call.hpp"
#include "call/attention_scale.hpp"
#include "call/attention_tile.hpp"
#include "call/element.hpp"
#include "contract/attention.hpp"
#include "contract/fused.hpp"
#include "contract/log.hpp"
#include "contract/types.hpp"
#include "isa/scalar/bf16_arithmetic.hpp"
#include "isa/scalar/dot.hpp"
#include "isa/scalar/exp.hpp"
#include "isa/scalar/quantized_rows.hpp"
#include "isa/scalar/softmax.hpp"

namespace {

// Returns 2^(distance * to_log2), or 0 if `distance` is at or below `cutoff`.
template <class A>
A weight(A distance, A to_log2, A cutoff) {
  using C = rapt::AttentionContract<A>;
  if (std::isnan(distance) || std::isnan(to_log2)) return std::numeric_limits<A>::quiet_NaN();
  if (distance <= cutoff) return 0;
  const A n = fused(distance, to_log2, C::round_magic) - C::round_magic;
  const A r = fused(distance, to_log2, -n);
  A p = C::c[C::coefficient_count - 1];
  for (std::size_t i = C::coefficient_count - 1; i-- > 0;) p = fused(p, r, C::c[i]);
  p = fused(p, r, A(1));
  return std::isfinite(n) ? p * power_of_two<A>(static_cast<int>(n)) : std::numeric_limits<A>::quiet_NaN();
}

// Holds a result over some keys: the largest score, the sum of weights and the weighted sum of values. Both
// sums are relative to the largest score.
template <class A>
struct AttentionState {
  A max = -std::numeric_limits<A>::infinity();
  A sum = 0;
  A *values;

  AttentionState(A *storage, std::size_t v_dim) : values(storage) {
    for (std::size_t d = 0; d < v_dim; ++d) values[d] = 0;
  }
  // Returns the score to which distances are measured. It is never -inf, because -inf - -inf would be NaN.
  A reference() const { return max == -std::numeric_limits<A>::infinity() ? A(0) : max; }
};

// The element of keys and values that are dequantized, whose rows have the types of the options.
struct AnyElement {
  std::uint8_t byte;
};

template <class E>
class AttentionRow {
 public:
  using A = rapt::Arithmetic<E>;

  AttentionRow(const AttentionTile &tile, AttentionTile::Row row)
      : tile_(tile),
        row_(row),
        o_(tile.options()),
        scale_(tile, row),
        range_(tile.range(row)),
        natural_(1.0) {}

  // Adds the keys [begin, end), which must be in one chunk.
  void add_keys(AttentionState<A> &state, std::size_t begin, std::size_t end) const {
    constexpr std::size_t block = rapt::attention_block;
    if constexpr (std::is_same_v<E, rapt::BF16>) {
      if (o_.arithmetic == RAPT_ARITHMETIC_BF16) return add_keys_by_k32(state, begin, end);
    }
    for (std::size_t key = begin; key < end; key += block) {
      add_block(state, key, end - key < block ? end - key : block);
    }
  }

  void fold(AttentionState<A> &total, const AttentionState<A> &next) const {
    const A total_max = total.max;
    if (next.max > total.max) total.max = next.max;
    const A a = weight_of(total_max - total.reference()), b = weight_of(next.max - total.reference());
    total.sum = fused(next.sum, b, total.sum * a);
    for (std::size_t d = 0; d < o_.v_dim; ++d) {
      total.values[d] = fused(next.values[d], b, total.values[d] * a);
    }
  }

  void finish(const AttentionState<A> &state) const {
    constexpr A infinity = std::numeric_limits<A>::infinity();
    A *lse = tile_.lse<A>(row_);
    const A sink = tile_.sink<A>(row_);
    if (state.max == -infinity && state.sum == 0) {
      store([&](std::size_t) { return std::isnan(sink) ? sink : A(0); });
      if (lse) *lse = sink;
      return;
    }
    using C = rapt::AttentionContract<A>;
    A to_weight = 1, sum = state.sum;
    double from = double{state.max} * scale_.to_natural;
    bool is_alone = sum == weight_of_max(state.max);  // no other weight counts
    if (sink != -infinity) {
      // largest, sink_log2 and top are in units of log 2.
      const A largest = state.max * scale_.to_log2, sink_log2 = static_cast<A>(double{sink} * C::log2_e);
      const A top = sink_log2 > largest ? sink_log2 : largest;
      to_weight = weight(largest - top, A(1), C::lowest_log2);
      sum = fused(sum, to_weight, weight(sink_log2 - top, A(1), C::lowest_log2));
      is_alone = sum == (sink_log2 > largest ? A(1) : weight_of_max(state.max));
      if (sink_log2 > largest) from = double{sink};
    }
    const A factor = to_weight / sum;
    store([&](std::size_t d) { return state.values[d] * factor + A(0); });
    if (lse) {
      const double log_sum = is_alone ? 0 : log_of_sum(double{sum});
      *lse = std::isfinite(sum) && std::isfinite(from) ? static_cast<A>(from + log_sum)
                                                       : std::numeric_limits<A>::quiet_NaN();
    }
  }

  // Returns the weight of the score that the other weights are relative to.
  A weight_of_max(A max) const {
    if constexpr (std::is_same_v<E, rapt::BF16>) {
      using C = rapt::Bf16Contract;
      const A offset = (0 - max) * scale_.to_log2;
      const bool is_rounded = o_.arithmetic == RAPT_ARITHMETIC_BF16 && std::fabs(offset) < C::far;
      if (is_rounded) return C::from_weights * rounded_weight(fused(max, scale_.to_log2, offset));
    }
    return 1;
  }

  bool visible(std::size_t key) const {
    if (key < range_.first || key >= range_.end || tile_.is_missing(key)) return false;
    if (const std::uint8_t *mask = tile_.mask(row_); mask && mask[key] == 0) return false;
    return !o_.bias || tile_.bias_at<A>(row_, key) != -std::numeric_limits<A>::infinity();
  }

  // Returns the score of key block + j. `slope` receives the derivative of the softcap at this score.
  A score(std::size_t block, std::size_t j, A *slope = nullptr) const {
    const std::size_t key = block + j;
    return score_of(dot_with(key), block, j, slope);
  }

  // Returns the score of key block + j, whose dot product is t. `slope` receives the derivative of the
  // softcap at this score.
  A score_of(A t, std::size_t block, std::size_t j, A *slope = nullptr) const {
    const std::size_t key = block + j;
    if (scale_.cap != 0) {
      const A tanh = tanh_one(natural_, t * scale_.factor);
      if (slope) *slope = fused(-tanh, tanh, A(1));
      t = scale_.cap * tanh;
    }
    if (o_.alibi_slopes) {
      const auto to_block = static_cast<std::int64_t>(block) - tile_.position(row_);
      t = fused(scale_.slope, static_cast<A>(to_block) + static_cast<A>(j), t);
    }
    if (o_.bias) t = biased(t, fused(tile_.bias_at<A>(row_, key), scale_.from_natural, t));
    return t;
  }

 protected:
  // Return number d of a key and of a value.
  A number_of_key(std::size_t key, std::size_t d) const {
    return number(tile_.k<E>(key), o_.kv_type, d, o_.qk_dim, [&] { return tile_.k_scales(key); });
  }
  A number_of_value(std::size_t key, std::size_t d) const {
    return number(tile_.v<E>(key), o_.v_type, d, o_.v_dim, [&] { return tile_.v_scales(key); });
  }
  // Returns number d of a row of `dim`. Only RAPT_I4 has scales() here.
  template <class Scales>
  A number(const E *row, [[maybe_unused]] rapt_type type, std::size_t d, [[maybe_unused]] std::size_t dim,
           [[maybe_unused]] Scales scales) const {
    if constexpr (std::is_same_v<E, AnyElement>) {
      if (type != RAPT_I4) return number_of_row(type, &row->byte, d);
      using Row = rapt::I4Row;
      const int integer = integer_of_code<Row>(&row->byte + d / Row::inputs * Row::bytes, d % Row::inputs);
      return static_cast<float>(integer) * scales()[d / rapt::scale_group_of(o_, dim)];
    } else {
      return rapt::widened(row[d]);
    }
  }
  A dot_with(std::size_t key) const {
    const std::size_t step = o_.packed_keys ? rapt::packed_dim_stride : 1;
    A t = 0;
    rapt::with_element<A>(o_.q_type, [&](auto element) {
      using Q = typename decltype(element)::type;
      const auto *q = tile_.q<Q>(row_);
      const auto q_at = [&](std::size_t d) { return rapt::widened(q[d]) * scale_.sign; };
      const auto k_at = [&](std::size_t d) { return number_of_key(key, d * step); };
      if constexpr (std::is_same_v<E, rapt::BF16> && std::is_same_v<Q, rapt::BF16>) {
        if (o_.arithmetic == RAPT_ARITHMETIC_BF16) {
          t = add_k32s(0, o_.qk_dim, q_at, k_at);
          return;
        }
      }
      for (std::size_t d = 0; d < o_.qk_dim; ++d) t = fused(q_at(d), k_at(d), t);
    });
    return t;
  }

  // Adds the keys of one chunk in RAPT_ARITHMETIC_BF16.
  void add_keys_by_k32(AttentionState<A> &state, std::size_t begin, std::size_t end) const {
    using C = rapt::Bf16Contract;
    constexpr std::size_t block = rapt::attention_block;
    const A c = scale_.to_log2;
    A base = 0, offset = 0;  // z of a score s is (s - base) * c + offset
    const auto z_of = [&](A score) { return fused(score - base, c, offset); };
    for (std::size_t first = begin; first < end; first += block) {
      const std::size_t keys = end - first < block ? end - first : block;
      A s[block], largest = -std::numeric_limits<A>::infinity();
      bool is_visible[block];
      for (std::size_t j = 0; j < keys; ++j) {
        is_visible[j] = visible(first + j);
        if (!is_visible[j]) continue;
        s[j] = score(first, j);
        if (s[j] > largest) largest = s[j];
      }
      const bool has_reference = state.max != -std::numeric_limits<A>::infinity();
      if (largest != -std::numeric_limits<A>::infinity() &&
          (!has_reference || !(z_of(largest) < C::move_from))) {
        if (has_reference) {
          const A rescale = weight_of(state.max - largest);
          for (std::size_t d = 0; d < o_.v_dim; ++d) state.values[d] *= rescale;
          state.sum *= rescale;
        }
        state.max = largest;
        offset = (0 - largest) * c;
        const bool is_far = !(std::fabs(offset) < C::far);
        base = is_far ? largest : 0;
        offset = is_far ? 0 : offset;
      }
      const auto weight_at = [&](std::size_t j) { return is_visible[j] ? rounded_weight(z_of(s[j])) : A(0); };
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        state.values[d] = add_k32s(state.values[d], keys, weight_at, [&](std::size_t j) {
          return is_visible[j] ? rapt::widened(tile_.v<E>(first + j)[d]) : A(0);
        });
      }
      state.sum = add_k32s(state.sum, keys, weight_at, [](std::size_t) { return A(1); });
    }
    for (std::size_t d = 0; d < o_.v_dim; ++d) state.values[d] *= C::from_weights;
    state.sum *= C::from_weights;
  }
  // Returns 2^z * 2^-7, rounded to bf16.
  static A rounded_weight(A z) {
    using C = rapt::Bf16Contract;
    if (std::isnan(z)) return z;
    if (z < C::lowest) return 0;
    const A f = z - std::floor(z);
    const A t = fused(fused(fused(C::c3, f, C::c2), f, C::c1), f, z) + C::magic;
    return rapt::widened(rapt::BF16{static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, t))});
  }

  template <class F>
  void store(F result) const {
    rapt::with_element<A>(o_.out_type, [&](auto element) {
      using Out = typename decltype(element)::type;
      Out *out = tile_.out<Out>(row_);
      for (std::size_t d = 0; d < o_.v_dim; ++d) out[d] = rapt::narrowed<Out>(result(d));
    });
  }
  A weight_of(A distance) const { return weight(distance, scale_.to_log2, scale_.cutoff); }

  // Adds a block. Excluded keys have weight 0, and their values are not read.
  void add_block(AttentionState<A> &state, std::size_t first, std::size_t keys) const {
    constexpr std::size_t block = rapt::attention_block;
    A w[block] = {};
    bool is_visible[block] = {};
    const A max_before = state.max;
    for (std::size_t j = 0; j < keys; ++j) {
      is_visible[j] = visible(first + j);
      if (!is_visible[j]) continue;
      w[j] = score(first, j);
      if (w[j] > state.max) state.max = w[j];
    }
    const A reference = state.reference();
    const A rescale = weight_of(max_before - reference);
    for (std::size_t d = 0; d < o_.v_dim; ++d) state.values[d] = state.values[d] * rescale;
    for (std::size_t j = 0; j < keys; ++j) {
      if (!is_visible[j]) continue;
      w[j] = weight_of(w[j] - reference);
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        state.values[d] = fused(w[j], number_of_value(first + j, d), state.values[d]);
      }
    }
    state.sum = fused(state.sum, rescale, ::fold(w));
  }

  const AttentionTile &tile_;
  AttentionTile::Row row_;
  const rapt_attention_options &o_;
  AttentionScale<A> scale_;
  AttentionTile::Range range_;
  Reduction<A> natural_;
};

template <class E>
void attention_whole(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  using A = rapt::Arithmetic<E>;
  const std::size_t v_dim = call->options.v_dim;
  A *const storage = static_cast<A *>(workspace);
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task);
    for (std::size_t r = 0; r < tile.rows(); ++r) {
      const AttentionRow<E> row(tile, tile.row(r));
      AttentionState<A> total(storage, v_dim);
      for (std::size_t key = 0; key < tile.kv_len(); key += rapt::attention_chunk) {
        AttentionState<A> chunk(storage + v_dim, v_dim);
        const std::size_t left = tile.kv_len() - key;
        row.add_keys(chunk, key, key + (left < rapt::attention_chunk ? left : rapt::attention_chunk));
        row.fold(total, chunk);
      }
      row.finish(total);
    }
  }
}

// Runs tasks, which have one tile and one chunk each. A zero of a partial result is never negative.
template <class E>
void attention_partial(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                       void *workspace) {
  using A = rapt::Arithmetic<E>;
  const std::size_t v_dim = call->options.v_dim;
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task % call->tiles());
    const std::size_t chunk = task / call->tiles(), begin = chunk * rapt::attention_chunk;
    for (std::size_t r = 0; r < tile.rows(); ++r) {
      AttentionState<A> state(static_cast<A *>(workspace), v_dim);
      if (begin < tile.kv_len()) {
        const std::size_t left = tile.kv_len() - begin;
        AttentionRow<E>(tile, tile.row(r))
            .add_keys(state, begin, begin + (left < rapt::attention_chunk ? left : rapt::attention_chunk));
      }
      A *partial = tile.partial<A>(tile.row(r), chunk);
      partial[0] = state.max + A(0);
      partial[1] = state.sum;
      for (std::size_t d = 0; d < v_dim; ++d) partial[2 + d] = state.values[d] + A(0);
    }
  }
}

template <class E>
void attention_merge(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  using A = rapt::Arithmetic<E>;
  const std::size_t v_dim = call->options.v_dim;
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task);
    for (std::size_t r = 0; r < tile.rows(); ++r) {
      const AttentionRow<E> row(tile, tile.row(r));
      AttentionState<A> total(static_cast<A *>(workspace), v_dim);
      for (std::size_t c = 0; c < call->chunks(); ++c) {
        A *partial = tile.partial<A>(tile.row(r), c);
        AttentionState<A> chunk(partial + 2, 0);
        chunk.max = partial[0];
        chunk.sum = partial[1];
        row.fold(total, chunk);
      }
      row.finish(total);
    }
  }
}

template <class E>
void attention(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  const auto stage = call->of_stage(attention_whole<E>, attention_partial<E>, attention_merge<E>);
  stage(call, first, last, workspace);
}

// The f32 kernel merges partial results of keys and values of any type.
template <class E>
void attention_dequantizing(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                            void *workspace) {
  const auto stage = call->stage == rapt::AttentionStage::whole ? attention_whole<AnyElement>
                                                                : attention_partial<AnyElement>;
  stage(call, first, last, workspace);
}

template <class E>
void attention_in_bf16(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                       void *workspace) {
  attention<E>(call, first, last, workspace);
}

}  // namespace
