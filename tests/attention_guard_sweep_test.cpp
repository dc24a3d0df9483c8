// Runs attention and its gradient next to guard pages, on every usable level, with all head dimensions up to
// 80 and those of known models. No byte outside the operands may be touched, and the bits must be those of
// the scalar level. rapt-validate draws all other options and sizes.
#include "support/attention_problems.hpp"
#include "support/compare_kernels.hpp"

using namespace rapt::test;

namespace {

// Selects kernels of attention, and lists the layouts that these kernels support.
struct Kind {
  const char *what;
  bool (*applies)(const KernelTraits &);
  std::vector<AttentionLayout> layouts;
};

const Kind kinds[] = {
    {"attention",
     [](const KernelTraits &traits) { return traits.family == Family::attention; },
     {{},
      {.page_size = 16},
      {.packed_keys = true},
      {.tokens_outside = true},
      {.kv_offsets = true},
      {.key_lists = 5}}},
    {"attention's gradient",
     [](const KernelTraits &traits) { return traits.is_attention_backward(); },
     {{}, {.fused = true}, {.tokens_outside = true}, {.q_offsets = true, .kv_offsets = true}}},
};

// Runs each problem in two of the layouts. One ends at a guard page, and the other begins after one.
void compare(const Kind &kind, const std::vector<Problem> &problems) {
  compare_kernels(
      kind.what, kind.applies, [&](const KernelCase &) { return problems; },
      [&](const Problem &problem) {
        std::vector<Layout> layouts(2);
        for (std::size_t i = 0; i < 2; ++i) {
          layouts[i].placement = i == 0 ? Placement::ends_at_guard : Placement::begins_at_guard;
          layouts[i].attention = kind.layouts[(problem.seed + i) % kind.layouts.size()];
        }
        return layouts;
      });
}

}  // namespace

TEST_CASE("every dimension") {
  for (const Kind &kind : kinds)
    compare(kind, attention_of_every_dimension(native_or_emulated<std::size_t>(1, 9)));
}

TEST_CASE("the dimensions of models") {
  const AttentionShapes shapes{
      .dims = {{64, 64}, {80, 80}, {96, 96}, {112, 112}, {128, 128}, {192, 128}, {256, 256}, {576, 512}},
      .queries = {1, 3, 16, 70},
      .keys = {1, 64, 65, 200, 513},
      .q_heads_per_kv_head = {1, 4, 16}};
  const std::vector<Problem> problems = attention_of_shapes(shapes, native_or_emulated<std::size_t>(23, 41),
                                                            native_or_emulated<std::size_t>(3000000, 100000));
  for (const Kind &kind : kinds) compare(kind, problems);
}

TEST_CASE("many results are ordinary numbers") {
  for (const char *kernel : {"attention_f32", "attention_backward_f32"}) {
    check_results_are_ordinary(kernel, attention_of_every_dimension(1));
    check_results_are_ordinary(kernel, draw_attention_problems(60, 20260101, 100000));
  }
}
