// Tests batches of linear layers: the bits of one rapt_linear() for each product, for drawn shapes, strides and tasks;
// the gradients of a product of matrices; and the status of each bad argument.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "rapt/rapt.h"
#include "rapt/rapt.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/expect_status.hpp"
#include "support/guarded_buffer.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

using Bytes = std::vector<unsigned char>;
using Sizes = std::vector<std::size_t>;

constexpr std::size_t size_of(rapt_type type) { return type == RAPT_F64 ? 8 : type == RAPT_F32 ? 4 : 2; }

// An array of matrices: the strides of the batch and of a matrix in elements, and how many elements it spans.
struct Layout {
  std::vector<std::ptrdiff_t> batch;  // 0 repeats
  std::ptrdiff_t row = 0, column = 0;
  std::size_t elements = 0;

  std::size_t at(const Sizes &index) const {
    std::size_t element = 0;
    for (std::size_t d = 0; d < index.size(); ++d) element += index[d] * static_cast<std::size_t>(batch[d]);
    return element;
  }
};

// ---- drawn batches

class DrawnBatch {
 public:
  explicit DrawnBatch(Random &random) : random_(random) {
    o_.size = sizeof o_;
    o_.x_type = random.one_of({RAPT_F32, RAPT_F32, RAPT_F64, RAPT_F16, RAPT_BF16});
    const auto other = [&] { return random_.one_of({RAPT_F32, RAPT_F16, RAPT_BF16}); };
    o_.w_type = o_.x_type == RAPT_F64 || random.one_in(2) ? o_.x_type : other();
    o_.y_type = o_.x_type == RAPT_F64 || random.one_in(2) ? o_.x_type : other();
    o_.rows = random.one_in(3) ? 1 : 1 + random.below(random.one_in(4) ? 120 : 12);
    o_.in_features = 1 + random.below(random.one_in(5) ? 600 : 40);
    o_.out_features = 1 + random.below(random.one_in(5) ? 300 : 40);
    b_.size = sizeof b_;
    b_.dims = 1 + random.below(3);
    for (std::size_t d = 0; d < b_.dims; ++d) shape_.push_back(1 + random.below(4));
    if (random.one_in(8)) b_.dims = RAPT_MAX_BATCH_DIMS, shape_.resize(b_.dims, 1);
    std::copy(shape_.begin(), shape_.end(), b_.shape);
    x_ = draw(o_.rows, o_.in_features, true, &o_.x_strides, nullptr, b_.x_strides);
    w_ = draw(o_.out_features, o_.in_features, true, &o_.w_strides, nullptr, b_.w_strides);
    y_ = draw(o_.rows, o_.out_features, false, nullptr, &o_.y_stride, b_.y_strides);
    x_data_ = numbers(o_.x_type, x_.elements);
    w_data_ = numbers(o_.w_type, w_.elements);
    y_before_ = Bytes(y_.elements * size_of(o_.y_type), canary);
    y_data_.emplace(y_before_.size(), placement(), 0);
    draw_what_follows();
    REQUIRE(rapt_linear_batch_workspace(&o_, &b_, &workspace_size_) == RAPT_OK);
    workspace_.emplace(workspace_size_, placement(), random.below(64));
  }

  // One rapt_linear() for each product.
  Bytes expected() {
    Bytes y = y_before_;
    Sizes index(b_.dims);
    const std::size_t number = o_.x_type == RAPT_F64 ? 8 : 4;
    for (std::size_t p = 0; p < products(); ++p) {
      for (std::size_t d = b_.dims, rest = p; d-- > 0; rest /= shape_[d]) index[d] = rest % shape_[d];
      rapt_linear_options o = o_;
      if (o.add) o.add = add_data_.data() + add_.at(index) * size_of(o_.add_type ? o_.add_type : o_.y_type);
      if (o.bias) o.bias = bias_data_.data() + bias_.at(index) * number;
      std::size_t bytes = 0;
      REQUIRE(rapt_linear_workspace(&o, &bytes) == RAPT_OK);
      Bytes workspace(bytes);
      REQUIRE(rapt_linear(x_data_.data() + x_.at(index) * size_of(o_.x_type),
                          w_data_.data() + w_.at(index) * size_of(o_.w_type),
                          y.data() + y_.at(index) * size_of(o_.y_type), &o, workspace.data(),
                          bytes) == RAPT_OK);
    }
    return y;
  }

  void check() {
    const Bytes wanted = expected();
    fill();
    CHECK(rapt_linear_batch(x_data_.data(), w_data_.data(), y_data_->data(), &o_, &b_, workspace_->data(),
                            workspace_size_) == RAPT_OK);
    CHECK(holds(wanted));
    fill();
    REQUIRE(rapt_linear_batch_tasks(&o_, &b_, &tasks_) == RAPT_OK);
    CHECK(run(0, 0) == RAPT_OK);
    CHECK(holds(y_before_));
    const bool is_backwards = random_.one_in(2);
    for (std::size_t done = 0; done < tasks_;) {
      const std::size_t count = 1 + random_.below(std::min<std::size_t>(tasks_ - done, 7));
      const std::size_t first = is_backwards ? tasks_ - done - count : done;
      CHECK(run(first, first + count) == RAPT_OK);
      done += count;
    }
    CHECK(holds(wanted));
    CHECK(run(tasks_, tasks_ + 1) == RAPT_BAD_TASKS);
  }

  // Whether products have become rows of a larger one.
  bool has_joined_rows() const {
    std::size_t tasks = 0;
    REQUIRE(rapt_linear_tasks(&o_, &tasks) == RAPT_OK);
    return tasks_ < tasks * products();
  }
  std::string text() const {
    std::string text = "x " + std::to_string(o_.x_type) + " w " + std::to_string(o_.w_type) + " y " +
                       std::to_string(o_.y_type) + " rows " + std::to_string(o_.rows) + " inputs " +
                       std::to_string(o_.in_features) + " outputs " + std::to_string(o_.out_features) +
                       " shape";
    for (const std::size_t size : shape_) text += ' ' + std::to_string(size);
    return text;
  }

 private:
  Placement placement() { return random_.one_in(2) ? Placement::ends_at_guard : Placement::begins_at_guard; }
  std::size_t products() const {
    return std::accumulate(shape_.begin(), shape_.end(), std::size_t{1}, std::multiplies<>());
  }

  // Draws where the matrices lie: rows and columns either way around, with gaps, the dimensions of the batch in any
  // order.
  Layout draw(std::size_t rows, std::size_t columns, bool may_repeat, rapt_matrix_strides *of_matrix,
              std::ptrdiff_t *of_rows, std::ptrdiff_t (&of_batch)[RAPT_MAX_BATCH_DIMS]) {
    Layout layout;
    const bool is_plain = random_.one_in(3), by_columns = of_matrix && random_.one_in(3);
    const auto gap = [&] { return is_plain || random_.one_in(2) ? std::size_t{0} : random_.below(5); };
    const std::size_t inner = by_columns ? rows : columns, outer = by_columns ? columns : rows,
                      pitch = inner + gap();
    layout.row = static_cast<std::ptrdiff_t>(by_columns ? 1 : pitch);
    layout.column = static_cast<std::ptrdiff_t>(by_columns ? pitch : 1);
    std::size_t step = outer * pitch, last = (outer - 1) * pitch + inner;
    layout.batch.assign(b_.dims, 0);
    Sizes order(b_.dims);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::reverse(order.begin(), order.end());
    if (!is_plain && random_.one_in(3)) std::swap(order[0], order[random_.below(b_.dims)]);
    bool has_strides = !is_plain || random_.one_in(3);
    for (const std::size_t d : order) {
      if (!is_plain && may_repeat && random_.one_in(3)) continue;
      step += gap();
      layout.batch[d] = static_cast<std::ptrdiff_t>(step);
      last += step * (shape_[d] - 1);
      step *= shape_[d];
    }
    layout.elements = last;
    if (of_matrix && (by_columns || pitch != inner || random_.one_in(3)))
      *of_matrix = {layout.row, layout.column};
    if (of_rows && (pitch != inner || random_.one_in(3))) *of_rows = layout.row;
    for (std::size_t d = 0; has_strides && d < b_.dims; ++d) {
      of_batch[d] = layout.batch[d] != 0 ? layout.batch[d] : RAPT_REPEAT;
      // The stride of a single index is not looked at, but for RAPT_REPEAT and others below 0.
      if (shape_[d] == 1) of_batch[d] = random_.one_of<std::ptrdiff_t>({0, 1, 1000, RAPT_REPEAT});
    }
    // All 0 would be without gaps.
    const bool all_zero = std::all_of(of_batch, of_batch + b_.dims, [](auto stride) { return stride == 0; });
    if (has_strides && all_zero) of_batch[0] = 1;
    return layout;
  }
  void draw_what_follows() {
    const rapt_type number = o_.x_type == RAPT_F64 ? RAPT_F64 : RAPT_F32;
    if (random_.one_in(2)) {
      std::ptrdiff_t row = 0;
      bias_ = draw(1, o_.out_features, true, nullptr, &row, b_.bias_strides);
      o_.bias = (bias_data_ = numbers(number, bias_.elements)).data();
    }
    if (random_.one_in(3)) {
      add_ = draw(o_.rows, o_.out_features, true, nullptr, &o_.add_stride, b_.add_strides);
      o_.add_type =
          o_.x_type == RAPT_F64 ? RAPT_F64 : random_.one_of({RAPT_TYPE_DEFAULT, RAPT_F32, RAPT_F16});
      o_.add = (add_data_ = numbers(o_.add_type ? o_.add_type : o_.y_type, add_.elements)).data();
    }
    if (random_.one_in(4)) o_.row_scales = (row_scales_ = numbers(number, o_.rows)).data();
    if (random_.one_in(4)) o_.output_scales = (output_scales_ = numbers(number, o_.out_features)).data();
  }
  Bytes numbers(rapt_type type, std::size_t count) {
    Bytes made(count * size_of(type));
    for (std::size_t i = 0; i < count; ++i) {
      const double number = random_.gaussian();
      const float single = static_cast<float>(number);
      std::uint16_t half = 0;
      if (type == RAPT_F16) rapt_convert_f32_to_f16(&single, &half, 1);
      if (type == RAPT_BF16) rapt_convert_f32_to_bf16(&single, &half, 1);
      const void *const from = type == RAPT_F64   ? static_cast<const void *>(&number)
                               : type == RAPT_F32 ? static_cast<const void *>(&single)
                                                  : &half;
      std::memcpy(&made[i * size_of(type)], from, size_of(type));
    }
    return made;
  }
  rapt_status run(std::size_t first, std::size_t last) {
    return rapt_linear_batch_run(x_data_.data(), w_data_.data(), y_data_->data(), &o_, &b_, first, last,
                                 workspace_->data(), workspace_size_);
  }
  void fill() { std::memcpy(y_data_->data(), y_before_.data(), y_before_.size()); }
  bool holds(const Bytes &wanted) const {
    return std::memcmp(y_data_->data(), wanted.data(), wanted.size()) == 0 &&
           y_data_->surroundings_intact() && workspace_->surroundings_intact();
  }

  Random &random_;
  rapt_linear_options o_{};
  rapt_linear_batch_options b_{};
  Sizes shape_;
  Layout x_, w_, y_, add_, bias_;
  std::size_t workspace_size_ = 0, tasks_ = 0;
  Bytes x_data_, w_data_, y_before_, add_data_, bias_data_, row_scales_, output_scales_;
  std::optional<GuardedBuffer> y_data_, workspace_;
};

TEST_CASE("drawn batches have the bits of one rapt_linear() for each product") {
  std::size_t joined = 0;
  for (std::size_t seed = 1; seed <= native_or_emulated<std::size_t>(2000, 60); ++seed) {
    Random random(seed);
    DrawnBatch batch(random);
    const std::string text = batch.text();
    CAPTURE(seed);
    CAPTURE(text);
    batch.check();
    joined += batch.has_joined_rows();
  }
  // One draw in a hundred or so joins rows: an emulator tries too few.
  if (!emulated()) CHECK(joined > 5);
}

// ---- products of matrices

// Every number is an integer, so that sums are exact in any order.
TEST_CASE_TEMPLATE("a product of matrices and its gradients are calls of other strides", T, float, double) {
  constexpr std::size_t batches = 3, rows = 5, inner = 7, columns = 4;
  Random random(1);
  const auto drawn = [&](std::size_t n) {
    std::vector<T> values;
    for (std::size_t i = 0; i < n; ++i) values.push_back(static_cast<T>(random.below(9)) - 4);
    return values;
  };
  const std::vector<T> a = drawn(batches * rows * inner), b = drawn(batches * inner * columns),
                       g = drawn(batches * rows * columns);
  std::vector<T> y(batches * rows * columns), of_a(a.size()), of_b(b.size());
  rapt_linear_batch_options batch = linear_batch_options();
  batch.dims = 1;
  batch.shape[0] = batches;
  const auto multiply = [&](const std::vector<T> &x, const std::vector<T> &w, std::vector<T> &to,
                            std::size_t m, std::size_t k, std::size_t n, rapt_matrix_strides of_x,
                            rapt_matrix_strides of_w) {
    rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
    o.rows = m, o.in_features = k, o.out_features = n, o.x_strides = of_x, o.w_strides = of_w;
    std::vector<std::byte> workspace(linear_batch_workspace<T>(o, batch));
    CHECK(linear_batch_tasks<T>(o, batch) == batches);
    REQUIRE(linear_batch(x, w, to, o, batch, workspace) == RAPT_OK);
  };
  multiply(a, b, y, rows, inner, columns, {0, 0}, {1, columns});
  multiply(g, b, of_a, rows, columns, inner, {0, 0}, {columns, 1});
  multiply(a, g, of_b, inner, rows, columns, {1, inner}, {1, columns});
  for (std::size_t p = 0; p < batches; ++p) {
    const T *const ap = &a[p * rows * inner], *const bp = &b[p * inner * columns],
                   *const gp = &g[p * rows * columns];
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        T sum = 0;
        for (std::size_t k = 0; k < inner; ++k) sum += ap[i * inner + k] * bp[k * columns + j];
        CHECK(y[(p * rows + i) * columns + j] == sum);
      }
      for (std::size_t k = 0; k < inner; ++k) {
        T sum = 0;
        for (std::size_t j = 0; j < columns; ++j) sum += gp[i * columns + j] * bp[k * columns + j];
        CHECK(of_a[(p * rows + i) * inner + k] == sum);
      }
    }
    for (std::size_t k = 0; k < inner; ++k) {
      for (std::size_t j = 0; j < columns; ++j) {
        T sum = 0;
        for (std::size_t i = 0; i < rows; ++i) sum += ap[i * inner + k] * gp[i * columns + j];
        CHECK(of_b[(p * inner + k) * columns + j] == sum);
      }
    }
  }
}

// The memory of 2 x 3 products of 4 rows, 5 inputs and 6 outputs.
TEST_CASE("ranges of rapt.hpp are as long as the batch") {
  rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
  o.rows = 4, o.in_features = 5, o.out_features = 6;
  rapt_linear_batch_options batch = linear_batch_options();
  batch.dims = 2, batch.shape[0] = 2, batch.shape[1] = 3;
  std::vector<std::byte> workspace(linear_batch_workspace<float>(o, batch));
  const auto status = [&](std::size_t of_x, std::size_t of_w, std::size_t of_y) {
    const std::vector<float> x(of_x, 1), w(of_w, 1);
    std::vector<float> y(of_y);
    const rapt_status whole = linear_batch(x, w, y, o, batch, workspace);
    CHECK(linear_batch_run(x, w, y, o, batch, 0, 6, workspace) == whole);
    if (whole == RAPT_OK) CHECK(std::all_of(y.begin(), y.end(), [](float sum) { return sum == 5; }));
    return whole;
  };
  CHECK(linear_batch_tasks<float>(o, batch) == 6);
  CHECK(status(120, 180, 144) == RAPT_OK);
  CHECK(status(119, 180, 144) == RAPT_BAD_SIZE);
  CHECK(status(120, 179, 144) == RAPT_BAD_SIZE);
  CHECK(status(120, 180, 143) == RAPT_BAD_SIZE);
  batch.x_strides[0] = RAPT_REPEAT, batch.x_strides[1] = 20;
  batch.w_strides[0] = 90, batch.w_strides[1] = 30;
  CHECK(status(60, 180, 144) == RAPT_OK);
  CHECK(status(59, 180, 144) == RAPT_BAD_SIZE);
  CHECK(status(60, 179, 144) == RAPT_BAD_SIZE);
  batch.shape[0] = SIZE_MAX / 2;
  CHECK(status(60, 180, 144) == RAPT_BAD_SIZE);
  batch.shape[0] = 0;
  CHECK(linear_batch_tasks<float>(o, batch) == 0);
  const std::vector<float> none;
  std::vector<float> nowhere;
  CHECK(linear_batch(none, none, nowhere, o, batch, workspace) == RAPT_OK);
  o.x_type = RAPT_F16;
  CHECK(linear_batch(none, none, nowhere, o, batch, workspace) == RAPT_BAD_TYPE);
  CHECK(linear_batch_workspace<float>(o, batch) == 0);
}

// ---- statuses

// Two by three products of 5 rows, 7 inputs and 6 outputs.
struct Call {
  static constexpr std::size_t inputs = 7, outputs = 6, rows = 5, products = 6;
  static constexpr unsigned whole = 1, all_tasks = 2, check = 4, tasks = 8, room = 16, any = 31, looks = 7;
  static constexpr FunctionName functions[] = {{whole, "rapt_linear_batch"},
                                               {all_tasks, "rapt_linear_batch_run"},
                                               {check, "rapt_linear_batch_run of no tasks"},
                                               {tasks, "rapt_linear_batch_tasks"},
                                               {room, "rapt_linear_batch_workspace"}};

  unsigned function;
  rapt_linear_options options = RAPT_LINEAR_OPTIONS_INIT;
  rapt_linear_batch_options batch = RAPT_LINEAR_BATCH_OPTIONS_INIT;
  const rapt_linear_options *given = &options;
  const rapt_linear_batch_options *given_batch = &batch;
  std::vector<float> x = std::vector<float>(2 * products * rows * inputs, 1),
                     y = std::vector<float>(2 * products * rows * outputs, 7),
                     w = std::vector<float>(products * inputs * outputs, 0.5f),
                     bias = std::vector<float>(products * outputs, 3);
  Bytes workspace;
  const void *of_x = x.data(), *of_w = w.data();
  void *of_y = y.data(), *of_workspace = nullptr;
  std::size_t answer = 0, first = 0, last = 0, workspace_size = 0;

  explicit Call(unsigned bit) : function(bit) {
    options.rows = rows;
    options.in_features = inputs;
    options.out_features = outputs;
    options.bias = bias.data();
    batch.dims = 2;
    batch.shape[0] = 2, batch.shape[1] = 3;
    REQUIRE(rapt_linear_batch_workspace(&options, &batch, &workspace_size) == RAPT_OK);
    workspace.resize(workspace_size);
    of_workspace = workspace.data();
    if (function == all_tasks) REQUIRE(rapt_linear_batch_tasks(&options, &batch, &last) == RAPT_OK);
  }
  Call(const Call &) = delete;

  void without_arrays() {
    of_x = of_w = of_y = of_workspace = nullptr;
    last = 0;
  }
  rapt_status run() {
    if (function == tasks) return rapt_linear_batch_tasks(given, given_batch, &answer);
    if (function == room) return rapt_linear_batch_workspace(given, given_batch, &answer);
    if (function == whole)
      return rapt_linear_batch(of_x, of_w, of_y, given, given_batch, of_workspace, workspace_size);
    return rapt_linear_batch_run(of_x, of_w, of_y, given, given_batch, first, last, of_workspace,
                                 workspace_size);
  }
  bool writes_nothing() const { return function == check || !of_y; }
  std::string image() const {
    std::string bytes;
    append_bytes(bytes, y);
    append_bytes(bytes, x);
    append_bytes(bytes, w);
    bytes += std::to_string(answer);
    return bytes;
  }
};
using C = Call;

TEST_CASE("valid calls") {
  expect_statuses<C>({
      {"no strides", C::any, RAPT_OK, [](C &) {}},
      {"strides without gaps", C::any, RAPT_OK,
       [](C &c) {
         c.options.x_strides = {C::inputs, 1};
         c.options.y_stride = C::outputs;
       }},
      {"transposed without gaps", C::any, RAPT_OK,
       [](C &c) {
         c.options.w_strides = {1, C::outputs};
       }},
      {"one weight and one bias for all", C::any & ~C::all_tasks & ~C::tasks, RAPT_OK,
       [](C &c) {
         c.batch.w_strides[0] = c.batch.w_strides[1] = RAPT_REPEAT;
         c.batch.bias_strides[0] = c.batch.bias_strides[1] = RAPT_REPEAT;
         REQUIRE(rapt_linear_batch_workspace(&c.options, &c.batch, &c.workspace_size) == RAPT_OK);
         c.workspace.resize(c.workspace_size);
         c.of_workspace = c.workspace.data();
       }},
      {"add is y", C::any, RAPT_OK, [](C &c) { c.options.add = c.of_y; }},
      {"add beside y", C::any, RAPT_OK, [](C &c) { c.options.add = &c.y[c.y.size() / 2]; }},
      {"y between the rows of x", C::looks, RAPT_OK,
       [](C &c) {
         constexpr std::size_t pitch = C::inputs + C::outputs;
         c.x.resize(C::products * C::rows * pitch);
         c.of_x = c.x.data();
         c.of_y = c.x.data() + C::inputs;
         c.options.x_strides = {pitch, 1};
         c.options.y_stride = pitch;
         for (auto *strides : {c.batch.x_strides, c.batch.y_strides})
           strides[0] = 3 * C::rows * pitch, strides[1] = C::rows * pitch;
       }},
      {"no products", C::looks, RAPT_OK, [](C &c) { c.batch.shape[1] = 0, c.without_arrays(); }},
      {"no rows", C::looks, RAPT_OK, [](C &c) { c.options.rows = 0, c.without_arrays(); }},
      {"no outputs", C::looks, RAPT_OK, [](C &c) { c.options.out_features = 0, c.without_arrays(); }},
      {"a shape beyond dims is not looked at", C::any, RAPT_OK, [](C &c) { c.batch.shape[2] = SIZE_MAX; }},
  });
}

TEST_CASE("options of the batch") {
  expect_statuses<C>({
      {"no options", C::any, RAPT_BAD_OPTIONS, [](C &c) { c.given = nullptr; }},
      {"no batch", C::any, RAPT_BAD_OPTIONS, [](C &c) { c.given_batch = nullptr; }},
      {"size 0", C::any, RAPT_BAD_OPTIONS_SIZE, [](C &c) { c.options.size = 0; }},
      {"size 0 of the batch", C::any, RAPT_BAD_OPTIONS_SIZE, [](C &c) { c.batch.size = 0; }},
      {"a longer size", C::any, RAPT_BAD_OPTIONS_SIZE, [](C &c) { c.batch.size += 8; }},
      {"no dimensions", C::any, RAPT_BAD_DIMS, [](C &c) { c.batch.dims = 0; }},
      {"too many dimensions", C::any, RAPT_BAD_DIMS, [](C &c) { c.batch.dims = RAPT_MAX_BATCH_DIMS + 1; }},
      {"no inputs", C::any, RAPT_BAD_SHAPE, [](C &c) { c.options.in_features = 0; }},
      {"a type", C::any, RAPT_BAD_TYPE, [](C &c) { c.options.w_type = RAPT_F64; }},
      {"integers", C::any, RAPT_BAD_TYPE, [](C &c) { c.options.w_type = RAPT_I8; }},
      {"packed weights", C::any, RAPT_BAD_PACKED, [](C &c) { c.options.packed_w = 1; }},
      {"rows of x", C::any, RAPT_BAD_ROWS, [](C &c) { c.options.x_rows = &c.workspace_size; }},
      {"rows of y", C::any, RAPT_BAD_ROWS, [](C &c) { c.options.y_rows = &c.workspace_size; }},
      {"products beyond memory", C::any, RAPT_BAD_SIZE, [](C &c) { c.batch.shape[0] = SIZE_MAX; }},
      {"a stride of x below 0", C::any, RAPT_BAD_X_STRIDES, [](C &c) { c.batch.x_strides[1] = -5; }},
      {"a missing stride of x", C::any, RAPT_BAD_X_STRIDES, [](C &c) { c.batch.x_strides[1] = 35; }},
      {"a batch of x with gaps", C::any, RAPT_BAD_X_STRIDES,
       [](C &c) {
         c.options.x_strides = {C::inputs + 1, 1};
       }},
      {"a missing stride of w", C::any, RAPT_BAD_W_STRIDES, [](C &c) { c.batch.w_strides[0] = 126; }},
      {"a stride of w beyond memory", C::any, RAPT_BAD_SIZE,
       [](C &c) { c.batch.w_strides[0] = c.batch.w_strides[1] = PTRDIFF_MAX / 2; }},
      {"y repeats", C::any, RAPT_BAD_Y_STRIDES,
       [](C &c) { c.batch.y_strides[0] = 90, c.batch.y_strides[1] = RAPT_REPEAT; }},
      {"products of y that overlap", C::any, RAPT_BAD_Y_STRIDES,
       [](C &c) { c.batch.y_strides[0] = 90, c.batch.y_strides[1] = 29; }},
      {"strides without add", C::any, RAPT_BAD_ADD, [](C &c) { c.batch.add_strides[0] = 1; }},
      {"a missing stride of add", C::any, RAPT_BAD_ADD,
       [](C &c) { c.options.add = c.of_y, c.batch.add_strides[1] = 30; }},
      {"strides without a bias", C::any, RAPT_BAD_BIAS_STRIDES,
       [](C &c) { c.options.bias = nullptr, c.batch.bias_strides[0] = RAPT_REPEAT; }},
      {"a missing stride of the bias", C::any, RAPT_BAD_BIAS_STRIDES,
       [](C &c) { c.batch.bias_strides[0] = 18; }},
  });
}

TEST_CASE("arrays") {
  expect_statuses<C>({
      {"no x", C::looks, RAPT_BAD_X, [](C &c) { c.of_x = nullptr; }},
      {"no w", C::looks, RAPT_BAD_W, [](C &c) { c.of_w = nullptr; }},
      {"no y", C::looks, RAPT_BAD_Y, [](C &c) { c.of_y = nullptr; }},
      {"no workspace", C::looks, RAPT_BAD_WORKSPACE, [](C &c) { c.of_workspace = nullptr; }},
      {"a short workspace", C::looks, RAPT_BAD_WORKSPACE, [](C &c) { --c.workspace_size; }},
      {"tasks past the last", C::all_tasks, RAPT_BAD_TASKS, [](C &c) { ++c.last; }},
      {"tasks backwards", C::all_tasks | C::check, RAPT_BAD_TASKS, [](C &c) { c.first = c.last + 1; }},
      {"y on the last x", C::looks, RAPT_BAD_OVERLAP,
       [](C &c) { c.of_y = &c.x[C::products * C::rows * C::inputs - 1]; }},
      {"y on the last weights", C::looks, RAPT_BAD_OVERLAP, [](C &c) { c.of_w = &c.y[5 * 30 + 29]; }},
      {"y on the bias", C::looks, RAPT_BAD_OVERLAP, [](C &c) { c.options.bias = c.y.data(); }},
      {"y on the scales of rows", C::looks, RAPT_BAD_OVERLAP,
       [](C &c) { c.options.row_scales = &c.y[C::products * C::rows * C::outputs - 1]; }},
      {"y on the scales of outputs", C::looks, RAPT_BAD_OVERLAP,
       [](C &c) { c.options.output_scales = c.y.data(); }},
      {"part of y on add", C::looks, RAPT_BAD_OVERLAP, [](C &c) { c.options.add = &c.y[1]; }},
      {"add repeats in y", C::looks, RAPT_BAD_OVERLAP,
       [](C &c) {
         c.options.add = c.of_y;
         c.batch.add_strides[0] = c.batch.add_strides[1] = RAPT_REPEAT;
       }},
      {"add of another type in y", C::looks, RAPT_BAD_OVERLAP,
       [](C &c) {
         c.options.add = c.of_y;
         c.options.add_type = RAPT_F16;
       }},
      {"the workspace on the last weights", C::looks, RAPT_BAD_WORKSPACE,
       [](C &c) {
         c.workspace.resize(c.workspace_size + 6 * 42 * sizeof(float));
         c.of_workspace = &c.workspace[5 * 42 * sizeof(float) + 41 * sizeof(float)];
         c.of_w = c.workspace.data();
       }},
      {"the workspace on y", C::looks, RAPT_BAD_WORKSPACE,
       [](C &c) {
         c.workspace.resize(c.workspace_size + 4096);
         c.of_y = c.workspace.data();
         c.of_workspace = &c.workspace[179 * sizeof(float)];
       }},
      {"the workspace on scales", C::looks, RAPT_BAD_WORKSPACE,
       [](C &c) { c.options.row_scales = c.workspace.data(); }},
  });
}

}  // namespace
}  // namespace rapt::test
