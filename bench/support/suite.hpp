// The list of benchmarks: each kernel, at each size, by each implementation; before them the machine's
// limits.
#pragma once

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <deque>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "peers/peer.hpp"
#include "rapt/rapt.h"
#include "support/disturbance.hpp"
#include "support/limit_cases.hpp"
#include "support/limits.hpp"
#include "support/other_load.hpp"
#include "support/work.hpp"
#include "support/working_sets.hpp"

namespace rapt::bench {

struct Case {
  std::string name;  // kernel/implementation/size
  std::string kernel;
  std::string implementation;  // of rapt, the level: "avx2"; of a peer "sleef-avx2"
  std::string isa;
  std::string size;
  Work work;
  bool is_peer = false;
  std::string served_by;  // the level whose code runs: a lower one where `isa` has no code of its own

  // What the run finds out.
  std::vector<double> seconds;                              // of CPU time, a call, each repetition
  double wall_over_cpu = 1;                                 // of all repetitions
  double load = std::numeric_limits<double>::quiet_NaN();   // CPUs that others kept busy
  Bound beside;                                             // by the limits as measured before and after
  Bound bound;                                              // by the best of the whole run
  std::vector<std::string> doubts;                          // the rules of disturbance.hpp that it breaks
  double error = std::numeric_limits<double>::quiet_NaN();  // support/accuracy.hpp says of what

  bool measured() const { return !seconds.empty(); }
  double best() const;
  double median() const;
  double spread() const { return quartile_spread(seconds); }
  double share() const { return bound.seconds / median(); }  // 1 is as fast as this machine can be
};

// What to run, as the command line and the machine have it.
struct Plan {
  std::vector<WorkingSet> levels;  // one per level of the memory hierarchy
  std::vector<std::string> isas;
  std::optional<std::regex> filter;
  bool quick = false;
  bool peers = false;
};

template <class Function>
class Kernel;

class Suite {
 public:
  explicit Suite(Plan plan)
      : plan_(std::move(plan)),
        limits_(plan_.levels),
        beside_(plan_.levels),
        meter_(limit_cases(plan_.isas, plan_.levels)) {}
  Suite(const Suite &) = delete;
  Suite &operator=(const Suite &) = delete;

  const Plan &plan() const { return plan_; }
  const Limits &limits() const { return limits_; }

  // The kernel that the following kernel() is about.
  void begin_kernel(std::string name) { kernel_ = std::move(name); }
  // `peer`: the member with the peers' functions for it, or null. `error`: measures how accurate one is.
  // `uops`: a vector, as work.hpp counts them.
  template <class Function>
  Kernel<Function> kernel(Function own, Function Peer::*peer, double (*error)(Function), double uops);

  // The sizes to measure of a list: all, or in a quick run the few.
  template <class Size>
  std::vector<Size> sizes(std::initializer_list<Size> all, std::initializer_list<Size> few) const {
    return plan_.quick ? few : all;
  }

  // Names the limits that the cases call for and registers everything with Google Benchmark.
  std::vector<Case *> schedule();
  // To be called with each case that has been measured.
  void finished(Case &one);
  // After the last one: the bounds by the best limits, and what is not to be believed.
  void conclude();
  const std::vector<Inversion> &inverted_limits() const { return inverted_limits_; }

 private:
  template <class Function>
  friend class Kernel;
  using Body = std::function<void(benchmark::State &)>;

  struct Entry {
    Case one;
    Body body;
    std::function<double()> error;
  };

  // Returns what gives the call with its buffers. make_call() makes them at the first use; they live until
  // another call is in use: the largest take long to fill, and two of them might not fit.
  template <class MakeCall>
  auto shared(MakeCall make_call) {
    using Call = std::invoke_result_t<MakeCall>;
    return [this, make_call, made = std::make_shared<std::weak_ptr<Call>>()] {
      std::shared_ptr<Call> call = made->lock();
      if (!call) {
        live_call_.reset();
        call = std::make_shared<Call>(make_call());
        live_call_ = call;
        *made = call;
      }
      return call;
    };
  }
  // Whether the plan has such a case.
  bool wants(const Case &one) const;
  void add(Case one, Body body, std::function<double()> error);
  void add_limits();
  void run(Entry &entry, benchmark::State &state);
  void measure_limits_beside(const Case &one);
  void sample_load();

  Plan plan_;
  Limits limits_;
  Limits beside_;  // of the case that runs
  LimitMeter meter_;
  OtherLoad others_;
  std::vector<Case *> load_unknown_;  // measured since the last sample
  const Case *running_ = nullptr;
  std::vector<Inversion> inverted_limits_;
  std::string kernel_;
  std::deque<Entry> entries_;  // of which pointers are held
  std::deque<Entry> limit_entries_;
  std::map<std::string, double> errors_;  // by kernel/implementation
  std::shared_ptr<void> live_call_;
};

// A kernel's implementations, which all have the same signature.
template <class Function>
class Kernel {
 public:
  enum class By { everyone, rapt_alone };

  Kernel(Suite &suite, std::string name, Function own, Function Peer::*peer, double (*error)(Function),
         double uops)
      : suite_(suite), name_(std::move(name)), error_(error), uops_(uops) {
    for (const std::string &isa : suite.plan().isas) implementations_.push_back({isa, isa, own, false});
    if (!suite.plan().peers || !peer) return;
    for (const Peer &one : peers()) {
      if (one.*peer) implementations_.push_back({one.name + "-" + one.isa, one.isa, one.*peer, true});
    }
  }

  Suite &suite() const { return suite_; }

  // One size, by every implementation. make_call() allocates the buffers and returns the call to time, a
  // function object that takes the implementation.
  template <class MakeCall>
  void add(const std::string &size, const Work &work, MakeCall make_call, By by = By::everyone) {
    const auto shared_call = suite_.shared(make_call);  // all work on the same buffers
    for (const Implementation &one : implementations_) {
      if (one.is_peer && by == By::rapt_alone) continue;
      Case added;
      added.kernel = name_;
      added.implementation = one.name;
      added.isa = one.isa;
      added.size = size;
      added.work = work;
      added.work.uops_a_vector = uops_;
      added.is_peer = one.is_peer;
      suite_.add(
          std::move(added),
          [function = one.function, shared_call](benchmark::State &state) {
            const auto call = shared_call();
            for (auto _ : state) {
              (*call)(function);
              benchmark::ClobberMemory();
            }
          },
          [error = error_, function = one.function] { return error(function); });
    }
  }

 private:
  struct Implementation {
    std::string name;
    std::string isa;
    Function function;
    bool is_peer;
  };

  Suite &suite_;
  std::string name_;
  double (*error_)(Function);
  double uops_;
  std::vector<Implementation> implementations_;
};

template <class Function>
Kernel<Function> Suite::kernel(Function own, Function Peer::*peer, double (*error)(Function), double uops) {
  return {*this, kernel_, own, peer, error, uops};
}

// For functions that return a status: a benchmark that times an error is worth nothing.
void require_ok(rapt_status status);

// One registration function a kernel: a line in kernels.def without one does not link.
#define KERNEL(name, ...) void register_##name(Suite &suite);
#include "kernels/kernels.def"
#undef KERNEL

// Calls all of them.
void register_all(Suite &suite);

}  // namespace rapt::bench
