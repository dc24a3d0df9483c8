// The cases that rapt/parallel.h and rapt/parallel.hpp share. A test includes this file last: before it stands a type
// `Header`, by which the cases call the functions of its header.
//
//   Header::Work                                  one linear layer
//   Header::for_each(use)                         use(name, call) for all ways to run tasks, and all numbers of threads
//   Header::for_each_thread_count(use)            use(call) for some numbers of threads
//   Header::bodies(threads, use)                  how many bodies each pool has that use(call) runs
//   Header::run_tasks(tasks, runs, threads, visit)   visit(first, last, workspace) for each run, one after the other
//   Header::falling_first(tasks, runs, i)         the first task of run i of falling runs
//   Header::check_memory()                        after a call
//
// A call has the functions attention, attention_backward, linear, linear_experts and linear_batch, with the arguments
// of rapt.h.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "rapt/rapt.h"
#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

template <class T>
std::vector<T> draw(std::size_t count, Random &random) {
  std::vector<T> numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(static_cast<T>(random.gaussian()));
  return numbers;
}

// ---- attention

template <class T>
struct Attention {
  rapt_attention_options o = attention_options<T>();
  std::vector<T> q, k, v, dout;
  AttentionResults<T> expected;

  // With two heads, 140 queries make six tiles and 350 queries make twelve. Twelve is more than the eight runs of one
  // thread, and not a multiple of eight.
  explicit Attention(std::size_t q_len, std::size_t kv_len = 1100, std::size_t dim = 16) {
    o.q_heads = 2;
    o.q_len = q_len;
    o.kv_len = kv_len;
    o.qk_dim = dim;
    o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    Random random(5);
    q = draw<T>(2 * q_len * dim, random);
    k = draw<T>(2 * kv_len * dim, random);
    v = draw<T>(k.size(), random);
    dout = draw<T>(q.size(), random);
    expected = empty();
    run_attention(q, k, v, o, expected);
    run_attention_backward(q, k, v, dout, o, T(0), expected);
  }

  AttentionResults<T> empty() const {
    AttentionResults<T> results;
    results.out.resize(q.size());
    results.lse.resize(2 * o.q_len);
    results.dq.resize(q.size());
    results.dk.resize(k.size());
    results.dv.resize(v.size());
    return results;
  }

  rapt_status forwards(AttentionResults<T> &results, const auto &call) {
    o.lse = results.lse.data();
    return call.attention(q.data(), k.data(), v.data(), results.out.data(), &o);
  }

  rapt_status backwards(AttentionResults<T> &results, const auto &call) {
    o.lse = results.lse.data();
    const rapt_attention_gradients g = gradients_of(results, dout);
    return call.attention_backward(q.data(), k.data(), v.data(), &o, &g);
  }
};

// For one query, more than two threads split the 1100 keys.
TEST_CASE_TEMPLATE("attention has the bits of the plain call", T, float, double) {
  for (const std::size_t q_len : Sizes{140, 350, 1}) {
    CAPTURE(q_len);
    Attention<T> of(q_len);
    Header::for_each([&](const char *name, const auto &call) {
      CAPTURE(name);
      AttentionResults<T> results = of.empty();
      REQUIRE(of.forwards(results, call) == RAPT_OK);
      REQUIRE(of.backwards(results, call) == RAPT_OK);
      CHECK(same_bits(results.out, of.expected.out));
      CHECK(same_bits(results.lse, of.expected.lse));
      CHECK(same_bits(results.dq, of.expected.dq));
      CHECK(same_bits(results.dk, of.expected.dk));
      CHECK(same_bits(results.dv, of.expected.dv));
      Header::check_memory();
    });
  }
}

// One token has two tasks, one per head, and six tasks if its keys are split.
TEST_CASE("keys are split where there are more threads than tasks") {
  Attention<float> of(1);
  const auto bodies = [&](std::size_t threads) {
    return Header::bodies(threads, [&](const auto &call) {
      AttentionResults<float> results = of.empty();
      REQUIRE(of.forwards(results, call) == RAPT_OK);
    });
  };
  CHECK(bodies(0) == std::vector<std::size_t>{});
  CHECK(bodies(1) == std::vector<std::size_t>{});
  CHECK(bodies(2) == std::vector<std::size_t>{2});
  CHECK(bodies(3) == std::vector<std::size_t>{3, 2});
  CHECK(bodies(16) == std::vector<std::size_t>{6, 2});
  of.o.kv_len = 512;
  CHECK(bodies(16) == std::vector<std::size_t>{2});
}

// ---- linear layers

// Layers of different types, shapes and weights. The second one has no rows.
struct Layers {
  std::vector<float> x, w, scales;
  std::vector<std::int8_t> bytes;
  std::vector<double> x64, w64, y64;
  std::vector<float> y[3];
  rapt_linear_options options[4];
  std::vector<Header::Work> work;

  Layers() {
    Random random(8);
    x = draw<float>(200 * 70, random);
    w = draw<float>(300 * 70, random);
    x64 = draw<double>(3 * 70, random);
    w64 = draw<double>(130 * 70, random);
    scales = draw<float>(150, random);
    for (int i = 0; i < 150 * 70; ++i) bytes.push_back(static_cast<std::int8_t>(i * 37 % 251 - 125));
    for (rapt_linear_options &o : options) {
      o = RAPT_LINEAR_OPTIONS_INIT;
      o.in_features = 70;
    }
    options[0].rows = 200;
    options[0].out_features = 300;
    options[1].out_features = 5;
    options[2].rows = 90;
    options[2].out_features = 150;
    options[2].w_type = RAPT_I8;
    options[2].w_scales = scales.data();
    options[3].rows = 3;
    options[3].out_features = 130;
    options[3].x_type = RAPT_F64;
    for (int i = 0; i < 3; ++i) y[i].resize(options[i].rows * options[i].out_features);
    y64.resize(3 * 130);
    work = {{x.data(), w.data(), y[0].data(), &options[0]},
            {x.data(), w.data(), y[1].data(), &options[1]},
            {x.data(), bytes.data(), y[2].data(), &options[2]},
            {x64.data(), w64.data(), y64.data(), &options[3]}};
  }
  Layers(const Layers &) = delete;
  Layers &operator=(const Layers &) = delete;

  void clear() {
    for (auto &of : y) std::fill(of.begin(), of.end(), -1.f);
    std::fill(y64.begin(), y64.end(), -1.);
  }
  bool is_clear() const {
    return std::all_of(
               std::begin(y), std::end(y),
               [](const auto &of) { return std::count(of.begin(), of.end(), -1.f) == std::ssize(of); }) &&
           std::count(y64.begin(), y64.end(), -1.) == std::ssize(y64);
  }
};

TEST_CASE("linear layers have the bits of the plain call") {
  Layers layers, expected;
  for (const Header::Work &of : expected.work) {
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_workspace(of.options, &bytes) == RAPT_OK);
    std::vector<std::byte> workspace(bytes);
    REQUIRE(rapt_linear(of.x, of.w, of.y, of.options, workspace.data(), bytes) == RAPT_OK);
  }
  Header::for_each([&](const char *name, const auto &call) {
    CAPTURE(name);
    for (const std::size_t first : Sizes{0, 1, 2, 3}) {
      for (std::size_t count = 0; first + count <= layers.work.size(); ++count) {
        CAPTURE(first);
        CAPTURE(count);
        layers.clear();
        REQUIRE(call.linear(layers.work.data() + first, count) == RAPT_OK);
        const auto computed = [&](std::size_t layer) { return first <= layer && layer < first + count; };
        for (const std::size_t i : Sizes{0, 1, 2}) {
          CHECK(same_bits(layers.y[i],
                          computed(i) ? expected.y[i] : std::vector<float>(expected.y[i].size(), -1.f)));
        }
        CHECK(same_bits(layers.y64,
                        computed(3) ? expected.y64 : std::vector<double>(expected.y64.size(), -1.)));
        Header::check_memory();
      }
    }
  });
}

TEST_CASE("layers are one list of tasks") {
  Layers layers;
  std::size_t tasks = 0;
  for (const Header::Work &of : layers.work) {
    std::size_t of_layer = 0;
    REQUIRE(rapt_linear_tasks(of.options, &of_layer) == RAPT_OK);
    tasks += of_layer;
  }
  for (const std::size_t threads : Sizes{SIZE_MAX / 8 + 1, SIZE_MAX}) {
    const std::vector<std::size_t> bodies = Header::bodies(threads, [&](const auto &call) {
      REQUIRE(call.linear(layers.work.data(), layers.work.size()) == RAPT_OK);
    });
    CHECK(bodies == std::vector<std::size_t>{tasks});
  }
}

// Five experts with packed weights, of which two have no rows.
struct Experts {
  static constexpr std::size_t inputs = 70, outputs = 150, count = 5;
  std::vector<float> x, w, y;
  std::vector<std::size_t> offsets = {0, 40, 40, 41, 250, 250}, x_rows;
  std::vector<unsigned char> packed;
  rapt_linear_options options = RAPT_LINEAR_OPTIONS_INIT;
  rapt_expert_options experts = RAPT_EXPERT_OPTIONS_INIT;

  Experts() {
    Random random(9);
    x = draw<float>(30 * inputs, random);
    w = draw<float>(count * outputs * inputs, random);
    for (std::size_t r = 0; r < 250; ++r) x_rows.push_back(r * 7 % 30);
    options.rows = 250;
    options.in_features = inputs;
    options.out_features = outputs;
    options.x_rows = x_rows.data();
    experts.experts = count;
    experts.offsets = offsets.data();
    std::size_t length = 0;
    REQUIRE(rapt_linear_packed_length(&options, &length) == RAPT_OK);
    packed.resize(count * length);
    for (std::size_t e = 0; e < count; ++e)
      REQUIRE(rapt_linear_pack(&w[e * outputs * inputs], 0, outputs, &options, &packed[e * length], length) ==
              RAPT_OK);
    options.packed_w = 1;
    experts.w_stride = static_cast<std::ptrdiff_t>(length);
    clear();
  }
  Experts(const Experts &) = delete;
  Experts &operator=(const Experts &) = delete;

  void clear() { y.assign(250 * outputs, -1.f); }
  bool is_clear() const { return std::count(y.begin(), y.end(), -1.f) == std::ssize(y); }
  template <class Call>
  rapt_status run(const Call &call) {
    return call.linear_experts(x.data(), packed.data(), y.data(), &options, &experts);
  }
};

TEST_CASE("experts have the bits of the plain call") {
  Experts of, expected;
  std::size_t bytes = 0;
  REQUIRE(rapt_linear_experts_workspace(&expected.options, &bytes) == RAPT_OK);
  std::vector<std::byte> workspace(bytes);
  REQUIRE(rapt_linear_experts(expected.x.data(), expected.packed.data(), expected.y.data(), &expected.options,
                              &expected.experts, workspace.data(), bytes) == RAPT_OK);
  Header::for_each([&](const char *name, const auto &call) {
    CAPTURE(name);
    of.clear();
    REQUIRE(of.run(call) == RAPT_OK);
    CHECK(same_bits(of.y, expected.y));
    Header::check_memory();
  });
}

TEST_CASE("a bad expert is found before any other has been computed") {
  Experts of;
  Header::for_each_thread_count([&](const auto &call) {
    for (const std::size_t expert : Sizes{0, 2, 3}) {
      unsigned char &of_header = of.packed[expert * static_cast<std::size_t>(of.experts.w_stride) + 9];
      of_header ^= 1;
      CHECK(of.run(call) == RAPT_BAD_PACKED);
      of_header ^= 1;
    }
    const rapt_expert_options good = of.experts;
    of.experts.size = 1;
    CHECK(of.run(call) == RAPT_BAD_EXPERTS);
    of.experts = good;
    of.options.in_features = 0;
    CHECK(of.run(call) == RAPT_BAD_SHAPE);
    of.options.in_features = Experts::inputs;
    const std::vector<std::size_t> none(Experts::count + 1);
    of.options.rows = 0;
    of.experts.offsets = none.data();
    CHECK(of.run(call) == RAPT_OK);
    of.options.rows = 250;
    of.experts = good;
    CHECK(of.is_clear());
  });
}

TEST_CASE("a batch has the bits of the plain call, and a bad one writes nothing") {
  constexpr std::size_t count = 7, rows = 20, inputs = 30, outputs = 140;
  Random random(10);
  const std::vector<float> x = draw<float>(count * rows * inputs, random),
                           w = draw<float>(count * outputs * inputs, random);
  std::vector<float> y(count * rows * outputs), expected(y.size());
  rapt_linear_options options = RAPT_LINEAR_OPTIONS_INIT;
  options.rows = rows, options.in_features = inputs, options.out_features = outputs;
  rapt_linear_batch_options batch = RAPT_LINEAR_BATCH_OPTIONS_INIT;
  batch.dims = 1, batch.shape[0] = count;
  std::size_t bytes = 0;
  REQUIRE(rapt_linear_batch_workspace(&options, &batch, &bytes) == RAPT_OK);
  std::vector<std::byte> workspace(bytes);
  REQUIRE(rapt_linear_batch(x.data(), w.data(), expected.data(), &options, &batch, workspace.data(), bytes) ==
          RAPT_OK);
  Header::for_each([&](const char *name, const auto &call) {
    CAPTURE(name);
    y.assign(y.size(), -1.f);
    CHECK(call.linear_batch(x.data(), y.data() + 1, y.data(), &options, &batch) == RAPT_BAD_OVERLAP);
    options.packed_w = 1;
    CHECK(call.linear_batch(x.data(), w.data(), y.data(), &options, &batch) == RAPT_BAD_PACKED);
    options.packed_w = 0;
    CHECK(std::count(y.begin(), y.end(), -1.f) == std::ssize(y));
    REQUIRE(call.linear_batch(x.data(), w.data(), y.data(), &options, &batch) == RAPT_OK);
    CHECK(same_bits(y, expected));
    Header::check_memory();
  });
}

// ---- work

// Checks many numbers of tasks, runs and threads. The tasks need not be a multiple of the runs.
TEST_CASE("runs hold every task once, in equal shares") {
  for (std::size_t tasks = 0; tasks < 40; ++tasks) {
    for (std::size_t runs = tasks == 0 ? 0 : 1; runs <= tasks; ++runs) {
      for (const std::size_t threads : Sizes{1, 3}) {
        std::size_t next = 0, seen = 0;
        const std::size_t share = runs == 0 ? 0 : tasks / runs;
        const auto visit = [&](std::size_t first, std::size_t last, void *) {
          REQUIRE(first == next);
          REQUIRE((last - first == share || last - first == share + 1));
          next = last;
          ++seen;
          return RAPT_OK;
        };
        REQUIRE(Header::run_tasks(tasks, runs, threads, visit) == RAPT_OK);
        REQUIRE(next == tasks);
        REQUIRE(seen == std::max<std::size_t>(runs, 1));
      }
    }
  }
}

TEST_CASE("falling runs begin with two shares of the mean and end with one task") {
  for (const std::size_t tasks : Sizes{1, 2, 7, 16, 64, 1000, std::size_t{1} << 40}) {
    for (const std::size_t runs : Sizes{1, 2, 3, 6, 48, 600}) {
      if (runs > tasks) continue;
      CAPTURE(tasks);
      CAPTURE(runs);
      std::size_t longest = 0, last = 0;
      REQUIRE(Header::falling_first(tasks, runs, 0) == 0);
      REQUIRE(Header::falling_first(tasks, runs, runs) == tasks);
      for (std::size_t i = 0; i < runs; ++i) {
        const std::size_t end = Header::falling_first(tasks, runs, i + 1);
        REQUIRE(end > Header::falling_first(tasks, runs, i));
        last = end - Header::falling_first(tasks, runs, i);
        longest = std::max(longest, last);
      }
      REQUIRE(longest <= 2 * tasks / runs + 2);
      REQUIRE(last <= tasks / runs / runs + 2);
    }
  }
}

// Each run waits until `expected` runs work at the same time. run_tasks(visit) has a workspace for each thread.
void check_at_work(std::size_t expected, const auto &run_tasks) {
  std::atomic<std::size_t> working{0}, most{0};
  std::mutex mutex;
  std::set<void *> in_use;
  bool shared = false;
  const auto visit = [&](std::size_t, std::size_t, void *workspace) {
    {
      const std::lock_guard lock(mutex);
      shared = shared || !in_use.insert(workspace).second;
    }
    const std::size_t now = ++working;
    for (std::size_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (most < expected && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (expected > 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // for an excess run to begin
    --working;
    const std::lock_guard lock(mutex);
    in_use.erase(workspace);
    return RAPT_OK;
  };
  REQUIRE(run_tasks(visit) == RAPT_OK);
  CHECK(most == expected);
  CHECK_FALSE(shared);
}

TEST_CASE("a status ends the work") {
  for (const std::size_t threads : Sizes{1, 2}) {
    std::size_t begun = 0;
    const auto visit = [&](std::size_t first, std::size_t, void *) {
      ++begun;
      return first == 0 ? RAPT_BAD_OVERLAP : RAPT_OK;
    };
    CHECK(Header::run_tasks(1000, 1000, threads, visit) == RAPT_BAD_OVERLAP);
    CHECK(begun == 1);
  }
}

// ---- errors

TEST_CASE("bad arguments of attention") {
  Header::for_each_thread_count([](const auto &call) {
    rapt_attention_options o = attention_options<float>();
    rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
    float x[4] = {};
    CHECK(call.attention(x, x, x, x, &o) == RAPT_BAD_DIM);
    CHECK(call.attention(x, x, x, x, nullptr) == RAPT_BAD_OPTIONS);
    CHECK(call.attention_backward(x, x, x, nullptr, &g) == RAPT_BAD_OPTIONS);
    o.q_len = o.kv_len = o.qk_dim = 1;
    CHECK(call.attention(x, x + 1, x + 2, x + 1, &o) == RAPT_BAD_OVERLAP);
    CHECK(call.attention(x, x + 1, nullptr, x + 3, &o) == RAPT_BAD_V);
    CHECK(call.attention_backward(x, x, x, &o, nullptr) == RAPT_BAD_GRADIENTS);
    CHECK(call.attention_backward(x, x, x, &o, &g) == RAPT_BAD_OUT);
  });
}

TEST_CASE("arguments are judged where there are no tasks") {
  Header::for_each_thread_count([](const auto &call) {
    rapt_attention_options o = attention_options<float>();
    o.q_len = 0;
    o.kv_len = o.qk_dim = 1;
    const std::int32_t too_long = 2;
    o.kv_lengths = &too_long;
    float x[4] = {};
    rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
    g.out = g.dout = g.dq = x;
    g.dk = x + 1;
    g.dv = x + 2;
    o.lse = x + 3;
    CHECK(call.attention(x, x, x, x, &o) == RAPT_BAD_KV_LENGTHS);
    CHECK(call.attention_backward(x, x, x, &o, &g) == RAPT_BAD_KV_LENGTHS);
  });
}

// For one query, 3 threads split the 600 keys. Neither the partial calls nor the merge can check all arguments.
TEST_CASE("split keys are refused as whole ones, and before anything is written") {
  Header::for_each_thread_count([](const auto &call) {
    rapt_attention_options o = attention_options<float>();
    o.q_len = 1;
    o.kv_len = 600;
    o.qk_dim = 1;
    const std::vector<float> q(1, 1), v(600, 2);
    std::vector<float> k(600, 1);
    CHECK(call.attention(q.data(), k.data(), v.data(), k.data() + 5, &o) == RAPT_BAD_OVERLAP);
    CHECK(k == std::vector<float>(600, 1));
    CHECK(call.attention(q.data(), k.data(), v.data(), nullptr, &o) == RAPT_BAD_OUT);
  });
}

TEST_CASE("a bad layer") {
  Layers layers;
  Header::for_each_thread_count([&](const auto &call) {
    layers.clear();
    for (const std::size_t i : Sizes{0, 2, 3}) {
      CAPTURE(i);
      const Header::Work good = layers.work[i];
      layers.work[i].w = nullptr;
      CHECK(call.linear(layers.work.data(), 4) == RAPT_BAD_W);
      layers.work[i] = good;
      layers.work[i].y = const_cast<void *>(good.x);
      CHECK(call.linear(layers.work.data(), 4) == RAPT_BAD_OVERLAP);
      layers.work[i] = good;
      layers.work[i].options = nullptr;
      CHECK(call.linear(layers.work.data(), 4) == RAPT_BAD_OPTIONS);
      layers.work[i] = good;
    }
    // Bad options of a later layer come before bad arrays.
    const auto first = layers.work[0], last = layers.work[3];
    layers.work[0].x = nullptr;
    layers.work[3].options = nullptr;
    CHECK(call.linear(layers.work.data(), 4) == RAPT_BAD_OPTIONS);
    layers.work[0] = first;
    layers.work[3] = last;
    layers.options[1].size = 1;  // the layer without rows
    CHECK(call.linear(layers.work.data(), 4) == RAPT_BAD_OPTIONS_SIZE);
    layers.options[1].size = sizeof(rapt_linear_options);
    CHECK(call.linear(layers.work.data(), 0) == RAPT_OK);
    CHECK(layers.is_clear());
  });
}

}  // namespace
}  // namespace rapt::test
