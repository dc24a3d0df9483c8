// Softmax computes short rows in groups, but a group with an odd row one by one. A row must have the bits
// that the scalar level gives it alone, whatever the other rows are. The test has every batch of 1 to 70 rows
// of 1 to 300 columns, and every kind of odd row in every position.
//
// The file has more than 300 lines because it has a separate driver: those of kernel_case.cpp cost too much
// per call.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/guarded_slot.hpp"
#include "support/inputs.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

constexpr std::size_t most_rows = 70, most_cols = 300, most_gap = 13;
constexpr double large = 65536;  // rows with scaled scores of this magnitude are odd

template <class T>
struct Function {
  const char *name;
  bool one_result;  // per row
  rapt_status (*call)(const T *, std::ptrdiff_t, T *, std::ptrdiff_t, std::size_t, std::size_t,
                      const rapt_softmax_options *);
};

template <class T>
const Function<T> functions[] = {
    {"softmax", false, Api<T>::softmax},
    {"log_softmax", false, Api<T>::log_softmax},
    {"logsumexp", true,
     [](const T *x, std::ptrdiff_t x_stride, T *out, std::ptrdiff_t, std::size_t rows, std::size_t cols,
        const rapt_softmax_options *options) {
       return Api<T>::logsumexp(x, x_stride, out, rows, cols, options);
     }},
};

// Options that select other code, but do not change the result.
enum class Neutral { none, lengths, mask, shared_mask, causal, bias, count };

struct BatchLayout {
  std::size_t x_gap = 0, y_gap = 0;  // elements between rows
  bool in_place = false;
  Placement placement = Placement::ends_at_guard;
};

BatchLayout layout_number(std::size_t number) {
  constexpr std::size_t gaps[] = {0, 1, 0, most_gap, 5};
  return {gaps[number % 5], gaps[number / 2 % 5], number % 3 == 0,
          number % 2 == 0 ? Placement::ends_at_guard : Placement::begins_at_guard};
}

// A row's elements and the results that the scalar level has for it alone.
template <class T>
struct Row {
  std::vector<T> x, y;
};

template <class T>
class Batches {
 public:
  Batches() : in_(most_rows * (most_cols + most_gap) * sizeof(T)), out_(in_.capacity()) {}
  ~Batches() {
    CHECK(failures_ == 0);
    CHECK(calls_ > 0);
    std::printf("%s: %9zu batches, %11zu results compared with single rows on the scalar level\n",
                Api<T>::element, calls_, results_);
  }

  void choose(const Function<T> &function, double scale) {
    function_ = &function;
    scale_ = scale;
  }
  // The caller has forced the scalar level.
  void set_results(Row<T> &row, std::size_t cols) const {
    row.y.assign(function_->one_result ? 1 : cols, T(-7));
    const auto stride = static_cast<std::ptrdiff_t>(cols);
    const rapt_softmax_options options = make_options();
    REQUIRE(function_->call(row.x.data(), stride, row.y.data(), stride, 1, cols, &options) == RAPT_OK);
  }

  // One call; row `empty` sees no column.
  void check(const std::vector<const Row<T> *> &rows, std::size_t cols, const BatchLayout &layout,
             Neutral neutral = Neutral::none, std::size_t empty = SIZE_MAX) {
    const std::size_t count = rows.size(), y_cols = function_->one_result ? 1 : cols;
    const bool in_place = layout.in_place && !function_->one_result;
    const std::size_t x_stride = cols + layout.x_gap;
    const std::size_t y_stride = in_place ? x_stride : function_->one_result ? 1 : cols + layout.y_gap;
    T *const x = place(in_, count, cols, x_stride, layout);
    T *const y = in_place ? x : place(out_, count, y_cols, y_stride, layout);
    for (std::size_t r = 0; r < count; ++r) {
      std::memcpy(x + r * x_stride, rows[r]->x.data(), cols * sizeof(T));
    }
    rapt_softmax_options options = make_options();
    set_neutral(options, neutral, count, cols, empty);

    const rapt_status status = function_->call(x, static_cast<std::ptrdiff_t>(x_stride), y,
                                               static_cast<std::ptrdiff_t>(y_stride), count, cols, &options);
    calls_ += 1;
    results_ += count * y_cols;
    std::string fault;
    if (status != RAPT_OK) fault = rapt_status_text(status);
    for (std::size_t r = 0; r < count && fault.empty(); ++r) {
      const T *const got = y + r * y_stride;
      const std::string at = "row " + std::to_string(r);
      if (r == empty) {
        const T nothing = function_ == functions<T> ? T(0) : -std::numeric_limits<T>::infinity();
        for (std::size_t i = 0; i < y_cols; ++i) {
          if (bits_of(got[i]) != bits_of(nothing)) fault = at + ", which sees nothing";
        }
      } else if (std::memcmp(got, rows[r]->y.data(), y_cols * sizeof(T)) != 0) {
        fault = difference(got, rows[r]->y, at);
      }
      if (!in_place && std::memcmp(x + r * x_stride, rows[r]->x.data(), cols * sizeof(T)) != 0) {
        fault = at + " of x has changed";
      }
      const bool last = r + 1 == count;
      if (!last && (!is_canary(got + y_cols, (y_stride - y_cols) * sizeof(T)) ||
                    !is_canary(x + r * x_stride + cols, layout.x_gap * sizeof(T)))) {
        fault = "wrote behind " + at;
      }
    }
    if (!in_.surroundings_intact() || (!in_place && !out_.surroundings_intact())) {
      fault = "wrote outside the matrix";
    }
    if (fault.empty() || ++failures_ > 10) return;
    char text[200];
    std::snprintf(text, sizeof text,
                  "%s_%s on %s: rows=%zu cols=%zu scale=%g gaps=%zu,%zu in_place=%d options=%d",
                  function_->name, Api<T>::element, rapt_active_isa(), count, cols, scale_, layout.x_gap,
                  layout.y_gap, in_place, static_cast<int>(neutral));
    FAIL_CHECK(text << ", " << note << ": " << fault);
  }

  std::string note;

 private:
  static T *place(GuardedSlot &slot, std::size_t rows, std::size_t cols, std::size_t stride,
                  const BatchLayout &layout) {
    return reinterpret_cast<T *>(slot.place(((rows - 1) * stride + cols) * sizeof(T), layout.placement, 0));
  }

  rapt_softmax_options make_options() const {
    rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
    options.scale = scale_;
    return options;
  }

  void set_neutral(rapt_softmax_options &options, Neutral neutral, std::size_t rows, std::size_t cols,
                   std::size_t empty) {
    const auto stride = static_cast<std::ptrdiff_t>(cols);
    if (neutral == Neutral::lengths) {
      lengths_.assign(rows, cols);
      if (empty < rows) lengths_[empty] = 0;
      options.row_lengths = lengths_.data();
    } else if (neutral == Neutral::mask || neutral == Neutral::shared_mask) {
      mask_.assign(rows * cols, 1);
      for (std::size_t i = 0; empty < rows && i < cols; ++i) mask_[empty * cols + i] = 0;
      options.mask = mask_.data();
      options.mask_stride = neutral == Neutral::mask ? stride : RAPT_REPEAT;
    } else if (neutral == Neutral::causal) {
      options.causal = RAPT_CAUSAL_OFFSET;
      options.causal_offset = stride - 1;
    } else if (neutral == Neutral::bias && scale_ == 1) {  // otherwise a score with a bias is rounded
      bias_.assign(rows * cols, 0);
      const T excluded = -std::numeric_limits<T>::infinity();
      for (std::size_t i = 0; empty < rows && i < cols; ++i) bias_[empty * cols + i] = excluded;
      options.bias = bias_.data();
      options.bias_stride = stride;
    }
  }

  static std::string difference(const T *got, const std::vector<T> &expected, const std::string &at) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (same_bits(got[i], expected[i])) continue;
      return at + ", element " + std::to_string(i) + ": got " + hex(bits_of(got[i]), sizeof(T)) +
             ", expected " + hex(bits_of(expected[i]), sizeof(T));
    }
    return {};  // another NaN
  }

  GuardedSlot in_, out_;
  std::vector<std::size_t> lengths_;
  std::vector<std::uint8_t> mask_;
  std::vector<T> bias_;
  const Function<T> *function_ = nullptr;
  double scale_ = 1;
  std::size_t calls_ = 0, results_ = 0, failures_ = 0;
};

constexpr double scales[] = {1, 0.125, -0.7, 1, 0.3, 0, 1e-30, 1, 1e30, -65536, 1, 0x1p-16};

template <class T>
std::vector<Row<T>> ordinary_rows(std::size_t count, std::size_t cols) {
  Random random(100 * cols + count);
  std::vector<Row<T>> rows(count);
  for (Row<T> &row : rows) {
    row.x.resize(cols);
    fill<T>(random.one_in(4) ? InputClass::gaussian_wide : InputClass::gaussian, random, row.x);
  }
  return rows;
}

// The element whose score is large under this scale.
double large_under(double scale) { return scale == 0 ? large : large / std::fabs(scale); }

template <class T>
void set_all_results(const Batches<T> &batches, std::vector<Row<T>> &rows, std::size_t cols) {
  const ForcedIsa scalar("scalar");
  for (Row<T> &row : rows) batches.set_results(row, cols);
}

std::vector<std::string> vector_levels() {
  std::vector<std::string> isas = isas_to_test();
  if (isas.size() > 1) isas.erase(isas.begin());  // the scalar level computes batches row by row
  return isas;
}

const std::vector<std::size_t> chosen_cols = native_or_emulated<std::vector<std::size_t>>(
    {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 64, 65, 100, 255, 256, 257},
    {1, 2, 3, 5, 8, 9, 16, 17, 33});

}  // namespace

TEST_CASE_TEMPLATE("batches of 1 to 70 rows of 1 to 300 columns", T, float, double) {
  Batches<T> batches;
  for (std::size_t cols = 1; cols <= most_cols; ++cols) {
    if (emulated() && cols > 18 && cols % 64 > 1 && cols != 300) continue;
    // So few odd rows that some groups have none.
    for (const bool with_odd_rows : {false, true}) {
      const double scale = scales[(cols + with_odd_rows) % std::size(scales)];
      batches.choose(functions<T>[0], scale);
      batches.note = with_odd_rows ? "odd rows among others" : "";
      std::vector<Row<T>> rows = ordinary_rows<T>(most_rows, cols);
      for (std::size_t r = 3; with_odd_rows && r < most_rows; r += 23) {
        make_odd<T>((cols + r) % odd_row_kinds, (cols * r) % cols, large_under(scale), rows[r].x);
      }
      set_all_results(batches, rows, cols);
      for (const std::string &isa : vector_levels()) {
        const ForcedIsa forced(isa);
        for (std::size_t count = 1; count <= most_rows; count += native_or_emulated<std::size_t>(1, 9)) {
          std::vector<const Row<T> *> batch;
          for (std::size_t r = 0; r < count; ++r) batch.push_back(&rows[(13 * count + cols + r) % most_rows]);
          const auto neutral =
              static_cast<Neutral>((count + cols / 3) % 3 == 0 ? (count + cols) % 6 : std::size_t{0});
          batches.check(batch, cols, layout_number(count + 3 * cols), neutral);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("one odd row in any position of a batch", T, float, double) {
  Batches<T> batches;
  for (const Function<T> &function : functions<T>) {
    const bool is_softmax = &function == functions<T>;
    const std::vector<std::size_t> counts = is_softmax
                                                ? native_or_emulated<std::vector<std::size_t>>(
                                                      {4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 40}, {4, 7, 10})
                                                : std::vector<std::size_t>{1, 3};
    for (const std::size_t cols : chosen_cols) {
      for (std::size_t kind = 0; kind <= odd_row_kinds; ++kind) {  // the last one: a row that sees nothing
        const bool empty = kind == odd_row_kinds;
        const double scale = empty ? 1 : scales[(kind + cols) % std::size(scales)];
        batches.choose(function, scale);
        batches.note = empty ? "a row that sees nothing" : name_of_odd_row(kind);
        std::vector<Row<T>> rows = ordinary_rows<T>(counts.back(), cols);
        set_all_results(batches, rows, cols);
        std::vector<Row<T>> odd = ordinary_rows<T>(4, cols);
        const std::size_t places[4] = {0, cols - 1, cols / 2, cols * 3 / 4};
        for (std::size_t p = 0; p < 4 && !empty; ++p) {
          make_odd<T>(kind, places[p], large_under(scale), odd[p].x);
        }
        set_all_results(batches, odd, cols);
        for (const std::string &isa : vector_levels()) {
          const ForcedIsa forced(isa);
          for (const std::size_t count : counts) {
            std::vector<const Row<T> *> batch;
            for (std::size_t r = 0; r < count; ++r) batch.push_back(&rows[r]);
            for (std::size_t position = 0; position < count; ++position) {
              const std::size_t turn = position + kind + count;
              if (emulated() && count > 4 && turn % 4 != 0) continue;
              if (count > 17 && (turn + cols) % 3 != 0) continue;
              batch[position] = &odd[turn % 4];
              if (empty) {
                constexpr Neutral excluding[] = {Neutral::lengths, Neutral::mask, Neutral::bias};
                batches.check(batch, cols, layout_number(turn), excluding[turn % 3], position);
              } else {
                batches.check(batch, cols, layout_number(turn));
                batches.check(batch, cols, layout_number(turn + 1), static_cast<Neutral>(1 + turn % 5));
              }
              batch[position] = &rows[position];
            }
          }
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("a special value in any column of a row in a batch", T, float, double) {
  Batches<T> batches;
  for (const Function<T> &function : functions<T>) {
    batches.choose(function, 1);
    for (std::size_t cols = 1; cols <= 70; cols += native_or_emulated<std::size_t>(1, 4)) {
      std::vector<Row<T>> rows = ordinary_rows<T>(33, cols);
      set_all_results(batches, rows, cols);
      for (std::size_t kind = 0; kind < odd_row_kinds; ++kind) {
        batches.note = name_of_odd_row(kind);
        std::vector<Row<T>> odd = ordinary_rows<T>(cols, cols);
        for (std::size_t c = 0; c < cols; ++c) make_odd<T>(kind, c, large, odd[c].x);
        set_all_results(batches, odd, cols);
        for (const std::string &isa : vector_levels()) {
          const ForcedIsa forced(isa);
          for (std::size_t c = 0; c < cols; c += native_or_emulated<std::size_t>(1, 5)) {
            constexpr std::size_t counts[] = {16, 5, 33};
            const std::size_t count = &function == functions<T> ? counts[(c + kind) % 3] : 2;
            std::vector<const Row<T> *> batch;
            for (std::size_t r = 0; r < count; ++r) batch.push_back(&rows[r]);
            batch[(3 * c + kind) % count] = &odd[c];
            batches.check(batch, cols, layout_number(c));
          }
        }
      }
    }
  }
}
