// Makes problems of attention, and layouts to run them in.
#pragma once

#include <vector>

#include "support/compare.hpp"
#include "support/effort.hpp"
#include "support/problem.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Draws any shape, with any options. `most_work` limits the number of multiplications, roughly.
Problem draw_attention_problem(Random &random, std::size_t most_work);
std::vector<Problem> draw_attention_problems(std::size_t count, std::uint64_t seed, std::size_t most_work);

// Returns problems with each `step`-th dimension up to 80, with few rows and with many. Every tail of a
// vector, of a panel and of a block occurs.
std::vector<Problem> attention_of_every_dimension(std::size_t step);

struct AttentionShapes {
  struct Dims {
    std::size_t qk, v;
  };
  std::vector<Dims> dims;
  std::vector<std::size_t> queries, keys, q_heads_per_kv_head;
};
// Makes each `step`-th combination, except combinations of more than `most_work`.
std::vector<Problem> attention_of_shapes(const AttentionShapes &shapes, std::size_t step,
                                         std::size_t most_work);

// Returns the plain layout, and others that the problem's seed draws.
LayoutsOf plain_and_drawn_layouts(std::size_t count);

}  // namespace rapt::test
