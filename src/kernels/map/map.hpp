// Computes the functions of rapt_map over arrays: one loop a function, which maps four vectors a step.
//
// The last elements go through a buffer, so that each function exists once: the code of all functions is a twentieth
// of the library. A step of less than four vectors takes as long as a whole one, since its operations wait for each
// other.
#pragma once

#include <cstddef>

#include "contract/types.hpp"
#include "kernels/map/in_arithmetic_type.hpp"
#include "kernels/map/in_double.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"
#include "rapt/rapt.h"

namespace {

// Loads and stores `registers` vectors of what F computes in.
template <class A, class F>
struct MapStep {
  static constexpr bool widens = F::in_double && sizeof(A) == sizeof(float);
  static constexpr std::size_t registers = 4, loads = widens ? registers / 2 : registers;
  static constexpr std::size_t length = loads * simd<A>::width;
  using S = simd<A>;
  using batch = typename simd<std::conditional_t<widens, double, A>>::batch;

  RAPT_INNER static void load(const A *p, batch (&v)[registers]) {
    unroll<loads>([&](std::size_t i) RAPT_INNER {
      const auto from = S::load(p + i * S::width);
      if constexpr (widens) {
        v[2 * i] = S::template widened<0>(from);
        v[2 * i + 1] = S::template widened<1>(from);
      } else {
        v[i] = from;
      }
    });
  }
  RAPT_INNER static void store(A *p, const batch (&v)[registers]) {
    unroll<loads>([&](std::size_t i) RAPT_INNER {
      if constexpr (widens) {
        S::store(p + i * S::width, S::narrowed(v[2 * i], v[2 * i + 1]));
      } else {
        S::store(p + i * S::width, v[i]);
      }
    });
  }
  template <std::size_t inputs>
  RAPT_INNER static void run(const F &f, const A *const (&from)[inputs], A *to) {
    batch x[registers];
    load(from[0], x);
    if constexpr (inputs == 1) {
      f(x);
    } else {
      batch y[registers];
      load(from[1], y);
      if constexpr (inputs == 2) {
        f(x, y);
      } else {
        batch z[registers];
        load(from[2], z);
        f(x, y, z);
      }
    }
    store(to, x);
  }
};

// An F that is made of the parameters, if it has any.
template <class F, class A>
struct MapFunction : F {
  RAPT_INNER explicit MapFunction(const A *parameters) requires requires { F(parameters); } : F(parameters) {
  }
  RAPT_INNER explicit MapFunction(const A *) {}
};

template <class A, class F, std::size_t inputs>
[[gnu::flatten, gnu::noinline]] void map_of(const A *const *arrays, A *out, const A *parameters,
                                            std::size_t n) {
  using Step = MapStep<A, F>;
  const MapFunction<F, A> f(parameters);
  alignas(64) A rest[inputs][Step::length];
  const A *from[inputs];
  for (std::size_t input = 0; input < inputs; ++input) from[input] = arrays[input];
  for (; n >= Step::length; n -= Step::length) {
    Step::run(f, from, out);
    for (std::size_t input = 0; input < inputs; ++input) from[input] += Step::length;
    out += Step::length;
  }
  if (n == 0) return;
  for (std::size_t input = 0; input < inputs; ++input) {
    for (std::size_t i = 0; i < Step::length; ++i) rest[input][i] = i < n ? from[input][i] : A(1);
    from[input] = rest[input];
  }
  Step::run(f, from, rest[0]);
  for (std::size_t i = 0; i < n; ++i) out[i] = rest[0][i];
}

// Names what a row of contract/maps.def calls its class.
template <class A>
struct MapClasses {
  template <class F>
  using Formula = EachVector<F>;
  using F = Formulas<A>;
  using SquareRoot = Formula<typename F::SquareRoot>;
  using ReciprocalSquareRoot = Formula<typename F::ReciprocalSquareRoot>;
  using Reciprocal = Formula<typename F::Reciprocal>;
  using PowerOf2 = ::PowerOf2<A>;
  using ExpMinus1 = ::ExpMinus1<A>;
  using NaturalLog = ::NaturalLog<A>;
  using LogBase2 = ::LogBase2<A>;
  using LogOf1Plus = ::LogOf1Plus<A>;
  using Sine = ::Sine<A>;
  using Cosine = ::Cosine<A>;
  using Tangent = ::Tangent<A>;
  using HyperbolicTangent = ::HyperbolicTangent<A>;
  using ErrorFunction = ::ErrorFunction<A>;
  using Logistic = ::Logistic<A>;
  using LogSigmoid = ::LogSigmoid<A>;
  using Softplus = ::Softplus<A>;
  using Mish = ::Mish<A>;
  using Elu = ::Elu<A>;
  using HardSigmoid = Formula<typename F::HardSigmoid>;
  using HardSwish = Formula<typename F::HardSwish>;
  using Clamp = Formula<typename F::Clamp>;
  using Add = Formula<typename F::Add>;
  using Subtract = Formula<typename F::Subtract>;
  using Multiply = Formula<typename F::Multiply>;
  using Divide = Formula<typename F::Divide>;
  using AddScaled = Formula<typename F::AddScaled>;
  using Power = ::Power<A>;
  using Arctangent = ::Arctangent<A>;
  using FusedMultiplyAdd = Formula<typename F::FusedMultiplyAdd>;
  using AddProduct = Formula<typename F::AddProduct>;
  using AddQuotient = Formula<typename F::AddQuotient>;
  using Interpolate = Formula<typename F::Interpolate>;
  using InterpolateAt = Formula<typename F::InterpolateAt>;
  using ErfBackward = ::ErfBackward<A>;
  using SigmoidBackward = Formula<typename F::SigmoidBackward>;
  using TanhBackward = Formula<typename F::TanhBackward>;
  using LogSigmoidBackward = ::LogSigmoidBackward<A>;
  using SoftplusBackward = ::SoftplusBackward<A>;
  using MishBackward = ::MishBackward<A>;
  using EluBackward = ::EluBackward<A>;
  using HardSigmoidBackward = Formula<typename F::HardSigmoidBackward>;
  using HardSwishBackward = Formula<typename F::HardSwishBackward>;
  using ClampBackward = Formula<typename F::ClampBackward>;
};

template <class A>
void map(rapt_map_function function, const A *x, const A *y, const A *z, A *out, const A *parameters,
         std::size_t n) {
  using Classes = MapClasses<A>;
  const A *const arrays[] = {x, y, z};
  switch (function) {
#define MAP(name, Class, number, inputs, parameter_count) \
  case number:                                            \
    return map_of<A, typename Classes::Class, inputs>(arrays, out, parameters, n);
#include "contract/maps.def"
    default:
      __builtin_unreachable();
  }
}

}  // namespace
