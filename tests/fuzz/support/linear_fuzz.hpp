// Chooses the matrices of a call of rapt_linear, and runs the call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "fuzz/support/fuzz_input.hpp"
#include "fuzz/support/fuzz_memory.hpp"
#include "fuzz/support/levels.hpp"
#include "support/public_api.hpp"

namespace rapt::test {

// Calls use(E()) for the type E of elements. Integers are bytes.
template <class Use>
void with_zero_of(rapt_type type, Use &&use) {
  switch (type) {
    case RAPT_F64:
      return use(double{});
    case RAPT_F32:
      return use(float{});
    case RAPT_F16:
      return use(F16{});
    case RAPT_BF16:
      return use(BF16{});
    default:
      return use(std::int8_t{});
  }
}
inline std::size_t size_of(rapt_type type) {
  std::size_t size = 0;
  with_zero_of(type, [&]<class E>(E) { size = sizeof(E); });
  return size;
}

inline rapt_matrix_strides choose_strides(FuzzInput &input, std::size_t columns, std::size_t rows) {
  const auto stride = [&](std::size_t least) { return static_cast<std::ptrdiff_t>(least + input.below(4)); };
  const auto any = [&] { return input.one_in(4) ? RAPT_REPEAT : stride(1); };
  switch (input.byte() % 5) {
    case 0:
      return {stride(columns), 1};
    case 1:
      return {1, stride(rows == 0 ? 1 : rows)};
    case 2: {
      const std::ptrdiff_t row = any();
      return {row, any()};  // rows may overlap
    }
    default:
      return {0, 0};
  }
}

// Returns the number of elements up to the last of `rows` rows.
inline std::size_t extent(std::size_t rows, std::size_t columns, rapt_matrix_strides strides) {
  if (rows == 0 || columns == 0) return 0;
  if (strides.row == 0 && strides.column == 0) strides = {static_cast<std::ptrdiff_t>(columns), 1};
  const auto reach = [](std::ptrdiff_t stride, std::size_t count) {
    return stride == RAPT_REPEAT ? 0 : static_cast<std::size_t>(stride) * (count - 1);
  };
  return reach(strides.row, rows) + reach(strides.column, columns) + 1;
}

// Arrays of a layer with quantized weights, or null pointers.
struct FuzzScales {
  void *scales = nullptr;
  std::uint8_t *zeros = nullptr;
  void *offsets = nullptr;
  float *codebook = nullptr;
};

// Holds what the fuzzers of linear layers share.
class LinearFuzzBase {
 protected:
  explicit LinearFuzzBase(FuzzInput &input) : input_(input) {
    std::memset(&o_, 0, sizeof o_);
    o_.size = sizeof o_;
    memory().forget_all();
  }

  static FuzzMemory &memory() {
    static FuzzMemory memory;
    return memory;
  }

  rapt_type choose_float() {
    constexpr rapt_type types[] = {RAPT_F32, RAPT_F32, RAPT_F16, RAPT_BF16};
    return types[input_.byte() % 4];
  }

  unsigned char *put(std::size_t operand, std::size_t count, rapt_type type) {
    const std::size_t bytes = size_of(type), offset = input_.one_in(2) ? input_.below(64 / bytes) * bytes : 0;
    return memory().place(operand, count * bytes, placement_, offset);
  }
  unsigned char *put_filled(std::size_t operand, std::size_t count, rapt_type type) {
    unsigned char *const data = put(operand, count, type);
    with_zero_of(type, [&]<class E>(E) { input_.fill(reinterpret_cast<E *>(data), count); });
    return data;
  }

  void must_fail(rapt_status status) { rules_.must_fail |= only(status); }

  // The rows of y that a call may write.
  RowsOfBytes results() const {
    const std::size_t bytes = size_of(o_.y_type);
    return {y_, static_cast<std::ptrdiff_t>(y_stride_ * bytes), rows_of_y_, o_.out_features * bytes};
  }
  void append_results(std::vector<std::uint64_t> &bits) const {
    with_zero_of(o_.y_type, [&]<class E>(E) {
      if constexpr (!std::is_integral_v<E>) {  // y has no integers
        for (std::size_t r = 0; r < o_.rows; ++r) {
          const std::size_t row = o_.y_rows ? o_.y_rows[r] : r;
          append_bits(bits, reinterpret_cast<const E *>(y_) + row * y_stride_, 0, 1, o_.out_features);
        }
      }
    });
  }

  // Unpacks all weights, which must be those at w_, with these strides and `columns` elements in a row. `options` are
  // those of a call with packed weights.
  void check_unpacked(const std::vector<unsigned char> &packed, const rapt_linear_options &options,
                      std::size_t columns, rapt_matrix_strides strides, const FuzzScales &to) const {
    const std::size_t size = size_of(o_.w_type);
    std::vector<unsigned char> w(o_.out_features * columns * size + 1, 0x55);
    if (rapt_linear_unpack(packed.data(), packed.size(), 0, o_.out_features, &options, w.data(), to.scales,
                           to.zeros, to.offsets, to.codebook) != RAPT_OK) {
      finding("linear", "refused to be unpacked");
    }
    if (strides.row == 0 && strides.column == 0) strides = {static_cast<std::ptrdiff_t>(columns), 1};
    const auto steps = [](std::ptrdiff_t stride, std::size_t count) {
      return stride == RAPT_REPEAT ? 0 : static_cast<std::size_t>(stride) * count;
    };
    const bool in_halves = o_.w_type == RAPT_I4 || o_.w_type == RAPT_U4;
    for (std::size_t n = 0; n < o_.out_features; ++n) {
      for (std::size_t k = 0; k < columns; ++k) {
        const unsigned char *const plain = w_ + (steps(strides.row, n) + steps(strides.column, k)) * size,
                                   *const back = w.data() + (n * columns + k) * size;
        const bool is_half = in_halves && o_.in_features % 2 != 0 && k + 1 == columns;
        if (is_half ? *back != (*plain & 15) : std::memcmp(back, plain, size) != 0)
          finding("linear", "unpacked other weights");
      }
    }
    if (w.back() != 0x55) finding("linear", "wrote past the weights");
  }

  rapt_status by_tasks(const void *w, const rapt_linear_options *given, void *space, unsigned cut) const {
    std::size_t tasks = 0;
    rapt_status status = rapt_linear_tasks(given, &tasks);
    const std::size_t step = 1 + cut % 3;
    for (std::size_t first = 0; first < tasks && status == RAPT_OK; first += step) {
      status =
          rapt_linear_run(x_, w, y_, given, first, std::min(tasks, first + step), space, workspace_size_);
    }
    return status;
  }

  FuzzInput &input_;
  rapt_linear_options o_;
  Placement placement_ = Placement::ends_at_guard;
  std::size_t rows_of_x_ = 0, rows_of_y_ = 0, y_stride_ = 0, workspace_size_ = 0;
  unsigned char *x_ = nullptr, *w_ = nullptr, *y_ = nullptr;
  CallRules rules_;
};

}  // namespace rapt::test
