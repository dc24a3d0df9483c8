// Attention's gradient as the benchmarks call it.
#pragma once

#include "support/attention.hpp"

namespace rapt::bench {

// 2.5 times the multiply-adds of the forward call; bytes are those of all tensors once.
Work attention_backward_work(const AttentionShape &shape, std::size_t element_bytes);

// Inputs, the forward call's results, and room for the gradients.
template <class T>
class AttentionGradientBuffers {
 public:
  explicit AttentionGradientBuffers(const AttentionShape &shape);

  AttentionGradientProblem<T> problem() const;

 private:
  AttentionBuffers<T> forward_;
  Buffer<T> lse_, dout_, dq_, dk_, dv_, scratch_;
};

template <class T>
void whole_attention_backward(const AttentionGradientProblem<T> &problem);

// The worst error of a gradient of a causal call of 100 tokens, in units of the type's rounding of the
// largest element of that gradient.
template <class T>
double attention_backward_error(AttentionBackward<T> backward);

}  // namespace rapt::bench
