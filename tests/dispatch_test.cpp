// Tests how a level is chosen: the list of levels, forced levels, RAPT_ISA, and threads that force levels
// while others call kernels.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rapt/rapt.h"
#include "support/compare.hpp"
#include "support/isa.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

// Returns the best level, without usable_isas(), which may force a level.
std::string best_isa() {
  std::string best;
  for (const std::string &isa : compiled_isas()) {
    if (rapt_isa_usable(isa.c_str())) best = isa;
  }
  return best;
}

// Returns the default level that rapt.h promises for this process.
std::string expected_default() {
  const std::string best = best_isa();
  const char *wanted = std::getenv("RAPT_ISA");
  return wanted && rapt_isa_usable(wanted) ? wanted : best;
}

}  // namespace

// Runs before any level is forced. ctest repeats it under several values of RAPT_ISA.
TEST_CASE("the level at start") {
  CHECK(rapt_active_isa() == expected_default());
  const float x[3] = {1, 2, 3};
  CHECK(rapt_dot_f32(x, x, 3) == 14.0f);
  CHECK(rapt_active_isa() == expected_default());
  if (const char *expected = std::getenv("RAPT_TEST_EXPECT_ISA"))
    CHECK(rapt_active_isa() == std::string(expected));
}

TEST_CASE("what was wrong with RAPT_ISA") {
  const char *wanted = std::getenv("RAPT_ISA");
  rapt_status expected = RAPT_OK;
  if (wanted && *wanted != 0 && !rapt_isa_usable(wanted)) {
    const std::vector<std::string> isas = compiled_isas();
    const bool exists = std::find(isas.begin(), isas.end(), wanted) != isas.end();
    expected = exists ? RAPT_BAD_ISA_FOR_THIS_CPU : RAPT_BAD_ISA_NAME;
  }
  CHECK(rapt_isa_status() == expected);
  CHECK(rapt_force_isa("scalar") == RAPT_OK);
  CHECK(rapt_isa_status() == expected);  // reports only on RAPT_ISA
  CHECK(rapt_force_isa(nullptr) == RAPT_OK);
}

TEST_CASE("the list of levels") {
  const std::vector<std::string> isas = compiled_isas();
  const std::vector<std::string> expected = {
#define LEVEL(name, ...) #name,
#include "rapt_levels.def"
#undef LEVEL
  };
  CHECK(isas == expected);
  CHECK(rapt_isa_name(rapt_isa_count()) == nullptr);
  CHECK(rapt_isa_name(SIZE_MAX) == nullptr);
  CHECK(rapt_isa_usable("scalar") == 1);
  CHECK(rapt_isa_usable("bogus") == 0);
  CHECK(rapt_isa_usable("") == 0);
}

// Returns whether the level has the kernel itself.
bool has_kernel(const std::string &isa, const std::string &kernel) {
  const static std::set<std::pair<std::string, std::string>> published = {
#define EVERY_KERNEL_OF(level) {#level, ""},
#define KERNEL_OF(level, kernel) {#level, #kernel},
#include "kernels_of_levels.def"
#undef EVERY_KERNEL_OF
#undef KERNEL_OF
  };
  return published.contains({isa, ""}) || published.contains({isa, kernel});
}

std::string base_of(const std::string &isa) {
  const std::map<std::string, std::string> bases = {
#define LEVEL(name, base, ...) {#name, #base},
#include "rapt_levels.def"
#undef LEVEL
  };
  return bases.at(isa);
}

// A tuning may leave these kernels of avx512 to the level that it builds on.
const std::set<std::string> tuned_kernels = {"dot_f16", "dot_rows_f16", "metric_f16", "metric_rows_f16",
                                             "scale_f16"};

// All other tests would still pass if a level lost its kernels.
TEST_CASE("a forced level serves what it has, and the levels that it builds on serve the rest") {
  for_each_usable_isa([](const std::string &isa) {
    CHECK(rapt_active_isa() == isa);
    for (const KernelCase &kernel : kernel_cases()) {
      INFO(std::string(kernel.name));
      std::string expected = isa;
      while (!has_kernel(expected, kernel.name)) expected = base_of(expected);
      const char *serving = rapt_kernel_isa(kernel.name);
      REQUIRE(serving != nullptr);
      if (expected == "avx512" && tuned_kernels.contains(kernel.name) && serving != expected) {
        expected = base_of(expected);
      }
      CHECK(serving == expected);
    }
  });
  CHECK(rapt_kernel_isa("no_such_kernel") == nullptr);
  CHECK(rapt_kernel_isa("") == nullptr);
}

// ctest repeats this case under the values of RAPT_TUNING (dispatch/tuning.hpp).
TEST_CASE("what a tuning changes of avx512") {
  const char *const tuning = std::getenv("RAPT_TUNING");
  if (!tuning || !rapt_isa_usable("avx512")) return;
  const ForcedIsa avx512("avx512");
  const bool zen4 = std::string(tuning) == "zen4";
  for (const std::string &kernel : tuned_kernels) {
    CHECK(rapt_kernel_isa(kernel.c_str()) == std::string(zen4 ? "avx2" : "avx512"));
  }
  for (const char *kernel : {"dot_f32", "dot_bf16", "softmax_f16", "attention_f16"}) {
    CHECK(rapt_kernel_isa(kernel) == std::string("avx512"));
  }
}

TEST_CASE("forcing a level that is unknown or not usable changes nothing") {
  for (const std::string &isa : usable_isas()) {
    const ForcedIsa forced(isa);
    for (const char *unknown : {"bogus", "", "AVX2", "scalar "}) {
      CHECK(rapt_force_isa(unknown) == RAPT_BAD_ISA_NAME);
      CHECK(rapt_active_isa() == isa);
    }
    for (const std::string &other : compiled_isas()) {
      if (rapt_isa_usable(other.c_str())) continue;
      CHECK(rapt_force_isa(other.c_str()) == RAPT_BAD_ISA_FOR_THIS_CPU);
      CHECK(rapt_active_isa() == isa);
    }
  }
}

TEST_CASE("null chooses the best level again") {
  REQUIRE(rapt_force_isa("scalar") == RAPT_OK);
  CHECK(rapt_active_isa() == std::string("scalar"));
  CHECK(rapt_force_isa(nullptr) == RAPT_OK);
  CHECK(rapt_active_isa() == best_isa());  // whatever RAPT_ISA says
}

TEST_CASE("threads call and force at once") {
  const auto run = [](const KernelCase &kernel) {
    return kernel.run(make_problem(kernel.traits.family, {.rows = 2, .cols = 77, .scale = 0.3}), Layout{});
  };
  std::vector<Outcome> expected;
  for (const KernelCase &kernel : kernel_cases()) expected.push_back(run(kernel));

  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, calls{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        for (std::size_t k = 0; k < expected.size(); ++k) {
          const KernelCase &kernel = kernel_cases()[k];
          const Outcome got = run(kernel);
          if (!difference(got, expected[k], kernel.traits.element_size).empty()) ++wrong;
          ++calls;
        }
      }
    });
  }
  std::thread forcer([&] {
    const std::vector<std::string> isas = usable_isas();
    for (std::size_t i = 0; !stop; ++i) {
      if (rapt_force_isa(i % 5 == 0 ? nullptr : isas[i % isas.size()].c_str()) != RAPT_OK) ++wrong;
      if (rapt_kernel_isa("dot_f32") == nullptr) ++wrong;
    }
  });
  for (std::thread &thread : threads) thread.join();
  stop = true;
  forcer.join();
  rapt_force_isa(nullptr);
  CHECK(wrong == 0);
  CHECK(calls > 0);
}

// The threads of a pool divide the tasks, and each has a separate workspace.
TEST_CASE("threads share the tasks of attention") {
  constexpr std::size_t heads = 4, tokens = 150, dim = 16;
  Random random(1);
  std::vector<float> q(heads * tokens * dim), k(q.size()), v(q.size()), expected(q.size()), out(q.size());
  for (std::vector<float> *values : {&q, &k, &v}) {
    for (float &value : *values) value = static_cast<float>(random.gaussian());
  }
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_heads = heads;
  options.q_len = options.kv_len = tokens;
  options.qk_dim = dim;
  options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
  std::size_t bytes = 0, tasks = 0;
  REQUIRE(rapt_attention_workspace(&options, &bytes) == RAPT_OK);
  REQUIRE(rapt_attention_tasks(&options, &tasks) == RAPT_OK);
  REQUIRE(tasks == heads * ((tokens + 63) / 64));
  std::vector<unsigned char> whole(bytes);
  REQUIRE(rapt_attention(q.data(), k.data(), v.data(), expected.data(), &options, whole.data(), bytes) ==
          RAPT_OK);

  std::atomic<std::size_t> next{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<unsigned char> workspace(bytes);
      for (std::size_t task = next++; task < tasks; task = next++) {
        if (rapt_attention_run(q.data(), k.data(), v.data(), out.data(), &options, task, task + 1,
                               workspace.data(), bytes) != RAPT_OK) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(out == expected);
}
