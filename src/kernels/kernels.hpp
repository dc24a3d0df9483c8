// The tables of kernels, made from kernels.def.
#pragma once

#include <cstddef>
#include <type_traits>

#include "call/softmax_rows.hpp"
#include "contract/no_fast_math.hpp"
#include "contract/types.hpp"

namespace rapt {

struct AttentionCall;

// The kernels for elements E, computed in A.
template <class E, class A = Arithmetic<E>>
struct Operations {
#define OPERATION(family, name, result, parameters, elements) result(*name) parameters = nullptr;
#include "kernels/kernels.def"
};

// Null where a level lacks a kernel and the level that it builds on serves.
struct KernelTable {
  Operations<float> f32 = {};
  Operations<double> f64 = {};

  template <class E>
  const Operations<E> &of() const {
    if constexpr (std::is_same_v<E, double>) {
      return f64;
    } else {
      return f32;
    }
  }
};

}  // namespace rapt
