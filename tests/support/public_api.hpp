// rapt.h's functions by element type, so that f32 and f64 share every test.
#pragma once

#include "rapt/rapt.h"

namespace rapt::test {

template <class T>
struct Api;

template <>
struct Api<float> {
  static constexpr rapt_type type = RAPT_F32;
  static constexpr const char *element = "f32";
  static constexpr auto dot = rapt_dot_f32;
  static constexpr auto dot_rows = rapt_dot_rows_f32;
  static constexpr auto scale = rapt_scale_f32;
  static constexpr auto exp = rapt_exp_f32;
  static constexpr auto exp_sum = rapt_exp_sum_f32;
  static constexpr auto softmax = rapt_softmax_f32;
  static constexpr auto log_softmax = rapt_log_softmax_f32;
  static constexpr auto logsumexp = rapt_logsumexp_f32;
  static constexpr auto softmax_backward = rapt_softmax_backward_f32;
};

template <>
struct Api<double> {
  static constexpr rapt_type type = RAPT_F64;
  static constexpr const char *element = "f64";
  static constexpr auto dot = rapt_dot_f64;
  static constexpr auto dot_rows = rapt_dot_rows_f64;
  static constexpr auto scale = rapt_scale_f64;
  static constexpr auto exp = rapt_exp_f64;
  static constexpr auto exp_sum = rapt_exp_sum_f64;
  static constexpr auto softmax = rapt_softmax_f64;
  static constexpr auto log_softmax = rapt_log_softmax_f64;
  static constexpr auto logsumexp = rapt_logsumexp_f64;
  static constexpr auto softmax_backward = rapt_softmax_backward_f64;
};

// RAPT_ATTENTION_OPTIONS_INIT for elements of T.
template <class T>
rapt_attention_options attention_options() {
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_type = Api<T>::type;
  return options;
}

}  // namespace rapt::test
