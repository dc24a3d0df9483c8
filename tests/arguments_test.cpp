// A bad argument gives the status that names it, and nothing is written.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

constexpr std::size_t rows = 3, cols = 5;
constexpr std::ptrdiff_t stride = 7;
constexpr std::size_t extent = (rows - 1) * static_cast<std::size_t>(stride) + cols;

rapt_softmax_options default_options() { return RAPT_SOFTMAX_OPTIONS_INIT; }

// A good call's arguments, of which a test spoils one.
template <class T>
struct Call {
  std::vector<T> x_memory = std::vector<T>(2 * extent, T(0.5));
  std::vector<T> dy_memory = std::vector<T>(2 * extent, T(0.25));
  std::vector<T> y_memory = std::vector<T>(2 * extent, T(-7));
  const T *x = x_memory.data();
  const T *dy = dy_memory.data();
  T *y = y_memory.data();
  std::ptrdiff_t x_stride = stride, dy_stride = stride, y_stride = stride;
  std::size_t row_count = rows, col_count = cols;
  rapt_softmax_options options = default_options();
  T scale = 1;

  rapt_status softmax() { return Api<T>::softmax(x, x_stride, y, y_stride, row_count, col_count, &options); }
  rapt_status log_softmax() {
    return Api<T>::log_softmax(x, x_stride, y, y_stride, row_count, col_count, &options);
  }
  rapt_status logsumexp() { return Api<T>::logsumexp(x, x_stride, y, row_count, col_count, &options); }
  rapt_status backward() {
    return Api<T>::softmax_backward(x, x_stride, dy, dy_stride, y, y_stride, row_count, col_count, scale);
  }
  bool untouched() const {
    std::size_t touched = 0;
    for (const T value : x_memory) touched += value != T(0.5);
    for (const T value : dy_memory) touched += value != T(0.25);
    for (const T value : y_memory) touched += value != T(-7);
    return touched == 0;
  }
};

enum Functions : unsigned { softmax = 1, log_softmax = 2, logsumexp = 4, backward = 8 };
constexpr unsigned with_options = softmax | log_softmax | logsumexp;
constexpr unsigned with_matrix_output = softmax | log_softmax | backward;

template <class T, class Spoil>
void rejects(unsigned functions, rapt_status expected, Spoil &&spoil) {
  CAPTURE(rapt_status_text(expected));
  for (const unsigned function : {softmax, log_softmax, logsumexp, backward}) {
    if (!(functions & function)) continue;
    CAPTURE(function);
    Call<T> call;
    spoil(call);
    const rapt_status status = function == softmax       ? call.softmax()
                               : function == log_softmax ? call.log_softmax()
                               : function == logsumexp   ? call.logsumexp()
                                                         : call.backward();
    CHECK(status == expected);
    if (expected != RAPT_OK) CHECK(call.untouched());
  }
}

template <class T, class Spoil>
void accepts(unsigned functions, Spoil &&spoil) {
  rejects<T>(functions, RAPT_OK, std::forward<Spoil>(spoil));
}

}  // namespace

TEST_CASE_TEMPLATE("null pointers", T, float, double) {
  rejects<T>(with_options, RAPT_BAD_X, [](auto &call) { call.x = nullptr; });
  rejects<T>(softmax | log_softmax, RAPT_BAD_Y, [](auto &call) { call.y = nullptr; });
  rejects<T>(logsumexp, RAPT_BAD_OUT, [](auto &call) { call.y = nullptr; });
  rejects<T>(backward, RAPT_BAD_Y, [](auto &call) { call.x = nullptr; });
  rejects<T>(backward, RAPT_BAD_DY, [](auto &call) { call.dy = nullptr; });
  rejects<T>(backward, RAPT_BAD_DX, [](auto &call) { call.y = nullptr; });
  for (const auto &[row_count, col_count] :
       {std::pair<std::size_t, std::size_t>{0, cols}, {rows, 0}, {0, 0}}) {
    accepts<T>(softmax | log_softmax | backward, [&, r = row_count, c = col_count](auto &call) {
      call.x = call.dy = call.y = nullptr;
      call.row_count = r;
      call.col_count = c;
    });
  }
}

TEST_CASE_TEMPLATE("strides", T, float, double) {
  for (const std::ptrdiff_t bad :
       {std::ptrdiff_t{cols - 1}, std::ptrdiff_t{0}, std::ptrdiff_t{-7}, PTRDIFF_MIN}) {
    rejects<T>(with_options, RAPT_BAD_X_STRIDE, [&](auto &call) { call.x_stride = bad; });
    rejects<T>(softmax | log_softmax, RAPT_BAD_Y_STRIDE, [&](auto &call) { call.y_stride = bad; });
    rejects<T>(backward, RAPT_BAD_Y_STRIDE, [&](auto &call) { call.x_stride = bad; });
    rejects<T>(backward, RAPT_BAD_DY_STRIDE, [&](auto &call) { call.dy_stride = bad; });
    rejects<T>(backward, RAPT_BAD_DX_STRIDE, [&](auto &call) { call.y_stride = bad; });
    // With one row no stride is read.
    accepts<T>(softmax | log_softmax | logsumexp | backward, [&](auto &call) {
      call.row_count = 1;
      call.x_stride = call.dy_stride = call.y_stride = bad;
    });
  }
  accepts<T>(with_matrix_output, [](auto &call) { call.x_stride = call.dy_stride = call.y_stride = cols; });
}

TEST_CASE_TEMPLATE("sizes that no memory has", T, float, double) {
  constexpr unsigned all = with_options | backward;
  rejects<T>(all, RAPT_BAD_SIZE, [](auto &call) {
    call.row_count = SIZE_MAX / 2;
    call.x_stride = call.dy_stride = call.y_stride = PTRDIFF_MAX;
  });
  rejects<T>(all, RAPT_BAD_SIZE, [](auto &call) {
    call.row_count = 1;
    call.col_count = SIZE_MAX / sizeof(T);
    call.x_stride = call.dy_stride = call.y_stride = PTRDIFF_MAX;
  });
  rejects<T>(all, RAPT_BAD_SIZE, [](auto &call) { call.row_count = SIZE_MAX; });
}

TEST_CASE_TEMPLATE("scale and softcap", T, float, double) {
  using Limits = std::numeric_limits<T>;
  constexpr float infinity = std::numeric_limits<float>::infinity(),
                  nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {infinity, -infinity, nan}) {
    rejects<T>(with_options, RAPT_BAD_SCALE, [&](auto &call) { call.options.scale = double{bad}; });
    rejects<T>(with_options, RAPT_BAD_SOFTCAP, [&](auto &call) { call.options.softcap = double{bad}; });
  }
  rejects<T>(with_options, RAPT_BAD_SOFTCAP, [](auto &call) { call.options.softcap = -1; });
  for (const T bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    rejects<T>(backward, RAPT_BAD_SCALE, [&](auto &call) { call.scale = bad; });
  }
  for (const double bad : {double{Limits::max()}, double{Limits::max()} / 1.4, double{Limits::min()} / 1.1}) {
    rejects<T>(with_options, RAPT_BAD_SCALE, [&](auto &call) { call.options.scale = bad; });
  }
  for (const auto &[scale, softcap] : {std::pair{1.0, double{Limits::max()}},
                                       {1.0, double{Limits::min()} / 1.1},
                                       {1.0, -5e-324},
                                       {1e10, double{Limits::min()}}}) {
    rejects<T>(with_options, RAPT_BAD_SOFTCAP, [&, s = scale, c = softcap](auto &call) {
      call.options.scale = s;
      call.options.softcap = c;
    });
  }
  for (const double good : {0.0, -0.0, -3.0, double{Limits::max()} / 1.5, double{Limits::min()}}) {
    accepts<T>(with_options, [&](auto &call) { call.options.scale = good; });
  }
}

TEST_CASE_TEMPLATE("bias, mask and row lengths", T, float, double) {
  const std::vector<T> bias(extent, T(0));
  const std::vector<std::uint8_t> mask(extent, 1);
  for (const std::ptrdiff_t bad : {1, static_cast<int>(cols) - 1, -1, -7}) {
    rejects<T>(with_options, RAPT_BAD_BIAS_STRIDE, [&](auto &call) {
      call.options.bias = bias.data();
      call.options.bias_stride = bad;
    });
    rejects<T>(with_options, RAPT_BAD_MASK_STRIDE, [&](auto &call) {
      call.options.mask = mask.data();
      call.options.mask_stride = bad;
    });
    // With one row no stride is read; without the array any stride is one too many.
    accepts<T>(with_options, [&](auto &call) {
      call.row_count = 1;
      call.options.bias = bias.data();
      call.options.mask = mask.data();
      call.options.bias_stride = call.options.mask_stride = bad;
    });
    rejects<T>(with_options, RAPT_BAD_BIAS_STRIDE, [&](auto &call) { call.options.bias_stride = bad; });
    rejects<T>(with_options, RAPT_BAD_MASK_STRIDE, [&](auto &call) { call.options.mask_stride = bad; });
  }
  for (const std::ptrdiff_t good :
       {std::ptrdiff_t{0}, static_cast<std::ptrdiff_t>(cols), stride, std::ptrdiff_t{RAPT_REPEAT}}) {
    accepts<T>(with_options, [&](auto &call) {
      call.options.bias = bias.data();
      call.options.mask = mask.data();
      call.options.bias_stride = call.options.mask_stride = good;
    });
  }
  for (std::size_t r = 0; r < rows; ++r) {
    std::vector<std::size_t> lengths(rows, cols);
    accepts<T>(with_options, [&](auto &call) { call.options.row_lengths = lengths.data(); });
    for (const std::size_t bad : {cols + 1, SIZE_MAX}) {
      lengths[r] = bad;
      rejects<T>(with_options, RAPT_BAD_ROW_LENGTHS,
                 [&](auto &call) { call.options.row_lengths = lengths.data(); });
    }
  }
}

TEST_CASE_TEMPLATE("causality", T, float, double) {
  constexpr std::ptrdiff_t farthest = std::ptrdiff_t{1} << 60;
  for (const int bad : {-1, 4, 1000}) {
    rejects<T>(with_options, RAPT_BAD_CAUSAL, [&](auto &call) { call.options.causal = bad; });
  }
  for (const int other : {RAPT_CAUSAL_NONE, RAPT_CAUSAL_BOTTOM_RIGHT, RAPT_CAUSAL_TOP_LEFT}) {
    rejects<T>(with_options, RAPT_BAD_CAUSAL_OFFSET, [&](auto &call) {
      call.options.causal = other;
      call.options.causal_offset = 1;
    });
  }
  for (const std::ptrdiff_t offset : {farthest + 1, -farthest - 1, farthest, -farthest}) {
    const bool is_good = offset == farthest || offset == -farthest;
    rejects<T>(with_options, is_good ? RAPT_OK : RAPT_BAD_CAUSAL_OFFSET, [&](auto &call) {
      call.options.causal = RAPT_CAUSAL_OFFSET;
      call.options.causal_offset = offset;
    });
  }
  // As attention has it: rows are queries, columns keys.
  Call<T> bottom_right, top_left, by_offset;
  bottom_right.options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
  by_offset.options.causal = RAPT_CAUSAL_OFFSET;
  by_offset.options.causal_offset = static_cast<std::ptrdiff_t>(cols - rows);
  top_left.options.causal = RAPT_CAUSAL_TOP_LEFT;
  for (Call<T> *call : {&bottom_right, &by_offset, &top_left}) CHECK(call->softmax() == RAPT_OK);
  CHECK(bottom_right.y_memory == by_offset.y_memory);
  CHECK(bottom_right.y_memory[2] == T(1) / T(3));
  CHECK(bottom_right.y_memory[3] == T(0));
  CHECK(top_left.y_memory[0] == T(1));
  CHECK(top_left.y_memory[1] == T(0));
}

// As ctypes, Rust, Go and designated initialisers make it.
TEST_CASE_TEMPLATE("zeroed options with a size are plain softmax", T, float, double) {
  Call<T> call, without;
  std::memset(static_cast<void *>(&call.options), 0, sizeof call.options);
  call.options.size = sizeof call.options;
  for (std::size_t i = 0; i < extent; ++i) call.x_memory[i] = without.x_memory[i] = static_cast<T>(i % 3);
  CHECK(call.softmax() == RAPT_OK);
  CHECK(Api<T>::softmax(without.x, stride, without.y, stride, rows, cols, nullptr) == RAPT_OK);
  CHECK(call.y_memory == without.y_memory);
}

TEST_CASE_TEMPLATE("the log-sum-exp of rows without columns", T, float, double) {
  const T sinks[rows] = {T(0.25), -std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()};
  Call<T> call;
  call.col_count = 0;
  call.x = nullptr;
  CHECK(call.logsumexp() == RAPT_OK);
  for (std::size_t r = 0; r < rows; ++r) CHECK(call.y_memory[r] == -std::numeric_limits<T>::infinity());
  CHECK(call.y_memory[rows] == T(-7));
  call.options.sinks = sinks;
  CHECK(call.logsumexp() == RAPT_OK);
  CHECK(call.y_memory[0] == sinks[0]);
  CHECK(call.y_memory[1] == sinks[1]);
  CHECK(std::isnan(call.y_memory[2]));
  rejects<T>(logsumexp, RAPT_BAD_OUT, [](auto &bad) {
    bad.col_count = 0;
    bad.y = nullptr;
  });
}

TEST_CASE_TEMPLATE("the size of the options", T, float, double) {
  for (const std::size_t bad : {std::size_t{0}, std::size_t{4}, sizeof(rapt_softmax_options) - 1, SIZE_MAX}) {
    rejects<T>(with_options, RAPT_BAD_OPTIONS_SIZE, [&](auto &call) { call.options.size = bad; });
  }
  // From a later version: accepted as long as the fields that this version does not know are zero.
  struct Later {
    rapt_softmax_options known = RAPT_SOFTMAX_OPTIONS_INIT;
    unsigned char unknown[24] = {};
  };
  for (std::size_t set = 0; set <= sizeof(Later::unknown); ++set) {
    Later later;
    later.known.size = sizeof later;
    if (set < sizeof later.unknown) later.unknown[set] = 1;
    const rapt_status expected = set < sizeof later.unknown ? RAPT_BAD_OPTION : RAPT_OK;
    const T x[2] = {0, 0};
    T y[2] = {9, 9};
    CHECK(Api<T>::softmax(x, 2, y, 2, 1, 2, &later.known) == expected);
    CHECK(y[0] == (expected == RAPT_OK ? T(0.5) : T(9)));
    CHECK(Api<T>::log_softmax(x, 2, y, 2, 1, 2, &later.known) == expected);
    CHECK(Api<T>::logsumexp(x, 2, y, 1, 2, &later.known) == expected);
  }
}

TEST_CASE_TEMPLATE("overlaps", T, float, double) {
  const auto memory_of = [](auto &call) { return call.x_memory.data(); };
  // Exactly in place, with the same stride; with one row the stride does not matter.
  accepts<T>(with_matrix_output, [&](auto &call) { call.y = memory_of(call); });
  accepts<T>(with_matrix_output, [&](auto &call) {
    call.y = memory_of(call);
    call.row_count = 1;
    call.y_stride = stride + 3;
  });
  accepts<T>(backward, [&](auto &call) { call.y = call.dy_memory.data(); });
  accepts<T>(backward, [&](auto &call) { call.dy = call.x; });

  for (const std::ptrdiff_t shift : {1, 4, 6, 8, 18}) {  // none of them a row's worth of gap
    CAPTURE(shift);
    rejects<T>(with_matrix_output, RAPT_BAD_OVERLAP, [&](auto &call) { call.y = memory_of(call) + shift; });
    rejects<T>(with_matrix_output, RAPT_BAD_OVERLAP, [&](auto &call) {
      call.x = memory_of(call) + shift;
      call.y = memory_of(call);
    });
  }
  rejects<T>(backward, RAPT_BAD_OVERLAP, [&](auto &call) { call.y = call.dy_memory.data() + 2; });
  rejects<T>(with_matrix_output, RAPT_BAD_OVERLAP, [&](auto &call) {
    call.y = memory_of(call);
    call.y_stride = stride + 1;
  });
  for (const std::ptrdiff_t shift : {0, 1, 3, 14, 18}) {
    rejects<T>(logsumexp, RAPT_BAD_OVERLAP, [&](auto &call) { call.y = memory_of(call) + shift; });
  }
  // Back to back is no overlap.
  accepts<T>(with_matrix_output, [&](auto &call) { call.y = memory_of(call) + extent; });
  accepts<T>(logsumexp, [&](auto &call) { call.y = memory_of(call) + extent; });

  // Two matrices that share a buffer row by row are apart.
  std::vector<T> both(2 * cols * rows + 4, T(0.5));
  for (const bool output_first : {false, true}) {
    const std::size_t x_at = output_first ? cols : 0, y_at = output_first ? 0 : cols;
    accepts<T>(with_matrix_output, [&](auto &call) {
      call.x = both.data() + x_at;
      call.y = both.data() + y_at;
      call.x_stride = call.y_stride = 2 * static_cast<std::ptrdiff_t>(cols);
    });
  }
  rejects<T>(with_matrix_output, RAPT_BAD_OVERLAP, [&](auto &call) {
    call.x = both.data();
    call.y = both.data() + cols - 1;
    call.x_stride = call.y_stride = 2 * static_cast<std::ptrdiff_t>(cols);
  });
}

TEST_CASE_TEMPLATE("options must not overlap the output", T, float, double) {
  rejects<T>(with_options, RAPT_BAD_OVERLAP, [](auto &call) {
    call.options.bias = call.y;
    call.options.bias_stride = RAPT_REPEAT;
  });
  rejects<T>(with_options, RAPT_BAD_OVERLAP, [](auto &call) {
    call.options.mask = reinterpret_cast<const std::uint8_t *>(call.y) + 2;
    call.options.mask_stride = stride;
  });
  rejects<T>(with_options, RAPT_BAD_OVERLAP, [](auto &call) { call.options.sinks = call.y; });
  alignas(8) std::size_t lengths[4 * extent] = {};
  rejects<T>(with_options, RAPT_BAD_OVERLAP, [&](auto &call) {
    call.options.row_lengths = lengths;
    call.y = reinterpret_cast<T *>(lengths);
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
  CHECK(rapt_status_text(static_cast<rapt_status>(63)) != nullptr);  // no status that exists
}

TEST_CASE("version") {
  const std::string expected = std::to_string(RAPT_VERSION_MAJOR) + "." + std::to_string(RAPT_VERSION_MINOR) +
                               "." + std::to_string(RAPT_VERSION_PATCH);
  CHECK(rapt_version() == expected);
}
