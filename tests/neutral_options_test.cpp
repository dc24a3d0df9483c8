// Tests that options which change no score change no bit: a bias of 0, slopes of 0, and a mask in place of a bias of 0
// and -inf. Programs that turn masks into biases get the bits of those that do not.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/elements.hpp"
#include "support/inputs.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

template <class T>
std::size_t different(const std::vector<T> &a, const std::vector<T> &b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += !same_bits(a[i], b[i]);
  return count;
}

// Returns a mask that excludes about one in `n` elements, and all of one row.
std::vector<std::uint8_t> draw_mask(Random &random, std::size_t rows, std::size_t cols, std::size_t n) {
  std::vector<std::uint8_t> mask(rows * cols);
  const std::size_t excluded_row = random.below(rows + 1);
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i / cols != excluded_row && !random.one_in(n);
  return mask;
}
template <class A>
std::vector<A> as_bias(const std::vector<std::uint8_t> &mask) {
  std::vector<A> bias(mask.size());
  for (std::size_t i = 0; i < bias.size(); ++i)
    bias[i] = mask[i] ? (i % 3 == 0 ? A(-0.0) : A(0)) : -std::numeric_limits<A>::infinity();
  return bias;
}

// ---- rows ----

template <class E>
struct RowResults {
  std::vector<E> softmax, log_softmax;
  std::vector<Number<E>> logsumexp;
};

template <class E>
RowResults<E> run_rows(const std::vector<E> &x, std::size_t rows, std::size_t cols,
                       const rapt_softmax_options &o) {
  const auto stride = static_cast<std::ptrdiff_t>(cols);
  RowResults<E> results{std::vector<E>(rows * cols), std::vector<E>(rows * cols),
                        std::vector<Number<E>>(rows)};
  REQUIRE(Api<E>::softmax(x.data(), stride, results.softmax.data(), stride, rows, cols, &o) == RAPT_OK);
  REQUIRE(Api<E>::log_softmax(x.data(), stride, results.log_softmax.data(), stride, rows, cols, &o) ==
          RAPT_OK);
  if constexpr (sizeof(E) > 2)
    REQUIRE(Api<E>::logsumexp(x.data(), stride, results.logsumexp.data(), rows, cols, &o) == RAPT_OK);
  return results;
}

template <class E>
void check_equal(const RowResults<E> &a, const RowResults<E> &b) {
  CHECK(different(a.softmax, b.softmax) == 0);
  CHECK(different(a.log_softmax, b.log_softmax) == 0);
  CHECK(different(a.logsumexp, b.logsumexp) == 0);
}

}  // namespace

TEST_CASE_TEMPLATE("rows: a bias of 0 is none, and a mask is a bias of 0 and -inf", E, float, double, F16,
                   BF16) {
  using A = Number<E>;
  for_each_usable_isa("softmax logsumexp", [](const std::string &isa) {
    CAPTURE(isa);
    Random random(23);
    for (const double scale : {0.0, 0.125, 0.3, -0.3, 3.0, 1e-30, 1e30}) {
      for (const std::size_t cols : Sizes{1, 5, 16, 33, 100, 257, 1100}) {
        for (const InputClass input :
             {InputClass::gaussian, InputClass::specials, InputClass::minus_infinities, InputClass::huge}) {
          if (emulated() && cols % 16 == 1) continue;
          const std::size_t rows = random.below(7) + 1;
          CAPTURE(scale);
          CAPTURE(cols);
          CAPTURE(rows);
          CAPTURE(std::string(name_of(input)));
          std::vector<E> x(rows * cols);
          fill<E>(input, random, x);
          std::vector<A> sinks(rows);
          fill<A>(InputClass::gaussian, random, sinks);
          const std::vector<A> zeros = as_bias<A>(std::vector<std::uint8_t>(rows * cols, 1));
          const std::vector<std::uint8_t> mask = draw_mask(random, rows, cols, 3);
          const std::vector<A> bias = as_bias<A>(mask);

          rapt_softmax_options plain = RAPT_SOFTMAX_OPTIONS_INIT;
          plain.scale = scale;
          if (random.one_in(4)) plain.softcap = 5;
          if (random.one_in(4)) plain.sinks = sinks.data();
          if (random.one_in(4)) plain.causal = RAPT_CAUSAL_TOP_LEFT;
          rapt_softmax_options biased = plain, masked = plain, excluding = plain;
          biased.bias = zeros.data();
          masked.mask = mask.data();
          excluding.bias = bias.data();
          check_equal(run_rows(x, rows, cols, plain), run_rows(x, rows, cols, biased));
          check_equal(run_rows(x, rows, cols, masked), run_rows(x, rows, cols, excluding));
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("rows whose biases are the lowest number have equal probabilities", T, float, double) {
  for_each_usable_isa("softmax_f", [](const std::string &isa) {
    CAPTURE(isa);
    for (const double scale : {0.001, 0.125, 1.0, 3.0, 1000.0, 1e-7, 1e7}) {
      for (const std::size_t cols : Sizes{4, 16, 64, 256}) {
        CAPTURE(scale);
        CAPTURE(cols);
        const std::vector<T> x(cols, T(2)), bias(cols, std::numeric_limits<T>::lowest());
        rapt_softmax_options o = RAPT_SOFTMAX_OPTIONS_INIT;
        o.scale = scale;
        o.bias = bias.data();
        const RowResults<T> results = run_rows(x, 1, cols, o);
        CHECK(results.softmax == std::vector<T>(cols, 1 / static_cast<T>(cols)));
      }
    }
  });
}

// ---- attention ----

namespace {

// Describes calls of attention, whose arrays are contiguous.
template <class Q, class KV>
struct Tensors {
  using A = Number<Q>;
  std::size_t q_len, kv_len, heads, dim;
  std::vector<Q> q, dout;
  std::vector<KV> k, v;
  std::vector<float> k_scales, v_scales;  // of int8
  std::vector<A> slopes, zero_slopes, query_scales;
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
};

template <class E>
constexpr rapt_type type_of() {
  if constexpr (sizeof(E) == 1) return RAPT_I8;
  if constexpr (std::is_same_v<E, F16>) return RAPT_F16;
  if constexpr (std::is_same_v<E, BF16>) return RAPT_BF16;
  return sizeof(E) == 8 ? RAPT_F64 : RAPT_F32;
}

template <class Q, class KV>
Tensors<Q, KV> draw_tensors(Random &random, InputClass input, double scale) {
  using A = Number<Q>;
  Tensors<Q, KV> t;
  t.q_len = random.one_in(2) ? random.below(8) + 1 : random.below(30) + 17;
  t.kv_len = random.one_in(4) ? 520 + random.below(64) : random.below(140) + 1;
  t.heads = random.below(2) + 1;
  t.dim = 32 * (random.below(2) + 1);
  t.q.resize(t.heads * t.q_len * t.dim);
  t.dout.resize(t.q.size());
  t.k.resize(t.heads * t.kv_len * t.dim);
  t.v.resize(t.k.size());
  fill<Q>(input, random, t.q);
  fill<Q>(InputClass::gaussian, random, t.dout);
  if constexpr (sizeof(KV) == 1) {
    for (KV &k : t.k) k = static_cast<KV>(static_cast<int>(random.below(255)) - 127);
    for (KV &v : t.v) v = static_cast<KV>(static_cast<int>(random.below(255)) - 127);
    t.k_scales.assign(t.heads * t.kv_len, 0.011f);
    t.v_scales.assign(t.heads * t.kv_len, 0.013f);
  } else {
    fill<KV>(input, random, t.k);
    fill<KV>(InputClass::gaussian, random, t.v);
  }
  for (std::size_t h = 0; h < t.heads; ++h) t.slopes.push_back(A(0.1) / static_cast<A>(h + 1));
  t.zero_slopes.assign(t.heads, A(0));
  rapt_attention_options &o = t.options;
  o.q_type = type_of<Q>();
  o.kv_type = type_of<KV>();
  o.q_heads = t.heads;
  o.q_len = t.q_len;
  o.kv_len = t.kv_len;
  o.qk_dim = t.dim;
  o.scale = scale;
  if (random.one_in(5)) o.softcap = 5;
  if (random.one_in(3)) o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
  if (std::is_same_v<Q, BF16> && random.one_in(2)) o.arithmetic = RAPT_ARITHMETIC_F32;
  if (random.one_in(3)) {
    const double largest = sizeof(A) == 4 ? 1e38 : 1e308;
    for (std::size_t i = 0; i < t.heads * t.q_len; ++i)
      t.query_scales.push_back(
          static_cast<A>(random.one_in(3) ? random.one_of({0.0, -0.5, 1 / largest, largest}) : 1.0));
  }
  return t;
}

template <class Q>
struct Attended {
  std::vector<Q> out, merged, dq, dk, dv;
  std::vector<Number<Q>> lse, merged_lse;
};

// Runs a whole call, a split one and, where it exists, the gradient.
template <class Q, class KV>
Attended<Q> attend(const Tensors<Q, KV> &t, rapt_attention_options o) {
  using A = Number<Q>;
  if (!t.k_scales.empty()) o.k_scales = t.k_scales.data(), o.v_scales = t.v_scales.data();
  if (!t.query_scales.empty()) o.query_scales = t.query_scales.data();
  Attended<Q> r;
  r.out.resize(t.q.size());
  r.merged.resize(t.q.size());
  r.lse.resize(t.heads * t.q_len);
  r.merged_lse.resize(r.lse.size());
  o.lse = r.lse.data();
  std::vector<unsigned char> workspace = workspace_for(o);
  REQUIRE(rapt_attention(t.q.data(), t.k.data(), t.v.data(), r.out.data(), &o, workspace.data(),
                         workspace.size()) == RAPT_OK);
  if constexpr (std::is_same_v<Q, KV>) {
    rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
    r.dq.resize(t.q.size());
    r.dk.resize(t.k.size());
    r.dv.resize(t.v.size());
    g.out = r.out.data();
    g.dout = t.dout.data();
    g.dq = r.dq.data();
    g.dk = r.dk.data();
    g.dv = r.dv.data();
    std::vector<unsigned char> scratch = workspace_for(o, rapt_attention_backward_workspace);
    REQUIRE(rapt_attention_backward(t.q.data(), t.k.data(), t.v.data(), &o, &g, scratch.data(),
                                    scratch.size()) == RAPT_OK);
  }
  o.lse = nullptr;
  std::size_t tasks = 0, length = 0;
  REQUIRE(rapt_attention_partial_tasks(&o, &tasks, &length) == RAPT_OK);
  std::vector<A> partials(length);
  REQUIRE(rapt_attention_partial(t.q.data(), t.k.data(), t.v.data(), partials.data(), &o, 0, tasks,
                                 workspace.data(), workspace.size()) == RAPT_OK);
  o.lse = r.merged_lse.data();
  REQUIRE(rapt_attention_tasks(&o, &tasks) == RAPT_OK);
  REQUIRE(rapt_attention_merge(partials.data(), r.merged.data(), &o, 0, tasks, workspace.data(),
                               workspace.size()) == RAPT_OK);
  return r;
}

template <class Q>
void check_equal(const Attended<Q> &a, const Attended<Q> &b) {
  CHECK(different(a.out, b.out) == 0);
  CHECK(different(a.lse, b.lse) == 0);
  CHECK(different(a.merged, b.merged) == 0);
  CHECK(different(a.merged_lse, b.merged_lse) == 0);
  CHECK(different(a.dq, b.dq) == 0);
  CHECK(different(a.dk, b.dk) == 0);
  CHECK(different(a.dv, b.dv) == 0);
}

template <class Q, class KV>
void compare_attention() {
  using A = Number<Q>;
  for_each_usable_isa("attention", [](const std::string &isa) {
    CAPTURE(isa);
    for (std::size_t seed = 0; seed < native_or_emulated<std::size_t>(60, 6); ++seed) {
      CAPTURE(seed);
      Random random(seed);
      const InputClass input =
          random.one_in(4)
              ? random.one_of({InputClass::specials, InputClass::minus_infinities, InputClass::huge})
              : InputClass::gaussian;
      const Tensors<Q, KV> t =
          draw_tensors<Q, KV>(random, input, random.one_of({0.0, 0.125, -0.3, 2.0, 1e-30, 1e30}));
      CAPTURE(std::string(name_of(input)));
      const std::size_t rows = t.heads * t.q_len;
      const std::vector<A> zeros = as_bias<A>(std::vector<std::uint8_t>(rows * t.kv_len, 1));
      const std::vector<std::uint8_t> mask = draw_mask(random, rows, t.kv_len, 4);
      const std::vector<A> bias = as_bias<A>(mask);
      rapt_attention_options plain = t.options;
      if (random.one_in(3)) plain.alibi_slopes = t.slopes.data();
      rapt_attention_options biased = plain, masked = plain, excluding = plain;
      biased.bias = zeros.data();
      if (!plain.alibi_slopes) biased.alibi_slopes = t.zero_slopes.data();
      masked.mask = mask.data();
      excluding.bias = bias.data();
      check_equal(attend(t, plain), attend(t, biased));
      check_equal(attend(t, masked), attend(t, excluding));

      rapt_attention_options all = plain, causal = plain, shorter = plain;
      all.causal = RAPT_CAUSAL_NONE;
      shorter.causal = RAPT_CAUSAL_NONE;
      causal.causal = RAPT_CAUSAL_TOP_LEFT;
      causal.alibi_slopes = shorter.alibi_slopes = all.alibi_slopes =
          nullptr;  // they count from another position
      const std::int32_t length = static_cast<std::int32_t>(random.below(t.kv_len + 1));
      shorter.kv_lengths = &length;
      std::vector<std::uint8_t> seen_by_causal(rows * t.kv_len), seen_by_length(rows * t.kv_len);
      for (std::size_t i = 0; i < rows * t.kv_len; ++i) {
        seen_by_causal[i] = i % t.kv_len <= i / t.kv_len % t.q_len;
        seen_by_length[i] = i % t.kv_len < static_cast<std::size_t>(length);
      }
      const std::vector<A> causal_bias = as_bias<A>(seen_by_causal), length_bias = as_bias<A>(seen_by_length);
      all.bias = causal_bias.data();
      check_equal(attend(t, causal), attend(t, all));
      all.bias = length_bias.data();
      check_equal(attend(t, shorter), attend(t, all));
    }
  });
}

}  // namespace

TEST_CASE("attention: a bias and slopes of 0 are none, and a mask is a bias of 0 and -inf") {
  SUBCASE("f32") { compare_attention<float, float>(); }
  SUBCASE("f64") { compare_attention<double, double>(); }
  SUBCASE("f16") { compare_attention<F16, F16>(); }
  SUBCASE("bf16") { compare_attention<BF16, BF16>(); }
  SUBCASE("int8") { compare_attention<float, std::int8_t>(); }
}

TEST_CASE_TEMPLATE("attention: rows whose biases are the lowest number have equal weights", T, float,
                   double) {
  for_each_usable_isa("attention_f", [](const std::string &isa) {
    CAPTURE(isa);
    for (const double scale : {0.01, 0.125, 1.0, 30.0}) {
      for (const std::size_t q_len : Sizes{1, 40}) {
        CAPTURE(scale);
        CAPTURE(q_len);
        Tensors<T, T> t;
        t.q_len = q_len;
        t.kv_len = 64;
        t.heads = 1;
        t.dim = 8;
        t.q.assign(t.q_len * t.dim, T(1));
        t.k.assign(t.kv_len * t.dim, T(2));
        t.v.resize(t.k.size());
        t.dout = t.q;
        for (std::size_t j = 0; j < t.kv_len; ++j) {
          for (std::size_t d = 0; d < t.dim; ++d) t.v[j * t.dim + d] = static_cast<T>(j);
        }
        const std::vector<T> bias(t.q_len * t.kv_len, std::numeric_limits<T>::lowest());
        t.options.q_type = type_of<T>();
        t.options.q_len = t.q_len;
        t.options.kv_len = t.kv_len;
        t.options.qk_dim = t.dim;
        t.options.scale = scale;
        t.options.bias = bias.data();
        CHECK(attend(t, t.options).out == std::vector<T>(t.q.size(), T(31.5)));
      }
    }
  });
}
