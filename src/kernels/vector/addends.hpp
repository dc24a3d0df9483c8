// Provides the constants that polynomials add, for levels whose fma overwrites its addend.
//
// On such a level each fma needs its own copy of a constant in a register, and the copies occupy the
// arithmetic pipelines. S::reload(p) loads the constant from memory instead, which uses other pipelines.
#pragma once

#include <concepts>
#include <cstddef>

#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"

namespace {

template <class S, class A = typename S::batch::value_type>
concept ReloadsAddends = requires(const A *p) {
  { S::reload(p) } -> std::same_as<typename S::batch>;
};

template <class S>
struct ReloadedAddend {
  typename S::batch value;
  ReloadedAddend() = default;
  RAPT_INNER explicit ReloadedAddend(typename S::batch v) : value(v) {}
  RAPT_INNER operator typename S::batch() const {
    return S::reload(reinterpret_cast<const typename S::batch::value_type *>(&value));
  }
};

// AddendOf<S>::type holds a constant that is known only at run time. It is a register, or memory on levels
// with reload().
template <class S>
struct AddendOf {
  using type = typename S::batch;
};
template <ReloadsAddends S>
struct AddendOf<S> {
  using type = ReloadedAddend<S>;
};
template <class S>
using Addend = typename AddendOf<S>::type;

// Provides the constants of a class C, such as ExpContract<float>, as vectors.
template <class S, class C>
class Addends {
  using batch = typename S::batch;
  using A = typename batch::value_type;

  struct Lanes {
    A one[S::width], round_magic[S::width], c[C::coefficient_count][S::width];
  };
  static constexpr Lanes make_lanes() {
    Lanes lanes{};
    for (std::size_t l = 0; l < S::width; ++l) {
      lanes.one[l] = 1;
      lanes.round_magic[l] = C::round_magic;
      for (std::size_t i = 0; i < C::coefficient_count; ++i) lanes.c[i][l] = C::c[i];
    }
    return lanes;
  }
  alignas(64) static constexpr Lanes lanes = make_lanes();

 public:
  RAPT_INNER static batch one() {
    if constexpr (ReloadsAddends<S>) return S::reload(lanes.one);
    return batch(A(1));
  }
  RAPT_INNER static batch round_magic() {
    if constexpr (ReloadsAddends<S>) return S::reload(lanes.round_magic);
    return batch(C::round_magic);
  }
  RAPT_INNER static batch c(std::size_t i) {
    if constexpr (ReloadsAddends<S>) return S::reload(lanes.c[i]);
    return batch(C::c[i]);
  }
};

}  // namespace
