// Tests rapt_embedding_bag: its rows against loops over the indices of each bag, on every level; what it reads and
// writes; arguments; the wrapper of rapt.hpp.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "calls/operand.hpp"
#include "oracle/bounds.hpp"
#include "rapt/rapt.h"
#include "rapt/rapt.hpp"
#include "support/bits.hpp"
#include "support/elements.hpp"
#include "support/every_level.hpp"
#include "support/guarded_slot.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

constexpr std::size_t rows = 9;

// Bags of several lengths. Some have no rows, and some indices are left out.
struct Bags {
  std::vector<std::size_t> offsets = {0};
  std::vector<std::int64_t> indices;

  explicit Bags(Random &random) {
    for (const std::size_t length : {3, 0, 1, 8, 2, 1}) {
      for (std::size_t i = 0; i < length; ++i)
        indices.push_back(static_cast<std::int64_t>(random.below(rows + 1)) - 1);
      offsets.push_back(indices.size());
    }
    indices.back() = -1;
  }
  std::size_t count() const { return offsets.size() - 1; }
};

template <class T>
struct Expected {
  std::vector<T> y;
  std::vector<std::int64_t> max_rows;
};

// One element at a time, as rapt.h says.
template <class T>
Expected<T> expected_of(const Bags &bags, const std::vector<T> &w, std::size_t pitch, std::size_t cols,
                        rapt_bag_operation operation, const std::vector<Wide<T>> &weights) {
  using A = Wide<T>;
  Expected<T> expected;
  for (std::size_t b = 0; b < bags.count(); ++b) {
    for (std::size_t col = 0; col < cols; ++col) {
      A t = 0;
      std::size_t n = 0;
      std::int64_t from = -1;
      long double exact = 0, magnitude = 0;
      for (std::size_t i = bags.offsets[b]; i < bags.offsets[b + 1]; ++i) {
        if (bags.indices[i] < 0) continue;
        const A x = static_cast<A>(w[static_cast<std::size_t>(bags.indices[i]) * pitch + col]);
        if (operation != RAPT_BAG_MAX) {
          const volatile A product = weights.empty() ? x : weights[i] * x;  // rounded, whatever is fused
          t = t + product;
          const long double term = (weights.empty() ? 1.0L : weights[i]) * static_cast<long double>(x);
          exact += term, magnitude += std::fabs(term);
        } else if (n == 0 || x > t || (std::isnan(x) && !std::isnan(t))) {
          t = x;
          from = bags.indices[i];
        }
        ++n;
      }
      if (operation == RAPT_BAG_SUM && std::isfinite(exact)) {
        const auto terms = static_cast<double>(n);
        CHECK(std::fabs(t - exact) <=
              embedding_bag_bound(terms) * unit_of<A> * magnitude + terms * smallest<A>);
      }
      if (operation == RAPT_BAG_MEAN && n > 0) t = t / static_cast<A>(n);
      expected.y.push_back(static_cast<T>(t));
      expected.max_rows.push_back(from);
    }
  }
  return expected;
}

}  // namespace

TEST_CASE_TEMPLATE("rows of bags are reduced in the order of indices", T, float, double, F16, BF16) {
  for (const std::size_t cols : {1, 7, 64, 1000, 2500}) {
    Random random(cols);
    const Bags bags(random);
    const std::size_t pitch = cols + 3, y_pitch = cols + 5;
    std::vector<T> w;
    for (std::size_t i = 0; i < rows * pitch; ++i) w.push_back(static_cast<T>(8 * random.uniform() - 4));
    w[3 * pitch] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    std::vector<Wide<T>> weights;
    for (std::size_t i = 0; i < bags.indices.size(); ++i)
      weights.push_back(static_cast<Wide<T>>(2 * random.uniform() - 1));
    for (const bool is_weighted : {false, true}) {
      for (const rapt_bag_operation operation : {RAPT_BAG_SUM, RAPT_BAG_MEAN, RAPT_BAG_MAX}) {
        if (is_weighted && operation != RAPT_BAG_SUM) continue;
        const Expected<T> expected =
            expected_of(bags, w, pitch, cols, operation, is_weighted ? weights : std::vector<Wide<T>>());
        on_every_level([&] {
          std::vector<T> memory(bags.count() * y_pitch, static_cast<T>(7.0f)), y;
          std::vector<std::int64_t> max_rows(bags.count() * cols, 7);
          rapt_embedding_bag_options o = RAPT_EMBEDDING_BAG_OPTIONS_INIT;
          o.type = type_of(element_of<T>);
          o.operation = operation;
          o.rows = rows, o.cols = cols, o.bags = bags.count();
          o.w_stride = static_cast<std::ptrdiff_t>(pitch), o.y_stride = static_cast<std::ptrdiff_t>(y_pitch);
          o.offsets = bags.offsets.data();
          if (is_weighted) o.weights = weights.data();
          const bool is_max = operation == RAPT_BAG_MAX;
          REQUIRE(rapt_embedding_bag(w.data(), bags.indices.data(), memory.data(),
                                     is_max ? max_rows.data() : nullptr, &o) == RAPT_OK);
          for (std::size_t b = 0; b < bags.count(); ++b) {
            const T *const row = &memory[b * y_pitch];
            y.insert(y.end(), row, row + cols);
            for (std::size_t i = cols; i < y_pitch; ++i) CHECK(same_bits(row[i], static_cast<T>(7.0f)));
          }
          CHECK(same_bits(y, expected.y));
          if (is_max) CHECK(max_rows == expected.max_rows);
        });
      }
    }
  }
}

TEST_CASE("rows that no index names are not read") {
  constexpr std::size_t cols = 37;
  GuardedSlot slot(cols * sizeof(float));
  auto *const w = reinterpret_cast<float *>(slot.place(cols * sizeof(float), Placement::ends_at_guard, 0));
  for (std::size_t i = 0; i < cols; ++i) w[i] = 2;
  const std::vector<std::int64_t> indices = {0, -1, 0};
  const std::vector<std::size_t> offsets = {0, 2, 3};
  std::vector<float> y(2 * cols);
  on_every_level([&] {
    const rapt::Rows<const float> table{w, 5, cols, cols};  // the rows behind the first are no memory
    CHECK(rapt::embedding_bag<float>(table, indices, offsets, {y.data(), 2, cols, cols}) == RAPT_OK);
    CHECK(y == std::vector<float>(2 * cols, 2));
  });
}

TEST_CASE("the wrapper of embedding bags") {
  const std::vector<double> w = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> indices = {2, 0, 1};
  const std::vector<std::size_t> offsets = {0, 2, 3};
  const std::vector<double> weights = {10, 1, 2};
  std::vector<double> y(4);
  std::vector<std::int64_t> max_rows(4);
  const rapt::Rows<const double> table{w.data(), 3, 2, 2};
  const rapt::Rows<double> out{y.data(), 2, 2, 2};
  CHECK(rapt::embedding_bag<double>(table, indices, offsets, out, RAPT_BAG_SUM, weights) == RAPT_OK);
  CHECK(y == std::vector<double>{51, 62, 6, 8});
  CHECK(rapt::embedding_bag<double>(table, indices, offsets, out, RAPT_BAG_MEAN) == RAPT_OK);
  CHECK(y == std::vector<double>{3, 4, 3, 4});
  CHECK(rapt::embedding_bag<double>(table, indices, offsets, out, RAPT_BAG_MAX, {}, max_rows) == RAPT_OK);
  CHECK(y == std::vector<double>{5, 6, 3, 4});
  CHECK(max_rows == std::vector<std::int64_t>{2, 2, 1, 1});
  const std::vector<std::size_t> short_offsets = {0, 3}, other_end = {0, 2, 2};
  CHECK(rapt::embedding_bag<double>(table, indices, short_offsets, out) == RAPT_BAD_SIZE);
  CHECK(rapt::embedding_bag<double>(table, indices, other_end, out) == RAPT_BAD_SIZE);
  const std::vector<double> two = {1, 2};
  CHECK(rapt::embedding_bag<double>(table, indices, offsets, out, RAPT_BAG_SUM, two) == RAPT_BAD_SIZE);
  max_rows.pop_back();
  CHECK(rapt::embedding_bag<double>(table, indices, offsets, out, RAPT_BAG_MAX, {}, max_rows) ==
        RAPT_BAD_SIZE);
}

TEST_CASE("arguments of rapt_embedding_bag") {
  std::vector<float> w(12, 1), y(8, 2), weights(4, 1);
  const std::vector<float> before = y;
  std::vector<std::int64_t> indices = {0, 1, 2, -1}, max_rows(8, 7);
  std::vector<std::size_t> offsets = {0, 3, 4};
  rapt_embedding_bag_options o = RAPT_EMBEDDING_BAG_OPTIONS_INIT;
  o.rows = 3, o.cols = 4, o.bags = 2, o.offsets = offsets.data();
  std::int64_t *of_max = nullptr;
  const auto status = [&] {
    const rapt_status given = rapt_embedding_bag(w.data(), indices.data(), y.data(), of_max, &o);
    if (given != RAPT_OK) CHECK(y == before);
    return given;
  };
  CHECK(rapt_embedding_bag(w.data(), indices.data(), y.data(), nullptr, nullptr) == RAPT_BAD_OPTIONS);
  o.size = 3;
  CHECK(status() == RAPT_BAD_OPTIONS_SIZE);
  o.size = sizeof o, o.type = RAPT_I8;
  CHECK(status() == RAPT_BAD_TYPE);
  o.type = RAPT_F32;
  for (const int bad : {-1, 3}) {
    o.operation = bad;
    CHECK(status() == RAPT_BAD_OPERATION);
  }
  o.operation = RAPT_BAG_MEAN, o.weights = weights.data();
  CHECK(status() == RAPT_BAD_WEIGHT);
  o.weights = nullptr, of_max = max_rows.data();
  CHECK(status() == RAPT_BAD_ROWS);
  o.operation = RAPT_BAG_SUM;
  CHECK(status() == RAPT_BAD_ROWS);
  of_max = nullptr, o.w_stride = 3;
  CHECK(status() == RAPT_BAD_W_STRIDES);
  o.w_stride = 0, o.y_stride = -4;
  CHECK(status() == RAPT_BAD_Y_STRIDE);
  o.y_stride = 0;
  for (const std::int64_t bad : {std::int64_t{-2}, std::int64_t{3}, INT64_MAX, INT64_MIN}) {
    indices[3] = bad;
    CHECK(status() == RAPT_BAD_INDICES);
  }
  indices[3] = -1;
  for (const auto &bad : std::vector<std::vector<std::size_t>>{{1, 3, 4}, {0, 5, 4}}) {
    o.offsets = bad.data();
    CHECK(status() == RAPT_BAD_OFFSETS);
  }
  o.offsets = nullptr;
  CHECK(status() == RAPT_BAD_OFFSETS);
  const std::vector<std::size_t> too_many = {0, 3, SIZE_MAX};
  o.offsets = too_many.data();
  CHECK(status() == RAPT_BAD_SIZE);
  o.offsets = offsets.data();
  CHECK(rapt_embedding_bag(w.data(), nullptr, y.data(), nullptr, &o) == RAPT_BAD_INDICES);
  CHECK(rapt_embedding_bag(nullptr, indices.data(), y.data(), nullptr, &o) == RAPT_BAD_W);
  CHECK(rapt_embedding_bag(w.data(), indices.data(), nullptr, nullptr, &o) == RAPT_BAD_Y);
  CHECK(rapt_embedding_bag(y.data() + 1, indices.data(), y.data(), nullptr, &o) == RAPT_BAD_OVERLAP);
  CHECK(rapt_embedding_bag(w.data(), indices.data(), indices.data(), nullptr, &o) == RAPT_BAD_OVERLAP);
  CHECK(rapt_embedding_bag(w.data(), indices.data(), offsets.data(), nullptr, &o) == RAPT_BAD_OVERLAP);
  o.weights = y.data();
  CHECK(status() == RAPT_BAD_OVERLAP);
  o.weights = nullptr, o.operation = RAPT_BAG_MAX;
  of_max = reinterpret_cast<std::int64_t *>(y.data());
  CHECK(status() == RAPT_BAD_OVERLAP);
  of_max = reinterpret_cast<std::int64_t *>(w.data());
  CHECK(status() == RAPT_BAD_OVERLAP);
  of_max = nullptr;
  for (const std::size_t many : {SIZE_MAX / 2, SIZE_MAX}) {
    o.cols = many;
    CHECK(status() == RAPT_BAD_SIZE);
  }
  o.cols = 4, o.bags = SIZE_MAX;
  CHECK(status() == RAPT_BAD_SIZE);
  CHECK(y == before);
  o.bags = 0;
  CHECK(rapt_embedding_bag(nullptr, nullptr, nullptr, nullptr, &o) == RAPT_OK);
  o.bags = 2, o.cols = 0;
  CHECK(rapt_embedding_bag(nullptr, indices.data(), nullptr, nullptr, &o) == RAPT_OK);
  const std::vector<std::size_t> none = {0, 0, 0};
  o.cols = 4, o.rows = 0, o.offsets = none.data();
  CHECK(rapt_embedding_bag(nullptr, nullptr, y.data(), nullptr, &o) == RAPT_OK);
  CHECK(y == std::vector<float>(8, 0));
}
