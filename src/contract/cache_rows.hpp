// Says what rows of keys and values are, where they become numbers before they are multiplied: blocks of files, or
// RAPT_I4, whose scales of f32 lie in another array.
#pragma once

#include <cstddef>

#include "contract/file_blocks.hpp"
#include "rapt/rapt.h"

namespace rapt {

// 32 numbers scale * q of RAPT_I4, two to a byte, the first in the low half.
struct I4Row : PlainBlock {
  static constexpr unsigned bits = 4, zero = 8, flip = 8;
  static constexpr std::size_t inputs = 32, bytes = 16, group = 32;
  static constexpr bool has_scales_apart = true;
  static constexpr Places code(std::size_t i) {
    return {{i / 2, static_cast<unsigned>(i % 2 * 4), 4, 0}, {}};
  }
};

// Calls f(block) with the type's description, and returns whether it has one.
template <class F>
constexpr bool with_cache_blocks(rapt_type type, F f) {
  if (type == RAPT_I4) return f(I4Row{}), true;
  return with_file_blocks(type, f);
}

}  // namespace rapt
