#include "validate/shrink.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>

#include "support/compare.hpp"
#include "support/isa.hpp"
#include "validate/crash.hpp"

namespace rapt::validate {
namespace {

using namespace rapt::test;

class Shrinker {
 public:
  Shrinker(const KernelCase &kernel, const std::string &isa, const Case &failing)
      : kernel_(kernel), isa_(isa), best_(failing) {}

  Case shrink() {
    simplify_layout();
    shorten();
    simplify_problem();
    shorten();
    simplify_layout();
    return best_;
  }

 private:
  bool fails(const Case &candidate) {
    // A crash leaks its call's memory, and mappings are limited.
    if (++runs_ > 1500 || crashes_survived() > 1000) return false;
    note_running(std::string(kernel_.name) + " on " + isa_ + ": " + to_text(candidate));
    Outcome expected, got;
    {
      const ForcedIsa forced("scalar");
      expected = run_caught(kernel_, candidate.problem, {});
    }
    if (!expected.fault.empty()) return false;
    const ForcedIsa forced(isa_);
    got = run_caught(kernel_, candidate.problem, candidate.layout);
    return !difference(got, expected, kernel_.traits.element_size).empty();
  }

  bool attempt(const std::function<void(Case &)> &change) {
    Case candidate = best_;
    change(candidate);
    if (to_text(candidate) == to_text(best_) || !fails(candidate)) return false;
    best_ = candidate;
    return true;
  }

  void simplify_layout() {
    attempt([](Case &c) { c.layout = {}; });
    attempt([](Case &c) { c.layout.attention = {}; });
    attempt([](Case &c) { c.layout.attention.calls = Calls::whole; });
    attempt([](Case &c) { c.layout.attention.page_size = 0; });
    attempt([](Case &c) { c.layout.attention.packed_keys = false; });
    attempt([](Case &c) { c.layout.attention.q_offsets = false; });
    attempt([](Case &c) { c.layout.attention.kv_offsets = false; });
    attempt([](Case &c) { c.layout.attention.repeated_heads = false; });
    attempt([](Case &c) { c.layout.attention.tokens_outside = c.layout.attention.fused = false; });
    attempt([](Case &c) { c.layout.fp_state.reset(); });
    attempt([](Case &c) { c.layout.alias = Alias::none; });
    attempt([](Case &c) { c.layout.reversed = false; });
    attempt([](Case &c) { c.layout.gap = {}; });
    attempt([](Case &c) { c.layout.offset = {}; });
    for (std::size_t i = 0; i < best_.layout.offset.size(); ++i) {
      attempt([i](Case &c) { c.layout.offset[i] = 0; });
      attempt([i](Case &c) { c.layout.gap[i] = 0; });
    }
    attempt([](Case &c) { c.layout.placement = Placement::ends_at_guard; });
  }

  // The fewest rows, then the fewest columns, by trying all from the least; few failures need many.
  void shorten() {
    constexpr std::size_t tried = 320;
    const std::size_t rows = best_.problem.rows, cols = best_.problem.cols;
    for (std::size_t r = 0; r < std::min(rows, tried); ++r) {
      if (attempt([r](Case &c) { c.problem.rows = r; })) break;
    }
    for (std::size_t n = 0; n < std::min(cols, tried); ++n) {
      if (attempt([n](Case &c) { c.problem.cols = n; })) break;
    }
    while (best_.problem.cols > tried && attempt([](Case &c) { c.problem.cols -= c.problem.cols / 8; })) {
    }
    while (best_.problem.cols > tried && attempt([](Case &c) { c.problem.cols -= 1; })) {
    }
  }

  void simplify_problem() {
    attempt([](Case &c) { c.problem.options = {}; });
    attempt([](Case &c) { c.problem.attention = {}; });
    attempt([](Case &c) { c.problem.attention.batch = 1; });
    attempt([](Case &c) { c.problem.attention.kv_heads = 1; });
    attempt([](Case &c) { c.problem.attention.group = 1; });
    for (const std::size_t dim : std::initializer_list<std::size_t>{1, 2, 4, 8, 16, 24}) {
      attempt([dim](Case &c) { c.problem.attention.v_dim = dim; });
      attempt([dim](Case &c) { c.problem.attention.qk_dim = dim; });
    }
    attempt([](Case &c) { c.problem.attention.ragged_queries = false; });
    attempt([](Case &c) { c.problem.attention.query_scales = false; });
    attempt([](Case &c) { c.problem.attention.alibi = false; });
    attempt([](Case &c) { c.problem.attention.bottom_right = false; });
    attempt([](Case &c) { c.problem.attention.window_left = -1; });
    attempt([](Case &c) { c.problem.attention.window_right = -1; });
    attempt([](Case &c) { c.problem.attention.window_chunk = 0; });
    attempt([](Case &c) { c.problem.options.bias = PerRow::none, c.problem.options.bias_excludes = false; });
    attempt([](Case &c) { c.problem.options.bias_excludes = false; });
    attempt([](Case &c) { c.problem.options.mask = PerRow::none; });
    attempt([](Case &c) { c.problem.options.sinks = false, c.problem.options.special_sinks = false; });
    attempt([](Case &c) { c.problem.options.special_sinks = false; });
    attempt([](Case &c) { c.problem.options.softcap = 0; });
    attempt([](Case &c) { c.problem.options.row_lengths = false; });
    attempt([](Case &c) { c.problem.options.causal = false, c.problem.options.causal_offset = 0; });
    attempt([](Case &c) { c.problem.options.causal_offset = 0; });
    attempt([](Case &c) { c.problem.options.empty_rows_are_zero = false; });
    attempt([](Case &c) { c.problem.same_row = false; });
    attempt([](Case &c) { c.problem.scale = 1; });
    attempt([](Case &c) { c.problem.shift = 0; });
    attempt([](Case &c) { c.problem.input = InputClass::uniform; });
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      if (best_.problem.seed <= 4 || attempt([seed](Case &c) { c.problem.seed = seed; })) break;
    }
  }

  const KernelCase &kernel_;
  const std::string &isa_;
  Case best_;
  std::size_t runs_ = 0;
};

}  // namespace

Case shrink(const KernelCase &kernel, const std::string &isa, const Case &failing) {
  return Shrinker(kernel, isa, failing).shrink();
}

}  // namespace rapt::validate
