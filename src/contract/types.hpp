// Element types lie in memory; the arithmetic type is what scores, weights, sums and scratch are made of.
#pragma once

namespace rapt {
namespace {

template <class E>
struct ArithmeticOf {
  using type = float;
};
template <>
struct ArithmeticOf<double> {
  using type = double;
};

template <class E>
using Arithmetic = typename ArithmeticOf<E>::type;

// An element as a number of the arithmetic type, and back. A narrower type has overloads of its own.
template <class E>
Arithmetic<E> widened(E x) {
  return x;
}
template <class E>
E narrowed(Arithmetic<E> x) {
  return x;
}

}  // namespace
}  // namespace rapt
