// Compares rapt_metric, rapt_metric_rows, rapt_top_k, rapt_mean_pool and rapt_normalize with plain loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "calls/operand.hpp"
#include "oracle/bounds.hpp"
#include "rapt/parallel.h"
#include "rapt/rapt.hpp"
#include "support/every_level.hpp"
#include "support/guarded_buffer.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();

template <class T>
T drawn(Random &random) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random.below(256));
  } else {
    return T(static_cast<float>(random.gaussian()));
  }
}
template <class T>
std::vector<T> drawn(Random &random, std::size_t count) {
  std::vector<T> made(count);
  for (T &one : made) one = drawn<T>(random);
  return made;
}

template <class T>
Number<T> metric_of(int kind, const T *a, const T *b, std::size_t n) {
  if constexpr (sizeof(T) == 8) {
    return rapt_metric_f64(kind)(a, b, n);
  } else {
    return rapt_metric(kind, type_of(element_of<T>))(a, b, n);
  }
}

template <class N>
bool same(N a, N b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

bool smallest_first(int kind) { return kind >= RAPT_METRIC_L2_SQUARED; }

template <class T>
rapt_search_options options_of(int kind, std::size_t queries, std::size_t rows, std::size_t dim,
                               std::size_t k) {
  rapt_search_options o = RAPT_SEARCH_OPTIONS_INIT;
  o.metric = kind;
  o.type = type_of(element_of<T>);
  o.queries = queries;
  o.rows = rows;
  o.dim = dim;
  o.k = k;
  return o;
}

struct Result {
  std::vector<std::int64_t> indices;
  std::vector<float> scores;
  bool operator==(const Result &other) const {
    return indices == other.indices &&
           std::equal(scores.begin(), scores.end(), other.scores.begin(), other.scores.end(), same<float>);
  }
};

template <class T>
Result found(const rapt_search_options &o, const T *q, const T *x) {
  Result made{std::vector<std::int64_t>(o.queries * o.k, -7), std::vector<float>(o.queries * o.k, -7)};
  std::size_t bytes = 0;
  REQUIRE(rapt_top_k_workspace(&o, &bytes) == RAPT_OK);
  const GuardedBuffer workspace(bytes, Placement::ends_at_guard, bytes % 2);
  REQUIRE(rapt_top_k(q, x, made.indices.data(), made.scores.data(), &o, workspace.data(), bytes) == RAPT_OK);
  return made;
}

// Sorts all rows.
template <class T>
Result sorted(const rapt_search_options &o, const T *q, const T *x) {
  const auto stride = [&](std::ptrdiff_t given) {
    return given == 0 ? o.dim : static_cast<std::size_t>(given);
  };
  Result made;
  for (std::size_t i = 0; i < o.queries; ++i) {
    std::vector<std::pair<float, std::int64_t>> all;
    for (std::size_t j = 0; j < o.rows; ++j) {
      const auto score = static_cast<float>(
          metric_of(o.metric, q + i * stride(o.q_stride), x + j * stride(o.x_stride), o.dim));
      if (score == score) all.push_back({score, static_cast<std::int64_t>(j)});
    }
    std::stable_sort(all.begin(), all.end(), [&](const auto &a, const auto &b) {
      return smallest_first(o.metric) ? a.first < b.first : a.first > b.first;
    });
    all.resize(o.k, {smallest_first(o.metric) ? infinity : -infinity, -1});
    for (const auto &[score, row] : all) made.scores.push_back(score), made.indices.push_back(row);
  }
  return made;
}

}  // namespace

TEST_CASE_TEMPLATE("rows have the bits of pairs", T, float, double, F16, BF16, std::int8_t) {
  on_every_level([] {
    Random random(3);
    for (const std::size_t dim : {0u, 1u, 7u, 16u, 63u, 64u, 65u, 130u, 384u}) {
      for (const std::size_t queries : {1u, 3u, 4u, 21u}) {
        const std::size_t rows = 1 + random.below(40);
        const auto q = drawn<T>(random, queries * dim), x = drawn<T>(random, rows * dim);
        std::vector<Number<T>> out(queries * rows);
        for (int kind = 0; kind < 5; ++kind) {
          const auto o = options_of<T>(kind, queries, rows, dim, 0);
          REQUIRE(rapt_metric_rows(q.data(), x.data(), out.data(), &o) == RAPT_OK);
          for (std::size_t i = 0; i < queries; ++i) {
            for (std::size_t j = 0; j < rows; ++j) {
              CAPTURE(kind);
              CAPTURE(dim);
              CAPTURE(i);
              CAPTURE(j);
              REQUIRE(same(out[i * rows + j], metric_of(kind, q.data() + i * dim, x.data() + j * dim, dim)));
            }
          }
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("dot is rapt_dot, and the distances are 1 minus it", T, float, double, F16, BF16) {
  Random random(4);
  for (const std::size_t n : {0u, 5u, 64u, 100u, 1000u, 40000u}) {
    const auto a = drawn<T>(random, n), b = drawn<T>(random, n);
    const Number<T> dot = Api<T>::dot(a.data(), b.data(), n);
    CHECK(same(metric_of(RAPT_METRIC_DOT, a.data(), b.data(), n), dot));
    CHECK(same(metric_of(RAPT_METRIC_DOT_DISTANCE, a.data(), b.data(), n), 1 - dot));
    const Number<T> aa = Api<T>::dot(a.data(), a.data(), n), bb = Api<T>::dot(b.data(), b.data(), n),
                    cosine = n == 0 ? 0 : dot / (std::sqrt(aa) * std::sqrt(bb));
    CHECK(same(metric_of(RAPT_METRIC_COSINE, a.data(), b.data(), n), cosine));
    CHECK(same(metric_of(RAPT_METRIC_COSINE_DISTANCE, a.data(), b.data(), n), 1 - cosine));
  }
}

TEST_CASE("special values of metrics") {
  const std::vector<float> zeros(20), ones(20, 1);
  CHECK(metric_of(RAPT_METRIC_COSINE, zeros.data(), ones.data(), 20) == 0);
  CHECK(metric_of(RAPT_METRIC_COSINE_DISTANCE, zeros.data(), zeros.data(), 20) == 1);
  for (int kind = 0; kind < 5; ++kind) {
    for (const std::size_t at : {0u, 7u, 19u}) {
      std::vector<float> bad = zeros;
      bad[at] = not_a_number;
      CHECK(std::isnan(metric_of(kind, bad.data(), zeros.data(), 20)));
      CHECK(std::isnan(metric_of(kind, ones.data(), bad.data(), 20)));
    }
  }
  const std::vector<std::int8_t> low(1000, -128), high(1000, 127);
  CHECK(metric_of(RAPT_METRIC_L2_SQUARED, low.data(), high.data(), 1000) == 65025000.f);
  CHECK(metric_of(RAPT_METRIC_DOT, low.data(), low.data(), 1000) == 16384000.f);
  CHECK(metric_of(RAPT_METRIC_COSINE, low.data(), high.data(), 1000) == -1);
  for (const int kind : {-1, 5}) {
    CHECK(!rapt_metric(kind, RAPT_F32));
    CHECK(!rapt_metric_f64(kind));
  }
  for (const rapt_type type : {RAPT_TYPE_DEFAULT, RAPT_F64, RAPT_I4})
    CHECK(!rapt_metric(RAPT_METRIC_DOT, type));
}

TEST_CASE_TEMPLATE("top_k is a sort of all scores", T, float, F16, BF16, std::int8_t) {
  on_every_level([] {
    Random random(5);
    for (int draw = 0; draw < 60; ++draw) {
      const std::size_t dim = 1 + random.below(70), queries = 1 + random.below(20),
                        rows = draw % 20 == 19 ? 9000 : random.below(300),
                        k = 1 + random.below(draw % 3 == 0 ? 400 : 12);
      auto o = options_of<T>(static_cast<int>(random.below(5)), draw % 20 == 19 ? 2 : queries, rows, dim, k);
      if (random.one_in(2)) o.x_stride = static_cast<std::ptrdiff_t>(dim + 3);
      if (random.one_in(2)) o.q_stride = static_cast<std::ptrdiff_t>(dim + 1);
      auto q = drawn<T>(random, o.queries * (dim + 1)), x = drawn<T>(random, rows * (dim + 3));
      // Ties: many rows of few different elements, or the same row again.
      if (random.one_in(3)) {
        for (T &one : x)
          one = std::is_integral_v<T> ? T(random.below(2)) : T(static_cast<float>(random.below(2)));
      }
      if constexpr (!std::is_integral_v<T>) {
        for (std::size_t i = 0; i < x.size() / 100; ++i) x[random.below(x.size())] = T(not_a_number);
        if (random.one_in(2) && !x.empty()) x[random.below(x.size())] = T(infinity);
      }
      CAPTURE(draw);
      CAPTURE(o.metric);
      CAPTURE(o.queries);
      CAPTURE(rows);
      CAPTURE(dim);
      CAPTURE(k);
      const Result all = found(o, q.data(), x.data()), expected = sorted(o, q.data(), x.data());
      REQUIRE(all == expected);
      // A query alone.
      auto alone = o;
      alone.queries = 1;
      const std::size_t i = random.below(o.queries),
                        at = i * (o.q_stride == 0 ? dim : static_cast<std::size_t>(o.q_stride));
      const Result one = found(alone, q.data() + at, x.data());
      REQUIRE(std::equal(one.indices.begin(), one.indices.end(),
                         all.indices.begin() + static_cast<std::ptrdiff_t>(i * k)));
    }
  });
}

TEST_CASE("tasks in any order and on threads give the same") {
  Random random(6);
  const std::size_t dim = 24, rows = 30000, queries = 40;
  const auto q = drawn<float>(random, queries * dim);
  auto x = drawn<float>(random, rows * dim);
  // The first and the last row of a part are the best.
  for (const std::size_t row : {0u, 4095u, 4096u, 8191u, 8192u, 29999u})
    std::copy_n(q.begin(), dim, x.begin() + static_cast<std::ptrdiff_t>(row * dim));
  auto o = options_of<float>(RAPT_METRIC_COSINE, queries, rows, dim, 9);
  const Result expected = found(o, q.data(), x.data());
  CHECK(expected == sorted(o, q.data(), x.data()));
  std::size_t tasks = 0, bytes = 0;
  REQUIRE(rapt_top_k_tasks(&o, &tasks) == RAPT_OK);
  REQUIRE(rapt_top_k_workspace(&o, &bytes) == RAPT_OK);
  CHECK(tasks == 24);  // three blocks of queries, eight parts of rows
  for (const bool on_threads : {false, true}) {
    std::vector<unsigned char> workspace(bytes, 0xff);
    const auto run = [&](std::size_t first) {
      for (std::size_t task = first; task < tasks; task += 3)
        CHECK(rapt_top_k_run(q.data(), x.data(), &o, task, task + 1, workspace.data(), bytes) == RAPT_OK);
    };
    std::vector<std::thread> threads;
    for (const std::size_t first : {2u, 0u, 1u}) {
      if (on_threads)
        threads.emplace_back(run, first);
      else
        run(first);
    }
    for (std::thread &thread : threads) thread.join();
    Result made{std::vector<std::int64_t>(queries * 10), std::vector<float>(queries * 10)};
    o.out_stride = 10;
    REQUIRE(rapt_top_k_merge(made.indices.data(), made.scores.data(), &o, workspace.data(), bytes) ==
            RAPT_OK);
    o.out_stride = 0;
    for (std::size_t i = 0; i < queries; ++i) {
      for (std::size_t n = 0; n < 9; ++n) {
        REQUIRE(made.indices[i * 10 + n] == expected.indices[i * 9 + n]);
        REQUIRE(same(made.scores[i * 10 + n], expected.scores[i * 9 + n]));
      }
      REQUIRE(made.indices[i * 10 + 9] == 0);
    }
  }
}

TEST_CASE("on a pool, and by rapt.hpp") {
  Random random(9);
  const std::size_t dim = 20, rows = 9000, queries = 18;
  const auto q = drawn<float>(random, queries * dim), x = drawn<float>(random, rows * dim);
  const auto o = options_of<float>(RAPT_METRIC_L2_SQUARED, queries, rows, dim, 4);
  const Result expected = found(o, q.data(), x.data());
  Result made = expected;
  const auto threads = [](void *, std::size_t count, rapt_parallel_body body, void *context) {
    std::vector<std::thread> started;
    for (std::size_t i = 0; i < count; ++i) started.emplace_back(body, context, i);
    for (std::thread &thread : started) thread.join();
  };
  for (const std::size_t count : {1u, 3u}) {
    const rapt_pool pool = {threads, nullptr, count};
    std::fill(made.indices.begin(), made.indices.end(), -7);
    CHECK(rapt_parallel_top_k(q.data(), x.data(), made.indices.data(), made.scores.data(), &o, &pool) ==
          RAPT_OK);
    CHECK(made == expected);
    CHECK(rapt_parallel_top_k(q.data(), x.data(), nullptr, nullptr, &o, &pool) == RAPT_BAD_INDICES);
    CHECK(rapt_parallel_top_k(nullptr, x.data(), made.indices.data(), nullptr, &o, &pool) == RAPT_BAD_Q);
    CHECK(rapt_parallel_top_k(q.data(), x.data(), made.indices.data(), const_cast<float *>(q.data()), &o,
                              &pool) == RAPT_BAD_OVERLAP);
    CHECK(made == expected);
  }
  using rapt::Rows;
  const Rows<const float> of_q(std::span<const float>(q), dim), of_x(std::span<const float>(x), dim);
  std::vector<std::byte> workspace(rapt::top_k_workspace<float>(RAPT_METRIC_L2_SQUARED, of_q, of_x, 4));
  std::fill(made.indices.begin(), made.indices.end(), -7);
  const Rows<std::int64_t> indices(std::span<std::int64_t>(made.indices), 4);
  const Rows<float> scores(std::span<float>(made.scores), 4);
  CHECK(rapt::top_k<float>(RAPT_METRIC_L2_SQUARED, of_q, of_x, indices, scores, workspace) == RAPT_OK);
  CHECK(made == expected);
  CHECK(rapt::top_k<float>(RAPT_METRIC_L2_SQUARED, of_q, of_x, indices, {}, workspace) == RAPT_OK);
  CHECK(rapt::top_k<float>(RAPT_METRIC_DOT, of_x, of_q, indices, scores, workspace) == RAPT_BAD_SIZE);
  CHECK(rapt::metric<float>(RAPT_METRIC_DOT)(q.data(), x.data(), dim) ==
        rapt_dot_f32(q.data(), x.data(), dim));
  CHECK((rapt::metric<double>(RAPT_METRIC_DOT) == rapt_metric_f64(RAPT_METRIC_DOT)));
  std::vector<float> all(queries * 5);
  const Rows<const float> first(x.data(), 5, dim, static_cast<std::ptrdiff_t>(dim));
  CHECK(rapt::metric_rows<float>(RAPT_METRIC_DOT, of_q, first, Rows<float>(std::span(all), 5)) == RAPT_OK);
  CHECK(all[7] == rapt_dot_f32(q.data() + dim, x.data() + 2 * dim, dim));
  CHECK(rapt::metric_rows<float>(RAPT_METRIC_DOT, of_q, first, Rows<float>(std::span(all), 6)) ==
        RAPT_BAD_SIZE);
  std::vector<float> y(queries * dim), means(2 * dim);
  CHECK(rapt::normalize<float>(of_q, Rows<float>(std::span(y), dim)) == RAPT_OK);
  CHECK(rapt_dot_f32(y.data(), y.data(), dim) == doctest::Approx(1));
  CHECK(rapt::mean_pool<float>(of_q, Rows<float>(std::span(means), dim)) == RAPT_OK);
  CHECK(rapt::mean_pool<float>(of_q, Rows<float>(std::span(means), dim), std::vector<std::uint8_t>(3)) ==
        RAPT_BAD_SIZE);
}

TEST_CASE("arguments of top_k") {
  const std::vector<float> q(40, 1), x(400, 1);
  std::vector<std::int64_t> indices(40);
  std::vector<float> scores(40);
  const auto good = options_of<float>(0, 2, 10, 20, 3);
  std::size_t bytes = 0;
  REQUIRE(rapt_top_k_workspace(&good, &bytes) == RAPT_OK);
  std::vector<unsigned char> workspace(bytes);
  const auto status = [&](const std::function<void(rapt_search_options &)> &change) {
    auto o = good;
    change(o);
    const rapt_status whole =
        rapt_top_k(q.data(), x.data(), indices.data(), scores.data(), &o, workspace.data(), bytes);
    std::size_t count = 0;
    const rapt_status counted = rapt_top_k_tasks(&o, &count);
    if (counted != RAPT_OK) {
      CHECK(counted == whole);
      CHECK(rapt_top_k_run(q.data(), x.data(), &o, 0, 0, workspace.data(), bytes) == whole);
      CHECK(rapt_top_k_merge(indices.data(), scores.data(), &o, workspace.data(), bytes) == whole);
    }
    return whole;
  };
  CHECK(status([](auto &) {}) == RAPT_OK);
  CHECK(status([](auto &o) { o.size = 8; }) == RAPT_BAD_OPTIONS_SIZE);
  CHECK(status([](auto &o) { o.metric = 5; }) == RAPT_BAD_METRIC);
  CHECK(status([](auto &o) { o.metric = -1; }) == RAPT_BAD_METRIC);
  CHECK(status([](auto &o) { o.type = RAPT_F64; }) == RAPT_BAD_TYPE);
  CHECK(status([](auto &o) { o.type = RAPT_I4; }) == RAPT_BAD_TYPE);
  CHECK(status([](auto &o) { o.k = 0; }) == RAPT_BAD_TOP_K);
  CHECK(status([](auto &o) { o.q_stride = 19; }) == RAPT_BAD_Q_STRIDE);
  CHECK(status([](auto &o) { o.x_stride = -20; }) == RAPT_BAD_X_STRIDE);
  CHECK(status([](auto &o) { o.out_stride = 2; }) == RAPT_BAD_OUT_STRIDE);
  CHECK(status([](auto &o) { o.dim = SIZE_MAX; }) == RAPT_BAD_SIZE);
  CHECK(status([](auto &o) { o.rows = SIZE_MAX / 8; }) == RAPT_BAD_SIZE);
  CHECK(status([](auto &o) { o.queries = SIZE_MAX / 8; }) == RAPT_BAD_SIZE);
  CHECK(status([](auto &o) { o.k = SIZE_MAX; }) == RAPT_BAD_SIZE);
  const auto with = [&](const float *of_q, const float *of_x, std::int64_t *to, float *of_scores,
                        void *memory, std::size_t size) {
    return rapt_top_k(of_q, of_x, to, of_scores, &good, memory, size);
  };
  CHECK(with(nullptr, x.data(), indices.data(), scores.data(), workspace.data(), bytes) == RAPT_BAD_Q);
  CHECK(with(q.data(), nullptr, indices.data(), scores.data(), workspace.data(), bytes) == RAPT_BAD_X);
  CHECK(with(q.data(), x.data(), nullptr, scores.data(), workspace.data(), bytes) == RAPT_BAD_INDICES);
  CHECK(with(q.data(), x.data(), indices.data(), nullptr, workspace.data(), bytes) == RAPT_OK);
  CHECK(with(q.data(), x.data(), indices.data(), scores.data(), nullptr, bytes) == RAPT_BAD_WORKSPACE);
  CHECK(with(q.data(), x.data(), indices.data(), scores.data(), workspace.data(), bytes - 1) ==
        RAPT_BAD_WORKSPACE);
  CHECK(with(q.data(), x.data(), indices.data(), const_cast<float *>(q.data()), workspace.data(), bytes) ==
        RAPT_BAD_OVERLAP);
  CHECK(with(q.data(), x.data(), indices.data(), const_cast<float *>(x.data()) + 199, workspace.data(),
             bytes) == RAPT_BAD_OVERLAP);
  CHECK(with(q.data(), x.data(), indices.data(), reinterpret_cast<float *>(workspace.data()),
             workspace.data(), bytes) == RAPT_BAD_OVERLAP);
  CHECK(with(q.data(), x.data(), indices.data(), reinterpret_cast<float *>(indices.data()), workspace.data(),
             bytes) == RAPT_BAD_OVERLAP);
  CHECK(with(q.data(), x.data(), indices.data(), scores.data(), indices.data(), bytes) == RAPT_BAD_OVERLAP);
  CHECK(with(reinterpret_cast<const float *>(workspace.data()), x.data(), indices.data(), scores.data(),
             workspace.data(), bytes) == RAPT_BAD_OVERLAP);
  CHECK(rapt_top_k(q.data(), x.data(), indices.data(), scores.data(), nullptr, workspace.data(), bytes) ==
        RAPT_BAD_OPTIONS);
  CHECK(rapt_top_k_run(q.data(), x.data(), &good, 0, 2, workspace.data(), bytes) == RAPT_BAD_TASKS);
  CHECK(rapt_top_k_run(q.data(), x.data(), &good, 1, 0, workspace.data(), bytes) == RAPT_BAD_TASKS);
  CHECK(rapt_top_k_tasks(&good, nullptr) == RAPT_BAD_OUT);
  auto none = good;
  none.queries = 0;
  CHECK(rapt_top_k(nullptr, nullptr, nullptr, nullptr, &none, nullptr, 0) == RAPT_OK);
  none = good;
  none.rows = 0;
  CHECK(rapt_top_k(nullptr, nullptr, indices.data(), scores.data(), &none, workspace.data(), bytes) ==
        RAPT_OK);
  CHECK(indices[5] == -1);
  CHECK(scores[5] == -infinity);
}

TEST_CASE_TEMPLATE("mean pooling leaves tokens out, and a padded sequence is as alone", T, float, F16, BF16) {
  on_every_level([] {
    Random random(7);
    for (const std::size_t dim : {1u, 5u, 384u, 1500u}) {
      const std::size_t batch = 3, tokens = 11, stride = dim + 2;
      std::vector<T> x = drawn<T>(random, batch * tokens * stride);
      std::vector<std::uint8_t> mask(batch * tokens);
      const std::size_t lengths[] = {11, 4, 0};
      for (std::size_t t = 0; t < mask.size(); ++t) {
        mask[t] = static_cast<std::uint8_t>(random.below(3));
        if (mask[t] == 0 || t % tokens >= lengths[t / tokens])
          for (std::size_t i = 0; i < dim; ++i) x[t * stride + i] = T(not_a_number);
      }
      rapt_mean_pool_options o = RAPT_MEAN_POOL_OPTIONS_INIT;
      o.type = type_of(element_of<T>);
      o.batch = batch;
      o.tokens = tokens;
      o.dim = dim;
      o.x_stride = static_cast<std::ptrdiff_t>(stride);
      o.mask = mask.data();
      o.row_lengths = lengths;
      std::vector<T> y(batch * dim);
      REQUIRE(rapt_mean_pool(x.data(), y.data(), &o) == RAPT_OK);
      for (std::size_t s = 0; s < batch; ++s) {
        std::vector<T> alone;
        for (std::size_t t = 0; t < lengths[s]; ++t) {
          const std::size_t at = s * tokens + t;
          if (mask[at] == 0) continue;
          alone.insert(alone.end(), x.begin() + static_cast<std::ptrdiff_t>(at * stride),
                       x.begin() + static_cast<std::ptrdiff_t>(at * stride + dim));
        }
        const std::size_t taken = alone.size() / dim;
        for (std::size_t i = 0; i < dim; ++i) {
          float sum = 0;
          for (std::size_t t = 0; t < taken; ++t) {
            const auto one = static_cast<float>(alone[t * dim + i]);
            sum = t == 0 ? one : sum + one;
          }
          const T expected = T(taken == 0 ? 0.0f : sum / static_cast<float>(taken));
          REQUIRE(static_cast<float>(y[s * dim + i]) == static_cast<float>(expected));
        }
      }
    }
  });
}

TEST_CASE("arguments of mean pooling") {
  const std::vector<float> x(60, 1);
  std::vector<float> y(60);
  const std::vector<std::uint8_t> mask(6, 1);
  const std::vector<std::size_t> lengths{3, 2};
  rapt_mean_pool_options good = RAPT_MEAN_POOL_OPTIONS_INIT;
  good.batch = 2;
  good.tokens = 3;
  good.dim = 10;
  good.mask = mask.data();
  good.row_lengths = lengths.data();
  const auto status = [&](const std::function<void(rapt_mean_pool_options &)> &change) {
    auto o = good;
    change(o);
    return rapt_mean_pool(x.data(), y.data(), &o);
  };
  CHECK(status([](auto &) {}) == RAPT_OK);
  CHECK(status([](auto &o) { o.size = 1; }) == RAPT_BAD_OPTIONS_SIZE);
  for (const rapt_type type : {RAPT_F64, RAPT_I8})
    CHECK(status([=](auto &o) { o.type = type; }) == RAPT_BAD_TYPE);
  CHECK(status([](auto &o) { o.x_stride = 9; }) == RAPT_BAD_X_STRIDE);
  CHECK(status([](auto &o) { o.y_stride = 9; }) == RAPT_BAD_Y_STRIDE);
  CHECK(status([](auto &o) { o.batch_stride = 29; }) == RAPT_BAD_BATCH_STRIDE);
  CHECK(status([](auto &o) { o.dim = SIZE_MAX; }) == RAPT_BAD_SIZE);
  CHECK(status([](auto &o) { o.tokens = SIZE_MAX / 2; }) == RAPT_BAD_SIZE);
  CHECK(status([](auto &o) { o.batch = SIZE_MAX / 2; }) == RAPT_BAD_SIZE);
  const std::vector<std::size_t> long_one{3, 4};
  CHECK(status([&](auto &o) { o.row_lengths = long_one.data(); }) == RAPT_BAD_ROW_LENGTHS);
  CHECK(rapt_mean_pool(nullptr, y.data(), &good) == RAPT_BAD_X);
  CHECK(rapt_mean_pool(x.data(), nullptr, &good) == RAPT_BAD_Y);
  CHECK(rapt_mean_pool(x.data(), y.data(), nullptr) == RAPT_BAD_OPTIONS);
  CHECK(rapt_mean_pool(y.data() + 5, y.data(), &good) == RAPT_BAD_OVERLAP);
}

TEST_CASE_TEMPLATE("normalised rows are F.normalize's", T, float, double, F16, BF16) {
  on_every_level([] {
    Random random(8);
    using N = Number<T>;
    for (const std::size_t cols : {1u, 3u, 64u, 384u, 2500u}) {
      const std::size_t rows = 4;
      std::vector<T> x = drawn<T>(random, rows * cols), y(rows * cols);
      for (std::size_t i = 0; i < cols; ++i) x[2 * cols + i] = T(0.0f);
      x[3 * cols] = T(not_a_number);
      rapt_normalize_options o = RAPT_NORMALIZE_OPTIONS_INIT;
      o.type = type_of(element_of<T>);
      o.rows = rows;
      o.cols = cols;
      REQUIRE(rapt_normalize(x.data(), y.data(), &o) == RAPT_OK);
      for (std::size_t r = 0; r < rows; ++r) {
        N norm = 0;
        rapt_reduce_options reduce = RAPT_REDUCE_OPTIONS_INIT;
        reduce.operation = RAPT_NORM_2;
        reduce.type = o.type;
        reduce.out_type = type_of(element_of<N>);
        reduce.dims = 1;
        reduce.shape[0] = cols;
        REQUIRE(rapt_reduce(x.data() + r * cols, &norm, &reduce) == RAPT_OK);
        const N divisor = norm < N(1e-12) ? N(1e-12) : norm;
        for (std::size_t i = 0; i < cols; ++i) {
          const T expected = T(static_cast<N>(x[r * cols + i]) / divisor);
          REQUIRE(same(static_cast<N>(y[r * cols + i]), static_cast<N>(expected)));
        }
      }
      REQUIRE(rapt_normalize(x.data(), x.data(), &o) == RAPT_OK);
      for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(same(static_cast<N>(x[i]), static_cast<N>(y[i])));
    }
  });
}

TEST_CASE("errors of mean pooling and normalized rows") {
  Random random(10);
  for (const std::size_t tokens : {1u, 3u, 100u, 700u}) {
    const std::size_t dim = 33;
    const auto x = drawn<float>(random, tokens * dim);
    std::vector<float> y(dim), unit(tokens * dim);
    rapt_mean_pool_options o = RAPT_MEAN_POOL_OPTIONS_INIT;
    o.batch = 1;
    o.tokens = tokens;
    o.dim = dim;
    REQUIRE(rapt_mean_pool(x.data(), y.data(), &o) == RAPT_OK);
    for (std::size_t i = 0; i < dim; ++i) {
      double sum = 0, magnitudes = 0;
      for (std::size_t t = 0; t < tokens; ++t) {
        sum += double{x[t * dim + i]};
        magnitudes += std::fabs(double{x[t * dim + i]});
      }
      const auto count = static_cast<double>(tokens);
      CHECK(std::fabs(double{y[i]} - sum / count) <= mean_pool_bound(count) * 0x1p-24 * magnitudes / count);
    }
    rapt_normalize_options row = RAPT_NORMALIZE_OPTIONS_INIT;
    row.rows = 1;
    row.cols = x.size();
    REQUIRE(rapt_normalize(x.data(), unit.data(), &row) == RAPT_OK);
    double squares = 0;
    for (const float one : x) squares += double{one} * double{one};
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = double{x[i]} / std::sqrt(squares);
      CHECK(std::fabs(double{unit[i]} - exact) <=
            normalize_bound<float>(x.size()) * 0x1p-24 * std::fabs(exact));
    }
  }
}

TEST_CASE("arguments of normalize") {
  std::vector<float> x(60, 1), y(60);
  rapt_normalize_options good = RAPT_NORMALIZE_OPTIONS_INIT;
  good.rows = 2;
  good.cols = 10;
  const auto status = [&](const std::function<void(rapt_normalize_options &)> &change) {
    auto o = good;
    change(o);
    return rapt_normalize(x.data(), y.data(), &o);
  };
  CHECK(status([](auto &) {}) == RAPT_OK);
  CHECK(status([](auto &o) { o.size = 1; }) == RAPT_BAD_OPTIONS_SIZE);
  CHECK(status([](auto &o) { o.type = RAPT_I8; }) == RAPT_BAD_TYPE);
  CHECK(status([](auto &o) { o.x_stride = 9; }) == RAPT_BAD_X_STRIDE);
  CHECK(status([](auto &o) { o.y_stride = 9; }) == RAPT_BAD_Y_STRIDE);
  CHECK(status([](auto &o) { o.rows = SIZE_MAX / 2; }) == RAPT_BAD_SIZE);
  for (const double eps : {-1.0, 1e-40, 1e39, double{not_a_number}, double{infinity}})
    CHECK(status([=](auto &o) { o.eps = eps; }) == RAPT_BAD_EPS);
  CHECK(rapt_normalize(nullptr, y.data(), &good) == RAPT_BAD_X);
  CHECK(rapt_normalize(x.data(), nullptr, &good) == RAPT_BAD_Y);
  CHECK(rapt_normalize(x.data(), y.data(), nullptr) == RAPT_BAD_OPTIONS);
  CHECK(rapt_normalize(x.data(), x.data() + 1, &good) == RAPT_BAD_OVERLAP);
}
