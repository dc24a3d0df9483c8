// Makes keys and values in blocks of files, for attention that dequantizes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "oracle/attention.hpp"
#include "oracle/file_blocks.hpp"
#include "rapt/rapt.h"
#include "support/elements.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Rows of blocks, or of floats next to them, end to end.
struct BlockRows {
  oracle::FileType file = oracle::FileType::none;
  rapt_type type = RAPT_TYPE_DEFAULT;
  std::size_t row_bytes = 0;
  std::vector<std::uint8_t> bytes;

  // Returns the bytes of an element, as strides count them.
  std::size_t element() const { return type == RAPT_F32 ? 4 : type == RAPT_F16 || type == RAPT_BF16 ? 2 : 1; }
  const std::uint8_t *row(std::size_t r) const { return bytes.data() + r * row_bytes; }
};

// Encodes rows of `dim` numbers, and replaces the numbers by what the blocks mean. Q8_0 has the numbers, rounded. Other
// types have any codes, and scales that give numbers of about the same size. A block with a number that is not finite
// has such a scale. Floats are rounded.
BlockRows encode_rows(std::vector<float> &numbers, std::size_t dim, rapt_type type, std::uint64_t seed);

struct AttentionInBlocks {
  oracle::Attention<float> a;  // k and v are what the blocks mean
  BlockRows k, v;
};

// Encodes the keys and values of `a`, whose dimensions are multiples of 32. The seed chooses their types, one of which
// may be a float's.
AttentionInBlocks in_blocks(oracle::Attention<float> a, std::uint64_t seed);

// Returns what make_attention<InBlocks>() returns, with its blocks.
const AttentionInBlocks &make_attention_in_blocks(const Problem &problem);

}  // namespace rapt::test
