// Prepares a linear layer of the experts of a model, with packed weights of 4 bits and a scale for each 32 inputs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/buffer.hpp"
#include "support/quantized_layer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

struct ExpertsShape {
  const char *model;
  std::size_t experts, slots, outputs, inputs;

  std::size_t packed_bytes() const { return outputs * inputs / 2 + outputs * inputs / 32 * 2; }
};

// Each token has other experts, as if at random. They are the same in every run.
class ChosenExperts {
 public:
  ChosenExperts(const ExpertsShape &shape, std::size_t tokens)
      : offsets(shape.experts + 1), token_rows(tokens * shape.slots), entry_rows(tokens * shape.slots) {
    Uniform uniform;
    std::vector<std::int32_t> ids;
    for (std::size_t token = 0; token < tokens; ++token) {
      const auto begin = static_cast<std::ptrdiff_t>(ids.size());
      while (ids.size() < (token + 1) * shape.slots) {
        const auto id = static_cast<std::int32_t>(uniform() * 0.999999 * static_cast<double>(shape.experts));
        if (std::find(ids.begin() + begin, ids.end(), id) == ids.end()) ids.push_back(id);
      }
    }
    require_ok(rapt_expert_lists(ids.data(), 0, tokens, shape.slots, shape.experts, offsets.data(),
                                 token_rows.data(), entry_rows.data()));
  }
  std::size_t count_with_rows() const {
    std::size_t count = 0;
    for (std::size_t e = 0; e + 1 < offsets.size(); ++e) count += offsets[e] != offsets[e + 1];
    return count;
  }

  std::vector<std::size_t> offsets, token_rows, entry_rows;
};

class QuantizedExperts {
 public:
  QuantizedExperts(const ExpertsShape &shape, std::size_t tokens, int arithmetic)
      : chosen_(shape, tokens),
        x_(logits<float>(tokens * shape.inputs)),
        y_(tokens * shape.slots * shape.outputs) {
    options_.size = sizeof options_;
    options_.w_type = RAPT_I4;
    options_.w_scale_type = RAPT_F16;
    options_.scale_group = 32;
    options_.arithmetic = arithmetic;
    options_.rows = tokens * shape.slots;
    options_.in_features = shape.inputs;
    options_.out_features = shape.outputs;
    const std::size_t numbers = shape.outputs * shape.inputs / 32;
    Buffer<std::uint8_t> codes(numbers * 16);
    Buffer<std::uint16_t> scales(numbers);
    Uniform uniform;
    for (std::uint8_t &code : codes.elements()) code = static_cast<std::uint8_t>(uniform() * 255);
    std::fill_n(scales.data(), numbers, std::uint16_t{0x2000});  // 2^-7
    options_.w_scales = scales.data();
    std::size_t bytes = 0;
    require_ok(rapt_linear_packed_length(&options_, &bytes));
    packed_ = Buffer<std::byte>(shape.experts * bytes);
    for (std::size_t e = 0; e < shape.experts; ++e)
      require_ok(
          rapt_linear_pack(codes.data(), 0, shape.outputs, &options_, packed_.data() + e * bytes, bytes));
    options_.w_scales = nullptr;
    options_.w_scale_type = RAPT_TYPE_DEFAULT;
    options_.packed_w = 1;
    options_.x_rows = chosen_.token_rows.data();
    options_.y_rows = chosen_.entry_rows.data();
    experts_.size = sizeof experts_;
    experts_.experts = shape.experts;
    experts_.offsets = chosen_.offsets.data();
    experts_.w_stride = static_cast<std::ptrdiff_t>(bytes);
    require_ok(rapt_linear_experts_workspace(&options_, &bytes));
    workspace_ = Buffer<std::byte>(bytes);
  }

  void operator()(const QuantizedProduct &) {
    require_ok(rapt_linear_experts(x_.data(), packed_.data(), y_.data(), &options_, &experts_,
                                   workspace_.data(), workspace_.size()));
  }

 private:
  ChosenExperts chosen_;
  rapt_linear_options options_{};
  rapt_expert_options experts_{};
  Buffer<float> x_, y_;
  Buffer<std::byte> packed_{0}, workspace_{0};
};

}  // namespace rapt::bench
