// Benchmarks the gated delta rule with heads of 128 by 128, as in Qwen3-Next. A size is tokens x heads. States of
// "…:columns" lie as ggml's: their columns are contiguous. One token reads and writes 64 KB a head.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

constexpr std::size_t dim = 128;

template <class T, rapt_type type>
void own_delta_rule(const T *q, const T *k, const T *v, const float *g, const float *beta, float *state,
                    T *out, const DeltaShape &shape) {
  rapt_delta_rule_options options = RAPT_DELTA_RULE_OPTIONS_INIT;
  options.type = type;
  options.tokens = shape.tokens;
  options.q_heads = shape.heads;
  options.key_dim = dim;
  options.g = g;
  options.beta = beta;
  options.state = options.final_state = state;
  constexpr auto row = static_cast<std::ptrdiff_t>(dim);
  if (shape.columns_are_contiguous)
    options.state_strides =
        options.final_strides = {row * row * static_cast<std::ptrdiff_t>(shape.heads), row * row, 1, row};
  std::size_t bytes = 0;
  require_ok(rapt_delta_rule_workspace(&options, &bytes));
  thread_local std::vector<std::uint8_t> workspace;
  if (workspace.size() < bytes) workspace.resize(bytes);
  require_ok(rapt_delta_rule(q, k, v, out, &options, workspace.data(), bytes));
}

// Of a token behind a state of zeros: relative to the sum of the magnitudes.
double delta_error(DeltaRule<float> function) {
  constexpr DeltaShape shape = {1, 1, false};
  const auto q = logits<float>(dim, 0, 1), k = logits<float>(dim, 1, 1), v = logits<float>(dim);
  const float g = -0.25f, beta = 0.5f;
  Buffer<float> state(dim * dim), out(dim);
  for (std::size_t i = 0; i < state.size(); ++i) state.data()[i] = 0;
  function(q.data(), k.data(), v.data(), &g, &beta, state.data(), out.data(), shape);
  long double product = 0, sizes = 0, worst = 0;
  for (std::size_t i = 0; i < dim; ++i) {
    const long double term = static_cast<long double>(q.data()[i]) * static_cast<long double>(k.data()[i]);
    product += term, sizes += std::fabs(term);
  }
  for (std::size_t j = 0; j < dim; ++j) {
    const long double u = 0.5L * static_cast<long double>(v.data()[j]);
    const long double exact = product * u / std::sqrt(static_cast<long double>(dim));
    const long double most = sizes * std::fabs(u) / std::sqrt(static_cast<long double>(dim));
    if (most > 0) worst = std::max(worst, std::fabs(static_cast<long double>(out.data()[j]) - exact) / most);
  }
  return static_cast<double>(worst * 0x1p24L);
}

template <class T, class Make>
void add_sizes(Kernel<DeltaRule<T>> kernel, Make make) {
  const std::vector<DeltaShape> shapes =
      kernel.suite().template choose<DeltaShape>({{512, 4, false},
                                                  {512, 4, true},
                                                  {1, 4, false},
                                                  {1, 32, false},
                                                  {1, 32, true},
                                                  {1, 960, false},
                                                  {1, 960, true}},
                                                 {{512, 4, false}, {1, 32, false}, {1, 32, true}});
  for (const DeltaShape &shape : shapes) {
    const std::size_t rows = shape.tokens * shape.heads, states = shape.heads * dim * dim;
    const Work work = {.elements = rows * dim * dim,
                       .element_bytes = sizeof(float),
                       .read = states * sizeof(float) + rows * (3 * dim * sizeof(T) + 8),
                       .written = states * sizeof(float) + rows * dim * sizeof(T)};
    kernel.add(
        fmt::format("{}x{}{}", shape.tokens, shape.heads, shape.columns_are_contiguous ? ":columns" : ""),
        work, [=] {
          std::vector<float> g(rows), beta(rows);
          for (std::size_t i = 0; i < rows; ++i) {
            g[i] = -0.001f * static_cast<float>(1 + i % 100);
            beta[i] = 0.25f + 0.005f * static_cast<float>(i % 100);
          }
          Buffer<float> state(states);
          for (std::size_t i = 0; i < states; ++i) state.data()[i] = 0.01f;
          return [shape, g, beta, q = make(rows * dim), k = make(rows * dim), v = make(rows * dim),
                  state = std::move(state), out = Buffer<T>(rows * dim)](DeltaRule<T> function) mutable {
            function(q.data(), k.data(), v.data(), g.data(), beta.data(), state.data(), out.data(), shape);
          };
        });
  }
}

// Keys are shorter than 1, as those of models: longer ones would make states grow without limit.
Buffer<float> short_rows(std::size_t n) { return uniform<float>(n, -0.1, 0.1); }
Buffer<std::uint16_t> narrowed(Narrow narrow, std::size_t n) {
  const Buffer<float> numbers = short_rows(n);
  Buffer<std::uint16_t> made(n);
  narrow(numbers.data(), made.data(), n);
  return made;
}

// A product with the decay, and three fused operations.
constexpr Uops delta_uops = 4;

}  // namespace

void register_delta_rule(Suite &suite) {
  add_sizes<float>(suite.kernel(DeltaRule<float>{own_delta_rule<float, RAPT_F32>},
                                &PeerFunctions<float>::delta_rule, delta_error, delta_uops),
                   short_rows);
}
void register_delta_rule_f16(Suite &suite) {
  add_sizes<std::uint16_t>(
      suite.kernel(DeltaRule<std::uint16_t>{own_delta_rule<std::uint16_t, RAPT_F16>}, delta_uops),
      [](std::size_t n) { return narrowed(rapt_convert_f32_to_f16, n); });
}
void register_delta_rule_bf16(Suite &suite) {
  add_sizes<std::uint16_t>(
      suite.kernel(DeltaRule<std::uint16_t>{own_delta_rule<std::uint16_t, RAPT_BF16>}, delta_uops),
      [](std::size_t n) { return narrowed(rapt_convert_f32_to_bf16, n); });
}

}  // namespace rapt::bench
