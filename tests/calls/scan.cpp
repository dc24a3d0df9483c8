#include "calls/scan.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "calls/reduce.hpp"
#include "support/problem_data.hpp"

namespace rapt::test {
namespace {

class Scan final : public Call {
 public:
  template <class T>
  Scan(const std::vector<T> &values, const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1), sizes_(problem.as<ReduceProblem>().sizes()) {
    const auto &of = problem.as<ReduceProblem>();
    o_.size = sizeof o_;
    o_.operation = is_product(of) ? RAPT_PRODUCT : RAPT_SUM;
    o_.type = is_short() && element_of<T> == Element::f32 ? RAPT_TYPE_DEFAULT : type_of(element_of<T>);
    // A short call leaves out leading dimensions of 1. Other calls have dimensions of 1 after the last one.
    const std::size_t axis = axis_of(of);
    while (is_short() && first_ < axis && sizes_[first_] == 1) ++first_;
    o_.axis = axis - first_;
    o_.dims = is_short() ? 4 - first_ : 4 + problem.seed / 2 % 5;
    for (std::size_t d = 0; d < o_.dims; ++d) o_.shape[d] = first_ + d < 4 ? sizes_[first_ + d] : 1;

    Operand &x = add("x", element_of<T>, sizes_, 0, &x_);
    x.stride_name = "x_strides";
    x.missing = RAPT_BAD_X;
    x.hold(std::span(values));
    put_in_order(x, layout.linear.x_order, layout.gap[x.slot]);
    Operand &out = add("out", element_of<T>, sizes_, 2, &out_);
    out.stride_name = "out_strides";
    out.missing = RAPT_BAD_OUT;
    out.role = Role::output;
    out.replaces = "x";
    put_in_order(out, layout.linear.w_order, layout.gap[out.slot]);
    for (std::size_t d = first_; d < 4; ++d) {
      x.stride_fields[d] = &o_.x_strides[d - first_];
      out.stride_fields[d] = &o_.out_strides[d - first_];
    }
  }

  rapt_status run() override { return rapt_scan(x_, out_, given(o_)); }
  const char *options() const override { return "rapt_scan_options"; }

  void add_limits(Limits &limits) override {
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("operation", o_.operation, RAPT_BAD_OPERATION,
                {0, -1, RAPT_MEAN, RAPT_NORM_INF, RAPT_MIN, RAPT_ARGMAX + 1, INT32_MAX, INT32_MIN});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_I8, RAPT_I4, RAPT_U8, 100, ~0u});
    limits.past("dims", o_.dims, RAPT_BAD_DIMS, {0, RAPT_MAX_DIMS + 1, SIZE_MAX});
    limits.past("axis", o_.axis, RAPT_BAD_AXIS, {o_.dims, SIZE_MAX});
    if (!has_work()) return;
    const Statuses too_large = only(RAPT_BAD_SIZE) | only(RAPT_BAD_X_STRIDES) | only(RAPT_BAD_OUT_STRIDES);
    limits.past("shape", o_.shape[0], too_large, {SIZE_MAX, SIZE_MAX / 2 + 1});
    std::size_t long_dims = 0, longest = 0;
    for (std::size_t d = first_; d < 4; ++d) {
      if (sizes_[d] <= 1) continue;
      longest = d - first_;
      ++long_dims;
      limits.add(
          {"x_strides", only(RAPT_BAD_X_STRIDES), [this, longest] { set(o_.x_strides, longest, -1); }});
      limits.add(
          {"x_strides", only(RAPT_BAD_SIZE), [this, longest] { set(o_.x_strides, longest, PTRDIFF_MAX); }});
    }
    if (long_dims == 0) return;
    for (const std::ptrdiff_t stride : {std::ptrdiff_t{-1}, RAPT_REPEAT}) {
      limits.add({"out_strides", only(RAPT_BAD_OUT_STRIDES),
                  [this, longest, stride] { set(o_.out_strides, longest, stride); }});
    }
    if (long_dims > 1) {
      limits.add(
          {"out_strides", only(RAPT_BAD_OUT_STRIDES), [this, longest] { set(o_.out_strides, longest, 1); }});
    } else {
      limits.add({"out_strides", only(RAPT_BAD_SIZE),
                  [this, longest] { set(o_.out_strides, longest, PTRDIFF_MAX); }});
    }
  }

 private:
  // Others are given, so that no 0 means contiguous.
  static void set(std::ptrdiff_t (&strides)[RAPT_MAX_DIMS], std::size_t at, std::ptrdiff_t stride) {
    std::ranges::fill(strides, 1);
    strides[at] = stride;
  }

  const Sizes4 sizes_;
  std::size_t first_ = 0;  // the first dimension of the call
  rapt_scan_options o_{};
  void *x_ = nullptr, *out_ = nullptr;
};

}  // namespace

std::size_t axis_of(const ReduceProblem &problem) {
  return static_cast<std::size_t>(std::countr_zero(problem.mask()));
}
bool is_product(const ReduceProblem &problem) { return problem.operation % 4 == 3; }

std::unique_ptr<Call> make_scan(Element element, const Problem &problem, const Layout &layout) {
  return with_float_type_of(element, [&]<class T>(T) -> std::unique_ptr<Call> {
    return std::make_unique<Scan>(make_operands<T>(Family::reduce, problem).first, problem, layout);
  });
}

}  // namespace rapt::test
