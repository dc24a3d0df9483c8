// Describes what one call computes (Problem), where its memory is (Layout), and what the results are
// (Outcome). A kernel's outcome depends only on the problem; layout and level must not change it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "support/fp_state.hpp"
#include "support/guarded_buffer.hpp"
#include "support/inputs.hpp"

namespace rapt::test {

// Kernels of one family have problems of one kind.
enum class Family {
  two_vectors,  // dot
  vector,       // scale, exp, exp_sum
  dot_rows,
  softmax,  // and log_softmax, logsumexp
  softmax_backward,
  attention,
  attention_backward,
};

struct VectorProblem {
  std::size_t cols = 0;
  double scale = 1, shift = 0;
  bool operator==(const VectorProblem &) const = default;
};

struct RowRange {
  std::size_t first = 0, count = SIZE_MAX;
  std::size_t end(std::size_t rows) const { return first + std::min(count, rows - first); }
  bool operator==(const RowRange &) const = default;
};

// All problems of rows have these. In attention, rows are the queries of a sequence, and columns are the
// keys.
struct RowsProblem {
  std::size_t rows = 1, cols = 0;
  double scale = 1;
  RowRange window = {};  // the call gets only these rows
  bool operator==(const RowsProblem &) const = default;
};

struct DotRowsProblem : RowsProblem {
  bool same_row = false;  // a row stride of 0: every row is the first
  bool operator==(const DotRowsProblem &) const = default;
};

struct SoftmaxBackwardProblem : RowsProblem {
  bool operator==(const SoftmaxBackwardProblem &) const = default;
};

enum class PerRow { none, one_for_all, each };
template <>
inline constexpr auto names_of<PerRow> = std::to_array<const char *>({"none", "shared", "each"});

// The values of options that are arrays come from the problem's seed. Each field has a row in options.cpp.
struct SoftmaxOptions {
  bool null = false;  // the call gets no options at all
  double softcap = 0;
  PerRow bias = PerRow::none;
  bool bias_excludes = false;  // some elements of the bias are -inf
  PerRow mask = PerRow::none;
  bool row_lengths = false;
  std::optional<std::ptrdiff_t> causal = {};  // its offset
  bool sinks = false;
  bool special_sinks = false;  // +-inf and NaN among the sinks
  bool empty_rows_are_zero = false;
  bool operator==(const SoftmaxOptions &) const = default;
};

struct SoftmaxProblem : RowsProblem {
  SoftmaxOptions options = {};
  bool operator==(const SoftmaxProblem &) const = default;
};

// Each field has a row in options.cpp.
struct AttentionOptions {
  double softcap = 0;
  PerRow bias = PerRow::none;
  bool bias_excludes = false;
  PerRow mask = PerRow::none;
  bool kv_lengths = false;
  bool sinks = false;
  bool special_sinks = false;
  bool query_scales = false;
  bool alibi = false;
  bool ragged_queries = false;                // sequences of up to `rows` queries
  std::optional<std::ptrdiff_t> causal = {};  // its offset
  bool bottom_right = false;                  // causal, whatever its offset
  std::ptrdiff_t window_left = -1, window_right = -1;
  std::size_t window_chunk = 0;
  bool operator==(const AttentionOptions &) const = default;
};

// These are the types of attention's queries, of its keys and values, and of its outputs. The list has each
// pair of different types.
enum class ElementTypes {
  of_kernel,
  f32_f16_f32,
  f32_bf16_f16,
  f16_f16_f32,
  f16_bf16_f16,
  f16_f32_bf16,
  bf16_bf16_f32,
  bf16_bf16_f16,
  bf16_f16_bf16,
  bf16_f32_f16,
  f16_i8_bf16,
  bf16_i8_f16,
};
template <>
inline constexpr auto names_of<ElementTypes> = std::to_array<const char *>(
    {"of_kernel", "f32_f16_f32", "f32_bf16_f16", "f16_f16_f32", "f16_bf16_f16", "f16_f32_bf16",
     "bf16_bf16_f32", "bf16_bf16_f16", "bf16_f16_bf16", "bf16_f32_f16", "f16_i8_bf16", "bf16_i8_f16"});

// A scale of 0 means 1/sqrt(qk_dim).
struct AttentionProblem : RowsProblem {
  std::size_t batch = 1, kv_heads = 1, q_heads_per_kv_head = 1, qk_dim = 8, v_dim = 8;
  ElementTypes types = ElementTypes::of_kernel;  // the middle type is the kernel's
  AttentionOptions options = {};
  std::size_t q_heads() const { return kv_heads * q_heads_per_kv_head; }
  bool operator==(const AttentionProblem &) const = default;
};

struct Problem {
  InputClass input = InputClass::gaussian;
  std::uint64_t seed = 1;
  std::variant<VectorProblem, DotRowsProblem, SoftmaxProblem, SoftmaxBackwardProblem, AttentionProblem> of;

  template <class Kind>
  const Kind &as() const {
    return std::get<Kind>(of);
  }
  std::size_t rows() const;  // 1 for a vector
  std::size_t cols() const;
  void set_cols(std::size_t cols);
  RowsProblem *of_rows();  // null for a vector
  const RowsProblem *of_rows() const { return const_cast<Problem *>(this)->of_rows(); }
  bool operator==(const Problem &) const = default;
};

// These are the numbers of any family's problem; make_problem ignores numbers that the family does not have.
struct Numbers {
  std::size_t rows = 1, cols = 0;
  InputClass input = InputClass::gaussian;
  std::uint64_t seed = 1;
  double scale = 1, shift = 0;
};
Problem make_problem(Family family, const Numbers &numbers);

enum class Alias { none, first_input, second_input };
template <>
inline constexpr auto names_of<Alias> = std::to_array<const char *>({"none", "first", "second"});

template <>
inline constexpr auto names_of<Placement> = std::to_array<const char *>({"end", "begin"});

// These are the ways to cut attention's work into calls.
enum class Calls {
  whole,
  task_by_task,    // the last task first
  task_ranges,     // of random lengths
  split_keys,      // partial results and their merge, task by task
  by_sequence,     // a call for each item of the batch
  query_by_query,  // like decoding tokens
};
template <>
inline constexpr auto names_of<Calls> = std::to_array<const char *>({"whole", "task_by_task", "task_ranges",
                                                                     "split_keys", "by_sequence",
                                                                     "query_by_query"});

// Describes the layout of attention's memory. Each field has a row in options.cpp.
struct AttentionLayout {
  bool tokens_outside = false;  // [batch][token][head][dim] instead of [batch][head][token][dim]
  bool fused = false;           // q, k and v are slices of one buffer; only if nothing below is set
  std::size_t page_size = 0;    // 0 means no pages
  bool packed_keys = false;
  bool q_offsets = false;       // sequences are packed end to end; always so if they are ragged
  bool kv_offsets = false;      // keys are packed end to end; only without pages and packed keys
  bool repeated_heads = false;  // each query head has a key/value head
  Calls calls = Calls::whole;
  bool operator==(const AttentionLayout &) const = default;
};

// Each field has a row in options.cpp.
struct Layout {
  Placement placement = Placement::ends_at_guard;
  std::array<std::size_t, 3> offset{};  // in bytes, multiples of the element size: inputs, then the output
  std::array<std::ptrdiff_t, 3>
      gap{};                  // elements between rows: inputs, then the output; bias and mask take the first
  Alias alias = Alias::none;  // the output is this input
  bool reversed = false;      // dot_rows: a negative row stride
  // Rows of softmax, or elements that scale, exp and conversions map, repeat until the output is too large
  // for the caches. All copies must have the same results. That excludes causal rows, which depend on their
  // position.
  bool past_caches = false;
  std::optional<FpState> fp_state;  // the calling thread's floating-point control
  AttentionLayout attention;
  bool operator==(const Layout &) const = default;
};

struct Case {
  Problem problem;
  Layout layout;
  bool operator==(const Case &) const = default;
};

struct Outcome {
  std::vector<std::uint64_t>
      bits;           // of every output element, then of a returned value; all NaNs have the same bits
  std::string fault;  // empty, or the rule that the call broke
};

}  // namespace rapt::test
