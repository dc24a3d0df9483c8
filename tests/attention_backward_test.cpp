// Attention's gradient on every usable level against the scalar one, bit for bit, and every way to lay out
// its memory and to cut its work against the plain one: offsets, slices of one buffer, tasks, sequences
// alone, foreign floating-point states. Guard pages lie around every buffer, the workspace included.
#include "support/attention_problems.hpp"
#include "support/compare_kernels.hpp"
#include "support/options.hpp"

using namespace rapt::test;

namespace {

void compare_gradients(const char *what, const std::vector<Problem> &problems, const LayoutsOf &layouts) {
  compare_kernels(
      what, [](const KernelTraits &traits) { return traits.is_attention_backward(); },
      [&](const KernelCase &) { return problems; }, layouts);
}

}  // namespace

TEST_CASE("random shapes and options") {
  compare_gradients("shapes and options",
                    draw_attention_problems(native_or_emulated<std::size_t>(60, 40), 20260202,
                                            native_or_emulated<std::size_t>(250000, 30000)),
                    plain_and_drawn_layouts(native_or_emulated<std::size_t>(3, 1)));
}

TEST_CASE("every dimension, flush at guard pages") {
  std::vector<Layout> layouts;
  for (const Placement placement : {Placement::ends_at_guard, Placement::begins_at_guard}) {
    for (int kind = 0; kind < 4; ++kind) {
      Layout layout;
      layout.placement = placement;
      if (kind == 1) layout.attention.fused = true;
      if (kind == 2) layout.attention.tokens_outside = true;
      if (kind == 3) layout.attention.q_offsets = layout.attention.kv_offsets = true;
      layouts.push_back(layout);
    }
  }
  compare_gradients("dimensions at guard pages",
                    attention_of_every_dimension(native_or_emulated<std::size_t>(3, 9)),
                    [&](const Problem &problem) {
                      // Each problem runs in half of them.
                      std::vector<Layout> some;
                      for (std::size_t l = problem.seed % 2; l < layouts.size(); l += 2) {
                        some.push_back(layouts[l]);
                      }
                      return some;
                    });
}

// Every number of keys up to more than two blocks, with heads that share their keys.
TEST_CASE("every number of keys and queries") {
  std::vector<Problem> problems;
  for (std::size_t n = 1; n <= 140; n += native_or_emulated<std::size_t>(3, 11)) {
    AttentionProblem made{{n % 9 > 3 ? n % 17 + 1 : n * 37 % 131 + 1, n, 0}};
    made.q_heads_per_kv_head = n % 9 + 1;
    made.qk_dim = n % 3 * 8 + 1;
    made.v_dim = n % 5 + 3;
    if (n % 2 == 0) made.options.causal = static_cast<std::ptrdiff_t>(n % 7) - 3;
    made.options.bottom_right = n % 4 == 0;
    if (n % 6 == 5) made.options.window_left = static_cast<std::ptrdiff_t>(n % 50);
    problems.push_back({InputClass::gaussian, n, made});
  }
  compare_gradients("keys and queries", problems, plain_and_drawn_layouts(1));
}

// More than a block of keys and a tile of rows: a head has several tasks.
TEST_CASE("parts of a head") {
  Random random(20261122);
  std::vector<Problem> problems;
  const std::size_t more_keys = native_or_emulated<std::size_t>(400, 130);
  for (std::size_t seed = 0; seed < native_or_emulated<std::size_t>(20, 3); ++seed) {
    AttentionProblem made{{65 + random.below(150), 65 + random.below(more_keys), 0}};
    made.q_heads_per_kv_head = 1 + random.below(3);
    made.kv_heads = 1 + random.below(2);
    made.batch = 1 + random.below(2);
    made.qk_dim = 1 + random.below(9);
    made.v_dim = 1 + random.below(9);
    draw(random, made.options);
    problems.push_back({random.one_in(4) ? InputClass::specials : InputClass::gaussian, seed, made});
  }
  std::vector<Layout> layouts(2);
  layouts[0].attention.calls = Calls::task_by_task;
  layouts[1].attention.calls = Calls::task_ranges;
  compare_gradients("parts of a head", problems, [&](const Problem &) { return layouts; });
}

TEST_CASE("the dimensions of models") {
  const AttentionShapes shapes{.dims = {{64, 64}, {80, 80}, {128, 128}, {192, 128}, {256, 256}, {576, 512}},
                               .queries = {1, 16, 70},
                               .keys = {64, 65, 200},
                               .q_heads_per_kv_head = {1}};
  compare_gradients("dimensions of models",
                    attention_of_shapes(shapes, native_or_emulated<std::size_t>(4, 13), SIZE_MAX),
                    plain_and_drawn_layouts(1));
}

TEST_CASE("foreign floating-point states") {
  std::vector<Layout> layouts;
  for (const FpState &state : foreign_fp_states()) {
    Layout layout;
    layout.fp_state = state;
    layouts.push_back(layout);
  }
  compare_gradients("foreign states",
                    draw_attention_problems(native_or_emulated<std::size_t>(8, 4), 3, 60000),
                    [&](const Problem &) { return layouts; });
}

TEST_CASE("many results are ordinary numbers") {
  check_results_are_ordinary("attention_backward_f32", draw_attention_problems(60, 20260202, 100000));
}
