#include "validate/directed_cases.hpp"

#include <span>
#include <sstream>

namespace rapt::validate {
namespace {

constexpr const char *exp_sum = "exp_sum";
constexpr const char *softmax = "softmax";
constexpr const char *all_rows = "softmax log_softmax logsumexp";
constexpr const char *forward = "attention";
constexpr const char *split = "attention attention_partial attention_merge";
constexpr const char *in_bf16 = "attention_in_bf16";
constexpr const char *backward = "attention_backward";
constexpr const char *of_bytes = "attention_i8";
constexpr const char *linear = "linear";
constexpr const char *all_linear = "linear_f32 linear_f64 linear_f16 linear_bf16 linear_in_bf16";
constexpr const char *quantized = "linear_quantized linear_in_i8";

// Each case has the smallest sizes that reach its rule on every level. Vectors have 2 to 16 elements, tiles
// up to 64 query rows, blocks 64 keys and chunks 512 keys. "few rows" means tiles of up to 8 rows. The seed
// chooses the "bad" rows (inputs.hpp). Gradients include dbias unless the seed is a multiple of 5, and dsinks
// unless it is a multiple of 3.
constexpr DirectedCase cases[] = {
    // ---- long sums and special scores of softmax rows
    {"a long f64 sum keeps what its additions lose", exp_sum, "n=6200 input=losing"},
    {"a long f64 sum keeps what its additions lose", all_rows, "n=6200 input=losing"},
    {"rows above 131072 columns: maximum and sum in one pass", all_rows, "n=131200 input=losing"},
    {"rows above 131072 columns, made by options", softmax, "n=131100 input=gaussian bias=shared"},
    {"rows too wide to go without their maximum", softmax, "rows=12 n=300 input=gaussian_wide"},
    {"masked rows without their maximum", softmax, "rows=5 n=200 input=gaussian mask=each"},
    {"rows that leave the range where they have been overwritten", softmax,
     "n=5000 input=gaussian scale=3 seed=2 in_place=first"},
    {"rows that leave the range where they have been overwritten, in f64", softmax,
     "n=5000 input=gaussian scale=12 seed=2 in_place=first"},
    {"sinks up to the largest number, beside ordinary scores", all_rows,
     "rows=24 n=5 sinks special_sinks scale=0.3"},
    {"sinks up to the largest number, divided by a small scale", all_rows,
     "rows=24 n=5 sinks special_sinks scale=0x1p-15"},
    {"sinks beside scores whose maximum is subtracted", all_rows,
     "rows=11 n=33 input=odd_rows seed=4811225 sinks special_sinks scale=0.3"},
    {"sinks beside scores whose maximum is subtracted", all_rows,
     "rows=24 n=9 input=odd_rows seed=3 sinks scale=30000"},
    {"a scale at the limit of what goes into constants", all_rows, "rows=5 n=9 scale=0x1p16"},
    {"a scale above the limit of what goes into constants", all_rows, "rows=5 n=9 scale=0x1.0002p16"},
    {"a scale at the lower limit", all_rows, "rows=5 n=9 scale=-0x1p-16"},
    {"a scale below the lower limit", all_rows, "rows=5 n=9 scale=-0x1.fff8p-17"},

    // ---- chunks and blocks of keys
    {"chunks fold by a fused operation: few rows, dimensions short of a vector", split,
     "rows=3 n=540 qk_dim=3 v_dim=5 scale=0.1"},
    {"chunks fold by a fused operation: few rows, vectors and a tail", split,
     "rows=1 n=1100 qk_dim=2 v_dim=37 scale=0.1"},
    {"chunks fold by a fused operation: many rows", split, "rows=26 n=600 qk_dim=2 v_dim=3 scale=0.1"},
    {"chunks and blocks count from the first key, wherever a window begins: few rows", split,
     "rows=2 n=1300 qk_dim=2 v_dim=3 scale=0.1 causal=0 bottom_right window_left=600"},
    {"chunks and blocks count from the first key, wherever a window begins: many rows", split,
     "rows=26 n=1300 qk_dim=2 v_dim=3 scale=0.1 causal=0 bottom_right window_left=600"},
    {"of rows that see nothing of a chunk nothing is left from before", split,
     "rows=64 n=544 qk_dim=2 v_dim=3 scale=0.1 causal=0 bottom_right"},

    // ---- weights
    {"a weight below the cutoff is 0, one at it and above is not: few rows", forward,
     "rows=2 kv_heads=2 n=100 input=far_scores qk_dim=2 v_dim=3"},
    {"a weight below the cutoff is 0, one at it and above is not: many rows", forward,
     "rows=10 kv_heads=2 n=100 input=far_scores qk_dim=2 v_dim=3"},
    {"so is what blocks and chunks are multiplied by: few rows", split,
     "rows=1 kv_heads=2 n=650 input=far_scores qk_dim=2 v_dim=3"},
    {"so is what blocks and chunks are multiplied by: many rows", split,
     "rows=26 kv_heads=2 n=650 input=far_scores qk_dim=1 v_dim=2"},
    {"so are weights beside a sink, and a sink's", forward,
     "rows=1 kv_heads=4 n=20 input=far_scores qk_dim=2 v_dim=3 sinks"},
    {"so are weights beside a sink, and a sink's", forward,
     "rows=9 kv_heads=4 n=10 input=far_scores qk_dim=2 v_dim=3 sinks"},
    {"a lone key whose own weight is rounded", in_bf16, "rows=3 n=1 qk_dim=2 v_dim=3 scale=3000000"},
    {"a lone key whose own weight is rounded", in_bf16,
     "rows=26 n=9 causal=0 qk_dim=2 v_dim=3 scale=3000000"},

    // ---- keys and queries that must not affect results
    {"a value that is not finite, excluded by a bias of -inf alone: few rows", forward,
     "rows=6 n=20 kv_heads=2 input=bad_values seed=4 v_dim=20 bias=each bias_excludes scale=0.1"},
    {"a value that is not finite, excluded by a bias of -inf alone: many rows", forward,
     "rows=26 n=20 kv_heads=2 input=bad_values seed=4 v_dim=20 bias=each bias_excludes scale=0.1"},
    {"a value that is not finite, excluded by the mask alone: few rows", split,
     "rows=6 n=20 kv_heads=2 input=bad_values seed=4 v_dim=20 mask=each scale=0.1"},
    {"a value that is not finite, excluded by the mask alone: many rows", split,
     "rows=26 n=20 kv_heads=2 input=bad_values seed=1 v_dim=20 mask=each scale=0.1"},
    {"a value that is not finite, after what rows see: few rows", forward,
     "rows=5 n=70 kv_heads=2 input=bad_values seed=4 v_dim=20 causal=0 bottom_right scale=0.1"},
    {"a value that is not finite, after what rows see: many rows", forward,
     "rows=40 n=40 kv_heads=2 input=bad_values seed=4 v_dim=20 causal=0 scale=0.1"},
    {"a value that is not finite, before what rows see: few rows", forward,
     "rows=5 n=70 kv_heads=2 input=bad_values seed=3 v_dim=20 causal=2 window_left=2 scale=0.1"},
    {"a value that is not finite, before what rows see: many rows", forward,
     "rows=40 n=40 kv_heads=2 input=bad_values seed=3 v_dim=20 window_left=2 scale=0.1"},
    {"a value that is not finite, in a group that begins before what rows see", in_bf16,
     "rows=26 n=96 kv_heads=2 input=bad_values seed=1 v_dim=3 causal=70 window_left=66 scale=0.1"},
    {"a value that is not finite, after what rows see of a whole block, where options make the scores",
     in_bf16,
     "rows=16 n=64 kv_heads=2 input=bad_values seed=4 v_dim=3 causal=0 bottom_right softcap=5 scale=0.1"},
    {"a key that is not finite, excluded by a bias of -inf alone: few rows", forward,
     "rows=6 n=20 kv_heads=2 input=bad_keys seed=4 bias=each bias_excludes scale=0.1"},
    {"a key that is not finite, excluded by a bias of -inf alone: many rows", forward,
     "rows=26 n=20 kv_heads=2 input=bad_keys seed=4 bias=each bias_excludes scale=0.1"},
    {"a key that is not finite, excluded by the mask: few rows", forward,
     "rows=6 n=20 kv_heads=2 input=bad_keys seed=4 mask=each scale=0.1"},
    {"a key that is not finite, excluded by the mask: many rows", forward,
     "rows=26 n=20 kv_heads=2 input=bad_keys seed=1 mask=each softcap=5 scale=0.1"},
    {"a key that is not finite, outside what rows see: many rows", forward,
     "rows=26 n=40 kv_heads=3 input=bad_keys seed=3 window_left=3 window_right=4 scale=0.1"},
    {"a query that is not finite is its own row's matter", forward,
     "rows=20 n=9 kv_heads=2 input=bad_queries seed=4 scale=0.1"},
    {"rows that see nothing, between others", forward, "rows=12 n=20 causal=-3 sinks scale=0.1"},
    {"rows that see nothing, between others", forward,
     "rows=20 n=9 kv_heads=2 mask=each seed=5 sinks scale=0.1"},

    // ---- windows and causality
    {"a window that ends on the left: few rows", forward, "rows=7 n=90 window_left=5 v_dim=3 scale=0.1"},
    {"a window that ends on the left: many rows", forward, "rows=33 n=90 window_left=5 v_dim=3 scale=0.1"},
    {"a window that ends on the right: many rows", forward, "rows=33 n=90 window_right=5 v_dim=3 scale=0.1"},
    {"chunks of an odd length", forward, "rows=33 n=90 window_chunk=13 v_dim=3 scale=0.1"},
    {"chunks of an odd length, from positions below 0 on", forward,
     "rows=7 n=30 window_chunk=5 causal=-4 v_dim=3 scale=0.1"},
    {"rows of a vector that see the same keys, beside others", forward,
     "rows=4 group=16 n=6 causal=0 bottom_right v_dim=3 scale=0.1"},

    // ---- terms of a score
    {"a slope comes before the bias: few rows", forward,
     "rows=3 group=2 n=40 alibi bias=each v_dim=3 scale=0.1"},
    {"a slope comes before the bias: many rows", forward,
     "rows=26 group=2 n=40 alibi bias=each v_dim=3 scale=0.1"},
    {"a slope counts from each row's position: few rows", forward, "rows=5 n=40 alibi v_dim=3 scale=0.1"},
    {"a slope's distance is two numbers, each rounded: few rows", forward,
     "rows=3 n=70 alibi causal=536870925 v_dim=3 scale=0.1"},
    {"a slope's distance is two numbers, each rounded: many rows", forward,
     "rows=26 n=70 alibi causal=536870925 v_dim=3 scale=0.1"},
    {"a slope's distance is two numbers, each rounded: few rows", forward,
     "rows=3 n=70 alibi causal=288230376151711757 v_dim=3 scale=0.1"},
    {"a slope's distance is two numbers, each rounded: many rows", forward,
     "rows=26 n=70 alibi causal=288230376151711757 v_dim=3 scale=0.1"},
    {"a query's own scale, of either sign: few rows", forward, "rows=6 n=20 query_scales scale=0.1 v_dim=3"},
    {"a query's own scale, of either sign: many rows", forward,
     "rows=26 n=20 query_scales scale=-0.3 v_dim=3"},
    {"a query's own scale that is not finite", forward,
     "rows=9 kv_heads=12 n=1 input=specials query_scales scale=0.1 qk_dim=2 v_dim=2"},
    {"a score that is finite, but not in natural units", forward,
     "rows=12 n=1 kv_heads=3 input=huge scale=3000 qk_dim=1 v_dim=3"},

    // ---- zeros
    {"a result that underflows is +0: few rows", split, "rows=3 n=2 input=denormals v_dim=20"},
    {"a result that underflows is +0: many rows", split, "rows=26 n=2 input=denormals v_dim=20"},

    // ---- layouts in memory
    {"pages that cut blocks: few rows", forward, "rows=3 n=140 batch=2 page_size=48 v_dim=3 scale=0.1"},
    {"pages that cut blocks: many rows", forward, "rows=26 n=140 batch=2 page_size=16 v_dim=3 scale=0.1"},
    {"packed keys in pages", split, "rows=3 n=140 batch=2 page_size=64 packed_keys v_dim=3 scale=0.1"},
    {"packed keys: many rows", split, "rows=26 n=140 packed_keys v_dim=3 scale=0.1"},
    {"sequences behind each other", forward,
     "rows=12 n=40 batch=3 kv_heads=2 ragged_queries row_lengths q_offsets kv_offsets v_dim=3 scale=0.1"},

    // ---- gradients
    {"a bias that rows share has the sum of all tiles, row by row", backward,
     "rows=70 n=12 kv_heads=2 batch=2 bias=shared qk_dim=2 v_dim=3 scale=0.1"},
    {"a bias has no gradient outside what its row sees", backward,
     "rows=20 n=70 bias=each causal=0 bottom_right qk_dim=2 v_dim=3 seed=2 scale=0.1"},
    {"sinks have the sum of all rows of a tile, and of all sequences", backward,
     "rows=70 n=5 batch=2 sinks qk_dim=2 v_dim=3 seed=2 scale=0.1"},
    {"a sink of weight 0 adds nothing", backward,
     "rows=9 n=5 kv_heads=4 input=bad_dout sinks special_sinks qk_dim=2 v_dim=3 seed=4 scale=0.1"},
    {"a softcap's slope at every key of a block", backward,
     "rows=40 n=70 softcap=5 qk_dim=2 v_dim=3 scale=0.1"},
    {"a weight below the cutoff is 0, and a sink's", backward,
     "rows=3 n=20 kv_heads=4 input=far_scores sinks qk_dim=2 v_dim=3 seed=2"},
    {"a query that is not finite adds nothing where its weight is 0", backward,
     "rows=20 n=20 kv_heads=2 input=bad_queries seed=4 mask=each scale=0.1"},
    {"a query that is not finite adds nothing where its weight is 0", backward,
     "rows=20 n=20 kv_heads=2 input=bad_queries seed=1 mask=each scale=0.1"},
    {"a dout that is not finite adds nothing where its weight is 0", backward,
     "rows=20 n=20 kv_heads=2 input=bad_dout seed=4 mask=each scale=0.1"},
    {"a key that is not finite adds nothing where its weight is 0", backward,
     "rows=20 n=20 kv_heads=2 input=bad_keys seed=4 mask=each qk_dim=32 scale=0.1"},
    {"a key that is not finite adds nothing where its weight is 0", backward,
     "rows=20 n=20 kv_heads=2 input=bad_keys seed=2 bias=each bias_excludes qk_dim=5 scale=0.1"},
    {"a gradient that underflows is +0", backward, "rows=12 n=8 kv_heads=2 input=tiny_rows seed=2"},
    {"a gradient that underflows is +0", backward, "rows=1 n=8 kv_heads=8 input=tiny_rows sinks seed=2"},
    {"a window that ends on the left", backward, "rows=33 n=90 window_left=5 qk_dim=2 v_dim=3 scale=0.1"},
    {"keys that a sequence does not have", backward,
     "rows=9 n=30 batch=4 row_lengths qk_dim=2 v_dim=3 scale=0.1"},
    {"a query's own scale, of either sign", backward, "rows=20 n=20 query_scales scale=0.1 qk_dim=2 v_dim=3"},
    {"the parts of a head make the sums of the whole", backward,
     "rows=150 n=200 kv_heads=2 causal=0 bottom_right calls=task_by_task qk_dim=2 v_dim=3 scale=0.1"},
    {"the parts of a head make the sums of the whole", backward,
     "rows=140 n=150 batch=2 bias=shared sinks calls=task_by_task qk_dim=2 v_dim=3 seed=2 scale=0.1"},
    {"a window sees the first keys of the next part", backward,
     "rows=200 n=200 causal=0 bottom_right window_left=70 calls=task_by_task qk_dim=2 v_dim=3 scale=0.1"},
    // ---- int8 keys and values, whose scale groups the seed chooses
    {"three rows at a time", of_bytes, "rows=3 n=70 qk_dim=128 v_dim=16"},
    {"scale groups in several blocks", of_bytes, "rows=2 n=200 qk_dim=128 v_dim=128 seed=1"},
    {"scale groups in several blocks", of_bytes, "rows=2 n=200 qk_dim=128 v_dim=128 seed=2"},
    {"scale groups in several blocks", of_bytes, "rows=2 n=200 qk_dim=128 v_dim=128 seed=3"},
    {"scale groups in several blocks", of_bytes, "rows=2 n=200 qk_dim=96 v_dim=64 seed=4"},
    {"scale groups in several blocks", of_bytes, "rows=2 n=200 qk_dim=96 v_dim=64 seed=5"},
    {"rows that see nothing", backward, "rows=12 n=20 causal=-3 sinks qk_dim=2 v_dim=3 seed=2 scale=0.1"},

    // ---- linear layers: tiles have up to 6 rows, blocks 64 outputs, groups 512 inputs
    {"a group of 512 inputs is one chain", linear, "rows=2 n=512 outputs=3"},
    {"chains of 512 inputs are added in order: few rows", linear, "rows=2 n=1030 outputs=65"},
    {"chains of 512 inputs are added in order: many rows", linear, "rows=26 n=1030 outputs=65"},
    {"chains of 512 inputs are added in order: packed weights", linear, "rows=26 n=1030 outputs=65 packed_w"},
    {"an output of products that are all -0 is +0", linear, "rows=7 n=3 input=signed_zeros outputs=130"},
    {"an output of products that underflow is +0", linear, "rows=7 n=3 input=denormals outputs=130"},
    {"a sum is +0 before it takes the bias, and -0 after a negative scale", linear,
     "rows=7 n=3 input=signed_zeros outputs=130 bias row_scales add=like_y scale=-1"},
    {"a subnormal input counts", linear, "rows=13 n=33 input=tiny_queries outputs=65"},
    {"subnormal products are rounded at every step", linear, "rows=13 n=33 input=tiny_rows outputs=65"},
    {"a NaN or infinity touches only its own row or output", linear,
     "rows=13 n=40 input=specials outputs=130 seed=2"},
    {"a NaN or infinity touches only its own row or output: packed weights", linear,
     "rows=13 n=40 input=specials outputs=130 seed=2 packed_w"},
    {"infinities of both signs in groups apart make NaN", linear,
     "rows=13 n=1030 input=minus_infinities outputs=65"},
    {"sums that overflow", linear, "rows=13 n=40 input=huge outputs=65"},
    {"bias, scale and addend are separate steps, in this order", linear,
     "rows=13 n=40 outputs=65 bias row_scales add=like_y scale=0.3"},
    {"a scale of 0 or infinity", linear, "rows=40 n=9 input=specials outputs=9 bias row_scales add=like_y"},
    {"no rows", linear, "rows=0 n=9 bias row_scales add=like_y x_rows y_rows"},
    {"no outputs", linear, "rows=9 n=9 outputs=0 bias row_scales add=like_y packed_w"},
    {"y replaces the addend, row by row of lists", linear,
     "rows=20 n=9 outputs=70 add=like_y in_place=first y_rows"},

    // ---- quantized weights: a word has 4 bytes or 8 codes of 4 bits
    {"inputs that fill no word: few rows", quantized, "rows=2 n=61 outputs=65 scale_group=16 scales"},
    {"inputs that fill no word: many rows", quantized,
     "rows=14 n=62 outputs=65 scale_group=16 scales packed_w"},
    {"inputs that fill no word of 4 bits: few rows", quantized,
     "rows=2 n=65 outputs=65 weights=i4 scale_group=32 scales"},
    {"inputs that fill no word of 4 bits: few rows", quantized,
     "rows=2 n=69 outputs=65 weights=u4 scale_group=32 scales zeros"},
    {"inputs that fill no word of 4 bits: many rows", quantized,
     "rows=14 n=71 outputs=65 weights=u4 scale_group=32 scales zeros packed_w"},
    {"the last group has fewer inputs than the others", quantized,
     "rows=7 n=130 outputs=65 scale_group=128 scales offsets packed_w"},
    {"one scale serves several groups of 512 inputs", quantized,
     "rows=7 n=1100 outputs=65 weights=i4 scales offsets"},
    {"zeros above 15, and offsets", quantized,
     "rows=7 n=100 outputs=130 weights=u4 scale_group=16 scales zeros offsets packed_w"},
    {"an offset is multiplied by a sum of x that is infinite or 0", quantized,
     "rows=7 n=40 outputs=65 scale_group=32 scales offsets input=specials"},
    {"the largest integers", quantized, "rows=7 n=512 outputs=65 scales input=huge"},
    {"the largest integers", "linear_in_i8",
     "rows=7 n=1024 outputs=65 types=i8_f32_f32 scales input=huge packed_w"},
    {"a codebook", "linear_quantized", "rows=2 n=70 outputs=65 weights=u4 scale_group=64 scales codebook"},
    {"a codebook: many rows", "linear_quantized",
     "rows=14 n=70 outputs=65 weights=u4 scale_group=64 scales codebook packed_w"},
    {"x too small for integers, and NaN", "linear_in_i8",
     "rows=13 n=70 outputs=65 scale_group=32 scales x_group=one input=specials"},
    {"x too small for integers", "linear_in_i8",
     "rows=13 n=70 outputs=65 scale_group=32 scales input=denormals"},
    {"a scale of x for several groups", "linear_in_i8",
     "rows=13 n=300 outputs=65 weights=i4 scale_group=32 scales x_group=three"},
    {"no rows", quantized, "rows=0 n=9 scales bias row_scales add x_rows y_rows"},
    {"no outputs", quantized, "rows=9 n=9 outputs=0 weights=i4 scales bias row_scales add packed_w"},
};

// These cases reach the code paths that a kernel chooses by its sizes, options or values.
constexpr DirectedCase ways[] = {
    // ---- outputs and vectors of 16 MiB and more
    {"vectors in memory", "dot_f32", "n=4194351 input=periodic guard=begin"},
    {"vectors in memory", "dot_f64", "n=2097199 input=periodic guard=begin"},
    {"vectors in memory", "dot_f16 dot_bf16", "n=8388651 input=periodic"},
    {"equal maxima in several blocks", "argmax_*", "n=5000 input=periodic"},
    {"an output past the caches", "scale_* exp silu_f16 silu_bf16", "n=2203 scale=1.7 past_caches"},
    {"an output past the caches",
     "convert_f16_to_f32 convert_bf16_to_f32 convert_f32_to_f16 convert_f32_to_bf16", "n=2203 past_caches"},
    {"an output past the caches, not aligned, in parts", "scale exp",
     "n=2203 scale=1.7 past_caches offset=0,0,8"},
    {"rows past the caches, some of them out of range", "softmax_*",
     "rows=40 n=300 input=odd_rows seed=3 row_lengths past_caches"},
    {"rows past the caches with their maximum", "softmax_*",
     "rows=9 n=3000 input=odd_rows sinks row_lengths past_caches"},
    {"rows past the caches in groups", "softmax_*", "rows=40 n=70 past_caches"},
    {"rows past the caches with maximum and sum in one pass, and columns after their length", "softmax_*",
     "rows=4 n=131200 input=periodic row_lengths scale=4 past_caches"},

    // ---- maximum and sum in one pass
    {"one pass over plain rows", "softmax_* log_softmax_* logsumexp", "n=131300 input=periodic scale=5"},
    {"one pass over masked rows", "softmax_* log_softmax_* logsumexp", "n=131300 input=periodic mask=each"},
    {"one pass over made rows", "softmax_* log_softmax_* logsumexp",
     "n=131300 input=periodic bias=each bias_excludes softcap=50"},
    {"one pass whose maximum moves on, plain", "softmax_* log_softmax_* logsumexp", "n=133111 input=rising"},
    {"one pass whose maximum moves on, masked", "softmax_* log_softmax_* logsumexp",
     "n=133111 input=rising mask=each"},
    {"one pass whose maximum moves on, made", "softmax_* log_softmax_* logsumexp",
     "n=133111 input=rising bias=each bias_excludes"},
    {"one pass past the caches whose maximum moves on", "softmax_*",
     "rows=2 n=140000 input=rising past_caches"},
    {"rows that subtract their maximum", "softmax_* log_softmax_* logsumexp",
     "rows=24 n=300 input=odd_rows mask=each scale=30000"},
    {"rows that subtract their maximum", "softmax_* log_softmax_* logsumexp",
     "rows=24 n=300 input=odd_rows scale=30000"},
    {"rows that subtract their maximum", "softmax_* log_softmax_* logsumexp",
     "rows=24 n=300 input=odd_rows bias=each scale=30000"},
    {"odd rows of more than 256 columns", "softmax_* log_softmax_* logsumexp",
     "rows=60 n=530 input=odd_rows seed=2"},
    {"odd rows of more than 256 columns, in place", "softmax_*",
     "rows=60 n=530 input=odd_rows seed=2 in_place=first"},
    {"odd masked rows, in place", "softmax_*",
     "rows=60 n=530 input=odd_rows mask=each seed=2 in_place=first"},

    {"a row in place, with a mask, that leaves the range after its first section", "softmax_*",
     "rows=40 n=2500 input=odd_rows mask=each seed=1 in_place=first"},
    {"wide rows past the caches, and columns after their length", "softmax_*",
     "rows=8 n=190000 input=periodic row_lengths scale=40 past_caches"},

    {"rows in place, around the range", "softmax_*", "rows=70 n=300 input=exp_range in_place=first"},
    {"rows in place, around the range", "softmax_*",
     "rows=70 n=700 input=gaussian_wide scale=0.3 in_place=first"},
    {"rows in place, around the range", "softmax_*", "rows=70 n=700 input=minus_infinities in_place=first"},

    // ---- long vectors of unusual numbers
    {"long vectors", "exp exp_sum", "n=1500 input=exp_range"},
    {"long vectors", "exp exp_sum", "n=1500 input=exp_range seed=2"},
    {"long vectors", "exp exp_sum", "n=1500 input=specials"},
    {"long vectors", "exp exp_sum", "n=1500 input=denormals"},
    {"long vectors, each operand unaligned in its own way", "dot_f32 dot_f64 dot_f16 dot_bf16",
     "n=700 offset=8,24,0"},
    {"long vectors, each operand unaligned in its own way", "dot_f32 dot_f64 dot_f16 dot_bf16",
     "n=701 offset=40,8,0"},
    {"long vectors, each operand unaligned in its own way", "dot_f32 dot_f64 dot_f16 dot_bf16",
     "n=1111 offset=56,16,0 input=wide_exponents"},

    // ---- large matrices
    {"many rows, of which four far apart are read at a time", "dot_rows_*", "rows=2055 n=513"},

    // ---- NaN
    {"NaN with any payload", "dot_* dot_rows_* scale_* exp exp_sum softmax_backward",
     "rows=5 n=70 input=nans scale=2"},
    {"NaN with any payload", "convert_f16_to_f32 convert_bf16_to_f32 convert_f32_to_f16 convert_f32_to_bf16",
     "n=300 input=nans seed=2"},
    {"NaN with any payload, in batches of rows", "softmax_* log_softmax_* logsumexp",
     "rows=37 n=16 input=nans"},
    {"NaN with any payload, in rows", "softmax_* log_softmax_* logsumexp", "rows=5 n=700 input=nans"},
    {"NaN with any payload, in one pass", "softmax_* log_softmax_* logsumexp", "n=131300 input=nans scale=4"},

    // ---- rows of whole vectors, with gaps in the output or in the input
    {"gaps in the output", "softmax_*", "rows=70 n=16 gap=0,0,4"},
    {"gaps in the output", "softmax_*", "rows=70 n=8 gap=0,0,4"},
    {"gaps in the output", "softmax_*", "rows=70 n=4 gap=0,0,4"},
    {"gaps in the input", "softmax_*", "rows=70 n=16 gap=4,0,0"},
    {"gaps in the input", "softmax_*", "rows=70 n=8 gap=4,0,0"},

    // ---- dot products of bytes that overflow 32 bits
    {"products of 255 and 127", "dot_u8i8", "n=131071 input=largest"},
    {"products of 255 and 127", "dot_u8i8", "n=66400 input=largest"},
    {"products of 255 and 127", "dot_rows_u8i8", "rows=5 n=131071 input=largest"},
    {"products of 255 and 127", "dot_rows_u8i8", "rows=5 n=66400 input=largest"},
    {"products of 255 and -128", "dot_u8i8", "n=131071 input=huge"},
    {"products of 255 and -128", "dot_u8i8", "n=65793 input=huge"},
    {"products of 255 and -128", "dot_rows_u8i8", "rows=3 n=131071 input=huge"},
    {"products of 255 and -128", "dot_rows_u8i8", "rows=3 n=65793 input=huge"},

    // ---- attention
    {"values that are not finite, in as many rows as a tile has", "attention_*",
     "rows=64 n=40 input=bad_values seed=4 mask=each qk_dim=5 v_dim=20 scale=0.1"},
    {"the last key ends the last page of the table: few rows", "attention_*",
     "rows=2 n=80 page_size=16 qk_dim=16 v_dim=16"},
    {"the last key ends the last page of the table: many rows", "attention_*",
     "rows=40 n=80 page_size=16 qk_dim=16 v_dim=16"},
    {"pages that cut blocks: many rows", "attention_* attention_partial_*",
     "rows=26 n=200 batch=2 page_size=48 v_dim=3 scale=0.1"},
    {"pages that cut blocks: many rows", "attention_* attention_partial_*",
     "rows=40 n=200 batch=2 page_size=80 v_dim=20 scale=0.1"},
    {"a value that is not finite, in tiles of every width", "attention_*",
     "rows=14 n=200 kv_heads=2 input=bad_values seed=4 mask=each qk_dim=40 v_dim=70 scale=0.1"},
    {"a value that is not finite, in tiles of every width", "attention_*",
     "rows=26 n=200 kv_heads=2 input=bad_values seed=2 bias=each bias_excludes qk_dim=40 v_dim=70 scale=0.1"},
    {"a value that is not finite, in tiles of every width", "attention_*",
     "rows=60 n=200 kv_heads=2 input=bad_values seed=1 mask=each qk_dim=40 v_dim=70 scale=0.1"},
    {"a value that is not finite, which only later rows see, in place", "attention_*",
     "rows=60 n=60 input=bad_values seed=1 causal=0 qk_dim=40 v_dim=40 in_place=first scale=0.1"},
    {"a subnormal query counts, but not in bf16 arithmetic: few rows", "attention_*",
     "rows=3 n=70 input=tiny_queries qk_dim=5 v_dim=20 scale=4"},
    {"a subnormal query counts, but not in bf16 arithmetic: many rows", "attention_*",
     "rows=26 n=70 input=tiny_queries qk_dim=5 v_dim=20 scale=4"},
    {"heads that share keys, the first of which are not in the window", "attention_*",
     "rows=1 group=16 n=128 causal=0 bottom_right window_left=100 qk_dim=5 v_dim=20 scale=0.1"},
    {"a scale that is not finite, of a block that all rows see", of_bytes,
     "rows=26 n=64 kv_heads=3 input=bad_values seed=4 qk_dim=3 v_dim=20"},
    {"a weight of 0 takes no scale", of_bytes, "rows=3 n=60 kv_heads=2 input=far_scores qk_dim=3 v_dim=20"},
    {"a weight of 0 takes no scale", of_bytes, "rows=40 n=64 kv_heads=2 input=far_scores qk_dim=3 v_dim=20"},
    {"the last rows see no key", "attention_backward_*",
     "rows=40 n=16 causal=0 window_left=4 qk_dim=3 v_dim=5 scale=0.1"},
    {"the last rows see no key", "attention_backward_*",
     "rows=100 n=70 causal=0 window_left=4 qk_dim=3 v_dim=5 scale=0.1 calls=task_by_task"},

    // ---- linear layers
    {"NaN with any payload", all_linear, "rows=5 n=70 input=nans bias add=like_y"},
    {"weights as they are, padded, in columns and apart", all_linear, "rows=5 n=70 outputs=130 gap=1,1,1"},
    {"weights as they are, padded, in columns and apart", all_linear,
     "rows=5 n=70 outputs=130 w_order=columns"},
    {"weights as they are, padded, in columns and apart", all_linear,
     "rows=5 n=70 outputs=130 w_order=apart"},
    {"inputs in columns and apart", all_linear, "rows=20 n=70 outputs=10 x_order=columns"},
    {"inputs in columns and apart", all_linear, "rows=20 n=70 outputs=10 x_order=apart"},
    {"several tasks of rows and of outputs", all_linear, "rows=200 n=7 outputs=600 calls=task_by_task"},
    {"several tasks of rows and of outputs, packed", all_linear,
     "rows=200 n=515 outputs=300 packed_w calls=task_ranges"},
    {"one row of packed weights", all_linear, "rows=1 n=1030 outputs=300 packed_w"},
    {"one row of weights in columns", all_linear, "rows=1 n=1030 outputs=300 w_order=columns"},
    {"several tasks of rows and of outputs", quantized,
     "rows=200 n=40 outputs=600 scale_group=32 scales packed_w calls=task_by_task"},
    {"weights in columns and apart", quantized, "rows=5 n=70 outputs=130 scales w_order=columns"},
    {"weights in columns and apart", quantized, "rows=5 n=70 outputs=130 scales w_order=apart"},
    {"inputs in columns", quantized, "rows=20 n=70 outputs=10 weights=i4 scales offsets x_order=columns"},
    {"one row of packed weights", quantized, "rows=1 n=1030 outputs=300 scale_group=64 scales packed_w"},
    {"tiles of every height", quantized, "rows=3 n=70 outputs=65 weights=u4 scales zeros packed_w"},
    {"tiles of every height", quantized, "rows=4 n=70 outputs=65 scales offsets packed_w"},
    {"tiles of every height", quantized, "rows=11 n=70 outputs=65 weights=i4 scales packed_w"},
    {"tiles of every height, with a codebook", "linear_quantized",
     "rows=1 n=70 outputs=65 weights=u4 scales codebook packed_w"},
    {"tiles of every height, with a codebook", "linear_quantized",
     "rows=3 n=70 outputs=65 weights=u4 scales codebook packed_w"},
    {"tiles of every height, with a codebook", "linear_quantized",
     "rows=4 n=70 outputs=65 weights=u4 scales codebook packed_w"},
    {"tiles of every height, with a codebook", "linear_quantized",
     "rows=6 n=70 outputs=65 weights=u4 scales codebook packed_w"},
    {"tiles of every height", quantized, "rows=6 n=70 outputs=65 weights=u4 scales zeros packed_w"},
    {"tiles of every height: numbers in scratch", quantized,
     "rows=15 n=70 outputs=65 weights=i4 scales packed_w"},
    {"tiles of every height: numbers in scratch", quantized, "rows=16 n=70 outputs=65 scales packed_w"},
    {"tiles of every height: numbers in scratch", quantized,
     "rows=17 n=70 outputs=65 scales offsets packed_w"},
    {"tiles of every height, of other types", "linear_f32", "rows=4 n=17 outputs=65 types=f16_f32_bf16"},
    {"tiles of every height, of other types", "linear_f32", "rows=11 n=17 outputs=65 types=f16_f32_bf16"},
    {"tiles of every height, of other types", "linear_f32",
     "rows=4 n=17 outputs=65 types=bf16_f32_f16 add=like_x"},
    {"tiles of every height, of other types", "linear_f32",
     "rows=9 n=17 outputs=65 types=bf16_f32_f16 add=like_y"},
    {"tiles of every height, of other types", "linear_f16", "rows=4 n=17 outputs=65 types=bf16_f16_bf16"},
    {"tiles of every height, of other types", "linear_f16", "rows=8 n=17 outputs=65 types=f32_f16_f32"},
    {"tiles of every height, of other types", "linear_bf16", "rows=4 n=17 outputs=65 types=f16_bf16_f16"},
    {"tiles of every height, of other types", "linear_bf16", "rows=9 n=17 outputs=65 types=f16_bf16_f16"},
    {"tiles of every height, of other types", "linear_bf16", "rows=10 n=17 outputs=65 types=f32_bf16_f16"},
};

}  // namespace

std::span<const DirectedCase> directed_cases() { return cases; }

std::span<const DirectedCase> cases_of_ways() { return ways; }

bool is_for(const DirectedCase &directed, const std::string &kernel) {
  constexpr const char *usual[] = {"", "_f32", "_f64", "_in_bf16"};
  constexpr const char *all[] = {"f32", "f64", "f16", "bf16", "i8", "u8i8", "in_bf16"};
  std::istringstream names(directed.kernels);
  for (std::string name; names >> name;) {
    const bool of_all = name.ends_with('*');
    if (of_all) name.pop_back();
    for (const char *suffix : of_all ? std::span<const char *const>(all) : usual) {
      if (kernel == name + suffix) return true;
    }
  }
  return false;
}

}  // namespace rapt::validate
