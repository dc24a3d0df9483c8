#include "support/problem.hpp"

#include <cstdarg>
#include <cstdio>

namespace rapt::test {
namespace {

__attribute__((format(printf, 1, 2))) std::string format(const char *pattern, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

const char *name_of(PerRow choice) {
  return choice == PerRow::none ? "none" : choice == PerRow::one_for_all ? "one_for_all" : "each";
}

}  // namespace

const char *name_of(Calls calls) {
  constexpr const char *names[calls_count] = {"whole",      "task_by_task", "task_ranges",
                                              "split_keys", "by_sequence",  "query_by_query"};
  return names[static_cast<std::size_t>(calls)];
}

std::vector<RowOptions> each_option_alone() {
  std::vector<RowOptions> choices(15);
  choices[0].null = true;
  choices[1].softcap = 50;
  choices[2].bias = PerRow::each;
  choices[3].bias = PerRow::one_for_all;
  choices[4].bias = PerRow::each;
  choices[4].bias_excludes = true;
  choices[5].bias = PerRow::one_for_all;
  choices[5].bias_excludes = true;
  choices[6].mask = PerRow::each;
  choices[7].mask = PerRow::one_for_all;
  choices[8].row_lengths = true;
  choices[9].causal = true;
  choices[10].causal = true;
  choices[10].causal_offset = -2;
  choices[11].causal = true;
  choices[11].causal_offset = 5;
  choices[12].sinks = true;
  choices[13].sinks = choices[13].special_sinks = true;
  choices[14].empty_rows_are_zero = true;
  return choices;
}

std::string describe(const Problem &problem) {
  std::string text = format("rows=%zu n=%zu input=%s seed=%llu scale=%a shift=%a", problem.rows, problem.cols,
                            name_of(problem.input), static_cast<unsigned long long>(problem.seed),
                            problem.scale, problem.shift);
  if (problem.same_row) text += " same_row";
  if (problem.row_count != SIZE_MAX) {
    text += format(" rows [%zu, %zu)", problem.first_row, problem.first_row + problem.row_count);
  }
  const RowOptions &options = problem.options;
  if (options.null) text += " options=null";
  if (options.softcap != 0) text += format(" softcap=%g", options.softcap);
  if (options.bias != PerRow::none) {
    text += format(" bias=%s%s", name_of(options.bias), options.bias_excludes ? " with -inf" : "");
  }
  if (options.mask != PerRow::none) text += format(" mask=%s", name_of(options.mask));
  if (options.row_lengths) text += " row_lengths";
  if (options.causal) text += format(" causal_offset=%td", options.causal_offset);
  if (options.sinks) text += options.special_sinks ? " special sinks" : " sinks";
  if (options.empty_rows_are_zero) text += " empty_rows_are_zero";
  const AttentionOptions &attention = problem.attention, plain;
  if (attention.batch != plain.batch) text += format(" batch=%zu", attention.batch);
  if (attention.kv_heads != plain.kv_heads) text += format(" kv_heads=%zu", attention.kv_heads);
  if (attention.group != plain.group) text += format(" group=%zu", attention.group);
  if (attention.qk_dim != plain.qk_dim || attention.v_dim != plain.v_dim) {
    text += format(" qk_dim=%zu v_dim=%zu", attention.qk_dim, attention.v_dim);
  }
  if (attention.ragged_queries) text += " ragged_queries";
  if (attention.query_scales) text += " query_scales";
  if (attention.alibi) text += " alibi";
  if (attention.bottom_right) text += " bottom_right";
  if (attention.window_left >= 0) text += format(" window_left=%td", attention.window_left);
  if (attention.window_right >= 0) text += format(" window_right=%td", attention.window_right);
  if (attention.window_chunk != 0) text += format(" window_chunk=%zu", attention.window_chunk);
  return text;
}

std::string describe(const Layout &layout) {
  std::string text = layout.placement == Placement::ends_at_guard ? "end at guard" : "begin at guard";
  text += format(", offsets %zu %zu %zu, gaps %td %td %td", layout.offset[0], layout.offset[1],
                 layout.offset[2], layout.gap[0], layout.gap[1], layout.gap[2]);
  if (layout.alias == Alias::first_input) text += ", in place of the first input";
  if (layout.alias == Alias::second_input) text += ", in place of the second input";
  if (layout.reversed) text += ", negative stride";
  const AttentionLayout &attention = layout.attention;
  if (attention.tokens_outside) text += ", tokens outside heads";
  if (attention.fused) text += ", q, k and v in one buffer";
  if (attention.page_size != 0) text += format(", pages of %zu", attention.page_size);
  if (attention.packed_keys) text += ", packed keys";
  if (attention.q_offsets) text += ", q_offsets";
  if (attention.kv_offsets) text += ", kv_offsets";
  if (attention.repeated_heads) text += ", repeated heads";
  if (attention.calls != Calls::whole) text += std::string(", ") + name_of(attention.calls);
  if (layout.fp_state) text += ", caller's floating-point state: " + layout.fp_state->name;
  return text;
}

}  // namespace rapt::test
