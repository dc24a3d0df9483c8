// Benchmarks softmax, log_softmax and logsumexp, the kernels over rows of scores.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cross_entropy_bench.hpp"
#include "support/accuracy.hpp"
#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

constexpr double usual_scale = 0.08838834764831845;  // 1/sqrt(128)

// softmax and log_softmax write a matrix; logsumexp writes one value per row.
enum class Output { matrix, column };

template <class T, Output output, auto kernel>
void call(const T *x, T *y, std::size_t rows, std::size_t cols, const rapt_softmax_options *options) {
  const auto stride = static_cast<std::ptrdiff_t>(cols);
  if constexpr (output == Output::matrix) {
    require_ok(kernel(x, stride, y, stride, rows, cols, options));
  } else {
    require_ok(kernel(x, stride, y, rows, cols, options));
  }
}

// Gives rapt's kernel the signature of the peers' functions.
template <class T, Output output, auto kernel>
void without_options(const T *x, T *y, std::size_t rows, std::size_t cols, T scale) {
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  options.scale = static_cast<float>(scale);
  call<T, output, kernel>(x, y, rows, cols, scale == T(1) ? nullptr : &options);
}

struct Shape {
  std::string size;
  std::size_t rows;
  std::size_t cols;

  std::size_t elements() const { return rows * cols; }
};

// Chooses the scores of the rows. Usual scores are normally distributed with a standard deviation of 2.
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

// Lists options that no peer has.
enum class Option { causal, mask, bias, softcap };

// Returns how many columns the mask keeps. It excludes the last quarter of a row, as in a padded batch.
std::size_t seen_of(std::size_t cols) { return cols * 3 / 4; }

// Holds the options and the matrices to which they point.
template <class T>
struct Options {
  Options(const Shape &shape, Option option)
      : mask(option == Option::mask ? shape.elements() : 0),
        bias(logits<T>(option == Option::bias ? shape.elements() : 0, 0, 1)) {
    given.scale = static_cast<float>(usual_scale);
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

// Returns a shape with as many rows as fit the working set, possibly none.
template <class T, Output output>
Shape rows_in(const WorkingSet &set, std::size_t cols) {
  const std::size_t row_bytes = (output == Output::matrix ? 2 * cols : cols + 1) * sizeof(T);
  return {"cols:" + std::to_string(cols) + ":" + set.label, set.bytes / row_bytes, cols};
}

template <class T, Output output, auto own>
class Registration {
 public:
  explicit Registration(Kernel<RowsFunction<T>> kernel)
      : suite_(kernel.suite()), sets_(suite_.plan().working_sets), kernel_(std::move(kernel)) {}

  void add(const Shape &shape, const char *suffix = "", Logits kind = Logits::usual, T scale = 1) {
    if (shape.rows == 0) return;
    const Work work = work_of<T, output>(shape);
    kernel_.add(shape.size + suffix, work, [shape, kind, scale, outputs = work.written / sizeof(T)] {
      return [shape, scale, x = make_logits<T>(shape, kind), y = Buffer<T>(outputs)](
                 RowsFunction<T> function) { function(x.data(), y.data(), shape.rows, shape.cols, scale); };
    });
  }

  // `work` counts only elements that neither causality nor the mask excludes, and the bytes of these
  // elements.
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
        call<T, output, own>(x.data(), y.data(), shape.rows, shape.cols, &options.given);
      };
    };
    kernel_.add(shape.size + suffix, work, make, By::rapt_alone);
  }

  // Adds rows of this width for every memory level.
  void add_sets(std::size_t cols) {
    for (const WorkingSet &set : sets_) add(rows_in<T, output>(set, cols));
  }

  void add_widths() {
    for (const WorkingSet &set : suite_.choose<WorkingSet>({sets_[0], sets_[1], sets_.back()}, {sets_[0]})) {
      for (const std::size_t cols : suite_.sizes({8, 16, 64, 128, 512, 2048, 4096}, {8, 128})) {
        add(rows_in<T, output>(set, cols));
      }
    }
  }

  void add_variants() {
    const auto in = [this](std::size_t set, std::size_t cols) {
      return rows_in<T, output>(sets_[set], cols);
    };
    for (const Shape &shape : suite_.choose<Shape>({in(0, 128), in(0, 1024), in(1, 1024)}, {in(0, 1024)})) {
      add(shape, ":scaled", Logits::usual, static_cast<T>(usual_scale));
      add(shape, ":wide", Logits::wide);
      add(shape, ":half-inf", Logits::half_infinite);
      add(shape, ":half-1e9", Logits::half_1e9);
      add(shape, ":half-100", Logits::half_100);
      add(shape, ":mask", Option::mask);
      add(shape, ":bias", Option::bias);
      add(shape, ":softcap", Option::softcap);
    }
    // Causal matrices have as many queries as keys.
    for (const std::size_t cols : suite_.sizes({64, 256, 1024}, {256})) {
      add({"cols:" + std::to_string(cols), cols, cols}, ":causal", Option::causal);
    }
  }

  // Adds small calls, whose fixed cost is a large part of the time.
  void add_small() {
    for (const std::size_t rows : suite_.sizes({1, 8}, {1})) add({std::to_string(rows) + "x8", rows, 8});
  }

  // Adds single rows: a long context, the vocabularies of GPT-2 and Llama 3, and longer rows.
  void add_single_rows() {
    for (const std::size_t cols : suite_.sizes({16384, 50257, 128256}, {50257})) {
      add({"cols:" + std::to_string(cols), 1, cols});
    }
    for (const std::size_t millions : suite_.sizes({1, 16}, {})) {
      add({"cols:" + std::to_string(millions) + "M", 1, millions << 20});
    }
  }

 private:
  Suite &suite_;
  const std::vector<WorkingSet> &sets_;
  Kernel<RowsFunction<T>> kernel_;
};

template <class T>
constexpr bool is_f32 = sizeof(T) == sizeof(float);

template <class T, auto own>
void register_softmax(Suite &suite) {
  Registration<T, Output::matrix, own> all(suite.kernel(without_options<T, Output::matrix, own>,
                                                        &PeerFunctions<T>::softmax, softmax_error<T>,
                                                        softmax_uops<T>));
  all.add_sets(1024);
  if (is_f32<T> || !suite.plan().quick) all.add_widths();
  if (!is_f32<T>) return;
  all.add_small();
  all.add_single_rows();
  all.add_variants();
}

template <class T, Output output, auto own>
void register_logarithm(Suite &suite, Uops uops) {
  Registration<T, output, own> all(suite.kernel(without_options<T, output, own>, uops));
  all.add_sets(1024);
  if (is_f32<T>) all.add_single_rows();
}

template <class T, auto own>
void register_log_softmax(Suite &suite) {
  register_logarithm<T, Output::matrix, own>(suite, log_softmax_uops<T>);
}
template <class T, auto own>
void register_logsumexp(Suite &suite) {
  register_logarithm<T, Output::column, own>(suite, logsumexp_uops<T>);
}

}  // namespace

void register_softmax_f32(Suite &suite) { register_softmax<float, rapt_softmax_f32>(suite); }
void register_softmax_f64(Suite &suite) { register_softmax<double, rapt_softmax_f64>(suite); }
void register_log_softmax_f32(Suite &suite) {
  register_log_softmax<float, rapt_log_softmax_f32>(suite);
  add_cross_entropy<float, RAPT_F32>(suite, "log_softmax_f32",
                                     [](std::size_t n) { return logits<float>(n); });
}
void register_log_softmax_f64(Suite &suite) {
  register_log_softmax<double, rapt_log_softmax_f64>(suite);
  add_cross_entropy<double, RAPT_F64>(suite, "log_softmax_f64",
                                      [](std::size_t n) { return logits<double>(n); });
}
void register_logsumexp_f32(Suite &suite) { register_logsumexp<float, rapt_logsumexp_f32>(suite); }
void register_logsumexp_f64(Suite &suite) { register_logsumexp<double, rapt_logsumexp_f64>(suite); }

}  // namespace rapt::bench
