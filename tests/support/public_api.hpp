// Selects the functions of rapt.h by element type, so that all types share their tests.
#pragma once

#include <cstdint>
#include <type_traits>

#include "rapt/rapt.h"
#include "support/elements.hpp"

namespace rapt::test {

// A function of rapt.h whose elements are of type E. The 16-bit types are uint16_t in rapt.h.
template <class E, auto function>
struct Over;
template <class E, class Result, class... T, Result (*function)(T...)>
struct Over<E, function> {
  template <class P>
  using Given =
      std::conditional_t<std::is_same_v<P, std::uint16_t *>, E *,
                         std::conditional_t<std::is_same_v<P, const std::uint16_t *>, const E *, P>>;

  static Result call(Given<T>... given) { return function(as<T>(given)...); }

 private:
  template <class P>
  static P as(Given<P> given) {
    if constexpr (std::is_same_v<P, Given<P>>) {
      return given;
    } else {
      return reinterpret_cast<P>(given);
    }
  }
};

// The functions for all types of floating-point elements, and those that f32 and f64 have beside.
#define RAPT_OF_ALL_FLOATS(FUNCTION) \
  FUNCTION(dot)                      \
  FUNCTION(dot_rows)                 \
  FUNCTION(scale)                    \
  FUNCTION(silu)                     \
  FUNCTION(gelu)                     \
  FUNCTION(gelu_tanh)                \
  FUNCTION(argmax)                   \
  FUNCTION(silu_backward)            \
  FUNCTION(gelu_backward)            \
  FUNCTION(gelu_tanh_backward)       \
  FUNCTION(softmax)                  \
  FUNCTION(log_softmax)              \
  FUNCTION(softmax_backward)         \
  FUNCTION(log_softmax_backward)
#define RAPT_OF_FLOATS(FUNCTION) \
  RAPT_OF_ALL_FLOATS(FUNCTION)   \
  FUNCTION(exp)                  \
  FUNCTION(exp_sum)              \
  FUNCTION(logsumexp)

template <class T>
struct Api;

template <>
struct Api<float> {
  static constexpr rapt_type type = RAPT_F32;
  static constexpr const char *element = "f32";
#define FUNCTION(name) static constexpr auto name = rapt_##name##_f32;
  RAPT_OF_FLOATS(FUNCTION)
#undef FUNCTION
};

template <>
struct Api<double> {
  static constexpr rapt_type type = RAPT_F64;
  static constexpr const char *element = "f64";
#define FUNCTION(name) static constexpr auto name = rapt_##name##_f64;
  RAPT_OF_FLOATS(FUNCTION)
#undef FUNCTION
};

template <>
struct Api<F16> {
  static constexpr rapt_type type = RAPT_F16;
  static constexpr const char *element = "f16";
#define FUNCTION(name) static constexpr auto name = Over<F16, rapt_##name##_f16>::call;
  RAPT_OF_ALL_FLOATS(FUNCTION)
#undef FUNCTION
  static constexpr auto to_f32 = Over<F16, rapt_convert_f16_to_f32>::call;
  static constexpr auto from_f32 = Over<F16, rapt_convert_f32_to_f16>::call;
};

template <>
struct Api<BF16> {
  static constexpr rapt_type type = RAPT_BF16;
  static constexpr const char *element = "bf16";
#define FUNCTION(name) static constexpr auto name = Over<BF16, rapt_##name##_bf16>::call;
  RAPT_OF_ALL_FLOATS(FUNCTION)
#undef FUNCTION
  static constexpr auto to_f32 = Over<BF16, rapt_convert_bf16_to_f32>::call;
  static constexpr auto from_f32 = Over<BF16, rapt_convert_f32_to_bf16>::call;
};

template <>
struct Api<std::int8_t> {
  static constexpr rapt_type type = RAPT_I8;
  static constexpr const char *element = "i8";
  static constexpr auto dot = rapt_dot_i8;
  static constexpr auto dot_rows = rapt_dot_rows_i8;
};
template <>
struct Api<std::uint8_t> {
  static constexpr const char *element = "u8i8";
  static constexpr auto dot = rapt_dot_u8i8;
  static constexpr auto dot_rows = rapt_dot_rows_u8i8;
};

// Returns RAPT_ATTENTION_OPTIONS_INIT with the types and the arithmetic for keys and values of type T.
template <class T>
rapt_attention_options attention_options() {
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_type = Api<QueryOf<T>>::type;
  if constexpr (has_scales<T>) options.kv_type = Api<T>::type;
  if (options.q_type == RAPT_BF16) options.arithmetic = RAPT_ARITHMETIC_F32;
  return options;
}

// The options of gated for one row of n elements.
template <class T>
rapt_gated_options gated_row(int activation, std::size_t n) {
  rapt_gated_options options = RAPT_GATED_OPTIONS_INIT;
  options.type = Api<T>::type;
  options.activation = activation;
  options.rows = 1;
  options.cols = n;
  return options;
}

}  // namespace rapt::test
