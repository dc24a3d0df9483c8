#include "calls/operand.hpp"

#include <cstdlib>

namespace rapt::test {

std::size_t Operand::extent() const {
  if (is_empty()) return 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < 4; ++i) last += (sizes[i] - 1) * static_cast<std::size_t>(std::abs(strides[i]));
  return (last + 1) * size_of(element);
}

std::size_t Operand::lead() const {
  if (is_empty()) return 0;
  std::size_t elements = 0;
  for (std::size_t i = 0; i < 4; ++i)
    elements += strides[i] < 0 ? (sizes[i] - 1) * static_cast<std::size_t>(-strides[i]) : 0;
  return elements * size_of(element);
}

void Operand::set_rows_apart(std::size_t gap) {
  std::size_t step = 1;
  for (std::size_t i = 4; i-- > 0;) {
    strides[i] = static_cast<std::ptrdiff_t>(step);
    step = step * sizes[i] + (i == 3 ? gap : 0);
  }
}

void Operand::put_tokens_outside() {
  strides[1] = strides[2];
  strides[2] *= static_cast<std::ptrdiff_t>(sizes[1]);
}

bool Operand::has_gaps() const {
  Operand plain;
  plain.sizes = sizes;
  plain.set_rows_apart(0);
  for (std::size_t i = 0; i < 4; ++i) {
    if (sizes[i] > 1 && strides[i] != plain.strides[i]) return true;
  }
  return false;
}

void Operand::write_values() const {
  if (values.empty()) return;
  const std::size_t size = size_of(element);
  each_row([&](unsigned char *row, std::size_t first) {
    const unsigned char *from = values.data() + first * size;
    if (strides[3] == 1) {
      std::memcpy(row, from, sizes[3] * size);
      return;
    }
    for (std::size_t c = 0; c < sizes[3]; ++c)
      std::memcpy(row + static_cast<std::ptrdiff_t>(c) * strides[3] * static_cast<std::ptrdiff_t>(size),
                  from + c * size, size);
  });
}

}  // namespace rapt::test
