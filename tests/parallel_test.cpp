// Tests rapt/parallel.hpp. Each adapter calls every part once, at the same time as others. The results have
// the bits of the plain call for every number of threads. Every failure is thrown, and no thread is left
// running.
#include <doctest/doctest.h>
#ifdef RAPT_TEST_TBB
#include <oneapi/tbb/parallel_for.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#ifdef __GLIBC__
#include <pthread.h>
#endif

#include "rapt/parallel.hpp"
#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace {

enum class Failure { none, allocation, start_of_threads };
constexpr std::ptrdiff_t never = PTRDIFF_MAX;
// Counts how many more allocations may succeed, over all threads.
std::atomic<std::ptrdiff_t> allocations_left = never;
Failure failure = Failure::none;

#ifdef __GLIBC__
// Sets the stack size of new threads. No thread can start if its stack is larger than the address space.
void set_stack_of_threads(std::size_t bytes) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}
constexpr std::size_t ordinary_stack = std::size_t{8} << 20, impossible_stack = std::size_t{1} << 60;
#endif

}  // namespace

// operator new stores the size before each allocation, and a mark that nobody may overwrite after it.
constexpr std::size_t head_bytes = 16;
constexpr std::uint64_t end_mark = 0x5a17e57c0ffee5a5;

// The operators are not inlined. If gcc saw only one of the two, it would warn that free() does not match
// operator new.
[[gnu::noinline]] void *operator new(std::size_t size) {
  if (allocations_left != never && allocations_left-- <= 0) {
    if (failure == Failure::allocation) throw std::bad_alloc();
#ifdef __GLIBC__
    set_stack_of_threads(impossible_stack);
#endif
  }
  auto *const memory = static_cast<unsigned char *>(std::malloc(head_bytes + size + sizeof end_mark));
  if (memory == nullptr) throw std::bad_alloc();
  std::memcpy(memory, &size, sizeof size);
  std::memcpy(memory + head_bytes + size, &end_mark, sizeof end_mark);
  return memory + head_bytes;
}
[[gnu::noinline]] void operator delete(void *given) noexcept {
  if (given == nullptr) return;
  auto *const memory = static_cast<unsigned char *>(given) - head_bytes;
  std::size_t size = 0;
  std::memcpy(&size, memory, sizeof size);
  if (std::memcmp(memory + head_bytes + size, &end_mark, sizeof end_mark) != 0) {
    std::fprintf(stderr, "something was written behind an allocation of %zu bytes\n", size);
    std::abort();
  }
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept { ::operator delete(memory); }

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
    for (const std::size_t n : Sizes{1, 2, 3, 16}) {
      std::vector<std::atomic<int>> calls(n + 1);
      parts(n, [&](std::size_t i) { ++calls[i]; });
      CHECK(std::all_of(calls.begin(), calls.end() - 1, [](const auto &count) { return count == 1; }));
      CHECK(calls[n] == 0);
    }
  });
}

// oneTBB is left out, because it has as many threads as CPUs, which may be one.
TEST_CASE("parts of std_threads and OpenMP run at once") {
  const auto check = [](const auto &parts) {
    std::atomic<int> arrived{0};
    parts(2, [&](std::size_t) {
      ++arrived;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (arrived < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (arrived < 2) arrived = -10;
    });
    CHECK(arrived == 2);
  };
  check(std_threads);
#ifdef _OPENMP
  check(openmp);
#endif
}

// Returns how many parts of run_parts work at the same time at most. Each part waits until `expected` parts
// work.
std::size_t parts_at_work(std::size_t tasks, std::size_t runs, std::size_t threads, std::size_t expected) {
  std::atomic<std::size_t> working{0}, most{0};
  const auto run = [&](std::size_t, std::size_t, void *) {
    const std::size_t now = ++working;
    for (std::size_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (most < expected && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // time for an excess part to start
    --working;
    return RAPT_OK;
  };
  CHECK(rapt::detail::run_parts(tasks, runs, threads, 1, std_threads, run) == RAPT_OK);
  return most;
}

TEST_CASE("as many parts work as there are threads, tasks and runs") {
  CHECK(parts_at_work(8, 8, 1, 1) == 1);
  CHECK(parts_at_work(8, 8, 3, 3) == 3);
  CHECK(parts_at_work(1, 8, 3, 1) == 1);
  CHECK(parts_at_work(8, 2, 3, 2) == 2);
}

// Checks many numbers of tasks, runs and threads. The tasks need not be a multiple of the runs.
TEST_CASE("runs hold every task once, in equal shares") {
  for (std::size_t tasks = 1; tasks < 40; ++tasks) {
    for (const std::size_t runs : Sizes{1, 2, 3, 7, 16, 64}) {
      for (const std::size_t threads : Sizes{1, 3}) {
        std::vector<std::atomic<int>> done(tasks);
        std::atomic<std::size_t> calls{0};
        const std::size_t expected = std::min(tasks, runs);
        const auto run = [&](std::size_t first, std::size_t last, void *) {
          const std::size_t share = tasks / expected;
          if (last - first != share && last - first != share + 1) return RAPT_BAD_TASKS;
          for (std::size_t i = first; i < last; ++i) ++done[i];
          ++calls;
          return RAPT_OK;
        };
        const auto in_order = [](std::size_t n, const auto &body) {
          for (std::size_t i = 0; i < n; ++i) body(i);
        };
        REQUIRE(rapt::detail::run_parts(tasks, runs, threads, 1, in_order, run) == RAPT_OK);
        REQUIRE(std::all_of(done.begin(), done.end(), [](const auto &count) { return count == 1; }));
        REQUIRE(calls == expected);
      }
    }
  }
}

TEST_CASE("a status ends the work") {
  std::atomic<std::size_t> begun{0};
  const auto run = [&](std::size_t first, std::size_t, void *) {
    ++begun;
    return first == 0 ? RAPT_BAD_OVERLAP : RAPT_OK;
  };
  CHECK(rapt::detail::run_parts(1000, 1000, 1, 1, std_threads, run) == RAPT_BAD_OVERLAP);
  CHECK(begun == 1);
  CHECK(rapt::detail::run_parts(1000, 1000, 2, 1, std_threads, run) == RAPT_BAD_OVERLAP);
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

// With two heads, 140 queries make six tiles and 350 queries make twelve. Twelve is more than the eight runs
// of one thread, and not a multiple of eight. For one query, adapters split the 1100 keys.
TEST_CASE_TEMPLATE("forwards and backwards", T, float, double) {
  for (const std::size_t q_len : Sizes{140, 350, 1}) {
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
    o.q_type = o.kv_type = o.out_type = RAPT_TYPE_DEFAULT;  // taken from the pointers
    for_each_adapter([&](const auto &parts) {
      for (const std::size_t threads : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3},
                                        std::size_t{16}, SIZE_MAX / 8 + 1}) {
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

// One token has two tasks, one per head, and six tasks if its keys are split.
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
  CHECK(parallel_attention(x, x, x, x, nullptr, 2, std_threads) == RAPT_BAD_OPTIONS);
  CHECK(parallel_attention_backward(x, x, x, nullptr, &g, 2, std_threads) == RAPT_BAD_OPTIONS);
  o.q_len = o.kv_len = o.qk_dim = 1;
  CHECK(parallel_attention(x, x + 1, x + 2, x + 1, &o, 2, std_threads) == RAPT_BAD_OVERLAP);
  CHECK(parallel_attention(x, x + 1, nullptr, x + 3, &o, 2, std_threads) == RAPT_BAD_V);
  CHECK(parallel_attention_backward(x, x, x, &o, nullptr, 2, std_threads) == RAPT_BAD_GRADIENTS);
  CHECK(parallel_attention_backward(x, x, x, &o, &g, 2, std_threads) == RAPT_BAD_OUT);
}

TEST_CASE("arguments are judged where there are no tasks") {
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
  for (const std::size_t threads : Sizes{0, 1, 2}) {
    CAPTURE(threads);
    CHECK(parallel_attention(x, x, x, x, &o, threads, std_threads) == RAPT_BAD_KV_LENGTHS);
    CHECK(parallel_attention_backward(x, x, x, &o, &g, threads, std_threads) == RAPT_BAD_KV_LENGTHS);
  }
}

// For one query and 3 threads, adapters split the 600 keys. Neither the partial calls nor the merge can check
// all arguments.
TEST_CASE("split keys are refused as whole ones, and before anything is written") {
  rapt_attention_options o = attention_options<float>();
  o.q_len = 1;
  o.kv_len = 600;
  o.qk_dim = 1;
  const std::vector<float> q(1, 1), v(600, 2);
  std::vector<float> k(600, 1);
  CHECK(parallel_attention(q.data(), k.data(), v.data(), k.data() + 5, &o, 3, std_threads) ==
        RAPT_BAD_OVERLAP);
  CHECK(k == std::vector<float>(600, 1));
  CHECK(parallel_attention(q.data(), k.data(), v.data(), nullptr, &o, 3, std_threads) == RAPT_BAD_OUT);
}

// With one key the output is the value of that key.
template <class T>
void check_types(rapt_type type, T v) {
  rapt_attention_options o = rapt::attention_options();
  o.q_len = o.kv_len = o.qk_dim = 1;
  const T q{};
  T out = q;
  CHECK(parallel_attention(&q, &q, &v, &out, &o, 1, std_threads) == RAPT_OK);
  CHECK(out == v);
  out = q;
  const void *const untyped = &v;
  CHECK(parallel_attention(&q, untyped, untyped, static_cast<void *>(&out), &o, 1, std_threads) == RAPT_OK);
  CHECK(out == v);

  const rapt_type another = type == RAPT_F64 ? RAPT_F32 : RAPT_F64;
  double lse = 0, gradients[3] = {};
  rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
  g.out = g.dout = &v;
  g.dq = &gradients[0];
  g.dk = &gradients[1];
  g.dv = &gradients[2];
  o.lse = &lse;
  CHECK(parallel_attention_backward(&q, &q, &v, &o, &g, 1, std_threads) == RAPT_OK);
  for (rapt_type rapt_attention_options::*const named :
       {&rapt_attention_options::q_type, &rapt_attention_options::kv_type,
        &rapt_attention_options::out_type}) {
    rapt_attention_options wrong = o;
    wrong.*named = another;
    CHECK(parallel_attention(&q, &q, &v, &out, &wrong, 1, std_threads) == RAPT_BAD_TYPE);
    if (named == &rapt_attention_options::out_type) continue;
    CHECK(parallel_attention_backward(&q, &q, &v, &wrong, &g, 1, std_threads) == RAPT_BAD_TYPE);
  }
}

TEST_CASE("pointers set the types, and the options may not name other ones") {
  check_types(RAPT_F32, 1.5f);
  check_types(RAPT_F64, 1.5);
  check_types(RAPT_F16, f16::from_bits(0x3e00));
  check_types(RAPT_BF16, bf16::from_bits(0x3fc0));

  rapt_attention_options o = rapt::attention_options();
  o.q_len = o.kv_len = o.qk_dim = 1;
  const float x = 0;
  const f16 y = {};
  float out;
  CHECK(parallel_attention(&x, &x, &y, &out, &o, 1, std_threads) == RAPT_BAD_TYPE);
  CHECK(parallel_attention(&x, &y, &x, &out, &o, 1, std_threads) == RAPT_BAD_TYPE);
  CHECK(parallel_attention(&x, &y, &y, &out, &o, 1, std_threads) == RAPT_OK);
  const std::uint16_t unnamed = 0;
  CHECK(parallel_attention(&x, &unnamed, &unnamed, &out, &o, 1, std_threads) == RAPT_BAD_TYPE);
  o.kv_type = RAPT_BF16;
  CHECK(parallel_attention(&x, &unnamed, &unnamed, &out, &o, 1, std_threads) == RAPT_OK);
}

template <class Q, class KV = Q, class Out = Q>
constexpr bool is_callable = requires(const Q *q, const KV *k, Out *out, const rapt_attention_options *o) {
  parallel_attention(q, k, k, out, o, 1, std_threads);
};
static_assert(is_callable<float> && is_callable<bf16, std::int8_t, void>);
static_assert(!is_callable<int> && !is_callable<float, long double> && !is_callable<float, float, char>);

// Makes all allocations after the first k fail, or all starts of threads after them. Increases k until the
// call succeeds.
template <class Call>
void fail_at_each_allocation(Failure kind, const Call &call) {
  failure = kind;
  for (std::ptrdiff_t k = 0;; ++k) {
    REQUIRE(k < 200);
    CAPTURE(k);
    bool thrown = false;
    rapt_status status = RAPT_OK;
    allocations_left = k;
    try {
      status = call();
    } catch (const std::bad_alloc &) {
      thrown = kind == Failure::allocation;
      CHECK(thrown);
    } catch (const std::system_error &error) {
      thrown = true;
      CHECK(error.code() == std::errc::resource_unavailable_try_again);
    }
    const bool reached = allocations_left <= 0;
    allocations_left = never;
#ifdef __GLIBC__
    set_stack_of_threads(ordinary_stack);
#endif
    CHECK(status == RAPT_OK);
    if (!thrown && !reached) break;
  }
  failure = Failure::none;
}

TEST_CASE("what an allocation or the start of a thread throws comes out of the call") {
  rapt_attention_options o = attention_options<float>();
  o.q_len = 1;
  o.kv_len = 1100;
  o.qk_dim = 4;
  Random random(7);
  const auto q = draw<float>(300 * 4, random), k = draw<float>(1100 * 4, random);
  std::vector<float> out(q.size()), lse(300), dq(q.size()), dk(k.size()), dv(k.size());
  o.lse = lse.data();
  rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
  g.out = out.data();
  g.dout = q.data();
  g.dq = dq.data();
  g.dk = dk.data();
  g.dv = dv.data();
  for (const std::size_t q_len : Sizes{1, 300}) {
    o.q_len = q_len;
    const auto forwards = [&](const auto &parts) {
      return parallel_attention(q.data(), k.data(), k.data(), out.data(), &o, 3, parts);
    };
    const auto backwards = [&](const auto &parts) {
      return parallel_attention_backward(q.data(), k.data(), k.data(), &o, &g, 3, parts);
    };
    for_each_adapter([&](const auto &parts) {
      CHECK(forwards(parts) == RAPT_OK);  // starts the threads that an adapter keeps
      fail_at_each_allocation(Failure::allocation, [&] { return forwards(parts); });
      fail_at_each_allocation(Failure::allocation, [&] { return backwards(parts); });
    });
#ifdef __GLIBC__
    fail_at_each_allocation(Failure::start_of_threads, [&] { return forwards(std_threads); });
    fail_at_each_allocation(Failure::start_of_threads, [&] { return backwards(std_threads); });
#endif
  }
}

TEST_CASE("std_threads throws after every thread that it started has ended") {
  std::atomic<int> begun{0}, ended{0};
  const auto call = [&] {
    std_threads(4, [&](std::size_t) {
      ++begun;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++ended;
    });
    return RAPT_OK;
  };
  const auto checked = [&]() -> rapt_status {
    const auto check = [&] { REQUIRE(begun == ended); };
    try {
      call();
    } catch (...) {
      check();
      throw;
    }
    check();
    return RAPT_OK;
  };
  fail_at_each_allocation(Failure::allocation, checked);
#ifdef __GLIBC__
  fail_at_each_allocation(Failure::start_of_threads, checked);
#endif
  CHECK(begun >= 4);
}

}  // namespace
}  // namespace rapt::test
