// Tests the C++ of README.md: it has the numbers of the C program next to it there, of which some are known.
#include <rapt/rapt.hpp>
#include <vector>

int main() {
#include "readme_cpp.inc"
  return !(status == RAPT_OK && y[3] == 0 && y[4] == y[5] && y[6] < y[5] && y[7] > 0.5f);
}
