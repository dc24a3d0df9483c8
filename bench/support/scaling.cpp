#include "support/scaling.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <chrono>
#include <limits>
#include <regex>

#include "support/attention_backward.hpp"
#include "support/disturbance.hpp"
#include "support/other_load.hpp"
#include "support/text.hpp"

namespace rapt::bench {
namespace {

#ifdef _OPENMP

struct Job {
  const char *size;
  AttentionShape shape;
};

constexpr Job jobs[] = {
    {"prefill:d128:t1024:causal", prompt_shape(32, 8, 1024, 128, 128, true)},
    {"decode:32x8:d128:k32768", token_shape(32, 8, 32768, 128, 128)},
};
constexpr Job backward_jobs[] = {
    {"backward:32x8:d128:t1024:causal", prompt_shape(32, 8, 1024, 128, 128, true)},
    {"backward:32x1:d128:t1024:causal", prompt_shape(32, 1, 1024, 128, 128, true)},
};

// A decode has few heads, so its keys are split too, to give every thread enough to do.
class Call {
 public:
  Call(const AttentionShape &shape, int threads)
      : buffers_(shape),
        options_(attention_options<float>(shape)),
        partials_(shape.q_len == 1 ? attention_partials(shape) : 0),
        workspace_bytes_(workspace_bytes(options_)),
        workspaces_(workspace_bytes_ * static_cast<std::size_t>(threads)) {
    require_ok(rapt_attention_tasks(&options_, &tasks_));
    std::size_t length = 0;
    if (partials_.size() > 0) require_ok(rapt_attention_partial_tasks(&options_, &partial_tasks_, &length));
  }

  void run(int threads) const {
    const AttentionProblem<float> p = buffers_.problem();
    const auto each = [&](std::size_t tasks, const auto &task) {
      const auto count = static_cast<std::ptrdiff_t>(tasks);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
      for (std::ptrdiff_t i = 0; i < count; ++i) {
        task(static_cast<std::size_t>(i),
             workspaces_.data() + workspace_bytes_ * static_cast<std::size_t>(omp_get_thread_num()));
      }
    };
    if (partials_.size() == 0) {
      each(tasks_, [&](std::size_t i, char *workspace) {
        require_ok(
            rapt_attention_run(p.q, p.k, p.v, p.out, &options_, i, i + 1, workspace, workspace_bytes_));
      });
      return;
    }
    each(partial_tasks_, [&](std::size_t i, char *workspace) {
      require_ok(rapt_attention_partial(p.q, p.k, p.v, partials_.data(), &options_, i, i + 1, workspace,
                                        workspace_bytes_));
    });
    each(tasks_, [&](std::size_t i, char *workspace) {
      require_ok(
          rapt_attention_merge(partials_.data(), p.out, &options_, i, i + 1, workspace, workspace_bytes_));
    });
  }

 private:
  static std::size_t workspace_bytes(const rapt_attention_options &options) {
    std::size_t bytes = 0;
    require_ok(rapt_attention_workspace(&options, &bytes));
    return (bytes + 4095) / 4096 * 4096;
  }

  AttentionBuffers<float> buffers_;
  rapt_attention_options options_;
  Buffer<float> partials_;
  std::size_t workspace_bytes_;
  Buffer<char> workspaces_;
  std::size_t tasks_ = 0, partial_tasks_ = 0;
};

// One run of tasks per thread.
class BackwardCall {
 public:
  BackwardCall(const AttentionShape &shape, int threads)
      : buffers_(shape),
        workspace_bytes_((buffers_.problem().scratch_bytes + 4095) / 4096 * 4096),
        workspaces_(workspace_bytes_ * static_cast<std::size_t>(threads)) {}

  void run(int threads) const {
    const AttentionGradientProblem<float> problem = buffers_.problem();
    const auto count = static_cast<std::size_t>(threads);
#pragma omp parallel num_threads(threads)
    {
      const auto thread = static_cast<std::size_t>(omp_get_thread_num());
      run_of_attention_backward(problem, thread, count, workspaces_.data() + workspace_bytes_ * thread);
    }
  }

 private:
  AttentionGradientBuffers<float> buffers_;
  std::size_t workspace_bytes_;
  Buffer<char> workspaces_;
};

template <class Call>
double best_of(const Call &call, int threads, bool quick) {
  using Time = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  call.run(threads);  // touches the memory and starts the threads
  const Time::time_point end = Time::now() + std::chrono::milliseconds(quick ? 100 : 500);
  do {
    const Time::time_point start = Time::now();
    call.run(threads);
    best = std::min(best, std::chrono::duration<double>(Time::now() - start).count());
  } while (Time::now() < end);
  return best;
}

#endif

}  // namespace

Scaling measure_scaling([[maybe_unused]] const Plan &plan, [[maybe_unused]] const Topology &topology) {
  Scaling scaling;
#ifdef _OPENMP
  const std::string &isa = plan.isas.back();
  const std::string name = "attention_f32/" + isa + "/scaling";
  if (plan.filter && !std::regex_search(name, *plan.filter)) return scaling;
  const int most = static_cast<int>(topology.cpus.size());
  if (isa == "scalar" || most == 0) return scaling;
  OtherLoad others;
  std::vector<ScalingRow> &rows = scaling.rows;
  require_ok(rapt_force_isa(isa.c_str()));
  // Each thread gets its own CPU: the process is pinned to one, and its threads begin there.
#pragma omp parallel num_threads(most)
  pin_thread(topology.cpus[static_cast<std::size_t>(omp_get_thread_num())]);
  const auto measure = [&](const char *size, const auto &call) {
    for (int threads = 1;; threads = std::min(2 * threads, most)) {
      const double seconds = best_of(call, threads, plan.quick);
      const double one = threads == 1 ? seconds : rows.back().seconds * rows.back().speed_up;
      rows.push_back({size, isa, threads, seconds, one / seconds});
      if (threads == most) break;
    }
  };
  for (const Job &job : jobs) measure(job.size, Call(job.shape, most));
  for (const Job &job : backward_jobs) measure(job.size, BackwardCall(job.shape, most));
  scaling.load = others.sample();
#endif
  return scaling;
}

void print_scaling(const Scaling &scaling) {
  const std::vector<ScalingRow> &rows = scaling.rows;
  if (rows.empty()) return;
  print_line(
      "\nTasks of attention_f32 on threads, {}, wall time; decode in chunks of keys, backward one run per "
      "thread.\n",
      rows.front().isa);
  print_line("{:<30}{:>9}{:>11}{:>10}", "size", "threads", "time", "speed-up");
  print_rule(60);
  for (const ScalingRow &row : rows) {
    print_line("{:<30}{:>9}{:>11}{:>10.2f}", row.threads == 1 ? row.size : "", row.threads,
               time_text(row.seconds), row.speed_up);
  }
  if (!doubts({.load = scaling.load}).empty()) {
    print_line("! Others kept {:.1f} CPUs busy meanwhile.", scaling.load);
  }
}

}  // namespace rapt::bench
