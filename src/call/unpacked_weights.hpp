// Gives packed weights back (packed_weights.hpp, quantized_weights.hpp). No bit of an element changes: all are moved as
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/packed_weights.hpp"
#include "call/quantized_weights.hpp"

namespace rapt {

// Calls f(output, begin, end) for parts of the inputs of outputs [first, first + outputs). Outputs of a block take
// turns after 64 inputs: a cache line of packed weights belongs to several of them, and L1 keeps the lines of a turn.
template <class F>
void in_turns(std::size_t first, std::size_t outputs, std::size_t in_features, F f) {
  constexpr std::size_t turn = 64;
  for (std::size_t n = 0; n < outputs;) {
    const std::size_t left_of_block = linear_block - (first + n) % linear_block;
    const std::size_t end_of_block = outputs - n < left_of_block ? outputs : n + left_of_block;
    for (std::size_t begin = 0; begin < in_features; begin += turn) {
      const std::size_t end = in_features - begin < turn ? in_features : begin + turn;
      for (std::size_t i = n; i < end_of_block; ++i) f(first + i, begin, end);
    }
    n = end_of_block;
  }
}

// Writes the weights of outputs [first, first + outputs) to w, which begins with output `first`. `packed` is without
// its header.
template <class E>
void unpack_weights(const char *packed, std::size_t first, std::size_t outputs, std::size_t in_features,
                    const rapt_matrix_strides &strides, char *w) {
  in_turns(first, outputs, in_features, [&](std::size_t output, std::size_t begin, std::size_t end) {
    const std::ptrdiff_t row = strides.row * static_cast<std::ptrdiff_t>(output - first);
    for (std::size_t k = begin; k < end; ++k) {
      const std::ptrdiff_t at = row + strides.column * static_cast<std::ptrdiff_t>(k);
      std::memcpy(w + at * static_cast<std::ptrdiff_t>(sizeof(E)),
                  packed + packed_weight_offset<E>(output, k, in_features) * sizeof(E), sizeof(E));
    }
  });
}

// The arrays of a layer with quantized weights, from some output on. Null pointers are of arrays that are not wanted.
struct QuantizedArrays {
  char *w;
  char *scales;
  std::uint8_t *zeros;
  char *offsets;
  float *codebook;
};

// Writes the integers of outputs [first, first + outputs). The high half that ends a row of an odd number of inputs
// becomes 0.
inline void unpack_codes(const QuantizedWeights &from, std::size_t first, std::size_t outputs,
                         const rapt_linear_options &o, char *w) {
  constexpr std::size_t to_next = 4 * linear_block;  // bytes from inputs of an output to its next 4, or 8
  in_turns(first, outputs, o.in_features, [&](std::size_t output, std::size_t begin, std::size_t end) {
    char *const row = w + o.w_strides.row * static_cast<std::ptrdiff_t>(output - first);
    const std::uint8_t *codes = from.codes(output, begin);
    if (from.is_bytes()) {
      for (std::size_t k = begin; k < end; k += 4, codes += to_next) {
        for (std::size_t j = 0; j < 4 && k + j < end; ++j)
          row[o.w_strides.column * static_cast<std::ptrdiff_t>(k + j)] =
              static_cast<char>(codes[j] ^ from.flip());
      }
      return;
    }
    const unsigned sign = o.w_type == RAPT_I4 ? 8 : 0;
    for (std::size_t k = begin; k < end; k += 2) {
      const std::uint8_t *const pair = codes + (k - begin) / 8 * to_next + k % 4;
      const unsigned shift = k % 8 < 4 ? 0 : 4;
      const unsigned low = (pair[0] >> shift & 15U) ^ sign,
                     high = k + 1 < end ? (pair[1] >> shift & 15U) ^ sign : 0;
      row[k / 2] = static_cast<char>(low | high << 4);
    }
  });
}

// Writes the weights, scales, zeros and offsets of outputs [first, first + outputs), and the layer's codebook. `to` may
// have only arrays that the packed weights have.
inline void unpack_quantized(const QuantizedWeights &from, std::size_t first, std::size_t outputs,
                             const rapt_linear_options &o, const QuantizedArrays &to) {
  unpack_codes(from, first, outputs, o, to.w);
  const std::size_t groups = scale_groups(o);
  for (std::size_t n = 0; n < outputs; ++n) {
    const auto copy = [&](const void *numbers, std::size_t size, char *array) {
      for (std::size_t g = 0; g < groups; ++g) {
        std::memcpy(array + (n * groups + g) * size,
                    static_cast<const char *>(numbers) + g * linear_block * size, size);
      }
    };
    if (to.scales && !from.shares_scales())
      copy(from.packed_scales(first + n, 0), from.scale_size(), to.scales);
    if (to.scales && from.shares_scales()) {
      const std::size_t row = from.row_of_scales(first + n) - from.row_of_scales(first),
                        size = groups * from.scale_size();
      std::memcpy(to.scales + row * size, from.packed_scales(first + n, 0), size);
    }
    if (to.offsets) copy(from.packed_offsets(first + n, 0), from.scale_size(), to.offsets);
    if (to.zeros) copy(from.packed_zeros(first + n, 0), 1, reinterpret_cast<char *>(to.zeros));
  }
  if (to.codebook) std::memcpy(to.codebook, from.packed_codebook(), 16 * sizeof *to.codebook);
}

}  // namespace rapt
