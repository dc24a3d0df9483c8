// Describes what one call computes (Problem), where its arrays are (Layout), and its results (Outcome). The
// outcome depends only on the problem; the layout and the level must not change it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rapt/rapt.h"
#include "support/fp_state.hpp"
#include "support/guarded_buffer.hpp"
#include "support/inputs.hpp"

namespace rapt::test {

// Kernels of one family run the same kind of problem.
enum class Family {
  two_vectors,  // dot, gated, gradients of activations
  vector,       // scale, exp, exp_sum, activations, argmax
  dot_rows,
  softmax,  // and log_softmax, logsumexp
  softmax_backward,
  norm,  // rms_norm, layer_norm and their gradients
  attention,
  attention_backward,
  linear,
  quantized_linear,
  rope,
  reduce,
  convolution,
  delta_rule,
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

// All problems with rows have these fields. In attention, rows are the queries of a sequence, and columns are
// the keys.
struct RowsProblem {
  std::size_t rows = 1, cols = 0;
  double scale = 1;
  RowRange window = {};  // the call gets only these rows
  bool operator==(const RowsProblem &) const = default;
};

struct DotRowsProblem : RowsProblem {
  bool same_row = false;  // the row stride is 0, so every row is the first
  bool operator==(const DotRowsProblem &) const = default;
};

struct SoftmaxBackwardProblem : RowsProblem {
  bool operator==(const SoftmaxBackwardProblem &) const = default;
};

enum class PerRow { none, one_for_all, each };
template <>
inline constexpr auto names_of<PerRow> = std::to_array<const char *>({"none", "shared", "each"});

// The problem's seed determines the contents of option arrays. Each field needs a row in options.cpp.
struct SoftmaxOptions {
  bool null = false;  // the call gets a null pointer for its options
  double softcap = 0;
  PerRow bias = PerRow::none;
  bool bias_excludes = false;  // some elements of the bias are -inf
  PerRow mask = PerRow::none;
  bool row_lengths = false;
  std::optional<std::ptrdiff_t> causal = {};  // the causal offset
  bool sinks = false;
  bool special_sinks = false;  // some sinks are +-inf or NaN
  bool empty_rows_are_zero = false;
  bool operator==(const SoftmaxOptions &) const = default;
};

struct SoftmaxProblem : RowsProblem {
  SoftmaxOptions options = {};
  bool operator==(const SoftmaxProblem &) const = default;
};

// Each field needs a row in options.cpp.
struct AttentionOptions {
  double softcap = 0;
  PerRow bias = PerRow::none;
  bool bias_excludes = false;
  bool half_bias = false;    // the bias has numbers of f16, and in f32 is f16 in memory; of forward calls
  bool bias_slopes = false;  // each head has a factor of it; of forward calls
  PerRow mask = PerRow::none;
  bool kv_lengths = false;
  bool sinks = false;
  bool special_sinks = false;
  bool query_scales = false;
  bool alibi = false;
  bool ragged_queries = false;                // sequences have up to `rows` queries each
  std::optional<std::ptrdiff_t> causal = {};  // the causal offset
  bool bottom_right = false;                  // the last query sees all keys; ignores the offset of causal
  std::ptrdiff_t window_left = -1, window_right = -1;
  std::size_t window_chunk = 0;
  bool operator==(const AttentionOptions &) const = default;
};

// The scale multiplies the weights. Each field needs a row in options.cpp.
struct NormProblem : RowsProblem {
  double eps = 0x1p-17;
  bool weight = false;
  bool plus_one = false;  // only rms_norm, with a weight
  bool bias = false;      // layer_norm; its gradient and that of the weight are wanted
  bool second = false;    // the forward call has a residual, the backward call adds to its sums
  bool operator==(const NormProblem &) const = default;
};

// Names the types of attention's queries, of its keys and values, and of its outputs. In linear layers these
// are the types of x, w and y. Each pair of different types occurs in the list.
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
  f16_dequantizing_bf16,
  bf16_dequantizing_f16,
};
template <>
inline constexpr auto names_of<ElementTypes> = std::to_array<const char *>(
    {"of_kernel", "f32_f16_f32", "f32_bf16_f16", "f16_f16_f32", "f16_bf16_f16", "f16_f32_bf16",
     "bf16_bf16_f32", "bf16_bf16_f16", "bf16_f16_bf16", "bf16_f32_f16", "f16_i8_bf16", "bf16_i8_f16",
     "f16_dequantizing_bf16", "bf16_dequantizing_f16"});

// A scale of 0 means 1/sqrt(qk_dim).
struct AttentionProblem : RowsProblem {
  std::size_t batch = 1, kv_heads = 1, q_heads_per_kv_head = 1, qk_dim = 8, v_dim = 8;
  ElementTypes types = ElementTypes::of_kernel;  // the middle type must be the kernel's
  AttentionOptions options = {};
  std::size_t q_heads() const { return kv_heads * q_heads_per_kv_head; }
  bool operator==(const AttentionProblem &) const = default;
};

enum class Addend { none, like_y, like_x };  // its type is that of y or of x
template <>
inline constexpr auto names_of<Addend> = std::to_array<const char *>({"none", "like_y", "like_x"});

// Columns are the inputs of the layer. The scale multiplies all row scales. Each field needs a row in
// options.cpp.
struct LinearProblem : RowsProblem {
  std::size_t outputs = 67;
  ElementTypes types = ElementTypes::of_kernel;  // the middle type must be the kernel's
  bool bias = false;
  bool row_scales = false;
  Addend add = Addend::none;
  bool output_scales = false;
  bool operator==(const LinearProblem &) const = default;
};

// Names the weights of a linear layer with quantized weights: integers, blocks of a file, which are always packed, or
// numbers of 8 bits, which only f32 arithmetic has. Types are added at the end, so that drawn cases stay as they are.
enum class WeightType {
  i8,
  i4,
  u4,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k,
  q2_k,
  q3_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
  nvfp4,
  f8_e4m3,
  f8_e5m2,
  u8
};
template <>
inline constexpr auto names_of<WeightType> = std::to_array<const char *>(
    {"i8",   "i4",   "u4",   "q8_0",   "q4_0",   "q4_1",  "q5_0",  "q5_1",    "q4_k",    "q5_k",
     "q6_k", "q2_k", "q3_k", "iq4_nl", "iq4_xs", "mxfp4", "nvfp4", "f8_e4m3", "f8_e5m2", "u8"});

// Names the types of x, y and the scales. x of i8 has scales, and only i8 arithmetic has it.
enum class QuantizedTypes { f32_f32_f32, f16_f32_f16, bf16_bf16_bf16, f32_bf16_f16, i8_f32_f32, i8_f16_bf16 };
template <>
inline constexpr auto names_of<QuantizedTypes> = std::to_array<const char *>(
    {"f32_f32_f32", "f16_f32_f16", "bf16_bf16_bf16", "f32_bf16_f16", "i8_f32_f32", "i8_f16_bf16"});

// Says how many inputs share a scale of x: those that share a scale of the weights, this many groups of the
// sum, or the whole row.
enum class XGroup { as_weights, one, three, row };
template <>
inline constexpr auto names_of<XGroup> = std::to_array<const char *>({"as_weights", "one", "three", "row"});

// Says how many outputs share their scales.
enum class SharedScales { none, of_64, of_128, of_256, all };
template <>
inline constexpr auto names_of<SharedScales> = std::to_array<const char *>({"none", "of_64", "of_128",
                                                                            "of_256", "all"});

// Each field needs a row in options.cpp.
struct QuantizedProblem : RowsProblem {
  std::size_t outputs = 67;
  WeightType weights = WeightType::i8;
  QuantizedTypes types = QuantizedTypes::f32_f32_f32;
  std::size_t scale_group = 0;
  XGroup x_group = XGroup::as_weights;  // only in i8 arithmetic
  bool scales = false;
  bool zeros = false;  // only u4, without codebook, and u8
  bool offsets = false;
  bool codebook = false;  // only u4, in i8 arithmetic only with integers
  bool integers = false;  // of the codebook
  bool bias = false;
  bool row_scales = false;
  bool add = false;
  SharedScales shared = SharedScales::none;  // only with scales
  bool output_scales = false;
  bool operator==(const QuantizedProblem &) const = default;
};

// Says where the positions of rope are from: first_position, an array for each sequence, or one for all.
enum class RopePositions { counted, each, shared };
template <>
inline constexpr auto names_of<RopePositions> = std::to_array<const char *>({"counted", "each", "shared"});

// Rows are tokens, columns are the elements of a head, and the scale is the attention factor. Each field
// needs a row in options.cpp.
struct RopeProblem : RowsProblem {
  std::size_t batch = 1, heads = 1;
  std::size_t rotary_dim = 0;  // 0 and numbers above the columns: all columns; an odd number loses 1
  bool in_pairs = false;
  bool backward = false;
  RopePositions positions = RopePositions::counted;
  std::ptrdiff_t first_position = 0;  // where they are counted

  std::size_t turned() const {
    const std::size_t most = rotary_dim == 0 || rotary_dim > cols ? cols : rotary_dim;
    return most / 2 * 2;
  }
  bool operator==(const RopeProblem &) const = default;
};

// The tensor is [outer][middle][rows][columns], and the scale is not used. Each field needs a row in options.cpp.
struct ReduceProblem : RowsProblem {
  std::size_t outer = 1, middle = 1;
  std::size_t reduced = 8;    // a bit for each dimension, the lowest for the outermost; 0: all
  std::size_t operation = 1;  // of rapt_reduction; a sum where it needs elements and has none
  double correction = 0;      // only of a variance
  bool mean = false;          // only of a variance
  bool wide_out = false;      // the output has the arithmetic type

  std::array<std::size_t, 4> sizes() const { return {outer, middle, rows, cols}; }
  std::size_t mask() const { return reduced == 0 ? 15 : reduced; }
  bool is_reduced(std::size_t d) const { return (mask() >> d & 1) != 0; }
  std::size_t operation_of() const {
    bool is_empty = false;
    for (std::size_t d = 0; d < 4; ++d) is_empty = is_empty || (is_reduced(d) && sizes()[d] == 0);
    return is_empty && operation >= RAPT_MIN ? static_cast<std::size_t>(RAPT_SUM) : operation;
  }
  bool finds_index() const { return operation_of() >= RAPT_ARGMIN; }
  bool operator==(const ReduceProblem &) const = default;
};

// Rows are the batch, and columns the innermost dimension. Lists of dimensions are decimal digits, outermost first; a 0
// among taps, strides and dilations is 1. The scale is not used. Each field needs a row in options.cpp.
struct ConvolutionProblem : RowsProblem {
  std::size_t channels = 1, outputs = 1;  // of a group
  std::size_t groups = 1, depth = 1, height = 1;
  std::size_t taps = 111, stride = 111, dilation = 111, before = 0, after = 0;
  std::size_t result = 0;  // of rapt_convolution_result
  bool bias = false;
  bool operator==(const ConvolutionProblem &) const = default;
};

// Rows are the tokens of a sequence, and columns those of a state. A scale of 0 means 1/sqrt(key_dim). Each field needs
// a row in options.cpp.
struct DeltaProblem : RowsProblem {
  std::size_t key_dim = 8, batch = 1;
  std::size_t heads = 1;    // of those of which there are fewest
  std::size_t q_group = 1;  // heads of q that share a state
  std::size_t v_group = 1;  // states that share a head of q; 1 where q_group is not
  bool k_shared = false;    // all states share a head of k
  bool decay = false;
  bool per_key = false;  // only with a decay
  bool beta = false;
  bool state = false;       // before the first token
  std::size_t l2_norm = 0;  // of rapt_l2_norm
  bool interleaved = false;
  bool ragged = false;  // packed sequences of up to `rows` tokens

  std::size_t q_heads() const { return heads * q_group; }
  std::size_t v_heads() const { return q_group == 1 ? heads * v_group : heads; }
  std::size_t k_heads() const { return k_shared ? 1 : heads; }
  bool operator==(const DeltaProblem &) const = default;
};

struct Problem {
  InputClass input = InputClass::gaussian;
  std::uint64_t seed = 1;
  std::variant<VectorProblem, DotRowsProblem, SoftmaxProblem, SoftmaxBackwardProblem, NormProblem,
               AttentionProblem, LinearProblem, QuantizedProblem, RopeProblem, ReduceProblem,
               ConvolutionProblem, DeltaProblem>
      of;

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

// Holds the numbers of any family's problem. make_problem() ignores those that the family does not have.
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

// Lists the ways to split the work of attention, of a linear layer or of rope into calls. A linear layer takes
// split_keys for task_ranges, and by_sequence for a call of several experts with equal weights. Rope takes task_by_task
// for one call per head, and query_by_query for one call per token; it takes task_ranges and split_keys for whole.
enum class Calls {
  whole,
  task_by_task,    // one task per call, the last task first
  task_ranges,     // random ranges of tasks
  split_keys,      // partial results and their merge, in random ranges of tasks
  by_sequence,     // one call per item of the batch
  query_by_query,  // one call per query, like decoding
};
template <>
inline constexpr auto names_of<Calls> = std::to_array<const char *>({"whole", "task_by_task", "task_ranges",
                                                                     "split_keys", "by_sequence",
                                                                     "query_by_query"});

// Describes the layout of attention's tensors. Rope has tokens_outside and calls alone. Each field needs a
// row in options.cpp.
struct AttentionLayout {
  bool tokens_outside = false;  // [batch][token][head][dim] instead of [batch][head][token][dim]
  bool fused = false;           // q, k and v are slices of one buffer; ignored if an option below excludes it
  std::size_t page_size = 0;    // 0 means no pages
  bool packed_keys = false;
  bool q_offsets = false;       // query sequences are packed end to end; ragged queries always are
  bool kv_offsets = false;      // keys are packed end to end; ignored with pages or packed keys
  bool repeated_heads = false;  // the call gets one key/value head per query head
  Calls calls = Calls::whole;
  std::size_t left_padding =
      0;  // about so many tokens may be before the first of a sequence; excludes kv_offsets
  std::size_t key_lists =
      0;  // tokens of a run in lists of keys, or 0; excludes other places of keys and padding
  bool value_outside = false;  // of the delta rule: the columns of states are contiguous
  bool operator==(const AttentionLayout &) const = default;
};

enum class MatrixOrder {
  rows,     // the inputs of a row are contiguous
  columns,  // the rows of an input are contiguous
  apart,    // no two elements are next to each other
};
template <>
inline constexpr auto names_of<MatrixOrder> = std::to_array<const char *>({"rows", "columns", "apart"});

// Describes the layout of a linear layer's matrices. Reductions have x_order, and w_order for the output. Each field
// needs a row in options.cpp.
struct LinearLayout {
  MatrixOrder x_order = MatrixOrder::rows, w_order = MatrixOrder::rows;
  bool packed_w = false;
  bool x_rows = false;  // lists name the rows of x, in any order
  bool y_rows = false;  // lists name the rows of y and of the addend, in any order
  Calls calls = Calls::whole;
  bool operator==(const LinearLayout &) const = default;
};

// Each field needs a row in options.cpp.
struct Layout {
  Placement placement = Placement::ends_at_guard;
  std::array<std::size_t, 3> offset{};  // in bytes, multiples of the element size: inputs, then the output
  std::array<std::ptrdiff_t, 3>
      gap{};                  // elements between rows: inputs, then the output; bias and mask take the first
  Alias alias = Alias::none;  // the output replaces this input; in linear layers the addend that is like y
  bool reversed = false;      // dot_rows: the row stride is negative
  // Repeats softmax rows, or elements for scale, exp and conversions, until the output is too large for the
  // caches. All copies must have the same results, so causal rows are excluded: they depend on their
  // position.
  bool past_caches = false;
  std::optional<FpState> fp_state;  // the calling thread's floating-point control
  AttentionLayout attention;
  LinearLayout linear;
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
