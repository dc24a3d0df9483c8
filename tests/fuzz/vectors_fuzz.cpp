// Fuzzes dot, scale, exp and exp_sum of f32 and f64, and dot, scale and conversions of 16-bit elements.
#include "fuzz/support/fuzz_input.hpp"
#include "fuzz/support/levels.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

template <class T>
void fuzz(FuzzInput &input) {
  static FuzzMemory memory;
  memory.forget_all();
  const unsigned function = input.byte() % (sizeof(T) == 2 ? 2 : 4);
  const std::size_t n = input.one_in(8) ? input.below(1100) : input.below(140);
  const Placement placement = input.one_in(2) ? Placement::begins_at_guard : Placement::ends_at_guard;
  const bool shared = input.one_in(4);  // y is x, or b overlaps a
  const std::size_t shift = function == 0 && shared ? input.below(n + 1) : 0;
  const auto offset = [&] { return input.one_in(2) ? input.below(64 / sizeof(T)) * sizeof(T) : 0; };
  const auto factor = input.number<Number<T>>(), term = input.number<Number<T>>();

  T *x = reinterpret_cast<T *>(memory.place(0, (n + shift) * sizeof(T), placement, offset()));
  input.fill(x, n + shift);
  T *y = shared ? x + shift : reinterpret_cast<T *>(memory.place(1, n * sizeof(T), placement, offset()));
  if (function == 0 && !shared) input.fill(y, n);
  const auto bytes = static_cast<std::ptrdiff_t>(n * sizeof(T));
  const RowsOfBytes output{function == 0 ? nullptr : y, bytes, 1, n * sizeof(T)};
  std::vector<T> before(x, x + n);

  constexpr const char *names[] = {"dot", "scale", "silu", "gelu", "gelu_tanh", "exp", "exp_sum"};
  Number<T> value = 0;
  on_every_level(
      names[function], memory, output, {},
      [&] {
        if (function == 0) value = Api<T>::dot(x, y, n);
        if (function == 1) Api<T>::scale(x, factor, y, n);
        if (function == 2) Api<T>::silu(x, y, n);
        if (function == 3) Api<T>::gelu(x, y, n);
        if (function == 4) Api<T>::gelu_tanh(x, y, n);
        if constexpr (sizeof(T) > 2) {
          if (function == 5) Api<T>::exp(x, y, n);
          if (function == 6) value = Api<T>::exp_sum(x, factor, term, y, n);
        }
        return RAPT_OK;
      },
      [&](std::vector<std::uint64_t> &bits) {
        bits.push_back(canonical_bits(value));
        if (function == 0) return;
        append_bits(bits, y, 0, 1, n);
        for (std::size_t i = 0; function == 1 && i < n; ++i) {
          if (!same_bits(y[i], T(before[i] * factor))) finding("scale", "not the rounded product");
        }
        for (std::size_t i = 0; function >= 5 && i < n; ++i) {
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
