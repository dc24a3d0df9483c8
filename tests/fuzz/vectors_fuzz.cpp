// Fuzzes the functions of vectors: of f32 and f64, and those that 16-bit elements also have.
#include "contract/activation_list.hpp"
#include "fuzz/support/fuzz_input.hpp"
#include "fuzz/support/levels.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

// The functions from exp on are only those of f32 and f64.
enum Function {
  dot,
  scale,
  silu,
  gelu,
  gelu_tanh,
  gated,
  argmax,
  exp,
  exp_sum,
  silu_backward,
  gelu_backward,
  gelu_tanh_backward
};
constexpr const char *names[] = {"dot",       "scale",         "silu",          "gelu",
                                 "gelu_tanh", "gated",         "argmax",        "exp",
                                 "exp_sum",   "silu_backward", "gelu_backward", "gelu_tanh_backward"};

template <class T>
void fuzz(FuzzInput &input) {
  static FuzzMemory memory;
  memory.forget_all();
  constexpr std::size_t functions = sizeof(T) == 2 ? std::size_t{exp} : std::size(names);
  const std::size_t function = input.byte() % functions;
  const bool has_output = function != dot && function != argmax,
             has_second = function == dot || function == gated || function >= silu_backward;
  const std::size_t n = input.one_in(8) ? input.below(1100) : input.below(140);
  const Placement placement = input.one_in(2) ? Placement::begins_at_guard : Placement::ends_at_guard;
  const bool shared = input.one_in(4);  // the output is x, or dot's second vector overlaps the first
  const std::size_t shift = function == dot && shared ? input.below(n + 1) : 0;
  const auto offset = [&] { return input.one_in(2) ? input.below(64 / sizeof(T)) * sizeof(T) : 0; };
  const auto factor = input.number<Number<T>>(), term = input.number<Number<T>>();
  const auto place = [&](std::size_t slot, std::size_t count) {
    return reinterpret_cast<T *>(memory.place(slot, count * sizeof(T), placement, offset()));
  };

  T *x = place(0, n + shift);
  input.fill(x, n + shift);
  T *y = shared ? x + shift : place(1, n);
  T *second = y;
  if (has_second && !(function == dot && shared)) {
    if (function != dot) second = place(2, n);
    input.fill(second, n);
  }
  const auto bytes = static_cast<std::ptrdiff_t>(n * sizeof(T));
  const RowsOfBytes output{has_output ? y : nullptr, bytes, 1, n * sizeof(T)};
  std::vector<T> before(x, x + n);
  const rapt_gated_options options = gated_row<T>(rapt::activations[n % rapt::activation_count], n);

  Number<T> value = 0;
  std::size_t index = 0;
  on_every_level(
      names[function], memory, output, {},
      [&] {
        if (function == dot) value = Api<T>::dot(x, second, n);
        if (function == scale) Api<T>::scale(x, factor, y, n);
        if (function == silu) Api<T>::silu(x, y, n);
        if (function == gelu) Api<T>::gelu(x, y, n);
        if (function == gelu_tanh) Api<T>::gelu_tanh(x, y, n);
        if (function == gated) return rapt_gated(x, second, y, &options);
        if (function == argmax) index = Api<T>::argmax(x, n);
        if constexpr (sizeof(T) > 2) {
          if (function == exp) Api<T>::exp(x, y, n);
          if (function == exp_sum) value = Api<T>::exp_sum(x, factor, term, y, n);
          if (function == silu_backward) Api<T>::silu_backward(x, second, y, n);
          if (function == gelu_backward) Api<T>::gelu_backward(x, second, y, n);
          if (function == gelu_tanh_backward) Api<T>::gelu_tanh_backward(x, second, y, n);
        }
        return RAPT_OK;
      },
      [&](std::vector<std::uint64_t> &bits) {
        bits.push_back(canonical_bits(value));
        bits.push_back(index);
        if (function == argmax && n > 0 && index >= n) finding("argmax", "an index past the end");
        if (!has_output) return;
        append_bits(bits, y, 0, 1, n);
        for (std::size_t i = 0; function == scale && i < n; ++i) {
          if (!same_bits(y[i], T(before[i] * factor))) finding("scale", "not the rounded product");
        }
        for (std::size_t i = 0; (function == exp || function == exp_sum) && i < n; ++i) {
          if (y[i] < 0) finding(names[function], "a negative exponential");
        }
      });
}

// Fuzzes the conversions between E and f32, both ways.
template <class E>
void fuzz_conversions(FuzzInput &input) {
  static FuzzMemory memory;
  memory.forget_all();
  const std::size_t n = input.below(300);
  const Placement placement = input.one_in(2) ? Placement::begins_at_guard : Placement::ends_at_guard;
  const auto place = [&](std::size_t operand, std::size_t element_size) {
    const std::size_t offset = input.one_in(2) ? input.below(64 / element_size) * element_size : 0;
    return memory.place(operand, n * element_size, placement, offset);
  };
  E *narrow = reinterpret_cast<E *>(place(0, sizeof(E)));
  float *wide = reinterpret_cast<float *>(place(1, sizeof(float)));
  const bool widens = input.one_in(2);
  widens ? input.fill(narrow, n) : input.fill(wide, n);
  const std::size_t row_bytes = n * (widens ? sizeof(float) : sizeof(E));
  on_every_level(
      "convert", memory, {widens ? static_cast<void *>(wide) : narrow, 0, 1, row_bytes}, {},
      [&] {
        widens ? Api<E>::to_f32(narrow, wide, n) : Api<E>::from_f32(wide, narrow, n);
        return RAPT_OK;
      },
      [&](std::vector<std::uint64_t> &bits) {
        for (std::size_t i = 0; i < n; ++i) {
          const bool right =
              widens ? same_bits(wide[i], float{narrow[i]}) : same_bits(narrow[i], E(double{wide[i]}));
          if (!right) finding("convert", "another number");
        }
        widens ? append_bits(bits, wide, 0, 1, n) : append_bits(bits, narrow, 0, 1, n);
      });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  with_any_element_type(input, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == 2) {
      if (input.one_in(3)) return fuzz_conversions<T>(input);
    }
    fuzz<T>(input);
  });
  return 0;
}
