// Implements rapt_quantize_rows and rapt_dequantize_rows. Each call checks its arguments before it writes
// anything.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "api/floating_point.hpp"
#include "api/read_options.hpp"
#include "api/strided.hpp"
#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "contract/integer_units.hpp"
#include "contract/linear.hpp"

namespace rapt {
namespace {

// Describes rows of integers and rows of numbers.
struct Rows {
  std::size_t rows, inputs, group;
  rapt_type q_type, type;  // of the integers and of the numbers
  std::ptrdiff_t stride;   // of the numbers

  std::size_t groups() const { return inputs == 0 ? 0 : (inputs - 1) / group + 1; }
  std::size_t q_row() const { return is_4_bits(q_type) ? inputs / 2 + inputs % 2 : inputs; }

  // Fills in the defaults.
  rapt_status resolve(rapt_status bad_stride) {
    if (group == 0) group = inputs > 0 ? inputs : 1;
    if (stride == 0 && inputs > std::size_t{PTRDIFF_MAX}) return RAPT_BAD_SIZE;
    if (stride == 0) stride = static_cast<std::ptrdiff_t>(inputs);
    return stride >= 0 && static_cast<std::size_t>(stride) >= inputs ? RAPT_OK : bad_stride;
  }
  bool is_empty() const { return rows == 0 || inputs == 0; }
  // Measures the arrays. All sizes must fit the address space.
  bool measure(const void *numbers, const void *q, Strided &of_numbers, Strided &of_q) const {
    std::size_t integers, scales;
    if (__builtin_mul_overflow(rows, q_row(), &integers) ||
        __builtin_mul_overflow(rows, groups() * sizeof(float), &scales))
      return false;
    of_numbers = {numbers, {0, 0, stride}, Reach::of_all(1, rows), 1, inputs, inputs, size_of(type)};
    of_q = {q, integers, 1};
    return of_numbers.measure() && of_q.measure() && scales <= std::size_t{PTRDIFF_MAX};
  }
};

bool is_of_numbers(const rapt_type &type) {
  const int number = number_of(type);
  return number == RAPT_F32 || number == RAPT_F16 || number == RAPT_BF16;
}
bool is_of_signed_integers(const rapt_type &type) {
  return number_of(type) == RAPT_I8 || number_of(type) == RAPT_I4;
}

template <class E>
void quantize(const E *x, const Rows &of, std::uint8_t *q, float *scales) {
  const bool in_4_bits = is_4_bits(of.q_type);
  for (std::size_t r = 0; r < of.rows; ++r, x += of.stride, q += of.q_row()) {
    if (in_4_bits) q[of.q_row() - 1] = 0;
    for (std::size_t begin = 0; begin < of.inputs; begin += of.group) {
      const std::size_t count = of.inputs - begin < of.group ? of.inputs - begin : of.group;
      const IntegerUnits units = IntegerUnits::of(count, in_4_bits ? largest_i4 : largest_i8,
                                                  [&](std::size_t i) { return widened(x[begin + i]); });
      *scales++ = units.step;
      for (std::size_t k = begin; k < begin + count; ++k) {
        const auto integer = static_cast<std::uint8_t>(units.integer(widened(x[k])));
        if (!in_4_bits) {
          q[k] = integer;
        } else if (k % 2 == 0) {
          q[k / 2] = integer & 15;
        } else {
          q[k / 2] = static_cast<std::uint8_t>(q[k / 2] | integer << 4);
        }
      }
    }
  }
}

struct Parts {
  const float *scales;
  const std::uint8_t *zeros;
  const float *offsets, *codebook;
};

template <class E>
void dequantize(const std::uint8_t *q, const Rows &of, const Parts &parts, E *y) {
  const std::size_t groups = of.groups();
  for (std::size_t r = 0; r < of.rows; ++r, y += of.stride, q += of.q_row()) {
    for (std::size_t k = 0; k < of.inputs; ++k) {
      const std::size_t g = r * groups + k / of.group;
      const std::uint8_t byte = q[is_4_bits(of.q_type) ? k / 2 : k];
      const unsigned nibble = k % 2 == 0 ? byte & 15U : byte >> 4U;
      float number;
      if (of.q_type == RAPT_I8) {
        number = static_cast<float>(static_cast<std::int8_t>(byte));
      } else if (of.q_type == RAPT_I4) {
        number = static_cast<float>(static_cast<int>(nibble ^ 8U) - 8);
      } else if (parts.codebook) {
        number = parts.codebook[nibble];
      } else {
        number = static_cast<float>(static_cast<int>(nibble) - (parts.zeros ? parts.zeros[g] : 8));
      }
      if (parts.scales) number = number * parts.scales[g];
      if (parts.offsets) number = number + parts.offsets[g];
      y[k] = narrowed<E>(number);
    }
  }
}

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_quantize_rows(const void *x, rapt_type x_type, ptrdiff_t x_stride, size_t rows,
                               size_t inputs, size_t group, rapt_type q_type, void *q, float *scales) {
  return in_default_mode([&] {
    if (!is_of_signed_integers(q_type) || !is_of_numbers(x_type)) return RAPT_BAD_TYPE;
    Rows of{rows, inputs, group, q_type, x_type, x_stride};
    const rapt_status status = of.resolve(RAPT_BAD_X_STRIDE);
    if (status != RAPT_OK || of.is_empty()) return status;
    if (!x) return RAPT_BAD_X;
    if (!q) return RAPT_BAD_Q;
    if (!scales) return RAPT_BAD_SCALES;
    Strided numbers, integers;
    if (!of.measure(x, q, numbers, integers)) return RAPT_BAD_SIZE;
    Strided steps(scales, rows * of.groups() * sizeof *scales, 1);
    if (!steps.measure()) return RAPT_BAD_SIZE;
    if (numbers.overlaps(integers) || numbers.overlaps(steps) || integers.overlaps(steps))
      return RAPT_BAD_OVERLAP;
    with_element<float>(x_type, [&](auto element) {
      quantize(static_cast<const typename decltype(element)::type *>(x), of, static_cast<std::uint8_t *>(q),
               scales);
    });
    return RAPT_OK;
  });
}

rapt_status rapt_dequantize_rows(const void *q, rapt_type q_type, size_t rows, size_t inputs, size_t group,
                                 const float *scales, const uint8_t *zeros, const float *offsets,
                                 const float *codebook, void *y, rapt_type y_type, ptrdiff_t y_stride) {
  return in_default_mode([&] {
    if (!(is_of_signed_integers(q_type) || number_of(q_type) == RAPT_U4) || !is_of_numbers(y_type))
      return RAPT_BAD_TYPE;
    Rows of{rows, inputs, group, q_type, y_type, y_stride};
    const rapt_status status = of.resolve(RAPT_BAD_Y_STRIDE);
    if (status != RAPT_OK) return status;
    if (zeros && (q_type != RAPT_U4 || codebook)) return RAPT_BAD_W_ZEROS;
    if (codebook && q_type != RAPT_U4) return RAPT_BAD_W_CODEBOOK;
    if (of.is_empty()) return RAPT_OK;
    if (!q) return RAPT_BAD_Q;
    if (!y) return RAPT_BAD_Y;
    Strided numbers, integers;
    if (!of.measure(y, q, numbers, integers)) return RAPT_BAD_SIZE;
    const std::size_t count = rows * of.groups();
    Strided reads[] = {integers,
                       {scales, count * sizeof(float), 1},
                       {zeros, count, 1},
                       {offsets, count * sizeof(float), 1},
                       {codebook, 16 * sizeof(float), 1}};
    for (Strided &array : reads) {
      if (!array.measure()) return RAPT_BAD_SIZE;
      if (array.overlaps(numbers)) return RAPT_BAD_OVERLAP;
    }
    with_element<float>(y_type, [&](auto element) {
      dequantize(static_cast<const std::uint8_t *>(q), of, {scales, zeros, offsets, codebook},
                 static_cast<typename decltype(element)::type *>(y));
    });
    return RAPT_OK;
  });
}
