// Weights of blocks as the arrays that rapt's linear layers take.
#pragma once

#include <rapt/rapt.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "ggml/tensor.hpp"

namespace rapt_ggml {

// Whether weights of this type can be unpacked. Types that formats.hpp lacks are decoded by the host: weights to f16.
bool can_unpack(ggml_type type);

// decode_row(), also of the types that only the host knows.
void decode(ggml_type type, const void *row, std::size_t n, float *y);

class Unpacked {
 public:
  // Unpacks rows [first, first + rows) of a matrix of t, which begins at `matrix`. If the rows are those of several matrices,
  // which are experts, some may have no rows by `offsets`: their numbers are 0.
  void fill(Tensor t, const std::byte *matrix, std::size_t first, std::size_t rows,
            const std::size_t *offsets = nullptr);

  const void *weights() const { return codes_.empty() ? nullptr : codes_.data(); }
  void set_arrays(rapt_linear_options &options) const;

 private:
  void shorten(std::vector<float> &numbers) const;

  std::optional<Format> format_;  // none: codes_ has numbers of f16
  std::vector<std::uint8_t> codes_, zeros_;
  std::vector<float> scales_, offsets_;  // or numbers of 16 bits, from their beginning
};

}  // namespace rapt_ggml
