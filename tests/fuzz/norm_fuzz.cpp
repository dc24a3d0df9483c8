// Fuzzes rms_norm, layer_norm and their gradients with sizes, strides, overlapping operands and bad arguments.
#include "fuzz/support/arguments.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

// Draws what the options of both directions have, and the errors that it causes whether or not there is work.
template <class T, class Options>
void draw_common(FuzzInput &input, const FuzzShape &shape, bool is_layer, const FuzzMatrix &weight,
                 Options &options, Statuses &bad) {
  using A = Number<T>;
  options.type = Api<T>::type;
  options.rows = shape.rows;
  options.cols = shape.cols;
  options.eps = input.one_in(4) ? static_cast<double>(input.number<A>()) : 0x1p-17;
  options.weight_plus_one = input.one_in(4);
  if (!input.one_in(3)) options.weight = weight.data;
  const bool is_usable = options.eps == 0 || (std::isfinite(options.eps) && std::isnormal(A(options.eps)));
  if (!is_usable || options.eps < 0) bad |= only(RAPT_BAD_EPS);
  if (options.weight_plus_one && (is_layer || !options.weight)) bad |= only(RAPT_BAD_WEIGHT);
}

// The first error of the options hides others.
void judge_options(Statuses bad, CallRules &rules) {
  if (bad == 0) return;
  rules.may_fail |= rules.must_fail;
  rules.must_fail = bad;
}

template <class T>
FuzzMatrix row_of(const FuzzShape &shape) {
  return {nullptr, 0, 1, shape.cols, sizeof(T)};
}

template <class T>
FuzzMatrix matrix_of(FuzzInput &input, const FuzzShape &shape) {
  const std::ptrdiff_t stride = fuzz_stride(input, shape.cols);
  return {nullptr, stride == 0 ? static_cast<std::ptrdiff_t>(shape.cols) : stride, shape.rows, shape.cols,
          sizeof(T)};
}

template <class T>
void fill(FuzzInput &input, std::initializer_list<const FuzzMatrix *> operands) {
  for (const FuzzMatrix *operand : operands) {
    if (operand->is_tame())
      input.fill(reinterpret_cast<T *>(operand->data),
                 static_cast<std::size_t>(operand->extent()) / sizeof(T));
  }
}

// Judges the stride of a matrix of a norm, where 0 means contiguous.
void judge_norm_matrix(FuzzMatrix &matrix, std::ptrdiff_t &option, bool work, rapt_status bad_pointer,
                       rapt_status bad_stride, CallRules &rules) {
  option = matrix.stride;
  judge_matrix(matrix, work, bad_pointer, bad_stride, rules);
}

template <class T>
void fuzz_forward(FuzzInput &input, bool is_layer) {
  static FuzzMemory memory;
  memory.forget_all();
  const FuzzShape shape(input);
  const auto matrix = [&] { return matrix_of<T>(input, shape); };
  FuzzMatrix x = matrix(), y = matrix(), weight = row_of<T>(shape), bias = row_of<T>(shape);
  if (input.one_in(2)) y.stride = x.stride;
  place_all(input, memory, {&x, &y, &weight, &bias});
  fill<T>(input, {&x, &weight, &bias});
  for (FuzzMatrix *operand : {&x, &y}) {
    if (input.one_in(48)) operand->data = nullptr;
  }
  rapt_norm_options options = RAPT_NORM_OPTIONS_INIT;
  Statuses bad = 0;
  draw_common<T>(input, shape, is_layer, weight, options, bad);
  if (input.one_in(3)) options.bias = bias.data;
  if (options.bias && !is_layer) bad |= only(RAPT_BAD_BIAS);
  if (input.one_in(48)) {
    options.residual_stride = 1;
    bad |= only(RAPT_BAD_RESIDUAL_STRIDE);
  }

  CallRules rules;
  const bool work = shape.any_work();
  judge_norm_matrix(x, options.x_stride, work, RAPT_BAD_X, RAPT_BAD_X_STRIDE, rules);
  judge_norm_matrix(y, options.y_stride, work, RAPT_BAD_Y, RAPT_BAD_Y_STRIDE, rules);
  judge_overlap(x, y, true, rules);
  if (options.weight) judge_overlap(weight, y, false, rules);
  if (options.bias) judge_overlap(bias, y, false, rules);
  judge_options(bad, rules);
  if (!may_be_called({&x, &y}, work, rules)) return;
  T *out = reinterpret_cast<T *>(y.data);
  const char *name = is_layer ? "layer_norm" : "rms_norm";
  const auto function = is_layer ? rapt_layer_norm : rapt_rms_norm;
  on_every_level(
      name, memory, y.bytes(), rules, [&] { return function(x.data, out, &options); },
      [&](std::vector<std::uint64_t> &bits) {
        if (work) append_bits(bits, out, y.stride, shape.rows, shape.cols);
      });
}

template <class T>
void fuzz_backward(FuzzInput &input, bool is_layer) {
  static FuzzMemory memory;
  memory.forget_all();
  const FuzzShape shape(input);
  const auto matrix = [&] { return matrix_of<T>(input, shape); };
  FuzzMatrix x = matrix(), dy = matrix(), dx = matrix(), weight = row_of<T>(shape);
  if (input.one_in(2)) dy.stride = dx.stride = x.stride;
  place_all(input, memory, {&x, &dy, &dx, &weight});
  fill<T>(input, {&x, &dy, &weight});
  for (FuzzMatrix *operand : {&x, &dy, &dx}) {
    if (input.one_in(48)) operand->data = nullptr;
  }
  rapt_norm_backward_options options = RAPT_NORM_BACKWARD_OPTIONS_INIT;
  Statuses bad = 0;
  draw_common<T>(input, shape, is_layer, weight, options, bad);
  if (input.one_in(32)) {
    options.accumulate = 1;
    bad |= only(RAPT_BAD_ACCUMULATE);
  }

  CallRules rules;
  const bool work = shape.any_work();
  judge_norm_matrix(x, options.x_stride, work, RAPT_BAD_X, RAPT_BAD_X_STRIDE, rules);
  judge_norm_matrix(dy, options.dy_stride, work, RAPT_BAD_DY, RAPT_BAD_DY_STRIDE, rules);
  judge_norm_matrix(dx, options.dx_stride, work, RAPT_BAD_DX, RAPT_BAD_DX_STRIDE, rules);
  judge_overlap(x, dx, true, rules);
  judge_overlap(dy, dx, true, rules);
  if (options.weight) judge_overlap(weight, dx, false, rules);
  judge_options(bad, rules);
  if (!may_be_called({&x, &dy, &dx}, work, rules)) return;
  T *out = reinterpret_cast<T *>(dx.data);
  const char *name = is_layer ? "layer_norm_backward" : "rms_norm_backward";
  const auto function = is_layer ? rapt_layer_norm_backward : rapt_rms_norm_backward;
  on_every_level(
      name, memory, dx.bytes(), rules, [&] { return function(x.data, dy.data, out, &options); },
      [&](std::vector<std::uint64_t> &bits) {
        if (work) append_bits(bits, out, dx.stride, shape.rows, shape.cols);
      });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  const unsigned function = input.byte() % 4;
  const bool is_layer = function % 2 != 0;
  if (function < 2) {
    with_any_element_type(input, [&](auto zero) { fuzz_forward<decltype(zero)>(input, is_layer); });
  } else {
    with_element_type(input, [&](auto zero) { fuzz_backward<decltype(zero)>(input, is_layer); });
  }
  return 0;
}
