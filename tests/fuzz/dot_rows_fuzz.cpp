// Fuzzes dot_rows with any row stride: rows may overlap, go backwards, or all be the same row.
#include "fuzz/support/fuzz_input.hpp"
#include "fuzz/support/levels.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

template <class T>
void fuzz(FuzzInput &input) {
  static FuzzMemory memory;
  memory.forget_all();
  const std::size_t dim = input.one_in(8) ? input.below(600) : input.below(140);
  const std::size_t row_count = input.below(12);
  auto stride = static_cast<std::ptrdiff_t>(dim + input.below(5));
  if (input.one_in(3)) stride = static_cast<std::ptrdiff_t>(input.below(300));
  if (input.one_in(3)) stride = -stride;
  if (input.one_in(8)) stride = 0;
  const Placement placement = input.one_in(2) ? Placement::begins_at_guard : Placement::ends_at_guard;
  const auto offset = [&] { return input.one_in(2) ? input.below(64 / sizeof(T)) * sizeof(T) : 0; };
  const auto scale = input.number<Number<T>>();

  const auto step = static_cast<std::size_t>(stride < 0 ? -stride : stride);
  const std::size_t extent = row_count == 0 || dim == 0 ? 0 : (row_count - 1) * step + dim;
  if ((extent + 64) * sizeof(T) > FuzzMemory::capacity) return;
  T *query = reinterpret_cast<T *>(memory.place(0, dim * sizeof(T), placement, offset()));
  T *first = reinterpret_cast<T *>(memory.place(1, extent * sizeof(T), placement, offset()));
  using Sum = Number<T>;
  const std::size_t out_offset = offset() / sizeof(T) * sizeof(Sum) % 64;
  Sum *out = reinterpret_cast<Sum *>(memory.place(2, row_count * sizeof(Sum), placement, out_offset));
  input.fill(query, dim);
  input.fill(first, extent);
  const T *rows = stride < 0 && extent != 0 ? first + (row_count - 1) * step : first;

  on_every_level(
      "dot_rows", memory, {out, sizeof(Sum), row_count, sizeof(Sum)}, {},
      [&] {
        Api<T>::dot_rows(query, rows, stride, row_count, dim, scale, out);
        return RAPT_OK;
      },
      [&](std::vector<std::uint64_t> &bits) {
        append_bits(bits, out, 1, row_count, 1);
        for (std::size_t r = 0; r < row_count; ++r) {
          const T *row = extent == 0 ? rows : rows + static_cast<std::ptrdiff_t>(r) * stride;
          const Sum expected = scale * Api<T>::dot(query, row, dim);
          if (!same_bits(out[r], expected)) finding("dot_rows", "not scale times the bits of dot");
        }
      });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  with_any_element_type(input, [&](auto zero) { fuzz<decltype(zero)>(input); });
  return 0;
}
