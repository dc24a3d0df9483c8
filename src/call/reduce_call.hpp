// Describes a checked call of rapt_reduce. Dimensions that lie in one another are merged, and those of one index left
// out.
#pragma once

#include <cstddef>

#include "rapt/rapt.h"

namespace rapt {

struct ReduceCall {
  struct Dim {
    std::size_t count;
    std::ptrdiff_t x, out;  // strides, in elements; no `out` where the dimension is reduced
  };

  const void *x = nullptr;
  void *out = nullptr, *mean = nullptr;
  int operation = 0;
  rapt_type type = RAPT_F32, out_type = RAPT_F32;
  double correction = 0;
  std::size_t kept_dims = 0, reduced_dims = 0;
  // Outermost first. Reduced dimensions are in the order of the call, which numbers the elements. The last kept
  // dimension has the smallest stride.
  Dim kept[RAPT_MAX_DIMS] = {}, reduced[RAPT_MAX_DIMS] = {};
  std::size_t outputs = 1, elements = 1;

  // A task is this many outputs along the last kept dimension, or fewer at its end.
  static constexpr std::size_t outputs_per_task = 64;
  Dim last_kept() const { return kept_dims > 0 ? kept[kept_dims - 1] : Dim{1, 0, 0}; }
  std::size_t tasks_per_row() const { return (last_kept().count + outputs_per_task - 1) / outputs_per_task; }
  std::size_t tasks() const { return outputs == 0 ? 0 : outputs / last_kept().count * tasks_per_row(); }
  bool finds_index() const { return operation == RAPT_ARGMIN || operation == RAPT_ARGMAX; }
};

// Where the first of the outputs of a task is, in elements from x and from out, and how many there are.
struct ReduceTask {
  std::ptrdiff_t x = 0, out = 0;
  std::size_t count;

  ReduceTask(const ReduceCall &call, std::size_t task) {
    const ReduceCall::Dim last = call.last_kept();
    const std::size_t first = task % call.tasks_per_row() * ReduceCall::outputs_per_task;
    std::size_t row = task / call.tasks_per_row();
    count =
        last.count - first < ReduceCall::outputs_per_task ? last.count - first : ReduceCall::outputs_per_task;
    add(last, first);
    for (std::size_t d = call.kept_dims; d-- > 1; row /= call.kept[d - 1].count)
      add(call.kept[d - 1], row % call.kept[d - 1].count);
  }

 private:
  void add(const ReduceCall::Dim &dim, std::size_t index) {
    x += dim.x * static_cast<std::ptrdiff_t>(index);
    out += dim.out * static_cast<std::ptrdiff_t>(index);
  }
};

}  // namespace rapt
