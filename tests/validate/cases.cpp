#include "validate/cases.hpp"

#include <cstdlib>
#include <iterator>
#include <limits>
#include <span>

#include "calls/convolution.hpp"
#include "calls/delta_rule.hpp"
#include "calls/linear_problems.hpp"
#include "calls/reduce.hpp"
#include "calls/rope.hpp"
#include "support/attention_problems.hpp"
#include "support/case_text.hpp"
#include "support/options.hpp"
#include "validate/directed_cases.hpp"

namespace rapt::validate {
namespace {

using namespace rapt::test;
using Lengths = std::vector<std::size_t>;

// Returns the ElementTypes that have the kernel's keys and values, or its weights: the middle of names such
// as f32_f16_f32. Arithmetic in bf16 also needs bf16 queries, or bf16 inputs.
std::vector<ElementTypes> other_types_of(const std::string &kernel) {
  const bool in_bf16 = kernel.ends_with("_in_bf16");
  const std::string type = kernel.substr(kernel.rfind('_'));
  std::vector<ElementTypes> types;
  for (std::size_t i = 1; i < std::size(names_of<ElementTypes>); ++i) {
    const std::string name = names_of<ElementTypes>[i];
    const std::size_t middle = name.find('_'), last = name.rfind('_');
    if (name.substr(middle, last - middle) != type || (in_bf16 && !name.starts_with("bf16_"))) continue;
    types.push_back(static_cast<ElementTypes>(i));
  }
  return types;
}

// Makes the same cases on every platform, except for floating-point control words. No result depends on them.
class CaseMaker {
  // All classes except odd_rows, which only add_row_batches() uses.
  static constexpr std::size_t usual_classes = std::size(all_input_classes) - 1;
  static_assert(all_input_classes[usual_classes] == InputClass::odd_rows);

 public:
  CaseMaker(const KernelTraits &traits, Effort effort, std::uint64_t seed)
      : traits_(traits), full_(effort == Effort::full), random_(seed), foreign_states_(foreign_fp_states()) {}

  std::vector<LaidOutProblem> make_ways_of_attention(const std::string &kernel) {
    add_attention_shapes();
    if (!traits_.is_attention_backward()) add_attention_of_types(kernel);
    for (std::size_t i = 0; i < pick(40, 300); ++i) {
      const Problem problem = draw_attention_problem(random_, pick(30000, 200000));
      cases_.push_back({problem, {{}, draw_layout_of_attention()}, nullptr});
    }
    return std::move(cases_);
  }
  std::vector<LaidOutProblem> make_linear(const std::string &kernel) {
    add_linear_shapes();
    add_linear();
    add_linear_of_types(kernel);
    return std::move(cases_);
  }
  std::vector<LaidOutProblem> make_quantized_linear(const std::string &kernel) {
    const bool in_i8 = kernel.ends_with("_i8");
    for (std::size_t i = 0; i < pick(170, 2200); ++i) {
      add_linear_problem(draw_quantized_problem(random_, pick(40000, 200000), in_i8), pick(2, 3));
    }
    for (std::size_t i = 0; i < pick(4, 40); ++i) {
      add_linear_problem(draw_quantized_problem(random_, 2000000, in_i8), pick(2, 3));
    }
    // Later options come last, so that the cases before them stay as they are.
    for (std::size_t i = 0; i < pick(80, 1000); ++i) {
      const Problem problem = draw_quantized_problem(random_, pick(40000, 200000), in_i8);
      add_linear_problem(with_later_options(random_, problem, in_i8), pick(2, 3));
    }
    for (std::size_t i = 0; i < pick(40, 400); ++i) {
      const Problem problem = draw_quantized_problem(random_, pick(40000, 200000), in_i8);
      add_linear_problem(in_unsigned_bytes(random_, problem), pick(2, 3));
    }
    return std::move(cases_);
  }
  std::vector<LaidOutProblem> make_rope() {
    for (const Problem &problem : rope_of_shapes(1)) {
      add(problem, 1);
      cases_.back().layouts[0].attention.tokens_outside = cases_.size() % 4 == 0;
    }
    for (std::size_t i = 0; i < pick(250, 4000); ++i) {
      LaidOutProblem made{draw_rope_problem(random_, pick(8000, 30000)), {}, nullptr};
      while (made.layouts.size() < pick(2, 3)) {
        made.layouts.push_back(draw_attention_layout(random_, traits_.element_size));
        add_foreign_state(made.layouts.back());
      }
      cases_.push_back(made);
    }
    return std::move(cases_);
  }
  void add_with_layouts(const Problem &problem) {
    LaidOutProblem made{problem, {}, nullptr};
    while (made.layouts.size() < 2) {
      made.layouts.push_back(draw_linear_layout(random_, traits_.element_size));
      add_foreign_state(made.layouts.back());
    }
    cases_.push_back(made);
  }
  std::vector<LaidOutProblem> make_convolution() {
    for (const Problem &problem : convolutions_of_shapes()) add_with_layouts(problem);
    for (std::size_t i = 0; i < pick(150, 1500); ++i) {
      add_with_layouts(draw_convolution_problem(random_, pick(30000, 100000)));
    }
    return std::move(cases_);
  }
  std::vector<LaidOutProblem> make_delta_rule() {
    const auto add_two = [&](const Problem &problem) {
      LaidOutProblem made{problem, {}, nullptr};
      while (made.layouts.size() < 2) {
        made.layouts.push_back(draw_delta_layout(random_, traits_.element_size));
        add_foreign_state(made.layouts.back());
      }
      cases_.push_back(made);
    };
    for (const Problem &problem : delta_rules_of_shapes()) add_two(problem);
    for (std::size_t i = 0; i < pick(150, 2000); ++i) add_two(draw_delta_problem(random_, pick(3000, 9000)));
    return std::move(cases_);
  }
  std::vector<LaidOutProblem> make_reduce() {
    for (const Problem &problem : reductions_of_shapes()) add_with_layouts(problem);
    for (std::size_t i = 0; i < pick(200, 3000); ++i) {
      add_with_layouts(draw_reduce_problem(random_, i % 50 == 0 ? 90000 : pick(3000, 9000)));
    }
    return std::move(cases_);
  }
  std::vector<LaidOutProblem> make() {
    if (traits_.is_attention()) {
      add_attention();
      return std::move(cases_);
    }
    add_lengths();
    add_values();
    add_extremes();
    if (traits_.has_rows()) add_batches();
    if (traits_.takes_options()) add_options();
    if (traits_.takes_options()) add_row_batches();
    if (adds_products()) add_long_sums();
    return std::move(cases_);
  }

 private:
  std::size_t pick(std::size_t quick, std::size_t full) const { return full_ ? full : quick; }
  double usual_scale() { return random_.one_of({1.0, 1.0, 0.125, 0.3, -0.7, 0.08838834764831845, 1.7, 0.0}); }

  Problem problem(std::size_t rows, std::size_t cols, InputClass input) {
    Numbers numbers{.rows = rows, .cols = cols, .input = input};
    numbers.seed = random_.below(1u << 24);
    numbers.scale = usual_scale();
    numbers.shift = random_.one_in(3) ? 0 : static_cast<double>(random_.below(64)) / 4 - 8;
    Problem made = make_problem(traits_.family, numbers);
    if (auto *const norm = std::get_if<NormProblem>(&made.of)) draw(random_, *norm);
    return made;
  }
  static void set_scale(Problem &problem, double scale) {
    if (RowsProblem *const rows = problem.of_rows()) {
      rows->scale = scale;
    } else {
      std::get<VectorProblem>(problem.of).scale = scale;
    }
  }

  // Every third layout has padding before its sequences. That is not drawn, so that published cases stay as they are.
  Layout draw_layout_of_attention() {
    Layout layout = draw_attention_layout(random_, traits_.element_size);
    constexpr std::size_t paddings[] = {0, 7, 0, 0, 150, 0, 0, 64, 0};
    layout.attention.left_padding = paddings[attention_layouts_++ % std::size(paddings)];
    return layout;
  }
  Layout random_layout() {
    Layout layout = draw_layout(random_, traits_.element_size);
    add_foreign_state(layout);
    return layout;
  }
  void add_foreign_state(Layout &layout) {
    const std::size_t state = random_.below(8 * 15);
    if (state < foreign_states_.size()) layout.fp_state = foreign_states_[state];
  }

  // Adds a problem. Its first layout touches the guard page before or behind the data, and is in place in two
  // of three cases. The other layouts are random.
  void add(const Problem &problem, std::size_t layouts) {
    LaidOutProblem made{problem, {}, nullptr};
    Layout flush;
    flush.placement = cases_.size() % 2 == 0 ? Placement::ends_at_guard : Placement::begins_at_guard;
    flush.alias = static_cast<Alias>(cases_.size() % 3);
    made.layouts.push_back(flush);
    while (made.layouts.size() < layouts) made.layouts.push_back(random_layout());
    cases_.push_back(made);
  }

  // Adds every length up to several iterations of an unrolled loop, then lengths near the ends of longer
  // sums.
  void add_lengths() {
    for (std::size_t n = 0; n <= pick(136, 300); ++n) {
      add(problem(2, n, InputClass::gaussian), pick(2, 6));
    }
    const Lengths quick = {191, 192, 193, 255, 256, 257, 300, 511, 1025, 2047, 2048, 2049, 2080, 2111, 4111};
    const Lengths full = {511,  512,  513,  1023, 1024, 1025, 1999, 2047, 2048, 2049, 2079, 2080,
                          2081, 2111, 2112, 2113, 4095, 4096, 4097, 4129, 6143, 6144, 6145, 6200};
    for (const std::size_t n : full_ ? full : quick) {
      add(problem(n < 1000 ? 2 : 1, n, InputClass::gaussian), pick(2, 6));
    }
  }

  bool adds_products() const {
    return traits_.element_size > 1 &&
           (traits_.family == Family::two_vectors || traits_.family == Family::dot_rows ||
            traits_.family == Family::softmax_backward || traits_.is_norm());
  }
  // A dot product adds up its lanes and starts again every 32768 elements (f64: 16384). In the second layout,
  // each operand has a different alignment.
  void add_long_sums() {
    const std::size_t stretch = traits_.element_size == 8 ? 16384 : 32768;
    const Lengths lengths = {stretch - 1, stretch, stretch + 1, 2 * stretch - 1, 2 * stretch + 200};
    for (const std::size_t n : lengths) {
      if (!full_ && n < stretch + 1) continue;
      add(problem(pick(4, 5), n, InputClass::gaussian), 1);
      Layout unaligned;
      unaligned.placement = Placement::begins_at_guard;
      unaligned.offset = {3 * traits_.element_size, 5 * traits_.element_size, 0};
      cases_.back().layouts.push_back(unaligned);
    }
  }

  void add_values() {
    const Lengths quick = {1, 3, 8, 16, 29, 33, 64, 100, 250};
    const Lengths full = {1,  2,  3,  5,  7,  8,  13,  15,  16,  17,  31,  32,   33,
                          47, 48, 63, 64, 67, 96, 100, 129, 200, 257, 999, 2100, 4500};
    for (const InputClass input : std::span(all_input_classes).first(usual_classes)) {
      for (const std::size_t n : full_ ? full : quick) {
        const std::size_t repeats = pick(3, n < 300 ? 60 : 10);
        for (std::size_t i = 0; i < repeats; ++i) add(problem(n < 300 ? 2 : 1, n, input), pick(2, 3));
      }
    }
  }

  void add_extremes() {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < pick(200, 6000); ++i) {
      // Each statement draws one random number, because compilers evaluate function arguments in any order.
      const auto n = random_.one_of<std::size_t>({1, 17, 64, 131});
      const InputClass input = all_input_classes[random_.below(usual_classes)];
      Problem made = problem(2, n, input);
      const double scale =
          random_.one_of({1e-30, 1e30, -1e30, 0x1p-126, 0x1.6p127, 0.0, -0.0, 0.125, 0.3, -1.0});
      set_scale(made, scale);
      const double shift =
          random_.one_of({0.0, 1e30, -1e30, 87.5, -88.7, 103.9, 700.0, -709.5, infinity, -infinity});
      if (auto *const vector = std::get_if<VectorProblem>(&made.of)) vector->shift = shift;
      add(made, 1);
    }
  }

  void add_batches() {
    const Lengths rows = full_ ? Lengths{0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 19} : Lengths{0, 1, 3, 4, 5, 9};
    const Lengths cols = full_ ? Lengths{0, 1, 3, 8, 16, 17, 32, 48, 63, 64, 65, 80, 128, 150, 1000}
                               : Lengths{0, 1, 8, 17, 64, 67};
    for (const std::size_t r : rows) {
      for (const std::size_t n : cols) {
        Problem made = problem(r, n, InputClass::gaussian);
        add(made, pick(3, 12));
        auto *const dot_rows = std::get_if<DotRowsProblem>(&made.of);
        if (!dot_rows) continue;
        dot_rows->same_row = true;
        add(made, pick(1, 4));
      }
    }
  }

  // Returns options with a single choice, and then random combinations.
  std::vector<SoftmaxOptions> option_choices() {
    std::vector<SoftmaxOptions> choices = each_softmax_option_alone();
    for (std::size_t i = 0; i < pick(60, 300); ++i) draw(random_, choices.emplace_back());
    return choices;
  }

  void add_options() {
    constexpr InputClass inputs[] = {InputClass::gaussian,      InputClass::gaussian,
                                     InputClass::gaussian_wide, InputClass::minus_infinities,
                                     InputClass::specials,      InputClass::huge};
    const Lengths quick = {1, 9, 17, 67};
    const Lengths full = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 40, 64, 65, 100, 130, 300, 2111};
    std::size_t count = 0;
    for (const SoftmaxOptions &options : option_choices()) {
      for (const std::size_t n : full_ ? full : quick) {
        for (std::size_t i = 0; i < (full_ && n < 1000 ? std::size(inputs) : 1); ++i) {
          Problem made = problem(n < 1000 ? 5 : 2, n, inputs[count++ % std::size(inputs)]);
          auto &softmax = std::get<SoftmaxProblem>(made.of);
          softmax.options = options;
          softmax.scale = random_.one_of({0.125, 0.3, 1.0, 1.0, -0.3, 0.0, 1e-30, 1e30});
          if (options.null) softmax.scale = 1;
          add(made, 2);
        }
      }
    }
  }

  // Softmax computes short rows in groups of one row per lane, or two such groups at once. It computes a
  // group row by row if a row has special values or no visible element. These cases have whole and partial
  // groups, alone and after other groups.
  void add_row_batches() {
    constexpr InputClass inputs[] = {InputClass::gaussian, InputClass::odd_rows, InputClass::gaussian_wide,
                                     InputClass::odd_rows, InputClass::minus_infinities};
    const Lengths rows = full_ ? Lengths{4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 23, 24, 31, 32, 33, 40, 47, 64, 70}
                               : Lengths{4, 7, 9, 17, 35};
    const Lengths cols = full_ ? Lengths{1,  2,  3,  4,  5,  6,  7,  8,  9,  11,  12,  15,  16,
                                         17, 20, 31, 32, 33, 40, 48, 64, 65, 100, 255, 256, 257}
                               : Lengths{1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 65, 256};
    const std::vector<SoftmaxOptions> alone = each_softmax_option_alone();
    std::size_t count = 0;
    for (const std::size_t r : rows) {
      for (const std::size_t n : cols) {
        for (std::size_t i = 0; i < pick(4, 10); ++i) {
          Problem made = problem(r, n, inputs[count % std::size(inputs)]);
          auto &softmax = std::get<SoftmaxProblem>(made.of);
          if (i % 4 == 1) softmax.options = alone[count / 4 % alone.size()];
          if (i % 4 == 3) draw(random_, softmax.options);
          count += 1;
          if (random_.one_in(2)) softmax.options.empty_rows_are_zero = true;
          if (softmax.options.null) softmax.scale = 1;
          add(made, pick(1, 2));
        }
      }
    }
  }

  // Adds every number of query rows that has separate code, and larger numbers. The dimensions cover whole
  // vectors and tails.
  void add_attention_shapes() {
    const bool backward = traits_.is_attention_backward();
    std::size_t count = 0;
    for (const std::size_t dim : Lengths{5, 16, 64, 65, 128}) {
      for (const std::size_t rows : Lengths{1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 40}) {
        AttentionProblem made{{rows, count % 3 == 0 ? 131u : 66u, 0}};
        made.qk_dim = dim;
        made.v_dim = count % 2 == 0 ? dim : 133 - dim;
        if (count % 4 != 0) draw(random_, made.options);
        const Problem problem{InputClass::gaussian, random_.below(1u << 24), made};
        LaidOutProblem laid_out{problem, std::vector<Layout>(backward ? 1 : 2), nullptr};
        if (!backward) laid_out.layouts[1].attention.packed_keys = true;
        cases_.push_back(laid_out);
        count += 1;
      }
    }
  }
  // Adds random problems whose query or output types differ from the kernel's types.
  void add_attention_of_types(const std::string &kernel) {
    const std::vector<ElementTypes> types = other_types_of(kernel);
    for (std::size_t i = 0; i < types.size() * pick(12, 60); ++i) {
      Problem problem = draw_attention_problem(random_, pick(30000, 200000));
      std::get<AttentionProblem>(problem.of).types = types[i % types.size()];
      LaidOutProblem made{problem, {{}, draw_layout_of_attention()}, nullptr};
      cases_.push_back(made);
    }
  }

  // Adds random shapes and options, because there are too many combinations to test all.
  void add_attention() {
    const bool backward = traits_.is_attention_backward();  // takes about five times as long
    const std::size_t most_work = backward ? pick(20000, 150000) : pick(50000, 400000);
    for (std::size_t i = 0; i < (backward ? pick(85, 800) : pick(100, 1500)); ++i) {
      LaidOutProblem made{draw_attention_problem(random_, most_work), std::vector<Layout>(1), nullptr};
      made.layouts[0].placement = i % 2 == 0 ? Placement::ends_at_guard : Placement::begins_at_guard;
      while (made.layouts.size() < pick(2, 3)) {
        made.layouts.push_back(draw_layout_of_attention());
        add_foreign_state(made.layouts.back());
      }
      cases_.push_back(made);
    }
  }

  // Adds every number of rows that some tile has, with plain and with packed weights.
  void add_linear_shapes() {
    for (const Problem &problem : linear_of_shapes(pick(3, 1))) {
      LaidOutProblem made{problem, std::vector<Layout>(2), nullptr};
      const bool at_end = cases_.size() % 2 == 0;
      made.layouts[0].placement = at_end ? Placement::ends_at_guard : Placement::begins_at_guard;
      made.layouts[1].placement = at_end ? Placement::begins_at_guard : Placement::ends_at_guard;
      made.layouts[1].linear.packed_w = true;
      cases_.push_back(made);
    }
  }
  void add_linear_problem(const Problem &problem, std::size_t layouts) {
    LaidOutProblem made{problem, {}, nullptr};
    while (made.layouts.size() < layouts) {
      made.layouts.push_back(draw_linear_layout(random_, traits_.element_size));
      add_foreign_state(made.layouts.back());
    }
    cases_.push_back(made);
  }
  // Adds random shapes, options and layouts, because there are too many combinations to test all.
  void add_linear() {
    for (std::size_t i = 0; i < pick(110, 1500); ++i) {
      add_linear_problem(draw_linear_problem(random_, pick(40000, 200000)), pick(2, 3));
    }
    for (std::size_t i = 0; i < pick(4, 40); ++i) {
      add_linear_problem(draw_linear_problem(random_, 2000000), pick(2, 3));
    }
  }
  // Adds random problems whose types of x or y differ from the weights' type.
  void add_linear_of_types(const std::string &kernel) {
    const std::vector<ElementTypes> types = other_types_of(kernel);
    for (std::size_t i = 0; i < types.size() * pick(15, 120); ++i) {
      Problem problem = draw_linear_problem(random_, pick(40000, 200000));
      std::get<LinearProblem>(problem.of).types = types[i % types.size()];
      add_linear_problem(problem, 2);
    }
  }

  const KernelTraits &traits_;
  bool full_;
  Random random_;
  std::size_t attention_layouts_ = 0;
  std::vector<FpState> foreign_states_;
  std::vector<LaidOutProblem> cases_;
};

}  // namespace

std::vector<LaidOutProblem> make_cases(const KernelCase &kernel, Effort effort, std::uint64_t seed) {
  std::vector<LaidOutProblem> cases;
  const auto add = [&](std::span<const DirectedCase> chosen) {
    for (const DirectedCase &directed : chosen) {
      if (!is_for(directed, kernel.name)) continue;
      Case read;
      if (!parse_case(kernel.traits.family, directed.text, read).empty())
        std::abort();  // impossible, because a test parses all texts
      cases.push_back({read.problem, {read.layout}, directed.rule});
    }
  };
  add(directed_cases());
  const auto append = [&](const std::vector<LaidOutProblem> &made) {
    cases.insert(cases.end(), made.begin(), made.end());
  };
  CaseMaker maker(kernel.traits, effort, seed);
  append(kernel.traits.is_linear()             ? maker.make_linear(kernel.name)
         : kernel.traits.is_quantized_linear() ? maker.make_quantized_linear(kernel.name)
         : kernel.traits.is_rope()             ? maker.make_rope()
         : kernel.traits.is_reduce()           ? maker.make_reduce()
         : kernel.traits.is_delta_rule()       ? maker.make_delta_rule()
         : kernel.traits.is_convolution()      ? maker.make_convolution()
                                               : maker.make());
  add(cases_of_ways());
  if (kernel.traits.is_attention()) {
    append(CaseMaker(kernel.traits, effort, ~seed).make_ways_of_attention(kernel.name));
  }
  return cases;
}

}  // namespace rapt::validate
