// rapt.hpp's functions are rapt.h's: the same results for every element type, and a status where extents or
// types disagree.
#include <doctest/doctest.h>

#include <cstring>
#include <rapt/rapt.hpp>
#include <type_traits>
#include <vector>

#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

// The type of public_api.hpp that has the bits of rapt.hpp's T.
template <class T>
struct TestTypeOf {
  using type = T;
};
template <>
struct TestTypeOf<f16> {
  using type = F16;
};
template <>
struct TestTypeOf<bf16> {
  using type = BF16;
};
template <class T>
using TestType = typename TestTypeOf<T>::type;
template <class T>
using Number = test::Number<TestType<T>>;
template <class T>
using ApiOf = Api<TestType<T>>;

template <class T>
TestType<T> *raw(std::vector<T> &values) {
  return reinterpret_cast<TestType<T> *>(values.data());
}

template <class T>
std::vector<T> draw_elements(std::size_t count, Random &random) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) raw(values)[i] = TestType<T>(random.gaussian());
  return values;
}

template <class T>
bool same_bytes(const std::vector<T> &a, const std::vector<T> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

constexpr std::size_t rows = 5, cols = 37, n = rows * cols;

TEST_CASE_TEMPLATE("vectors", T, float, double, f16, bf16) {
  Random random(1);
  std::vector<T> a = draw_elements<T>(n, random), b = draw_elements<T>(n, random);
  CHECK(dot(a, b) == ApiOf<T>::dot(raw(a), raw(b), n));

  using Sum = Number<T>;
  std::vector<Sum> products(rows), expected_products(rows);
  dot_rows(std::span<const T>(b).first(cols), Rows<const T>(a, cols), Sum(0.5), products);
  ApiOf<T>::dot_rows(raw(b), raw(a), cols, rows, cols, Sum(0.5), expected_products.data());
  CHECK(same_bytes(products, expected_products));

  std::vector<T> y(n), expected(n);
  scale(a, Sum(1.7), y);
  ApiOf<T>::scale(raw(a), Sum(1.7), raw(expected), n);
  CHECK(same_bytes(y, expected));

  if constexpr (sizeof(T) == 2) {
    std::vector<float> wide(n), expected_wide(n);
    convert(a, wide);
    ApiOf<T>::to_f32(raw(a), expected_wide.data(), n);
    CHECK(same_bytes(wide, expected_wide));
    convert(wide, y);
    CHECK(same_bytes(y, a));
  } else {
    exp(a, y);
    ApiOf<T>::exp(a.data(), expected.data(), n);
    CHECK(same_bytes(y, expected));
    CHECK(exp_sum(a, T(2), T(1), y) == ApiOf<T>::exp_sum(a.data(), 2, 1, expected.data(), n));
    CHECK(same_bytes(y, expected));
  }
}

TEST_CASE("elements of 16 bits are their bits") {
  const std::vector<f16> one(3, f16{0x3c00}), two(3, f16{0x4000});
  CHECK(dot(one, two) == 6);
  CHECK(dot(std::vector<bf16>(3, bf16{0x3f80}), std::vector<bf16>(3, bf16{0x4000})) == 6);
}

TEST_CASE_TEMPLATE("rows", T, float, double, f16, bf16) {
  Random random(2);
  std::vector<T> x = draw_elements<T>(n, random), y(n), expected(n);
  rapt_softmax_options options = softmax_options();
  options.scale = 0.25;
  const Rows<T> out(y, cols), short_out(y.data(), rows - 1, cols, cols),
      narrow_out(y.data(), rows, cols - 1, cols);
  CHECK(softmax<T>({x, cols}, out, &options) == RAPT_OK);
  CHECK(ApiOf<T>::softmax(raw(x), cols, raw(expected), cols, rows, cols, &options) == RAPT_OK);
  CHECK(same_bytes(y, expected));
  CHECK(log_softmax<T>({x, cols}, out, &options) == RAPT_OK);
  CHECK(ApiOf<T>::log_softmax(raw(x), cols, raw(expected), cols, rows, cols, &options) == RAPT_OK);
  CHECK(same_bytes(y, expected));
  for (const Rows<T> &wrong : {short_out, narrow_out}) {
    CHECK(softmax<T>({x, cols}, wrong) == RAPT_BAD_SIZE);
    CHECK(log_softmax<T>({x, cols}, wrong) == RAPT_BAD_SIZE);
  }
  if constexpr (sizeof(T) > 2) {
    std::vector<T> sums(rows), expected_sums(rows);
    CHECK(logsumexp<T>({x, cols}, sums) == RAPT_OK);
    CHECK(ApiOf<T>::logsumexp(x.data(), cols, expected_sums.data(), rows, cols, nullptr) == RAPT_OK);
    CHECK(same_bytes(sums, expected_sums));
    CHECK(logsumexp<T>({x, cols}, std::span(sums).first(rows - 1)) == RAPT_BAD_SIZE);

    std::vector<T> dx(n), expected_dx(n);
    CHECK(softmax_backward<T>({y, cols}, {x, cols}, {dx, cols}, T(0.25)) == RAPT_OK);
    CHECK(ApiOf<T>::softmax_backward(y.data(), cols, x.data(), cols, expected_dx.data(), cols, rows, cols,
                                     T(0.25)) == RAPT_OK);
    CHECK(same_bytes(dx, expected_dx));
  }
}

rapt_attention_options small_attention() {
  rapt_attention_options options = rapt::attention_options();
  options.arithmetic = RAPT_ARITHMETIC_F32;
  options.q_heads = 2;
  options.kv_heads = 1;
  options.q_len = 3;
  options.kv_len = 70;
  options.qk_dim = 16;
  options.v_dim = 8;
  return options;
}

// Attention of these types, with their names in the options and without.
template <class Q, class KV, class Out>
void check_attention() {
  Random random(3);
  rapt_attention_options options = small_attention();
  const auto q = draw_elements<Q>(2 * 3 * 16, random);
  const auto k = draw_elements<KV>(70 * 16, random), v = draw_elements<KV>(70 * 8, random);
  std::vector<Out> out(2 * 3 * 8), expected(out.size()), by_tasks(out.size());
  std::vector<std::byte> workspace(attention_workspace<float>(options) + 65536);
  CHECK(attention(q, k, v, out, options, workspace) == RAPT_OK);
  CHECK(attention_run(q, k, v, by_tasks, options, 0, attention_tasks(options), workspace) == RAPT_OK);

  rapt_attention_options named = options;
  named.q_type = ApiOf<Q>::type;
  named.kv_type = ApiOf<KV>::type;
  named.out_type = ApiOf<Out>::type;
  CHECK(rapt_attention(q.data(), k.data(), v.data(), expected.data(), &named, workspace.data(),
                       workspace.size()) == RAPT_OK);
  CHECK(same_bytes(out, expected));
  CHECK(same_bytes(by_tasks, expected));
  std::fill(out.begin(), out.end(), Out{});
  CHECK(attention(q, k, v, out, named, workspace) == RAPT_OK);
  CHECK(same_bytes(out, expected));

  // The name of another type, and too short a range.
  const auto another = [](rapt_type type) { return type == RAPT_F16 ? RAPT_BF16 : RAPT_F16; };
  for (rapt_type rapt_attention_options::*const type :
       {&rapt_attention_options::q_type, &rapt_attention_options::kv_type,
        &rapt_attention_options::out_type}) {
    rapt_attention_options wrong = named;
    wrong.*type = another(named.*type);
    CHECK(attention(q, k, v, out, wrong, workspace) == RAPT_BAD_TYPE);
  }
  CHECK(attention(std::span(q).first(q.size() - 1), k, v, out, options, workspace) == RAPT_BAD_SIZE);
  CHECK(attention(q, k, v, std::span(out).first(out.size() - 1), options, workspace) == RAPT_BAD_SIZE);
}

TEST_CASE("attention takes its types from its ranges") {
  check_attention<float, float, float>();
  check_attention<f16, f16, f16>();
  check_attention<bf16, bf16, bf16>();
  check_attention<f16, bf16, float>();
  check_attention<float, f16, bf16>();
}

TEST_CASE("ranges of uint16_t need a name") {
  const rapt_attention_options options = small_attention();
  const std::vector<std::uint16_t> q(2 * 3 * 16), k(70 * 16), v(70 * 8);
  std::vector<float> out(2 * 3 * 8);
  std::vector<std::byte> workspace(attention_workspace<float>(options) + 65536);
  CHECK(attention(q, k, v, out, options, workspace) == RAPT_BAD_TYPE);
  rapt_attention_options named = options;
  named.q_type = RAPT_BF16;
  named.kv_type = RAPT_F16;
  CHECK(attention(q, k, v, out, named, workspace) == RAPT_OK);
}

// Its size depends on the type of the queries.
TEST_CASE("workspaces") {
  const rapt_attention_options options = small_attention();
  const auto workspace_of = [&](rapt_type type) {
    rapt_attention_options named = options;
    named.q_type = type;
    if (type == RAPT_F64) named.arithmetic = RAPT_ARITHMETIC_DEFAULT;
    std::size_t bytes = 0;
    REQUIRE(rapt_attention_workspace(&named, &bytes) == RAPT_OK);
    return bytes;
  };
  CHECK(attention_workspace<float>(options) == workspace_of(RAPT_F32));
  CHECK(attention_workspace<f16>(options) == workspace_of(RAPT_F16));
  CHECK(attention_workspace<bf16>(options) == workspace_of(RAPT_BF16));
  rapt_attention_options f64 = options;
  f64.arithmetic = RAPT_ARITHMETIC_DEFAULT;
  CHECK(attention_workspace<double>(f64) == workspace_of(RAPT_F64));
  CHECK(attention_workspace<bf16>(rapt::attention_options()) == 0);
}

}  // namespace
}  // namespace rapt::test
