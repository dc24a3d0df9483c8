#include "calls/quantized_values.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <type_traits>

#include "oracle/f8.hpp"
#include "support/remembered.hpp"

namespace rapt::test {
namespace {

// Returns whether every row gets values of the class. In other classes only one row in 3 does.
bool is_of_all_rows(InputClass input) {
  return input == InputClass::uniform || input == InputClass::gaussian ||
         input == InputClass::gaussian_wide || input == InputClass::denormals ||
         input == InputClass::signed_zeros || input == InputClass::tiny_rows;
}

template <class X>
std::vector<float> make_x(InputClass input, Random &random, std::size_t rows, std::size_t cols) {
  std::vector<float> numbers;
  std::vector<X> row(cols);
  for (std::size_t r = 0; r < rows; ++r) {
    fill<X>(is_of_all_rows(input) || random.one_in(3) ? input : InputClass::gaussian, random, row);
    for (const X value : row) numbers.push_back(static_cast<float>(value));
  }
  return numbers;
}

float draw_special(Random &random) {
  using Limits = std::numeric_limits<float>;
  const float special[] = {Limits::infinity(),
                           -Limits::infinity(),
                           Limits::quiet_NaN(),
                           Limits::max(),
                           Limits::denorm_min(),
                           -0.0f,
                           0.0f};
  return special[random.below(std::size(special))];
}

// Makes numbers that E can hold, some of them special in problems with special inputs.
template <class E>
std::vector<float> make_numbers(const Problem &problem, Random &random, std::size_t count, double size) {
  std::vector<float> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    auto number = static_cast<float>(size * random.gaussian());
    if (problem.input == InputClass::specials && random.one_in(30)) number = draw_special(random);
    if (problem.input == InputClass::signed_zeros) number = random.one_in(2) ? 0.0f : -0.0f;
    if (problem.input == InputClass::tiny_rows) number = static_cast<float>(0x1p-130 * random.gaussian());
    numbers.push_back(static_cast<float>(E(number)));
  }
  return numbers;
}

// Draws the bytes of all blocks, of which the halves that scale are finite, and finds what they mean. Of `largest`,
// every code is the largest one.
void make_blocks(const Problem &problem, Random &random, QuantizedNumbers &made) {
  const QuantizedProblem &shape = problem.as<QuantizedProblem>();
  const oracle::FileType type = file_type_of(shape.weights);
  const oracle::BlockSize size = oracle::size_of_block(type);
  const std::size_t count = shape.outputs * shape.cols / size.inputs;
  for (std::size_t i = 0; i < count * size.bytes; ++i)
    made.blocks.push_back(static_cast<std::uint8_t>(problem.input == InputClass::huge ? 255 * random.below(2)
                                                                                      : random.below(256)));
  for (std::size_t b = 0; b < count; ++b) {
    std::uint8_t *const block = &made.blocks[b * size.bytes];
    if (problem.input == InputClass::largest) std::fill_n(block, size.bytes, std::uint8_t{255});
    // The scale's and the offset's f16.
    const std::size_t d = type == oracle::FileType::q2_k   ? 80
                          : type == oracle::FileType::q3_k ? 108
                          : type == oracle::FileType::q6_k ? 208
                                                           : 0;
    for (const std::size_t at : {d, d + 2}) {
      if (at != d && !oracle::has_offsets(type)) continue;
      if (type == oracle::FileType::nvfp4) continue;  // every byte is a number
      if (type == oracle::FileType::mxfp4) {
        if (problem.input != InputClass::specials) *block = static_cast<std::uint8_t>(110 + random.below(20));
        continue;
      }
      const bool is_special = problem.input == InputClass::specials && random.one_in(20);
      if (!is_special) block[at + 1] &= 0xaf;  // below 2^-3
    }
    for (std::size_t i = 0; i < size.inputs; ++i) {
      const oracle::BlockElement element = oracle::element_of_block(type, block, i);
      made.q.push_back(element.integer);
      if (i % size.group != 0) continue;
      made.scales.push_back(element.scale);
      if (oracle::has_offsets(type)) made.offsets.push_back(element.offset);
    }
  }
}

// Draws a number of 8 bits. Only special inputs have NaN and infinities.
int draw_f8(const Problem &problem, Random &random) {
  const bool is_e4m3 = problem.as<QuantizedProblem>().weights == WeightType::f8_e4m3;
  const int first_special = is_e4m3 ? 0x7f : 0x7c, sign = random.one_in(2) ? 128 : 0;
  const int any = static_cast<int>(random.below(128));
  if (problem.input == InputClass::specials && random.one_in(200)) return any | 0x7c | sign;
  if (problem.input == InputClass::huge || problem.input == InputClass::largest)
    return (first_special - 1) | sign;
  if (problem.input == InputClass::denormals) return any % (is_e4m3 ? 8 : 4) | sign;
  if (problem.input == InputClass::signed_zeros) return sign;
  return any % first_special | sign;
}

QuantizedNumbers make_new(const Problem &problem) {
  const QuantizedProblem &shape = problem.as<QuantizedProblem>();
  QuantizedNumbers made;
  Random random(problem.seed);
  const bool is_in_blocks = file_type_of(shape.weights) != oracle::FileType::none;
  const std::size_t group = group_of_weights(shape), fold = group ? group : 512;
  made.groups = group ? (shape.cols + group - 1) / group : 1;
  made.x_group = shape.x_group == XGroup::one                 ? fold
                 : shape.x_group == XGroup::three             ? 3 * fold
                 : shape.x_group == XGroup::row || group == 0 ? shape.cols
                 : is_in_blocks                               ? 32
                                                              : group;
  made.x_group = std::max<std::size_t>(1, std::min(made.x_group, shape.cols));
  made.x_groups = (shape.cols + made.x_group - 1) / made.x_group;
  with_quantized_types(shape.types, [&]<class X, class Y, class Scale>(TypesOfQuantized<X, Y, Scale>) {
    if constexpr (std::is_same_v<X, std::int8_t>) {
      for (std::size_t i = 0; i < shape.rows * shape.cols; ++i) {
        const bool is_extreme = problem.input == InputClass::huge || random.one_in(20);
        made.xq.push_back(is_extreme ? (random.one_in(2) ? -128 : 127)
                                     : static_cast<int>(random.below(256)) - 128);
        if (problem.input == InputClass::largest) made.xq.back() = -128;
      }
      made.x_scales = make_numbers<float>(problem, random, shape.rows * made.x_groups, 0.05);
    } else {
      made.x = make_x<X>(problem.input, random, shape.rows, shape.cols);
    }
    if (is_in_blocks) make_blocks(problem, random, made);
    const bool in_f8 = is_f8(shape.weights);
    for (std::size_t i = 0; in_f8 && i < shape.outputs * shape.cols; ++i)
      made.q.push_back(draw_f8(problem, random));
    const int least = shape.weights == WeightType::i8 ? -128 : shape.weights == WeightType::i4 ? -8 : 0;
    const bool in_u8 = shape.weights == WeightType::u8;
    const std::size_t count = shape.weights == WeightType::i8 || in_u8 ? 256 : 16;
    for (std::size_t i = 0; !is_in_blocks && !in_f8 && i < shape.outputs * shape.cols; ++i) {
      const int q = problem.input == InputClass::huge ? (random.one_in(2) ? 0 : static_cast<int>(count) - 1)
                                                      : static_cast<int>(random.below(count));
      made.q.push_back(problem.input == InputClass::largest ? static_cast<int>(count) - 1 + least
                                                            : q + least);
    }
    const std::size_t numbers = shape.outputs * made.groups;
    if (shape.scales && !is_in_blocks)
      made.scales =
          make_numbers<Scale>(problem, random, rows_of_scales(shape) * made.groups, in_f8 ? 0.01 : 0.1);
    if (shape.offsets && !is_in_blocks) made.offsets = make_numbers<Scale>(problem, random, numbers, 0.3);
    for (std::size_t i = 0; shape.zeros && !is_in_blocks && i < numbers; ++i) {
      const auto below = [&](std::size_t count) { return static_cast<std::uint8_t>(random.below(count)); };
      if (!in_u8) {
        made.zeros.push_back(below(random.one_in(4) ? 256 : 16));
      } else {
        const bool is_extreme = problem.input == InputClass::huge || random.one_in(8);
        made.zeros.push_back(is_extreme ? static_cast<std::uint8_t>(255 * below(2)) : below(256));
        if (problem.input == InputClass::largest) made.zeros.back() = 0;
      }
    }
    if (shape.codebook && !shape.integers) made.codebook = make_numbers<float>(problem, random, 16, 1);
    for (std::size_t q = 0; shape.codebook && shape.integers && q < 16; ++q) {
      const bool is_extreme = problem.input == InputClass::huge || random.one_in(8);
      const int number =
          is_extreme ? (random.one_in(2) ? -128 : 127) : static_cast<int>(random.below(256)) - 128;
      made.codebook.push_back(number == 0 ? -0.0f : static_cast<float>(number));
    }
    if (shape.bias) made.bias = make_numbers<float>(problem, random, shape.outputs, 2);
    if (shape.row_scales) made.row_scales = make_numbers<float>(problem, random, shape.rows, shape.scale);
    if (shape.add) made.add = make_numbers<Y>(problem, random, shape.rows * shape.outputs, 1);
    if (shape.output_scales) made.output_scales = make_numbers<float>(problem, random, shape.outputs, 1);
  });
  return made;
}

}  // namespace

oracle::FileType file_type_of(WeightType type) {
  using oracle::FileType;
  constexpr FileType types[] = {FileType::none,  FileType::none,   FileType::none,   FileType::q8_0,
                                FileType::q4_0,  FileType::q4_1,   FileType::q5_0,   FileType::q5_1,
                                FileType::q4_k,  FileType::q5_k,   FileType::q6_k,   FileType::q2_k,
                                FileType::q3_k,  FileType::iq4_nl, FileType::iq4_xs, FileType::mxfp4,
                                FileType::nvfp4, FileType::none,   FileType::none,   FileType::none};
  static_assert(std::size(types) == std::size(names_of<WeightType>));
  return types[static_cast<int>(type)];
}
rapt_type type_of_weights(WeightType type) {
  constexpr rapt_type types[] = {RAPT_I8,    RAPT_I4,    RAPT_U4,      RAPT_Q8_0,    RAPT_Q4_0,
                                 RAPT_Q4_1,  RAPT_Q5_0,  RAPT_Q5_1,    RAPT_Q4_K,    RAPT_Q5_K,
                                 RAPT_Q6_K,  RAPT_Q2_K,  RAPT_Q3_K,    RAPT_IQ4_NL,  RAPT_IQ4_XS,
                                 RAPT_MXFP4, RAPT_NVFP4, RAPT_F8_E4M3, RAPT_F8_E5M2, RAPT_U8};
  static_assert(std::size(types) == std::size(names_of<WeightType>));
  return types[static_cast<int>(type)];
}
std::size_t group_of_weights(const QuantizedProblem &problem) {
  const oracle::FileType type = file_type_of(problem.weights);
  return type == oracle::FileType::none ? problem.scale_group : oracle::size_of_block(type).group;
}

std::size_t outputs_per_scale(SharedScales shared) {
  constexpr std::size_t options[] = {0, 64, 128, 256, SIZE_MAX};
  return options[static_cast<int>(shared)];
}
std::size_t rows_of_scales(const QuantizedProblem &problem) {
  const std::size_t each = std::max<std::size_t>(outputs_per_scale(problem.shared), 1);
  return problem.outputs == 0 ? 0 : (problem.outputs - 1) / each + 1;
}

std::size_t x_group_option(const QuantizedProblem &problem) {
  const std::size_t group = group_of_weights(problem), fold = group ? group : 512;
  switch (problem.x_group) {
    case XGroup::one:
      return fold;
    case XGroup::three:
      return 3 * fold;
    case XGroup::row:
      return SIZE_MAX;
    case XGroup::as_weights:
      break;
  }
  return 0;
}

oracle::QuantizedOutput QuantizedNumbers::output(const QuantizedProblem &problem, std::size_t n) const {
  const auto of = [&](const auto &all) {
    return all.empty() ? std::span(all) : std::span(all).subspan(n * groups, groups);
  };
  const std::size_t row = n / std::max<std::size_t>(outputs_per_scale(problem.shared), 1);
  return {.q = std::span(q).subspan(n * problem.cols, problem.cols),
          .scales = scales.empty() ? std::span(scales) : std::span(scales).subspan(row * groups, groups),
          .offsets = of(offsets),
          .zeros = of(zeros),
          .codebook = codebook,
          .zero = problem.weights == WeightType::u4   ? 8
                  : problem.weights == WeightType::u8 ? 128
                                                      : 0,
          .number_of = problem.weights == WeightType::f8_e4m3   ? oracle::number_of_e4m3
                       : problem.weights == WeightType::f8_e5m2 ? oracle::number_of_e5m2
                                                                : nullptr,
          .scale_group = group_of_weights(problem)};
}

oracle::RowOfIntegers QuantizedNumbers::row(const QuantizedProblem &problem, std::size_t r) const {
  if (!has_x_of_i8(problem.types))
    return oracle::quantized(std::span(x).subspan(r * problem.cols, problem.cols), x_group, 127);
  const auto first = static_cast<std::ptrdiff_t>(r * problem.cols),
             scale = static_cast<std::ptrdiff_t>(r * x_groups);
  const auto cols = static_cast<std::ptrdiff_t>(problem.cols);
  return {{xq.begin() + first, xq.begin() + first + cols},
          {x_scales.begin() + scale, x_scales.begin() + scale + static_cast<std::ptrdiff_t>(x_groups)}};
}

std::vector<std::uint8_t> stored_integers(WeightType type, std::span<const int> q) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t k = 0; k < q.size(); ++k) {
    const auto low = static_cast<std::uint8_t>(q[k]);
    if (type == WeightType::i8 || type == WeightType::u8 || is_f8(type)) {
      bytes.push_back(low);
    } else if (k % 2 == 0) {
      bytes.push_back(low & 15U);
      if (k + 1 == q.size()) bytes.back() |= 0x90;  // the last high half is not looked at
    } else {
      bytes.back() = static_cast<std::uint8_t>(bytes.back() | low << 4);
    }
  }
  return bytes;
}

const QuantizedNumbers &make_quantized(const Problem &problem) {
  return remembered(problem, [&] { return make_new(problem); });
}

}  // namespace rapt::test
