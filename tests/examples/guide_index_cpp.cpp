// Tests the C++ of the manual's first page: queries, keys and values are equal, so that every token's output is its
// value.
#include <rapt/rapt.hpp>
#include <vector>

int main() {
#include "guide_index_cpp.inc"
  return !(status == RAPT_OK && out == q);
}
