#include "support/attention.hpp"

#include <algorithm>
#include <type_traits>

namespace rapt::bench {
namespace {

// Lists of keys need more workspace. Counting it reads no list.
rapt_status workspace_of_lists(const rapt_attention_options *options, std::size_t *bytes) {
  constexpr std::int32_t any = 0;
  rapt_attention_options listed = *options;
  listed.key_lists = &any;
  listed.cache_len = options->kv_len;
  return rapt_attention_workspace(&listed, bytes);
}

template <class T>
std::size_t scratch_of(const AttentionShape &shape) {
  const std::size_t rows = shape.q_len == 1 ? shape.q_heads_per_kv_head() : shape.q_len;
  return scratch_elements<T>(shape, workspace_of_lists, std::min(rows, attention_score_rows));
}

template <class T>
Buffer<T> queries(const AttentionShape &shape) {
  Buffer<T> q = logits<T>(shape.q_heads * shape.q_len * shape.qk_dim);
  for (T &one : q.elements()) one *= T(0.5);  // keys keep their standard deviation of 2
  return q;
}

template <class T>
rapt_attention_options options_of(const AttentionProblem<T> &problem) {
  rapt_attention_options options = attention_options<T>(problem.shape);
  options.sinks = problem.sinks;
  return options;
}

}  // namespace

std::vector<std::int32_t> scattered_pages(std::size_t count) {
  std::vector<std::int32_t> pages(count);
  for (std::size_t i = 0; i < count; ++i) pages[i] = static_cast<std::int32_t>(i);
  Uniform next;
  for (std::size_t i = count; i > 1; --i) {
    std::swap(pages[i - 1],
              pages[std::min(i - 1, static_cast<std::size_t>(next() * static_cast<double>(i)))]);
  }
  return pages;
}

std::vector<std::int32_t> scattered_keys(std::size_t keys, std::size_t run) {
  std::vector<std::int32_t> list;
  for (const std::int32_t first : scattered_pages(keys / run)) {
    for (std::size_t i = 0; i < run; ++i)
      list.push_back(static_cast<std::int32_t>(static_cast<std::size_t>(first) * run + i));
  }
  return list;
}

void list_keys(rapt_attention_options &options, const std::vector<std::int32_t> &list) {
  options.key_lists = list.data();
  options.key_list_strides = {RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
  options.cache_len = list.size();
}

template <class T>
rapt_attention_options attention_options(const AttentionShape &shape) {
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_type = std::is_same_v<T, double> ? RAPT_F64 : RAPT_F32;
  options.q_heads = shape.q_heads;
  options.kv_heads = shape.kv_heads;
  options.q_len = shape.q_len;
  options.kv_len = shape.kv_len;
  options.qk_dim = shape.qk_dim;
  options.v_dim = shape.v_dim;
  options.causal = shape.causal ? RAPT_CAUSAL_BOTTOM_RIGHT : RAPT_CAUSAL_NONE;
  options.window_left = shape.window;
  options.softcap = shape.softcap;
  return options;
}

template <class T>
std::size_t scratch_elements(const AttentionShape &shape, WorkspaceSize workspace_size, std::size_t rows) {
  std::size_t bytes = 0;
  const rapt_attention_options options = attention_options<T>(shape);
  require_ok(workspace_size(&options, &bytes));
  return std::max(bytes / sizeof(T) + 1, rows * attention_score_stride(shape.kv_len));
}

template <class T>
AttentionBuffers<T>::AttentionBuffers(const AttentionShape &shape, bool with_sinks)
    : shape_(shape),
      q_(queries<T>(shape)),
      k_(logits<T>(shape.kv_heads * shape.kv_len * shape.qk_dim, 0, 1)),
      v_(logits<T>(shape.kv_heads * shape.kv_len * shape.v_dim, 0, 2)),
      sinks_(logits<T>(with_sinks ? shape.q_heads : 0, 0, 3)),
      out_(shape.q_heads * shape.q_len * shape.v_dim),
      scratch_(scratch_of<T>(shape)) {}

template <class T>
AttentionProblem<T> AttentionBuffers<T>::problem() const {
  return {.shape = shape_,
          .q = q_.data(),
          .k = k_.data(),
          .v = v_.data(),
          .sinks = sinks_.size() > 0 ? sinks_.data() : nullptr,
          .out = out_.data(),
          .scratch = scratch_.data(),
          .scratch_bytes = scratch_.size() * sizeof(T)};
}

template <class T>
void AttentionBuffers<T>::attention(const T *k, const T *v, const rapt_attention_options &options) const {
  require_ok(
      rapt_attention(q_.data(), k, v, out_.data(), &options, scratch_.data(), scratch_.size() * sizeof(T)));
}

template <class T>
void whole_attention(const AttentionProblem<T> &problem) {
  const rapt_attention_options options = options_of(problem);
  require_ok(rapt_attention(problem.q, problem.k, problem.v, problem.out, &options, problem.scratch,
                            problem.scratch_bytes));
}

std::size_t attention_partials(const AttentionShape &shape) {
  const rapt_attention_options options = attention_options<float>(shape);
  std::size_t tasks = 0, length = 0;
  require_ok(rapt_attention_partial_tasks(&options, &tasks, &length));
  return length;
}

template <class T>
void partial_attention(const AttentionProblem<T> &problem, T *partials) {
  const rapt_attention_options options = options_of(problem);
  std::size_t tasks = 0, length = 0;
  require_ok(rapt_attention_partial_tasks(&options, &tasks, &length));
  require_ok(rapt_attention_partial(problem.q, problem.k, problem.v, partials, &options, 0, tasks,
                                    problem.scratch, problem.scratch_bytes));
}

template <class T>
void merge_attention(const AttentionProblem<T> &problem, T *partials) {
  const rapt_attention_options options = options_of(problem);
  std::size_t tasks = 0;
  require_ok(rapt_attention_tasks(&options, &tasks));
  require_ok(rapt_attention_merge(partials, problem.out, &options, 0, tasks, problem.scratch,
                                  problem.scratch_bytes));
}

#define RAPT_INSTANTIATE(T)                                                                          \
  template rapt_attention_options attention_options<T>(const AttentionShape &);                      \
  template std::size_t scratch_elements<T>(const AttentionShape &, WorkspaceSize, std::size_t rows); \
  template class AttentionBuffers<T>;                                                                \
  template void whole_attention<T>(const AttentionProblem<T> &);                                     \
  template void partial_attention<T>(const AttentionProblem<T> &, T *);                              \
  template void merge_attention<T>(const AttentionProblem<T> &, T *);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::bench
