// Computes attention as rapt.h defines it, one query at a time in long double, from arrays without strides,
// pages or tiles. It shares no code with the library; both follow the text of rapt.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace rapt::test::oracle {

enum class Causal { none, bottom_right, offset };

// Says along which dimensions an array has only one entry, which all indices share.
struct Repeats {
  bool batch = false, head = false, token = false;
};

// Arrays have no gaps between rows. An empty array means that the option is not set.
template <class T>
struct Attention {
  std::size_t batch = 1, q_heads = 1, kv_heads = 1, q_len = 0, kv_len = 0, qk_dim = 1, v_dim = 1;
  std::vector<T> q, k, v;  // [batch][heads][tokens][dim]
  // int8 keys and values have scales, [batch][kv_heads][kv_len][scale groups]. attention_truth() needs k and
  // v that are already multiplied by the scales.
  std::vector<T> k_scales, v_scales;
  std::size_t scale_group = 0;

  double scale = 0;
  std::vector<T> query_scales;  // [batch][q_heads][q_len]
  double softcap = 0;
  std::vector<T> alibi_slopes;  // [q_heads]
  std::vector<T> bias;          // [batch][q_heads][q_len][kv_len] without repeated dimensions
  Repeats bias_repeats;
  std::vector<T> sinks;  // [q_heads]

  Causal causal = Causal::none;
  std::ptrdiff_t causal_offset = 0;
  std::ptrdiff_t window_left = -1, window_right = -1;
  std::size_t window_chunk = 0;
  std::vector<std::uint8_t> mask;  // in the shape of a bias
  Repeats mask_repeats;
  std::vector<std::int32_t> q_lengths, kv_lengths;  // [batch]
  std::vector<std::int32_t> q_starts, kv_starts;    // [batch]

  std::size_t q_heads_per_kv_head() const { return q_heads / kv_heads; }
  std::size_t queries(std::size_t b) const {
    return q_lengths.empty() ? q_len : static_cast<std::size_t>(q_lengths[b]);
  }
  std::size_t keys(std::size_t b) const {
    return kv_lengths.empty() ? kv_len : static_cast<std::size_t>(kv_lengths[b]);
  }
  // Returns the first key of the sequence. Padding is before it.
  std::size_t start(std::size_t b) const {
    return kv_starts.empty() ? 0 : static_cast<std::size_t>(kv_starts[b]);
  }
  // Returns the index of a query's row in an array with repeated dimensions.
  std::size_t row(Repeats repeats, std::size_t b, std::size_t h, std::size_t i) const {
    const std::size_t heads = repeats.head ? 1 : q_heads, tokens = repeats.token ? 1 : q_len;
    return ((repeats.batch ? 0 : b) * heads + (repeats.head ? 0 : h)) * tokens + (repeats.token ? 0 : i);
  }
  std::size_t rows(Repeats repeats) const {
    return (repeats.batch ? 1 : batch) * (repeats.head ? 1 : q_heads) * (repeats.token ? 1 : q_len);
  }
  const T *query(std::size_t b, std::size_t h, std::size_t i) const {
    return q.data() + row({}, b, h, i) * qk_dim;
  }
  std::size_t kv_row(std::size_t b, std::size_t h, std::size_t j) const {
    return (b * kv_heads + h / q_heads_per_kv_head()) * kv_len + j;
  }
  std::size_t group_of(std::size_t dim) const { return scale_group != 0 ? scale_group : dim; }
  Attention multiplied() const {
    Attention made = *this;
    for (std::size_t i = 0; i < made.k.size(); ++i) made.k[i] *= k_scales[i / group_of(qk_dim)];
    for (std::size_t i = 0; i < made.v.size(); ++i) made.v[i] *= v_scales[i / group_of(v_dim)];
    return made;
  }
};

// An offset may be any ptrdiff_t, so sums of offsets need more bits.
__extension__ using Position = __int128;

template <class T>
Position position_of(const Attention<T> &a, std::size_t b, std::size_t i) {
  if (a.causal == Causal::offset) return Position{i} + a.causal_offset;
  return Position{i} + static_cast<Position>(a.keys(b)) - static_cast<Position>(a.queries(b));
}

template <class T>
bool is_visible(const Attention<T> &a, std::size_t b, std::size_t h, std::size_t i, std::size_t key) {
  const Position p = position_of(a, b, i), j = static_cast<Position>(key);
  if (key >= a.keys(b) || key < a.start(b)) return false;
  if (!a.q_starts.empty() && i < static_cast<std::size_t>(a.q_starts[b])) return false;
  if (a.causal != Causal::none && j > p) return false;
  if (a.window_left >= 0 && j < p - a.window_left) return false;
  if (a.window_right >= 0 && j > p + a.window_right) return false;
  if (a.window_chunk != 0) {
    const Position length = static_cast<Position>(a.window_chunk);
    const auto chunk_of = [&](Position at) {
      at -= static_cast<Position>(a.start(b));
      return at >= 0 ? at / length : -((-at + length - 1) / length);
    };
    if (chunk_of(j) != chunk_of(p)) return false;
  }
  if (!a.mask.empty() && a.mask[a.row(a.mask_repeats, b, h, i) * a.kv_len + key] == 0) return false;
  return a.bias.empty() ||
         a.bias[a.row(a.bias_repeats, b, h, i) * a.kv_len + key] != -std::numeric_limits<T>::infinity();
}

// Holds a key's score, and the parts of it that the gradient needs.
struct ScoreTruth {
  long double dot = 0, value = 0;
  long double slope = 1;  // the derivative of the softcap
  long double terms = 0;  // the sum of the magnitudes that are added up to the score
};

template <class T>
long double scale_of(const Attention<T> &a, std::size_t b, std::size_t h, std::size_t i) {
  const auto scale =
      a.scale == 0 ? 1 / std::sqrt(static_cast<long double>(a.qk_dim)) : static_cast<long double>(a.scale);
  return a.query_scales.empty() ? scale
                                : scale * static_cast<long double>(a.query_scales[a.row({}, b, h, i)]);
}

template <class T>
ScoreTruth score_truth(const Attention<T> &a, std::size_t b, std::size_t h, std::size_t i, std::size_t j) {
  using Real = long double;
  const Real scale = scale_of(a, b, h, i), cap = static_cast<Real>(a.softcap);
  const T *query = a.query(b, h, i), *key = a.k.data() + a.kv_row(b, h, j) * a.qk_dim;
  ScoreTruth score;
  for (std::size_t d = 0; d < a.qk_dim; ++d) {
    const Real product = Real{query[d]} * Real{key[d]};
    score.dot += product;
    score.terms += std::fabs(scale * product);
  }
  score.value = scale * score.dot;
  if (cap != 0) {
    const Real tanh = std::tanh(score.value / cap);
    score.value = cap * tanh;
    score.slope = 1 - tanh * tanh;
  }
  const auto add = [&](Real added) {
    score.value += added;
    score.terms += std::fabs(added);
  };
  if (!a.alibi_slopes.empty())
    add(Real{a.alibi_slopes[h]} * (static_cast<Real>(j) - static_cast<Real>(position_of(a, b, i))));
  if (!a.bias.empty()) add(Real{a.bias[a.row(a.bias_repeats, b, h, i) * a.kv_len + j]});
  return score;
}

struct AttentionTruth {
  // False if a visible score or the sink is NaN or +inf, or if a visible value is not finite.
  bool is_finite = true;
  bool has_nan = false;   // a visible score is NaN or +inf
  bool is_empty = false;  // every visible score is -inf, or no key is visible
  bool is_blind = false;  // no key is visible
  // True if a value that is not finite has such a small weight that the weight may count as 0.
  bool is_vague = false;
  std::vector<long double> out;
  long double lse = 0, largest_score = -std::numeric_limits<long double>::infinity();  // ignores NaN
  // Error bounds need the largest ScoreTruth::terms and the largest |v| of the visible keys.
  long double score_terms = 0, largest_value = 0;
};

// Computes attention over the keys [first, end). The sink counts as one more key.
template <class T>
AttentionTruth attention_truth(const Attention<T> &a, std::size_t b, std::size_t h, std::size_t i,
                               std::size_t first = 0, std::size_t end = SIZE_MAX) {
  using Real = long double;
  constexpr Real infinity = std::numeric_limits<Real>::infinity();
  AttentionTruth truth;
  const Real sink = a.sinks.empty() ? -infinity : Real{a.sinks[h]};
  if (std::isnan(sink) || sink == infinity) truth.is_finite = false;

  std::vector<Real> scores;
  std::vector<std::size_t> keys;
  Real max = sink;
  bool any_finite = false;
  for (std::size_t j = first; j < std::min(end, a.keys(b)); ++j) {
    if (!is_visible(a, b, h, i, j)) continue;
    const ScoreTruth score = score_truth(a, b, h, i, j);
    const Real s = score.value;
    truth.has_nan = truth.has_nan || std::isnan(s) || s == infinity;
    any_finite = any_finite || s > -infinity;
    if (std::isfinite(s)) truth.score_terms = std::max(truth.score_terms, score.terms);
    if (s > truth.largest_score) truth.largest_score = s;
    const T *value = a.v.data() + a.kv_row(b, h, j) * a.v_dim;
    for (std::size_t d = 0; d < a.v_dim; ++d) {
      if (!std::isfinite(value[d])) {
        truth.is_finite = false;
      } else {
        truth.largest_value = std::max(truth.largest_value, std::fabs(Real{value[d]}));
      }
    }
    keys.push_back(j);
    scores.push_back(s);
    max = std::max(max, s);
  }
  truth.out.assign(a.v_dim, 0);
  truth.is_empty = !truth.has_nan && !any_finite;
  truth.is_blind = keys.empty();
  truth.lse = sink;
  if (truth.has_nan) truth.is_finite = false;
  if (truth.has_nan || truth.is_empty || std::isnan(sink) || sink == infinity) return truth;
  Real sum = std::exp(sink - max);
  for (std::size_t n = 0; n < keys.size(); ++n) {
    const Real weight = std::exp(scores[n] - max);
    sum += weight;
    const T *value = a.v.data() + a.kv_row(b, h, keys[n]) * a.v_dim;
    for (std::size_t d = 0; d < a.v_dim; ++d) {
      truth.is_vague = truth.is_vague || (!std::isfinite(value[d]) && weight < 0x1p-50L);
      truth.out[d] += weight * Real{value[d]};
    }
  }
  for (Real &out : truth.out) out /= sum;
  truth.lse = max + std::log(sum);
  return truth;
}

}  // namespace rapt::test::oracle
