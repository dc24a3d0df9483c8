// Problems of attention, and layouts to run them in.
#pragma once

#include <vector>

#include "support/compare.hpp"
#include "support/effort.hpp"
#include "support/problem.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Of any shape, with any options. `most_work`: multiplications, about.
Problem draw_attention_problem(Random &random, std::size_t most_work);
std::vector<Problem> draw_attention_problems(std::size_t count, std::uint64_t seed, std::size_t most_work);

// Each `step`-th dimension up to 80, of few rows and of many: a vector, a panel or a block leaves each number
// of them over.
std::vector<Problem> attention_of_every_dimension(std::size_t step);

struct AttentionShapes {
  struct Dims {
    std::size_t qk, v;
  };
  std::vector<Dims> dims;
  std::vector<std::size_t> queries, keys, q_heads_per_kv_head;
};
// Each `step`-th combination; those of more work are left out.
std::vector<Problem> attention_of_shapes(const AttentionShapes &shapes, std::size_t step,
                                         std::size_t most_work);

// The plain layout, and others that the problem's seed draws.
LayoutsOf plain_and_drawn_layouts(std::size_t count);

}  // namespace rapt::test
