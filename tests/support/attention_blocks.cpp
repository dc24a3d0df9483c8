#include "support/attention_blocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/random.hpp"

namespace rapt::test {
namespace {

using oracle::FileType;

constexpr struct {
  FileType file;
  rapt_type type;
  std::size_t scale;  // the first byte of the scale
  double largest;     // about the largest number for a scale of 1
} files[] = {{FileType::q8_0, RAPT_Q8_0, 0, 127},        {FileType::q4_0, RAPT_Q4_0, 0, 8},
             {FileType::q4_1, RAPT_Q4_1, 0, 15},         {FileType::q5_0, RAPT_Q5_0, 0, 16},
             {FileType::q5_1, RAPT_Q5_1, 0, 31},         {FileType::iq4_nl, RAPT_IQ4_NL, 0, 127},
             {FileType::mxfp4, RAPT_MXFP4, 0, 12},       {FileType::nvfp4, RAPT_NVFP4, 0, 12},
             {FileType::q2_k, RAPT_Q2_K, 80, 45},        {FileType::q3_k, RAPT_Q3_K, 108, 128},
             {FileType::q4_k, RAPT_Q4_K, 0, 945},        {FileType::q5_k, RAPT_Q5_K, 0, 1953},
             {FileType::q6_k, RAPT_Q6_K, 208, 32 * 127}, {FileType::iq4_xs, RAPT_IQ4_XS, 0, 127 * 32}};

bool is_float(rapt_type type) { return type == RAPT_F32 || type == RAPT_F16 || type == RAPT_BF16; }

void put_half(std::uint8_t *at, double value) {
  const std::uint16_t bits = F16(value).bits();
  at[0] = static_cast<std::uint8_t>(bits);
  at[1] = static_cast<std::uint8_t>(bits >> 8);
}

// Encodes numbers of one block, and replaces them by what the block means.
void encode(std::size_t which, float *x, Random &random, std::uint8_t *block) {
  const auto &of = files[which];
  const oracle::BlockSize size = oracle::size_of_block(of.file);
  double largest = 0, special = 0;
  for (std::size_t i = 0; i < size.inputs; ++i) {
    if (!std::isfinite(x[i])) special = x[i];
    if (std::isfinite(x[i])) largest = std::max(largest, std::fabs(double{x[i]}));
  }
  for (std::size_t i = 0; i < size.bytes; ++i) block[i] = static_cast<std::uint8_t>(random.below(256));
  const double d = random.one_in(2) ? largest / of.largest : -largest / of.largest;
  if (of.file == FileType::mxfp4) {
    const int exponent = largest == 0 ? -128 : std::ilogb(largest) - 2;
    *block = static_cast<std::uint8_t>(std::clamp(exponent + 128, 0, 255));
  } else if (of.file == FileType::nvfp4) {
    const int exponent = largest == 0 ? 0 : std::ilogb(largest) + 7;
    for (std::size_t g = 0; g < 4; ++g)
      block[g] = static_cast<std::uint8_t>(std::clamp(exponent, 0, 15) << 3 | random.below(8));
  } else {
    put_half(block + of.scale, special != 0 ? special : d);
    if (oracle::has_offsets(of.file)) put_half(block + of.scale + 2, d);
  }
  const double own = double{oracle::number_of_half(block[of.scale] | block[of.scale + 1] * 256U)};
  for (std::size_t i = 0; of.file == FileType::q8_0 && i < size.inputs; ++i) {
    const double code =
        own != 0 && std::isfinite(own) && std::isfinite(x[i]) ? std::nearbyint(x[i] / own) : 1;
    block[2 + i] = static_cast<std::uint8_t>(static_cast<int>(std::clamp(code, -128.0, 127.0)));
  }
  for (std::size_t i = 0; i < size.inputs; ++i) {
    const oracle::BlockElement element = oracle::element_of_block(of.file, block, i);
    const auto product = static_cast<float>(double{element.scale} * element.integer);
    x[i] = oracle::has_offsets(of.file) ? product + element.offset : product;
  }
}

// Chooses a type of floats, or one of those whose blocks a row is made of.
rapt_type type_for(std::size_t dim, std::uint64_t seed) {
  std::vector<rapt_type> fitting = {RAPT_F32, RAPT_F16, RAPT_BF16, RAPT_I4};
  for (const auto &of : files) {
    if (dim % oracle::size_of_block(of.file).inputs == 0) fitting.push_back(of.type);
  }
  return fitting[seed % fitting.size()];
}

// Writes numbers as elements of 16 or 32 bits, and replaces them by what these are.
BlockRows float_rows(std::vector<float> &numbers, std::size_t dim, rapt_type type) {
  const std::size_t size = type == RAPT_F32 ? 4 : 2;
  BlockRows made{type, dim * size, std::vector<std::uint8_t>(numbers.size() * size)};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::uint8_t *const at = &made.bytes[i * size];
    if (type == RAPT_F32) {
      std::memcpy(at, &numbers[i], size);
    } else if (type == RAPT_F16) {
      const std::uint16_t bits = F16(double{numbers[i]}).bits();
      std::memcpy(at, &bits, size);
      numbers[i] = F16::of_bits(bits);
    } else {
      const std::uint16_t bits = BF16(double{numbers[i]}).bits();
      std::memcpy(at, &bits, size);
      numbers[i] = BF16::of_bits(bits);
    }
  }
  return made;
}

// Draws integers of 4 bits, and scales that give numbers of about the size that they had.
BlockRows i4_rows(std::vector<float> &numbers, std::size_t dim, std::size_t group, Random &random) {
  BlockRows made{RAPT_I4, dim / 2, std::vector<std::uint8_t>(numbers.size() / 2), {}, group};
  for (std::uint8_t &byte : made.bytes) byte = static_cast<std::uint8_t>(random.below(256));
  for (std::size_t first = 0; first < numbers.size(); first += group) {
    float largest = 0, special = 0;
    for (std::size_t i = first; i < first + group; ++i) {
      if (!std::isfinite(numbers[i])) special = numbers[i];
      if (std::isfinite(numbers[i])) largest = std::max(largest, std::fabs(numbers[i]));
    }
    const float scale = special != 0 ? special : random.one_in(2) ? largest / 7 : largest / -7;
    made.scales.push_back(scale);
    for (std::size_t i = first; i < first + group; ++i) {
      const int code = made.bytes[i / 2] >> (i % 2 * 4) & 15;
      numbers[i] = static_cast<float>(code < 8 ? code : code - 16) * scale;
    }
  }
  return made;
}

// Draws a scale group that divides the dimensions, or 0.
std::size_t group_for(std::size_t qk_dim, std::size_t v_dim, std::uint64_t seed) {
  std::vector<std::size_t> fitting = {0};
  for (const std::size_t group : {32, 64, 128}) {
    if (qk_dim % group == 0 && v_dim % group == 0) fitting.push_back(group);
  }
  return fitting[seed / 7 % fitting.size()];
}

}  // namespace

BlockRows encode_rows(std::vector<float> &numbers, std::size_t dim, rapt_type type, std::uint64_t seed,
                      std::size_t scale_group) {
  if (is_float(type)) return float_rows(numbers, dim, type);
  Random random(seed);
  if (type == RAPT_I4) return i4_rows(numbers, dim, scale_group != 0 ? scale_group : dim, random);
  const auto *const of =
      std::find_if(std::begin(files), std::end(files), [&](const auto &f) { return f.type == type; });
  const oracle::BlockSize size = oracle::size_of_block(of->file);
  BlockRows made{type, dim / size.inputs * size.bytes, {}};
  made.bytes.resize(numbers.size() / size.inputs * size.bytes);
  for (std::size_t b = 0; b < numbers.size() / size.inputs; ++b)
    encode(static_cast<std::size_t>(of - files), &numbers[b * size.inputs], random,
           &made.bytes[b * size.bytes]);
  return made;
}

AttentionInBlocks in_blocks(oracle::Attention<float> a, std::uint64_t seed) {
  AttentionInBlocks made{std::move(a), {}, {}, 0};
  const rapt_type k_type = type_for(made.a.qk_dim, seed);
  rapt_type v_type = type_for(made.a.v_dim, seed + 5);
  // Floats of one type are another kernel's.
  if (v_type == k_type && is_float(k_type)) v_type = RAPT_Q8_0;
  if (k_type == RAPT_I4 || v_type == RAPT_I4) made.scale_group = group_for(made.a.qk_dim, made.a.v_dim, seed);
  made.k = encode_rows(made.a.k, made.a.qk_dim, k_type, seed, made.scale_group);
  made.v = encode_rows(made.a.v, made.a.v_dim, v_type, seed + 1, made.scale_group);
  return made;
}

}  // namespace rapt::test
