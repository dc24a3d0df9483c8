#include "support/quantized_case.hpp"

#include <type_traits>
#include <vector>

#include "support/linear_calls.hpp"
#include "support/quantized_data.hpp"

namespace rapt::test {
namespace {

template <class E>
constexpr rapt_type type_of() {
  if constexpr (std::is_same_v<E, std::int8_t>) {
    return RAPT_I8;
  } else {
    return Api<E>::type;
  }
}

// 4-bit weights have half as many bytes in a row as inputs, and rows are contiguous.
MatrixOrder order_of_w(const QuantizedProblem &problem, const Layout &layout) {
  return problem.weights == WeightType::i8 ? layout.linear.w_order : MatrixOrder::rows;
}
std::size_t w_cols_of(const QuantizedProblem &problem) {
  return problem.weights == WeightType::i8 ? problem.cols : (problem.cols + 1) / 2;
}

template <class X, class Y, class Scale>
class QuantizedRun : public LinearCalls<QuantizedRun<X, Y, Scale>, X, std::uint8_t, Y, float> {
  using Base = LinearCalls<QuantizedRun<X, Y, Scale>, X, std::uint8_t, Y, float>;
  friend Base;
  using Base::how_, Base::random_, Base::rows_of, Base::x_list_, Base::y_, Base::y_list_;

 public:
  QuantizedRun(const Problem &problem, const Layout &layout, rapt_arithmetic arithmetic)
      : QuantizedRun(problem, problem.as<QuantizedProblem>(), layout, arithmetic) {}

 private:
  QuantizedRun(const Problem &all, const QuantizedProblem &problem, const Layout &layout,
               rapt_arithmetic arithmetic)
      : Base(problem, problem.outputs, w_cols_of(problem), order_of_w(problem, layout), layout, all.seed),
        problem_(problem),
        numbers_(make_quantized(all)),
        arithmetic_(arithmetic) {
    if constexpr (std::is_same_v<X, std::int8_t>) {
      const std::vector<float> xq(numbers_.xq.begin(), numbers_.xq.end());
      this->x_.fill(x_list_.template in_memory<X>(rows_of(xq, problem_.cols), problem_.cols));
      x_scales_.set(
          x_list_.template in_memory<float>(rows_of(numbers_.x_scales, numbers_.x_groups), numbers_.x_groups),
          layout);
    } else {
      this->x_.fill(x_list_.template in_memory<X>(rows_of(numbers_.x, problem_.cols), problem_.cols));
    }
    std::vector<std::uint8_t> bytes;
    for (std::size_t n = 0; n < problem_.outputs; ++n) {
      const auto row =
          stored_integers(problem_.weights, std::span(numbers_.q).subspan(n * problem_.cols, problem_.cols));
      bytes.insert(bytes.end(), row.begin(), row.end());
    }
    this->w_.fill(bytes);
    scales_.set(Base::template elements<Scale>(numbers_.scales), layout);
    offsets_.set(Base::template elements<Scale>(numbers_.offsets), layout);
    zeros_.set(numbers_.zeros, layout);
    codebook_.set(numbers_.codebook, layout);
    this->place(numbers_.bias, numbers_.row_scales);
    if (problem_.add)
      y_.fill(y_list_.template in_memory<Y>(rows_of(numbers_.add, problem_.outputs), problem_.outputs));
  }

  rapt_linear_options options_of(std::size_t first, std::size_t end, bool with_weights) {
    rapt_linear_options o{};
    const bool is_short = random_.one_in(2);  // leaves out what has a default
    this->set_layer(first, end, is_short, with_weights, o);
    o.x_type = is_short && std::is_same_v<X, float> ? RAPT_TYPE_DEFAULT : type_of<X>();
    constexpr rapt_type types[] = {RAPT_I8, RAPT_I4, RAPT_U4};
    o.w_type = types[static_cast<int>(problem_.weights)];
    const bool is_default_y =
        std::is_same_v<X, Y> || (std::is_same_v<X, std::int8_t> && std::is_same_v<Y, float>);
    o.y_type = is_short && is_default_y ? RAPT_TYPE_DEFAULT : Api<Y>::type;
    const rapt_arithmetic by_default =
        std::is_same_v<X, std::int8_t> ? RAPT_ARITHMETIC_I8 : RAPT_ARITHMETIC_F32;
    if (!is_short || arithmetic_ != by_default) o.arithmetic = arithmetic_;
    o.scale_group = problem_.scale_group;
    if (arithmetic_ == RAPT_ARITHMETIC_I8) o.x_group = x_group_option(problem_);
    o.x_scales = x_scales_.from(how_.x_rows ? 0 : first * numbers_.x_groups);
    if (problem_.add) {
      o.add = y_.row(how_.y_rows ? 0 : first);
      if (!is_short) o.add_type = Api<Y>::type;
      if (o.y_stride != 0 || !is_short) o.add_stride = y_.stride();
    }
    if (!with_weights) return o;
    o.w_scales = scales_.data();
    o.w_offsets = offsets_.data();
    o.w_zeros = zeros_.data();
    o.w_codebook = codebook_.data();
    const bool has_type = o.w_scales || o.w_offsets;
    if (has_type && (!is_short || !std::is_same_v<Scale, float>)) o.w_scale_type = Api<Scale>::type;
    return o;
  }
  rapt_linear_options part_of(rapt_linear_options o, std::size_t first) const {
    o.w_scales = scales_.from(first * numbers_.groups);
    o.w_offsets = offsets_.from(first * numbers_.groups);
    o.w_zeros = zeros_.from(first * numbers_.groups);
    return o;
  }
  void check_arrays() {
    this->fault_unless(
        scales_.intact() && offsets_.intact() && zeros_.intact() && codebook_.intact() && x_scales_.intact(),
        "to the scales, offsets, zeros or codebook");
  }

  const QuantizedProblem &problem_;
  const QuantizedNumbers &numbers_;
  rapt_arithmetic arithmetic_;
  Array<Scale> scales_, offsets_;
  Array<std::uint8_t> zeros_;
  Array<float> codebook_, x_scales_;
};

}  // namespace

Outcome run_quantized_linear(const Problem &problem, const Layout &layout, rapt_arithmetic arithmetic) {
  const QuantizedProblem &of = problem.as<QuantizedProblem>();
  const bool in_i8 = arithmetic == RAPT_ARITHMETIC_I8;
  if ((in_i8 && of.codebook) || (!in_i8 && (has_x_of_i8(of.types) || of.x_group != XGroup::as_weights))) {
    Outcome outcome;
    outcome.fault = "this problem is another kernel's; ";
    return outcome;
  }
  return with_quantized_types(of.types, [&]<class X, class Y, class Scale>(TypesOfQuantized<X, Y, Scale>) {
    return QuantizedRun<X, Y, Scale>(problem, layout, arithmetic).run();
  });
}

}  // namespace rapt::test
