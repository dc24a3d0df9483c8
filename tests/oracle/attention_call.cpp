#include "oracle/attention_call.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "support/elements.hpp"

namespace rapt::test::oracle {

// ---- elements ----

namespace {

// Calls f with a value of the C++ type that `type` names.
template <class F>
auto with_type(rapt_type type, F f) {
  switch (type) {
    case RAPT_F64:
      return f(double{});
    case RAPT_F16:
      return f(F16{});
    case RAPT_BF16:
      return f(BF16{});
    case RAPT_I8:
      return f(std::int8_t{});
    default:
      return f(float{});
  }
}

const char *type_name(rapt_type type) {
  switch (type) {
    case RAPT_F64:
      return "f64";
    case RAPT_F16:
      return "f16";
    case RAPT_BF16:
      return "bf16";
    case RAPT_I8:
      return "i8";
    default:
      return "f32";
  }
}

}  // namespace

std::size_t size_of(rapt_type type) {
  return with_type(type, [](auto element) { return sizeof element; });
}
double number_at(rapt_type type, const void *data, std::size_t index) {
  return with_type(type, [&](auto element) {
    return static_cast<double>(static_cast<const decltype(element) *>(data)[index]);
  });
}
void set_number(rapt_type type, void *data, std::size_t index, double value) {
  with_type(type, [&](auto element) {
    static_cast<decltype(element) *>(data)[index] = static_cast<decltype(element)>(value);
  });
}
double rounded(rapt_type type, double value) {
  return with_type(type,
                   [&](auto element) { return static_cast<double>(static_cast<decltype(element)>(value)); });
}
long double distance_as(rapt_type type, long double got, long double exact) {
  if (type == RAPT_F16) return distance<F16>(got, exact);
  if (type == RAPT_BF16) return distance<BF16>(got, exact);
  return std::fabs(got - exact);
}

const char *name_of(Numbers numbers) {
  constexpr const char *names[] = {"ordinary",    "wide",  "scaled", "large_scale", "ties",
                                   "small_scale", "zeros", "tiny",   "equal",       "specials"};
  return names[static_cast<std::size_t>(numbers)];
}
const char *name_of(Way way) {
  constexpr const char *names[] = {"whole", "tasks", "one_by_one", "split_keys"};
  return names[static_cast<std::size_t>(way)];
}

// ---- problems ----

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();

Repeats draw_repeats(Random &random, std::size_t one_in) {
  if (!random.one_in(one_in)) return {};
  const std::size_t bits = 1 + random.below(7);
  return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
}

class Drawing {
 public:
  explicit Drawing(std::uint64_t seed)
      : random_(seed * 0x9e3779b97f4a7c15u + 1), has_parts_(random_.one_in(8)) {
    p_.seed = seed;
  }

  AttentionProblem draw() {
    draw_types();
    draw_shape();
    draw_numbers();
    draw_scores();
    draw_visibility();
    draw_padding();
    if (p_.numbers == Numbers::specials) make_special();
    spoil_unseen_keys();
    spoil_blind_queries();
    return std::move(p_);
  }

 private:
  void draw_types() {
    constexpr rapt_type types[] = {RAPT_F32, RAPT_F16, RAPT_BF16};
    const std::size_t kind = random_.below(8);
    if (kind == 0) {
      p_.q = p_.kv = p_.out = RAPT_F64;
    } else if (kind == 1) {
      p_.kv = RAPT_I8;
      p_.q = types[random_.below(3)];
      p_.out = types[random_.below(3)];
    } else if (kind < 4) {
      p_.q = p_.kv = p_.out = types[random_.below(3)];
    } else {
      p_.q = types[random_.below(3)];
      p_.kv = types[random_.below(3)];
      p_.out = types[random_.below(3)];
    }
    const bool may_be_bf16 = p_.q == RAPT_BF16 && p_.kv == RAPT_BF16;
    if (p_.q != RAPT_F64 && random_.one_in(2)) {
      p_.arithmetic = may_be_bf16 && random_.one_in(2) ? RAPT_ARITHMETIC_BF16 : RAPT_ARITHMETIC_F32;
    }
    if (random_.one_in(2)) p_.gradient = p_.number();
    p_.numbers = random_.one_in(2)
                     ? Numbers::ordinary
                     : static_cast<Numbers>(random_.below(static_cast<std::size_t>(Numbers::count)));
    if (random_.one_in(12)) p_.numbers = Numbers::specials;
    // large_scale and small_scale need elements with a wide range of exponents.
    const bool narrow = p_.q == RAPT_F16 || p_.kv == RAPT_F16 || p_.kv == RAPT_I8;
    if ((narrow || p_.in_bf16()) &&
        (p_.numbers == Numbers::large_scale || p_.numbers == Numbers::small_scale)) {
      p_.numbers = Numbers::wide;
    }
    // bf16 arithmetic treats subnormal elements as 0, so zeros replace tiny numbers.
    if (p_.in_bf16() && p_.numbers == Numbers::tiny) p_.numbers = Numbers::zeros;
    has_long_rows_ = p_.kv == RAPT_I8 && random_.one_in(5);
    if (has_long_rows_ && random_.one_in(2)) p_.numbers = Numbers::equal;
  }

  std::size_t draw_dim() {
    if (has_long_rows_) return random_.one_of<std::size_t>({511, 512, 513, 600, 1024, 1030});
    if (p_.kv == RAPT_I8 && random_.one_in(2)) return random_.one_of<std::size_t>({32, 64, 96, 128});
    if (random_.one_in(40)) return random_.one_of<std::size_t>({511, 512, 513, 600, 1030});
    if (random_.one_in(4)) return random_.one_of<std::size_t>({31, 32, 33, 64, 65, 80, 128});
    return 1 + random_.below(12);
  }
  std::size_t draw_length(std::size_t most) {
    const std::size_t kind = random_.below(8);
    if (kind == 0) return random_.below(4);
    if (kind < 4) return 1 + random_.below(30);
    if (kind < 7)
      return std::min(most, random_.one_of<std::size_t>({64, 64, 128, 192}) + random_.below(4) - 2);
    return std::min(most, random_.one_of<std::size_t>({512, 512, 1024}) + random_.below(5) - 2);
  }
  void draw_shape() {
    Attention<double> &a = p_.a;
    a.qk_dim = draw_dim();
    a.v_dim = random_.one_in(2) ? a.qk_dim : draw_dim();
    a.kv_heads = random_.one_of<std::size_t>({1, 1, 2, 3});
    a.q_heads = a.kv_heads * (random_.one_in(2) ? 1 : 1 + random_.below(5));
    a.batch = random_.one_of<std::size_t>({1, 1, 2, 3});
    a.kv_len = draw_length(1100);
    a.q_len = draw_length(140);
    if (has_parts_) {
      a.qk_dim = 1 + random_.below(4);
      a.v_dim = 1 + random_.below(4);
      a.batch = 2;
      a.kv_len = 65 + random_.below(200);
      a.q_len = 65 + random_.below(140);
      a.q_heads = a.kv_heads = 1 + random_.below(2);
    }
    const auto work = [&] {
      return a.batch * a.q_heads * std::max<std::size_t>(1, a.q_len) * std::max<std::size_t>(1, a.kv_len) *
             (a.qk_dim + a.v_dim);
    };
    const std::size_t most = has_parts_ || random_.one_in(10) ? 1500000 : 250000;
    while (work() > most) {
      if (a.qk_dim > 16 && !has_long_rows_ && random_.one_in(2)) {
        a.qk_dim = p_.kv == RAPT_I8 && a.qk_dim > 32 && a.qk_dim % 32 == 0 ? a.qk_dim - 32 : a.qk_dim / 2;
      } else if (a.v_dim > 16 && !has_long_rows_ && random_.one_in(2)) {
        a.v_dim = p_.kv == RAPT_I8 && a.v_dim > 32 && a.v_dim % 32 == 0 ? a.v_dim - 32 : a.v_dim / 2;
      } else if (a.q_heads > a.kv_heads) {
        a.q_heads -= a.kv_heads;
      } else if (a.batch > 1 && random_.one_in(2)) {
        a.batch -= 1;
      } else if (a.q_len > 3 && (a.kv_len < 100 || random_.one_in(2))) {
        a.q_len -= 1 + a.q_len / 4;
      } else if (a.kv_len > 3) {
        a.kv_len -= 1 + a.kv_len / 5;
      } else {
        a.kv_heads = a.q_heads = 1;
      }
    }
    p_.q_repeats = draw_repeats(random_, 6);
    p_.k_repeats = draw_repeats(random_, 6);
    p_.v_repeats = draw_repeats(random_, 6);
    p_.v_is_k = a.v_dim <= a.qk_dim && random_.one_in(10);
    if (p_.v_is_k) p_.v_repeats = p_.k_repeats;
    if (p_.kv == RAPT_I8) {
      for (const std::size_t group : {std::size_t{128}, std::size_t{64}, std::size_t{32}}) {
        const bool fits = a.qk_dim % group == 0 && a.v_dim % group == 0;
        if (fits && a.scale_group == 0 && random_.one_in(2)) a.scale_group = group;
      }
    }
  }

  // Draws random rows. A repeated row is a copy of the row that it repeats.
  std::vector<double> draw_rows(std::size_t heads, std::size_t tokens, std::size_t row, Repeats repeats,
                                rapt_type type, double factor) {
    const Attention<double> &a = p_.a;
    std::vector<double> made(a.batch * heads * tokens * row);
    const bool all_negative = p_.numbers == Numbers::zeros && random_.one_in(3);
    for (std::size_t b = 0; b < a.batch; ++b) {
      for (std::size_t h = 0; h < heads; ++h) {
        for (std::size_t t = 0; t < tokens; ++t) {
          const std::size_t at = ((b * heads + h) * tokens + t) * row;
          const bool copies = (repeats.batch && b > 0) || (repeats.head && h > 0) || (repeats.token && t > 0);
          const std::size_t from = (((repeats.batch ? 0 : b) * heads + (repeats.head ? 0 : h)) * tokens +
                                    (repeats.token ? 0 : t)) *
                                   row;
          for (std::size_t d = 0; d < row; ++d) {
            made[at + d] = copies ? made[from + d] : all_negative ? -0.0 : rounded(type, factor * number());
          }
        }
      }
    }
    return made;
  }
  double number() {
    if (p_.numbers == Numbers::ties) return random_.one_of({1.0, -1.0, 0.5});
    if (p_.numbers == Numbers::zeros) return random_.one_of({0.0, -0.0, -0.0, 1.0, -1.0, 0.5});
    return random_.gaussian();
  }
  void draw_bytes(std::vector<double> &values, std::vector<double> &scales, std::size_t tokens,
                  std::size_t row, Repeats repeats, double of_scales) {
    const std::size_t groups = row / p_.a.group_of(row);
    values = draw_rows(p_.a.kv_heads, tokens, row, repeats, RAPT_F64, 42);
    for (double &value : values) value = std::clamp(std::nearbyint(value), -128.0, 127.0);
    scales = draw_rows(p_.a.kv_heads, tokens, groups, repeats, RAPT_F32, 0.02 * of_scales);
    for (double &scale : scales) {
      if (scale == 0) scale = 0x1p-7;
    }
  }
  void draw_numbers() {
    Attention<double> &a = p_.a;
    double q = p_.numbers == Numbers::wide ? 3 : 1, k = q, v = 1;
    const bool f64 = p_.q == RAPT_F64;
    if (p_.numbers == Numbers::scaled) {
      const bool halves = p_.q == RAPT_F16 || p_.kv == RAPT_F16;
      const int most = f64 ? 400 : halves ? 3 : p_.kv == RAPT_I8 ? 0 : 50;
      const int power = static_cast<int>(random_.below(2 * static_cast<std::size_t>(most) + 1)) - most;
      q = std::ldexp(1, power);
      k = std::ldexp(1, -power);
      const int of_v = p_.out == RAPT_F16 || p_.kv == RAPT_F16 || p_.kv == RAPT_I8 ? 2 : f64 ? 900 : 100;
      const int low = p_.in_bf16() ? -20 : -of_v * 9 / 10;
      v = std::ldexp(1, low + static_cast<int>(random_.below(static_cast<std::size_t>(of_v - low + 1))));
    }
    if (p_.numbers == Numbers::large_scale) {  // the scale is near 2^128 or 2^1024
      q = k = std::ldexp(1, f64 ? -512 : -64);
    }
    if (p_.numbers == Numbers::small_scale) {  // the scale is tiny, but score differences must not overflow
      q = k = std::ldexp(1, (f64 ? 509 : 61) - (a.qk_dim > 32 ? 2 : 0));
    }
    double of_v_scales = 1;
    if (p_.numbers == Numbers::tiny) {
      constexpr int smallest[] = {0, -149, -1074, -24, -133, 0};
      v = std::ldexp(random_.one_of({1, 4}), smallest[p_.kv]);
      if (random_.one_in(2)) q = k = std::ldexp(1, f64 ? -535 : p_.kv == RAPT_I8 ? -99 : -72);
      of_v_scales = 0x1p-95;
    }
    a.q = draw_rows(a.q_heads, a.q_len, a.qk_dim, p_.q_repeats, p_.q, q);
    if (p_.kv == RAPT_I8) {
      draw_bytes(a.k, a.k_scales, a.kv_len, a.qk_dim, p_.k_repeats, 1);
      draw_bytes(a.v, a.v_scales, a.kv_len, a.v_dim, p_.v_repeats, of_v_scales);
    } else {
      a.k = draw_rows(a.kv_heads, a.kv_len, a.qk_dim, p_.k_repeats, p_.kv, k);
      a.v = draw_rows(a.kv_heads, a.kv_len, a.v_dim, p_.v_repeats, p_.kv, v);
    }
    if (p_.numbers == Numbers::equal) {
      std::fill(a.q.begin(), a.q.end(), random_.one_of({1.0, -1.0}));
      std::fill(a.k.begin(), a.k.end(), p_.kv == RAPT_I8 ? random_.one_of({127.0, -128.0}) : 1);
    }
    if (p_.v_is_k) {
      for (std::size_t row = 0; row < a.batch * a.kv_heads * a.kv_len; ++row) {
        for (std::size_t d = 0; d < a.v_dim; ++d) a.v[row * a.v_dim + d] = a.k[row * a.qk_dim + d];
        const std::size_t groups = a.v_scales.empty() ? 0 : a.v_dim / a.group_of(a.v_dim);
        const std::size_t k_groups = a.k_scales.empty() ? 0 : a.qk_dim / a.group_of(a.qk_dim);
        for (std::size_t g = 0; g < groups; ++g)
          a.v_scales[row * groups + g] = a.k_scales[row * k_groups + g];
      }
    }
    p_.dout.resize(a.batch * a.q_heads * a.q_len * a.v_dim);
    // A large scale multiplies the gradients of scores, so dout is small.
    const double of_dout = p_.numbers == Numbers::large_scale ? 0x1p-12
                           : p_.numbers == Numbers::tiny      ? 1
                                                              : 1 / v;
    for (double &x : p_.dout) x = rounded(p_.out, number() * of_dout);
  }

  void draw_scores() {
    Attention<double> &a = p_.a;
    const rapt_type number = p_.number();
    a.scale = random_.one_of({0.0, 0.0, 0.125, 0.3, -0.3, 1.0});
    const bool f64 = p_.q == RAPT_F64;
    const auto some = [&] { return random_.one_in(6); };
    if (some()) {
      for (std::size_t i = 0; i < a.batch * a.q_heads * a.q_len; ++i) {
        const double factor = random_.one_of({1.0, 0.5, 1.75, -0.7, 0.0, 3.0});
        a.query_scales.push_back(rounded(number, factor * (0.5 + random_.uniform())));
      }
    }
    if (some()) a.softcap = random_.one_of({50.0, 0.5, 5.0});
    const bool is_large = p_.numbers == Numbers::large_scale, is_small = p_.numbers == Numbers::small_scale;
    if (is_large || is_small) {
      // The scale, but not a query scale, is at most the largest whose product with log2(e) is finite.
      const double largest = f64 ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
      const double scale =
          is_small
              ? std::ldexp(1, f64 ? -1022 : -126)
              : random_.one_of({largest / 1.4426950408889634 * (1 - 0x1p-50), largest / 1.45, largest / 2});
      a.softcap = 0;
      a.query_scales.clear();
      a.scale = random_.one_in(2) ? scale : -scale;
      if (is_large && random_.one_in(2)) {
        a.scale = 1;
        for (std::size_t i = 0; i < a.batch * a.q_heads * a.q_len; ++i) {
          const double at = random_.one_of({1.0, 0.99, 0.7, 0.6932, 0.6931, 0.5, -0.9});
          a.query_scales.push_back(rounded(number, at * largest));
        }
      }
    }
    if (some()) {
      for (std::size_t h = 0; h < a.q_heads; ++h) {
        a.alibi_slopes.push_back(rounded(number, 0.1 * this->number()));
      }
    }
    if (some()) {
      for (std::size_t h = 0; h < a.q_heads; ++h) a.sinks.push_back(rounded(number, 4 * this->number()));
    }
    if (random_.one_in(has_parts_ ? 2 : 4)) {
      a.bias_repeats = draw_repeats(random_, 2);
      if (has_parts_) a.bias_repeats.batch = true;
      const bool excludes = random_.one_in(2);
      a.bias.resize(a.rows(a.bias_repeats) * a.kv_len);
      for (std::size_t r = 0; r < a.rows(a.bias_repeats); ++r) {
        const bool all = excludes && random_.one_in(10);
        for (std::size_t j = 0; j < a.kv_len; ++j) {
          const bool excluded = all || (excludes && random_.one_in(5));
          a.bias[r * a.kv_len + j] = excluded ? -infinity : rounded(number, 2 * this->number());
        }
      }
    }
  }

  std::size_t draw_window() {
    if (p_.causal_offset > 1000 && random_.one_in(2)) {  // the window may begin near the first keys
      return static_cast<std::size_t>(p_.causal_offset) + random_.below(9) - random_.below(p_.a.kv_len + 1);
    }
    return random_.one_of<std::size_t>({1, 2, 3, 5, 16, 63, 64, 65, 100, 600, (std::size_t{1} << 61) - 1,
                                        std::size_t{1} << 61, (std::size_t{1} << 61) + 1, SIZE_MAX});
  }
  void draw_visibility() {
    Attention<double> &a = p_.a;
    const auto some = [&] { return random_.one_in(6); };
    const auto lengths = [&](std::size_t longest) {
      std::vector<std::int32_t> made;
      for (std::size_t b = 0; b < a.batch; ++b) {
        const std::size_t kind = random_.below(5);
        made.push_back(static_cast<std::int32_t>(kind == 0   ? 0
                                                 : kind == 1 ? longest
                                                             : random_.below(longest + 1)));
      }
      return made;
    };
    if (random_.one_in(4)) a.q_lengths = lengths(a.q_len);
    if (random_.one_in(has_parts_ ? 2 : 4)) a.kv_lengths = lengths(a.kv_len);
    p_.causal = random_.one_in(2) ? RAPT_CAUSAL_NONE : static_cast<int>(1 + random_.below(3));
    if (p_.causal == RAPT_CAUSAL_OFFSET) {
      constexpr std::ptrdiff_t farthest = std::ptrdiff_t{1} << 60;
      p_.causal_offset = random_.one_of<std::ptrdiff_t>(
          {0, 1, -1, 5, -5, 17, -40, 64, 500, farthest, -farthest, farthest - 1});
    }
    if (some()) p_.window_left = draw_window();
    if (some()) p_.window_right = draw_window();
    if (some()) p_.window_chunk = draw_window();
    a.causal = p_.causal == RAPT_CAUSAL_NONE           ? Causal::none
               : p_.causal == RAPT_CAUSAL_BOTTOM_RIGHT ? Causal::bottom_right
                                                       : Causal::offset;
    a.causal_offset = p_.causal_offset;
    const auto last_seen = [](std::size_t window) {  // -1 means no window
      return window > std::size_t{PTRDIFF_MAX} ? PTRDIFF_MAX : static_cast<std::ptrdiff_t>(window) - 1;
    };
    a.window_left = last_seen(p_.window_left);
    a.window_right = last_seen(p_.window_right);
    a.window_chunk = p_.window_chunk;
    if (random_.one_in(5)) {
      a.mask_repeats = draw_repeats(random_, 2);
      a.mask.resize(a.rows(a.mask_repeats) * a.kv_len);
      const bool by_block = random_.one_in(3);
      for (std::size_t r = 0; r < a.rows(a.mask_repeats); ++r) {
        const bool all = random_.one_in(10);
        bool visible = true;
        for (std::size_t j = 0; j < a.kv_len; ++j) {
          if (!by_block || j % 64 == 0) visible = !random_.one_in(by_block ? 2 : 4);
          a.mask[r * a.kv_len + j] = all || !visible ? 0 : static_cast<std::uint8_t>(1 + random_.below(127));
        }
      }
    }
  }

  // Its own numbers leave other draws as they are. Starts are multiples of what pages or packed keys need, or any.
  void draw_padding() {
    Attention<double> &a = p_.a;
    Random random(p_.seed * 0x2545f4914f6cdd1du + 3);
    if (random.one_in(4)) {
      const std::size_t unit = random.one_of<std::size_t>({1, 16, 64});
      for (std::size_t b = 0; b < a.batch; ++b) {
        a.kv_starts.push_back(static_cast<std::int32_t>(random.below(a.keys(b) / unit + 1) * unit));
      }
    }
    if (!a.q_lengths.empty() || !random.one_in(4)) return;
    for (std::size_t b = 0; b < a.batch; ++b) {
      a.q_starts.push_back(static_cast<std::int32_t>(random.below(a.q_len + 1)));
    }
  }

  // Replaces a random element of a row. The tensor must not have repeated rows.
  void spoil(std::vector<double> &values, std::size_t row, std::size_t dim, rapt_type type, double value) {
    if (row * dim < values.size()) values[row * dim + random_.below(dim)] = rounded(type, value);
  }
  void make_special() {
    Attention<double> &a = p_.a;
    const auto one = [&] { return random_.one_of({nan, infinity, -infinity}); };
    const auto any = [](Repeats repeats) { return repeats.batch || repeats.head || repeats.token; };
    for (double &scale : a.query_scales) scale = scale == 0 ? 1 : scale;  // avoids 0 times infinity
    const std::size_t kind = random_.below(8);
    const bool has_own_keys = !any(p_.k_repeats) && !any(p_.v_repeats) && p_.kv != RAPT_I8 && !p_.v_is_k;
    if (kind == 5) {
      const bool may_be_zero = has_own_keys;
      a.query_scales.resize(a.batch * a.q_heads * a.q_len, 1);
      for (double &scale : a.query_scales) {
        if (random_.one_in(4)) scale = may_be_zero && random_.one_in(2) ? 0 : one();
      }
      for (std::size_t row = 0; may_be_zero && row < a.batch * a.kv_heads * a.kv_len; ++row) {
        if (random_.one_in(4 * a.kv_len))
          spoil(a.k, row, a.qk_dim, p_.kv, random_.one_of({infinity, -infinity}));
      }
    } else if (kind == 6 && has_own_keys) {
      for (std::size_t row = 0; row < a.batch * a.kv_heads * a.kv_len; ++row) {
        if (random_.one_in(a.kv_len)) spoil(a.v, row, a.v_dim, p_.kv, one());
      }
    } else if (kind == 7) {
      for (double &x : p_.dout) {
        if (random_.one_in(3 * a.v_dim)) x = one();
      }
    } else if (kind == 0 && !any(p_.q_repeats)) {
      for (std::size_t row = 0; row < a.batch * a.q_heads * a.q_len; ++row) {
        if (random_.one_in(5)) spoil(a.q, row, a.qk_dim, p_.q, one());
      }
    } else if (kind <= 2 && !any(p_.k_repeats) && p_.kv != RAPT_I8 && !p_.v_is_k) {
      for (std::size_t row = 0; row < a.batch * a.kv_heads * a.kv_len; ++row) {
        if (random_.one_in(8)) spoil(a.k, row, a.qk_dim, p_.kv, kind == 1 ? -infinity : one());
      }
    } else if (kind == 3 && !a.bias.empty()) {
      for (double &bias : a.bias) {
        if (random_.one_in(2 * a.kv_len)) bias = random_.one_of({nan, infinity});
      }
    } else {
      const double largest = p_.q == RAPT_F64 ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
      a.sinks.resize(a.q_heads);
      for (double &sink : a.sinks) {
        sink = rounded(p_.number(),
                       random_.one_of({nan, infinity, -infinity, -0.0, largest, -largest, 0.69 * largest}));
      }
    }
  }

  // Fills unseen keys and their values with NaN or infinity, because they must not affect results.
  void spoil_unseen_keys() {
    Attention<double> &a = p_.a;
    const auto any = [](Repeats repeats) { return repeats.batch || repeats.head || repeats.token; };
    if (any(p_.k_repeats) || any(p_.v_repeats) || random_.one_in(3)) return;
    for (std::size_t b = 0; b < a.batch; ++b) {
      for (std::size_t h = 0; h < a.kv_heads; ++h) {
        for (std::size_t j = 0; j < a.kv_len; ++j) {
          bool seen = false;
          const std::size_t group = a.q_heads_per_kv_head();
          for (std::size_t g = 0; g < group && !seen; ++g) {
            for (std::size_t i = 0; i < a.queries(b) && !seen; ++i)
              seen = is_visible(a, b, h * group + g, i, j);
          }
          if (seen) continue;
          const std::size_t row = (b * a.kv_heads + h) * a.kv_len + j;
          const double value = j % 3 == 0 ? infinity : j % 3 == 1 ? nan : -infinity;
          const auto fill = [&](std::vector<double> &values, std::size_t dim) {
            std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(row * dim), dim, value);
          };
          if (p_.kv == RAPT_I8) {
            fill(a.k_scales, a.qk_dim / a.group_of(a.qk_dim));
            fill(a.v_scales, a.v_dim / a.group_of(a.v_dim));
          } else {
            fill(a.k, a.qk_dim);
            fill(a.v, a.v_dim);
          }
        }
      }
    }
  }

  // Fills queries that see no key, and their dout, with NaN or infinity. They must not affect results.
  void spoil_blind_queries() {
    Attention<double> &a = p_.a;
    if (p_.q_repeats.batch || p_.q_repeats.head || p_.q_repeats.token || p_.kv == RAPT_I8) return;
    if (random_.one_in(3)) return;
    for (std::size_t b = 0; b < a.batch; ++b) {
      for (std::size_t h = 0; h < a.q_heads; ++h) {
        for (std::size_t i = 0; i < a.queries(b); ++i) {
          bool sees = false;
          for (std::size_t j = 0; j < a.keys(b) && !sees; ++j) sees = is_visible(a, b, h, i, j);
          if (sees) continue;
          const std::size_t row = a.row({}, b, h, i);
          const double value = i % 2 == 0 ? nan : infinity;
          std::fill_n(a.q.begin() + static_cast<std::ptrdiff_t>(row * a.qk_dim), a.qk_dim, value);
          std::fill_n(p_.dout.begin() + static_cast<std::ptrdiff_t>(row * a.v_dim), a.v_dim, value);
        }
      }
    }
  }

  Random random_;
  // If true, the shape has several tiles of rows and blocks of keys, so that the gradient of a head is split
  // into several tasks. The sequences differ in length and may share a bias.
  bool has_parts_;
  bool has_long_rows_ = false;
  AttentionProblem p_;
};

std::string text_of(Repeats repeats) {
  return std::string(repeats.batch ? "b" : "") + (repeats.head ? "h" : "") + (repeats.token ? "t" : "");
}

}  // namespace

double AttentionProblem::score_factor(std::size_t b, std::size_t h, std::size_t i) const {
  const double magnitude = std::fabs(static_cast<double>(scale_of(a, b, h, i)));
  if (a.softcap != 0) return 1;
  int exponent = 0;
  const double significand = 2 * std::frexp(magnitude, &exponent);
  if (magnitude == 0) return 0x1p-64;
  return std::ldexp(significand, std::clamp(exponent - 1, -64, number() == RAPT_F64 ? 1021 : 125));
}

AttentionProblem draw_attention(std::uint64_t seed) { return Drawing(seed).draw(); }

std::string AttentionProblem::text() const {
  std::string text = "case " + std::to_string(seed) + ": ";
  text += std::string(type_name(q)) + " " + type_name(kv) + " " + type_name(out);
  const auto add = [&](const char *word, auto value) {
    if (value != 0) text += std::string(" ") + word + "=" + std::to_string(value);
  };
  const auto flag = [&](const char *word, bool set) {
    if (set) text += std::string(" ") + word;
  };
  const auto repeated = [&](const char *word, Repeats repeats) {
    if (!text_of(repeats).empty()) text += std::string(" ") + word + "=" + text_of(repeats);
  };
  add("arithmetic", arithmetic);
  text += std::string(" numbers=") + oracle::name_of(numbers);
  add("batch", a.batch);
  add("q_heads", a.q_heads);
  add("kv_heads", a.kv_heads);
  text += " q_len=" + std::to_string(a.q_len) + " kv_len=" + std::to_string(a.kv_len);
  add("qk_dim", a.qk_dim);
  add("v_dim", a.v_dim);
  add("scale_group", a.scale_group);
  repeated("repeated_q", q_repeats);
  repeated("repeated_k", k_repeats);
  repeated("repeated_v", v_repeats);
  flag("v_is_k", v_is_k);
  add("scale", a.scale);
  add("softcap", a.softcap);
  flag("query_scales", !a.query_scales.empty());
  flag("alibi", !a.alibi_slopes.empty());
  flag("sinks", !a.sinks.empty());
  flag("bias", !a.bias.empty());
  repeated("repeated_bias", a.bias_repeats);
  flag("mask", !a.mask.empty());
  repeated("repeated_mask", a.mask_repeats);
  add("causal", causal);
  add("causal_offset", causal_offset);
  add("window_left", window_left);
  add("window_right", window_right);
  add("window_chunk", window_chunk);
  const auto list = [&](const char *word, const std::vector<std::int32_t> &values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      text += (i == 0 ? std::string(" ") + word + "=" : std::string(",")) + std::to_string(values[i]);
    }
  };
  list("q_lengths", a.q_lengths);
  list("kv_lengths", a.kv_lengths);
  list("q_starts", a.q_starts);
  list("kv_starts", a.kv_starts);
  flag("gradient_in_arithmetic_type", gradient != RAPT_TYPE_DEFAULT);
  return text;
}

// ---- memory ----

Placed::Placed(Random &random, rapt_type type, Extents extents, Repeats repeats, std::size_t unit)
    : type_(type) {
  const bool natural_order = random.one_in(3);
  const std::size_t counts[3] = {repeats.batch ? 1 : extents.batch, repeats.head ? 1 : extents.heads,
                                 repeats.token ? 1 : extents.tokens};
  std::size_t order[3] = {2, 1, 0};  // innermost first
  for (std::size_t i = 3; i > 1 && !natural_order; --i) std::swap(order[i - 1], order[random.below(i)]);
  const bool pads = !random.one_in(3);
  std::size_t step = extents.row;
  bool is_natural = natural_order && !repeats.batch && !repeats.head && !repeats.token;
  elements_ = extents.any() ? extents.row : 0;
  for (const std::size_t dim : order) {
    const std::size_t padding = pads && random.one_in(2) ? unit * (1 + random.below(5)) : 0;
    step += padding;
    if (padding != 0) is_natural = false;
    strides_[dim] = step;
    if (extents.any()) elements_ += step * (counts[dim] - 1);
    step *= std::max<std::size_t>(counts[dim], 1);
  }
  const Placement placement = random.one_in(2) ? Placement::ends_at_guard : Placement::begins_at_guard;
  const std::size_t size = size_of(type);
  buffer_ = std::make_shared<GuardedBuffer>(elements_ * size, placement, random.below(64 / size) * size);

  const bool has[3] = {extents.has_batch, true, extents.has_tokens},
             repeat[3] = {repeats.batch, repeats.head, repeats.token};
  std::ptrdiff_t *const given[3] = {&given_.batch, &given_.head, &given_.token};
  const bool as_zeros = is_natural && random.one_in(2);
  const std::size_t full[3] = {extents.batch, extents.heads, extents.tokens};
  for (std::size_t dim = 0; dim < 3; ++dim) {
    const bool used = has[dim] && full[dim] > 1;
    // The call must ignore an unused stride, so it may be any of these values.
    const std::ptrdiff_t odd = random.one_of<std::ptrdiff_t>({0, 1, -77, RAPT_REPEAT, PTRDIFF_MAX, 64});
    *given[dim] = !has[dim]     ? odd
                  : as_zeros    ? 0
                  : repeat[dim] ? RAPT_REPEAT
                  : used        ? static_cast<std::ptrdiff_t>(strides_[dim])
                                : odd;
    if (counts[dim] <= 1) strides_[dim] = 0;
  }
}

Placed Placed::of_units(const Placed &of, rapt_type type, std::size_t row, std::size_t unit) {
  Placed made;
  made.type_ = type;
  for (std::size_t dim = 0; dim < 3; ++dim) made.strides_[dim] = of.strides_[dim] / unit;
  made.elements_ = of.elements_ == 0 ? 0 : (of.elements_ - row * unit) / unit + row;
  made.buffer_ = std::make_shared<GuardedBuffer>(made.elements_ * size_of(type), Placement::ends_at_guard, 0);
  return made;
}

rapt_strides Placed::written_out() const {
  const auto stride = [](std::size_t steps) {
    return steps == 0 ? RAPT_REPEAT : static_cast<std::ptrdiff_t>(steps);
  };
  return {stride(strides_[0]), stride(strides_[1]), stride(strides_[2])};
}

std::size_t Placed::index(std::size_t b, std::size_t h, std::size_t t) const {
  return b * strides_[0] + h * strides_[1] + t * strides_[2];
}
void Placed::remember() {
  const auto *first = static_cast<const unsigned char *>(data());
  image_.assign(first, first + bytes());
}
bool Placed::unchanged() const {
  return !buffer_ || (buffer_->surroundings_intact() &&
                      std::equal(image_.begin(), image_.end(), static_cast<const unsigned char *>(data())));
}
bool Placed::take_writes() {
  if (!buffer_) return true;
  auto *const now = static_cast<unsigned char *>(data());
  if (written_.empty()) written_.assign(bytes(), canary);
  bool is_first = true;
  for (std::size_t i = 0, size = size_of(type_); i < bytes(); i += size) {
    if (is_canary(now + i, size)) continue;
    is_first = is_first && is_canary(&written_[i], size);
    std::memcpy(&written_[i], now + i, size);
    std::memset(now + i, canary, size);
  }
  return is_first;
}
void Placed::put_back() {
  if (!written_.empty()) std::memcpy(data(), written_.data(), written_.size());
}
void Placed::clear(std::size_t b, std::size_t h, std::size_t t, std::size_t d) const {
  const std::size_t size = size_of(type_);
  std::memset(static_cast<unsigned char *>(data()) + (index(b, h, t) + d) * size, canary, size);
}

template <class T>
Listed::Listed(Random &random, const std::vector<T> &values) {
  if (values.empty()) return;
  const std::size_t bytes = values.size() * sizeof(T);
  const Placement placement = random.one_in(2) ? Placement::ends_at_guard : Placement::begins_at_guard;
  buffer_ = std::make_shared<GuardedBuffer>(bytes, placement, random.below(64 / sizeof(T)) * sizeof(T));
  std::memcpy(buffer_->data(), values.data(), bytes);
  const auto *first = static_cast<const unsigned char *>(data());
  image_.assign(first, first + bytes);
}
bool Listed::unchanged() const {
  return !buffer_ ||
         (buffer_->surroundings_intact() && std::memcmp(data(), image_.data(), image_.size()) == 0);
}

// ---- a problem in memory ----

AttentionMemory::AttentionMemory(const AttentionProblem &problem, std::uint64_t seed, bool backward,
                                 bool in_place)
    : p_(problem), a_(problem.a), random_(seed * 77 + 3), backward_(backward), in_place_(in_place) {
  o_.q_type = p_.q == RAPT_F32 && random_.one_in(2) ? RAPT_TYPE_DEFAULT : p_.q;
  o_.kv_type = p_.kv == p_.q && random_.one_in(2) ? RAPT_TYPE_DEFAULT : p_.kv;
  o_.out_type = p_.out == p_.q && random_.one_in(2) ? RAPT_TYPE_DEFAULT : p_.out;
  o_.arithmetic = p_.arithmetic;
  o_.scale_group = a_.scale_group;
  o_.batch = a_.batch;
  o_.q_heads = a_.q_heads;
  o_.kv_heads = a_.kv_heads == a_.q_heads && random_.one_in(2) ? 0 : a_.kv_heads;
  o_.q_len = a_.q_len;
  o_.kv_len = a_.kv_len;
  o_.qk_dim = a_.qk_dim;
  o_.v_dim = a_.v_dim == a_.qk_dim && random_.one_in(2) ? 0 : a_.v_dim;
  o_.scale = a_.scale;
  o_.softcap = a_.softcap;
  o_.causal = p_.causal;
  o_.causal_offset = p_.causal_offset;
  o_.window_left = p_.window_left;
  o_.window_right = p_.window_right;
  o_.window_chunk = p_.window_chunk;
  place_queries();
  place_keys();
  place_options();
}

void AttentionMemory::place_queries() {
  if (!a_.q_lengths.empty() || (!p_.q_repeats.batch && random_.one_in(4) && a_.q_starts.empty())) {
    q_first_ = {static_cast<std::int32_t>(random_.below(4))};
    for (std::size_t b = 0; b < a_.batch; ++b) {
      q_first_.push_back(q_first_[b] + static_cast<std::int32_t>(a_.queries(b)));
    }
    layout_ += " q_offsets";
  }
  // With q_offsets, all queries form one sequence. It has no batch to repeat. Its tokens may repeat only if
  // all sequences have the same rows.
  Repeats repeats = p_.q_repeats;
  if (!q_first_.empty()) {
    repeats.token = repeats.token && (repeats.batch || a_.batch == 1);
    repeats.batch = false;
  }
  q_ = Placed(random_, p_.q, queries_extents(a_.qk_dim), repeats);
  for (std::size_t b = 0; b < a_.batch; ++b) {
    for (std::size_t h = 0; h < a_.q_heads; ++h) {
      for (std::size_t i = 0; i < a_.queries(b); ++i) {
        for (std::size_t d = 0; d < a_.qk_dim; ++d) {
          q_.put(query(b, i).b, h, query(b, i).t, d, a_.query(b, h, i)[d]);
        }
      }
    }
  }
  q_.remember();
  o_.q_strides = q_.strides();
  in_place_ = in_place_ && p_.q == p_.out && a_.qk_dim == a_.v_dim && !repeats.batch && !repeats.head &&
              !repeats.token;
}

void AttentionMemory::place_keys() {
  const Repeats &k_repeats = p_.k_repeats, &v_repeats = p_.v_repeats;
  const bool may_be_one = !k_repeats.batch && !k_repeats.token && !v_repeats.batch && !v_repeats.token;
  const auto begin_at = [&](std::int32_t unit) {
    return std::all_of(a_.kv_starts.begin(), a_.kv_starts.end(),
                       [&](auto start) { return start % unit == 0; });
  };
  if (!backward_ && random_.one_in(4)) packed_ = !k_repeats.token && !p_.v_is_k && begin_at(64);
  if (!backward_ && may_be_one && a_.kv_len > 0 && random_.one_in(4) && begin_at(16)) {
    constexpr std::size_t sizes[] = {16, 32, 48, 64, 80, 128, 512, 1024}, small[] = {1, 3, 16, 24, 100};
    page_size_ = sizes[random_.below(8)];
    if (p_.seed % 3 == 0 && !packed_) page_size_ = small[p_.seed / 3 % 5];
    if (packed_) page_size_ = (page_size_ + 63) / 64 * 64;
    layout_ += " page_size=" + std::to_string(page_size_);
  } else if (!packed_ && may_be_one && random_.one_in(4) && a_.kv_starts.empty()) {
    kv_first_ = {static_cast<std::int32_t>(random_.below(4))};
    const bool has_slack = !a_.kv_lengths.empty() && random_.one_in(2);
    for (std::size_t b = 0; b < a_.batch; ++b) {
      const std::size_t slack =
          has_slack ? random_.below(std::min<std::size_t>(8, a_.kv_len - a_.keys(b) + 1)) : 0;
      kv_first_.push_back(kv_first_[b] + static_cast<std::int32_t>(a_.keys(b) + slack));
    }
    layout_ += " kv_offsets";
    // If no memory between sequences is unused, kv_offsets also give the lengths.
    if (has_slack) kv_lengths_ = Listed(random_, a_.kv_lengths);
  }
  if (kv_first_.empty()) kv_lengths_ = Listed(random_, a_.kv_lengths);
  if (page_size_ != 0) {  // pages are in random order, and some are unused
    const std::size_t columns = (a_.kv_len + page_size_ - 1) / page_size_;
    table_stride_ = columns + (random_.one_in(2) ? 0 : 1 + random_.below(3));
    table_.assign(a_.batch * table_stride_, -1);
    std::vector<std::int32_t *> used;
    for (std::size_t b = 0; b < a_.batch; ++b) {
      // Pages before the start, and those of a sequence without keys, need not exist.
      for (std::size_t i = a_.start(b) / page_size_; i * page_size_ < a_.keys(b); ++i) {
        if (a_.start(b) < a_.keys(b)) used.push_back(&table_[b * table_stride_ + i]);
      }
    }
    for (std::size_t i = used.size(); i > 1; --i) std::swap(used[i - 1], used[random_.below(i)]);
    for (std::int32_t *page : used) {
      pages_ += random_.one_in(4);
      *page = static_cast<std::int32_t>(pages_++);
    }
    block_table_ = Listed(random_, table_);
    o_.block_table = block_table_.of<std::int32_t>();
    o_.block_table_stride = table_stride_ == columns && random_.one_in(2) ? 0 : table_stride_;
    o_.page_size = page_size_;
  }
  if (may_be_one) draw_tokens();
  const std::size_t k_unit = p_.kv == RAPT_I8 ? a_.group_of(a_.qk_dim) : 1;
  const std::size_t v_unit = p_.kv == RAPT_I8 ? a_.group_of(a_.v_dim) : 1;
  Extents k = keys_extents(a_.qk_dim);
  const std::size_t padded = (k.tokens + 63) / 64 * 64;
  if (packed_) {
    layout_ += " packed_keys";
    k.row = padded * a_.qk_dim;
    k.tokens = 1;
    k.has_tokens = false;
  }
  k_ = Placed(random_, p_.kv, k, k_repeats, k_unit);
  o_.k_strides = k_.strides();
  o_.packed_keys = packed_ ? random_.one_of({1, -1, 256}) : 0;
  v_ = p_.v_is_k ? k_ : Placed(random_, p_.kv, keys_extents(a_.v_dim), v_repeats, v_unit);
  o_.v_strides = p_.v_is_k ? v_.written_out() : v_.strides();
  const std::size_t k_groups = a_.qk_dim / a_.group_of(a_.qk_dim),
                    v_groups = a_.v_dim / a_.group_of(a_.v_dim);
  if (p_.kv == RAPT_I8) {
    k_scales_ = Placed::of_units(k_, RAPT_F32, packed_ ? padded * k_groups : k_groups, k_unit);
    v_scales_ = p_.v_is_k && random_.one_in(2)
                    ? k_scales_
                    : Placed::of_units(v_, RAPT_F32, v_groups, p_.v_is_k ? k_unit : v_unit);
    o_.k_scales = static_cast<const float *>(k_scales_.data());
    o_.v_scales = static_cast<const float *>(v_scales_.data());
  }
  for (std::size_t b = 0; b < a_.batch; ++b) {
    for (std::size_t h = 0; h < a_.kv_heads; ++h) {
      for (std::size_t j = a_.start(b); j < a_.keys(b); ++j) {
        const Place at = key(b, j);
        const std::size_t row = (b * a_.kv_heads + h) * a_.kv_len + j;
        for (std::size_t d = 0; d < a_.qk_dim; ++d) {
          const double value = a_.k[row * a_.qk_dim + d];
          if (packed_) {
            k_.put(at.b, h, 0, at.t / 64 * 64 * a_.qk_dim + d * 64 + at.t % 64, value);
          } else {
            k_.put(at.b, h, at.t, d, value);
          }
        }
        for (std::size_t d = 0; d < a_.v_dim; ++d) v_.put(at.b, h, at.t, d, a_.v[row * a_.v_dim + d]);
        if (p_.kv != RAPT_I8) continue;
        for (std::size_t g = 0; g < k_groups; ++g) {
          k_scales_.put(at.b, h, packed_ ? 0 : at.t, packed_ ? at.t * k_groups + g : g,
                        a_.k_scales[row * k_groups + g]);
        }
        for (std::size_t g = 0; g < v_groups; ++g)
          v_scales_.put(at.b, h, at.t, g, a_.v_scales[row * v_groups + g]);
      }
    }
  }
  for (Placed *tensor : {&k_, &v_, &k_scales_, &v_scales_}) {
    if (tensor->data()) tensor->remember();
  }
}

// Draws which token of a larger cache each key is, in runs of tokens that follow each other. Its own numbers leave
// other draws as they are.
void AttentionMemory::draw_tokens() {
  Random random(p_.seed * 0x2545f4914f6cdd1du + 7);
  const bool has_place = packed_ || page_size_ != 0 || !kv_first_.empty() || !a_.kv_starts.empty();
  if (backward_ || has_place || a_.kv_len == 0 || !random.one_in(3)) return;
  cache_len_ = a_.kv_len + random.below(20);
  const std::size_t length = random.one_of<std::size_t>({1, 1, 5, 16, 40, 64, 2000});
  layout_ += " key_lists of runs of " + std::to_string(length);
  for (std::size_t b = 0; b < a_.batch; ++b) {
    std::vector<std::size_t> runs;
    for (std::size_t first = 0; first < cache_len_; first += length) runs.push_back(first);
    for (std::size_t i = runs.size(); i > 1; --i) std::swap(runs[i - 1], runs[random.below(i)]);
    std::vector<std::int32_t> order;
    for (const std::size_t first : runs) {
      for (std::size_t t = first; t < std::min(first + length, cache_len_); ++t)
        order.push_back(static_cast<std::int32_t>(t));
    }
    tokens_.insert(tokens_.end(), order.begin(), order.begin() + static_cast<std::ptrdiff_t>(a_.kv_len));
  }
}

// Makes lists of the keys' tokens, for all queries of a sequence or for some. A key that none of them sees may be -1,
// and the list may end before it.
void AttentionMemory::place_lists() {
  if (tokens_.empty() || a_.q_len == 0) return;
  Random random(p_.seed * 0x2545f4914f6cdd1du + 9);
  const bool has_positions = p_.causal != RAPT_CAUSAL_NONE || p_.window_left != 0 || p_.window_right != 0 ||
                             p_.window_chunk != 0 || !a_.alibi_slopes.empty();
  const bool by_query = !has_positions && random.one_in(2);
  const bool has_lengths = !has_positions && random.one_in(2), drops = random.one_in(2);
  if (by_query) o_.queries_per_list = 1 + random.below(a_.q_len + 2);
  layout_ += std::string(by_query ? " queries_per_list" : "") + (has_lengths ? " key_list_lengths" : "") +
             (drops ? " key_lists without tokens" : "");
  const std::size_t some = by_query ? std::min(o_.queries_per_list, a_.q_len) : a_.q_len;
  const std::size_t lists = (a_.q_len + some - 1) / some, padding = random.below(3),
                    row = a_.kv_len + padding;
  const bool share_heads = a_.mask.empty() && a_.bias.empty() && random.one_in(2);
  const std::size_t heads = share_heads ? 1 : a_.kv_heads, group = a_.q_heads_per_kv_head();
  std::vector<std::int32_t> entries(a_.batch * heads * lists * row, 1 << 30),
      lengths(a_.batch * heads * lists);
  for (std::size_t b = 0; b < a_.batch; ++b) {
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t l = 0; l < lists; ++l) {
        const std::size_t list = (b * heads + h) * lists + l;
        for (std::size_t j = 0; j < a_.keys(b); ++j) {
          bool is_seen = false;
          const std::size_t end = std::min((l + 1) * some, a_.queries(b));
          for (std::size_t i = l * some; i < end && !is_seen; ++i) {
            const std::size_t first = share_heads ? 0 : h * group,
                              last = share_heads ? a_.q_heads : first + group;
            for (std::size_t of = first; of < last && !is_seen; ++of) is_seen = is_visible(a_, b, of, i, j);
          }
          entries[list * row + j] = is_seen || !drops || random.one_in(3) ? tokens_[b * a_.kv_len + j] : -1;
          if (is_seen || !drops) lengths[list] = static_cast<std::int32_t>(j + 1);
        }
      }
    }
  }
  key_lists_ = Listed(random, entries);
  o_.key_lists = key_lists_.of<std::int32_t>();
  o_.cache_len = cache_len_;
  const auto stride = [](std::size_t n) { return static_cast<std::ptrdiff_t>(n); };
  const std::ptrdiff_t shared = share_heads ? RAPT_REPEAT : stride(lists * row);
  o_.key_list_strides = {stride(heads * lists * row), shared, stride(row)};
  if (padding == 0 && !share_heads && random.one_in(2)) o_.key_list_strides = {0, 0, 0};
  if (!has_lengths) return;
  key_list_lengths_ = Listed(random, lengths);
  o_.key_list_lengths = key_list_lengths_.of<std::int32_t>();
  o_.key_list_length_strides = {stride(heads * lists), share_heads ? RAPT_REPEAT : stride(lists), 1};
  o_.kv_lengths = nullptr;
}

void AttentionMemory::place_options() {
  const rapt_type number = p_.number();
  const auto place = [&](const auto &values, rapt_type type, Repeats repeats, std::size_t row, bool by_key) {
    Placed placed(random_, type, {a_.batch, a_.q_heads, a_.q_len, row}, repeats);
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        for (std::size_t i = 0; i < a_.queries(b); ++i) {
          for (std::size_t j = by_key ? a_.start(b) : 0; j < (by_key ? a_.keys(b) : 1); ++j) {
            placed.put(b, h, i, j, static_cast<double>(values[a_.row(repeats, b, h, i) * row + j]));
          }
        }
      }
    }
    placed.remember();
    return placed;
  };
  if (!a_.query_scales.empty()) {
    query_scales_ = place(a_.query_scales, number, {}, 1, false);
    o_.query_scales = query_scales_.data();
    o_.query_scale_strides = query_scales_.strides();
  }
  if (!a_.bias.empty()) {
    bias_ = place(a_.bias, number, a_.bias_repeats, a_.kv_len, true);
    o_.bias = bias_.data();
    o_.bias_strides = bias_.strides();
    dbias_joins_batches = a_.bias_repeats.batch && a_.batch > 1;
    dbias_joins_heads = a_.bias_repeats.head && a_.kv_heads > 1;
  }
  if (!a_.mask.empty()) {
    mask_ = place(a_.mask, RAPT_I8, a_.mask_repeats, a_.kv_len, true);
    o_.mask = static_cast<const std::uint8_t *>(mask_.data());
    o_.mask_strides = mask_.strides();
  }
  const auto list = [&](const std::vector<double> &values) {
    if (number == RAPT_F64) return Listed(random_, values);
    return Listed(random_, std::vector<float>(values.begin(), values.end()));
  };
  slopes_ = list(a_.alibi_slopes);
  sinks_ = list(a_.sinks);
  o_.alibi_slopes = slopes_.data();
  o_.sinks = sinks_.data();
  q_offsets_ = Listed(random_, q_first_);
  kv_offsets_ = Listed(random_, kv_first_);
  o_.q_offsets = q_offsets_.of<std::int32_t>();
  o_.kv_offsets = kv_offsets_.of<std::int32_t>();
  o_.kv_lengths = kv_lengths_.of<std::int32_t>();
  q_starts_ = Listed(random_, a_.q_starts);
  kv_starts_ = Listed(random_, a_.kv_starts);
  o_.q_starts = q_starts_.of<std::int32_t>();
  o_.kv_starts = kv_starts_.of<std::int32_t>();
  place_lists();
}

AttentionMemory::Place AttentionMemory::query(std::size_t b, std::size_t i) const {
  return q_first_.empty() ? Place{b, i} : Place{0, static_cast<std::size_t>(q_first_[b]) + i};
}
AttentionMemory::Place AttentionMemory::key(std::size_t b, std::size_t j) const {
  if (page_size_ != 0) {
    return {static_cast<std::size_t>(table_[b * table_stride_ + j / page_size_]), j % page_size_};
  }
  if (!tokens_.empty()) return {b, static_cast<std::size_t>(tokens_[b * a_.kv_len + j])};
  return kv_first_.empty() ? Place{b, j} : Place{0, static_cast<std::size_t>(kv_first_[b]) + j};
}
Extents AttentionMemory::queries_extents(std::size_t row) const {
  if (q_first_.empty()) return {a_.batch, a_.q_heads, a_.q_len, row};
  return {1, a_.q_heads, static_cast<std::size_t>(q_first_.back()), row, false};
}
Extents AttentionMemory::keys_extents(std::size_t row) const {
  if (page_size_ != 0) return {pages_, a_.kv_heads, page_size_, row};
  if (kv_first_.empty()) return {a_.batch, a_.kv_heads, tokens_.empty() ? a_.kv_len : cache_len_, row};
  return {1, a_.kv_heads, static_cast<std::size_t>(kv_first_.back()), row, false};
}
std::size_t AttentionMemory::keys_in_memory(std::size_t b) const {
  return kv_first_.empty() ? a_.kv_len : static_cast<std::size_t>(kv_first_[b + 1] - kv_first_[b]);
}

void AttentionMemory::check(rapt_status status, const char *function) {
  if (status != RAPT_OK) faults_ += std::string(function) + ": " + rapt_status_text(status) + "; ";
}
std::unique_ptr<GuardedBuffer> AttentionMemory::workspace(std::size_t bytes) {
  const Placement placement = random_.one_in(2) ? Placement::ends_at_guard : Placement::begins_at_guard;
  return std::make_unique<GuardedBuffer>(bytes, placement, random_.below(64));
}
void AttentionMemory::check_inputs() {
  if (!in_place_) fault_unless(q_.unchanged(), "wrote to q");
  fault_unless(k_.unchanged() && v_.unchanged() && k_scales_.unchanged() && v_scales_.unchanged(),
               "wrote to keys or values");
  fault_unless(bias_.unchanged() && mask_.unchanged() && query_scales_.unchanged() && slopes_.unchanged() &&
                   sinks_.unchanged() && q_offsets_.unchanged() && kv_offsets_.unchanged() &&
                   kv_lengths_.unchanged() && block_table_.unchanged() && q_starts_.unchanged() &&
                   kv_starts_.unchanged() && key_lists_.unchanged() && key_list_lengths_.unchanged(),
               "wrote to an option's array");
}

// Calls run(first, last) until all tasks are done, in random ranges and random order. Two runs must not write
// the same element of an output.
template <class Run>
void AttentionMemory::run_ranges(Way way, std::size_t tasks, std::initializer_list<Placed *> outputs,
                                 Run &&run) {
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (std::size_t first = 0; first < tasks;) {
    const std::size_t length = way == Way::one_by_one ? 1 : 1 + random_.below(tasks - first);
    ranges.emplace_back(first, first + length);
    first += length;
  }
  for (std::size_t i = ranges.size(); i > 1; --i) std::swap(ranges[i - 1], ranges[random_.below(i)]);
  std::size_t bytes = 0;
  for (const Placed *output : outputs) bytes += output->bytes();
  const bool takes = bytes * ranges.size() < 200000 && !in_place_;
  for (const auto &[first, last] : ranges) {
    run(first, last);
    for (Placed *output : outputs) {
      if (takes) fault_unless(output->take_writes(), "two runs wrote to one element");
    }
  }
  for (Placed *output : outputs) output->put_back();
}

// Lowers each reference score m by log(2^n) / f, so exp(f * (score - m)) and the partial sums grow by 2^n.
void AttentionMemory::move_references(void *partials) {
  const rapt_type number = p_.number();
  const std::size_t length = a_.v_dim + 2, chunks = (a_.kv_len + 511) / 512;
  for (std::size_t b = 0; b < a_.batch; ++b) {
    for (std::size_t h = 0; h < a_.q_heads; ++h) {
      for (std::size_t i = 0; i < a_.queries(b); ++i) {
        const double f = p_.score_factor(b, h, i);
        for (std::size_t c = 0; c < chunks && f > 0; ++c) {
          const std::size_t first = (a_.row({}, b, h, i) * chunks + c) * length;
          const double factor = std::ldexp(1, static_cast<int>(random_.below(9)));
          const double m = number_at(number, partials, first) - std::log(factor) / f;
          if (!std::isfinite(rounded(number, m))) continue;
          set_number(number, partials, first, m);
          for (std::size_t n = first + 1; n < first + length; ++n)
            set_number(number, partials, n, factor * number_at(number, partials, n));
        }
      }
    }
  }
}

AttentionResults AttentionMemory::run(Way way, bool moves_references) {
  const rapt_type number = p_.number();
  const bool has_lse = !random_.one_in(4);
  Placed out = in_place_ ? q_ : Placed(random_, p_.out, queries_extents(a_.v_dim));
  Placed lse = has_lse ? Placed(random_, number, queries_extents(1)) : Placed();
  o_.out_strides = out.strides();
  o_.lse = lse.data();
  o_.lse_strides = has_lse ? lse.strides() : rapt_strides{0, 0, 0};

  std::size_t bytes = 0, tasks = 0, partial_tasks = 0, partials_length = 0;
  check(rapt_attention_workspace(&o_, &bytes), "rapt_attention_workspace");
  check(rapt_attention_tasks(&o_, &tasks), "rapt_attention_tasks");
  check(rapt_attention_partial_tasks(&o_, &partial_tasks, &partials_length), "rapt_attention_partial_tasks");
  const std::size_t e = number == RAPT_F64 ? 8 : 4, chunks = (a_.kv_len + 511) / 512;
  if (p_.kv != RAPT_I8 && !p_.in_bf16()) {
    const std::size_t widened =
        p_.kv == RAPT_F16 || p_.kv == RAPT_BF16 ? 256 * (a_.qk_dim + a_.v_dim) + 128 : 0;
    const std::size_t least = e * (64 * a_.qk_dim + 128 * a_.v_dim + 8192) + 64 + widened;
    const std::size_t rows = e * (64 * (a_.qk_dim + a_.v_dim) + std::max(a_.qk_dim, a_.v_dim));
    const bool is_scattered = o_.key_lists || o_.page_size % 16 != 0;
    fault_unless(is_scattered ? bytes >= least + rows && bytes <= least + rows + 384 : bytes == least,
                 "size of the workspace");
  }
  const std::size_t some = o_.queries_per_list == 0 ? a_.q_len : std::min(o_.queries_per_list, a_.q_len);
  const std::size_t lists = some == 0 ? 0 : (a_.q_len + some - 1) / some;
  fault_unless(tasks == a_.batch * a_.kv_heads * lists * ((some * a_.q_heads_per_kv_head() + 63) / 64),
               "number of tasks");
  fault_unless(partial_tasks == tasks * chunks, "number of partial tasks");
  fault_unless(partials_length == a_.batch * a_.q_heads * a_.q_len * chunks * (a_.v_dim + 2),
               "partials_length");
  const auto work = workspace(bytes);
  const void *q = q_.data(), *k = k_.data(), *v = v_.data();
  if (way == Way::whole) {
    check(rapt_attention(q, k, v, out.data(), &o_, work->data(), bytes), "rapt_attention");
  } else if (way != Way::split_keys) {
    run_ranges(way, tasks, {&out, &lse}, [&](std::size_t first, std::size_t last) {
      check(rapt_attention_run(q, k, v, out.data(), &o_, first, last, work->data(), bytes),
            "rapt_attention_run");
    });
  } else {
    const GuardedBuffer partials(partials_length * e, Placement::ends_at_guard, 0);
    run_ranges(random_.one_in(2) ? Way::tasks : Way::one_by_one, partial_tasks, {},
               [&](std::size_t first, std::size_t last) {
                 check(
                     rapt_attention_partial(q, k, v, partials.data(), &o_, first, last, work->data(), bytes),
                     "rapt_attention_partial");
               });
    partials_.clear();
    for (std::size_t i = 0; i < partials_length; ++i)
      partials_.push_back(number_at(number, partials.data(), i));
    fault_unless(partials.surroundings_intact(), "wrote around partials");
    fault_unless(lse.all_canary(), "a partial call wrote lse");
    const std::size_t row = chunks * (a_.v_dim + 2) * e;
    for (std::size_t r = 0; r < a_.batch * a_.q_heads * a_.q_len; ++r) {
      const bool exists = r % a_.q_len < a_.queries(r / a_.q_len / a_.q_heads);
      const auto *numbers = static_cast<const unsigned char *>(partials.data()) + r * row;
      fault_unless(exists || is_canary(numbers, row), "wrote partial results of a row that there is not");
    }
    if (moves_references) move_references(partials.data());
    run_ranges(Way::tasks, tasks, {&out, &lse}, [&](std::size_t first, std::size_t last) {
      check(rapt_attention_merge(partials.data(), out.data(), &o_, first, last, work->data(), bytes),
            "rapt_attention_merge");
    });
  }
  fault_unless(work->surroundings_intact(), "wrote around the workspace");

  AttentionResults results;
  for (std::size_t b = 0; b < a_.batch; ++b) {
    for (std::size_t h = 0; h < a_.q_heads; ++h) {
      for (std::size_t i = 0; i < a_.q_len; ++i) {
        const bool exists = i < a_.queries(b);
        const Place at = query(b, i);
        for (std::size_t d = 0; d < a_.v_dim; ++d) {
          results.out.push_back(exists ? out.at(at.b, h, at.t, d) : nan);
          if (exists) out.clear(at.b, h, at.t, d);
        }
        results.lse.push_back(exists && has_lse ? lse.at(at.b, h, at.t, 0) : nan);
        if (exists && has_lse) lse.clear(at.b, h, at.t, 0);
      }
    }
  }
  fault_unless(out.all_canary(), "wrote outside the rows of out");
  fault_unless(lse.all_canary(), "wrote outside the elements of lse");
  check_inputs();
  if (!has_lse) results.lse.clear();
  return results;
}

GradientResults AttentionMemory::run_backward(Way way, const std::vector<double> &out,
                                              const std::vector<double> &lse) {
  const rapt_type number = p_.number();
  const Placed out_at(random_, p_.out, queries_extents(a_.v_dim)),
      dout(random_, p_.out, queries_extents(a_.v_dim)), lse_at(random_, number, queries_extents(1));
  for (std::size_t b = 0; b < a_.batch; ++b) {
    for (std::size_t h = 0; h < a_.q_heads; ++h) {
      for (std::size_t i = 0; i < a_.queries(b); ++i) {
        const Place at = query(b, i);
        const std::size_t row = a_.row({}, b, h, i);
        for (std::size_t d = 0; d < a_.v_dim; ++d) {
          out_at.put(at.b, h, at.t, d, out[row * a_.v_dim + d]);
          dout.put(at.b, h, at.t, d, p_.dout[row * a_.v_dim + d]);
        }
        lse_at.put(at.b, h, at.t, 0, lse[row]);
      }
    }
  }
  Placed dq(random_, p_.gradient_of(p_.q), queries_extents(a_.qk_dim)),
      dk(random_, p_.gradient_of(p_.kv), keys_extents(a_.qk_dim)),
      dv(random_, p_.gradient_of(p_.kv), keys_extents(a_.v_dim));
  // dbias has the same strides as the bias.
  const bool has_dbias = !a_.bias.empty() && !random_.one_in(4),
             has_dsinks = !a_.sinks.empty() && !random_.one_in(4);
  Placed dbias = has_dbias ? Placed::of_units(bias_, number, a_.kv_len, 1) : Placed();
  Placed dsinks = has_dsinks ? Placed(random_, number, {1, 1, 1, a_.q_heads}) : Placed();
  o_.out_strides = out_at.strides();
  o_.lse = lse_at.data();
  o_.lse_strides = lse_at.strides();
  rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
  g.out = out_at.data();
  g.dout = dout.data();
  g.dout_strides = dout.strides();
  g.dq = dq.data();
  g.dq_strides = dq.strides();
  g.dk = dk.data();
  g.dk_strides = dk.strides();
  g.dv = dv.data();
  g.dv_strides = dv.strides();
  g.dbias = dbias.data();
  g.dsinks = dsinks.data();
  g.type = p_.gradient;

  std::size_t bytes = 0, tasks = 0;
  check(rapt_attention_backward_workspace(&o_, &bytes), "rapt_attention_backward_workspace");
  check(rapt_attention_backward_tasks(&o_, &g, &tasks), "rapt_attention_backward_tasks");
  const std::size_t e = number == RAPT_F64 ? 8 : 4;
  std::size_t expected = e * (128 * a_.qk_dim + 128 * a_.v_dim + 12800) + 64;
  const auto is_half = [](rapt_type type) { return type == RAPT_F16 || type == RAPT_BF16; };
  if (is_half(p_.q) || is_half(p_.kv) || is_half(p_.out)) {
    expected += e * ((128 + a_.kv_len) * (a_.qk_dim + a_.v_dim) + 64);
  }
  fault_unless(bytes == expected, "size of the workspace");
  // A set is one key/value head of one sequence, or all heads and sequences that share an element of dbias.
  const auto joined = [&](bool repeats, std::size_t count) { return has_dbias && repeats ? 1 : count; };
  const std::size_t sets =
      joined(a_.bias_repeats.batch, a_.batch) * joined(a_.bias_repeats.head, a_.kv_heads);
  const bool begin_apart = has_dbias && dbias_joins_batches && !a_.kv_starts.empty();
  const std::size_t parts = begin_apart ? 1
                                        : std::min({(64 + sets - 1) / sets, (a_.kv_len + 63) / 64,
                                                    (a_.q_len * a_.q_heads_per_kv_head() + 63) / 64});
  const bool has_no_element = a_.q_len == 0 || a_.kv_len == 0;  // the call then ignores the strides of dbias
  fault_unless((has_dbias && has_no_element) || tasks == sets * std::max<std::size_t>(1, parts),
               "number of tasks");
  const auto work = workspace(bytes);
  const void *q = q_.data(), *k = k_.data(), *v = v_.data();
  if (way == Way::whole) {
    check(rapt_attention_backward(q, k, v, &o_, &g, work->data(), bytes), "rapt_attention_backward");
  } else {
    run_ranges(way, tasks, {&dq, &dk, &dv, &dbias, &dsinks}, [&](std::size_t first, std::size_t last) {
      check(rapt_attention_backward_run(q, k, v, &o_, &g, first, last, work->data(), bytes),
            "rapt_attention_backward_run");
    });
  }
  fault_unless(work->surroundings_intact(), "wrote around the workspace");

  GradientResults results;
  const auto take = [](const Placed &tensor, std::vector<double> &values, bool exists, std::size_t b,
                       std::size_t h, std::size_t t,
                       std::size_t d) { values.push_back(exists ? tensor.at(b, h, t, d) : 0); };
  for (std::size_t b = 0; b < a_.batch; ++b) {
    for (std::size_t h = 0; h < a_.q_heads; ++h) {
      for (std::size_t i = 0; i < a_.q_len; ++i) {
        const Place at = query(b, i);
        for (std::size_t d = 0; d < a_.qk_dim; ++d) take(dq, results.dq, i < a_.queries(b), at.b, h, at.t, d);
      }
    }
    for (std::size_t h = 0; h < a_.kv_heads; ++h) {
      for (std::size_t j = 0; j < a_.kv_len; ++j) {
        const bool exists = j < keys_in_memory(b);
        const Place at = page_size_ == 0 && exists ? key(b, j) : Place{0, 0};
        for (std::size_t d = 0; d < a_.qk_dim; ++d) take(dk, results.dk, exists, at.b, h, at.t, d);
        for (std::size_t d = 0; d < a_.v_dim; ++d) take(dv, results.dv, exists, at.b, h, at.t, d);
      }
    }
  }
  const auto clear_rows = [](const Placed &tensor, std::size_t batch, std::size_t heads, std::size_t begin,
                             std::size_t end, std::size_t row) {
    for (std::size_t b = 0; b < batch; ++b) {
      for (std::size_t h = 0; h < heads; ++h) {
        for (std::size_t t = begin; t < end; ++t) {
          for (std::size_t d = 0; d < row; ++d) tensor.clear(b, h, t, d);
        }
      }
    }
  };
  const Extents qs = queries_extents(1), ks = keys_extents(1);
  const auto first_of = [](const std::vector<std::int32_t> &offsets) {
    return offsets.empty() ? std::size_t{0} : static_cast<std::size_t>(offsets[0]);
  };
  clear_rows(dq, qs.batch, qs.heads, first_of(q_first_), qs.tokens, a_.qk_dim);
  clear_rows(dk, ks.batch, ks.heads, first_of(kv_first_), ks.tokens, a_.qk_dim);
  clear_rows(dv, ks.batch, ks.heads, first_of(kv_first_), ks.tokens, a_.v_dim);
  if (has_dbias) {
    const Repeats r = a_.bias_repeats;
    for (std::size_t b = 0; b < (r.batch ? 1 : a_.batch); ++b) {
      for (std::size_t h = 0; h < (r.head ? 1 : a_.q_heads); ++h) {
        for (std::size_t i = 0; i < (r.token ? 1 : a_.q_len); ++i) {
          for (std::size_t j = 0; j < a_.kv_len; ++j) take(dbias, results.dbias, a_.q_len != 0, b, h, i, j);
        }
      }
    }
    if (a_.q_len != 0)
      clear_rows(dbias, r.batch ? 1 : a_.batch, r.head ? 1 : a_.q_heads, 0, r.token ? 1 : a_.q_len,
                 a_.kv_len);
  }
  for (std::size_t h = 0; has_dsinks && h < a_.q_heads; ++h) {
    take(dsinks, results.dsinks, true, 0, 0, 0, h);
    dsinks.clear(0, 0, 0, h);
  }
  fault_unless(
      dq.all_canary() && dk.all_canary() && dv.all_canary() && dbias.all_canary() && dsinks.all_canary(),
      "wrote outside the rows of a gradient");
  check_inputs();
  return results;
}

}  // namespace rapt::test::oracle
