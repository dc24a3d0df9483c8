// Implements the scalar reference of attention over int8 keys and values (contract/int8_attention.hpp).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "contract/fused.hpp"
#include "contract/int8_attention.hpp"
#include "contract/integer_units.hpp"
#include "isa/scalar/attention.hpp"

namespace {

template <class Number>
rapt::IntegerUnits int8_units(std::size_t count, Number number) {
  return rapt::IntegerUnits::of(count, rapt::Int8Attention::largest, number);
}

template <>
class AttentionRow<std::int8_t> : public AttentionRow<float> {
 public:
  using AttentionRow<float>::AttentionRow;

  void add_keys(AttentionState<float> &state, std::size_t begin, std::size_t end) const {
    constexpr std::size_t block = rapt::attention_block;
    for (std::size_t key = begin; key < end; key += block) {
      add_block(state, key, end - key < block ? end - key : block);
    }
  }

 private:
  float dot(std::size_t key) const {
    const std::size_t step = o_.packed_keys ? rapt::packed_dim_stride : 1;
    const std::int8_t *k = tile_.k<std::int8_t>(key);
    const float *k_scales = tile_.k_scales(key);
    const std::size_t group = rapt::scale_group_of(o_, o_.qk_dim);
    float t = 0;
    rapt::with_element<float>(o_.q_type, [&](auto element) {
      const auto *q = tile_.q<typename decltype(element)::type>(row_);
      for (std::size_t first = 0; first < o_.qk_dim; first += group) {
        const auto units = int8_units(group, [&](std::size_t d) { return rapt::widened(q[first + d]); });
        const float unit = units.step * scale_.sign, k_scale = k_scales[first / group];
        for (std::size_t from = 0; from < group; from += rapt::Int8Attention::segment) {
          std::int64_t sum = 0;
          for (std::size_t d = from; d < group && d < from + rapt::Int8Attention::segment; ++d) {
            sum += std::int64_t{units.integer(rapt::widened(q[first + d]))} * k[(first + d) * step];
          }
          t = fused(static_cast<float>(sum) * unit, k_scale, t);
        }
      }
    });
    return t;
  }

  void add_block(AttentionState<float> &state, std::size_t first, std::size_t keys) const {
    constexpr std::size_t block = rapt::attention_block;
    float w[block] = {};
    const float max_before = state.max;
    for (std::size_t j = 0; j < keys; ++j) {
      if (!visible(first + j)) continue;
      w[j] = score_of(dot(first + j), first, j);
      if (w[j] > state.max) state.max = w[j];
    }
    const float reference = state.reference(), rescale = weight_of(max_before - reference);
    for (std::size_t j = 0; j < keys; ++j) w[j] = visible(first + j) ? weight_of(w[j] - reference) : 0;
    const std::size_t group = rapt::scale_group_of(o_, o_.v_dim);
    for (std::size_t g = 0; g < o_.v_dim / group; ++g) {
      float number[block] = {};
      const std::int8_t *v[block];
      for (std::size_t j = 0; j < keys; ++j) {
        if (w[j] == 0) continue;
        number[j] = w[j] * tile_.v_scales(first + j)[g];
        v[j] = tile_.v<std::int8_t>(first + j);
      }
      const auto units = int8_units(keys, [&](std::size_t j) { return number[j]; });
      for (std::size_t d = g * group; d < (g + 1) * group; ++d) {
        std::int64_t sum = 0;
        for (std::size_t j = 0; j < keys; ++j) {
          if (w[j] != 0) sum += std::int64_t{units.integer(number[j])} * v[j][d];
        }
        state.values[d] = fused(static_cast<float>(sum), units.step, state.values[d] * rescale);
      }
    }
    state.sum = fused(state.sum, rescale, ::fold(w));
  }
};

}  // namespace
