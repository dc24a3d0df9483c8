#include "support/scaling.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <regex>

#include "support/attention.hpp"
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
    {"prefill:d128:t1024:causal",
     {.q_heads = 32,
      .kv_heads = 8,
      .q_len = 1024,
      .kv_len = 1024,
      .qk_dim = 128,
      .v_dim = 128,
      .causal = true}},
    {"decode:32x8:d128:k32768",
     {.q_heads = 32,
      .kv_heads = 8,
      .q_len = 1,
      .kv_len = 32768,
      .qk_dim = 128,
      .v_dim = 128,
      .causal = true}},
};

// Chunks of keys where the heads alone are few: the split that gives every thread enough to do.
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

double best_of(const Call &call, int threads, bool quick) {
  using Time = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  call.run(threads);  // the first touch, and the threads' start
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
  // Each thread its own CPU: the process was pinned to one, and its threads begin there.
#pragma omp parallel num_threads(most)
  pin_thread(topology.cpus[static_cast<std::size_t>(omp_get_thread_num())]);
  for (const Job &job : jobs) {
    const Call call(job.shape, most);
    for (int threads = 1;; threads = std::min(2 * threads, most)) {
      const double seconds = best_of(call, threads, plan.quick);
      const double one =
          threads == 1 ? seconds : rows[rows.size() - 1].seconds * rows[rows.size() - 1].speed_up;
      rows.push_back({job.size, isa, threads, seconds, one / seconds});
      if (threads == most) break;
    }
  }
  scaling.load = others.sample();
#endif
  return scaling;
}

void print_scaling(const Scaling &scaling) {
  const std::vector<ScalingRow> &rows = scaling.rows;
  if (rows.empty()) return;
  std::printf("\nTasks of attention_f32 on threads, %s, wall time; decode in chunks of keys.\n\n",
              rows.front().isa.c_str());
  print_line(left("size", 30) + right("threads", 9) + right("time", 11) + right("speed-up", 10));
  print_line(std::string(60, '-'));
  for (const ScalingRow &row : rows) {
    print_line(left(row.threads == 1 ? row.size : "", 30) + right(std::to_string(row.threads), 9) +
               right(time_text(row.seconds), 11) + right(text("%.2f", row.speed_up), 10));
  }
  if (!doubts({.load = scaling.load}).empty()) {
    std::printf("! Others kept %.1f CPUs busy meanwhile.\n", scaling.load);
  }
}

}  // namespace rapt::bench
