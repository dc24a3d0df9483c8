// SPDX-License-Identifier: Apache-2.0
/// \file
/// Runs attention on threads of the caller's choice, for C++20: std::thread, OpenMP, oneTBB, or any other
/// pool.
///
/// The caller passes a function `parts`. parts(n, body) calls body(0) to body(n - 1) once each, possibly at
/// the same time, and returns after the last one. body throws nothing. rapt::std_threads, rapt::openmp and
/// rapt::tbb are such functions. Every number of threads gives the bits of the plain call, rapt_attention. 0
/// threads, which std::thread::hardware_concurrency may return, count as 1.
///
/// ~~~
///   rapt_status status = rapt::parallel_attention(q, k, v, out, &options, threads, rapt::std_threads);
/// ~~~
///
/// The pointers q, k, v and out set the element types, as ranges do in rapt.hpp. With pointers to void, the
/// options set the types.
///
/// Every function allocates a workspace per thread, and what it needs to split keys and to list tasks, before it
/// calls `parts`. An engine that calls often has this memory already, and passes a function as the last argument:
/// memory(bytes) returns that many bytes, aligned as by malloc, which nobody else uses until the call returns. It
/// is called a few times, on the calling thread. Then the call allocates nothing.
///
/// rapt::std_threads starts threads - 1 threads in each call, which takes tens of microseconds. The other
/// adapters keep their threads. For calls below 100 us, such as most decoding, use openmp or tbb. On one
/// thread, the cost of an adapter is too small to measure. This table has the speed-up of 2 threads over the
/// plain call, for f32 on AVX-512, on two virtual CPUs of a Zen 5. Memory bandwidth limits the long decode.
/// bench/run prints this table for your machine, as its last one:
///
/// ~~~
///                                                  plain call   std_threads   openmp    tbb
///   prefill, 32 heads share 8, 1024 x 128               42 ms          1.87     1.88   1.87
///   prefill, 8 heads, 128 x 64                         111 us          1.50     1.76   1.76
///   decode, 32 heads share 8, 32768 x 128              9.4 ms          1.23     1.29   1.28
///   decode, 8 heads share 2, 1024 x 64                  17 us          0.57     1.92   1.93
///   gradient, 32 heads share 8, 1024 x 128             110 ms          1.97     1.98   1.95
///   gradient, 8 heads, 128 x 64                        289 us          1.55     1.96   1.97
/// ~~~
///
/// rapt::openmp needs the compiler's flag -fopenmp. rapt::tbb needs an `#include <oneapi/tbb/parallel_for.h>`
/// before this header.
#ifndef RAPT_PARALLEL_HPP
#define RAPT_PARALLEL_HPP

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "parallel.hpp needs C++20"
#else

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "rapt/rapt.hpp"

namespace rapt {

// ---- adapters
/// \defgroup cpp_parallel Threads
/// \{

/// std_threads(n, body) starts n - 1 threads of std::thread in each call.
inline constexpr auto std_threads = [](std::size_t n, const auto &body) {
  struct Joined {  // libc++ has no std::jthread
    std::vector<std::thread> threads;
    ~Joined() {
      for (std::thread &thread : threads) thread.join();
    }
  } all;
  all.threads.reserve(n);
  for (std::size_t i = 1; i < n; ++i) all.threads.emplace_back([&body, i] { body(i); });
  body(std::size_t{0});
};

#ifdef _OPENMP
/// openmp(n, body) uses OpenMP's threads; with -fopenmp. In a child of fork(), gcc's OpenMP waits for ever if the
/// parent has used it: use std_threads there.
inline constexpr auto openmp = [](std::size_t n, const auto &body) {
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(n))
  for (std::size_t i = 0; i < n; ++i) body(i);
};
#endif

#ifdef TBB_VERSION_MAJOR
/// tbb(n, body) uses oneTBB's threads; with <oneapi/tbb/parallel_for.h> included before.
inline constexpr auto tbb = [](std::size_t n, const auto &body) {
  oneapi::tbb::parallel_for(std::size_t{0}, n, body, oneapi::tbb::simple_partitioner{});
};
#endif

namespace detail {

// Pointee is a pointer's element type, or void for a pointer to void and for nullptr.
template <class Pointer>
using Pointee = std::remove_cv_t<
    std::remove_pointer_t<std::conditional_t<std::is_null_pointer_v<Pointer>, void *, Pointer> > >;

// Sets the options' types to the pointers' types. Returns RAPT_BAD_TYPE if the options name other types.
template <class Q, class K, class V, class Out>
rapt_status set_pointee_types(rapt_attention_options &o) {
  const bool agree = set_types<Pointee<Q>, Pointee<K>, Pointee<Out> >(o) && set_value_type<Pointee<V> >(o);
  return agree ? RAPT_OK : RAPT_BAD_TYPE;
}

// The memory of a call whose caller gives none.
class Allocated {
 public:
  void *operator()(std::size_t bytes) {
    std::unique_ptr<std::byte[]> piece(new std::byte[bytes]);
    return pieces_.emplace_back(std::move(piece)).get();
  }

 private:
  std::vector<std::unique_ptr<std::byte[]> > pieces_;
};

template <class Element, class Memory>
std::span<Element> take(Memory &memory, std::size_t count) {
  return {static_cast<Element *>(static_cast<void *>(memory(count * sizeof(Element)))), count};
}

// Tasks divided into ranges, which are as long as each other or fall. Each thread takes the next one when it has
// finished one. The first of three falling ranges a thread is two thirds of its share: tasks that follow each other
// share what the first of them prepares. The last ones are short, so that no thread waits long for another.
struct Runs {
  std::size_t tasks, count;
  bool fall = false;

  std::size_t first(std::size_t i) const {
    if (!fall) return tasks / count * i + (std::min)(i, tasks % count);
    // Each has one task, and a share of the others that falls to 0: what is left falls by the square.
    const std::size_t others = tasks - count, all = count * count, left = (count - i) * (count - i);
    return i + others - (others / all * left + others % all * left / all);
  }
};

// Enough ranges to balance tasks of different length. Every run checks the arguments again.
inline Runs balanced_runs(std::size_t tasks, std::size_t threads) {
  return {tasks, threads <= 1 ? 1 : (std::min)(tasks, 8 * threads)};
}
// For layers, whose tasks round or pack rows of x.
inline Runs falling_runs(std::size_t tasks, std::size_t threads) {
  return {tasks, threads <= 1 ? 1 : (std::min)(tasks, 3 * threads), true};
}

// Calls run(first, last, workspace) for each range. No tasks are one empty range, which checks the arguments. Returns
// the first status that is not RAPT_OK; no range begins after that status.
template <class Parts, class Run, class Memory = Allocated>
rapt_status run_parts(Runs runs, std::size_t threads, std::size_t workspace_bytes, const Parts &parts,
                      const Run &run, Memory &&memory = Memory()) {
  runs.count = (std::max<std::size_t>)(1, (std::min)(runs.count, runs.tasks));
  runs.fall = runs.fall && runs.tasks > 0;
  threads = (std::max<std::size_t>)(1, (std::min)(threads, runs.count));
  // The workspaces are there before `parts` runs, because an exception on one of its threads would end the
  // program.
  const std::span<void *> workspaces = take<void *>(memory, threads);
  for (void *&workspace : workspaces) workspace = memory(workspace_bytes);
  std::atomic<std::size_t> next{0};
  std::atomic<rapt_status> status{RAPT_OK};
  const auto body = [&](std::size_t part) noexcept {
    for (std::size_t i = next++; i < runs.count && status == RAPT_OK; i = next++) {
      const rapt_status answer = run(runs.first(i), runs.first(i + 1), workspaces[part]);
      rapt_status none = RAPT_OK;
      if (answer != RAPT_OK) status.compare_exchange_strong(none, answer);
    }
  };
  if (threads == 1) {
    body(0);
  } else {
    parts(threads, body);
  }
  return status;
}

// The tasks of several calls as one list: call i has those from first_task[i] to first_task[i + 1] - 1. Returns a
// function for run_parts(), which calls run(i, first, last, workspace) and counts the tasks of call i from 0. An
// empty range is an empty range of every call, which checks them all.
template <class Run>
auto in_calls(std::span<const std::size_t> first_task, const Run &run) {
  return [first_task, &run](std::size_t first, std::size_t last, void *workspace) {
    rapt_status status = RAPT_OK;
    for (std::size_t i = 0; i + 1 < first_task.size() && status == RAPT_OK; ++i) {
      const std::size_t begin = (std::max)(first, first_task[i]), end = (std::min)(last, first_task[i + 1]);
      if (first == last) {
        status = run(i, 0, 0, workspace);
      } else if (begin < end) {
        status = run(i, begin - first_task[i], end - first_task[i], workspace);
      }
    }
    return status;
  };
}

// Appends the tasks of call i to such a list.
inline rapt_status append(std::span<std::size_t> first_task, std::size_t i, std::size_t tasks) {
  if (tasks > SIZE_MAX - first_task[i]) return RAPT_BAD_SIZE;
  first_task[i + 1] = first_task[i] + tasks;
  return RAPT_OK;
}

// Runs the list, where each call checks its arguments before it writes. The calls after a bad one must not run, nor
// those before it: so all of several calls are checked first.
template <class Parts, class Run, class Memory>
rapt_status run_calls(std::span<const std::size_t> first_task, const Runs &runs, std::size_t threads,
                      std::size_t workspace_bytes, const Parts &parts, const Run &run, Memory &memory) {
  if (first_task.size() > 2) {
    const rapt_status status =
        run_parts({0, 1}, 1, workspace_bytes, parts, in_calls(first_task, run), memory);
    if (status != RAPT_OK || runs.tasks == 0) return status;
  }
  return run_parts(runs, threads, workspace_bytes, parts, in_calls(first_task, run), memory);
}

}  // namespace detail

/// An ElementPointer points to elements, to const elements or to void, or is nullptr.
template <class T>
concept ElementPointer = std::is_null_pointer_v<T> ||
    (std::is_pointer_v<T> && (std::is_void_v<detail::Pointee<T> > || Element<detail::Pointee<T> >));

/// One call of parallel_attention for several, with the arguments of rapt_attention. The options name the types.
struct AttentionWork {
  const void *q;                          ///< as rapt_attention()'s
  const void *k;                          ///< as rapt_attention()'s
  const void *v;                          ///< as rapt_attention()'s
  void *out;                              ///< as rapt_attention()'s
  const rapt_attention_options *options;  ///< as rapt_attention()'s, with the types
};

/// Computes several calls of rapt_attention as one list of tasks, on up to `threads` threads: the sequences of a
/// batch, for example, whose keys are in different places. No call may read or write what another one writes. If a
/// call is bad, none is computed: the status is that of the first one whose options are bad, else of the first one
/// whose arrays are. If there are more threads than tasks, it also splits the keys and merges partial results.
template <class Parts, class Memory = detail::Allocated>
rapt_status parallel_attention(std::span<const AttentionWork> calls, std::size_t threads, const Parts &parts,
                               Memory &&memory = Memory()) {
  const std::span<std::size_t> first_task = detail::take<std::size_t>(memory, calls.size() + 1),
                               first_part = detail::take<std::size_t>(memory, calls.size() + 1),
                               lengths = detail::take<std::size_t>(memory, calls.size());
  std::size_t bytes = 0;
  first_task[0] = first_part[0] = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    std::size_t tasks = 0, of_call = 0;
    rapt_status status = rapt_attention_workspace(calls[i].options, &of_call);
    if (status == RAPT_OK) status = rapt_attention_tasks(calls[i].options, &tasks);
    if (status == RAPT_OK) status = detail::append(first_task, i, tasks);
    if (status != RAPT_OK) return status;
    bytes = (std::max)(bytes, of_call);
  }
  const std::size_t tasks = first_task.back();
  for (std::size_t i = 0; i < calls.size() && tasks < threads; ++i) {
    std::size_t of_call = 0;
    rapt_status status = rapt_attention_partial_tasks(calls[i].options, &of_call, &lengths[i]);
    if (status == RAPT_OK) status = detail::append(first_part, i, of_call);
    if (status != RAPT_OK) return status;
  }
  const auto whole = [&](std::size_t i, std::size_t first, std::size_t last, void *workspace) {
    const AttentionWork &of = calls[i];
    return rapt_attention_run(of.q, of.k, of.v, of.out, of.options, first, last, workspace, bytes);
  };
  const std::size_t part_tasks = tasks < threads ? first_part.back() : 0;
  if (part_tasks <= tasks)
    return detail::run_calls(first_task, detail::balanced_runs(tasks, threads), threads, bytes, parts, whole,
                             memory);

  // The partial calls do not get the output, and the merge does not get the inputs. So this empty run checks
  // all arguments.
  rapt_status status =
      detail::run_parts({0, 1}, 1, bytes, parts, detail::in_calls(first_task, whole), memory);
  if (status != RAPT_OK) return status;
  const std::span<void *> partials = detail::take<void *>(memory, calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::size_t size = calls[i].options->q_type == RAPT_F64 ? sizeof(double) : sizeof(float);
    partials[i] = memory(lengths[i] * size);
  }
  const auto partial = [&](std::size_t i, std::size_t first, std::size_t last, void *workspace) {
    const AttentionWork &of = calls[i];
    return rapt_attention_partial(of.q, of.k, of.v, partials[i], of.options, first, last, workspace, bytes);
  };
  const auto merge = [&](std::size_t i, std::size_t first, std::size_t last, void *workspace) {
    const AttentionWork &of = calls[i];
    return rapt_attention_merge(partials[i], of.out, of.options, first, last, workspace, bytes);
  };
  status = detail::run_parts({part_tasks, part_tasks}, threads, bytes, parts,
                             detail::in_calls(first_part, partial), memory);
  if (status != RAPT_OK) return status;
  return detail::run_parts({tasks, tasks}, threads, bytes, parts, detail::in_calls(first_task, merge),
                           memory);
}

/// Computes rapt_attention by tasks, on up to `threads` threads. If there are more threads than tasks, it also
/// splits the keys and merges partial results, so it also helps in decoding. It throws what its allocations and
/// `parts` throw, such as std::bad_alloc, or std::system_error if std_threads cannot start a thread. Every started
/// thread has then ended, and the outputs may hold anything. (OpenMP's own runtime ends the program if it
/// cannot start a thread.)
template <ElementPointer Q, ElementPointer K, ElementPointer V, ElementPointer Out, class Parts,
          class Memory = detail::Allocated>
rapt_status parallel_attention(Q q, K k, V v, Out out, const rapt_attention_options *options,
                               std::size_t threads, const Parts &parts, Memory &&memory = Memory()) {
  if (!options) return RAPT_BAD_OPTIONS;
  rapt_attention_options o = *options;
  const rapt_status status = detail::set_pointee_types<Q, K, V, Out>(o);
  if (status != RAPT_OK) return status;
  const AttentionWork call{q, k, v, out, &o};
  return parallel_attention({&call, 1}, threads, parts, memory);
}

/// Like parallel_attention, for rapt_attention_backward. Each thread computes one run of consecutive tasks.
template <ElementPointer Q, ElementPointer K, ElementPointer V, class Parts, class Memory = detail::Allocated>
rapt_status parallel_attention_backward(Q q, K k, V v, const rapt_attention_options *options,
                                        const rapt_attention_gradients *gradients, std::size_t threads,
                                        const Parts &parts, Memory &&memory = Memory()) {
  if (!options) return RAPT_BAD_OPTIONS;
  rapt_attention_options o = *options;
  std::size_t bytes = 0, tasks = 0;
  rapt_status status = detail::set_pointee_types<Q, K, V, void *>(o);
  if (status == RAPT_OK) status = rapt_attention_backward_workspace(&o, &bytes);
  if (status == RAPT_OK) status = rapt_attention_backward_tasks(&o, gradients, &tasks);
  if (status != RAPT_OK) return status;
  const auto run = [&](std::size_t first, std::size_t last, void *workspace) {
    return rapt_attention_backward_run(q, k, v, &o, gradients, first, last, workspace, bytes);
  };
  return detail::run_parts({tasks, threads}, threads, bytes, parts, run, memory);
}

/// One layer of parallel_linear, with the arguments of rapt_linear. The options name the types.
struct LinearWork {
  const void *x;                       ///< as rapt_linear()'s
  const void *w;                       ///< as rapt_linear()'s; packed weights too
  void *y;                             ///< as rapt_linear()'s
  const rapt_linear_options *options;  ///< as rapt_linear()'s, with the types
};

/// Computes several linear layers as one list of tasks, on up to `threads` threads, with the bits of one
/// rapt_linear() for each. They may be q, k and v of a block, for example. No layer may read or write
/// what another one writes. If a layer is bad, none is computed: the status is that of the first one whose options are
/// bad, else of the first one whose arrays are. It throws like parallel_attention.
template <class Parts, class Memory = detail::Allocated>
rapt_status parallel_linear(std::span<const LinearWork> layers, std::size_t threads, const Parts &parts,
                            Memory &&memory = Memory()) {
  const std::span<std::size_t> first_task = detail::take<std::size_t>(memory, layers.size() + 1);
  std::size_t bytes = 0;
  first_task[0] = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::size_t tasks = 0, of_layer = 0;
    rapt_status status = rapt_linear_tasks(layers[i].options, &tasks);
    if (status == RAPT_OK) status = rapt_linear_workspace(layers[i].options, &of_layer);
    if (status == RAPT_OK) status = detail::append(first_task, i, tasks);
    if (status != RAPT_OK) return status;
    bytes = (std::max)(bytes, of_layer);
  }
  const auto run = [&](std::size_t i, std::size_t first, std::size_t last, void *workspace) {
    const LinearWork &of = layers[i];
    return rapt_linear_run(of.x, of.w, of.y, of.options, first, last, workspace, bytes);
  };
  return detail::run_calls(first_task, detail::falling_runs(first_task.back(), threads), threads, bytes,
                           parts, run, memory);
}

/// Computes rapt_linear_experts by tasks, on up to `threads` threads, with the bits of the plain call. The options name
/// the types. It throws like parallel_attention.
template <class Parts, class Memory = detail::Allocated>
rapt_status parallel_linear_experts(const LinearWork &layer, const rapt_expert_options *experts,
                                    std::size_t threads, const Parts &parts, Memory &&memory = Memory()) {
  std::size_t bytes = 0, tasks = 0;
  rapt_status status = rapt_linear_experts_workspace(layer.options, &bytes);
  if (status == RAPT_OK) status = rapt_linear_experts_tasks(layer.options, experts, &tasks);
  if (status != RAPT_OK) return status;
  const auto run = [&](std::size_t first, std::size_t last, void *workspace) {
    return rapt_linear_experts_run(layer.x, layer.w, layer.y, layer.options, experts, first, last, workspace,
                                   bytes);
  };
  // A run looks at the experts of its tasks. So an empty run checks all before any of them writes.
  status = detail::run_parts({0, 1}, 1, bytes, parts, run, memory);
  if (status != RAPT_OK || tasks == 0) return status;
  return detail::run_parts(detail::falling_runs(tasks, threads), threads, bytes, parts, run, memory);
}

/// Computes rapt_linear_batch by tasks, on up to `threads` threads, with the bits of the plain call. The options name
/// the types. It throws like parallel_attention.
template <class Parts, class Memory = detail::Allocated>
rapt_status parallel_linear_batch(const LinearWork &layer, const rapt_linear_batch_options &batch,
                                  std::size_t threads, const Parts &parts, Memory &&memory = Memory()) {
  std::size_t bytes = 0, tasks = 0;
  rapt_status status = rapt_linear_batch_workspace(layer.options, &batch, &bytes);
  if (status == RAPT_OK) status = rapt_linear_batch_tasks(layer.options, &batch, &tasks);
  if (status != RAPT_OK || tasks == 0) return status;
  const auto run = [&](std::size_t first, std::size_t last, void *workspace) {
    return rapt_linear_batch_run(layer.x, layer.w, layer.y, layer.options, &batch, first, last, workspace,
                                 bytes);
  };
  return detail::run_parts(detail::falling_runs(tasks, threads), threads, bytes, parts, run, memory);
}

/// Computes rapt_convolution by tasks, on up to `threads` threads, with the bits of the plain call. The options name
/// the type. It throws like parallel_attention.
template <class Parts, class Memory = detail::Allocated>
rapt_status parallel_convolution(const void *a, const void *b, void *out,
                                 const rapt_convolution_options &options, std::size_t threads,
                                 const Parts &parts, Memory &&memory = Memory()) {
  std::size_t bytes = 0, tasks = 0;
  rapt_status status = rapt_convolution_workspace(&options, &bytes);
  if (status == RAPT_OK) status = rapt_convolution_tasks(&options, &tasks);
  if (status != RAPT_OK) return status;
  const auto run = [&](std::size_t first, std::size_t last, void *workspace) {
    return rapt_convolution_run(a, b, out, &options, first, last, workspace, bytes);
  };
  if (tasks == 0) return RAPT_OK;
  return detail::run_parts(detail::falling_runs(tasks, threads), threads, bytes, parts, run, memory);
}

/// Computes rapt_delta_rule by tasks, on up to `threads` threads, with the bits of the plain call. The options name the
/// types. It throws like parallel_attention.
template <class Parts, class Memory = detail::Allocated>
rapt_status parallel_delta_rule(const void *q, const void *k, const void *v, void *out,
                                const rapt_delta_rule_options &options, std::size_t threads,
                                const Parts &parts, Memory &&memory = Memory()) {
  std::size_t bytes = 0, tasks = 0;
  rapt_status status = rapt_delta_rule_workspace(&options, &bytes);
  if (status == RAPT_OK) status = rapt_delta_rule_tasks(&options, &tasks);
  if (status != RAPT_OK) return status;
  const auto run = [&](std::size_t first, std::size_t last, void *workspace) {
    return rapt_delta_rule_run(q, k, v, out, &options, first, last, workspace, bytes);
  };
  return detail::run_parts(detail::balanced_runs(tasks, threads), threads, bytes, parts, run, memory);
}

/// Like parallel_delta_rule, for rapt_delta_rule_backward.
template <class Parts, class Memory = detail::Allocated>
rapt_status parallel_delta_rule_backward(const void *q, const void *k, const void *v,
                                         const rapt_delta_rule_options &options,
                                         const rapt_delta_rule_gradients &gradients, std::size_t threads,
                                         const Parts &parts, Memory &&memory = Memory()) {
  std::size_t bytes = 0, tasks = 0;
  rapt_status status = rapt_delta_rule_backward_workspace(&options, &bytes);
  if (status == RAPT_OK) status = rapt_delta_rule_backward_tasks(&options, &tasks);
  if (status != RAPT_OK) return status;
  const auto run = [&](std::size_t first, std::size_t last, void *workspace) {
    return rapt_delta_rule_backward_run(q, k, v, &options, &gradients, first, last, workspace, bytes);
  };
  return detail::run_parts(detail::balanced_runs(tasks, threads), threads, bytes, parts, run, memory);
}

/// \}

}  // namespace rapt

#endif  // C++20
#endif
