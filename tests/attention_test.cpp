// Attention on every usable level against the scalar one, bit for bit, and every way to lay out its memory
// and to cut its work against the plain one: pages, packed keys, offsets, repeated heads, tasks, split keys,
// sequences and queries alone, in place. Guard pages lie around every buffer, the workspace included.
#include "support/attention_problems.hpp"
#include "support/compare_kernels.hpp"

using namespace rapt::test;

namespace {

// problems_of(true) for attention as a whole; partial results and their merge get fewer problems.
template <class ProblemsOf>
void compare_attention(const char *what, ProblemsOf &&problems_of, const LayoutsOf &layouts) {
  compare_kernels(
      what, [](const KernelTraits &traits) { return traits.family == Family::attention; },
      [&](const KernelCase &kernel) {
        return problems_of(std::string_view(kernel.name).starts_with("attention_f"));
      },
      layouts);
}

}  // namespace

TEST_CASE("random shapes and options") {
  compare_attention(
      "shapes and options",
      [](bool whole) {
        return draw_attention_problems(native_or_emulated<std::size_t>(whole ? 100 : 25, whole ? 50 : 12),
                                       whole ? 20260101 : 5, native_or_emulated<std::size_t>(1000000, 60000));
      },
      plain_and_drawn_layouts(native_or_emulated<std::size_t>(3, 1)));
}

TEST_CASE("every dimension, flush at guard pages") {
  std::vector<Layout> layouts;
  for (const Placement placement : {Placement::ends_at_guard, Placement::begins_at_guard}) {
    for (int kind = 0; kind < 5; ++kind) {
      Layout layout;
      layout.placement = placement;
      if (kind == 1) layout.attention.packed_keys = true;
      if (kind == 2) layout.attention.page_size = 16;
      if (kind == 3) layout.attention.tokens_outside = true;
      if (kind == 4) layout.alias = Alias::first_input, layout.attention.kv_offsets = true;
      layouts.push_back(layout);
    }
  }
  compare_attention(
      "dimensions at guard pages",
      [](bool whole) {
        return attention_of_every_dimension(native_or_emulated<std::size_t>(whole ? 2 : 11, whole ? 9 : 25));
      },
      [&](const Problem &) { return layouts; });
}

TEST_CASE("the dimensions of models") {
  const AttentionShapes shapes{
      .dims = {{64, 64}, {80, 80}, {96, 96}, {112, 112}, {128, 128}, {192, 128}, {256, 256}, {576, 512}},
      .queries = {1, 3, 16, 70},
      .keys = {1, 64, 65, 200, 513, 1100},
      .q_heads_per_kv_head = {1, 4, 16}};
  compare_attention(
      "dimensions of models",
      [&](bool whole) {
        return attention_of_shapes(shapes, native_or_emulated<std::size_t>(whole ? 5 : 23, 37),
                                   native_or_emulated<std::size_t>(3000000, 100000));
      },
      plain_and_drawn_layouts(1));
}

TEST_CASE("many results are ordinary numbers") {
  check_results_are_ordinary("attention_f32", draw_attention_problems(60, 20260101, 100000));
}
