// dot, scale, exp and exp_sum.
#include "fuzz/support/fuzz_input.hpp"
#include "fuzz/support/levels.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

template <class T>
void fuzz(FuzzInput &input) {
  static FuzzMemory memory;
  memory.forget_all();
  const unsigned function = input.byte() % 4;
  const std::size_t n = input.one_in(8) ? input.below(1100) : input.below(140);
  const Placement placement = input.one_in(2) ? Placement::begins_at_guard : Placement::ends_at_guard;
  const bool shared = input.one_in(4);  // y is x, or b overlaps a
  const std::size_t shift = function == 0 && shared ? input.below(n + 1) : 0;
  const auto offset = [&] { return input.one_in(2) ? input.below(64 / sizeof(T)) * sizeof(T) : 0; };
  const T factor = input.number<T>(), term = input.number<T>();

  T *x = reinterpret_cast<T *>(memory.place(0, (n + shift) * sizeof(T), placement, offset()));
  input.fill(x, n + shift);
  T *y = shared ? x + shift : reinterpret_cast<T *>(memory.place(1, n * sizeof(T), placement, offset()));
  if (function == 0 && !shared) input.fill(y, n);
  const auto bytes = static_cast<std::ptrdiff_t>(n * sizeof(T));
  const RowsOfBytes output{function == 0 ? nullptr : y, bytes, 1, n * sizeof(T)};
  std::vector<T> before(x, x + n);

  constexpr const char *names[] = {"dot", "scale", "exp", "exp_sum"};
  T value = 0;
  on_every_level(
      names[function], memory, output, {},
      [&] {
        if (function == 0) value = Api<T>::dot(x, y, n);
        if (function == 1) Api<T>::scale(x, factor, y, n);
        if (function == 2) Api<T>::exp(x, y, n);
        if (function == 3) value = Api<T>::exp_sum(x, factor, term, y, n);
        return RAPT_OK;
      },
      [&](std::vector<std::uint64_t> &bits) {
        bits.push_back(canonical_bits(value));
        if (function == 0) return;
        append_bits(bits, y, 0, 1, n);
        for (std::size_t i = 0; function == 1 && i < n; ++i) {
          if (!same_bits(y[i], before[i] * factor)) finding("scale", "not the rounded product");
        }
        for (std::size_t i = 0; function >= 2 && i < n; ++i) {
          if (y[i] < 0) finding(names[function], "a negative exponential");
        }
      });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  with_element_type(input, [&](auto zero) { fuzz<decltype(zero)>(input); });
  return 0;
}
