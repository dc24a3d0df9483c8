/* rapt: CPU kernels for attention, with the same bits on every instruction set.
 *
 * Lengths are elements, strides are elements, the innermost dimension is contiguous, and no alignment is
 * required anywhere. n, rows or cols of 0 is a success: a dot product is 0, and functions over rows read no
 * element of x. Rows without columns have nothing to write but their log-sum-exp: -inf, or the sink.
 *
 * Structs of options. A zeroed struct with `size` and the shape set is plain attention, or plain softmax: 0
 * is the default of every field. Nothing that is set is ignored: a field without effect beside the others is
 * an error that names it. Every product of sizes is checked for overflow.
 *
 * Strides of tensors. {0, 0, 0} is contiguous in the order batch, head, token. Otherwise every stride of a
 * dimension longer than 1 is given: 0 is an error there, and RAPT_REPEAT repeats an input along the
 * dimension. A stride that a tensor has no use for is not looked at: of the batch of packed sequences, of the
 * tokens of packed keys, and all of a tensor without elements.
 *
 * The same bits. Every function below returns the same bits on every instruction set, at any alignment,
 * stride and batch size, in place or not, and whatever rounding mode and flush-to-zero setting the calling
 * thread has (the setting is put back). One exception: which NaN a NaN result is (sign, payload) is not
 * promised.
 *
 * Special values, for every function:
 *   an element excluded by a mask, a length,      never read into the result: probability exactly 0,
 *   causality or a bias of -inf                   even if the element is NaN or infinite
 *   a row with no element left                    probabilities 0, log-probabilities and log-sum-exp -inf
 *                                                 (with a sink, the log-sum-exp is the sink)
 *   -inf among the elements                       probability exactly +0
 *   a row whose elements are all -inf             NaN, unless empty_rows_are_zero is set; in
 *                                                 attention as a row with no element left
 *   NaN or +inf among the elements                the row is NaN, but for its excluded elements
 *   exp(-inf), exp(+inf), exp(NaN)                +0, +inf, NaN
 *   a bad argument                                a status that names it; nothing is written
 *
 * Accuracy bounds hold for every input unless they say "where terms are not made for it": a sum in partial
 * sums loses most when one large term is followed by many that are just above half a unit of it, and such
 * rows have the larger bound that stands beside.
 *
 * Threads: every function may be called from any number of threads at once. The library holds no state but
 * the choice of instruction set, allocates nothing, prints nothing, starts no thread and throws nothing.
 *
 * Functions that return no status (dot, dot_rows, scale, exp, exp_sum) check nothing: their pointers must be
 * valid for the lengths given. In every function, an output may overlap an input only where the text says so.
 */
#ifndef RAPT_RAPT_H
#define RAPT_RAPT_H

#include <stddef.h>
#include <stdint.h>

#if defined(RAPT_SHARED) && defined(__GNUC__)
#define RAPT_API __attribute__((visibility("default")))
#else
#define RAPT_API
#endif

#define RAPT_VERSION_MAJOR 0
#define RAPT_VERSION_MINOR 2
#define RAPT_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ------------------------------------------------------------------------------------------- */

enum rapt_status {
  RAPT_OK = 0,
  RAPT_BAD_X,            /* x is null */
  RAPT_BAD_Y,            /* y is null */
  RAPT_BAD_DY,           /* dy is null */
  RAPT_BAD_DX,           /* dx is null */
  RAPT_BAD_OUT,          /* out is null */
  RAPT_BAD_X_STRIDE,     /* x_stride is smaller than a row */
  RAPT_BAD_Y_STRIDE,     /* y_stride is smaller than a row */
  RAPT_BAD_DY_STRIDE,    /* dy_stride is smaller than a row */
  RAPT_BAD_DX_STRIDE,    /* dx_stride is smaller than a row */
  RAPT_BAD_OVERLAP,      /* an output overlaps an input without being exactly that input */
  RAPT_BAD_SIZE,         /* a product of sizes does not fit the address space */
  RAPT_BAD_OPTIONS_SIZE, /* options->size is not the size of a known struct of options */
  RAPT_BAD_OPTION,       /* an option that this version does not know is set */
  RAPT_BAD_SCALE,       /* the scale is no normal number of the arithmetic type, or above its max / log2(e) */
  RAPT_BAD_SOFTCAP,     /* softcap is negative, or it or scale / softcap is no normal number */
  RAPT_BAD_BIAS_STRIDE, /* bias_stride is smaller than a row, or set without a bias */
  RAPT_BAD_MASK_STRIDE, /* mask_stride is smaller than a row, or set without a mask */
  RAPT_BAD_ROW_LENGTHS, /* a row length is larger than cols */
  RAPT_BAD_ISA_NAME,    /* no instruction set of that name is compiled in */
  RAPT_BAD_ISA_FOR_THIS_CPU, /* this CPU or its operating system cannot run that instruction set */
  RAPT_BAD_Q,                /* q is null */
  RAPT_BAD_K,                /* k is null */
  RAPT_BAD_V,                /* v is null */
  RAPT_BAD_OPTIONS,          /* options is null */
  RAPT_BAD_HEADS,            /* q_heads is not a multiple of kv_heads */
  RAPT_BAD_DIM,              /* qk_dim or v_dim is 0 or too large */
  RAPT_BAD_SHAPE,            /* batch or q_heads is 0 */
  RAPT_BAD_TYPE,             /* an element type that this version, or the span that is given, does not have */
  RAPT_BAD_ARITHMETIC,       /* an arithmetic that the element types do not have */
  RAPT_BAD_KV_SCALES,        /* k_scales, v_scales or scale_group without keys and values of RAPT_I8 */
  RAPT_BAD_Q_STRIDES,        /* a stride of q is 0 or negative */
  RAPT_BAD_K_STRIDES,        /* a stride of k is 0 or negative */
  RAPT_BAD_V_STRIDES,        /* a stride of v is 0 or negative */
  RAPT_BAD_OUT_STRIDES,      /* the strides of out let two of its rows overlap */
  RAPT_BAD_LSE_STRIDES,      /* the strides of lse let two of its elements coincide, or are set without lse */
  RAPT_BAD_BIAS_STRIDES,     /* a stride of bias is 0 or negative, or set without a bias */
  RAPT_BAD_MASK_STRIDES,     /* a stride of mask is 0 or negative, or set without a mask */
  RAPT_BAD_QUERY_SCALES,     /* a stride of query_scales is 0 or negative, or set without query_scales */
  RAPT_BAD_CAUSAL,           /* causal is not one of rapt_causal */
  RAPT_BAD_CAUSAL_OFFSET,    /* causal_offset without RAPT_CAUSAL_OFFSET, or beyond 2^60 */
  RAPT_BAD_KV_LENGTHS,       /* an entry of kv_lengths is negative or larger than kv_len */
  RAPT_BAD_OFFSETS,      /* q_offsets or kv_offsets decrease, or a sequence is longer than q_len, kv_len */
  RAPT_BAD_BLOCK_TABLE,  /* a page number is negative, the table too narrow, or kv_offsets set beside it */
  RAPT_BAD_PAGE_SIZE,    /* page_size is no multiple of 16, 0 beside block_table, or set without it */
  RAPT_BAD_PACKED_KEYS,  /* packed keys go with whole pages of 64 keys, and not with kv_offsets */
  RAPT_BAD_PARTIALS,     /* partials is null */
  RAPT_BAD_WORKSPACE,    /* workspace is null or smaller than rapt_attention_workspace says */
  RAPT_BAD_TASKS,        /* the range of tasks is not within those there are */
  RAPT_BAD_GRADIENTS,    /* gradients is null, or its size is not that of the struct */
  RAPT_BAD_LSE,          /* options->lse is null */
  RAPT_BAD_DOUT,         /* dout is null */
  RAPT_BAD_DQ,           /* dq is null */
  RAPT_BAD_DK,           /* dk is null */
  RAPT_BAD_DV,           /* dv is null */
  RAPT_BAD_DOUT_STRIDES, /* a stride of dout is 0 or negative */
  RAPT_BAD_DQ_STRIDES,   /* the strides of dq let two of its rows overlap */
  RAPT_BAD_DK_STRIDES,   /* the strides of dk let two of its rows overlap */
  RAPT_BAD_DV_STRIDES,   /* the strides of dv let two of its rows overlap */
  RAPT_BAD_DBIAS,        /* dbias without a bias, or bias_strides let two of its rows overlap in part */
  RAPT_BAD_DSINKS        /* dsinks without sinks */
};
typedef enum rapt_status rapt_status;

/* The status in words, naming the argument at fault. Never null; the text is static. */
RAPT_API const char *rapt_status_text(rapt_status status);

/* "MAJOR.MINOR.PATCH" of the library that was linked. */
RAPT_API const char *rapt_version(void);

/* ---- which instruction set serves --------------------------------------------------------------------- */

/* Levels compiled in, weakest first: "scalar", then "avx2", "avx512" on x86-64 or "neon" on AArch64. The best
 * usable level is chosen at the first call of any function. The environment variable RAPT_ISA names another
 * one; a name that is unknown or that this CPU cannot run is ignored, which rapt_isa_status() tells. */
RAPT_API size_t rapt_isa_count(void);

/* The name of level `index`; null if index >= rapt_isa_count(). */
RAPT_API const char *rapt_isa_name(size_t index);

/* 1 if this CPU has, and its operating system enables, every instruction that the level may use; else 0. */
RAPT_API int rapt_isa_usable(const char *name);

/* The level chosen now. */
RAPT_API const char *rapt_active_isa(void);

/* RAPT_OK, or what was wrong with RAPT_ISA when the library first looked at it: RAPT_BAD_ISA_NAME,
 * RAPT_BAD_ISA_FOR_THIS_CPU. An empty RAPT_ISA is as none. */
RAPT_API rapt_status rapt_isa_status(void);

/* Choose a level for the whole process; null chooses the best one again. Calls already running finish on the
 * level they began with. RAPT_BAD_ISA_NAME, RAPT_BAD_ISA_FOR_THIS_CPU: the choice is unchanged. */
RAPT_API rapt_status rapt_force_isa(const char *name);

/* The level whose code runs for a kernel ("softmax_f32"); null if there is no such kernel. */
RAPT_API const char *rapt_kernel_isa(const char *kernel);

/* Outputs of 16 MiB and more that are not written in place (scale, exp, softmax) go past the caches, and are
 * visible to other threads as any store is once the call has returned. */

/* ---- types, strides, causality ------------------------------------------------------------------------ */

typedef uint16_t rapt_f16, rapt_bf16;

/* What an element is. This version has RAPT_F32 and RAPT_F64; the others are RAPT_BAD_TYPE. The arithmetic
 * type is double for f64 and float for all others: bias, sinks, slopes, query scales, log-sum-exp and
 * partial results are of it. */
enum rapt_type { RAPT_TYPE_DEFAULT = 0, RAPT_F32, RAPT_F64, RAPT_F16, RAPT_BF16, RAPT_I8 };
typedef enum rapt_type rapt_type;

/* How products and sums are made of the elements. This version has the default: f32 or f64, as the elements.
 */
enum rapt_arithmetic {
  RAPT_ARITHMETIC_DEFAULT = 0,
  RAPT_ARITHMETIC_F32,
  RAPT_ARITHMETIC_BF16,
  RAPT_ARITHMETIC_FAST
};

/* Which keys a query at token i sees, of as many queries and keys as its sequence has (of a matrix: rows are
 * queries, columns keys). */
enum rapt_causal {
  RAPT_CAUSAL_NONE = 0,
  RAPT_CAUSAL_BOTTOM_RIGHT, /* up to i + keys - queries: the last query sees the last key */
  RAPT_CAUSAL_TOP_LEFT,     /* up to i */
  RAPT_CAUSAL_OFFSET        /* up to i + causal_offset, whose magnitude is at most 2^60 */
};

/* As a stride: the same memory for every index of the dimension. */
#define RAPT_REPEAT PTRDIFF_MIN

/* Elements from one batch item, head, token to the next. */
typedef struct rapt_strides {
  ptrdiff_t batch;
  ptrdiff_t head;
  ptrdiff_t token;
} rapt_strides;

/* Of contiguous [batch][heads][tokens][dim], and of [batch][tokens][heads][dim]. */
static inline rapt_strides rapt_strides_bhtd(size_t heads, size_t tokens, size_t dim) {
  const rapt_strides strides = {(ptrdiff_t)(heads * tokens * dim), (ptrdiff_t)(tokens * dim), (ptrdiff_t)dim};
  return strides;
}
static inline rapt_strides rapt_strides_bthd(size_t heads, size_t tokens, size_t dim) {
  const rapt_strides strides = {(ptrdiff_t)(heads * tokens * dim), (ptrdiff_t)dim, (ptrdiff_t)(heads * dim)};
  return strides;
}

/* ---- vectors ------------------------------------------------------------------------------------------ */

/* Dot product: sum of a[i] * b[i]. a and b may overlap.
 * Accuracy: |error| <= (n / 64 + 8) * 2^-24 * sum |a[i] * b[i]| (f64: (n / 32 + 8) * 2^-53), where nothing
 * overflows or underflows; 1e-6 (4e-15) times that sum for n <= 2^20 where terms are not made for it. NaN and
 * infinities follow IEEE arithmetic. Order of the sum: 64 (f64: 32) partial sums, element i in partial sum i
 * mod 64, by fused multiply-add. */
RAPT_API float rapt_dot_f32(const float *a, const float *b, size_t n);
RAPT_API double rapt_dot_f64(const double *a, const double *b, size_t n);

/* out[r] = scale * dot(query, row r): one rounding after the very bits that rapt_dot gives. row_stride may be
 * any value, negative and 0 included. out must not overlap query or rows. */
RAPT_API void rapt_dot_rows_f32(const float *query, const float *rows, ptrdiff_t row_stride, size_t row_count,
                                size_t dim, float scale, float *out);
RAPT_API void rapt_dot_rows_f64(const double *query, const double *rows, ptrdiff_t row_stride,
                                size_t row_count, size_t dim, double scale, double *out);

/* y[i] = x[i] * factor, correctly rounded. y may be x. */
RAPT_API void rapt_scale_f32(const float *x, float factor, float *y, size_t n);
RAPT_API void rapt_scale_f64(const double *x, double factor, double *y, size_t n);

/* y[i] = exp(x[i]), below 1 ULP (f32: 0.892 over all inputs) with subnormal results included. Overflow gives
 * +inf above x = 88.722831 (f64: 709.782712893384), and +0 below x = -103.98 (f64: -745.14). y may be x. */
RAPT_API void rapt_exp_f32(const float *x, float *y, size_t n);
RAPT_API void rapt_exp_f64(const double *x, double *y, size_t n);

/* y[i] = exp(t) of t = scale * x[i] - shift rounded once, exactly as rapt_exp gives it; returns the sum of y,
 * with a relative error below 1e-6 (f64: 1e-14) against the sum of the y written where terms are not made for
 * it, and below 5e-6 (f64: 2e-14) for any. y may be x. */
RAPT_API float rapt_exp_sum_f32(const float *x, float scale, float shift, float *y, size_t n);
RAPT_API double rapt_exp_sum_f64(const double *x, double scale, double shift, double *y, size_t n);

/* ---- rows --------------------------------------------------------------------------------------------- */

/* What a row's scores are made of, in this order:
 *   s = scale * x,  then  s = softcap * tanh(s / softcap),  then  s += bias;  then exclusions.
 * Scaling costs nothing and is not rounded: exp is taken of the exact product unless softcap or bias is set.
 * A row sees the columns below row_lengths[r], as far as causal lets it, where mask is not 0 and bias is not
 * -inf. scale, softcap and their quotient must be normal numbers of the arithmetic type, and scale at most
 * the type's largest number / log2(e). Set size, or start from RAPT_SOFTMAX_OPTIONS_INIT. */
typedef struct rapt_softmax_options {
  size_t size;               /* sizeof(rapt_softmax_options) */
  double scale;              /* 0: 1; 1/sqrt(d_k) for attention */
  double softcap;            /* 0: off */
  const void *bias;          /* [rows][cols] of the arithmetic type, or null */
  ptrdiff_t bias_stride;     /* 0: cols; RAPT_REPEAT: one row of bias for all rows */
  const uint8_t *mask;       /* [rows][cols], 0 excludes the element; or null */
  ptrdiff_t mask_stride;     /* 0: cols; RAPT_REPEAT: one row of mask for all rows */
  const size_t *row_lengths; /* [rows], each <= cols; or null */
  int causal;                /* one of rapt_causal: rows are queries, columns keys */
  ptrdiff_t causal_offset;   /* with RAPT_CAUSAL_OFFSET alone: row r sees the columns <= r + causal_offset */
  const void *sinks;       /* [rows] of the arithmetic type, an extra logit in the row's sum only; or null */
  int empty_rows_are_zero; /* a row of -inf: probabilities 0 (log: -inf) instead of NaN */
} rapt_softmax_options;

#define RAPT_SOFTMAX_OPTIONS_INIT \
  { sizeof(rapt_softmax_options), 0.0, 0.0, NULL, 0, NULL, 0, NULL, 0, 0, NULL, 0 }

/* y[r][c] = exp(s[r][c]) / sum over c of exp(s[r][c]), over rows of `cols` elements.
 * x_stride and y_stride are at least cols (with one row they are not read). y may be x, with the same stride.
 * bias, mask, row_lengths and sinks must not overlap y. options may be null.
 * Accuracy: relative error of every probability at most 72 * 2^-24 (f64: 140 * 2^-53) at any number of
 * columns and any magnitude of logits; most rows stay below 6 (f64: 10) units. Scores that options make are
 * rounded. Before its bias such a score s errs, in the same units, by |s| + |s + bias| with a bias or a scale
 * whose magnitude is outside of [2^-16, 2^16], and by 5 * |s| + |s + bias| (f64: 7 * |s| + |s + bias|) with a
 * softcap. A log-sum-exp errs by as much more, a probability or its logarithm by twice that. A score that
 * leaves the range of the type is infinite. A probability below the smallest normal number is 0,
 * never subnormal. A probability is never above 1, and a row with one visible element is exactly 1. */
RAPT_API rapt_status rapt_softmax_f32(const float *x, ptrdiff_t x_stride, float *y, ptrdiff_t y_stride,
                                      size_t rows, size_t cols, const rapt_softmax_options *options);
RAPT_API rapt_status rapt_softmax_f64(const double *x, ptrdiff_t x_stride, double *y, ptrdiff_t y_stride,
                                      size_t rows, size_t cols, const rapt_softmax_options *options);

/* y[r][c] = s[r][c] - log-sum-exp of row r; never above 0; excluded elements are -inf. Arguments as
 * softmax.
 * Accuracy: |error| <= 72 * 2^-24 * max(1, |y|) (f64: 140 * 2^-53), where scores are not rounded; most rows
 * stay below 4 (f64: 8) units. */
RAPT_API rapt_status rapt_log_softmax_f32(const float *x, ptrdiff_t x_stride, float *y, ptrdiff_t y_stride,
                                          size_t rows, size_t cols, const rapt_softmax_options *options);
RAPT_API rapt_status rapt_log_softmax_f64(const double *x, ptrdiff_t x_stride, double *y, ptrdiff_t y_stride,
                                          size_t rows, size_t cols, const rapt_softmax_options *options);

/* out[r] = log of the sum over c of exp(s[r][c]), the sink included; of rows without columns -inf, or the
 * sink. out must not overlap an input.
 * Accuracy: |error| <= 72 * 2^-24 * max(1, |out|) (f64: 140 * 2^-53), where scores are not rounded; most rows
 * stay below 4 (f64: 8) units. */
RAPT_API rapt_status rapt_logsumexp_f32(const float *x, ptrdiff_t x_stride, float *out, size_t rows,
                                        size_t cols, const rapt_softmax_options *options);
RAPT_API rapt_status rapt_logsumexp_f64(const double *x, ptrdiff_t x_stride, double *out, size_t rows,
                                        size_t cols, const rapt_softmax_options *options);

/* dx = scale * y * (dy - sum over c of y * dy): the gradient of softmax(scale * x), from its output y and the
 * gradient dy of that output. An element with y = 0 is excluded: its dy is never read into the result, and
 * its dx is 0. dx may be y or dy, with the same stride. scale is finite.
 * Accuracy: |error| <= 1e-6 * |scale| * y * (|dy| + sum y |dy|) (f64: 4e-15), with dot's exception. */
RAPT_API rapt_status rapt_softmax_backward_f32(const float *y, ptrdiff_t y_stride, const float *dy,
                                               ptrdiff_t dy_stride, float *dx, ptrdiff_t dx_stride,
                                               size_t rows, size_t cols, float scale);
RAPT_API rapt_status rapt_softmax_backward_f64(const double *y, ptrdiff_t y_stride, const double *dy,
                                               ptrdiff_t dy_stride, double *dx, ptrdiff_t dx_stride,
                                               size_t rows, size_t cols, double scale);

/* ---- attention ---------------------------------------------------------------------------------------- */

/* What attention computes, for every query i of every head h and batch item b:
 *
 *   t[j] = q[i] . k[j]                                     over qk_dim
 *   s[j] = scale * query_scales[i] * t[j]
 *   s[j] = softcap * tanh(s[j] / softcap)                  if softcap is not 0
 *   s[j] = s[j] + alibi_slopes[h] * (j - p)                if there are slopes
 *   s[j] = s[j] + bias[i][j]                               if there is a bias
 *   out[i] = sum over the visible j of exp(s[j] - lse[i]) * v[j]
 *   lse[i] = log of (sum over the visible j of exp(s[j]) + exp(sinks[h]))
 *
 * Query head h reads key/value head h / (q_heads / kv_heads). The position of query i among the keys is
 * p = i + (keys - queries of the sequence); under RAPT_CAUSAL_TOP_LEFT p = i, under RAPT_CAUSAL_OFFSET
 * p = i + causal_offset. Key j is visible where j is below the sequence's length, and
 *   causal:        j <= p
 *   window_left:   j > p - window_left
 *   window_right:  j < p + window_right
 *   window_chunk:  j / window_chunk == p / window_chunk, rounded down
 *   mask:          mask[i][j] is not 0
 *   bias:          bias[i][j] is not -inf.
 *
 * ONNX's Attention (opsets 23 and 24) is this with causal = RAPT_CAUSAL_OFFSET and causal_offset the length
 * of the past (without a past RAPT_CAUSAL_TOP_LEFT), or RAPT_CAUSAL_BOTTOM_RIGHT where nonpad_kv_seqlen, our
 * kv_lengths, gives each sequence's; its attn_mask is the mask, or the bias if it is of numbers, and with
 * fewer columns than keys kv_lengths.
 *
 * All of it is optional but size and the shape; start from zeros or from RAPT_ATTENTION_OPTIONS_INIT. */
typedef struct rapt_attention_options {
  size_t size; /* sizeof(rapt_attention_options) */

  /* What q, k, v and out are made of. */
  rapt_type q_type;   /* 0: RAPT_F32 */
  rapt_type kv_type;  /* 0: q_type */
  rapt_type out_type; /* 0: q_type */
  int arithmetic;     /* one of rapt_arithmetic */

  /* Of RAPT_I8 keys and values: [batch][kv_heads][kv_len][groups], strides, pages and lengths as k and v. */
  const float *k_scales, *v_scales;
  size_t scale_group; /* elements of a head that share a scale; 0: all */

  /* The shape: q [batch][q_heads][q_len][qk_dim], k [batch][kv_heads][kv_len][qk_dim],
   * v [batch][kv_heads][kv_len][v_dim], out [batch][q_heads][q_len][v_dim], in any order of the first three
   * dimensions. k and v may share memory. */
  size_t batch;    /* not 0 */
  size_t q_heads;  /* not 0 */
  size_t kv_heads; /* divides q_heads; 0: as q_heads */
  size_t q_len;
  size_t kv_len;
  size_t qk_dim; /* not 0 */
  size_t v_dim;  /* 0: as qk_dim */
  rapt_strides q_strides, k_strides, v_strides, out_strides;

  /* The scores. scale, softcap and their quotient must be normal numbers of the arithmetic type, and scale at
   * most the type's largest number / log2(e). */
  double scale;             /* 0: 1/sqrt(qk_dim) */
  const void *query_scales; /* [batch][q_heads][q_len], a factor per query; or null */
  rapt_strides query_scale_strides;
  double softcap;           /* 0: off */
  const void *alibi_slopes; /* [q_heads], or null */
  const void *bias;         /* [batch][q_heads][q_len][kv_len], keys contiguous; or null */
  rapt_strides bias_strides;
  const void *sinks; /* [q_heads], a logit that takes part in the sum alone; or null */

  /* What a query sees. */
  int causal;              /* one of rapt_causal */
  ptrdiff_t causal_offset; /* with RAPT_CAUSAL_OFFSET alone */
  size_t window_left;  /* 0: no limit; w: w keys up to and with its own position (a model's sliding_window) */
  size_t window_right; /* 0: no limit; w: w keys from its own position on */
  size_t window_chunk; /* 0: off */
  const uint8_t *mask; /* [batch][q_heads][q_len][kv_len], keys contiguous; or null */
  rapt_strides mask_strides;

  /* Sequences of different lengths. q_len and kv_len are then the largest there may be. Nothing past a length
   * is read, of k, v, bias and mask. */
  const int32_t *kv_lengths; /* [batch], keys of each sequence; or null */
  const int32_t *q_offsets;  /* [batch + 1], packed: sequence b has the tokens from q_offsets[b] to */
  const int32_t *kv_offsets; /* q_offsets[b + 1] of q and out (k and v), which then have no batch stride */

  /* Keys and values in pages: token t of sequence b lies at token t % page_size of page
   * block_table[b * block_table_stride + t / page_size]. The batch stride of k and v is then a page's. */
  const int32_t *block_table;
  size_t block_table_stride; /* 0: as many as kv_len needs */
  size_t page_size;          /* a multiple of 16 */

  /* Not 0: k is as rapt_attention_pack_keys makes it, and has no token stride. */
  int packed_keys;

  /* The log-sum-exp of every row, [batch][q_heads][q_len] (with q_offsets [q_heads][tokens]); or null. */
  void *lse;
  rapt_strides lse_strides;
} rapt_attention_options;

/* One sequence, one head; everything else zero. */
#define RAPT_ATTENTION_OPTIONS_INIT                                                                         \
  {                                                                                                         \
    sizeof(rapt_attention_options), RAPT_TYPE_DEFAULT, RAPT_TYPE_DEFAULT, RAPT_TYPE_DEFAULT, 0, NULL, NULL, \
        0, /* shape */ 1, 1, 0, 0, 0, 0, 0, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, /* scores */ 0.0,   \
        NULL, {0, 0, 0}, 0.0, NULL, NULL, {0, 0, 0}, NULL, /* visibility */ 0, 0, 0, 0, 0, NULL, {0, 0, 0}, \
        /* lengths */ NULL, NULL, NULL, NULL, 0, 0, 0, /* lse */ NULL, {                                    \
      0, 0, 0                                                                                               \
    }                                                                                                       \
  }

/* softmax(Q.K^T * scale) . V, with the options above, never holding the matrix of scores.
 *
 * workspace: memory of rapt_attention_workspace bytes, of any alignment, for the time of the call; calls that
 * run at once need one each. Its size depends on the dimensions of the heads alone: f32 takes
 * 4 * (64 * qk_dim + 128 * v_dim + 8192) + 64 bytes, f64 8 * (64 * qk_dim + 128 * v_dim + 8192) + 64.
 * Aliasing: out may be exactly q, with the same strides and v_dim = qk_dim. It must overlap nothing else.
 * Special values: a row with nothing visible gives 0 and log-sum-exp -inf (the sink, if there is one). What
 * is not visible is never read into a result, whatever it holds, NaN and infinities included. A score of -inf
 * that is visible has weight 0, and a row of nothing but such scores is as one with nothing visible. NaN or
 * +inf among the visible scores makes the row NaN; so does a sink of NaN or +inf, or a finite one above the
 * type's largest number / log2(e). A weight below 2^-125 of the row's largest is 0 (f64: 2^-1021). Values are
 * added up with weights relative to the row's largest, before the division by their sum: where that leaves
 * the range of the type the output is infinite, or NaN. Values below the largest number / kv_len never do. No
 * output is -0.
 * Accuracy: let u = 2^-24 (f64: 2^-53), and S be the largest sum over d of |scale * q[d] * k[d]|, with the
 * query's own scale, plus |alibi| and |bias|, over the visible j.
 *   out: |error| <= (32 + (qk_dim + 8) * S) * u * max over the visible |v| where terms are not made for it,
 *        and 512 + kv_len / 256 units more for any;
 *   lse: |error| <= (16 + (qk_dim + 8) * S + |lse|) * u, and kv_len / 256 units more for any.
 * With a softcap qk_dim counts 12 more (f64: 16).
 *
 * Order of the operations, on every instruction set: a score is one chain of fused multiply-adds over the
 * dimension; weights are taken relative to the largest score of the blocks so far, in blocks of 64 keys
 * counted from the sequence's first; a block's weights are summed by halves, its values added up in key
 * order; after every 512 keys a new partial result begins, and partial results are folded from left to
 * right. None of it depends on how many queries, heads, sequences or tasks there are: a token decoded alone
 * has the bits that it has in a prefill. */
RAPT_API rapt_status rapt_attention(const void *q, const void *k, const void *v, void *out,
                                    const rapt_attention_options *options, void *workspace,
                                    size_t workspace_size);

/* Bytes of workspace that a call needs. This and the other questions below look at no array of the options.
 */
RAPT_API rapt_status rapt_attention_workspace(const rapt_attention_options *options, size_t *bytes);

/* The same work as numbered tasks, for any pool of threads: run(first, last) does tasks first to last - 1.
 * Every task writes rows of its own, and every split gives the same bits. A task is up to 64 rows (queries
 * times the query heads of one key/value head); tasks of a sequence follow each other. */
RAPT_API rapt_status rapt_attention_tasks(const rapt_attention_options *options, size_t *tasks);
RAPT_API rapt_status rapt_attention_run(const void *q, const void *k, const void *v, void *out,
                                        const rapt_attention_options *options, size_t first, size_t last,
                                        void *workspace, size_t workspace_size);

/* Split keys: for few queries over many keys, the keys are worked on in chunks of 512 that may run anywhere,
 * and the merge gives the very bits of the unsplit call. partial_tasks counts the tasks: chunk c's are those
 * from c * rapt_attention_tasks to (c + 1) * rapt_attention_tasks - 1. partials holds
 * [batch][q_heads][q_len][chunks][v_dim + 2] elements of the arithmetic type: the largest score, the sum of
 * weights relative to it, and the weighted sum of values of each chunk. It must overlap nothing. */
RAPT_API rapt_status rapt_attention_partial_tasks(const rapt_attention_options *options, size_t *tasks,
                                                  size_t *partials_length);
RAPT_API rapt_status rapt_attention_partial(const void *q, const void *k, const void *v, void *partials,
                                            const rapt_attention_options *options, size_t first, size_t last,
                                            void *workspace, size_t workspace_size);
/* Tasks as rapt_attention_tasks counts them. */
RAPT_API rapt_status rapt_attention_merge(const void *partials, void *out,
                                          const rapt_attention_options *options, size_t first, size_t last,
                                          void *workspace, size_t workspace_size);

/* Packed keys, for caches that are read many times: key t, dimension d of one head lies at
 *   packed[(t / 64) * 64 * qk_dim + d * 64 + t % 64],
 * in (tokens + 63) / 64 * 64 * qk_dim elements. pack_keys writes the keys first .. first + tokens - 1 of a
 * head to their places, from rows token_stride apart (0: qk_dim; RAPT_REPEAT: the same row); the others of a
 * block may hold anything. Of the options it takes kv_type and qk_dim. packed must not overlap k. */
RAPT_API rapt_status rapt_attention_pack_keys(const void *k, ptrdiff_t token_stride, size_t first,
                                              size_t tokens, const rapt_attention_options *options,
                                              void *packed);

/* ---- attention backwards ------------------------------------------------------------------------------ */

/* What comes in and goes out beside q, k, v and the options of the forward call. out and dout are of
 * out_type, dq of q_type, dk and dv of kv_type. Set size, or start from RAPT_ATTENTION_GRADIENTS_INIT. */
typedef struct rapt_attention_gradients {
  size_t size;        /* sizeof(rapt_attention_gradients) */
  const void *out;    /* the forward call's output, with options->out_strides */
  const void *dout;   /* the gradient of out, in its shape */
  void *dq, *dk, *dv; /* in the shapes of q, k, v */
  rapt_strides dout_strides, dq_strides, dk_strides, dv_strides;
  void *dbias;  /* with options->bias_strides, and summed where they repeat an element; or null */
  void *dsinks; /* [q_heads], or null */
} rapt_attention_gradients;

#define RAPT_ATTENTION_GRADIENTS_INIT                                                                \
  {                                                                                                  \
    sizeof(rapt_attention_gradients), NULL, NULL, NULL, NULL, NULL, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, \
        {0, 0, 0}, NULL, NULL                                                                        \
  }

/* The gradients of rapt_attention, of the options that it was called with, whose `lse` it has filled. All of
 * a gradient is written: keys that nothing sees have 0. The matrix of scores is never held: it is computed
 * again by tiles. Paged and packed keys are RAPT_BAD_BLOCK_TABLE and RAPT_BAD_PACKED_KEYS.
 *
 *   w[i][j] = exp(s[i][j] - lse[i])             D[i] = dout[i] . out[i]
 *   ds[i][j] = w[i][j] * (dout[i] . v[j] - D[i])
 *   dv[j] = sum over i of w[i][j] * dout[i]     dbias[i][j] = ds[i][j]
 *   dq[i] = sum over j of g[i][j] * k[j]        dsinks[h] = - sum over i of exp(sinks[h] - lse[i]) * D[i]
 *   dk[j] = sum over i of g[i][j] * q[i]        g = ds * scale * query_scales (times 1 - tanh^2 of a softcap)
 *
 * Order: dot products are one chain of fused multiply-adds over the dimension, sums over keys one chain in
 * key order, sums over queries one chain in the order token by token and within a token head by head, dsinks
 * over the sequences one after the other. It does not depend on tasks, batch or instruction set. Special
 * values: a row with nothing visible has dq 0 and adds to nothing (if its dout is not finite, dsinks is NaN).
 * Where the weight is 0 (excluded, or below 2^-125) ds is 0, whatever is there, and a key or query that is
 * not finite adds nothing. A product or sum beyond the range of the type is infinite, or NaN. No weight is
 * above 1. No gradient is -0. Aliasing: gradients overlap nothing.
 * Accuracy (f32; f64: 2^-53): with S of forward's accuracy and e[i] = 8 + |lse[i]| + (qk_dim + 8) * S, the
 * error of a weight is at most e[i] * 2^-24 of it, and that of ds[i][j] (e[i] + v_dim) * 2^-24 of w[i][j] *
 * max over the visible |v| * sum of |dout[i]|. A gradient's error is at most what these make of the terms of
 * its sum, and for n terms n * 2^-24 of the sum of their magnitudes besides.
 *
 * Tasks as those of attention: run(first, last) does some, and every split gives the same bits. A task is a
 * key/value head of a sequence; of all sequences if dsinks is asked for or dbias is summed over them, and of
 * all heads if dbias is summed over heads. */
RAPT_API rapt_status rapt_attention_backward(const void *q, const void *k, const void *v,
                                             const rapt_attention_options *options,
                                             const rapt_attention_gradients *gradients, void *workspace,
                                             size_t workspace_size);
RAPT_API rapt_status rapt_attention_backward_run(const void *q, const void *k, const void *v,
                                                 const rapt_attention_options *options,
                                                 const rapt_attention_gradients *gradients, size_t first,
                                                 size_t last, void *workspace, size_t workspace_size);
RAPT_API rapt_status rapt_attention_backward_tasks(const rapt_attention_options *options,
                                                   const rapt_attention_gradients *gradients, size_t *tasks);
/* Bytes of workspace, of the dimensions alone: f32 4 * (128 * qk_dim + 128 * v_dim + 12800) and 64 more. */
RAPT_API rapt_status rapt_attention_backward_workspace(const rapt_attention_options *options, size_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
