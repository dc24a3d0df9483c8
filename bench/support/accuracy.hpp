// How accurate an implementation is, on inputs like those that are timed: the worst result of some 100 000,
// against a computation in long double.
#pragma once

#include "support/functions.hpp"

namespace rapt::bench {

// In units in the last place of the exact result. Inputs are the timed ones and a sweep over those that give
// normal results, up to 1 % short of overflow and underflow: near those, libraries go ways of their own,
// which are not judged here.
template <class T>
double exp_error(Exp<T> exp);
template <class T>
double exp_sum_error(ExpSum<T> exp_sum);
template <class T>
double scale_error(Scale<T> scale);

// In units of 2^-24 (f64: 2^-53). Dot products: of the sum of |a[i] * b[i]|, at the lengths that are timed.
template <class T>
double dot_error(Dot<T> dot);
template <class T>
double dot_rows_error(DotRows<T> dot_rows);
// Of each probability; of max(1, |y|); of |scale| * y * (|dy| + sum y * |dy|). At 8 to 50257 columns.
template <class T>
double softmax_error(RowsFunction<T> softmax);
template <class T>
double log_softmax_error(RowsFunction<T> log_softmax);
template <class T>
double logsumexp_error(RowsFunction<T> logsumexp);
template <class T>
double softmax_backward_error(Backward<T> backward);
// Of the largest |v|. The last queries of contexts of up to 4096 keys.
template <class T>
double attention_error(Attention<T> attention);

}  // namespace rapt::bench
