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
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
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

#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

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

constexpr std::size_t thread_counts[] = {0, 1, 2, 3, 16, SIZE_MAX};

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

void check_memory() {
  CHECK(allocations.empty());
  CHECK(guards_are_whole);
}

// ---- attention

template <class T>
struct Attention {
  rapt_attention_options o = attention_options<T>();
  std::vector<T> q, k, v, dout;
  AttentionResults<T> expected;

  // With two heads, 140 queries make six tiles, and 350 queries make twelve.
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

  rapt_status forwards(AttentionResults<T> &results, const rapt_pool *pool) {
    o.lse = results.lse.data();
    return rapt_parallel_attention(q.data(), k.data(), v.data(), results.out.data(), &o, pool);
  }

  rapt_status backwards(AttentionResults<T> &results, const rapt_pool *pool) {
    o.lse = results.lse.data();
    rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
    g.out = results.out.data();
    g.dout = dout.data();
    g.dq = results.dq.data();
    g.dk = results.dk.data();
    g.dv = results.dv.data();
    return rapt_parallel_attention_backward(q.data(), k.data(), v.data(), &o, &g, pool);
  }
};

// For one query, more than two threads split the 1100 keys.
TEST_CASE_TEMPLATE("attention has the same bits on every pool", T, float, double) {
  for (const std::size_t q_len : Sizes{140, 350, 1}) {
    CAPTURE(q_len);
    Attention<T> call(q_len);
    for_each_pool([&](const char *name, const rapt_pool *pool) {
      CAPTURE(name);
      AttentionResults<T> results = call.empty();
      REQUIRE(call.forwards(results, pool) == RAPT_OK);
      REQUIRE(call.backwards(results, pool) == RAPT_OK);
      CHECK(equal(results.out, call.expected.out));
      CHECK(equal(results.lse, call.expected.lse));
      CHECK(equal(results.dq, call.expected.dq));
      CHECK(equal(results.dk, call.expected.dk));
      CHECK(equal(results.dv, call.expected.dv));
      check_memory();
    });
  }
}

// One token has two tasks, one per head, and six tasks if its keys are split.
TEST_CASE("keys are split where there are more threads than tasks") {
  Attention<float> call(1);
  const auto bodies = [&](std::size_t threads) {
    Counts counts;
    const rapt_pool pool = {Counts::run, &counts, threads};
    AttentionResults<float> results = call.empty();
    REQUIRE(call.forwards(results, &pool) == RAPT_OK);
    return counts.counts;
  };
  CHECK(bodies(0) == std::vector<std::size_t>{});
  CHECK(bodies(1) == std::vector<std::size_t>{});
  CHECK(bodies(2) == std::vector<std::size_t>{2});
  CHECK(bodies(3) == std::vector<std::size_t>{3, 2});
  CHECK(bodies(16) == std::vector<std::size_t>{6, 2});
  call.o.kv_len = 512;
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
  std::vector<rapt_linear_work> work;

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

TEST_CASE("linear layers have the same bits on every pool") {
  Layers layers, expected;
  for (const rapt_linear_work &of : expected.work) {
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_workspace(of.options, &bytes) == RAPT_OK);
    std::vector<std::byte> workspace(bytes);
    REQUIRE(rapt_linear(of.x, of.w, of.y, of.options, workspace.data(), bytes) == RAPT_OK);
  }
  for_each_pool([&](const char *name, const rapt_pool *pool) {
    CAPTURE(name);
    for (const std::size_t first : Sizes{0, 1, 2, 3}) {
      for (std::size_t count = 0; first + count <= layers.work.size(); ++count) {
        CAPTURE(first);
        CAPTURE(count);
        layers.clear();
        REQUIRE(rapt_parallel_linear(layers.work.data() + first, count, pool) == RAPT_OK);
        const auto computed = [&](std::size_t layer) { return first <= layer && layer < first + count; };
        for (const std::size_t i : Sizes{0, 1, 2}) {
          CHECK(equal(layers.y[i],
                      computed(i) ? expected.y[i] : std::vector<float>(expected.y[i].size(), -1.f)));
        }
        CHECK(equal(layers.y64, computed(3) ? expected.y64 : std::vector<double>(expected.y64.size(), -1.)));
        check_memory();
      }
    }
  });
}

TEST_CASE("layers are one list of tasks") {
  Layers layers;
  Counts counts;
  const rapt_pool pool = {Counts::run, &counts, SIZE_MAX};
  std::size_t tasks = 0;
  for (const rapt_linear_work &of : layers.work) {
    std::size_t of_layer = 0;
    REQUIRE(rapt_linear_tasks(of.options, &of_layer) == RAPT_OK);
    tasks += of_layer;
  }
  REQUIRE(rapt_parallel_linear(layers.work.data(), layers.work.size(), &pool) == RAPT_OK);
  CHECK(counts.counts == std::vector<std::size_t>{tasks});
}

// ---- work

struct Run {
  std::size_t first, last;
  void *workspace;
  std::thread::id thread;
};
std::mutex runs_mutex;
std::vector<Run> runs_seen;
std::set<void *> workspaces_in_use;
bool a_workspace_was_shared = false;
std::atomic<std::size_t> runs_at_work{0}, most_runs_at_work{0}, runs_expected{0};

rapt_status see(const raptp_call *call, std::size_t first, std::size_t last, void *workspace) {
  std::memset(workspace, 0, call->workspace_bytes);
  {
    const std::lock_guard lock(runs_mutex);
    runs_seen.push_back({first, last, workspace, std::this_thread::get_id()});
    a_workspace_was_shared = a_workspace_was_shared || !workspaces_in_use.insert(workspace).second;
  }
  const std::size_t now = ++runs_at_work;
  for (std::size_t most = most_runs_at_work;
       most < now && !most_runs_at_work.compare_exchange_weak(most, now);) {
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (most_runs_at_work < runs_expected && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  if (runs_expected > 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // for an excess run to begin
  --runs_at_work;
  const std::lock_guard lock(runs_mutex);
  workspaces_in_use.erase(workspace);
  return RAPT_OK;
}

// Runs `tasks` in `runs`. `expected` runs wait until they work at the same time.
rapt_status see_runs(std::size_t tasks, std::size_t runs, const rapt_pool *pool, std::size_t expected = 1) {
  raptp_call call = {};
  call.run = see;
  call.workspace_bytes = 100;
  runs_seen.clear();
  most_runs_at_work = 0;
  runs_expected = expected;
  char *const memory = raptp_allocate(0, std::min<std::size_t>(raptp_threads(pool), 64), 100);
  const rapt_status status = raptp_run_tasks(&call, tasks, runs, memory, pool);
  counted_free(memory);
  check_memory();
  return status;
}

// Checks many numbers of tasks, runs and threads. The tasks need not be a multiple of the runs.
TEST_CASE("runs hold every task once, in equal shares") {
  for (std::size_t tasks = 0; tasks < 40; ++tasks) {
    for (std::size_t runs = tasks == 0 ? 0 : 1; runs <= tasks; ++runs) {
      for (const std::size_t threads : Sizes{1, 3}) {
        const rapt_pool pool = {in_reverse, nullptr, threads};
        REQUIRE(see_runs(tasks, runs, &pool) == RAPT_OK);
        std::size_t next = 0;
        for (const Run &run : runs_seen) {
          REQUIRE(run.first == next);
          const std::size_t share = runs == 0 ? 0 : tasks / runs;
          REQUIRE((run.last - run.first == share || run.last - run.first == share + 1));
          next = run.last;
        }
        REQUIRE(next == tasks);
        REQUIRE(runs_seen.size() == std::max<std::size_t>(runs, 1));
      }
    }
  }
}

TEST_CASE("threads work at the same time, and share no workspace") {
  PthreadPool pthreads(6);
  const auto check = [](const rapt_pool &pool, std::size_t expected) {
    REQUIRE(see_runs(expected == 1 ? 1 : 24, expected == 1 ? 1 : 24, &pool, expected) == RAPT_OK);
    CHECK(most_runs_at_work == expected);
    CHECK_FALSE(a_workspace_was_shared);
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
  for (const rapt_pool *pool : {static_cast<const rapt_pool *>(nullptr), &alone, &without_function}) {
    REQUIRE(see_runs(24, 24, pool) == RAPT_OK);
    for (const Run &run : runs_seen) CHECK(run.thread == std::this_thread::get_id());
  }
}

TEST_CASE("a status ends the work") {
  static std::atomic<std::size_t> begun{0};
  raptp_call call = {};
  call.run = [](const raptp_call *, std::size_t first, std::size_t, void *) {
    ++begun;
    return first == 0 ? RAPT_BAD_OVERLAP : RAPT_OK;
  };
  char workspaces[2 * 256];
  const rapt_pool pool = {in_reverse, nullptr, 2};
  CHECK(raptp_run_tasks(&call, 1000, 1000, workspaces, &pool) == RAPT_BAD_OVERLAP);
  CHECK(begun == 1);
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
    same[i] = mine.forwards(results, &pool) == RAPT_OK && equal(results.out, call.expected.out);
  }
  CHECK(std::count(same, same + calls, true) == calls);
  check_memory();
}
#endif

// ---- errors

template <class Call>
void check_for_threads(Call call) {
  for (const std::size_t threads : Sizes{0, 1, 2, 3, 16}) {
    CAPTURE(threads);
    const rapt_pool pool = {in_reverse, nullptr, threads};
    call(&pool);
    check_memory();
  }
}

TEST_CASE("bad arguments of attention") {
  check_for_threads([](const rapt_pool *pool) {
    rapt_attention_options o = attention_options<float>();
    rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
    float x[4] = {};
    CHECK(rapt_parallel_attention(x, x, x, x, &o, pool) == RAPT_BAD_DIM);
    CHECK(rapt_parallel_attention(x, x, x, x, nullptr, pool) == RAPT_BAD_OPTIONS);
    CHECK(rapt_parallel_attention_backward(x, x, x, nullptr, &g, pool) == RAPT_BAD_OPTIONS);
    o.q_len = o.kv_len = o.qk_dim = 1;
    CHECK(rapt_parallel_attention(x, x + 1, x + 2, x + 1, &o, pool) == RAPT_BAD_OVERLAP);
    CHECK(rapt_parallel_attention(x, x + 1, nullptr, x + 3, &o, pool) == RAPT_BAD_V);
    CHECK(rapt_parallel_attention_backward(x, x, x, &o, nullptr, pool) == RAPT_BAD_GRADIENTS);
    CHECK(rapt_parallel_attention_backward(x, x, x, &o, &g, pool) == RAPT_BAD_OUT);
  });
}

TEST_CASE("arguments are judged where there are no tasks") {
  check_for_threads([](const rapt_pool *pool) {
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
    CHECK(rapt_parallel_attention(x, x, x, x, &o, pool) == RAPT_BAD_KV_LENGTHS);
    CHECK(rapt_parallel_attention_backward(x, x, x, &o, &g, pool) == RAPT_BAD_KV_LENGTHS);
  });
}

// For one query, 3 threads split the 600 keys. Neither the partial calls nor the merge can check all arguments.
TEST_CASE("split keys are refused as whole ones, and before anything is written") {
  check_for_threads([](const rapt_pool *pool) {
    rapt_attention_options o = attention_options<float>();
    o.q_len = 1;
    o.kv_len = 600;
    o.qk_dim = 1;
    const std::vector<float> q(1, 1), v(600, 2);
    std::vector<float> k(600, 1);
    CHECK(rapt_parallel_attention(q.data(), k.data(), v.data(), k.data() + 5, &o, pool) == RAPT_BAD_OVERLAP);
    CHECK(k == std::vector<float>(600, 1));
    CHECK(rapt_parallel_attention(q.data(), k.data(), v.data(), nullptr, &o, pool) == RAPT_BAD_OUT);
  });
}

TEST_CASE("a bad layer keeps all layers from being computed") {
  Layers layers;
  check_for_threads([&](const rapt_pool *pool) {
    layers.clear();
    for (const std::size_t i : Sizes{0, 2, 3}) {
      CAPTURE(i);
      const rapt_linear_work good = layers.work[i];
      layers.work[i].w = nullptr;
      CHECK(rapt_parallel_linear(layers.work.data(), 4, pool) == RAPT_BAD_W);
      layers.work[i] = good;
      layers.work[i].y = const_cast<void *>(good.x);
      CHECK(rapt_parallel_linear(layers.work.data(), 4, pool) == RAPT_BAD_OVERLAP);
      layers.work[i] = good;
      layers.work[i].options = nullptr;
      CHECK(rapt_parallel_linear(layers.work.data(), 4, pool) == RAPT_BAD_OPTIONS);
      layers.work[i] = good;
    }
    layers.options[1].size = 1;  // the layer without rows
    CHECK(rapt_parallel_linear(layers.work.data(), 4, pool) == RAPT_BAD_OPTIONS_SIZE);
    layers.options[1].size = sizeof(rapt_linear_options);
    CHECK(rapt_parallel_linear(nullptr, 1, pool) == RAPT_BAD_OPTIONS);
    CHECK(rapt_parallel_linear(layers.work.data(), SIZE_MAX, pool) == RAPT_BAD_WORKSPACE);
    CHECK(rapt_parallel_linear(layers.work.data(), SIZE_MAX / 8, pool) == RAPT_BAD_WORKSPACE);
    CHECK(rapt_parallel_linear(nullptr, 0, pool) == RAPT_OK);
    CHECK(layers.is_clear());
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
  check_for_threads([&](const rapt_pool *pool) {
    for (const std::size_t q_len : Sizes{1, 140}) {
      Attention<float> call(q_len);
      AttentionResults<float> results = call.empty();
      const AttentionResults<float> zeros = call.empty();
      fail_at_each_allocation(1, [&] {
        const rapt_status status = call.forwards(results, pool);
        if (status != RAPT_OK) CHECK((equal(results.out, zeros.out) && equal(results.lse, zeros.lse)));
        return status;
      });
      fail_at_each_allocation(1, [&] {
        const rapt_status status = call.backwards(results, pool);
        if (status != RAPT_OK) CHECK((equal(results.dq, zeros.dq) && equal(results.dk, zeros.dk)));
        return status;
      });
    }
    layers.clear();
    fail_at_each_allocation(2, [&] {
      const rapt_status status = rapt_parallel_linear(layers.work.data(), 4, pool);
      CHECK(layers.is_clear() == (status != RAPT_OK));
      return status;
    });
  });
}

}  // namespace
}  // namespace rapt::test
