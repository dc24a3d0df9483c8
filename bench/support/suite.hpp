// The list of benchmarks: each kernel, at each size, on each instruction set.
#pragma once

#include <benchmark/benchmark.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rapt/rapt.h"
#include "support/working_sets.hpp"

namespace rapt::bench {

// What one call does. `bytes` counts each input read once and each output written once, whatever the kernel
// really does: it is the traffic that no implementation can avoid.
struct Work {
  std::size_t elements;
  std::size_t bytes;
};

struct Case {
  std::string name;  // kernel/isa/size
  std::string kernel;
  std::string isa;
  std::string size;
  Work work;
  std::string served_by;  // the level whose code runs: a lower one where `isa` has no code of its own
  double seconds = 0;     // a call; 0 until measured
};

// What to run, as the command line and the machine have it.
struct Plan {
  std::vector<WorkingSet> levels;  // one per level of the memory hierarchy
  std::vector<std::string> isas;
  std::optional<std::regex> filter;
  bool quick = false;
};

class Suite {
 public:
  explicit Suite(Plan plan) : plan_(std::move(plan)) {}
  Suite(const Suite &) = delete;
  Suite &operator=(const Suite &) = delete;

  const Plan &plan() const { return plan_; }
  std::vector<Case> &cases() { return cases_; }

  // The kernel that the following add() are about.
  void begin_kernel(std::string kernel) { kernel_ = std::move(kernel); }

  // The sizes that every kernel is measured at: one per cache level, and one of misaligned buffers.
  template <std::floating_point T>
  std::vector<WorkingSet> working_sets() const {
    std::vector<WorkingSet> sets = plan_.levels;
    if (measures_shapes<T>() && !plan_.quick) {
      sets.push_back({plan_.levels[0].label + ":unaligned", plan_.levels[0].bytes, sizeof(T)});
    }
    return sets;
  }

  // Those of a list of model shapes that are to be measured: a quick run keeps both ends of the list, and no
  // model computes attention in f64.
  template <std::floating_point T, class Shape>
  std::vector<Shape> shapes(std::initializer_list<Shape> all) const {
    if (!measures_shapes<T>()) return {};
    if (plan_.quick && all.size() > 2) return {*all.begin(), *(all.end() - 1)};
    return all;
  }

  // One size of the kernel, on every instruction set. make_call() allocates the buffers and returns the call
  // to time, a function object without arguments.
  template <class MakeCall>
  void add(const std::string &size, Work work, MakeCall make_call) {
    using Call = std::invoke_result_t<MakeCall>;
    // All instruction sets work on the same buffers, which live until another size needs its own: the
    // largest take long to fill, and two of them might not fit.
    auto shared_call = std::make_shared<std::weak_ptr<Call>>();
    for (const std::string &isa : plan_.isas) {
      if (!add_case(isa, size, work)) continue;
      benchmark::RegisterBenchmark(
          cases_.back().name.c_str(), [this, isa, work, make_call, shared_call](benchmark::State &state) {
            std::shared_ptr<Call> call = shared_call->lock();
            if (!call) {
              live_call_.reset();
              call = std::make_shared<Call>(make_call());
              live_call_ = call;
              *shared_call = call;
            }
            force_isa(isa);
            for (auto _ : state) {
              (*call)();
              benchmark::ClobberMemory();
            }
            state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(work.elements));
            state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(work.bytes));
          });
    }
  }

 private:
  template <class T>
  static constexpr bool measures_shapes() {
    return std::same_as<T, float>;
  }

  // False if the filter leaves it out.
  bool add_case(const std::string &isa, const std::string &size, Work work);
  static void force_isa(const std::string &isa);

  Plan plan_;
  std::vector<Case> cases_;
  std::string kernel_;
  std::shared_ptr<void> live_call_;
};

// For functions that return a status: a benchmark that times an error is worth nothing.
void require_ok(rapt_status status);

// One registration function a kernel: a line in kernels.def without one does not link.
#define KERNEL(name, ...) void register_##name(Suite &suite);
#include "kernels/kernels.def"
#undef KERNEL

// Calls all of them.
void register_all(Suite &suite);

}  // namespace rapt::bench
