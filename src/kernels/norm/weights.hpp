// Reads the weights and biases of a norm. Those that are not given cost nothing.
#pragma once

#include <cstddef>
#include <type_traits>

#include "contract/types.hpp"
#include "kernels/norm/whole_or_first.hpp"
#include "kernels/vector/inner.hpp"

namespace {

enum class Weight { none, plain, plus_one };

// Multiplies by the weight of a vector's elements.
template <class E, Weight form>
struct Weights {
  static constexpr bool is_given = form != Weight::none;
  const E *weight;

  template <class Part, class V>
  RAPT_INNER V times(Part part, std::size_t i, V v) const {
    if constexpr (form == Weight::none) {
      return v;
    } else {
      return v * load<V>(part, i);
    }
  }
  template <class V, class Part>
  RAPT_INNER V load(Part part, std::size_t i) const {
    const V w = part.load(weight + i);
    if constexpr (form == Weight::plus_one) return w + V(1);
    return w;
  }
};

// Calls f(Weights<E, form>) for the form that the options have.
template <class E, class Options, class F>
RAPT_INNER inline void with_weights(const Options &o, F f) {
  const E *weight = static_cast<const E *>(o.weight);
  if (!weight) {
    f(Weights<E, Weight::none>{weight});
  } else if (o.weight_plus_one) {
    f(Weights<E, Weight::plus_one>{weight});
  } else {
    f(Weights<E, Weight::plain>{weight});
  }
}

}  // namespace
