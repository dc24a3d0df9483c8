// Prepares and calls the gradient of attention for the benchmarks.
#pragma once

#include "support/attention.hpp"

namespace rapt::bench {

// Counts the multiply-adds of five matrix products over visible keys, and the bytes of each tensor once.
Work attention_backward_work(const AttentionShape &shape, std::size_t element_bytes);

// Holds the inputs, the results of the forward call, and memory for the gradients.
template <class T>
class AttentionGradientBuffers {
 public:
  explicit AttentionGradientBuffers(const AttentionShape &shape);

  AttentionGradientProblem<T> problem() const;

 private:
  AttentionBuffers<T> forward_;
  Buffer<T> lse_, dout_, dq_, dk_, dv_, scratch_;
};

// Holds the arguments of rapt's functions except q, k and v.
template <class T>
struct AttentionGradientArguments {
  rapt_attention_options options;
  rapt_attention_gradients gradients = RAPT_ATTENTION_GRADIENTS_INIT;

  explicit AttentionGradientArguments(const AttentionGradientProblem<T> &problem);
};

template <class T>
void whole_attention_backward(const AttentionGradientProblem<T> &problem);

// Splits the tasks of the call into `runs` equal groups and executes group `run`. `workspace` must have
// problem.scratch_bytes bytes.
template <class T>
void run_of_attention_backward(const AttentionGradientProblem<T> &problem, std::size_t run, std::size_t runs,
                               void *workspace);

}  // namespace rapt::bench
