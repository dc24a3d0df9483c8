/* SPDX-License-Identifier: Apache-2.0 */
/** \file
 * rapt: CPU kernels for attention, with the same bits on every instruction set.
 *
 * Units. Lengths and strides count elements. The innermost dimension is contiguous. No alignment is required.
 * Accuracy bounds count in u, which is 2^-24 for f32 and 2^-53 for f64.
 *
 * Empty calls. A call with n, rows or cols of 0 succeeds. A dot product is then 0, and functions over rows
 * read no element of x. Rows without columns have only a log-sum-exp, which is -inf or the sink.
 *
 * Options. 0 is the default of every field: a zeroed struct with `size` and the shape set is plain softmax or
 * plain attention. No set field is ignored: a field that has no effect given the others is an error, and the
 * status names it. A field that another stage of the same work uses may be set, such as `lse` in a partial
 * call: the merge writes lse. A struct may grow at its end. Each size that it has had in a release is
 * accepted, and no other. Every product of sizes is checked for overflow.
 * scale, softcap and scale / softcap must be normal numbers of the arithmetic type. scale is at most the type's
 * largest number / log2(e).
 *
 * Strides of tensors. {0, 0, 0} is contiguous in the order batch, head, token. Otherwise every dimension
 * longer than 1 needs its stride: 0 is an error there, and RAPT_REPEAT repeats an input along the dimension.
 * Unused strides are not read: the batch stride of packed sequences, the token stride of packed keys, and the
 * strides of a tensor without elements.
 *
 * Bits. Every function returns the same bits on every instruction set, at any alignment, stride and batch
 * size, in place or not. The rounding mode and the flush-to-zero setting of the calling thread change no bit,
 * and the call restores them. One exception: the sign and payload of a NaN result are not promised.
 *
 * Special values, for every function. "Score" means the score after scale, softcap, slopes and bias.
 * ~~~
 *   an element excluded by a mask, a length,      never read into the result: probability exactly 0,
 *   causality or a bias of -inf                   even if the element is NaN or infinite
 *   a row with no element left                    probabilities 0, log-probabilities and log-sum-exp -inf
 *                                                 (with a sink, the log-sum-exp is the sink)
 *   a score next to which all other exponentials  log-probability +0, and the log-sum-exp is the score (0 for
 *   vanish in the sum, as the only visible one    -0). A sink next to which they vanish is the log-sum-exp
 *   a score of -inf                               probability exactly +0
 *   a row whose scores are all -inf               NaN, unless empty_rows_are_zero is set; log-sum-exp -inf.
 *                                                 With a finite sink probabilities are 0, and the
 *                                                 log-sum-exp is the sink. Attention treats it as a row
 *                                                 with no element left
 *   a score of NaN or +inf                        the row is NaN, except for its excluded elements
 *   an infinite element with a softcap            a finite score, +-softcap and what is added to it
 *   an infinite element with a negative scale     a score of the other sign
 *   a query scale of 0                            a score of 0, or NaN where q or k has an infinity
 *   an infinite query scale                       any element of the row may be NaN
 *   exp(-inf), exp(+inf), exp(NaN)                +0, +inf, NaN
 *   a bad argument                                a status that names it; nothing is written
 * ~~~
 *
 * Accuracy. Every bound holds for any input within the conditions next to it. Where a bound contains the rounding of
 * the result, as u |y|, that alone may come as near to the bound as one likes. A bound that was measured on
 * random data holds for the random numbers of the tests. If terms are equal, or only a few of them differ,
 * all partial sums may round to the same side. Then only the bound for any input holds.
 *
 * Memory. An output may overlap an input only where the function's text says so. A workspace must overlap
 * nothing. In attention, an array reaches from the first to the last element that the call reads or writes.
 * So the memory past the lengths of sequences may belong to anything. Slices of one buffer, such as q, k and
 * v in [batch, token, 3, head, dim], do not overlap. The library allocates nothing. An output of 16 MiB or more may
 * be written past the caches, unless it is in place. Other threads see such an output like any other once the
 * call has returned.
 *
 * Threads. Any number of threads may call any function at once. The library's only state is the choice of
 * instruction set. It prints nothing, starts no thread and throws nothing.
 *
 * Errors. A function that returns a status checks its arguments, and the status names a bad one. Functions that
 * return none (dot, dot_rows, scale, exp, exp_sum, convert, argmax, activations) check nothing: their pointers
 * must be valid for the lengths given.
 */
#ifndef RAPT_RAPT_H
#define RAPT_RAPT_H

#include <stddef.h>
#include <stdint.h>

/* A caller of rapt.dll needs no dllimport: the import library has a jump to each function. */
#if defined(RAPT_SHARED) && defined(_WIN32)
#define RAPT_API __declspec(dllexport)
#elif defined(RAPT_SHARED) && defined(__GNUC__)
#define RAPT_API __attribute__((visibility("default")))
#else
#define RAPT_API
#endif

/* A C++ module exports only functions with external linkage. In C, `inline` alone would need a definition elsewhere. */
#ifdef __cplusplus
#define RAPT_INLINE inline
#else
#define RAPT_INLINE static inline
#endif

/** The header's version; rapt_version() is the library's. */
#define RAPT_VERSION_MAJOR 0
/** Grows with new functions, and may change bits. */
#define RAPT_VERSION_MINOR 3
/** Grows with corrections. */
#define RAPT_VERSION_PATCH 0
/** The header's version of the bits; see rapt_bits_version(). */
#define RAPT_BITS_VERSION 3

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ------------------------------------------------------------------------------------------- */
/** \defgroup status Status
 * \{ */

/** What a function returns: success, or which argument is at fault. */
enum rapt_status {
  RAPT_OK = 0,               /**< success */
  RAPT_BAD_X,                /**< x is null */
  RAPT_BAD_Y,                /**< y is null */
  RAPT_BAD_DY,               /**< dy is null */
  RAPT_BAD_DX,               /**< dx is null */
  RAPT_BAD_OUT,              /**< out is null */
  RAPT_BAD_X_STRIDE,         /**< x_stride is smaller than a row */
  RAPT_BAD_Y_STRIDE,         /**< y_stride is smaller than a row */
  RAPT_BAD_DY_STRIDE,        /**< dy_stride is smaller than a row */
  RAPT_BAD_DX_STRIDE,        /**< dx_stride is smaller than a row */
  RAPT_BAD_OVERLAP,          /**< an output overlaps an input without being exactly that input */
  RAPT_BAD_SIZE,             /**< a product of sizes does not fit the address space */
  RAPT_BAD_OPTIONS_SIZE,     /**< size of options or of batch is not that of the struct in a release */
  RAPT_BAD_EMPTY_ROWS,       /**< empty_rows_are_zero is set for logsumexp, where it has no effect */
  RAPT_BAD_SCALE,            /**< scale is not a normal number of the arithmetic type, or too large */
  RAPT_BAD_SOFTCAP,          /**< softcap is negative, or softcap or scale / softcap is not normal */
  RAPT_BAD_BIAS_STRIDE,      /**< bias_stride is smaller than a row, or set without a bias */
  RAPT_BAD_MASK_STRIDE,      /**< mask_stride is smaller than a row, or set without a mask */
  RAPT_BAD_ROW_LENGTHS,      /**< a row length is larger than cols, or than tokens */
  RAPT_BAD_ISA_NAME,         /**< no instruction set of that name is compiled in */
  RAPT_BAD_ISA_FOR_THIS_CPU, /**< this CPU or its operating system cannot run that instruction set */
  RAPT_BAD_Q,                /**< q is null */
  RAPT_BAD_K,                /**< k is null */
  RAPT_BAD_V,                /**< v is null */
  RAPT_BAD_OPTIONS,          /**< options or batch is null */
  RAPT_BAD_HEADS,            /**< q_heads is not a multiple of kv_heads */
  RAPT_BAD_DIM,              /**< qk_dim or v_dim is 0 or too large */
  RAPT_BAD_SHAPE,         /**< a size may not be 0, in_features is no whole blocks, or taps reach too far */
  RAPT_BAD_TYPE,          /**< this version lacks the element type, or a given range has another one */
  RAPT_BAD_ARITHMETIC,    /**< the element types do not have that arithmetic */
  RAPT_BAD_KV_SCALES,     /**< k_scales, v_scales or scale_group do not go with the types */
  RAPT_BAD_Q_STRIDES,     /**< a stride of q is 0 or negative */
  RAPT_BAD_K_STRIDES,     /**< a stride of k is 0 or negative */
  RAPT_BAD_V_STRIDES,     /**< a stride of v is 0 or negative */
  RAPT_BAD_OUT_STRIDES,   /**< the strides of out let two of its rows overlap */
  RAPT_BAD_LSE_STRIDES,   /**< the strides of lse let two elements coincide, or are set without lse */
  RAPT_BAD_BIAS_STRIDES,  /**< a stride of bias is 0 or negative, or set without a bias */
  RAPT_BAD_MASK_STRIDES,  /**< a stride of mask is 0 or negative, or set without a mask */
  RAPT_BAD_QUERY_SCALES,  /**< a stride of query_scales is 0 or negative, or set without query_scales */
  RAPT_BAD_CAUSAL,        /**< causal is not one of rapt_causal */
  RAPT_BAD_CAUSAL_OFFSET, /**< causal_offset without RAPT_CAUSAL_OFFSET, or beyond 2^60 */
  RAPT_BAD_KV_LENGTHS,    /**< an entry of kv_lengths is negative or larger than kv_len */
  RAPT_BAD_OFFSETS,       /**< offsets decrease, exceed q_len or kv_len, or those of bags do not begin at 0 */
  RAPT_BAD_BLOCK_TABLE,   /**< a page number is negative, the table too narrow, or kv_offsets also set */
  RAPT_BAD_PAGE_SIZE,     /**< page_size is 0 with block_table, or set without it */
  RAPT_BAD_PACKED_KEYS,   /**< packed_keys with kv_offsets, or with pages of no multiple of 64 keys */
  RAPT_BAD_PARTIALS,      /**< partials is null */
  RAPT_BAD_WORKSPACE,     /**< workspace is null, too small, or overlaps another array */
  RAPT_BAD_TASKS,         /**< first is above last, or last above the number of tasks */
  RAPT_BAD_GRADIENTS,     /**< gradients is null, or its size is not that of the struct in a release */
  RAPT_BAD_LSE,           /**< options->lse is null */
  RAPT_BAD_DOUT,          /**< dout is null */
  RAPT_BAD_DQ,            /**< dq is null */
  RAPT_BAD_DK,            /**< dk is null */
  RAPT_BAD_DV,            /**< dv is null */
  RAPT_BAD_DOUT_STRIDES,  /**< a stride of dout is 0 or negative */
  RAPT_BAD_DQ_STRIDES,    /**< the strides of dq let two of its rows overlap */
  RAPT_BAD_DK_STRIDES,    /**< the strides of dk let two of its rows overlap */
  RAPT_BAD_DV_STRIDES,    /**< the strides of dv let two of its rows overlap */
  RAPT_BAD_DBIAS,  /**< dbias without a bias, with a bias_type or slopes, or two of its rows partly overlap */
  RAPT_BAD_DSINKS, /**< dsinks without sinks */
  RAPT_BAD_W,      /**< w is null */
  RAPT_BAD_X_STRIDES, /**< a stride of x is 0 or negative */
  RAPT_BAD_W_STRIDES, /**< a stride of w is 0 or negative, set with packed w, or too small to unpack */
  RAPT_BAD_ADD, /**< a field of add without add, add_stride smaller than a row, or add is y in lists of experts */
  RAPT_BAD_PACKED, /**< packed is null, too small, damaged, another layer's; first_output no multiple of 64 */
  RAPT_BAD_SCALE_GROUP, /**< scale_group is not 0, 16, 32, 64, 128 or 256, or set for float weights */
  RAPT_BAD_W_SCALES, /**< w_scales, w_scale_type or outputs_per_scale do not go with the types, or packed weights */
  RAPT_BAD_W_ZEROS,    /**< w_zeros for weights other than u4 and u8, with a codebook, or packed weights */
  RAPT_BAD_W_OFFSETS,  /**< w_offsets for float weights, or with packed weights */
  RAPT_BAD_W_CODEBOOK, /**< w_codebook for other weights than u4, with packed ones, or of no integers in I8 */
  RAPT_BAD_X_SCALES,   /**< x_scales missing for x of i8, or set for another type */
  RAPT_BAD_X_GROUP,    /**< x_group is no multiple of the scale group, or set in F32 */
  RAPT_BAD_SCALES,     /**< scales is null */
  RAPT_BAD_GATE,       /**< gate or dgate is null */
  RAPT_BAD_UP,         /**< up or dup is null */
  RAPT_BAD_GATE_STRIDE,      /**< gate_stride is smaller than a row */
  RAPT_BAD_UP_STRIDE,        /**< up_stride is smaller than a row */
  RAPT_BAD_ACTIVATION,       /**< activation is not one of rapt_activation */
  RAPT_BAD_Y_STRIDES,        /**< the strides of y let two of its rows overlap */
  RAPT_BAD_LAYOUT,           /**< layout is not one of rapt_rope_layout */
  RAPT_BAD_ROTARY_DIM,       /**< rotary_dim is odd, 0 or larger than head_dim */
  RAPT_BAD_FREQUENCIES,      /**< frequencies is null, or one is NaN or has a magnitude above 1024 */
  RAPT_BAD_POSITIONS,        /**< a position beyond 2^24, or fields of positions that do not go together */
  RAPT_BAD_ATTENTION_FACTOR, /**< attention_factor is not a normal number of the arithmetic type */
  RAPT_BAD_BASE,             /**< base is not above 1 and at most 2^512 */
  RAPT_BAD_SCALING,          /**< scaling is not one of rapt_rope_scaling */
  RAPT_BAD_SCALING_FACTOR,   /**< factor is not positive, or set without a scaling */
  RAPT_BAD_ORIGINAL_LENGTH,  /**< original_max_position_embeddings is 0, or set for another scaling */
  RAPT_BAD_FREQ_FACTORS,     /**< low_freq_factor and high_freq_factor do not fit, or another scaling's */
  RAPT_BAD_BETAS,            /**< beta_fast and beta_slow do not fit, or are set for another scaling */
  RAPT_BAD_TRUNCATE,         /**< no_truncate is set for another scaling */
  RAPT_BAD_MSCALE,           /**< only one of mscale and mscale_all_dim, or another scaling's */
  RAPT_BAD_EPS,              /**< eps is negative, infinite, NaN, or neither 0 nor a normal number */
  RAPT_BAD_WEIGHT, /**< weight_plus_one without a weight or for layer_norm, or weights for another bag */
  RAPT_BAD_BIAS, /**< for rms_norm or a gradient of weights, which have none; its type or slopes without it */
  RAPT_BAD_RESIDUAL_STRIDE, /**< residual_stride is smaller than a row, or set without a residual */
  RAPT_BAD_NORM_DBIAS,      /**< dbias is set for rms_norm_backward, which has no bias */
  RAPT_BAD_ACCUMULATE,      /**< accumulate is set without dweight or dbias */
  RAPT_BAD_EXPERTS,         /**< experts is null, or its size is not that of the struct in a release */
  RAPT_BAD_EXPERT_OFFSETS,  /**< offsets is null, does not begin at 0, decreases, or does not end at rows */
  RAPT_BAD_EXPERT_STRIDE,   /**< w_stride of experts is negative, misaligned, too small, or missing */
  RAPT_BAD_IDS,             /**< ids is null, or one is not the number of an expert */
  RAPT_BAD_IDS_STRIDE,      /**< ids_stride is smaller than a row */
  RAPT_BAD_WEIGHTS_STRIDE,  /**< weights_stride is smaller than top_k, or set without weights */
  RAPT_BAD_ROWS, /**< a number in rows is no output, count is above out_features, or lists of rows for a batch */
  RAPT_BAD_DIMS,       /**< dims is 0 or too large, or an entry at or beyond it is set */
  RAPT_BAD_Z_STRIDES,  /**< a stride of z is 0 or negative, or set for a function that does not read z */
  RAPT_BAD_FUNCTION,   /**< function is not one of rapt_map_function */
  RAPT_BAD_INPUTS,     /**< an input is null that the function reads, or set that it does not read */
  RAPT_BAD_PARAMETERS, /**< a parameter is set that the function does not have, or is NaN */
  RAPT_BAD_OPERATION,  /**< operation is not one of rapt_reduction, or of rapt_bag_operation */
  RAPT_BAD_REDUCED,    /**< reduced has a bit for a dimension that x does not have */
  RAPT_BAD_CORRECTION, /**< correction is infinite, NaN, or set for another operation than RAPT_VARIANCE */
  RAPT_BAD_MEAN,       /**< mean is set for another operation than RAPT_VARIANCE */
  RAPT_BAD_KV_STARTS, /**< a start is negative, above the length, no multiple of its unit, or with kv_offsets */
  RAPT_BAD_Q_STARTS,  /**< an entry of q_starts is negative or above q_len, or q_offsets is also set */
  RAPT_BAD_NORM_MEAN, /**< mean or mean_rest is set for rms_norm, or rstd or mean_rest without mean */
  RAPT_BAD_RSTD,      /**< layer_norm_backward: mean is set without rstd */
  RAPT_BAD_PARAM,     /**< param is null */
  RAPT_BAD_GRAD,      /**< grad is null */
  RAPT_BAD_STATE, /**< exp_avg, exp_avg_sq or momentum_buffer is null, or a buffer is set without momentum */
  RAPT_BAD_STEP,  /**< step is 0 */
  RAPT_BAD_LR,    /**< lr is negative, or no finite number of the arithmetic type */
  RAPT_BAD_DECAY_RATES,  /**< beta1 or beta2 is negative, NaN or not below 1 */
  RAPT_BAD_WEIGHT_DECAY, /**< weight_decay is negative or not finite, or decay_in_gradient is set without it */
  RAPT_BAD_MOMENTUM,     /**< momentum or dampening is not finite, or a field of momentum is set without it */
  RAPT_BAD_KIND,         /**< kind is not one of rapt_random_kind */
  RAPT_BAD_PROBABILITY,  /**< probability is not between 0 and 1, or set for another kind */
  RAPT_BAD_METRIC,       /**< metric is not one of rapt_metric_kind */
  RAPT_BAD_TOP_K,        /**< k is 0 for rapt_top_k, or set for rapt_metric_rows */
  RAPT_BAD_Q_STRIDE,     /**< q_stride is smaller than a row */
  RAPT_BAD_OUT_STRIDE,   /**< out_stride is smaller than a row */
  RAPT_BAD_INDICES, /**< indices is null, or an index is below -1 or not below out_rows, or rows of bags */
  RAPT_BAD_BATCH_STRIDE,    /**< a batch stride is smaller than a sequence or a problem */
  RAPT_BAD_RESULT,          /**< result is not one of rapt_convolution_result */
  RAPT_BAD_GROUPS,          /**< groups does not divide in_channels and out_channels */
  RAPT_BAD_A,               /**< a is null */
  RAPT_BAD_B,               /**< b is null */
  RAPT_BAD_A_STRIDE,        /**< a_stride is smaller than a row */
  RAPT_BAD_B_STRIDE,        /**< b_stride is smaller than a row */
  RAPT_BAD_STATE_STRIDE,    /**< state_stride is smaller than a token */
  RAPT_BAD_AXIS,            /**< axis is not below dims */
  RAPT_BAD_TARGET,          /**< target is null, or an entry is neither a class nor ignore_index */
  RAPT_BAD_LABEL_SMOOTHING, /**< label_smoothing is not between 0 and 1 */
  RAPT_BAD_KEY_LISTS, /**< an entry is below -1 or not below cache_len, or a field goes with no lists, or for gradients */
  RAPT_BAD_KEY_LIST_STRIDES, /**< a stride of key_lists or of their lengths is 0 or negative, or set without them */
  RAPT_BAD_KEY_LIST_LENGTHS, /**< a length is negative or above kv_len, or with kv_lengths, or without key_lists */
  RAPT_BAD_QUERIES_PER_LIST, /**< several lists or list lengths with causality, windows or slopes, or without key_lists */
  RAPT_BAD_CACHE_LEN,    /**< cache_len is 0 with key_lists of keys, or set without key_lists */
  RAPT_BAD_DECAY,        /**< decay_per_key is set without g */
  RAPT_BAD_G_STRIDES,    /**< a stride of g is 0 or negative, or set without g */
  RAPT_BAD_BETA_STRIDES, /**< a stride of beta is 0 or negative, or set without beta */
  RAPT_BAD_L2_NORM,      /**< l2_norm is not one of rapt_l2_norm */
  RAPT_BAD_STATE_STRIDES, /**< strides of states or of their gradients are no layout of states, or set without them */
  RAPT_BAD_STATE_WINDOW, /**< state_window or window_stride is set without final_state, or too small */
  RAPT_BAD_DG,           /**< dg is set without g, or its strides let rows overlap, or are set without dg */
  RAPT_BAD_DBETA /**< dbeta is set without beta, or its strides let rows overlap, or are set without dbeta */
};
typedef enum rapt_status rapt_status;

/** Returns the status in words, with the name of the argument at fault. Never returns null. The text is
 * static. */
RAPT_API const char *rapt_status_text(rapt_status status);

/** Returns "MAJOR.MINOR.PATCH" of the linked library. */
RAPT_API const char *rapt_version(void);

/** Returns the version of the bits of the linked library's results. Two libraries with the same number give
 * the same results for every call that both know. The number changes only with the minor version, and from
 * 1.0 on only with the major version. */
RAPT_API unsigned rapt_bits_version(void);

/** \} */

/* ---- instruction-set levels --------------------------------------------------------------------------- */
/** \defgroup instruction_set_levels Instruction-set levels
 * \{ */

/** Returns the number of compiled levels. Their order is weakest first: "scalar", then "avx2", "avx2_vnni",
 * "avx512", "avx512_vnni", "amx" on x86-64 or "neon", "neon_dotprod", "neon_i8mm", "neon_bf16" on AArch64.
 * The first call of any function chooses the best usable level, or the one that RAPT_ISA in the environment
 * names. If that level is unknown or not usable, the best usable one runs. So a program that is run once for
 * each level must check rapt_isa_status(). */
RAPT_API size_t rapt_isa_count(void);

/** Returns the name of level `index`, or null if index >= rapt_isa_count(). */
RAPT_API const char *rapt_isa_name(size_t index);

/** Returns 1 if this CPU has, and its operating system enables, every instruction that the level may use.
 * Returns 0 otherwise. */
RAPT_API int rapt_isa_usable(const char *name);

/** Returns the verdict on RAPT_ISA, which the library reads once: RAPT_OK, RAPT_BAD_ISA_NAME or
 * RAPT_BAD_ISA_FOR_THIS_CPU. An empty RAPT_ISA is the same as none. */
RAPT_API rapt_status rapt_isa_status(void);

/** Chooses a level for the whole process. A null name chooses the best usable level, not RAPT_ISA's. Running
 * calls finish on the level that they began with. If the result is RAPT_BAD_ISA_NAME or
 * RAPT_BAD_ISA_FOR_THIS_CPU, the choice is unchanged. */
RAPT_API rapt_status rapt_force_isa(const char *name);

/** Returns the name of the chosen level. */
RAPT_API const char *rapt_active_isa(void);
/** Returns the level whose code runs for a kernel such as "softmax_f32", or null if no kernel has that name.
 * Linux must permit a process to use AMX's tiles. The library asks in the first call that needs tiles, or when
 * rapt_kernel_isa is called for a kernel of "amx". If Linux refuses, lower levels run the kernels of "amx",
 * with the same bits. */
RAPT_API const char *rapt_kernel_isa(const char *kernel);

/** \} */

/* ---- types, strides, causality ------------------------------------------------------------------------ */
/** \defgroup types_strides_causality Types, strides, causality
 * \{ */

typedef uint16_t rapt_f16;  /**< the bits of an IEEE binary16 */
typedef uint16_t rapt_bf16; /**< the upper half of a binary32 */

/** Element types are the types in memory. The arithmetic type is double for f64 and float for all others. It
 * is the type of bias, sinks, slopes, query scales, log-sum-exp and partial results. Elements of 16 bits are
 * widened, computed as f32, and rounded once on output, to nearest even. So a result is the rounded result of
 * the f32 function with the widened input. Its error is that of f32 plus half a unit of the element.
 *
 * In attention, q, the keys, the values, and out may each be f32, f16 or bf16. f64 goes only with f64. Keys and values
 * may also be RAPT_I8 or RAPT_I4, with scales, or lie in blocks of files. There is no gradient then, nor of keys and
 * values of two types. */
enum rapt_type {
  RAPT_TYPE_DEFAULT = 0, /**< the field's own default */
  RAPT_F32,              /**< float, IEEE binary32 */
  RAPT_F64,              /**< double, IEEE binary64 */
  RAPT_F16,              /**< rapt_f16, IEEE binary16 */
  RAPT_BF16,             /**< rapt_bf16, the upper half of a binary32 */
  RAPT_I8,               /**< int8_t: keys and values, x and weights of linear layers */
  RAPT_I4,               /**< -8 to 7, two to a byte: weights of linear layers, keys and values */
  RAPT_U4,               /**< 0 to 15, two to a byte: only weights of linear layers */

  /* Blocks as they lie in GGUF files and caches of llama.cpp, which rapt_linear_pack(), rapt_attention() and
   * rapt_dequantize_rows() take. */
  RAPT_Q8_0,   /**< 32 inputs in 34 bytes */
  RAPT_Q4_0,   /**< 32 inputs in 18 bytes */
  RAPT_Q4_1,   /**< 32 inputs in 20 bytes */
  RAPT_Q5_0,   /**< 32 inputs in 22 bytes */
  RAPT_Q5_1,   /**< 32 inputs in 24 bytes */
  RAPT_Q4_K,   /**< 256 inputs in 144 bytes */
  RAPT_Q5_K,   /**< 256 inputs in 176 bytes */
  RAPT_Q6_K,   /**< 256 inputs in 210 bytes */
  RAPT_Q2_K,   /**< 256 inputs in 84 bytes */
  RAPT_Q3_K,   /**< 256 inputs in 110 bytes */
  RAPT_IQ4_NL, /**< 32 inputs in 18 bytes */
  RAPT_IQ4_XS, /**< 256 inputs in 136 bytes */
  RAPT_MXFP4,  /**< 32 inputs in 17 bytes */
  RAPT_NVFP4,  /**< 64 inputs in 36 bytes */

  /* Numbers of 8 bits: only weights of linear layers. */
  RAPT_F8_E4M3, /**< float8_e4m3fn: up to 448, without infinities; 0x7f and 0xff are NaN */
  RAPT_F8_E5M2, /**< float8_e5m2: the upper half of a binary16 */

  RAPT_U8 /**< 0 to 255: only weights of linear layers */
};
typedef enum rapt_type rapt_type;

/** The arithmetic of products and sums. The default is f64 for f64, BF16 where all factors (q, keys and
 * values, or x and w) are bf16, and F32 elsewhere. For other types, BF16 is RAPT_BAD_ARITHMETIC. With keys
 * and values of RAPT_I8, products are exact integers, and the rest is F32. Gradients are computed in f64 for
 * f64, and in F32 for all other types.
 *
 * BF16 multiplies as AMX does, with the same bits on every CPU. Its products count subnormal operands as 0
 * and flush tiny results to 0. Attention also rounds the weights of keys to bf16.
 *
 * I8 rounds the rows of a linear layer to bytes, and sums products of integers exactly. */
enum rapt_arithmetic {
  RAPT_ARITHMETIC_DEFAULT = 0, /**< what the types say, as above */
  RAPT_ARITHMETIC_F32,         /**< products and sums in float, with fused multiply-adds */
  RAPT_ARITHMETIC_BF16,        /**< as AMX multiplies bf16, on every CPU */
  RAPT_ARITHMETIC_I8           /**< only linear layers with quantized weights */
};

/** Says which keys query i of a sequence sees. `keys` and `queries` are how many the sequence has. In a
 * matrix, rows are queries and columns are keys. */
enum rapt_causal {
  RAPT_CAUSAL_NONE = 0,     /**< all keys, as far as the other options allow */
  RAPT_CAUSAL_BOTTOM_RIGHT, /**< up to i + keys - queries: the last query sees the last key */
  RAPT_CAUSAL_TOP_LEFT,     /**< up to i */
  RAPT_CAUSAL_OFFSET        /**< up to i + causal_offset, whose magnitude is at most 2^60 */
};

/** With this stride, every index of the dimension reads the same memory. */
#define RAPT_REPEAT PTRDIFF_MIN

/** The most dimensions of a tensor of any shape. */
#define RAPT_MAX_DIMS 8

/** Counts the elements from one batch item, head or token to the next. */
typedef struct rapt_strides {
  ptrdiff_t batch; /**< from one batch item to the next */
  ptrdiff_t head;  /**< from one head to the next */
  ptrdiff_t token; /**< from one token to the next */
} rapt_strides;

/* Define RAPT_NO_INLINE for a parser of declarations that does not know function bodies, such as cffi. */
#ifndef RAPT_NO_INLINE
#ifdef __cplusplus
#define RAPT_STRIDE(elements) static_cast<ptrdiff_t>(elements)
#else
#define RAPT_STRIDE(elements) ((ptrdiff_t)(elements))
#endif
/** Returns the strides of contiguous [batch][heads][tokens][dim]. */
RAPT_INLINE rapt_strides rapt_strides_bhtd(size_t heads, size_t tokens, size_t dim) {
  const rapt_strides strides = {RAPT_STRIDE(heads * tokens * dim), RAPT_STRIDE(tokens * dim),
                                RAPT_STRIDE(dim)};
  return strides;
}
/** Returns the strides of contiguous [batch][tokens][heads][dim]. */
RAPT_INLINE rapt_strides rapt_strides_bthd(size_t heads, size_t tokens, size_t dim) {
  const rapt_strides strides = {RAPT_STRIDE(heads * tokens * dim), RAPT_STRIDE(dim),
                                RAPT_STRIDE(heads * dim)};
  return strides;
}
#undef RAPT_STRIDE
#endif

/** \} */

/* ---- vectors ------------------------------------------------------------------------------------------ */
/** \defgroup vectors Vectors
 * \{ */

/** Returns the sum of a[i] * b[i]. a and b may overlap. NaN and infinities follow IEEE arithmetic.
 * Accuracy, where nothing overflows, for any input up to n = 2^30:
 * ~~~
 *   |error| <= (min(n / 64, 512) + n / 32768 + 8) * u * sum |a[i] * b[i]| + n * 2^-149
 *   f64: (min(n / 32, 512) + n / 16384 + 8) * u, and n * 2^-1074
 * ~~~
 * Measured on random data, for n <= 2^20: 1e-6 * sum |a[i] * b[i]| (f64: 4e-15).
 * Order: fused multiply-adds add element i to partial sum i mod 64 (f64: 32). Every 32768 elements (f64:
 * 16384), the partial sums start again at 0, and are added to the earlier ones. */
RAPT_API float rapt_dot_f32(const float *a, const float *b, size_t n);
/** Like rapt_dot_f32(), for doubles. */
RAPT_API double rapt_dot_f64(const double *a, const double *b, size_t n);
/** Like rapt_dot_f32(), for f16. */
RAPT_API float rapt_dot_f16(const rapt_f16 *a, const rapt_f16 *b, size_t n);
/** Like rapt_dot_f32(), for bf16. */
RAPT_API float rapt_dot_bf16(const rapt_bf16 *a, const rapt_bf16 *b, size_t n);

/** Returns the exact sum of the products of bytes, for every n. */
RAPT_API int64_t rapt_dot_i8(const int8_t *a, const int8_t *b, size_t n);
/** Like rapt_dot_i8(), for bytes without a sign times bytes with one. */
RAPT_API int64_t rapt_dot_u8i8(const uint8_t *a, const int8_t *b, size_t n);

/** out[r] = scale * dot(query, row r), where dot has the bits of rapt_dot and the product is rounded once.
 * rapt_linear() adds the same products in another order, and has other bits: use one of the two for queries alone
 * and in batches. row_stride may be any value, negative and 0 included. out must not overlap query or rows. The exact
 * sum of bytes is first rounded to f32. Up to 2^24 this rounding is exact. */
RAPT_API void rapt_dot_rows_f32(const float *query, const float *rows, ptrdiff_t row_stride, size_t row_count,
                                size_t dim, float scale, float *out);
/** Like rapt_dot_rows_f32(), for doubles. */
RAPT_API void rapt_dot_rows_f64(const double *query, const double *rows, ptrdiff_t row_stride,
                                size_t row_count, size_t dim, double scale, double *out);
/** Like rapt_dot_rows_f32(), for f16. */
RAPT_API void rapt_dot_rows_f16(const rapt_f16 *query, const rapt_f16 *rows, ptrdiff_t row_stride,
                                size_t row_count, size_t dim, float scale, float *out);
/** Like rapt_dot_rows_f32(), for bf16. */
RAPT_API void rapt_dot_rows_bf16(const rapt_bf16 *query, const rapt_bf16 *rows, ptrdiff_t row_stride,
                                 size_t row_count, size_t dim, float scale, float *out);
/** Like rapt_dot_rows_f32(), for bytes. */
RAPT_API void rapt_dot_rows_i8(const int8_t *query, const int8_t *rows, ptrdiff_t row_stride,
                               size_t row_count, size_t dim, float scale, float *out);
/** Like rapt_dot_rows_f32(), for bytes without a sign times bytes with one. */
RAPT_API void rapt_dot_rows_u8i8(const uint8_t *query, const int8_t *rows, ptrdiff_t row_stride,
                                 size_t row_count, size_t dim, float scale, float *out);

/** y[i] = x[i] * factor, correctly rounded (f16, bf16: to f32, and then to the element). y may be x. */
RAPT_API void rapt_scale_f32(const float *x, float factor, float *y, size_t n);
/** Like rapt_scale_f32(), for doubles. */
RAPT_API void rapt_scale_f64(const double *x, double factor, double *y, size_t n);
/** Like rapt_scale_f32(), for f16. */
RAPT_API void rapt_scale_f16(const rapt_f16 *x, float factor, rapt_f16 *y, size_t n);
/** Like rapt_scale_f32(), for bf16. */
RAPT_API void rapt_scale_bf16(const rapt_bf16 *x, float factor, rapt_bf16 *y, size_t n);

/** y[i] = exp(x[i]). The error is below 1 ULP (f32: 0.892 over all inputs), subnormal results included. y is
 * +inf above x = 88.722831 (f64: 709.782712893384), and +0 below x = -103.98 (f64: -745.14). y may be x. */
RAPT_API void rapt_exp_f32(const float *x, float *y, size_t n);
/** Like rapt_exp_f32(), for doubles. */
RAPT_API void rapt_exp_f64(const double *x, double *y, size_t n);

/** y[i] = exp(t) with the bits of rapt_exp, where t = scale * x[i] - shift is rounded once. Returns the sum of
 * y, whose relative error against the y written is at most 3 * u (f64: 6 * u) for any input. y may be x. */
RAPT_API float rapt_exp_sum_f32(const float *x, float scale, float shift, float *y, size_t n);
/** Like rapt_exp_sum_f32(), for doubles. */
RAPT_API double rapt_exp_sum_f64(const double *x, double scale, double shift, double *y, size_t n);

/** Activations. Elements of 16 bits are widened, and the result is rounded to them once. y may be x.
 * ~~~
 *   silu(x)       x / (1 + exp(-x))
 *   gelu(x)       x / 2 * (1 + erf(x / sqrt(2)))
 *   gelu_tanh(x)  x / 2 * (1 + tanh(v / 2)),  v = 2 * sqrt(2 / pi) * (x + 0.044715 * x^3)
 * ~~~
 * src/contract/activation.hpp has the order of the operations. The tails keep their accuracy.
 * Special values: +inf stays +inf, -0 stays -0, and -inf gives NaN, as in PyTorch.
 * Accuracy: |error| <= k ULP + |x| * 2^-149 (f64: 2^-1074), for any x. k is 4 for silu, 8 for gelu, and
 * 5 + 5 * |v| / 2 for gelu_tanh. Rounding to 16 bits adds 0.5 ULP of theirs. */
RAPT_API void rapt_silu_f32(const float *x, float *y, size_t n);
/** y[i] = silu(x[i]), for doubles: see rapt_silu_f32(). */
RAPT_API void rapt_silu_f64(const double *x, double *y, size_t n);
/** y[i] = silu(x[i]), for f16: see rapt_silu_f32(). */
RAPT_API void rapt_silu_f16(const rapt_f16 *x, rapt_f16 *y, size_t n);
/** y[i] = silu(x[i]), for bf16: see rapt_silu_f32(). */
RAPT_API void rapt_silu_bf16(const rapt_bf16 *x, rapt_bf16 *y, size_t n);
/** y[i] = gelu(x[i]), for floats: see rapt_silu_f32(). */
RAPT_API void rapt_gelu_f32(const float *x, float *y, size_t n);
/** y[i] = gelu(x[i]), for doubles: see rapt_silu_f32(). */
RAPT_API void rapt_gelu_f64(const double *x, double *y, size_t n);
/** y[i] = gelu(x[i]), for f16: see rapt_silu_f32(). */
RAPT_API void rapt_gelu_f16(const rapt_f16 *x, rapt_f16 *y, size_t n);
/** y[i] = gelu(x[i]), for bf16: see rapt_silu_f32(). */
RAPT_API void rapt_gelu_bf16(const rapt_bf16 *x, rapt_bf16 *y, size_t n);
/** y[i] = gelu_tanh(x[i]), for floats: see rapt_silu_f32(). */
RAPT_API void rapt_gelu_tanh_f32(const float *x, float *y, size_t n);
/** y[i] = gelu_tanh(x[i]), for doubles: see rapt_silu_f32(). */
RAPT_API void rapt_gelu_tanh_f64(const double *x, double *y, size_t n);
/** y[i] = gelu_tanh(x[i]), for f16: see rapt_silu_f32(). */
RAPT_API void rapt_gelu_tanh_f16(const rapt_f16 *x, rapt_f16 *y, size_t n);
/** y[i] = gelu_tanh(x[i]), for bf16: see rapt_silu_f32(). */
RAPT_API void rapt_gelu_tanh_bf16(const rapt_bf16 *x, rapt_bf16 *y, size_t n);

/** Gradients of activations: dx[i] = dy[i] * f'(x[i]), where y = f(x). dx may be x or dy.
 * Special values: f' is 1 at +inf and 0 at -inf, its limits.
 * Accuracy: |error| <= k * u * |dy| * (s + |x * s'|), where f(x) = x * s, and s' is the derivative of s. k is 5 for
 * silu, 9 for gelu, and 6 + 6 * |v| / 2 for gelu_tanh. Subnormal numbers add (1 + 512 * |dy|) * 2^-149 (f64:
 * (1 + 16384 * |dy|) * 2^-1074). Those of 16 bits are the results of f32 with the widened elements, rounded once. */
RAPT_API void rapt_silu_backward_f32(const float *x, const float *dy, float *dx, size_t n);
/** The gradient of silu, for doubles: see rapt_silu_backward_f32(). */
RAPT_API void rapt_silu_backward_f64(const double *x, const double *dy, double *dx, size_t n);
/** The gradient of silu, for f16: see rapt_silu_backward_f32(). */
RAPT_API void rapt_silu_backward_f16(const rapt_f16 *x, const rapt_f16 *dy, rapt_f16 *dx, size_t n);
/** The gradient of silu, for bf16: see rapt_silu_backward_f32(). */
RAPT_API void rapt_silu_backward_bf16(const rapt_bf16 *x, const rapt_bf16 *dy, rapt_bf16 *dx, size_t n);
/** The gradient of gelu, for floats: see rapt_silu_backward_f32(). */
RAPT_API void rapt_gelu_backward_f32(const float *x, const float *dy, float *dx, size_t n);
/** The gradient of gelu, for doubles: see rapt_silu_backward_f32(). */
RAPT_API void rapt_gelu_backward_f64(const double *x, const double *dy, double *dx, size_t n);
/** The gradient of gelu, for f16: see rapt_silu_backward_f32(). */
RAPT_API void rapt_gelu_backward_f16(const rapt_f16 *x, const rapt_f16 *dy, rapt_f16 *dx, size_t n);
/** The gradient of gelu, for bf16: see rapt_silu_backward_f32(). */
RAPT_API void rapt_gelu_backward_bf16(const rapt_bf16 *x, const rapt_bf16 *dy, rapt_bf16 *dx, size_t n);
/** The gradient of gelu_tanh, for floats: see rapt_silu_backward_f32(). */
RAPT_API void rapt_gelu_tanh_backward_f32(const float *x, const float *dy, float *dx, size_t n);
/** The gradient of gelu_tanh, for doubles: see rapt_silu_backward_f32(). */
RAPT_API void rapt_gelu_tanh_backward_f64(const double *x, const double *dy, double *dx, size_t n);
/** The gradient of gelu_tanh, for f16: see rapt_silu_backward_f32(). */
RAPT_API void rapt_gelu_tanh_backward_f16(const rapt_f16 *x, const rapt_f16 *dy, rapt_f16 *dx, size_t n);
/** The gradient of gelu_tanh, for bf16: see rapt_silu_backward_f32(). */
RAPT_API void rapt_gelu_tanh_backward_bf16(const rapt_bf16 *x, const rapt_bf16 *dy, rapt_bf16 *dx, size_t n);

/** Returns the index of the first of the largest elements: greedy decoding's next token. -0 and +0 are equal. With
 * NaN, it is the index of the first NaN, as in PyTorch. Without elements, it is SIZE_MAX. */
RAPT_API size_t rapt_argmax_f32(const float *x, size_t n);
/** Like rapt_argmax_f32(), for doubles. */
RAPT_API size_t rapt_argmax_f64(const double *x, size_t n);
/** Like rapt_argmax_f32(), for f16. */
RAPT_API size_t rapt_argmax_f16(const rapt_f16 *x, size_t n);
/** Like rapt_argmax_f32(), for bf16. */
RAPT_API size_t rapt_argmax_bf16(const rapt_bf16 *x, size_t n);

/** y[i] = x[i]. To f32 the conversion is exact. From f32 it rounds to nearest, ties to even: subnormal results
 * are kept, and a number beyond the type's range is infinite. NaN stays NaN. y must not overlap x. */
RAPT_API void rapt_convert_f16_to_f32(const rapt_f16 *x, float *y, size_t n);
/** Like rapt_convert_f16_to_f32(), from bf16. */
RAPT_API void rapt_convert_bf16_to_f32(const rapt_bf16 *x, float *y, size_t n);
/** Like rapt_convert_f16_to_f32(), to f16. */
RAPT_API void rapt_convert_f32_to_f16(const float *x, rapt_f16 *y, size_t n);
/** Like rapt_convert_f16_to_f32(), to bf16. */
RAPT_API void rapt_convert_f32_to_bf16(const float *x, rapt_bf16 *y, size_t n);

/** \} */

/* ---- rows --------------------------------------------------------------------------------------------- */
/** \defgroup rows Rows
 * \{ */

/** The scores s of a row come from x in this order:
 * ~~~
 *   s = scale * x,  then  s = softcap * tanh(s / softcap),  then  s += bias.
 * ~~~
 * Scaling costs nothing and rounds nothing: exp takes the exact product unless there is a softcap. Row r sees a column
 * below row_lengths[r] that causal allows, whose mask is not 0 and whose bias is not -inf. A bias of 0 has the bits of
 * no bias, and a bias of 0 and -inf those of a mask.
 * Set size, or start from RAPT_SOFTMAX_OPTIONS_INIT. */
typedef struct rapt_softmax_options {
  size_t size;               /**< sizeof(rapt_softmax_options) */
  double scale;              /**< the factor of x; 0: 1. Attention's is 1/sqrt(d_k) */
  double softcap;            /**< 0: off */
  const void *bias;          /**< [rows][cols] of the arithmetic type, or null */
  ptrdiff_t bias_stride;     /**< 0: cols; RAPT_REPEAT: one row of bias for all rows */
  const uint8_t *mask;       /**< [rows][cols], 0 excludes the element; or null */
  ptrdiff_t mask_stride;     /**< 0: cols; RAPT_REPEAT: one row of mask for all rows */
  const size_t *row_lengths; /**< [rows], each <= cols; or null */
  int causal;                /**< one of rapt_causal: rows are queries, columns keys */
  ptrdiff_t causal_offset;   /**< only with RAPT_CAUSAL_OFFSET: row r sees the columns <= r + causal_offset */
  const void *sinks;         /**< [rows] of the arithmetic type, a logit that joins only the sum; or null */
  int empty_rows_are_zero;   /**< a row of -inf: probabilities 0 (log: -inf), not NaN; not for logsumexp */
} rapt_softmax_options;

/** Everything else zero. */
#define RAPT_SOFTMAX_OPTIONS_INIT \
  { sizeof(rapt_softmax_options), 0.0, 0.0, NULL, 0, NULL, 0, NULL, 0, 0, NULL, 0 }

/** y[r][c] = exp(s[r][c]) / sum over c of exp(s[r][c]), over rows of `cols` elements.
 * x_stride and y_stride are at least cols; with one row they are not read. y may be x, with the same stride.
 * y must not overlap bias, mask, row_lengths or sinks. options may be null.
 * Special values: a probability is never above 1. Below the smallest normal number of the arithmetic type it
 * is 0. The only visible element of a row without a sink has probability 1. exp takes the exact product of scale and x,
 * which has no range: {3e38, 1, 2} with scale 2 gives {1, 0, 0}, and its log-sum-exp is infinite. With a scale outside
 * [2^-16, 2^16] the product is rounded, and infinite beyond the type's range. With a softcap the score is then the
 * softcap. A bias is divided by |scale|, where that is in this range and there is no softcap, and added to +-x: a sum
 * above the type's range is infinite. A sum below it is the lowest number, so that a row whose biases are all the
 * lowest number (finfo.min) has equal probabilities.
 * Accuracy: the relative error of every probability is at most 6 * u (f64: 10 * u), for any row. The number of
 * columns, the magnitude and the order of logits do not matter.
 * Some options round the score. If s is the score before its bias, the score's error in units of u is
 * ~~~
 *   |bias| + |s + bias|      with a bias
 *   2 * |s|                  more, with a scale whose magnitude is outside [2^-16, 2^16]
 *   5 * |s| + |s + bias|     with a softcap (f64: 7 * |s| + |s + bias|).
 * ~~~
 * The error of a log-sum-exp grows by as much. The error of a probability or its logarithm grows by twice as
 * much. */
RAPT_API rapt_status rapt_softmax_f32(const float *x, ptrdiff_t x_stride, float *y, ptrdiff_t y_stride,
                                      size_t rows, size_t cols, const rapt_softmax_options *options);
/** Like rapt_softmax_f32(), for doubles. */
RAPT_API rapt_status rapt_softmax_f64(const double *x, ptrdiff_t x_stride, double *y, ptrdiff_t y_stride,
                                      size_t rows, size_t cols, const rapt_softmax_options *options);
/** Like rapt_softmax_f32(), for f16. */
RAPT_API rapt_status rapt_softmax_f16(const rapt_f16 *x, ptrdiff_t x_stride, rapt_f16 *y, ptrdiff_t y_stride,
                                      size_t rows, size_t cols, const rapt_softmax_options *options);
/** Like rapt_softmax_f32(), for bf16. */
RAPT_API rapt_status rapt_softmax_bf16(const rapt_bf16 *x, ptrdiff_t x_stride, rapt_bf16 *y,
                                       ptrdiff_t y_stride, size_t rows, size_t cols,
                                       const rapt_softmax_options *options);

/** y[r][c] = s[r][c] - log-sum-exp of row r. The arguments are those of softmax. y is never above 0, and -inf
 * for excluded elements. The only visible element of a row without a sink has y = 0.
 * Accuracy: |error| <= 6 * u * max(1, |y|) (f64: 12 * u) for any row, where scores are not rounded. */
RAPT_API rapt_status rapt_log_softmax_f32(const float *x, ptrdiff_t x_stride, float *y, ptrdiff_t y_stride,
                                          size_t rows, size_t cols, const rapt_softmax_options *options);
/** Like rapt_log_softmax_f32(), for doubles. */
RAPT_API rapt_status rapt_log_softmax_f64(const double *x, ptrdiff_t x_stride, double *y, ptrdiff_t y_stride,
                                          size_t rows, size_t cols, const rapt_softmax_options *options);
/** Like rapt_log_softmax_f32(), for f16. */
RAPT_API rapt_status rapt_log_softmax_f16(const rapt_f16 *x, ptrdiff_t x_stride, rapt_f16 *y,
                                          ptrdiff_t y_stride, size_t rows, size_t cols,
                                          const rapt_softmax_options *options);
/** Like rapt_log_softmax_f32(), for bf16. */
RAPT_API rapt_status rapt_log_softmax_bf16(const rapt_bf16 *x, ptrdiff_t x_stride, rapt_bf16 *y,
                                           ptrdiff_t y_stride, size_t rows, size_t cols,
                                           const rapt_softmax_options *options);

/** out[r] = log of the sum over c of exp(s[r][c]), the sink included. out must not overlap an input. A row of
 * -inf gives -inf, so empty_rows_are_zero would have no effect, and is RAPT_BAD_EMPTY_ROWS. In a row without a
 * sink, the only visible element is the result: scale * x in double, rounded once, unless an option rounds scores.
 * Accuracy: as for log_softmax, with |out| in place of |y|. */
RAPT_API rapt_status rapt_logsumexp_f32(const float *x, ptrdiff_t x_stride, float *out, size_t rows,
                                        size_t cols, const rapt_softmax_options *options);
/** Like rapt_logsumexp_f32(), for doubles. */
RAPT_API rapt_status rapt_logsumexp_f64(const double *x, ptrdiff_t x_stride, double *out, size_t rows,
                                        size_t cols, const rapt_softmax_options *options);

/** dx = scale * y * (dy - sum over c of y * dy). This is the gradient of softmax(scale * x) from its output y
 * and the gradient dy of that output. dx may be y or dy, with the same stride. scale is finite.
 * Special values: an element with y = 0 is excluded. Its dy is never read into the result, and its dx is 0.
 * Accuracy, where nothing overflows, for any y, dy and up to 2^30 columns:
 * ~~~
 *   |error| <= (min(cols / 64, 512) + cols / 32768 + 11) * u * |scale| * y * (|dy| + sum y |dy|)
 *              + (|scale| * (cols * y + 1) + 1) * 2^-149
 *   f64: cols / 32 and cols / 16384, and 2^-1074
 * ~~~
 * Measured on random data, for cols <= 2^16: 1e-6 (f64: 4e-15) in place of the first factor and u. */
RAPT_API rapt_status rapt_softmax_backward_f32(const float *y, ptrdiff_t y_stride, const float *dy,
                                               ptrdiff_t dy_stride, float *dx, ptrdiff_t dx_stride,
                                               size_t rows, size_t cols, float scale);
/** Like rapt_softmax_backward_f32(), for doubles. */
RAPT_API rapt_status rapt_softmax_backward_f64(const double *y, ptrdiff_t y_stride, const double *dy,
                                               ptrdiff_t dy_stride, double *dx, ptrdiff_t dx_stride,
                                               size_t rows, size_t cols, double scale);
/** Like rapt_softmax_backward_f32(), for f16: the result of f32 with the widened elements, rounded once. */
RAPT_API rapt_status rapt_softmax_backward_f16(const rapt_f16 *y, ptrdiff_t y_stride, const rapt_f16 *dy,
                                               ptrdiff_t dy_stride, rapt_f16 *dx, ptrdiff_t dx_stride,
                                               size_t rows, size_t cols, float scale);
/** Like rapt_softmax_backward_f16(), for bf16. */
RAPT_API rapt_status rapt_softmax_backward_bf16(const rapt_bf16 *y, ptrdiff_t y_stride, const rapt_bf16 *dy,
                                                ptrdiff_t dy_stride, rapt_bf16 *dx, ptrdiff_t dx_stride,
                                                size_t rows, size_t cols, float scale);

/** dx = scale * (dy - e^y * sum over c of dy). This is the gradient of log_softmax(scale * x) from its output y and the
 * gradient dy of that output. e^y has the bits of rapt_exp_f32(), and the product is subtracted with one rounding. dx
 * may be y or dy, with the same stride. scale is finite.
 * Special values: an element with y = -inf is excluded. Its dy is never read into the result, and its dx is 0.
 * Accuracy, where nothing overflows, for any dy, y up to 88 (f64: 709) and up to 2^30 columns:
 * ~~~
 *   |error| <= (min(cols / 64, 512) + cols / 32768 + 13) * u * |scale| * (|dy| + e^y * sum |dy|)
 *              + (|scale| * (sum |dy| + 1) + 1) * 2^-149
 *   f64: cols / 32 and cols / 16384, and 2^-1074
 * ~~~ */
RAPT_API rapt_status rapt_log_softmax_backward_f32(const float *y, ptrdiff_t y_stride, const float *dy,
                                                   ptrdiff_t dy_stride, float *dx, ptrdiff_t dx_stride,
                                                   size_t rows, size_t cols, float scale);
/** Like rapt_log_softmax_backward_f32(), for doubles. */
RAPT_API rapt_status rapt_log_softmax_backward_f64(const double *y, ptrdiff_t y_stride, const double *dy,
                                                   ptrdiff_t dy_stride, double *dx, ptrdiff_t dx_stride,
                                                   size_t rows, size_t cols, double scale);
/** Like rapt_log_softmax_backward_f32(), for f16: the result of f32 with the widened elements, rounded once. */
RAPT_API rapt_status rapt_log_softmax_backward_f16(const rapt_f16 *y, ptrdiff_t y_stride, const rapt_f16 *dy,
                                                   ptrdiff_t dy_stride, rapt_f16 *dx, ptrdiff_t dx_stride,
                                                   size_t rows, size_t cols, float scale);
/** Like rapt_log_softmax_backward_f16(), for bf16. */
RAPT_API rapt_status rapt_log_softmax_backward_bf16(const rapt_bf16 *y, ptrdiff_t y_stride,
                                                    const rapt_bf16 *dy, ptrdiff_t dy_stride, rapt_bf16 *dx,
                                                    ptrdiff_t dx_stride, size_t rows, size_t cols,
                                                    float scale);

/** What rapt_cross_entropy() and its gradient compute. Everything but size, rows, classes and target may be 0. */
typedef struct rapt_cross_entropy_options {
  size_t size;           /**< sizeof(rapt_cross_entropy_options) */
  rapt_type type;        /**< of x and dx: RAPT_F32 (0: RAPT_F32), RAPT_F64, RAPT_F16 or RAPT_BF16 */
  size_t rows;           /**< of x */
  size_t classes;        /**< elements of a row; may not be 0 */
  ptrdiff_t x_stride;    /**< of rows of x; 0: classes; at least that, unless there is only one row */
  ptrdiff_t dx_stride;   /**< of rows of dx, as x_stride. Only the gradient reads it, and dout and scale */
  const int64_t *target; /**< [rows]: the class of each row, or ignore_index */
  int64_t
      ignore_index; /**< a row with this target has a loss and a gradient of 0; 0: -100, PyTorch's default */
  double label_smoothing; /**< 0 to 1: how much of a target all classes share */
  const void *weight;     /**< [classes] of the arithmetic type, or null: 1 */
  void *lse;        /**< [rows] of the arithmetic type: each log-sum-exp, or null. The gradient reads it */
  const void *dout; /**< [rows] of the arithmetic type: the gradient of each loss, or null: 1 */
  double scale;     /**< times dout: for a mean, 1 over its divisor; 0: 1 */
} rapt_cross_entropy_options;

/** Everything else zero. */
#define RAPT_CROSS_ENTROPY_OPTIONS_INIT \
  { sizeof(rapt_cross_entropy_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, NULL, 0, 0, NULL, NULL, NULL, 0 }

/** The cross entropy of each row of logits x [rows][classes], as PyTorch's without a reduction; rapt_reduce() sums. out
 * [rows] has the arithmetic type. With t the target of a row, L its log-sum-exp, w the weights, and a = 1 -
 * label_smoothing and b = label_smoothing / classes, computed in double and rounded:
 *
 * ~~~
 *   d[c] = L - x[c]
 *   out  = w[t] * d[t]                     without label_smoothing
 *   out  = a * (w[t] * d[t]) + b * S       with it. S is the sum of w[c] * d[c]: as rapt_dot_f32() in blocks of 1024
 *                                          classes, which are added in order
 * ~~~
 *
 * Each operation is rounded. L is that of rapt_logsumexp_f32() or _f64(). Of elements of 16 bits, which are widened, L
 * = m + log(s), with m the largest x. s is the sum of rapt_exp_sum_f32() of 1024 classes each with shift m, added in
 * double and rounded; the logarithm is rapt_map()'s. Where m is infinite or NaN, L is m.
 *
 * Errors, if nothing overflows and no weight is negative. E is the error of L: 6 u max(1, |L|) (f64: 12 u; 16 bits: (10 + log
 * classes) u), and W the sum of the weights:
 *
 * ~~~
 *   |error| <= (a w[t] + b W) (E + 2^-149) + (classes / 1024 + 32) u out        f64: 2^-1074
 * ~~~
 *
 * Special values: as the formulas. A target whose logit is -inf has an infinite loss. With smoothing, so has any row
 * with a logit of -inf, unless its weight is 0, which makes NaN. out and lse overlap nothing. */
RAPT_API rapt_status rapt_cross_entropy(const void *x, void *out, const rapt_cross_entropy_options *options);

/** The gradient of x from that of the losses of rapt_cross_entropy(), whose lse and options it reads. p[c] has the bits
 * of rapt_exp_f32() or _f64() of x[c] - L, g = scale * dout, and W is rapt_reduce()'s sum of the weights. Each
 * operation is rounded:
 *
 * ~~~
 *   dx[c] = k * p[c] - q[c], and at the target - g * (a * w[t]), where
 *   k = g * (a * w[t] + b * W)             without label_smoothing g * w[t]
 *   q[c] = (g * b) * w[c]                  without it not subtracted
 * ~~~
 *
 * dx of 16 bits is computed as f32, and rounded once. A row that is ignored has +0. dx may be x with the same stride,
 * and overlaps nothing otherwise. Errors before that rounding, with E as in rapt_cross_entropy(), Q what is subtracted,
 * D that of rapt_reduce() for W, and if nothing is subnormal:
 *
 * ~~~
 *   |error| <= (E + (|x[c] - L| + D + 12) u) k p[c] + 8 u Q
 * ~~~
 */
RAPT_API rapt_status rapt_cross_entropy_backward(const void *x, void *dx,
                                                 const rapt_cross_entropy_options *options);

/** \} */

/* ---- norms -------------------------------------------------------------------------------------------- */
/** \defgroup norms Norms
 * \{ */

/** Norms of rows, as in Llama, Qwen and Gemma (rms_norm) and in GPT-2 and BERT (layer_norm):
 *
 * ~~~
 *   rms_norm     y = x / sqrt(mean of x^2 + eps) * weight
 *   layer_norm   y = (x - mean) / sqrt(mean of (x - mean)^2 + eps) * weight + bias
 * ~~~
 *
 * x and y are [rows][cols], with rows x_stride and y_stride elements apart. x, y, weight, bias and residual have
 * one type. Elements of 16 bits are widened, and the result is rounded to them once. Means are sums in the order
 * of rapt_dot, divided by cols. src/contract/norm.hpp has the order of the operations. A row alone has the bits
 * that it has in a batch.
 *
 * With a residual, x + residual, rounded to the type, is written to residual, and is normalised in place of x.
 * So the bits are those of an addition and a norm.
 *
 * y may be x, with the same stride. Otherwise y, residual, rstd, mean and mean_rest overlap nothing. A call without
 * rows or columns succeeds, and looks at no array.
 *
 * Special values: rows do not mix. A row with a NaN or infinity is NaN. One exception: without a NaN, rms_norm gives
 * 0 for the finite elements of a row with infinities. layer_norm of a row of equal finite elements, however many and
 * whatever they are, is 0 (times the weight, plus the bias). If eps is 0, that row is NaN, as rms_norm of zeros; if
 * eps is 0 and the squares underflow to 0, every element is infinite or NaN. If the sum of the squares overflows, both
 * give 0 (times the weight, plus the bias). layer_norm subtracts the row's first element before it sums: if a
 * difference of elements or the sum of the differences overflows, the row is NaN.
 *
 * Accuracy for any row, where nothing overflows, cols is at most 2^26, and the number under the root at least 2^-100
 * (f64: 2^-960). Let t be the exact x / sqrt(...) or (x - mean) / sqrt(...), and R the exact 1 / sqrt(...). Let z be
 * 2^-149 (f64: 2^-1074), and D = min(cols / 64, 512) + cols / 32768 + 8 (f64: cols / 32, cols / 16384). With
 *
 * ~~~
 *   rms_norm     e = (D / 2 + 5) u |t| + z
 *   layer_norm   e = ((D / 2 + 9) f |t| + (D + 9) (mean of |t| + 4 g)) u + (1 + R) z
 *                g = (D + 5) u sqrt(cols),  f = (1 + 2 g)^2
 * ~~~
 *
 * y has at most the error |w| e + u |y| + z, where w is the factor of t; weight_plus_one adds u |y|. The type of y
 * adds one rounding. The mean of |t| is at most 1, and a mean of x far from 0 adds nothing. g is below 0.0003 up to
 * 4096 columns of f32, and below 0.04 up to 2^20. */
typedef struct rapt_norm_options {
  size_t size; /**< sizeof(rapt_norm_options) */

  rapt_type type;            /**< of all arrays: RAPT_F32 (0: RAPT_F32), RAPT_F64, RAPT_F16 or RAPT_BF16 */
  int weight_plus_one;       /**< rms_norm: if not 0, weight + 1 takes the place of weight, as in Gemma */
  size_t rows;               /**< of x and y */
  size_t cols;               /**< elements of a row */
  ptrdiff_t x_stride;        /**< 0: cols; at least that, unless there is only one row */
  ptrdiff_t y_stride;        /**< 0: cols; at least that, unless there is only one row */
  double eps;                /**< rounded to the arithmetic type; 0, or a positive normal number of it */
  const void *weight;        /**< [cols], or null: 1 */
  const void *bias;          /**< layer_norm: [cols], or null */
  void *residual;            /**< [rows][cols]: x is added to it, and y is its norm; or null */
  ptrdiff_t residual_stride; /**< 0: cols; at least that, unless there is only one row */

  /* The statistics of each row, of the arithmetic type, for the gradient: written where not null. */
  void *rstd;      /**< [rows]: 1 / sqrt(...), the number that x or x - mean is multiplied by */
  void *mean;      /**< layer_norm: [rows], the number of the type next to the row's mean */
  void *mean_rest; /**< layer_norm: [rows], what the mean has beyond `mean` */
} rapt_norm_options;

/** Everything else zero. */
#define RAPT_NORM_OPTIONS_INIT \
  { sizeof(rapt_norm_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0, NULL, NULL, NULL }

/** y = x / sqrt(mean of x^2 + eps) * weight, for each row. rapt_norm_options has the rest. */
RAPT_API rapt_status rapt_rms_norm(const void *x, void *y, const rapt_norm_options *options);
/** y = (x - mean) / sqrt(mean of (x - mean)^2 + eps) * weight + bias. rapt_norm_options has the rest. */
RAPT_API rapt_status rapt_layer_norm(const void *x, void *y, const rapt_norm_options *options);

/** The gradients of norms, from x, the weight and the gradient dy of y. With a residual, x is what the forward
 * call wrote to it. x, dy, dx and weight have the type of the options, and dweight, dbias, rstd, mean and mean_rest its
 * arithmetic type. dx may be x or dy, with the same stride; otherwise dx, dweight and dbias overlap nothing.
 *
 * ~~~
 *   dx        the gradient of x
 *   dweight   the sum over the rows of dy * (y without weight and bias), or null
 *   dbias     layer_norm: the sum over the rows of dy, or null
 * ~~~
 *
 * dweight and dbias are added up row by row, from 0. With `accumulate` they begin with what they hold. So calls for
 * the first rows and then for the others give the bits of one call. A call without rows sets them to 0 or leaves
 * them, and looks at no other array.
 *
 * rstd, mean and mean_rest are what the forward call wrote to them, or null: then they are computed again, and dx,
 * dweight and dbias have the same bits. rstd alone does for rms_norm. layer_norm takes rstd and mean together, and a
 * mean_rest that is null counts as 0, as for the statistics of other libraries. With them, eps has no effect.
 *
 * Elements of 16 bits are widened, and the results are those of f32; dx is rounded once. Rows of more than 4096 such
 * elements need the workspace that rapt_norm_backward_workspace() counts; other calls need none.
 *
 * Accuracy, under the conditions of the norms, with the number under the root at most 2^125 (f64: 2^1021). With t, e,
 * f and R of the norms, let g = dy * w, s = |t| + e and M = mean of |g| s. The error is at most
 *
 * ~~~
 *   rms_norm     dx: R u ((D / 2 + 8) |g| + (5 D / 2 + 20) |t| * (mean of |g t|)) + 3 (1 + R)^2 (1 + |t|) z
 *   layer_norm   dx: R ((3 D / 2 + 14) f u (|g| + (mean of |g|) + s M) + s * (mean of |g| e) + e M)
 *                    + 3 (1 + R) (1 + s) z
 *   dweight      sum of |dy| e + 1.01 rows * u * (the first |dweight| + sum of |dy| s) + rows * z, for up to 2^17 rows
 *   dbias        rows * u * (the first |dbias| + sum of |dy|)
 * ~~~
 */
typedef struct rapt_norm_backward_options {
  size_t size; /**< sizeof(rapt_norm_backward_options) */

  rapt_type type;      /**< of x, dy, dx, weight: RAPT_F32 (0: RAPT_F32), RAPT_F64, RAPT_F16 or RAPT_BF16 */
  int weight_plus_one; /**< as in the forward call */
  size_t rows;         /**< of x, dy and dx */
  size_t cols;         /**< elements of a row */
  ptrdiff_t x_stride;  /**< 0: cols; at least that, unless there is only one row */
  ptrdiff_t dy_stride; /**< 0: cols; at least that, unless there is only one row */
  ptrdiff_t dx_stride; /**< 0: cols; at least that, unless there is only one row */
  double eps;          /**< as in the forward call */
  const void *weight;  /**< [cols], or null: 1 */
  void *dweight;       /**< [cols], or null */
  void *dbias;         /**< layer_norm: [cols], or null */
  int accumulate;      /**< if not 0, dweight and dbias begin with what they hold */

  const void *rstd;      /**< [rows]: what the forward call wrote, or null */
  const void *mean;      /**< layer_norm: [rows], as rstd */
  const void *mean_rest; /**< layer_norm: [rows], as rstd, or null: 0 */
  void *workspace;       /**< long rows of 16 bits; aligned to 4 bytes. It overlaps nothing else */
  size_t workspace_size; /**< bytes, at least those of rapt_norm_backward_workspace() */
} rapt_norm_backward_options;

/** Everything else zero. */
#define RAPT_NORM_BACKWARD_OPTIONS_INIT                                                                    \
  {                                                                                                        \
    sizeof(rapt_norm_backward_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0, NULL, \
        NULL, NULL, NULL, 0                                                                                \
  }

/** The gradients of rapt_rms_norm(). rapt_norm_backward_options has their formulas. */
RAPT_API rapt_status rapt_rms_norm_backward(const void *x, const void *dy, void *dx,
                                            const rapt_norm_backward_options *options);
/** The gradients of rapt_layer_norm(). rapt_norm_backward_options has their formulas. */
RAPT_API rapt_status rapt_layer_norm_backward(const void *x, const void *dy, void *dx,
                                              const rapt_norm_backward_options *options);
/** Counts the bytes of workspace that a gradient with these options needs: 0, unless type is RAPT_F16 or RAPT_BF16 and
 * cols is above 4096. Of the options, type and cols count. */
RAPT_API rapt_status rapt_norm_backward_workspace(const rapt_norm_backward_options *options, size_t *bytes);

/** \} */

/* ---- optimizer steps ---------------------------------------------------------------------------------- */
/** \defgroup optimizer_steps Optimizer steps
 * Steps of AdamW, Adam and SGD for one array of parameters, in one pass over its arrays. The arithmetic is that of
 * PyTorch's single-tensor path (torch/optim/adam.py, sgd.py), where every operation rounds to f32, and no product is
 * fused with a sum. An element depends on its own numbers alone, so any split of the arrays among threads gives the
 * same bits.
 *
 * param and grad are f32, f16 or bf16. Those of 16 bits are widened, and param is rounded once, to nearest even. The
 * state is f32. Arrays overlap nothing. An option is rounded to f32 where an element meets it.
 *
 * Special values: they are those of the operations, so a gradient of NaN makes its parameter NaN.
 * Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization (2019); Kingma and Ba, Adam (2015).
 * \{ */

/** Set size, count, step and the rates, or start from RAPT_ADAMW_OPTIONS_INIT, which has PyTorch's rates.
 *
 * With g = grad, or -grad if maximize is set, and p = param, m = exp_avg, v = exp_avg_sq, s = step:
 *
 * ~~~
 *   AdamW              p = p * (1 - lr * weight_decay), if weight_decay is not 0
 *   decay_in_gradient  g = g + weight_decay * p in its place: Adam
 *
 *   m = m + (1 - beta1) * (g - m)      or, where 1 - beta1 is at least 1/2, g - (g - m) * (1 - (1 - beta1))
 *   v = v * beta2 + ((1 - beta2) * g) * g
 *   w = v, or with max_exp_avg_sq (amsgrad) w = max_exp_avg_sq = max(max_exp_avg_sq, v), NaN if one is NaN
 *   p = p + (-(lr / (1 - beta1^s)) * m) / (sqrt(w) / sqrt(1 - beta2^s) + eps)
 * ~~~
 *
 * What has no element in it is computed in double and rounded to f32 once. beta^s errs by less than 0.501 ULP of double
 * up to step 2^36, so that it is what a good pow() returns. */
typedef struct rapt_adamw_options {
  size_t size;           /**< sizeof(rapt_adamw_options) */
  rapt_type type;        /**< of param: RAPT_F32 (0: RAPT_F32), RAPT_F16 or RAPT_BF16 */
  rapt_type grad_type;   /**< of grad, likewise; 0: type */
  size_t count;          /**< elements of each array */
  size_t step;           /**< the number of this step, from 1 */
  double lr;             /**< the learning rate, at least 0 */
  double beta1;          /**< at least 0 and below 1 */
  double beta2;          /**< at least 0 and below 1 */
  double eps;            /**< 0, or a positive normal number of f32 */
  double weight_decay;   /**< at least 0 */
  int decay_in_gradient; /**< if not 0, Adam: weight_decay * param is added to the gradient */
  int maximize;          /**< if not 0, the gradient is negated */
} rapt_adamw_options;

/** PyTorch's rates; everything else zero. */
#define RAPT_ADAMW_OPTIONS_INIT                                                                              \
  {                                                                                                          \
    sizeof(rapt_adamw_options), RAPT_TYPE_DEFAULT, RAPT_TYPE_DEFAULT, 0, 0, 1e-3, 0.9, 0.999, 1e-8, 1e-2, 0, \
        0                                                                                                    \
  }

/** A step of AdamW or Adam. max_exp_avg_sq is null, or amsgrad's state. rapt_adamw_options has the formula. */
RAPT_API rapt_status rapt_adamw_step(void *param, const void *grad, float *exp_avg, float *exp_avg_sq,
                                     float *max_exp_avg_sq, const rapt_adamw_options *options);

/** Set size, count and lr.
 *
 * With g = grad, or -grad if maximize is set, p = param and b = momentum_buffer:
 *
 * ~~~
 *   g = g + weight_decay * p                  if weight_decay is not 0
 *   b = b * momentum + (1 - dampening) * g    if momentum is not 0; in the first step b = g
 *   g = g + momentum * b                      if nesterov is set, else g = b
 *   p = p + -lr * g
 * ~~~ */
typedef struct rapt_sgd_options {
  size_t size;         /**< sizeof(rapt_sgd_options) */
  rapt_type type;      /**< of param: RAPT_F32 (0: RAPT_F32), RAPT_F16 or RAPT_BF16 */
  rapt_type grad_type; /**< of grad, likewise; 0: type */
  size_t count;        /**< elements of each array */
  double lr;           /**< the learning rate, at least 0 */
  double momentum;     /**< 0: none, and no buffer */
  double dampening;    /**< of momentum */
  double weight_decay; /**< at least 0 */
  int nesterov;        /**< if not 0, Nesterov's momentum */
  int first_step;      /**< if not 0, momentum_buffer is only written */
  int maximize;        /**< if not 0, the gradient is negated */
} rapt_sgd_options;

/** Everything else zero. */
#define RAPT_SGD_OPTIONS_INIT \
  { sizeof(rapt_sgd_options), RAPT_TYPE_DEFAULT, RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, 0, 0, 0 }

/** A step of SGD. momentum_buffer is null without momentum. rapt_sgd_options has the formula. */
RAPT_API rapt_status rapt_sgd_step(void *param, const void *grad, float *momentum_buffer,
                                   const rapt_sgd_options *options);

/** \} */

/* ---- random numbers ------------------------------------------------------------------------------------ */
/** \defgroup random_numbers Random numbers
 * Numbers of Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as 1, 2, 3, 2011). Element
 * i is a function of seed, stream and i alone: any split, thread or CPU gives the same element.
 * \{ */

/** What an element is. */
enum rapt_random_kind {
  RAPT_RANDOM_UNIFORM =
      0,             /**< floats in [0, 1): (word >> 8) * 2^-24. RAPT_F64: 53 bits of two words * 2^-53 */
  RAPT_RANDOM_KEEP,  /**< bytes: 1 with the probability, else 0, as a mask for dropout */
  RAPT_RANDOM_WORDS, /**< the words, uint32_t */
  RAPT_RANDOM_NORMAL /**< floats of the standard normal distribution, by Box and Muller */
};

/** Set size, kind and count.
 *
 * Block b of four words is Philox of the counter (b mod 2^32, b / 2^32, stream mod 2^32, stream / 2^32) and the key
 * (seed mod 2^32, seed / 2^32). Word i is word i mod 4 of block i / 4. Element i is made of word i; a double of words 2
 * i and 2 i + 1, as (word(2 i) >> 5) * 2^26 + (word(2 i + 1) >> 6). A byte is 1 where its word is below probability *
 * 2^32, rounded up.
 *
 * Normal numbers 2 j and 2 j + 1 are made of the elements v and w, 2 j and 2 j + 1, of RAPT_RANDOM_UNIFORM of their
 * type (G. Box and M. Muller, A Note on the Generation of Random Normal Deviates, 1958):
 * ~~~
 *   r = sqrt(-2 log(1 - v))
 *   angle = (2 w - 1) pi
 *   normal(2 j) = r cos(angle),  normal(2 j + 1) = r sin(angle)
 * ~~~
 * Each operation is rounded to the type, pi too, and the functions are those of rapt_map(). The error against this
 * formula, computed exactly, is at most 6 * 2^-24 r (f64: 9 * 2^-53 r). Magnitudes are at most 5.77 (f64: 8.58). */
typedef struct rapt_random_options {
  size_t size;        /**< sizeof(rapt_random_options) */
  int kind;           /**< one of rapt_random_kind */
  rapt_type type;     /**< RAPT_RANDOM_UNIFORM, _NORMAL: RAPT_F32 (0: RAPT_F32) or RAPT_F64; 0 for others */
  uint64_t seed;      /**< any number */
  uint64_t stream;    /**< any number: another stream is independent */
  uint64_t offset;    /**< the index of the first element. offset + count is at most 2^62 */
  size_t count;       /**< elements of out */
  double probability; /**< RAPT_RANDOM_KEEP: between 0 and 1 */
} rapt_random_options;

/** Everything else zero. */
#define RAPT_RANDOM_OPTIONS_INIT \
  { sizeof(rapt_random_options), RAPT_RANDOM_UNIFORM, RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0 }

/** Writes elements offset to offset + count - 1. rapt_random_options says what they are. */
RAPT_API rapt_status rapt_random(void *out, const rapt_random_options *options);

/** \} */

/* ---- elementwise functions ----------------------------------------------------------------------------- */
/** \defgroup elementwise_functions Elementwise functions
 * \{ */

/** The functions of rapt_map(). x, y and z are elements of its inputs; a, b and c are its parameters alpha, beta and
 * gamma, rounded to the arithmetic type. */
enum rapt_map_function {
  RAPT_MAP_SQRT = 1,    /**< the square root, correctly rounded */
  RAPT_MAP_RSQRT,       /**< 1 / sqrt(x), each operation rounded */
  RAPT_MAP_RECIPROCAL,  /**< 1 / x, correctly rounded */
  RAPT_MAP_EXP,         /**< e^x, with the bits of rapt_exp_f32() */
  RAPT_MAP_EXP2,        /**< 2^x */
  RAPT_MAP_EXPM1,       /**< e^x - 1 */
  RAPT_MAP_LOG,         /**< the natural logarithm */
  RAPT_MAP_LOG2,        /**< the logarithm to base 2 */
  RAPT_MAP_LOG1P,       /**< log(1 + x) */
  RAPT_MAP_SIN,         /**< the sine, of any number of radians */
  RAPT_MAP_COS,         /**< the cosine */
  RAPT_MAP_TAN,         /**< the tangent */
  RAPT_MAP_TANH,        /**< the hyperbolic tangent */
  RAPT_MAP_ERF,         /**< the error function */
  RAPT_MAP_SIGMOID,     /**< 1 / (1 + e^-x) */
  RAPT_MAP_LOG_SIGMOID, /**< log(sigmoid(x)) */
  RAPT_MAP_SOFTPLUS,    /**< log(1 + e^ax) / a where ax is at most b, else x. Of 0, a is 1 and b is 20 */
  RAPT_MAP_SILU,        /**< with the bits of rapt_silu_f32() */
  RAPT_MAP_GELU,        /**< with the bits of rapt_gelu_f32() */
  RAPT_MAP_GELU_TANH,   /**< with the bits of rapt_gelu_tanh_f32() */
  RAPT_MAP_MISH,        /**< x tanh(log(1 + e^x)) */
  RAPT_MAP_ELU, /**< x b above 0, else (e^cx - 1) (a b). 0 counts as 1. celu has c = 1 / a, and selu its own a and b */
  RAPT_MAP_HARD_SIGMOID, /**< clamp(x + 3, 0, 6) / 6 */
  RAPT_MAP_HARD_SWISH,   /**< x clamp(x + 3, 0, 6) / 6 */
  RAPT_MAP_CLAMP,        /**< min(max(x, a), b): relu, relu6 and hardtanh too. b wins where a > b */
  RAPT_MAP_ADD,          /**< x + y */
  RAPT_MAP_SUBTRACT,     /**< x - y */
  RAPT_MAP_MULTIPLY,     /**< x y */
  RAPT_MAP_DIVIDE,       /**< x / y */
  RAPT_MAP_ADD_SCALED,   /**< x + a y, where the product is rounded too */
  RAPT_MAP_POW,          /**< x^y */
  RAPT_MAP_ATAN2,        /**< the angle of the point (y, x) to the first axis: atan2(x, y) of C */
  RAPT_MAP_FMA,          /**< x y + z, rounded once */
  RAPT_MAP_ADDCMUL,      /**< x + (a y) z, each operation rounded */
  RAPT_MAP_ADDCDIV,      /**< x + (a y) / z, each operation rounded */
  RAPT_MAP_LERP,    /**< x + z (y - x) where |z| < 1/2, else y - (y - x) (1 - z), each operation rounded */
  RAPT_MAP_LERP_AT, /**< the same, with a in place of z */
  RAPT_MAP_ERF_BACKWARD,         /**< y erf'(x). In this and the following functions, y is the gradient */
  RAPT_MAP_SIGMOID_BACKWARD,     /**< (y (1 - x)) x, where x is the sigmoid. Each operation is rounded */
  RAPT_MAP_TANH_BACKWARD,        /**< y (1 - x x), where x is the tanh. Each operation is rounded */
  RAPT_MAP_LOG_SIGMOID_BACKWARD, /**< y sigmoid(-x) */
  RAPT_MAP_SOFTPLUS_BACKWARD,    /**< y sigmoid(ax) where ax is at most b, else y. Of 0, a is 1 and b is 20 */
  RAPT_MAP_SILU_BACKWARD,        /**< with the bits of rapt_silu_backward_f32() */
  RAPT_MAP_GELU_BACKWARD,        /**< with the bits of rapt_gelu_backward_f32() */
  RAPT_MAP_GELU_TANH_BACKWARD,   /**< with the bits of rapt_gelu_tanh_backward_f32() */
  RAPT_MAP_MISH_BACKWARD,        /**< y mish'(x) */
  RAPT_MAP_ELU_BACKWARD,         /**< y b where x is above 0, else y (a b c) e^cx. 0 counts as 1 */
  RAPT_MAP_HARD_SIGMOID_BACKWARD, /**< y / 6 where x is between -3 and 3, else 0 */
  RAPT_MAP_HARD_SWISH_BACKWARD,   /**< 0 below -3; y (x / 3 + 1/2) up to 3; y above */
  RAPT_MAP_CLAMP_BACKWARD         /**< y where x is at least a and at most b, else 0 */
};
typedef enum rapt_map_function rapt_map_function;

/** Set size, function, dims and shape, or start from RAPT_MAP_OPTIONS_INIT.
 *
 * Strides, in elements, for each array: all 0 is contiguous in row-major order. Otherwise every dimension longer than 1
 * needs its stride: 0 is an error there, and RAPT_REPEAT repeats an input along the dimension. */
typedef struct rapt_map_options {
  size_t size;                          /**< sizeof(rapt_map_options) */
  int function;                         /**< one of rapt_map_function */
  rapt_type type;                       /**< of all arrays; 0: RAPT_F32 */
  size_t dims;                          /**< 1 to RAPT_MAX_DIMS */
  size_t shape[RAPT_MAX_DIMS];          /**< the first dims entries count */
  ptrdiff_t x_strides[RAPT_MAX_DIMS];   /**< of x; all 0: contiguous; RAPT_REPEAT broadcasts */
  ptrdiff_t y_strides[RAPT_MAX_DIMS];   /**< of y, likewise */
  ptrdiff_t z_strides[RAPT_MAX_DIMS];   /**< of z, likewise */
  ptrdiff_t out_strides[RAPT_MAX_DIMS]; /**< of out; all 0: contiguous */
  double alpha;                         /**< a, for the functions that have it */
  double beta;                          /**< b */
  double gamma;                         /**< c */
} rapt_map_options;

/** Everything else zero. */
#define RAPT_MAP_OPTIONS_INIT \
  { sizeof(rapt_map_options), 0, RAPT_TYPE_DEFAULT, 0, {0}, {0}, {0}, {0}, {0}, 0, 0, 0 }

/** out = function(x, y, z), element by element. y and z are null for functions that do not read them. The type is f32,
 * f64, f16 or bf16. out may be an input with the same strides. It must not overlap an input otherwise. Strides of out
 * that may let two elements coincide are RAPT_BAD_OUT_STRIDES.
 *
 * Neither the place of an element, nor alignment, strides or length change its bits. src/contract/map.hpp has the order
 * of the operations. f32 functions from expm1 to elu, pow, atan2 and their gradients are computed in double, and
 * rounded once.
 *
 * Accuracy: formulas of rapt.h are rounded as they say. For any other function and any x, the error is below so many
 * ULP of the result:
 * ~~~
 *                                   f32    f64
 *   rsqrt                           1.5    1.5
 *   exp, exp2                       1      1
 *   log                             0.51   1
 *   log1p, pow                      0.51   1.5
 *   expm1, log2, sin, cos, atan2    0.51   2
 *   sigmoid, log_sigmoid            0.51   2.5
 *   tanh, elu                       0.51   3     with a parameter c, f64 adds |cx|
 *   tan, softplus                   0.51   4     softplus of f64 adds |ax|
 *   erf, mish                       0.51   5
 * ~~~
 * In f32, 0.5 is the rounding, and 0.009 at most that of the polynomials. Of f64, the bounds were measured on 10^8
 * random
 * numbers a function. mish of f64 adds |x| 2^-1074. The gradients of erf, log_sigmoid, softplus and elu have 0.51 and 4;
 * they add 2^14 |y| times the smallest number, as slopes may be subnormal. Rounding to 16 bits adds 0.5 ULP of theirs.
 *
 * Special values: as in C23's annex F, and else those of the operations of an expression above. mish(-inf) is -0, its
 * limit. pow has the exact products, quotient and square root for y = 2, 3, -1 and, of finite x > 0, 1/2; f32 rounds
 * x^3 once. PyTorch computes pow with an exponent of 1/2 or -1/2 for all elements as sqrt or rsqrt, which differ at -0
 * and -inf. */
RAPT_API rapt_status rapt_map(const void *x, const void *y, const void *z, void *out,
                              const rapt_map_options *options);

/** \} */

/* ---- reductions --------------------------------------------------------------------------------------- */
/** \defgroup reductions Reductions
 * Sums, means, norms, extremes and their indices over any dimensions of a tensor of any strides. They have the same
 * bits for every layout of x: rows, columns, transposed or sliced.
 * \{ */

/** What becomes of the n elements x[0], x[1], … x[n - 1] of an output. */
enum rapt_reduction {
  RAPT_SUM = 1,  /**< the sum; 0 if n is 0 */
  RAPT_MEAN,     /**< the sum / n; NaN if n is 0 */
  RAPT_VARIANCE, /**< the sum of (x - mean)^2, / (n - correction), or / 0 where that is negative */
  RAPT_NORM_1,   /**< the sum of |x|; 0 if n is 0 */
  RAPT_NORM_2, /**< the root of the sum of x^2; 0 if n is 0. Squares that overflow or underflow do no harm */
  RAPT_NORM_INF, /**< the largest |x|; 0 if n is 0 */
  RAPT_PRODUCT,  /**< the product; 1 if n is 0 */
  RAPT_MIN,      /**< the smallest x, NaN if one is NaN. A result of -0 becomes +0. n may not be 0 */
  RAPT_MAX,      /**< the largest x, NaN if one is NaN. A result of -0 becomes +0. n may not be 0 */
  RAPT_ARGMIN,   /**< the index of the first NaN, or else of the first of the smallest. n may not be 0 */
  RAPT_ARGMAX    /**< the index of the first NaN, or else of the first of the largest. n may not be 0 */
};
typedef enum rapt_reduction rapt_reduction;

/** What rapt_reduce() reduces. Everything but size, operation, dims and shape may be 0. */
typedef struct rapt_reduce_options {
  size_t size;    /**< sizeof(rapt_reduce_options) */
  int operation;  /**< one of rapt_reduction; there is no default */
  rapt_type type; /**< of x: RAPT_F32 (0: RAPT_F32), RAPT_F64, RAPT_F16 or RAPT_BF16 */
  rapt_type
      out_type; /**< of out and mean: 0 or `type`, or its arithmetic type. out is int64_t for indices: 0 */
  uint32_t reduced;            /**< bit d: dimension d is reduced; 0: all are */
  size_t dims;                 /**< of x: 1 to RAPT_MAX_DIMS */
  size_t shape[RAPT_MAX_DIMS]; /**< of x, outermost dimension first */
  /** Of x. All 0: contiguous. Otherwise every dimension longer than 1 has a positive one, or RAPT_REPEAT. */
  ptrdiff_t x_strides[RAPT_MAX_DIMS];
  /** Of out and mean: of the first kept dimension, the second and so on. All 0: contiguous. Otherwise every kept
   * dimension longer than 1 has a positive one, and no two elements may coincide. */
  ptrdiff_t out_strides[RAPT_MAX_DIMS];
  /** Only RAPT_VARIANCE: what is subtracted from n. 0 is NumPy's default and the array API's; PyTorch's is 1. */
  double correction;
  void *mean; /**< only RAPT_VARIANCE, or null: the mean of each output, of the type and strides of out */
} rapt_reduce_options;

/** Everything else zero. */
#define RAPT_REDUCE_OPTIONS_INIT \
  { sizeof(rapt_reduce_options), 0, RAPT_TYPE_DEFAULT, RAPT_TYPE_DEFAULT, 0, 0, {0}, {0}, {0}, 0, NULL }

/** Reduces the dimensions that options->reduced names. out has the dimensions that are left, in their order: an output
 * for each index, and a single one if all are reduced. The n elements of an output are numbered in row-major order of
 * the reduced dimensions, in the order of shape; ARGMIN and ARGMAX write that number. out and mean must overlap
 * nothing.
 *
 * An output is the same for every layout of x and whatever else the call computes. Sums have 64 lanes (f64: 32), as
 * rapt_dot_f32(): lane i mod 64 adds element i, after 512 elements each lane is added to a second set and begins again,
 * and lanes are folded by halves. Squares are added by fma. Elements of 16 bits are widened, computed as f32, and
 * rounded once.
 *
 * Errors before that rounding, if nothing overflows, with V the exact variance by n - correction, T the sum of |x|, and
 * D = min(n / 64, 512) + n / 32768 + 8 (f64: min(n / 32, 512) + n / 16384 + 8), as in rapt_dot_f32():
 *
 * ~~~
 *   RAPT_SUM        |error| <= D u T
 *   RAPT_MEAN       |error| <= (D + 2) u T / n + 2^-150 (f64: 2^-1075)
 *   RAPT_NORM_1     |error| <= D u T
 *   RAPT_NORM_2     |error| <= (D / 2 + 2) u norm + 2^-150 (f64: 2^-1075)
 *   RAPT_VARIANCE   |error| <= (D + 6) u (V + E) + E + (n + 1) 2^-149 (f64: 2^-1074) / (n - correction), where
 *                   E = e^2 n / (n - correction), and e is the bound of the mean
 *   RAPT_PRODUCT    |error| <= n u |product| / (1 - n u), if no product of some of the elements is subnormal
 *   others          exact
 * ~~~
 *
 * The sum of infinities of both signs is NaN, as is a variance of an infinite element. RAPT_BAD_SHAPE: n is 0 for an
 * operation that needs an element. Without outputs, x and out may be null, and x may be null if n is 0. */
RAPT_API rapt_status rapt_reduce(const void *x, void *out, const rapt_reduce_options *options);

/** What rapt_scan() scans. Everything but size, operation, dims and shape may be 0. */
typedef struct rapt_scan_options {
  size_t size;                 /**< sizeof(rapt_scan_options) */
  int operation;               /**< RAPT_SUM or RAPT_PRODUCT; there is no default */
  rapt_type type;              /**< of x and out: RAPT_F32 (0: RAPT_F32), RAPT_F64, RAPT_F16 or RAPT_BF16 */
  size_t axis;                 /**< the dimension along which elements are joined; below dims */
  size_t dims;                 /**< of x and out: 1 to RAPT_MAX_DIMS */
  size_t shape[RAPT_MAX_DIMS]; /**< of x and out, outermost dimension first */
  /** Of x. All 0: contiguous. Otherwise every dimension longer than 1 has a positive one, or RAPT_REPEAT. */
  ptrdiff_t x_strides[RAPT_MAX_DIMS];
  /** Of out. All 0: contiguous. Otherwise every dimension longer than 1 has a positive one, and no two elements may
   * coincide. */
  ptrdiff_t out_strides[RAPT_MAX_DIMS];
} rapt_scan_options;

/** Everything else zero. */
#define RAPT_SCAN_OPTIONS_INIT                                             \
  {                                                                        \
    sizeof(rapt_scan_options), 0, RAPT_TYPE_DEFAULT, 0, 0, {0}, {0}, { 0 } \
  }

/** Cumulative sums and products along a dimension: element i of out is what the elements 0 to i of x give together, as
 * numpy.cumsum() and numpy.cumprod(). out may be x with the same strides. It must not overlap x otherwise.
 *
 * Elements are joined in groups of 16, of which the first begins at element 0. In a group p[j] = x[j] at first; then,
 * for s = 1, 2, 4 and 8, each p[j] with j >= s becomes p[j - s] + p[j], all at once. In the first group out is p. In
 * any other out[j] = c + p[j], where c is the last element of out of the group before. Products have * for +. So a
 * result has the same bits for every layout, and whatever comes after it. The last element need not be rapt_reduce()'s
 * sum. Elements of 16 bits are widened, computed as f32 with c not rounded, and each result is rounded once.
 *
 * Errors of element i before that rounding, if nothing overflows. T is the sum of the |x| up to i, and D = 4 + i / 16:
 *
 * ~~~
 *   RAPT_SUM        |error| <= D u T / (1 - D u)
 *   RAPT_PRODUCT    |error| <= i u |product| / (1 - i u), if no product of neighbours is subnormal
 * ~~~
 *
 * A NaN or an infinity changes only elements from its own on; infinities of both signs sum to NaN, and 0 times infinity
 * is NaN. In a group, neighbours are joined first: these may overflow where the result would not. A sum of -0 alone is
 * -0. */
RAPT_API rapt_status rapt_scan(const void *x, void *out, const rapt_scan_options *options);

/** \} */

/* ---- embeddings and vector search ---------------------------------------------------------------------- */
/** \defgroup vector_search Embeddings and vector search
 * Compares vectors, and finds the rows of a matrix that are most like a query. Search is exact: it looks at every row.
 * \{ */

/** How two vectors a and b of n elements are compared. Sums have the lanes of rapt_dot_f32(), and so its bits. */
enum rapt_metric_kind {
  RAPT_METRIC_DOT = 0, /**< the sum of a[i] b[i]: rapt_dot_f32(). The largest is the best */
  RAPT_METRIC_COSINE, /**< dot(a, b) / (sqrt(dot(a, a)) sqrt(dot(b, b))), or 0 where the divisor is 0. The largest is
                             the best */
  RAPT_METRIC_L2_SQUARED,     /**< the sum of (a[i] - b[i])^2. The smallest is the best */
  RAPT_METRIC_DOT_DISTANCE,   /**< 1 - dot, hnswlib's and usearch's "ip". The smallest is the best */
  RAPT_METRIC_COSINE_DISTANCE /**< 1 - cosine, usearch's "cos". The smallest is the best */
};
typedef enum rapt_metric_kind rapt_metric_kind;

/** Compares two vectors of n elements of f32, f16, bf16 or i8. */
typedef float (*rapt_metric_function)(const void *a, const void *b, size_t n);
/** Compares two vectors of n elements of f64. */
typedef double (*rapt_metric_function_f64)(const void *a, const void *b, size_t n);

/** Returns a function for a kind of rapt_metric_kind, and for RAPT_F32, RAPT_F16, RAPT_BF16 or RAPT_I8. It is null for
 * any other kind or type. Indexes such as HNSW call it for every pair of vectors, so it is the code of the active level
 * itself: no dispatch and no checks. It stays valid for ever, and stays at its level if rapt_force_isa() changes that.
 *
 * Its caller promises the default floating-point state: rounding to nearest, subnormal numbers kept, exceptions masked.
 * Under another state, results may differ from those below; call rapt_metric_rows() there.
 *
 * A result has the same bits on every level, at any alignment, and in rapt_metric_rows() and rapt_top_k(). n may be 0.
 *
 * Elements of 16 bits are widened and computed in f32. Sums of i8 are exact integers. Quotients, roots and the
 * differences from 1 of i8 are computed in double, and each result is rounded to f32 once.
 *
 * Errors, with D and u as in rapt_reduce(), and if no square overflows or is subnormal. T is the sum of |a[i] b[i]|:
 * ~~~
 *   dot             |error| <= D u T
 *   L2 squared      |error| <= (D + 3) u result
 *   cosine          |error| <= (2 D + 6) u
 *   distances       that of dot or cosine, and u |result|
 *   i8              a rounding of the exact number; a cosine has 4 units of double more
 * ~~~
 * A cosine may pass 1 by its error. Squares of f32 above 2^64 overflow, which makes a cosine 0 or NaN. A NaN element
 * makes the result NaN, whatever the other vector is. So do infinities whose product or difference is NaN, and in a
 * cosine any infinity. A cosine with a vector of zeros is 0, as in scikit-learn. */
RAPT_API rapt_metric_function rapt_metric(int kind, rapt_type type);
/** Returns the function of rapt_metric() for f64, or null if kind is none. */
RAPT_API rapt_metric_function_f64 rapt_metric_f64(int kind);

/** What rapt_metric_rows() and rapt_top_k() compare. Everything but size, queries, rows, dim and k may be 0. */
typedef struct rapt_search_options {
  size_t size;          /**< sizeof(rapt_search_options) */
  int metric;           /**< one of rapt_metric_kind */
  rapt_type type;       /**< of q and x: RAPT_F32 (0: RAPT_F32), RAPT_F16, RAPT_BF16, RAPT_I8 or RAPT_F64 */
  size_t queries;       /**< rows of q */
  size_t rows;          /**< rows of x */
  size_t dim;           /**< elements of a row of q and of x */
  size_t k;             /**< rapt_top_k(): how many rows are found for each query; at least 1. Elsewhere 0 */
  ptrdiff_t q_stride;   /**< of rows of q; 0: dim; at least that, unless there is only one row */
  ptrdiff_t x_stride;   /**< of rows of x; 0: dim; at least that, unless there is only one row */
  ptrdiff_t out_stride; /**< of rows of the outputs; 0: their length, which is the least of more rows */
} rapt_search_options;

/** Everything else zero. */
#define RAPT_SEARCH_OPTIONS_INIT \
  { sizeof(rapt_search_options), 0, RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, 0, 0 }

/** Compares each row of q with each row of x: out[i * out_stride + j] is what the function of rapt_metric() returns for
 * row i of q and row j of x. out is f32, or f64 for rows of f64, and overlaps nothing. Any floating-point state gives
 * the same bits. A call without queries or rows looks at no array. */
RAPT_API rapt_status rapt_metric_rows(const void *q, const void *x, void *out,
                                      const rapt_search_options *options);

/** Stores the bytes of workspace per call. */
RAPT_API rapt_status rapt_top_k_workspace(const rapt_search_options *options, size_t *bytes);
/** Finds the k best rows of x for each row of q, best first, as faiss's flat indexes and torch.topk(). indices
 * [queries][k] gets the number of each row, and scores [queries][k] what rapt_metric() says of it; scores may be null.
 * Rows with equal scores are in the order of their numbers. A row whose score is NaN is never found. Where there are
 * fewer rows than k, the rest has the index -1, and the worst score: -inf, or +inf where the smallest is the best.
 *
 * The type is f32, f16, bf16 or i8. A query's result does not depend on the other queries, on threads or on the order
 * of tasks. indices, scores and the workspace overlap nothing. The workspace has rapt_top_k_workspace() bytes, at any
 * alignment. It holds up to 64 lists of k rows for a query. A call without queries looks at no array. */
RAPT_API rapt_status rapt_top_k(const void *q, const void *x, int64_t *indices, float *scores,
                                const rapt_search_options *options, void *workspace, size_t workspace_size);

/** These functions do the same work as numbered tasks, for any pool of threads. All threads share one workspace: each
 * task writes another part of it. A task compares up to 16 queries with a part of the rows. */
RAPT_API rapt_status rapt_top_k_tasks(const rapt_search_options *options, size_t *tasks);
/** Computes the tasks first to last - 1 of rapt_top_k_tasks(). */
RAPT_API rapt_status rapt_top_k_run(const void *q, const void *x, const rapt_search_options *options,
                                    size_t first, size_t last, void *workspace, size_t workspace_size);
/** Writes the results, after all tasks have run. The workspace is read alone. */
RAPT_API rapt_status rapt_top_k_merge(int64_t *indices, float *scores, const rapt_search_options *options,
                                      const void *workspace, size_t workspace_size);

/** What rapt_mean_pool() averages. Everything but size, batch, tokens and dim may be 0. */
typedef struct rapt_mean_pool_options {
  size_t size;            /**< sizeof(rapt_mean_pool_options) */
  rapt_type type;         /**< of x and y: RAPT_F32 (0: RAPT_F32), RAPT_F16 or RAPT_BF16 */
  size_t batch;           /**< sequences */
  size_t tokens;          /**< of a sequence */
  size_t dim;             /**< elements of a token */
  ptrdiff_t x_stride;     /**< of tokens; 0: dim; at least that, unless there is only one */
  ptrdiff_t batch_stride; /**< of sequences in x; 0: tokens * x_stride; at least the length of a sequence */
  ptrdiff_t y_stride;     /**< of rows of y; 0: dim; at least that, unless there is only one */
  const uint8_t *mask;    /**< [batch][tokens] or null: 0 leaves a token out, any other number takes it */
  const size_t *row_lengths; /**< [batch] or null: tokens from here on are left out, and not read */
} rapt_mean_pool_options;

/** Everything else zero. */
#define RAPT_MEAN_POOL_OPTIONS_INIT \
  { sizeof(rapt_mean_pool_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, 0, NULL, NULL }

/** Mean pooling, as in sentence-transformers: row i of y is the sum of the tokens that sequence i takes, divided by
 * their number. Without such tokens it is 0. A token that is left out is not read, and may be NaN. So a sequence has
 * the same bits alone and padded. Sums are in f32, in the order of the tokens. y overlaps nothing.
 *
 * With n tokens, T the mean of their magnitudes, and u = 2^-24: |error| <= n u T, and the rounding to 16 bits.
 *
 * A length above tokens is RAPT_BAD_ROW_LENGTHS. */
RAPT_API rapt_status rapt_mean_pool(const void *x, void *y, const rapt_mean_pool_options *options);

/** What rapt_normalize() divides. Everything but size, rows and cols may be 0. */
typedef struct rapt_normalize_options {
  size_t size;        /**< sizeof(rapt_normalize_options) */
  rapt_type type;     /**< of x and y: RAPT_F32 (0: RAPT_F32), RAPT_F64, RAPT_F16 or RAPT_BF16 */
  size_t rows;        /**< of x and y */
  size_t cols;        /**< elements of a row */
  ptrdiff_t x_stride; /**< of rows; 0: cols; at least that, unless there is only one row */
  ptrdiff_t y_stride; /**< of rows; 0: cols; at least that, unless there is only one row */
  double eps;         /**< the smallest divisor; 0: 1e-12 */
} rapt_normalize_options;

/** Everything else zero. */
#define RAPT_NORMALIZE_OPTIONS_INIT \
  { sizeof(rapt_normalize_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0 }

/** Rows of length 1, as PyTorch's F.normalize: y = x / max(norm, eps), where norm is rapt_reduce()'s RAPT_NORM_2 of the
 * row, and eps is rounded to the arithmetic type. Each quotient is rounded once, and to 16 bits once more. y may be x
 * with the same stride, else overlaps nothing. A NaN makes its row NaN.
 *
 * |error| <= (D / 2 + 4) u |y|, with D and u as in rapt_reduce(), where y is no subnormal number. */
RAPT_API rapt_status rapt_normalize(const void *x, void *y, const rapt_normalize_options *options);

/** \} */

/* ---- sums of rows by index ----------------------------------------------------------------------------- */
/** \defgroup sums_by_index Sums of rows by index
 * \{ */

/** Everything but size, rows, cols, out_rows and indices may be 0. */
typedef struct rapt_index_add_options {
  size_t size;          /**< sizeof(rapt_index_add_options) */
  rapt_type type;       /**< of x and out: RAPT_F32 (0: RAPT_F32), RAPT_F64, RAPT_F16 or RAPT_BF16 */
  size_t rows;          /**< of x, and elements of indices */
  size_t cols;          /**< elements of a row */
  size_t out_rows;      /**< of out */
  ptrdiff_t x_stride;   /**< of rows of x; 0: cols; at least that, unless there is only one row */
  ptrdiff_t out_stride; /**< of rows of out; 0: cols; at least that, unless there is only one row */
  const int64_t
      *indices; /**< [rows]: the row of out that each row of x is added to; -1 leaves a row of x out */
} rapt_index_add_options;

/** Everything else zero. */
#define RAPT_INDEX_ADD_OPTIONS_INIT \
  { sizeof(rapt_index_add_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, NULL }

/** out[indices[i]] = out[indices[i]] + x[i] for each row i of x in order, as torch.index_add() and the gradient of an
 * embedding, whose out begins at zero. Each addition is rounded to the type, as the rows of one index may lie anywhere.
 * Threads may share the columns: pointers into the rows, and their part of cols, give the same bits.
 *
 * x and indices do not overlap out. An index below -1, or not below out_rows, is RAPT_BAD_INDICES, and nothing is
 * written. Of n rows with one index, and S the sum of the magnitudes that meet there: |error| <= n u S, with u = 2^-24,
 * 2^-53 of f64, 2^-11 of f16 and 2^-8 of bf16, if no sum is subnormal. */
RAPT_API rapt_status rapt_index_add(const void *x, void *out, const rapt_index_add_options *options);

/** \} */

/* ---- triangular systems -------------------------------------------------------------------------------- */
/** \defgroup triangular_systems Triangular systems
 * \{ */

/** Everything but size, batch, n and cols may be 0. */
typedef struct rapt_triangular_solve_options {
  size_t size;    /**< sizeof(rapt_triangular_solve_options) */
  rapt_type type; /**< of a, b and x: RAPT_F32 (0: RAPT_F32) or RAPT_F64 */
  int upper;      /**< if not 0, a is an upper triangle, else a lower one. The other triangle is not read */
  int unit_diagonal;        /**< if not 0, the diagonal of a counts as 1, and is not read */
  size_t batch;             /**< problems */
  size_t n;                 /**< rows and columns of a, rows of b and x */
  size_t cols;              /**< right sides: columns of b and x */
  ptrdiff_t a_stride;       /**< of rows of a; 0: n; at least that, unless there is only one row */
  ptrdiff_t b_stride;       /**< of rows of b; 0: cols; at least that, unless there is only one row */
  ptrdiff_t x_stride;       /**< of rows of x; 0: cols; at least that, unless there is only one row */
  ptrdiff_t a_batch_stride; /**< of problems in a; 0: n * a_stride; at least the length of a problem */
  ptrdiff_t b_batch_stride; /**< of problems in b; 0: n * b_stride; at least the length of a problem */
  ptrdiff_t x_batch_stride; /**< of problems in x; 0: n * x_stride; at least the length of a problem */
} rapt_triangular_solve_options;

/** Everything else zero. */
#define RAPT_TRIANGULAR_SOLVE_OPTIONS_INIT \
  { sizeof(rapt_triangular_solve_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** Solves a x = b for each problem, as torch.linalg.solve_triangular(): a [n][n], b and x [n][cols]. x may be b with
 * the same strides. Otherwise it overlaps neither a nor b.
 *
 * Row i of x is ((b[i] - a[i][j] x[j]) - a[i][k] x[k] ...) / a[i][i] over the rows that are solved before it, in the
 * order in which they are: from row 0 up, or from row n - 1 down where a is upper. Each operation is rounded. A column
 * has the same bits alone, and so has a problem: threads may share columns and problems by pointers.
 *
 * The computed x solves (a + d) x = b exactly, with |d| <= 1.01 n u |a| element by element, u = 2^-24 or 2^-53, if no product
 * is subnormal (Higham, Accuracy and Stability of Numerical Algorithms, theorem 8.5). A zero on the diagonal gives
 * infinities and NaN as divisions do. */
RAPT_API rapt_status rapt_triangular_solve(const void *a, const void *b, void *x,
                                           const rapt_triangular_solve_options *options);

/** \} */

/* ---- gated activations (SwiGLU, GeGLU) ---------------------------------------------------------------- */
/** \defgroup gated_activations Gated activations (SwiGLU, GeGLU)
 * \{ */

/** The function of the gate. */
enum rapt_activation {
  RAPT_SILU = 0, /**< rapt_silu_f32(), as in SwiGLU */
  RAPT_GELU,     /**< rapt_gelu_f32(), as in GeGLU */
  RAPT_GELU_TANH /**< rapt_gelu_tanh_f32(), as in Gemma */
};
typedef enum rapt_activation rapt_activation;

/** Set size, rows and cols, or start from RAPT_GATED_OPTIONS_INIT. A linear layer may compute gate and up side by side,
 * in rows of 2 * cols elements. Then both strides are 2 * cols, and up is gate + cols. */
typedef struct rapt_gated_options {
  size_t size;           /**< sizeof(rapt_gated_options) */
  rapt_type type;        /**< of all arrays; 0: RAPT_F32 */
  int activation;        /**< one of rapt_activation */
  size_t rows;           /**< of gate, up and y */
  size_t cols;           /**< elements of a row */
  ptrdiff_t gate_stride; /**< of rows; 0: cols; at least that, unless there is only one row */
  ptrdiff_t up_stride;   /**< of rows; 0: cols; at least that, unless there is only one row */
  ptrdiff_t y_stride;    /**< of rows; 0: cols; at least that, unless there is only one row */
} rapt_gated_options;

/** Everything else zero. */
#define RAPT_GATED_OPTIONS_INIT \
  { sizeof(rapt_gated_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, 0 }

/** y = activation(gate) * up, element by element. The activation has the bits of rapt_silu, rapt_gelu or
 * rapt_gelu_tanh in the arithmetic type, and the product is rounded once. For 16-bit elements it is then rounded
 * to them. y may be gate or up, with the same stride. It must not overlap them otherwise.
 * Source: Shazeer, GLU Variants Improve Transformer (2020). */
RAPT_API rapt_status rapt_gated(const void *gate, const void *up, void *y, const rapt_gated_options *options);

/** Gradients: dup = activation(gate) * dy, and dgate = activation'(gate) * t, where t = dy * up is
 * rounded. They have the bits of rapt_gated(gate, dy) and rapt_silu_backward(gate, t), and so on. dgate has the stride
 * of gate, dup that of up, and dy that of y. dgate may be gate, and dup may be up. They must not overlap an input
 * otherwise, or each other. Those of 16 bits are the results of f32 with the widened elements, rounded once. */
RAPT_API rapt_status rapt_gated_backward(const void *gate, const void *up, const void *dy, void *dgate,
                                         void *dup, const rapt_gated_options *options);

/** \} */

/* ---- attention ---------------------------------------------------------------------------------------- */
/** \defgroup attention Attention
 * \{ */

/** Attention, for every query i of every head h and batch item b:
 *
 * ~~~
 *   t[j] = q[i] . k[j]                                     over qk_dim
 *   s[j] = scale * query_scales[i] * t[j]
 *   s[j] = softcap * tanh(s[j] / softcap)                  if softcap is not 0
 *   s[j] = s[j] + alibi_slopes[h] * (j - p)                if there are slopes
 *   s[j] = s[j] + bias[i][j]                               if there is a bias
 *   out[i] = sum over the visible j of exp(s[j] - lse[i]) * v[j]
 *   lse[i] = log of (sum over the visible j of exp(s[j]) + exp(sinks[h]))
 * ~~~
 *
 * Query head h reads key/value head h / (q_heads / kv_heads). p is the position of query i among the keys:
 * ~~~
 *   i                                       under RAPT_CAUSAL_TOP_LEFT
 *   i + causal_offset                       under RAPT_CAUSAL_OFFSET
 *   i + keys - queries of the sequence      otherwise.
 * ~~~
 * Key j is visible if it is below the sequence's length, not below its start, and
 * ~~~
 *   causal:        j <= p
 *   window_left:   j > p - window_left
 *   window_right:  j < p + window_right
 *   window_chunk:  (j - start) / window_chunk == (p - start) / window_chunk, rounded down
 *   mask:          mask[i][j] is not 0
 *   bias:          bias[i][j] is not -inf.
 * ~~~
 *
 * Left padding. kv_starts[b] is the start of sequence b, its first key. Without kv_starts it is 0. i, j and p count
 * the padding, as the tensors do, and so do keys and queries above: bias and mask keep their columns. Blocks, chunks,
 * windows and distances are as from the start: a row has the bits of the same sequence alone, without padding. Under
 * causality a query of a position before the start sees nothing. Without it, every query sees all keys, as in
 * cross-attention: q_starts says which queries are padding, and those see nothing.
 *
 * Slopes and a bias of 0 have the bits of none, and a bias of 0 and -inf those of a mask. Slopes and biases are divided
 * by
 * |scale| and added to q . k: a sum above the type's range is infinite. A bias that brings a sum below it makes the lowest
 * number, so that a row whose biases are all the lowest number (finfo.min) has equal weights.
 *
 * src/manual/coming_from.md has the names of torch, FlashInfer, xFormers, ONNX and ggml for these options.
 *
 * size and the shape must be set, everything else is optional. Start from zeros or from
 * RAPT_ATTENTION_OPTIONS_INIT. */
typedef struct rapt_attention_options {
  size_t size; /**< sizeof(rapt_attention_options) */

  /* The element types. */
  rapt_type q_type;   /**< of q; 0: RAPT_F32 */
  rapt_type kv_type;  /**< of k and v; 0: q_type. For blocks and RAPT_I4 see v_type */
  rapt_type out_type; /**< of out; 0: q_type */
  int arithmetic;     /**< one of rapt_arithmetic; 0: what the types say */

  /** Scales of RAPT_I8 and RAPT_I4 keys, [batch][kv_heads][kv_len][scale groups]: element d of key j is
   * k[j][d] times the scale of d's group. Pages, offsets and lengths are those of k and v. The strides of
   * scales are those of k and v divided by the elements per scale, of which they must be multiples. (If v is
   * k, its rows may be longer than v_dim. Without a scale_group, its strides are then divided by qk_dim.)
   * Packed keys have a row of scales per token. */
  const float *k_scales;
  const float *v_scales; /**< scales of RAPT_I8 and RAPT_I4 values, as k_scales */
  size_t scale_group;    /**< 32, 64 or 128 elements of a head per scale; 0: all */

  /* The shape. q [batch][q_heads][q_len][qk_dim], k [batch][kv_heads][kv_len][qk_dim],
   * v [batch][kv_heads][kv_len][v_dim], out [batch][q_heads][q_len][v_dim], in any order of the first three
   * dimensions. k and v may share memory. */
  size_t batch;           /**< sequences; not 0 */
  size_t q_heads;         /**< heads of q and out; not 0 */
  size_t kv_heads;        /**< heads of k and v; divides q_heads; 0: as q_heads */
  size_t q_len;           /**< queries of a sequence */
  size_t kv_len;          /**< keys of a sequence */
  size_t qk_dim;          /**< elements of a query and a key; not 0 */
  size_t v_dim;           /**< elements of a value and an output; 0: as qk_dim */
  rapt_strides q_strides; /**< of q; all 0: contiguous, in the order above. So are those of k, v and out */
  /** Of k. With few queries, calls are faster if the tokens of a head follow each other in k and v. A token stride
   * that is a multiple of 2 KB is slow; pad it by 16 elements. */
  rapt_strides k_strides;
  rapt_strides v_strides;   /**< of v, like k_strides */
  rapt_strides out_strides; /**< of out */

  /* The scores. Their arrays are of the arithmetic type: float, or double for f64. */
  double scale;                     /**< of q.k; 0: 1/sqrt(qk_dim) */
  const void *query_scales;         /**< [batch][q_heads][q_len], a factor per query; or null */
  rapt_strides query_scale_strides; /**< of query_scales; all 0: contiguous */
  double softcap;                   /**< s = softcap * tanh(s / softcap); 0: off */
  const void *alibi_slopes;  /**< [q_heads], times j - p, the distance to the query's position; or null */
  const void *bias;          /**< [batch][q_heads][q_len][kv_len], keys contiguous; or null. See bias_type */
  rapt_strides bias_strides; /**< of bias; all 0: contiguous; RAPT_REPEAT broadcasts */
  const void *sinks;         /**< [q_heads], a logit that joins only the sum; or null */

  /* Visibility. Which keys a query sees. */
  int causal;              /**< one of rapt_causal; 0: no causality */
  ptrdiff_t causal_offset; /**< only with RAPT_CAUSAL_OFFSET: query i sees the keys <= i + causal_offset */
  /** 0: no limit; w: the w keys that end at the query's position, its own included (a model's sliding_window).
   * FlashInfer's window_left of w shows one key more and is w + 1 here; its -1, no window, is 0 here. */
  size_t window_left;
  size_t window_right; /**< 0: no limit; w: the w keys that begin at the query's position, its own included */
  size_t window_chunk; /**< 0: off; w: the keys of the position's chunk of w keys (Llama 4's) */
  const uint8_t *mask; /**< [batch][q_heads][q_len][kv_len], keys contiguous; 0 excludes; or null */
  rapt_strides mask_strides; /**< of mask; all 0: contiguous; RAPT_REPEAT broadcasts */

  /* Sequences of different lengths. q_len and kv_len are then upper bounds of the lengths. A call reads k, v,
   * bias and mask only up to a sequence's length. Packed sequences are stored end to end: sequence b has the
   * tokens from offsets[b] to offsets[b + 1] - 1, and its tensors have no batch stride. */
  const int32_t *kv_lengths; /**< [batch], keys of each sequence, past which nothing is read; or null */
  const int32_t *q_offsets;  /**< [batch + 1], of sequences end to end in q and out; or null */
  const int32_t *kv_offsets; /**< [batch + 1], of sequences end to end in k and v; or null */

  /* Pages and packed keys. */
  /** [batch][block_table_stride] numbers of pages, or null. Token t of sequence b is token t % page_size of page
   * block_table[b * block_table_stride + t / page_size]. The batch stride of k and v then leads from page to
   * page. */
  const int32_t *block_table;
  size_t block_table_stride; /**< numbers of pages per sequence; 0: as many as kv_len needs */
  size_t
      page_size; /**< tokens of a page; only with block_table. Pages of a multiple of 16 are read in place */
  int packed_keys; /**< not 0: k has the layout of rapt_attention_pack_keys, and no token stride */

  /* The log-sum-exp. It is of the arithmetic type. */
  void *lse; /**< output: [batch][q_heads][q_len] (with q_offsets [q_heads][tokens]); or null */
  rapt_strides lse_strides; /**< of lse; all 0: contiguous */

  /* Left padding, as in batches of prompts that end together. */
  /** [batch], the first key of each sequence, at most its length; or null. Nothing of k, v, their scales, bias, mask
   * or block_table is read before it. Only where arrays must not overlap does the memory of padding count as read. In
   * pages it is a multiple of 16, and with packed_keys of 64. It goes neither with kv_offsets nor with key_lists. */
  const int32_t *kv_starts;
  /** [batch], the first query of each sequence, at most q_len; or null. A query before it sees nothing: its out is 0
   * and its log-sum-exp -inf, or the sink. It moves no position. It does not go with q_offsets. */
  const int32_t *q_starts;

  /* Lists of keys, for caches whose tokens lie in any order, and for queries that see a few keys of many: top-k and
   * block-sparse attention, trees of drafts. */
  /** [batch][kv_heads][lists][kv_len] numbers of tokens in k and v, entries contiguous; or null. k and v then have
   * cache_len tokens in place of kv_len. Key j of the formulas above is entry j of a list, so that a row has the bits
   * of the listed keys laid end to end. -1 is an entry without a key: no query sees it, and the entries after it keep
   * their places. A token may be listed any number of times. Every call checks the entries that its tasks read. Lists
   * go with neither kv_offsets, kv_starts, block_table nor packed_keys. */
  const int32_t *key_lists;
  rapt_strides
      key_list_strides; /**< of key_lists: batch, head and list; all 0: contiguous; RAPT_REPEAT shares lists */
  /** 0: one list for all queries of a sequence; n: queries n * l to n * l + n - 1 of a sequence have list l, and there
   * are q_len / n lists, rounded up. It goes with no causality, window or slope, which count from a query's
   * position. */
  size_t queries_per_list;
  /** [batch][kv_heads][lists], entries of each list, at most kv_len, past which nothing of it is read; or null. It does
   * not go with kv_lengths, causality, windows or slopes. */
  const int32_t *key_list_lengths;
  rapt_strides
      key_list_length_strides; /**< of key_list_lengths; all 0: contiguous; RAPT_REPEAT shares lengths */
  size_t cache_len;            /**< with key_lists: tokens of k and v; not 0 unless kv_len is 0 */

  /* Caches in blocks, of 4 bits, and of two types. */
  /** Of v; 0: kv_type. kv_type and v_type may be RAPT_F32, RAPT_F16, RAPT_BF16 and the types from RAPT_Q8_0 to
   * RAPT_NVFP4, in any combination, as caches of llama.cpp are (-ctk, -ctv). Blocks have their scales in them. A row is
   * then qk_dim / n (v_dim / n) blocks of n numbers, the strides of such a tensor count bytes, and all 0 is rows
   * without gaps. RAPT_I4 goes with all of these types, too, has its scales in k_scales (v_scales), and is what
   * rapt_quantize_rows() makes: a byte has elements 2 i and 2 i + 1, the first in its low half, a row is a multiple
   * of 32 elements, and strides count elements. Results have the bits of a call with k and v of RAPT_F32 that
   * rapt_dequantize_rows() made of them. Pages, lists and offsets may be used, packed_keys are refused. */
  rapt_type v_type;

  /* A bias of 16 bits, and a factor for each head, as masks of engines with ALiBi have. */
  rapt_type bias_type; /**< of bias: RAPT_F16 or RAPT_BF16, not with f64; 0: the arithmetic type */
  /** [q_heads] of the arithmetic type, or null: what is added in head h is bias * bias_slopes[h], rounded to that type.
   * A product of -inf excludes its key. */
  const void *bias_slopes;
} rapt_attention_options;

/** One sequence, one head; everything else zero. */
#define RAPT_ATTENTION_OPTIONS_INIT                                                                         \
  {                                                                                                         \
    sizeof(rapt_attention_options), RAPT_TYPE_DEFAULT, RAPT_TYPE_DEFAULT, RAPT_TYPE_DEFAULT, 0, NULL, NULL, \
        0, /* shape */ 1, 1, 0, 0, 0, 0, 0, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, /* scores */ 0.0,   \
        NULL, {0, 0, 0}, 0.0, NULL, NULL, {0, 0, 0}, NULL, /* visibility */ 0, 0, 0, 0, 0, NULL, {0, 0, 0}, \
        /* lengths */ NULL, NULL, NULL, NULL, 0, 0, 0, /* lse */ NULL, {0, 0, 0}, /* padding */ NULL, NULL, \
        /* lists of keys */ NULL, {0, 0, 0}, 0, NULL, {0, 0, 0}, 0, /* types */ RAPT_TYPE_DEFAULT,          \
        RAPT_TYPE_DEFAULT, NULL                                                                             \
  }

/** Computes softmax(scale * Q.K^T) . V, with the options above. The matrix of scores is never held in memory.
 *
 * Workspace: rapt_attention_workspace bytes, of any alignment. Calls that run at once need one each. Its size
 * depends only on types and dimensions of the heads. It is e * (64 * qk_dim + 128 * v_dim + 8192) + 64 bytes,
 * where e is 4 for f32 and 8 for f64. Keys and values of 16 bits take 256 * (qk_dim + v_dim) + 128 bytes
 * more. RAPT_I8 and RAPT_ARITHMETIC_BF16 need room for packed keys and values: below 1 MB for heads of 128.
 * key_lists, and pages of no multiple of 16 tokens, need room for 64 keys and values and one row more: up to
 * e * (64 * (qk_dim + v_dim) + the larger of both) + 384 bytes. Keys and values in blocks, of RAPT_I4, or of two types,
 * take 256 * (qk_dim + v_dim) + 12032 bytes more at most.
 *
 * Aliasing: out may be exactly q, with the same strides and v_dim = qk_dim. It must overlap nothing else, and
 * the workspace nothing at all (RAPT_BAD_WORKSPACE).
 *
 * Special values, besides those above:
 * ~~~
 *   a key that is not visible, its value           never read into a result, NaN and infinities included
 *   a row with nothing visible                     out 0, log-sum-exp -inf (with a sink, the sink); NaN with
 *                                                  a sink of NaN
 *   a visible score of -inf                        weight 0
 *   a row whose visible scores are all -inf        the same as a row with nothing visible
 *   NaN or +inf among the visible scores           the row is NaN
 *   a query scale of 0, where t is infinite        the score is NaN with a softcap, or where q or k has an
 *                                                  infinity, and otherwise 0
 *   a sink of NaN, +inf, or finite and above       the row is NaN, if something is visible
 *   the type's largest number / log2(e)
 *   a weight below 2^-125 of the row's largest     0 (f64: 2^-1021; in bf16 arithmetic 2^-64)
 *   an output of 0                                 +0, never -0
 * ~~~
 * The log-sum-exp of a single visible key is its score: the product f * m of rapt_attention_partial_tasks() in
 * double, rounded once.
 *
 * Values are summed with weights relative to the row's largest, before the division by the sum of weights. A
 * sum beyond the type's range makes the output infinite, or NaN. Values below the largest number / kv_len
 * have no such sum.
 *
 * Accuracy, where nothing overflows. S is the largest sum over d of |scale * q[d] * k[d]|, plus |alibi| and
 * |bias|, over the visible j. It includes the query's own scale. A softcap adds 12 (f64: 16) to qk_dim below.
 * V is the largest visible |v|. For any input, up to 2^30 keys:
 * ~~~
 *   out: |error| <= (min(kv_len, 512) + kv_len / 64 + 64 + (qk_dim + 9) * S) * u * V + F * V + G
 *   lse: |error| <= (kv_len / 64 + 96 + (qk_dim + 9) * S + 2 * |lse|) * u + F
 * ~~~
 * Measured on random data, for kv_len <= 5000:
 * ~~~
 *   out: |error| <= (32 + (qk_dim + 8) * S) * u * V + F * V + G
 *   lse: |error| <= (16 + (qk_dim + 8) * S + |lse|) * u + F, without a sink
 * ~~~
 * F and G are the losses of scores and values by underflow; F includes the query's own scale:
 * ~~~
 *   F = |scale| * qk_dim * 2^-149 (f64: 2^-1074), G = kv_len * 2^-149 (f64: 2^-1074).
 * ~~~
 * RAPT_ARITHMETIC_BF16 adds (2^-7 + 2^-12) * V to out's error, and 2^-8 + 2^-13 to that of lse. Its F is
 * |scale| * qk_dim * 2^-125 and its G kv_len * 2^-117. Subnormal elements of q and k count as 0, also in the
 * exact result that defines the error.
 * RAPT_I8 adds (exp(K / 32500) - 1) * V and 1/8 of the largest visible |v_scale| to out's error, and
 * K / 65000 to that of lse. Its G is kv_len * 2^-93.
 * K, of RAPT_I8 keys, is the largest sum over d of |scale * k[d]| * max |q|. The maximum is over a scale group,
 * and at least 2^-84. On ordinary data the error is 1e-4 of an output. The error from
 * rounding keys and values to int8 is a hundred times as large.
 *
 * With RAPT_I8, queries become integers of 16 bits, and so do the products of weights and v_scale in each
 * block of 64 keys. Their products with keys and values are summed exactly. Special values:
 *
 * ~~~
 *   a visible key with a scale of NaN              the row is NaN
 *   a visible key with an infinite scale           a score of that sign; NaN where the integers sum up to 0
 *   NaN or infinity in a query                     the row is NaN
 *   a query's scale group below 2^-100             counts as 0
 *   a value whose weight is 0                      adds nothing, whatever its scale is
 *   a block with a weight times v_scale of NaN     that scale group of the row is NaN
 *   or infinity
 *   a block's scale group with all of them         adds nothing
 *   below 2^-100
 * ~~~
 *
 * Order of the operations, on every instruction set:
 *   - a score is one chain of fused multiply-adds over the dimension;
 *   - keys form blocks of 64, counted from the sequence's first, which is its start;
 *   - weights are relative to the largest score of the blocks so far;
 *   - the weights of a block are summed by halves, its values in key order;
 *   - every 512 keys begin a new partial result, and partial results are folded from left to right.
 *
 * RAPT_ARITHMETIC_BF16 differs in this:
 *   - a score adds groups of 32 dimensions, and a value groups of 32 keys. The even and the odd terms of a
 *     group are a chain each. The sum of both chains is added to the result;
 *   - a weight is rounded to bf16, and is 0 below 2^-64 of its reference;
 *   - the reference is the largest score of a chunk's first block with a visible key. It moves to the largest
 *     score of a later block if that score's weight would be 2^8 or more.
 *
 * The order does not depend on the number of queries, heads, sequences or tasks. So a token decoded alone has
 * the bits that it has in a prefill. */
RAPT_API rapt_status rapt_attention(const void *q, const void *k, const void *v, void *out,
                                    const rapt_attention_options *options, void *workspace,
                                    size_t workspace_size);

/** Stores the bytes of workspace per call. Neither this function nor the others that count read an array of
 * the options. */
RAPT_API rapt_status rapt_attention_workspace(const rapt_attention_options *options, size_t *bytes);

/** These functions do the same work as numbered tasks, for any pool of threads: run(first, last) does tasks
 * first to last - 1. Every task writes different rows, and every split gives the same bits. A task is up to
 * 64 rows, one per token and query head of a key/value head. The tasks of a sequence follow each other. */
RAPT_API rapt_status rapt_attention_tasks(const rapt_attention_options *options, size_t *tasks);
/** Computes the tasks first to last - 1 of rapt_attention_tasks(). */
RAPT_API rapt_status rapt_attention_run(const void *q, const void *k, const void *v, void *out,
                                        const rapt_attention_options *options, size_t first, size_t last,
                                        void *workspace, size_t workspace_size);

/** Split keys, for few queries over many keys. Chunks of 512 keys may run anywhere, and the merge gives the
 * bits of the unsplit call. partial_tasks counts the tasks: those of chunk c go from c * rapt_attention_tasks
 * to (c + 1) * rapt_attention_tasks - 1. They read keys, values, bias and mask only of their chunk, and
 * write only its partial results. partials must overlap nothing.
 *
 * Partial results may be stored, or sent to another machine. Libraries of the same rapt_bits_version merge
 * each other's. partials holds [batch][q_heads][q_len][chunks][v_dim + 2] numbers without gaps, whatever the
 * strides of q. chunks is kv_len / 512, rounded up. The numbers are of the arithmetic type, an IEEE binary32
 * or binary64 in the machine's byte order. Chunk c has the keys 512 * c to 512 * c + 511 of each sequence,
 * counted from its start, except those that a row does not see. With q_offsets, q_len counts tokens from the
 * sequence's first; the rows that a sequence lacks are neither written nor read.
 * ~~~
 *   number 0      m, the largest score; -inf if there is none
 *   number 1      the sum of weights exp(f * (score - m))
 *   number 2 + d  the sum of weights times value d
 * ~~~
 *   - f and score: f is |scale|, which includes the query's own. score is (q * (scale / f)) . k, with
 *     fma(alibi_slope / f, j - p, score) and fma(bias, 1 / f, score), each quotient rounded once from double. So f * score
 *     is the finished score. The exponent of f is limited to -64 ... 125 (f64: 1021), so that scale / f is +-1 or
 *     another power of two; a scale of 0 has an f of 2^-64. With a softcap, score is the finished score, and f is 1.
 *   - RAPT_ARITHMETIC_BF16: m is the last reference of the weights, as described above. A larger score has a
 *     weight of up to 2^8. Weights have been rounded to bf16, and the numbers are those of f32.
 *   - RAPT_I8: q.k and values include k_scales and v_scales.
 *   - m ignores NaN, which the sum shows. A chunk without a visible key is -inf, then zeros. No zero is
 *     negative.
 *
 * The merge of a row folds its chunks in order. It starts from M = -inf and zeros in S and V[d]:
 * ~~~
 *   top = max(M, m), r = top, or 0 where top is -inf, a = w(M - r), b = w(m - r)
 *   S = fma(number 1, b, S * a), V[d] = fma(number 2 + d, b, V[d] * a), M = top
 * ~~~
 * w(x) is 2^(x * t) by the polynomial of the numeric contract (src/contract/attention.hpp), where t is
 * f * log2(e), rounded once from double. It is 0 for x <= -125 / t (f64: -1021 / t), and NaN for NaN. Then
 * ~~~
 *   out[d] = V[d] * (1 / S) + 0, lse = f * M + log(S)
 * ~~~
 * lse is computed in double, with the contract's log, and rounded once; where it is not finite it is NaN. If
 * M is -inf and S is 0, out is 0 (NaN with a sink of NaN), and lse is the sink, or -inf. A sink is taken in
 * after the last chunk:
 * ~~~
 *   y = sink * log2(e), rounded once from double, top = max(M * t, y), g = w1(M * t - top)
 *   S = fma(S, g, w1(y - top)), out[d] = V[d] * (g / S) + 0, lse = (y > M * t ? sink : f * M) + log(S)
 * ~~~
 * where w1 is w for t = 1. In RAPT_ARITHMETIC_BF16, the weight of the score M itself is not 1 if M * t is so
 * large that its rounding shows (src/contract/bf16_arithmetic.hpp). If S is this weight, lse is f * M. The merge
 * needs the options of the partial calls, and reads no q, k, v, mask or element of bias. */
RAPT_API rapt_status rapt_attention_partial_tasks(const rapt_attention_options *options, size_t *tasks,
                                                  size_t *partials_length);
/** Computes the tasks first to last - 1 of rapt_attention_partial_tasks(), and writes their partial results. */
RAPT_API rapt_status rapt_attention_partial(const void *q, const void *k, const void *v, void *partials,
                                            const rapt_attention_options *options, size_t first, size_t last,
                                            void *workspace, size_t workspace_size);
/** Folds the partial results of each row into out and lse. rapt_attention_tasks() counts the tasks of the merge. */
RAPT_API rapt_status rapt_attention_merge(const void *partials, void *out,
                                          const rapt_attention_options *options, size_t first, size_t last,
                                          void *workspace, size_t workspace_size);

/** Packed keys, for caches that are read many times: key t, dimension d of one head is stored at
 * ~~~
 *   packed[(t / 64) * 64 * qk_dim + d * 64 + t % 64],
 * ~~~
 * in (tokens + 63) / 64 * 64 * qk_dim elements. pack_keys writes the keys first .. first + tokens - 1 of a
 * head to their places. The other keys of a block may hold anything. token_stride separates the rows of k (0:
 * qk_dim; RAPT_REPEAT: one row for all). Of the options, kv_type and qk_dim apply. packed must not overlap
 * k. */
RAPT_API rapt_status rapt_attention_pack_keys(const void *k, ptrdiff_t token_stride, size_t first,
                                              size_t tokens, const rapt_attention_options *options,
                                              void *packed);

/** \} */

/* ---- attention backwards ------------------------------------------------------------------------------ */
/** \defgroup attention_backwards Attention backwards
 * \{ */

/** Holds the inputs and outputs other than q, k, v and the options of the forward call. out and dout have
 * out_type. Set size, or start from RAPT_ATTENTION_GRADIENTS_INIT. */
typedef struct rapt_attention_gradients {
  size_t size;               /**< sizeof(rapt_attention_gradients) */
  const void *out;           /**< the forward call's output, with options->out_strides */
  const void *dout;          /**< the gradient of out, in its shape */
  void *dq;                  /**< in the shape of q */
  void *dk;                  /**< in the shape of k */
  void *dv;                  /**< in the shape of v */
  rapt_strides dout_strides; /**< of dout */
  rapt_strides dq_strides;   /**< of dq */
  rapt_strides dk_strides;   /**< of dk */
  rapt_strides dv_strides;   /**< of dv */
  /** With options->bias_strides; summed where they repeat an element; or null. Not with bias_slopes, or with a bias of
   * 16 bits. */
  void *dbias;
  void *dsinks; /**< [q_heads], or null */
  /** The type of dq, dk and dv. RAPT_F32 gives f32 where the inputs have 16 bits. RAPT_TYPE_DEFAULT gives
   * q_type for dq, and kv_type for dk and dv. dbias and dsinks have the arithmetic type. */
  rapt_type type;
} rapt_attention_gradients;

/** Everything else zero. */
#define RAPT_ATTENTION_GRADIENTS_INIT                                                                \
  {                                                                                                  \
    sizeof(rapt_attention_gradients), NULL, NULL, NULL, NULL, NULL, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, \
        {0, 0, 0}, NULL, NULL, RAPT_TYPE_DEFAULT                                                     \
  }

/** Computes the gradients of a rapt_attention call with the same options, whose `lse` that call has filled.
 * Every element of a gradient is written: a key that no query sees has 0, padding included. The matrix of
 * scores is never held in memory, but computed again tile by tile. Pages are RAPT_BAD_BLOCK_TABLE, and packed
 * keys are RAPT_BAD_PACKED_KEYS.
 *
 * Elements of 16 bits are widened. The result is the f32 gradient of the widened q, k, v, out and dout. Where the
 * gradient has 16 bits, each element is rounded once: a negative one too small for f16 becomes -0.
 *
 * ~~~
 *   w[i][j] = exp(s[i][j] - lse[i])             D[i] = dout[i] . out[i]
 *   ds[i][j] = w[i][j] * (dout[i] . v[j] - D[i])
 *   dv[j] = sum over i of w[i][j] * dout[i]     dbias[i][j] = ds[i][j]
 *   dq[i] = sum over j of g[i][j] * k[j]        dsinks[h] = - sum over i of exp(sinks[h] - lse[i]) * D[i]
 *   dk[j] = sum over i of g[i][j] * q[i]        g = ds * scale * query_scales (times 1 - tanh^2 of a softcap)
 * ~~~
 *
 * Aliasing: gradients overlap nothing.
 *
 * Special values:
 * ~~~
 *   a row with nothing visible                     dq 0; it adds to no other gradient (but dsinks is NaN if
 *                                                  its dout is not finite)
 *   a weight of 0 (excluded, or below 2^-125)      ds 0, whatever the key, value and dout hold
 *   a sink's weight below 2^-125 (f64: 2^-1021)    0: the row adds nothing to dsinks
 *   a key or query that is not finite              adds nothing where the weight is 0
 *   a product or sum beyond the type's range       infinite, or NaN
 *   a weight                                       never above 1
 *   a gradient of 0                                +0, never -0
 * ~~~
 *
 * Accuracy: S and F are those of the forward call, and e[i] = 8 + |lse[i]| + (qk_dim + 8) * S. D is the
 * largest visible |v| times the sum of |dout[i]|, and z is 2^-149 (f64: 2^-1074).
 * ~~~
 *   weights: |error| <= (e[i] * u + F) * w[i][j], or w[i][j] where it is below 2^-125 (f64: 2^-1021)
 *   ds:      |error| <= D * (that of the weight + v_dim * u * w[i][j]) + (v_dim + 1) * z
 * ~~~
 * A gradient is a sum of n terms. Its error is at most the errors of the terms, plus n * u times the sum of their
 * magnitudes, plus z for each term. In dq it is (|k| + 1) * z for each term, and in dk (|q| + 1) * z.
 * Weights, and these bounds, are relative to the given lse. The lse of RAPT_ARITHMETIC_BF16 is off by up to
 * 2^-8 + 2^-13. All weights of a row then have this relative error, which is thousands of u. Training needs a
 * forward call in RAPT_ARITHMETIC_F32.
 *
 * Order of the operations: a dot product is one chain of fused multiply-adds over the dimension. A sum over
 * keys is one chain in key order. A sum over queries is one chain token by token, and within a token head by
 * head. dsinks adds up the sequences in order. The order does not depend on tasks, batch or instruction set.
 *
 * Tasks: run(first, last) does tasks first to last - 1. Every task writes different elements, and every
 * split gives the same bits. A task writes dq for a part of the rows of its heads, and dk, dv and dbias for a
 * part of their keys. A head's first task writes its dsinks. The heads are one key/value head of one
 * sequence, or all heads and sequences that add to one element of dbias. They are divided into as many parts
 * as make 64 tasks, but at most one per 64 keys and per 64 rows. With kv_starts, sequences that share dbias are one
 * task. One run of all tasks of a head computes 5 matrix products, two equal runs 6 in total, and single tasks up to 7.
 * So give each thread one run: tasks * thread / threads to tasks * (thread + 1) / threads. */
RAPT_API rapt_status rapt_attention_backward(const void *q, const void *k, const void *v,
                                             const rapt_attention_options *options,
                                             const rapt_attention_gradients *gradients, void *workspace,
                                             size_t workspace_size);
/** Computes the tasks first to last - 1 of rapt_attention_backward_tasks(). */
RAPT_API rapt_status rapt_attention_backward_run(const void *q, const void *k, const void *v,
                                                 const rapt_attention_options *options,
                                                 const rapt_attention_gradients *gradients, size_t first,
                                                 size_t last, void *workspace, size_t workspace_size);
/** Stores the number of tasks of a gradient. */
RAPT_API rapt_status rapt_attention_backward_tasks(const rapt_attention_options *options,
                                                   const rapt_attention_gradients *gradients, size_t *tasks);
/** Stores the size of the workspace in *bytes. It is e * (128 * qk_dim + 128 * v_dim + 12800) + 64, where e is
 * 8 for f64 and otherwise 4. If q, k, v or out has a type of 16 bits, the workspace also holds sums over the
 * rows in f32. Then *bytes is larger by e * ((128 + kv_len) * (qk_dim + v_dim) + 64). */
RAPT_API rapt_status rapt_attention_backward_workspace(const rapt_attention_options *options, size_t *bytes);

/** \} */

/* ---- linear layers ------------------------------------------------------------------------------------ */
/** \defgroup linear_layers Linear layers
 * \{ */

/** The strides of a matrix, in elements. {0, 0} is contiguous. Otherwise a dimension longer than 1 needs its
 * stride: 0 is an error there, and RAPT_REPEAT repeats an input along the dimension. */
typedef struct rapt_matrix_strides {
  ptrdiff_t row;    /**< from one row to the next */
  ptrdiff_t column; /**< from one column to the next */
} rapt_matrix_strides;

/** A linear layer: y = x W^T + bias, with w [out_features][in_features] as in torch.nn.functional.linear.
 *
 * The types. x, w and y may each be f32, f16 or bf16; f64 goes only with f64. Elements of 16 bits are
 * widened, which is exact. The result is rounded once to the type of y. w may also be quantized, see below.
 *
 * One output. Its inputs are summed in groups of 512, in order:
 *
 * ~~~
 *   t = 0
 *   for each group:  p = 0;  for each input k of the group:  p = fma(x[k], w[k], p)
 *                    t = t + p
 *   t = t + 0
 *   t = t * output_scale, t + bias, t * row_scale, t + add; each is rounded, and each is left out if it is not given
 * ~~~
 *
 * In RAPT_ARITHMETIC_BF16, the default where x and w are bf16, a group has 32 inputs. p is the sum of a chain
 * over its even inputs and one over its odd inputs, as AMX multiplies. Up to t + p, subnormal operands count
 * as 0, and results that are tiny after rounding become 0. RAPT_ARITHMETIC_F32 is the other choice, and the
 * only one of other types.
 *
 * So up to 512 inputs the sum of F32 is one chain. t is never -0 after t + 0. rapt_dot() and rapt_dot_rows() add in
 * another order and have other bits of the same products: use one of the two for queries alone and in batches.
 * Nothing else changes a bit:
 * not the number of rows, not the tasks, not packing, not the instruction set. A row alone has the bits that
 * it has in a batch.
 *
 * Quantized weights. w has RAPT_I8, RAPT_I4, RAPT_U4 or RAPT_U8. Input k of an output is the number
 * scale * (q[k] - zero), where q[k] is the integer in w. Two 4-bit integers share a byte: byte j of a row has
 * input 2j in its low half and 2j + 1 in its high half. If in_features is odd, the last high half is not
 * looked at. w_strides then are {bytes, 1}; {0, 0} is rows of (in_features + 1) / 2 bytes. Scales, zeros and
 * offsets are contiguous [out_features][groups]: one for each scale_group inputs, the last of which may be
 * fewer. If scale_group is 0, there is one for the whole row, and the sum has groups of 512. The lines of a
 * group are
 *
 * ~~~
 *   F32:  p = 0;  for each input k of the group:  p = fma(x[k], q[k] - zero, p)
 *   I8:   p = float(sum of xq[k] * (q[k] - zero)) * xs, where the sum is exact
 *         t = fma(scale, p, t)
 *         t = fma(sx, offset, t), only with w_offsets
 * ~~~
 *
 * sx is the sum of the group's x, added in order from 0; in I8 it is float(sum of xq[k]) * xs. With
 * w_codebook, the number of input k is scale * w_codebook[q[k]]: a line has w_codebook[q[k]] in place of
 * q[k] - zero. In I8 all 16 numbers must be integers from -128 to 127, else the call and rapt_linear_pack() are
 * RAPT_BAD_W_CODEBOOK.
 *
 * In RAPT_ARITHMETIC_F32, the default, x has f32, f16 or bf16. In RAPT_ARITHMETIC_I8, x is first rounded to
 * the integers xq[k] and scales xs that rapt_quantize_rows gives for RAPT_I8 and groups of x_group inputs. x
 * may also have RAPT_I8 and x_scales: it is that function's result, whose arithmetic is I8.
 *
 * Numbers of 8 bits. w may have RAPT_F8_E4M3 or RAPT_F8_E5M2, OCP's formats as safetensors have them. Input k of an
 * output is the number scale * f8(q[k]), where q[k] is the byte in w, and a line has f8(q[k]), which is exact in f32,
 * in place of q[k] - zero:
 *
 * ~~~
 *   type      sign, exponent, mantissa   bias   largest   smallest   NaN; infinite
 *   F8_E4M3   1, 4, 3 bits               7      448       2^-9       0x7f, 0xff; none
 *   F8_E5M2   1, 5, 2 bits               15     57344     2^-16      0x7d to 0x7f, 0xfd to 0xff; 0x7c, 0xfc
 * ~~~
 *
 * They have no zeros and no codebook, and no arithmetic but F32: RAPT_ARITHMETIC_I8, and x of RAPT_I8, are
 * RAPT_BAD_ARITHMETIC.
 *
 * Outputs that share scales. With outputs_per_scale of 128, outputs 128 j to 128 j + 127 of the layer have row j of
 * w_scales, which is contiguous [(out_features + 127) / 128][groups]. With a scale_group of 128 that is a scale for
 * each block of 128 by 128. SIZE_MAX is one row for all outputs. Zeros and offsets stay [out_features][groups]. Results
 * have the bits that they have with each output's scales in an array. It goes with integers and numbers of 8 bits. For
 * other weights, without w_scales, or with another number, it is RAPT_BAD_W_SCALES.
 *
 * Blocks of files. w may have a type from RAPT_Q8_0 to RAPT_NVFP4. Then a row of w is in_features / n blocks of n
 * inputs, as they lie in a GGUF file, and w_strides are {bytes, 1}; {0, 0} is rows without gaps. rapt_linear_pack()
 * takes them as they are, and rapt_linear_unpack() gives the same bytes back. Only packed ones are multiplied: else
 * they are RAPT_BAD_TYPE. Blocks have their scales and offsets in them. d and m are the block's numbers of f16, and s
 * and b its integers; products are exact in f32:
 *
 * ~~~
 *   type                  n    scale_group   scale   zero          offset
 *   Q8_0, Q4_0, Q5_0      32   32            d       0, 8, 16
 *   Q4_1, Q5_1            32   32            d       0             m
 *   Q4_K, Q5_K            256  32            d s     0             -(m b)
 *   Q6_K                  256  16            d s     32
 *   Q2_K                  256  16            d s     0             -(m b)
 *   Q3_K                  256  16            d s     4
 *   IQ4_NL                32   32            d       codebook A
 *   IQ4_XS                256  32            d s     codebook A
 *   MXFP4                 32   32            e       codebook B
 *   NVFP4                 64   16            e       codebook B
 * ~~~
 *
 * Codebook A is -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113. Codebook B is 0 1 2 3 4 6 8 12 and 0 -1 -2
 * -3
 * -4 -6 -8 -12: the numbers of E2M1, doubled, without -0. So e is half of a scale. In MXFP4 it is 2^(byte - 128), for 255
 * too. In NVFP4 it is half of the number of UE4M3 in the low 7 bits of the byte, and 0 if the byte is 127.
 *
 * in_features must be a multiple of n, else it is RAPT_BAD_SHAPE. scale_group is as in the table, or 0, which means the
 * same. In RAPT_ARITHMETIC_I8, x_group of 0 is 32. An output has the bits that it has with the same integers, scales
 * and offsets in arrays. Packed blocks take at most 1.03 times the bytes of the file, and Q3_K 1.04 times.
 *
 * Gradients are linear layers too, with other strides. With g the gradient of y, [rows][out_features]:
 * ~~~
 *   of x     x = g, w = W with w_strides {1, in_features}: in_features outputs of out_features inputs
 *   of W     x = g with x_strides {1, out_features}, w = x with w_strides {1, in_features}: rows inputs
 *   of bias  x = a row of ones, w = g with w_strides {1, out_features}
 * ~~~
 *
 * Special values. Rows and outputs do not mix: a NaN or infinity of a row or of a weight touches only its own
 * row or output. Products of 0 and infinity are NaN.
 *
 * Accuracy. |error of t| <= (512 + in_features / 512 + 4) u S + in_features 2^-149 (f64: 2^-1074) if nothing
 * overflows, where S is the sum of |x[k] w[k]|. In BF16, without subnormal operands, it is
 * (18 + in_features / 32 + 4) u S + (in_features + in_features / 32 + 64) 2^-126. The output scale, the bias, the row
 * scale, add and the type of y add one rounding each. With quantized weights and N groups of G inputs the error is
 * at most
 *
 * ~~~
 *   F32  (G + 2 N + 4) u S + (in_features + 2 N) (1 + z) 2^-149
 *   I8   (2 N + 6) u S + 2 N (1 + z) 2^-149, relative to the exact sum over xq[k] * xs
 * ~~~
 *
 * where S also has the magnitudes of the offsets' terms, and z is the largest |scale| or |offset|.
 *
 * Measured on random floats, up to 65536 inputs: 20 u S (BF16: 25 u S). Rounding numbers to integers costs
 * far more. The table has the rms error of y relative to the rms of y. x and w are 4096 normal numbers, w was
 * rounded by rapt_quantize_rows, and x_group is 0.
 *
 * ~~~
 *   scale_group   i8 in F32   i8 in I8   i4 in F32 or I8
 *   32            5.5e-3      7.7e-3     9.7e-2
 *   128           6.4e-3      9.1e-3     0.12
 *   0             8.5e-3      1.2e-2
 * ~~~
 */
typedef struct rapt_linear_options {
  size_t size; /**< sizeof(rapt_linear_options) */

  /* The types. */
  rapt_type x_type; /**< of x; 0: RAPT_F32 */
  rapt_type w_type; /**< of w; 0: x_type */
  rapt_type y_type; /**< of y; 0: x_type, or RAPT_F32 where that is RAPT_I8 */
  int arithmetic;   /**< one of rapt_arithmetic; 0: what the types say */

  /* The shape. x [rows][in_features], w [out_features][in_features], y [rows][out_features]. */
  size_t rows;                   /**< of x and y */
  size_t in_features;            /**< elements of a row of x; not 0 */
  size_t out_features;           /**< elements of a row of y */
  rapt_matrix_strides x_strides; /**< of rows and inputs; {0, 0}: contiguous */
  rapt_matrix_strides w_strides; /**< of outputs and inputs; {0, 0}: contiguous */
  ptrdiff_t y_stride;            /**< from one row of y to the next; 0: out_features; at least that */

  /** If not 0, w has the layout of rapt_linear_pack, and no strides. */
  int packed_w;

  /* What follows the sum. */
  const void *bias;       /**< [out_features] of the arithmetic type, or null */
  const void *row_scales; /**< [rows] of the arithmetic type, or null */
  const void *add;        /**< [rows][out_features], or null. It may be y, with y's type and stride */
  rapt_type add_type;     /**< of add; 0: y_type */
  ptrdiff_t add_stride;   /**< from one row of add to the next; 0: out_features; at least that */

  /* Lists of rows. They are the tokens of an expert, or the logits of chosen tokens. */
  /** [rows]: row r of the call is row x_rows[r] of x. Null: r. row_scales has its numbers by r. No row may be twice in
   * y_rows; this is not checked. */
  const size_t *x_rows;
  const size_t *y_rows; /**< [rows]: row r of the call is row y_rows[r] of y and add. Null: r */

  /* Quantized weights. These fields are null or 0 with float weights. */
  size_t
      scale_group; /**< 16, 32, 64, 128 or 256 inputs share a scale; 0: a row, in groups of 512, or the block's */
  const void
      *w_scales; /**< [out_features][groups] of w_scale_type; fewer rows by outputs_per_scale; null: 1 */
  /** [out_features][groups], each from 0 to 255: RAPT_U4 without codebook (null: 8), and RAPT_U8 (null: 128). RAPT_I8
   * and RAPT_I4 have the zero 0. */
  const uint8_t *w_zeros;
  const void *w_offsets;   /**< [out_features][groups] of w_scale_type, or null */
  rapt_type w_scale_type;  /**< of w_scales and w_offsets; 0: RAPT_F32 */
  const float *w_codebook; /**< [16] with RAPT_U4, or null; in I8, integers from -128 to 127 */

  /** RAPT_ARITHMETIC_I8. x_group inputs of x share a scale: a multiple of scale_group, or of 512 if that is 0,
   * or SIZE_MAX for the row. 0: as many as scale_group, or the row if that is 0; 32 with blocks of a file. */
  size_t x_group;
  /** x of RAPT_I8: [rows of x][groups of x_group]; row numbers as in x. Where x_strides repeats a row, its numbers
   * still count: every row has scales of its own. */
  const float *x_scales;

  /** 64, 128, 256 or SIZE_MAX (all) outputs share their w_scales; 0 or 1: each has its own. With packed_w, 0 is what
   * the packed weights say. */
  size_t outputs_per_scale;

  /** [out_features] of the arithmetic type, or null. They multiply the sum, before the bias: the scale of a tensor next
   * to those of groups, or of a channel. Packed weights do not carry them. */
  const void *output_scales;
} rapt_linear_options;

/** Everything else zero. */
#define RAPT_LINEAR_OPTIONS_INIT                                                                       \
  {                                                                                                    \
    sizeof(rapt_linear_options), RAPT_TYPE_DEFAULT, RAPT_TYPE_DEFAULT, RAPT_TYPE_DEFAULT, 0, 0, 0, 0,  \
        {0, 0}, {0, 0}, 0, 0, NULL, NULL, NULL, RAPT_TYPE_DEFAULT, 0, NULL, NULL, 0, NULL, NULL, NULL, \
        RAPT_TYPE_DEFAULT, NULL, 0, NULL, 0, NULL                                                      \
  }

/** Stores the bytes of workspace per call. */
RAPT_API rapt_status rapt_linear_workspace(const rapt_linear_options *options, size_t *bytes);
/** Computes y. It must overlap nothing but add. Of matrices with a list of rows only the listed rows count, and other
 * arrays may lie between them. The workspace has rapt_linear_workspace bytes, at any alignment, and overlaps nothing.
 * Calls with rows or out_features of 0 succeed, and look at no array. */
RAPT_API rapt_status rapt_linear(const void *x, const void *w, void *y, const rapt_linear_options *options,
                                 void *workspace, size_t workspace_size);

/** These functions do the same work as numbered tasks, for any pool of threads: run(first, last) does tasks
 * first to last - 1. Every task writes other elements of y, every thread needs a workspace, and every split
 * gives the same bits. Tasks that follow each other share rows of x, so give a thread a range of them. */
RAPT_API rapt_status rapt_linear_tasks(const rapt_linear_options *options, size_t *tasks);
/** Computes the tasks first to last - 1 of rapt_linear_tasks(). With y_rows, or with x_rows, it checks the overlap of
 * the rows of y that these tasks write. An empty run (first = last) checks all rows and writes nothing. */
RAPT_API rapt_status rapt_linear_run(const void *x, const void *w, void *y,
                                     const rapt_linear_options *options, size_t first, size_t last,
                                     void *workspace, size_t workspace_size);

/** The most dimensions of a batch of linear layers. */
#define RAPT_MAX_BATCH_DIMS 6

/** Many linear layers of one shape as one call: y[b] = x[b] W[b]^T + bias[b] for each index b of a batch of one or more
 * dimensions, as torch.bmm and matmul. The options of rapt_linear() describe one of them, and each has the bits of one
 * rapt_linear().
 *
 * A product of matrices x [rows][n] and v [n][columns] has w = v, in_features = n, out_features = columns and w_strides
 * {1, columns}. With g its gradient, [rows][columns], the gradients are calls with other strides:
 * ~~~
 *   of x   x = g, w = v with w_strides {columns, 1}: n outputs of `columns` inputs
 *   of v   x = x with x_strides {1, n}, w = g with w_strides {1, columns}: n rows, `columns` outputs of `rows` inputs
 * ~~~
 *
 * The strides of a batch are elements from one matrix to the next. If all of an array are 0, its matrices follow each
 * other without gaps, in row-major order of the batch; a matrix whose strides leave gaps needs those of the batch.
 * Otherwise every dimension longer than 1 needs a positive one, or RAPT_REPEAT: the same matrix for all indices of the
 * dimension. y does not repeat, and none of its elements may coincide.
 *
 * x, w, y and add have f32, f16 or bf16, or all f64. Packed weights are RAPT_BAD_PACKED, quantized ones RAPT_BAD_TYPE
 * (rapt_linear_experts() has both), x_rows and y_rows RAPT_BAD_ROWS. row_scales and output_scales are the same for
 * all. */
typedef struct rapt_linear_batch_options {
  size_t size;                                 /**< sizeof(rapt_linear_batch_options) */
  size_t dims;                                 /**< of the batch: 1 to RAPT_MAX_BATCH_DIMS */
  size_t shape[RAPT_MAX_BATCH_DIMS];           /**< the first dims entries count; 0: nothing to do */
  ptrdiff_t x_strides[RAPT_MAX_BATCH_DIMS];    /**< of x; all 0: contiguous */
  ptrdiff_t w_strides[RAPT_MAX_BATCH_DIMS];    /**< of w; all 0: contiguous */
  ptrdiff_t y_strides[RAPT_MAX_BATCH_DIMS];    /**< of y; all 0: contiguous */
  ptrdiff_t add_strides[RAPT_MAX_BATCH_DIMS];  /**< of add; all 0: contiguous. Only with add */
  ptrdiff_t bias_strides[RAPT_MAX_BATCH_DIMS]; /**< of bias; all 0: [batch][out_features]. Only with a bias */
} rapt_linear_batch_options;

/** Everything else zero. */
#define RAPT_LINEAR_BATCH_OPTIONS_INIT                                   \
  {                                                                      \
    sizeof(rapt_linear_batch_options), 0, {0}, {0}, {0}, {0}, {0}, { 0 } \
  }

/** Stores the bytes of workspace per call. */
RAPT_API rapt_status rapt_linear_batch_workspace(const rapt_linear_options *options,
                                                 const rapt_linear_batch_options *batch, size_t *bytes);
/** Computes all products. y must overlap nothing but add, which may be y with the same strides. The workspace has
 * rapt_linear_batch_workspace() bytes, at any alignment, and overlaps nothing. Calls without an element of y succeed,
 * and look at no array. */
RAPT_API rapt_status rapt_linear_batch(const void *x, const void *w, void *y,
                                       const rapt_linear_options *options,
                                       const rapt_linear_batch_options *batch, void *workspace,
                                       size_t workspace_size);
/** The tasks of all products as one list, without a barrier, as rapt_linear_tasks(). Where a dimension repeats w and
 * the bias, and x, y and add go on without gaps, its products are one layer with more rows. */
RAPT_API rapt_status rapt_linear_batch_tasks(const rapt_linear_options *options,
                                             const rapt_linear_batch_options *batch, size_t *tasks);
/** Computes the tasks first to last - 1 of rapt_linear_batch_tasks(). Every thread needs a workspace, and every split
 * gives the same bits. An empty run (first = last) checks the arguments and writes nothing. */
RAPT_API rapt_status rapt_linear_batch_run(const void *x, const void *w, void *y,
                                           const rapt_linear_options *options,
                                           const rapt_linear_batch_options *batch, size_t first, size_t last,
                                           void *workspace, size_t workspace_size);

/** Stores the bytes of the whole layer's packed weights. The arrays of quantized weights in the options must be those
 * for rapt_linear_pack(): a null pointer says that the layer has no such array. What the others point to is not looked
 * at. */
RAPT_API rapt_status rapt_linear_packed_length(const rapt_linear_options *options, size_t *bytes);
/** Packs weights for calls with packed_w, which are faster, most of all with few rows. packed has packed_size bytes,
 * at least rapt_linear_packed_length. They are the same on every instruction set, and may be stored. Parts may be
 * packed apart, such as the three matrices of q, k and v. Then w is a part's first output, and the part has the outputs
 * [first_output, first_output + outputs) of the layer. first_output must be a multiple of 64. A part also fills the
 * rest of its last 64 outputs with 0. The options are the layer's, with the strides of w; packed_w is not looked at.
 *
 * Packed quantized weights carry their scales, zeros, offsets and codebook, which the options of a call with
 * packed_w then must not give again. w_scales, w_zeros and w_offsets of a part begin with its first output, or with the
 * row of w_scales that this output shares.
 *
 * Packed weights begin with a header of 64 bytes, which the part with output 0 writes, and with it the codebook. Pack
 * that part first: it begins the layer. When its call has returned, the other parts may be packed in any order, at once
 * on several threads too. A part that gives other arrays, types or sizes than the header says, or another codebook, is
 * RAPT_BAD_PACKED and writes nothing. So is a packed_size that is too small for the part's options.
 *
 * Bytes 48 to 55 of the header are the length of all in bytes, as a uint64_t. In a call with packed_w, a header of
 * another w_type, scale_group, in_features or out_features, of another outputs_per_scale that is not 0, or with a byte
 * that has changed, is RAPT_BAD_PACKED. Other bytes are not checked. Numbers of 8 bits with scales that outputs share
 * take at most 1.03 times the bytes of the file, from 256 inputs and outputs on. */
RAPT_API rapt_status rapt_linear_pack(const void *w, size_t first_output, size_t outputs,
                                      const rapt_linear_options *options, void *packed, size_t packed_size);

/** Gives weights back as they were packed: the inverse of rapt_linear_pack(). Outputs [first_output, first_output +
 * outputs) of the layer become the rows of w, where first_output may be any. packed has packed_size bytes, at least the
 * length in its header. The options are those of a call with packed_w, with the strides of w; packed_w is not looked
 * at. RAPT_REPEAT, or strides that may let two elements of w coincide, are RAPT_BAD_W_STRIDES.
 *
 * Of quantized weights, w_scales, w_zeros and w_offsets [outputs][groups] and w_codebook [16] get what was packed.
 * Where outputs share scales, w_scales gets only the rows of these outputs, from that of first_output on. Each may be
 * null and is then left out. One that the packed weights do not have is an error that names it. Scales and offsets have
 * the w_scale_type of the options (0: RAPT_F32). Another type in the header is RAPT_BAD_PACKED.
 *
 * Every element has the bits that were packed, the payload of a NaN and the sign of a zero included. Only the last high
 * half of a row of 4-bit weights, where in_features is odd, was not kept: it becomes 0. Nothing is written between the
 * rows of w.
 *
 * Arrays must not overlap packed or each other. Packed weights are refused as in a call with packed_w. A call with
 * outputs of 0 writes nothing, and its w may be null. Parts may be unpacked at once on several threads, but only one of
 * them may ask for the codebook. */
RAPT_API rapt_status rapt_linear_unpack(const void *packed, size_t packed_size, size_t first_output,
                                        size_t outputs, const rapt_linear_options *options, void *w,
                                        void *w_scales, uint8_t *w_zeros, void *w_offsets, float *w_codebook);

/** Turns outputs of packed weights into numbers, so that an embedding and the linear layer that shares its weights need
 * them once. Row i of y, of in_features elements, has the numbers of output rows[i]. rows has `count` entries, in any
 * order and as often as one likes; null: i. One that is no output is RAPT_BAD_ROWS, and nothing is written.
 *
 * Elements of floats are those that were packed. Others are what rapt_dequantize_rows() makes of the same integers,
 * scales, zeros, offsets and codebook: float(q - zero) * scale + offset, each operation rounded to f32, with f8(q) in
 * numbers of 8 bits. For blocks of a file these are in the table above. The result is rounded to the type of y: f32 (0
 * too), f16 or bf16, or f64 for weights of f64.
 *
 * packed, packed_size and the options are those of rapt_linear_unpack(). y must overlap nothing. A count of 0 writes
 * nothing. */
RAPT_API rapt_status rapt_linear_packed_rows(const void *packed, size_t packed_size, const size_t *rows,
                                             size_t count, const rapt_linear_options *options, void *y,
                                             rapt_type y_type, ptrdiff_t y_stride /* 0: in_features */);

/** How files hold integers in words of 32 bits. N is out_features; the first integer has the lowest bits. Integers are
 * of 4 bits for RAPT_U4, where a format does not name others, and of 8 bits for RAPT_U8. */
enum rapt_word_format {
  /** qweight [in_features / 8][N]: 8 inputs of an output. qzeros [groups][N / 8] has zero - 1. For RAPT_U8, words have
   * 4 integers: qweight [in_features / 4][N], qzeros [groups][N / 4]. */
  RAPT_WORDS_GPTQ = 0,
  RAPT_WORDS_GPTQ_V2, /**< the same, but qzeros has the zero */
  /** qweight [in_features][N / 8], qzeros [groups][N / 8]: nibbles have outputs 0 2 4 6 1 3 5 7. Not for RAPT_U8. */
  RAPT_WORDS_AWQ,
  /** GPTQ of 2 bits, for RAPT_U4: qweight [in_features / 16][N], qzeros [groups][N / 16] has zero - 1. */
  RAPT_WORDS_GPTQ_2BIT,
  RAPT_WORDS_GPTQ_V2_2BIT, /**< the same, but qzeros has the zero */
  /** GPTQ of 3 bits, for RAPT_U4: qweight [in_features / 32 * 3][N], qzeros [groups][N / 32 * 3] has zero - 1. Three
   * words are 96 bits, of which integer i has those from 3 i on. */
  RAPT_WORDS_GPTQ_3BIT,
  RAPT_WORDS_GPTQ_V2_3BIT /**< the same, but qzeros has the zero */
};
typedef enum rapt_word_format rapt_word_format;

/** Packs weights as files of GPTQ and AWQ have them, without a transposition: the result is that of
 * rapt_linear_pack() for the same integers, scales and zeros. Scales are [groups][out_features] of w_scale_type.
 * The options are the layer's, with RAPT_U4 or RAPT_U8, and null pointers of arrays; format is one of rapt_word_format
 * that goes with the type, else RAPT_BAD_TYPE. Integers of 2 and 3 bits become the same numbers of RAPT_U4, and so take
 * 4 bits each. packed_size is at least what rapt_linear_packed_length() says for options in which w_scales and w_zeros
 * are set. in_features and out_features are multiples of 16, 32, 8 or 4 with integers of 2, 3, 4 or 8 bits, else
 * RAPT_BAD_SHAPE. Where RAPT_WORDS_GPTQ of 8 bits has 255 in qzeros, the zero would be 256: RAPT_BAD_W_ZEROS, and
 * nothing is written.
 *
 * g_idx [in_features] has the group of each input, and may be null: k / scale_group. If it is out of order
 * (desc_act), inputs are sorted by it: input k of the packed layer is input order[k] of the file, so x must have
 * its columns in that order, too. order gets in_features numbers, and is null without g_idx, else RAPT_BAD_OUT.
 * A g_idx that gives a group another number of inputs than scale_group is RAPT_BAD_SCALE_GROUP. Arrays that are
 * written overlap nothing. */
RAPT_API rapt_status rapt_linear_pack_words(const int32_t *qweight, const int32_t *qzeros, const void *scales,
                                            const int32_t *g_idx, int format,
                                            const rapt_linear_options *options, void *packed,
                                            size_t packed_size, size_t *order);

/** Rounds rows to integers. x [rows][inputs] of f32, f16 or bf16 becomes q [rows][inputs] of RAPT_I8, or of
 * RAPT_I4 with (inputs + 1) / 2 bytes a row. `group` adjacent inputs of a row share a scale, the last of them
 * may be fewer; 0: the row. scales has [rows][groups]. With L = 127 for RAPT_I8 or 7 for RAPT_I4, and m the
 * group's largest |x|:
 *
 * ~~~
 *   m < 2^-100                    q = 0,  scale = 0
 *   m infinite, or any NaN        q = 0,  scale = NaN
 *   else                          q = rint(x * (L / m)), ties to even,  scale = m / L
 * ~~~
 *
 * |q * scale - x| <= (1/2 + L 2^-22) scale. A last high half of a row is 0. Arrays must not overlap. */
RAPT_API rapt_status rapt_quantize_rows(const void *x, rapt_type x_type, ptrdiff_t x_stride /* 0: inputs */,
                                        size_t rows, size_t inputs, size_t group, rapt_type q_type, void *q,
                                        float *scales);

/** Turns integers into numbers: y = float(q - zero) * scale + offset. Each operation is rounded to f32, and the result
 * then to the type of y: f32, f16 or bf16. q has RAPT_I8, RAPT_I4, RAPT_U4 or RAPT_U8. scales (null: 1), zeros
 * (RAPT_U4, null: 8; RAPT_U8, null: 128) and offsets (null: none is added) have [rows][groups]. Scales and offsets have
 * scale_type: f32 (0 too), f16 or bf16. It is 0 without both, else RAPT_BAD_W_SCALES. With a codebook (RAPT_U4, without
 * zeros), codebook[q] takes the place of float(q - zero). `group` adjacent inputs of a row share a scale, the last of
 * them may be fewer; 0: the row. Arrays must not overlap.
 *
 * q may also have a type from RAPT_Q8_0 to RAPT_NVFP4. Then a row is inputs / n blocks of n inputs as in a GGUF file,
 * without gaps, and y has the numbers that rapt_linear_packed_rows() gives for the same blocks. inputs must be a
 * multiple of n, else it is RAPT_BAD_SHAPE. `group` is the scale_group of the type's table, or 0, which means the same.
 * The arrays are null, and scale_type is 0: a block has its scales in it. Else the errors are those of
 * rapt_linear_pack(). */
RAPT_API rapt_status rapt_dequantize_rows(const void *q, rapt_type q_type, size_t rows, size_t inputs,
                                          size_t group, const void *scales, const uint8_t *zeros,
                                          const void *offsets, rapt_type scale_type, const float *codebook,
                                          void *y, rapt_type y_type, ptrdiff_t y_stride /* 0: inputs */);

/** \} */

/* ---- convolutions ------------------------------------------------------------------------------------- */
/** \defgroup convolutions Convolutions
 * Of one to three dimensions, with strides, dilation, groups and padding, and their gradients. The gradient of x is the
 * transposed convolution.
 * \{ */

/** What rapt_convolution() computes. */
enum rapt_convolution_result {
  RAPT_CONVOLUTION_Y = 0, /**< y = x * w + bias */
  RAPT_CONVOLUTION_DX,    /**< the gradient of x, which is the transposed convolution of dy, + bias */
  RAPT_CONVOLUTION_DW     /**< the gradient of w */
};
typedef enum rapt_convolution_result rapt_convolution_result;

/** The most dimensions of positions. */
#define RAPT_MAX_CONVOLVED 3

/** A convolution of x [batch][in_channels][in_size] with w [out_channels][in_channels / groups][taps] to y
 * [batch][out_channels][positions], as torch.nn.functional.conv1d, conv2d and conv3d. Everything but size, dims, the
 * shape and taps may be 0. An entry at or beyond `dims` must be 0. */
typedef struct rapt_convolution_options {
  size_t size;         /**< sizeof(rapt_convolution_options) */
  rapt_type type;      /**< of x, w and y: RAPT_F32 (0: RAPT_F32), RAPT_F64, RAPT_F16 or RAPT_BF16 */
  int result;          /**< one of rapt_convolution_result */
  size_t dims;         /**< of positions: 1 to RAPT_MAX_CONVOLVED */
  size_t batch;        /**< of x and y */
  size_t in_channels;  /**< of x; a multiple of groups; not 0 */
  size_t out_channels; /**< of y; a multiple of groups */
  size_t groups;       /**< 0: 1. in_channels: depthwise */
  size_t in_size[RAPT_MAX_CONVOLVED];    /**< of x, outermost dimension first, as all lists of dimensions */
  size_t taps[RAPT_MAX_CONVOLVED];       /**< of w; not 0 */
  size_t stride[RAPT_MAX_CONVOLVED];     /**< elements of x from one position of y to the next; 0: 1 */
  size_t dilation[RAPT_MAX_CONVOLVED];   /**< elements of x from one tap to the next; 0: 1 */
  size_t pad_before[RAPT_MAX_CONVOLVED]; /**< elements of padding before x */
  size_t pad_after[RAPT_MAX_CONVOLVED];  /**< elements of padding behind x */
  /** Of x, and of dx: of batch, channel and each dimension. All 0: contiguous. Otherwise each that is longer than 1 has
   * a positive one, or RAPT_REPEAT, which dx does not take. Channels may be last. */
  ptrdiff_t x_strides[2 + RAPT_MAX_CONVOLVED];
  ptrdiff_t y_strides[2 + RAPT_MAX_CONVOLVED]; /**< of y, which takes no RAPT_REPEAT, and of dy */
  int packed_w; /**< if not 0, w has the layout of rapt_linear_pack(); only RAPT_CONVOLUTION_Y without groups */
  rapt_type w_type; /**< of packed w: `type` (0: `type`), or quantized as in rapt_linear(), see below */
  int arithmetic; /**< with quantized weights RAPT_ARITHMETIC_I8, or RAPT_ARITHMETIC_F32 (0: that); else 0 */
  /** Of the arithmetic type, or null: one for each channel of the result. Not for RAPT_CONVOLUTION_DW. */
  const void *bias;
  size_t scale_group; /**< of quantized weights, as in rapt_linear_options */
  size_t x_group;     /**< of RAPT_ARITHMETIC_I8, as in rapt_linear_options */
} rapt_convolution_options;

/** Everything else zero. */
#define RAPT_CONVOLUTION_OPTIONS_INIT                                                                    \
  {                                                                                                      \
    sizeof(rapt_convolution_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, 0, {0}, {0}, {0}, {0}, {0}, {0}, \
        {0}, {0}, 0, RAPT_TYPE_DEFAULT, 0, NULL, 0, 0                                                    \
  }

/** Computes a convolution or its gradient. RAPT_BAD_X, _W and _Y are a null pointer a, b and out. The arrays are
 *
 * ~~~
 *   result              a    b    out
 *   RAPT_CONVOLUTION_Y    x    w    y
 *   RAPT_CONVOLUTION_DX   dy   w    dx
 *   RAPT_CONVOLUTION_DW   x    dy   dw
 * ~~~
 *
 * Dimension d of y has (in_size + pad_before + pad_after - (taps - 1) dilation - 1) / stride + 1 positions, rounded
 * down. Tap j of position i reads element i * stride + j * dilation - pad_before of x. w and dw are contiguous.
 *
 * Sums. An output is the sum of rapt_linear() in RAPT_ARITHMETIC_F32 over these products, in this order for every
 * layout:
 *
 * ~~~
 *   Y    x w    over [channels of the group][taps], taps in row-major order
 *   DX   dy w   over [output channels of the group][taps that meet the element], taps in row-major order
 *   DW   x dy   over [batch][positions], positions in row-major order
 * ~~~
 *
 * A tap meets an element of x if some position, inside y or not, reads the element through it: with strides of 1 all
 * taps do. Products with padding, or with a position outside y, count as +0 * +0: an infinite weight does no harm
 * there. So a 1x1 convolution has the bits of rapt_linear(), with w [out_channels][in_channels]; DX and DW have those
 * of its gradients. Then the bias is added. Elements of 16 bits are widened, computed as f32, and rounded once.
 *
 * Nothing else changes a bit: not the batch, the strides, packing, tasks or the instruction set.
 *
 * Packed w is what rapt_linear_pack() makes for x_type, w_type and y_type of `type`, RAPT_ARITHMETIC_F32, in_features
 * of in_channels * taps and the same out_features.
 *
 * Packed w may also be quantized: w_type is its type, from RAPT_I8 on, and it was packed for x_type of RAPT_F32 and the
 * same scale_group. Scales, zeros, offsets and codebook are those that were packed. An output then has the bits of
 * rapt_linear() for the same weights, arithmetic and x_group, where a row of x is the patch that the output reads,
 * [in_channels][taps] in f32 with +0 in the place of padding. So RAPT_ARITHMETIC_I8 rounds each patch by itself. The
 * type is not f64.
 *
 * Special values: a NaN or an infinity touches only outputs whose sums have it. Products of 0 and infinity are NaN. An
 * infinite scale of quantized weights meets padding as any 0.
 *
 * Accuracy: as rapt_linear(), with in_features the number of products. The transposed convolution of PyTorch is DX with
 * in_size = (positions - 1) stride - pads + (taps - 1) dilation + 1 + output_padding.
 *
 * `out` must overlap nothing. RAPT_BAD_SHAPE: a tap count or in_channels is 0, or the taps reach beyond the padded x.
 * Results without elements succeed, and look at no array. A result of no products, such as dw of an empty batch, is +0
 * and the bias. The workspace has rapt_convolution_workspace() bytes, at any alignment, and overlaps nothing. */
RAPT_API rapt_status rapt_convolution(const void *a, const void *b, void *out,
                                      const rapt_convolution_options *options, void *workspace,
                                      size_t workspace_size);
/** Stores the number of positions of y in each of options->dims dimensions. */
RAPT_API rapt_status rapt_convolution_positions(const rapt_convolution_options *options, size_t *positions);
/** Stores the bytes of workspace per call. */
RAPT_API rapt_status rapt_convolution_workspace(const rapt_convolution_options *options, size_t *bytes);
/** The same work as numbered tasks, for any pool of threads, as rapt_linear_tasks(): every thread needs a workspace,
 * and every split gives the same bits. Tasks that follow each other share what is copied. */
RAPT_API rapt_status rapt_convolution_tasks(const rapt_convolution_options *options, size_t *tasks);
/** Computes the tasks first to last - 1 of rapt_convolution_tasks(). */
RAPT_API rapt_status rapt_convolution_run(const void *a, const void *b, void *out,
                                          const rapt_convolution_options *options, size_t first, size_t last,
                                          void *workspace, size_t workspace_size);

/** The most taps of rapt_causal_convolution(). */
#define RAPT_MAX_CAUSAL_TAPS 16

/** Everything but size, batch, tokens, channels and taps may be 0. */
typedef struct rapt_causal_convolution_options {
  size_t size;        /**< sizeof(rapt_causal_convolution_options) */
  rapt_type type;     /**< of all arrays but bias: RAPT_F32 (0: RAPT_F32), RAPT_F64, RAPT_F16 or RAPT_BF16 */
  int silu;           /**< if not 0, y is what rapt_silu_f32() and so on make of the sums */
  size_t batch;       /**< sequences */
  size_t tokens;      /**< of a sequence */
  size_t channels;    /**< elements of a token */
  size_t taps;        /**< 1 to RAPT_MAX_CAUSAL_TAPS */
  ptrdiff_t x_stride; /**< of tokens in x; 0: channels; at least that, unless there is only one */
  ptrdiff_t x_batch_stride; /**< of sequences in x; 0: tokens * x_stride; at least the length of a sequence */
  ptrdiff_t y_stride;       /**< of tokens in y; 0: channels; at least that, unless there is only one */
  ptrdiff_t y_batch_stride; /**< of sequences in y; 0: tokens * y_stride; at least the length of a sequence */
  ptrdiff_t
      state_stride; /**< of tokens in state; 0: channels; at least that. A sequence has taps - 1 of them */
  ptrdiff_t w_strides[2]; /**< of channels and taps; both 0: {taps, 1}. {1, channels} spares decode a copy */
  const void *bias;       /**< [channels] of the arithmetic type, or null */
} rapt_causal_convolution_options;

/** Everything else zero. */
#define RAPT_CAUSAL_CONVOLUTION_OPTIONS_INIT \
  { sizeof(rapt_causal_convolution_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0}, NULL }

/** The short convolution of Mamba, Qwen3-Next and LFM2: a token of y is the sum over the taps of the last tokens of x
 * and their weights, the newest with the last tap, for each channel alone. x and y are [batch][tokens][channels].
 *
 * state [batch][taps - 1][channels] holds the tokens before x, oldest first, and gets the last ones: so a sequence has
 * the same bits at once, in chunks and token by token. Without a state, which is null, there are none: such taps are
 * left out.
 *
 * A sum has the order and the bits of rapt_convolution() with groups = channels and taps - 1 elements of padding
 * before. Zeros in the state are that padding where weights are finite. Elements of 16 bits are widened, computed as
 * f32, and rounded before SiLU, which rounds again. Threads may share sequences by pointers, and channels too: w and
 * bias then begin at a part's first channel.
 *
 * Accuracy: of the sum as rapt_linear() with in_features taps, and of SiLU as rapt_silu_f32(). y and state overlap
 * nothing. */
RAPT_API rapt_status rapt_causal_convolution(const void *x, const void *w, void *state, void *y,
                                             const rapt_causal_convolution_options *options);

/** \} */

/* ---- the delta rule ------------------------------------------------------------------------------------ */
/** \defgroup delta_rule The delta rule
 * Layers whose memory of a sequence has one size, however long it is: a matrix per head.
 * \{ */

/** How rapt_delta_rule() divides the rows of q and k by their length. The sum of squares is rapt_dot_f32()'s. */
enum rapt_l2_norm {
  RAPT_L2_NORM_NONE = 0, /**< rows as they are */
  RAPT_L2_NORM_ADD_EPS,  /**< x * (1 / sqrt(sum + eps)), as transformers and flash-linear-attention */
  RAPT_L2_NORM_MAX_EPS   /**< x * (1 / max(sqrt(sum), eps)), as ggml_l2_norm */
};
typedef enum rapt_l2_norm rapt_l2_norm;

/** Counts the elements from one state, key dimension or value dimension to the next. */
typedef struct rapt_state_strides {
  ptrdiff_t batch; /**< from one sequence to the next */
  ptrdiff_t head;  /**< from one head to the next */
  ptrdiff_t key;   /**< from one key dimension to the next */
  ptrdiff_t value; /**< from one value dimension to the next. Either this or key is 1 */
} rapt_state_strides;

/** What rapt_delta_rule() computes. Everything but size, batch, tokens, q_heads and key_dim may be 0. */
typedef struct rapt_delta_rule_options {
  size_t size;         /**< sizeof(rapt_delta_rule_options) */
  rapt_type type;      /**< of q, k, v and out: RAPT_F32 (0: RAPT_F32), RAPT_F16 or RAPT_BF16 */
  rapt_type gate_type; /**< of g and beta: RAPT_F32 (0: RAPT_F32), or `type` */

  /* The shape. q [batch][q_heads][tokens][key_dim], k [batch][k_heads][tokens][key_dim],
   * v [batch][v_heads][tokens][value_dim], out [batch][most heads][tokens][value_dim], in any order of the first three
   * dimensions. */
  size_t batch;     /**< sequences; not 0 */
  size_t tokens;    /**< of a sequence, or with offsets the most of any */
  size_t q_heads;   /**< not 0; a multiple of v_heads, or v_heads is one of it */
  size_t k_heads;   /**< divides v_heads; 0: the smaller of q_heads and v_heads */
  size_t v_heads;   /**< heads of v, g, beta and the states; 0: q_heads */
  size_t key_dim;   /**< not 0 */
  size_t value_dim; /**< 0: key_dim */
  /** Where heads share: 0: neighbours do, so that of n heads that share with m, head h has h / (n / m), as in
   * transformers and ONNX. 1: head h has h % m, as in ggml. */
  int interleaved_heads;
  rapt_strides
      q_strides; /**< of q; all 0: contiguous, in the order above; RAPT_REPEAT repeats. So are those of k and v */
  rapt_strides k_strides;   /**< of k */
  rapt_strides v_strides;   /**< of v */
  rapt_strides out_strides; /**< of out, without RAPT_REPEAT */
  double scale;             /**< of the outputs; 0: 1/sqrt(key_dim) */
  int l2_norm;              /**< one of rapt_l2_norm, for the rows of q and k */
  double eps;               /**< only with l2_norm; 0: 1e-6 */

  /* The rule. */
  const void *g;             /**< [batch][v_heads][tokens], logarithms of the decay; or null: no decay */
  rapt_strides g_strides;    /**< of g; all 0: contiguous; RAPT_REPEAT repeats */
  int decay_per_key;         /**< not 0: g is [batch][v_heads][tokens][key_dim], as in Kimi Linear */
  const void *beta;          /**< [batch][v_heads][tokens]; or null: no delta, u = v */
  rapt_strides beta_strides; /**< of beta; all 0: contiguous; RAPT_REPEAT repeats */

  /** [batch + 1], of sequences end to end in q, k, v, g, beta and out, as attention's q_offsets; or null. Sequence b
   * has the tokens from offsets[b] to offsets[b + 1] - 1, and these tensors have no batch stride. */
  const int32_t *offsets;

  /* The states, [batch][v_heads][key_dim][value_dim] of f32. */
  const float *state; /**< before the first token; or null: zeros */
  rapt_state_strides
      state_strides;  /**< of state; all 0: contiguous. ggml's have a key of 1 and a value of key_dim */
  float *final_state; /**< output: after the last token; or null. It may be state, with the same strides */
  rapt_state_strides final_strides; /**< of final_state; all 0: contiguous */
  /** 0: 1. w: final_state is [w][batch][v_heads][key_dim][value_dim], the newest state first: number s is the state
   * without the last s tokens. A sequence of fewer tokens writes only those after each of its tokens. */
  size_t state_window;
  ptrdiff_t
      window_stride; /**< from one of these to the next; only with a state_window above 1; 0: contiguous */
} rapt_delta_rule_options;

/** One sequence; everything else zero. */
#define RAPT_DELTA_RULE_OPTIONS_INIT                                                                        \
  {                                                                                                         \
    sizeof(rapt_delta_rule_options), RAPT_TYPE_DEFAULT, RAPT_TYPE_DEFAULT, /* shape */ 1, 0, 1, 0, 0, 0, 0, \
        0, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 0.0, 0, 0.0, /* rule */ NULL, {0, 0, 0}, 0, NULL,    \
        {0, 0, 0}, NULL, /* states */ NULL, {0, 0, 0, 0}, NULL, {0, 0, 0, 0}, 0, 0                          \
  }

/** The gated delta rule of Qwen3-Next, Qwen3.5 and Kimi Linear, and linear attention with and without decay: ONNX's
 * LinearAttention and ggml's GATED_DELTA_NET. S. Yang, J. Kautz and A. Hatamizadeh, "Gated Delta Networks: Improving
 * Mamba2 with Delta Rule", arXiv 2412.06464. Each head has a state S of key_dim rows and value_dim columns. For each
 * token:
 *
 * ~~~
 *   S[i][j] = S[i][j] * a[i]           a = exp(g), as rapt_exp_f32(); without g this step is left out
 *   r[j]    = sum of k[i] * S[i][j]
 *   u[j]    = beta * (v[j] - r[j])     without beta: v[j]
 *   S[i][j] = k[i] * u[j] + S[i][j]    fused
 *   o[j]    = scale * sum of q[i] * S[i][j]
 * ~~~
 *
 * A sum is one chain of fused multiply-adds from +0, with i ascending. Elements of 16 bits are widened, computed as
 * f32, and o is rounded once more. Each operation of these lines works as x86 does under FTZ and DAZ: a subnormal
 * operand, a and S included, counts as 0, and a result that is tiny after rounding becomes 0, with its sign. So no
 * state that fades away is slow on any CPU. l2_norm and exp() keep subnormal numbers.
 *
 * A token has the same bits in a prompt, alone after its state, in chunks of any size, in packed sequences, and by any
 * tasks. The chunked form by which transformers and flash-linear-attention compute prompts is another algorithm, with
 * other bits.
 *
 * Heads: there are v_heads states. Several heads of q may share a state, and then each has an output; or several states
 * share a head of q. Several states may share a head of k. out has as many heads as q or v, whichever has more.
 *
 * Errors of one token, for exact inputs S, a, q, k, v and beta without subnormal numbers, if nothing overflows. With n
 * = key_dim, u = 2^-24, f = 2^-126 and all sums over i:
 *
 * ~~~
 *   R = sum of |k[i] a[i] S[i]|       U = |beta| (|v| + R)     D = |beta| (n + 1 + sum of |k[i]|) f + f
 *   T[i] = |a[i] S[i]| + |k[i]| U     without beta: R = 0, U = |v|, D = 0
 *   |error of S[i]| <= (n + 5) u T[i] + (|k[i]| D + 2 f) (1 + n u)
 *   |error of o|    <= |scale| (2 n + 7) u sum of |q[i]| T[i] + (|scale| (sum of |q[i]| (|k[i]| D + 2 f) + n f) + f) (1 + 3 n u)
 * ~~~
 *
 * Special values: a g of -inf gives a = 0, and 0 times an infinite element of S is NaN. A NaN or infinity of q stays in
 * its token's output, one of a column of v in that column. One of k, g or beta reaches all later outputs of the head.
 *
 * Aliasing: final_state may be exactly state, unless state_window is above 1. Outputs overlap nothing else. Without
 * tokens nothing but final_state is written: it gets a copy of state. RAPT_BAD_OFFSETS: a sequence has more than
 * `tokens`.
 *
 * The workspace has rapt_delta_rule_workspace() bytes, at any alignment, and overlaps nothing. Its size follows from
 * dimensions and types alone: below 300 KB for heads of 128 of which no two queries share a state. */
RAPT_API rapt_status rapt_delta_rule(const void *q, const void *k, const void *v, void *out,
                                     const rapt_delta_rule_options *options, void *workspace,
                                     size_t workspace_size);
/** Stores the bytes of workspace per call. */
RAPT_API rapt_status rapt_delta_rule_workspace(const rapt_delta_rule_options *options, size_t *bytes);
/** The same work as numbered tasks, for any pool of threads, as rapt_attention_tasks(): a task is a head of a sequence,
 * or some of its columns. Every thread needs a workspace, and every split gives the same bits. */
RAPT_API rapt_status rapt_delta_rule_tasks(const rapt_delta_rule_options *options, size_t *tasks);
/** Computes the tasks first to last - 1 of rapt_delta_rule_tasks(). */
RAPT_API rapt_status rapt_delta_rule_run(const void *q, const void *k, const void *v, void *out,
                                         const rapt_delta_rule_options *options, size_t first, size_t last,
                                         void *workspace, size_t workspace_size);

/** The gradients that rapt_delta_rule_backward() reads and writes. dstate, dg and dbeta may be null, and dfinal too. */
typedef struct rapt_delta_rule_gradients {
  size_t size;                /**< sizeof(rapt_delta_rule_gradients) */
  const void *dout;           /**< the gradient of out, in its shape and type */
  void *dq;                   /**< output: in the shape and type of q */
  void *dk;                   /**< output: in the shape and type of k */
  void *dv;                   /**< output: in the shape and type of v */
  rapt_strides dout_strides;  /**< of dout; all 0: contiguous; RAPT_REPEAT repeats */
  rapt_strides dq_strides;    /**< of dq; all 0: contiguous. So are those of the other outputs */
  rapt_strides dk_strides;    /**< of dk */
  rapt_strides dv_strides;    /**< of dv */
  void *dg;                   /**< output: in the shape and type of g; or null */
  rapt_strides dg_strides;    /**< of dg */
  void *dbeta;                /**< output: in the shape and type of beta; or null */
  rapt_strides dbeta_strides; /**< of dbeta */
  /* [batch][v_heads][key_dim][value_dim] of f32, as the states. */
  const float *dfinal;               /**< the gradient of the state after the last token; or null: zeros */
  rapt_state_strides dfinal_strides; /**< of dfinal; all 0: contiguous */
  float *dstate;                     /**< output: the gradient of `state`, also where that is null; or null */
  rapt_state_strides dstate_strides; /**< of dstate; all 0: contiguous */
} rapt_delta_rule_gradients;

/** Everything else zero. */
#define RAPT_DELTA_RULE_GRADIENTS_INIT                                                                     \
  {                                                                                                        \
    sizeof(rapt_delta_rule_gradients), NULL, NULL, NULL, NULL, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, \
        NULL, {0, 0, 0}, NULL, {0, 0, 0}, NULL, {0, 0, 0, 0}, NULL, {                                      \
      0, 0, 0, 0                                                                                           \
    }                                                                                                      \
  }

/** Computes the gradients of a rapt_delta_rule() call with the same options, for every rule of that function. The
 * call's outputs are not needed: options->out_strides, final_state and state_window may be set, and have no effect.
 *
 * With S the forward call's states, G the gradient of the state after a token, which begins with dfinal, and A the
 * state times a, for each token from the last to the first:
 *
 * ~~~
 *   p[j]    = scale * dout[j]
 *   dq[i]   = sum over j of S[i][j] * p[j]
 *   G[i][j] = q[i] * p[j] + G[i][j]          fused. Of several heads of q that share the state, one after the other
 *   w[j]    = sum over i of k[i] * G[i][j]
 *   dv[j]   = beta * w[j]                    without beta: w[j]
 *   dbeta   = sum over j of w[j] * (v[j] - r[j])
 *   dk[i]   = sum over j of G[i][j] * u[j] and of -dv[j] * A[i][j]    without beta: the first alone
 *   G[i][j] = k[i] * -dv[j] + G[i][j]        fused; without beta this step is left out
 *   dg[i]   = sum over j of G[i][j] * A[i][j]
 *   G[i][j] = G[i][j] * a[i]                 dstate, after the first token
 * ~~~
 *
 * S, A, r and u have the bits of the forward call, and each operation works as there: under FTZ and DAZ. A sum over i
 * is one chain of fused multiply-adds from +0, with i ascending. A sum over j has 16 lanes: lane j mod 16 is such a
 * chain, in which of dk each j adds both its terms in turn, and columns that are missing at a multiple of 16 are zeros.
 * Lanes are added by halves, lane l and l + half, down to one. dg of a whole head is the sum of all dg[i] in lanes i
 * mod 16.
 *
 * Then dq and dk of heads that several states share are added up, head by head of v, ascending. Last comes l2_norm: of
 * y = x * factor it is dx = factor * (dy - y * rapt_dot_f32(y, dy)), each operation rounded, and where
 * RAPT_L2_NORM_MAX_EPS divides by eps, dx = factor * dy. These two keep subnormal numbers. Gradients of 16 bits are
 * rounded once more, at the end.
 *
 * Errors of one token, for exact inputs S (before it), G (after it), a, q, k, v, beta and dout without l2_norm, if
 * nothing overflows or is flushed. With n = key_dim, m = value_dim, h heads of q for a state, R, U and T of
 * rapt_delta_rule() for each column j, and c = (2 n + m / 8 + h + 20) 2^-24:
 *
 * ~~~
 *   P[j] = |scale dout[j]|      H[i][j] = |G[i][j]| + |q[i]| P[j], with such a term for each of the heads
 *   W[j] = sum over i of |k[i]| H[i][j]            X[i][j] = H[i][j] + |k[i] beta| W[j]     without beta: X = H
 *   |error of dq[i]| <= c sum over j of T[i][j] P[j]     |error of dv[j]| <= c |beta| W[j]     without beta: c W[j]
 *   |error of dk[i]| <= c sum over j of (H[i][j] U[j] + |beta a[i] S[i][j]| W[j])
 *   |error of dbeta| <= c sum over j of W[j] (|v[j]| + R[j])
 *   |error of dg[i]| <= c sum over j of X[i][j] |a[i] S[i][j]|     |error of dstate| <= c |a[i]| X[i][j]
 *   |error of dg|    <= (c + (n / 16 + 6) 2^-24) times the sum of all of these terms
 * ~~~
 *
 * Special values: a NaN or infinity of q, dout or dfinal reaches its token and tokens before it. One of v reaches its
 * token and tokens after it, but no dv. One of k, g, beta or a state may reach all gradients of its head. A g of -inf
 * has a dg of 0 with finite numbers.
 *
 * Aliasing: outputs overlap nothing. Without tokens dstate gets a copy of dfinal, or zeros, and nothing else is
 * written. Every element of a gradient that belongs to a token of a sequence is written.
 *
 * The workspace has rapt_delta_rule_backward_workspace() bytes, at any alignment, and overlaps nothing. It holds the
 * states of a chunk of tokens and one state for each chunk. Chunks have 16 tokens, or as many as make 128 of them. So
 * of heads of 128 it has below 6 MB for 1024 tokens, and below 12 MB for 4096. Where several states share a head of q
 * or k, it has one more row of key_dim for each token and such head of a task. */
RAPT_API rapt_status rapt_delta_rule_backward(const void *q, const void *k, const void *v,
                                              const rapt_delta_rule_options *options,
                                              const rapt_delta_rule_gradients *gradients, void *workspace,
                                              size_t workspace_size);
/** Stores the bytes of workspace per call. */
RAPT_API rapt_status rapt_delta_rule_backward_workspace(const rapt_delta_rule_options *options,
                                                        size_t *bytes);
/** The same work as numbered tasks, as rapt_delta_rule_tasks(): a task is all states of a sequence that share a head of
 * q or k. Every thread needs a workspace, and every split gives the same bits. */
RAPT_API rapt_status rapt_delta_rule_backward_tasks(const rapt_delta_rule_options *options, size_t *tasks);
/** Computes the tasks first to last - 1 of rapt_delta_rule_backward_tasks(). */
RAPT_API rapt_status rapt_delta_rule_backward_run(const void *q, const void *k, const void *v,
                                                  const rapt_delta_rule_options *options,
                                                  const rapt_delta_rule_gradients *gradients, size_t first,
                                                  size_t last, void *workspace, size_t workspace_size);

/** \} */

/* ---- mixture of experts ------------------------------------------------------------------------------- */
/** \defgroup mixture_of_experts Mixture of experts
 * \{ */

/** One linear layer of all experts of a mixture of experts. A router has given each token some experts, one in each of
 * its slots. A token in one of its slots is an entry, with the number token * top_k + slot.
 *
 * The options of rapt_linear() describe the layer of one expert, but rows, x_rows, y_rows and row_scales have the
 * entries of all experts, one expert after the other. Expert e has the rows offsets[e] to offsets[e + 1] - 1 of the
 * call. They are multiplied by its w, at w + e * w_stride bytes, with the bits of one rapt_linear() for each expert.
 * The arrays bias and output_scales are [experts][out_features]. w_scales, w_zeros and w_offsets are
 * [experts][out_features][groups], where outputs_per_scale counts from the first output of each expert. Only bias may
 * have gaps. All experts have one w_codebook. Of packed w, each expert has its own header.
 *
 * Each row of the call writes its own row of y, and nothing is added up. So y_rows has no row twice, and an add that is
 * y is RAPT_BAD_ADD if there are y_rows: two experts of a token would add to the same row.
 * rapt_expert_sum() adds up the slots of a token, in an order that does not depend on the experts.
 *
 * The layers of a model, where rapt_expert_lists() makes the lists from the router's choice:
 *
 * ~~~
 *   gate and up   x_rows = token_rows, y_rows = NULL: rows in the order of experts, 2 * hidden outputs
 *   activation    rapt_gated(): gate_stride = up_stride = 2 * hidden, up = gate + hidden
 *   down          x_rows = NULL, y_rows = entry_rows
 *   sum           rapt_expert_sum(): weights are the router's, [tokens][top_k]
 * ~~~
 *
 * Without lists of rows, x and y already are in the order of experts, as in torch's grouped_mm. What belongs to an
 * expert without rows is not looked at. */
typedef struct rapt_expert_options {
  size_t size;    /**< sizeof(rapt_expert_options) */
  size_t experts; /**< not 0 */
  /** [experts + 1]: ascending, from 0 to rows. Equal neighbours are an expert without rows. */
  const size_t *offsets;
  /** Bytes from the w of one expert to that of the next, a multiple of an element's size. Packed w needs at least
   * rapt_linear_packed_length(). Plain w without w_strides may have 0: the matrices follow each other without gaps. Not
   * looked at with one expert. */
  ptrdiff_t w_stride;
  ptrdiff_t bias_stride; /**< elements from the bias of one expert to that of the next; 0: out_features */
} rapt_expert_options;

/** Everything else zero. */
#define RAPT_EXPERT_OPTIONS_INIT \
  { sizeof(rapt_expert_options), 0, NULL, 0, 0 }

/** Stores the bytes of workspace per call. They depend on the options alone. A workspace for more rows serves fewer
 * rows too, however the experts share them. */
RAPT_API rapt_status rapt_linear_experts_workspace(const rapt_linear_options *options, size_t *bytes);
/** Computes y. The arrays lie as in rapt_linear(), and y does not overlap offsets either. Calls with rows or
 * out_features of 0 succeed, and look at no array but offsets. */
RAPT_API rapt_status rapt_linear_experts(const void *x, const void *w, void *y,
                                         const rapt_linear_options *options,
                                         const rapt_expert_options *experts, void *workspace,
                                         size_t workspace_size);
/** The tasks of all experts as one list, without a barrier, as rapt_linear_tasks(). They depend on the offsets. */
RAPT_API rapt_status rapt_linear_experts_tasks(const rapt_linear_options *options,
                                               const rapt_expert_options *experts, size_t *tasks);
/** Computes the tasks first to last - 1 of rapt_linear_experts_tasks(). It looks at the weights of the experts of these
 * tasks, and checks the overlap of the rows of y that they write. An empty run (first = last) checks all and writes
 * nothing. */
RAPT_API rapt_status rapt_linear_experts_run(const void *x, const void *w, void *y,
                                             const rapt_linear_options *options,
                                             const rapt_expert_options *experts, size_t first, size_t last,
                                             void *workspace, size_t workspace_size);

/** Makes the lists of rapt_linear_experts() from the choice of a router. ids is [tokens][top_k]: the expert of each
 * slot of a token, from 0 to experts - 1. Rows of the lists are in the order of experts, then of tokens, then of slots.
 * Row r has the token token_rows[r], and the entry entry_rows[r] = token * top_k + slot. Both are [tokens * top_k], and
 * may be null. offsets is [experts + 1]. Another number in ids is RAPT_BAD_IDS, and nothing is written. The arrays must
 * not overlap. */
RAPT_API rapt_status rapt_expert_lists(const int32_t *ids, ptrdiff_t ids_stride /* 0: top_k */, size_t tokens,
                                       size_t top_k, size_t experts, size_t *offsets,
                                       size_t *token_rows /* or null */, size_t *entry_rows /* or null */);

/** The sum over the slots of a token, each times its weight. x is [tokens * top_k][cols]: one row per entry. */
typedef struct rapt_expert_sum_options {
  size_t size;         /**< sizeof(rapt_expert_sum_options) */
  rapt_type type;      /**< of x, add and y: RAPT_F32 (0: RAPT_F32), RAPT_F64, RAPT_F16 or RAPT_BF16 */
  size_t tokens;       /**< rows of y */
  size_t top_k;        /**< slots of a token; not 0 */
  size_t cols;         /**< elements of a row */
  ptrdiff_t x_stride;  /**< of rows; 0: cols; at least that, unless there is only one row */
  ptrdiff_t y_stride;  /**< of rows; 0: cols; at least that, unless there is only one row */
  const void *weights; /**< [tokens][top_k] of the arithmetic type; null: x is added up as it is */
  /** Of tokens, only with weights. 0: top_k; at least that, unless there is only one token. */
  ptrdiff_t weights_stride;
  const void *add; /**< [tokens][cols], or null: what is added at the end. It may be y, with y's stride */
  ptrdiff_t add_stride; /**< of rows, only with add; 0: cols; at least that, unless there is only one row */
} rapt_expert_sum_options;

/** Everything else zero. */
#define RAPT_EXPERT_SUM_OPTIONS_INIT \
  { sizeof(rapt_expert_sum_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, NULL, 0, NULL, 0 }

/** Adds up the slots of each token, in their order. One element of y, with x[s] that of slot s:
 *
 * ~~~
 *   t = weights[0] * x[0]                    without weights x[0]
 *   t = fma(weights[s], x[s], t)             for each other slot; without weights t + x[s]
 *   y = t + add                              if add is given
 * ~~~
 *
 * in the arithmetic type, and y is rounded once to its type. |error of y before that| <= (top_k + 1) u S + top_k 2^-149
 * (f64: 2^-1074), where S is the sum of |weights[s] x[s]| and |add|, if nothing overflows. NaN and infinities touch
 * only their own element, but for those of weights: they touch their token. y must overlap nothing but add. */
RAPT_API rapt_status rapt_expert_sum(const void *x, void *y, const rapt_expert_sum_options *options);

/** \} */

/* ---- embedding bags ------------------------------------------------------------------------------------ */
/** \defgroup embedding_bags Embedding bags
 * \{ */

/** What becomes of the rows of a bag, t from the first index to the last, in the arithmetic type. */
enum rapt_bag_operation {
  RAPT_BAG_SUM = 0, /**< t = +0; t = t + x, or with weights t + weight x, where the product is rounded too */
  RAPT_BAG_MEAN,    /**< the sum / the number of rows, rounded once more */
  RAPT_BAG_MAX      /**< t = x where x is above t, or where x is the first NaN */
};
typedef enum rapt_bag_operation rapt_bag_operation;

/** Rows of a table that are picked by index and reduced in bags, as torch.nn.functional.embedding_bag. */
typedef struct rapt_embedding_bag_options {
  size_t size;        /**< sizeof(rapt_embedding_bag_options) */
  rapt_type type;     /**< of w and y: RAPT_F32 (0: RAPT_F32), RAPT_F64, RAPT_F16 or RAPT_BF16 */
  int operation;      /**< one of rapt_bag_operation */
  size_t rows;        /**< of w */
  size_t cols;        /**< elements of a row */
  size_t bags;        /**< rows of y */
  ptrdiff_t w_stride; /**< of rows; 0: cols; at least that, unless there is only one row */
  ptrdiff_t y_stride; /**< of rows; 0: cols; at least that, unless there is only one row */
  /** [bags + 1]: ascending, from 0 on. Bag b has the indices offsets[b] to offsets[b + 1] - 1. */
  const size_t *offsets;
  const void
      *weights; /**< RAPT_BAG_SUM: one for each index, of the arithmetic type; null: the rows as they are */
} rapt_embedding_bag_options;

/** Everything else zero. */
#define RAPT_EMBEDDING_BAG_OPTIONS_INIT \
  { sizeof(rapt_embedding_bag_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, 0, NULL, NULL }

/** Row b of y is the sum, mean or maximum of the rows of w that the indices of bag b name, in their order, and is
 * rounded once to its type. An index of -1 is left out: of a padding, for example. A bag without rows is +0. max_rows,
 * if not null, is [bags][cols]: the row of w that each maximum is from, the first of equal ones, or -1. It is only for
 * RAPT_BAG_MAX.
 *
 * Bags do not mix, so threads may take any part of them in their own calls. The gradient of w is rapt_index_add()'s, of
 * the rows of dy, times their weights, or divided by the number of rows.
 *
 * |error of a sum before the last rounding| <= (n + 1) u S (2 u S more of a mean) + n 2^-149 (f64: 2^-1074), where n is the
 * number of rows and S the sum, or mean, of their magnitudes, if nothing overflows. A maximum is exact.
 * RAPT_BAD_INDICES: an index is below -1 or not below rows. y and max_rows must overlap nothing. */
RAPT_API rapt_status rapt_embedding_bag(const void *w, const int64_t *indices, void *y,
                                        int64_t *max_rows /* or null */,
                                        const rapt_embedding_bag_options *options);

/** \} */

/* ---- rotary position embedding ------------------------------------------------------------------------ */
/** \defgroup rotary_position_embedding Rotary position embedding
 * \{ */

/** Which elements of a head turn together. */
enum rapt_rope_layout {
  /** Element i pairs with i + rotary_dim / 2: GPT-NeoX, and Llama and Qwen in Hugging Face's order of weights. */
  RAPT_ROPE_HALVES = 0,
  RAPT_ROPE_PAIRS /**< element 2i pairs with 2i + 1: GPT-J, llama2.c, Llama in Meta's order */
};
typedef enum rapt_rope_layout rapt_rope_layout;

/** Turns the pairs of elements of every head by the angles of its token's position. Pair i of a head has the elements
 * a and b, and becomes
 *
 * ~~~
 *   angle = position * frequencies[i]
 *   s = sin(angle) * attention_factor,  c = cos(angle) * attention_factor
 *   a' = fma(a, c, -(b * s)),  b' = fma(a, s, b * c)
 * ~~~
 *
 * in the arithmetic type. The angle, its sine and cosine, and their products with the attention factor are
 * computed in double, without the C library. s and c are rounded once to f32 (not for f64). Elements from
 * rotary_dim on are copied. Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding",
 * arXiv:2104.09864.
 *
 * x and y are [batch][heads][tokens][head_dim]. y may be x, with the same strides, and must overlap nothing
 * else. Tokens, heads and sequences do not mix, so threads may take any part of them in their own calls. Pairs
 * do not mix either. A call for one token has the bits of a call for all.
 *
 * Special values. A NaN or infinity touches only its own pair. At position 0, and where frequencies[i] is 0, s is 0
 * and c is the attention factor. So finite a and b are multiplied by it. Only the sign of a zero may change, and the
 * partner of an infinite element becomes NaN.
 *
 * Accuracy. With u as above, A = |attention_factor|, R = sqrt(a^2 + b^2) and t = 1.2e-16 |angle|:
 * ~~~
 *   s, c      |error| <= A (1.004 u |sine| + t) + 2^-150, for f64 A (3.5 u |sine| + t) + 2^-1074
 *   a', b'    |error| <= A (3.1 u R + t (|a| + |b|)) + 2^-149 (|a| + |b| + 2) if nothing overflows,
 *             for f64 A (5.6 u R + t (|a| + |b|)) + 2^-1074 (|a| + |b| + 2)
 * ~~~
 * t is the error of the product position * frequency. It stays below 2^-28 up to position 2^24 if no frequency
 * is above 1, so only f64 shows it. The rounding of a frequency to double has the same effect. */
typedef struct rapt_rope_options {
  size_t size; /**< sizeof(rapt_rope_options) */

  rapt_type type; /**< of x and y: RAPT_F32 (0: RAPT_F32), RAPT_F64, RAPT_F16 or RAPT_BF16 */
  int layout;     /**< one of rapt_rope_layout; 0: halves */

  /* The shape. */
  size_t batch;           /**< sequences; not 0 */
  size_t heads;           /**< of a token; not 0 */
  size_t tokens;          /**< of a sequence; may be 0 */
  size_t head_dim;        /**< elements of a head; not 0 */
  size_t rotary_dim;      /**< the first elements of a head, which turn; even. 0: head_dim */
  rapt_strides x_strides; /**< of x [batch][heads][tokens][head_dim]; all 0: contiguous */
  rapt_strides y_strides; /**< of y, in the shape of x; all 0: contiguous */

  /* The angles. */
  const double *frequencies; /**< [rotary_dim / 2], radians for a step of the position; at most 1024 */

  /** The positions are [batch][tokens], each from -2^24 to 2^24. If positions is null, token t of every sequence
   * has the position first_position + t. */
  const int64_t *positions;
  ptrdiff_t positions_stride; /**< of sequences; 0: tokens. RAPT_REPEAT: the same positions for all */
  int64_t first_position;     /**< only without positions */

  double attention_factor; /**< YaRN's: a normal number of the arithmetic type; 0: 1 */
  int backward;            /**< not 0: the gradient of x from that of y, which turns back: s is negated */
} rapt_rope_options;

/** Everything else zero. */
#define RAPT_ROPE_OPTIONS_INIT                                                                              \
  {                                                                                                         \
    sizeof(rapt_rope_options), RAPT_TYPE_DEFAULT, 0, 0, 0, 0, 0, 0, {0, 0, 0}, {0, 0, 0}, NULL, NULL, 0, 0, \
        0, 0                                                                                                \
  }

/** Turns the pairs of elements of every head. rapt_rope_options has the formulas. */
RAPT_API rapt_status rapt_rope(const void *x, void *y, const rapt_rope_options *options);

/** The names are those of Hugging Face's rope_type. */
enum rapt_rope_scaling {
  RAPT_ROPE_SCALING_NONE = 0, /**< "default" */
  RAPT_ROPE_SCALING_LINEAR,   /**< "linear" */
  RAPT_ROPE_SCALING_LLAMA3,   /**< "llama3" */
  RAPT_ROPE_SCALING_YARN      /**< "yarn" */
};
typedef enum rapt_rope_scaling rapt_rope_scaling;

/** Makes the frequencies of a model from its config.json, where the fields have these names. A field that the
 * scaling does not use must be 0. A factor, beta or mscale that is set lies from 2^-256 to 2^256. The expressions,
 * each operation in double:
 *
 * ~~~
 *   f[i] = base^(-2i / rotary_dim), for i < rotary_dim / 2
 *
 *   NONE     f
 *   LINEAR   f / factor
 *   LLAMA3   with wave = 2 pi / f, n = original_max_position_embeddings, l and h the freq_factors low and high:
 *            wave < n / h:  f
 *            wave > n / l:  f / factor
 *            else:          (1 - s) * f / factor + s * f, where s = (n / wave - l) / (h - l)
 *   YARN     (f / factor) * (1 - e) + f * e, where e = 1 - min(max((i - low) / (high - low), 0), 1)
 *            dim(turns) = rotary_dim * ln(n / (turns * 2 pi)) / (2 * ln(base))
 *            low = max(floor(dim(beta_fast)), 0),  high = min(ceil(dim(beta_slow)), rotary_dim - 1)
 *            without floor and ceil if no_truncate is set; if low = high, high + 0.001
 * ~~~
 *
 * *attention_factor, if not null, becomes 1, but for YARN m(1), or m(mscale) / m(mscale_all_dim) if both are
 * set: m(s) = factor <= 1 ? 1 : 0.1 * s * ln(factor) + 1. A model whose config.json has an attention_factor
 * takes that. YARN is Peng et al., arXiv:2309.00071.
 *
 * A frequency of NONE errs by at most 1 unit in the last place, and 2i / rotary_dim = 0 gives exactly 1. One of
 * LINEAR errs by at most 2.5 units. One of LLAMA3 and YARN errs by at most 16 u max(f, f / factor) in the models of
 * the tests: Llama 3.1 and 3.2, Qwen 2.5, DeepSeek V2, gpt-oss. Hugging Face computes in f32,
 * which shifts the angle at position 100 000 by up to 0.01. To have its angles, widen its inv_freq to double.
 * Other scalings (dynamic, longrope) change the base or divide f by a factor of their own. */
typedef struct rapt_rope_frequency_options {
  size_t size; /**< sizeof(rapt_rope_frequency_options) */

  size_t rotary_dim; /**< even, not 0: partial_rotary_factor * head_dim */
  double base;       /**< rope_theta, above 1 and at most 2^512. 0: 10000 */
  int scaling;       /**< one of rapt_rope_scaling */

  double factor;                           /**< LINEAR, LLAMA3, YARN: positive */
  size_t original_max_position_embeddings; /**< LLAMA3, YARN: not 0 */
  double low_freq_factor;                  /**< LLAMA3: positive. 0: 1 */
  double high_freq_factor;                 /**< LLAMA3: above low_freq_factor. 0: 4 */
  double beta_fast;                        /**< YARN: above beta_slow. 0: 32 */
  double beta_slow;                        /**< YARN: positive. 0: 1 */
  int no_truncate;                         /**< YARN: not 0 stands for "truncate": false */
  double mscale;                           /**< YARN: positive with mscale_all_dim, or both 0 */
  double mscale_all_dim;                   /**< YARN: positive with mscale, or both 0 */
} rapt_rope_frequency_options;

/** Everything else zero. */
#define RAPT_ROPE_FREQUENCY_OPTIONS_INIT \
  { sizeof(rapt_rope_frequency_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** Makes the frequencies of a model. rapt_rope_frequency_options has the formulas. attention_factor may be null. */
RAPT_API rapt_status rapt_rope_frequencies(double *frequencies /* [rotary_dim / 2] */,
                                           double *attention_factor /* or null */,
                                           const rapt_rope_frequency_options *options);

/** \} */

#ifdef __cplusplus
}
#endif
#endif
