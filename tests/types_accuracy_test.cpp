// Measures the error of attention for each way to store and compute keys and values, compared with exact
// attention over the same numbers. src/manual/accuracy.md has a table of these errors. All inputs are exact
// in bf16, so only int8 rounds them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "support/attention_call.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

constexpr std::size_t queries = 64, keys = 512, dim = 128;

struct Data {
  const char *name;
  double sigma = 1, key_channel = 1, value_channel = 1;
};
constexpr Data all_data[] = {{"unit variance"},
                             {"scores of sigma 40", 40},
                             {"one key channel x 100", 1, 100},
                             {"one value channel x 100", 1, 1, 100}};

struct Arrays {
  std::vector<float> q, k, v;
};

Arrays draw_arrays(const Data &data) {
  Random random(14);
  const auto draw = [&](std::size_t rows, double sigma, double channel) {
    std::vector<float> values;
    for (std::size_t i = 0; i < rows * dim; ++i) {
      values.push_back(float{BF16(sigma * random.gaussian() * (i % dim == 7 ? channel : 1))});
    }
    return values;
  };
  return {draw(queries, data.sigma, 1), draw(keys, 1, data.key_channel), draw(keys, 1, data.value_channel)};
}

std::vector<double> truth(const Arrays &a) {
  std::vector<double> out;
  for (std::size_t i = 0; i < queries; ++i) {
    std::vector<double> scores(keys);
    for (std::size_t j = 0; j < keys; ++j) {
      for (std::size_t d = 0; d < dim; ++d) scores[j] += double{a.q[i * dim + d]} * double{a.k[j * dim + d]};
      scores[j] /= std::sqrt(double{dim});
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    std::vector<double> row(dim);
    for (std::size_t j = 0; j < keys; ++j) {
      const double weight = std::exp(scores[j] - largest);
      sum += weight;
      for (std::size_t d = 0; d < dim; ++d) row[d] += weight * double{a.v[j * dim + d]};
    }
    for (const double x : row) out.push_back(x / sum);
  }
  return out;
}

rapt_attention_options options() {
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
  o.q_heads = 1;
  o.q_len = queries;
  o.kv_len = keys;
  o.qk_dim = dim;
  return o;
}

template <class Q, class KV, class Out>
std::vector<double> run(const std::vector<Q> &q, const std::vector<KV> &k, const std::vector<KV> &v,
                        rapt_attention_options o) {
  o.q_type = Api<Q>::type;
  o.kv_type = Api<KV>::type;
  o.out_type = Api<Out>::type;
  std::vector<Out> out(queries * dim);
  std::vector<unsigned char> workspace = workspace_for(o);
  REQUIRE(rapt_attention(q.data(), k.data(), v.data(), out.data(), &o, workspace.data(), workspace.size()) ==
          RAPT_OK);
  std::vector<double> numbers;
  for (const Out x : out) numbers.push_back(double{Number<Out>(x)});
  return numbers;
}

template <class E, class Out>
std::vector<double> run_stored(const Arrays &a, int arithmetic) {
  const auto stored = [](const std::vector<float> &x) {
    std::vector<E> made;
    for (const float number : x) made.push_back(E(number));
    return made;
  };
  rapt_attention_options o = options();
  o.arithmetic = arithmetic;
  return run<E, E, Out>(stored(a.q), stored(a.k), stored(a.v), o);
}

// Holds symmetric int8 numbers with one scale per token and group.
struct Bytes {
  std::vector<std::int8_t> numbers;
  std::vector<float> scales;

  Bytes(const std::vector<float> &x, std::size_t group) : numbers(x.size()) {
    for (std::size_t first = 0; first < x.size(); first += group) {
      float largest = 0;
      for (std::size_t i = first; i < first + group; ++i) largest = std::max(largest, std::fabs(x[i]));
      const float scale = largest / 127;
      scales.push_back(scale);
      for (std::size_t i = first; i < first + group; ++i) {
        numbers[i] = static_cast<std::int8_t>(std::lrint(x[i] / scale));
      }
    }
  }
};

std::vector<double> run_bytes(const Arrays &a, std::size_t group) {
  const Bytes k(a.k, group), v(a.v, group);
  rapt_attention_options o = options();
  o.k_scales = k.scales.data();
  o.v_scales = v.scales.data();
  o.scale_group = group == dim ? 0 : group;
  return run<float, std::int8_t, float>(a.q, k.numbers, v.numbers, o);
}

double relative_rms(const std::vector<double> &got, const std::vector<double> &wanted) {
  double errors = 0, squares = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    errors += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    squares += wanted[i] * wanted[i];
  }
  return std::sqrt(errors / squares);
}

struct Row {
  const char *name;
  std::vector<double> (*run)(const Arrays &);
  double most[std::size(all_data)];  // as in accuracy.md
};
constexpr Row rows[] = {
    {"bf16, f32 arithmetic",
     [](const Arrays &a) { return run_stored<BF16, float>(a, RAPT_ARITHMETIC_F32); },
     {4.3e-7, 1.1e-6, 2.3e-6, 4.6e-7}},
    {"bf16, bf16 arithmetic",
     [](const Arrays &a) { return run_stored<BF16, float>(a, RAPT_ARITHMETIC_BF16); },
     {1.6e-3, 1.8e-4, 6.6e-4, 2.5e-3}},
    {"bf16, f32 arithmetic, bf16 output",
     [](const Arrays &a) { return run_stored<BF16, BF16>(a, RAPT_ARITHMETIC_F32); },
     {1.7e-3, 9.2e-4, 1.7e-3, 2.3e-3}},
    {"bf16, bf16 arithmetic, bf16 output",
     [](const Arrays &a) { return run_stored<BF16, BF16>(a, RAPT_ARITHMETIC_BF16); },
     {2.4e-3, 9.4e-4, 1.8e-3, 3.6e-3}},
    {"int8, a scale per token",
     [](const Arrays &a) { return run_bytes(a, dim); },
     {8.5e-3, 5.0e-2, 2.3e-1, 3.6e-2}},
    {"int8, a scale per 64 elements",
     [](const Arrays &a) { return run_bytes(a, 64); },
     {8.2e-3, 5.5e-2, 1.7e-1, 2.6e-2}},
    {"int8, a scale per 32 elements",
     [](const Arrays &a) { return run_bytes(a, 32); },
     {7.4e-3, 3.9e-2, 1.2e-1, 1.7e-2}},
};

TEST_CASE("relative error of attention, by element type and arithmetic") {
  for (std::size_t i = 0; i < std::size(all_data); ++i) {
    const Arrays a = draw_arrays(all_data[i]);
    const std::vector<double> wanted = truth(a);
    for (const Row &row : rows) {
      const double error = relative_rms(row.run(a), wanted);
      const std::string of = std::string(row.name) + ", " + all_data[i].name;
      CAPTURE(of);
      CHECK(error <= row.most[i]);
    }
  }
}

}  // namespace
}  // namespace rapt::test
