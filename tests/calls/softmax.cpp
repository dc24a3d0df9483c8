#include "calls/softmax.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "calls/shapes.hpp"
#include "support/options.hpp"
#include "support/problem_data.hpp"
#include "support/public_api.hpp"

namespace rapt::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();

// Returns how often to repeat an output of this size. With past_caches it then exceeds the caches.
std::size_t copies_of(const Layout &layout, std::size_t bytes) {
  constexpr std::size_t past_caches_from = std::size_t{16} << 20;  // where streaming stores begin
  return layout.past_caches && bytes > 0 ? past_caches_from / bytes + 1 : 1;
}

// What functions over rows have, which take strides as arguments.
class RowsCall : public Call {
 public:
  RowsCall(const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1),
        first_(problem.of_rows()->window.first),
        rows_(problem.of_rows()->window.end(problem.of_rows()->rows) - first_),
        cols_(problem.cols()) {}

 protected:
  Operand &add_rows(const char *name, Element element, std::size_t slot, void *pointer,
                    const char *stride_name, std::ptrdiff_t &stride, rapt_status missing,
                    rapt_status bad_stride) {
    Operand &added = add(name, element, {1, 1, rows_ * copies_, cols_}, slot, pointer);
    added.missing = missing;
    added.stride_fields[2] = &stride;
    added.stride_name = stride_name;
    added.bad_stride = bad_stride;
    added.has_default_stride = false;
    added.copies = copies_;
    return added;
  }
  template <class T>
  void hold_rows(Operand &operand, const std::vector<T> &values, std::size_t row) const {
    std::vector<T> all;
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first_ * row);
    for (std::size_t i = 0; i < copies_; ++i)
      all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(rows_ * row));
    operand.hold(std::span<const T>(all));
  }
  Statuses too_large() {
    Statuses all = only(RAPT_BAD_SIZE);
    for (const Operand &operand : operands()) all |= only(operand.bad_stride);
    return all;
  }

  const std::size_t first_, rows_, cols_;
  std::size_t copies_ = 1;
};

template <class T>
class SoftmaxCall final : public RowsCall {
  using A = Number<T>;

 public:
  SoftmaxCall(Rows function, const Problem &problem, const Layout &layout)
      : RowsCall(problem, layout), function_(function), wanted_(problem.as<SoftmaxProblem>().options) {
    const OptionValues<A> &values = make_option_values<A>(problem);
    if (!per_row()) copies_ = copies_of(layout, rows_ * cols_ * sizeof(T));
    count_ = rows_ * copies_;
    o_.scale = problem.of_rows()->scale;
    o_.softcap = wanted_.softcap;
    o_.empty_rows_are_zero = wanted_.empty_rows_are_zero && !per_row();
    if (wanted_.causal) {
      o_.causal = RAPT_CAUSAL_OFFSET;
      o_.causal_offset = *wanted_.causal + static_cast<std::ptrdiff_t>(first_);
    }
    Operand &x = add_rows("x", element_of<T>, 0, &x_, "x_stride", x_stride_, RAPT_BAD_X, RAPT_BAD_X_STRIDE);
    hold_rows(x, make_operands<T>(Family::softmax, problem).first, cols_);
    if (per_row()) {
      Operand &out = add("out", element_of<T>, {1, 1, 1, rows_}, 2, &y_);
      out.role = Role::output;
      out.missing = RAPT_BAD_OUT;
    } else {
      Operand &y = add_rows("y", element_of<T>, 2, &y_, "y_stride", y_stride_, RAPT_BAD_Y, RAPT_BAD_Y_STRIDE);
      y.role = Role::output;
      y.replaces = "x";
    }
    if (wanted_.null) return;
    add_matrix("bias", wanted_.bias, &o_.bias, "bias_stride", o_.bias_stride, RAPT_BAD_BIAS_STRIDE,
               values.bias);
    add_matrix("mask", wanted_.mask, &o_.mask, "mask_stride", o_.mask_stride, RAPT_BAD_MASK_STRIDE,
               values.mask);
    if (wanted_.row_lengths) {
      add_numbers("row_lengths", &o_.row_lengths, values.lengths);
      all().back().has_limits = true;
    }
    if (wanted_.sinks) add_numbers("sinks", &o_.sinks, values.sinks);
  }

  rapt_status run() override {
    const rapt_softmax_options *const options = wanted_.null ? nullptr : given(o_);
    T *const x = static_cast<T *>(x_), *const y = static_cast<T *>(y_);
    if (function_ == Rows::softmax)
      return Api<T>::softmax(x, x_stride_, y, y_stride_, count_, columns_, options);
    if (function_ == Rows::log_softmax)
      return Api<T>::log_softmax(x, x_stride_, y, y_stride_, count_, columns_, options);
    if constexpr (sizeof(T) > 2) return Api<T>::logsumexp(x, x_stride_, y, count_, columns_, options);
    return RAPT_OK;
  }
  const char *options() const override { return wanted_.null ? nullptr : "rapt_softmax_options"; }
  bool needs_options() const override { return false; }

  void add_limits(Limits &limits) override {
    limits.field("rows", count_);
    limits.field("cols", columns_);
    if (rows_ > 0 && cols_ > 1) {
      limits.past("cols", columns_, too_large(), {SIZE_MAX, SIZE_MAX / 2 + 2});
      limits.past("rows", count_, too_large(), {SIZE_MAX, SIZE_MAX / 2 + 2});
    }
    if (wanted_.null) return;
    const double least{std::numeric_limits<A>::min()}, most{std::numeric_limits<A>::max()};
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {8, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    const Statuses of_numbers = only(RAPT_BAD_SCALE) | (o_.softcap != 0 ? only(RAPT_BAD_SOFTCAP) : 0);
    limits.past("scale", o_.scale, of_numbers,
                {infinity, -infinity, nan, most, -most, most / 1.4, least / 1.1, 0x1p-1074});
    if (o_.softcap == 0) limits.at("scale", o_.scale, {0, -0.0, least, -least, most / 1.5, -3});
    limits.past("softcap", o_.softcap, only(RAPT_BAD_SOFTCAP),
                {infinity, -infinity, nan, -1, -0x1p-1074, 0x1p-1074});
    limits.past("causal", o_.causal, RAPT_BAD_CAUSAL, {-1, 4, 1000});
    constexpr std::ptrdiff_t farthest = std::ptrdiff_t{1} << 60;
    if (o_.causal == RAPT_CAUSAL_OFFSET) {
      limits.at("causal_offset", o_.causal_offset, {farthest, -farthest, 0});
      limits.past("causal_offset", o_.causal_offset, RAPT_BAD_CAUSAL_OFFSET,
                  {farthest + 1, -farthest - 1, PTRDIFF_MAX, PTRDIFF_MIN});
    } else {
      limits.past("causal_offset", o_.causal_offset, RAPT_BAD_CAUSAL_OFFSET, {1, -1, farthest});
    }
    if (per_row()) {
      limits.past("empty_rows_are_zero", o_.empty_rows_are_zero, RAPT_BAD_EMPTY_ROWS, {1, -1, 256});
    } else {
      limits.at("empty_rows_are_zero", o_.empty_rows_are_zero, {0, 1, -1, 256});
    }
    if (wanted_.bias == PerRow::none)
      limits.past("bias_stride", o_.bias_stride, RAPT_BAD_BIAS_STRIDE, {1, -1, RAPT_REPEAT});
    if (wanted_.mask == PerRow::none)
      limits.past("mask_stride", o_.mask_stride, RAPT_BAD_MASK_STRIDE, {1, -1, RAPT_REPEAT});
    if (!wanted_.row_lengths || !has_work()) return;
    limits.add({"row_lengths", 0, [this] { set_value("row_lengths", rows_ * copies_ - 1, cols_); }});
    for (const std::size_t length : {cols_ + 1, SIZE_MAX})
      limits.add({"row_lengths", only(RAPT_BAD_ROW_LENGTHS),
                  [=, this] { set_value("row_lengths", rows_ * copies_ - 1, length); }});
  }

 private:
  bool per_row() const { return function_ == Rows::logsumexp; }

  // Adds an array of the options: a row for each row, or one for all.
  template <class U>
  void add_matrix(const char *name, PerRow choice, void *pointer, const char *stride_name,
                  std::ptrdiff_t &stride, rapt_status bad_stride, const std::vector<U> &values) {
    if (choice == PerRow::none) return;
    const bool is_each = choice == PerRow::each;
    Operand &added = add(name, element_of<U>, {1, 1, is_each ? rows_ * copies_ : 1, cols_}, 0, pointer);
    added.slot = 1;
    if (!is_each) {
      stride = RAPT_REPEAT;
      return added.hold(std::span(values));
    }
    added.stride_fields[2] = &stride;
    added.stride_name = stride_name;
    added.bad_stride = bad_stride;
    added.may_repeat = true;
    hold_rows(added, values, cols_);
  }
  template <class U>
  void add_numbers(const char *name, void *pointer, const std::vector<U> &values) {
    hold_rows(add(name, element_of<U>, {1, 1, 1, rows_ * copies_}, 1, pointer), values, 1);
  }

  const Rows function_;
  const SoftmaxOptions wanted_;
  rapt_softmax_options o_ = RAPT_SOFTMAX_OPTIONS_INIT;
  void *x_ = nullptr, *y_ = nullptr;
  std::ptrdiff_t x_stride_ = 0, y_stride_ = 0;
  std::size_t count_ = 0, columns_ = cols_;
};

template <class T>
class BackwardCall final : public RowsCall {
 public:
  BackwardCall(RowGradient function, const Problem &problem, const Layout &layout)
      : RowsCall(problem, layout),
        function_(function),
        scale_(static_cast<Number<T>>(problem.of_rows()->scale)) {
    const auto &[y, dy] = make_operands<T>(Family::softmax_backward, problem);
    hold_rows(add_rows("y", element_of<T>, 0, &y_, "y_stride", y_stride_, RAPT_BAD_Y, RAPT_BAD_Y_STRIDE),
              function == RowGradient::softmax ? y : like_logarithms(y), cols_);
    hold_rows(
        add_rows("dy", element_of<T>, 1, &dy_, "dy_stride", dy_stride_, RAPT_BAD_DY, RAPT_BAD_DY_STRIDE), dy,
        cols_);
    Operand &dx =
        add_rows("dx", element_of<T>, 2, &dx_, "dx_stride", dx_stride_, RAPT_BAD_DX, RAPT_BAD_DX_STRIDE);
    dx.role = Role::output;
    dx.replaces = "y dy";
  }
  rapt_status run() override {
    const auto gradient =
        function_ == RowGradient::softmax ? Api<T>::softmax_backward : Api<T>::log_softmax_backward;
    return gradient(static_cast<T *>(y_), y_stride_, static_cast<T *>(dy_), dy_stride_, static_cast<T *>(dx_),
                    dx_stride_, count_, columns_, scale_);
  }
  void add_limits(Limits &limits) override {
    limits.field("rows", count_);
    limits.field("cols", columns_);
    if (rows_ == 0 || cols_ <= 1) return;
    limits.past("cols", columns_, too_large(), {SIZE_MAX, SIZE_MAX / 2 + 2});
    limits.past("rows", count_, too_large(), {SIZE_MAX, SIZE_MAX / 2 + 2});
  }

 private:
  const RowGradient function_;
  const Number<T> scale_;
  void *y_ = nullptr, *dy_ = nullptr, *dx_ = nullptr;
  std::ptrdiff_t y_stride_ = 0, dy_stride_ = 0, dx_stride_ = 0;
  std::size_t count_ = rows_, columns_ = cols_;
};

}  // namespace

template <class T>
std::unique_ptr<Call> make_softmax(Rows function, const Problem &problem, const Layout &layout) {
  return std::make_unique<SoftmaxCall<T>>(function, problem, layout);
}
template std::unique_ptr<Call> make_softmax<float>(Rows, const Problem &, const Layout &);
template std::unique_ptr<Call> make_softmax<double>(Rows, const Problem &, const Layout &);
template std::unique_ptr<Call> make_softmax<F16>(Rows, const Problem &, const Layout &);
template std::unique_ptr<Call> make_softmax<BF16>(Rows, const Problem &, const Layout &);

template <class T>
std::unique_ptr<Call> make_softmax_backward(RowGradient function, const Problem &problem,
                                            const Layout &layout) {
  return std::make_unique<BackwardCall<T>>(function, problem, layout);
}
template std::unique_ptr<Call> make_softmax_backward<float>(RowGradient, const Problem &, const Layout &);
template std::unique_ptr<Call> make_softmax_backward<double>(RowGradient, const Problem &, const Layout &);
template std::unique_ptr<Call> make_softmax_backward<F16>(RowGradient, const Problem &, const Layout &);
template std::unique_ptr<Call> make_softmax_backward<BF16>(RowGradient, const Problem &, const Layout &);

Problem draw_softmax_problem(Random &random, std::size_t most) {
  SoftmaxProblem made;
  draw_rows(random, most, made);
  made.scale = random.one_of({1.0, 1.0, 0.125, 0.3, -0.7, 0.0, 1e-30, 1e30, 0x1p16, -0x1p-16});
  if (!random.one_in(3)) draw(random, made.options);
  if (made.options.null) made.scale = 1;
  return with_numbers(random, made);
}
Problem draw_softmax_backward_problem(Random &random, std::size_t most) {
  SoftmaxBackwardProblem made;
  draw_rows(random, most, made);
  made.scale = random.one_of({1.0, 1.0, 0.125, -0.3, 0.0, 1e30});
  return with_numbers(random, made);
}

}  // namespace rapt::test
