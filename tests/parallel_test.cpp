// rapt/parallel.hpp: each adapter calls every part once and at the same time as others, and the results have
// the bits of the plain call for every number of threads.
#include <doctest/doctest.h>
#ifdef RAPT_TEST_TBB
#include <oneapi/tbb/parallel_for.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "rapt/parallel.hpp"
#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

template <class Use>
void for_each_adapter(Use use) {
  use(std_threads);
#ifdef _OPENMP
  use(openmp);
#endif
#ifdef RAPT_TEST_TBB
  use(tbb);
#endif
}

TEST_CASE("every part is called once") {
  for_each_adapter([](const auto &parts) {
    for (const std::size_t n : {1, 2, 3, 16}) {
      std::vector<std::atomic<int>> calls(n + 1);
      parts(n, [&](std::size_t i) { ++calls[i]; });
      CHECK(std::all_of(calls.begin(), calls.end() - 1, [](const auto &count) { return count == 1; }));
      CHECK(calls[n] == 0);
    }
  });
}

// How many parts of run_parts take tasks, each of which waits a little for the others.
std::size_t parts_at_work(std::size_t tasks, std::size_t runs, std::size_t threads) {
  std::atomic<std::size_t> working{0}, most{0};
  const auto run = [&](std::size_t, std::size_t, void *) {
    most = std::max<std::size_t>(most, ++working);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    --working;
    return RAPT_OK;
  };
  CHECK(detail::run_parts(tasks, runs, threads, 1, std_threads, run) == RAPT_OK);
  return most;
}

TEST_CASE("as many parts work as there are threads, tasks and runs") {
  CHECK(parts_at_work(8, 8, 1) == 1);
  CHECK(parts_at_work(8, 8, 3) > 1);
  CHECK(parts_at_work(1, 8, 3) == 1);
}

TEST_CASE("a status ends the work") {
  std::atomic<std::size_t> begun{0};
  const auto run = [&](std::size_t first, std::size_t, void *) {
    ++begun;
    return first == 0 ? RAPT_BAD_OVERLAP : RAPT_OK;
  };
  CHECK(detail::run_parts(1000, 1000, 1, 1, std_threads, run) == RAPT_BAD_OVERLAP);
  CHECK(begun == 1);
  CHECK(detail::run_parts(1000, 1000, 2, 1, std_threads, run) == RAPT_BAD_OVERLAP);
  CHECK(detail::run_parts(0, 8, 2, 1, std_threads, run) == RAPT_OK);
}

template <class T>
std::vector<T> draw(std::size_t count, Random &random) {
  std::vector<T> numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(static_cast<T>(random.gaussian()));
  return numbers;
}

template <class T>
bool equal(const std::vector<T> &a, const std::vector<T> &b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same_bits<T>);
}

// 140 queries are three tiles of a head; a query over 1100 keys splits them.
TEST_CASE_TEMPLATE("forwards and backwards", T, float, double) {
  for (const std::size_t q_len : {140, 1}) {
    CAPTURE(q_len);
    constexpr std::size_t heads = 2, dim = 16, kv_len = 1100;
    rapt_attention_options o = attention_options<T>();
    o.q_heads = heads;
    o.q_len = q_len;
    o.kv_len = kv_len;
    o.qk_dim = dim;
    o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    Random random(5);
    const auto q = draw<T>(heads * q_len * dim, random), k = draw<T>(heads * kv_len * dim, random),
               v = draw<T>(heads * kv_len * dim, random), dout = draw<T>(q.size(), random);
    AttentionResults<T> expected;
    expected.out.resize(q.size());
    expected.lse.resize(heads * q_len);
    run_attention(q, k, v, o, expected);
    run_attention_backward(q, k, v, dout, o, T(0), expected);
    for_each_adapter([&](const auto &parts) {
      for (const std::size_t threads : {1, 2, 3, 16}) {
        CAPTURE(threads);
        AttentionResults<T> results;
        results.out.resize(q.size());
        results.lse.resize(expected.lse.size());
        results.dq.resize(q.size());
        results.dk.resize(k.size());
        results.dv.resize(v.size());
        o.lse = results.lse.data();
        REQUIRE(parallel_attention(q.data(), k.data(), v.data(), results.out.data(), &o, threads, parts) ==
                RAPT_OK);
        rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
        g.out = results.out.data();
        g.dout = dout.data();
        g.dq = results.dq.data();
        g.dk = results.dk.data();
        g.dv = results.dv.data();
        REQUIRE(parallel_attention_backward(q.data(), k.data(), v.data(), &o, &g, threads, parts) == RAPT_OK);
        CHECK(equal(results.out, expected.out));
        CHECK(equal(results.lse, expected.lse));
        CHECK(equal(results.dq, expected.dq));
        CHECK(equal(results.dk, expected.dk));
        CHECK(equal(results.dv, expected.dv));
      }
    });
  }
}

// A token of two heads has two tasks; its partial results have six.
TEST_CASE("keys are split where there are more threads than tasks") {
  rapt_attention_options o = attention_options<float>();
  o.q_heads = 2;
  o.q_len = 1;
  o.kv_len = 1100;
  o.qk_dim = 4;
  Random random(6);
  const auto q = draw<float>(8, random), k = draw<float>(2 * 1100 * 4, random);
  std::vector<float> out(8);
  const auto parts_of = [&](std::size_t threads) {
    std::vector<std::size_t> parts;
    const auto count = [&](std::size_t n, const auto &body) {
      parts.push_back(n);
      for (std::size_t i = 0; i < n; ++i) body(i);
    };
    REQUIRE(parallel_attention(q.data(), k.data(), k.data(), out.data(), &o, threads, count) == RAPT_OK);
    return parts;
  };
  CHECK(parts_of(1) == std::vector<std::size_t>{});
  CHECK(parts_of(2) == std::vector<std::size_t>{2});
  CHECK(parts_of(3) == std::vector<std::size_t>{3, 2});
  CHECK(parts_of(16) == std::vector<std::size_t>{6, 2});
  o.kv_len = 512;
  CHECK(parts_of(16) == std::vector<std::size_t>{2});
}

TEST_CASE("bad arguments") {
  rapt_attention_options o = attention_options<float>();
  rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
  float x[4] = {};
  CHECK(parallel_attention(x, x, x, x, &o, 2, std_threads) == RAPT_BAD_DIM);
  o.q_len = o.kv_len = o.qk_dim = 1;
  CHECK(parallel_attention(x, x + 1, x + 2, x + 1, &o, 2, std_threads) == RAPT_BAD_OVERLAP);
  CHECK(parallel_attention(x, x + 1, nullptr, x + 3, &o, 2, std_threads) == RAPT_BAD_V);
  CHECK(parallel_attention_backward(x, x, x, nullptr, &g, 2, std_threads) != RAPT_OK);
}

}  // namespace
}  // namespace rapt::test
