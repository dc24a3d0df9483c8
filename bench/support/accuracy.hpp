// How accurate a library is that is compared with rapt, on inputs like the timed ones. rapt's own errors, of
// all kernels on all levels, are in rapt-validate's table.
#pragma once

#include "peers/functions.hpp"

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
double dot_rows_error(DotRows<T> dot_rows);
// Rows of 8 to 50257 columns: of each probability.
template <class T>
double softmax_error(RowsFunction<T> softmax);
// The last queries of contexts of up to 4096 keys: of the largest |v| that a query sees.
template <class T>
double attention_error(Attention<T> attention);
// dq, dk and dv of a causal call of 100 tokens: of the largest element of that gradient.
template <class T>
double attention_backward_error(AttentionBackward<T> backward);

}  // namespace rapt::bench
