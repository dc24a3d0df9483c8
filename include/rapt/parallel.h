/* SPDX-License-Identifier: Apache-2.0 */
/** \file
 * Runs attention, its gradient and linear layers on the caller's threads, for C99 and C++11: OpenMP, or any pool
 * by a callback. It has only inline functions over rapt.h, and adds no symbol to the library.
 *
 * A pool is a function that calls body(context, 0) to body(context, count - 1), on any threads and in any order.
 * It returns when all of these calls have ended. What the bodies have written must then be visible to the caller,
 * as it is after a join or a barrier. Such a function is a few lines:
 *
 * ~~~
 *   // pthreadpool
 *   static void in_pthreadpool(void *pool, size_t count, rapt_parallel_body body, void *context) {
 *     pthreadpool_parallelize_1d((pthreadpool_t)pool, body, context, count, 0);
 *   }
 *   // oneTBB, from C++
 *   rapt_pool tbb = {[](void *, size_t count, rapt_parallel_body body, void *context) {
 *     oneapi::tbb::parallel_for(size_t{0}, count, [=](size_t i) { body(context, i); });
 *   }, nullptr, 8};
 * ~~~
 *
 * and a call is one line:
 *
 * ~~~
 *   const rapt_pool pool = {in_pthreadpool, pthreadpool_create(8), 8};
 *   rapt_status status = rapt_parallel_attention(q, k, v, out, &options, &pool);
 * ~~~
 *
 * Every pool and every number of threads gives the bits of the plain call. A body takes work until none is left.
 * So it does not matter how many threads a pool really has, or whether the pool is busy with other calls. A body that
 * a cancelled pool never runs is no loss: another body, or at last the calling thread, does its work. A body neither
 * waits for another one nor throws. A body may run inside another task of the pool, if the pool's function may.
 *
 * Memory. A call allocates by malloc, before the pool runs: a workspace per thread, and the partial results of
 * split keys. It frees the memory before it returns. If malloc gives none, the status is RAPT_BAD_WORKSPACE, which
 * has no other cause here. If a pool's function throws in C++, the memory of the call leaks: use parallel.hpp there.
 *
 * Errors. Arguments are checked before an output is written. With any status but RAPT_OK the outputs are as before.
 *
 * Any number of threads may call these functions at once, with one pool if the pool allows it. */
#ifndef RAPT_PARALLEL_H
#define RAPT_PARALLEL_H

#if !defined(__GNUC__) && !defined(__clang__)
#error "parallel.h needs gcc or clang. Else: parallel.hpp in C++20, or rapt_attention_run() on your threads"
#endif

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "rapt/rapt.h"

/** One of the functions that a pool runs. */
typedef void (*rapt_parallel_body)(void *context, size_t index);

/** Calls body(context, i) for each i below count, and returns after the last of these calls. pool is that of the
 * rapt_pool. */
typedef void (*rapt_parallel_for)(void *pool, size_t count, rapt_parallel_body body, void *context);

/** The threads of a call. A null pointer to a pool, or a zeroed pool, is the calling thread alone. */
typedef struct rapt_pool {
  rapt_parallel_for parallel_for; /**< null: the calling thread alone */
  void *pool;                     /**< the first argument of parallel_for */
  size_t threads;                 /**< the largest count for parallel_for; 0 or 1: the calling thread alone */
} rapt_pool;

/** One layer of rapt_parallel_linear(), with the arguments of rapt_linear(). */
typedef struct rapt_linear_work {
  const void *x;                      /**< as in rapt_linear() */
  const void *w;                      /**< as in rapt_linear() */
  void *y;                            /**< as in rapt_linear() */
  const rapt_linear_options *options; /**< shape, types and strides */
} rapt_linear_work;

/* ---- what follows up to the public functions is not for callers ---------------------------------------------- */

#ifdef __cplusplus
#define RAPTP_CAST(type, value) static_cast<type>(value)
#define RAPTP_NULL nullptr
#else
#define RAPTP_CAST(type, value) ((type)(value))
#define RAPTP_NULL NULL
#endif

/* What runs tasks, and the arguments of a call of any of the functions below. */
struct raptp_call {
  rapt_status (*run)(const struct raptp_call *call, size_t first, size_t last, void *workspace);
  const void *q, *k, *v;
  void *out, *partials;
  size_t partial_bytes;
  const rapt_attention_options *options;
  const rapt_attention_gradients *gradients;
  const rapt_linear_work *layers;
  size_t layer_count;
  const size_t *first_tasks; /* of each layer, then the number of all tasks */
  const rapt_expert_options *experts;
  const rapt_linear_batch_options *batch;
  const rapt_search_options *search;
  const rapt_convolution_options *convolution;
  const rapt_delta_rule_options *delta_rule;
  const rapt_delta_rule_gradients *delta_rule_gradients;
  size_t workspace_bytes;
};

/* Tasks, divided into runs. Each body takes the next run when it has finished one. */
struct raptp_work {
  const struct raptp_call *call;
  size_t tasks, runs;
  int fall; /* whether the runs grow shorter */
  char *workspaces;
  size_t workspace_count, workspace_stride;
  size_t workspaces_taken, runs_taken; /* atomic */
  rapt_status status;                  /* atomic: the first that is not RAPT_OK */
};

RAPT_INLINE size_t raptp_min(size_t a, size_t b) { return a < b ? a : b; }

RAPT_INLINE size_t raptp_threads(const rapt_pool *pool) {
  return pool && pool->parallel_for && pool->threads > 1 ? pool->threads : 1;
}

/* Returns the first task of a run. The runs are as long as each other, or one task longer; or they fall: each has a
 * task, and what is left of the others falls by the square. */
RAPT_INLINE size_t raptp_first_task(const struct raptp_work *work, size_t run) {
  if (!work->fall) return work->tasks / work->runs * run + raptp_min(run, work->tasks % work->runs);
  const size_t all = work->runs * work->runs, left = (work->runs - run) * (work->runs - run);
  const size_t others = work->tasks - work->runs;
  return run + others - (others / all * left + others % all * left / all);
}

/* A body takes a workspace by a counter, not by its index, so that two bodies never share one. */
RAPT_INLINE void raptp_body(void *context, size_t index) {
  struct raptp_work *const work = RAPTP_CAST(struct raptp_work *, context);
  const size_t mine = __atomic_fetch_add(&work->workspaces_taken, 1, __ATOMIC_RELAXED);
  (void)index;
  if (mine >= work->workspace_count) return;
  for (;;) {
    const size_t run = __atomic_fetch_add(&work->runs_taken, 1, __ATOMIC_RELAXED);
    rapt_status status;
    __atomic_load(&work->status, &status, __ATOMIC_RELAXED);
    if (run >= work->runs || status != RAPT_OK) return;
    status = work->call->run(work->call, raptp_first_task(work, run), raptp_first_task(work, run + 1),
                             work->workspaces + mine * work->workspace_stride);
    if (status != RAPT_OK) {
      rapt_status none = RAPT_OK;
      __atomic_compare_exchange(&work->status, &none, &status, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
  }
}

RAPT_INLINE size_t raptp_workspace_stride(size_t bytes) {
  return bytes / 64 * 64 + 128; /* no two workspaces share a line of the cache, wherever malloc begins */
}

/* Returns memory for `bytes`, and for `count` workspaces behind them; or null. */
RAPT_INLINE char *raptp_allocate(size_t bytes, size_t count, size_t workspace_bytes) {
  const size_t stride = raptp_workspace_stride(workspace_bytes), most = PTRDIFF_MAX;
  if (bytes > most / 2 || count > most / 2 / stride) return RAPTP_NULL;
  return RAPTP_CAST(char *, malloc(raptp_workspace_stride(bytes) + count * stride));
}

/* Runs all tasks. Without tasks, one empty run checks the arguments. `fall` needs a task for each run. */
RAPT_INLINE rapt_status raptp_run_some(const struct raptp_call *call, size_t tasks, size_t runs, int fall,
                                       char *workspaces, const rapt_pool *pool) {
  struct raptp_work work;
  work.call = call;
  work.tasks = tasks;
  work.runs = runs > 0 ? runs : 1;
  work.fall = fall;
  work.workspaces = workspaces;
  work.workspace_count = raptp_min(raptp_threads(pool), work.runs);
  work.workspace_stride = raptp_workspace_stride(call->workspace_bytes);
  work.workspaces_taken = work.runs_taken = 0;
  work.status = RAPT_OK;
  if (work.workspace_count > 1) pool->parallel_for(pool->pool, work.workspace_count, raptp_body, &work);
  raptp_body(&work, 0); /* if no body has run yet, this one does all */
  return work.status;
}

RAPT_INLINE rapt_status raptp_run_tasks(const struct raptp_call *call, size_t tasks, size_t runs,
                                        char *workspaces, const rapt_pool *pool) {
  return raptp_run_some(call, tasks, runs, 0, workspaces, pool);
}

/* Returns enough runs to balance tasks of different length. Every run checks the arguments again. */
RAPT_INLINE size_t raptp_balanced_runs(size_t tasks, size_t threads) {
  if (threads == 1) return 1;
  return threads > tasks / 8 ? tasks : threads * 8;
}
/* Returns enough runs that fall. The long ones prepare the rows of x that their tasks share, the short ones balance. */
RAPT_INLINE size_t raptp_falling_runs(size_t tasks, size_t threads) {
  if (threads == 1) return 1;
  return threads > tasks / 3 ? tasks : threads * 3;
}

RAPT_INLINE rapt_status raptp_whole(const struct raptp_call *a, size_t first, size_t last, void *workspace) {
  return rapt_attention_run(a->q, a->k, a->v, a->out, a->options, first, last, workspace, a->workspace_bytes);
}

RAPT_INLINE rapt_status raptp_partial(const struct raptp_call *a, size_t first, size_t last,
                                      void *workspace) {
  return rapt_attention_partial(a->q, a->k, a->v, a->partials, a->options, first, last, workspace,
                                a->workspace_bytes);
}

RAPT_INLINE rapt_status raptp_merge(const struct raptp_call *a, size_t first, size_t last, void *workspace) {
  return rapt_attention_merge(a->partials, a->out, a->options, first, last, workspace, a->workspace_bytes);
}

RAPT_INLINE rapt_status raptp_backward(const struct raptp_call *a, size_t first, size_t last,
                                       void *workspace) {
  return rapt_attention_backward_run(a->q, a->k, a->v, a->options, a->gradients, first, last, workspace,
                                     a->workspace_bytes);
}

/* The tasks of all layers, one layer after the other. An empty run checks every layer. */
RAPT_INLINE rapt_status raptp_convolution(const struct raptp_call *a, size_t first, size_t last,
                                          void *workspace) {
  return rapt_convolution_run(a->q, a->k, a->out, a->convolution, first, last, workspace, a->workspace_bytes);
}

RAPT_INLINE rapt_status raptp_linear(const struct raptp_call *a, size_t first, size_t last, void *workspace) {
  rapt_status status = RAPT_OK;
  for (size_t i = 0; i < a->layer_count && status == RAPT_OK; ++i) {
    const rapt_linear_work *const of = &a->layers[i];
    const size_t of_layer = a->first_tasks[i];
    const size_t begin = first > of_layer ? first : of_layer, end = raptp_min(last, a->first_tasks[i + 1]);
    if (first == last) {
      status = rapt_linear_run(of->x, of->w, of->y, of->options, 0, 0, workspace, a->workspace_bytes);
    } else if (begin < end) {
      status = rapt_linear_run(of->x, of->w, of->y, of->options, begin - of_layer, end - of_layer, workspace,
                               a->workspace_bytes);
    }
  }
  return status;
}

/* The experts of one layer. */
RAPT_INLINE rapt_status raptp_experts(const struct raptp_call *a, size_t first, size_t last,
                                      void *workspace) {
  const rapt_linear_work *const of = a->layers;
  return rapt_linear_experts_run(of->x, of->w, of->y, of->options, a->experts, first, last, workspace,
                                 a->workspace_bytes);
}

/* The products of a batch. */
RAPT_INLINE rapt_status raptp_batch(const struct raptp_call *a, size_t first, size_t last, void *workspace) {
  const rapt_linear_work *const of = a->layers;
  return rapt_linear_batch_run(of->x, of->w, of->y, of->options, a->batch, first, last, workspace,
                               a->workspace_bytes);
}

/* All tasks of a search share the memory of their partial results. */
RAPT_INLINE rapt_status raptp_search(const struct raptp_call *a, size_t first, size_t last, void *workspace) {
  (void)workspace;
  return rapt_top_k_run(a->q, a->k, a->search, first, last, a->partials, a->partial_bytes);
}

RAPT_INLINE rapt_status raptp_delta_rule(const struct raptp_call *a, size_t first, size_t last,
                                         void *workspace) {
  return rapt_delta_rule_run(a->q, a->k, a->v, a->out, a->delta_rule, first, last, workspace,
                             a->workspace_bytes);
}

RAPT_INLINE rapt_status raptp_delta_rule_backward(const struct raptp_call *a, size_t first, size_t last,
                                                  void *workspace) {
  return rapt_delta_rule_backward_run(a->q, a->k, a->v, a->delta_rule, a->delta_rule_gradients, first, last,
                                      workspace, a->workspace_bytes);
}

/* Runs all tasks of layers or of a convolution. A run looks at what its tasks need: an empty run checks all before any of them writes. */
RAPT_INLINE rapt_status raptp_check_and_run(const struct raptp_call *call, size_t tasks,
                                            const rapt_pool *pool) {
  const size_t threads = raptp_threads(pool), most = raptp_min(threads, tasks);
  char *const workspaces = raptp_allocate(0, most > 1 ? most : 1, call->workspace_bytes);
  if (!workspaces) return RAPT_BAD_WORKSPACE;
  rapt_status status = call->run(call, 0, 0, workspaces);
  if (status == RAPT_OK && tasks > 0) {
    status = raptp_run_some(call, tasks, raptp_falling_runs(tasks, threads), 1, workspaces, pool);
  }
  free(workspaces);
  return status;
}

/* Runs all tasks of a call that has the arguments of one layer. */
RAPT_INLINE rapt_status raptp_check_and_run_layer(struct raptp_call *call, const void *x, const void *w,
                                                  void *y, const rapt_linear_options *options, size_t tasks,
                                                  const rapt_pool *pool) {
  rapt_linear_work layer;
  layer.x = x;
  layer.w = w;
  layer.y = y;
  layer.options = options;
  call->layers = &layer;
  return raptp_check_and_run(call, tasks, pool);
}

/* ---- public functions ---------------------------------------------------------------------------------------- */

#ifdef _OPENMP
/** A rapt_parallel_for on OpenMP's threads. Inside a parallel region it has one thread, unless OpenMP's nesting is
 * on. Without the compiler's -fopenmp there is no such function, so that nothing runs on one thread by surprise.
 *
 * In a child of fork(), gcc's OpenMP waits for ever if the parent has used it: that is how libgomp is. Such a child
 * needs another pool, or one thread, or must call exec first. */
RAPT_INLINE void rapt_parallel_openmp(void *pool, size_t count, rapt_parallel_body body, void *context) {
  const int threads = RAPTP_CAST(int, raptp_min(count, INT_MAX));
  (void)pool;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (size_t i = 0; i < count; ++i) body(context, i);
}

/** Returns the pool of OpenMP, with up to this many threads: omp_get_max_threads(), for example. Like
 * rapt_parallel_openmp(), it needs -fopenmp. */
RAPT_INLINE rapt_pool rapt_openmp_pool(size_t threads) {
  rapt_pool pool;
  pool.parallel_for = rapt_parallel_openmp;
  pool.pool = RAPTP_NULL;
  pool.threads = threads;
  return pool;
}
#endif

/** Computes rapt_attention() on the pool, with the same arguments, special values and statuses. If there are more
 * threads than tasks, it also splits the keys into chunks of 512 and merges their partial results. So one token over
 * a long context has work for all threads.
 *
 * Memory: rapt_attention_workspace() bytes for each thread that gets work, and the partial results of
 * rapt_attention_partial_tasks() if it splits the keys. */
RAPT_INLINE rapt_status rapt_parallel_attention(const void *q, const void *k, const void *v, void *out,
                                                const rapt_attention_options *options,
                                                const rapt_pool *pool) {
  const size_t threads = raptp_threads(pool);
  struct raptp_call a;
  size_t tasks = 0, partial_tasks = 0, length = 0;
  rapt_status status = rapt_attention_workspace(options, &a.workspace_bytes);
  if (status == RAPT_OK) status = rapt_attention_tasks(options, &tasks);
  if (status == RAPT_OK && tasks < threads) {
    status = rapt_attention_partial_tasks(options, &partial_tasks, &length);
  }
  if (status != RAPT_OK) return status;

  const int split = partial_tasks > tasks;
  const size_t number = options->q_type == RAPT_F64 ? sizeof(double) : sizeof(float);
  if (length > SIZE_MAX / number) return RAPT_BAD_SIZE;
  const size_t partial_bytes = split ? length * number : 0;
  const size_t most = raptp_min(threads, split ? partial_tasks : tasks);
  char *const memory = raptp_allocate(partial_bytes, most > 1 ? most : 1, a.workspace_bytes);
  if (!memory) return RAPT_BAD_WORKSPACE;
  char *const workspaces = memory + raptp_workspace_stride(partial_bytes);
  a.q = q;
  a.k = k;
  a.v = v;
  a.out = out;
  a.partials = memory;
  a.options = options;
  a.run = raptp_whole;
  if (!split) {
    status = raptp_run_tasks(&a, tasks, raptp_balanced_runs(tasks, threads), workspaces, pool);
  } else {
    /* A partial call does not get the output, nor a merge the inputs. So an empty run checks them all. */
    status = raptp_whole(&a, 0, 0, workspaces);
    a.run = raptp_partial;
    if (status == RAPT_OK) status = raptp_run_tasks(&a, partial_tasks, partial_tasks, workspaces, pool);
    a.run = raptp_merge;
    if (status == RAPT_OK) status = raptp_run_tasks(&a, tasks, tasks, workspaces, pool);
  }
  free(memory);
  return status;
}

/** Computes rapt_attention_backward() on the pool, with the same arguments and statuses. Each thread gets one run
 * of consecutive tasks.
 *
 * Memory: rapt_attention_backward_workspace() bytes for each thread that gets work. */
RAPT_INLINE rapt_status rapt_parallel_attention_backward(const void *q, const void *k, const void *v,
                                                         const rapt_attention_options *options,
                                                         const rapt_attention_gradients *gradients,
                                                         const rapt_pool *pool) {
  struct raptp_call a;
  size_t tasks = 0;
  rapt_status status = rapt_attention_backward_workspace(options, &a.workspace_bytes);
  if (status == RAPT_OK) status = rapt_attention_backward_tasks(options, gradients, &tasks);
  if (status != RAPT_OK) return status;

  const size_t runs = raptp_min(tasks, raptp_threads(pool));
  char *const memory = raptp_allocate(0, runs > 1 ? runs : 1, a.workspace_bytes);
  if (!memory) return RAPT_BAD_WORKSPACE;
  a.q = q;
  a.k = k;
  a.v = v;
  a.options = options;
  a.gradients = gradients;
  a.run = raptp_backward;
  status = raptp_run_tasks(&a, tasks, runs, memory, pool);
  free(memory);
  return status;
}

/** Computes layers[0] to layers[count - 1] as one list of tasks, with the bits of one rapt_linear() for each: q, k and
 * v of a block, for example. No layer may read or write what another one writes; this is not checked.
 * If a layer is bad, none is computed: the status is that of the first one whose options are bad, else of the first
 * one whose arrays are. A count of 0 succeeds.
 *
 * Memory: the largest rapt_linear_workspace() for each thread that gets work, and 8 bytes for each layer. */
RAPT_INLINE rapt_status rapt_parallel_linear(const rapt_linear_work *layers, size_t count,
                                             const rapt_pool *pool) {
  struct raptp_call a;
  rapt_status status = RAPT_OK;
  if (count == 0) return RAPT_OK;
  if (!layers) return RAPT_BAD_OPTIONS;
  if (count > PTRDIFF_MAX / sizeof(size_t) - 1) return RAPT_BAD_WORKSPACE;
  size_t *const first_tasks = RAPTP_CAST(size_t *, malloc((count + 1) * sizeof(size_t)));
  if (!first_tasks) return RAPT_BAD_WORKSPACE;

  a.run = raptp_linear;
  a.layers = layers;
  a.layer_count = count;
  a.first_tasks = first_tasks;
  a.workspace_bytes = 0;
  first_tasks[0] = 0;
  for (size_t i = 0; i < count && status == RAPT_OK; ++i) {
    size_t tasks = 0, bytes = 0;
    status = rapt_linear_tasks(layers[i].options, &tasks);
    if (status == RAPT_OK) status = rapt_linear_workspace(layers[i].options, &bytes);
    if (status == RAPT_OK && tasks > SIZE_MAX - first_tasks[i]) status = RAPT_BAD_SIZE;
    first_tasks[i + 1] = first_tasks[i] + tasks;
    if (bytes > a.workspace_bytes) a.workspace_bytes = bytes;
  }
  if (status == RAPT_OK) status = raptp_check_and_run(&a, first_tasks[count], pool);
  free(first_tasks);
  return status;
}

/** Computes rapt_convolution() on the pool, with the same arguments, bits and statuses.
 *
 * Memory: rapt_convolution_workspace() bytes for each thread that gets work. */
RAPT_INLINE rapt_status rapt_parallel_convolution(const void *a, const void *b, void *out,
                                                  const rapt_convolution_options *options,
                                                  const rapt_pool *pool) {
  struct raptp_call call;
  size_t tasks = 0;
  rapt_status status = rapt_convolution_workspace(options, &call.workspace_bytes);
  if (status == RAPT_OK) status = rapt_convolution_tasks(options, &tasks);
  if (status != RAPT_OK) return status;

  call.q = a;
  call.k = b;
  call.out = out;
  call.convolution = options;
  call.run = raptp_convolution;
  return raptp_check_and_run(&call, tasks, pool);
}

/** Computes rapt_delta_rule() on the pool, with the same arguments, bits and statuses.
 *
 * Memory: rapt_delta_rule_workspace() bytes for each thread that gets work. */
RAPT_INLINE rapt_status rapt_parallel_delta_rule(const void *q, const void *k, const void *v, void *out,
                                                 const rapt_delta_rule_options *options,
                                                 const rapt_pool *pool) {
  struct raptp_call call;
  size_t tasks = 0;
  rapt_status status = rapt_delta_rule_workspace(options, &call.workspace_bytes);
  if (status == RAPT_OK) status = rapt_delta_rule_tasks(options, &tasks);
  if (status != RAPT_OK) return status;

  call.q = q;
  call.k = k;
  call.v = v;
  call.out = out;
  call.delta_rule = options;
  call.run = raptp_delta_rule;
  return raptp_check_and_run(&call, tasks, pool);
}

/** Computes rapt_delta_rule_backward() on the pool, with the same arguments, bits and statuses.
 *
 * Memory: rapt_delta_rule_backward_workspace() bytes for each thread that gets work. */
RAPT_INLINE rapt_status rapt_parallel_delta_rule_backward(const void *q, const void *k, const void *v,
                                                          const rapt_delta_rule_options *options,
                                                          const rapt_delta_rule_gradients *gradients,
                                                          const rapt_pool *pool) {
  struct raptp_call call;
  size_t tasks = 0;
  rapt_status status = rapt_delta_rule_backward_workspace(options, &call.workspace_bytes);
  if (status == RAPT_OK) status = rapt_delta_rule_backward_tasks(options, &tasks);
  if (status != RAPT_OK) return status;

  call.q = q;
  call.k = k;
  call.v = v;
  call.delta_rule = options;
  call.delta_rule_gradients = gradients;
  call.run = raptp_delta_rule_backward;
  return raptp_check_and_run(&call, tasks, pool);
}

/** Computes rapt_linear_experts() on the pool, with the same arguments, bits and statuses.
 *
 * Memory: rapt_linear_experts_workspace() bytes for each thread that gets work. */
RAPT_INLINE rapt_status rapt_parallel_linear_experts(const void *x, const void *w, void *y,
                                                     const rapt_linear_options *options,
                                                     const rapt_expert_options *experts,
                                                     const rapt_pool *pool) {
  struct raptp_call a;
  size_t tasks = 0;
  rapt_status status = rapt_linear_experts_workspace(options, &a.workspace_bytes);
  if (status == RAPT_OK) status = rapt_linear_experts_tasks(options, experts, &tasks);
  if (status != RAPT_OK) return status;

  a.experts = experts;
  a.run = raptp_experts;
  return raptp_check_and_run_layer(&a, x, w, y, options, tasks, pool);
}

/** Computes rapt_linear_batch() on the pool, with the same arguments, bits and statuses.
 *
 * Memory: rapt_linear_batch_workspace() bytes for each thread that gets work. */
RAPT_INLINE rapt_status rapt_parallel_linear_batch(const void *x, const void *w, void *y,
                                                   const rapt_linear_options *options,
                                                   const rapt_linear_batch_options *batch,
                                                   const rapt_pool *pool) {
  struct raptp_call a;
  size_t tasks = 0;
  rapt_status status = rapt_linear_batch_workspace(options, batch, &a.workspace_bytes);
  if (status == RAPT_OK) status = rapt_linear_batch_tasks(options, batch, &tasks);
  if (status != RAPT_OK) return status;

  a.batch = batch;
  a.run = raptp_batch;
  return raptp_check_and_run_layer(&a, x, w, y, options, tasks, pool);
}

/** Computes rapt_top_k() on the pool, with the same arguments, bits and statuses.
 *
 * Memory: rapt_top_k_workspace() bytes, which all threads share. */
RAPT_INLINE rapt_status rapt_parallel_top_k(const void *q, const void *x, int64_t *indices, float *scores,
                                            const rapt_search_options *options, const rapt_pool *pool) {
  struct raptp_call a;
  size_t tasks = 0;
  rapt_status status = rapt_top_k_workspace(options, &a.partial_bytes);
  if (status == RAPT_OK) status = rapt_top_k_tasks(options, &tasks);
  if (status != RAPT_OK) return status;
  const size_t most = raptp_min(raptp_threads(pool), tasks);
  char *const memory = raptp_allocate(a.partial_bytes, most > 1 ? most : 1, 0);
  if (!memory) return RAPT_BAD_WORKSPACE;
  a.run = raptp_search;
  a.q = q;
  a.k = x;
  a.search = options;
  a.partials = memory;
  a.workspace_bytes = 0;
  /* Tasks do not get the outputs. A call without workspace looks at all arrays, and then finds that it has none. */
  status = rapt_top_k(q, x, indices, scores, options, RAPTP_NULL, 0);
  if (status == RAPT_BAD_WORKSPACE) status = RAPT_OK;
  if (status == RAPT_OK) {
    status = raptp_run_tasks(&a, tasks, raptp_balanced_runs(tasks, raptp_threads(pool)),
                             memory + raptp_workspace_stride(a.partial_bytes), pool);
  }
  if (status == RAPT_OK) status = rapt_top_k_merge(indices, scores, options, memory, a.partial_bytes);
  free(memory);
  return status;
}

#undef RAPTP_CAST
#undef RAPTP_NULL

#endif
