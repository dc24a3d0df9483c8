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
#include "support/effort.hpp"

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
  use("std_threads", std_threads);
#ifdef _OPENMP
  use("OpenMP", openmp);
#endif
#ifdef RAPT_TEST_TBB
  use("oneTBB", tbb);
#endif
}

const auto in_order = [](std::size_t n, const auto &body) {
  for (std::size_t i = 0; i < n; ++i) body(i);
};

// Memory that a test gives to a call. Before each piece stands a mark that nobody may overwrite.
class Arena {
 public:
  void *operator()(std::size_t bytes) {
    CHECK_FALSE(is_running);
    bytes = (bytes + 15) / 16 * 16;
    REQUIRE(sizeof end_mark + bytes <= memory_.size() - used_);
    std::memcpy(&memory_[used_ + bytes], &end_mark, sizeof end_mark);
    marks_.push_back(used_ + bytes);
    used_ += bytes + 16;
    return &memory_[marks_.back() - bytes];
  }
  // Everything is free again.
  void check() {
    for (const std::size_t at : marks_) CHECK(std::memcmp(&memory_[at], &end_mark, sizeof end_mark) == 0);
    marks_.clear();
    used_ = 0;
  }

  bool is_running = false;

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(std::size_t{1} << 24);
  std::vector<std::size_t> marks_ = reserved();
  std::size_t used_ = 0;

  static std::vector<std::size_t> reserved() {
    std::vector<std::size_t> marks;
    marks.reserve(10000);
    return marks;
  }
};
Arena arena;

// A call with the arena takes its memory before the parts run, and else allocates.
const auto in_order_without_memory = [](std::size_t n, const auto &body) {
  arena.is_running = true;
  in_order(n, body);
  arena.is_running = false;
};

// ---- the cases of both headers

template <class Parts>
class Call {
 public:
  Call(std::size_t threads, const Parts &parts, Arena *memory = nullptr)
      : threads_(threads), parts_(parts), memory_(memory) {}

  // The pointers set the types.
  template <class Q, class K, class V, class Out>
  rapt_status attention(Q q, K k, V v, Out out, const rapt_attention_options *o) const {
    const rapt_attention_options untyped = without_types(o);
    const rapt_attention_options *const given = o ? &untyped : nullptr;
    if (memory_) return parallel_attention(q, k, v, out, given, threads_, parts_, *memory_);
    return parallel_attention(q, k, v, out, given, threads_, parts_);
  }
  template <class Q, class K, class V>
  rapt_status attention_backward(Q q, K k, V v, const rapt_attention_options *o,
                                 const rapt_attention_gradients *g) const {
    const rapt_attention_options untyped = without_types(o);
    const rapt_attention_options *const given = o ? &untyped : nullptr;
    if (memory_) return parallel_attention_backward(q, k, v, given, g, threads_, parts_, *memory_);
    return parallel_attention_backward(q, k, v, given, g, threads_, parts_);
  }
  rapt_status linear(const LinearWork *layers, std::size_t count) const {
    if (memory_) return parallel_linear({layers, count}, threads_, parts_, *memory_);
    return parallel_linear({layers, count}, threads_, parts_);
  }
  rapt_status linear_experts(const void *x, const void *w, void *y, const rapt_linear_options *o,
                             const rapt_expert_options *experts) const {
    if (memory_) return parallel_linear_experts({x, w, y, o}, experts, threads_, parts_, *memory_);
    return parallel_linear_experts({x, w, y, o}, experts, threads_, parts_);
  }
  rapt_status linear_batch(const void *x, const void *w, void *y, const rapt_linear_options *o,
                           const rapt_linear_batch_options *batch) const {
    if (memory_) return parallel_linear_batch({x, w, y, o}, *batch, threads_, parts_, *memory_);
    return parallel_linear_batch({x, w, y, o}, *batch, threads_, parts_);
  }

 private:
  static rapt_attention_options without_types(const rapt_attention_options *given) {
    rapt_attention_options o = given ? *given : rapt::attention_options();
    o.q_type = o.kv_type = o.out_type = RAPT_TYPE_DEFAULT;
    return o;
  }

  std::size_t threads_;
  const Parts &parts_;
  Arena *memory_;
};

struct Header {
  using Work = LinearWork;

  template <class Use>
  static void for_each(Use use) {
    for_each_adapter([&](const char *name, const auto &parts) {
      for (const std::size_t threads : Sizes{0, 1, 2, 3, 16, SIZE_MAX / 8 + 1, SIZE_MAX}) {
        CAPTURE(threads);
        use(name, Call(threads, parts));
      }
    });
    for (const std::size_t threads : Sizes{1, 3, 16}) {
      use("memory of the caller", Call(threads, in_order_without_memory, &arena));
    }
  }

  template <class Use>
  static void for_each_thread_count(Use use) {
    for (const std::size_t threads : Sizes{0, 1, 2, 3, 16}) {
      CAPTURE(threads);
      use(Call(threads, std_threads));
    }
  }

  template <class Use>
  static std::vector<std::size_t> bodies(std::size_t threads, Use use) {
    std::vector<std::size_t> counts;
    const auto count = [&](std::size_t n, const auto &body) {
      counts.push_back(n);
      in_order(n, body);
    };
    use(Call(threads, count));
    return counts;
  }

  static rapt_status run_tasks(std::size_t tasks, std::size_t runs, std::size_t threads, const auto &visit) {
    return rapt::detail::run_parts({tasks, runs}, threads, 1, in_order, visit);
  }

  static std::size_t falling_first(std::size_t tasks, std::size_t runs, std::size_t i) {
    return rapt::detail::Runs{tasks, runs, true}.first(i);
  }

  static void check_memory() { arena.check(); }  // of other calls operator delete does it
};

}  // namespace
}  // namespace rapt::test

#include "support/parallel_cases.hpp"

namespace rapt::test {
namespace {

// ---- adapters

TEST_CASE("every part is called once") {
  for_each_adapter([](const char *name, const auto &parts) {
    CAPTURE(name);
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

TEST_CASE("as many parts work as there are threads, tasks and runs") {
  const auto check = [](std::size_t tasks, std::size_t runs, std::size_t threads, std::size_t expected) {
    check_at_work(expected, [&](const auto &visit) {
      return rapt::detail::run_parts({tasks, runs}, threads, 1, std_threads, visit);
    });
  };
  check(8, 8, 1, 1);
  check(8, 8, 3, 3);
  check(1, 8, 3, 1);
  check(8, 2, 3, 2);
}

TEST_CASE("there are no more runs than tasks") {
  for (const std::size_t tasks : Sizes{1, 2, 15, 39}) {
    std::size_t seen = 0;
    const auto visit = [&](std::size_t first, std::size_t last, void *) {
      ++seen;
      return last - first == 1 ? RAPT_OK : RAPT_BAD_TASKS;
    };
    CHECK(Header::run_tasks(tasks, 64, 3, visit) == RAPT_OK);
    CHECK(seen == tasks);
  }
}

TEST_CASE("a status ends the work of two threads") {
  const auto visit = [](std::size_t first, std::size_t, void *) {
    return first == 0 ? RAPT_BAD_OVERLAP : RAPT_OK;
  };
  CHECK(rapt::detail::run_parts({1000, 1000}, 2, 1, std_threads, visit) == RAPT_BAD_OVERLAP);
}

TEST_CASE("with memory of the caller a call allocates nothing") {
  Layers layers;
  Experts experts;
  for (const std::size_t q_len : Sizes{1, 300}) {
    Attention<float> of(q_len);
    AttentionResults<float> results = of.empty();
    const Call call(3, in_order_without_memory, &arena);
    rapt_status statuses[4];
    failure = Failure::allocation;
    allocations_left = 0;
    statuses[0] = of.forwards(results, call);
    statuses[1] = of.backwards(results, call);
    statuses[2] = call.linear(layers.work.data(), 4);
    statuses[3] = experts.run(call);
    allocations_left = never;
    failure = Failure::none;
    for (const rapt_status status : statuses) CHECK(status == RAPT_OK);
    arena.check();
  }
}

// ---- several calls of attention

// A prompt in f32, tokens in f64 and f32, and a call without rows. Three threads split no keys, and 16 do.
struct Batch {
  Attention<float> prompt{140}, token{1}, none{0};
  Attention<double> another{1};
  AttentionResults<float> of_prompt = prompt.empty(), of_token = token.empty(), of_none = none.empty();
  AttentionResults<double> of_another = another.empty();
  std::vector<AttentionWork> calls = {call_of(prompt, of_prompt), call_of(another, of_another),
                                      call_of(none, of_none), call_of(token, of_token)};

  template <class T>
  static AttentionWork call_of(Attention<T> &of, AttentionResults<T> &results) {
    of.o.lse = results.lse.data();
    return {of.q.data(), of.k.data(), of.v.data(), results.out.data(), &of.o};
  }
  bool is_as_expected() const {
    return same_bits(of_prompt.out, prompt.expected.out) && same_bits(of_another.out, another.expected.out) &&
           same_bits(of_token.out, token.expected.out) && same_bits(of_prompt.lse, prompt.expected.lse) &&
           same_bits(of_another.lse, another.expected.lse) && same_bits(of_token.lse, token.expected.lse);
  }
};

TEST_CASE("several calls of attention have the bits of the plain calls") {
  for_each_adapter([](const char *name, const auto &parts) {
    CAPTURE(name);
    for (const std::size_t threads : Sizes{0, 1, 2, 3, 16, SIZE_MAX}) {
      CAPTURE(threads);
      Batch batch;
      REQUIRE(parallel_attention(batch.calls, threads, parts) == RAPT_OK);
      CHECK(batch.is_as_expected());
    }
  });
  for (const std::size_t threads : Sizes{1, 3, 16}) {
    Batch batch;
    REQUIRE(parallel_attention(batch.calls, threads, in_order_without_memory, arena) == RAPT_OK);
    arena.check();
    CHECK(batch.is_as_expected());
  }
  CHECK(parallel_attention(std::span<const AttentionWork>{}, 3, in_order) == RAPT_OK);
}

// The prompt has six tasks, and each token two: ten. Split, each token has six, and the prompt eighteen.
TEST_CASE("calls of attention are one list of tasks, and their keys are split where there are more threads") {
  const auto bodies = [](std::size_t threads) {
    Batch batch;
    std::vector<std::size_t> counts;
    const auto count = [&](std::size_t n, const auto &body) {
      counts.push_back(n);
      in_order(n, body);
    };
    REQUIRE(parallel_attention(batch.calls, threads, count) == RAPT_OK);
    return counts;
  };
  CHECK(bodies(10) == std::vector<std::size_t>{10});
  CHECK(bodies(11) == std::vector<std::size_t>{11, 10});
  CHECK(bodies(SIZE_MAX) == std::vector<std::size_t>{30, 10});
}

TEST_CASE("a bad call among several: none is computed") {
  for (const std::size_t threads : Sizes{0, 1, 3, 16}) {
    Batch batch;
    const auto judge = [&] { return parallel_attention(batch.calls, threads, std_threads); };
    for (const std::size_t i : Sizes{0, 1, 2, 3}) {
      const AttentionWork good = batch.calls[i];
      batch.calls[i].options = nullptr;
      CHECK(judge() == RAPT_BAD_OPTIONS);
      batch.calls[i] = good;
      if (i == 2) continue;  // without rows it needs no values
      batch.calls[i].v = nullptr;
      CHECK(judge() == RAPT_BAD_V);
      batch.calls[i] = good;
    }
    // Bad options of a later call come before bad arrays.
    batch.calls[0].v = nullptr;
    batch.token.o.qk_dim = 0;
    CHECK(judge() == RAPT_BAD_DIM);
    const auto zero = [](const auto &numbers) {
      return std::all_of(numbers.begin(), numbers.end(), [](auto number) { return number == 0; });
    };
    CHECK((zero(batch.of_prompt.out) && zero(batch.of_another.out) && zero(batch.of_token.out)));
  }
}

// ---- types

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
  const double z = 0;
  CHECK(parallel_attention(&x, &x, &y, &out, &o, 1, std_threads) == RAPT_OK);
  CHECK(parallel_attention(&x, &y, &x, &out, &o, 1, std_threads) == RAPT_OK);
  CHECK(parallel_attention(&x, &x, &z, &out, &o, 1, std_threads) == RAPT_BAD_TYPE);
  o.v_type = RAPT_BF16;
  CHECK(parallel_attention(&x, &x, &y, &out, &o, 1, std_threads) == RAPT_BAD_TYPE);
  o.v_type = RAPT_TYPE_DEFAULT;
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
  Layers layers;
  Experts experts;
  for (const std::size_t q_len : Sizes{1, 300}) {
    Attention<float> of(q_len);
    AttentionResults<float> results = of.empty();
    const auto fail = [&](Failure kind, const auto &call) {
      fail_at_each_allocation(kind, [&] { return of.forwards(results, call); });
      fail_at_each_allocation(kind, [&] { return of.backwards(results, call); });
      fail_at_each_allocation(kind, [&] { return call.linear(layers.work.data(), 4); });
      fail_at_each_allocation(kind, [&] { return experts.run(call); });
    };
    for_each_adapter([&](const char *name, const auto &parts) {
      CAPTURE(name);
      const Call call(3, parts);
      CHECK(of.forwards(results, call) == RAPT_OK);  // starts the threads that an adapter keeps
      fail(Failure::allocation, call);
    });
#ifdef __GLIBC__
    fail(Failure::start_of_threads, Call(3, std_threads));
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
