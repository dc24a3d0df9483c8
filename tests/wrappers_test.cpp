// Tests that the functions of rapt.hpp give the results of the functions of rapt.h, for every element type.
// If extents or types disagree, a call must return a status, fail an assertion or not compile.
#undef NDEBUG  // enables the wrappers' assertions
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <rapt/rapt.hpp>
#include <type_traits>
#include <vector>

#include "support/public_api.hpp"
#include "support/random.hpp"

#ifdef __GLIBC__
namespace {
std::jmp_buf *failed_assertion = nullptr;
}
// Replaces the function of the C library, which would end the program.
extern "C" __attribute__((noreturn)) void __assert_fail(const char *, const char *, unsigned,
                                                        const char *) noexcept {
  if (failed_assertion == nullptr) std::abort();
  std::longjmp(*failed_assertion, 1);
}
#endif

namespace rapt::test {
namespace {

// Returns whether an assertion of a wrapper refuses the call. No local variable may change between setjmp()
// and longjmp(), because its value would be lost.
template <class Call>
bool is_refused(const Call &call) {
#ifdef __GLIBC__
  std::jmp_buf here;
  if (setjmp(here) != 0) {
    failed_assertion = nullptr;
    return true;
  }
  failed_assertion = &here;
  call();
  failed_assertion = nullptr;
  return false;
#else
  return static_cast<void>(call), true;
#endif
}

// Maps a type T of rapt.hpp to the type of public_api.hpp that has the same bits.
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
  silu(a, y);
  ApiOf<T>::silu(raw(a), raw(expected), n);
  CHECK(same_bytes(y, expected));
  gelu(a, y);
  ApiOf<T>::gelu(raw(a), raw(expected), n);
  CHECK(same_bytes(y, expected));
  gelu_tanh(a, y);
  ApiOf<T>::gelu_tanh(raw(a), raw(expected), n);
  CHECK(same_bytes(y, expected));
  CHECK(argmax(a) == ApiOf<T>::argmax(raw(a), n));

  if constexpr (sizeof(T) == 2) {
    std::vector<float> wide(n), expected_wide(n);
    convert(a, wide);
    ApiOf<T>::to_f32(raw(a), expected_wide.data(), n);
    CHECK(same_bytes(wide, expected_wide));
    convert(wide, y);
    CHECK(same_bytes(y, a));
  } else {
    silu_backward(a, b, y);
    ApiOf<T>::silu_backward(a.data(), b.data(), expected.data(), n);
    CHECK(same_bytes(y, expected));
    gelu_backward(a, b, y);
    ApiOf<T>::gelu_backward(a.data(), b.data(), expected.data(), n);
    CHECK(same_bytes(y, expected));
    gelu_tanh_backward(a, b, y);
    ApiOf<T>::gelu_tanh_backward(a.data(), b.data(), expected.data(), n);
    CHECK(same_bytes(y, expected));
    exp(a, y);
    ApiOf<T>::exp(a.data(), expected.data(), n);
    CHECK(same_bytes(y, expected));
    CHECK(exp_sum(a, T(2), T(1), y) == ApiOf<T>::exp_sum(a.data(), 2, 1, expected.data(), n));
    CHECK(same_bytes(y, expected));
  }
}

TEST_CASE_TEMPLATE("elementwise functions", T, float, double, f16, bf16) {
  Random random(9);
  const std::vector<T> x = draw_elements<T>(n, random), y = draw_elements<T>(n, random),
                       z = draw_elements<T>(n, random);
  std::vector<T> out(n), expected(n);
  rapt_map_options options = map_options();
  options.type = detail::type_of<T>;
  options.dims = 1;
  options.shape[0] = n;
  const auto agrees = [&](rapt_map_function function, const void *second, const void *third) {
    options.function = function;
    CHECK(rapt_map(x.data(), second, third, expected.data(), &options) == RAPT_OK);
    return same_bytes(out, expected);
  };
  CHECK(map<T>(RAPT_MAP_TANH, x, out) == RAPT_OK);
  CHECK(agrees(RAPT_MAP_TANH, nullptr, nullptr));
  CHECK(map<T>(RAPT_MAP_ATAN2, x, y, out) == RAPT_OK);
  CHECK(agrees(RAPT_MAP_ATAN2, y.data(), nullptr));
  CHECK(map<T>(RAPT_MAP_FMA, x, y, z, out) == RAPT_OK);
  CHECK(agrees(RAPT_MAP_FMA, y.data(), z.data()));
  options.alpha = 0.25, options.beta = 0.5, options.gamma = 0.75;
  CHECK(map<T>(RAPT_MAP_ELU, x, out, {.alpha = 0.25, .beta = 0.5, .gamma = 0.75}) == RAPT_OK);
  CHECK(agrees(RAPT_MAP_ELU, nullptr, nullptr));
  options.beta = options.gamma = 0;
  CHECK(map<T>(RAPT_MAP_ADDCMUL, x, y, z, out, {.alpha = 0.25}) == RAPT_OK);
  CHECK(agrees(RAPT_MAP_ADDCMUL, y.data(), z.data()));
  options.alpha = 0;

  // One element is repeated.
  const std::span<const T> one = std::span(y).first(1);
  options.y_strides[0] = RAPT_REPEAT;
  CHECK(map<T>(RAPT_MAP_MULTIPLY, x, one, out) == RAPT_OK);
  CHECK(agrees(RAPT_MAP_MULTIPLY, y.data(), nullptr));
  options.y_strides[0] = 0, options.z_strides[0] = RAPT_REPEAT;
  CHECK(map<T>(RAPT_MAP_FMA, x, y, one, out) == RAPT_OK);
  CHECK(agrees(RAPT_MAP_FMA, y.data(), y.data()));
  options.z_strides[0] = 0, options.x_strides[0] = RAPT_REPEAT;
  CHECK(map<T>(RAPT_MAP_SUBTRACT, std::span(x).first(1), y, out) == RAPT_OK);
  CHECK(agrees(RAPT_MAP_SUBTRACT, y.data(), nullptr));

  const std::span<const T> all(x), fewer = all.first(n - 1);
  CHECK(map<T>(RAPT_MAP_TANH, fewer, out) == RAPT_BAD_SIZE);
  CHECK(map<T>(RAPT_MAP_ADD, all, fewer, out) == RAPT_BAD_SIZE);
  CHECK(map<T>(RAPT_MAP_FMA, all, all, fewer, out) == RAPT_BAD_SIZE);
  CHECK(map<T>(RAPT_MAP_FMA, all, all, all, std::span(out).first(n - 1)) == RAPT_BAD_SIZE);
  CHECK(map<T>(RAPT_MAP_TANH, all, all, out) == RAPT_BAD_INPUTS);
  CHECK(map<T>(RAPT_MAP_ADD, all, out) == RAPT_BAD_INPUTS);
  CHECK(map<T>(RAPT_MAP_TANH, all, out, {.alpha = 1}) == RAPT_BAD_PARAMETERS);
  CHECK(map<T>(RAPT_MAP_TANH, {}, {}) == RAPT_OK);
}

TEST_CASE("elements of 16 bits are their bits") {
  const std::vector<f16> one(3, f16::from_bits(0x3c00)), two(3, f16::from_bits(0x4000));
  CHECK(dot(one, two) == 6);
  CHECK(dot(std::vector<bf16>(3, bf16::from_bits(0x3f80)), std::vector<bf16>(3, bf16::from_bits(0x4000))) ==
        6);
  CHECK(f16::from_bits(0xfc01).bits() == 0xfc01);
  CHECK(one[0] == f16::from_bits(0x3c00));
  CHECK(one[0] != two[0]);
  CHECK(bf16() == bf16::from_bits(0));
}

// f16 and bf16 must not be constructible from numbers, which might be meant as bits, or from each other.
template <class T, class From>
constexpr bool is_made_from = std::is_constructible_v<T, From> || std::is_convertible_v<From, T> ||
                              requires(From from) {
  T{from};
}
|| requires(From from) { T(from); }
|| requires(From from) { static_cast<T>(from); };
template <class T, class From>
constexpr bool has_bits_from = requires(From from) {
  T::from_bits(from);
};
template <class T>
constexpr bool is_a_number_type =
    is_made_from<T, float> || is_made_from<T, double> || is_made_from<T, int> ||
    is_made_from<T, std::uint16_t> || std::is_convertible_v<T, float> ||
    std::is_convertible_v<T, std::uint16_t> || has_bits_from<T, float> || has_bits_from<T, double>;
static_assert(!is_a_number_type<f16> && !is_a_number_type<bf16>);
static_assert(!is_made_from<f16, bf16> && !is_made_from<bf16, f16>);
static_assert(has_bits_from<f16, std::uint16_t> && has_bits_from<bf16, int>);
static_assert(sizeof(f16) == 2 && alignof(bf16) == 2 && std::is_trivially_copyable_v<f16> &&
              std::is_trivially_default_constructible_v<bf16> && std::is_standard_layout_v<bf16>);

template <class A, class B>
constexpr bool has_dot = requires(std::vector<A> a, std::vector<B> b) {
  dot(a, b);
};
static_assert(has_dot<float, float> && has_dot<bf16, bf16> && has_dot<std::uint8_t, std::int8_t>);
static_assert(!has_dot<float, double> && !has_dot<f16, bf16> && !has_dot<std::int8_t, std::uint8_t> &&
              !has_dot<std::uint16_t, std::uint16_t> && !has_dot<int, int>);

template <class T, class Element = T>
constexpr bool has_softmax = requires(Rows<const Element> x, Rows<Element> y) {
  softmax<T>(x, y);
};
template <class T, class Element = T>
constexpr bool has_log_softmax = requires(Rows<const Element> x, Rows<Element> y) {
  log_softmax<T>(x, y);
};
template <class T>
constexpr bool has_logsumexp = requires(Rows<const T> x, std::span<T> y) {
  logsumexp<T>(x, y);
};
template <class T>
constexpr bool has_softmax_backward = requires(Rows<T> x) {
  softmax_backward<T>(x, x, x);
};
static_assert(has_softmax<bf16> && has_log_softmax<f16> && has_logsumexp<double> &&
              has_softmax_backward<float>);
static_assert(!has_softmax<std::uint16_t> && !has_softmax<long double> && !has_softmax<float, double> &&
              !has_softmax<float, const float>);
static_assert(!has_log_softmax<int> && !has_log_softmax<double, float> && !has_log_softmax<f16, bf16>);
static_assert(!has_logsumexp<f16> && has_softmax_backward<bf16> && !has_softmax_backward<int>);

template <class Q, class KV = Q, class Out = Q>
constexpr bool has_attention = requires(std::vector<Q> q, std::vector<KV> k, std::span<Out> out,
                                        rapt_attention_options o, std::span<std::byte> workspace) {
  attention(q, k, k, out, o, workspace);
  attention_run(q, k, k, out, o, 0, 1, workspace);
};
template <class Q>
constexpr bool has_sizes = requires(rapt_attention_options o) {
  attention_workspace<Q>(o);
}
|| requires(rapt_attention_options o) { attention_backward_workspace<Q>(o); }
|| requires(rapt_attention_options o) { attention_tasks<Q>(o); };
static_assert(has_attention<double> && has_attention<bf16, std::int8_t, float> && has_sizes<f16>);
static_assert(!has_attention<int> && !has_attention<float, std::int16_t> &&
              !has_attention<float, float, long double> && !has_attention<float, float, const float> &&
              !has_sizes<int> && !has_sizes<long double>);

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
    const Rows<T> whole(dx, cols);
    for (const Rows<T> &wrong : {short_out, narrow_out}) {
      CHECK(softmax_backward<T>(wrong, whole, whole) == RAPT_BAD_SIZE);
      CHECK(softmax_backward<T>(whole, wrong, whole) == RAPT_BAD_SIZE);
      CHECK(softmax_backward<T>(whole, whole, wrong) == RAPT_BAD_SIZE);
    }
  }
}

TEST_CASE("a span has as many rows as fit into it") {
  float x[12] = {};
  CHECK(Rows<float>(std::span<float>(x), 4).rows == 3);
  CHECK(Rows<float>(std::span<float>(x).first(11), 4).rows == 2);
  CHECK(Rows<float>(std::span<float>(x).first(3), 4).rows == 0);
  CHECK(Rows<float>(std::span<float>(x), 0).rows == 0);
}

// Each matrix has a stride that no other one has.
TEST_CASE_TEMPLATE("rows that lie apart", T, float, double, f16, bf16) {
  Random random(6);
  constexpr std::ptrdiff_t x_stride = cols + 3, dy_stride = cols + 2, y_stride = cols + 1;
  std::vector<T> x = draw_elements<T>(rows * x_stride, random),
                 dy = draw_elements<T>(rows * dy_stride, random), y(rows * y_stride), expected(y.size());
  const Rows<const T> from(x.data(), rows, cols, x_stride), gradients(dy.data(), rows, cols, dy_stride);
  const Rows<T> to(y.data(), rows, cols, y_stride);
  using Sum = Number<T>;
  std::vector<Sum> sums(rows), expected_sums(rows);
  dot_rows(std::span<const T>(dy).first(cols), from, Sum(0.5), sums);
  ApiOf<T>::dot_rows(raw(dy), raw(x), x_stride, rows, cols, Sum(0.5), expected_sums.data());
  CHECK(same_bytes(sums, expected_sums));
  CHECK(softmax<T>(from, to) == RAPT_OK);
  CHECK(ApiOf<T>::softmax(raw(x), x_stride, raw(expected), y_stride, rows, cols, nullptr) == RAPT_OK);
  CHECK(same_bytes(y, expected));
  CHECK(log_softmax<T>(from, to) == RAPT_OK);
  CHECK(ApiOf<T>::log_softmax(raw(x), x_stride, raw(expected), y_stride, rows, cols, nullptr) == RAPT_OK);
  CHECK(same_bytes(y, expected));
  CHECK(gated<T>(from, gradients, to, RAPT_GELU) == RAPT_OK);
  rapt_gated_options activated = gated_options();
  activated.type = detail::type_of<T>;
  activated.activation = RAPT_GELU;
  activated.rows = rows;
  activated.cols = cols;
  activated.gate_stride = x_stride;
  activated.up_stride = dy_stride;
  activated.y_stride = y_stride;
  CHECK(rapt_gated(raw(x), raw(dy), raw(expected), &activated) == RAPT_OK);
  CHECK(same_bytes(y, expected));
  const Rows<T> fewer(to.data, rows - 1, cols, to.stride);
  CHECK(gated<T>(from, gradients, fewer) == RAPT_BAD_SIZE);
  if constexpr (sizeof(T) > 2) {
    std::vector<T> dgate(x), dup(dy), expected_dgate(x), expected_dup(dy);
    const Rows<T> to_gate(dgate.data(), rows, cols, x_stride), to_up(dup.data(), rows, cols, dy_stride);
    CHECK(gated_backward<T>(from, gradients, to, to_gate, to_up, RAPT_GELU) == RAPT_OK);
    CHECK(rapt_gated_backward(x.data(), dy.data(), y.data(), expected_dgate.data(), expected_dup.data(),
                              &activated) == RAPT_OK);
    CHECK(same_bytes(dgate, expected_dgate));
    CHECK(same_bytes(dup, expected_dup));
    CHECK(gated_backward<T>(from, gradients, to, to_gate, fewer) == RAPT_BAD_SIZE);
    CHECK(logsumexp<T>(from, sums) == RAPT_OK);
    CHECK(ApiOf<T>::logsumexp(x.data(), x_stride, expected_sums.data(), rows, cols, nullptr) == RAPT_OK);
    CHECK(same_bytes(sums, expected_sums));
    CHECK(softmax_backward<T>(from, gradients, to, T(0.25)) == RAPT_OK);
    CHECK(ApiOf<T>::softmax_backward(x.data(), x_stride, dy.data(), dy_stride, expected.data(), y_stride,
                                     rows, cols, T(0.25)) == RAPT_OK);
    CHECK(same_bytes(y, expected));
  }
}

#ifdef __GLIBC__
// A range may be longer than necessary only if another range gives the length. It must never be shorter.
TEST_CASE_TEMPLATE("functions without a status assert their extents", T, float, double, f16, bf16) {
  using Sum = Number<T>;
  std::vector<T> a(n), b(n), y(n);
  std::vector<float> wide(n);
  std::vector<Sum> sums(rows);
  const std::span<const T> all(a), some = all.first(n - 1);
  const std::span<T> out(y), shorter = out.first(n - 1);
  const Rows<const T> keys(b, cols);
  const std::span<const T> query = all.first(cols);
  CHECK_FALSE(is_refused([&] { dot(all, b), dot_rows(query, keys, Sum(1), sums), scale(all, Sum(1), out); }));
  CHECK_FALSE(is_refused([&] { scale(some, Sum(1), out); }));
  CHECK(is_refused([&] { dot(all, some); }));
  CHECK(is_refused([&] { dot(some, all); }));
  CHECK(is_refused([&] { dot_rows(all.first(cols - 1), keys, Sum(1), sums); }));
  CHECK(is_refused([&] { dot_rows(all.first(cols + 1), keys, Sum(1), sums); }));
  CHECK(is_refused([&] { dot_rows(query, keys, Sum(1), std::span(sums).first(rows - 1)); }));
  CHECK(is_refused([&] { scale(all, Sum(1), shorter); }));
  CHECK_FALSE(is_refused([&] { silu(some, out), gelu(some, out), gelu_tanh(some, out); }));
  CHECK(is_refused([&] { silu(all, shorter); }));
  CHECK(is_refused([&] { gelu(all, shorter); }));
  CHECK(is_refused([&] { gelu_tanh(all, shorter); }));
  if constexpr (sizeof(T) == 2) {
    const std::span<float> shorter_wide = std::span(wide).first(n - 1);
    CHECK_FALSE(is_refused([&] { convert(all, wide), convert(wide, out), convert(some, wide); }));
    CHECK(is_refused([&] { convert(all, shorter_wide); }));
    CHECK(is_refused([&] { convert(wide, shorter); }));
  } else {
    CHECK_FALSE(is_refused([&] { exp(all, out), exp_sum(all, T(1), T(0), out), exp(some, out); }));
    CHECK(is_refused([&] { exp(all, shorter); }));
    CHECK_FALSE(is_refused([&] { silu_backward(some, some, out), gelu_backward(all, all, out); }));
    CHECK(is_refused([&] { silu_backward(all, all, shorter); }));
    CHECK(is_refused([&] { silu_backward(all, some, out); }));
    CHECK(is_refused([&] { gelu_backward(all, all, shorter); }));
    CHECK(is_refused([&] { gelu_backward(all, some, out); }));
    CHECK(is_refused([&] { gelu_tanh_backward(all, all, shorter); }));
    CHECK(is_refused([&] { gelu_tanh_backward(all, some, out); }));
    CHECK(is_refused([&] { exp_sum(all, T(1), T(0), shorter); }));
  }
}

TEST_CASE_TEMPLATE("bytes assert their extents", T, std::int8_t, std::uint8_t) {
  const std::vector<T> a(n);
  const std::vector<std::int8_t> b(n);
  std::vector<float> sums(rows);
  const std::span<const T> query = std::span(a).first(cols);
  const Rows<const std::int8_t> keys(b, cols);
  CHECK_FALSE(is_refused([&] { dot(a, b), dot_rows(query, keys, 1, sums); }));
  CHECK(is_refused([&] { dot(query, b); }));
  CHECK(is_refused([&] { dot(a, std::span(b).first(n - 1)); }));
  CHECK(is_refused([&] { dot_rows(query.first(cols - 1), keys, 1, sums); }));
  CHECK(is_refused([&] { dot_rows(query, keys, 1, std::span(sums).first(rows - 1)); }));
}
#endif

TEST_CASE("bytes") {
  Random random(4);
  std::vector<std::int8_t> a(n), b(n);
  std::vector<std::uint8_t> u(n);
  for (std::size_t i = 0; i < n; ++i) {
    a[i] = static_cast<std::int8_t>(random.below(256) - 128);
    b[i] = static_cast<std::int8_t>(random.below(256) - 128);
    u[i] = static_cast<std::uint8_t>(random.below(256));
  }
  CHECK(dot(a, b) == rapt_dot_i8(a.data(), b.data(), n));
  CHECK(dot(u, b) == rapt_dot_u8i8(u.data(), b.data(), n));
  std::vector<float> sums(rows), expected(rows);
  const Rows<const std::int8_t> keys(b, cols);
  dot_rows(std::span(a).first(cols), keys, 0.5f, sums);
  rapt_dot_rows_i8(a.data(), b.data(), cols, rows, cols, 0.5f, expected.data());
  CHECK(same_bytes(sums, expected));
  dot_rows(std::span(u).first(cols), keys, 0.5f, sums);
  rapt_dot_rows_u8i8(u.data(), b.data(), cols, rows, cols, 0.5f, expected.data());
  CHECK(same_bytes(sums, expected));
}

rapt_attention_options small_attention() {
  rapt_attention_options options = rapt::attention_options();
  options.arithmetic = RAPT_ARITHMETIC_F32;
  options.batch = 2;
  options.q_heads = 4;
  options.kv_heads = 2;
  options.q_len = 3;
  options.kv_len = 70;
  options.qk_dim = 16;
  options.v_dim = 8;
  return options;
}

constexpr std::size_t q_size = 2 * 4 * 3 * 16, k_size = 2 * 2 * 70 * 16, v_size = 2 * 2 * 70 * 8,
                      out_size = 2 * 4 * 3 * 8;

// Checks attention of these types, with and without type names in the options.
template <class Q, class KV, class Out>
void check_attention() {
  Random random(3);
  rapt_attention_options options = small_attention();
  const auto q = draw_elements<Q>(q_size, random);
  const auto k = draw_elements<KV>(k_size, random), v = draw_elements<KV>(v_size, random);
  std::vector<Out> out(out_size), expected(out.size()), by_tasks(out.size());
  std::vector<std::byte> workspace(attention_workspace<Q, KV>(options));
  CHECK(attention(q, k, v, out, options, workspace) == RAPT_OK);
  CHECK(attention_run(q, k, v, by_tasks, options, 0, 1, workspace) == RAPT_OK);
  CHECK(attention_run(q, k, v, by_tasks, options, 1, attention_tasks<Q, KV>(options), workspace) == RAPT_OK);

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

  // The calls below have the name of another type, or a range that is too short.
  const auto another = [](rapt_type type) { return type == RAPT_F16 ? RAPT_BF16 : RAPT_F16; };
  for (rapt_type rapt_attention_options::*const type :
       {&rapt_attention_options::q_type, &rapt_attention_options::kv_type,
        &rapt_attention_options::out_type}) {
    rapt_attention_options wrong = named;
    wrong.*type = another(named.*type);
    CHECK(attention(q, k, v, out, wrong, workspace) == RAPT_BAD_TYPE);
  }
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
  const std::vector<std::uint16_t> q(q_size), k(k_size), v(v_size);
  std::vector<float> out(out_size);
  std::vector<std::byte> workspace(attention_workspace<f16, bf16>(options));
  CHECK(attention(q, k, v, out, options, workspace) == RAPT_BAD_TYPE);
  CHECK(attention_workspace<std::uint16_t>(options) == 0);
  CHECK(attention_tasks<std::uint16_t>(options) == 0);
  rapt_attention_options named = options;
  named.q_type = RAPT_BF16;
  named.kv_type = RAPT_F16;
  CHECK(attention(q, k, v, out, named, workspace) == RAPT_OK);
}

TEST_CASE("keys and values may have two types") {
  const rapt_attention_options options = small_attention();
  const std::vector<float> q(q_size), wide(v_size, 0.25f);
  const std::vector<f16> k(k_size);
  std::vector<float> out(out_size);
  std::vector<std::byte> workspace(attention_workspace<float, f16, float>(options));
  CHECK(workspace.size() > attention_workspace<float, f16>(options));
  CHECK(attention_tasks<float, f16, float>(options) == attention_tasks<float>(options));
  CHECK(attention(q, k, wide, out, options, workspace) == RAPT_OK);
  CHECK(out.front() == 0.25f);
  CHECK(attention(q, k, std::vector<double>(v_size), out, options, workspace) == RAPT_BAD_TYPE);
  CHECK(attention(q, k, std::vector<std::int8_t>(v_size), out, options, workspace) == RAPT_BAD_TYPE);
  rapt_attention_options named = options;
  named.v_type = RAPT_BF16;
  CHECK(attention(q, k, wide, out, named, workspace) == RAPT_BAD_TYPE);
  const std::vector<std::uint16_t> halves(v_size);
  CHECK(attention(q, k, halves, out, named, workspace) == RAPT_OK);
  rapt_attention_gradients gradients = attention_gradients();
  CHECK(attention_backward(q, k, wide, options, gradients, workspace) == RAPT_BAD_TYPE);
}

TEST_CASE("keys and values in blocks are bytes") {
  rapt_attention_options options = rapt::attention_options();
  options.q_len = 2;
  options.kv_len = 3;
  options.qk_dim = 64;
  options.v_dim = 32;
  const std::vector<float> q(2 * 64);
  std::vector<float> out(2 * 32);
  std::vector<std::byte> k(3 * 68), v(3 * 18), workspace(1 << 20);
  CHECK(attention(q, k, v, out, options, workspace) == RAPT_BAD_TYPE);
  options.kv_type = RAPT_Q8_0;
  options.v_type = RAPT_Q4_0;
  workspace.resize(attention_workspace<float>(options));
  CHECK(attention(q, k, v, out, options, workspace) == RAPT_OK);
  CHECK(attention_run(q, k, std::span<const std::byte>(v), out, options, 0, 1, workspace) == RAPT_OK);
  k.pop_back();
  CHECK(attention(q, k, v, out, options, workspace) == RAPT_BAD_SIZE);
  k.push_back({});
  v.pop_back();
  CHECK(attention(q, k, v, out, options, workspace) == RAPT_BAD_SIZE);
  v.push_back({});
  // RAPT_I4 has two numbers in a byte.
  const std::vector<float> scales(3, 1);
  std::vector<std::byte> halves(3 * 16);
  rapt_attention_options of_halves = options;
  of_halves.v_type = RAPT_I4, of_halves.v_scales = scales.data();
  CHECK(attention(q, k, halves, out, of_halves, workspace) == RAPT_OK);
  halves.pop_back();
  CHECK(attention(q, k, halves, out, of_halves, workspace) == RAPT_BAD_SIZE);
  // A cache of lists has as many tokens as cache_len says.
  const std::int32_t list[] = {2, 0, -1, 1, 1};
  options.key_lists = list;
  options.kv_len = 5;
  options.cache_len = 3;
  workspace.resize(attention_workspace<float>(options));
  CHECK(attention(q, k, v, out, options, workspace) == RAPT_OK);
  options.cache_len = 4;
  CHECK(attention(q, k, v, out, options, workspace) == RAPT_BAD_SIZE);
}

// Checks that ranges of exactly these sizes are enough for attention, attention_run and attention_backward,
// and that one element less in any of them is refused.
void check_extents(const rapt_attention_options &options, std::size_t q_least, std::size_t k_least,
                   std::size_t v_least, std::size_t out_least) {
  std::vector<float> q(q_size), k(k_size), v(k_size), out(out_size), dout(out_size), dq(q_size), dk(k_size),
      dv(k_size), lse(out_size);  // values may be as long as keys
  rapt_attention_options o = options;
  o.lse = lse.data();
  rapt_attention_gradients g = attention_gradients();
  g.out = out.data();
  g.dout = dout.data();
  g.dq = dq.data();
  g.dk = dk.data();
  g.dv = dv.data();
  std::vector<std::byte> workspace(
      std::max(attention_workspace<float>(o), attention_backward_workspace<float>(o)));
  const bool has_gradient = !o.block_table && !o.packed_keys;
  const std::size_t least[] = {q_least, k_least, v_least, out_least};
  for (std::size_t shorter = 0; shorter <= std::size(least); ++shorter) {
    CAPTURE(shorter);
    if (shorter < std::size(least) && least[shorter] == 0) continue;
    const auto cut = [&](std::vector<float> &all, std::size_t which) {
      return std::span(all).first(least[which] - (least[which] > 0 && which == shorter));
    };
    const auto q_cut = cut(q, 0), k_cut = cut(k, 1), v_cut = cut(v, 2), out_cut = cut(out, 3);
    const rapt_status expected = shorter == std::size(least) ? RAPT_OK : RAPT_BAD_SIZE;
    // The extent of an empty range is not checked: attention uses only its pointer.
    CHECK(attention(q_cut, k_cut, v_cut, out_cut, o, workspace) == expected);
    CHECK(attention_run(q_cut, k_cut, v_cut, out_cut, o, 0, 1, workspace) == expected);
    if (shorter == 3 || !has_gradient) continue;
    CHECK(attention_backward(q_cut, k_cut, v_cut, o, g, workspace) == expected);
  }
}

TEST_CASE("extents of ranges") {
  const rapt_attention_options options = small_attention();
  SUBCASE("contiguous") { check_extents(options, q_size, k_size, v_size, out_size); }
  SUBCASE("as many key heads as query heads, and one dimension") {
    rapt_attention_options same = options;
    same.q_heads = 2;
    same.kv_heads = same.v_dim = 0;
    check_extents(same, 2 * 2 * 3 * 16, k_size, k_size, 2 * 2 * 3 * 16);
  }
  SUBCASE("strides") {
    rapt_attention_options strided = options;
    strided.k_strides = rapt_strides_bthd(2, 70, 16);
    check_extents(strided, q_size, 0, v_size, out_size);
    strided = options;
    strided.out_strides = rapt_strides_bthd(4, 3, 8);
    check_extents(strided, q_size, k_size, v_size, 0);
  }
  SUBCASE("lengths") {
    const std::int32_t lengths[] = {70, 60};
    rapt_attention_options ragged = options;
    ragged.kv_lengths = lengths;
    check_extents(ragged, q_size, 0, 0, out_size);
  }
  SUBCASE("packed sequences") {
    const std::int32_t q_offsets[] = {0, 3, 5}, kv_offsets[] = {0, 70, 130};
    rapt_attention_options packed = options;
    packed.q_offsets = q_offsets;
    check_extents(packed, 0, k_size, v_size, 0);
    packed.kv_offsets = kv_offsets;
    check_extents(packed, 0, 0, 0, 0);
  }
  SUBCASE("pages") {
    const std::int32_t table[] = {0, 0};
    rapt_attention_options paged = options;
    paged.block_table = table;
    paged.page_size = 80;
    paged.kv_len = 70;
    check_extents(paged, q_size, 0, 0, out_size);
  }
  SUBCASE("packed keys") {
    rapt_attention_options packed = options;
    packed.packed_keys = 1;
    packed.kv_len = 64;  // packed k has the size of plain k
    check_extents(packed, q_size, 0, 2 * 2 * 64 * 8, out_size);
  }
}

TEST_CASE_TEMPLATE("attention_backward", T, float, double, bf16) {
  Random random(5);
  rapt_attention_options options = small_attention();
  if (std::is_same_v<T, double>) options.arithmetic = RAPT_ARITHMETIC_DEFAULT;
  const auto q = draw_elements<T>(q_size, random), k = draw_elements<T>(k_size, random),
             v = draw_elements<T>(v_size, random), dout = draw_elements<T>(out_size, random);
  std::vector<T> out(out_size);
  std::vector<Number<T>> lse(out_size / 8);
  options.lse = lse.data();
  struct Gradients {
    std::vector<T> dq = std::vector<T>(q_size), dk = std::vector<T>(k_size), dv = std::vector<T>(v_size);
  } results, expected;
  const auto pointers_to = [&](Gradients &gradients) {
    rapt_attention_gradients g = attention_gradients();
    g.out = out.data();
    g.dout = dout.data();
    g.dq = gradients.dq.data();
    g.dk = gradients.dk.data();
    g.dv = gradients.dv.data();
    return g;
  };
  std::vector<std::byte> workspace(attention_workspace<T>(options));
  REQUIRE(attention(q, k, v, out, options, workspace) == RAPT_OK);

  rapt_attention_options named = options;
  named.q_type = ApiOf<T>::type;
  std::size_t bytes = 0;
  REQUIRE(rapt_attention_backward_workspace(&named, &bytes) == RAPT_OK);
  CHECK(attention_backward_workspace<T>(options) == bytes);
  workspace.resize(bytes);
  const rapt_attention_gradients to_expected = pointers_to(expected);
  REQUIRE(rapt_attention_backward(q.data(), k.data(), v.data(), &named, &to_expected, workspace.data(),
                                  bytes) == RAPT_OK);
  CHECK(attention_backward(q, k, v, options, pointers_to(results), workspace) == RAPT_OK);
  CHECK(same_bytes(results.dq, expected.dq));
  CHECK(same_bytes(results.dk, expected.dk));
  CHECK(same_bytes(results.dv, expected.dv));
  named.q_type = RAPT_F16;
  CHECK(attention_backward(q, k, v, named, pointers_to(results), workspace) == RAPT_BAD_TYPE);
  CHECK(attention_backward(q, k, v, options, pointers_to(results), std::span(workspace).first(bytes - 1)) ==
        RAPT_BAD_WORKSPACE);
}

TEST_CASE("sizes are those of the types") {
  const rapt_attention_options options = small_attention();
  using Types = std::initializer_list<rapt_type>;
  const auto sizes_of = [&](const Types &types) {
    rapt_attention_options named = options;
    named.q_type = types.begin()[0];
    named.kv_type = types.begin()[1];
    named.out_type = types.begin()[2];
    std::array<std::size_t, 2> bytes = {};
    REQUIRE(rapt_attention_workspace(&named, &bytes[0]) == RAPT_OK);
    REQUIRE(rapt_attention_backward_workspace(&named, &bytes[1]) == RAPT_OK);
    return bytes;
  };
  const auto f32 = sizes_of({RAPT_F32, RAPT_F32, RAPT_F32}), mixed = sizes_of({RAPT_F32, RAPT_F16, RAPT_F32});
  CHECK(attention_workspace<float>(options) == f32[0]);
  CHECK(attention_backward_workspace<float>(options) == f32[1]);
  CHECK(attention_workspace<float, f16>(options) == mixed[0]);
  CHECK(attention_backward_workspace<float, f16>(options) == mixed[1]);
  CHECK(mixed[0] > f32[0]);
  const std::size_t narrow_output = sizes_of({RAPT_F32, RAPT_F32, RAPT_BF16})[1];
  CHECK(attention_backward_workspace<float, float, bf16>(options) == narrow_output);
  CHECK(narrow_output > f32[1]);
  rapt_attention_options named = options;
  named.kv_type = RAPT_F16;
  CHECK(attention_workspace<float>(named) == mixed[0]);

  rapt_attention_options f64 = options;
  f64.arithmetic = RAPT_ARITHMETIC_DEFAULT;
  CHECK(attention_workspace<double>(f64) > f32[0]);
  CHECK(attention_workspace<bf16>(rapt::attention_options()) == 0);
}

TEST_CASE("sizes of options that name other types are 0") {
  rapt_attention_options named = small_attention();
  named.q_type = RAPT_F16;
  CHECK(attention_workspace<f16>(named) > 0);
  CHECK(attention_workspace<float>(named) == 0);
  CHECK(attention_backward_workspace<float>(named) == 0);
  CHECK(attention_tasks<float>(named) == 0);
  named.kv_type = RAPT_BF16;
  CHECK(attention_tasks<f16, bf16>(named) > 0);
  CHECK(attention_tasks<f16, f16>(named) == 0);
}

// The element types must be known to count tasks, because BF16 arithmetic is an error for f32.
TEST_CASE("tasks of options that only some types may have") {
  rapt_attention_options options = small_attention();
  options.arithmetic = RAPT_ARITHMETIC_BF16;
  CHECK(attention_tasks<bf16>(options) > 0);
  CHECK(attention_tasks<float>(options) == 0);
}

TEST_CASE_TEMPLATE("norms", T, float, double, f16, bf16) {
  constexpr std::size_t rows = 3, cols = 9, x_stride = 11, y_stride = 10;
  Random random(12);
  const std::vector<T> x = draw_elements<T>(rows * x_stride, random), w = draw_elements<T>(cols, random);
  std::vector<T> y(rows * y_stride), expected(rows * y_stride);
  const Rows<const T> from(x.data(), rows, cols, x_stride);
  const Rows<T> to(y.data(), rows, cols, y_stride);
  rapt_norm_options o = norm_options();
  o.eps = 0x1p-10;
  o.weight = w.data();
  rapt_norm_options plain = o;
  plain.type = ApiOf<T>::type;
  plain.rows = rows;
  plain.cols = cols;
  plain.x_stride = x_stride;
  plain.y_stride = y_stride;
  CHECK(rms_norm<T>(from, to, o) == RAPT_OK);
  REQUIRE(rapt_rms_norm(x.data(), expected.data(), &plain) == RAPT_OK);
  CHECK(same_bytes(y, expected));
  o.bias = plain.bias = w.data();
  CHECK(layer_norm<T>(from, to, o) == RAPT_OK);
  REQUIRE(rapt_layer_norm(x.data(), expected.data(), &plain) == RAPT_OK);
  CHECK(same_bytes(y, expected));
  CHECK(layer_norm<T>(from, Rows<T>(y.data(), rows - 1, cols, y_stride), o) == RAPT_BAD_SIZE);
  CHECK(rms_norm<T>(from, Rows<T>(y.data(), rows, cols - 1, y_stride), o) == RAPT_BAD_SIZE);
  o.type = std::is_same_v<T, double> ? RAPT_F32 : RAPT_F64;
  CHECK(layer_norm<T>(from, to, o) == RAPT_BAD_TYPE);
  if constexpr (sizeof(T) > 2) {
    const std::vector<T> dy = draw_elements<T>(rows * y_stride, random);
    std::vector<T> dx(x), expected_dx(x), dweight(cols), expected_dweight(cols);
    const Rows<const T> gradients(dy.data(), rows, cols, y_stride);
    const Rows<T> to_dx(dx.data(), rows, cols, x_stride);
    rapt_norm_backward_options back = norm_backward_options();
    back.weight = w.data();
    back.dweight = dweight.data();
    rapt_norm_backward_options all = back;
    all.type = ApiOf<T>::type;
    all.rows = rows;
    all.cols = cols;
    all.x_stride = all.dx_stride = x_stride;
    all.dy_stride = y_stride;
    all.dweight = expected_dweight.data();
    CHECK(rms_norm_backward<T>(from, gradients, to_dx, back) == RAPT_OK);
    REQUIRE(rapt_rms_norm_backward(x.data(), dy.data(), expected_dx.data(), &all) == RAPT_OK);
    CHECK(same_bytes(dx, expected_dx));
    CHECK(same_bytes(dweight, expected_dweight));
    CHECK(layer_norm_backward<T>(from, gradients, to_dx, back) == RAPT_OK);
    REQUIRE(rapt_layer_norm_backward(x.data(), dy.data(), expected_dx.data(), &all) == RAPT_OK);
    CHECK(same_bytes(dx, expected_dx));
    CHECK(same_bytes(dweight, expected_dweight));
    const Rows<T> fewer(dx.data(), rows - 1, cols, x_stride);
    CHECK(rms_norm_backward<T>(from, gradients, fewer, back) == RAPT_BAD_SIZE);
    CHECK(layer_norm_backward<T>(from, fewer, to_dx, back) == RAPT_BAD_SIZE);
  }
}

TEST_CASE_TEMPLATE("reductions", T, float, double, f16, bf16) {
  constexpr std::size_t rows = 3, cols = 70, pitch = 80;
  Random random(10);
  const std::vector<T> x = draw_elements<T>(rows * pitch, random);
  std::vector<T> sums(rows), expected(rows);
  rapt_reduce_options o = reduce_options(RAPT_SUM, {rows, cols});
  o.reduced = 2;
  o.x_strides[0] = pitch;
  o.x_strides[1] = 1;
  if (std::is_same_v<T, f16>) o.type = o.out_type = ApiOf<T>::type;
  REQUIRE(reduce(x, sums, o) == RAPT_OK);
  rapt_reduce_options plain = o;
  plain.type = ApiOf<T>::type;
  REQUIRE(rapt_reduce(x.data(), expected.data(), &plain) == RAPT_OK);
  CHECK(same_bytes(sums, expected));

  const std::span<const T> all(x);
  const std::span<T> out(sums);
  CHECK(reduce(all.first(2 * pitch + cols), out, o) == RAPT_OK);
  CHECK(reduce(all.first(2 * pitch + cols - 1), out, o) == RAPT_BAD_SIZE);
  CHECK(reduce(all, out.first(rows - 1), o) == RAPT_BAD_SIZE);
  rapt_reduce_options contiguous = o;
  contiguous.x_strides[0] = contiguous.x_strides[1] = 0;
  CHECK(reduce(all.first(rows * cols), out, contiguous) == RAPT_OK);
  CHECK(reduce(all.first(rows * cols - 1), out, contiguous) == RAPT_BAD_SIZE);

  std::vector<std::int64_t> indices(rows), expected_indices(rows);
  CHECK(reduce(all, std::span(indices), o) == RAPT_BAD_TYPE);
  o.operation = plain.operation = RAPT_ARGMAX;
  o.out_type = plain.out_type = RAPT_TYPE_DEFAULT;
  REQUIRE(reduce(all, std::span(indices), o) == RAPT_OK);
  REQUIRE(rapt_reduce(x.data(), expected_indices.data(), &plain) == RAPT_OK);
  CHECK(same_bytes(indices, expected_indices));
  o.dims = RAPT_MAX_DIMS + 1;
  CHECK(reduce(all, std::span(indices), o) == RAPT_BAD_DIMS);
}

TEST_CASE_TEMPLATE("scans", T, float, double, f16, bf16) {
  constexpr std::size_t rows = 3, cols = 40, pitch = 44;
  Random random(11);
  const std::vector<T> x = draw_elements<T>(rows * pitch, random);
  std::vector<T> sums(rows * pitch), expected(rows * pitch);
  rapt_scan_options o = scan_options(RAPT_SUM, 1, {rows, cols});
  o.x_strides[0] = o.out_strides[0] = pitch;
  o.x_strides[1] = o.out_strides[1] = 1;
  if (std::is_same_v<T, f16>) o.type = ApiOf<T>::type;
  REQUIRE(scan(x, sums, o) == RAPT_OK);
  rapt_scan_options plain = o;
  plain.type = ApiOf<T>::type;
  REQUIRE(rapt_scan(x.data(), expected.data(), &plain) == RAPT_OK);
  CHECK(same_bytes(sums, expected));

  const std::span<const T> all(x);
  const std::span<T> out(sums);
  CHECK(scan(all.first(2 * pitch + cols), out.first(2 * pitch + cols), o) == RAPT_OK);
  CHECK(scan(all.first(2 * pitch + cols - 1), out, o) == RAPT_BAD_SIZE);
  CHECK(scan(all, out.first(2 * pitch + cols - 1), o) == RAPT_BAD_SIZE);
  o.axis = 2;
  CHECK(scan(x, sums, o) == RAPT_BAD_AXIS);
}

TEST_CASE_TEMPLATE("the delta rule", T, float, f16, bf16) {
  constexpr std::size_t tokens = 3, keys = 8, values = 5;
  Random random(12);
  const std::vector<T> q = draw_elements<T>(tokens * keys, random),
                       k = draw_elements<T>(2 * tokens * keys, random),
                       v = draw_elements<T>(4 * tokens * values, random);
  std::vector<T> out(4 * tokens * values), expected(out.size());
  std::vector<float> state(4 * keys * values);
  rapt_delta_rule_options o = RAPT_DELTA_RULE_OPTIONS_INIT;
  o.tokens = tokens;
  o.v_heads = 4;
  o.k_heads = 2;
  o.key_dim = keys;
  o.value_dim = values;
  o.final_state = state.data();
  if (std::is_same_v<T, f16>) o.type = ApiOf<T>::type;
  std::vector<std::byte> workspace(delta_rule_workspace<T>(o));
  REQUIRE(!workspace.empty());
  REQUIRE(delta_rule(q, k, v, out, o, workspace) == RAPT_OK);
  rapt_delta_rule_options plain = o;
  plain.type = ApiOf<T>::type;
  REQUIRE(rapt_delta_rule(q.data(), k.data(), v.data(), expected.data(), &plain, workspace.data(),
                          workspace.size()) == RAPT_OK);
  CHECK(same_bytes(out, expected));
  std::ranges::fill(out, T());
  for (std::size_t task = delta_rule_tasks<T>(o); task-- > 0;)
    CHECK(delta_rule_run(q, k, v, out, o, task, task + 1, workspace) == RAPT_OK);
  CHECK(same_bytes(out, expected));
  CHECK(delta_rule(std::span(q).first(tokens * keys - 1), k, v, out, o, workspace) == RAPT_BAD_SIZE);
  CHECK(delta_rule(q, std::span(k).first(k.size() - 1), v, out, o, workspace) == RAPT_BAD_SIZE);
  CHECK(delta_rule(q, k, std::span(v).first(v.size() - 1), out, o, workspace) == RAPT_BAD_SIZE);
  CHECK(delta_rule(q, k, v, std::span(out).first(out.size() - 1), o, workspace) == RAPT_BAD_SIZE);
  CHECK(delta_rule(std::vector<double>(q.size()), k, v, out, o, workspace) == RAPT_BAD_TYPE);
  o.v_heads = 3;
  CHECK(delta_rule(q, k, v, out, o, workspace) == RAPT_BAD_HEADS);
}

TEST_CASE_TEMPLATE("gradients of the delta rule", T, float, f16, bf16) {
  constexpr std::size_t tokens = 3, keys = 8, values = 5;
  Random random(13);
  const std::vector<T> q = draw_elements<T>(tokens * keys, random),
                       k = draw_elements<T>(2 * tokens * keys, random),
                       v = draw_elements<T>(4 * tokens * values, random),
                       dout = draw_elements<T>(4 * tokens * values, random);
  struct Results {
    std::vector<T> dq, dk, dv;
    rapt_delta_rule_gradients gradients = RAPT_DELTA_RULE_GRADIENTS_INIT;
    Results(const std::vector<T> &of_q, const std::vector<T> &of_k, const std::vector<T> &of_v,
            const std::vector<T> &of_out)
        : dq(of_q.size()), dk(of_k.size()), dv(of_v.size()) {
      gradients.dout = of_out.data();
      gradients.dq = dq.data(), gradients.dk = dk.data(), gradients.dv = dv.data();
    }
    bool operator==(const Results &o) const {
      return same_bytes(dq, o.dq) && same_bytes(dk, o.dk) && same_bytes(dv, o.dv);
    }
  };
  rapt_delta_rule_options o = RAPT_DELTA_RULE_OPTIONS_INIT;
  o.tokens = tokens;
  o.v_heads = 4;
  o.k_heads = 2;
  o.key_dim = keys;
  o.value_dim = values;
  rapt_delta_rule_options plain = o;
  plain.type = ApiOf<T>::type;
  std::vector<std::byte> workspace(delta_rule_backward_workspace<T>(o));
  REQUIRE(!workspace.empty());
  Results expected(q, k, v, dout), got = expected, by_tasks = expected;
  REQUIRE(rapt_delta_rule_backward(q.data(), k.data(), v.data(), &plain, &expected.gradients,
                                   workspace.data(), workspace.size()) == RAPT_OK);
  for (Results *of : {&got, &by_tasks})
    of->gradients.dq = of->dq.data(), of->gradients.dk = of->dk.data(), of->gradients.dv = of->dv.data();
  REQUIRE(delta_rule_backward(q, k, v, o, got.gradients, workspace) == RAPT_OK);
  CHECK(got == expected);
  for (std::size_t task = delta_rule_backward_tasks<T>(o); task-- > 0;) {
    CHECK(delta_rule_backward_run(q, k, v, o, by_tasks.gradients, task, task + 1, workspace) == RAPT_OK);
  }
  CHECK(by_tasks == expected);
  const auto status = [&](const auto &of_q, const auto &of_k, const auto &of_v) {
    return delta_rule_backward(of_q, of_k, of_v, o, got.gradients, workspace);
  };
  CHECK(status(std::span(q).first(q.size() - 1), k, v) == RAPT_BAD_SIZE);
  CHECK(status(q, std::span(k).first(k.size() - 1), v) == RAPT_BAD_SIZE);
  CHECK(status(q, k, std::span(v).first(v.size() - 1)) == RAPT_BAD_SIZE);
  CHECK(status(std::vector<double>(q.size()), k, v) == RAPT_BAD_TYPE);
  o.v_heads = 3;
  CHECK(status(q, k, v) == RAPT_BAD_HEADS);
}

TEST_CASE_TEMPLATE("rope", T, float, double, f16, bf16) {
  constexpr std::size_t heads = 2, tokens = 3, dim = 8, size = heads * tokens * dim;
  Random random(9);
  std::vector<T> x = draw_elements<T>(size, random), y(size), expected(size);
  std::vector<double> frequencies(dim / 2);
  double factor = 0, expected_factor = 0;
  rapt_rope_frequency_options model = rope_frequency_options();
  model.rotary_dim = dim;
  std::vector<double> expected_frequencies(dim / 2);
  REQUIRE(rope_frequencies(frequencies, factor, model) == RAPT_OK);
  REQUIRE(rapt_rope_frequencies(expected_frequencies.data(), &expected_factor, &model) == RAPT_OK);
  CHECK(same_bytes(frequencies, expected_frequencies));
  CHECK(factor == expected_factor);
  CHECK(rope_frequencies(std::span(frequencies).first(3), factor, model) == RAPT_BAD_SIZE);

  rapt_rope_options o = rope_options();
  o.batch = 1;
  o.heads = heads;
  o.tokens = tokens;
  o.head_dim = dim;
  o.first_position = 5;
  REQUIRE(rope(x, y, frequencies, o) == RAPT_OK);
  rapt_rope_options plain = o;
  plain.type = ApiOf<T>::type;
  plain.frequencies = frequencies.data();
  REQUIRE(rapt_rope(x.data(), expected.data(), &plain) == RAPT_OK);
  CHECK(same_bytes(y, expected));

  // The frequencies are those of a part of a head.
  REQUIRE(rope(x, y, std::span(frequencies).first(2), o) == RAPT_OK);
  plain.rotary_dim = 4;
  REQUIRE(rapt_rope(x.data(), expected.data(), &plain) == RAPT_OK);
  CHECK(same_bytes(y, expected));

  const std::span<const T> all(x);
  const std::span<T> out(y);
  CHECK(rope(all.first(size - 1), out, frequencies, o) == RAPT_BAD_SIZE);
  CHECK(rope(all, out.first(size - 1), frequencies, o) == RAPT_BAD_SIZE);
  o.rotary_dim = dim;
  CHECK(rope(all, out, std::span(frequencies).first(3), o) == RAPT_BAD_SIZE);
  o.type = std::is_same_v<T, double> ? RAPT_F32 : RAPT_F64;
  CHECK(rope(all, out, frequencies, o) == RAPT_BAD_TYPE);
}

}  // namespace
}  // namespace rapt::test
