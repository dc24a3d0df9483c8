// Tests attention in bf16 arithmetic on numbers for which flushing to zero changes results. Compares all
// levels with the reference, and the reference with recorded results of TDPBF16PS.
#include "isa/scalar/bf16_arithmetic.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>

#include "emulate/golden.hpp"
#include "kernels/flushes.hpp"
#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

struct Arrays {
  std::size_t queries, keys, qk_dim, v_dim;
  std::vector<BF16> q, k, v;
};

using Draw = std::function<double(Random &)>;

Arrays draw_arrays(std::size_t queries, std::size_t keys, std::size_t dim, Random &random, const Draw &query,
                   const Draw &key, const Draw &value) {
  Arrays made{queries, keys, dim, 3, {}, {}, {}};
  for (std::size_t i = 0; i < queries * dim; ++i) made.q.push_back(BF16(query(random)));
  for (std::size_t i = 0; i < keys * dim; ++i) made.k.push_back(BF16(key(random)));
  for (std::size_t i = 0; i < keys * made.v_dim; ++i) made.v.push_back(BF16(value(random)));
  return made;
}

rapt_attention_options options_of(const Arrays &a) {
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
  o.q_type = RAPT_BF16;
  o.out_type = RAPT_F32;
  o.q_heads = 1;
  o.q_len = a.queries;
  o.kv_len = a.keys;
  o.qk_dim = a.qk_dim;
  o.v_dim = a.v_dim;
  return o;
}

struct Results {
  std::vector<float> out, lse;
  std::vector<std::uint64_t> bits() const {
    std::vector<std::uint64_t> all;
    for (const float x : out) all.push_back(canonical_bits(x));
    for (const float x : lse) all.push_back(canonical_bits(x));
    return all;
  }
};

Results run(const Arrays &a, rapt_attention_options o) {
  Results results{std::vector<float>(a.queries * a.v_dim), std::vector<float>(a.queries)};
  o.lse = results.lse.data();
  std::vector<unsigned char> workspace = workspace_for(o);
  REQUIRE(rapt_attention(a.q.data(), a.k.data(), a.v.data(), results.out.data(), &o, workspace.data(),
                         workspace.size()) == RAPT_OK);
  return results;
}

Results reference(const Arrays &a, const rapt_attention_options &o) {
  const ForcedIsa scalar("scalar");
  return run(a, o);
}

double power(Random &random, int least, int most) {
  const double sign = random.one_in(2) ? -1 : 1;
  const double significand = 1 + static_cast<double>(random.below(128)) / 128;
  return std::ldexp(sign * significand,
                    least + static_cast<int>(random.below(static_cast<std::size_t>(most - least + 1))));
}

TEST_CASE("bf16 queries and keys have bf16 arithmetic, unless options say f32") {
  Random random(1);
  const Draw normal = [](Random &r) { return r.gaussian(); };
  const Arrays a = draw_arrays(5, 70, 40, random, normal, normal, normal);
  rapt_attention_options o = options_of(a);
  const auto by_default = run(a, o).bits();
  o.arithmetic = RAPT_ARITHMETIC_BF16;
  CHECK(run(a, o).bits() == by_default);
  o.arithmetic = RAPT_ARITHMETIC_F32;
  CHECK(run(a, o).bits() != by_default);
}

// Compares recorded results of the instruction with add_k32(), the reference, and with
// add_k32_with_flushes(), which levels use where the CPU may flush differently. The sign of a zero is not
// promised.
TEST_CASE("a group of products is TDPBF16PS") {
  std::size_t groups = 0, wrong = 0;
  const auto is_same = [](float x, float y) { return std::isnan(x) ? std::isnan(y) : x == y; };
  for (const auto &record : emulate::read_golden<emulate::TileRecord>(RAPT_TEST_GOLDEN, "tdpbf16ps")) {
    for (std::size_t m = 0; m < record.rows; ++m) {
      for (std::size_t n = 0; n < record.columns; ++n) {
        const auto half = [](emulate::Word word, std::size_t i) {
          return emulate::as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000);
        };
        const auto left = [&](std::size_t i) { return half(record.a[m][i / 2], i); };
        const auto right = [&](std::size_t i) { return half(record.b[i / 2][n], i); };
        const float sum = emulate::as_float(record.c[m][n]), expected = emulate::as_float(record.d[m][n]);
        groups += 1;
        wrong += !is_same(add_k32(sum, 2 * std::size_t{record.pairs}, left, right), expected);
        wrong += !is_same(add_k32_with_flushes(sum, 2 * std::size_t{record.pairs}, left, right), expected);
      }
    }
  }
  CHECK(groups > 10000);
  CHECK(wrong == 0);
}

// Arm and qemu flush results before rounding. This changes a sum if a result would round up to the least
// normal number.
TEST_CASE("products around the least normal number") {
  Random random(2);
  std::size_t flushed = 0;
  for (int i = 0; i < 300; ++i) {
    const Draw around = [](Random &r) { return r.one_in(5) ? 0.0 : power(r, -64, -62); };
    const Arrays a = draw_arrays(i % 2 == 0 ? 2 : 20, 1 + random.below(70), 1 + random.below(40), random,
                                 around, around, [](Random &r) { return power(r, -128, -118); });
    rapt_attention_options o = options_of(a);
    o.scale = 0x1p120;
    const auto expected = reference(a, o).bits();
    o.arithmetic = RAPT_ARITHMETIC_F32;
    flushed += reference(a, o).bits() != expected;
    o.arithmetic = RAPT_ARITHMETIC_BF16;
    on_every_level([&] {
      CAPTURE(i);
      CHECK(run(a, o).bits() == expected);
    });
  }
  CHECK(flushed > 200);
}

// 2^-126 - 2^-152 rounds up to the least normal number. A flush before rounding makes it 0.
TEST_CASE("a sum that rounds up to the least normal number") {
  for (const std::size_t queries : {std::size_t{2}, std::size_t{20}}) {
    Random random(6);
    const Draw zero = [](Random &) { return 0.0; };
    Arrays a = draw_arrays(queries, 70, 3, random, zero, zero, [](Random &r) { return r.gaussian(); });
    for (std::size_t i = 0; i < queries; ++i) a.q[3 * i] = BF16(0x1p-63), a.q[3 * i + 2] = BF16(0x1p-76);
    for (std::size_t j = 0; j < a.keys; j += 3) a.k[3 * j] = BF16(0x1p-63), a.k[3 * j + 2] = BF16(-0x1p-76);
    rapt_attention_options o = options_of(a);
    o.scale = 0x1p125;
    const auto expected = reference(a, o).bits();
    on_every_level([&] { CHECK(run(a, o).bits() == expected); });
  }
}

// On a CPU that flushes before rounding, rapt computes such a tile again. So an output in place must not
// have replaced the queries yet.
TEST_CASE("in place, with values that are flushed") {
  for (const std::size_t queries : Sizes{1, 2, 5, 8, 20}) {
    Random random(8);
    const Draw normal = [](Random &r) { return r.gaussian(); };
    Arrays a = draw_arrays(queries, 70, 3, random, normal, normal, normal);
    for (std::size_t j = 0; j < a.keys; ++j) a.v[3 * j] = BF16(3e-38);
    rapt_attention_options o = options_of(a);
    o.out_type = RAPT_BF16;
    std::vector<unsigned char> workspace = workspace_for(o);
    const auto run_to = [&](const BF16 *q, BF16 *out) {
      REQUIRE(rapt_attention(q, a.k.data(), a.v.data(), out, &o, workspace.data(), workspace.size()) ==
              RAPT_OK);
      std::vector<std::uint64_t> bits;
      for (std::size_t i = 0; i < a.q.size(); ++i) bits.push_back(canonical_bits(out[i]));
      return bits;
    };
    const auto expected = [&] {
      const ForcedIsa scalar("scalar");
      std::vector<BF16> out(a.q.size());
      return run_to(a.q.data(), out.data());
    }();
    on_every_level([&] {
      CAPTURE(queries);
      std::vector<BF16> q = a.q;
      CHECK(run_to(q.data(), q.data()) == expected);
    });
  }
}

}  // namespace
}  // namespace rapt::test
