// Makes the numbers of a problem of a linear layer with quantized weights. They depend only on the problem.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oracle/file_blocks.hpp"
#include "oracle/quantized_linear.hpp"
#include "rapt/rapt.h"
#include "support/elements.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Holds all arrays without gaps. Every number is exact in the type of its array.
struct QuantizedNumbers {
  std::vector<float> x;              // [rows][inputs]
  std::vector<int> xq;               // in place of x, if the problem has x of i8
  std::vector<float> x_scales;       // [rows][groups of x]
  std::vector<int> q;                // [outputs][inputs]
  std::vector<std::uint8_t> blocks;  // of a file, which the integers, scales and offsets follow from
  std::vector<float> scales,
      offsets;  // [outputs][groups], or empty; scales may have a row for several outputs
  std::vector<std::uint8_t> zeros;
  std::vector<float> codebook, output_scales, bias, row_scales, add;
  std::size_t groups = 0, x_group = 0, x_groups = 0;

  oracle::QuantizedOutput output(const QuantizedProblem &problem, std::size_t n) const;
  // Returns the integers of a row in i8 arithmetic.
  oracle::RowOfIntegers row(const QuantizedProblem &problem, std::size_t r) const;
};

// The result is valid until the next call.
const QuantizedNumbers &make_quantized(const Problem &problem);

template <class X_, class Y_, class Scale_>
struct TypesOfQuantized {
  using X = X_;
  using Y = Y_;
  using Scale = Scale_;
};

// Calls f(TypesOfQuantized<X, Y, Scale>()).
template <class F>
auto with_quantized_types(QuantizedTypes types, F &&f) {
  switch (types) {
    case QuantizedTypes::f16_f32_f16:
      return f(TypesOfQuantized<F16, float, F16>());
    case QuantizedTypes::bf16_bf16_bf16:
      return f(TypesOfQuantized<BF16, BF16, BF16>());
    case QuantizedTypes::f32_bf16_f16:
      return f(TypesOfQuantized<float, BF16, F16>());
    case QuantizedTypes::i8_f32_f32:
      return f(TypesOfQuantized<std::int8_t, float, float>());
    case QuantizedTypes::i8_f16_bf16:
      return f(TypesOfQuantized<std::int8_t, F16, BF16>());
    case QuantizedTypes::f32_f32_f32:
      break;
  }
  return f(TypesOfQuantized<float, float, float>());
}

// Returns the type of blocks of weights that are in such, and that of rapt.h.
oracle::FileType file_type_of(WeightType type);
rapt_type type_of_weights(WeightType type);
// Returns how many inputs share a scale, or 0 for the whole row.
std::size_t group_of_weights(const QuantizedProblem &problem);

inline bool has_x_of_i8(QuantizedTypes types) {
  return types == QuantizedTypes::i8_f32_f32 || types == QuantizedTypes::i8_f16_bf16;
}

inline bool is_f8(WeightType type) { return type == WeightType::f8_e4m3 || type == WeightType::f8_e5m2; }
// Returns the option outputs_per_scale of the problem, and how many rows of scales it has.
std::size_t outputs_per_scale(SharedScales shared);
std::size_t rows_of_scales(const QuantizedProblem &problem);

// Packs the integers of a row as rapt.h says: two to a byte for 4 bits.
std::vector<std::uint8_t> stored_integers(WeightType type, std::span<const int> q);

// Returns the option x_group of the problem.
std::size_t x_group_option(const QuantizedProblem &problem);

}  // namespace rapt::test
