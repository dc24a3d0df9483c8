// The blocks of ggml's quantized types, as they lie in files and in tensors. All members are bytes, so blocks
// may begin at any address. `elements` says how many numbers a block has, `format` how rapt holds them.
#pragma once

#include <ggml.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "ggml/formats.hpp"

namespace rapt_ggml {

static_assert(std::endian::native == std::endian::little, "ggml's files are little-endian");

using Byte = std::uint8_t;

struct BlockQ8_0 {
  static constexpr std::size_t elements = 32;
  static constexpr Format format{RAPT_I8, 32, false, false, RAPT_F16, RAPT_Q8_0};
  Byte scale[2], codes[32];
};

// Low halves of `codes` are inputs 0 to 15, high halves 16 to 31. It is so in all blocks of 32 below.
struct BlockQ4_0 {
  static constexpr std::size_t elements = 32;
  static constexpr Format format{RAPT_U4, 32, false, false, RAPT_F16, RAPT_Q4_0};
  Byte scale[2], codes[16];
};

struct BlockQ4_1 {
  static constexpr std::size_t elements = 32;
  static constexpr Format format{RAPT_U4, 32, true, true, RAPT_F16, RAPT_Q4_1};
  Byte scale[2], offset[2], codes[16];
};

// Bit j of `high` is the fifth bit of input j.
struct BlockQ5_0 {
  static constexpr std::size_t elements = 32;
  static constexpr Format format{RAPT_I8, 32, false, false, RAPT_F16, RAPT_Q5_0};
  Byte scale[2], high[4], codes[16];
};

struct BlockQ5_1 {
  static constexpr std::size_t elements = 32;
  static constexpr Format format{RAPT_I8, 32, false, true, RAPT_F16, RAPT_Q5_1};
  Byte scale[2], offset[2], high[4], codes[16];
};

struct BlockIQ4_NL {
  static constexpr std::size_t elements = 32;
  static constexpr Format format{RAPT_I8, 32, false, false, RAPT_F16, RAPT_IQ4_NL};
  Byte scale[2], codes[16];
};

struct BlockMXFP4 {
  static constexpr std::size_t elements = 32;
  static constexpr Format format{RAPT_I8, 32, false, false, RAPT_BF16, RAPT_MXFP4};
  Byte exponent, codes[16];
};

// Four blocks of 16 inputs, each with a scale and 8 bytes of codes.
struct BlockNVFP4 {
  static constexpr std::size_t elements = 64;
  static constexpr Format format{RAPT_I8, 16, false, false, RAPT_F32, RAPT_NVFP4};
  Byte scales[4], codes[32];
};

// Two bits a code: input 128 i + 32 j + k is in bits 2j and 2j + 1 of codes[32 i + k]. A byte of `scales` has
// a group's scale in its low half and its offset in its high half.
struct BlockQ2_K {
  static constexpr std::size_t elements = 256;
  static constexpr Format format{RAPT_U4, 16, true, true, RAPT_F32, RAPT_Q2_K};
  Byte scales[16], codes[64], scale[2], offset[2];
};

// Codes are as in Q2_K. Input 32 j + k has bit j of high[k] too.
struct BlockQ3_K {
  static constexpr std::size_t elements = 256;
  static constexpr Format format{RAPT_I4, 16, false, false, RAPT_F32, RAPT_Q3_K};
  Byte high[32], codes[64], scales[12], scale[2];
};

// Low halves of codes[32 i] and later are inputs 64 i to 64 i + 31, high halves the 32 inputs after these.
struct BlockQ4_K {
  static constexpr std::size_t elements = 256;
  static constexpr Format format{RAPT_U4, 32, true, true, RAPT_F32, RAPT_Q4_K};
  Byte scale[2], offset[2], scales[12], codes[128];
};

// Codes are as in Q4_K. Input 32 j + k has bit j of high[k] too.
struct BlockQ5_K {
  static constexpr std::size_t elements = 256;
  static constexpr Format format{RAPT_I8, 32, false, true, RAPT_F32, RAPT_Q5_K};
  Byte scale[2], offset[2], scales[12], high[32], codes[128];
};

// Halves of low[64 i + k] are inputs 128 i + k and 128 i + 64 + k. Input 128 i + 32 j + k also has bits 2j
// and 2j + 1 of high[32 i + k].
struct BlockQ6_K {
  static constexpr std::size_t elements = 256;
  static constexpr Format format{RAPT_I8, 16, false, false, RAPT_F32, RAPT_Q6_K};
  Byte low[128], high[64], scales[16], scale[2];
};

// Eight blocks of 32, whose scales have six bits: four in scales_low, two in scales_high.
struct BlockIQ4_XS {
  static constexpr std::size_t elements = 256;
  static constexpr Format format{RAPT_I8, 32, false, false, RAPT_F32, RAPT_IQ4_XS};
  Byte scale[2], scales_high[2], scales_low[4], codes[128];
};

// A byte is a fraction of 256, whose first five digits in base 3 are codes. In `rest` they are four.
struct BlockTQ1_0 {
  static constexpr std::size_t elements = 256;
  static constexpr Format format{RAPT_I4, 256, false, false, RAPT_F16};
  Byte digits[48], rest[4], scale[2];
};

// Codes are as in Q2_K.
struct BlockTQ2_0 {
  static constexpr std::size_t elements = 256;
  static constexpr Format format{RAPT_I4, 256, false, false, RAPT_F16};
  Byte codes[64], scale[2];
};

// IQ4_NL's and IQ4_XS's integers.
constexpr std::array<std::int8_t, 16> iq4_values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};
// The E2M1 numbers of MXFP4 and NVFP4, doubled. Their -0 is 0 here.
constexpr std::array<std::int8_t, 16> e2m1_values = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Calls `visit` with a block of this type, whose contents do not matter. Returns whether the type has a
// format.
template <class Visit>
bool with_block(ggml_type type, Visit &&visit) {
  switch (type) {
    case GGML_TYPE_Q8_0:
      return visit(BlockQ8_0{}), true;
    case GGML_TYPE_Q4_0:
      return visit(BlockQ4_0{}), true;
    case GGML_TYPE_Q4_1:
      return visit(BlockQ4_1{}), true;
    case GGML_TYPE_Q5_0:
      return visit(BlockQ5_0{}), true;
    case GGML_TYPE_Q5_1:
      return visit(BlockQ5_1{}), true;
    case GGML_TYPE_Q2_K:
      return visit(BlockQ2_K{}), true;
    case GGML_TYPE_Q3_K:
      return visit(BlockQ3_K{}), true;
    case GGML_TYPE_Q4_K:
      return visit(BlockQ4_K{}), true;
    case GGML_TYPE_Q5_K:
      return visit(BlockQ5_K{}), true;
    case GGML_TYPE_Q6_K:
      return visit(BlockQ6_K{}), true;
    case GGML_TYPE_IQ4_NL:
      return visit(BlockIQ4_NL{}), true;
    case GGML_TYPE_IQ4_XS:
      return visit(BlockIQ4_XS{}), true;
    case GGML_TYPE_MXFP4:
      return visit(BlockMXFP4{}), true;
    case GGML_TYPE_NVFP4:
      return visit(BlockNVFP4{}), true;
    case GGML_TYPE_TQ1_0:
      return visit(BlockTQ1_0{}), true;
    case GGML_TYPE_TQ2_0:
      return visit(BlockTQ2_0{}), true;
    default:
      return false;
  }
}

}  // namespace rapt_ggml
