// Tests which arrays of a linear layer may share memory where rows are listed: those that share no element with the
// listed rows, whatever lies between the rows. Deciding it costs little compared with the layer.
#include <doctest/doctest.h>
#include <rapt/rapt.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "support/effort.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

using Places = std::vector<std::size_t>;

rapt_linear_options layer(std::size_t rows, std::size_t inputs, std::size_t outputs) {
  rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
  o.rows = rows;
  o.in_features = inputs;
  o.out_features = outputs;
  return o;
}

struct Workspace {
  std::vector<unsigned char> memory;
  explicit Workspace(const rapt_linear_options &o) {
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_workspace(&o, &bytes) == RAPT_OK);
    memory.resize(bytes);
  }
  rapt_status run(const void *x, const void *w, void *y, const rapt_linear_options &o) {
    return rapt_linear(x, w, y, &o, memory.data(), memory.size());
  }
  rapt_status run(const void *x, const void *w, void *y, const rapt_linear_options &o, std::size_t first,
                  std::size_t last) {
    return rapt_linear_run(x, w, y, &o, first, last, memory.data(), memory.size());
  }
};

// ---- x and y in one buffer

enum class Order { none, ascending, any };

// Returns `count` of the numbers below `below`.
Places draw_list(Random &random, std::size_t count, std::size_t below, Order order, bool may_repeat) {
  Places all(below);
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (std::size_t i = 0; i < count; ++i) {
    if (may_repeat) {
      all[i] = random.below(below);
    } else {
      std::swap(all[i], all[i + random.below(below - i)]);
    }
  }
  all.resize(count);
  if (order == Order::ascending) std::sort(all.begin(), all.end());
  return all;
}

TEST_CASE("rows of x and y in one buffer may overlap exactly if they share no byte") {
  Random random(1);
  std::size_t refused = 0, accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::size_t rows = 1 + random.below(12), inputs = 1 + random.below(5),
                      outputs = 1 + random.below(5);
    rapt_linear_options o = layer(rows, inputs, outputs);
    o.y_type = random.one_in(2) ? RAPT_F32 : RAPT_F16;
    const std::size_t y_size = o.y_type == RAPT_F32 ? 4 : 2, x_stride = inputs + random.below(12),
                      y_stride = (outputs + random.below(12)) * 4 / y_size, below = rows + random.below(30);
    o.x_strides = {static_cast<std::ptrdiff_t>(x_stride), 1};
    o.y_stride = static_cast<std::ptrdiff_t>(y_stride);
    const auto order_of = [&] { return static_cast<Order>(random.below(3)); };
    const Order x_order = order_of(), y_order = order_of();
    const Places x_rows = draw_list(random, rows, below, x_order, true),
                 y_rows = draw_list(random, rows, below, y_order, false);
    if (x_order != Order::none) o.x_rows = x_rows.data();
    if (y_order != Order::none) o.y_rows = y_rows.data();
    if (!o.x_rows && !o.y_rows) continue;
    std::vector<float> memory(2 * 45 * 20, 0.5f), w(inputs * outputs, 1.0f);
    const std::size_t x_at = 4 * random.below(60), y_at = 4 * random.below(60);
    std::vector<bool> is_of_x(memory.size() * 4);
    bool share = false;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t from = x_at + 4 * x_stride * (o.x_rows ? x_rows[r] : r);
      for (std::size_t byte = 0; byte < 4 * inputs; ++byte) is_of_x[from + byte] = true;
    }
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t from = y_at + y_size * y_stride * (o.y_rows ? y_rows[r] : r);
      for (std::size_t byte = 0; byte < y_size * outputs; ++byte) share = share || is_of_x[from + byte];
    }
    auto *const bytes = reinterpret_cast<unsigned char *>(memory.data());
    const rapt_status status = Workspace(o).run(bytes + x_at, w.data(), bytes + y_at, o);
    if (status != (share ? RAPT_BAD_OVERLAP : RAPT_OK)) FAIL_CHECK("case " << i << ": status " << status);
    (share ? refused : accepted) += 1;
  }
  CHECK(refused > 2000);
  CHECK(accepted > 500);
}

// Long lists in no order are sorted in parts.
TEST_CASE("the last rows of long lists in any order are found") {
  constexpr std::size_t rows = 5000;
  rapt_linear_options o = layer(rows, 1, 1);
  Places x_rows(rows), y_rows(rows);
  for (std::size_t r = 0; r < rows; ++r) x_rows[r] = 2 * (r * 7 % rows), y_rows[r] = 2 * (r * 11 % rows) + 1;
  o.x_rows = x_rows.data();
  o.y_rows = y_rows.data();
  std::vector<float> memory(2 * rows + 2, 0.5f);
  const float w = 1;
  Workspace workspace(o);
  CHECK(workspace.run(memory.data(), &w, memory.data(), o) == RAPT_OK);
  for (const std::size_t r : Sizes{0, 1, 2047, 2048, 4096, 4999}) {
    const std::size_t kept = y_rows[r];
    y_rows[r] = x_rows[17];
    CHECK(workspace.run(memory.data(), &w, memory.data(), o) == RAPT_BAD_OVERLAP);
    y_rows[r] = kept;
    const std::size_t other = x_rows[r];
    x_rows[r] = y_rows[4711];
    CHECK(workspace.run(memory.data(), &w, memory.data(), o) == RAPT_BAD_OVERLAP);
    x_rows[r] = other;
  }
}

// A row of x is a column of a matrix, so that each spans all rows of y.
TEST_CASE("columns of x between the rows of y") {
  constexpr std::size_t rows = 50, inputs = 4, pitch = 256;
  rapt_linear_options o = layer(rows, inputs, 3);
  o.x_strides = {2, pitch};
  o.y_stride = pitch;
  Places y_rows(rows);
  std::iota(y_rows.begin(), y_rows.end(), std::size_t{0});
  o.y_rows = y_rows.data();
  std::vector<float> memory(60 * pitch, 0.5f), w(inputs * 3, 1.0f);
  Workspace workspace(o);
  CHECK(workspace.run(memory.data(), w.data(), memory.data() + 2 * rows, o) == RAPT_OK);
  CHECK(workspace.run(memory.data(), w.data(), memory.data() + 2 * rows - 2, o) == RAPT_BAD_OVERLAP);
}

// ---- arrays between the rows of y

TEST_CASE("every array may lie between the listed rows of y, and in none of them") {
  constexpr std::size_t rows = 3, inputs = 32, outputs = 8, stride = 128;
  struct Array {
    const char *name;
    std::size_t bytes;
    std::function<void(rapt_linear_options &, const void *&x, const void *&w, void *at)> place;
  };
  using O = rapt_linear_options;
  const auto as_sizes = [](void *at) { return static_cast<const std::size_t *>(at); };
  const auto as_floats = [](void *at) { return static_cast<const float *>(at); };
  const Array arrays[] = {
      {"x", rows * inputs, [](O &, const void *&x, const void *&, void *at) { x = at; }},
      {"w", outputs * inputs / 2, [](O &, const void *&, const void *&w, void *at) { w = at; }},
      {"bias", outputs * 4, [](O &o, const void *&, const void *&, void *at) { o.bias = at; }},
      {"row_scales", rows * 4, [](O &o, const void *&, const void *&, void *at) { o.row_scales = at; }},
      {"w_scales", outputs * 2 * 4, [](O &o, const void *&, const void *&, void *at) { o.w_scales = at; }},
      {"w_offsets", outputs * 2 * 4, [](O &o, const void *&, const void *&, void *at) { o.w_offsets = at; }},
      {"w_zeros", outputs * 2,
       [](O &o, const void *&, const void *&, void *at) { o.w_zeros = static_cast<std::uint8_t *>(at); }},
      {"x_scales", rows * 2 * 4,
       [=](O &o, const void *&, const void *&, void *at) { o.x_scales = as_floats(at); }},
      {"x_rows", rows * 8, [=](O &o, const void *&, const void *&, void *at) { o.x_rows = as_sizes(at); }},
      {"y_rows", rows * 8, [=](O &o, const void *&, const void *&, void *at) { o.y_rows = as_sizes(at); }},
  };
  const std::vector<std::int8_t> of_x(rows * inputs, 3);
  const std::vector<std::uint8_t> of_w(outputs * inputs / 2, 0x5a);
  const std::vector<float> ones(64, 1.0f);
  const Places y_rows = {0, 2, 4};
  for (const Array &array : arrays) {
    const std::string name = array.name;
    CAPTURE(name);
    for (const std::size_t place : Sizes{1, 3, 0, 2, 4}) {
      std::vector<float> memory(6 * stride, 7.0f);
      rapt_linear_options o = layer(rows, inputs, outputs);
      o.x_type = RAPT_I8;
      o.w_type = RAPT_U4;
      o.scale_group = 16;
      o.x_scales = ones.data();
      o.y_rows = y_rows.data();
      o.y_stride = stride;
      const void *x = of_x.data(), *w = of_w.data();
      // In front of a row of y, and in its first byte.
      auto *const begin = reinterpret_cast<unsigned char *>(memory.data());
      unsigned char *const at = begin + place * stride * 4;
      std::memset(at, 0, array.bytes);
      if (name == "y_rows") std::memcpy(at, y_rows.data(), array.bytes);
      array.place(o, x, w, at);
      const bool is_free = place % 2 == 1;
      const std::vector<float> before = memory;
      Workspace workspace(o);
      CHECK(workspace.run(x, w, memory.data(), o) == (is_free ? RAPT_OK : RAPT_BAD_OVERLAP));
      CHECK((memory == before) == !is_free);
      if (!is_free) continue;
      CHECK(std::memcmp(at, reinterpret_cast<const unsigned char *>(before.data()) + place * stride * 4,
                        array.bytes) == 0);
      // One byte into the row after the gap.
      unsigned char *const last = begin + (place + 1) * stride * 4 - (array.bytes + 7) / 8 * 8 + 8;
      std::memset(last, 0, array.bytes);
      if (name == "y_rows") std::memcpy(last, y_rows.data(), array.bytes);
      array.place(o, x, w, last);
      if (array.bytes % 8 == 0) CHECK(workspace.run(x, w, memory.data(), o) == RAPT_BAD_OVERLAP);
    }
  }
}

TEST_CASE("the workspace and add may lie between listed rows") {
  constexpr std::size_t rows = 2, inputs = 3, outputs = 4;
  rapt_linear_options o = layer(rows, inputs, outputs);
  const Places list = {0, 2};
  o.x_rows = o.y_rows = list.data();
  Workspace needed(o);
  const std::size_t size = needed.memory.size(), stride = size / 4 + 16;
  o.x_strides = {static_cast<std::ptrdiff_t>(stride), 1};
  o.y_stride = static_cast<std::ptrdiff_t>(stride);
  std::vector<float> x(3 * stride, 0.5f), y(3 * stride), w(inputs * outputs, 1.0f);
  for (std::vector<float> *const of : {&x, &y}) {
    const std::size_t row = of == &x ? inputs : outputs;
    const auto run = [&](std::size_t at) {
      return rapt_linear(x.data(), w.data(), y.data(), &o, of->data() + at, size);
    };
    CHECK(run(row) == RAPT_OK);
    CHECK(run(row - 1) == RAPT_BAD_WORKSPACE);
    CHECK(run(2 * stride - size / 4) == RAPT_OK);
    CHECK(run(2 * stride - size / 4 + 1) == RAPT_BAD_WORKSPACE);
  }
  // Rows of add have the numbers of y's rows.
  o.add = y.data() + outputs;
  o.add_stride = o.y_stride;
  CHECK(needed.run(x.data(), w.data(), y.data(), o) == RAPT_OK);
  o.add = y.data() + outputs - 1;
  CHECK(needed.run(x.data(), w.data(), y.data(), o) == RAPT_BAD_OVERLAP);
  o.add_stride = 1;
  o.add = y.data() + stride - 8;
  o.out_features = 1;
  CHECK(needed.run(x.data(), w.data(), y.data(), o) == RAPT_OK);
}

// ---- tasks

TEST_CASE("a run of tasks checks the rows that it writes, and an empty one all rows") {
  constexpr std::size_t rows = 500, outputs = 4;
  rapt_linear_options o = layer(rows, outputs, outputs);
  Places x_rows(rows), y_rows(rows);
  for (std::size_t r = 0; r < rows; ++r) x_rows[r] = 2 * r, y_rows[r] = 2 * r + 1;
  o.x_rows = x_rows.data();
  o.y_rows = y_rows.data();
  y_rows.back() = 4;
  std::vector<float> memory(2 * rows * outputs, 0.5f), w(outputs * outputs, 1.0f);
  std::size_t tasks = 0;
  REQUIRE(rapt_linear_tasks(&o, &tasks) == RAPT_OK);
  REQUIRE(tasks > 2);
  Workspace workspace(o);
  const std::vector<float> before = memory;
  const auto run = [&](std::size_t first, std::size_t last) {
    return workspace.run(memory.data(), w.data(), memory.data(), o, first, last);
  };
  CHECK(workspace.run(memory.data(), w.data(), memory.data(), o) == RAPT_BAD_OVERLAP);
  for (std::size_t task = 0; task < tasks; ++task) CHECK(run(task, task) == RAPT_BAD_OVERLAP);
  CHECK(run(tasks - 1, tasks) == RAPT_BAD_OVERLAP);
  CHECK(run(0, tasks) == RAPT_BAD_OVERLAP);
  CHECK(memory == before);
  CHECK(run(0, tasks - 1) == RAPT_OK);
}

// ---- time

// Returns the shortest of some calls, in the processor's own time, which other programs do not take.
template <class F>
double seconds(F f) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const std::clock_t start = std::clock();
    f();
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

// A list takes 4 to 8 times as long as this layer, and a search of all pairs 1400 times.
TEST_CASE("lists of rows in one buffer cost little") {
  constexpr std::size_t rows = 4000, features = 32;
  for (const bool ascends : {true, false}) {
    rapt_linear_options o = layer(rows, features, features);
    Places x_rows(rows), y_rows(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      x_rows[r] = 2 * (ascends ? r : r * 7 % rows);
      y_rows[r] = 2 * (ascends ? r : r * 11 % rows) + 1;
    }
    o.x_rows = x_rows.data();
    o.y_rows = y_rows.data();
    std::vector<float> memory(2 * rows * features, 0.5f), w(features * features, 1.0f), elsewhere = memory;
    Workspace workspace(o);
    const auto time = [&](float *y) {
      return seconds([&] { REQUIRE(workspace.run(memory.data(), w.data(), y, o) == RAPT_OK); });
    };
    const double apart = time(elsewhere.data()), together = time(memory.data());
    MESSAGE((ascends ? "ascending: " : "any order: ") << together / apart << " times y elsewhere");
    CHECK(together < 100 * apart);
  }
}

}  // namespace
}  // namespace rapt::test
