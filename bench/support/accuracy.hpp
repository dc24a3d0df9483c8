// How accurate a library is that is compared with rapt, on inputs like the timed ones. rapt's own errors, of
// all kernels on all levels, are in rapt-validate's table.
#pragma once

#include <cstdint>
#include <type_traits>

#include "peers/functions.hpp"
#include "support/dot_rows.hpp"
#include "support/elements.hpp"

namespace rapt::bench {

// In units in the last place of the exact result. The inputs are the timed ones and a sweep over those with
// normal results, up to 1 % short of overflow and underflow: near these, libraries differ by design.
template <class T>
double exp_error(Exp<T> exp);
template <class T>
double scale_error(Scale<T> scale);

// All others are in units of 2^-24 (f64: 2^-53) of a magnitude.
// Dot products, at the timed lengths: of the sum of |a[i] * b[i]|.
template <class T>
double dot_error(Dot<T> dot);
template <class T>
double dot_rows_error(RowsProduct<T> dot_rows);
// The same for the tests' F16 and BF16 and for std::int8_t, whose products are exact in f32.
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
// Rows of 8 to 50257 columns: of each probability.
template <class T>
double softmax_error(RowsFunction<T> softmax);
// The last queries of contexts of up to 4096 keys: of the largest |v| that a query sees.
template <class T>
double attention_error(Attention<T> attention);
// The same of the output that a problem already has.
template <class T>
double attention_output_error(const AttentionProblem<T> &problem);
// dq, dk and dv of a causal call of 100 tokens: of the largest element of that gradient.
template <class T>
double attention_backward_error(AttentionBackward<T> backward);

}  // namespace rapt::bench
