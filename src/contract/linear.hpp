// Defines the numbers of the numeric contract of linear layers, and derives the error bound.
//
// An output sums its products in groups of 512 inputs: p is a chain of fused operations from +0 over a
// group's inputs in order, and t = t + p. One chain over all inputs would err by 3 to 11 times as much:
//
//   relative rms error in f32, inputs   | 4096   | 14336  | 65536
//   one chain                           | 1.3e-6 | 2.1e-6 | 5.0e-6
//   chains of 512 (this one)            | 4.2e-7 | 4.3e-7 | 4.6e-7
//
// The fold is free: the sums of a tile go to memory between two groups anyway, and a store becomes load,
// add, store.
//
// The bound. A chain of n <= 512 fused operations errs by at most n u S, where S is the sum of |x w| over the group.
// Adding g groups errs by at most g - 1 roundings of a partial sum. With products of errors the sum is
// below (512 + in_features / 512 + 4) u S over all inputs. Each operation with a subnormal result adds at
// most half the smallest number.
#pragma once

#include <cstddef>

#include "contract/attention.hpp"

namespace rapt {

// The inputs of a group. It is attention's chunk, and up to it a linear layer has the bits of attention's
// q.k, but for the sign of a zero.
inline constexpr std::size_t linear_sum_group = 512;
static_assert(linear_sum_group == attention_chunk);
// Packed weights hold outputs in blocks of this many.
inline constexpr std::size_t linear_block = 64;

// In I8 arithmetic, inputs become integers up to this (contract/integer_units.hpp). Given ones go down to -128, and a
// code less its zero is at most 255. f32 holds the sum of a group's products exactly.
inline constexpr float largest_i8 = 127.0f, largest_i4 = 7.0f;
static_assert(128 * 255 * linear_sum_group < std::size_t{1} << 24);

}  // namespace rapt
