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
/// openmp(n, body) uses OpenMP's threads; with -fopenmp. In a child of fork(), gcc's OpenMP waits for ever if the parent
/// has used it: use std_threads there.
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
  const bool agree = set_types<Pointee<Q>, Pointee<K>, Pointee<Out> >(o) && set_type<Pointee<V> >(o.kv_type);
  return agree ? RAPT_OK : RAPT_BAD_TYPE;
}

// Splits the tasks into `runs` ranges, and calls run(first, last, workspace) for each. Each thread takes the
// next range when it has finished one. 0 runs or threads count as 1: without tasks one empty run checks the
// arguments. Returns the first status that is not RAPT_OK; no range begins after that status.
template <class Parts, class Run>
rapt_status run_parts(std::size_t tasks, std::size_t runs, std::size_t threads, std::size_t workspace_bytes,
                      const Parts &parts, const Run &run) {
  runs = (std::max<std::size_t>)(1, (std::min)(runs, tasks));
  threads = (std::max<std::size_t>)(1, (std::min)(threads, runs));
  // The workspaces are allocated before `parts` runs, because an exception on one of its threads would end
  // the program.
  std::vector<std::unique_ptr<std::byte[]> > workspaces(threads);
  for (std::unique_ptr<std::byte[]> &workspace : workspaces) workspace.reset(new std::byte[workspace_bytes]);
  std::atomic<std::size_t> next{0};
  std::atomic<rapt_status> status{RAPT_OK};
  const auto body = [&](std::size_t part) noexcept {
    for (std::size_t i = next++; i < runs && status == RAPT_OK; i = next++) {
      const rapt_status answer = run(tasks * i / runs, tasks * (i + 1) / runs, workspaces[part].get());
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

inline constexpr std::size_t runs_per_thread = 8;  // enough to balance tasks of different length

}  // namespace detail

/// An ElementPointer points to elements, to const elements or to void, or is nullptr.
template <class T>
concept ElementPointer = std::is_null_pointer_v<T> ||
    (std::is_pointer_v<T> && (std::is_void_v<detail::Pointee<T> > || Element<detail::Pointee<T> >));

/// Computes rapt_attention by tasks, on up to `threads` threads. If there are more threads than tasks, it also
/// splits the keys and merges partial results, so it also helps in decoding. It allocates a workspace per
/// thread, and the partial results, before it calls `parts`. It throws what these allocations and `parts`
/// throw, such as std::bad_alloc, or std::system_error if std_threads cannot start a thread. Every started
/// thread has then ended, and the outputs may hold anything. (OpenMP's own runtime ends the program if it
/// cannot start a thread.)
template <ElementPointer Q, ElementPointer K, ElementPointer V, ElementPointer Out, class Parts>
rapt_status parallel_attention(Q q, K k, V v, Out out, const rapt_attention_options *options,
                               std::size_t threads, const Parts &parts) {
  if (!options) return RAPT_BAD_OPTIONS;
  rapt_attention_options o = *options;
  std::size_t bytes = 0, tasks = 0, partial_tasks = 0, length = 0;
  rapt_status status = detail::set_pointee_types<Q, K, V, Out>(o);
  if (status == RAPT_OK) status = rapt_attention_workspace(&o, &bytes);
  if (status == RAPT_OK) status = rapt_attention_tasks(&o, &tasks);
  if (status == RAPT_OK) status = rapt_attention_partial_tasks(&o, &partial_tasks, &length);
  if (status != RAPT_OK) return status;
  const auto whole = [&](std::size_t first, std::size_t last, void *workspace) {
    return rapt_attention_run(q, k, v, out, &o, first, last, workspace, bytes);
  };
  if (tasks >= threads || partial_tasks <= tasks) {
    return detail::run_parts(tasks, (std::min)(threads, tasks) * detail::runs_per_thread, threads, bytes,
                             parts, whole);
  }
  // The partial calls do not get the output, and the merge does not get the inputs. So this empty run checks
  // all arguments.
  status = detail::run_parts(0, 1, 1, bytes, parts, whole);
  if (status != RAPT_OK) return status;
  const std::size_t size = o.q_type == RAPT_F64 ? sizeof(double) : sizeof(float);
  const std::unique_ptr<std::byte[]> partials(new std::byte[length * size]);
  status = detail::run_parts(partial_tasks, partial_tasks, threads, bytes, parts,
                             [&](std::size_t first, std::size_t last, void *workspace) {
                               return rapt_attention_partial(q, k, v, partials.get(), &o, first, last,
                                                             workspace, bytes);
                             });
  if (status != RAPT_OK) return status;
  return detail::run_parts(
      tasks, tasks, threads, bytes, parts, [&](std::size_t first, std::size_t last, void *workspace) {
        return rapt_attention_merge(partials.get(), out, &o, first, last, workspace, bytes);
      });
}

/// Like parallel_attention, for rapt_attention_backward. Each thread computes one run of consecutive tasks.
template <ElementPointer Q, ElementPointer K, ElementPointer V, class Parts>
rapt_status parallel_attention_backward(Q q, K k, V v, const rapt_attention_options *options,
                                        const rapt_attention_gradients *gradients, std::size_t threads,
                                        const Parts &parts) {
  if (!options) return RAPT_BAD_OPTIONS;
  rapt_attention_options o = *options;
  std::size_t bytes = 0, tasks = 0;
  rapt_status status = detail::set_pointee_types<Q, K, V, void *>(o);
  if (status == RAPT_OK) status = rapt_attention_backward_workspace(&o, &bytes);
  if (status == RAPT_OK) status = rapt_attention_backward_tasks(&o, gradients, &tasks);
  if (status != RAPT_OK) return status;
  return detail::run_parts(
      tasks, threads, threads, bytes, parts, [&](std::size_t first, std::size_t last, void *workspace) {
        return rapt_attention_backward_run(q, k, v, &o, gradients, first, last, workspace, bytes);
      });
}

/// One layer of parallel_linear, with the arguments of rapt_linear. The options name the types.
struct LinearWork {
  const void *x;                       ///< as rapt_linear()'s
  const void *w;                       ///< as rapt_linear()'s; packed weights too
  void *y;                             ///< as rapt_linear()'s
  const rapt_linear_options *options;  ///< as rapt_linear()'s, with the types
};

/// Computes several linear layers as one list of tasks, on up to `threads` threads, with the bits of one
/// rapt_linear() for each. They may be q, k and v of a block, or the experts of a layer. No layer may read or write
/// what another one writes. If a layer is bad, none is computed: the status is that of the first one whose options are
/// bad, else of the first one whose arrays are. It allocates and throws like parallel_attention.
template <class Parts>
rapt_status parallel_linear(std::span<const LinearWork> layers, std::size_t threads, const Parts &parts) {
  std::vector<std::size_t> first_task(layers.size() + 1);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::size_t tasks = 0, of_layer = 0;
    rapt_status status = rapt_linear_tasks(layers[i].options, &tasks);
    if (status == RAPT_OK) status = rapt_linear_workspace(layers[i].options, &of_layer);
    if (status == RAPT_OK && tasks > SIZE_MAX - first_task[i]) status = RAPT_BAD_SIZE;
    if (status != RAPT_OK) return status;
    first_task[i + 1] = first_task[i] + tasks;
    bytes = (std::max)(bytes, of_layer);
  }
  const auto run = [&](std::size_t first, std::size_t last, void *workspace) {
    rapt_status status = RAPT_OK;
    for (std::size_t i = 0; i < layers.size() && status == RAPT_OK; ++i) {
      const LinearWork &of = layers[i];
      const std::size_t begin = (std::max)(first, first_task[i]), end = (std::min)(last, first_task[i + 1]);
      if (first == last) {  // an empty run checks every layer
        status = rapt_linear_run(of.x, of.w, of.y, of.options, 0, 0, workspace, bytes);
      } else if (begin < end) {
        status = rapt_linear_run(of.x, of.w, of.y, of.options, begin - first_task[i], end - first_task[i],
                                 workspace, bytes);
      }
    }
    return status;
  };
  const std::size_t tasks = first_task.back();
  const rapt_status status = detail::run_parts(0, 1, 1, bytes, parts, run);
  if (status != RAPT_OK || tasks == 0) return status;
  return detail::run_parts(tasks, (std::min)(threads, tasks) * detail::runs_per_thread, threads, bytes, parts,
                           run);
}

/// \}

}  // namespace rapt

#endif  // C++20
#endif
