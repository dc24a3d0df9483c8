// One array of a call: what rapt.h says of it, what it holds, and where it lies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "rapt/rapt.h"
#include "support/elements.hpp"

namespace rapt::test {

// Names what lies in memory. `size` is size_t.
enum class Element : unsigned char { f32, f64, f16, bf16, i8, u8, i64, size };

template <class T>
inline constexpr Element element_of = Element::size;
template <>
inline constexpr Element element_of<float> = Element::f32;
template <>
inline constexpr Element element_of<double> = Element::f64;
template <>
inline constexpr Element element_of<F16> = Element::f16;
template <>
inline constexpr Element element_of<BF16> = Element::bf16;
template <>
inline constexpr Element element_of<std::int8_t> = Element::i8;
template <>
inline constexpr Element element_of<std::uint8_t> = Element::u8;
template <>
inline constexpr Element element_of<std::int64_t> = Element::i64;

// Calls f(T()) with the type of the element.
template <class F>
auto with_type_of(Element element, F &&f) {
  switch (element) {
    case Element::f64:
      return f(double{});
    case Element::f16:
      return f(F16{});
    case Element::bf16:
      return f(BF16{});
    case Element::i8:
      return f(std::int8_t{});
    case Element::u8:
      return f(std::uint8_t{});
    case Element::i64:
      return f(std::int64_t{});
    case Element::size:
      return f(std::size_t{});
    default:
      return f(float{});
  }
}

// The same for the elements that the library computes in: others count as float.
template <class F>
auto with_float_type_of(Element element, F &&f) {
  return with_type_of(element, [&]<class T>(T zero) {
    if constexpr (std::is_integral_v<T>) {
      return f(float{});
    } else {
      return f(zero);
    }
  });
}

inline std::size_t size_of(Element element) {
  return with_type_of(element, [](auto zero) { return sizeof zero; });
}
constexpr rapt_type type_of(Element element) {
  constexpr rapt_type types[] = {RAPT_F32, RAPT_F64, RAPT_F16, RAPT_BF16, RAPT_I8};
  return types[static_cast<std::size_t>(element)];
}

// `both` is read, and then written. `scratch` may be written, and is no result. `aside` is read before the call, to
// make another array.
enum class Role { input, output, both, scratch, aside };

// The dimensions of an array, outermost first. A matrix has the last two, a vector the last one.
using Sizes4 = std::array<std::size_t, 4>;
using Strides4 = std::array<std::ptrdiff_t, 4>;

struct Operand {
  // ---- what rapt.h says
  const char *name;
  Element element;
  Role role;
  Sizes4 sizes{1, 1, 1, 1};
  void *pointer;                  // where the call has the address: a pointer of any type
  rapt_status missing = RAPT_OK;  // what a null pointer is; RAPT_OK: the call may go without the array
  // Where the call has the strides, or null.
  std::array<std::ptrdiff_t *, 4> stride_fields{};
  const char *stride_name = "";
  bool has_default_stride = true;  // 0 means contiguous
  bool may_repeat = false;         // RAPT_REPEAT means one row for all
  rapt_status bad_stride = RAPT_OK;
  const char *replaces = "";  // the names of arrays that it may lie on exactly, with spaces around each

  bool has_limits = false;                     // the call looks at the elements, and refuses some
  rapt_status bad_overlap = RAPT_BAD_OVERLAP;  // where it lies on an output, or as an output on another array

  // ---- what it holds: all elements without gaps, outermost dimension first. An output holds nothing.
  std::vector<unsigned char> values;
  std::optional<std::vector<std::size_t>> rows;  // of a matrix: those of the call, in its order; none: all

  // ---- where it lies
  std::size_t slot = 0;    // whose offset and gap of the layout it has
  std::size_t copies = 1;  // rows of a matrix repeat so often, and the results of all copies must be equal
  Strides4 strides{};      // in elements; 0 repeats
  unsigned char *data = nullptr;
  std::size_t block = 0;  // its memory, an index of the call

  bool is_written() const { return role == Role::output || role == Role::both || role == Role::scratch; }
  bool is_result() const { return role == Role::output || role == Role::both; }
  bool is_empty() const {
    return (rows && rows->empty()) || sizes[0] == 0 || sizes[1] == 0 || sizes[2] == 0 || sizes[3] == 0;
  }
  // The bytes from the lowest element to the end of the highest, and of those from the lowest to the first.
  std::size_t extent() const;
  std::size_t lead() const;
  unsigned char *lowest() const { return data - lead(); }
  unsigned char *row(std::size_t i, std::size_t j, std::size_t k) const {
    return data + (static_cast<std::ptrdiff_t>(i) * strides[0] + static_cast<std::ptrdiff_t>(j) * strides[1] +
                   static_cast<std::ptrdiff_t>(k) * strides[2]) *
                      static_cast<std::ptrdiff_t>(size_of(element));
  }
  // Gives it the strides of an array without gaps but for `gap` elements behind each row.
  void set_rows_apart(std::size_t gap);
  // Swaps the order of the second dimension and the third in memory.
  void put_tokens_outside();
  bool has_gaps() const;
  void write_values() const;

  template <class T>
  void hold(std::span<const T> dense) {
    values.resize(dense.size_bytes());
    if (!dense.empty()) std::memcpy(values.data(), dense.data(), dense.size_bytes());
  }
  // Calls f(row) for each row of the call, in its order. Elements of a row are strides[3] apart.
  template <class F>
  void each_row_of_call(F f) const {
    if (!rows) return each_row([&](unsigned char *at, std::size_t) { f(at); });
    for (const std::size_t r : *rows) f(row(0, 0, r));
  }
  // Calls f(row, index of its first element among all) for each row of memory.
  template <class F>
  void each_row(F f) const {
    if (is_empty()) return;
    std::size_t first = 0;
    for (std::size_t i = 0; i < sizes[0]; ++i) {
      for (std::size_t j = 0; j < sizes[1]; ++j) {
        for (std::size_t k = 0; k < sizes[2]; ++k, first += sizes[3]) f(row(i, j, k), first);
      }
    }
  }
};

}  // namespace rapt::test
