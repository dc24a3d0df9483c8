// Tests the rows example of rapt.hpp.
#include <rapt/rapt.hpp>
#include <vector>

int main() {
  const std::size_t rows = 2, cols = 4;
#include "header_rows.inc"
  return !(status == RAPT_OK && y[0] == 0.25f && y[7] == 0.25f);
}
