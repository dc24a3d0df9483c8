// Tests that linear() of rapt.hpp gives the results of rapt_linear, and that it refuses ranges that are too short
// by one element, and packed weights that are damaged. So do linear_pack(), linear_pack_words()
// and linear_unpack().
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <rapt/rapt.hpp>
#include <type_traits>
#include <vector>

#include "oracle/file_blocks.hpp"

namespace rapt::test {
namespace {

constexpr std::size_t rows = 3, inputs = 70, outputs = 67, groups = 3;
using Bytes = std::vector<std::byte>;

rapt_linear_options small_layer() {
  rapt_linear_options o = linear_options();
  o.rows = rows;
  o.in_features = inputs;
  o.out_features = outputs;
  return o;
}

template <class T>
std::vector<T> elements(std::size_t count, std::size_t seed) {
  std::vector<T> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = (i * 31 + seed) % 37;
    if constexpr (std::is_same_v<T, f16>) {
      made[i] = f16::from_bits(static_cast<std::uint16_t>(0x3c00 + 16 * number));
    } else if constexpr (std::is_same_v<T, std::uint16_t>) {
      made[i] = static_cast<std::uint16_t>(0x3f80 + number);
    } else {
      made[i] = static_cast<T>(number) / 8 - 2;
    }
  }
  return made;
}

template <class X, class W>
Bytes workspace_of(const rapt_linear_options &o) {
  Bytes workspace(linear_workspace<X, W>(o));
  REQUIRE(!workspace.empty());
  return workspace;
}

// Packs w, whose type is in the options.
template <class W>
Bytes packed(const W &w, const rapt_linear_options &o) {
  Bytes bytes(linear_packed_length<float>(o));
  REQUIRE(linear_pack(w, 0, outputs, o, bytes) == RAPT_OK);
  return bytes;
}

// Removes the last element of a copy.
template <class Range>
Range shorter(Range range) {
  range.pop_back();
  return range;
}

TEST_CASE_TEMPLATE("plain weights", T, float, double, f16) {
  const auto x = elements<T>(rows * inputs, 1), w = elements<T>(outputs * inputs, 2);
  std::vector<T> y(rows * outputs), expected(rows * outputs);
  const rapt_linear_options options = small_layer();
  Bytes workspace = workspace_of<T, void>(options);
  rapt_linear_options named = options;
  named.x_type = std::is_same_v<T, float> ? RAPT_F32 : std::is_same_v<T, double> ? RAPT_F64 : RAPT_F16;
  REQUIRE(rapt_linear(x.data(), w.data(), expected.data(), &named, workspace.data(), workspace.size()) ==
          RAPT_OK);
  CHECK(linear(x, w, y, options, workspace) == RAPT_OK);
  CHECK(y == expected);
  y.assign(y.size(), T());
  CHECK(linear_run(x, w, y, options, 0, linear_tasks<T>(options), workspace) == RAPT_OK);
  CHECK(y == expected);
  CHECK(linear(shorter(x), w, y, options, workspace) == RAPT_BAD_SIZE);
  CHECK(linear(x, shorter(w), y, options, workspace) == RAPT_BAD_SIZE);
  std::vector<T> short_y = shorter(y);
  CHECK(linear(x, w, short_y, options, workspace) == RAPT_BAD_SIZE);
  named.x_type = RAPT_BF16;
  CHECK(linear(x, w, y, named, workspace) == RAPT_BAD_TYPE);
  named.x_type = RAPT_TYPE_DEFAULT;
  named.w_type = RAPT_BF16;
  CHECK(linear(x, w, y, named, workspace) == RAPT_BAD_TYPE);
}

TEST_CASE("packed weights of floats") {
  const auto x = elements<float>(rows * inputs, 1), w = elements<float>(outputs * inputs, 2);
  std::vector<float> y(rows * outputs), expected(rows * outputs);
  rapt_linear_options options = small_layer();
  Bytes workspace = workspace_of<float, void>(options);
  REQUIRE(linear(x, w, expected, options, workspace) == RAPT_OK);
  const Bytes bytes = packed(w, options);
  options.packed_w = 1;
  CHECK(linear(x, bytes, y, options, workspace) == RAPT_OK);
  CHECK(y == expected);
  CHECK(linear(x, shorter(bytes), y, options, workspace) == RAPT_BAD_PACKED);
}

// Each kind of packed weights has another length, which the options of the call do not tell.
TEST_CASE("packed quantized weights") {
  const auto x = elements<float>(rows * inputs, 1);
  const Bytes w(outputs * inputs, std::byte{0x5a});
  const std::vector<float> numbers(outputs * groups, 0.5f), codebook(16, 0.25f);
  const std::vector<std::uint8_t> zeros(outputs * groups, 3);
  rapt_linear_options options = small_layer();
  options.scale_group = 32;
  rapt_type scale_type = RAPT_TYPE_DEFAULT;
  SUBCASE("i8") { options.w_type = RAPT_I8; }
  SUBCASE("i8 with scales") {
    options.w_type = RAPT_I8;
    options.w_scales = numbers.data();
  }
  SUBCASE("i4 with scales of f16") {
    options.w_type = RAPT_I4;
    options.w_scales = numbers.data();
    options.w_scale_type = scale_type = RAPT_F16;
  }
  SUBCASE("u4 with everything") {
    options.w_type = RAPT_U4;
    options.w_scales = options.w_offsets = numbers.data();
    options.w_zeros = zeros.data();
  }
  SUBCASE("u8 with zeros") {
    options.w_type = RAPT_U8;
    options.w_zeros = zeros.data();
  }
  SUBCASE("u4 with a codebook") {
    options.w_type = RAPT_U4;
    options.w_scales = numbers.data();
    options.w_codebook = codebook.data();
  }
  Bytes workspace = workspace_of<float, void>(options);
  std::vector<float> y(rows * outputs), expected(rows * outputs);
  REQUIRE(linear(x, w, expected, options, workspace) == RAPT_OK);
  const Bytes bytes = packed(w, options);
  rapt_linear_options call = small_layer();
  call.w_type = options.w_type;
  call.scale_group = options.scale_group;
  call.w_scale_type = scale_type;
  call.packed_w = 1;
  CHECK(linear(x, bytes, y, call, workspace) == RAPT_OK);
  CHECK(y == expected);
  CHECK(linear(x, shorter(bytes), y, call, workspace) == RAPT_BAD_PACKED);
  CHECK(linear(x, Bytes(bytes.begin(), bytes.begin() + 63), y, call, workspace) == RAPT_BAD_PACKED);
  CHECK(linear(x, Bytes(), y, call, workspace) == RAPT_BAD_PACKED);
  CHECK(linear_run(x, shorter(bytes), y, call, 0, 1, workspace) == RAPT_BAD_PACKED);
  for (std::size_t i = 0; i < 64; ++i) {  // the length is among these bytes
    Bytes damaged = bytes;
    damaged[i] ^= std::byte{1};
    CHECK(linear(x, damaged, y, call, workspace) == RAPT_BAD_PACKED);
    damaged.resize(damaged.size() + 1);
    CHECK(linear(x, damaged, y, call, workspace) == RAPT_BAD_PACKED);
  }
  call.rows = 0;
  CHECK(linear(x, Bytes(), y, call, workspace) == RAPT_OK);
}

// Without a type of the weights, bytes have the type of x.
TEST_CASE("packed weights of i8 with x of i8") {
  const std::vector<std::int8_t> x(rows * inputs, 5), w(outputs * inputs, -3);
  const std::vector<float> x_scales(rows, 0.5f), scales(outputs, 2.0f);
  rapt_linear_options options = small_layer();
  options.x_scales = x_scales.data();
  options.w_scales = scales.data();
  Bytes workspace(linear_workspace<std::int8_t>(options));
  std::vector<float> y(rows * outputs), expected(rows * outputs);
  REQUIRE(linear(x, w, expected, options, workspace) == RAPT_OK);
  CHECK(expected.front() == -15.0f * inputs);
  Bytes bytes(linear_packed_length<std::int8_t>(options));
  rapt_linear_options named = options;
  named.x_type = RAPT_I8;
  REQUIRE(rapt_linear_pack(w.data(), 0, outputs, &named, bytes.data(), bytes.size()) == RAPT_OK);
  options.w_scales = nullptr;
  options.packed_w = 1;
  CHECK(linear(x, bytes, y, options, workspace) == RAPT_OK);
  CHECK(y == expected);
  CHECK(linear(x, shorter(bytes), y, options, workspace) == RAPT_BAD_PACKED);
}

TEST_CASE_TEMPLATE("weights of floats come back", T, float, double, f16, std::uint16_t) {
  constexpr bool names_no_type = std::is_same_v<T, std::uint16_t>;
  const auto w = elements<T>(outputs * inputs, 2);
  rapt_linear_options options = small_layer();
  if (names_no_type) options.x_type = options.w_type = RAPT_BF16;
  Bytes bytes(linear_packed_length<T>(options));
  REQUIRE(!bytes.empty());
  CHECK(linear_pack(w, 0, outputs, options, bytes) == RAPT_OK);
  CHECK(linear_pack(std::vector<T>(w.begin() + 64 * inputs, w.end()), 64, outputs - 64, options, bytes) ==
        RAPT_OK);
  CHECK(linear_pack(shorter(w), 0, outputs, options, bytes) == RAPT_BAD_SIZE);
  Bytes short_bytes = shorter(bytes);
  CHECK(linear_pack(w, 0, outputs, options, short_bytes) == RAPT_BAD_PACKED);
  std::vector<T> back(w.size());
  CHECK(linear_unpack(bytes, 0, outputs, options, back) == RAPT_OK);
  CHECK(back == w);
  back.resize(3 * inputs);
  CHECK(linear_unpack(bytes, 60, 3, options, back) == RAPT_OK);
  CHECK(back == std::vector<T>(w.begin() + 60 * inputs, w.begin() + 63 * inputs));
  back.pop_back();
  CHECK(linear_unpack(bytes, 60, 3, options, back) == RAPT_BAD_SIZE);
  if (!names_no_type) {
    options.w_type = RAPT_BF16;
    CHECK(linear_pack(w, 0, outputs, options, bytes) == RAPT_BAD_TYPE);
    CHECK(linear_unpack(bytes, 60, 1, options, back) == RAPT_BAD_TYPE);
  }
}

TEST_CASE("words of other bits") {
  constexpr struct {
    rapt_type type;
    rapt_word_format format;
    std::size_t bits;
  } formats[] = {{RAPT_U4, RAPT_WORDS_GPTQ_2BIT, 2}, {RAPT_U4, RAPT_WORDS_GPTQ_V2_2BIT, 2},
                 {RAPT_U4, RAPT_WORDS_GPTQ_3BIT, 3}, {RAPT_U4, RAPT_WORDS_GPTQ_V2_3BIT, 3},
                 {RAPT_U8, RAPT_WORDS_GPTQ, 8},      {RAPT_U8, RAPT_WORDS_GPTQ_V2, 8}};
  for (const auto &[type, format, bits] : formats) {
    CAPTURE(bits);
    rapt_linear_options options = small_layer();
    options.in_features = 96, options.out_features = 64, options.scale_group = 32;
    options.w_type = type;
    const std::vector<std::int32_t> qweight(96 * bits / 32 * 64, 0x12345678),
        qzeros(3 * 64 * bits / 32, 0x7654321);
    const std::vector<float> scales(3 * 64, 0.5f);
    rapt_linear_options query = options;
    query.w_scales = scales.data();
    query.w_zeros = reinterpret_cast<const std::uint8_t *>(qzeros.data());
    Bytes bytes(linear_packed_length<float>(query)), expected(bytes.size());
    REQUIRE(!bytes.empty());
    REQUIRE(rapt_linear_pack_words(qweight.data(), qzeros.data(), scales.data(), nullptr, format, &options,
                                   expected.data(), expected.size(), nullptr) == RAPT_OK);
    CHECK(linear_pack_words(qweight, qzeros, scales, {}, format, options, bytes) == RAPT_OK);
    CHECK(bytes == expected);
    CHECK(linear_pack_words(shorter(qweight), qzeros, scales, {}, format, options, bytes) == RAPT_BAD_SIZE);
    CHECK(linear_pack_words(qweight, shorter(qzeros), scales, {}, format, options, bytes) == RAPT_BAD_SIZE);
  }
}

TEST_CASE_TEMPLATE("words of a file", T, float, f16, std::uint16_t) {
  constexpr std::size_t of_words = 72, outputs_of_words = 24, groups_of_words = 3;
  rapt_linear_options options = small_layer();
  options.in_features = of_words, options.out_features = outputs_of_words, options.scale_group = 32;
  options.w_type = RAPT_U4;
  if (std::is_same_v<T, std::uint16_t>) options.w_scale_type = RAPT_BF16;
  std::vector<std::int32_t> qweight(of_words / 8 * outputs_of_words), qzeros(groups_of_words * 3),
      g_idx(of_words);
  for (std::size_t i = 0; i < qweight.size(); ++i)
    qweight[i] = static_cast<std::int32_t>(i * 0x1234567 % 0x7654321);
  for (std::size_t i = 0; i < qzeros.size(); ++i)
    qzeros[i] = static_cast<std::int32_t>(i * 0x2345671 % 0x7654321);
  for (std::size_t i = 0; i < of_words; ++i) g_idx[i] = static_cast<std::int32_t>((of_words - 1 - i) / 32);
  const auto scales = elements<T>(groups_of_words * outputs_of_words, 3);
  rapt_linear_options named = options;
  named.w_scale_type = std::is_same_v<T, float> ? RAPT_F32 : std::is_same_v<T, f16> ? RAPT_F16 : RAPT_BF16;
  rapt_linear_options query = named;
  query.w_scales = scales.data();
  query.w_zeros = reinterpret_cast<const std::uint8_t *>(qzeros.data());
  Bytes bytes(linear_packed_length<float>(query)), expected(bytes.size());
  REQUIRE(!bytes.empty());
  std::vector<std::size_t> order(of_words), expected_order(of_words);
  for (const rapt_word_format format : {RAPT_WORDS_GPTQ, RAPT_WORDS_GPTQ_V2, RAPT_WORDS_AWQ}) {
    CAPTURE(format);
    REQUIRE(rapt_linear_pack_words(qweight.data(), qzeros.data(), scales.data(), nullptr, format, &named,
                                   expected.data(), expected.size(), nullptr) == RAPT_OK);
    CHECK(linear_pack_words(qweight, qzeros, scales, {}, format, options, bytes) == RAPT_OK);
    CHECK(bytes == expected);
  }
  const auto pack = [&](const auto &w, const auto &zeros, const auto &of_scales, const auto &of_inputs,
                        auto &to, auto &of_order) {
    return linear_pack_words(w, zeros, of_scales, of_inputs, RAPT_WORDS_GPTQ, options, to, of_order);
  };
  REQUIRE(rapt_linear_pack_words(qweight.data(), qzeros.data(), scales.data(), g_idx.data(), RAPT_WORDS_GPTQ,
                                 &named, expected.data(), expected.size(), expected_order.data()) == RAPT_OK);
  CHECK(pack(qweight, qzeros, scales, g_idx, bytes, order) == RAPT_OK);
  CHECK(bytes == expected);
  CHECK(order == expected_order);
  CHECK(pack(shorter(qweight), qzeros, scales, g_idx, bytes, order) == RAPT_BAD_SIZE);
  CHECK(pack(qweight, shorter(qzeros), scales, g_idx, bytes, order) == RAPT_BAD_SIZE);
  CHECK(pack(qweight, qzeros, shorter(scales), g_idx, bytes, order) == RAPT_BAD_SIZE);
  CHECK(pack(qweight, qzeros, scales, shorter(g_idx), bytes, order) == RAPT_BAD_SIZE);
  std::vector<std::size_t> short_order = shorter(order), no_order;
  CHECK(pack(qweight, qzeros, scales, g_idx, bytes, short_order) == RAPT_BAD_SIZE);
  CHECK(pack(qweight, qzeros, scales, g_idx, bytes, no_order) == RAPT_BAD_OUT);
  Bytes short_bytes = shorter(bytes);
  CHECK(pack(qweight, qzeros, scales, g_idx, short_bytes, order) == RAPT_BAD_PACKED);
  if (!std::is_same_v<T, std::uint16_t>) {
    options.w_scale_type = RAPT_BF16;
    CHECK(pack(qweight, qzeros, scales, g_idx, bytes, order) == RAPT_BAD_W_SCALES);
  }
}

TEST_CASE("blocks of a file") {
  struct Kind {
    rapt_type type;
    oracle::FileType file;
  };
  constexpr Kind kinds[] = {
      {RAPT_Q8_0, oracle::FileType::q8_0},     {RAPT_Q4_0, oracle::FileType::q4_0},
      {RAPT_Q4_1, oracle::FileType::q4_1},     {RAPT_Q5_0, oracle::FileType::q5_0},
      {RAPT_Q5_1, oracle::FileType::q5_1},     {RAPT_Q4_K, oracle::FileType::q4_k},
      {RAPT_Q5_K, oracle::FileType::q5_k},     {RAPT_Q6_K, oracle::FileType::q6_k},
      {RAPT_Q2_K, oracle::FileType::q2_k},     {RAPT_Q3_K, oracle::FileType::q3_k},
      {RAPT_IQ4_NL, oracle::FileType::iq4_nl}, {RAPT_IQ4_XS, oracle::FileType::iq4_xs},
      {RAPT_MXFP4, oracle::FileType::mxfp4},   {RAPT_NVFP4, oracle::FileType::nvfp4},
  };
  for (const Kind &kind : kinds) {
    CAPTURE(kind.type);
    const oracle::BlockSize block = oracle::size_of_block(kind.file);
    rapt_linear_options options = small_layer();
    options.in_features = 2 * block.inputs;
    options.w_type = kind.type;
    Bytes w(outputs * 2 * block.bytes);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<std::byte>(i * 31 % 61);
    const Bytes bytes = packed(w, options);
    Bytes to(bytes.size());
    CHECK(linear_pack(shorter(w), 0, outputs, options, to) == RAPT_BAD_SIZE);
    Bytes back(w.size());
    CHECK(linear_unpack(bytes, 0, outputs, options, back) == RAPT_OK);
    CHECK(back == w);
    back.pop_back();
    CHECK(linear_unpack(bytes, 0, outputs, options, back) == RAPT_BAD_SIZE);
    CHECK(linear_unpack(bytes, 0, outputs - 1, options, back) == RAPT_OK);

    const auto x = elements<float>(rows * options.in_features, 1);
    std::vector<float> y(rows * outputs), expected(rows * outputs);
    rapt_linear_options plain = options;
    Bytes workspace(linear_workspace<float>(plain));
    CHECK(workspace.empty());  // only packed ones are multiplied
    CHECK(linear(x, shorter(w), y, plain, workspace) == RAPT_BAD_SIZE);
    CHECK(linear(x, w, y, plain, workspace) == RAPT_BAD_TYPE);
    options.packed_w = 1;
    workspace = workspace_of<float, void>(options);
    CHECK(linear(x, bytes, y, options, workspace) == RAPT_OK);
    options.x_type = RAPT_F32;
    REQUIRE(rapt_linear(x.data(), bytes.data(), expected.data(), &options, workspace.data(),
                        workspace.size()) == RAPT_OK);
    CHECK(y == expected);
    CHECK(y.front() != y.back());
    CHECK(linear(x, shorter(bytes), y, options, workspace) == RAPT_BAD_PACKED);

    std::vector<float> numbers(outputs * options.in_features), same(numbers.size());
    const Rows<float> all(numbers, options.in_features);
    CHECK(dequantize_blocks(w, kind.type, all) == RAPT_OK);
    REQUIRE(rapt_dequantize_rows(w.data(), kind.type, outputs, options.in_features, 0, nullptr, nullptr,
                                 nullptr, RAPT_TYPE_DEFAULT, nullptr, same.data(), RAPT_F32, 0) == RAPT_OK);
    CHECK(numbers == same);
    CHECK(numbers != std::vector<float>(numbers.size()));
    CHECK(dequantize_blocks(shorter(w), kind.type, all) == RAPT_BAD_SIZE);
    CHECK(dequantize_blocks(std::span(w).first(block.bytes), kind.type, all) == RAPT_BAD_SIZE);
    CHECK(dequantize_blocks(w, kind.type, Rows<float>(numbers, options.in_features / 2)) == RAPT_OK);
    CHECK(dequantize_blocks(w, kind.type, Rows<float>(numbers, block.inputs / 2)) == RAPT_BAD_SHAPE);
    CHECK(dequantize_blocks(w, kind.type, Rows<float>()) == RAPT_BAD_SIZE);
    CHECK(dequantize_blocks({}, kind.type, Rows<float>()) == RAPT_OK);
    CHECK(dequantize_blocks(w, RAPT_I8, all) == RAPT_BAD_TYPE);
  }
}

// The options name the type of bytes, so that a type of four bytes needs four times as many.
TEST_CASE("numbers of 8 bits, whose scales outputs share") {
  for (const rapt_type type : {RAPT_F8_E4M3, RAPT_F8_E5M2}) {
    CAPTURE(type);
    const auto x = elements<float>(rows * inputs, 1);
    const std::vector<float> scales = {.5f, 2, .25f, 1};  // 2 groups of inputs for 2 of outputs
    rapt_linear_options options = small_layer();
    options.w_type = type;
    options.scale_group = 64;
    options.outputs_per_scale = 64;
    options.w_scales = scales.data();
    Bytes w(outputs * inputs);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<std::byte>(i * 37 % 251);
    Bytes workspace = workspace_of<float, void>(options);
    std::vector<float> y(rows * outputs), expected(rows * outputs);
    REQUIRE(rapt_linear(x.data(), w.data(), expected.data(), &options, workspace.data(), workspace.size()) ==
            RAPT_OK);
    const auto is_expected = [&] { return std::memcmp(y.data(), expected.data(), 4 * y.size()) == 0; };
    CHECK(linear(x, w, y, options, workspace) == RAPT_OK);
    CHECK(is_expected());
    CHECK(linear(x, shorter(w), y, options, workspace) == RAPT_BAD_SIZE);
    const Bytes bytes = packed(w, options);
    options.packed_w = 1;
    options.w_scales = nullptr;
    y.assign(y.size(), 0);
    CHECK(linear(x, bytes, y, options, workspace) == RAPT_OK);
    CHECK(is_expected());
  }
}

TEST_CASE("bytes of floats") {
  const auto x = elements<float>(rows * inputs, 1), w = elements<float>(outputs * inputs, 2);
  std::vector<float> y(rows * outputs), expected(rows * outputs);
  const rapt_linear_options options = small_layer();
  Bytes workspace = workspace_of<float, void>(options), bytes(w.size() * sizeof(float));
  std::memcpy(bytes.data(), w.data(), bytes.size());
  REQUIRE(linear(x, w, expected, options, workspace) == RAPT_OK);
  CHECK(linear(x, bytes, y, options, workspace) == RAPT_OK);
  CHECK(y == expected);
  CHECK(linear(x, shorter(bytes), y, options, workspace) == RAPT_BAD_SIZE);
}

TEST_CASE("sizes of options that are not valid or name other types are 0") {
  rapt_linear_options options = small_layer();
  CHECK(linear_tasks<float>(options) > 0);
  CHECK(linear_workspace<float, f16>(options) > 0);
  options.w_type = RAPT_BF16;
  CHECK(linear_workspace<float, f16>(options) == 0);
  CHECK(linear_packed_length<float, f16>(options) == 0);
  options.in_features = 0;
  CHECK(linear_tasks<float>(options) == 0);
}

// Three experts, of which the last has no rows.
TEST_CASE("experts") {
  const std::vector<std::int32_t> ids = {1, 0, 1, 0, 0, 1};
  std::vector<std::size_t> offsets(4), token_rows(6), entry_rows(6), expected_offsets(4), none;
  REQUIRE(rapt_expert_lists(ids.data(), 0, 3, 2, 3, expected_offsets.data(), nullptr, nullptr) == RAPT_OK);
  CHECK(expert_lists(ids, 2, offsets, token_rows, entry_rows) == RAPT_OK);
  CHECK(offsets == expected_offsets);
  CHECK(token_rows == std::vector<std::size_t>{0, 1, 2, 0, 1, 2});
  CHECK(entry_rows == std::vector<std::size_t>{1, 3, 4, 0, 2, 5});
  CHECK(expert_lists(ids, 2, offsets, none, none) == RAPT_OK);
  CHECK(expert_lists(ids, 0, offsets, none, none) == RAPT_BAD_SHAPE);
  CHECK(expert_lists(ids, 2, none, none, none) == RAPT_BAD_SHAPE);
  CHECK(expert_lists(ids, 4, offsets, none, none) == RAPT_BAD_SIZE);
  std::vector<std::size_t> short_list(5);
  CHECK(expert_lists(ids, 2, offsets, short_list, none) == RAPT_BAD_SIZE);
  CHECK(expert_lists(ids, 2, offsets, none, short_list) == RAPT_BAD_SIZE);

  const auto x = elements<float>(6 * inputs, 1), w = elements<float>(2 * outputs * inputs, 2);
  rapt_linear_options options = small_layer();
  options.rows = 6;
  rapt_expert_options experts = expert_options(offsets);
  CHECK(experts.experts == 3);
  Bytes workspace(linear_experts_workspace<float>(options));
  std::vector<float> y(6 * outputs), expected(6 * outputs);
  REQUIRE(rapt_linear_experts(x.data(), w.data(), expected.data(), &options, &experts, workspace.data(),
                              workspace.size()) == RAPT_OK);
  CHECK(linear_experts(x, w, y, options, experts, workspace) == RAPT_OK);
  CHECK(y == expected);
  y.assign(y.size(), 0);
  const std::size_t tasks = linear_experts_tasks<float>(options, experts);
  CHECK(tasks == 2);
  CHECK(linear_experts_run(x, w, y, options, experts, 0, tasks, workspace) == RAPT_OK);
  CHECK(y == expected);
  CHECK(linear_experts(shorter(x), w, y, options, experts, workspace) == RAPT_BAD_SIZE);
  CHECK(linear_experts(x, shorter(w), y, options, experts, workspace) == RAPT_BAD_SIZE);
  std::vector<float> short_y = shorter(y);
  CHECK(linear_experts(x, w, short_y, options, experts, workspace) == RAPT_BAD_SIZE);
  experts.w_stride = outputs * inputs * sizeof(float);
  CHECK(linear_experts(x, w, y, options, experts, workspace) == RAPT_OK);
  CHECK(linear_experts(x, shorter(w), y, options, experts, workspace) == RAPT_BAD_SIZE);
  experts.w_stride = PTRDIFF_MAX / 4 * 4;
  CHECK(linear_experts(x, w, y, options, experts, workspace) == RAPT_BAD_SIZE);
  options.x_type = RAPT_F16;
  CHECK(linear_experts(x, w, y, options, experts, workspace) == RAPT_BAD_TYPE);
  CHECK(linear_experts_tasks<float>(options, experts) == 0);
  CHECK(linear_experts_workspace<float>(options) == 0);
  options.x_type = RAPT_TYPE_DEFAULT;

  Bytes both = packed(w, small_layer()), second(both.size());
  REQUIRE(rapt_linear_pack(w.data() + outputs * inputs, 0, outputs, &options, second.data(), second.size()) ==
          RAPT_OK);
  experts.w_stride = static_cast<std::ptrdiff_t>(both.size());
  both.insert(both.end(), second.begin(), second.end());
  options.packed_w = 1;
  y.assign(y.size(), 0);
  CHECK(linear_experts(x, both, y, options, experts, workspace) == RAPT_OK);
  CHECK(y == expected);
  CHECK(linear_experts(x, shorter(both), y, options, experts, workspace) == RAPT_BAD_PACKED);
  experts.offsets = nullptr;
  CHECK(linear_experts(x, both, y, options, experts, workspace) == RAPT_BAD_EXPERT_OFFSETS);
}

TEST_CASE_TEMPLATE("sums of experts", T, float, double, f16) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto x = elements<T>(6 * inputs, 1), add = elements<T>(3 * inputs, 2);
  const std::vector<A> weights = {1, 2, 3, 4, 5, 6}, none;
  std::vector<T> y(3 * inputs), expected(3 * inputs);
  rapt_expert_sum_options o = RAPT_EXPERT_SUM_OPTIONS_INIT;
  o.type = std::is_same_v<T, float> ? RAPT_F32 : std::is_same_v<T, double> ? RAPT_F64 : RAPT_F16;
  o.tokens = 3;
  o.top_k = 2;
  o.cols = inputs;
  const Rows<const T> slots(x, inputs), addend(add, inputs);
  const Rows<T> sums(y, inputs);
  REQUIRE(rapt_expert_sum(x.data(), expected.data(), &o) == RAPT_OK);
  CHECK(expert_sum<T>(slots, none, sums) == RAPT_OK);
  CHECK(y == expected);
  o.weights = weights.data();
  o.add = add.data();
  REQUIRE(rapt_expert_sum(x.data(), expected.data(), &o) == RAPT_OK);
  CHECK(expert_sum<T>(slots, weights, sums, addend) == RAPT_OK);
  CHECK(y == expected);
  CHECK(expert_sum<T>(slots, std::span(weights).first(5), sums) == RAPT_BAD_SIZE);
  CHECK(expert_sum<T>(slots, none, Rows<T>(y.data(), 4, inputs, inputs)) == RAPT_BAD_SIZE);
  CHECK(expert_sum<T>(slots, none, Rows<T>(y.data(), 3, inputs - 1, inputs)) == RAPT_BAD_SIZE);
  CHECK(expert_sum<T>(slots, none, sums, Rows<const T>(add.data(), 2, inputs, inputs)) == RAPT_BAD_SIZE);
  CHECK(expert_sum<T>(slots, none, Rows<T>()) == RAPT_BAD_SIZE);
  CHECK(expert_sum<T>(Rows<const T>(), none, Rows<T>()) == RAPT_OK);
}

}  // namespace
}  // namespace rapt::test
