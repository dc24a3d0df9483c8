#include <algorithm>
#include <string>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

struct Shape {
  std::string label;
  std::size_t rows;
  std::size_t cols;
  std::size_t misalignment = 0;
};

// The probabilities to differentiate at.
template <class T, auto softmax>
Buffer<T> probabilities(const Shape &shape) {
  Buffer<T> y = logits<T>(shape.rows * shape.cols, shape.misalignment);
  const auto stride = static_cast<std::ptrdiff_t>(shape.cols);
  require_ok(softmax(y.data(), stride, y.data(), stride, shape.rows, shape.cols, nullptr));
  return y;
}

template <class T, auto backward, auto softmax>
void register_softmax_backward(Suite &suite) {
  // Bytes: y and dy read, dx written.
  const auto add = [&suite](const Shape &shape) {
    const std::size_t n = shape.rows * shape.cols;
    suite.add(shape.label, {.elements = n, .bytes = 3 * n * sizeof(T)}, [shape, n] {
      return [rows = shape.rows, cols = shape.cols, y = probabilities<T, softmax>(shape),
              dy = logits<T>(n, shape.misalignment, 1), dx = Buffer<T>(n, shape.misalignment)] {
        const auto stride = static_cast<std::ptrdiff_t>(cols);
        require_ok(backward(y.data(), stride, dy.data(), stride, dx.data(), stride, rows, cols,
                            T(0.08838834764831845)));
      };
    });
  };
  constexpr std::size_t cols = 1024;
  for (const WorkingSet &set : suite.working_sets<T>()) {
    add({set.label, std::max<std::size_t>(1, set.bytes / (3 * cols * sizeof(T))), cols, set.misalignment});
  }
  // Training: attention rows of two context lengths, and the loss over a vocabulary.
  for (const Shape &shape : suite.shapes<T, Shape>(
           {{"attn:32x512", 32, 512}, {"attn:16x2048", 16, 2048}, {"vocab:50257", 1, 50257}})) {
    add(shape);
  }
}

}  // namespace

void register_softmax_backward_f32(Suite &suite) {
  register_softmax_backward<float, rapt_softmax_backward_f32, rapt_softmax_f32>(suite);
}
void register_softmax_backward_f64(Suite &suite) {
  register_softmax_backward<double, rapt_softmax_backward_f64, rapt_softmax_f64>(suite);
}

}  // namespace rapt::bench
