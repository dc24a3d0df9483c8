// Says where codes of packed quantized weights lie (quantized_weights.hpp).
//
// A unit is some inputs of 64 outputs, [4][planes][16 outputs] words of 4 bytes. Codes whose bits do not divide a byte
// are split: low bits lie in some planes, and those above in one more. The planes of 16 outputs lie together, so that
// memory is read in order: with those of 64 outputs, one row took 1.1 to 1.15 of the time.
//
//   bits      | low, above | inputs of a unit | planes
//   8, 4, 2   | all, 0     | 4, 8, 16         | 1
//   3         | 2, 1       | 32               | 3
//   5         | 4, 1       | 32               | 5
//   6         | 4, 2       | 16               | 3
//
// A byte of a plane has bits of inputs that are 4 apart, the first ones lowest.
#pragma once

#include <cstddef>

#include "contract/file_blocks.hpp"
#include "contract/linear.hpp"

namespace rapt {

struct CodeUnit {
  unsigned low, more;
  std::size_t inputs, planes;

  static constexpr std::size_t outputs = 16, plane = 4 * outputs;  // bytes

  static constexpr CodeUnit of(unsigned bits) {
    const unsigned low = bits == 3 ? 2 : bits < 8 && bits > 4 ? 4 : bits, more = bits - low;
    const std::size_t inputs = 32 / (more ? more : low);
    return {low, more, inputs, inputs * bits / 32};
  }
  constexpr std::size_t bytes() const { return planes * (4 * linear_block); }

  // Returns the byte where an output's words begin.
  constexpr std::size_t words_of(std::size_t output) const {
    return output / outputs * (planes * plane) + output % outputs * 4;
  }
  // Returns where such words have the code of an input.
  constexpr Places places(std::size_t input) const {
    const std::size_t quad = input / 4, byte = input % 4, quads_of_plane = 8 / low;
    const Bits above{(planes - 1) * plane + byte, static_cast<unsigned>(more * quad), more, low};
    return {
        {quad / quads_of_plane * plane + byte, static_cast<unsigned>(low * (quad % quads_of_plane)), low, 0},
        more ? above : Bits{}};
  }
};

}  // namespace rapt
