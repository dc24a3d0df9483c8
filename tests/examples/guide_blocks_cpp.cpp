// Tests the C++ of linear_layers.md on blocks of a file: their scales are 1, their integers 5, and their offsets 0.
#include <algorithm>
#include <cstddef>
#include <rapt/rapt.hpp>
#include <vector>

int main() {
  constexpr std::size_t rows = 3, in_features = 512, out_features = 70, size = 144;
  std::vector<std::byte> blocks(out_features * in_features / 256 * size, std::byte{0x55});
  for (std::size_t block = 0; block < blocks.size(); block += size) {
    for (std::size_t i = 0; i < 16; ++i)
      blocks[block + i] = std::byte(i == 1 ? 0x3c : (i >= 4 && i < 8) || i >= 12);
  }
  const std::vector<float> x(rows * in_features, 2);
  std::vector<float> y(rows * out_features);
#include "guide_blocks_cpp.inc"
  const auto is_right = [](float sum) { return sum == 2 * 5 * in_features; };
  return !(status == RAPT_OK && std::all_of(y.begin(), y.end(), is_right));
}
