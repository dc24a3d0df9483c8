#include "validate/check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "support/case_text.hpp"
#include "support/compare.hpp"
#include "support/isa.hpp"
#include "support/problem_data.hpp"
#include "validate/crash.hpp"
#include "validate/hash.hpp"
#include "validate/shrink.hpp"

namespace rapt::validate {
namespace {

using namespace rapt::test;

constexpr std::size_t crashes_until_stop = 3;  // per kernel and level, because further cases would crash too

std::size_t elements(const Problem &problem) { return problem.rows() * problem.cols(); }

// Returns whether to measure the accuracy of the problem. Only some problems are measured, the same on every
// machine, because long double is slow.
bool is_measured(std::size_t index, const Problem &problem, Effort effort) {
  const bool quick = effort == Effort::quick;
  const auto *attention = std::get_if<AttentionProblem>(&problem.of);
  if (attention && attention->batch * attention->q_heads() > 8) return false;
  if (attention && attention->types != ElementTypes::of_kernel) return false;  // the oracle lacks these types
  if (const auto *const linear = std::get_if<LinearProblem>(&problem.of)) {
    return index % (quick ? 7 : 5) == 0 && elements(problem) * linear->outputs <= (quick ? 70000u : 800000u);
  }
  if (const auto *const linear = std::get_if<QuantizedProblem>(&problem.of)) {
    return index % (quick ? 7 : 5) == 0 && elements(problem) * linear->outputs <= (quick ? 70000u : 800000u);
  }
  if (const auto *const rope = std::get_if<RopeProblem>(&problem.of)) {
    return index % (quick ? 4 : 3) == 0 && elements(problem) * rope->batch * rope->heads <= 8000;
  }
  if (const auto *const reduce = std::get_if<ReduceProblem>(&problem.of)) {
    return index % (quick ? 2 : 3) == 0 && elements(problem) * reduce->outer * reduce->middle <= 80000;
  }
  if (std::holds_alternative<DeltaProblem>(problem.of)) return index % 2 == 0;
  if (std::holds_alternative<ConvolutionProblem>(problem.of)) return index % 2 == 0;
  return index % (quick ? 7 : 5) == 0 && elements(problem) <= (quick ? 800 : 2500);
}

struct Reference {
  Outcome outcome;
  std::uint64_t hash = 0;
  Judgement judgement;
  bool judged = false;
};

void note(const Judgement &judgement, double usual_bound, const Problem &problem, LevelResult &result) {
  if (!judgement.measured) return;
  // A problem with a looser bound is checked against that bound, but is not part of the reported worst error,
  // which belongs to the usual bound.
  if (judgement.bound == usual_bound) result.worst = std::max(result.worst.value_or(0), judgement.error);
  if (judgement.error <= judgement.bound) return;
  result.inaccurate += 1;
  if (!result.first_inaccurate.empty()) return;
  result.inaccurate_error = fmt::format("error {:.4g}, bound {:.4g}", judgement.error, judgement.bound);
  result.first_inaccurate = to_text({problem, {}});
}

template <class T>
std::string hex_of(const std::vector<T> &values) {
  constexpr std::size_t shown = 24;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, values.size()); ++i) {
    if (i != 0) text += ' ';
    text += hex(bits_of(values[i]), sizeof(T));
  }
  return values.size() > shown ? text + " ..." : text;
}

template <class T>
std::vector<std::string> operand_bits(const KernelCase &kernel, const Problem &problem) {
  const auto [first, second] = make_operands<T>(kernel.traits.family, problem);
  std::vector<std::string> lines{hex_of(first)};
  if (!second.empty()) lines.push_back(hex_of(second));
  return lines;
}

Failure describe_failure(const KernelCase &kernel, const std::string &isa, const Case &failing) {
  Failure failure{kernel.name, isa, failing, {}, {}, {}};
  const std::size_t size = kernel.traits.element_size;
  const Outcome expected = [&] {
    const ForcedIsa forced("scalar");
    return run_caught(kernel, failing.problem, {});
  }();
  const Outcome got = [&] {
    const ForcedIsa forced(isa);
    return run_caught(kernel, failing.problem, failing.layout);
  }();
  failure.difference = difference(got, expected, size);
  failure.inputs = size == 4 ? operand_bits<float>(kernel, failing.problem)
                             : operand_bits<double>(kernel, failing.problem);
  constexpr std::size_t shown = 8;
  for (std::size_t i = 0; i < std::min(got.bits.size(), expected.bits.size()); ++i) {
    if (got.bits[i] == expected.bits[i] || failure.outputs.size() == shown) continue;
    failure.outputs.push_back(
        fmt::format("index {}: got {}, expected {}", i, hex(got.bits[i], size), hex(expected.bits[i], size)));
  }
  return failure;
}

// Returns the level whose code runs the kernel if level `isa` is active.
std::string serving(const KernelCase &kernel, const std::string &isa) {
  const ForcedIsa forced(isa);
  return rapt_kernel_isa(kernel.name);
}

// Holds the results of one level so far.
struct Level {
  LevelResult result;
  Hash hash;
  std::optional<Case> smallest;  // the smallest case that mismatched
  std::size_t crashes = 0;
};

LevelResult result_of(const KernelCase &kernel, const std::string &isa) {
  LevelResult result;
  result.kernel = kernel.name;
  result.isa = isa;
  return result;
}

// Runs a kernel's cases on every level, one case after the other, so that inputs are made once per problem.
class Check {
 public:
  Check(const KernelCase &kernel, const std::vector<std::string> &isas, Effort effort)
      : kernel_(kernel), effort_(effort), accuracy_(*accuracy_of(kernel.name)) {
    scalar_.result = result_of(kernel, "scalar");
    for (const std::string &isa : isas) {
      if (isa == "scalar") continue;
      Level &level = levels_.emplace_back();
      level.result = result_of(kernel, isa);
      const std::string other = serving(kernel, isa);
      if (other != isa && std::ranges::find(isas, other) != isas.end()) level.result.inherits = other;
    }
  }

  // Returns false if the scalar level failed, because there is then nothing to compare with.
  bool run(std::size_t index, const LaidOutProblem &laid_out) {
    const Reference reference = run_scalar(index, laid_out);
    if (scalar_.result.stopped) return false;
    for (Level &level : levels_) {
      if (level.result.inherits.empty() && !level.result.stopped) run(level, laid_out, reference);
    }
    return true;
  }

  std::vector<LevelResult> results() {
    std::vector<LevelResult> results{scalar_.result};
    results[0].hash = scalar_.hash.value();
    if (scalar_.result.stopped) return results;
    for (Level &level : levels_) {
      if (level.smallest) {
        const Case smallest = shrink(kernel_, level.result.isa, *level.smallest);
        level.result.failure = describe_failure(kernel_, level.result.isa, smallest);
      }
      if (level.result.inherits.empty()) level.result.hash = level.hash.value();
      results.push_back(level.result);
    }
    return results;
  }

 private:
  Reference run_scalar(std::size_t index, const LaidOutProblem &laid_out) {
    const auto &[problem, layouts, rule] = laid_out;
    LevelResult &result = scalar_.result;
    const ForcedIsa forced("scalar");
    note_running(result.kernel + " on scalar: " + to_text({problem, layouts[0]}));
    Reference reference;
    Layout layout = layouts[0];
    layout.past_caches = false;  // the scalar level has the same code for any size
    reference.outcome = run_caught(kernel_, problem, layout);
    reference.hash = hash_of(reference.outcome.bits);
    for (std::size_t l = 0; l < layouts.size(); ++l) scalar_.hash.add(reference.hash);
    result.cases += 1;
    if (!reference.outcome.fault.empty()) {
      result.mismatches += 1;
      result.failure = describe_failure(kernel_, "scalar", {problem, layouts[0]});
      result.stopped = true;
      return reference;
    }
    reference.judged = is_measured(index, problem, effort_);
    if (reference.judged) {
      reference.judgement = accuracy_.judge(problem, reference.outcome.bits);
      note(reference.judgement, accuracy_.bound, problem, result);
    }
    return reference;
  }

  void run(Level &level, const LaidOutProblem &laid_out, const Reference &reference) {
    const auto &[problem, layouts, rule] = laid_out;
    LevelResult &result = level.result;
    const ForcedIsa forced(result.isa);
    for (const Layout &layout : layouts) {
      note_running(result.kernel + " on " + result.isa + ": " + to_text({problem, layout}));
      const std::size_t crashes_before = crashes_survived();
      const Outcome outcome = run_caught(kernel_, problem, layout);
      level.crashes += crashes_survived() - crashes_before;
      result.cases += 1;
      const bool same_bits = outcome.bits == reference.outcome.bits;
      level.hash.add(same_bits ? reference.hash : hash_of(outcome.bits));
      // Results with the same bits have the same accuracy, so they are not measured again.
      if (reference.judged && &layout == &layouts.front() && (same_bits || outcome.fault.empty())) {
        const bool judge_anew = !same_bits && outcome.bits.size() == reference.outcome.bits.size();
        note(judge_anew ? accuracy_.judge(problem, outcome.bits) : reference.judgement, accuracy_.bound,
             problem, result);
      }
      if (same_bits && outcome.fault.empty()) continue;
      result.mismatches += 1;
      if (rule != nullptr && (result.broken_rules.empty() || result.broken_rules.back() != rule)) {
        result.broken_rules.emplace_back(rule);
      }
      if (!level.smallest || elements(problem) < elements(level.smallest->problem)) {
        level.smallest = Case{problem, layout};
      }
      result.stopped = level.crashes >= crashes_until_stop;
    }
  }

  const KernelCase &kernel_;
  Effort effort_;
  const Accuracy &accuracy_;
  Level scalar_;
  std::vector<Level> levels_;
};

std::vector<LevelResult> check(const KernelCase &kernel, const std::vector<std::string> &isas,
                               const std::vector<LaidOutProblem> &cases, Effort effort,
                               const OnProgress &progress) {
  Check check(kernel, isas, effort);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    progress(i, cases.size());
    if (!check.run(i, cases[i])) break;
  }
  return check.results();
}

}  // namespace

std::vector<LevelResult> check_kernel(const KernelCase &kernel, const std::vector<std::string> &isas,
                                      Effort effort, std::uint64_t seed, const OnProgress &progress) {
  return check(kernel, isas, make_cases(kernel, effort, seed), effort, progress);
}

std::optional<std::uint64_t> hash_kernel(const KernelCase &kernel, const std::string &isa, Effort effort,
                                         const OnProgress &progress) {
  const ForcedIsa forced(isa);
  const std::vector<LaidOutProblem> cases = make_cases(kernel, effort, default_seed);
  Hash hash;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    progress(i, cases.size());
    const auto &[problem, layouts, rule] = cases[i];
    const Outcome outcome = run_caught(kernel, problem, layouts[0]);
    if (!outcome.fault.empty()) return {};
    const std::uint64_t of_problem = hash_of(outcome.bits);
    for (std::size_t l = 0; l < layouts.size(); ++l) hash.add(of_problem);
  }
  return hash.value();
}

std::vector<LevelResult> check_case(const KernelCase &kernel, const std::vector<std::string> &isas,
                                    const Case &given) {
  return check(kernel, isas, {{given.problem, {given.layout}, nullptr}}, Effort::full,
               [](std::size_t, std::size_t) {});
}

}  // namespace rapt::validate
