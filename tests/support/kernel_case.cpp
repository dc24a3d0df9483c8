#include "support/kernel_case.hpp"

#include <limits>
#include <string>

#include "support/attention_backward_case.hpp"
#include "support/attention_case.hpp"
#include "support/bits.hpp"
#include "support/matrix.hpp"
#include "support/problem_data.hpp"
#include "support/public_api.hpp"

namespace rapt::test {
namespace {

// ---- what the drivers share ----

// The rows of the problem that are passed to the function.
struct Window {
  explicit Window(const Problem &problem)
      : first(problem.first_row), count(std::min(problem.row_count, problem.rows - problem.first_row)) {}

  template <class T>
  std::span<const T> of(const std::vector<T> &dense, std::size_t cols) const {
    return std::span(dense).subspan(first * cols, count * cols);
  }

  std::size_t first, count;
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

// Makes the call under the layout's floating-point state. Nothing but the call may happen in that state: a
// conversion of an argument would round otherwise too.
template <class Call>
void call_in_state(const Layout &layout, Outcome &outcome, Call &&call) {
  if (!layout.fp_state) {
    call();
    return;
  }
  const std::uint64_t own = read_fp_control();
  write_fp_control(layout.fp_state->control);
  call();
  const std::uint64_t after = read_fp_control();
  write_fp_control(own);
  if (after != layout.fp_state->control)
    outcome.fault += "the caller's floating-point state was not restored; ";
}

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

void check_status(rapt_status status, Outcome &outcome) {
  if (status != RAPT_OK) outcome.fault += std::string("returned: ") + rapt_status_text(status) + "; ";
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

template <class T>
constexpr KernelTraits vector_traits(int inputs, bool has_output) {
  KernelTraits traits;
  traits.operands = inputs == 1 ? Operands::vector : Operands::two_vectors;
  traits.element_size = sizeof(T);
  traits.inputs = inputs;
  traits.has_output = has_output;
  traits.aliases = has_output ? 1 : 0;
  return traits;
}

// ---- vectors ----

template <class T>
struct DotCase {
  static constexpr KernelTraits traits = vector_traits<T>(2, false);

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto [a_values, b_values] = make_operands<T>(traits.operands, problem);
    const Input<T> a(a_values, 1, problem.cols, layout, 0), b(b_values, 1, problem.cols, layout, 1);
    Outcome outcome;
    T result = 0;
    call_in_state(layout, outcome, [&] { result = Api<T>::dot(a.data(), b.data(), problem.cols); });
    outcome.bits.push_back(canonical_bits(result));
    check_input(a, "a", outcome);
    check_input(b, "b", outcome);
    return outcome;
  }
};

template <class T>
struct DotRowsCase {
  static constexpr KernelTraits traits = [] {
    KernelTraits made = vector_traits<T>(2, true);
    made.operands = Operands::query_and_rows;
    made.aliases = 0;
    made.has_rows = made.is_dot_rows = true;
    return made;
  }();

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto [query_values, row_values] = make_operands<T>(traits.operands, problem);
    const Window window(problem);
    const std::ptrdiff_t step = static_cast<std::ptrdiff_t>(problem.cols) + layout.gap[1];
    const std::ptrdiff_t stride = problem.same_row ? 0 : layout.reversed ? -step : step;
    const Input<T> query(query_values, 1, problem.cols, layout, 0);
    const Input<T> rows(window.of(row_values, problem.cols), window.count, problem.cols, layout, 1, stride);
    const Output<T> out(1, window.count, layout);
    const T scale = static_cast<T>(problem.scale);
    Outcome outcome;
    call_in_state(layout, outcome, [&] {
      Api<T>::dot_rows(query.data(), rows.data(), stride, window.count, problem.cols, scale, out.data());
    });
    collect(out.matrix(), outcome);
    check_input(query, "query", outcome);
    check_input(rows, "rows", outcome);
    return outcome;
  }
};

// y = function(x) over a vector: scale, exp and exp_sum.
template <class T, class Call>
Outcome run_map(const Problem &problem, const Layout &layout, Call &&call) {
  const auto values = make_operands<T>(Operands::vector, problem).first;
  const Input<T> x(values, 1, problem.cols, layout, 0);
  const Output<T> y(1, problem.cols, layout, &x.matrix());
  Outcome outcome;
  call_in_state(layout, outcome, [&] { call(x.data(), y.data()); });
  collect(y.matrix(), outcome);
  if (!y.replaces(x.matrix())) check_input(x, "x", outcome);
  return outcome;
}

template <class T>
struct ScaleCase {
  static constexpr KernelTraits traits = vector_traits<T>(1, true);

  static Outcome run(const Problem &problem, const Layout &layout) {
    const T factor = static_cast<T>(problem.scale);
    return run_map<T>(problem, layout, [&](const T *x, T *y) { Api<T>::scale(x, factor, y, problem.cols); });
  }
};

template <class T>
struct ExpCase {
  static constexpr KernelTraits traits = vector_traits<T>(1, true);

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_map<T>(problem, layout, [&](const T *x, T *y) { Api<T>::exp(x, y, problem.cols); });
  }
};

template <class T>
struct ExpSumCase {
  static constexpr KernelTraits traits = vector_traits<T>(1, true);

  static Outcome run(const Problem &problem, const Layout &layout) {
    const T scale = static_cast<T>(problem.scale), shift = static_cast<T>(problem.shift);
    T sum = 0;
    Outcome outcome = run_map<T>(
        problem, layout, [&](const T *x, T *y) { sum = Api<T>::exp_sum(x, scale, shift, y, problem.cols); });
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
      : window_(problem),
        values_(make_option_values<T>(problem)),
        bias_(arrays(problem, problem.options.bias), columns(problem, problem.options.bias),
              row_stride(problem, layout), layout.placement, layout.offset[1] & ~(sizeof(T) - 1)),
        mask_(arrays(problem, problem.options.mask), columns(problem, problem.options.mask),
              row_stride(problem, layout), layout.placement, layout.offset[1] / 4),
        lengths_(1, problem.options.row_lengths ? window_.count : 0, 0, layout.placement, 0),
        sinks_(1, problem.options.sinks ? window_.count : 0, 0, layout.placement,
               layout.offset[1] & ~(sizeof(T) - 1)) {
    const RowOptions &wanted = problem.options;
    options_.scale = problem.scale;
    options_.softcap = wanted.softcap;
    options_.empty_rows_are_zero = wanted.empty_rows_are_zero;
    if (wanted.causal) {
      options_.causal = RAPT_CAUSAL_OFFSET;
      options_.causal_offset = wanted.causal_offset + static_cast<std::ptrdiff_t>(window_.first);
    }
    fill_rows(problem, wanted.bias, bias_, values_.bias);
    fill_rows(problem, wanted.mask, mask_, values_.mask);
    if (wanted.bias != PerRow::none) options_.bias = bias_.data();
    if (wanted.bias != PerRow::none) options_.bias_stride = stride_of(wanted.bias, bias_.stride());
    if (wanted.mask != PerRow::none) options_.mask = mask_.data();
    if (wanted.mask != PerRow::none) options_.mask_stride = stride_of(wanted.mask, mask_.stride());
    if (wanted.row_lengths) {
      lengths_.fill(window_.of(values_.lengths, 1));
      options_.row_lengths = lengths_.data();
    }
    if (wanted.sinks) {
      sinks_.fill(window_.of(values_.sinks, 1));
      options_.sinks = sinks_.data();
    }
    given_ = !wanted.null;
  }

  const rapt_softmax_options *get() const { return given_ ? &options_ : nullptr; }

  void check(Outcome &outcome) const {
    if (!bias_.gaps_intact() || !mask_.gaps_intact() || !lengths_.gaps_intact() || !sinks_.gaps_intact()) {
      outcome.fault += "wrote around an option's array; ";
    }
  }

 private:
  std::size_t arrays(const Problem &, PerRow choice) const {
    return choice == PerRow::none ? 0 : choice == PerRow::one_for_all ? 1 : window_.count;
  }
  static std::size_t columns(const Problem &problem, PerRow choice) {
    return choice == PerRow::none ? 0 : problem.cols;
  }
  static std::ptrdiff_t stride_of(PerRow choice, std::ptrdiff_t stride) {
    return choice == PerRow::each ? stride : RAPT_REPEAT;
  }
  static std::ptrdiff_t row_stride(const Problem &problem, const Layout &layout) {
    return static_cast<std::ptrdiff_t>(problem.cols) + layout.gap[0];
  }

  template <class U>
  void fill_rows(const Problem &problem, PerRow choice, Matrix<U> &matrix, const std::vector<U> &values) {
    if (choice == PerRow::none) return;
    matrix.fill(choice == PerRow::each ? window_.of(values, problem.cols) : std::span<const U>(values));
  }

  Window window_;
  OptionValues<T> values_;
  Matrix<T> bias_;
  Matrix<std::uint8_t> mask_;
  Matrix<std::size_t> lengths_;
  Matrix<T> sinks_;
  rapt_softmax_options options_ = RAPT_SOFTMAX_OPTIONS_INIT;
  bool given_ = true;
};

template <class T>
constexpr KernelTraits rows_traits(int inputs, int aliases, bool takes_options) {
  KernelTraits traits;
  traits.operands = inputs == 1 ? Operands::rows : Operands::probabilities_and_gradients;
  traits.element_size = sizeof(T);
  traits.inputs = inputs;
  traits.aliases = aliases;
  traits.has_rows = true;
  traits.takes_options = takes_options;
  return traits;
}

// softmax and log_softmax
template <class T, auto function>
struct SoftmaxCase {
  static constexpr KernelTraits traits = rows_traits<T>(1, 1, true);

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto values = make_operands<T>(traits.operands, problem).first;
    const Window window(problem);
    const OptionsInMemory<T> options(problem, layout);
    const Input<T> x(window.of(values, problem.cols), window.count, problem.cols, layout, 0);
    const Output<T> y(window.count, problem.cols, layout, &x.matrix());
    Outcome outcome;
    rapt_status status = RAPT_OK;
    call_in_state(layout, outcome, [&] {
      status =
          function(x.data(), x.stride(), y.data(), y.stride(), window.count, problem.cols, options.get());
    });
    check_status(status, outcome);
    collect(y.matrix(), outcome);
    if (!y.replaces(x.matrix())) check_input(x, "x", outcome);
    options.check(outcome);
    return outcome;
  }
};

template <class T>
struct LogsumexpCase {
  static constexpr KernelTraits traits = rows_traits<T>(1, 0, true);

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto values = make_operands<T>(traits.operands, problem).first;
    const Window window(problem);
    const OptionsInMemory<T> options(problem, layout);
    const Input<T> x(window.of(values, problem.cols), window.count, problem.cols, layout, 0);
    const Output<T> out(1, window.count, layout);
    Outcome outcome;
    rapt_status status = RAPT_OK;
    call_in_state(layout, outcome, [&] {
      status = Api<T>::logsumexp(x.data(), x.stride(), out.data(), window.count, problem.cols, options.get());
    });
    check_status(status, outcome);
    collect(out.matrix(), outcome);
    check_input(x, "x", outcome);
    options.check(outcome);
    return outcome;
  }
};

template <class T>
struct SoftmaxBackwardCase {
  static constexpr KernelTraits traits = rows_traits<T>(2, 2, false);

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto [y_values, dy_values] = make_operands<T>(traits.operands, problem);
    const Window window(problem);
    const Input<T> y(window.of(y_values, problem.cols), window.count, problem.cols, layout, 0);
    const Input<T> dy(window.of(dy_values, problem.cols), window.count, problem.cols, layout, 1);
    const Output<T> dx(window.count, problem.cols, layout, &y.matrix(), &dy.matrix());
    const T scale = static_cast<T>(problem.scale);
    Outcome outcome;
    rapt_status status = RAPT_OK;
    call_in_state(layout, outcome, [&] {
      status = Api<T>::softmax_backward(y.data(), y.stride(), dy.data(), dy.stride(), dx.data(), dx.stride(),
                                        window.count, problem.cols, scale);
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
struct AttentionCase {
  static constexpr KernelTraits traits = [] {
    KernelTraits made;
    made.operands = Operands::attention;
    made.element_size = sizeof(T);
    made.inputs = 3;
    made.aliases = stage == AttentionStage::partial ? 0 : 1;
    made.has_rows = made.is_attention = true;
    return made;
  }();

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_attention<T>(problem, layout, stage);
  }
};

template <class T>
struct AttentionBackwardCase {
  static constexpr KernelTraits traits = [] {
    KernelTraits made;
    made.operands = Operands::attention;
    made.element_size = sizeof(T);
    made.inputs = 3;
    made.has_rows = made.is_attention = made.is_attention_backward = true;
    return made;
  }();

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

template <>
struct CaseOf<kernel::dot_f32> : DotCase<float> {};
template <>
struct CaseOf<kernel::dot_f64> : DotCase<double> {};
template <>
struct CaseOf<kernel::dot_rows_f32> : DotRowsCase<float> {};
template <>
struct CaseOf<kernel::dot_rows_f64> : DotRowsCase<double> {};
template <>
struct CaseOf<kernel::scale_f32> : ScaleCase<float> {};
template <>
struct CaseOf<kernel::scale_f64> : ScaleCase<double> {};
template <>
struct CaseOf<kernel::exp_f32> : ExpCase<float> {};
template <>
struct CaseOf<kernel::exp_f64> : ExpCase<double> {};
template <>
struct CaseOf<kernel::exp_sum_f32> : ExpSumCase<float> {};
template <>
struct CaseOf<kernel::exp_sum_f64> : ExpSumCase<double> {};
template <>
struct CaseOf<kernel::softmax_f32> : SoftmaxCase<float, rapt_softmax_f32> {};
template <>
struct CaseOf<kernel::softmax_f64> : SoftmaxCase<double, rapt_softmax_f64> {};
template <>
struct CaseOf<kernel::log_softmax_f32> : SoftmaxCase<float, rapt_log_softmax_f32> {};
template <>
struct CaseOf<kernel::log_softmax_f64> : SoftmaxCase<double, rapt_log_softmax_f64> {};
template <>
struct CaseOf<kernel::logsumexp_f32> : LogsumexpCase<float> {};
template <>
struct CaseOf<kernel::logsumexp_f64> : LogsumexpCase<double> {};
template <>
struct CaseOf<kernel::softmax_backward_f32> : SoftmaxBackwardCase<float> {};
template <>
struct CaseOf<kernel::softmax_backward_f64> : SoftmaxBackwardCase<double> {};
template <>
struct CaseOf<kernel::attention_f32> : AttentionCase<float, AttentionStage::whole> {};
template <>
struct CaseOf<kernel::attention_f64> : AttentionCase<double, AttentionStage::whole> {};
template <>
struct CaseOf<kernel::attention_partial_f32> : AttentionCase<float, AttentionStage::partial> {};
template <>
struct CaseOf<kernel::attention_partial_f64> : AttentionCase<double, AttentionStage::partial> {};
template <>
struct CaseOf<kernel::attention_merge_f32> : AttentionCase<float, AttentionStage::merge> {};
template <>
struct CaseOf<kernel::attention_merge_f64> : AttentionCase<double, AttentionStage::merge> {};
template <>
struct CaseOf<kernel::attention_backward_f32> : AttentionBackwardCase<float> {};
template <>
struct CaseOf<kernel::attention_backward_f64> : AttentionBackwardCase<double> {};

constexpr KernelCase cases[] = {
#define KERNEL(name, result, parameters, arguments) \
  {#name, CaseOf<kernel::name>::traits, CaseOf<kernel::name>::run},
#include "kernels/kernels.def"
#undef KERNEL
};

}  // namespace

std::span<const KernelCase> kernel_cases() { return cases; }

}  // namespace rapt::test
