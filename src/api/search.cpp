// Implements rapt_metric, rapt_metric_rows and rapt_top_k. They check their arguments before they write anything.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "api/floating_point.hpp"
#include "api/matrix.hpp"
#include "api/query.hpp"
#include "api/read_options.hpp"
#include "api/tasks.hpp"
#include "call/element.hpp"
#include "call/metric_rows.hpp"
#include "contract/metric.hpp"
#include "dispatch/dispatch.hpp"
#include "rapt/rapt.h"

namespace rapt {
namespace {

template <class T>
T smaller(T a, T b) {
  return a < b ? a : b;
}
template <class T>
T larger(T a, T b) {
  return a < b ? b : a;
}

// Checked options, with defaults filled in.
struct Search {
  rapt_search_options o = RAPT_SEARCH_OPTIONS_INIT;
  bool finds;  // for rapt_top_k

  rapt_status read(const rapt_search_options *given) {
    if (!given) return RAPT_BAD_OPTIONS;
    const rapt_status status = read_options(given, o);
    if (status != RAPT_OK) return status;
    if (o.metric < RAPT_METRIC_DOT || o.metric > RAPT_METRIC_COSINE_DISTANCE) return RAPT_BAD_METRIC;
    const int type = number_of(o.type);
    if (type < RAPT_TYPE_DEFAULT || type > RAPT_I8 || (finds && type == RAPT_F64)) return RAPT_BAD_TYPE;
    if (type == RAPT_TYPE_DEFAULT) o.type = RAPT_F32;
    if ((o.k > 0) != finds) return RAPT_BAD_TOP_K;
    if (!set_stride(o.q_stride, o.dim) || !set_stride(o.x_stride, o.dim) ||
        !set_stride(o.out_stride, finds ? o.k : o.rows))
      return RAPT_BAD_SIZE;
    if (!queries(nullptr).stride_fits()) return RAPT_BAD_Q_STRIDE;
    if (!rows(nullptr).stride_fits()) return RAPT_BAD_X_STRIDE;
    if (!results(nullptr, 1).stride_fits()) return RAPT_BAD_OUT_STRIDE;
    std::size_t bytes;
    if (!queries(nullptr).extent(bytes) || !rows(nullptr).extent(bytes) ||
        !results(nullptr, sizeof(std::int64_t)).extent(bytes))
      return RAPT_BAD_SIZE;
    return RAPT_OK;
  }

  Matrix queries(const void *q) const { return {q, o.q_stride, o.queries, o.dim, size_of(o.type)}; }
  Matrix rows(const void *x) const { return {x, o.x_stride, o.rows, o.dim, size_of(o.type)}; }
  Matrix results(const void *out, std::size_t size) const {
    return {out, o.out_stride, o.queries, finds ? o.k : o.rows, size};
  }
  rapt_status check_inputs(const void *q, const void *x) const {
    if (o.dim == 0 || o.rows == 0) return RAPT_OK;
    if (!q) return RAPT_BAD_Q;
    return x ? RAPT_OK : RAPT_BAD_X;
  }

  // Compares some queries with some rows.
  void compare(const void *q, std::size_t first_query, std::size_t query_count, const void *x,
               std::size_t first_row, std::size_t row_count, void *out, std::ptrdiff_t out_stride) const {
    const auto at = [](const Matrix &m, std::size_t row) {
      return static_cast<const char *>(m.data) +
             m.used_stride() * static_cast<std::ptrdiff_t>(row * m.element_size);
    };
    const MetricRows call{o.metric,
                          o.dim == 0 ? nullptr : at(queries(q), first_query),
                          queries(q).used_stride(),
                          query_count,
                          o.dim == 0 ? nullptr : at(rows(x), first_row),
                          rows(x).used_stride(),
                          row_count,
                          o.dim,
                          out,
                          out_stride};
    if (o.type == RAPT_F64) return kernels().f64.metric_rows(&call);
    if (o.type == RAPT_I8) return kernels().i8.metric_rows(&call);
    with_element<float>(
        o.type, [&](auto element) { kernels().of<typename decltype(element)::type>().metric_rows(&call); });
  }

  // Blocks of rows stay in L1 while some queries read them, or in L2 where the queries' own sums are taken for each
  // block. On a busy Zen 3, 16 queries by dot: 16 KB 9.4 to 12 Gmul/s in f32 and 17 in f16, 64 KB 8.6 to 9.3 and 13.5.
  static constexpr std::size_t most_block = 128;
  std::size_t block() const {
    const std::size_t row = larger<std::size_t>(o.dim, 1) * size_of(o.type),
                      bytes = std::size_t{o.queries > 1 && !is_cosine(o.metric) ? 16u : 64u} << 10;
    return smaller(larger<std::size_t>(bytes / row, 4), most_block);
  }
};

// Calls run(first, count) for parts of up to `step` of the numbers from `first` to `last` - 1.
template <class Run>
void in_steps(std::size_t first, std::size_t last, std::size_t step, Run run) {
  for (; first < last; first += step) run(first, smaller(step, last - first));
}

rapt_status metric_rows(const void *q, const void *x, void *out, const rapt_search_options *given) {
  Search search{.finds = false};
  rapt_status status = search.read(given);
  const rapt_search_options &o = search.o;
  if (status != RAPT_OK || o.queries == 0 || o.rows == 0) return status;
  status = search.check_inputs(q, x);
  if (status != RAPT_OK) return status;
  if (!out) return RAPT_BAD_OUT;
  const std::size_t size = number_size(o.type);
  const Matrix to = search.results(out, size);
  if (overlap(search.queries(q), to) != Overlap::none || overlap(search.rows(x), to) != Overlap::none)
    return RAPT_BAD_OVERLAP;
  in_steps(0, o.queries, MetricRows::most_queries, [&](std::size_t query, std::size_t query_count) {
    in_steps(0, o.rows, search.block(), [&](std::size_t row, std::size_t row_count) {
      char *const at =
          static_cast<char *>(out) + to.used_stride() * static_cast<std::ptrdiff_t>(query * size);
      search.compare(q, query, query_count, x, row, row_count, at + row * size, to.used_stride());
    });
  });
  return RAPT_OK;
}

// A row that was found. Its key is the score, or the negative score where the smallest is the best.
struct Found {
  float key;
  std::int64_t row;

  bool is_better_than(const Found &other) const {
    return key > other.key || (key == other.key && row < other.row);
  }
};

// The best rows so far, as a heap whose first entry is the worst of them.
struct Best {
  Found *found;
  std::size_t count, most;

  // Rows come in the order of their numbers, so that one with the key of the worst is no better. A NaN is never better.
  bool would_take(float key) const { return count < most ? key == key : key > found[0].key; }
  void take(Found one) {
    if (count == most) return put(0, count, one);
    std::size_t at = count++;
    for (; at > 0 && found[(at - 1) / 2].is_better_than(one); at = (at - 1) / 2)
      found[at] = found[(at - 1) / 2];
    found[at] = one;
  }
  // Orders the entries, best first.
  void sort() {
    for (std::size_t left = count; left > 1; --left) {
      const Found last = found[left - 1];
      found[left - 1] = found[0];
      put(0, left - 1, last);
    }
  }

 private:
  // Puts an entry in the place of entry `at` of a heap of `size`, and moves it down.
  void put(std::size_t at, std::size_t size, Found one) {
    for (;;) {
      std::size_t below = 2 * at + 1;
      if (below >= size) break;
      if (below + 1 < size && found[below].is_better_than(found[below + 1])) ++below;
      if (!one.is_better_than(found[below])) break;
      found[at] = found[below];
      at = below;
    }
    found[at] = one;
  }
};

// Cuts a search into tasks: some queries and a part of the rows. Their results lie in the workspace: for each part and
// query a list, which begins with the number of its entries. Threads do not change the parts.
struct TopK : Search {
  static constexpr std::size_t most_parts = 64, least_part = 4096;
  std::size_t part = 0, parts = 0, query_blocks = 0, list = 0, bytes = 0;

  TopK() : Search{.finds = true} {}

  rapt_status read(const rapt_search_options *given) {
    const rapt_status status = Search::read(given);
    if (status != RAPT_OK) return status;
    query_blocks = o.queries / MetricRows::most_queries + (o.queries % MetricRows::most_queries == 0 ? 0 : 1);
    const std::size_t wanted =
        query_blocks >= most_parts ? 1 : most_parts / larger<std::size_t>(query_blocks, 1);
    part = larger(o.rows / wanted + (o.rows % wanted == 0 ? 0 : 1), least_part);
    parts = o.rows / part + (o.rows % part == 0 ? 0 : 1);
    list = smaller(o.k, part) + 1;
    std::size_t lists;
    if (__builtin_mul_overflow(parts, o.queries, &lists) || __builtin_mul_overflow(lists, list, &bytes) ||
        __builtin_mul_overflow(bytes, sizeof(Found), &bytes) ||
        __builtin_add_overflow(bytes, workspace_alignment, &bytes) || bytes > std::size_t{PTRDIFF_MAX})
      return RAPT_BAD_SIZE;
    return RAPT_OK;
  }
  std::size_t tasks() const { return query_blocks * parts; }
  Found *list_of(const Workspace &workspace, std::size_t index, std::size_t query) const {
    return static_cast<Found *>(workspace.aligned()) + (index * o.queries + query) * list;
  }

  void run(const void *q, const void *x, std::size_t task, const Workspace &workspace) const {
    const std::size_t query = task % query_blocks * MetricRows::most_queries, index = task / query_blocks,
                      query_count = smaller(MetricRows::most_queries, o.queries - query),
                      first = index * part, last = first + smaller(part, o.rows - first);
    const float sign = smallest_is_best(o.metric) ? -1.0f : 1.0f;
    Best best[MetricRows::most_queries];
    for (std::size_t i = 0; i < query_count; ++i)
      best[i] = {list_of(workspace, index, query + i) + 1, 0, list - 1};
    float scores[MetricRows::most_queries * most_block];
    in_steps(first, last, block(), [&](std::size_t row, std::size_t count) {
      compare(q, query, query_count, x, row, count, scores, most_block);
      for (std::size_t i = 0; i < query_count; ++i) {
        for (std::size_t j = 0; j < count; ++j) {
          const float key = sign * scores[i * most_block + j];
          if (best[i].would_take(key)) [[unlikely]]
            best[i].take({key, static_cast<std::int64_t>(row + j)});
        }
      }
    });
    for (std::size_t i = 0; i < query_count; ++i) {
      best[i].sort();
      best[i].found[-1] = {0, static_cast<std::int64_t>(best[i].count)};
    }
  }

  // Merges the sorted lists of a query. Of equal keys, the earlier part has the lower rows.
  void merge(std::size_t query, std::int64_t *indices, float *scores, const Workspace &workspace) const {
    const Found *next[most_parts], *end[most_parts];
    for (std::size_t i = 0; i < parts; ++i) {
      const Found *const of_part = list_of(workspace, i, query);
      next[i] = of_part + 1;
      end[i] = next[i] + of_part->row;
    }
    const float sign = smallest_is_best(o.metric) ? -1.0f : 1.0f;
    for (std::size_t n = 0; n < o.k; ++n) {
      std::size_t first = parts;
      for (std::size_t i = 0; i < parts; ++i) {
        if (next[i] < end[i] && (first == parts || next[i]->key > next[first]->key)) first = i;
      }
      const Found none{-std::numeric_limits<float>::infinity(), -1};
      const Found &one = first == parts ? none : *next[first]++;
      indices[n] = one.row;
      if (scores) scores[n] = sign * one.key;
    }
  }
};

// Looks at the workspace last, so that a call without one checks the other arrays.
rapt_status check_results(const TopK &top, const void *q, const void *x, const std::int64_t *indices,
                          const float *scores, const Workspace &workspace) {
  if (!indices) return RAPT_BAD_INDICES;
  const Matrix to = top.results(indices, sizeof *indices), of_scores = top.results(scores, sizeof *scores),
               memory{workspace.data, 0, 1, top.bytes, 1}, inputs[] = {top.queries(q), top.rows(x)};
  const auto meets_others = [&](const Matrix &one) {
    if (!one.data) return false;
    bool meets = false;
    for (const Matrix &input : inputs) meets = meets || (input.data && overlap(one, input) != Overlap::none);
    return meets;
  };
  if (meets_others(to) || meets_others(of_scores) || (scores && overlap(to, of_scores) != Overlap::none))
    return RAPT_BAD_OVERLAP;
  if (!workspace.holds(top.bytes)) return RAPT_BAD_WORKSPACE;
  const bool meets_memory = meets_others(memory) || overlap(to, memory) != Overlap::none ||
                            (scores && overlap(of_scores, memory) != Overlap::none);
  return meets_memory ? RAPT_BAD_OVERLAP : RAPT_OK;
}

rapt_status run_tasks(const void *q, const void *x, const rapt_search_options *given, Tasks tasks,
                      const Workspace &workspace) {
  TopK top;
  rapt_status status = top.read(given);
  if (status != RAPT_OK) return status;
  if (!tasks.fit(top.tasks())) return RAPT_BAD_TASKS;
  if (top.o.queries == 0) return RAPT_OK;
  status = top.check_inputs(q, x);
  if (status != RAPT_OK) return status;
  if (!workspace.holds(top.bytes)) return RAPT_BAD_WORKSPACE;
  const Matrix memory{workspace.data, 0, 1, top.bytes, 1};
  if ((q && overlap(top.queries(q), memory) != Overlap::none) ||
      (x && overlap(top.rows(x), memory) != Overlap::none))
    return RAPT_BAD_OVERLAP;
  for (std::size_t task = tasks.first; task < tasks.last; ++task) top.run(q, x, task, workspace);
  return RAPT_OK;
}

rapt_status merge(const void *q, const void *x, std::int64_t *indices, float *scores,
                  const rapt_search_options *given, const Workspace &workspace) {
  TopK top;
  rapt_status status = top.read(given);
  if (status != RAPT_OK || top.o.queries == 0) return status;
  status = check_results(top, q, x, indices, scores, workspace);
  if (status != RAPT_OK) return status;
  const std::ptrdiff_t stride = top.results(indices, 1).used_stride();
  for (std::size_t query = 0; query < top.o.queries; ++query) {
    const std::ptrdiff_t at = stride * static_cast<std::ptrdiff_t>(query);
    top.merge(query, indices + at, scores ? scores + at : nullptr, workspace);
  }
  return RAPT_OK;
}

rapt_status top_k(const void *q, const void *x, std::int64_t *indices, float *scores,
                  const rapt_search_options *given, const Workspace &workspace) {
  TopK top;
  rapt_status status = top.read(given);
  if (status != RAPT_OK || top.o.queries == 0) return status;
  status = top.check_inputs(q, x);
  if (status == RAPT_OK) status = check_results(top, q, x, indices, scores, workspace);
  if (status == RAPT_OK) status = run_tasks(q, x, given, all_tasks, workspace);
  return status == RAPT_OK ? merge(q, x, indices, scores, given, workspace) : status;
}

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_metric_function rapt_metric(int kind, rapt_type type) {
  switch (number_of(type)) {
    case RAPT_F32:
      return kernels().f32.metric(kind);
    case RAPT_F16:
      return kernels().f16.metric(kind);
    case RAPT_BF16:
      return kernels().bf16.metric(kind);
    case RAPT_I8:
      return kernels().i8.metric(kind);
    default:
      return nullptr;
  }
}

rapt_metric_function_f64 rapt_metric_f64(int kind) { return kernels().f64.metric(kind); }

rapt_status rapt_metric_rows(const void *q, const void *x, void *out, const rapt_search_options *options) {
  return in_default_mode([&] { return rapt::metric_rows(q, x, out, options); });
}

rapt_status rapt_top_k_workspace(const rapt_search_options *options, size_t *bytes) {
  return query<TopK>(options, bytes, [&](const TopK &top) { *bytes = top.bytes; });
}

rapt_status rapt_top_k_tasks(const rapt_search_options *options, size_t *tasks) {
  return query<TopK>(options, tasks, [&](const TopK &top) { *tasks = top.tasks(); });
}

rapt_status rapt_top_k(const void *q, const void *x, int64_t *indices, float *scores,
                       const rapt_search_options *options, void *workspace, size_t workspace_size) {
  return in_default_mode([&] {
    return rapt::top_k(q, x, indices, scores, options, {workspace, workspace_size});
  });
}

rapt_status rapt_top_k_run(const void *q, const void *x, const rapt_search_options *options, size_t first,
                           size_t last, void *workspace, size_t workspace_size) {
  return in_default_mode([&] {
    return run_tasks(q, x, options, {first, last}, {workspace, workspace_size});
  });
}

rapt_status rapt_top_k_merge(int64_t *indices, float *scores, const rapt_search_options *options,
                             const void *workspace, size_t workspace_size) {
  return in_default_mode([&] {
    return merge(nullptr, nullptr, indices, scores, options, {const_cast<void *>(workspace), workspace_size});
  });
}
