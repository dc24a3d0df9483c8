// Runs problems of rms_norm, layer_norm and their gradients through the public API.
#pragma once

#include "support/kernel_memory.hpp"

namespace rapt::test {

// Holds the arrays of a norm's options. The gradients of weight and bias begin with those arrays' values.
template <class T>
struct NormArrays {
  std::vector<T> weight, bias;
};

// The arrays depend only on the problem, and are all made, also those that the call does not get.
template <class T>
NormArrays<T> make_norm_arrays(const Problem &problem) {
  Random random(problem.seed ^ 0x6e6f726d73u);
  const NormProblem &wanted = problem.as<NormProblem>();
  NormArrays<T> made;
  for (std::size_t i = 0; i < wanted.cols; ++i) {
    made.weight.push_back(static_cast<T>(static_cast<Number<T>>(wanted.scale * (1 + random.gaussian() / 4))));
    made.bias.push_back(static_cast<T>(static_cast<Number<T>>(random.gaussian())));
  }
  return made;
}

namespace drivers {

enum class NormKind { rms, layer };

// Holds an array of the options, of one row.
template <class T>
Matrix<T> norm_row(std::span<const T> values, const Layout &layout, std::size_t slot) {
  Matrix<T> row(1, values.size(), 0, layout.placement, offset_of<T>(layout, slot));
  row.fill(values);
  return row;
}

template <class T>
void check_norm_row(const Matrix<T> &row, std::span<const T> values, const char *name, Outcome &outcome) {
  if (!row.holds(values) || !row.gaps_intact()) outcome.fault += std::string("wrote to ") + name + "; ";
}

template <class T>
Outcome run_norm(const Problem &problem, const Layout &layout, NormKind kind) {
  const NormProblem &wanted = problem.as<NormProblem>();
  const auto &[x_values, residual_values] = make_operands<T>(Family::norm, problem);
  const NormArrays<T> arrays = make_norm_arrays<T>(problem);
  const GivenRows given(wanted);
  const Input<T> x(given.of(x_values), given.count, given.cols, layout, 0);
  const Input<T> residual(given.of(residual_values), wanted.second ? given.count : 0, given.cols, layout, 1);
  const Output<T> y(given.count, given.cols, layout, stride_of_output(given.cols, layout), &x.matrix());
  const Matrix<T> weight = norm_row<T>(arrays.weight, layout, 1), bias = norm_row<T>(arrays.bias, layout, 2);
  rapt_norm_options o = RAPT_NORM_OPTIONS_INIT;
  o.type = Api<T>::type;
  o.rows = given.count;
  o.cols = given.cols;
  o.x_stride = x.stride();
  o.y_stride = y.stride();
  o.eps = wanted.eps;
  if (wanted.weight) o.weight = weight.data();
  o.weight_plus_one = wanted.weight && wanted.plus_one && kind == NormKind::rms;
  if (wanted.bias && kind == NormKind::layer) o.bias = bias.data();
  if (wanted.second) {
    o.residual = residual.data();
    o.residual_stride = residual.stride();
  }
  Outcome outcome;
  rapt_status status = RAPT_OK;
  call_in_state(layout, outcome, [&] {
    status = (kind == NormKind::rms ? rapt_rms_norm : rapt_layer_norm)(x.data(), y.data(), &o);
  });
  check_status(status, outcome);
  collect(y.matrix(), outcome);
  if (wanted.second) collect(residual.matrix(), outcome);
  if (!y.replaces(x.matrix())) check_input(x, "x", outcome);
  check_norm_row<T>(weight, arrays.weight, "weight", outcome);
  check_norm_row<T>(bias, arrays.bias, "bias", outcome);
  return outcome;
}

template <class T>
Outcome run_norm_backward(const Problem &problem, const Layout &layout, NormKind kind) {
  const NormProblem &wanted = problem.as<NormProblem>();
  const auto &[x_values, dy_values] = make_operands<T>(Family::norm, problem);
  const NormArrays<T> arrays = make_norm_arrays<T>(problem);
  const GivenRows given(wanted);
  const Input<T> x(given.of(x_values), given.count, given.cols, layout, 0);
  const Input<T> dy(given.of(dy_values), given.count, given.cols, layout, 1);
  const Output<T> dx(given.count, given.cols, layout, stride_of_output(given.cols, layout), &x.matrix(),
                     &dy.matrix());
  const Matrix<T> weight = norm_row<T>(arrays.weight, layout, 1),
                  dweight = norm_row<T>(arrays.weight, layout, 2),
                  dbias = norm_row<T>(arrays.bias, layout, 0);
  rapt_norm_backward_options o = RAPT_NORM_BACKWARD_OPTIONS_INIT;
  o.type = Api<T>::type;
  o.rows = given.count;
  o.cols = given.cols;
  o.x_stride = x.stride();
  o.dy_stride = dy.stride();
  o.dx_stride = dx.stride();
  o.eps = wanted.eps;
  if (wanted.weight) o.weight = weight.data();
  o.weight_plus_one = wanted.weight && wanted.plus_one && kind == NormKind::rms;
  if (wanted.bias) o.dweight = dweight.data();
  if (wanted.bias && kind == NormKind::layer) o.dbias = dbias.data();
  o.accumulate = wanted.bias && wanted.second;
  Outcome outcome;
  rapt_status status = RAPT_OK;
  call_in_state(layout, outcome, [&] {
    const auto function = kind == NormKind::rms ? rapt_rms_norm_backward : rapt_layer_norm_backward;
    status = function(x.data(), dy.data(), dx.data(), &o);
  });
  check_status(status, outcome);
  collect(dx.matrix(), outcome);
  if (o.dweight) collect(dweight, outcome);
  if (o.dbias) collect(dbias, outcome);
  if (!o.dweight) check_norm_row<T>(dweight, arrays.weight, "dweight", outcome);
  if (!o.dbias) check_norm_row<T>(dbias, arrays.bias, "dbias", outcome);
  if (!dx.replaces(x.matrix())) check_input(x, "x", outcome);
  if (!dx.replaces(dy.matrix())) check_input(dy, "dy", outcome);
  check_norm_row<T>(weight, arrays.weight, "weight", outcome);
  return outcome;
}

template <class T>
struct RmsNorm {
  static constexpr Family family = Family::norm;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_norm<T>(problem, layout, NormKind::rms);
  }
};

template <class T>
struct LayerNorm {
  static constexpr Family family = Family::norm;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_norm<T>(problem, layout, NormKind::layer);
  }
};

template <class T>
struct RmsNormBackward {
  static constexpr Family family = Family::norm;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_norm_backward<T>(problem, layout, NormKind::rms);
  }
};

template <class T>
struct LayerNormBackward {
  static constexpr Family family = Family::norm;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_norm_backward<T>(problem, layout, NormKind::layer);
  }
};

}  // namespace drivers
}  // namespace rapt::test
