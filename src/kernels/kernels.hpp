// Defines the table of function pointers to the kernels that kernels.def lists.
#pragma once

#include <cstddef>
#include <type_traits>

#include "call/softmax_rows.hpp"
#include "contract/metric.hpp"
#include "contract/no_fast_math.hpp"
#include "contract/types.hpp"

namespace rapt {

struct AttentionCall;
struct LinearCall;
struct QuantizeCall;
struct DequantizeCall;
struct MetricRows;
struct ReduceCall;
struct ScanCall;
struct DeltaCall;
struct DeltaBackwardCall;
struct RopeCall;
struct NormCall;
struct NormBackwardCall;
struct SoftmaxGradient;
struct AdamwCall;
struct SgdCall;
struct RandomCall;
struct TapSums;

// Holds one pointer per row of kernels.def, for elements of type E. A is the type of the arithmetic.
template <class E, class A = Arithmetic<E>, class Sum = ProductSum<E>, class Factor = FactorOf<E>>
struct Operations {
#define OPERATION(family, name, result, parameters, elements) result(*name) parameters = nullptr;
#include "kernels/kernels.def"
};

// A null pointer means that the instruction-set level takes the kernel from the level that it extends.
struct KernelTable {
  Operations<float> f32 = {};
  Operations<double> f64 = {};
  Operations<F16> f16 = {};
  Operations<BF16> bf16 = {};
  Operations<std::int8_t> i8 = {};
  Operations<std::uint8_t> u8i8 = {};

  template <class E>
  const Operations<E> &of() const {
    if constexpr (std::is_same_v<E, double>) {
      return f64;
    } else if constexpr (std::is_same_v<E, F16>) {
      return f16;
    } else if constexpr (std::is_same_v<E, BF16>) {
      return bf16;
    } else if constexpr (std::is_same_v<E, std::int8_t>) {
      return i8;
    } else if constexpr (std::is_same_v<E, std::uint8_t>) {
      return u8i8;
    } else {
      return f32;
    }
  }
};

// Defines the element sets of the last column of kernels.def. A member is true if the set contains E.
template <class E>
struct HasOperations {
  static constexpr bool halves = sizeof(E) == 2, all = true;
  static constexpr bool floats = sizeof(E) >= 4, all_floats = floats || halves;
  static constexpr bool keys = all_floats || std::is_same_v<E, std::int8_t>;
  static constexpr bool from_halves = halves, to_halves = halves;
  static constexpr bool f32_alone = std::is_same_v<E, float>;
  static constexpr bool bf16_alone = std::is_same_v<E, BF16>, i8_alone = std::is_same_v<E, std::int8_t>;
};

}  // namespace rapt
