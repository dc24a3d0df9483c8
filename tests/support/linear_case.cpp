#include "support/linear_case.hpp"

#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "support/linear_calls.hpp"
#include "support/linear_data.hpp"

namespace rapt::test {
namespace {

template <class X, class W, class Y>
class LinearRun : public LinearCalls<LinearRun<X, W, Y>, X, W, Y, Number<W>> {
  using A = Number<W>;
  using Base = LinearCalls<LinearRun<X, W, Y>, X, W, Y, A>;
  friend Base;
  using Base::how_, Base::layout_, Base::outputs_, Base::random_, Base::rows_of, Base::stride, Base::y_,
      Base::y_list_;

 public:
  LinearRun(const Problem &problem, const Layout &layout, rapt_arithmetic arithmetic)
      : Base(problem.as<LinearProblem>(), problem.as<LinearProblem>().outputs, problem.cols(),
             layout.linear.w_order, layout, problem.seed),
        problem_(problem.as<LinearProblem>()),
        numbers_(make_linear<W>(problem)),
        arithmetic_(arithmetic) {
    this->x_.fill(this->x_list_.template in_memory<X>(rows_of(numbers_.x, problem_.cols), problem_.cols));
    this->w_.fill(Base::template elements<W>(numbers_.w));
    this->place(numbers_.bias, numbers_.row_scales);
    place_addend();
  }

 private:
  void place_addend() {
    const std::span<const A> values = rows_of(numbers_.add, outputs_);
    const bool has_type_of_y = problem_.add == Addend::like_y || std::is_same_v<X, Y>;
    in_place_ = problem_.add != Addend::none && has_type_of_y && layout_.alias != Alias::none;
    if (in_place_) {
      y_.fill(y_list_.template in_memory<Y>(values, outputs_));
    } else if (problem_.add == Addend::like_y) {
      place_apart(values, add_like_y_, add_image_y_);
    } else if (problem_.add == Addend::like_x) {
      place_apart(values, add_like_x_, add_image_x_);
    }
  }
  template <class E>
  void place_apart(std::span<const A> values, std::optional<Matrix<E>> &matrix, std::vector<E> &image) {
    matrix.emplace(y_list_.rows_of_memory, outputs_, stride(0), layout_.placement,
                   drivers::offset_of<E>(layout_, 0));
    image = y_list_.template in_memory<E>(values, outputs_);
    matrix->fill(image);
  }

  // Returns the options of a call for the rows [first, end).
  rapt_linear_options options_of(std::size_t first, std::size_t end, bool with_weights) {
    rapt_linear_options o{};
    const bool is_short = random_.one_in(2);  // leaves out what has a default
    this->set_layer(first, end, is_short, with_weights, o);
    o.x_type = is_short && std::is_same_v<X, float> ? RAPT_TYPE_DEFAULT : Api<X>::type;
    o.w_type = is_short && std::is_same_v<X, W> ? RAPT_TYPE_DEFAULT : Api<W>::type;
    o.y_type = is_short && std::is_same_v<X, Y> ? RAPT_TYPE_DEFAULT : Api<Y>::type;
    if (std::is_same_v<W, BF16> && std::is_same_v<X, BF16>) {
      o.arithmetic = arithmetic_;
    } else if (!std::is_same_v<W, double> && !is_short) {
      o.arithmetic = RAPT_ARITHMETIC_F32;
    }
    set_addend(first, is_short, o);
    return o;
  }
  static rapt_linear_options part_of(const rapt_linear_options &o, std::size_t) { return o; }
  void set_addend(std::size_t first, bool is_short, rapt_linear_options &o) const {
    if (problem_.add == Addend::none) return;
    const std::size_t row = how_.y_rows ? 0 : first;
    std::ptrdiff_t add_stride = 0;
    rapt_type type = Api<Y>::type;
    if (in_place_) {
      o.add = y_.row(row);
      add_stride = y_.stride();
    } else if (add_like_y_) {
      o.add = add_like_y_->row(row);
      add_stride = add_like_y_->stride();
    } else {
      o.add = add_like_x_->row(row);
      add_stride = add_like_x_->stride();
      type = Api<X>::type;
    }
    if (!is_short || type != Api<Y>::type) o.add_type = type;
    if (!is_short || static_cast<std::size_t>(add_stride) != outputs_) o.add_stride = add_stride;
  }

  void check_arrays() {
    this->fault_unless((!add_like_x_ || (add_like_x_->holds(add_image_x_) && add_like_x_->gaps_intact())) &&
                           (!add_like_y_ || (add_like_y_->holds(add_image_y_) && add_like_y_->gaps_intact())),
                       "to the addend");
  }

  const LinearProblem &problem_;
  const LinearNumbers<A> &numbers_;
  rapt_arithmetic arithmetic_;
  bool in_place_ = false;
  std::optional<Matrix<X>> add_like_x_;
  std::optional<Matrix<Y>> add_like_y_;
  std::vector<X> add_image_x_;
  std::vector<Y> add_image_y_;
};

}  // namespace

template <class W>
Outcome run_linear(const Problem &problem, const Layout &layout, rapt_arithmetic arithmetic) {
  Outcome outcome;
  const bool are_known =
      with_linear_types<W>(problem.as<LinearProblem>().types, [&]<class X, class Y>(LinearTypes<X, Y>) {
        outcome = LinearRun<X, W, Y>(problem, layout, arithmetic).run();
      });
  if (!are_known) outcome.fault = "these types are another kernel's; ";
  return outcome;
}

template Outcome run_linear<float>(const Problem &, const Layout &, rapt_arithmetic);
template Outcome run_linear<double>(const Problem &, const Layout &, rapt_arithmetic);
template Outcome run_linear<F16>(const Problem &, const Layout &, rapt_arithmetic);
template Outcome run_linear<BF16>(const Problem &, const Layout &, rapt_arithmetic);

}  // namespace rapt::test
