#include <algorithm>
#include <string>

#include "cross_entropy_bench.hpp"
#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

// The gradients of log_softmax are measured at the same numbers: their time does not depend on them.
constexpr Uops uops = {4, 5};  // one for the sum of y * dy; then a comparison, a subtraction, two products

template <class T>
using Softmax = rapt_status (*)(const T *x, std::ptrdiff_t x_stride, T *y, std::ptrdiff_t y_stride,
                                std::size_t rows, std::size_t cols, const rapt_softmax_options *options);

// Returns the probabilities at which the gradient is computed.
template <class T>
Buffer<T> probabilities(Softmax<T> softmax, std::size_t rows, std::size_t cols) {
  Buffer<T> y = logits<T>(rows * cols);
  const auto stride = static_cast<std::ptrdiff_t>(cols);
  require_ok(softmax(y.data(), stride, y.data(), stride, rows, cols, nullptr));
  return y;
}

template <class T>
void register_softmax_backward(Suite &suite, Softmax<T> softmax, Backward<T> own) {
  Kernel<Backward<T>> kernel = suite.kernel(own, uops);
  const auto add = [&kernel, softmax](const std::string &size, std::size_t rows, std::size_t cols) {
    const std::size_t n = rows * cols;
    const Work work = {.elements = n,
                       .element_bytes = sizeof(T),
                       .read = 2 * n * sizeof(T),
                       .written = n * sizeof(T),
                       .row_bytes = 3 * cols * sizeof(T)};
    kernel.add(size, work, [rows, cols, n, softmax] {
      return [rows, cols, y = probabilities<T>(softmax, rows, cols), dy = logits<T>(n, 0, 1),
              dx = Buffer<T>(n)](Backward<T> backward) {
        const auto stride = static_cast<std::ptrdiff_t>(cols);
        require_ok(backward(y.data(), stride, dy.data(), stride, dx.data(), stride, rows, cols,
                            T(0.08838834764831845)));
      };
    });
  };
  constexpr std::size_t cols = 1024;
  for (const WorkingSet &set : suite.plan().working_sets) {
    add("cols:1024:" + set.label, std::max<std::size_t>(1, set.bytes / (3 * cols * sizeof(T))), cols);
  }
  // Attention has short rows. The long row is GPT-2's vocabulary, as in a loss function.
  for (const std::size_t one : suite.sizes({64, 128}, {64})) {
    add("cols:" + std::to_string(one) + ":L1", suite.plan().working_sets[0].bytes / (3 * one * sizeof(T)),
        one);
  }
  for (const std::size_t one : suite.sizes({50257}, {})) add("cols:" + std::to_string(one), 1, one);
}

// The functions of 16 bits, whose scale is a float.
using BackwardOfHalves = rapt_status (*)(const std::uint16_t *y, std::ptrdiff_t y_stride,
                                         const std::uint16_t *dy, std::ptrdiff_t dy_stride, std::uint16_t *dx,
                                         std::ptrdiff_t dx_stride, std::size_t rows, std::size_t cols,
                                         float scale);

void register_of_halves(Suite &suite, BackwardOfHalves own, Narrow narrow) {
  Kernel<BackwardOfHalves> kernel = suite.kernel(own, uops);
  constexpr std::size_t cols = 1024;
  for (const WorkingSet &set : suite.plan().working_sets) {
    const std::size_t rows = std::max<std::size_t>(1, set.bytes / (3 * cols * sizeof(std::uint16_t))),
                      n = rows * cols;
    const Work work = {.elements = n,
                       .element_bytes = sizeof(float),
                       .read = 2 * n * sizeof(std::uint16_t),
                       .written = n * sizeof(std::uint16_t),
                       .row_bytes = 3 * cols * sizeof(std::uint16_t)};
    kernel.add("cols:1024:" + set.label, work, [=] {
      return [rows, y = halves(narrow, n), dy = halves(narrow, n, 1),
              dx = Buffer<std::uint16_t>(n)](BackwardOfHalves backward) {
        constexpr std::ptrdiff_t stride = cols;
        require_ok(backward(y.data(), stride, dy.data(), stride, dx.data(), stride, rows, cols, 0.088f));
      };
    });
  }
}

}  // namespace

void register_softmax_backward_f32(Suite &suite) {
  register_softmax_backward<float>(suite, rapt_softmax_f32, rapt_softmax_backward_f32);
}
void register_softmax_backward_f64(Suite &suite) {
  register_softmax_backward<double>(suite, rapt_softmax_f64, rapt_softmax_backward_f64);
}
void register_softmax_backward_f16(Suite &suite) {
  register_of_halves(suite, rapt_softmax_backward_f16, rapt_convert_f32_to_f16);
}
void register_softmax_backward_bf16(Suite &suite) {
  register_of_halves(suite, rapt_softmax_backward_bf16, rapt_convert_f32_to_bf16);
}
void register_log_softmax_backward_f32(Suite &suite) {
  register_softmax_backward<float>(suite, rapt_log_softmax_f32, rapt_log_softmax_backward_f32);
  add_cross_entropy_backward<float, RAPT_F32>(suite, "log_softmax_backward_f32",
                                              [](std::size_t n) { return logits<float>(n); });
}
void register_log_softmax_backward_f64(Suite &suite) {
  register_softmax_backward<double>(suite, rapt_log_softmax_f64, rapt_log_softmax_backward_f64);
  add_cross_entropy_backward<double, RAPT_F64>(suite, "log_softmax_backward_f64",
                                               [](std::size_t n) { return logits<double>(n); });
}
void register_log_softmax_backward_f16(Suite &suite) {
  register_of_halves(suite, rapt_log_softmax_backward_f16, rapt_convert_f32_to_f16);
  add_cross_entropy_backward<std::uint16_t, RAPT_F16>(
      suite, "log_softmax_backward_f16", [](std::size_t n) { return halves(rapt_convert_f32_to_f16, n); });
}
void register_log_softmax_backward_bf16(Suite &suite) {
  register_of_halves(suite, rapt_log_softmax_backward_bf16, rapt_convert_f32_to_bf16);
  add_cross_entropy_backward<std::uint16_t, RAPT_BF16>(
      suite, "log_softmax_backward_bf16", [](std::size_t n) { return halves(rapt_convert_f32_to_bf16, n); });
}

}  // namespace rapt::bench
