// Tests rope: the rotation that rapt.h spells out, dimensions that repeat, and the frequencies of known models. The
// rest is calls_test's.
#include "calls/rope.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/case_text.hpp"
#include "support/compare_kernels.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/option_statuses.hpp"
#include "support/options.hpp"
#include "support/public_api.hpp"

namespace rapt::test {
namespace {

// Holds a dense call whose fields a test changes.
template <class T>
struct Call {
  using Element = T;
  static constexpr FunctionName functions[] = {{1, "rapt_rope"}};
  static constexpr std::size_t batch = 2, heads = 3, tokens = 4, dim = 10,
                               size = batch * heads * tokens * dim;

  std::vector<T> x_memory = std::vector<T>(2 * size), y_memory = std::vector<T>(2 * size, T(7));
  std::vector<double> frequencies = {1, 0.5, 0.3, 0.1, 0.01};
  std::vector<std::int64_t> positions = std::vector<std::int64_t>(4 * batch * tokens, 3);
  const T *x = x_memory.data();
  T *y = y_memory.data();
  rapt_rope_options options = RAPT_ROPE_OPTIONS_INIT;
  const rapt_rope_options *given = &options;

  explicit Call(unsigned = 1) {
    for (std::size_t i = 0; i < x_memory.size(); ++i) x_memory[i] = T(static_cast<float>(i % 11) / 4 - 1);
    options.type = Api<T>::type;
    options.batch = batch;
    options.heads = heads;
    options.tokens = tokens;
    options.head_dim = dim;
    options.frequencies = frequencies.data();
  }
  Call(const Call &) = delete;

  rapt_status run() { return rapt_rope(x, y, given); }
  bool writes_nothing() const { return options.tokens == 0; }
  std::string image() const {
    std::string bytes;
    for (const auto *memory : {&x_memory, &y_memory}) append_bytes(bytes, *memory);
    append_bytes(bytes, frequencies);
    append_bytes(bytes, positions);
    return bytes;
  }
  std::vector<std::uint64_t> bits() {
    REQUIRE(run() == RAPT_OK);
    std::vector<std::uint64_t> made;
    for (std::size_t i = 0; i < size; ++i) made.push_back(canonical_bits(y[i]));
    return made;
  }
};

// Turning (1, 0) gives the cosine and the sine. With 16-bit elements they come from the call in f32.
TEST_CASE_TEMPLATE("the rotation is what rapt.h spells out", T, float, double, F16, BF16) {
  using A = Number<T>;
  Random random(5);
  for (std::size_t i = 0; i < native_or_emulated<std::size_t>(60, 6); ++i) {
    const bool in_pairs = random.one_in(2), backward = random.one_in(2);
    const std::size_t pairs = 1 + random.below(70), dim = 2 * pairs;
    const auto partner = [&](std::size_t p) { return in_pairs ? 2 * p + 1 : p + pairs; };
    std::vector<double> frequencies(pairs);
    for (double &f : frequencies) f = random.uniform();
    rapt_rope_options o = RAPT_ROPE_OPTIONS_INIT;
    o.batch = o.heads = o.tokens = 1;
    o.head_dim = dim;
    o.layout = in_pairs;
    o.backward = backward;
    o.frequencies = frequencies.data();
    o.first_position = static_cast<std::int64_t>(random.below(1u << 24));
    o.attention_factor = random.one_of({0.0, 1.5});
    std::vector<A> turns(dim);
    std::vector<T> x(dim), y(dim);
    for (std::size_t p = 0; p < pairs; ++p) turns[in_pairs ? 2 * p : p] = 1;
    for (T &value : x) value = T(random.gaussian());
    on_every_level([&] {
      std::vector<A> turned = turns;
      o.type = Api<A>::type;
      REQUIRE(rapt_rope(turned.data(), turned.data(), &o) == RAPT_OK);
      o.type = Api<T>::type;
      REQUIRE(rapt_rope(x.data(), y.data(), &o) == RAPT_OK);
      for (std::size_t p = 0; p < pairs; ++p) {
        const std::size_t first = in_pairs ? 2 * p : p, second = partner(p);
        const A a = x[first], b = x[second], c = turned[first], s = turned[second];
        CHECK(canonical_bits(y[first]) == canonical_bits(T(std::fma(a, c, -(b * s)))));
        CHECK(canonical_bits(y[second]) == canonical_bits(T(std::fma(a, s, b * c))));
      }
    });
  }
}

TEST_CASE_TEMPLATE("heads, tokens and sequences of x that repeat", T, float, double, F16, BF16) {
  on_every_level([] {
    using C = Call<T>;
    constexpr std::ptrdiff_t dim = C::dim, tokens = C::tokens, heads = C::heads;
    const rapt_strides repeats[] = {{RAPT_REPEAT, tokens * dim, dim},
                                    {heads * tokens * dim, RAPT_REPEAT, dim},
                                    {heads * tokens * dim, tokens * dim, RAPT_REPEAT},
                                    {1, 2, 3}};
    for (const rapt_strides &strides : repeats) {
      C repeated, copied;
      repeated.options.x_strides = strides;
      const auto step = [](std::ptrdiff_t stride) { return stride == RAPT_REPEAT ? 0 : stride; };
      for (std::ptrdiff_t i = 0; i < std::ptrdiff_t{C::size}; ++i) {
        const std::ptrdiff_t row = i / dim, b = row / (heads * tokens), h = row / tokens % heads,
                             t = row % tokens;
        copied.x_memory[static_cast<std::size_t>(i)] =
            repeated.x[step(strides.batch) * b + step(strides.head) * h + step(strides.token) * t + i % dim];
      }
      CHECK(repeated.bits() == copied.bits());
    }
  });
}

TEST_CASE_TEMPLATE("backward undoes forward, and a half turn of sines", T, float, double) {
  on_every_level([] {
    Call<T> call;
    call.options.first_position = 12345;
    REQUIRE(call.run() == RAPT_OK);
    std::vector<T> back(Call<T>::size);
    call.options.backward = 1;
    REQUIRE(rapt_rope(call.y, back.data(), &call.options) == RAPT_OK);
    for (std::size_t i = 0; i < back.size(); ++i) CHECK(std::fabs(back[i] - call.x[i]) < T(1e-6));
  });
}

TEST_CASE("position 0 and frequency 0 multiply by the attention factor alone") {
  on_every_level([] {
    for (const int layout : {RAPT_ROPE_HALVES, RAPT_ROPE_PAIRS}) {
      for (const bool by_frequency : {false, true}) {
        Call<float> call;
        call.options.layout = layout;
        call.options.tokens = by_frequency ? Call<float>::tokens : 1;
        call.options.attention_factor = 1.25;
        if (by_frequency) std::fill(call.frequencies.begin(), call.frequencies.end(), 0.0);
        REQUIRE(call.run() == RAPT_OK);
        const std::size_t count =
            Call<float>::batch * Call<float>::heads * call.options.tokens * Call<float>::dim;
        for (std::size_t i = 0; i < count; ++i) CHECK(call.y[i] == call.x[i] * 1.25f);
      }
    }
  });
}

TEST_CASE_TEMPLATE("at position 0 a zero may lose its sign, and the partner of an infinite element is NaN", T,
                   float, double, F16, BF16) {
  on_every_level([] {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const double frequency = 1;
    rapt_rope_options o = RAPT_ROPE_OPTIONS_INIT;
    o.type = Api<T>::type;
    o.batch = o.heads = o.tokens = 1;
    o.head_dim = 2;
    o.frequencies = &frequency;
    const auto turned = [&](float a, float b) {
      const T x[2] = {T(a), T(b)};
      std::array<T, 2> y;
      REQUIRE(rapt_rope(x, y.data(), &o) == RAPT_OK);
      return std::pair(Number<T>(y[0]), Number<T>(y[1]));
    };
    for (const float b : {infinity, -infinity}) {
      CHECK(std::isnan(turned(1, b).first));
      CHECK(turned(1, b).second == b);
      CHECK(turned(b, 1).first == b);
      CHECK(std::isnan(turned(b, 1).second));
    }
    CHECK(turned(-0.0f, -1) == std::pair<Number<T>, Number<T>>(0, -1));
    CHECK_FALSE(std::signbit(turned(-0.0f, -1).first));
    CHECK(std::signbit(turned(-0.0f, 1).first));
  });
}

TEST_CASE_TEMPLATE("a NaN or infinity touches its own pair only", T, float, double, F16, BF16) {
  on_every_level([] {
    for (const bool in_pairs : {false, true}) {
      using C = Call<T>;
      C plain, spoilt;
      plain.options.layout = spoilt.options.layout = in_pairs;
      plain.options.first_position = spoilt.options.first_position = 9;
      spoilt.x_memory[C::dim + 2] = T(std::numeric_limits<float>::quiet_NaN());
      spoilt.x_memory[3 * C::dim + 9] = T(std::numeric_limits<float>::infinity());
      const auto expected = plain.bits(), got = spoilt.bits();
      const std::size_t partner_of_2 = in_pairs ? 3 : 7, partner_of_9 = in_pairs ? 8 : 4;
      for (std::size_t i = 0; i < C::size; ++i) {
        const std::size_t row = i / C::dim, at = i % C::dim;
        const bool is_nan = row == 1 && (at == 2 || at == partner_of_2);
        const bool is_infinite = row == 3 && (at == 9 || at == partner_of_9);
        if (is_nan) CHECK(std::isnan(Number<T>(spoilt.y[i])));
        if (is_infinite) CHECK_FALSE(std::isfinite(Number<T>(spoilt.y[i])));
        if (!is_nan && !is_infinite) CHECK(got[i] == expected[i]);
      }
    }
  });
}

// The elements past rotary_dim are copied bit by bit, NaNs too.
TEST_CASE_TEMPLATE("the rest of a head is copied", T, float, double, F16, BF16) {
  on_every_level([] {
    using C = Call<T>;
    C call;
    call.options.rotary_dim = 4;
    std::vector<unsigned char> bytes(C::size * sizeof(T));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(0xff - i % 7);
    std::memcpy(static_cast<void *>(call.x_memory.data()), bytes.data(), bytes.size());
    REQUIRE(call.run() == RAPT_OK);
    for (std::size_t row = 0; row < C::size; row += C::dim) {
      CHECK(std::memcmp(call.y + row + 4, call.x + row + 4, 6 * sizeof(T)) == 0);
    }
  });
}

TEST_CASE("slices of one buffer do not overlap") {
  Call<float> call;
  const std::ptrdiff_t dim = Call<float>::dim;
  call.options.heads = 1;
  call.options.x_strides = call.options.y_strides = {8 * dim, 0, 2 * dim};
  call.x = call.y + dim;
  CHECK(call.run() == RAPT_OK);
}

// ---- frequencies

struct FrequencyCall {
  static constexpr FunctionName functions[] = {{1, "rapt_rope_frequencies"}};

  std::vector<double> frequencies = std::vector<double>(64, 7), factor = {7};
  double *out = frequencies.data(), *attention_factor = factor.data();
  rapt_rope_frequency_options options = RAPT_ROPE_FREQUENCY_OPTIONS_INIT;
  const rapt_rope_frequency_options *given = &options;

  explicit FrequencyCall(unsigned = 1) { options.rotary_dim = 128; }
  FrequencyCall(const FrequencyCall &) = delete;
  void set(int scaling, double by) {
    options.scaling = scaling;
    options.factor = by;
    options.original_max_position_embeddings = scaling > RAPT_ROPE_SCALING_LINEAR ? 8192 : 0;
  }

  rapt_status run() { return rapt_rope_frequencies(out, attention_factor, given); }
  bool writes_nothing() const { return false; }
  std::string image() const {
    std::string bytes;
    append_bytes(bytes, frequencies);
    append_bytes(bytes, factor);
    return bytes;
  }
};

TEST_CASE("arguments of rapt_rope_frequencies") {
  using C = FrequencyCall;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  enum : int {
    linear = RAPT_ROPE_SCALING_LINEAR,
    llama3 = RAPT_ROPE_SCALING_LLAMA3,
    yarn = RAPT_ROPE_SCALING_YARN
  };
  expect_statuses<C>({
      {"a valid call", 1, RAPT_OK, [](C &) {}},
      {"without the attention factor", 1, RAPT_OK, [](C &call) { call.attention_factor = nullptr; }},
      {"frequencies", 1, RAPT_BAD_FREQUENCIES, [](C &call) { call.out = nullptr; }},
      {"options", 1, RAPT_BAD_OPTIONS, [](C &call) { call.given = nullptr; }},
      {"overlap", 1, RAPT_BAD_OVERLAP, [](C &call) { call.attention_factor = call.out + 63; }},
      {"no dimensions", 1, RAPT_BAD_ROTARY_DIM, [](C &call) { call.options.rotary_dim = 0; }},
      {"odd dimensions", 1, RAPT_BAD_ROTARY_DIM, [](C &call) { call.options.rotary_dim = 127; }},
      {"size", 1, RAPT_BAD_SIZE, [](C &call) { call.options.rotary_dim = SIZE_MAX - 1; }},
      {"base 1", 1, RAPT_BAD_BASE, [](C &call) { call.options.base = 1; }},
      {"a negative base", 1, RAPT_BAD_BASE, [](C &call) { call.options.base = -10000; }},
      {"base NaN", 1, RAPT_BAD_BASE, [](C &call) { call.options.base = std::nan(""); }},
      {"base infinity", 1, RAPT_BAD_BASE, [](C &call) { call.options.base = infinity; }},
      {"the largest base", 1, RAPT_OK, [](C &call) { call.options.base = 0x1p512; }},
      {"a scaling above", 1, RAPT_BAD_SCALING, [](C &call) { call.options.scaling = 4; }},
      {"a scaling below", 1, RAPT_BAD_SCALING, [](C &call) { call.options.scaling = -1; }},
      {"linear", 1, RAPT_OK, [](C &call) { call.set(linear, 2); }},
      {"llama3", 1, RAPT_OK, [](C &call) { call.set(llama3, 8); }},
      {"yarn", 1, RAPT_OK, [](C &call) { call.set(yarn, 8); }},
      {"linear without factor", 1, RAPT_BAD_SCALING_FACTOR, [](C &call) { call.set(linear, 0); }},
      {"a negative factor", 1, RAPT_BAD_SCALING_FACTOR, [](C &call) { call.set(yarn, -2); }},
      {"a factor of NaN", 1, RAPT_BAD_SCALING_FACTOR, [](C &call) { call.set(yarn, std::nan("")); }},
      {"a factor of infinity", 1, RAPT_BAD_SCALING_FACTOR, [](C &call) { call.set(llama3, infinity); }},
      {"a factor too large", 1, RAPT_BAD_SCALING_FACTOR, [](C &call) { call.set(linear, 0x1.01p256); }},
      {"a factor too small", 1, RAPT_BAD_SCALING_FACTOR, [](C &call) { call.set(yarn, 0x1.ffp-257); }},
      {"the largest factor", 1, RAPT_OK, [](C &call) { call.set(linear, 0x1p256); }},
      {"the smallest factor", 1, RAPT_OK, [](C &call) { call.set(linear, 0x1p-256); }},
      {"a frequency factor too large", 1, RAPT_BAD_FREQ_FACTORS,
       [](C &call) {
         call.set(llama3, 8);
         call.options.high_freq_factor = 0x1p257;
       }},
      {"a beta too large", 1, RAPT_BAD_BETAS,
       [](C &call) {
         call.set(yarn, 8);
         call.options.beta_fast = 0x1p257;
       }},
      {"a factor alone", 1, RAPT_BAD_SCALING_FACTOR, [](C &call) { call.options.factor = 1; }},
      {"a length alone", 1, RAPT_BAD_ORIGINAL_LENGTH,
       [](C &call) { call.options.original_max_position_embeddings = 1; }},
      {"a length for linear", 1, RAPT_BAD_ORIGINAL_LENGTH,
       [](C &call) {
         call.set(linear, 2);
         call.options.original_max_position_embeddings = 1;
       }},
      {"llama3 without length", 1, RAPT_BAD_ORIGINAL_LENGTH,
       [](C &call) {
         call.set(llama3, 8);
         call.options.original_max_position_embeddings = 0;
       }},
      {"yarn without length", 1, RAPT_BAD_ORIGINAL_LENGTH,
       [](C &call) {
         call.set(yarn, 8);
         call.options.original_max_position_embeddings = 0;
       }},
      {"low_freq_factor of yarn", 1, RAPT_BAD_FREQ_FACTORS,
       [](C &call) {
         call.set(yarn, 8);
         call.options.low_freq_factor = 1;
       }},
      {"high_freq_factor of linear", 1, RAPT_BAD_FREQ_FACTORS,
       [](C &call) {
         call.set(linear, 8);
         call.options.high_freq_factor = 4;
       }},
      {"equal freq factors", 1, RAPT_BAD_FREQ_FACTORS,
       [](C &call) {
         call.set(llama3, 8);
         call.options.low_freq_factor = 4;
       }},
      {"a negative freq factor", 1, RAPT_BAD_FREQ_FACTORS,
       [](C &call) {
         call.set(llama3, 8);
         call.options.low_freq_factor = -1;
       }},
      {"beta_fast of llama3", 1, RAPT_BAD_BETAS,
       [](C &call) {
         call.set(llama3, 8);
         call.options.beta_fast = 32;
       }},
      {"beta_slow alone", 1, RAPT_BAD_BETAS, [](C &call) { call.options.beta_slow = 1; }},
      {"equal betas", 1, RAPT_BAD_BETAS,
       [](C &call) {
         call.set(yarn, 8);
         call.options.beta_slow = 32;
       }},
      {"a beta of NaN", 1, RAPT_BAD_BETAS,
       [](C &call) {
         call.set(yarn, 8);
         call.options.beta_fast = std::nan("");
       }},
      {"no_truncate of llama3", 1, RAPT_BAD_TRUNCATE,
       [](C &call) {
         call.set(llama3, 8);
         call.options.no_truncate = 1;
       }},
      {"one mscale", 1, RAPT_BAD_MSCALE,
       [](C &call) {
         call.set(yarn, 8);
         call.options.mscale = 1;
       }},
      {"the other mscale", 1, RAPT_BAD_MSCALE,
       [](C &call) {
         call.set(yarn, 8);
         call.options.mscale_all_dim = 1;
       }},
      {"mscales of linear", 1, RAPT_BAD_MSCALE,
       [](C &call) {
         call.set(linear, 8);
         call.options.mscale = call.options.mscale_all_dim = 1;
       }},
  });
  expect_option_sizes<C>(1, &C::options, {sizeof(rapt_rope_frequency_options)}, RAPT_BAD_OPTIONS_SIZE);
}

struct Golden {
  std::size_t pair;
  double frequency;
};

// The numbers are those of the same formulas in 300-bit arithmetic.
void check_model(const char *model, const rapt_rope_frequency_options &options, double attention_factor,
                 const std::vector<Golden> &expected) {
  CAPTURE(model);
  constexpr double u = 0x1p-53;
  std::vector<double> made(options.rotary_dim / 2), plain(made.size());
  double factor = 0;
  REQUIRE(rapt_rope_frequencies(made.data(), &factor, &options) == RAPT_OK);
  rapt_rope_frequency_options unscaled = RAPT_ROPE_FREQUENCY_OPTIONS_INIT;
  unscaled.rotary_dim = options.rotary_dim;
  unscaled.base = options.base;
  REQUIRE(rapt_rope_frequencies(plain.data(), nullptr, &unscaled) == RAPT_OK);
  for (const auto &[pair, frequency] : expected) {
    CAPTURE(pair);
    CHECK(std::fabs(made[pair] - frequency) <= 16 * u * plain[pair]);
  }
  CHECK(std::fabs(factor - attention_factor) <= 4 * u * attention_factor);
}

TEST_CASE("frequencies of models") {
  rapt_rope_frequency_options o = RAPT_ROPE_FREQUENCY_OPTIONS_INIT;
  o.rotary_dim = 128;
  o.base = 500000;
  o.scaling = RAPT_ROPE_SCALING_LLAMA3;
  o.factor = 8;
  o.original_max_position_embeddings = 8192;
  check_model("Llama 3.1", o, 1,
              {{0, 1},
               {1, 0x1.a115829457fbep-1},
               {28, 0x1.a4ee3f0a6907bp-9},
               {29, 0x1.1bfa0d25be313p-9},
               {31, 0x1.c12f3a64f3002p-11},
               {34, 0x1.765ba6f931578p-13},
               {35, 0x1.90d10c806f8c1p-14},
               {36, 0x1.4683197ad3991p-14},
               {63, 0x1.4985fec80a8cbp-22}});
  o.rotary_dim = 64;
  o.factor = 32;
  o.low_freq_factor = 1;
  o.high_freq_factor = 4;
  check_model("Llama 3.2", o, 1,
              {{0, 1},
               {14, 0x1.a4ee3f0a6907bp-9},
               {15, 0x1.524f349512c06p-10},
               {16, 0x1.c26c4649b73c1p-12},
               {17, 0x1.9731f24fdcc7ep-14},
               {18, 0x1.4683197ad3991p-16},
               {31, 0x1.948360a975f3dp-24}});
  o = RAPT_ROPE_FREQUENCY_OPTIONS_INIT;
  o.rotary_dim = 128;
  o.base = 1000000;
  o.scaling = RAPT_ROPE_SCALING_YARN;
  o.factor = 4;
  o.original_max_position_embeddings = 32768;
  check_model("Qwen 2.5", o, 0x1.237d37fe5d298p+0,
              {{0, 1},
               {22, 0x1.1bc25a3dde2acp-7},
               {23, 0x1.c9548b66b624bp-8},
               {24, 0x1.6046ee02286ecp-8},
               {30, 0x1.17040e6c20ec5p-10},
               {39, 0x1.103a140fc05e8p-14},
               {40, 0x1.74eea61c12623p-15},
               {41, 0x1.2c8646cbeb48dp-15},
               {63, 0x1.4d1c97f4e952fp-22}});
  o.rotary_dim = 64;
  o.base = 150000;
  o.factor = 32;
  o.original_max_position_embeddings = 4096;
  o.no_truncate = 1;
  check_model("gpt-oss", o, 0x1.58b90bfbe8e7cp+0,
              {{0, 1},
               {7, 0x1.2e0ec8cb8808cp-4},
               {8, 0x1.a04329311f45dp-5},
               {9, 0x1.03bbaa06b8abdp-5},
               {12, 0x1.bd5080c93a3a2p-8},
               {17, 0x1.0f3372f6a69a2p-13},
               {18, 0x1.415b8c535b893p-15},
               {19, 0x1.badbf8a1e09a3p-16},
               {31, 0x1.44a5a6386947dp-22}});
  o.base = 0;
  o.factor = 40;
  o.no_truncate = 0;
  o.beta_fast = 32;
  o.beta_slow = 1;
  o.mscale = 1;
  o.mscale_all_dim = 0.707;
  check_model("DeepSeek V2", o, 0x1.15f22a51357d3p+0,
              {{0, 1},
               {9, 0x1.33281b6744ae1p-4},
               {10, 0x1.ccab8602d2697p-5},
               {11, 0x1.3f8b743d8c22cp-5},
               {15, 0x1.111aedafb9a9dp-7},
               {22, 0x1.74eea61c12623p-13},
               {23, 0x1.17a8e301c4436p-15},
               {24, 0x1.a36e2eb1c432dp-16},
               {31, 0x1.bf749e693a057p-19}});
}

TEST_CASE("linear scaling divides, and a factor below 1 has no attention factor") {
  FrequencyCall plain, linear;
  linear.set(RAPT_ROPE_SCALING_LINEAR, 3);
  REQUIRE(plain.run() == RAPT_OK);
  REQUIRE(linear.run() == RAPT_OK);
  for (std::size_t i = 0; i < 64; ++i) CHECK(linear.out[i] == plain.out[i] / 3);
  CHECK(plain.factor[0] == 1);
  CHECK(linear.factor[0] == 1);
  linear.set(RAPT_ROPE_SCALING_YARN, 0.5);
  REQUIRE(linear.run() == RAPT_OK);
  CHECK(linear.factor[0] == 1);
}

// Every processor and C library must give these.
TEST_CASE("the bits of frequencies") {
  FrequencyCall call;
  std::uint64_t hash = 0;
  for (const double base : {10000.0, 500000.0, 1e6, 1.5}) {
    call.options.base = base;
    for (const int scaling : {RAPT_ROPE_SCALING_LINEAR, RAPT_ROPE_SCALING_LLAMA3, RAPT_ROPE_SCALING_YARN}) {
      call.set(scaling, 7);
      REQUIRE(call.run() == RAPT_OK);
      for (const double f : call.frequencies) hash = (hash ^ bits_of(f)) * 0x100000001b3u;
      hash = (hash ^ bits_of(call.factor[0])) * 0x100000001b3u;
    }
  }
  CHECK(hash == 14151120613053115544u);
}

}  // namespace
}  // namespace rapt::test
