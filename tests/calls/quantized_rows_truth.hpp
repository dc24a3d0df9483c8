// Holds rapt_quantize_rows to its bound, and rapt_dequantize_rows to the three operations of rapt.h, or to what the
// layouts of blocks say.
#pragma once

#include "calls/quantized_rows.hpp"
#include "validate/accuracy_parts.hpp"

namespace rapt::validate {

template <class T>
struct QuantizeRowsAccuracy {
  static constexpr const char *unit_text = "scale";
  static constexpr double bound = 0.5 + 127 * 0x1p-22;

  static Judgement judge(const Problem &problem, Bits bits) {
    const IntegerRow row(problem);
    const bool in_4_bits = row.signed_type == RAPT_I4;
    const std::size_t bytes = row.bytes_of(row.signed_type, row.inputs);
    Worst worst;
    with_float_of(row.type, [&]<class X>(X) {
      for (std::size_t k = 0; k < row.inputs; ++k) {
        const Real scale = value_of<float>(bits[bytes + row.group_of(k)]),
                   x = static_cast<float>(X(row.numbers[k]));
        const auto byte = static_cast<int>(bits[in_4_bits ? k / 2 : k]);
        const int half = k % 2 == 0 ? byte & 15 : byte >> 4;
        const int q = in_4_bits ? (half ^ 8) - 8 : (byte ^ 128) - 128;
        if (!(scale > 0)) {
          worst.see(q == 0 ? 0 : wrong, bound);  // of small numbers, or next to a NaN or an infinity
          continue;
        }
        worst.see(as_double(std::fabs(q * scale - x) / scale), 0.5 + (in_4_bits ? 7 : 127) * 0x1p-22);
      }
    });
    return worst.judgement;
  }
};

template <class T>
struct DequantizeRowsAccuracy {
  static constexpr const char *unit_text = "exact";
  static constexpr double bound = 0;

  static Judgement judge(const Problem &problem, Bits bits) {
    const IntegerRow row(problem);
    const std::vector<std::uint8_t> codes = row.codes(), zeros = row.zeros();
    Worst worst;
    with_float_of(row.type, [&]<class Y>(Y) {
      with_float_of(row.scale_type, [&]<class S>(S) {
        const std::vector<S> scales = row.scales<S>(), offsets = row.offsets<S>();
        for (std::size_t k = 0; k < row.inputs; ++k) {
          const std::size_t g = row.group_of(k);
          const bool in_bytes = row.drawn_type == RAPT_I8 || row.drawn_type == RAPT_U8;
          const int byte = codes[in_bytes ? k : k / 2], half = k % 2 == 0 ? byte & 15 : byte >> 4;
          float number =
              static_cast<float>(row.drawn_type == RAPT_I8   ? (byte ^ 128) - 128
                                 : row.drawn_type == RAPT_I4 ? (half ^ 8) - 8
                                 : row.drawn_type == RAPT_U8 ? byte - (row.is_shifted() ? zeros[g] : 128)
                                                             : half - (row.is_shifted() ? zeros[g] : 8));
          if (row.is_looked_up()) number = row.numbers[static_cast<std::size_t>(half)];
          // In double a product is exact, and rounding a sum to double first changes nothing.
          if (row.has_scales)
            number = static_cast<float>(double{number} * double{static_cast<float>(scales[g])});
          if (row.has_offsets)
            number = static_cast<float>(double{number} + double{static_cast<float>(offsets[g])});
          worst.see(canonical_bits(Y(number)) == bits[k] ? 0 : wrong, bound);
        }
      });
    });
    return worst.judgement;
  }
};

template <class T>
struct DequantizeBlocksAccuracy {
  static constexpr const char *unit_text = "exact";
  static constexpr double bound = 0;

  static Judgement judge(const Problem &problem, Bits bits) {
    const BlockRow row(problem);
    Worst worst;
    with_float_of(row.y_type, [&]<class Y>(Y) {
      for (std::size_t k = 0; k < row.inputs; ++k)
        worst.see(canonical_bits(Y(row.number(k))) == bits[k] ? 0 : wrong, bound);
    });
    return worst.judgement;
  }
};

}  // namespace rapt::validate
