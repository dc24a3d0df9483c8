// The tables of kernels, made from kernels.def.
#pragma once

#include <cstddef>
#include <type_traits>

#include "contract/no_fast_math.hpp"
#include "rapt/rapt.h"

namespace rapt {

// A batch of rows for softmax, log_softmax and logsumexp: the arguments that the public functions share,
// checked, with every default of the options resolved. Strides of 0 repeat; causal is none or an offset.
struct SoftmaxRows {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::ptrdiff_t x_stride = 0;
  std::ptrdiff_t y_stride = 0;  // not read by logsumexp
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
};

struct AttentionCall;

// The kernels for elements E, computed in A.
template <class E, class A = std::conditional_t<std::is_same_v<E, double>, double, float>>
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
