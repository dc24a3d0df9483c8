// Defines the tables of kernels, which are made from kernels.def.
#pragma once

#include <cstddef>
#include <type_traits>

#include "call/softmax_rows.hpp"
#include "contract/no_fast_math.hpp"
#include "contract/types.hpp"

namespace rapt {

struct AttentionCall;

// Holds the kernels for elements E, computed in A.
template <class E, class A = Arithmetic<E>, class Sum = ProductSum<E>, class Factor = FactorOf<E>>
struct Operations {
#define OPERATION(family, name, result, parameters, elements) result(*name) parameters = nullptr;
#include "kernels/kernels.def"
};

// A kernel is null if the level lacks it, and the level that it builds on has it.
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

// Says which element types the operations of a row of kernels.def have.
template <class E>
struct HasOperations {
  static constexpr bool halves = sizeof(E) == 2, all = true;
  static constexpr bool floats = sizeof(E) >= 4, all_floats = floats || halves;
  static constexpr bool keys = all_floats || std::is_same_v<E, std::int8_t>;
  static constexpr bool from_halves = halves, to_halves = halves;
  static constexpr bool bf16_alone = std::is_same_v<E, BF16>;
};

}  // namespace rapt
