// Samples tokens from logits: computes softmax at a temperature, then draws from the probabilities.
//
// Output:
//   p = 0.0144 0.0320 0.0712 0.1584 0.7241
//   drawn: 3 4 4 4 2 4 4 4 1 4
#include <cstdint>
#include <cstdio>
#include <rapt/rapt.hpp>
#include <vector>

int main() {
  const std::vector<float> logits = {-1, 0, 1, 2, 3.9F};
  std::vector<float> p(logits.size());

  rapt_softmax_options options = rapt::softmax_options();
  options.scale = 0.8;  // 1 / temperature
  const rapt_status status = rapt::softmax<float>({logits, logits.size()}, {p, p.size()}, &options);
  if (status != RAPT_OK) return std::fprintf(stderr, "%s\n", rapt_status_text(status)), 1;

  std::printf("p =");
  for (const float x : p) std::printf(" %.4f", double(x));

  // Every CPU gives the same bits, so a seed draws the same tokens everywhere.
  std::printf("\ndrawn:");
  std::uint32_t state = 1;
  for (int draw = 0; draw < 10; ++draw) {
    state = state * 1664525U + 1013904223U;
    float left = float(state >> 8) * 0x1p-24F;
    std::size_t token = 0;
    while (token + 1 < p.size() && left >= p[token]) left -= p[token++];
    std::printf(" %zu", token);
  }
  std::printf("\n");
}
