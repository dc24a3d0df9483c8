// Finds the nearest neighbours, which have the largest dot products, using one call over all vectors.
//
// Output:
//   vector  4711   87.1
//   vector  4371   35.5
//   vector   893   35.1
//   alone and in a batch: the same bits
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <rapt/rapt.hpp>

#include "random.hpp"

int main() {
  const std::size_t count = 10'000, dim = 64;
  const std::vector<float> vectors = random_numbers(count * dim, 1);

  // rapt::dot_rows adds the same products in another order, and has other bits. So this program uses rapt::linear for
  // one query too: its scores are then those that it has in a batch.
  const auto scores_of = [&](std::span<const float> queries) {
    rapt_linear_options options = rapt::linear_options();
    options.rows = queries.size() / dim;
    options.in_features = dim;
    options.out_features = count;
    std::vector<std::byte> workspace(rapt::linear_workspace<float>(options));
    std::vector<float> scores(options.rows * count);
    if (rapt::linear(queries, vectors, scores, options, workspace) != RAPT_OK) std::abort();
    return scores;
  };
  const std::vector<float> scores = scores_of(std::span(vectors).subspan(4711 * dim, dim));

  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + 3, order.end(),
                    [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  for (std::size_t i = 0; i < 3; ++i) std::printf("vector %5zu  %5.1f\n", order[i], double(scores[order[i]]));

  const std::vector<float> batch = scores_of(std::span(vectors).subspan(4700 * dim, 32 * dim));
  const bool is_same = std::equal(scores.begin(), scores.end(), batch.begin() + 11 * count);
  std::printf("alone and in a batch: %s\n", is_same ? "the same bits" : "other bits");
}
