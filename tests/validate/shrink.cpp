#include "validate/shrink.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>

#include "calls/quantized_values.hpp"
#include "support/case_text.hpp"
#include "support/compare.hpp"
#include "support/isa.hpp"
#include "support/options.hpp"
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
    // Stops after many crashes, because each leaks the mappings of its call, whose number is limited.
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

  // Rows of blocks of a file are whole blocks, at least one.
  static bool is_possible(const Problem &problem) {
    const auto *const linear = std::get_if<QuantizedProblem>(&problem.of);
    if (!linear || file_type_of(linear->weights) == oracle::FileType::none) return true;
    return linear->cols > 0 &&
           linear->cols % oracle::size_of_block(file_type_of(linear->weights)).inputs == 0;
  }

  bool attempt(const std::function<void(Case &)> &change) {
    Case candidate = best_;
    change(candidate);
    if (candidate == best_ || !is_possible(candidate.problem) || !fails(candidate)) return false;
    best_ = candidate;
    return true;
  }

  void simplify_layout() {
    attempt([](Case &c) { c.layout = {}; });
    attempt([](Case &c) { c.layout.attention = {}; });
    attempt([](Case &c) { c.layout.linear = {}; });
    for (std::size_t i = 0; i < best_.layout.offset.size(); ++i) {
      attempt([i](Case &c) { c.layout.offset[i] = 0; });
      attempt([i](Case &c) { c.layout.gap[i] = 0; });
    }
    reset_options();
  }

  // Tries to set each option of the case to its default, except the sizes, the input and the seed.
  void reset_options() {
    std::size_t count = 0;
    for_each_option(best_, [&](auto &, const auto &) { count += 1; });
    for (std::size_t index = 0; index < count; ++index) {
      attempt([index](Case &c) {
        std::size_t at = 0;
        for_each_option(c, [&]<class Owner>(Owner &owner, const Option<Owner> &option) {
          if (at++ != index || option.is_always_written) return;
          static const Owner plain;
          const auto reset = [&](auto field) {
            if constexpr (std::is_same_v<decltype(field), std::size_t Owner::*>) {
              if (owner.*field < plain.*field) return;  // keeps a dimension below its default
            }
            owner.*field = plain.*field;
          };
          std::visit(reset, option.field);
        });
      });
    }
  }

  // Tries every number of rows, smallest first, and then of columns, because few failures need large numbers.
  void shorten() {
    constexpr std::size_t tried = 320;
    const std::size_t rows = best_.problem.of_rows() ? best_.problem.rows() : 0, cols = best_.problem.cols();
    for (std::size_t r = 0; r < std::min(rows, tried); ++r) {
      if (attempt([r](Case &c) { c.problem.of_rows()->rows = r; })) break;
    }
    for (std::size_t n = 0; n < std::min(cols, tried); ++n) {
      if (attempt([n](Case &c) { c.problem.set_cols(n); })) break;
    }
    const auto attempt_fewer = [&](std::size_t cols_less) {
      return attempt([&](Case &c) { c.problem.set_cols(c.problem.cols() - cols_less); });
    };
    while (best_.problem.cols() > tried && attempt_fewer(best_.problem.cols() / 8)) {
    }
    while (best_.problem.cols() > tried && attempt_fewer(1)) {
    }
  }

  void simplify_problem() {
    const auto in_attention = [](auto &&change) {
      return [change](Case &c) {
        if (auto *const attention = std::get_if<AttentionProblem>(&c.problem.of)) change(*attention);
      };
    };
    attempt([](Case &c) {
      if (auto *const softmax = std::get_if<SoftmaxProblem>(&c.problem.of)) softmax->options = {};
    });
    attempt(in_attention([](AttentionProblem &a) { a.options = {}; }));
    reset_options();
    for (const std::size_t dim : std::initializer_list<std::size_t>{24, 16, 8, 4, 2, 1}) {
      attempt(in_attention([dim](AttentionProblem &a) { a.v_dim = std::min(a.v_dim, dim); }));
      attempt(in_attention([dim](AttentionProblem &a) { a.qk_dim = std::min(a.qk_dim, dim); }));
    }
    for (const std::size_t outputs : std::initializer_list<std::size_t>{65, 64, 33, 17, 9, 5, 2, 1}) {
      attempt([outputs](Case &c) {
        if (auto *const linear = std::get_if<LinearProblem>(&c.problem.of)) {
          linear->outputs = std::min(linear->outputs, outputs);
        }
        if (auto *const linear = std::get_if<QuantizedProblem>(&c.problem.of)) {
          linear->outputs = std::min(linear->outputs, outputs);
        }
      });
    }
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
