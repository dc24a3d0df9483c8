// Compares the gradient of attention with differences of a loss, which is the sum of out * dout over all
// elements.
//
// Output:
//   dq: as the differences: yes
//   dk: as the differences: yes
//   dv: as the differences: yes
#include <cmath>
#include <cstdio>
#include <rapt/rapt.hpp>

#include "random.hpp"

constexpr std::size_t q_heads = 4, kv_heads = 2, tokens = 20, dim = 16;

std::vector<double> doubles(std::size_t n, std::uint64_t seed) {
  const std::vector<float> numbers = random_numbers(n, seed);
  return {numbers.begin(), numbers.end()};
}

std::vector<double> q = doubles(q_heads * tokens * dim, 1), k = doubles(kv_heads * tokens * dim, 2),
                    v = doubles(kv_heads * tokens * dim, 3);
const std::vector<double> dout = doubles(q.size(), 4);

rapt_attention_options causal_options() {
  rapt_attention_options options = rapt::attention_options();
  options.q_heads = q_heads;
  options.kv_heads = kv_heads;
  options.q_len = options.kv_len = tokens;
  options.qk_dim = dim;
  options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
  return options;
}

double loss() {
  const rapt_attention_options options = causal_options();
  std::vector<double> out(q.size());
  std::vector<std::byte> workspace(rapt::attention_workspace<double>(options));
  if (rapt::attention(q, k, v, out, options, workspace) != RAPT_OK) return NAN;
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
  return sum;
}

// Compares some elements of dx with central differences, whose error is proportional to step^2.
bool is_gradient(std::vector<double> &x, const std::vector<double> &dx) {
  constexpr double step = 0x1p-14;
  bool good = true;
  for (std::size_t i = 0; i < x.size(); i += 37) {
    const double there = x[i];
    x[i] = there + step;
    const double above = loss();
    x[i] = there - step;
    const double below = loss();
    x[i] = there;
    good = good && std::abs((above - below) / (2 * step) - dx[i]) < 1e-6;
  }
  return good;
}

int main() {
  rapt_attention_options options = causal_options();
  std::vector<double> out(q.size()), lse(q_heads * tokens), dq(q.size()), dk(k.size()), dv(v.size());
  options.lse = lse.data();  // the forward call writes it, and the backward call reads it
  std::vector<std::byte> workspace(rapt::attention_backward_workspace<double>(options));
  rapt_status status = rapt::attention(q, k, v, out, options, workspace);

  rapt_attention_gradients gradients = rapt::attention_gradients();
  gradients.out = out.data();
  gradients.dout = dout.data();
  gradients.dq = dq.data();
  gradients.dk = dk.data();
  gradients.dv = dv.data();
  if (status == RAPT_OK) status = rapt::attention_backward(q, k, v, options, gradients, workspace);
  if (status != RAPT_OK) return std::fprintf(stderr, "%s\n", rapt_status_text(status)), 1;

  std::printf("dq: as the differences: %s\n", is_gradient(q, dq) ? "yes" : "no");
  std::printf("dk: as the differences: %s\n", is_gradient(k, dk) ? "yes" : "no");
  std::printf("dv: as the differences: %s\n", is_gradient(v, dv) ? "yes" : "no");
}
