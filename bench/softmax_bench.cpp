#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

enum class Option { none, causal, mask, bias, softcap };

struct Shape {
  std::string label;
  std::size_t rows;
  std::size_t cols;
  Option option = Option::none;
  std::size_t misalignment = 0;

  std::size_t elements() const { return rows * cols; }
  std::size_t visible_elements() const {
    if (option != Option::causal) return elements();
    return rows * (cols - rows) + rows * (rows + 1) / 2;  // the last row sees every column
  }
};

// The logits, and the options with what they point to.
template <class T>
struct Input {
  explicit Input(const Shape &shape)
      : rows(shape.rows),
        cols(shape.cols),
        x(logits<T>(shape.elements(), shape.misalignment)),
        mask(shape.option == Option::mask ? shape.elements() : 0),
        bias(logits<float>(shape.option == Option::bias ? shape.elements() : 0, 0, 1)) {
    options.scale = 0.088388346f;  // 1/sqrt(128)
    switch (shape.option) {
      case Option::none:
        break;
      case Option::causal:
        options.causal = 1;
        options.causal_offset = static_cast<std::ptrdiff_t>(cols) - static_cast<std::ptrdiff_t>(rows);
        break;
      case Option::mask:  // a padded batch: the last quarter of each row is hidden
        for (std::size_t i = 0; i < mask.size(); ++i) mask.data()[i] = i % cols < cols - cols / 4;
        options.mask = mask.data();
        options.mask_stride = stride();
        break;
      case Option::bias:
        options.bias = bias.data();
        options.bias_stride = stride();
        break;
      case Option::softcap:
        options.softcap = 50;
        break;
    }
  }

  std::ptrdiff_t stride() const { return static_cast<std::ptrdiff_t>(cols); }

  std::size_t rows;
  std::size_t cols;
  Buffer<T> x;
  Buffer<std::uint8_t> mask;
  Buffer<float> bias;
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
};

// softmax and log_softmax write a matrix; logsumexp writes a value a row.
enum class Output { matrix, column };

template <class T, Output output, auto kernel>
void add(Suite &suite, const Shape &shape) {
  // Bytes: the visible elements of x, the mask and the bias read, the output written.
  const std::size_t outputs = output == Output::matrix ? shape.elements() : shape.rows;
  std::size_t bytes = (shape.visible_elements() + outputs) * sizeof(T);
  if (shape.option == Option::mask) bytes += shape.elements() * sizeof(std::uint8_t);
  if (shape.option == Option::bias) bytes += shape.elements() * sizeof(float);

  suite.add(shape.label, {.elements = shape.elements(), .bytes = bytes}, [shape, outputs] {
    return [in = Input<T>(shape), out = Buffer<T>(outputs, shape.misalignment)] {
      if constexpr (output == Output::matrix) {
        require_ok(kernel(in.x.data(), in.stride(), out.data(), in.stride(), in.rows, in.cols, &in.options));
      } else {
        require_ok(kernel(in.x.data(), in.stride(), out.data(), in.rows, in.cols, &in.options));
      }
    };
  });
}

template <class T, Output output, auto kernel>
void register_softmax(Suite &suite, std::initializer_list<Shape> shapes) {
  constexpr std::size_t cols = 1024;
  constexpr std::size_t row_bytes = (output == Output::matrix ? 2 * cols : cols + 1) * sizeof(T);
  for (const WorkingSet &set : suite.working_sets<T>()) {
    const std::size_t rows = std::max<std::size_t>(1, set.bytes / row_bytes);
    add<T, output, kernel>(suite, {set.label, rows, cols, Option::none, set.misalignment});
  }
  for (const Shape &shape : suite.shapes<T, Shape>(shapes)) add<T, output, kernel>(suite, shape);
}

// Scores of several queries against contexts of growing length; the options of attention; the next-token
// distributions of GPT-2 and Llama 3.
const std::initializer_list<Shape> attention_and_vocabulary = {
    {"attn:32x512", 32, 512},
    {"attn:16x2048", 16, 2048},
    {"attn:8x8192", 8, 8192},
    {"attn:4x32768", 4, 32768},
    {"causal:512x512", 512, 512, Option::causal},
    {"mask:16x2048", 16, 2048, Option::mask},
    {"bias:16x2048", 16, 2048, Option::bias},
    {"softcap:16x2048", 16, 2048, Option::softcap},
    {"vocab:50257", 1, 50257},
    {"vocab:128256", 1, 128256},
};
const std::initializer_list<Shape> vocabulary = {
    {"vocab:50257", 1, 50257},
    {"vocab:128256", 1, 128256},
};

}  // namespace

void register_softmax_f32(Suite &suite) {
  register_softmax<float, Output::matrix, rapt_softmax_f32>(suite, attention_and_vocabulary);
}
void register_softmax_f64(Suite &suite) {
  register_softmax<double, Output::matrix, rapt_softmax_f64>(suite, attention_and_vocabulary);
}
void register_log_softmax_f32(Suite &suite) {
  register_softmax<float, Output::matrix, rapt_log_softmax_f32>(suite, vocabulary);
}
void register_log_softmax_f64(Suite &suite) {
  register_softmax<double, Output::matrix, rapt_log_softmax_f64>(suite, vocabulary);
}
void register_logsumexp_f32(Suite &suite) {
  register_softmax<float, Output::column, rapt_logsumexp_f32>(suite, attention_and_vocabulary);
}
void register_logsumexp_f64(Suite &suite) {
  register_softmax<double, Output::column, rapt_logsumexp_f64>(suite, attention_and_vocabulary);
}

}  // namespace rapt::bench
