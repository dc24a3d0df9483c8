// softmax, log_softmax and logsumexp: the functions over rows of scores.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "support/accuracy.hpp"
#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

// The maximum; exp, kept from underflow by an operation more, and its sum; then what is made of them.
template <class T>
constexpr double logsumexp_uops = 1 + exp_sum_uops<T>;
template <class T>
constexpr double log_softmax_uops = logsumexp_uops<T> + 2;
template <class T>
constexpr double softmax_uops = logsumexp_uops<T> + 4;

// softmax and log_softmax write a matrix; logsumexp writes a value a row.
enum class Output { matrix, column };

// A kernel of rapt behind the signature that its peers share.
template <class T, Output output, auto kernel>
void without_options(const T *x, T *y, std::size_t rows, std::size_t cols, T scale) {
  const auto stride = static_cast<std::ptrdiff_t>(cols);
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  options.scale = static_cast<float>(scale);
  const rapt_softmax_options *given = scale == T(1) ? nullptr : &options;
  if constexpr (output == Output::matrix) {
    require_ok(kernel(x, stride, y, stride, rows, cols, given));
  } else {
    require_ok(kernel(x, stride, y, rows, cols, given));
  }
}

struct Shape {
  std::string size;
  std::size_t rows;
  std::size_t cols;

  std::size_t elements() const { return rows * cols; }
};

// What the rows hold: logits of a standard deviation of 2, unless it says otherwise.
enum class Logits { usual, wide, half_infinite, half_1e9, half_100 };

template <class T>
Buffer<T> make_logits(const Shape &shape, Logits kind) {
  Buffer<T> x = logits<T>(shape.elements());
  const auto fill_second_halves = [&](T value) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i % shape.cols >= shape.cols / 2) x.data()[i] = value;
    }
  };
  switch (kind) {
    case Logits::usual:
      break;
    case Logits::wide:  // a standard deviation of 40
      for (T &one : x.elements()) one *= 20;
      break;
    case Logits::half_infinite:
      fill_second_halves(-std::numeric_limits<T>::infinity());
      break;
    case Logits::half_1e9:
      fill_second_halves(T(-1e9));
      break;
    case Logits::half_100:
      fill_second_halves(T(-100));
      break;
  }
  return x;
}

// The options that rapt alone has.
enum class Option { causal, mask, bias, softcap };

// Of a masked row, as in a padded batch: the last quarter is hidden.
std::size_t seen_of(std::size_t cols) { return cols * 3 / 4; }

// The options with what they point to.
template <class T>
struct Options {
  Options(const Shape &shape, Option option)
      : mask(option == Option::mask ? shape.elements() : 0),
        bias(logits<T>(option == Option::bias ? shape.elements() : 0, 0, 1)) {
    given.scale = 0.088388346f;  // 1/sqrt(128)
    switch (option) {
      case Option::causal:
        given.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
        break;
      case Option::mask:
        for (std::size_t i = 0; i < mask.size(); ++i) mask.data()[i] = i % shape.cols < seen_of(shape.cols);
        given.mask = mask.data();
        break;
      case Option::bias:
        given.bias = bias.data();
        break;
      case Option::softcap:
        given.softcap = 50;
        break;
    }
  }

  Buffer<std::uint8_t> mask;
  Buffer<T> bias;
  rapt_softmax_options given = RAPT_SOFTMAX_OPTIONS_INIT;
};

template <class T, Output output>
Work work_of(const Shape &shape) {
  const std::size_t outputs = output == Output::matrix ? shape.elements() : shape.rows;
  return {.elements = shape.elements(),
          .element_bytes = sizeof(T),
          .read = shape.elements() * sizeof(T),
          .written = outputs * sizeof(T),
          .row_bytes = (output == Output::matrix ? 2 : 1) * shape.cols * sizeof(T)};
}

// As many rows as make up a working set. Empty if not one fits.
template <class T, Output output>
Shape rows_in(const WorkingSet &level, std::size_t cols) {
  const std::size_t row_bytes = (output == Output::matrix ? 2 * cols : cols + 1) * sizeof(T);
  return {"cols:" + std::to_string(cols) + ":" + level.label, level.bytes / row_bytes, cols};
}

template <class T, Output output, auto own>
class Registration {
 public:
  Registration(Suite &suite, RowsFunction<T> Peer::*peer, double (*error)(RowsFunction<T>), double uops)
      : suite(suite),
        kernel_(suite.kernel<RowsFunction<T>>(without_options<T, output, own>, peer, error, uops)) {}

  Suite &suite;

  void add(const Shape &shape, const char *suffix = "", Logits kind = Logits::usual, T scale = 1) {
    if (shape.rows == 0) return;
    const Work work = work_of<T, output>(shape);
    kernel_.add(shape.size + suffix, work, [shape, kind, scale, outputs = work.written / sizeof(T)] {
      return [shape, scale, x = make_logits<T>(shape, kind), y = Buffer<T>(outputs)](
                 RowsFunction<T> function) { function(x.data(), y.data(), shape.rows, shape.cols, scale); };
    });
  }

  // Elements and bytes of x are those that the rows see.
  void add(const Shape &shape, const char *suffix, Option option) {
    if (shape.rows == 0) return;
    Work work = work_of<T, output>(shape);
    const std::size_t outputs = work.written / sizeof(T);
    if (option == Option::causal) {
      work.elements = shape.rows * (shape.cols - shape.rows) + shape.rows * (shape.rows + 1) / 2;
    }
    if (option == Option::mask) work.elements = shape.rows * seen_of(shape.cols);
    work.read = work.elements * sizeof(T);
    if (option == Option::mask) work.read += shape.elements() * sizeof(std::uint8_t);
    if (option == Option::bias) work.read += shape.elements() * sizeof(float);
    const auto make = [shape, option, outputs] {
      return [shape, options = Options<T>(shape, option), x = logits<T>(shape.elements()),
              y = Buffer<T>(outputs)](RowsFunction<T>) {
        const auto stride = static_cast<std::ptrdiff_t>(shape.cols);
        if constexpr (output == Output::matrix) {
          require_ok(own(x.data(), stride, y.data(), stride, shape.rows, shape.cols, &options.given));
        } else {
          require_ok(own(x.data(), stride, y.data(), shape.rows, shape.cols, &options.given));
        }
      };
    };
    kernel_.add(shape.size + suffix, work, make, Kernel<RowsFunction<T>>::By::rapt_alone);
  }

  // Every level of the memory hierarchy.
  void add_levels(std::size_t cols) {
    for (const WorkingSet &level : suite.plan().levels) add(rows_in<T, output>(level, cols));
  }
  const WorkingSet &level(std::size_t index) const { return suite.plan().levels[index]; }

 private:
  Kernel<RowsFunction<T>> kernel_;
};

template <class T, Output output, auto own>
void add_widths(Registration<T, output, own> &all) {
  const std::vector<WorkingSet> &levels = all.suite.plan().levels;
  for (const WorkingSet &level : all.suite.sizes({levels[0], levels[1], levels.back()}, {levels[0]})) {
    for (const std::size_t cols :
         all.suite.template sizes<std::size_t>({8, 16, 64, 128, 512, 2048, 4096}, {8, 128})) {
      all.add(rows_in<T, output>(level, cols));
    }
  }
}

template <class T, Output output, auto own>
void add_variants(Registration<T, output, own> &all) {
  const auto shapes = all.suite.template sizes<Shape>(
      {rows_in<T, output>(all.level(0), 128), rows_in<T, output>(all.level(0), 1024),
       rows_in<T, output>(all.level(1), 1024)},
      {rows_in<T, output>(all.level(0), 1024)});
  for (const Shape &shape : shapes) {
    all.add(shape, ":scaled", Logits::usual, T(0.08838834764831845));
    all.add(shape, ":wide", Logits::wide);
    all.add(shape, ":half-inf", Logits::half_infinite);
    all.add(shape, ":half-1e9", Logits::half_1e9);
    all.add(shape, ":half-100", Logits::half_100);
    all.add(shape, ":mask", Option::mask);
    all.add(shape, ":bias", Option::bias);
    all.add(shape, ":softcap", Option::softcap);
  }
  // As many queries as keys.
  for (const std::size_t cols : all.suite.template sizes<std::size_t>({64, 256, 1024}, {256})) {
    all.add({"cols:" + std::to_string(cols), cols, cols}, ":causal", Option::causal);
  }
}

// Single rows: long contexts, the next-token distributions of GPT-2 and Llama 3, and longer still.
template <class T, Output output, auto own>
void add_single_rows(Registration<T, output, own> &all) {
  for (const std::size_t cols : all.suite.template sizes<std::size_t>({16384, 50257, 128256}, {50257})) {
    all.add({"cols:" + std::to_string(cols), 1, cols});
  }
  for (const std::size_t millions : all.suite.template sizes<std::size_t>({1, 16}, {})) {
    all.add({"cols:" + std::to_string(millions) + "M", 1, millions << 20});
  }
}

}  // namespace

void register_softmax_f32(Suite &suite) {
  Registration<float, Output::matrix, rapt_softmax_f32> all(suite, &Peer::softmax_f32, softmax_error<float>,
                                                            softmax_uops<float>);
  all.add_levels(1024);
  add_widths(all);
  add_single_rows(all);
  add_variants(all);
}
void register_softmax_f64(Suite &suite) {
  Registration<double, Output::matrix, rapt_softmax_f64> all(suite, &Peer::softmax_f64, softmax_error<double>,
                                                             softmax_uops<double>);
  all.add_levels(1024);
  if (!suite.plan().quick) add_widths(all);
}
void register_log_softmax_f32(Suite &suite) {
  Registration<float, Output::matrix, rapt_log_softmax_f32> all(suite, nullptr, log_softmax_error<float>,
                                                                log_softmax_uops<float>);
  all.add_levels(1024);
  add_single_rows(all);
}
void register_log_softmax_f64(Suite &suite) {
  Registration<double, Output::matrix, rapt_log_softmax_f64> all(suite, nullptr, log_softmax_error<double>,
                                                                 log_softmax_uops<double>);
  all.add_levels(1024);
}
void register_logsumexp_f32(Suite &suite) {
  Registration<float, Output::column, rapt_logsumexp_f32> all(suite, nullptr, logsumexp_error<float>,
                                                              logsumexp_uops<float>);
  all.add_levels(1024);
  add_single_rows(all);
}
void register_logsumexp_f64(Suite &suite) {
  Registration<double, Output::column, rapt_logsumexp_f64> all(suite, nullptr, logsumexp_error<double>,
                                                               logsumexp_uops<double>);
  all.add_levels(1024);
}

}  // namespace rapt::bench
