// Reduces some dimensions of a tensor. A task has up to 64 outputs, which are computed one after the other, or together
// where their elements lie side by side: then lanes are rows of an array in L1, and a vector has elements of several
// outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "call/reduce_call.hpp"
#include "contract/norm.hpp"
#include "contract/reduce.hpp"
#include "kernels/reduce/indices.hpp"
#include "kernels/reduce/walks.hpp"

namespace {

template <class A>
const Steps<A> &steps_of_operation(int operation) {
  switch (operation) {
    case RAPT_NORM_1:
      return steps_of<AddMagnitudes<A>, A>;
    case RAPT_NORM_2:
      return steps_of<AddSquares<A>, A>;
    case RAPT_NORM_INF:
      return steps_of<LargestMagnitude<A>, A>;
    case RAPT_PRODUCT:
      return steps_of<MultiplyElements<A>, A>;
    case RAPT_MIN:
    case RAPT_ARGMIN:
      return steps_of<SmallestElement<A>, A>;
    case RAPT_MAX:
    case RAPT_ARGMAX:
      return steps_of<LargestElement<A>, A>;
    default:
      return steps_of<AddElements<A>, A>;
  }
}

// Returns the root of a sum of squares, some of which were lost.
template <class A>
[[gnu::noinline]] A safe_norm_2(const rapt::ReduceCall &call, std::ptrdiff_t first) {
  const A largest = reduce_row<A>(call, first, steps_of<LargestMagnitude<A>, A>, A(0));
  const A scale = rapt::SafeSquares<A>::scale_of(largest);
  if (scale == 0) return largest;
  return rapt::square_root(reduce_row<A>(call, first, steps_of_rows<AddScaledSquares<A>, A>, scale)) / scale;
}

template <class Out, class A>
[[gnu::flatten, gnu::noinline]] void write_results(const A *result, std::size_t n, Out *out,
                                                   std::ptrdiff_t stride) {
  using S = simd<A>;
  if (stride != 1) {
    for (std::size_t c = 0; c < n; ++c)
      out[stride * static_cast<std::ptrdiff_t>(c)] = rapt::narrowed<Out>(result[c]);
    return;
  }
  std::size_t c = 0;
  for (; n - c >= S::width; c += S::width) S::store(out + c, S::load(result + c));
  if (c < n) S::store_first(out + c, S::load_first(result + c, n - c), n - c);
}

template <class A>
class TaskOfReduce {
 public:
  static constexpr std::size_t most = rapt::ReduceCall::outputs_per_task;

  TaskOfReduce(const rapt::ReduceCall &call, std::size_t task)
      : call_(call),
        task_(call, task),
        kept_(call.last_kept()),
        // Several outputs are computed together if their elements are next to each other.
        in_columns_(kept_.x == 1 && task_.count > 1),
        columns_(call, task_.x, task_.count) {}

  void run() {
    alignas(64) A result[most], mean[most];
    const std::size_t n = task_.count;
    const Steps<A> &steps = steps_of_operation<A>(call_.operation);
    if (call_.finds_index()) return find(steps, result);
    reduce(steps, nullptr, result);
    if (call_.operation == RAPT_MEAN || call_.operation == RAPT_VARIANCE)
      divide(result, static_cast<A>(call_.elements));
    if (call_.operation == RAPT_VARIANCE) {
      alignas(64) A shift[most];
      for (std::size_t c = 0; c < n; ++c) mean[c] = result[c];
      for (std::size_t c = 0; c < n; ++c) shift[c] = -mean[c];
      reduce(steps_of<AddDeviations<A>, A>, shift, result);
      divide(result, rapt::variance_divisor<A>(call_.elements, call_.correction));
    }
    if (call_.operation == RAPT_NORM_2) roots(result);
    if (call_.operation == RAPT_MIN || call_.operation == RAPT_MAX) {
      for (std::size_t c = 0; c < n; ++c) result[c] += A(0);
    }
    write(result, call_.out);
    if (call_.mean) write(mean, call_.mean);
  }

 private:
  std::ptrdiff_t first(std::size_t c) const { return task_.x + kept_.x * static_cast<std::ptrdiff_t>(c); }
  void reduce(const Steps<A> &steps, const A *shift, A *result) {
    if (in_columns_) return columns_.reduce(steps, shift, result);
    for (std::size_t c = 0; c < task_.count; ++c)
      result[c] = reduce_row<A>(call_, first(c), steps, shift ? shift[c] : A(0));
  }
  void divide(A *result, A divisor) const {
    for (std::size_t c = 0; c < task_.count; ++c) result[c] /= divisor;
  }
  void roots(A *result) const {
    for (std::size_t c = 0; c < task_.count; ++c) {
      const A sum = result[c];
      const bool is_safe = sum >= rapt::SafeSquares<A>::least && sum <= std::numeric_limits<A>::max();
      result[c] = is_safe || sum != sum ? rapt::square_root(sum) : safe_norm_2<A>(call_, first(c));
    }
  }
  void find(const Steps<A> &steps, A *best) {
    std::int64_t index[most];
    if (in_columns_) {
      columns_.reduce(steps, nullptr, best);
      indices_in_columns(columns_, task_.count, best, index);
    } else {
      for (std::size_t c = 0; c < task_.count; ++c) index[c] = index_in_row<A>(call_, first(c), steps);
    }
    std::int64_t *const out = static_cast<std::int64_t *>(call_.out) + task_.out;
    for (std::size_t c = 0; c < task_.count; ++c) out[kept_.out * static_cast<std::ptrdiff_t>(c)] = index[c];
  }
  void write(const A *result, void *out) const {
    rapt::with_element<A>(call_.out_type, [&](auto element) {
      using E = typename decltype(element)::type;
      write_results(result, task_.count, static_cast<E *>(out) + task_.out, kept_.out);
    });
  }

  const rapt::ReduceCall &call_;
  const rapt::ReduceTask task_;
  const rapt::ReduceCall::Dim kept_;
  const bool in_columns_;
  Columns<A> columns_;
};

template <class A>
void reduce(const rapt::ReduceCall *call, std::size_t first, std::size_t last) {
  for (std::size_t task = first; task < last; ++task) TaskOfReduce<A>(*call, task).run();
}

}  // namespace
