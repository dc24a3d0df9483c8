// Lists and runs the benchmarks: the machine's limits, then each kernel at each size by each implementation.
#pragma once

#include <benchmark/benchmark.h>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <deque>
#include <functional>
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
#include "support/case.hpp"
#include "support/disturbance.hpp"
#include "support/limit_cases.hpp"
#include "support/limits.hpp"
#include "support/work.hpp"
#include "support/working_sets.hpp"

namespace rapt::bench {

template <class Function>
class Kernel;

// Measures the largest error of an implementation.
template <class Function>
using Error = double (*)(Function);

using Sizes = std::vector<std::size_t>;

// Says which implementations a benchmark is for.
enum class By { everyone, rapt_alone };

class Suite {
 public:
  explicit Suite(Plan plan);
  Suite(const Suite &) = delete;
  Suite &operator=(const Suite &) = delete;

  const Plan &plan() const { return plan_; }
  const Limits &limits() const { return limits_; }

  // Sets the name that the next call of kernel() uses.
  void begin_kernel(std::string name) { kernel_ = std::move(name); }
  // Returns a kernel that rapt's function `own` implements. The second overload adds the function `member` of
  // each peer, and measures errors. `uops` counts the µops per vector (see work.hpp).
  template <class Function>
  Kernel<Function> kernel(Function own, Uops uops);
  template <class Function, class T>
  Kernel<Function> kernel(Function own, Function PeerFunctions<T>::*member,
                          std::type_identity_t<Error<Function>> error, Uops uops);
  // of_peer(peer) returns the peer's function, or a function object that converts to false.
  template <class Function, std::invocable<const Peer &> OfPeer>
  Kernel<Function> kernel(Function own, OfPeer of_peer, std::type_identity_t<Error<Function>> error,
                          Uops uops);

  // Returns the sizes to measure: `all`, or in a quick run `few`.
  Sizes sizes(Sizes all, Sizes few) const { return choose(std::move(all), std::move(few)); }
  template <class T>
  std::vector<T> choose(std::vector<T> all, std::vector<T> few) const {
    return plan_.quick ? few : all;
  }

  // Adds the limits that the cases need and registers everything with Google Benchmark.
  std::vector<Case *> schedule();
  // Call finished() after each case is measured.
  void finished(Case &one);
  // Computes the bounds and doubts of all cases from the best limits. Call conclude() after the last case.
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

  // Returns a function that returns the call, which owns its buffers. make_call() makes the call at the first
  // use, and the call lives until another one is used. Large buffers take long to fill, and the buffers of
  // two calls might not fit into memory.
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
  bool wants(const Case &one) const;
  void add(Case one, Body body, std::function<double()> error);
  void add_limits();
  void run(Entry &entry, benchmark::State &state);
  void measure_limits_beside(const Case &one);

  Plan plan_;
  Limits limits_;
  Limits beside_;  // the limits just before and after the running case
  LimitMeter meter_;
  const Case *running_ = nullptr;
  std::vector<Inversion> inverted_limits_;
  std::string kernel_;
  std::deque<Entry> entries_;  // a deque, so that pointers to entries stay valid
  std::deque<Entry> limit_entries_;
  std::map<std::string, double> errors_;  // by kernel/implementation
  std::shared_ptr<void> live_call_;
};

// Holds the implementations of a kernel, which all have the same signature.
template <class Function>
class Kernel {
 public:
  Kernel(Suite &suite, std::string name, Function own, Error<Function> error, Uops uops)
      : suite_(suite), name_(std::move(name)), error_(error), uops_(uops) {
    for (const std::string &isa : suite.plan().isas) implementations_.push_back({isa, isa, own, false});
  }

  Suite &suite() const { return suite_; }

  void add_peer(const Peer &peer, Function function) {
    if (function) implementations_.push_back({peer.name + "-" + peer.isa, peer.isa, function, true});
  }

  // Adds a size. make_call() allocates the buffers and returns the call to time: a function object that takes
  // the implementation.
  template <class MakeCall>
  void add(const std::string &size, const Work &work, MakeCall make_call, By by = By::everyone) {
    const auto shared_call = suite_.shared(make_call);  // all implementations work on the same buffers
    for (const Implementation &one : implementations_) {
      if (one.is_peer && by == By::rapt_alone) continue;
      Case added;
      added.kernel = name_;
      added.implementation = one.name;
      added.isa = one.isa;
      added.size = size;
      added.work = work;
      added.work.uops_per_vector = uops_;
      added.is_peer = one.is_peer;
      suite_.add(
          std::move(added),
          [function = one.function, shared_call, prepared = !one.is_peer](benchmark::State &state) mutable {
            const auto call = shared_call();
            if (!prepared) (*call)(function);  // a peer may prepare an input or a shape
            prepared = true;
            for (auto _ : state) {
              (*call)(function);
              benchmark::ClobberMemory();
            }
          },
          error_ ? [error = error_, function = one.function] { return error(function); }
                 : std::function<double()>());
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
  Error<Function> error_;
  Uops uops_;
  std::vector<Implementation> implementations_;
};

template <class Function>
Kernel<Function> Suite::kernel(Function own, Uops uops) {
  return {*this, kernel_, own, nullptr, uops};
}

template <class Function, class T>
Kernel<Function> Suite::kernel(Function own, Function PeerFunctions<T>::*member,
                               std::type_identity_t<Error<Function>> error, Uops uops) {
  const auto of_peer = [member](const Peer &peer) { return peer.functions<T>().*member; };
  return kernel(own, of_peer, error, uops);
}

template <class Function, std::invocable<const Peer &> OfPeer>
Kernel<Function> Suite::kernel(Function own, OfPeer of_peer, std::type_identity_t<Error<Function>> error,
                               Uops uops) {
  Kernel<Function> kernel{*this, kernel_, own, error, uops};
  if (plan_.peers) {
    for (const Peer &one : peers()) kernel.add_peer(one, of_peer(one));
  }
  return kernel;
}

// Throws if a call failed, because the time of a failed call means nothing.
void require_ok(rapt_status status);

// Each line of kernels.def needs a registration function. Without one, the program does not link.
#define KERNEL(name, ...) void register_##name(Suite &suite);
#include "kernels/kernels.def"
#undef KERNEL

void register_all(Suite &suite);

}  // namespace rapt::bench
