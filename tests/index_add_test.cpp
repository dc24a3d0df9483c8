// Tests rapt_index_add: its sums against a loop of single additions, on every level; what it reads and writes;
// arguments.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "calls/operand.hpp"
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
T sum_of(T a, T b) {
  if constexpr (sizeof(T) == 2) {
    return T(static_cast<double>(static_cast<float>(a)) + static_cast<double>(static_cast<float>(b)));
  } else {
    return a + b;
  }
}

template <class T>
std::vector<T> drawn(Random &random, std::size_t n) {
  std::vector<T> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(static_cast<T>(8 * random.uniform() - 4));
  return values;
}

rapt_index_add_options options_of(rapt_type type, const std::vector<std::int64_t> &indices, std::size_t cols,
                                  std::size_t out_rows) {
  rapt_index_add_options o = RAPT_INDEX_ADD_OPTIONS_INIT;
  o.type = type;
  o.rows = indices.size();
  o.cols = cols;
  o.out_rows = out_rows;
  o.indices = indices.data();
  return o;
}

}  // namespace

TEST_CASE_TEMPLATE("rows are added in order, and each addition is rounded", T, float, double, F16, BF16) {
  for (const std::size_t cols : {1, 7, 64, 1000, 2500}) {
    Random random(cols);
    const std::size_t rows = 40, out_rows = 6, x_pitch = cols + 3, out_pitch = cols + 5;
    const std::vector<T> x = drawn<T>(random, rows * x_pitch),
                         before = drawn<T>(random, out_rows * out_pitch);
    std::vector<std::int64_t> indices;
    for (std::size_t i = 0; i < rows; ++i)
      indices.push_back(static_cast<std::int64_t>(random.below(out_rows + 1)) - 1);
    std::vector<T> expected = before;
    for (std::size_t col = 0; col < cols; ++col) {
      for (std::size_t i = 0; i < rows; ++i) {
        if (indices[i] < 0) continue;
        T &sum = expected[static_cast<std::size_t>(indices[i]) * out_pitch + col];
        sum = sum_of(sum, x[i * x_pitch + col]);
      }
    }
    on_every_level([&] {
      rapt_index_add_options o = options_of(type_of(element_of<T>), indices, cols, out_rows);
      o.x_stride = static_cast<std::ptrdiff_t>(x_pitch);
      o.out_stride = static_cast<std::ptrdiff_t>(out_pitch);
      std::vector<T> out = before;
      REQUIRE(rapt_index_add(x.data(), out.data(), &o) == RAPT_OK);
      CHECK(same_bits(out, expected));
      // Two threads would share the columns like this.
      out = before;
      const std::size_t first = cols / 2;
      o.cols = first;
      REQUIRE(rapt_index_add(x.data(), out.data(), &o) == RAPT_OK);
      o.cols = cols - first;
      REQUIRE(rapt_index_add(x.data() + first, out.data() + first, &o) == RAPT_OK);
      CHECK(same_bits(out, expected));
    });
  }
}

TEST_CASE("rows that are left out are not read, and nothing else is written") {
  constexpr std::size_t cols = 37, rows = 3;
  GuardedSlot slot(rows * cols * sizeof(float));
  auto *const x =
      reinterpret_cast<float *>(slot.place(rows * cols * sizeof(float), Placement::ends_at_guard, 0));
  for (std::size_t i = 0; i < rows * cols; ++i) x[i] = 1;
  std::vector<float> out(2 * cols, 5);
  const std::vector<std::int64_t> indices = {1, 1, 1, -1, -1};  // the rows with -1 are behind the memory
  const rapt_index_add_options o = options_of(RAPT_F32, indices, cols, 2);
  on_every_level([&] {
    std::fill(out.begin(), out.end(), 5.0f);
    REQUIRE(rapt_index_add(x, out.data(), &o) == RAPT_OK);
    CHECK(out == [] {
      std::vector<float> all(2 * cols, 5);
      std::fill(all.begin() + cols, all.end(), 8.0f);
      return all;
    }());
  });
}

TEST_CASE("arguments of rapt_index_add") {
  std::vector<float> x(12, 1), out(12, 2);
  const std::vector<float> before = out;
  std::vector<std::int64_t> indices = {0, 1, 2};
  rapt_index_add_options o = options_of(RAPT_TYPE_DEFAULT, indices, 4, 3);
  const auto status = [&] {
    const rapt_status given = rapt_index_add(x.data(), out.data(), &o);
    if (given != RAPT_OK) CHECK(out == before);
    return given;
  };
  CHECK(rapt_index_add(x.data(), out.data(), nullptr) == RAPT_BAD_OPTIONS);
  o.size = 3;
  CHECK(status() == RAPT_BAD_OPTIONS_SIZE);
  o.size = sizeof o;
  o.type = RAPT_I8;
  CHECK(status() == RAPT_BAD_TYPE);
  o.type = RAPT_F32;
  o.x_stride = 3;
  CHECK(status() == RAPT_BAD_X_STRIDE);
  o.x_stride = 0, o.out_stride = -4;
  CHECK(status() == RAPT_BAD_OUT_STRIDE);
  o.out_stride = 0;
  for (const std::int64_t bad : {std::int64_t{-2}, std::int64_t{3}, INT64_MAX, INT64_MIN}) {
    indices[2] = bad;
    CHECK(status() == RAPT_BAD_INDICES);
  }
  indices[2] = 2;
  o.indices = nullptr;
  CHECK(status() == RAPT_BAD_INDICES);
  o.indices = indices.data();
  for (const std::size_t many : {SIZE_MAX / 2, SIZE_MAX}) {
    o.cols = many;
    CHECK(status() == RAPT_BAD_SIZE);
  }
  o.cols = 4;
  CHECK(rapt_index_add(nullptr, out.data(), &o) == RAPT_BAD_X);
  CHECK(rapt_index_add(x.data(), nullptr, &o) == RAPT_BAD_OUT);
  CHECK(rapt_index_add(out.data() + 1, out.data(), &o) == RAPT_BAD_OVERLAP);
  CHECK(rapt_index_add(out.data(), out.data(), &o) == RAPT_BAD_OVERLAP);
  CHECK(rapt_index_add(x.data(), indices.data(), &o) == RAPT_BAD_OVERLAP);
  CHECK(out == before);
  o.rows = 0;
  CHECK(rapt_index_add(nullptr, nullptr, &o) == RAPT_OK);
  o.rows = 3;
  CHECK(status() == RAPT_OK);
  CHECK(out == std::vector<float>(12, 3));
  SUBCASE("C++ sets the shape") {
    rapt::Rows<const float> from(x.data(), 3, 4, 4);
    CHECK(rapt::index_add<float>(from, indices, rapt::Rows<float>(out.data(), 3, 4, 4)) == RAPT_OK);
    CHECK(out == std::vector<float>(12, 4));
    CHECK(rapt::index_add<float>(from, std::span(indices).first(2), rapt::Rows<float>(out.data(), 3, 4, 4)) ==
          RAPT_BAD_SIZE);
    CHECK(rapt::index_add<float>(from, indices, rapt::Rows<float>(out.data(), 4, 3, 3)) == RAPT_BAD_SIZE);
  }
}
