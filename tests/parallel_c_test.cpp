// Tests rapt/parallel.h. Every pool and every number of threads gives the bits of the plain call. Nothing is
// written if an argument is bad or memory is short, and all memory is freed.
#include <doctest/doctest.h>
#ifdef RAPT_TEST_TBB
#include <oneapi/tbb/parallel_for.h>
#endif
#include <pthread.h>
#include <stdlib.h>  // before the names of malloc and free change

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace {

// malloc and free of the header. Guard bytes follow each allocation.
constexpr std::ptrdiff_t never = PTRDIFF_MAX;
constexpr unsigned char guard = 0xa5;
constexpr std::size_t guard_bytes = 64;
std::ptrdiff_t allocations_left = never;
std::map<void *, std::size_t> allocations;
std::mutex allocations_mutex;
bool guards_are_whole = true;

void *counted_malloc(std::size_t bytes) {
  const std::lock_guard lock(allocations_mutex);
  if (allocations_left != never && allocations_left-- <= 0) return nullptr;
  if (bytes > std::size_t{1} << 40) return nullptr;
  auto *const memory = static_cast<unsigned char *>(std::malloc(bytes + guard_bytes));
  if (memory == nullptr) return nullptr;
  std::memset(memory, 0xff, bytes);  // NaN, so that a result that reads it shows
  std::memset(memory + bytes, guard, guard_bytes);
  allocations[memory] = bytes;
  return memory;
}

void counted_free(void *memory) {
  if (memory == nullptr) return;
  const std::lock_guard lock(allocations_mutex);
  const unsigned char *const end = static_cast<unsigned char *>(memory) + allocations.at(memory);
  guards_are_whole = guards_are_whole && std::count(end, end + guard_bytes, guard) == guard_bytes;
  allocations.erase(memory);
  std::free(memory);
}

}  // namespace

#define malloc counted_malloc
#define free counted_free
#include "rapt/parallel.h"
#undef malloc
#undef free

#include "support/effort.hpp"

namespace rapt::test {
namespace {

// ---- pools

// Keeps its threads. Each takes the next index when it has finished one.
class PthreadPool {
 public:
  explicit PthreadPool(std::size_t threads) : threads_(threads) {
    for (pthread_t &thread : threads_) REQUIRE(pthread_create(&thread, nullptr, work, this) == 0);
  }
  PthreadPool(const PthreadPool &) = delete;
  PthreadPool &operator=(const PthreadPool &) = delete;
  ~PthreadPool() {
    pthread_mutex_lock(&mutex_);
    ended_ = true;
    pthread_cond_broadcast(&changed_);
    pthread_mutex_unlock(&mutex_);
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  }

  static void run(void *given, std::size_t count, rapt_parallel_body body, void *context) {
    auto &pool = *static_cast<PthreadPool *>(given);
    pthread_mutex_lock(&pool.mutex_);
    pool.body_ = body;
    pool.context_ = context;
    pool.count_ = pool.left_ = count;
    pool.next_ = 0;
    pthread_cond_broadcast(&pool.changed_);
    while (pool.left_ > 0) pthread_cond_wait(&pool.changed_, &pool.mutex_);
    pthread_mutex_unlock(&pool.mutex_);
  }

 private:
  static void *work(void *given) {
    auto &pool = *static_cast<PthreadPool *>(given);
    pthread_mutex_lock(&pool.mutex_);
    while (!pool.ended_) {
      if (pool.next_ == pool.count_) {
        pthread_cond_wait(&pool.changed_, &pool.mutex_);
        continue;
      }
      const std::size_t index = pool.next_++;
      pthread_mutex_unlock(&pool.mutex_);
      pool.body_(pool.context_, index);
      pthread_mutex_lock(&pool.mutex_);
      if (--pool.left_ == 0) pthread_cond_broadcast(&pool.changed_);
    }
    pthread_mutex_unlock(&pool.mutex_);
    return nullptr;
  }

  std::vector<pthread_t> threads_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed_ = PTHREAD_COND_INITIALIZER;
  rapt_parallel_body body_ = nullptr;
  void *context_ = nullptr;
  std::size_t count_ = 0, next_ = 0, left_ = 0;
  bool ended_ = false;
};

void in_reverse(void *, std::size_t count, rapt_parallel_body body, void *context) {
  while (count-- > 0) body(context, count);
}

// What a pool must not do, and what does no harm.
void cancelled(void *, std::size_t, rapt_parallel_body, void *) {}
void without_the_first(void *, std::size_t count, rapt_parallel_body body, void *context) {
  for (std::size_t i = 1; i < count; ++i) body(context, i);
}
void twice_at_once(void *pool, std::size_t count, rapt_parallel_body body, void *context) {
  struct Both {
    rapt_parallel_body body;
    void *context;
    std::size_t count;
  } both{body, context, count};
  PthreadPool::run(
      pool, 2 * count,
      [](void *given, std::size_t i) {
        const Both &of = *static_cast<Both *>(given);
        of.body(of.context, i % of.count);
      },
      &both);
}

constexpr std::size_t thread_counts[] = {0, 1, 2, 3, 16, SIZE_MAX / 8 + 1, SIZE_MAX};

template <class Use>
void for_each_pool(Use use) {
  PthreadPool pthreads(3);  // often fewer than a call may use
  use("none", static_cast<const rapt_pool *>(nullptr));
  const auto with = [&](const char *name, rapt_pool pool) {
    for (const std::size_t threads : thread_counts) {
      CAPTURE(threads);
      pool.threads = threads;
      use(name, &pool);
    }
  };
  with("zeros", rapt_pool{});
  with("reverse", {in_reverse, nullptr, 0});
  with("pthreads", {PthreadPool::run, &pthreads, 0});
  with("cancelled", {cancelled, nullptr, 0});
  with("without the first", {without_the_first, nullptr, 0});
  with("twice", {twice_at_once, &pthreads, 0});
#ifdef _OPENMP
  with("OpenMP", rapt_openmp_pool(0));
#endif
#ifdef RAPT_TEST_TBB
  with("oneTBB", {[](void *, size_t count, rapt_parallel_body body, void *context) {
                    oneapi::tbb::parallel_for(size_t{0}, count, [=](size_t i) { body(context, i); });
                  },
                  nullptr, 0});
#endif
}

// Records how many bodies each call of the pool has.
struct Counts {
  std::vector<std::size_t> counts;
  static void run(void *pool, std::size_t count, rapt_parallel_body body, void *context) {
    static_cast<Counts *>(pool)->counts.push_back(count);
    in_reverse(nullptr, count, body, context);
  }
};

void check_memory() {
  CHECK(allocations.empty());
  CHECK(guards_are_whole);
}

// What raptp_run_tasks() runs.
struct VisitedCall : raptp_call {
  std::function<rapt_status(std::size_t first, std::size_t last, void *workspace)> visit;
};

rapt_status run_tasks(std::size_t tasks, std::size_t runs, const rapt_pool *pool,
                      std::function<rapt_status(std::size_t, std::size_t, void *)> visit) {
  VisitedCall call = {};
  call.run = [](const raptp_call *of, std::size_t first, std::size_t last, void *workspace) {
    std::memset(workspace, 0, of->workspace_bytes);
    return static_cast<const VisitedCall *>(of)->visit(first, last, workspace);
  };
  call.workspace_bytes = 100;
  call.visit = std::move(visit);
  char *const memory = raptp_allocate(0, std::min<std::size_t>(raptp_threads(pool), 64), 100);
  const rapt_status status = raptp_run_tasks(&call, tasks, runs, memory, pool);
  counted_free(memory);
  check_memory();
  return status;
}

// ---- the cases of both headers

struct Header {
  using Work = rapt_linear_work;

  struct Call {
    const rapt_pool *pool;
    rapt_status attention(const void *q, const void *k, const void *v, void *out,
                          const rapt_attention_options *o) const {
      return rapt_parallel_attention(q, k, v, out, o, pool);
    }
    rapt_status attention_backward(const void *q, const void *k, const void *v,
                                   const rapt_attention_options *o, const rapt_attention_gradients *g) const {
      return rapt_parallel_attention_backward(q, k, v, o, g, pool);
    }
    rapt_status linear(const Work *layers, std::size_t count) const {
      return rapt_parallel_linear(layers, count, pool);
    }
    rapt_status linear_experts(const void *x, const void *w, void *y, const rapt_linear_options *o,
                               const rapt_expert_options *experts) const {
      return rapt_parallel_linear_experts(x, w, y, o, experts, pool);
    }
    rapt_status linear_batch(const void *x, const void *w, void *y, const rapt_linear_options *o,
                             const rapt_linear_batch_options *batch) const {
      return rapt_parallel_linear_batch(x, w, y, o, batch, pool);
    }
  };

  template <class Use>
  static void for_each(Use use) {
    for_each_pool([&](const char *name, const rapt_pool *pool) { use(name, Call{pool}); });
  }

  template <class Use>
  static void for_each_thread_count(Use use) {
    for (const std::size_t threads : Sizes{0, 1, 2, 3, 16}) {
      CAPTURE(threads);
      const rapt_pool pool = {in_reverse, nullptr, threads};
      use(Call{&pool});
      check_memory();
    }
  }

  template <class Use>
  static std::vector<std::size_t> bodies(std::size_t threads, Use use) {
    Counts counts;
    const rapt_pool pool = {Counts::run, &counts, threads};
    use(Call{&pool});
    return counts.counts;
  }

  static std::size_t falling_first(std::size_t tasks, std::size_t runs, std::size_t i) {
    raptp_work work = {};
    work.tasks = tasks, work.runs = runs, work.fall = 1;
    return raptp_first_task(&work, i);
  }

  static rapt_status run_tasks(std::size_t tasks, std::size_t runs, std::size_t threads, const auto &visit) {
    const rapt_pool pool = {in_reverse, nullptr, threads};
    return test::run_tasks(tasks, runs, &pool, visit);
  }

  static void check_memory() { test::check_memory(); }
};

}  // namespace
}  // namespace rapt::test

#include "support/parallel_cases.hpp"

namespace rapt::test {
namespace {

// ---- work

TEST_CASE("threads work at the same time, and share no workspace") {
  PthreadPool pthreads(6);
  const auto check = [](const rapt_pool &pool, std::size_t expected) {
    const std::size_t tasks = expected == 1 ? 1 : 24;
    check_at_work(expected, [&](const auto &visit) { return run_tasks(tasks, tasks, &pool, visit); });
  };
  check({PthreadPool::run, &pthreads, 3}, 3);
  check({PthreadPool::run, &pthreads, 6}, 6);
  check({PthreadPool::run, &pthreads, 1}, 1);
  check({twice_at_once, &pthreads, 3}, 3);
#ifdef _OPENMP
  check(rapt_openmp_pool(3), 3);
#endif
}

TEST_CASE("one thread is the calling one") {
  const rapt_pool alone = {cancelled, nullptr, 1}, without_function = {nullptr, nullptr, 8};
  const std::thread::id me = std::this_thread::get_id();
  for (const rapt_pool *pool : {static_cast<const rapt_pool *>(nullptr), &alone, &without_function}) {
    const auto visit = [&](std::size_t, std::size_t, void *) {
      CHECK(std::this_thread::get_id() == me);
      return RAPT_OK;
    };
    REQUIRE(run_tasks(24, 24, pool, visit) == RAPT_OK);
  }
}

#ifdef _OPENMP
TEST_CASE("calls inside a parallel region") {
  const Attention<float> call(140);
  constexpr int calls = 3;
  bool same[calls] = {};
#pragma omp parallel for num_threads(calls)
  for (int i = 0; i < calls; ++i) {
    Attention<float> mine = call;
    AttentionResults<float> results = mine.empty();
    const rapt_pool pool = rapt_openmp_pool(4);
    same[i] =
        mine.forwards(results, Header::Call{&pool}) == RAPT_OK && same_bits(results.out, call.expected.out);
  }
  CHECK(std::count(same, same + calls, true) == calls);
  check_memory();
}
#endif

// ---- errors

TEST_CASE("lists of layers that are no list") {
  const Layers layers;
  Header::for_each_thread_count([&](const Header::Call &call) {
    CHECK(call.linear(nullptr, 1) == RAPT_BAD_OPTIONS);
    CHECK(call.linear(layers.work.data(), SIZE_MAX) == RAPT_BAD_WORKSPACE);
    CHECK(call.linear(layers.work.data(), SIZE_MAX / 8) == RAPT_BAD_WORKSPACE);
    CHECK(call.linear(nullptr, 0) == RAPT_OK);
  });
}

TEST_CASE("the tasks of all layers are counted without wrapping round") {
  rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
  o.rows = std::size_t{1} << 52;
  o.in_features = o.out_features = 1;
  o.x_strides = {RAPT_REPEAT, 1};
  std::size_t tasks = 0;
  REQUIRE(rapt_linear_tasks(&o, &tasks) == RAPT_OK);
  REQUIRE(tasks >= std::size_t{1} << 45);  // else the list of layers is too long
  const float x = 0;
  float y = 0;
  const std::vector<rapt_linear_work> layers(SIZE_MAX / tasks + 1, {&x, &x, &y, &o});
  CHECK(rapt_parallel_linear(layers.data(), layers.size(), nullptr) == RAPT_BAD_SIZE);
  check_memory();
}

// Makes all allocations after the first k fail. Increases k until the call succeeds.
template <class Call>
void fail_at_each_allocation(std::ptrdiff_t expected, Call call) {
  for (std::ptrdiff_t k = 0; k <= expected; ++k) {
    CAPTURE(k);
    allocations_left = k;
    CHECK(call() == (k < expected ? RAPT_BAD_WORKSPACE : RAPT_OK));
    allocations_left = never;
    check_memory();
  }
}

TEST_CASE("short memory is a status, and nothing is written") {
  Layers layers;
  Experts experts;
  Header::for_each_thread_count([&](const Header::Call &call) {
    for (const std::size_t q_len : Sizes{1, 140}) {
      Attention<float> of(q_len);
      AttentionResults<float> results = of.empty();
      const AttentionResults<float> zeros = of.empty();
      fail_at_each_allocation(1, [&] {
        const rapt_status status = of.forwards(results, call);
        if (status != RAPT_OK)
          CHECK((same_bits(results.out, zeros.out) && same_bits(results.lse, zeros.lse)));
        return status;
      });
      fail_at_each_allocation(1, [&] {
        const rapt_status status = of.backwards(results, call);
        if (status != RAPT_OK) CHECK((same_bits(results.dq, zeros.dq) && same_bits(results.dk, zeros.dk)));
        return status;
      });
    }
    layers.clear();
    fail_at_each_allocation(2, [&] {
      const rapt_status status = call.linear(layers.work.data(), 4);
      CHECK(layers.is_clear() == (status != RAPT_OK));
      return status;
    });
    experts.clear();
    fail_at_each_allocation(1, [&] {
      const rapt_status status = experts.run(call);
      CHECK(experts.is_clear() == (status != RAPT_OK));
      return status;
    });
  });
}

}  // namespace
}  // namespace rapt::test
