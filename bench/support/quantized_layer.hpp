// Prepares the arrays of linear layers with quantized weights, and computes them by rapt or by a peer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "peers/functions.hpp"
#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

// A peer's layers have a scale for each 32 inputs of x and w, and pack weights of f32. Without a peer's
// functions it is rapt.
struct QuantizedProduct {
  QuantizedLinear of_peer;

  explicit operator bool() const { return static_cast<bool>(of_peer); }
};

// What a scale group has next to its scale. A codebook is the whole layer's.
enum class WithGroups { scales, zeros, offsets, codebook };

// Scales and offsets are f16, as in the files of models.
struct QuantizedShape {
  LinearShape of;
  // RAPT_I8, RAPT_I4, or numbers of 8 bits, for which 128 outputs share scales. With zeros or a codebook the codes are
  // those of RAPT_U8 or RAPT_U4.
  rapt_type type;
  std::size_t scale_group;  // 0: a row
  int arithmetic;
  WithGroups with = WithGroups::scales;

  std::size_t groups() const { return scale_group ? (of.inputs + scale_group - 1) / scale_group : 1; }
  bool is_f8() const { return type == RAPT_F8_E4M3 || type == RAPT_F8_E5M2; }
  bool is_bytes() const { return type == RAPT_I8 || is_f8(); }
};

class QuantizedLayer {
 public:
  explicit QuantizedLayer(const QuantizedShape &shape)
      : shape_(shape),
        x_(logits<float>(shape.of.rows * shape.of.inputs, 0, 0)),
        w_(logits<float>(shape.of.outputs * shape.of.inputs, 0, 1)),
        y_(shape.of.rows * shape.of.outputs) {
    const LinearShape &s = shape.of;
    const bool is_f8 = shape.is_f8();
    const std::size_t group = shape.scale_group ? shape.scale_group : s.inputs;
    Buffer<std::uint8_t> q(s.outputs * (shape.is_bytes() ? s.inputs : (s.inputs + 1) / 2));
    const std::size_t numbers = s.outputs * shape.groups();
    Buffer<float> rounded_scales(numbers);
    require_ok(rapt_quantize_rows(w_.data(), RAPT_F32, 0, s.outputs, s.inputs, group,
                                  is_f8 ? RAPT_I8 : shape.type, q.data(), rounded_scales.data()));
    // These are numbers near 1. Subnormal ones take longer, but a trained layer has one in some 10000.
    if (is_f8) std::for_each_n(q.data(), q.size(), [](std::uint8_t &code) { code = (code & 0x8f) | 0x30; });
    Buffer<std::uint16_t> scales(numbers), offsets(numbers);
    Buffer<std::uint8_t> zeros(numbers);
    rapt_convert_f32_to_f16(rounded_scales.data(), scales.data(), numbers);
    std::fill_n(offsets.data(), numbers, std::uint16_t{0});
    std::fill_n(zeros.data(), numbers, static_cast<std::uint8_t>(shape.is_bytes() ? 128 : 8));
    options_.size = sizeof options_;
    options_.w_type = shape.type;
    options_.w_scale_type = RAPT_F16;
    if (is_f8) options_.outputs_per_scale = 128;
    if (shape.with == WithGroups::offsets) options_.w_offsets = offsets.data();
    float codebook[16];  // of the same numbers
    for (int i = 0; i < 16; ++i) codebook[i] = static_cast<float>(i - 8);
    if (shape.with == WithGroups::zeros || shape.with == WithGroups::codebook) {
      options_.w_type = shape.is_bytes() ? RAPT_U8 : RAPT_U4;
      if (shape.with == WithGroups::zeros) options_.w_zeros = zeros.data();
      if (shape.with == WithGroups::codebook) options_.w_codebook = codebook;
      const std::uint8_t signs = shape.is_bytes() ? 0x80 : 0x88;
      std::for_each_n(q.data(), q.size(), [=](std::uint8_t &codes) { codes ^= signs; });
    }
    options_.arithmetic = shape.arithmetic;
    options_.rows = s.rows;
    options_.in_features = s.inputs;
    options_.out_features = s.outputs;
    options_.scale_group = shape.scale_group;
    options_.w_scales = scales.data();
    std::size_t bytes = 0;
    require_ok(rapt_linear_packed_length(&options_, &bytes));
    packed_ = Buffer<std::byte>(bytes);
    require_ok(rapt_linear_pack(q.data(), 0, s.outputs, &options_, packed_.data(), packed_.size()));
    options_.w_scales = options_.w_offsets = nullptr;
    options_.w_zeros = nullptr;
    options_.w_codebook = nullptr;
    options_.w_scale_type = RAPT_TYPE_DEFAULT;
    options_.outputs_per_scale = 0;
    options_.packed_w = 1;
    require_ok(rapt_linear_workspace(&options_, &bytes));
    workspace_ = Buffer<std::byte>(bytes);
  }

  const float *x() const { return x_.data(); }
  const float *w() const { return w_.data(); }
  const float *y() const { return y_.data(); }
  const LinearShape &shape() const { return shape_.of; }
  std::size_t packed_bytes() const { return packed_.size(); }

  // The first call of a peer packs the weights.
  void operator()(const QuantizedProduct &product) {
    if (!product) {
      require_ok(
          rapt_linear(x_.data(), packed_.data(), y_.data(), &options_, workspace_.data(), workspace_.size()));
      return;
    }
    const Linear<float> &peer = shape_.type == RAPT_I8 ? product.of_peer.i8 : product.of_peer.i4;
    if (packer_ != peer.pack) {
      packer_ = peer.pack;
      packed_by_peer_ = Buffer<std::byte>(peer.packed_bytes(shape_.of));
      peer.pack(w_.data(), packed_by_peer_.data(), shape_.of);
    }
    peer.multiply(x_.data(), packed_by_peer_.data(), y_.data(), shape_.of);
  }

 private:
  QuantizedShape shape_;
  rapt_linear_options options_{};
  Buffer<float> x_, w_, y_;
  Buffer<std::byte> packed_{0}, workspace_{0}, packed_by_peer_{0};
  void (*packer_)(const float *w, void *packed, const LinearShape &shape) = nullptr;
};

}  // namespace rapt::bench
