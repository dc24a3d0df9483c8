// Makes keys and values in blocks of files, or of 4 bits with scales, for attention that dequantizes them.
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

// Rows of blocks, of RAPT_I4, or of floats that go with them, end to end.
struct BlockRows {
  rapt_type type = RAPT_TYPE_DEFAULT;
  std::size_t row_bytes = 0;
  std::vector<std::uint8_t> bytes;
  std::vector<float> scales = {};  // of RAPT_I4, row by row
  std::size_t group = 0;           // numbers that share one of them

  // Returns the bytes that an element takes.
  std::size_t element() const { return type == RAPT_F32 ? 4 : type == RAPT_F16 || type == RAPT_BF16 ? 2 : 1; }
  // Returns the bytes of which the distances of rows are multiples.
  std::size_t unit() const { return group != 0 ? group / 2 : element(); }
  // Returns a stride of the API, of one in bytes.
  std::ptrdiff_t stride(std::ptrdiff_t in_bytes) const {
    return group != 0 ? in_bytes * 2 : in_bytes / static_cast<std::ptrdiff_t>(element());
  }
  const std::uint8_t *row(std::size_t r) const { return bytes.data() + r * row_bytes; }
  std::size_t scales_per_row() const { return group != 0 ? row_bytes * 2 / group : 0; }
};

// Encodes rows of `dim` numbers, and replaces the numbers by what the blocks mean. Q8_0 has the numbers, rounded. Other
// types have any codes, and scales that give numbers of about the same size. A block with a number that is not finite
// has such a scale, and so has a group of RAPT_I4. Floats are rounded.
BlockRows encode_rows(std::vector<float> &numbers, std::size_t dim, rapt_type type, std::uint64_t seed,
                      std::size_t scale_group = 0);

struct AttentionInBlocks {
  oracle::Attention<float> a;  // k and v are what the blocks mean
  BlockRows k, v;
  std::size_t scale_group = 0;  // of RAPT_I4
};

// Encodes the keys and values of `a`, whose dimensions are multiples of 32. The seed chooses their types, one of which
// may be a float's.
AttentionInBlocks in_blocks(oracle::Attention<float> a, std::uint64_t seed);

// Returns what make_attention<InBlocks>() returns, with its blocks.
const AttentionInBlocks &make_attention_in_blocks(const Problem &problem);

}  // namespace rapt::test
