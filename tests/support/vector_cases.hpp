// Runs problems of dot, dot_rows, scale, exp, exp_sum, activations and their gradients, argmax and conversions
// through the public API.
#pragma once

#include "contract/activation_list.hpp"
#include "support/kernel_memory.hpp"

namespace rapt::test::drivers {

template <class T>
struct Dot {
  static constexpr Family family = Family::two_vectors;

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto &[a_values, values] = make_operands<T>(family, problem);
    const std::vector<Factor<T>> b_values = as_factors(values);
    const std::size_t n = problem.cols();
    const Input<T> a(a_values, 1, n, layout, 0);
    const Input<Factor<T>> b(b_values, 1, n, layout, 1);
    Outcome outcome;
    ProductSum<T> result = 0;
    call_in_state(layout, outcome, [&] { result = Api<T>::dot(a.data(), b.data(), n); });
    if constexpr (std::is_integral_v<T>) {
      outcome.bits.push_back(static_cast<std::uint64_t>(result));
    } else {
      outcome.bits.push_back(canonical_bits(result));
    }
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
    const auto &[query_values, values] = make_operands<T>(family, problem);
    const std::vector<Factor<T>> row_values = as_factors(values);
    const GivenRows given(wanted);
    const std::ptrdiff_t step = static_cast<std::ptrdiff_t>(given.cols) + layout.gap[1];
    const std::ptrdiff_t stride = wanted.same_row ? 0 : layout.reversed ? -step : step;
    const Input<T> query(query_values, 1, given.cols, layout, 0);
    const Input<Factor<T>> rows(given.of(row_values), given.count, given.cols, layout, 1, stride);
    const Output<Number<T>> out(given.count, 1, layout, 1);
    const auto scale = static_cast<Number<T>>(wanted.scale);
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

// Computes y = function(x) over a vector, using call(x, y, n). It can run in place only if T and Out are the
// same type.
template <class T, class Out = T, class Call>
Outcome run_map(const Problem &problem, const Layout &layout, Call &&call) {
  const auto &values = make_operands<T>(Family::vector, problem).first;
  const std::size_t n = values.size(), copies = copies_of(layout, n * sizeof(Out));
  const auto stride = static_cast<std::ptrdiff_t>(n);
  const Input<T> x(values, copies, n, layout, 0, stride);
  const Matrix<Out> *in_place = nullptr;
  if constexpr (std::is_same_v<T, Out>) in_place = &x.matrix();
  const Output<Out> y(copies, n, layout, stride, in_place);
  Outcome outcome;
  call_in_state(layout, outcome, [&] { call(x.data(), y.data(), n * copies); });
  collect(y.matrix(), outcome, copies);
  if (!in_place || !y.replaces(*in_place)) check_input(x, "x", outcome);
  return outcome;
}

template <class T>
struct Scale {
  static constexpr Family family = Family::vector;

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto factor = static_cast<Number<T>>(problem.as<VectorProblem>().scale);
    return run_map<T>(problem, layout,
                      [&](const T *x, T *y, std::size_t n) { Api<T>::scale(x, factor, y, n); });
  }
};

template <class T>
struct ToF32 {
  static constexpr Family family = Family::vector;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_map<T, float>(problem, layout, Api<T>::to_f32);
  }
};

template <class T>
struct FromF32 {
  static constexpr Family family = Family::vector;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_map<float, T>(problem, layout, Api<T>::from_f32);
  }
};

// Runs a function that has no argument but x, y and n.
template <class T, auto function>
struct MapCase {
  static constexpr Family family = Family::vector;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_map<T>(problem, layout, function);
  }
};
template <class T>
using Exp = MapCase<T, Api<T>::exp>;
template <class T>
using Silu = MapCase<T, Api<T>::silu>;
template <class T>
using Gelu = MapCase<T, Api<T>::gelu>;
template <class T>
using GeluTanh = MapCase<T, Api<T>::gelu_tanh>;

// Runs a function of two arrays, whose output may be in place of either.
template <class T, class Call>
Outcome run_two(const Problem &problem, const Layout &layout, Call &&call) {
  const auto &[a_values, b_values] = make_operands<T>(Family::two_vectors, problem);
  const std::size_t n = problem.cols();
  const Input<T> a(a_values, 1, n, layout, 0), b(b_values, 1, n, layout, 1);
  const Output<T> y(1, n, layout, static_cast<std::ptrdiff_t>(n), &a.matrix(), &b.matrix());
  Outcome outcome;
  rapt_status status = RAPT_OK;
  call_in_state(layout, outcome, [&] { status = call(a.data(), b.data(), y.data(), n); });
  check_status(status, outcome);
  collect(y.matrix(), outcome);
  if (!y.replaces(a.matrix())) check_input(a, "the first input", outcome);
  if (!y.replaces(b.matrix())) check_input(b, "the second input", outcome);
  return outcome;
}

template <class T, auto function>
struct GradientCase {
  static constexpr Family family = Family::two_vectors;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_two<T>(problem, layout, [](const T *x, const T *dy, T *dx, std::size_t n) {
      function(x, dy, dx, n);
      return RAPT_OK;
    });
  }
};
template <class T>
using SiluBackward = GradientCase<T, Api<T>::silu_backward>;
template <class T>
using GeluBackward = GradientCase<T, Api<T>::gelu_backward>;
template <class T>
using GeluTanhBackward = GradientCase<T, Api<T>::gelu_tanh_backward>;

// A problem's seed chooses the activation.
template <class T>
rapt_gated_options gated_options(const Problem &problem) {
  return gated_row<T>(activations[problem.seed % activation_count], problem.cols());
}

template <class T>
struct Gated {
  static constexpr Family family = Family::two_vectors;

  static Outcome run(const Problem &problem, const Layout &layout) {
    const rapt_gated_options options = gated_options<T>(problem);
    return run_two<T>(problem, layout, [&](const T *gate, const T *up, T *y, std::size_t) {
      return rapt_gated(gate, up, y, &options);
    });
  }
};

// The second vector is both up and dy. dgate is in place of gate, where an alias is asked for.
template <class T>
struct GatedBackward {
  static constexpr Family family = Family::two_vectors;

  static Outcome run(const Problem &problem, const Layout &layout) {
    const rapt_gated_options options = gated_options<T>(problem);
    const auto &[a_values, b_values] = make_operands<T>(family, problem);
    const std::size_t n = problem.cols();
    const auto stride = static_cast<std::ptrdiff_t>(n);
    const Input<T> gate(a_values, 1, n, layout, 0), up(b_values, 1, n, layout, 1),
        dy(b_values, 1, n, layout, 1);
    const Output<T> dgate(1, n, layout, stride, &gate.matrix(), &gate.matrix());
    const Output<T> dup(1, n, layout, stride, &up.matrix(), &up.matrix());
    Outcome outcome;
    rapt_status status = RAPT_OK;
    call_in_state(layout, outcome, [&] {
      status = rapt_gated_backward(gate.data(), up.data(), dy.data(), dgate.data(), dup.data(), &options);
    });
    check_status(status, outcome);
    collect(dgate.matrix(), outcome);
    collect(dup.matrix(), outcome);
    if (!dgate.replaces(gate.matrix())) check_input(gate, "gate", outcome);
    if (!dup.replaces(up.matrix())) check_input(up, "up", outcome);
    check_input(dy, "dy", outcome);
    return outcome;
  }
};

template <class T>
struct Argmax {
  static constexpr Family family = Family::vector;

  static Outcome run(const Problem &problem, const Layout &layout) {
    const auto &values = make_operands<T>(family, problem).first;
    const Input<T> x(values, 1, values.size(), layout, 0);
    Outcome outcome;
    std::size_t index = 0;
    call_in_state(layout, outcome, [&] { index = Api<T>::argmax(x.data(), values.size()); });
    outcome.bits.push_back(index);
    check_input(x, "x", outcome);
    return outcome;
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

}  // namespace rapt::test::drivers
