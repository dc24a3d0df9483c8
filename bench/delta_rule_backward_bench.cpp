// Benchmarks the gradients of the gated delta rule with heads of 128 by 128, as in Qwen3-Next. A size is tokens x
// heads. The time has two forward passes in it, of which the second keeps the states of a chunk.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

constexpr std::size_t dim = 128;

template <class T>
struct DeltaGradients {
  const T *q, *k, *v, *dout;
  const float *g, *beta, *dfinal;
  T *dq, *dk, *dv;
  float *dg, *dbeta, *dstate;
};

template <class T>
using DeltaBackward = void (*)(const DeltaGradients<T> &of, const DeltaShape &shape);

template <class T, rapt_type type>
void own_delta_backward(const DeltaGradients<T> &of, const DeltaShape &shape) {
  rapt_delta_rule_options options = RAPT_DELTA_RULE_OPTIONS_INIT;
  options.type = type;
  options.tokens = shape.tokens;
  options.q_heads = shape.heads;
  options.key_dim = dim;
  options.g = of.g;
  options.beta = of.beta;
  rapt_delta_rule_gradients gradients = RAPT_DELTA_RULE_GRADIENTS_INIT;
  gradients.dout = of.dout;
  gradients.dq = of.dq;
  gradients.dk = of.dk;
  gradients.dv = of.dv;
  gradients.dg = of.dg;
  gradients.dbeta = of.dbeta;
  gradients.dfinal = of.dfinal;
  gradients.dstate = of.dstate;
  std::size_t bytes = 0;
  require_ok(rapt_delta_rule_backward_workspace(&options, &bytes));
  thread_local std::vector<std::uint8_t> workspace;
  if (workspace.size() < bytes) workspace.resize(bytes);
  require_ok(rapt_delta_rule_backward(of.q, of.k, of.v, &options, &gradients, workspace.data(), bytes));
}

template <class T, class Make>
void add_sizes(Kernel<DeltaBackward<T>> kernel, Make make) {
  const std::vector<DeltaShape> shapes = kernel.suite().template choose<DeltaShape>(
      {{64, 4, false}, {512, 4, false}, {4096, 1, false}}, {{512, 4, false}});
  for (const DeltaShape &shape : shapes) {
    const std::size_t rows = shape.tokens * shape.heads, states = shape.heads * dim * dim;
    const Work work = {.elements = rows * dim * dim,
                       .element_bytes = sizeof(float),
                       .read = states * sizeof(float) + rows * (4 * dim * sizeof(T) + 8),
                       .written = states * sizeof(float) + rows * (3 * dim * sizeof(T) + 8)};
    kernel.add(fmt::format("{}x{}", shape.tokens, shape.heads), work, [=] {
      std::vector<float> g(rows), beta(rows);
      for (std::size_t i = 0; i < rows; ++i) {
        g[i] = -0.001f * static_cast<float>(1 + i % 100);
        beta[i] = 0.25f + 0.005f * static_cast<float>(i % 100);
      }
      return [shape, g, beta, q = make(rows * dim), k = make(rows * dim), v = make(rows * dim),
              dout = make(rows * dim), dfinal = std::vector<float>(states, 0.01f), dq = Buffer<T>(rows * dim),
              dk = Buffer<T>(rows * dim), dv = Buffer<T>(rows * dim), dg = std::vector<float>(rows),
              dbeta = std::vector<float>(rows),
              dstate = std::vector<float>(states)](DeltaBackward<T> function) mutable {
        const DeltaGradients<T> of = {q.data(),    k.data(),      v.data(),     dout.data(), g.data(),
                                      beta.data(), dfinal.data(), dq.data(),    dk.data(),   dv.data(),
                                      dg.data(),   dbeta.data(),  dstate.data()};
        function(of, shape);
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

// Two forward passes of three operations, then eight fused ones and the product with the decay.
constexpr Uops delta_backward_uops = 15;

}  // namespace

void register_delta_rule_backward(Suite &suite) {
  add_sizes<float>(
      suite.kernel(DeltaBackward<float>{own_delta_backward<float, RAPT_F32>}, delta_backward_uops),
      short_rows);
}
void register_delta_rule_backward_f16(Suite &suite) {
  add_sizes<std::uint16_t>(
      suite.kernel(DeltaBackward<std::uint16_t>{own_delta_backward<std::uint16_t, RAPT_F16>},
                   delta_backward_uops),
      [](std::size_t n) { return narrowed(rapt_convert_f32_to_f16, n); });
}
void register_delta_rule_backward_bf16(Suite &suite) {
  add_sizes<std::uint16_t>(
      suite.kernel(DeltaBackward<std::uint16_t>{own_delta_backward<std::uint16_t, RAPT_BF16>},
                   delta_backward_uops),
      [](std::size_t n) { return narrowed(rapt_convert_f32_to_bf16, n); });
}

}  // namespace rapt::bench
