// Says which packed weights are those of a layer.
#pragma once

#include <cstddef>

#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "call/packed_header.hpp"
#include "call/packed_weights.hpp"
#include "call/quantized_weights.hpp"

namespace rapt {
namespace {

inline std::size_t packed_float_bytes(const rapt_linear_options &o) {
  const std::size_t blocks = o.out_features / linear_block + (o.out_features % linear_block != 0);
  const std::size_t length = o.w_type == RAPT_BF16 ? packed_block_length<BF16>(o.in_features)
                                                   : packed_block_length<float>(o.in_features);
  return sizeof(PackedHeader) + blocks * length * size_of(o.w_type);
}

// Returns the header that rapt_linear_pack writes for the options.
inline PackedHeader header_of(const rapt_linear_options &o) {
  if (is_quantized(o.w_type)) return QuantizedWeights(o, nullptr).header();
  PackedHeader header = PackedHeader::of(o);
  header.set_length(packed_float_bytes(o));
  return header;
}

// Returns whether packed weights are the layer's. Only then is their length that of the header.
inline bool are_of_layer(const rapt_linear_options &o, const void *packed) {
  const PackedHeader header = PackedHeader::stored_at(packed);
  return header.fits(o) &&
         header.length ==
             (is_quantized(o.w_type) ? QuantizedWeights(o, packed).packed_size() : packed_float_bytes(o));
}

// Returns whether the arithmetic has the numbers of the weights' codebook. Weights that are not packed have it in the
// options.
inline bool has_codebook_of_arithmetic(const rapt_linear_options &o, const void *w) {
  if (!is_quantized(o.w_type) || o.arithmetic != RAPT_ARITHMETIC_I8) return true;
  const QuantizedWeights weights(o, w);
  return !weights.has_codebook() || weights.has_codebook_of_integers();
}

}  // namespace
}  // namespace rapt
