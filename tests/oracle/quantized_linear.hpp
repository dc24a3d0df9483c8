// Computes linear layers with quantized weights from the text of rapt.h, one operation at a time. Every result
// must have these bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <vector>

namespace rapt::test::oracle {

// Holds the integers of a row of x, and the scale of each group of `group` inputs.
struct RowOfIntegers {
  std::vector<int> q;
  std::vector<float> scales;
};

// Rounds a row to integers of at most `largest`.
inline RowOfIntegers quantized(std::span<const float> x, std::size_t group, float largest) {
  RowOfIntegers made;
  for (std::size_t begin = 0; begin < x.size(); begin += group) {
    const std::span<const float> part = x.subspan(begin, std::min(group, x.size() - begin));
    float m = 0;
    bool is_finite = true;
    for (const float value : part) {
      is_finite = is_finite && std::isfinite(value);
      m = std::max(m, std::fabs(value));
    }
    const bool counts = is_finite && m >= 0x1p-100f;
    const float factor = counts ? largest / m : 0;
    for (const float value : part) {
      const float product = counts ? value * factor : 0;
      made.q.push_back(static_cast<int>(std::nearbyint(product)));
    }
    made.scales.push_back(!is_finite ? std::numeric_limits<float>::quiet_NaN() : counts ? m / largest : 0);
  }
  return made;
}

// Describes one output: integers, and the scale, zero and offset of each scale group. Empty arrays are missing
// options. A scale group of 0 is the row.
struct QuantizedOutput {
  std::span<const int> q;
  std::span<const float> scales, offsets;
  std::span<const std::uint8_t> zeros;
  std::span<const float> codebook;
  int zero = 0;                       // of all outputs, without zeros
  float (*number_of)(int) = nullptr;  // of codes that are numbers of 8 bits
  std::size_t scale_group = 0;

  std::size_t fold() const { return scale_group ? scale_group : 512; }
  std::size_t group_of(std::size_t k) const { return scale_group ? k / scale_group : 0; }
  int integer(std::size_t k) const {
    if (!codebook.empty()) return static_cast<int>(codebook[static_cast<std::size_t>(q[k])]);
    return q[k] - (zeros.empty() ? zero : zeros[group_of(k)]);
  }
  float number(std::size_t k) const {
    if (number_of) return number_of(q[k]);
    if (!codebook.empty()) return codebook[static_cast<std::size_t>(q[k])];
    return static_cast<float>(integer(k));
  }
  float scale(std::size_t k) const { return scales.empty() ? 1 : scales[group_of(k)]; }
};

// Returns t in f32 arithmetic.
inline float sum_in_f32(std::span<const float> x, const QuantizedOutput &w) {
  float t = 0;
  for (std::size_t begin = 0; begin < x.size(); begin += w.fold()) {
    const std::size_t end = std::min(x.size(), begin + w.fold());
    float p = 0, sx = 0;
    for (std::size_t k = begin; k < end; ++k) p = std::fma(x[k], w.number(k), p);
    for (std::size_t k = begin; k < end; ++k) sx = sx + x[k];
    t = std::fma(w.scale(begin), p, t);
    if (!w.offsets.empty()) t = std::fma(sx, w.offsets[w.group_of(begin)], t);
  }
  return t + 0.0f;
}

// Returns t in i8 arithmetic. Each scale of x belongs to x_group inputs.
inline float sum_in_i8(const RowOfIntegers &x, std::size_t x_group, const QuantizedOutput &w) {
  float t = 0;
  for (std::size_t begin = 0; begin < x.q.size(); begin += w.fold()) {
    const std::size_t end = std::min(x.q.size(), begin + w.fold());
    long long sum = 0, sx = 0;
    for (std::size_t k = begin; k < end; ++k) {
      sum += static_cast<long long>(x.q[k]) * w.integer(k);
      sx += x.q[k];
    }
    const float xs = x.scales[begin / x_group];
    const float p = static_cast<float>(sum) * xs;
    t = std::fma(w.scale(begin), p, t);
    if (!w.offsets.empty()) t = std::fma(static_cast<float>(sx) * xs, w.offsets[w.group_of(begin)], t);
  }
  return t + 0.0f;
}

}  // namespace rapt::test::oracle
