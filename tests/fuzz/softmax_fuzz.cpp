// Fuzzes softmax, log_softmax and, for f32 and f64, logsumexp with every option: sizes, strides, overlapping
// operands and bad arguments.
#include "fuzz/support/arguments.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

enum Function : unsigned { softmax, log_softmax, logsumexp };

// Holds the arrays of the options. The data of an option that is not set is null.
struct OptionArrays {
  FuzzMatrix bias, mask, row_lengths, sinks;
};

// Holds the options. They end at a guard page after `size` bytes, so that reading a later field faults.
struct GivenOptions {
  GivenOptions() {
    std::memset(&value, 0, sizeof value);  // also clears padding, because the harness compares bytes
  }
  rapt_softmax_options value;
  std::size_t size = sizeof(rapt_softmax_options);
  bool null = false;
};

constexpr std::ptrdiff_t farthest = std::ptrdiff_t{1} << 60;

void read_values(FuzzInput &input, rapt_softmax_options &options) {
  options.scale = input.one_in(2) ? double{input.number<float>()} : input.number<double>();
  if (input.one_in(4)) options.softcap = input.number<float>();
  if (input.one_in(3)) {
    options.causal = input.byte() % 5;
    constexpr std::ptrdiff_t offsets[] = {0, 1, -1, -3, 7, farthest, -farthest - 1, 1000};
    if (options.causal == RAPT_CAUSAL_OFFSET || input.one_in(8)) {
      options.causal_offset = offsets[input.byte() % 8];
    }
  }
  options.empty_rows_are_zero = input.byte() % 2;
}

// T is the arithmetic type of the rows.
template <class T>
void judge_values(const GivenOptions &given, bool is_matrix, Statuses &must) {
  if (given.size != sizeof given.value) {
    must |= only(RAPT_BAD_OPTIONS_SIZE);
    return;
  }
  if (!is_matrix && given.value.empty_rows_are_zero) must |= only(RAPT_BAD_EMPTY_ROWS);
  const rapt_softmax_options &options = given.value;
  const double scale = options.scale == 0 ? 1 : options.scale;
  const auto is_normal = [](double x) { return std::isnormal(static_cast<T>(x)); };
  if (!is_normal(scale) || !std::isfinite(static_cast<T>(scale * 1.4426950408889634))) {
    must |= only(RAPT_BAD_SCALE);
  }
  const bool cap_fits = options.softcap == 0 || (options.softcap > 0 && is_normal(options.softcap) &&
                                                 is_normal(scale / options.softcap));
  if (!cap_fits) must |= only(RAPT_BAD_SOFTCAP);
  if (options.causal > RAPT_CAUSAL_OFFSET) must |= only(RAPT_BAD_CAUSAL);
  const bool may_be_set = options.causal == RAPT_CAUSAL_OFFSET || options.causal > RAPT_CAUSAL_OFFSET;
  if (options.causal_offset != 0 && (!may_be_set || std::abs(options.causal_offset) > farthest)) {
    must |= only(RAPT_BAD_CAUSAL_OFFSET);
  }
}

// Adds the errors that a bias or a mask may or must cause.
void judge_array(const FuzzMatrix &array, const FuzzMatrix &output, rapt_status bad_stride,
                 CallRules &rules) {
  if (!array.data) return;
  if (!array.fits()) rules.must_fail |= only(bad_stride);
  if (!array.fits() || array.extent() < 0) rules.may_fail |= only(RAPT_BAD_SIZE);
  if (array.fits() && array.extent() < 0) rules.must_fail |= only(RAPT_BAD_SIZE);
  judge_overlap(array, output, false, rules);
}

template <class T>
void check_range(unsigned function, T element) {
  const auto value = static_cast<Number<T>>(element);
  if (std::isnan(value) || function == logsumexp) return;
  if (function == log_softmax) {
    if (value > 0) finding("log_softmax", "a log-probability above 0");
    return;
  }
  if (!(value >= 0 && value <= 1)) finding("softmax", "a probability outside of [0, 1]");
  if (value != 0 && value < std::numeric_limits<Number<T>>::min())
    finding("softmax", "a subnormal probability");
}

template <class T>
void fuzz(FuzzInput &input, unsigned function) {
  static FuzzMemory memory;
  memory.forget_all();
  const FuzzShape shape(input);
  const bool work = shape.any_work(), is_matrix = function != logsumexp;
  // A row without columns still has a log-sum-exp.
  const bool has_output = is_matrix ? work : shape.rows > 0;
  FuzzMatrix x{nullptr, fuzz_stride(input, shape.cols), shape.rows, shape.cols, sizeof(T)};
  FuzzMatrix y = x;
  if (input.one_in(2)) y.stride = fuzz_stride(input, shape.cols);
  if (!is_matrix) y.stride = 1, y.cols = 1;

  GivenOptions given;
  given.null = input.one_in(8);
  OptionArrays arrays;
  const unsigned present = given.null || shape.wild ? 0 : input.byte();
  const auto array = [&](std::size_t element_size, bool by_row) {
    std::ptrdiff_t stride = by_row ? fuzz_stride(input, shape.cols) : 0;
    if (stride == RAPT_REPEAT) stride += 1;
    // A stride of 0 means contiguous rows to the API, so the memory must hold contiguous rows.
    const auto cols = static_cast<std::ptrdiff_t>(shape.cols);
    return FuzzMatrix{nullptr, by_row && stride == 0 ? cols : stride, by_row ? shape.rows : 1, shape.cols,
                      element_size};
  };
  const bool bias_by_row = input.byte() % 2 == 0, mask_by_row = input.byte() % 2 == 0;
  arrays.bias = array(sizeof(Number<T>), bias_by_row);
  arrays.mask = array(1, mask_by_row);
  arrays.row_lengths = {nullptr, 0, 1, shape.rows, sizeof(std::size_t)};
  arrays.sinks = {nullptr, 0, 1, shape.rows, sizeof(Number<T>)};
  if (!(present & 1)) arrays.bias.rows = 0;
  if (!(present & 2)) arrays.mask.rows = 0;
  if (!(present & 4)) arrays.row_lengths.rows = 0;
  if (!(present & 8)) arrays.sinks.rows = 0;
  place_all(input, memory, {&x, &y, &arrays.bias, &arrays.mask, &arrays.row_lengths, &arrays.sinks});

  const auto elements = [](const FuzzMatrix &matrix) {
    return matrix.is_tame() ? static_cast<std::size_t>(matrix.extent()) / matrix.element_size : 0;
  };
  input.fill(reinterpret_cast<T *>(x.data), elements(x));
  input.fill(reinterpret_cast<Number<T> *>(arrays.bias.data), elements(arrays.bias));
  for (std::size_t i = 0; i < elements(arrays.mask); ++i) arrays.mask.data[i] = input.byte() % 3;
  input.fill(reinterpret_cast<Number<T> *>(arrays.sinks.data), elements(arrays.sinks));
  auto *lengths = reinterpret_cast<std::size_t *>(arrays.row_lengths.data);
  for (std::size_t r = 0; r < elements(arrays.row_lengths); ++r) {
    lengths[r] = input.one_in(32) ? shape.cols + 1 + input.byte() : input.below(shape.cols + 1);
  }
  if (input.one_in(48)) x.data = nullptr;
  if (input.one_in(48)) y.data = nullptr;

  rapt_softmax_options &options = given.value;
  read_values(input, options);
  if (!is_matrix && !input.one_in(16)) options.empty_rows_are_zero = 0;
  if (!(present & 1)) arrays.bias.data = nullptr;
  if (!(present & 2)) arrays.mask.data = nullptr;
  if (!(present & 4)) arrays.row_lengths.data = nullptr;
  if (!(present & 8)) arrays.sinks.data = nullptr;
  // An array with one row for all has the stride RAPT_REPEAT.
  const auto set_stride = [](const FuzzMatrix &matrix, bool by_row, std::ptrdiff_t &stride) {
    if (matrix.data) stride = by_row ? matrix.stride : RAPT_REPEAT;
  };
  options.bias = arrays.bias.data;
  set_stride(arrays.bias, bias_by_row, options.bias_stride);
  options.mask = arrays.mask.data;
  set_stride(arrays.mask, mask_by_row, options.mask_stride);
  options.row_lengths = reinterpret_cast<const std::size_t *>(arrays.row_lengths.data);
  options.sinks = arrays.sinks.data;
  if (input.one_in(16)) given.size = input.below(sizeof options + 64);
  if (input.one_in(48)) given.size = SIZE_MAX - input.byte();
  options.size = given.size;
  const bool is_small = given.size < 4096;
  const std::size_t known = std::min(given.size, sizeof options);
  // The memory always holds at least the `size` field, which the call reads first.
  const std::size_t bytes = std::max(is_small ? given.size : sizeof options, sizeof given.size);
  const std::size_t aligned = (bytes + 7) / 8 * 8 - bytes;  // aligns the beginning to 8 bytes
  unsigned char *memory_of_options = memory.place(6, bytes, Placement::ends_at_guard, aligned);
  std::memset(memory_of_options, 0, bytes);
  std::memcpy(memory_of_options, &options, std::max(known, sizeof given.size));

  CallRules rules;
  judge_matrix(x, work, RAPT_BAD_X, RAPT_BAD_X_STRIDE, rules);
  judge_matrix(y, has_output, is_matrix ? RAPT_BAD_Y : RAPT_BAD_OUT, RAPT_BAD_Y_STRIDE, rules);
  judge_overlap(x, y, is_matrix, rules);
  if (!given.null) {
    CallRules of_options;
    judge_values<Number<T>>(given, is_matrix, of_options.must_fail);
    if (given.size == sizeof options) {
      judge_array(arrays.bias, y, RAPT_BAD_BIAS_STRIDE, of_options);
      judge_array(arrays.mask, y, RAPT_BAD_MASK_STRIDE, of_options);
      for (const FuzzMatrix *operand : {&arrays.row_lengths, &arrays.sinks}) {
        if (operand->data) judge_overlap(*operand, y, false, of_options);
      }
      for (std::size_t r = 0; arrays.row_lengths.data && r < shape.rows; ++r) {
        if (lengths[r] > shape.cols) of_options.must_fail |= only(RAPT_BAD_ROW_LENGTHS);
      }
    }
    rules.may_fail |= of_options.must_fail | of_options.may_fail;
    if (!work) rules.may_fail |= only(RAPT_BAD_OVERLAP);  // the call may report an overlap of an empty array
    if (has_output) rules.must_fail |= of_options.must_fail;
  }
  if (!may_be_called({&x, &y, &arrays.bias, &arrays.mask, &arrays.row_lengths, &arrays.sinks}, has_output,
                     rules)) {
    return;
  }

  constexpr const char *names[] = {"softmax", "log_softmax", "logsumexp"};
  const auto *passed = given.null ? nullptr : reinterpret_cast<rapt_softmax_options *>(memory_of_options);
  const T *in = reinterpret_cast<const T *>(x.data);
  T *out = reinterpret_cast<T *>(y.data);
  on_every_level(
      names[function], memory, has_output ? y.bytes() : RowsOfBytes{}, rules,
      [&] {
        if constexpr (sizeof(T) > 2) {
          if (function == logsumexp)
            return Api<T>::logsumexp(in, x.stride, out, shape.rows, shape.cols, passed);
        }
        const auto call = function == softmax ? Api<T>::softmax : Api<T>::log_softmax;
        return call(in, x.stride, out, y.stride, shape.rows, shape.cols, passed);
      },
      [&](std::vector<std::uint64_t> &bits) {
        if (!has_output) return;
        append_bits(bits, out, y.stride, y.rows, y.cols);
        for (std::size_t r = 0; r < y.rows; ++r) {
          for (std::size_t c = 0; c < y.cols; ++c)
            check_range(function, out[r * static_cast<std::size_t>(y.stride) + c]);
        }
      });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  const unsigned function = input.byte() % 3;
  with_any_element_type(input, [&](auto zero) {
    using T = decltype(zero);
    fuzz<T>(input, sizeof(T) == 2 ? function % logsumexp : function);
  });
  return 0;
}
