// Makes attention problems, and layouts to run them in.
#pragma once

#include <vector>

#include "support/compare.hpp"
#include "support/effort.hpp"
#include "support/problem.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Draws random shapes and options. `most_work` roughly limits the number of multiplications.
Problem draw_attention_problem(Random &random, std::size_t most_work);
std::vector<Problem> draw_attention_problems(std::size_t count, std::uint64_t seed, std::size_t most_work);

// Returns problems with every `step`-th dimension up to 80, with few and with many rows. They cover every
// tail of a vector, a panel of keys and a block of keys.
std::vector<Problem> attention_of_every_dimension(std::size_t step);

struct AttentionShapes {
  struct Dims {
    std::size_t qk, v;
  };
  std::vector<Dims> dims;
  std::vector<std::size_t> queries, keys, q_heads_per_kv_head;
};
// Returns every `step`-th combination of shapes, except those of more than `most_work` multiplications.
std::vector<Problem> attention_of_shapes(const AttentionShapes &shapes, std::size_t step,
                                         std::size_t most_work);

// Returns the plain layout and `count` others, drawn with the problem's seed.
LayoutsOf plain_and_drawn_layouts(std::size_t count);

}  // namespace rapt::test
