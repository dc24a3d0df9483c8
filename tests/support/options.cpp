#include "support/options.hpp"

#include <algorithm>
#include <cstdlib>

#include "support/case_text.hpp"

namespace rapt::test {
namespace {

constexpr std::ptrdiff_t longest = 4096;  // the largest dimension that the text of a case may have

// Each statement draws one random number, because compilers evaluate function arguments in any order.

constexpr Option<Problem> of_problem[] = {
    {.word = "input", .field = &Problem::input, .is_always_written = true},
    {.word = "seed", .field = &Problem::seed, .is_always_written = true},
};

constexpr Option<VectorProblem> of_vector[] = {
    {.word = "n", .field = &VectorProblem::cols, .is_always_written = true},
    {.word = "scale", .field = &VectorProblem::scale},
    {.word = "shift", .field = &VectorProblem::shift},
};

constexpr Option<RowsProblem> of_rows[] = {
    {.word = "rows", .field = &RowsProblem::rows, .is_always_written = true},
    {.word = "n", .field = &RowsProblem::cols, .is_always_written = true},
    {.word = "scale", .field = &RowsProblem::scale},
    {.word = "window", .field = &RowsProblem::window},
};

constexpr Option<DotRowsProblem> of_dot_rows[] = {
    {.word = "same_row", .field = &DotRowsProblem::same_row},
};

constexpr Option<SoftmaxOptions> of_softmax[] = {
    {.word = "no_options", .field = &SoftmaxOptions::null, .alone = {"no_options"}},
    {.word = "softcap",
     .field = &SoftmaxOptions::softcap,
     .draw =
         [](const Draw &draw, SoftmaxOptions &options) {
           if (draw.random.one_in(3)) options.softcap = draw.random.one_of({50.0, 0.5});
         },
     .alone = {"softcap=50"}},
    {.word = "bias",
     .field = &SoftmaxOptions::bias,
     .draw = [](const Draw &draw,
                SoftmaxOptions &options) { options.bias = static_cast<PerRow>(draw.random.below(3)); },
     .alone = {"bias=each", "bias=shared"}},
    {.word = "bias_excludes",
     .field = &SoftmaxOptions::bias_excludes,
     .draw = [](const Draw &draw, SoftmaxOptions &options) { options.bias_excludes = draw.random.one_in(2); },
     .alone = {"bias=each bias_excludes", "bias=shared bias_excludes"}},
    {.word = "mask",
     .field = &SoftmaxOptions::mask,
     .draw = [](const Draw &draw,
                SoftmaxOptions &options) { options.mask = static_cast<PerRow>(draw.random.below(3)); },
     .alone = {"mask=each", "mask=shared"}},
    {.word = "row_lengths",
     .field = &SoftmaxOptions::row_lengths,
     .draw = [](const Draw &draw, SoftmaxOptions &options) { options.row_lengths = draw.random.one_in(3); },
     .alone = {"row_lengths"}},
    {.word = "causal",
     .field = &SoftmaxOptions::causal,
     .draw =
         [](const Draw &draw, SoftmaxOptions &options) {
           constexpr std::ptrdiff_t farthest = std::ptrdiff_t{1} << 60;
           const bool wanted = draw.random.one_in(3);
           const std::ptrdiff_t offset = draw.random.one_of<std::ptrdiff_t>(
               {0, 1, -1, -3, 7, 40, -1000000, farthest - 1000, -farthest});
           if (wanted) options.causal = offset;
         },
     .alone = {"causal=0", "causal=-2", "causal=5"}},
    {.word = "sinks",
     .field = &SoftmaxOptions::sinks,
     .draw = [](const Draw &draw, SoftmaxOptions &options) { options.sinks = draw.random.one_in(3); },
     .alone = {"sinks"}},
    {.word = "special_sinks",
     .field = &SoftmaxOptions::special_sinks,
     .draw = [](const Draw &draw, SoftmaxOptions &options) { options.special_sinks = draw.random.one_in(4); },
     .alone = {"sinks special_sinks"}},
    {.word = "empty_rows_are_zero",
     .field = &SoftmaxOptions::empty_rows_are_zero,
     .draw = [](const Draw &draw,
                SoftmaxOptions &options) { options.empty_rows_are_zero = draw.random.one_in(2); },
     .alone = {"empty_rows_are_zero"}},
};

constexpr Option<AttentionProblem> of_attention_shape[] = {
    {.word = "types", .field = &AttentionProblem::types},
    {.word = "batch", .field = &AttentionProblem::batch, .most = longest},
    {.word = "kv_heads", .field = &AttentionProblem::kv_heads, .least = 1, .most = longest},
    {.word = "group", .field = &AttentionProblem::q_heads_per_kv_head, .least = 1, .most = longest},
    {.word = "qk_dim", .field = &AttentionProblem::qk_dim, .least = 1, .most = longest},
    {.word = "v_dim", .field = &AttentionProblem::v_dim, .least = 1, .most = longest},
};

PerRow one_for_all_or_each(Random &random) { return random.one_in(4) ? PerRow::one_for_all : PerRow::each; }

constexpr Option<AttentionOptions> of_attention[] = {
    {.word = "softcap",
     .field = &AttentionOptions::softcap,
     .draw =
         [](const Draw &draw, AttentionOptions &options) {
           if (draw.chosen) options.softcap = draw.random.one_of({50.0, 0.5, 5.0});
         }},
    {.word = "bias",
     .field = &AttentionOptions::bias,
     .draw =
         [](const Draw &draw, AttentionOptions &options) {
           if (draw.chosen) options.bias = one_for_all_or_each(draw.random);
         }},
    {.word = "bias_excludes",
     .field = &AttentionOptions::bias_excludes,
     .draw = [](const Draw &draw,
                AttentionOptions &options) { options.bias_excludes = draw.random.one_in(2); },
     .follows = true},
    {.word = "half_bias", .field = &AttentionOptions::half_bias, .follows = true},
    {.word = "bias_slopes", .field = &AttentionOptions::bias_slopes, .follows = true},
    {.word = "mask",
     .field = &AttentionOptions::mask,
     .draw =
         [](const Draw &draw, AttentionOptions &options) {
           if (draw.chosen) options.mask = one_for_all_or_each(draw.random);
         }},
    {.word = "row_lengths",
     .field = &AttentionOptions::kv_lengths,
     .draw = [](const Draw &draw, AttentionOptions &options) { options.kv_lengths = draw.chosen; }},
    {.word = "sinks",
     .field = &AttentionOptions::sinks,
     .draw = [](const Draw &draw, AttentionOptions &options) { options.sinks = draw.chosen; }},
    {.word = "special_sinks",
     .field = &AttentionOptions::special_sinks,
     .draw =
         [](const Draw &draw, AttentionOptions &options) {
           options.special_sinks = options.sinks && draw.random.one_in(4);
         },
     .follows = true},
    {.word = "query_scales",
     .field = &AttentionOptions::query_scales,
     .draw = [](const Draw &draw, AttentionOptions &options) { options.query_scales = draw.chosen; }},
    {.word = "alibi",
     .field = &AttentionOptions::alibi,
     .draw = [](const Draw &draw, AttentionOptions &options) { options.alibi = draw.chosen; }},
    {.word = "ragged_queries",
     .field = &AttentionOptions::ragged_queries,
     .draw = [](const Draw &draw, AttentionOptions &options) { options.ragged_queries = draw.chosen; }},
    {.word = "causal",
     .field = &AttentionOptions::causal,
     .draw =
         [](const Draw &draw, AttentionOptions &options) {
           if (!draw.chosen && !(draw.many && draw.random.one_in(2))) return;
           options.bottom_right = draw.random.one_in(2);
           options.causal = draw.random.one_of<std::ptrdiff_t>({0, 0, 1, -1, 17, -40, 500, 64});
           constexpr std::ptrdiff_t farthest = (std::ptrdiff_t{1} << 60) - 2000;  // leaves room for an index
           if (draw.random.one_in(8) && !options.alibi) {
             options.causal =
                 draw.random.one_of<std::ptrdiff_t>({farthest, -farthest, farthest - 8, -1000000});
           }
         }},
    {.word = "bottom_right", .field = &AttentionOptions::bottom_right, .follows = true},
    {.word = "window_left",
     .field = &AttentionOptions::window_left,
     .draw =
         [](const Draw &draw, AttentionOptions &options) {
           if (!draw.chosen) return;
           options.window_left =
               draw.random.one_of<std::ptrdiff_t>({0, 1, 15, 63, 64, 100, 600, PTRDIFF_MAX});
         },
     .least = -1},
    {.word = "window_right",
     .field = &AttentionOptions::window_right,
     .draw =
         [](const Draw &draw, AttentionOptions &options) {
           if (!draw.chosen) return;
           options.window_right = draw.random.one_of<std::ptrdiff_t>({0, 1, 15, 64, 100, PTRDIFF_MAX});
         },
     .least = -1},
    {.word = "window_chunk",
     .field = &AttentionOptions::window_chunk,
     .draw =
         [](const Draw &draw, AttentionOptions &options) {
           if (!draw.chosen) return;
           options.window_chunk = draw.random.one_of<std::size_t>({1, 16, 50, 64, 128, 300, SIZE_MAX});
         }},
};

constexpr Option<NormProblem> of_norm[] = {
    {.word = "eps",
     .field = &NormProblem::eps,
     .draw =
         [](const Draw &draw, NormProblem &problem) {
           problem.eps = draw.random.one_of({0x1p-17, 0x1p-20, 0.0, 1.0});
         }},
    {.word = "weight",
     .field = &NormProblem::weight,
     .draw = [](const Draw &draw, NormProblem &problem) { problem.weight = !draw.random.one_in(4); }},
    {.word = "plus_one",
     .field = &NormProblem::plus_one,
     .draw = [](const Draw &draw,
                NormProblem &problem) { problem.plus_one = draw.random.one_in(3) && problem.weight; }},
    {.word = "bias",
     .field = &NormProblem::bias,
     .draw = [](const Draw &draw, NormProblem &problem) { problem.bias = draw.random.one_in(2); }},
    {.word = "second",
     .field = &NormProblem::second,
     .draw = [](const Draw &draw, NormProblem &problem) { problem.second = draw.random.one_in(3); }},
};

constexpr Option<LinearProblem> of_linear[] = {
    {.word = "outputs", .field = &LinearProblem::outputs, .most = longest},
    {.word = "types", .field = &LinearProblem::types},
    {.word = "bias",
     .field = &LinearProblem::bias,
     .draw = [](const Draw &draw, LinearProblem &problem) { problem.bias = draw.random.one_in(2); }},
    {.word = "row_scales",
     .field = &LinearProblem::row_scales,
     .draw = [](const Draw &draw, LinearProblem &problem) { problem.row_scales = draw.random.one_in(3); }},
    {.word = "add",
     .field = &LinearProblem::add,
     .draw =
         [](const Draw &draw, LinearProblem &problem) {
           problem.add = draw.random.one_of({Addend::none, Addend::none, Addend::like_y, Addend::like_x});
         }},
    {.word = "output_scales", .field = &LinearProblem::output_scales},
};

constexpr Option<QuantizedProblem> of_quantized[] = {
    {.word = "outputs", .field = &QuantizedProblem::outputs, .most = longest},
    {.word = "weights",
     .field = &QuantizedProblem::weights,
     .draw =
         [](const Draw &draw, QuantizedProblem &problem) {
           problem.weights = static_cast<WeightType>(draw.random.below(3));
         }},
    {.word = "types", .field = &QuantizedProblem::types},
    {.word = "scale_group",
     .field = &QuantizedProblem::scale_group,
     .draw =
         [](const Draw &draw, QuantizedProblem &problem) {
           problem.scale_group = draw.random.one_of<std::size_t>({0, 16, 32, 32, 64, 128, 256});
         },
     .least = 0,
     .most = 256,
     .multiple = 16},
    {.word = "x_group", .field = &QuantizedProblem::x_group},
    {.word = "scales",
     .field = &QuantizedProblem::scales,
     .draw = [](const Draw &draw, QuantizedProblem &problem) { problem.scales = !draw.random.one_in(4); }},
    {.word = "zeros",
     .field = &QuantizedProblem::zeros,
     .draw =
         [](const Draw &draw, QuantizedProblem &problem) {
           problem.zeros = draw.random.one_in(2) && problem.weights == WeightType::u4;
         }},
    {.word = "offsets",
     .field = &QuantizedProblem::offsets,
     .draw = [](const Draw &draw, QuantizedProblem &problem) { problem.offsets = draw.random.one_in(3); }},
    {.word = "codebook", .field = &QuantizedProblem::codebook},
    {.word = "integers", .field = &QuantizedProblem::integers},
    {.word = "bias",
     .field = &QuantizedProblem::bias,
     .draw = [](const Draw &draw, QuantizedProblem &problem) { problem.bias = draw.random.one_in(3); }},
    {.word = "row_scales",
     .field = &QuantizedProblem::row_scales,
     .draw = [](const Draw &draw, QuantizedProblem &problem) { problem.row_scales = draw.random.one_in(4); }},
    {.word = "add",
     .field = &QuantizedProblem::add,
     .draw = [](const Draw &draw, QuantizedProblem &problem) { problem.add = draw.random.one_in(4); }},
    {.word = "shared", .field = &QuantizedProblem::shared},
    {.word = "output_scales", .field = &QuantizedProblem::output_scales},
};

constexpr Option<RopeProblem> of_rope[] = {
    {.word = "batch", .field = &RopeProblem::batch, .least = 1, .most = longest},
    {.word = "heads", .field = &RopeProblem::heads, .least = 1, .most = longest},
    {.word = "rotary_dim", .field = &RopeProblem::rotary_dim},
    {.word = "in_pairs",
     .field = &RopeProblem::in_pairs,
     .draw = [](const Draw &draw, RopeProblem &problem) { problem.in_pairs = draw.random.one_in(2); }},
    {.word = "backward",
     .field = &RopeProblem::backward,
     .draw = [](const Draw &draw, RopeProblem &problem) { problem.backward = draw.random.one_in(3); }},
    {.word = "positions",
     .field = &RopeProblem::positions,
     .draw =
         [](const Draw &draw, RopeProblem &problem) {
           problem.positions = static_cast<RopePositions>(draw.random.below(3));
         }},
    {.word = "first_position",
     .field = &RopeProblem::first_position,
     .draw =
         [](const Draw &draw, RopeProblem &problem) {
           constexpr std::ptrdiff_t farthest = std::ptrdiff_t{1} << 24, room = 5000;
           const std::ptrdiff_t first = draw.random.one_of<std::ptrdiff_t>(
               {0, 0, 1, -7, 100, 4095, 131071, 1000003, farthest - room, -farthest});
           if (problem.positions == RopePositions::counted) problem.first_position = first;
         },
     .least = -(std::ptrdiff_t{1} << 24),
     .most = std::ptrdiff_t{1} << 24},
};

constexpr Option<ReduceProblem> of_reduce[] = {
    {.word = "outer", .field = &ReduceProblem::outer, .most = longest * longest},
    {.word = "middle", .field = &ReduceProblem::middle, .most = longest * longest},
    {.word = "reduced",
     .field = &ReduceProblem::reduced,
     .draw = [](const Draw &draw, ReduceProblem &problem) { problem.reduced = draw.random.below(16); },
     .least = 0,
     .most = 15},
    {.word = "operation",
     .field = &ReduceProblem::operation,
     .draw = [](const Draw &draw,
                ReduceProblem &problem) { problem.operation = 1 + draw.random.below(RAPT_ARGMAX); },
     .least = 1,
     .most = RAPT_ARGMAX},
    {.word = "correction",
     .field = &ReduceProblem::correction,
     .draw =
         [](const Draw &draw, ReduceProblem &problem) {
           problem.correction = draw.random.one_of({0.0, 1.0, 1.0, -2.0, 0.5, 1e9});
         }},
    {.word = "mean",
     .field = &ReduceProblem::mean,
     .draw = [](const Draw &draw, ReduceProblem &problem) { problem.mean = draw.random.one_in(2); }},
    {.word = "wide_out",
     .field = &ReduceProblem::wide_out,
     .draw = [](const Draw &draw, ReduceProblem &problem) { problem.wide_out = draw.random.one_in(3); }},
};

// Draws a digit for each dimension, of which the outer ones are often the same.
std::size_t draw_digits(Random &random, std::size_t least, std::size_t most) {
  std::size_t number = 0;
  for (std::size_t d = 0; d < 3; ++d) number = 10 * number + least + random.below(most - least + 1);
  return number;
}

constexpr Option<ConvolutionProblem> of_convolution[] = {
    {.word = "channels", .field = &ConvolutionProblem::channels, .least = 1, .most = longest},
    {.word = "outputs", .field = &ConvolutionProblem::outputs, .least = 0, .most = longest},
    {.word = "groups", .field = &ConvolutionProblem::groups, .least = 1, .most = longest},
    {.word = "depth", .field = &ConvolutionProblem::depth, .most = longest},
    {.word = "height", .field = &ConvolutionProblem::height, .most = longest},
    {.word = "taps",
     .field = &ConvolutionProblem::taps,
     .draw = [](const Draw &draw,
                ConvolutionProblem &problem) { problem.taps = draw_digits(draw.random, 1, 4); },
     .least = 0,
     .most = 999},
    {.word = "stride",
     .field = &ConvolutionProblem::stride,
     .draw =
         [](const Draw &draw, ConvolutionProblem &problem) {
           if (draw.random.one_in(2)) problem.stride = draw_digits(draw.random, 1, 3);
         },
     .least = 0,
     .most = 999},
    {.word = "dilation",
     .field = &ConvolutionProblem::dilation,
     .draw =
         [](const Draw &draw, ConvolutionProblem &problem) {
           if (draw.random.one_in(3)) problem.dilation = draw_digits(draw.random, 1, 4);
         },
     .least = 0,
     .most = 999},
    {.word = "pad_before",
     .field = &ConvolutionProblem::before,
     .draw = [](const Draw &draw,
                ConvolutionProblem &problem) { problem.before = draw_digits(draw.random, 0, 3); },
     .least = 0,
     .most = 999},
    {.word = "pad_after",
     .field = &ConvolutionProblem::after,
     .draw = [](const Draw &draw,
                ConvolutionProblem &problem) { problem.after = draw_digits(draw.random, 0, 3); },
     .least = 0,
     .most = 999},
    {.word = "result",
     .field = &ConvolutionProblem::result,
     .draw =
         [](const Draw &draw, ConvolutionProblem &problem) {
           problem.result = draw.random.one_of<std::size_t>(
               {RAPT_CONVOLUTION_Y, RAPT_CONVOLUTION_Y, RAPT_CONVOLUTION_DX, RAPT_CONVOLUTION_DW});
         },
     .least = 0,
     .most = RAPT_CONVOLUTION_DW},
    {.word = "bias",
     .field = &ConvolutionProblem::bias,
     .draw = [](const Draw &draw, ConvolutionProblem &problem) { problem.bias = draw.random.one_in(2); }},
};

constexpr Option<DeltaProblem> of_delta_rule[] = {
    {.word = "key_dim", .field = &DeltaProblem::key_dim, .least = 1, .most = longest},
    {.word = "batch", .field = &DeltaProblem::batch, .least = 1, .most = longest},
    {.word = "heads", .field = &DeltaProblem::heads, .least = 1, .most = longest},
    {.word = "q_group", .field = &DeltaProblem::q_group, .least = 1, .most = longest},
    {.word = "v_group", .field = &DeltaProblem::v_group, .least = 1, .most = longest},
    {.word = "k_shared",
     .field = &DeltaProblem::k_shared,
     .draw = [](const Draw &draw, DeltaProblem &problem) { problem.k_shared = draw.random.one_in(4); }},
    {.word = "decay",
     .field = &DeltaProblem::decay,
     .draw = [](const Draw &draw, DeltaProblem &problem) { problem.decay = !draw.random.one_in(4); }},
    {.word = "per_key",
     .field = &DeltaProblem::per_key,
     .draw = [](const Draw &draw,
                DeltaProblem &problem) { problem.per_key = draw.random.one_in(2) && problem.decay; },
     .follows = true},
    {.word = "beta",
     .field = &DeltaProblem::beta,
     .draw = [](const Draw &draw, DeltaProblem &problem) { problem.beta = !draw.random.one_in(4); }},
    {.word = "state",
     .field = &DeltaProblem::state,
     .draw = [](const Draw &draw, DeltaProblem &problem) { problem.state = !draw.random.one_in(4); }},
    {.word = "l2_norm",
     .field = &DeltaProblem::l2_norm,
     .draw =
         [](const Draw &draw, DeltaProblem &problem) {
           problem.l2_norm = draw.random.one_of<std::size_t>({0, 0, 1, 2});
         },
     .least = 0,
     .most = RAPT_L2_NORM_MAX_EPS},
    {.word = "interleaved",
     .field = &DeltaProblem::interleaved,
     .draw = [](const Draw &draw, DeltaProblem &problem) { problem.interleaved = draw.random.one_in(2); }},
    {.word = "ragged",
     .field = &DeltaProblem::ragged,
     .draw = [](const Draw &draw, DeltaProblem &problem) { problem.ragged = draw.random.one_in(4); }},
};

constexpr Option<Layout> of_layout[] = {
    {.word = "guard", .field = &Layout::placement},
    {.word = "offset", .field = &Layout::offset, .least = 0, .most = longest},
    {.word = "gap", .field = &Layout::gap, .least = 0, .most = longest},
    {.word = "in_place", .field = &Layout::alias},
    {.word = "reversed", .field = &Layout::reversed},
    {.word = "past_caches", .field = &Layout::past_caches},
    {.word = "fp_control", .field = &Layout::fp_state},
};

constexpr Option<AttentionLayout> of_attention_layout[] = {
    {.word = "tokens_outside",
     .field = &AttentionLayout::tokens_outside,
     .draw = [](const Draw &draw,
                AttentionLayout &layout) { layout.tokens_outside = draw.random.one_in(2); }},
    {.word = "fused",
     .field = &AttentionLayout::fused,
     .draw = [](const Draw &draw, AttentionLayout &layout) { layout.fused = draw.random.one_in(4); }},
    {.word = "page_size",
     .field = &AttentionLayout::page_size,
     .draw =
         [](const Draw &draw, AttentionLayout &layout) {
           if (!draw.random.one_in(4)) return;
           layout.page_size = draw.random.one_of<std::size_t>({16, 32, 48, 64, 80, 128, 512});
         },
     .most = longest},
    {.word = "packed_keys",
     .field = &AttentionLayout::packed_keys,
     .draw = [](const Draw &draw, AttentionLayout &layout) { layout.packed_keys = draw.random.one_in(3); }},
    {.word = "q_offsets",
     .field = &AttentionLayout::q_offsets,
     .draw = [](const Draw &draw, AttentionLayout &layout) { layout.q_offsets = draw.random.one_in(4); }},
    {.word = "kv_offsets",
     .field = &AttentionLayout::kv_offsets,
     .draw = [](const Draw &draw, AttentionLayout &layout) { layout.kv_offsets = draw.random.one_in(4); }},
    {.word = "repeated_heads",
     .field = &AttentionLayout::repeated_heads,
     .draw = [](const Draw &draw,
                AttentionLayout &layout) { layout.repeated_heads = draw.random.one_in(6); }},
    {.word = "calls",
     .field = &AttentionLayout::calls,
     .draw =
         [](const Draw &draw, AttentionLayout &layout) {
           layout.calls = static_cast<Calls>(draw.random.below(std::size(names_of<Calls>)));
         }},
    // Who draws layouts sets it, so that published cases stay as they are.
    {.word = "left_padding", .field = &AttentionLayout::left_padding, .most = longest},
    {.word = "key_lists", .field = &AttentionLayout::key_lists, .most = longest},
    {.word = "value_outside", .field = &AttentionLayout::value_outside},
};

MatrixOrder draw_order(Random &random) {
  return random.one_of({MatrixOrder::rows, MatrixOrder::rows, MatrixOrder::columns, MatrixOrder::apart});
}

constexpr Option<LinearLayout> of_linear_layout[] = {
    {.word = "x_order",
     .field = &LinearLayout::x_order,
     .draw = [](const Draw &draw, LinearLayout &layout) { layout.x_order = draw_order(draw.random); }},
    {.word = "w_order",
     .field = &LinearLayout::w_order,
     .draw = [](const Draw &draw, LinearLayout &layout) { layout.w_order = draw_order(draw.random); }},
    {.word = "packed_w",
     .field = &LinearLayout::packed_w,
     .draw = [](const Draw &draw, LinearLayout &layout) { layout.packed_w = draw.random.one_in(2); }},
    {.word = "x_rows",
     .field = &LinearLayout::x_rows,
     .draw = [](const Draw &draw, LinearLayout &layout) { layout.x_rows = draw.random.one_in(3); }},
    {.word = "y_rows",
     .field = &LinearLayout::y_rows,
     .draw = [](const Draw &draw, LinearLayout &layout) { layout.y_rows = draw.random.one_in(3); }},
    {.word = "calls",
     .field = &LinearLayout::calls,
     .draw =
         [](const Draw &draw, LinearLayout &layout) {
           layout.calls = draw.random.one_of({Calls::whole, Calls::task_by_task, Calls::task_ranges,
                                              Calls::query_by_query, Calls::by_sequence});
         }},
};

// Converts to a field of any type except std::optional, which itself converts from AnyValue.
struct AnyValue {
  template <class T>
  requires(!std::is_same_v<T, std::optional<std::ptrdiff_t>> && !std::is_same_v<T, std::optional<FpState>>)
  operator T() const {
    return {};
  }
};

// Counts the fields of an aggregate. A base class counts as one field.
template <class Owner, class... Values>
constexpr std::size_t count_fields() {
  if constexpr (requires { Owner{Values{}..., AnyValue{}}; }) {
    return count_fields<Owner, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

// A field that is in no table would be missing from texts and random cases.
static_assert(count_fields<VectorProblem>() == std::size(of_vector));
static_assert(count_fields<RowsProblem>() == std::size(of_rows));
static_assert(count_fields<DotRowsProblem>() == 1 + std::size(of_dot_rows), "and RowsProblem");
static_assert(count_fields<SoftmaxBackwardProblem>() == 1, "only RowsProblem");
static_assert(count_fields<SoftmaxProblem>() == 2, "RowsProblem and SoftmaxOptions");
static_assert(count_fields<SoftmaxOptions>() == std::size(of_softmax));
static_assert(count_fields<AttentionProblem>() == 2 + std::size(of_attention_shape),
              "and RowsProblem and AttentionOptions");
static_assert(count_fields<AttentionOptions>() == std::size(of_attention));
static_assert(count_fields<NormProblem>() == 1 + std::size(of_norm), "and RowsProblem");
static_assert(count_fields<LinearProblem>() == 1 + std::size(of_linear), "and RowsProblem");
static_assert(count_fields<QuantizedProblem>() == 1 + std::size(of_quantized), "and RowsProblem");
static_assert(count_fields<RopeProblem>() == 1 + std::size(of_rope), "and RowsProblem");
static_assert(count_fields<ReduceProblem>() == 1 + std::size(of_reduce), "and RowsProblem");
static_assert(count_fields<ConvolutionProblem>() == 1 + std::size(of_convolution), "and RowsProblem");
static_assert(count_fields<DeltaProblem>() == 1 + std::size(of_delta_rule), "and RowsProblem");
static_assert(count_fields<Problem>() == 1 + std::size(of_problem), "and the problem of a kind");
static_assert(count_fields<Layout>() == 2 + std::size(of_layout), "and AttentionLayout and LinearLayout");
static_assert(count_fields<AttentionLayout>() == std::size(of_attention_layout));
static_assert(count_fields<LinearLayout>() == std::size(of_linear_layout));

std::ptrdiff_t draw_gap(Random &random) { return random.one_of<std::ptrdiff_t>({0, 0, 1, 13}); }

}  // namespace

const Tables &tables() {
  static constexpr Tables all{
      of_problem,     of_vector,     of_rows,   of_dot_rows,         of_softmax,      of_attention_shape,
      of_attention,   of_norm,       of_linear, of_quantized,        of_rope,         of_reduce,
      of_convolution, of_delta_rule, of_layout, of_attention_layout, of_linear_layout};
  return all;
}

void draw(Random &random, SoftmaxOptions &options) {
  for (const auto &option : of_softmax) {
    if (option.draw) option.draw({random, true, true}, options);
  }
}

void draw(Random &random, AttentionOptions &options) {
  const std::size_t kind = random.below(5);
  if (kind == 0) return;
  const bool many = kind >= 3;
  const auto leads = [](const auto &option) { return !option.follows; };
  std::size_t only = random.below(static_cast<std::size_t>(std::ranges::count_if(of_attention, leads)));
  for (const auto &option : of_attention) {
    const bool chosen = leads(option) && (many ? random.one_in(4) : only-- == 0);
    if (option.draw) option.draw({random, chosen, many}, options);
  }
}

void draw(Random &random, NormProblem &problem) {
  for (const auto &option : of_norm) option.draw({random, true, true}, problem);
}

void draw(Random &random, LinearProblem &problem) {
  for (const auto &option : of_linear) {
    if (option.draw) option.draw({random, true, true}, problem);
  }
}

void draw(Random &random, QuantizedProblem &problem) {
  for (const auto &option : of_quantized) {
    if (option.draw) option.draw({random, true, true}, problem);
  }
}

void draw(Random &random, RopeProblem &problem) {
  for (const auto &option : of_rope) {
    if (option.draw) option.draw({random, true, true}, problem);
  }
}

void draw(Random &random, ReduceProblem &problem) {
  for (const auto &option : of_reduce) {
    if (option.draw) option.draw({random, true, true}, problem);
  }
}

void draw(Random &random, ConvolutionProblem &problem) {
  for (const auto &option : of_convolution) {
    if (option.draw) option.draw({random, true, true}, problem);
  }
}

void draw(Random &random, DeltaProblem &problem) {
  for (const auto &option : of_delta_rule) {
    if (option.draw) option.draw({random, true, true}, problem);
  }
}

Layout draw_layout(Random &random, std::size_t element_size) {
  Layout layout;
  if (random.one_in(2)) layout.placement = Placement::begins_at_guard;
  for (std::size_t &offset : layout.offset) offset = random.below(64 / element_size) * element_size;
  for (std::ptrdiff_t &gap : layout.gap) gap = draw_gap(random);
  layout.alias = static_cast<Alias>(random.below(3));
  layout.reversed = random.one_in(2);
  return layout;
}

Layout draw_attention_layout(Random &random, std::size_t element_size) {
  Layout layout;
  if (random.one_in(2)) layout.placement = Placement::begins_at_guard;
  for (std::size_t &offset : layout.offset) {
    offset = random.one_in(2) ? 0 : random.below(64 / element_size) * element_size;
  }
  for (std::ptrdiff_t &gap : layout.gap) gap = draw_gap(random);
  if (random.one_in(3)) layout.alias = Alias::first_input;
  for (const auto &option : of_attention_layout) {
    if (option.draw) option.draw({random, true, true}, layout.attention);
  }
  return layout;
}

Layout draw_linear_layout(Random &random, std::size_t element_size) {
  Layout layout = draw_layout(random, element_size);
  layout.reversed = false;
  for (const auto &option : of_linear_layout) option.draw({random, true, true}, layout.linear);
  return layout;
}

std::vector<SoftmaxOptions> each_softmax_option_alone() {
  std::vector<SoftmaxOptions> choices;
  for (const auto &option : of_softmax) {
    for (const char *text : option.alone) {
      if (text == nullptr) break;
      Case read;
      if (!parse_case(Family::softmax, text, read).empty()) std::abort();  // a test parses all of these texts
      choices.push_back(read.problem.as<SoftmaxProblem>().options);
    }
  }
  return choices;
}

}  // namespace rapt::test
