// Finds the nearest neighbours, which have the largest dot products, using one call over all vectors.
//
// Output:
//   vector  4711   87.1
//   vector  4371   35.5
//   vector   893   35.1
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <rapt/rapt.hpp>

#include "random.hpp"

int main() {
  const std::size_t count = 10'000, dim = 64;
  const std::vector<float> vectors = random_numbers(count * dim, 1);
  const std::span<const float> query = std::span(vectors).subspan(4711 * dim, dim);

  std::vector<float> scores(count);
  rapt::dot_rows(query, rapt::Rows<const float>(vectors, dim), 1, scores);

  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + 3, order.end(),
                    [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  for (std::size_t i = 0; i < 3; ++i) std::printf("vector %5zu  %5.1f\n", order[i], double(scores[order[i]]));
}
