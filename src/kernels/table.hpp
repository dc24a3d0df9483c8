// The table of a level that has every kernel: included after the bodies, the shared ones or the reference's,
// as they carry the same names. A level with a body of its own for a kernel, or without one, changes the
// entry in its table.
#pragma once

#include "kernels/attention/entries.hpp"
#include "kernels/kernels.hpp"

namespace {

constexpr rapt::KernelTable all_kernels() {
  return {
      .dot_f32 = dot<float>,
      .dot_f64 = dot<double>,
      .dot_rows_f32 = dot_rows<float>,
      .dot_rows_f64 = dot_rows<double>,
      .scale_f32 = scale_by<float>,
      .scale_f64 = scale_by<double>,
      .exp_f32 = exp_all<float>,
      .exp_f64 = exp_all<double>,
      .exp_sum_f32 = exp_sum<float>,
      .exp_sum_f64 = exp_sum<double>,
      .softmax_f32 = softmax<float>,
      .softmax_f64 = softmax<double>,
      .log_softmax_f32 = log_softmax<float>,
      .log_softmax_f64 = log_softmax<double>,
      .logsumexp_f32 = logsumexp<float>,
      .logsumexp_f64 = logsumexp<double>,
      .softmax_backward_f32 = softmax_backward<float>,
      .softmax_backward_f64 = softmax_backward<double>,
      .attention_f32 = rapt::level::attention_f32,
      .attention_f64 = rapt::level::attention_f64,
      .attention_backward_f32 = rapt::level::attention_backward_f32,
      .attention_backward_f64 = rapt::level::attention_backward_f64,
  };
}

}  // namespace
