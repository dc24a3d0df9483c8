#include "ggml/mask.hpp"

#include <atomic>
#include <cmath>

namespace rapt_ggml {

namespace {

// Reads bits, because comparisons of f16 would first convert.
template <class Bits>
bool convert_row(const Bits *numbers, Bits minus_infinity, std::uint8_t *visible, std::size_t n) {
  Bits others = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const bool seen = numbers[i] != minus_infinity;
    visible[i] = seen;
    others = static_cast<Bits>(others | (seen ? static_cast<Bits>(numbers[i] << 1) : Bits{0}));
  }
  return others == 0;
}

}  // namespace

std::shared_ptr<const Mask> mask_of(Graph &graph, Tensor t) {
  std::shared_ptr<const Mask> &known = graph.masks[t];
  if (known) return known;
  auto made = std::make_shared<Mask>(Mask{extent(t, 0), extent(t, 1), extent(t, 2), extent(t, 3), true, {}});
  made->visible.resize(element_count(t));
  std::atomic<bool> only_excludes{true};
  const std::size_t keys = made->keys;
  graph.engine.split(row_count(t), element_count(t), [&](std::size_t first, std::size_t last) {
    bool plain = true;
    for (std::size_t r = first; r < last; ++r) {
      std::byte *const row = row_of(t, r);
      std::uint8_t *const visible = &made->visible[r * keys];
      plain &= t->type == GGML_TYPE_F16
                   ? convert_row<std::uint16_t>(elements_of<std::uint16_t>(row), 0xfc00, visible, keys)
                   : convert_row<std::uint32_t>(elements_of<std::uint32_t>(row), 0xff800000, visible, keys);
    }
    if (!plain) only_excludes = false;
  });
  made->only_excludes = only_excludes;
  return known = made;
}

void mask_row(Tensor mask, std::size_t b, std::size_t head, std::size_t query, float *row) {
  const std::byte *const numbers = bytes_of(mask) + query * mask->nb[1] +
                                   head % extent(mask, 2) * mask->nb[2] + b % extent(mask, 3) * mask->nb[3];
  decode_row(mask->type, numbers, extent(mask, 0), row);
}

std::vector<float> slopes_of(float max_bias, std::size_t heads) {
  std::vector<float> slopes(heads, 1.0F);
  if (max_bias == 0) return slopes;
  std::size_t power = 1;
  while (2 * power <= heads) power *= 2;
  // 2^e. Heads beyond a power of two take every other step of twice as many heads.
  const double ln2 = 0.693147180559945309417232;
  for (std::size_t h = 0; h < heads; ++h) {
    const double steps =
        h < power ? static_cast<double>(h + 1) : (2.0 * static_cast<double>(h - power) + 1) / 2;
    const double exponent = ln2 * -(static_cast<double>(max_bias) / static_cast<double>(power)) * steps;
    double slope = 0;
    rapt_exp_f64(&exponent, &slope, 1);
    slopes[h] = static_cast<float>(slope);
  }
  return slopes;
}

}  // namespace rapt_ggml
