// The numeric contract of attention over int8 keys and values with f32 scales.
//
// A key is k[j][d] * k_scale[j][g], a value v[j][d] * v_scale[j][g], where g is the scale group of dimension
// d. Products of int8 with 16-bit integers are summed exactly. So the order does not change the bits, and
// each instruction set may multiply in its own way: 16-bit pairs, or two digits x = 256 * hi + lo, both of
// int8.
//
// Integers of numbers: n numbers of f32 with the largest magnitude m become integers x and a step.
//   m finite, at least lowest:   x = rint(number * (largest / m)),  step = m / largest
//   m below lowest, 0 included:  x = 0,  step = 0
//   m infinite, or any NaN:      x = 0,  step = NaN
// Every operation rounds to f32, to nearest even. |x| <= largest, as the product errs by less than a half.
//
// Scores. The scale groups of a row's query become integers separately. A large dimension then costs the
// other groups no accuracy, and the step joins a factor that a group has anyway. step is multiplied by the
// row's sign (call/attention_scale.hpp). A group is cut into segments of 512 dimensions, the last one
// shorter. In order of the segments, from t = +0:
//   t = fma(f32(sum of x * k) * (step * sign), k_scale, t)
// t is the dot product. Everything after t is as with f32: score, maximum, weight w, sum of weights, chunks
// and their folds, log-sum-exp.
//
// Values. Per row, block of 64 keys and scale group, the numbers w * v_scale of the block's keys become
// integers x. A key with w = 0 counts as 0 whatever its scale is; so do excluded keys. Per dimension of the
// group:
//   out = fma(f32(sum of x * v), step, out * rescale)
// where rescale is the f32 contract's factor of the results so far.
//
// The sum of weights adds w, not the integers, because the integers contain the scales. Rounding moves an
// output by at most half a step of the block's largest w * v_scale for each key, which is 2^-10 of the
// largest 128 * |v_scale| in the worst case.
#pragma once

#include <cstddef>

namespace rapt {

struct Int8Attention {
  // The largest number of two digits: 127 * 256 + 127.
  static constexpr float largest = 32639.0f;
  // This limit keeps largest / m finite and the step normal.
  static constexpr float lowest = 0x1p-100f;
  // The products of this many dimensions sum up within 32 bits: 32639 * 128 * 512 < 2^31.
  static constexpr std::size_t segment = 512;
};

}  // namespace rapt
