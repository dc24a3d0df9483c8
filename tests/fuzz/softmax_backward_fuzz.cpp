// Fuzzes softmax_backward with sizes, strides, overlapping operands and bad arguments.
#include "fuzz/support/arguments.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

template <class T>
void fuzz(FuzzInput &input) {
  static FuzzMemory memory;
  memory.forget_all();
  const FuzzShape shape(input);
  const auto matrix = [&] {
    return FuzzMatrix{nullptr, fuzz_stride(input, shape.cols), shape.rows, shape.cols, sizeof(T)};
  };
  FuzzMatrix y = matrix(), dy = matrix(), dx = matrix();
  if (input.one_in(2)) dy.stride = dx.stride = y.stride;
  const T scale = input.number<T>();
  place_all(input, memory, {&y, &dy, &dx});
  for (const FuzzMatrix *operand : {&y, &dy}) {
    if (operand->is_tame()) {
      input.fill(reinterpret_cast<T *>(operand->data),
                 static_cast<std::size_t>(operand->extent()) / sizeof(T));
    }
  }
  for (FuzzMatrix *operand : {&y, &dy, &dx}) {
    if (input.one_in(48)) operand->data = nullptr;
  }

  CallRules rules;
  const bool work = shape.any_work();
  judge_matrix(y, work, RAPT_BAD_Y, RAPT_BAD_Y_STRIDE, rules);
  judge_matrix(dy, work, RAPT_BAD_DY, RAPT_BAD_DY_STRIDE, rules);
  judge_matrix(dx, work, RAPT_BAD_DX, RAPT_BAD_DX_STRIDE, rules);
  judge_overlap(y, dx, true, rules);
  judge_overlap(dy, dx, true, rules);
  if (!std::isfinite(scale)) (work ? rules.must_fail : rules.may_fail) |= only(RAPT_BAD_SCALE);
  if (!may_be_called({&y, &dy, &dx}, work, rules)) return;

  T *out = reinterpret_cast<T *>(dx.data);
  on_every_level(
      "softmax_backward", memory, dx.bytes(), rules,
      [&] {
        return Api<T>::softmax_backward(reinterpret_cast<T *>(y.data), y.stride,
                                        reinterpret_cast<T *>(dy.data), dy.stride, out, dx.stride, shape.rows,
                                        shape.cols, scale);
      },
      [&](std::vector<std::uint64_t> &bits) {
        if (work) append_bits(bits, out, dx.stride, shape.rows, shape.cols);
      });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  with_element_type(input, [&](auto zero) { fuzz<decltype(zero)>(input); });
  return 0;
}
