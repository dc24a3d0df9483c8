#include "support/limit_cases.hpp"

#include <memory>
#include <utility>

#include "limits/loops.hpp"
#include "support/buffer.hpp"
#include "support/limits.hpp"

namespace rapt::bench {
namespace {

using Pass = std::function<double()>;
using MakePass = std::function<Pass()>;

MakePass rate_of(std::size_t (*run)(), double worth) {
  return [run, worth] { return [run, worth] { return static_cast<double>(run()) * worth; }; };
}

// As many as make what surrounds a pass over a small cache no part of the result.
std::size_t passes_over(std::size_t working_set) { return 1 + (std::size_t{1} << 20) / working_set; }

// Accesses: how often a pass touches each byte.
template <class Run>
MakePass one_buffer(std::size_t working_set, Run run, double accesses = 1) {
  const std::size_t bytes = working_set / limit_block * limit_block;
  return [=]() -> Pass {
    return [=, buffer = std::make_shared<Buffer<char>>(bytes)] {
      const std::size_t passes = passes_over(working_set);
      for (std::size_t pass = 0; pass < passes; ++pass) run(buffer->data(), bytes);
      return accesses * static_cast<double>(passes * bytes);
    };
  };
}

template <class Run>
MakePass two_buffers(std::size_t working_set, Run run) {
  const std::size_t bytes = working_set / 2 / limit_block * limit_block;
  return [=]() -> Pass {
    return [=, from = std::make_shared<Buffer<char>>(bytes), to = std::make_shared<Buffer<char>>(bytes)] {
      const std::size_t passes = passes_over(working_set);
      for (std::size_t pass = 0; pass < passes; ++pass) run(from->data(), to->data(), bytes);
      return 2 * static_cast<double>(passes * bytes);
    };
  };
}

}  // namespace

std::vector<LimitCase> limit_cases(const std::vector<std::string> &isas,
                                   const std::vector<WorkingSet> &levels) {
  std::vector<LimitCase> cases;
  for (const std::string &isa : isas) {
    const LimitLoops *loops = limit_loops(isa);
    if (!loops) continue;
    cases.push_back({isa, "fma_f32", rate_of(loops->fma_f32, operations_of_fma(isa, sizeof(float)))});
    cases.push_back({isa, "fma_f64", rate_of(loops->fma_f64, operations_of_fma(isa, sizeof(double)))});
    cases.push_back({isa, "clock", rate_of(loops->clock, 1)});
    for (std::size_t level = 0; level < levels.size(); ++level) {
      const auto add = [&](const char *access, MakePass make) {
        cases.push_back({isa, access + (":" + levels[level].label), std::move(make)});
      };
      const std::size_t bytes = levels[level].bytes;
      const std::size_t prefetched = level >= 2;
      add("load", one_buffer(bytes, loops->load[prefetched]));
      add("store", one_buffer(bytes, loops->store));
      add("copy", two_buffers(bytes, loops->copy[prefetched]));
      add("copy_nt", two_buffers(bytes, loops->copy_nt[prefetched]));
      add("update", one_buffer(bytes, loops->update[prefetched], 2));
    }
  }
  return cases;
}

}  // namespace rapt::bench
