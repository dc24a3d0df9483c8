// Decodes with a paged KV cache. Sequences of different lengths share one pool of pages of 16 tokens.
//
// Output:
//   sequence 0: 23 tokens in pages 2 0
//   sequence 1: 40 tokens in pages 4 1 3
//   the same bits as contiguous keys and values: yes
#include <algorithm>
#include <cstdio>
#include <rapt/rapt.hpp>

#include "random.hpp"

constexpr std::size_t heads = 2, dim = 64, page_size = 16, pages = 5, most = 40;

int main() {
  const std::int32_t lengths[] = {23, 40};
  const std::int32_t table[2][3] = {{2, 0, -1}, {4, 1, 3}};  // an unused entry may hold any number
  const std::vector<float> q = random_numbers(2 * heads * dim, 1);
  const std::vector<float> k = random_numbers(2 * heads * most * dim, 2), v = random_numbers(k.size(), 3);

  // The layout is [page][head][token][dim].
  std::vector<float> k_pages(pages * heads * page_size * dim), v_pages(k_pages.size());
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t t = 0; t < std::size_t(lengths[b]); ++t) {
        const auto page = std::size_t(table[b][t / page_size]);
        const std::size_t to = ((page * heads + h) * page_size + t % page_size) * dim;
        const std::size_t from = ((b * heads + h) * most + t) * dim;
        std::copy_n(&k[from], dim, &k_pages[to]);
        std::copy_n(&v[from], dim, &v_pages[to]);
      }
    }
  }

  rapt_attention_options options = rapt::attention_options();
  options.batch = 2;
  options.q_heads = options.kv_heads = heads;
  options.q_len = 1;  // each sequence decodes a token
  options.kv_len = most;
  options.qk_dim = dim;
  options.kv_lengths = lengths;
  std::vector<float> contiguous(q.size()), paged(q.size());
  std::vector<std::byte> workspace(rapt::attention_workspace<float>(options));
  if (rapt::attention(q, k, v, contiguous, options, workspace) != RAPT_OK) return 1;

  options.block_table = table[0];
  options.block_table_stride = 3;
  options.page_size = page_size;
  const rapt_status status = rapt::attention(q, k_pages, v_pages, paged, options, workspace);
  if (status != RAPT_OK) return std::fprintf(stderr, "%s\n", rapt_status_text(status)), 1;

  for (std::size_t b = 0; b < 2; ++b) {
    std::printf("sequence %zu: %d tokens in pages", b, lengths[b]);
    for (std::size_t i = 0; i * page_size < std::size_t(lengths[b]); ++i) std::printf(" %d", table[b][i]);
    std::printf("\n");
  }
  std::printf("the same bits as contiguous keys and values: %s\n", contiguous == paged ? "yes" : "no");
}
