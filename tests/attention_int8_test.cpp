// Tests attention over int8 keys and values: what rapt.h says about scales and special values, and the
// accuracy. Results are compared with long double, on the original numbers and on numbers rounded to int8.
#include <cstdio>
#include <cstring>

#include "support/attention_accuracy.hpp"
#include "support/attention_oracle.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/worst_errors.hpp"

using namespace rapt::test;

namespace {

using Bytes = std::vector<std::int8_t>;
using Floats = std::vector<float>;
constexpr float infinity = std::numeric_limits<float>::infinity(),
                nan_number = std::numeric_limits<float>::quiet_NaN();

// Holds one call over contiguous arrays.
struct Call {
  rapt_attention_options o = attention_options<std::int8_t>();
  Floats q, k_scales, v_scales;
  Bytes k, v;

  Call(const AttentionShape &shape, std::size_t group = 0) {
    o.q_heads = shape.q_heads;
    o.kv_heads = shape.kv_heads;
    o.q_len = shape.queries;
    o.kv_len = shape.keys;
    o.qk_dim = shape.qk_dim;
    o.v_dim = shape.v_dim;
    o.scale_group = group;
    Random random(shape.keys + shape.qk_dim);
    q = draw<float>(shape.q_heads * shape.queries * shape.qk_dim, [&] { return random.gaussian(); });
    k = draw<std::int8_t>(shape.kv_heads * shape.keys * shape.qk_dim, [&] { return random.below(256); });
    v = draw<std::int8_t>(shape.kv_heads * shape.keys * shape.v_dim, [&] { return random.below(256); });
    const auto scales = [&](std::size_t elements, std::size_t dim) {
      return draw<float>(elements / (group == 0 ? dim : group), [&] { return (1 + random.uniform()) / 128; });
    };
    k_scales = scales(k.size(), shape.qk_dim);
    v_scales = scales(v.size(), shape.v_dim);
  }
  Floats run() {
    Floats out(o.q_heads * o.q_len * o.v_dim);
    o.k_scales = k_scales.data();
    o.v_scales = v_scales.data();
    std::vector<unsigned char> workspace = workspace_for(o);
    REQUIRE(rapt_attention(q.data(), k.data(), v.data(), out.data(), &o, workspace.data(),
                           workspace.size()) == RAPT_OK);
    return out;
  }
};

std::vector<std::uint64_t> bits_of_all(const Floats &values) {
  std::vector<std::uint64_t> bits;
  for (const float value : values) bits.push_back(canonical_bits(value));
  return bits;
}
bool all_nan(const Floats &values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isnan(v); });
}
bool all_finite(const Floats &values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace

TEST_CASE("special scales and queries") {
  const auto changed = [](const std::function<void(Call &)> &change) {
    Call call({1, 100, 64, 64}, 32);
    change(call);
    return call.run();
  };
  on_every_level([&] {
    const Floats plain = changed([](Call &) {});
    CHECK(all_finite(plain));
    CHECK(all_nan(changed([](Call &c) { c.k_scales[2 * 70] = nan_number; })));
    CHECK(all_nan(changed([](Call &c) { c.q[40] = nan_number; })));
    CHECK(all_nan(changed([](Call &c) { c.q[3] = -infinity; })));
    // Only the scale of a value's second group is bad, so the first group's outputs stay the same.
    for (const float bad : {nan_number, infinity, -infinity}) {
      const Floats out = changed([&](Call &c) { c.v_scales[2 * 70 + 1] = bad; });
      CHECK(std::memcmp(out.data(), plain.data(), 32 * sizeof(float)) == 0);
      CHECK(all_nan({out.begin() + 32, out.end()}));
    }
    // The scales of an excluded key, or of a key whose weight is 0, must not matter.
    for (const float bad : {nan_number, infinity}) {
      const auto exclude = [&](float of_scales) {
        return changed([&](Call &c) {
          static std::vector<std::uint8_t> mask;
          mask.assign(100, 1);
          mask[70] = 0;
          c.o.mask = mask.data();
          c.k_scales[2 * 70] = c.v_scales[2 * 70] = of_scales;
        });
      };
      CHECK(bits_of_all(exclude(bad)) == bits_of_all(exclude(1.0f)));
      const auto far = [&](float of_scales) {
        return changed([&](Call &c) {
          static Floats bias;
          bias.assign(100, 0);
          bias[70] = -1e4f;
          c.o.bias = bias.data();
          c.v_scales[2 * 70] = of_scales;
        });
      };
      CHECK(bits_of_all(far(bad)) == bits_of_all(far(1.0f)));
    }
    // A score of +inf makes its row NaN. A score of -inf has weight 0.
    const Floats up = changed([](Call &c) {
      std::fill_n(c.k.begin() + 64 * 70, 64, std::int8_t{1});
      std::fill(c.q.begin(), c.q.end(), 1.0f);
      c.k_scales[2 * 70] = infinity;
    });
    CHECK(all_nan(up));
    const Floats down = changed([](Call &c) {
      std::fill_n(c.k.begin() + 64 * 70, 64, std::int8_t{-1});
      std::fill(c.q.begin(), c.q.end(), 1.0f);
      c.k_scales[2 * 70] = infinity;
    });
    CHECK(all_finite(down));
    // Queries that are so small that they count as 0 give the bits of queries of 0.
    const Floats zero = changed([](Call &c) { std::fill(c.q.begin(), c.q.end(), 0.0f); });
    CHECK(bits_of_all(zero) ==
          bits_of_all(changed([](Call &c) { std::fill(c.q.begin(), c.q.end(), 0x1p-101f); })));
    const Floats none = changed([](Call &c) {
      for (float &scale : c.v_scales) scale *= 0x1p-110f;
    });
    CHECK(bits_of_all(none) == std::vector<std::uint64_t>(64, 0));
  });
}

TEST_CASE("scales and types that do not go together") {
  Call call({1, 10, 64, 96});
  call.k.resize(10 * 128);  // one call below skips every other block of 64
  call.k_scales.resize(10 * 2);
  Floats out(96);
  std::vector<unsigned char> workspace(1 << 20);
  const auto expect = [&](rapt_status status, const std::function<void(rapt_attention_options &)> &change) {
    rapt_attention_options o = call.o;
    o.k_scales = call.k_scales.data();
    o.v_scales = call.v_scales.data();
    change(o);
    std::fill(out.begin(), out.end(), -7.0f);
    const rapt_status got = rapt_attention(call.q.data(), call.k.data(), call.v.data(), out.data(), &o,
                                           workspace.data(), workspace.size());
    CHECK(std::string(rapt_status_text(got)) == rapt_status_text(status));
    CHECK((out[5] == -7) == (status != RAPT_OK));
  };
  using Options = rapt_attention_options;
  expect(RAPT_OK, [](Options &) {});
  expect(RAPT_OK, [](Options &o) { o.arithmetic = RAPT_ARITHMETIC_F32; });
  expect(RAPT_OK, [](Options &o) { o.k_strides = {64000, 6400, 128}; });
  expect(RAPT_BAD_ARITHMETIC, [](Options &o) { o.arithmetic = RAPT_ARITHMETIC_BF16; });
  expect(RAPT_BAD_KV_SCALES, [](Options &o) { o.k_scales = nullptr; });
  expect(RAPT_BAD_KV_SCALES, [](Options &o) { o.v_scales = nullptr; });
  for (const std::size_t group : Sizes{1, 16, 33, 64, 96, 128, 256}) {  // 64 does not divide 96
    expect(RAPT_BAD_KV_SCALES, [&](Options &o) { o.scale_group = group; });
  }
  expect(RAPT_BAD_TYPE, [](Options &o) { o.q_type = RAPT_F64; });
  expect(RAPT_BAD_TYPE, [](Options &o) { o.q_type = RAPT_I8; });
  expect(RAPT_BAD_TYPE, [](Options &o) { o.out_type = RAPT_I8; });
  expect(RAPT_BAD_KV_SCALES, [](Options &o) { o.kv_type = RAPT_F16; });
  expect(RAPT_BAD_K_STRIDES, [](Options &o) { o.k_strides = {6400, 6400, 65}; });
  expect(RAPT_BAD_V_STRIDES, [](Options &o) { o.v_strides = {9600, 9600, 100}; });
  // The output must not overlap the scales.
  for (const bool of_keys : {false, true}) {
    rapt_attention_options o = call.o;
    Floats many(1000);
    o.k_scales = of_keys ? many.data() + 90 : call.k_scales.data();
    o.v_scales = of_keys ? call.v_scales.data() : many.data() + 90;
    const auto run = [&](float *to) {
      return rapt_attention(call.q.data(), call.k.data(), call.v.data(), to, &o, workspace.data(),
                            workspace.size());
    };
    CHECK(run(many.data()) == RAPT_BAD_OVERLAP);
    CHECK(run(many.data() + 99) == RAPT_BAD_OVERLAP);
    CHECK(run(many.data() + 100) == RAPT_OK);
  }
}

namespace {

// Rounds numbers to symmetric int8 with one scale per group. Returns the numbers that the bytes represent.
Floats quantised(const Floats &numbers, std::size_t group, Bytes &bytes, Floats &scales) {
  Floats made(numbers.size());
  bytes.resize(numbers.size());
  scales.resize(numbers.size() / group);
  for (std::size_t i = 0; i < numbers.size(); i += group) {
    float largest = 0;
    for (std::size_t d = i; d < i + group; ++d) largest = std::max(largest, std::fabs(numbers[d]));
    const float scale = scales[i / group] = largest / 127;
    for (std::size_t d = i; d < i + group; ++d) {
      bytes[d] = static_cast<std::int8_t>(scale == 0 ? 0 : std::nearbyint(numbers[d] / scale));
      made[d] = static_cast<float>(bytes[d]) * scale;
    }
  }
  return made;
}

struct Rms {
  long double error = 0, truth = 0;
  void see(long double got, long double exact) {
    error += (got - exact) * (got - exact);
    truth += exact * exact;
  }
  double relative() const { return static_cast<double>(std::sqrt(error / truth)); }
};

}  // namespace

// Errors must be within the bound of rapt.h, and far below the error that the rounding to bytes makes.
TEST_CASE("accuracy") {
  const ForcedIsa forced("scalar");
  using Attention = oracle::Attention<float>;
  const struct {
    const char *name;
    double sigma;
    std::function<void(Attention &)> change;
    double most;  // largest relative rms error that the library may add
  } data[] = {
      {"unit variance", 1, [](Attention &) {}, 2e-4},
      {"sigma 40", 40, [](Attention &) {}, 3e-4},
      {"a key channel x 100", 1,
       [](Attention &a) {
         for (std::size_t i = 5; i < a.k.size(); i += a.qk_dim) a.k[i] *= 100;
       },
       2e-4},
      {"a value channel x 100", 1,
       [](Attention &a) {
         for (std::size_t i = 5; i < a.v.size(); i += a.v_dim) a.v[i] *= 100;
       },
       4e-4},
  };
  for (const auto &row : data) {
    for (const std::size_t group : Sizes{0, 128, 64, 32}) {
      WorstErrors worst;
      Rms of_library, of_bytes;
      for (const std::size_t keys : Sizes{70, 1300}) {
        if (emulated() && keys > 300) continue;
        Random random(keys);
        Attention a = normal_attention<float>({6, keys, 128, 128}, random, std::sqrt(row.sigma));
        row.change(a);
        a.scale_group = group;
        Call call({6, keys, 128, 128}, group);
        call.q = a.q;
        const Attention exact = a;
        a.k = quantised(a.k, a.group_of(128), call.k, call.k_scales);
        a.v = quantised(a.v, a.group_of(128), call.v, call.v_scales);
        a.v_scales = call.v_scales;
        Floats lse(6);
        call.o.lse = lse.data();
        const Floats out = call.run();
        for (std::size_t i = 0; i < 6; ++i) {
          const oracle::AttentionTruth truth = oracle::attention_truth(a, 0, 0, i),
                                       of_exact = oracle::attention_truth(exact, 0, 0, i);
          const AttentionErrors errors = attention_errors<float>(truth, {out.data() + 128 * i, 128}, lse[i]);
          const AttentionErrors bounds =
              attention_bounds(128, truth) + attention_bytes_bounds(a, truth, 0, 0, i);
          worst.see("out", errors.out, bounds.out);
          worst.see("lse", errors.lse, bounds.lse);
          for (std::size_t d = 0; d < 128; ++d) {
            of_library.see(static_cast<long double>(out[128 * i + d]), truth.out[d]);
            of_bytes.see(truth.out[d], of_exact.out[d]);
          }
        }
      }
      const std::string name =
          std::string(row.name) + (group == 0 ? ", per token" : ", per " + std::to_string(group));
      worst.print<std::int8_t>(name);
      std::printf("   relative rms: rapt %.1e, the bytes %.1e\n", of_library.relative(), of_bytes.relative());
      CHECK(of_library.relative() < row.most);
      CHECK(of_library.relative() < of_bytes.relative() / 10);
    }
  }
}

// A scale group of a query counts as 0 if it is below 2^-100. If the weights of a block times v_scale are
// below 2^-100, they add nothing.
TEST_CASE("what bytes lose below 2^-100") {
  const ForcedIsa forced("scalar");
  WorstErrors worst;
  struct Exponents {
    int of_queries, of_values;
  };
  for (const Exponents exponent : {Exponents{0, -90}, {0, -99}, {0, -104}, {-95, 0}, {-99, 0}, {-104, 0}}) {
    for (const std::size_t keys : Sizes{70, 600}) {
      Random random(keys);
      oracle::Attention<float> a = normal_attention<float>({6, keys, 64, 64}, random, 2);
      Call call({6, keys, 64, 64});
      for (float &x : a.q) x = std::ldexp(x, exponent.of_queries);
      call.q = a.q;
      a.scale = call.o.scale = std::ldexp(0.125, -exponent.of_queries);
      a.k = quantised(a.k, 64, call.k, call.k_scales);
      for (float &x : a.v) x = std::ldexp(x, exponent.of_values);
      a.v = quantised(a.v, 64, call.v, call.v_scales);
      a.v_scales = call.v_scales;
      Floats lse(6);
      call.o.lse = lse.data();
      const Floats out = call.run();
      for (std::size_t i = 0; i < 6; ++i) {
        const oracle::AttentionTruth truth = oracle::attention_truth(a, 0, 0, i);
        const AttentionErrors errors = attention_errors<float>(truth, {out.data() + 64 * i, 64}, lse[i]);
        const AttentionErrors bounds = attention_worst_bounds(64, keys, truth) +
                                       attention_underflow<float>(a, truth, 0, 0, i) +
                                       attention_bytes_bounds(a, truth, 0, 0, i);
        worst.see("out", errors.out, bounds.out);
        worst.see("lse", errors.lse, bounds.lse);
      }
    }
  }
  worst.print<std::int8_t>("bytes below 2^-100");
}
