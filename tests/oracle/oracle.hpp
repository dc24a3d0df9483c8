// Computes errors of results, compared with 200-bit arithmetic by MPFR.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rapt::test::oracle {

// Returns the error of y as exp(x), in units in the last place of T. Below the smallest normal number, the
// unit is the spacing of subnormal numbers.
template <class T>
double exp_error_in_ulps(T x, T y);

// Returns |dot - sum a[i] * b[i]| / sum |a[i] * b[i]|.
template <class T>
double dot_error(std::span<const T> a, std::span<const T> b, T dot);

// Describes a row of scores: scale * x, then softcap, then bias, for the visible elements.
template <class T>
struct Row {
  std::span<const T> x;
  double scale = 1;
  double softcap = 0;
  const T *bias = nullptr;
  const std::vector<bool> *visible = nullptr;  // null if all are visible
  const T *sink = nullptr;
};

struct RowErrors {
  double softmax = 0;      // the largest relative error of a probability
  double log_softmax = 0;  // the largest |error| / max(1, |y|)
  double logsumexp = 0;    // |error| / max(1, |out|)
  // Counts normal probabilities that are 0, and subnormal probabilities that are not 0.
  std::size_t flushed_wrongly = 0;
};

// Visible elements must be finite or -inf, and at least one must be finite.
template <class T>
RowErrors row_errors(const Row<T> &row, std::span<const T> softmax, std::span<const T> log_softmax,
                     T logsumexp);

// Returns the largest |error of dx| / (|scale| * y * (|dy| + sum y * |dy|)).
template <class T>
double softmax_backward_error(std::span<const T> y, std::span<const T> dy, double scale,
                              std::span<const T> dx);

// Returns |sine - sin(position * frequency)| / (units * |sin| + 1.2e-16 * |position * frequency| + smallest),
// and the same of the cosine.
struct TurnErrors {
  double sine = 0, cosine = 0;
};
TurnErrors turn_errors(double position, double frequency, double sine, double cosine, double units,
                       double smallest);

// Returns the error of f as base^(-2i / dim), in units in the last place.
double frequency_error_in_ulps(double base, std::size_t i, std::size_t dim, double f);

}  // namespace rapt::test::oracle
