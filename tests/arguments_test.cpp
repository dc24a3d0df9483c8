// Tests options of softmax that earlier releases had, neutral ones, causality, and the texts of statuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "api/read_options.hpp"
#include "support/effort.hpp"
#include "support/guarded_slot.hpp"
#include "support/option_statuses.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

constexpr std::size_t rows = 3, cols = 5;
constexpr std::ptrdiff_t stride = 7;
constexpr std::size_t extent = (rows - 1) * static_cast<std::size_t>(stride) + cols;

enum Function : unsigned { softmax = 1, log_softmax = 2, logsumexp = 4, backward = 8 };
constexpr unsigned with_options = softmax | log_softmax | logsumexp, all = with_options | backward,
                   with_matrix_output = softmax | log_softmax | backward;

// A call of softmax_backward() passes x as y, and y as dx.
template <class T>
struct Call {
  using Element = T;
  static constexpr FunctionName functions[] = {{softmax, "softmax"},
                                               {log_softmax, "log_softmax"},
                                               {logsumexp, "logsumexp"},
                                               {backward, "softmax_backward"}};
  unsigned function;
  std::vector<T> x_memory = std::vector<T>(2 * extent, T(0.5)),
                 dy_memory = std::vector<T>(2 * extent, T(0.25)),
                 y_memory = std::vector<T>(2 * extent, T(-7)), bias = std::vector<T>(extent, T(0));
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(extent, 1);
  std::vector<std::size_t> lengths = std::vector<std::size_t>(4 * extent, cols);
  T *x = x_memory.data(), *dy = dy_memory.data(), *y = y_memory.data();
  std::ptrdiff_t x_stride = stride, dy_stride = stride, y_stride = stride;
  std::size_t row_count = rows, col_count = cols;
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  T scale = 1;

  explicit Call(unsigned called) : function(called) {}
  Call(const Call &) = delete;

  rapt_status run() {
    switch (function) {
      case softmax:
        return Api<T>::softmax(x, x_stride, y, y_stride, row_count, col_count, &options);
      case log_softmax:
        return Api<T>::log_softmax(x, x_stride, y, y_stride, row_count, col_count, &options);
      case logsumexp:
        return Api<T>::logsumexp(x, x_stride, y, row_count, col_count, &options);
      default:
        return Api<T>::softmax_backward(x, x_stride, dy, dy_stride, y, y_stride, row_count, col_count, scale);
    }
  }
  bool writes_nothing() const { return row_count == 0 || (col_count == 0 && function != logsumexp); }
  std::string image() const {
    std::string bytes;
    for (const std::vector<T> *memory : {&x_memory, &dy_memory, &y_memory, &bias})
      append_bytes(bytes, *memory);
    append_bytes(bytes, mask);
    append_bytes(bytes, lengths);
    return bytes;
  }
  void set_shape(std::size_t row_number, std::size_t col_number, std::ptrdiff_t any_stride = stride) {
    row_count = row_number;
    col_count = col_number;
    x_stride = dy_stride = y_stride = any_stride;
  }
  // Puts both matrices into the memory of x.
  void put(std::size_t x_at, std::size_t y_at, std::ptrdiff_t any_y_stride = stride,
           std::size_t row_number = rows) {
    x = x_memory.data() + x_at;
    y = x_memory.data() + y_at;
    y_stride = any_y_stride;
    row_count = row_number;
  }
  void set_arrays(std::ptrdiff_t bias_stride, std::ptrdiff_t mask_stride) {
    options.bias = bias.data();
    options.mask = mask.data();
    options.bias_stride = bias_stride;
    options.mask_stride = mask_stride;
  }
};

}  // namespace

namespace {

// Stands for the options of a library that has grown: its first release did not have `second`.
struct Grown {
  std::size_t size;
  double first, second;
};

}  // namespace

template <>
inline constexpr std::size_t rapt::released_sizes<Grown>[] = {16, 24};

TEST_CASE("options of an earlier release") {
  const Grown defaults{0, 1, 2};
  GuardedSlot memory(sizeof(Grown));
  for (const std::size_t size : Sizes{0, 8, 15, 16, 17, 20, 23, 24, 25, 32, SIZE_MAX}) {
    CAPTURE(size);
    const Grown values{size, 3, 4};
    const std::size_t readable = std::clamp<std::size_t>(size, 8, sizeof values);
    const std::size_t aligned = (readable + alignof(Grown) - 1) / alignof(Grown) * alignof(Grown);
    const auto *given = reinterpret_cast<const Grown *>(memory.place(aligned, Placement::ends_at_guard, 0));
    std::memcpy(const_cast<Grown *>(given), &values, readable);
    Grown read = defaults;
    const bool released = size == 16 || size == 24;
    CHECK(rapt::read_options(given, read) == (released ? RAPT_OK : RAPT_BAD_OPTIONS_SIZE));
    CHECK(read.first == (released ? 3 : 1));
    CHECK(read.second == (size == 24 ? 4 : 2));
  }
  Grown read = defaults;
  CHECK(rapt::read_options<Grown>(nullptr, read) == RAPT_OK);
  CHECK(read.first == 1);
}

TEST_CASE_TEMPLATE("rows are queries and columns keys of causality", T, float, double) {
  Call<T> bottom_right(softmax), top_left(softmax), by_offset(softmax);
  bottom_right.options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
  by_offset.options.causal = RAPT_CAUSAL_OFFSET;
  by_offset.options.causal_offset = static_cast<std::ptrdiff_t>(cols - rows);
  top_left.options.causal = RAPT_CAUSAL_TOP_LEFT;
  for (Call<T> *call : {&bottom_right, &by_offset, &top_left}) CHECK(call->run() == RAPT_OK);
  CHECK(bottom_right.y_memory == by_offset.y_memory);
  CHECK(bottom_right.y_memory[2] == T(1) / T(3));
  CHECK(bottom_right.y_memory[3] == T(0));
  CHECK(top_left.y_memory[0] == T(1));
  CHECK(top_left.y_memory[1] == T(0));
}

// Users of ctypes, Rust, Go and designated initialisers create such options.
TEST_CASE_TEMPLATE("zeroed options with a size are plain softmax", T, float, double) {
  Call<T> call(softmax), without(softmax);
  std::memset(static_cast<void *>(&call.options), 0, sizeof call.options);
  call.options.size = sizeof call.options;
  for (std::size_t i = 0; i < extent; ++i) call.x_memory[i] = without.x_memory[i] = static_cast<T>(i % 3);
  CHECK(call.run() == RAPT_OK);
  CHECK(Api<T>::softmax(without.x, stride, without.y, stride, rows, cols, nullptr) == RAPT_OK);
  CHECK(call.y_memory == without.y_memory);
}

TEST_CASE_TEMPLATE("the log-sum-exp of rows without columns", T, float, double) {
  const T sinks[rows] = {T(0.25), -std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()};
  Call<T> call(logsumexp);
  call.col_count = 0;
  call.x = nullptr;
  CHECK(call.run() == RAPT_OK);
  for (std::size_t r = 0; r < rows; ++r) CHECK(call.y_memory[r] == -std::numeric_limits<T>::infinity());
  CHECK(call.y_memory[rows] == T(-7));
  call.options.sinks = sinks;
  CHECK(call.run() == RAPT_OK);
  CHECK(call.y_memory[0] == sinks[0]);
  CHECK(call.y_memory[1] == sinks[1]);
  CHECK(std::isnan(call.y_memory[2]));
  // Rows without columns read no mask or bias, so the call need not multiply these strides. If the call does
  // multiply a stride, the undefined-behaviour sanitizer reports an overflow.
  const std::uint8_t mask = 0;
  const T bias = 0;
  call.options.mask = &mask;
  call.options.bias = &bias;
  call.options.mask_stride = call.options.bias_stride = PTRDIFF_MAX;
  CHECK(call.run() == RAPT_OK);
  CHECK(call.y_memory[0] == sinks[0]);
  expect_status<Call<T>>("no out", logsumexp, RAPT_BAD_OUT, [](auto &bad) {
    bad.set_shape(rows, 0);
    bad.y = nullptr;
  });
}

TEST_CASE("every status has a text of its own") {
  std::set<std::string> texts;
  for (int status = RAPT_OK; status <= RAPT_BAD_DSINKS; ++status) {
    CAPTURE(status);
    const char *text = rapt_status_text(static_cast<rapt_status>(status));
    REQUIRE(text != nullptr);
    CHECK(std::string(text).size() > 1);
    CHECK(texts.insert(text).second);
  }
  CHECK(rapt_status_text(static_cast<rapt_status>(63)) != nullptr);  // not a status
}

TEST_CASE("version") {
  const std::string expected = std::to_string(RAPT_VERSION_MAJOR) + "." + std::to_string(RAPT_VERSION_MINOR) +
                               "." + std::to_string(RAPT_VERSION_PATCH);
  CHECK(rapt_version() == expected);
  CHECK(rapt_bits_version() == RAPT_BITS_VERSION);
}
