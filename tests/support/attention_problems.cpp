#include "support/attention_problems.hpp"

#include <algorithm>

#include "support/options.hpp"

namespace rapt::test {
namespace {

std::size_t draw_dim(Random &random) {
  const std::size_t kind = random.below(4);
  if (kind < 2) return 1 + random.below(20);
  if (kind == 2) return random.one_of<std::size_t>({31, 32, 33, 47, 48, 64, 65});
  return random.one_of<std::size_t>({64, 80, 96, 112, 128, 128, 192, 256});
}

// Draws lengths near the ends of blocks and chunks of keys, and other lengths.
std::size_t draw_length(Random &random, std::size_t longest) {
  const std::size_t kind = random.below(8);
  if (kind == 0) return random.one_of<std::size_t>({0, 1, 1, 2, 3});
  if (kind < 4) return random.below(std::min<std::size_t>(longest, 80));
  if (kind < 6) {
    const std::size_t end = random.one_of<std::size_t>({16, 64, 64, 128, 192, 512, 512, 576, 1024});
    return std::min(end + random.below(5) - 2, longest);
  }
  return random.below(longest + 1);
}

// Shrinks the problem to at most `most_work`. It may keep many queries or many keys, but not both.
void fit(Random &random, AttentionProblem &made, std::size_t most_work) {
  const auto work = [&] {
    return made.batch * made.q_heads() * std::max<std::size_t>(made.rows, 1) *
           std::max<std::size_t>(made.cols, 1) * (made.qk_dim + made.v_dim);
  };
  while (work() > most_work) {
    if (made.batch > 2) {
      made.batch -= 1;
    } else if (made.rows > 8 && (random.one_in(2) || made.cols < 70)) {
      made.rows -= 1 + made.rows / 4;
    } else if (made.cols > 70) {
      made.cols -= 1 + made.cols / 5;
    } else if (made.q_heads_per_kv_head > 2) {
      made.q_heads_per_kv_head -= 1;
    } else {
      made.rows = 1;
      made.batch = made.kv_heads = 1;
      if (made.cols <= 70 && made.q_heads_per_kv_head <= 2) break;
    }
  }
}

InputClass draw_input(Random &random) {
  constexpr InputClass inputs[] = {
      InputClass::gaussian,       InputClass::gaussian,         InputClass::gaussian,
      InputClass::gaussian,       InputClass::uniform,          InputClass::gaussian_wide,
      InputClass::signed_zeros,   InputClass::minus_infinities, InputClass::specials,
      InputClass::odd_rows,       InputClass::odd_rows,         InputClass::huge,
      InputClass::wide_exponents, InputClass::denormals,        InputClass::minus_infinities};
  return random.one_of(inputs);
}

}  // namespace

Problem draw_attention_problem(Random &random, std::size_t most_work) {
  AttentionProblem made;
  made.qk_dim = draw_dim(random);
  made.v_dim = random.one_in(2) ? made.qk_dim : draw_dim(random);
  made.kv_heads = random.one_of<std::size_t>({1, 1, 2, 3});
  made.q_heads_per_kv_head = random.one_in(2) ? 1 : 1 + random.below(9);
  made.batch = random.one_of<std::size_t>({1, 1, 2, 4});
  made.cols = draw_length(random, 1300);
  made.rows = draw_length(random, 130);
  fit(random, made, most_work);
  Problem problem;
  problem.input = draw_input(random);
  problem.seed = random.below(1u << 24);
  made.scale = random.one_of({0.0, 0.0, 0.125, 0.3, -0.3, 1.0, 1e-30, 20.0});
  draw(random, made.options);
  problem.of = made;
  return problem;
}

std::vector<Problem> draw_attention_problems(std::size_t count, std::uint64_t seed, std::size_t most_work) {
  Random random(seed);
  std::vector<Problem> problems;
  while (problems.size() < count) problems.push_back(draw_attention_problem(random, most_work));
  return problems;
}

std::vector<Problem> attention_of_every_dimension(std::size_t step) {
  std::vector<Problem> problems;
  for (std::size_t dim = 1; dim <= 80; dim += step) {
    for (const std::size_t rows : {dim % 9 + 1, dim % 5 * 16 + dim % 3 + 1}) {
      AttentionProblem made{{rows, dim * 29 % 141, 0}};
      made.qk_dim = dim;
      made.v_dim = dim % 3 == 0 ? dim : 81 - dim;
      if (dim % 4 == 1) made.options.mask = PerRow::each;
      if (dim % 4 == 2) made.options.bias = PerRow::each;
      if (dim % 4 == 3) made.options.causal = 0;
      made.options.bottom_right = true;
      problems.push_back({InputClass::gaussian, 100 * dim + rows, made});
    }
  }
  return problems;
}

std::vector<Problem> attention_of_shapes(const AttentionShapes &shapes, std::size_t step,
                                         std::size_t most_work) {
  std::vector<Problem> problems;
  std::size_t count = 0;
  for (const auto &[qk_dim, v_dim] : shapes.dims) {
    for (const std::size_t rows : shapes.queries) {
      for (const std::size_t keys : shapes.keys) {
        for (const std::size_t heads : shapes.q_heads_per_kv_head) {
          count += 1;
          if (count % step != 0 || rows * keys * heads * (qk_dim + v_dim) > most_work) continue;
          AttentionProblem made{{rows, keys, 0}, 1, 1, heads, qk_dim, v_dim};
          if (count % 2 == 0) made.options.causal = 0;
          made.options.bottom_right = count % 2 == 0;
          problems.push_back({InputClass::gaussian, count, made});
        }
      }
    }
  }
  return problems;
}

LayoutsOf plain_and_drawn_layouts(std::size_t count) {
  return [=](const Problem &problem) {
    std::vector<Layout> layouts(1);
    Random random(problem.seed * 31 + problem.cols());
    while (layouts.size() <= count) layouts.push_back(draw_attention_layout(random, sizeof(float)));
    for (std::size_t i = 1; i <= count; ++i) {
      if (random.one_in(3)) layouts[i].attention.left_padding = random.one_of<std::size_t>({1, 20, 64, 150});
    }
    return layouts;
  };
}

}  // namespace rapt::test
