// Rounds rows of f32 to ggml's types, as caches of keys and values need it for every token.
#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ggml/formats.hpp"

namespace rapt_ggml {
namespace {

constexpr std::size_t size = 32;  // of all blocks here
using Byte = std::uint8_t;
using Codes = std::array<Byte, size>;

// ---- the blocks, as they lie in files and in tensors. All members are bytes, so blocks may begin at any address.

static_assert(std::endian::native == std::endian::little, "ggml's files are little-endian");

struct BlockQ8_0 {
  Byte scale[2], codes[32];
};
// Low halves of `codes` are inputs 0 to 15, high halves 16 to 31. It is so in all blocks below.
struct BlockQ4_0 {
  Byte scale[2], codes[16];
};
struct BlockQ4_1 {
  Byte scale[2], offset[2], codes[16];
};
// Bit j of `high` is the fifth bit of input j.
struct BlockQ5_0 {
  Byte scale[2], high[4], codes[16];
};
struct BlockQ5_1 {
  Byte scale[2], offset[2], high[4], codes[16];
};
struct BlockIQ4_NL {
  Byte scale[2], codes[16];
};

// What codes of IQ4_NL stand for.
constexpr std::array<std::int8_t, 16> iq4_values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};

// Calls f with a block of this type, whose contents do not matter. Returns whether rows of the type are encoded.
template <class F>
bool with_block(ggml_type type, F f) {
  switch (type) {
    case GGML_TYPE_Q8_0:
      return f(BlockQ8_0{}), true;
    case GGML_TYPE_Q4_0:
      return f(BlockQ4_0{}), true;
    case GGML_TYPE_Q4_1:
      return f(BlockQ4_1{}), true;
    case GGML_TYPE_Q5_0:
      return f(BlockQ5_0{}), true;
    case GGML_TYPE_Q5_1:
      return f(BlockQ5_1{}), true;
    case GGML_TYPE_IQ4_NL:
      return f(BlockIQ4_NL{}), true;
    default:
      return false;
  }
}

// Halves are rounded one by one, in integers: a call of the library for each would take longer.
constexpr std::uint16_t half_infinity = 0x7c00, half_nan = 0x7e00;

// Rounds to nearest, ties to even.
std::uint16_t float_to_half(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), magnitude = bits & 0x7fffffffU;
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  std::uint32_t half;
  if (magnitude > 0x7f800000U) {
    const std::uint32_t payload = magnitude >> 13 & 0x3ffU;
    half = half_infinity | (payload ? payload : 0x200U);
  } else if (magnitude >= 0x477ff000U) {  // 65520 is halfway between the largest half and 2^16
    half = half_infinity;
  } else if (magnitude >= 113U << 23) {
    half = (magnitude - (112U << 23) + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
  } else if (magnitude >= 102U << 23) {  // a subnormal half, a multiple of 2^-24
    const std::uint32_t shift = 126U - (magnitude >> 23), mantissa = (magnitude & 0x7fffffU) | 0x800000U;
    half = (mantissa + (1U << (shift - 1)) - 1U + (mantissa >> shift & 1U)) >> shift;
  } else {
    half = 0;
  }
  return static_cast<std::uint16_t>(sign | half);
}

void store_half(std::uint16_t half, Byte *bytes) {
  bytes[0] = static_cast<Byte>(half & 255);
  bytes[1] = static_cast<Byte>(half >> 8);
}

// Codes of four bits become halves of bytes. The loops of the next two functions have fixed lengths and separate
// arrays, because compilers vectorise such loops without further checks.
void store_halves(const Byte *__restrict codes, Byte *__restrict halves) {
  for (std::size_t i = 0; i < 16; ++i) halves[i] = static_cast<Byte>(codes[i] | codes[16 + i] << 4);
}

// The product adds bit 0 of byte i to bit 56 + i, and nothing carries into another.
void store_five_bits(const Byte *__restrict codes, Byte *__restrict halves, Byte *__restrict high) {
  for (std::size_t i = 0; i < 16; ++i) halves[i] = static_cast<Byte>((codes[i] & 15) | codes[16 + i] << 4);
  for (std::size_t i = 0; i < 4; ++i) {
    std::uint64_t eight;
    std::memcpy(&eight, codes + 8 * i, sizeof eight);
    high[i] = static_cast<Byte>((eight >> 4 & 0x0101010101010101U) * 0x0102040810204080U >> 56);
  }
}

// ---- what blocks are made of

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

// Returns two numbers of which one is NaN if any is. If the smallest is 0, it is the first 0, because both
// signs are equal.
Range range_of(const float *x) {
  // Negative numbers become negative integers in the same order. The function is its own inverse.
  const auto ordered = [](std::int32_t bits) { return bits ^ (bits >> 31 & INT32_MAX); };
  std::int32_t smallest = INT32_MAX, largest = INT32_MIN;
  for (std::size_t i = 0; i < size; ++i) {
    const std::int32_t key = ordered(std::bit_cast<std::int32_t>(x[i]));
    smallest = key < smallest ? key : smallest;
    largest = key > largest ? key : largest;
  }
  const Range range{std::bit_cast<float>(ordered(smallest)), std::bit_cast<float>(ordered(largest))};
  return range.smallest == 0 ? Range{*std::find(x, x + size, 0.0f), range.largest} : range;
}

float magnitude_of(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffU); }

bool is_finite(float x) { return magnitude_of(x) <= FLT_MAX; }
bool is_finite(std::uint16_t half) { return (half & 0x7fffU) < half_infinity; }

// It is not finite if f32 has no number for it. Only scales that f16 rounds to 0 are so small.
float inverse_of(float scale) { return scale != 0 ? 1 / scale : 0; }

Codes all(Byte code) {
  Codes codes;
  codes.fill(code);
  return codes;
}

// Rounds (x - offset) * inverse + zero to integers, ties up, and limits it to `highest`. No number is below
// -1/2 before it is rounded, so truncation rounds down. Bytes are limited, because that is one instruction.
Codes rounded(const float *x, float offset, float inverse, float zero, Byte highest) {
  if (!is_finite(inverse)) return all(0);
  Codes codes;
  for (std::size_t i = 0; i < size; ++i)
    codes[i] = static_cast<Byte>(static_cast<std::int32_t>((x[i] - offset) * inverse + (zero + 0.5f)));
  for (Byte &code : codes) code = std::min(code, highest);
  return codes;
}

// Rounds x * inverse to integers, ties away from 0. The number added is the largest below 1/2: 1/2 itself
// would round it up to 1. Sums with ties are halfway between two floats, and are rounded to the integer.
Codes rounded_away(const float *x, float inverse) {
  if (!is_finite(inverse)) return all(0);
  constexpr std::uint32_t below_half = std::bit_cast<std::uint32_t>(0x1.fffffep-2f);
  Codes codes;
  for (std::size_t i = 0; i < size; ++i) {
    const float y = x[i] * inverse;
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(y) & 0x80000000U;
    codes[i] = static_cast<Byte>(static_cast<std::int32_t>(y + std::bit_cast<float>(below_half | sign)));
  }
  return codes;
}

void encode(const float *x, BlockQ8_0 &block) {
  const float scale = std::bit_cast<float>(largest_of(magnitudes_of(x))) / 127;
  const std::uint16_t half = float_to_half(scale);
  if (!is_finite(half)) {
    store_half(half_nan, block.scale);
    std::memset(block.codes, 0, size);
    return;
  }
  store_half(half, block.scale);
  const Codes codes = rounded_away(x, inverse_of(scale));
  std::memcpy(block.codes, codes.data(), size);
}

struct Signed {
  std::uint16_t scale;
  Codes codes;  // 0 to 2 steps - 1; the number 0 has the code `steps`
};

// The scale's sign makes the extreme number -steps, because there is no code for +steps.
Signed signed_codes(const float *x, Byte steps) {
  const float extreme = extreme_of(x) + 0.0f;  // -0 becomes +0
  const float scale = extreme / -static_cast<float>(steps);
  const std::uint16_t half = float_to_half(scale);
  if (!is_finite(half)) return {half_nan, all(steps)};
  return {half, rounded(x, 0, inverse_of(scale), steps, static_cast<Byte>(2 * steps - 1))};
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
  const float scale = (range.largest - range.smallest) / static_cast<float>(steps);
  const std::uint16_t half = float_to_half(scale), offset = float_to_half(range.smallest);
  if (!is_finite(half) || !is_finite(offset)) return {half_nan, half_nan, all(0)};
  return {half, offset, rounded(x, range.smallest, inverse_of(scale), 0, steps)};
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

// Numbers halfway between two of iq4_values.
constexpr auto iq4_borders = [] {
  std::array<float, iq4_values.size() - 1> borders{};
  for (std::size_t v = 0; v < borders.size(); ++v)
    borders[v] = static_cast<float>(iq4_values[v] + iq4_values[v + 1]) / 2;
  return borders;
}();

// Places of the values of iq4_values that are nearest to x * inverse, ties up.
Codes nearest_iq4(const float *x, float inverse) {
  Codes codes;
  for (std::size_t i = 0; i < size; ++i) {
    const float y = x[i] * inverse;
    std::int32_t place = 0;
    for (const float border : iq4_borders) place += y >= border;
    codes[i] = static_cast<Byte>(place);
  }
  return codes;
}

// Returns the s that minimises the sum of x^2 (x - s value)^2. Sums are added in order, as ggml adds them.
float best_scale(const float *x, const Codes &codes) {
  std::array<float, size> products, squares;
  for (std::size_t i = 0; i < size; ++i) {
    const float value = static_cast<float>(iq4_values[codes[i]]), weighted = x[i] * x[i] * value;
    products[i] = weighted * x[i];
    squares[i] = weighted * value;
  }
  float product = 0, square = 0;
  for (std::size_t i = 0; i < size; ++i) {
    product += products[i];
    square += squares[i];
  }
  return product / square;
}

constexpr Byte smallest_iq4 = 8;  // iq4_values has no 0, but 1

void encode(const float *x, BlockIQ4_NL &block) {
  const float extreme = extreme_of(x);
  std::uint16_t scale = 0;
  Codes codes = all(smallest_iq4);
  if (!is_finite(extreme)) {
    scale = half_nan;
  } else if (magnitude_of(extreme) >= 1e-15f) {  // ggml's limit; below it, squares could become 0
    const Codes nearest = nearest_iq4(x, 1 / (extreme / static_cast<float>(iq4_values[0])));
    scale = float_to_half(best_scale(x, nearest));
    if (is_finite(scale)) {
      codes = nearest;
    } else {
      scale = half_nan;
    }
  }
  store_half(scale, block.scale);
  store_halves(codes.data(), block.codes);
}

}  // namespace

bool can_encode(ggml_type type) {
  return float_type(type) || with_block(type, [](auto) {});
}

void encode_row(ggml_type type, const float *x, std::size_t n, void *row) {
  if (type == GGML_TYPE_F32) std::memcpy(row, x, n * sizeof *x);
  if (type == GGML_TYPE_F16) rapt_convert_f32_to_f16(x, static_cast<rapt_f16 *>(row), n);
  if (type == GGML_TYPE_BF16) rapt_convert_f32_to_bf16(x, static_cast<rapt_bf16 *>(row), n);
  with_block(type, [&]<class Block>(const Block &) {
    auto *blocks = static_cast<Block *>(row);
    for (std::size_t i = 0; i < n / size; ++i) encode(x + i * size, blocks[i]);
  });
}

}  // namespace rapt_ggml
