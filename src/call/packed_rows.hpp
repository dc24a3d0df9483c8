// Turns outputs of packed weights into numbers: rows of an embedding that shares the weights of a linear layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/packed_weights.hpp"
#include "call/quantized_weights.hpp"

namespace rapt {

// Sets y to the numbers of an output. `packed` is without its header.
template <class E, class Y>
void numbers_of_output(const char *packed, std::size_t output, std::size_t in_features, Y *y) {
  for (std::size_t k = 0; k < in_features; ++k) {
    E element;
    std::memcpy(&element, packed + packed_weight_offset<E>(output, k, in_features) * sizeof element,
                sizeof element);
    y[k] = narrowed<Y>(widened(element));
  }
}

// Does it for quantized weights: number * scale + offset, each operation rounded to f32.
class NumbersOfOutputs {
 public:
  NumbersOfOutputs(const rapt_linear_options &o, const void *packed)
      : from_(o, packed), inputs_(o.in_features), group_(o.scale_group ? o.scale_group : o.in_features) {
    for (std::size_t k = 0; k < from_.unit().inputs; ++k) places_[k] = from_.unit().places(k);
    for (unsigned q = 0; from_.has_codebook() && q < 16; ++q) codebook_[q] = from_.codebook(q);
  }

  template <class Y>
  void write(std::size_t output, Y *y) const {
    const std::size_t unit = from_.unit().inputs;
    for (std::size_t begin = 0, g = 0; begin < inputs_; begin += group_, ++g) {
      const std::size_t end = inputs_ - begin < group_ ? inputs_ : begin + group_;
      const float scale = from_.scale(output, g), offset = from_.has_offsets() ? from_.offset(output, g) : 0;
      const int zero = from_.zero(output, g);
      for (std::size_t k = begin; k < end;) {
        const std::uint8_t *const codes = from_.codes(output, k);
        const std::size_t last = k / unit * unit + unit < end ? k / unit * unit + unit : end;
        for (; k < last; ++k) {
          const unsigned q = places_[k % unit].read(codes);
          const float number =
              from_.has_codebook() ? codebook_[q] : static_cast<float>(static_cast<int>(q) - zero);
          y[k] = narrowed<Y>(from_.has_offsets() ? number * scale + offset : number * scale);
        }
      }
    }
  }

 private:
  QuantizedWeights from_;
  std::size_t inputs_, group_;
  Places places_[32];
  float codebook_[16];
};

}  // namespace rapt
