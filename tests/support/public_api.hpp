// rapt.h's functions by element type, so that f32 and f64 share every test.
#pragma once

#include "rapt/rapt.h"

namespace rapt::test {

template <class T>
struct Api;

template <>
struct Api<float> {
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
  static constexpr auto attention = rapt_attention_f32;
  static constexpr auto attention_workspace = rapt_attention_workspace_f32;
  static constexpr auto attention_run = rapt_attention_run_f32;
  static constexpr auto attention_partial = rapt_attention_partial_f32;
  static constexpr auto attention_merge = rapt_attention_merge_f32;
  static constexpr auto attention_pack_keys = rapt_attention_pack_keys_f32;
  static constexpr auto attention_backward = rapt_attention_backward_f32;
  static constexpr auto attention_backward_run = rapt_attention_backward_run_f32;
  static constexpr auto attention_backward_workspace = rapt_attention_backward_workspace_f32;
};

template <>
struct Api<double> {
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
  static constexpr auto attention = rapt_attention_f64;
  static constexpr auto attention_workspace = rapt_attention_workspace_f64;
  static constexpr auto attention_run = rapt_attention_run_f64;
  static constexpr auto attention_partial = rapt_attention_partial_f64;
  static constexpr auto attention_merge = rapt_attention_merge_f64;
  static constexpr auto attention_pack_keys = rapt_attention_pack_keys_f64;
  static constexpr auto attention_backward = rapt_attention_backward_f64;
  static constexpr auto attention_backward_run = rapt_attention_backward_run_f64;
  static constexpr auto attention_backward_workspace = rapt_attention_backward_workspace_f64;
};

}  // namespace rapt::test
