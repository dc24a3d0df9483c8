// Defines the numeric contract of attention over int8 keys and values with f32 scales.
//
// A key has the elements k[j][d] * k_scale[j][g], and a value has the elements v[j][d] * v_scale[j][g]. g is
// the scale group of dimension d. Products of int8 with 16-bit integers are summed exactly. So the order does
// not change the bits, and each instruction set may multiply in its own way: by pairs of 16-bit integers, or
// by two int8 digits x = 256 * hi + lo.
//
// Queries and weights become integers, up to `largest`, with steps (contract/integer_units.hpp).
//
// Scores. Each scale group of a row's query is converted separately. A large element then costs the other
// groups no accuracy. The step costs no operation, because it is multiplied into a factor that each group has
// anyway. step is multiplied by the row's sign (call/attention_scale.hpp). A group is cut into segments of
// 512 dimensions; the last segment may be shorter. t starts at +0, and each segment in order adds to it:
//   t = fma(f32(sum of x * k) * (step * sign), k_scale, t)
// t is the dot product. Everything after it follows the f32 contract: score, maximum, weight w, sum of
// weights, chunks and their folds, log-sum-exp.
//
// Values. For each row, block of 64 keys and scale group, the numbers w * v_scale of the block's keys are
// converted to integers x. A key with w = 0 counts as 0, even if its scale is NaN; so does an excluded key.
// For each dimension of the group:
//   out = fma(f32(sum of x * v), step, out * rescale)
// where rescale is the factor by which the f32 contract multiplies the results so far.
//
// The sum of weights adds w, not the integers, because the integers contain the scales. Rounding moves an
// output by at most half a step for each key, where step is that of the block's largest w * v_scale. In the
// worst case, this is 2^-10 of the largest 128 * |v_scale|.
#pragma once

#include <cstddef>

namespace rapt {

struct Int8Attention {
  // The largest integer with two int8 digits: 127 * 256 + 127.
  static constexpr float largest = 32639.0f;
  // The sum of products over this many dimensions fits 32 bits: 32639 * 128 * 512 < 2^31.
  static constexpr std::size_t segment = 512;
};

}  // namespace rapt
