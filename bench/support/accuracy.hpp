// Measures the errors of rapt and of its peers, on inputs like the timed ones. rapt-validate prints rapt's
// errors for all kernels on all levels.
#pragma once

#include <cstdint>
#include <type_traits>

#include "peers/functions.hpp"
#include "support/dot_rows.hpp"
#include "support/elements.hpp"
#include "support/linear_layer.hpp"
#include "support/quantized_layer.hpp"

namespace rapt::bench {

// The errors of exp, activations and scale are units in the last place of the exact result. The inputs are the timed
// ones, and a sweep over inputs with normal results. The sweep ends 1 % short of overflow and underflow,
// because libraries differ by design near these limits.
template <class T>
double exp_error(Exp<T> exp);
template <class T>
double silu_error(Exp<T> silu);
template <class T>
double gelu_error(Exp<T> gelu);
template <class T>
double gelu_tanh_error(Exp<T> gelu_tanh);
template <class T>
double gated_error(TwoToOne<T> gated);  // by silu
template <class T>
double argmax_error(Argmax<T> argmax);
template <class T>
double scale_error(Scale<T> scale);

// The following functions return relative errors in units of 2^-24 (f64: 2^-53).
// Errors of dot products, at the timed lengths, are relative to the sum of |a[i] * b[i]|.
template <class T>
double dot_error(Dot<T> dot);
template <class T>
double dot_rows_error(RowsProduct<T> dot_rows);
// Element is the tests' F16 or BF16, or std::int8_t. A product of two elements is exact in f32.
template <class Element>
using Stored = std::conditional_t<std::is_integral_v<Element>, Element, std::uint16_t>;
template <class Element>
using NarrowSum = std::conditional_t<std::is_integral_v<Element>, std::int64_t, float>;
template <class Element>
using NarrowDot = NarrowSum<Element> (*)(const Stored<Element> *a, const Stored<Element> *b, std::size_t n);
template <class Element>
double narrow_dot_error(NarrowDot<Element> dot);
template <class Element>
double narrow_dot_rows_error(RowsProduct<Stored<Element>, float> dot_rows);
// Measures layers of 768 and 4096 inputs. Errors are relative to the sum of |x * w|, and include the rounding
// of y. Kind is a LinearKind.
template <class Kind>
double linear_error(LinearProduct<typename Kind::Element> product);
// Relative to unquantized weights, so this is the cost of quantization.
template <rapt_arithmetic arithmetic>
double quantized_linear_error(QuantizedProduct product);
// Measures rows of 8 to 50257 columns. Errors are relative to each probability.
template <class T>
double softmax_error(RowsFunction<T> softmax);
// Measures rows of 64 and 4096 columns, whose mean is not 0. Errors are relative to |t w| + |b|, where t is the exact
// normal. bias is null for rms_norm.
template <class T>
double norm_error(Norm<T> norm, bool is_layer);
// Measures the last queries of contexts of up to 4096 keys. Errors are relative to the largest |v| that the
// query sees.
template <class T>
double attention_error(Attention<T> attention);
// Returns the error of problem.out, relative to the largest |v| that the query sees.
template <class T>
double attention_output_error(const AttentionProblem<T> &problem);
// Measures dq, dk and dv of a causal call of 100 tokens. Errors are relative to a gradient's largest element.
template <class T>
double attention_backward_error(AttentionBackward<T> backward);

}  // namespace rapt::bench
