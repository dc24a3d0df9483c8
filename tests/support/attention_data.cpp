#include "support/attention_data.hpp"

#include <cmath>
#include <iterator>
#include <limits>
#include <span>

#include "support/attention_blocks.hpp"
#include "support/remembered.hpp"

namespace rapt::test {
namespace {

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

// Returns whether every row gets values of the class. In other classes only one row in `share` does, because
// one special key affects every query that sees it.
bool is_of_all_rows(InputClass input) {
  return input == InputClass::uniform || input == InputClass::gaussian ||
         input == InputClass::gaussian_wide || input == InputClass::denormals ||
         input == InputClass::signed_zeros;
}

// Makes -2 to 2 times the smallest subnormal number. Its products with most weights are 0.
template <class T>
void make_tiny(std::span<T> values, Random &random) {
  for (T &value : values) {
    value = std::numeric_limits<T>::denorm_min() * (static_cast<T>(random.below(5)) - T(2));
  }
}

template <class T>
std::vector<T> make_rows(InputClass input, std::size_t share, Random &random, std::size_t rows,
                         std::size_t dim) {
  std::vector<T> values(rows * dim);
  const std::span<T> all(values);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::span<T> row = all.subspan(r * dim, dim);
    const bool of_class = is_of_all_rows(input) || random.one_in(share);
    if (input == InputClass::odd_rows && of_class && r > 0) {
      std::copy_n(row.data() - dim, dim, row.data());  // equal rows make scores tie
    } else {
      const bool elsewhere = input == InputClass::odd_rows || input == InputClass::minus_infinities;
      fill<T>(of_class && !elsewhere ? input : InputClass::gaussian, random, row);
    }
    if (input == InputClass::denormals && random.one_in(2)) {
      make_tiny(row, random);
    }
  }
  return values;
}

template <class T>
std::vector<T> make_numbers(Random &random, std::size_t count, double magnitude) {
  std::vector<T> values(count);
  for (T &value : values) value = static_cast<T>(magnitude * random.gaussian());
  return values;
}

oracle::Repeats draw_repeats(PerRow choice, Random &random) {
  const std::uint64_t draw = random.next();
  if (choice == PerRow::one_for_all) return {true, true, true};
  return {(draw & 3) == 0, (draw & 12) == 0, (draw & 48) == 0};
}

// Makes scores of -distance * ln 2, so weights are 2^-distance. Queries are 1 in the first dimension, and
// keys hold the score there. Near keys, with distance 0, are in the last fifth, after whole blocks of far
// keys. Far keys have large values. In odd heads all far weights are below the cutoff, where they become 0.
// In even heads some are exactly at the cutoff.
template <class T>
void make_far_scores(Random &random, oracle::Attention<T> &a) {
  constexpr double ln_2 = 0x1.62e42fefa39efp-1, log2_e = 0x1.71547652b82fep0;
  constexpr double lowest = sizeof(T) == 4 ? 125 : 1021;
  const T cutoff = static_cast<T>(-lowest) / static_cast<T>(log2_e);
  for (std::size_t i = 0; i < a.q.size(); ++i) a.q[i] = i % a.qk_dim == 0 ? T(1) : T(0);
  for (std::size_t row = 0; row < a.batch * a.kv_heads * a.kv_len; ++row) {
    const std::size_t j = row % a.kv_len;
    const bool odd = row / a.kv_len % 2 == 1;
    const bool is_near = j + 1 == a.kv_len || (j >= a.kv_len - a.kv_len / 5 && random.one_in(8));
    const double distance = is_near ? 0
                            : odd   ? lowest + 0.2 + random.uniform()
                                    : lowest - 1.5 + 3 * random.uniform();
    const std::size_t edge = random.below(12);
    T &score = a.k[row * a.qk_dim];
    score = static_cast<T>(-distance * ln_2);
    if (!is_near && !odd && edge < 3) {
      score = edge == 0 ? cutoff : std::nextafter(cutoff, edge == 1 ? T(0) : -infinity<T>);
    }
    const double power = is_near ? 0x1p-10 : std::ldexp(1, sizeof(T) == 4 ? 116 : 1012);
    for (std::size_t d = 0; d < a.v_dim; ++d) {
      T &value = a.v[row * a.v_dim + d];
      value = static_cast<T>(static_cast<double>(value) * power);
    }
  }
}

// Makes numbers that are subnormal even in bf16. Their products with keys near the largest number are normal.
template <class T>
void make_tiny_queries(Random &random, std::vector<T> &q) {
  for (T &element : q) {
    element = static_cast<T>(std::ldexp(random.uniform() - 0.5, std::numeric_limits<T>::min_exponent - 1));
  }
}

// Puts a NaN or infinity into one row of each head. Bit 0 of the seed chooses the first or the last
// dimension, and bit 1 the second row or the last but one.
template <class T>
void make_a_row_bad(const Problem &problem, std::vector<T> &values, std::size_t rows, std::size_t dim) {
  constexpr T special[] = {std::numeric_limits<T>::quiet_NaN(), infinity<T>, -infinity<T>};
  for (std::size_t head = 0; rows > 1 && head < values.size() / (rows * dim); ++head) {
    const std::size_t row = head * rows + (problem.seed & 2 ? 1 : rows - 2);
    values[row * dim + (problem.seed & 1 ? 0 : dim - 1)] = special[head % 3];
  }
}

// Gives each head its own bias: that of all heads, times its factor.
template <class T>
void multiply_bias(oracle::Attention<T> &a) {
  std::vector<T> products;
  const oracle::Repeats shared = a.bias_repeats;
  a.bias_repeats.head = false;
  for (std::size_t b = 0; b < (shared.batch ? 1 : a.batch); ++b) {
    for (std::size_t h = 0; h < a.q_heads; ++h) {
      for (std::size_t i = 0; i < (shared.token ? 1 : a.q_len); ++i) {
        for (std::size_t j = 0; j < a.kv_len; ++j) {
          const T number = a.bias[a.row(shared, b, h, i) * a.kv_len + j];
          products.push_back(static_cast<T>(number * static_cast<T>(bias_slope(h))));
        }
      }
    }
  }
  a.bias = products;
}

template <class T>
void make_options(const Problem &problem, oracle::Attention<T> &a) {
  Random random(problem.seed ^ 0x6f7074696f6e73u);
  const AttentionOptions &wanted = problem.as<AttentionProblem>().options;
  const auto lengths = [&](bool are_wanted, std::size_t longest) {
    std::vector<std::int32_t> made;
    for (std::size_t b = 0; are_wanted && b < a.batch; ++b) {
      const std::size_t length = random.one_in(6)   ? 0
                                 : random.one_in(3) ? longest
                                                    : random.below(longest + 1);
      made.push_back(static_cast<std::int32_t>(length));
    }
    return made;
  };
  a.q_lengths = lengths(wanted.ragged_queries, a.q_len);
  a.kv_lengths = lengths(wanted.kv_lengths, a.kv_len);
  const bool special_scales = problem.input == InputClass::specials;
  if (wanted.query_scales) {
    for (std::size_t i = 0; i < a.batch * a.q_heads * a.q_len; ++i) {
      constexpr double factors[] = {1, 0.5, 1.75, -0.7, 0, 3};
      const double factor = factors[random.below(6)];
      a.query_scales.push_back(static_cast<T>(factor * (0.5 + random.uniform())));
      constexpr T special[] = {infinity<T>, -infinity<T>, std::numeric_limits<T>::quiet_NaN()};
      if (special_scales && random.one_in(5)) a.query_scales.back() = special[random.below(3)];
    }
  }
  if (wanted.alibi) a.alibi_slopes = make_numbers<T>(random, a.q_heads, 0.1);
  if (wanted.sinks) a.sinks = make_numbers<T>(random, a.q_heads, 4);
  if (problem.input == InputClass::far_scores) {
    // Sinks are above or below the largest score. The difference is just above or just below the cutoff at
    // which weights become 0.
    for (std::size_t h = 0; h < a.sinks.size(); ++h) {
      const double distance = (sizeof(T) == 4 ? 125 : 1021) + (h % 4 < 2 ? 0.5 : -0.5);
      a.sinks[h] = static_cast<T>((h % 2 == 0 ? distance : -distance) * 0x1.62e42fefa39efp-1);
    }
  }
  if (wanted.special_sinks) {
    constexpr T special[] = {infinity<T>,
                             -infinity<T>,
                             std::numeric_limits<T>::quiet_NaN(),
                             T(-0.0),
                             std::numeric_limits<T>::lowest(),
                             std::numeric_limits<T>::max()};
    for (T &sink : a.sinks) sink = special[random.below(std::size(special))];
  }
  const bool special_bias = problem.input == InputClass::specials;
  if (wanted.bias != PerRow::none) {
    a.bias_repeats = draw_repeats(wanted.bias, random);
    a.bias = make_numbers<T>(random, a.rows(a.bias_repeats) * a.kv_len, 2);
    for (T &bias : a.bias) {
      constexpr T special[] = {infinity<T>, std::numeric_limits<T>::quiet_NaN(),
                               std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest()};
      if (special_bias && random.below(4 * a.kv_len) == 0) bias = special[random.below(4)];
    }
    for (std::size_t r = 0; wanted.bias_excludes && r < a.rows(a.bias_repeats); ++r) {
      const bool all = random.one_in(12);
      for (std::size_t j = 0; j < a.kv_len; ++j) {
        if (all || random.one_in(6)) a.bias[r * a.kv_len + j] = -infinity<T>;
      }
    }
    for (T &bias : a.bias) {
      if (wanted.half_bias) bias = static_cast<T>(F16(static_cast<double>(bias)));
    }
    if (wanted.bias_slopes) multiply_bias(a);
  }
  if (wanted.mask != PerRow::none) {
    a.mask_repeats = draw_repeats(wanted.mask, random);
    a.mask.resize(a.rows(a.mask_repeats) * a.kv_len);
    for (std::size_t r = 0; r < a.rows(a.mask_repeats); ++r) {
      // The mask excludes single keys, whole blocks of keys, or all keys.
      const bool all = random.one_in(12), by_block = random.one_in(3);
      bool visible = true;
      for (std::size_t j = 0; j < a.kv_len; ++j) {
        if (!by_block || j % 64 == 0) visible = !random.one_in(by_block ? 2 : 4);
        a.mask[r * a.kv_len + j] = static_cast<std::uint8_t>(all || !visible ? 0 : 1 + random.below(255));
      }
    }
  }
}

// Quantizes keys or values to whole numbers, with a scale for each group. A group with a NaN or infinity gets
// a scale that is NaN or infinite.
void make_bytes(std::vector<float> &values, std::vector<float> &scales, std::size_t group, Random &random) {
  scales.resize(values.size() / group);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const std::span<float> of(values.data() + i * group, group);
    float largest = 0;
    for (const float value : of) {
      if (std::isnan(value) || std::fabs(value) > largest) largest = std::fabs(value);
    }
    scales[i] = largest / 127;
    if (random.one_in(16)) scales[i] = -scales[i];
    for (float &value : of) {
      const float whole = std::nearbyint(value / scales[i]);
      value = random.one_in(64) ? -128 : std::isfinite(whole) ? whole : 127;
    }
  }
}

// Draws a scale group that divides both dimensions, or 0. Few shapes have such a group.
std::size_t draw_scale_group(const AttentionProblem &shape, Random &random) {
  for (const std::size_t group : {std::size_t{128}, std::size_t{64}, std::size_t{32}}) {
    if (shape.qk_dim % group == 0 && shape.v_dim % group == 0 && random.one_in(2)) return group;
  }
  return 0;
}

// Fills keys that no query sees, and their values, with NaN or infinity, because they must not affect
// results.
template <class T>
void spoil_unseen_keys(oracle::Attention<T> &a) {
  for (std::size_t b = 0; b < a.batch; ++b) {
    for (std::size_t kv_head = 0; kv_head < a.kv_heads; ++kv_head) {
      for (std::size_t j = 0; j < a.kv_len; ++j) {
        bool seen = false;
        for (std::size_t g = 0; g < a.q_heads_per_kv_head() && !seen; ++g) {
          for (std::size_t i = 0; i < a.queries(b) && !seen; ++i) {
            seen = oracle::is_visible(a, b, kv_head * a.q_heads_per_kv_head() + g, i, j);
          }
        }
        if (seen) continue;
        const std::size_t row = (b * a.kv_heads + kv_head) * a.kv_len + j;
        const T special = j % 3 == 0   ? infinity<T>
                          : j % 3 == 1 ? std::numeric_limits<T>::quiet_NaN()
                                       : -infinity<T>;
        const auto fill_row = [&](std::vector<T> &values, std::size_t dim) {
          std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(row * dim), dim, special);
        };
        fill_row(a.k_scales.empty() ? a.k : a.k_scales,
                 a.k_scales.empty() ? a.qk_dim : a.qk_dim / a.group_of(a.qk_dim));
        fill_row(a.v_scales.empty() ? a.v : a.v_scales,
                 a.v_scales.empty() ? a.v_dim : a.v_dim / a.group_of(a.v_dim));
      }
    }
  }
}

template <class E>
oracle::Attention<Number<E>> make_new_attention(const Problem &problem) {
  using T = Number<E>;
  const AttentionProblem &shape = problem.as<AttentionProblem>();
  const AttentionOptions &wanted = shape.options;
  oracle::Attention<T> a;
  a.batch = shape.batch;
  a.kv_heads = shape.kv_heads;
  a.q_heads = shape.q_heads();
  a.q_len = shape.rows;
  a.kv_len = shape.cols;
  a.qk_dim = shape.qk_dim;
  a.v_dim = shape.v_dim;
  a.scale = shape.scale;
  a.softcap = wanted.softcap;
  if (wanted.causal) a.causal = wanted.bottom_right ? oracle::Causal::bottom_right : oracle::Causal::offset;
  a.causal_offset = wanted.causal.value_or(0);
  a.window_left = wanted.window_left;
  a.window_right = wanted.window_right;
  a.window_chunk = wanted.window_chunk;

  Random random(problem.seed);
  // On average less than one key per head is special, because it affects every query. Ties affect less.
  const std::size_t share = problem.input == InputClass::odd_rows ? 8 : 8 + a.kv_len;
  a.q = make_rows<T>(problem.input, 6, random, a.batch * a.q_heads * a.q_len, a.qk_dim);
  a.k = make_rows<T>(problem.input, share, random, a.batch * a.kv_heads * a.kv_len, a.qk_dim);
  a.v = make_rows<T>(problem.input, share, random, a.batch * a.kv_heads * a.kv_len, a.v_dim);
  if (problem.input == InputClass::minus_infinities) {
    for (std::size_t i = 0; i < a.q.size(); i += a.qk_dim) a.q[i] = std::fabs(a.q[i]) + T(0.5);
    for (std::size_t i = 0; i < a.k.size(); i += a.qk_dim) {
      if (random.one_in(5)) a.k[i] = -infinity<T>;
    }
  }
  if (problem.input == InputClass::far_scores) make_far_scores(random, a);
  if (problem.input == InputClass::tiny_rows) {
    make_tiny(std::span<T>(a.q), random);
    make_tiny(std::span<T>(a.k), random);
  }
  if (problem.input == InputClass::tiny_queries) {
    make_tiny_queries(random, a.q);
    for (T &key : a.k) key = std::copysign(std::numeric_limits<T>::max() / 2, key);
  }
  if (problem.input == InputClass::bad_values) make_a_row_bad(problem, a.v, a.kv_len, a.v_dim);
  if (problem.input == InputClass::bad_keys) make_a_row_bad(problem, a.k, a.kv_len, a.qk_dim);
  if (problem.input == InputClass::bad_queries) make_a_row_bad(problem, a.q, a.q_len, a.qk_dim);
  make_options(problem, a);
  if constexpr (has_scales<E>) {
    a.scale_group = draw_scale_group(shape, random);
    make_bytes(a.k, a.k_scales, a.group_of(a.qk_dim), random);
    make_bytes(a.v, a.v_scales, a.group_of(a.v_dim), random);
    // Values of far keys get infinite scales. A value with weight 0 adds nothing, whatever its scale is
    // (rapt.h).
    if (problem.input == InputClass::far_scores) {
      for (float &scale : a.v_scales) {
        if (!(scale < 0x1p60f)) scale = infinity<float>;
      }
    }
  }
  spoil_unseen_keys(a);
  for (std::vector<T> *values : {&a.q, &a.k, &a.v}) {
    for (T &value : *values) value = static_cast<T>(QueryOf<E>(value));
  }
  return a;
}

// Blocks have whole numbers of inputs.
Problem with_whole_blocks(Problem problem) {
  AttentionProblem &of = std::get<AttentionProblem>(problem.of);
  for (std::size_t *dim : {&of.qk_dim, &of.v_dim}) *dim = (*dim + 31) / 32 * 32;
  return problem;
}

}  // namespace

template <class E>
const oracle::Attention<Number<E>> &make_attention(const Problem &problem) {
  return remembered(problem, [&] { return make_new_attention<E>(problem); });
}

const AttentionInBlocks &make_attention_in_blocks(const Problem &problem) {
  return remembered(problem, [&] {
    return in_blocks(make_new_attention<float>(with_whole_blocks(problem)), problem.seed);
  });
}
template <>
const oracle::Attention<float> &make_attention<InBlocks>(const Problem &problem) {
  return make_attention_in_blocks(problem).a;
}

template <class T>
std::vector<T> make_output_gradient(const Problem &problem, const oracle::Attention<T> &a) {
  Random random(problem.seed ^ 0x646f7574u);
  std::vector<T> dout = make_rows<T>(problem.input, 6, random, a.batch * a.q_heads * a.q_len, a.v_dim);
  if (problem.input == InputClass::tiny_rows) make_tiny(std::span<T>(dout), random);
  if (problem.input == InputClass::bad_dout) make_a_row_bad(problem, dout, a.q_len, a.v_dim);
  return dout;
}

template const oracle::Attention<float> &make_attention<float>(const Problem &);
template const oracle::Attention<double> &make_attention<double>(const Problem &);
template const oracle::Attention<float> &make_attention<F16>(const Problem &);
template const oracle::Attention<float> &make_attention<BF16>(const Problem &);
template const oracle::Attention<float> &make_attention<std::int8_t>(const Problem &);
template std::vector<float> make_output_gradient(const Problem &, const oracle::Attention<float> &);
template std::vector<double> make_output_gradient(const Problem &, const oracle::Attention<double> &);

}  // namespace rapt::test
