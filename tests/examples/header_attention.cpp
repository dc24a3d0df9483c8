// Tests the attention example of rapt.hpp.
#include <rapt/rapt.hpp>
#include <vector>

int main() {
  const std::size_t tokens = 5;
#include "header_attention.inc"
  if (status != RAPT_OK) return 1;
  // Ranges of another type and ranges that are too short are refused.
  std::vector<double> doubles(out.size());
  if (rapt::attention(q, k, doubles, out, options, workspace) != RAPT_BAD_TYPE) return 2;
  if (rapt::attention(q, k, v, std::span(doubles), options, workspace) != RAPT_BAD_TYPE) return 3;
  k.pop_back();
  if (rapt::attention(q, k, v, out, options, workspace) != RAPT_BAD_SIZE) return 4;
  out.pop_back();
  return rapt::attention_run(q, v, v, out, options, 0, 1, workspace) != RAPT_BAD_SIZE;
}
