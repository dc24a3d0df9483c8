// The calls of rapt_quantize_rows and rapt_dequantize_rows, of integers and of blocks of a file.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "calls/call.hpp"
#include "oracle/file_blocks.hpp"
#include "support/bits.hpp"
#include "support/problem_data.hpp"

namespace rapt::test {

// A row of integers and its scales, which a vector and its seed choose.
struct IntegerRow {
  explicit IntegerRow(const Problem &problem)
      : numbers(make_operands<float>(Family::vector, problem).first), inputs(numbers.size()) {
    constexpr std::size_t groups_of[] = {32, 0, 16, 7, 128};
    constexpr rapt_type q_types[] = {RAPT_I8, RAPT_I4, RAPT_U4}, types[] = {RAPT_F32, RAPT_F16, RAPT_BF16};
    std::uint64_t left = problem.seed;
    const auto draw = [&](std::size_t below) {
      const std::size_t drawn = left % below;
      left /= below;
      return drawn;
    };
    group = groups_of[draw(5)];
    drawn_type = q_types[draw(3)];
    type = types[draw(3)];
    scale_type = types[draw(3)];
    has_scales = draw(4) != 1;
    has_offsets = draw(2) == 1;
    has_zeros = draw(2) == 1;
    has_codebook = draw(3) == 1 && inputs >= 16;
    signed_type = drawn_type == RAPT_U4 ? RAPT_I8 : drawn_type;
    if (draw(4) == 1) drawn_type = RAPT_U8;
    groups = inputs == 0 ? 0 : group == 0 ? 1 : (inputs + group - 1) / group;
  }

  static std::size_t bytes_of(rapt_type of, std::size_t inputs) {
    return of == RAPT_I8 || of == RAPT_U8 ? inputs : (inputs + 1) / 2;
  }
  std::size_t group_of(std::size_t input) const { return group == 0 ? 0 : input / group; }

  // These are the integers, zeros, scales and offsets of a dequantized row.
  std::vector<std::uint8_t> mixed_bytes(std::size_t count, std::uint32_t factor) const {
    std::vector<std::uint8_t> made(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto bits =
          static_cast<std::uint32_t>(canonical_bits(numbers[i])) + static_cast<std::uint32_t>(i);
      made[i] = static_cast<std::uint8_t>(bits * factor >> 24);
    }
    return made;
  }
  std::vector<std::uint8_t> codes() const { return mixed_bytes(bytes_of(drawn_type, inputs), 0x9e3779b1); }
  std::vector<std::uint8_t> zeros() const { return mixed_bytes(groups, 0x85ebca6b); }
  template <class S>
  std::vector<S> scales() const {
    std::vector<S> made;
    for (std::size_t g = 0; g < groups; ++g) made.push_back(S(numbers[g]));
    return made;
  }
  template <class S>
  std::vector<S> offsets() const {
    std::vector<S> made;
    for (std::size_t g = 0; g < groups; ++g) made.push_back(S(numbers[inputs - 1 - g]));
    return made;
  }
  bool is_looked_up() const { return drawn_type == RAPT_U4 && has_codebook; }
  bool is_shifted() const {
    return has_zeros && (drawn_type == RAPT_U8 || (drawn_type == RAPT_U4 && !has_codebook));
  }

  const std::vector<float> &numbers;
  std::size_t inputs, group = 0, groups = 0;
  // rapt_quantize_rows makes integers of the signed type, and rapt_dequantize_rows reads those of the drawn one.
  rapt_type signed_type = RAPT_I8, drawn_type = RAPT_I8, type = RAPT_F32, scale_type = RAPT_F32;
  bool has_scales = false, has_offsets = false, has_zeros = false, has_codebook = false;
};

// A row of blocks of a file, whose type and bytes a vector and its seed choose. Every byte may be any.
struct BlockRow {
  explicit BlockRow(const Problem &problem) {
    constexpr rapt_type q_types[] = {RAPT_Q8_0,   RAPT_Q4_0,   RAPT_Q4_1,  RAPT_Q5_0, RAPT_Q5_1,
                                     RAPT_Q2_K,   RAPT_Q3_K,   RAPT_Q4_K,  RAPT_Q5_K, RAPT_Q6_K,
                                     RAPT_IQ4_NL, RAPT_IQ4_XS, RAPT_MXFP4, RAPT_NVFP4};
    constexpr rapt_type y_types[] = {RAPT_F32, RAPT_F16, RAPT_BF16};
    constexpr std::uint64_t count = std::size(q_types);
    file = static_cast<oracle::FileType>(problem.seed % count);
    q_type = q_types[problem.seed % count];
    y_type = y_types[problem.seed / count % 3];
    size = oracle::size_of_block(file);
    const std::vector<float> &numbers = make_operands<float>(Family::vector, problem).first;
    const std::size_t blocks = (numbers.size() + size.inputs - 1) / size.inputs;
    inputs = blocks * size.inputs;
    for (std::size_t i = 0; i < blocks * size.bytes; ++i) {
      const auto bits = static_cast<std::uint32_t>(canonical_bits(numbers[i % numbers.size()]));
      bytes.push_back(static_cast<std::uint8_t>((bits + static_cast<std::uint32_t>(i)) * 0x9e3779b1 >> 24));
    }
  }
  // The number of an input, with each operation rounded to f32. In double a product is exact, and rounding a sum to
  // double first changes nothing.
  float number(std::size_t i) const {
    const oracle::BlockElement element =
        oracle::element_of_block(file, &bytes[i / size.inputs * size.bytes], i % size.inputs);
    const auto product = static_cast<float>(double{element.scale} * element.integer);
    return oracle::has_offsets(file) ? static_cast<float>(double{product} + double{element.offset}) : product;
  }

  oracle::FileType file = oracle::FileType::none;
  oracle::BlockSize size{};
  rapt_type q_type = RAPT_Q8_0, y_type = RAPT_F32;
  std::size_t inputs = 0;
  std::vector<std::uint8_t> bytes;
};

template <class F>
decltype(auto) with_float_of(rapt_type type, F f) {
  if (type == RAPT_F16) return f(F16());
  if (type == RAPT_BF16) return f(BF16());
  return f(0.0f);
}

// The results are the integers' bytes, then the scales.
std::unique_ptr<Call> make_quantize_rows(const Problem &problem, const Layout &layout);
std::unique_ptr<Call> make_dequantize_rows(const Problem &problem, const Layout &layout);
std::unique_ptr<Call> make_dequantize_blocks(const Problem &problem, const Layout &layout);

}  // namespace rapt::test
