#include "support/scaling.hpp"

#ifdef RAPT_BENCH_TBB
#include <oneapi/tbb/parallel_for.h>
#endif

#include <algorithm>
#include <chrono>
#include <limits>
#include <regex>

#include "rapt/parallel.hpp"
#include "support/attention_backward.hpp"

namespace rapt::bench {
namespace {

struct Job {
  const char *size;
  AttentionShape shape;
};

// The second job of each kind is small, so starting threads takes a large part of its time.
constexpr Job jobs[] = {
    {"prefill:32x8:d128:t1024:causal", prompt_shape(32, 8, 1024, 128, 128, true)},
    {"prefill:8x8:d64:t128:causal", prompt_shape(8, 8, 128, 64, 64, true)},
    {"decode:32x8:d128:k32768", token_shape(32, 8, 32768, 128, 128)},
    {"decode:8x2:d64:k1024", token_shape(8, 2, 1024, 64, 64)},
};
constexpr Job backward_jobs[] = {
    {"backward:32x8:d128:t1024:causal", prompt_shape(32, 8, 1024, 128, 128, true)},
    {"backward:8x8:d64:t128:causal", prompt_shape(8, 8, 128, 64, 64, true)},
};

class Call {
 public:
  explicit Call(const AttentionShape &shape) : buffers_(shape), options_(attention_options<float>(shape)) {}

  void plain() const { whole_attention(buffers_.problem()); }
  template <class Parts>
  void run(int threads, const Parts &parts) const {
    const AttentionProblem<float> p = buffers_.problem();
    require_ok(parallel_attention(p.q, p.k, p.v, p.out, &options_, static_cast<std::size_t>(threads), parts));
  }

 private:
  AttentionBuffers<float> buffers_;
  rapt_attention_options options_;
};

class BackwardCall {
 public:
  explicit BackwardCall(const AttentionShape &shape) : buffers_(shape), arguments_(buffers_.problem()) {}

  void plain() const { whole_attention_backward(buffers_.problem()); }
  template <class Parts>
  void run(int threads, const Parts &parts) const {
    const AttentionProblem<float> p = buffers_.problem().forward;
    require_ok(parallel_attention_backward(p.q, p.k, p.v, &arguments_.options, &arguments_.gradients,
                                           static_cast<std::size_t>(threads), parts));
  }

 private:
  AttentionGradientBuffers<float> buffers_;
  AttentionGradientArguments<float> arguments_;
};

// Times calls for a fraction of a second, and lowers `best` to the shortest time.
template <class Call>
void time_calls(const Call &call, bool quick, double &best) {
  using Time = std::chrono::steady_clock;
  call();  // touches the memory and wakes the threads
  const Time::time_point end = Time::now() + std::chrono::milliseconds(quick ? 10 : 50);
  do {
    const Time::time_point start = Time::now();
    call();
    best = std::min(best, std::chrono::duration<double>(Time::now() - start).count());
  } while (Time::now() < end);
}

// Measures all rows in each round, so that a disturbance affects every row.
template <class Call>
void measure(const char *size, const std::string &isa, const Call &call, int most, bool quick,
             std::vector<ScalingRow> &rows) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const std::size_t first = rows.size();
  const auto for_each_adapter = [](const auto &use) {
    use("std::thread", std_threads);
#ifdef _OPENMP
    use("OpenMP", openmp);
#endif
#ifdef RAPT_BENCH_TBB
    use("oneTBB", tbb);
#endif
  };
  for (int threads = 1;; threads = std::min(2 * threads, most)) {
    for_each_adapter([&](const char *name, const auto &) {
      rows.push_back({size, isa, name, threads, never, 0});
    });
    if (threads == most) break;
  }
  double plain = never;
  for (int round = 0; round < 10; ++round) {
    time_calls([&] { call.plain(); }, quick, plain);
    for (std::size_t i = first; i < rows.size(); ++i) {
      for_each_adapter([&](const char *name, const auto &parts) {
        if (rows[i].adapter != name) return;
        time_calls([&] { call.run(rows[i].threads, parts); }, quick, rows[i].seconds);
      });
    }
  }
  for (std::size_t i = first; i < rows.size(); ++i) rows[i].speed_up = plain / rows[i].seconds;
}

}  // namespace

Scaling measure_scaling(const Plan &plan, const Topology &topology) {
  Scaling scaling;
  const std::string &isa = plan.isas.back();
  const std::string name = "attention_f32/" + isa + "/scaling";
  if (plan.filter && !std::regex_search(name, *plan.filter)) return scaling;
  const int most = static_cast<int>(topology.cpus.size());
  if (isa == "scalar" || most == 0) return scaling;
  require_ok(rapt_force_isa(isa.c_str()));
  bind_thread(topology.cpus);
  for (const Job &job : jobs) measure(job.size, isa, Call(job.shape), most, plan.quick, scaling);
  for (const Job &job : backward_jobs) {
    measure(job.size, isa, BackwardCall(job.shape), most, plan.quick, scaling);
  }
  bind_thread({topology.pinned_cpu});
  return scaling;
}

}  // namespace rapt::bench
