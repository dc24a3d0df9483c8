// Tests a bias of 16 bits, and a factor of it for each head: results have the bits of a call with the products in an
// array.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "rapt/rapt.h"
#include "support/effort.hpp"
#include "support/elements.hpp"
#include "support/every_level.hpp"
#include "support/guarded_buffer.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

constexpr std::size_t batch = 2, q_heads = 4, kv_heads = 2, dim = 32;

// Keys and values of type E, and a bias of 16 bits in memory that ends at a guard page.
template <class E>
struct Biased {
  using A = Number<E>;
  using Q = QueryOf<E>;
  std::size_t queries, keys, bias_rows;
  std::vector<Q> q;
  std::vector<E> k, v;
  std::vector<float> kv_scales;
  std::vector<float> bias;  // the numbers of [batch or 1][q_heads or 1][queries][keys]
  GuardedBuffer memory;
  std::vector<A> slopes;
  rapt_attention_options o = attention_options<E>();

  Biased(std::size_t q_len, std::size_t kv_len, bool per_head, rapt_type bias_type, std::uint64_t seed)
      : queries(q_len),
        keys(kv_len),
        bias_rows((per_head ? batch * q_heads : 1) * queries),
        memory(bias_rows * keys * 2, Placement::ends_at_guard, 0) {
    Random random(seed);
    const double of_keys = has_scales<E> ? 30 : 1;
    const auto draw = [&]<class T>(std::vector<T> &values, std::size_t rows, double size = 1) {
      for (std::size_t i = 0; i < rows * dim; ++i) values.push_back(static_cast<T>(size * random.gaussian()));
    };
    draw(q, batch * q_heads * queries);
    draw(k, batch * kv_heads * keys, of_keys);
    draw(v, batch * kv_heads * keys, of_keys);
    if (has_scales<E>) {
      kv_scales.assign(batch * kv_heads * keys, 0.03f);
      o.k_scales = o.v_scales = kv_scales.data();
    }
    for (std::size_t h = 0; h < q_heads; ++h) slopes.push_back(static_cast<A>(0.1 + random.uniform()));
    for (std::size_t i = 0; i < bias_rows * keys; ++i) {
      const double number =
          random.one_in(5) ? -std::numeric_limits<double>::infinity() : 3 * random.gaussian();
      std::uint16_t bits;
      if (bias_type == RAPT_F16) {
        bits = F16(number).bits();
        bias.push_back(F16(number));
      } else {
        bits = BF16(number).bits();
        bias.push_back(BF16(number));
      }
      std::memcpy(static_cast<char *>(memory.data()) + i * sizeof bits, &bits, sizeof bits);
    }
    o.batch = batch, o.q_heads = q_heads, o.kv_heads = kv_heads, o.q_len = queries, o.kv_len = keys;
    o.qk_dim = dim;
    o.softcap = random.one_in(2) ? 3 : 0;
    const auto row = static_cast<std::ptrdiff_t>(keys);
    o.bias_strides = {RAPT_REPEAT, RAPT_REPEAT, row};
    if (per_head) o.bias_strides = {0, 0, 0};
  }

  struct Results {
    std::vector<Q> out;
    std::vector<A> lse;
    bool operator==(const Results &other) const {
      return std::memcmp(out.data(), other.out.data(), out.size() * sizeof(Q)) == 0 &&
             std::memcmp(lse.data(), other.lse.data(), lse.size() * sizeof(A)) == 0;
    }
  };
  Results run(rapt_attention_options options) const {
    Results made{std::vector<Q>(batch * q_heads * queries * dim), std::vector<A>(batch * q_heads * queries)};
    options.lse = made.lse.data();
    std::size_t bytes = 0;
    REQUIRE(rapt_attention_workspace(&options, &bytes) == RAPT_OK);
    std::vector<unsigned char> workspace(bytes);
    REQUIRE(rapt_attention(q.data(), k.data(), v.data(), made.out.data(), &options, workspace.data(),
                           bytes) == RAPT_OK);
    return made;
  }
  // Returns the products in an array [batch][q_heads][queries][keys].
  std::vector<A> products(bool with_slopes) const {
    std::vector<A> made;
    for (std::size_t row = 0; row < batch * q_heads * queries; ++row) {
      const std::size_t of_bias = bias_rows == queries ? row % queries : row;
      for (std::size_t j = 0; j < keys; ++j) {
        const A number = bias[of_bias * keys + j];
        made.push_back(with_slopes ? static_cast<A>(number * slopes[row / queries % q_heads]) : number);
      }
    }
    return made;
  }
};

template <class E>
void check_bits(bool in_bf16) {
  for (const rapt_type type : {RAPT_F16, RAPT_BF16}) {
    for (const std::size_t queries : native_or_emulated<std::vector<std::size_t>>({1, 3, 12, 40}, {2, 20})) {
      for (const bool per_head : {false, true}) {
        const Biased<E> of(queries, 150 + queries, per_head, type, queries);
        rapt_attention_options own = of.o, plain = of.o;
        own.bias = of.memory.data();
        own.bias_type = type;
        if (in_bf16) own.arithmetic = plain.arithmetic = RAPT_ARITHMETIC_BF16;
        plain.bias_strides = {0, 0, 0};
        for (const bool with_slopes : {false, true}) {
          const auto products = of.products(with_slopes);
          plain.bias = products.data();
          own.bias_slopes = with_slopes ? of.slopes.data() : nullptr;
          CHECK(of.run(own) == of.run(plain));
        }
        CHECK(of.memory.surroundings_intact());
      }
    }
  }
}

}  // namespace

TEST_CASE("a bias of 16 bits has the bits of its numbers") {
  on_every_level([] {
    check_bits<float>(false);
    check_bits<F16>(false);
    check_bits<BF16>(false);
    check_bits<BF16>(true);
    check_bits<std::int8_t>(false);
  });
}

TEST_CASE("slopes of f64") {
  on_every_level([] {
    const Biased<double> of(9, 100, true, RAPT_F16, 4);
    const std::vector<double> bias(of.bias.begin(), of.bias.end());
    rapt_attention_options own = of.o, plain = of.o;
    own.bias = bias.data();
    own.bias_slopes = of.slopes.data();
    own.bias_type = RAPT_F64;
    const auto products = of.products(true);
    plain.bias = products.data();
    CHECK(of.run(own) == of.run(plain));
    own.bias_type = RAPT_F16;
    std::size_t bytes;
    CHECK(rapt_attention_workspace(&own, &bytes) == RAPT_BAD_TYPE);
  });
}

TEST_CASE("gradients with a bias of 16 bits and slopes") {
  on_every_level([] {
    for (const std::size_t queries : {std::size_t{2}, std::size_t{33}}) {
      const Biased<float> of(queries, 90, true, RAPT_F16, 8);
      rapt_attention_options own = of.o, plain = of.o;
      own.bias = of.memory.data();
      own.bias_type = RAPT_F16;
      own.bias_slopes = of.slopes.data();
      const auto products = of.products(true);
      plain.bias = products.data();
      const auto forward = of.run(plain);
      const auto gradients_of = [&](rapt_attention_options o, float *dbias) {
        std::vector<float> made(of.q.size() + of.k.size() + of.v.size());
        std::vector<float> lse = forward.lse;
        o.lse = lse.data();
        rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
        g.out = forward.out.data();
        g.dout = of.q.data();
        g.dq = made.data();
        g.dk = made.data() + of.q.size();
        g.dv = made.data() + of.q.size() + of.k.size();
        g.dbias = dbias;
        std::size_t bytes = 0;
        REQUIRE(rapt_attention_backward_workspace(&o, &bytes) == RAPT_OK);
        std::vector<unsigned char> workspace(bytes);
        const rapt_status status =
            rapt_attention_backward(of.q.data(), of.k.data(), of.v.data(), &o, &g, workspace.data(), bytes);
        CHECK(status == (dbias ? RAPT_BAD_DBIAS : RAPT_OK));
        return made;
      };
      const auto got = gradients_of(own, nullptr), expected = gradients_of(plain, nullptr);
      CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
      std::vector<float> dbias(products.size());
      own.bias_slopes = nullptr;
      gradients_of(own, dbias.data());
      own.bias = products.data();
      own.bias_type = RAPT_F32;
      own.bias_slopes = of.slopes.data();
      gradients_of(own, dbias.data());
    }
  });
}

TEST_CASE("what rapt.h says of types and slopes without a bias") {
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
  const float number = 1;
  std::size_t bytes;
  o.q_len = o.kv_len = o.qk_dim = 1;
  o.bias_type = RAPT_F16;
  CHECK(rapt_attention_workspace(&o, &bytes) == RAPT_BAD_BIAS);
  o.bias_type = RAPT_TYPE_DEFAULT;
  o.bias_slopes = &number;
  CHECK(rapt_attention_workspace(&o, &bytes) == RAPT_BAD_BIAS);
  o.bias = &number;
  CHECK(rapt_attention_workspace(&o, &bytes) == RAPT_OK);
  for (const rapt_type type : {RAPT_F64, RAPT_I8, RAPT_Q8_0}) {
    o.bias_type = type;
    CHECK(rapt_attention_workspace(&o, &bytes) == RAPT_BAD_TYPE);
  }
}

TEST_CASE("slopes overlap no output") {
  std::vector<float> out(4);
  const float q[4] = {1, 2, 3, 4}, bias[4] = {};
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
  o.q_heads = 2, o.q_len = 1, o.kv_len = 1, o.qk_dim = 2;
  o.bias = bias;
  o.bias_strides = {RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
  o.bias_slopes = out.data() + 2;
  std::vector<unsigned char> workspace(1 << 20);
  CHECK(rapt_attention(q, q, q, out.data(), &o, workspace.data(), workspace.size()) == RAPT_BAD_OVERLAP);
}
