// Rounds rows of f32 to ggml's types, as caches of keys and values need it for every token.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ggml/blocks.hpp"
#include "ggml/code_bits.hpp"
#include "ggml/formats.hpp"
#include "ggml/halves.hpp"

namespace rapt_ggml {
namespace {

constexpr std::size_t size = 32;  // of all blocks here
using Codes = std::array<Byte, size>;

// Maxima of integers may be taken in any order, and NaN is the largest. So compilers vectorise these loops,
// which they do not if floats are compared.

using Magnitudes = std::array<std::int32_t, size>;

Magnitudes magnitudes_of(const float *x) {
  Magnitudes magnitudes;
  for (std::size_t i = 0; i < size; ++i) magnitudes[i] = std::bit_cast<std::int32_t>(x[i]) & INT32_MAX;
  return magnitudes;
}

std::int32_t largest_of(const Magnitudes &magnitudes) {
  std::int32_t largest = 0;
  for (const std::int32_t magnitude : magnitudes) largest = magnitude > largest ? magnitude : largest;
  return largest;
}

// Returns the first number that has the largest magnitude.
float extreme_of(const float *x) {
  const Magnitudes magnitudes = magnitudes_of(x);
  const std::int32_t largest = largest_of(magnitudes);
  std::int32_t first = size;
  for (std::int32_t i = 0; i < std::int32_t{size}; ++i) {
    const std::int32_t place = magnitudes[static_cast<std::size_t>(i)] == largest ? i : std::int32_t{size};
    first = place < first ? place : first;
  }
  return x[first];
}

struct Range {
  float smallest, largest;
};

// Returns two numbers of which one is NaN if any is.
Range range_of(const float *x) {
  // Negative numbers become negative integers in the same order. The function is its own inverse.
  const auto ordered = [](std::int32_t bits) { return bits ^ (bits >> 31 & INT32_MAX); };
  std::int32_t smallest = INT32_MAX, largest = INT32_MIN;
  for (std::size_t i = 0; i < size; ++i) {
    const std::int32_t key = ordered(std::bit_cast<std::int32_t>(x[i]));
    smallest = key < smallest ? key : smallest;
    largest = key > largest ? key : largest;
  }
  return {std::bit_cast<float>(ordered(smallest)), std::bit_cast<float>(ordered(largest))};
}

float magnitude_of(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffU); }

bool is_finite(std::uint16_t half) { return (half & 0x7fffU) < half_infinity; }

// Returns largest / steps, or the next larger half if `largest` would be more than half a step above `steps`.
// That happens to subnormal scales. The half is not finite if the scale is too large.
std::uint16_t scale_of(float largest, float steps) {
  const std::uint16_t half = float_to_half(largest / steps);
  const bool too_small = half_to_float(half) * (steps + 0.5f) < largest;
  return static_cast<std::uint16_t>(half + too_small);
}

// Returns the largest half that is not above x.
std::uint16_t rounded_down(float x) {
  const std::uint16_t half = float_to_half(x);
  if (!(half_to_float(half) > x)) return half;
  return static_cast<std::uint16_t>(half & 0x8000U ? half + 1 : half - 1);
}

float inverse_of(float scale) { return scale != 0 ? 1 / scale : 0; }

// Rounds (x - offset) * inverse to an integer, ties to even, and limits it to the codes there are. It must be
// below 2^22: the large number pushes the fraction out of the mantissa. Integers are limited, because
// compilers would make branches of limits of floats.
Codes rounded(const float *x, float offset, float inverse, std::int32_t lowest, std::int32_t highest) {
  constexpr float pushes = 0x1.8p23f;
  Codes codes;
  for (std::size_t i = 0; i < size; ++i) {
    const float pushed = (x[i] - offset) * inverse + pushes;
    const std::int32_t code = std::bit_cast<std::int32_t>(pushed) - std::bit_cast<std::int32_t>(pushes);
    codes[i] = static_cast<Byte>(std::min(std::max(code, lowest), highest));
  }
  return codes;
}

Codes all(Byte code) {
  Codes codes;
  codes.fill(code);
  return codes;
}

void encode(const float *x, BlockQ8_0 &block) {
  const std::uint16_t scale = scale_of(std::bit_cast<float>(largest_of(magnitudes_of(x))), 127);
  if (!is_finite(scale)) {
    store_half(half_nan, block.scale);
    std::memset(block.codes, 0, size);
    return;
  }
  store_half(scale, block.scale);
  const Codes codes = rounded(x, 0, inverse_of(half_to_float(scale)), -127, 127);
  std::memcpy(block.codes, codes.data(), size);
}

struct Signed {
  std::uint16_t scale;
  Codes codes;  // 0 to 2 steps - 1; the number 0 has the code `steps`
};

// The scale's sign makes the extreme number -steps, because there is no code for +steps.
Signed signed_codes(const float *x, Byte steps) {
  const float extreme = extreme_of(x);
  std::uint16_t scale = scale_of(magnitude_of(extreme), steps);
  if (!is_finite(scale)) return {half_nan, all(steps)};
  if (extreme > 0) scale |= 0x8000;
  Codes codes = rounded(x, 0, inverse_of(half_to_float(scale)), -steps, steps - 1);
  for (Byte &code : codes) code = static_cast<Byte>(code + steps);
  return {scale, codes};
}

void encode(const float *x, BlockQ4_0 &block) {
  const Signed result = signed_codes(x, 8);
  store_half(result.scale, block.scale);
  store_halves(result.codes.data(), block.codes);
}

void encode(const float *x, BlockQ5_0 &block) {
  const Signed result = signed_codes(x, 16);
  store_half(result.scale, block.scale);
  store_five_bits(result.codes.data(), block.codes, block.high);
}

struct Shifted {
  std::uint16_t scale, offset;
  Codes codes;
};

Shifted shifted_codes(const float *x, Byte steps) {
  const Range range = range_of(x);
  const std::uint16_t offset = rounded_down(range.smallest);
  const float start = half_to_float(offset);
  const std::uint16_t scale = scale_of(range.largest - start, steps);
  if (!is_finite(scale)) return {half_nan, half_nan, all(0)};  // so it is if the offset is not finite
  return {scale, offset, rounded(x, start, inverse_of(half_to_float(scale)), 0, steps)};
}

void encode(const float *x, BlockQ4_1 &block) {
  const Shifted result = shifted_codes(x, 15);
  store_half(result.scale, block.scale);
  store_half(result.offset, block.offset);
  store_halves(result.codes.data(), block.codes);
}

void encode(const float *x, BlockQ5_1 &block) {
  const Shifted result = shifted_codes(x, 31);
  store_half(result.scale, block.scale);
  store_half(result.offset, block.offset);
  store_five_bits(result.codes.data(), block.codes, block.high);
}

// The place of the value of iq4_values nearest to y, for floor(2 y) + 256. Numbers halfway between two values
// are whole halves, so 2 y may be rounded down. They have the larger value.
constexpr std::array<Byte, 512> iq4_of_halves = [] {
  std::array<Byte, 512> places{};
  for (int i = 0; i < 512; ++i) {
    for (std::size_t v = 0; v + 1 < iq4_values.size(); ++v)
      places[static_cast<std::size_t>(i)] += i - 256 >= iq4_values[v] + iq4_values[v + 1];
  }
  return places;
}();

Codes nearest_iq4(const float *x, float inverse) {
  std::array<std::int32_t, size> places;
  for (std::size_t i = 0; i < size; ++i) {
    const auto halves =
        static_cast<std::int32_t>(2 * x[i] * inverse + 256);  // rounded down, if it is positive
    places[i] = std::min(std::max(halves, 0), 511);
  }
  Codes codes;
  for (std::size_t i = 0; i < size; ++i) codes[i] = iq4_of_halves[static_cast<std::size_t>(places[i])];
  return codes;
}

// Returns the s that minimises the sum of y^2 (y - s value)^2, where y = x * inverse is at most 127. Four
// sums are added side by side, so that compilers need not change the order to vectorise.
float best_scale(const float *x, float inverse, const Codes &codes) {
  constexpr std::size_t lanes = 4;
  float products[lanes] = {}, squares[lanes] = {};
  for (std::size_t i = 0; i < size; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const float y = x[i + lane] * inverse, value = static_cast<float>(iq4_values[codes[i + lane]]);
      products[lane] += y * y * value * y;
      squares[lane] += y * y * value * value;
    }
  }
  return ((products[0] + products[1]) + (products[2] + products[3])) /
         ((squares[0] + squares[1]) + (squares[2] + squares[3]));
}

constexpr Byte smallest_iq4 = 8;  // iq4_values has no 0, but 1

void encode(const float *x, BlockIQ4_NL &block) {
  const float extreme = extreme_of(x), first = extreme / static_cast<float>(iq4_values[0]);
  std::uint16_t scale = float_to_half(first);
  Codes codes = all(smallest_iq4);
  if (!is_finite(scale)) {
    scale = half_nan;
  } else if (magnitude_of(first) < 0x1p-30f) {  // keeps 1 / first finite, and is far below what f16 has
    scale = 0;
  } else {
    const float inverse = 1 / first;
    scale = float_to_half(first * best_scale(x, inverse, nearest_iq4(x, inverse)));
    const float rounded_scale = half_to_float(scale);
    if (rounded_scale == 0) {
      scale = 0;
    } else if (!is_finite(scale)) {
      scale = half_nan;
    } else {
      codes = nearest_iq4(x, 1 / rounded_scale);
    }
  }
  store_half(scale, block.scale);
  store_halves(codes.data(), block.codes);
}

template <class Block>
concept Encodable = requires(const float *x, Block &block) {
  encode(x, block);
};

}  // namespace

bool can_encode(ggml_type type) {
  bool can = float_type(type).has_value();
  with_block(type, [&]<class Block>(const Block &) { can = Encodable<Block>; });
  return can;
}

void encode_row(ggml_type type, const float *x, std::size_t n, void *row) {
  if (type == GGML_TYPE_F32) std::memcpy(row, x, n * sizeof *x);
  if (type == GGML_TYPE_F16) rapt_convert_f32_to_f16(x, static_cast<rapt_f16 *>(row), n);
  if (type == GGML_TYPE_BF16) rapt_convert_f32_to_bf16(x, static_cast<rapt_bf16 *>(row), n);
  with_block(type, [&]<class Block>(const Block &) {
    if constexpr (Encodable<Block>) {
      auto *blocks = static_cast<Block *>(row);
      for (std::size_t i = 0; i < n / Block::elements; ++i) encode(x + i * size, blocks[i]);
    }
  });
}

}  // namespace rapt_ggml
