#include "validate/case_text.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <sstream>

namespace rapt::validate {
namespace {

using namespace rapt::test;

constexpr const char *per_row_names[] = {"none", "shared", "each"};
constexpr const char *alias_names[] = {"none", "first", "second"};

__attribute__((format(printf, 2, 3))) void append(std::string &text, const char *pattern, ...) {
  char piece[128];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(piece, sizeof piece, pattern, arguments);
  va_end(arguments);
  text += piece;
}

template <std::size_t count>
bool find(const char *const (&names)[count], const std::string &name, std::size_t &index) {
  for (index = 0; index < count; ++index) {
    if (names[index] == name) return true;
  }
  return false;
}

bool parse(const std::string &text, double &value) {
  char *end;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}
bool parse(const std::string &text, std::uint64_t &value) {
  char *end;
  errno = 0;
  value = std::strtoull(text.c_str(), &end, 0);
  return !text.empty() && text[0] != '-' && *end == '\0' && errno == 0;
}
bool parse(const std::string &text, std::ptrdiff_t &value) {
  char *end;
  errno = 0;
  value = std::strtoll(text.c_str(), &end, 0);
  return !text.empty() && *end == '\0' && errno == 0;
}
bool parse(const std::string &text, PerRow &value) {
  std::size_t index;
  if (!find(per_row_names, text, index)) return false;
  value = static_cast<PerRow>(index);
  return true;
}
bool parse(const std::string &text, Alias &value) {
  std::size_t index;
  if (!find(alias_names, text, index)) return false;
  value = static_cast<Alias>(index);
  return true;
}
bool parse(const std::string &text, Calls &value) {
  for (std::size_t i = 0; i < calls_count; ++i) {
    value = static_cast<Calls>(i);
    if (text == name_of(value)) return true;
  }
  return false;
}
bool parse(const std::string &text, InputClass &value) {
  for (const std::span<const InputClass> classes : {std::span<const InputClass>(all_input_classes),
                                                    std::span<const InputClass>(directed_input_classes)}) {
    for (const InputClass input : classes) {
      if (text != name_of(input)) continue;
      value = input;
      return true;
    }
  }
  return false;
}
bool parse(const std::string &text, Placement &value) {
  value = text == "end" ? Placement::ends_at_guard : Placement::begins_at_guard;
  return text == "end" || text == "begin";
}
template <class T>
bool parse_three(const std::string &text, std::array<T, 3> &values) {
  std::istringstream parts(text);
  std::string part;
  for (T &value : values) {
    if (!std::getline(parts, part, ',') || !parse(part, value)) return false;
  }
  return parts.eof();
}
bool parse_window(const std::string &text, Problem &problem) {
  const std::size_t comma = text.find(',');
  return comma != std::string::npos && parse(text.substr(0, comma), problem.first_row) &&
         parse(text.substr(comma + 1), problem.row_count);
}
bool parse_control(const std::string &text, Layout &layout) {
  FpState state;
  state.name = text;
  if (!parse(text, state.control)) return false;
  layout.fp_state = state;
  return true;
}

bool parse_flag(const std::string &name, Case &parsed) {
  RowOptions &options = parsed.problem.options;
  struct Flag {
    const char *name;
    bool *value;
  };
  for (const Flag &flag :
       {Flag{"same_row", &parsed.problem.same_row}, Flag{"no_options", &options.null},
        Flag{"bias_excludes", &options.bias_excludes}, Flag{"row_lengths", &options.row_lengths},
        Flag{"sinks", &options.sinks}, Flag{"special_sinks", &options.special_sinks},
        Flag{"empty_rows_are_zero", &options.empty_rows_are_zero}, Flag{"reversed", &parsed.layout.reversed},
        Flag{"ragged_queries", &parsed.problem.attention.ragged_queries},
        Flag{"query_scales", &parsed.problem.attention.query_scales},
        Flag{"alibi", &parsed.problem.attention.alibi},
        Flag{"bottom_right", &parsed.problem.attention.bottom_right},
        Flag{"tokens_outside", &parsed.layout.attention.tokens_outside},
        Flag{"fused", &parsed.layout.attention.fused},
        Flag{"packed_keys", &parsed.layout.attention.packed_keys},
        Flag{"q_offsets", &parsed.layout.attention.q_offsets},
        Flag{"kv_offsets", &parsed.layout.attention.kv_offsets},
        Flag{"repeated_heads", &parsed.layout.attention.repeated_heads}}) {
    if (name != flag.name) continue;
    *flag.value = true;
    return true;
  }
  return false;
}

bool parse_setting(const std::string &name, const std::string &value, Case &parsed) {
  Problem &problem = parsed.problem;
  RowOptions &options = problem.options;
  Layout &layout = parsed.layout;
  if (name == "rows") return parse(value, problem.rows);
  if (name == "n") return parse(value, problem.cols);
  if (name == "input") return parse(value, problem.input);
  if (name == "seed") return parse(value, problem.seed);
  if (name == "scale") return parse(value, problem.scale);
  if (name == "shift") return parse(value, problem.shift);
  if (name == "window") return parse_window(value, problem);
  if (name == "softcap") return parse(value, options.softcap);
  if (name == "bias") return parse(value, options.bias);
  if (name == "mask") return parse(value, options.mask);
  if (name == "causal") return options.causal = true, parse(value, options.causal_offset);
  if (name == "guard") return parse(value, layout.placement);
  if (name == "offset") return parse_three(value, layout.offset);
  if (name == "gap") return parse_three(value, layout.gap);
  if (name == "in_place") return parse(value, layout.alias);
  if (name == "fp_control") return parse_control(value, layout);
  AttentionOptions &attention = problem.attention;
  if (name == "batch") return parse(value, attention.batch);
  if (name == "kv_heads") return parse(value, attention.kv_heads) && attention.kv_heads > 0;
  if (name == "group") return parse(value, attention.group) && attention.group > 0;
  if (name == "qk_dim") return parse(value, attention.qk_dim) && attention.qk_dim > 0;
  if (name == "v_dim") return parse(value, attention.v_dim) && attention.v_dim > 0;
  if (name == "window_left") return parse(value, attention.window_left) && attention.window_left >= -1;
  if (name == "window_right") return parse(value, attention.window_right) && attention.window_right >= -1;
  if (name == "window_chunk") return parse(value, attention.window_chunk);
  if (name == "page_size") return parse(value, layout.attention.page_size);
  if (name == "calls") return parse(value, layout.attention.calls);
  return false;
}

}  // namespace

std::string to_text(const Case &given) {
  const auto &[problem, layout] = given;
  const RowOptions &options = problem.options;
  std::string text;
  append(text, "rows=%zu n=%zu input=%s seed=%llu", problem.rows, problem.cols, name_of(problem.input),
         static_cast<unsigned long long>(problem.seed));
  if (problem.scale != 1) append(text, " scale=%a", problem.scale);
  if (problem.shift != 0) append(text, " shift=%a", problem.shift);
  if (problem.same_row) text += " same_row";
  if (problem.first_row != 0 || problem.row_count != SIZE_MAX) {
    append(text, " window=%zu,%zu", problem.first_row, problem.row_count);
  }
  if (options.null) text += " no_options";
  if (options.softcap != 0) append(text, " softcap=%a", options.softcap);
  if (options.bias != PerRow::none) append(text, " bias=%s", per_row_names[int(options.bias)]);
  if (options.bias_excludes) text += " bias_excludes";
  if (options.mask != PerRow::none) append(text, " mask=%s", per_row_names[int(options.mask)]);
  if (options.row_lengths) text += " row_lengths";
  if (options.causal) append(text, " causal=%td", options.causal_offset);
  if (options.sinks) text += " sinks";
  if (options.special_sinks) text += " special_sinks";
  if (options.empty_rows_are_zero) text += " empty_rows_are_zero";
  const AttentionOptions &attention = problem.attention, plain;
  if (attention.batch != plain.batch) append(text, " batch=%zu", attention.batch);
  if (attention.kv_heads != plain.kv_heads) append(text, " kv_heads=%zu", attention.kv_heads);
  if (attention.group != plain.group) append(text, " group=%zu", attention.group);
  if (attention.qk_dim != plain.qk_dim) append(text, " qk_dim=%zu", attention.qk_dim);
  if (attention.v_dim != plain.v_dim) append(text, " v_dim=%zu", attention.v_dim);
  if (attention.ragged_queries) text += " ragged_queries";
  if (attention.query_scales) text += " query_scales";
  if (attention.alibi) text += " alibi";
  if (attention.bottom_right) text += " bottom_right";
  if (attention.window_left >= 0) append(text, " window_left=%td", attention.window_left);
  if (attention.window_right >= 0) append(text, " window_right=%td", attention.window_right);
  if (attention.window_chunk != 0) append(text, " window_chunk=%zu", attention.window_chunk);
  if (layout.placement != Placement::ends_at_guard) text += " guard=begin";
  const auto &offset = layout.offset;
  if (offset != Layout{}.offset) append(text, " offset=%zu,%zu,%zu", offset[0], offset[1], offset[2]);
  const auto &gap = layout.gap;
  if (gap != Layout{}.gap) append(text, " gap=%td,%td,%td", gap[0], gap[1], gap[2]);
  if (layout.alias != Alias::none) append(text, " in_place=%s", alias_names[int(layout.alias)]);
  if (layout.reversed) text += " reversed";
  const AttentionLayout &how = layout.attention;
  if (how.tokens_outside) text += " tokens_outside";
  if (how.fused) text += " fused";
  if (how.page_size != 0) append(text, " page_size=%zu", how.page_size);
  if (how.packed_keys) text += " packed_keys";
  if (how.q_offsets) text += " q_offsets";
  if (how.kv_offsets) text += " kv_offsets";
  if (how.repeated_heads) text += " repeated_heads";
  if (how.calls != Calls::whole) append(text, " calls=%s", name_of(how.calls));
  if (layout.fp_state) {
    append(text, " fp_control=0x%llx", static_cast<unsigned long long>(layout.fp_state->control));
  }
  return text;
}

std::string parse_case(const std::string &text, Case &parsed) {
  parsed = Case{};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const bool understood = equals == std::string::npos
                                ? parse_flag(word, parsed)
                                : parse_setting(word.substr(0, equals), word.substr(equals + 1), parsed);
    if (!understood) return "\"" + word + "\" is not understood";
  }
  const Problem &problem = parsed.problem;
  if (problem.first_row > problem.rows) return "the window begins after the last row";
  if (problem.cols != 0 && problem.rows > (std::size_t{1} << 32) / problem.cols) return "too many elements";
  const AttentionOptions &attention = problem.attention;
  for (const std::size_t count :
       {attention.batch, attention.kv_heads, attention.group, attention.qk_dim, attention.v_dim}) {
    if (count > 4096) return "a dimension of attention is larger than 4096";
  }
  if (parsed.layout.attention.page_size > 4096 || parsed.layout.attention.page_size % 16 != 0) {
    return "page_size is not a multiple of 16 up to 4096";
  }
  for (const std::size_t offset : parsed.layout.offset) {
    if (offset > 4096) return "an offset is larger than 4096";
  }
  for (const std::ptrdiff_t gap : parsed.layout.gap) {
    if (gap < 0 || gap > 4096) return "a gap is not in [0, 4096]";
  }
  return {};
}

}  // namespace rapt::validate
