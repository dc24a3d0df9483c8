// Runs problems of softmax, log_softmax, logsumexp and softmax_backward through the public API.
#pragma once

#include "support/kernel_memory.hpp"

namespace rapt::test::drivers {

// Holds the problem's rapt_softmax_options, and the arrays of the options in guarded memory.
template <class T>
class OptionsInMemory {
 public:
  OptionsInMemory(const Problem &problem, const Layout &layout, std::size_t copies)
      : problem_(problem.as<SoftmaxProblem>()),
        layout_(layout),
        given_(problem_),
        copies_(copies),
        values_(make_option_values<T>(problem)),
        bias_(make_rows<T>(wanted().bias, layout.offset[1] & ~(sizeof(T) - 1))),
        mask_(make_rows<std::uint8_t>(wanted().mask, layout.offset[1] / 4)),
        lengths_(1, wanted().row_lengths ? given_.count * copies : 0, 0, layout.placement, 0),
        sinks_(1, wanted().sinks ? given_.count * copies : 0, 0, layout.placement,
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
      lengths_.fill(repeated(given_.of(values_.lengths, 1)));
      options_.row_lengths = lengths_.data();
    }
    if (wanted().sinks) {
      sinks_.fill(repeated(given_.of(values_.sinks, 1)));
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
    const std::size_t rows = choice == PerRow::none          ? 0
                             : choice == PerRow::one_for_all ? 1
                                                             : given_.count * copies_;
    return Matrix<U>(rows, choice == PerRow::none ? 0 : given_.cols,
                     static_cast<std::ptrdiff_t>(given_.cols) + layout_.gap[0], layout_.placement, offset);
  }
  template <class U>
  std::vector<U> repeated(std::span<const U> values) const {
    std::vector<U> all;
    for (std::size_t i = 0; i < copies_; ++i) all.insert(all.end(), values.begin(), values.end());
    return all;
  }
  // Fills the rows, and returns the stride to pass to the API.
  template <class U>
  std::ptrdiff_t fill_rows(PerRow choice, Matrix<U> &matrix, const std::vector<U> &values) {
    matrix.fill(choice == PerRow::each ? given_.of(values) : std::span<const U>(values));
    return choice == PerRow::each ? matrix.stride() : RAPT_REPEAT;
  }

  const SoftmaxProblem &problem_;
  const Layout &layout_;
  GivenRows given_;
  std::size_t copies_;
  const OptionValues<T> &values_;
  Matrix<T> bias_;
  Matrix<std::uint8_t> mask_;
  Matrix<std::size_t> lengths_;
  Matrix<T> sinks_;
  rapt_softmax_options options_ = RAPT_SOFTMAX_OPTIONS_INIT;
};

enum class Results { per_element, per_row };

// Runs call(x, x_stride, y, y_stride, rows, cols, options).
template <class T, class Call>
Outcome run_softmax(const Problem &problem, const Layout &layout, Results results, Call &&call) {
  const auto &values = make_operands<T>(Family::softmax, problem).first;
  const GivenRows given(problem.as<SoftmaxProblem>());
  const bool per_row = results == Results::per_row;
  const std::size_t copies = per_row ? 1 : copies_of(layout, given.count * given.cols * sizeof(T)),
                    rows = given.count * copies;
  const OptionsInMemory<Number<T>> options(problem, layout, copies);
  const Input<T> x(given.of(values), rows, given.cols, layout, 0);
  const Output<T> y(rows, per_row ? 1 : given.cols, layout,
                    per_row ? 1 : stride_of_output(given.cols, layout), per_row ? nullptr : &x.matrix());
  Outcome outcome;
  rapt_status status = RAPT_OK;
  call_in_state(layout, outcome, [&] {
    status = call(x.data(), x.stride(), y.data(), y.stride(), rows, given.cols, options.get());
  });
  check_status(status, outcome);
  collect(y.matrix(), outcome, copies);
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
                             std::size_t cols, const rapt_softmax_options *given) {
                            if (!given) return Api<T>::logsumexp(x, x_stride, out, rows, cols, nullptr);
                            rapt_softmax_options options = *given;
                            options.empty_rows_are_zero = 0;  // logsumexp requires 0
                            return Api<T>::logsumexp(x, x_stride, out, rows, cols, &options);
                          });
  }
};

template <class T>
struct SoftmaxBackward {
  static constexpr Family family = Family::softmax_backward;

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto &wanted = problem.as<SoftmaxBackwardProblem>();
    const auto &[y_values, dy_values] = make_operands<T>(family, problem);
    const GivenRows given(wanted);
    const Input<T> y(given.of(y_values), given.count, given.cols, layout, 0);
    const Input<T> dy(given.of(dy_values), given.count, given.cols, layout, 1);
    const Output<T> dx(given.count, given.cols, layout, stride_of_output(given.cols, layout), &y.matrix(),
                       &dy.matrix());
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

}  // namespace rapt::test::drivers
