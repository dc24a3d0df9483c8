// Tests what the description of linear layers lacks: dimensions that repeat, tasks, packing, and damaged packed
// weights.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "calls/linear_problems.hpp"
#include "calls/linear_values.hpp"
#include "support/case_text.hpp"
#include "support/compare_kernels.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/option_statuses.hpp"
#include "support/options.hpp"
#include "support/public_api.hpp"

namespace rapt::test {
namespace {

// ---- what layouts of the description do not have

// Holds a call on dense matrices whose options a test changes.
constexpr std::size_t most_of_packed = 64 + 192 * 8 * 8;

template <class T>
struct Call {
  using Element = T;
  using A = Number<T>;
  enum Function : unsigned { whole = 1, by_tasks = 2, all = 3 };
  static constexpr FunctionName functions[] = {{whole, "rapt_linear"}, {by_tasks, "rapt_linear_run"}};
  static constexpr std::size_t rows = 3, inputs = 5, outputs = 130, most = 4 * outputs * inputs;

  unsigned function;
  std::vector<T> x_memory = ordinary(most), w_memory = ordinary(most), y_memory = std::vector<T>(most, T(7)),
                 add_memory = ordinary(most);
  std::vector<A> bias = std::vector<A>(outputs, A(0.5)), row_scales = std::vector<A>(rows, A(-2));
  std::vector<std::size_t> list = {1, 2, 0};
  const T *x = x_memory.data(), *w = w_memory.data();
  T *y = y_memory.data();
  rapt_linear_options options{};
  const rapt_linear_options *given = &options;
  std::vector<unsigned char> workspace_memory;
  void *workspace = nullptr;
  std::size_t workspace_size = 0, first = 0, last = 2;

  explicit Call(unsigned called = whole) : function(called) {
    options.size = sizeof options;
    options.x_type = Api<T>::type;
    if (std::is_same_v<T, BF16>) options.arithmetic = RAPT_ARITHMETIC_F32;
    options.rows = rows;
    options.in_features = inputs;
    options.out_features = outputs;
    make_workspace();
  }
  Call(const Call &) = delete;

  void make_workspace() {
    REQUIRE(rapt_linear_workspace(&options, &workspace_size) == RAPT_OK);
    workspace_memory.resize(workspace_size);
    workspace = workspace_memory.data();
  }
  static std::vector<T> ordinary(std::size_t count) {
    std::vector<T> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = T(static_cast<float>(i % 11) / 4 - 1);
    return values;
  }
  rapt_status run() {
    if (function == whole) return rapt_linear(x, w, y, given, workspace, workspace_size);
    return rapt_linear_run(x, w, y, given, first, last, workspace, workspace_size);
  }
  bool writes_nothing() const { return options.rows == 0 || options.out_features == 0 || first == last; }
  std::string image() const {
    std::string bytes;
    for (const auto *memory : {&x_memory, &w_memory, &y_memory, &add_memory}) append_bytes(bytes, *memory);
    append_bytes(bytes, bias);
    append_bytes(bytes, row_scales);
    append_bytes(bytes, list);
    return bytes;
  }
  // Returns the bits of y after a call that must succeed.
  std::vector<std::uint64_t> bits() {
    REQUIRE(run() == RAPT_OK);
    std::vector<std::uint64_t> made;
    for (const T value : y_memory) made.push_back(canonical_bits(value));
    return made;
  }
};

TEST_CASE_TEMPLATE("rows, outputs and inputs that repeat", T, float, double, F16, BF16) {
  on_every_level([] {
    constexpr std::ptrdiff_t inputs = Call<T>::inputs;
    const auto check = [](rapt_matrix_strides x, rapt_matrix_strides w) {
      Call<T> repeated, copied;
      repeated.options.x_strides = x;
      repeated.options.w_strides = w;
      const auto at = [](rapt_matrix_strides strides, std::ptrdiff_t row, std::ptrdiff_t column) {
        const std::ptrdiff_t of_row = strides.row == RAPT_REPEAT ? 0 : strides.row;
        return of_row * row + (strides.column == RAPT_REPEAT ? 0 : strides.column) * column;
      };
      for (std::ptrdiff_t i = 0; i < std::ptrdiff_t{Call<T>::rows} * inputs; ++i)
        copied.x_memory[static_cast<std::size_t>(i)] = repeated.x[at(x, i / inputs, i % inputs)];
      for (std::ptrdiff_t i = 0; i < std::ptrdiff_t{Call<T>::outputs} * inputs; ++i)
        copied.w_memory[static_cast<std::size_t>(i)] = repeated.w[at(w, i / inputs, i % inputs)];
      CHECK(repeated.bits() == copied.bits());
    };
    check({RAPT_REPEAT, 1}, {inputs, 1});
    check({inputs, RAPT_REPEAT}, {inputs, 1});
    check({inputs, 1}, {RAPT_REPEAT, 1});
    check({inputs, 1}, {inputs, RAPT_REPEAT});
    check({RAPT_REPEAT, RAPT_REPEAT}, {RAPT_REPEAT, RAPT_REPEAT});
    check({1, 1}, {1, 1});  // rows may overlap
  });
}

TEST_CASE_TEMPLATE("a row of x may be in the list many times", T, float, double, F16, BF16) {
  on_every_level([] {
    Call<T> listed, copied;
    listed.list = {2, 0, 2};
    listed.options.x_rows = listed.list.data();
    for (std::size_t i = 0; i < Call<T>::rows * Call<T>::inputs; ++i) {
      copied.x_memory[i] = listed.x[listed.list[i / Call<T>::inputs] * Call<T>::inputs + i % Call<T>::inputs];
    }
    CHECK(listed.bits() == copied.bits());
  });
}

TEST_CASE("a sum is never -0, and a negative scale makes it so") {
  Call<float> call;
  std::fill(call.x_memory.begin(), call.x_memory.end(), -0.0f);
  std::fill(call.w_memory.begin(), call.w_memory.end(), 1.0f);
  on_every_level([&] {
    REQUIRE(call.run() == RAPT_OK);
    CHECK(bits_of(call.y[0]) == bits_of(0.0f));
    call.options.row_scales = call.row_scales.data();
    REQUIRE(call.run() == RAPT_OK);
    CHECK(bits_of(call.y[0]) == bits_of(-0.0f));
    call.options.row_scales = nullptr;
  });
}

TEST_CASE("NaN touches its own row or output only") {
  on_every_level([] {
    for (const int packed : {0, 1}) {
      Call<float> plain, spoilt;
      spoilt.x_memory[Call<float>::inputs + 2] = std::numeric_limits<float>::quiet_NaN();
      spoilt.w_memory[66 * Call<float>::inputs + 4] = std::numeric_limits<float>::infinity();
      std::vector<float> memory[2];
      Call<float> *const calls[] = {&plain, &spoilt};
      for (std::size_t i = 0; packed && i < 2; ++i) {
        std::size_t bytes = 0;
        REQUIRE(rapt_linear_packed_length(&calls[i]->options, &bytes) == RAPT_OK);
        memory[i].resize(bytes / sizeof(float));
        REQUIRE(rapt_linear_pack(calls[i]->w, 0, Call<float>::outputs, &calls[i]->options, memory[i].data(),
                                 bytes) == RAPT_OK);
        calls[i]->w = memory[i].data();
        calls[i]->options.packed_w = 1;
      }
      const auto expected = plain.bits(), got = spoilt.bits();
      for (std::size_t i = 0; i < Call<float>::rows * Call<float>::outputs; ++i) {
        const bool is_spoilt = i / Call<float>::outputs == 1 || i % Call<float>::outputs == 66;
        if (!is_spoilt) CHECK(got[i] == expected[i]);
        if (i / Call<float>::outputs == 1) CHECK(std::isnan(spoilt.y[i]));
      }
    }
  });
}

// A program may store packed weights, so that their bytes must stay as they are.
TEST_CASE_TEMPLATE("the layout of packed weights", T, float, double, F16, BF16) {
  on_every_level([] {
    for (const std::size_t inputs : Sizes{1, 4, 5}) {
      Call<T> call;
      call.options.in_features = inputs;
      const bool in_pairs = std::is_same_v<T, BF16>;
      const std::size_t padded = in_pairs ? (inputs + 1) / 2 * 2 : inputs, blocks = 3;
      std::size_t bytes = 0;
      REQUIRE(rapt_linear_packed_length(&call.options, &bytes) == RAPT_OK);
      constexpr std::size_t header = 64;
      REQUIRE(bytes == header + blocks * 64 * padded * sizeof(T));
      std::vector<T> expected(blocks * 64 * padded, T(0)), packed(bytes / sizeof(T), T(9));
      for (std::size_t n = 0; n < Call<T>::outputs; ++n) {
        for (std::size_t k = 0; k < inputs; ++k) {
          const std::size_t block = n / 64 * 64 * padded;
          expected[block + (in_pairs ? k / 2 * 128 + n % 64 * 2 + k % 2 : k * 64 + n % 64)] =
              call.w[n * inputs + k];
        }
      }
      for (const std::size_t first : Sizes{0, 128}) {
        REQUIRE(rapt_linear_pack(call.w + first * inputs, first, first == 0 ? 128 : 2, &call.options,
                                 packed.data(), bytes) == RAPT_OK);
      }
      CHECK(std::memcmp(packed.data() + header / sizeof(T), expected.data(), bytes - header) == 0);
      const auto type = static_cast<std::uint64_t>(Api<T>::type);
      const std::uint64_t fields[] = {inputs, Call<T>::outputs, 0, type, 0, bytes};
      std::uint64_t name_and_fields[8];
      std::memcpy(name_and_fields, packed.data(), header);
      CHECK(std::memcmp(name_and_fields, "\0raptlw1", 8) == 0);
      CHECK(std::equal(std::begin(fields), std::end(fields), name_and_fields + 1));
    }
  });
}

// ---- statuses

TEST_CASE_TEMPLATE("tasks", T, float, double, F16, BF16) {
  using C = Call<T>;
  std::size_t tasks = 0;
  const C plain;
  REQUIRE(rapt_linear_tasks(&plain.options, &tasks) == RAPT_OK);
  REQUIRE(tasks == 2);
  expect_statuses<C>({
      {"after the last", C::by_tasks, RAPT_BAD_TASKS, [](auto &call) { call.last = 3; }},
      {"backwards", C::by_tasks, RAPT_BAD_TASKS, [](auto &call) { call.first = 2, call.last = 1; }},
      {"none", C::by_tasks, RAPT_OK, [](auto &call) { call.first = call.last = 1; }},
      {"none at the end", C::by_tasks, RAPT_OK, [](auto &call) { call.first = call.last = 2; }},
      {"one", C::by_tasks, RAPT_OK, [](auto &call) { call.first = 1; }},
  });
}

TEST_CASE_TEMPLATE("arguments of the queries and of packing", T, float, double, F16, BF16) {
  Call<T> call;
  std::size_t number = 7;
  for (const auto query : {rapt_linear_workspace, rapt_linear_tasks, rapt_linear_packed_length}) {
    CHECK(query(nullptr, &number) == RAPT_BAD_OPTIONS);
    CHECK(query(&call.options, nullptr) == RAPT_BAD_OUT);
    rapt_linear_options bad = call.options;
    bad.in_features = 0;
    CHECK(query(&bad, &number) == RAPT_BAD_SHAPE);
    CHECK(number == 7);
  }
  std::size_t bytes = 0;
  REQUIRE(rapt_linear_packed_length(&call.options, &bytes) == RAPT_OK);
  std::vector<unsigned char> packed(bytes, 9);
  const auto pack = [&](const T *w, std::size_t first, std::size_t outputs,
                        const rapt_linear_options *options,
                        void *to) { return rapt_linear_pack(w, first, outputs, options, to, bytes); };
  CHECK(pack(nullptr, 0, 64, &call.options, packed.data()) == RAPT_BAD_W);
  CHECK(pack(call.w, 0, 64, &call.options, nullptr) == RAPT_BAD_PACKED);
  CHECK(pack(call.w, 0, 64, nullptr, packed.data()) == RAPT_BAD_OPTIONS);
  CHECK(pack(call.w, 1, 64, &call.options, packed.data()) == RAPT_BAD_PACKED);
  CHECK(pack(call.w, 128, 3, &call.options, packed.data()) == RAPT_BAD_SIZE);
  CHECK(pack(call.w, 192, 1, &call.options, packed.data()) == RAPT_BAD_SIZE);
  CHECK(pack(call.w, 0, SIZE_MAX, &call.options, packed.data()) == RAPT_BAD_SIZE);
  CHECK(rapt_linear_pack(call.w, 0, 64, &call.options, packed.data(), bytes - 1) == RAPT_BAD_PACKED);
  CHECK(pack(call.w, 64, 64, &call.options, packed.data()) == RAPT_BAD_PACKED);  // nothing begins the layer
  rapt_linear_options bad = call.options;
  bad.w_strides = {0, 1};
  CHECK(pack(call.w, 0, 64, &bad, packed.data()) == RAPT_BAD_W_STRIDES);
  CHECK(std::all_of(packed.begin(), packed.end(), [](unsigned char byte) { return byte == 9; }));
  CHECK(pack(call.w, 0, 0, &call.options, packed.data()) == RAPT_OK);
  CHECK(std::all_of(packed.begin(), packed.end(), [](unsigned char byte) { return byte == 9; }));
  // The layer's options may already say that w is packed.
  rapt_linear_options of_packed = call.options;
  of_packed.packed_w = 1;
  CHECK(pack(call.w, 0, Call<T>::outputs, &of_packed, packed.data()) == RAPT_OK);
}

// The memory is larger than every layer here, so that only the header tells them apart.
TEST_CASE_TEMPLATE("packed weights of another layer or type, and damaged ones", T, float, double, F16, BF16) {
  Call<T> call;
  std::vector<T> packed(most_of_packed / sizeof(T), T(9));
  REQUIRE(rapt_linear_pack(call.w, 0, Call<T>::outputs, &call.options, packed.data(), most_of_packed) ==
          RAPT_OK);
  const auto try_layer = [&](const char *what, rapt_status expected, auto change) {
    CAPTURE(what);
    const std::vector<T> before = packed;
    rapt_linear_options other = call.options;
    other.arithmetic = RAPT_ARITHMETIC_DEFAULT;
    change(other);
    CHECK(rapt_linear_pack(call.w, 64, 64, &other, packed.data(), most_of_packed) == expected);
    CHECK((std::memcmp(packed.data(), before.data(), most_of_packed) == 0) == (expected != RAPT_OK));
    packed = before;
    other.packed_w = 1;
    std::vector<unsigned char> workspace(1 << 20);
    std::vector<double> y(8 * Call<T>::outputs, 7), untouched = y;
    CHECK(rapt_linear(call.x, packed.data(), y.data(), &other, workspace.data(), workspace.size()) ==
          expected);
    CHECK((y == untouched) == (expected != RAPT_OK));
  };
  try_layer("the same", RAPT_OK, [](auto &) {});
  try_layer("more outputs", RAPT_BAD_PACKED, [](auto &o) { ++o.out_features; });
  try_layer("fewer inputs", RAPT_BAD_PACKED, [](auto &o) { --o.in_features; });
  for (const rapt_type type : {RAPT_F32, RAPT_F64, RAPT_F16, RAPT_BF16}) {
    if (type == Api<T>::type) continue;
    try_layer("another type", RAPT_BAD_PACKED, [&](auto &o) {
      o.w_type = type;
      if (type == RAPT_F64 || std::is_same_v<T, double>) o.x_type = type;
    });
  }
  auto *const bytes = reinterpret_cast<unsigned char *>(packed.data());
  for (std::size_t i = 0; i < 64; ++i) {
    for (int change = 1; change < 256; ++change) {
      bytes[i] ^= static_cast<unsigned char>(change);
      rapt_linear_options o = call.options;
      o.packed_w = 1;
      if (rapt_linear(call.x, bytes, call.y, &o, call.workspace, call.workspace_size) != RAPT_BAD_PACKED)
        FAIL_CHECK("byte " << i << " changed by " << change);
      bytes[i] ^= static_cast<unsigned char>(change);
    }
  }
}

}  // namespace
}  // namespace rapt::test
