// Loads the first bytes of a vector, without reading past them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/vector/inner.hpp"

namespace {

struct SixteenBytes {
  std::uint64_t low, high;
};

template <class Word>
RAPT_INNER inline std::uint64_t word_at(const unsigned char *p) {
  Word word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// Loads k bytes, 0 < k < 16, and sets the rest to 0. It combines overlapping words, because memcpy of a
// variable k would be a function call.
RAPT_INNER inline SixteenBytes first_bytes(const void *from, std::size_t k) {
  const auto *p = static_cast<const unsigned char *>(from);
  if (k >= 8) {
    return {word_at<std::uint64_t>(p), word_at<std::uint64_t>(p + k - 8) >> (8 * (15 - k)) >> 8};
  }
  if (k >= 4) return {word_at<std::uint32_t>(p) | word_at<std::uint32_t>(p + k - 4) << (8 * (k - 4)), 0};
  return {word_at<std::uint8_t>(p) | word_at<std::uint8_t>(p + k / 2) << (8 * (k / 2)) |
              word_at<std::uint8_t>(p + k - 1) << (8 * (k - 1)),
          0};
}

}  // namespace
