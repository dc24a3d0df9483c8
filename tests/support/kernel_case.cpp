#include "support/kernel_case.hpp"

#include <limits>
#include <string>

#include "support/attention_backward_case.hpp"
#include "support/attention_case.hpp"
#include "support/bits.hpp"
#include "support/calls.hpp"
#include "support/matrix.hpp"
#include "support/problem_data.hpp"
#include "support/public_api.hpp"

namespace rapt::test {
namespace {

// ---- what the drivers share ----

// The rows of the problem that the function gets.
struct GivenRows {
  explicit GivenRows(const RowsProblem &problem)
      : first(problem.window.first), count(problem.window.end(problem.rows) - first), cols(problem.cols) {}

  template <class T>
  std::span<const T> of(const std::vector<T> &dense) const {
    return of(dense, cols);
  }
  template <class T>
  std::span<const T> of(const std::vector<T> &dense, std::size_t row) const {
    return std::span(dense).subspan(first * row, count * row);
  }

  std::size_t first, count, cols;
};

// An input in guarded memory, with what it must still hold after the call.
template <class T>
class Input {
 public:
  Input(std::span<const T> dense, std::size_t rows, std::size_t cols, const Layout &layout, std::size_t slot,
        std::ptrdiff_t stride)
      : dense_(dense), matrix_(rows, cols, stride, layout.placement, layout.offset[slot]) {
    matrix_.fill(dense);
  }
  Input(std::span<const T> dense, std::size_t rows, std::size_t cols, const Layout &layout, std::size_t slot)
      : Input(dense, rows, cols, layout, slot, static_cast<std::ptrdiff_t>(cols) + layout.gap[slot]) {}

  const Matrix<T> &matrix() const { return matrix_; }
  T *data() const { return matrix_.data(); }
  std::ptrdiff_t stride() const { return matrix_.stride(); }
  bool unchanged() const { return matrix_.holds(dense_) && matrix_.gaps_intact(); }

 private:
  std::span<const T> dense_;
  Matrix<T> matrix_;
};

template <class T>
void collect(const Matrix<T> &output, Outcome &outcome) {
  outcome.bits.reserve(outcome.bits.size() + output.rows() * output.cols());
  for (std::size_t r = 0; output.cols() != 0 && r < output.rows(); ++r) {
    const T *row = output.row(r);
    for (std::size_t c = 0; c < output.cols(); ++c) outcome.bits.push_back(canonical_bits(row[c]));
  }
  if (!output.gaps_intact()) outcome.fault += "wrote outside the output's rows; ";
}

template <class T>
void check_input(const Input<T> &input, const char *name, Outcome &outcome) {
  if (!input.unchanged()) outcome.fault += std::string("wrote to ") + name + "; ";
}

// The output: memory of its own, or the input that it replaces.
template <class T>
class Output {
 public:
  Output(std::size_t rows, std::size_t cols, const Layout &layout, const Matrix<T> *first = nullptr,
         const Matrix<T> *second = nullptr)
      : alias_(layout.alias == Alias::first_input    ? first
               : layout.alias == Alias::second_input ? second
                                                     : nullptr),
        own_(alias_ ? 0 : rows, alias_ ? 0 : cols, static_cast<std::ptrdiff_t>(cols) + layout.gap[2],
             layout.placement, layout.offset[2]) {}

  const Matrix<T> &matrix() const { return alias_ ? *alias_ : own_; }
  T *data() const { return matrix().data(); }
  std::ptrdiff_t stride() const { return matrix().stride(); }
  bool replaces(const Matrix<T> &input) const { return alias_ == &input; }

 private:
  const Matrix<T> *alias_;
  Matrix<T> own_;
};

// ---- vectors ----

template <class T>
struct Dot {
  static constexpr Family family = Family::two_vectors;

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto [a_values, b_values] = make_operands<T>(family, problem);
    const std::size_t n = problem.cols();
    const Input<T> a(a_values, 1, n, layout, 0), b(b_values, 1, n, layout, 1);
    Outcome outcome;
    T result = 0;
    call_in_state(layout, outcome, [&] { result = Api<T>::dot(a.data(), b.data(), n); });
    outcome.bits.push_back(canonical_bits(result));
    check_input(a, "a", outcome);
    check_input(b, "b", outcome);
    return outcome;
  }
};

template <class T>
struct DotRows {
  static constexpr Family family = Family::dot_rows;

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto &wanted = problem.as<DotRowsProblem>();
    const auto [query_values, row_values] = make_operands<T>(family, problem);
    const GivenRows given(wanted);
    const std::ptrdiff_t step = static_cast<std::ptrdiff_t>(given.cols) + layout.gap[1];
    const std::ptrdiff_t stride = wanted.same_row ? 0 : layout.reversed ? -step : step;
    const Input<T> query(query_values, 1, given.cols, layout, 0);
    const Input<T> rows(given.of(row_values), given.count, given.cols, layout, 1, stride);
    const Output<T> out(1, given.count, layout);
    const T scale = static_cast<T>(wanted.scale);
    Outcome outcome;
    call_in_state(layout, outcome, [&] {
      Api<T>::dot_rows(query.data(), rows.data(), stride, given.count, given.cols, scale, out.data());
    });
    collect(out.matrix(), outcome);
    check_input(query, "query", outcome);
    check_input(rows, "rows", outcome);
    return outcome;
  }
};

// y = function(x) over a vector: call(x, y, n).
template <class T, class Call>
Outcome run_map(const Problem &problem, const Layout &layout, Call &&call) {
  const auto values = make_operands<T>(Family::vector, problem).first;
  const std::size_t n = values.size();
  const Input<T> x(values, 1, n, layout, 0);
  const Output<T> y(1, n, layout, &x.matrix());
  Outcome outcome;
  call_in_state(layout, outcome, [&] { call(x.data(), y.data(), n); });
  collect(y.matrix(), outcome);
  if (!y.replaces(x.matrix())) check_input(x, "x", outcome);
  return outcome;
}

template <class T>
struct Scale {
  static constexpr Family family = Family::vector;

  static Outcome run(const Problem &problem, const Layout &layout) {
    const T factor = static_cast<T>(problem.as<VectorProblem>().scale);
    return run_map<T>(problem, layout,
                      [&](const T *x, T *y, std::size_t n) { Api<T>::scale(x, factor, y, n); });
  }
};

template <class T>
struct Exp {
  static constexpr Family family = Family::vector;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_map<T>(problem, layout, Api<T>::exp);
  }
};

template <class T>
struct ExpSum {
  static constexpr Family family = Family::vector;

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto &wanted = problem.as<VectorProblem>();
    const T scale = static_cast<T>(wanted.scale), shift = static_cast<T>(wanted.shift);
    T sum = 0;
    Outcome outcome = run_map<T>(problem, layout, [&](const T *x, T *y, std::size_t n) {
      sum = Api<T>::exp_sum(x, scale, shift, y, n);
    });
    outcome.bits.push_back(canonical_bits(sum));
    return outcome;
  }
};

// ---- rows ----

// rapt_softmax_options as the problem has them, with the arrays that they point to in guarded memory.
template <class T>
class OptionsInMemory {
 public:
  OptionsInMemory(const Problem &problem, const Layout &layout)
      : problem_(problem.as<SoftmaxProblem>()),
        layout_(layout),
        given_(problem_),
        values_(make_option_values<T>(problem)),
        bias_(make_rows<T>(wanted().bias, layout.offset[1] & ~(sizeof(T) - 1))),
        mask_(make_rows<std::uint8_t>(wanted().mask, layout.offset[1] / 4)),
        lengths_(1, wanted().row_lengths ? given_.count : 0, 0, layout.placement, 0),
        sinks_(1, wanted().sinks ? given_.count : 0, 0, layout.placement,
               layout.offset[1] & ~(sizeof(T) - 1)) {
    options_.scale = problem_.scale;
    options_.softcap = wanted().softcap;
    options_.empty_rows_are_zero = wanted().empty_rows_are_zero;
    if (wanted().causal) {
      options_.causal = RAPT_CAUSAL_OFFSET;
      options_.causal_offset = *wanted().causal + static_cast<std::ptrdiff_t>(given_.first);
    }
    if (wanted().bias != PerRow::none) {
      options_.bias_stride = fill_rows(wanted().bias, bias_, values_.bias);
      options_.bias = bias_.data();
    }
    if (wanted().mask != PerRow::none) {
      options_.mask_stride = fill_rows(wanted().mask, mask_, values_.mask);
      options_.mask = mask_.data();
    }
    if (wanted().row_lengths) {
      lengths_.fill(given_.of(values_.lengths, 1));
      options_.row_lengths = lengths_.data();
    }
    if (wanted().sinks) {
      sinks_.fill(given_.of(values_.sinks, 1));
      options_.sinks = sinks_.data();
    }
  }

  const rapt_softmax_options *get() const { return wanted().null ? nullptr : &options_; }

  void check(Outcome &outcome) const {
    if (!bias_.gaps_intact() || !mask_.gaps_intact() || !lengths_.gaps_intact() || !sinks_.gaps_intact()) {
      outcome.fault += "wrote around an option's array; ";
    }
  }

 private:
  const SoftmaxOptions &wanted() const { return problem_.options; }

  template <class U>
  Matrix<U> make_rows(PerRow choice, std::size_t offset) const {
    const std::size_t rows = choice == PerRow::none ? 0 : choice == PerRow::one_for_all ? 1 : given_.count;
    return Matrix<U>(rows, choice == PerRow::none ? 0 : given_.cols,
                     static_cast<std::ptrdiff_t>(given_.cols) + layout_.gap[0], layout_.placement, offset);
  }
  // The stride, as options give it.
  template <class U>
  std::ptrdiff_t fill_rows(PerRow choice, Matrix<U> &matrix, const std::vector<U> &values) {
    matrix.fill(choice == PerRow::each ? given_.of(values) : std::span<const U>(values));
    return choice == PerRow::each ? matrix.stride() : RAPT_REPEAT;
  }

  const SoftmaxProblem &problem_;
  const Layout &layout_;
  GivenRows given_;
  OptionValues<T> values_;
  Matrix<T> bias_;
  Matrix<std::uint8_t> mask_;
  Matrix<std::size_t> lengths_;
  Matrix<T> sinks_;
  rapt_softmax_options options_ = RAPT_SOFTMAX_OPTIONS_INIT;
};

enum class Results { per_element, per_row };

// call(x, x_stride, y, y_stride, rows, cols, options)
template <class T, class Call>
Outcome run_softmax(const Problem &problem, const Layout &layout, Results results, Call &&call) {
  const auto values = make_operands<T>(Family::softmax, problem).first;
  const GivenRows given(problem.as<SoftmaxProblem>());
  const OptionsInMemory<T> options(problem, layout);
  const Input<T> x(given.of(values), given.count, given.cols, layout, 0);
  const bool per_row = results == Results::per_row;
  const Output<T> y(per_row ? 1 : given.count, per_row ? given.count : given.cols, layout,
                    per_row ? nullptr : &x.matrix());
  Outcome outcome;
  rapt_status status = RAPT_OK;
  call_in_state(layout, outcome, [&] {
    status = call(x.data(), x.stride(), y.data(), y.stride(), given.count, given.cols, options.get());
  });
  check_status(status, outcome);
  collect(y.matrix(), outcome);
  if (!y.replaces(x.matrix())) check_input(x, "x", outcome);
  options.check(outcome);
  return outcome;
}

template <class T>
struct Softmax {
  static constexpr Family family = Family::softmax;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_softmax<T>(problem, layout, Results::per_element, Api<T>::softmax);
  }
};

template <class T>
struct LogSoftmax {
  static constexpr Family family = Family::softmax;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_softmax<T>(problem, layout, Results::per_element, Api<T>::log_softmax);
  }
};

template <class T>
struct Logsumexp {
  static constexpr Family family = Family::softmax;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_softmax<T>(problem, layout, Results::per_row,
                          [](const T *x, std::ptrdiff_t x_stride, T *out, std::ptrdiff_t, std::size_t rows,
                             std::size_t cols, const rapt_softmax_options *options) {
                            return Api<T>::logsumexp(x, x_stride, out, rows, cols, options);
                          });
  }
};

template <class T>
struct SoftmaxBackward {
  static constexpr Family family = Family::softmax_backward;

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto &wanted = problem.as<SoftmaxBackwardProblem>();
    const auto [y_values, dy_values] = make_operands<T>(family, problem);
    const GivenRows given(wanted);
    const Input<T> y(given.of(y_values), given.count, given.cols, layout, 0);
    const Input<T> dy(given.of(dy_values), given.count, given.cols, layout, 1);
    const Output<T> dx(given.count, given.cols, layout, &y.matrix(), &dy.matrix());
    const T scale = static_cast<T>(wanted.scale);
    Outcome outcome;
    rapt_status status = RAPT_OK;
    call_in_state(layout, outcome, [&] {
      status = Api<T>::softmax_backward(y.data(), y.stride(), dy.data(), dy.stride(), dx.data(), dx.stride(),
                                        given.count, given.cols, scale);
    });
    check_status(status, outcome);
    collect(dx.matrix(), outcome);
    if (!dx.replaces(y.matrix())) check_input(y, "y", outcome);
    if (!dx.replaces(dy.matrix())) check_input(dy, "dy", outcome);
    return outcome;
  }
};

// ---- attention ----

template <class T, AttentionStage stage>
struct AttentionInStage {
  static constexpr Family family = Family::attention;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_attention<T>(problem, layout, stage);
  }
};
template <class T>
using Attention = AttentionInStage<T, AttentionStage::whole>;
template <class T>
using AttentionPartial = AttentionInStage<T, AttentionStage::partial>;
template <class T>
using AttentionMerge = AttentionInStage<T, AttentionStage::merge>;

template <class T>
struct AttentionBackward {
  static constexpr Family family = Family::attention_backward;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_attention_backward<T>(problem, layout);
  }
};

// ---- the list ----

// One type for each line of kernels.def. A kernel that has no case below does not compile.
namespace kernel {
#define KERNEL(name, result, parameters, arguments) struct name;
#include "kernels/kernels.def"
#undef KERNEL
}  // namespace kernel

template <class Kernel>
struct CaseOf;

#define DRIVER(name, Driver)                               \
  template <>                                              \
  struct CaseOf<kernel::name##_f32> : Driver<float> {      \
    static constexpr std::size_t element = sizeof(float);  \
  };                                                       \
  template <>                                              \
  struct CaseOf<kernel::name##_f64> : Driver<double> {     \
    static constexpr std::size_t element = sizeof(double); \
  };
DRIVER(dot, Dot)
DRIVER(dot_rows, DotRows)
DRIVER(scale, Scale)
DRIVER(exp, Exp)
DRIVER(exp_sum, ExpSum)
DRIVER(softmax, Softmax)
DRIVER(log_softmax, LogSoftmax)
DRIVER(logsumexp, Logsumexp)
DRIVER(softmax_backward, SoftmaxBackward)
DRIVER(attention, Attention)
DRIVER(attention_partial, AttentionPartial)
DRIVER(attention_merge, AttentionMerge)
DRIVER(attention_backward, AttentionBackward)
#undef DRIVER

constexpr KernelCase cases[] = {
#define KERNEL(name, result, parameters, arguments) \
  {#name, {CaseOf<kernel::name>::element, CaseOf<kernel::name>::family}, CaseOf<kernel::name>::run},
#include "kernels/kernels.def"
#undef KERNEL
};

}  // namespace

std::span<const KernelCase> kernel_cases() { return cases; }

}  // namespace rapt::test
