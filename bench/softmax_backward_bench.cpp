#include <algorithm>
#include <string>

#include "support/accuracy.hpp"
#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

constexpr double uops = 5;  // the sum of products; then a comparison, a subtraction and two products

// The probabilities to differentiate at.
template <class T, auto softmax>
Buffer<T> probabilities(std::size_t rows, std::size_t cols) {
  Buffer<T> y = logits<T>(rows * cols);
  const auto stride = static_cast<std::ptrdiff_t>(cols);
  require_ok(softmax(y.data(), stride, y.data(), stride, rows, cols, nullptr));
  return y;
}

template <class T, auto softmax>
void register_softmax_backward(Kernel<Backward<T>> kernel) {
  const Suite &suite = kernel.suite();
  const auto add = [&kernel](const std::string &size, std::size_t rows, std::size_t cols) {
    const std::size_t n = rows * cols;
    const Work work = {.elements = n,
                       .element_bytes = sizeof(T),
                       .read = 2 * n * sizeof(T),
                       .written = n * sizeof(T),
                       .row_bytes = 3 * cols * sizeof(T)};
    kernel.add(size, work, [rows, cols, n] {
      return [rows, cols, y = probabilities<T, softmax>(rows, cols), dy = logits<T>(n, 0, 1),
              dx = Buffer<T>(n)](Backward<T> backward) {
        const auto stride = static_cast<std::ptrdiff_t>(cols);
        require_ok(backward(y.data(), stride, dy.data(), stride, dx.data(), stride, rows, cols,
                            T(0.08838834764831845)));
      };
    });
  };
  constexpr std::size_t cols = 1024;
  for (const WorkingSet &level : suite.plan().levels) {
    add("cols:1024:" + level.label, std::max<std::size_t>(1, level.bytes / (3 * cols * sizeof(T))), cols);
  }
  // Short rows of attention, and the loss over a vocabulary.
  for (const std::size_t one : suite.sizes<std::size_t>({64, 128}, {64})) {
    add("cols:" + std::to_string(one) + ":L1", suite.plan().levels[0].bytes / (3 * one * sizeof(T)), one);
  }
  for (const std::size_t one : suite.sizes<std::size_t>({50257}, {}))
    add("cols:" + std::to_string(one), 1, one);
}

}  // namespace

void register_softmax_backward_f32(Suite &suite) {
  register_softmax_backward<float, rapt_softmax_f32>(
      suite.kernel<Backward<float>>(rapt_softmax_backward_f32, nullptr, softmax_backward_error<float>, uops));
}
void register_softmax_backward_f64(Suite &suite) {
  register_softmax_backward<double, rapt_softmax_f64>(suite.kernel<Backward<double>>(
      rapt_softmax_backward_f64, nullptr, softmax_backward_error<double>, uops));
}

}  // namespace rapt::bench
