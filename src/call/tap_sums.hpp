// Describes sums over the taps of a convolution that does not mix channels, in which lanes are channels or positions.
#pragma once

#include <cstddef>

namespace rapt {

// A tap that is not in the padding. Its number counts the taps in the padding too.
struct Tap {
  const void *x;  // n elements
  const void *w;  // n numbers of the arithmetic type, or one
  std::size_t number;
};

// The positions of a line that meet x through a tap: `count` from `first` on. x is what the first one meets.
struct TapRun {
  const void *x;
  std::size_t first, count;
};

// sums[tap][i] = the chain of fused operations that goes on from it with x[position][i] * dy[position][i], for the
// positions of a line that meet x through the tap.
struct TapGradient {
  const TapRun *runs;  // one for each tap
  std::size_t tap_count, n;
  std::ptrdiff_t x_step, dy_step;  // from one position to the next
  const void *dy;                  // of position 0
  void *sums;                      // of the arithmetic type
};

// y[i] = the sum over the taps of x[i] * w[i], in the order of a linear layer, + bias[i].
struct TapSums {
  const Tap *taps;
  std::size_t tap_count, n;
  bool has_one_weight;  // a tap has one for all lanes, and the bias too
  const void *bias;     // of the arithmetic type, or null
  void *y;
  const TapGradient *gradient = nullptr;  // if not null, this is computed instead
};

}  // namespace rapt
