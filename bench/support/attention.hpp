// Prepares the inputs of attention benchmarks, and gives rapt's attention the function type of the peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "peers/functions.hpp"
#include "support/attention_work.hpp"
#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

template <class T>
rapt_attention_options attention_options(const AttentionShape &shape);

// Returns the page numbers 0 to count - 1 in random order, like a block table after long use.
std::vector<std::int32_t> scattered_pages(std::size_t count);
// Returns all keys 0 to keys - 1, in runs of `run` that follow each other; the runs are in random order.
std::vector<std::int32_t> scattered_keys(std::size_t keys, std::size_t run);
// Makes the options read the whole cache by one list, which must outlive the options.
void list_keys(rapt_attention_options &options, const std::vector<std::int32_t> &list);

// scratch_elements() returns the size of the scratch memory in elements. It holds rapt's workspace, or
// `rows` rows of scores of a peer, whichever is larger.
using WorkspaceSize = rapt_status (*)(const rapt_attention_options *options, std::size_t *bytes);
template <class T>
std::size_t scratch_elements(const AttentionShape &shape, WorkspaceSize workspace_size, std::size_t rows);

// Holds inputs, the output and scratch memory. The scores have a standard deviation of 2, like the logits of
// the softmax benchmarks.
template <class T>
class AttentionBuffers {
 public:
  explicit AttentionBuffers(const AttentionShape &shape, bool with_sinks = false);

  const AttentionShape &shape() const { return shape_; }
  T *keys() const { return k_.data(); }
  T *values() const { return v_.data(); }
  AttentionProblem<T> problem() const;

  // Call rapt with options that AttentionShape lacks. The second overload also uses other keys and values.
  void attention(const rapt_attention_options &options) const { attention(k_.data(), v_.data(), options); }
  void attention(const T *k, const T *v, const rapt_attention_options &options) const;

 private:
  AttentionShape shape_;
  Buffer<T> q_, k_, v_, sinks_, out_, scratch_;
};

template <class T>
void whole_attention(const AttentionProblem<T> &problem);

// partial_attention() and merge_attention() are the two steps of a call whose keys are split.
std::size_t attention_partials(const AttentionShape &shape);  // elements of the partial results
template <class T>
void partial_attention(const AttentionProblem<T> &problem, T *partials);
template <class T>
void merge_attention(const AttentionProblem<T> &problem, T *partials);

}  // namespace rapt::bench
