// Attention as the benchmarks call it: shapes, their work, inputs, and rapt's functions behind the signature
// that its peers share.
#pragma once

#include <cstddef>

#include "support/buffer.hpp"
#include "support/functions.hpp"
#include "support/suite.hpp"
#include "support/work.hpp"

namespace rapt::bench {

// Elements are the multiply-adds with visible keys, q . k and weight * v; bytes are those of the visible keys
// and values once, whichever query heads read them, and of queries and outputs.
Work attention_work(const AttentionShape &shape, std::size_t element_bytes);

// Of elements of T.
template <class T>
rapt_attention_options attention_options(const AttentionShape &shape);

// Inputs whose scores have a standard deviation of 2, as logits of softmax do, and room for what is made of
// them.
template <class T>
class AttentionBuffers {
 public:
  explicit AttentionBuffers(const AttentionShape &shape, bool with_sinks = false);

  const AttentionShape &shape() const { return shape_; }
  T *keys() const { return k_.data(); }
  T *values() const { return v_.data(); }
  AttentionProblem<T> problem() const;

  // By rapt, with options that may have what an AttentionShape has not, and maybe other keys and values.
  void attention(const rapt_attention_options &options) const { attention(k_.data(), v_.data(), options); }
  void attention(const T *k, const T *v, const rapt_attention_options &options) const;

 private:
  AttentionShape shape_;
  Buffer<T> q_, k_, v_, sinks_, out_, scratch_;
};

template <class T>
void whole_attention(const AttentionProblem<T> &problem);

// The same in the two steps of split keys, and both one after the other.
std::size_t attention_partials(const AttentionShape &shape);  // their elements
template <class T>
void partial_attention(const AttentionProblem<T> &problem, T *partials);
template <class T>
void merge_attention(const AttentionProblem<T> &problem, T *partials);
template <class T>
void split_attention(const AttentionProblem<T> &problem);

}  // namespace rapt::bench
