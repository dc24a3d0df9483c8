// Writes the numbers of outputs of packed weights (call/packed_rows.hpp) as elements of any type.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "call/element.hpp"
#include "call/packed_header.hpp"
#include "call/packed_rows.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

// Writes elements as those of another type, at most part_of_row of them.
template <class From, class To>
void convert(const From *x, To *y, std::size_t n) {
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(y, x, n * sizeof *x);
  } else if constexpr (std::is_same_v<To, float>) {
    kernels().of<From>().widen(x, y, n);
  } else if constexpr (std::is_same_v<From, float>) {
    kernels().of<To>().narrow(x, y, n);
  } else {
    float numbers[part_of_row];
    convert(x, numbers, n);
    convert(numbers, y, n);
  }
}

// Calls write(y, output, first input, count) for the parts of listed outputs. Without a list they are the first ones.
template <class Y, class F>
void each_part(const rapt_linear_options &o, const std::size_t *rows, std::size_t count, Y *y,
               std::ptrdiff_t y_stride, F write) {
  for (std::size_t i = 0; i < count; ++i) {
    Y *const row = y + y_stride * static_cast<std::ptrdiff_t>(i);
    for (std::size_t k = 0; k < o.in_features; k += part_of_row) {
      const std::size_t left = o.in_features - k;
      write(row + k, rows ? rows[i] : i, k, left < part_of_row ? left : part_of_row);
    }
  }
}

// Writes the numbers of listed outputs. `packed` is with its header.
template <class Y>
void write_packed_rows(const rapt_linear_options &o, const void *packed, const std::size_t *rows,
                       std::size_t count, Y *y, std::ptrdiff_t y_stride) {
  if (is_quantized(o.w_type)) {
    if constexpr (!std::is_same_v<Y, double>) {
      const QuantizedWeights from(o, packed);
      each_part(o, rows, count, y, y_stride, [&](Y *to, std::size_t output, std::size_t k, std::size_t n) {
        float numbers[part_of_row];
        compute_numbers(from, o.scale_group, output, k, n, numbers);
        convert(numbers, to, n);
      });
    }
    return;
  }
  with_element<Arithmetic<Y>>(o.w_type, [&](auto element) {
    using E = typename decltype(element)::type;
    const auto *const from =
        reinterpret_cast<const E *>(static_cast<const char *>(packed) + sizeof(PackedHeader));
    each_part(o, rows, count, y, y_stride, [&](Y *to, std::size_t output, std::size_t k, std::size_t n) {
      E weights[part_of_row];
      copy_weights(from, output, k, n, o.in_features, weights);
      convert(weights, to, n);
    });
  });
}

}  // namespace
}  // namespace rapt
