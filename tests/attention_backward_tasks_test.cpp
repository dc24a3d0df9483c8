// Tests the tasks of attention's gradient: their number, and that each task writes different elements. In any
// order, and on several threads, the tasks must give the bits of a call without tasks.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

constexpr std::ptrdiff_t repeat = RAPT_REPEAT;

struct Shape {
  const char *name;
  std::size_t batch, q_heads, kv_heads, q_len, kv_len;
  bool causal = false;
  std::size_t window = 0;
  bool ragged = false;
  bool dsinks = false;
  bool dbias = false;
  rapt_strides bias_strides = {0, 0, 0};  // {0, 0, 0}: no element is repeated
};

// These shapes cover every kind of sum that is divided among tasks. One task adds several, one or no blocks
// of keys, or several, one or no tiles of rows.
constexpr Shape shapes[] = {
    {"heads", 1, 4, 2, 150, 200},
    {"causal", 1, 2, 2, 300, 300, true},
    {"causal, more queries than keys", 1, 1, 1, 330, 140, true},
    {"multi-query", 1, 6, 1, 70, 270, true},
    {"window", 1, 1, 1, 500, 500, true, 70},
    {"ragged", 3, 4, 2, 170, 200, true, 0, true, true},
    {"a block of keys", 1, 2, 1, 200, 64},
    {"a tile of rows", 1, 1, 1, 64, 300},
    {"dsinks", 3, 4, 2, 130, 140, false, 0, false, true},
    {"dbias of its own", 2, 2, 2, 90, 190, false, 0, false, false, true},
    {"dbias over sequences", 3, 2, 2, 90, 190, true, 0, false, true, true, {repeat, 90 * 190, 190}},
    {"dbias over heads", 2, 4, 2, 90, 190, true, 0, true, false, true, {90 * 190, repeat, 190}},
    {"dbias over all", 2, 4, 2, 140, 150, true, 0, false, true, true, {repeat, repeat, 150}},
    {"dbias of a row of keys", 2, 2, 2, 140, 150, false, 0, false, true, true, {repeat, repeat, repeat}},
    {"ragged, dbias of its own", 3, 4, 2, 90, 200, true, 0, true, false, true},
    {"ragged, dbias over sequences", 3, 4, 2, 170, 400, false, 0, true, true, true, {repeat, 170 * 400, 400}},
    {"ragged, dbias over all", 3, 4, 2, 170, 400, true, 90, true, true, true, {repeat, repeat, 400}},
};

// Returns all shapes, or every third one in an emulator or under a sanitizer.
std::vector<Shape> chosen_shapes() {
  std::vector<Shape> chosen;
  for (std::size_t i = 0; i < std::size(shapes); i += native_or_emulated<std::size_t>(1, 3)) {
    chosen.push_back(shapes[i]);
  }
  return chosen;
}

template <class T>
class SplitCall {
 public:
  static constexpr T unwritten = -77;

  explicit SplitCall(const Shape &shape) : options_(attention_options<T>()) {
    constexpr std::size_t qk_dim = 9, v_dim = 6;
    rapt_attention_options &o = options_;
    o.batch = shape.batch;
    o.q_heads = shape.q_heads;
    o.kv_heads = shape.kv_heads;
    o.q_len = shape.q_len;
    o.kv_len = shape.kv_len;
    o.qk_dim = qk_dim;
    o.v_dim = v_dim;
    if (shape.causal) o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    o.window_left = shape.window;
    std::size_t q_tokens = o.batch * o.q_len, kv_tokens = o.batch * o.kv_len;
    if (shape.ragged) {
      // The first sequence is whole, and the second has no queries. The last has less than a tile of queries
      // and less than a block of keys.
      const auto q_len = static_cast<std::int32_t>(o.q_len), kv_len = static_cast<std::int32_t>(o.kv_len);
      q_offsets_ = {0, q_len, q_len, q_len + 21};
      kv_offsets_ = {0, kv_len, 2 * kv_len - 7, 2 * kv_len + 50};
      kv_lengths_ = {kv_len - 70, kv_len - 7, 43};
      o.q_offsets = q_offsets_.data();
      o.kv_offsets = kv_offsets_.data();
      o.kv_lengths = kv_lengths_.data();
      q_tokens = static_cast<std::size_t>(q_offsets_[o.batch]);
      kv_tokens = static_cast<std::size_t>(kv_offsets_[o.batch]);
    }
    Random random(shape.q_len);
    const auto draw = [&](std::vector<T> &values, std::size_t count) {
      values.resize(count);
      for (T &value : values) value = static_cast<T>(random.gaussian());
      return values.data();
    };
    const std::size_t rows = q_tokens * o.q_heads, keys = kv_tokens * o.kv_heads;
    draw(q_, rows * qk_dim);
    draw(k_, keys * qk_dim);
    draw(v_, keys * v_dim);
    g_.dout = draw(dout_, rows * v_dim);
    std::size_t bias = 0;
    if (shape.dbias) {
      const rapt_strides &s = o.bias_strides = shape.bias_strides;
      bias = (s.batch == repeat ? 1 : o.batch) * (s.head == repeat ? 1 : o.q_heads) *
             (s.token == repeat ? 1 : o.q_len) * o.kv_len;
      o.bias = draw(bias_, bias);
    }
    if (shape.dsinks) o.sinks = draw(sinks_, o.q_heads);
    forward_.out.resize(rows * v_dim);
    forward_.lse.resize(rows);
    run_attention(q_, k_, v_, options_, forward_);
    g_.out = forward_.out.data();
    results.assign(rows * qk_dim + keys * (qk_dim + v_dim) + bias + (shape.dsinks ? o.q_heads : 0),
                   unwritten);
    T *at = results.data();
    g_.dq = std::exchange(at, at + rows * qk_dim);
    g_.dk = std::exchange(at, at + keys * qk_dim);
    g_.dv = std::exchange(at, at + keys * v_dim);
    if (shape.dbias) g_.dbias = std::exchange(at, at + bias);
    if (shape.dsinks) g_.dsinks = at;
    REQUIRE(rapt_attention_backward_tasks(&options_, &g_, &tasks) == RAPT_OK);
  }

  void forget_results() { std::fill(results.begin(), results.end(), unwritten); }
  // Contains no doctest checks, because several threads call run().
  rapt_status run(std::size_t first, std::size_t last) const {
    std::size_t bytes = 0;
    (void)rapt_attention_backward_workspace(&options_, &bytes);
    std::vector<unsigned char> workspace(bytes, canary);
    return rapt_attention_backward_run(q_.data(), k_.data(), v_.data(), &options_, &g_, first, last,
                                       workspace.data(), bytes);
  }
  std::vector<T> whole() {
    forget_results();
    std::vector<unsigned char> workspace = workspace_for(options_, rapt_attention_backward_workspace);
    REQUIRE(rapt_attention_backward(q_.data(), k_.data(), v_.data(), &options_, &g_, workspace.data(),
                                    workspace.size()) == RAPT_OK);
    return results;
  }

  std::vector<T> results;  // all gradients
  std::size_t tasks = 0;

 private:
  rapt_attention_options options_;
  rapt_attention_gradients g_ = RAPT_ATTENTION_GRADIENTS_INIT;
  std::vector<T> q_, k_, v_, dout_, bias_, sinks_;
  std::vector<std::int32_t> q_offsets_, kv_offsets_, kv_lengths_;
  AttentionResults<T> forward_;
};

template <class T>
std::size_t differences(const std::vector<T> &got, const std::vector<T> &expected) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) count += !same_bits(got[i], expected[i]);
  return count;
}

}  // namespace

TEST_CASE_TEMPLATE("each element belongs to one task, which has the bits of the whole call", T, float,
                   double) {
  on_every_level([] {
    for (const Shape &shape : chosen_shapes()) {
      CAPTURE(std::string(shape.name));
      SplitCall<T> call(shape);
      const std::vector<T> expected = call.whole();
      CHECK(std::count(expected.begin(), expected.end(), call.unwritten) == 0);
      std::vector<unsigned> writers(expected.size());
      std::size_t wrong = 0;
      for (std::size_t task = 0; task < call.tasks; ++task) {
        call.forget_results();
        REQUIRE(call.run(task, task + 1) == RAPT_OK);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          if (same_bits(call.results[i], call.unwritten)) continue;
          writers[i] += 1;
          wrong += !same_bits(call.results[i], expected[i]);
        }
      }
      CHECK(wrong == 0);
      CHECK(std::count(writers.begin(), writers.end(), 1u) == static_cast<std::ptrdiff_t>(writers.size()));
    }
  });
}

TEST_CASE_TEMPLATE("tasks on up to 16 threads", T, float, double) {
  on_every_level([] {
    for (const Shape &shape : chosen_shapes()) {
      CAPTURE(std::string(shape.name));
      SplitCall<T> call(shape);
      const std::vector<T> expected = call.whole();
      for (std::size_t threads = 1; threads <= 16; threads += native_or_emulated<std::size_t>(1, 5)) {
        CAPTURE(threads);
        call.forget_results();
        std::vector<rapt_status> status(threads);
        std::vector<std::thread> pool;
        for (std::size_t t = 0; t < threads; ++t) {
          pool.emplace_back(
              [&, t] { status[t] = call.run(call.tasks * t / threads, call.tasks * (t + 1) / threads); });
        }
        for (std::thread &thread : pool) thread.join();
        CHECK(std::count(status.begin(), status.end(), RAPT_OK) == static_cast<std::ptrdiff_t>(threads));
        CHECK(differences(call.results, expected) == 0);
      }
    }
  });
}

TEST_CASE_TEMPLATE("runs of any tasks in any order", T, float, double) {
  on_every_level([] {
    Random random(7);
    for (const Shape &shape : chosen_shapes()) {
      CAPTURE(std::string(shape.name));
      SplitCall<T> call(shape);
      const std::vector<T> expected = call.whole();
      for (int round = 0; round < native_or_emulated(6, 2); ++round) {
        std::vector<std::pair<std::size_t, std::size_t>> runs;
        for (std::size_t first = 0; first < call.tasks; first = runs.back().second) {
          runs.emplace_back(first, first + random.below(std::min<std::size_t>(call.tasks - first, 9) + 1));
        }
        for (std::size_t i = runs.size(); i > 1; --i) std::swap(runs[i - 1], runs[random.below(i)]);
        call.forget_results();
        for (const auto &[first, last] : runs) REQUIRE(call.run(first, last) == RAPT_OK);
        CHECK(differences(call.results, expected) == 0);
      }
    }
  });
}

// Each call has at least 64 tasks, unless it has too few blocks of keys or tiles of rows. If dbias sums over
// heads or sequences, they share one set of tasks. dsinks has no such effect.
TEST_CASE("the number of tasks") {
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
  o.qk_dim = 8;
  float number = 0;
  struct Count {
    std::size_t batch, q_heads, kv_heads, q_len, kv_len, tasks;
    bool dbias = false, dsinks = false;
    rapt_strides bias_strides = {0, 0, 0};
  };
  for (const Count &count : {Count{1, 32, 8, 4096, 4096, 64},
                             {1, 32, 1, 4096, 4096, 64},
                             {1, 32, 32, 4096, 4096, 64},
                             {1, 40, 40, 4096, 4096, 80},
                             {2, 32, 32, 4096, 4096, 64},
                             {16, 32, 8, 4096, 4096, 128},
                             {1, 8, 8, 128, 128, 16},
                             {1, 32, 1, 1, 4096, 1},
                             {1, 32, 1, 4096, 1, 1},
                             {1, 8, 8, 0, 4096, 8},
                             {1, 8, 8, 4096, 0, 8},
                             {3, 8, 4, 200, 200, 48},
                             {3, 8, 4, 200, 200, 48, true},
                             {3, 8, 4, 200, 200, 48, true, false, {9, 8, repeat}},
                             {3, 8, 4, 200, 200, 48, false, true},
                             {3, 8, 4, 200, 200, 16, true, false, {repeat, 8, repeat}},
                             {3, 8, 4, 200, 200, 12, true, false, {9, repeat, 7}},
                             {3, 8, 4, 200, 200, 12, true, true, {9, repeat, 7}},
                             {3, 8, 4, 200, 200, 4, true, false, {repeat, repeat, repeat}}}) {
    o.batch = count.batch;
    o.q_heads = count.q_heads;
    o.kv_heads = count.kv_heads;
    o.q_len = count.q_len;
    o.kv_len = count.kv_len;
    o.bias = count.dbias ? &number : nullptr;
    o.bias_strides = count.bias_strides;
    o.sinks = count.dsinks ? &number : nullptr;
    rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
    g.dbias = count.dbias ? &number : nullptr;
    g.dsinks = count.dsinks ? &number : nullptr;
    std::size_t tasks = 0;
    REQUIRE(rapt_attention_backward_tasks(&o, &g, &tasks) == RAPT_OK);
    CHECK(tasks == count.tasks);
  }
}
