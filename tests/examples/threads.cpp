// Runs attention on threads: std::thread, OpenMP and oneTBB, using the adapters of rapt/parallel.hpp.
//
// Output:
//   prefill of 300 tokens: the same bits on 1 to 16 threads: yes
//   decoding over 3000 tokens: the same bits on 1 to 16 threads: yes
#if __has_include(<oneapi/tbb/parallel_for.h>)
#include <oneapi/tbb/parallel_for.h>
#endif

#include <cstdio>
#include <rapt/parallel.hpp>
#include <rapt/rapt.hpp>

#include "random.hpp"

bool same_bits(std::size_t q_len, std::size_t kv_len) {
  rapt_attention_options options = rapt::attention_options();
  options.q_heads = options.kv_heads = 2;
  options.q_len = q_len;
  options.kv_len = kv_len;
  options.qk_dim = 64;
  options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
  const std::vector<float> q = random_numbers(2 * q_len * 64, 1), k = random_numbers(2 * kv_len * 64, 2);
  const std::vector<float> v = random_numbers(2 * kv_len * 64, 3);

  std::vector<float> expected(q.size());
  std::vector<std::byte> workspace(rapt::attention_workspace<float>(options));
  bool same = rapt::attention(q, k, v, expected, options, workspace) == RAPT_OK;

  for (const std::size_t threads : {1u, 2u, 3u, 5u, 16u}) {
    const auto check = [&](const auto &parts) {
      std::vector<float> out(q.size());
      const rapt_status status =
          rapt::parallel_attention(q.data(), k.data(), v.data(), out.data(), &options, threads, parts);
      same = same && status == RAPT_OK && out == expected;
    };
    check(rapt::std_threads);
#ifdef _OPENMP
    check(rapt::openmp);
#endif
#ifdef TBB_VERSION_MAJOR
    check(rapt::tbb);
#endif
  }
  return same;
}

int main() {
  std::printf("prefill of 300 tokens: the same bits on 1 to 16 threads: %s\n",
              same_bits(300, 300) ? "yes" : "no");
  // One query has two tasks here, so the adapters split the keys.
  std::printf("decoding over 3000 tokens: the same bits on 1 to 16 threads: %s\n",
              same_bits(1, 3000) ? "yes" : "no");
}
