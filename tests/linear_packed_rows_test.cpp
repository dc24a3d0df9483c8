// Tests rapt_linear_packed_rows: the numbers of listed outputs, compared with what rapt_dequantize_rows makes of the
// same integers and what the layouts of blocks say; nothing else is written; and the status of each bad argument.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "calls/quantized_values.hpp"
#include "oracle/f8.hpp"
#include "oracle/file_blocks.hpp"
#include "rapt/rapt.h"
#include "support/effort.hpp"
#include "support/guarded_buffer.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

using Bytes = std::vector<unsigned char>;
using Doubles = std::vector<double>;

constexpr rapt_type types_of_numbers[] = {RAPT_F32, RAPT_F16, RAPT_BF16};
constexpr std::size_t size_of_number(rapt_type type) {
  return type == RAPT_F64 ? 8 : type == RAPT_F32 || type == RAPT_TYPE_DEFAULT ? 4 : 2;
}

// A number as the bits of its type. Every NaN is one.
std::uint64_t bits_of(rapt_type type, const void *at) {
  double number = 0;
  if (type == RAPT_F64) {
    std::memcpy(&number, at, sizeof number);
  } else {
    float f = 0;
    if (type == RAPT_F32) std::memcpy(&f, at, sizeof f);
    if (type == RAPT_F16) rapt_convert_f16_to_f32(static_cast<const rapt_f16 *>(at), &f, 1);
    if (type == RAPT_BF16) rapt_convert_bf16_to_f32(static_cast<const rapt_bf16 *>(at), &f, 1);
    number = static_cast<double>(f);
  }
  if (std::isnan(number)) return 1;
  std::uint64_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}
void narrow(rapt_type type, const float *from, void *to, std::size_t count) {
  if (type == RAPT_F16) return (void)rapt_convert_f32_to_f16(from, static_cast<rapt_f16 *>(to), count);
  if (type == RAPT_BF16) return (void)rapt_convert_f32_to_bf16(from, static_cast<rapt_bf16 *>(to), count);
  std::memcpy(to, from, count * sizeof *from);
}

struct Layer {
  rapt_linear_options o{};
  Bytes packed;
  // What row n of numbers should be, in the type of y.
  virtual Bytes expected(std::size_t n, rapt_type y_type) const = 0;
  virtual ~Layer() = default;

  void pack(const void *w) {
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_packed_length(&o, &bytes) == RAPT_OK);
    packed.resize(bytes);
    REQUIRE(rapt_linear_pack(w, 0, o.out_features, &o, packed.data(), bytes) == RAPT_OK);
  }
};

Bytes random_bytes(Random &random, std::size_t count) {
  Bytes bytes(count);
  for (unsigned char &byte : bytes) byte = static_cast<unsigned char>(random.below(256));
  return bytes;
}

struct Floats : Layer {
  Floats(Random &random, rapt_type type) {
    o.size = sizeof o;
    o.w_type = o.x_type = type;
    o.in_features = 1 + random.below(150), o.out_features = 1 + random.below(150);
    w = random_bytes(random, o.in_features * o.out_features * size_of_number(type));
    pack(w.data());
  }
  Bytes expected(std::size_t n, rapt_type y_type) const override {
    const std::size_t row = o.in_features * size_of_number(o.w_type);
    const unsigned char *const from = w.data() + n * row;
    if (o.w_type == RAPT_F64) return {from, from + row};
    std::vector<float> numbers(o.in_features);
    if (o.w_type == RAPT_F32) std::memcpy(numbers.data(), from, row);
    if (o.w_type == RAPT_F16)
      rapt_convert_f16_to_f32(reinterpret_cast<const rapt_f16 *>(from), numbers.data(), o.in_features);
    if (o.w_type == RAPT_BF16)
      rapt_convert_bf16_to_f32(reinterpret_cast<const rapt_bf16 *>(from), numbers.data(), o.in_features);
    Bytes y(o.in_features * size_of_number(y_type));
    narrow(y_type, numbers.data(), y.data(), o.in_features);
    return y;
  }
  Bytes w;
};

struct Integers : Layer {
  Integers(Random &random, rapt_type type) {
    o.size = sizeof o;
    o.w_type = type;
    o.in_features = 1 + random.below(random.one_in(4) ? 700 : 90), o.out_features = 1 + random.below(150);
    o.scale_group = random.one_of<std::size_t>({0, 16, 32, 64, 128, 256});
    groups = o.scale_group ? (o.in_features + o.scale_group - 1) / o.scale_group : 1;
    columns = type == RAPT_I8 || type == RAPT_U8 ? o.in_features : (o.in_features + 1) / 2;
    w = random_bytes(random, o.out_features * columns);
    const rapt_type scale_type = random.one_of(types_of_numbers);
    const std::size_t numbers = o.out_features * groups;
    if (!random.one_in(4)) scales = random_bytes(random, numbers * size_of_number(scale_type));
    if (random.one_in(2)) offsets = random_bytes(random, numbers * size_of_number(scale_type));
    if (!scales.empty() || !offsets.empty()) o.w_scale_type = scale_type;
    const std::size_t extra = type == RAPT_U4 ? random.below(3) : type == RAPT_U8 ? random.below(2) : 0;
    if (extra == 1) zeros = random_bytes(random, numbers);
    for (std::size_t q = 0; extra == 2 && q < 16; ++q)
      codebook.push_back(static_cast<float>(random.gaussian()));
    const auto given = [](const Bytes &bytes) { return bytes.empty() ? nullptr : bytes.data(); };
    o.w_scales = given(scales), o.w_offsets = given(offsets), o.w_zeros = given(zeros);
    o.w_codebook = codebook.empty() ? nullptr : codebook.data();
    pack(w.data());
  }
  Bytes expected(std::size_t n, rapt_type y_type) const override {
    const auto of = [&](const Bytes &all) -> const unsigned char * {
      return all.empty() ? nullptr : all.data() + all.size() / o.out_features * n;
    };
    Bytes y(o.in_features * size_of_number(y_type));
    REQUIRE(rapt_dequantize_rows(of(w), o.w_type, 1, o.in_features, o.scale_group, of(scales), of(zeros),
                                 of(offsets), o.w_scale_type, codebook.empty() ? nullptr : codebook.data(),
                                 y.data(), y_type, 0) == RAPT_OK);
    return y;
  }
  std::size_t groups, columns;
  Bytes w, scales, offsets, zeros;
  std::vector<float> codebook;
};

// Numbers of 8 bits, some of whose outputs share scales.
struct Numbers8 : Layer {
  Numbers8(Random &random, rapt_type type) {
    o.size = sizeof o;
    o.w_type = type;
    o.in_features = 1 + random.below(300), o.out_features = 1 + random.below(300);
    o.scale_group = random.one_of<std::size_t>({0, 16, 128});
    o.outputs_per_scale = random.one_of<std::size_t>({0, 1, 64, 128, SIZE_MAX});
    groups = o.scale_group ? (o.in_features + o.scale_group - 1) / o.scale_group : 1;
    for (std::size_t i = 0; i < (row_of(o.out_features - 1) + 1) * groups; ++i)
      scales.push_back(static_cast<float>(random.gaussian()));
    w = random_bytes(random, o.out_features * o.in_features);
    o.w_scales = scales.data();
    pack(w.data());
  }
  std::size_t row_of(std::size_t n) const {
    return o.outputs_per_scale <= 1 ? n : o.outputs_per_scale == SIZE_MAX ? 0 : n / o.outputs_per_scale;
  }
  Bytes expected(std::size_t n, rapt_type y_type) const override {
    std::vector<float> numbers;
    for (std::size_t k = 0; k < o.in_features; ++k) {
      const std::size_t g = o.scale_group ? k / o.scale_group : 0;
      const int code = w[n * o.in_features + k];
      numbers.push_back(
          (o.w_type == RAPT_F8_E4M3 ? oracle::number_of_e4m3(code) : oracle::number_of_e5m2(code)) *
          scales[row_of(n) * groups + g]);
    }
    Bytes y(o.in_features * size_of_number(y_type));
    narrow(y_type, numbers.data(), y.data(), o.in_features);
    return y;
  }
  std::size_t groups;
  Bytes w;
  std::vector<float> scales;
};

struct Blocks : Layer {
  Blocks(Random &random, WeightType type) : file(file_type_of(type)), size(oracle::size_of_block(file)) {
    o.size = sizeof o;
    o.w_type = type_of_weights(type);
    o.in_features = size.inputs * (1 + random.below(4)), o.out_features = 1 + random.below(150);
    w = random_bytes(random, o.out_features * (o.in_features / size.inputs) * size.bytes);
    pack(w.data());
  }
  Bytes expected(std::size_t n, rapt_type y_type) const override {
    std::vector<float> numbers;
    const unsigned char *const row = w.data() + n * (o.in_features / size.inputs) * size.bytes;
    for (std::size_t k = 0; k < o.in_features; ++k) {
      const oracle::BlockElement element =
          oracle::element_of_block(file, row + k / size.inputs * size.bytes, k % size.inputs);
      numbers.push_back(oracle::has_offsets(file) ? element.number()
                                                  : static_cast<float>(element.integer) * element.scale);
    }
    Bytes y(o.in_features * size_of_number(y_type));
    narrow(y_type, numbers.data(), y.data(), o.in_features);
    return y;
  }
  oracle::FileType file;
  oracle::BlockSize size;
  Bytes w;
};

// Reads drawn rows, some of them twice, into memory between guard pages.
void check(Random &random, const Layer &layer) {
  const std::size_t outputs = layer.o.out_features, inputs = layer.o.in_features;
  const bool is_f64 = layer.o.w_type == RAPT_F64, has_list = !random.one_in(4);
  const rapt_type y_type = is_f64 ? RAPT_F64 : random.one_of(types_of_numbers);
  std::vector<std::size_t> rows(1 + random.below(has_list ? 12 : outputs));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = has_list ? random.below(outputs) : i;
  const std::size_t stride = inputs + (random.one_in(2) ? random.below(5) : 0), size = size_of_number(y_type);
  const std::size_t bytes = ((rows.size() - 1) * stride + inputs) * size;
  const GuardedBuffer y(bytes, random.one_in(2) ? Placement::ends_at_guard : Placement::begins_at_guard,
                        random.below(8) * size);
  std::memset(y.data(), 0x5a, bytes);
  rapt_linear_options o = layer.o;
  o.w_scales = o.w_offsets = nullptr, o.w_zeros = nullptr, o.w_codebook = nullptr;
  o.packed_w = random.one_in(2);
  CAPTURE(o.w_type);
  CAPTURE(y_type);
  const bool says_type = y_type != RAPT_F32 || random.one_in(2);
  REQUIRE(rapt_linear_packed_rows(
              layer.packed.data(), layer.packed.size(), has_list ? rows.data() : nullptr, rows.size(), &o,
              y.data(), says_type ? y_type : RAPT_TYPE_DEFAULT,
              stride == inputs && random.one_in(2) ? 0 : static_cast<std::ptrdiff_t>(stride)) == RAPT_OK);
  CHECK(y.surroundings_intact());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Bytes expected = layer.expected(rows[i], y_type);
    const auto *const row = static_cast<const unsigned char *>(y.data()) + i * stride * size;
    for (std::size_t k = 0; k < inputs; ++k)
      wrong += bits_of(y_type, row + k * size) != bits_of(y_type, expected.data() + k * size);
    for (std::size_t k = inputs * size; i + 1 < rows.size() && k < stride * size; ++k)
      wrong += row[k] != 0x5a;
  }
  CHECK(wrong == 0);
}

TEST_CASE("rows of packed weights are the numbers of the plain ones") {
  Random random(7);
  for (int i = 0; i < 40; ++i) {
    for (const rapt_type type : {RAPT_F32, RAPT_F64, RAPT_F16, RAPT_BF16})
      check(random, Floats(random, type));
    for (const rapt_type type : {RAPT_I8, RAPT_I4, RAPT_U4, RAPT_U8}) check(random, Integers(random, type));
    for (const rapt_type type : {RAPT_F8_E4M3, RAPT_F8_E5M2}) check(random, Numbers8(random, type));
  }
}

TEST_CASE("rows of packed blocks are the numbers of the file") {
  Random random(8);
  for (int i = 0; i < 10; ++i) {
    for (std::size_t t = 0; t < std::size(names_of<WeightType>); ++t) {
      const auto type = static_cast<WeightType>(t);
      if (file_type_of(type) != oracle::FileType::none) check(random, Blocks(random, type));
    }
  }
}

// Rows follow each other without gaps in the file, and with gaps in y. Neither array is touched outside.
TEST_CASE("rows of blocks are the numbers of the packed ones, and of the file") {
  Random random(10);
  for (int i = 0; i < 10; ++i) {
    for (std::size_t t = 0; t < std::size(names_of<WeightType>); ++t) {
      const auto type = static_cast<WeightType>(t);
      if (file_type_of(type) == oracle::FileType::none) continue;
      const Blocks layer(random, type);
      const std::size_t inputs = layer.o.in_features, rows = 1 + random.below(layer.o.out_features),
                        stride = inputs + random.below(5), row_bytes = layer.w.size() / layer.o.out_features;
      const rapt_type y_type = random.one_of(types_of_numbers);
      const std::size_t size = size_of_number(y_type), bytes = ((rows - 1) * stride + inputs) * size;
      const auto placement = random.one_in(2) ? Placement::ends_at_guard : Placement::begins_at_guard;
      const GuardedBuffer y(bytes, placement, random.below(8) * size),
          q(rows * row_bytes, placement, random.below(8));
      std::memcpy(q.data(), layer.w.data(), rows * row_bytes);
      std::memset(y.data(), 0x5a, bytes);
      CAPTURE(layer.o.w_type);
      CAPTURE(y_type);
      REQUIRE(rapt_dequantize_rows(q.data(), layer.o.w_type, rows, inputs,
                                   random.one_in(2) ? layer.size.group : 0, nullptr, nullptr, nullptr,
                                   RAPT_TYPE_DEFAULT, nullptr, y.data(), y_type,
                                   static_cast<std::ptrdiff_t>(stride)) == RAPT_OK);
      CHECK(y.surroundings_intact());
      Bytes packed_row(inputs * size);
      std::size_t wrong = 0;
      for (std::size_t r = 0; r < rows; ++r) {
        const Bytes expected = layer.expected(r, y_type);
        REQUIRE(rapt_linear_packed_rows(layer.packed.data(), layer.packed.size(), &r, 1, &layer.o,
                                        packed_row.data(), y_type, 0) == RAPT_OK);
        const auto *const row = static_cast<const unsigned char *>(y.data()) + r * stride * size;
        for (std::size_t k = 0; k < inputs; ++k) {
          wrong += bits_of(y_type, row + k * size) != bits_of(y_type, expected.data() + k * size);
          wrong += bits_of(y_type, row + k * size) != bits_of(y_type, &packed_row[k * size]);
        }
        for (std::size_t k = inputs * size; r + 1 < rows && k < stride * size; ++k) wrong += row[k] != 0x5a;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("bad arguments") {
  Random random(9);
  const Integers layer(random, RAPT_I8);
  const std::size_t inputs = layer.o.in_features;
  rapt_linear_options options = layer.o;
  options.w_scales = options.w_offsets = nullptr;
  struct Call {
    const void *packed;
    std::size_t packed_size;
    const std::size_t *rows;
    std::size_t count;
    const rapt_linear_options *options;
    void *y;
    rapt_type y_type;
    std::ptrdiff_t stride;
  };
  std::vector<float> y(8 * inputs, 7.0f);
  const std::vector<float> before = y;
  const std::size_t rows[] = {0, layer.o.out_features - 1, 0};
  const Call good = {layer.packed.data(), layer.packed.size(), rows, 3, &options, y.data(), RAPT_F32, 0};
  const auto run = [](const Call &c) {
    return rapt_linear_packed_rows(c.packed, c.packed_size, c.rows, c.count, c.options, c.y, c.y_type,
                                   c.stride);
  };
  const auto refuses = [&](rapt_status status, auto change) {
    Call call = good;
    change(call);
    CHECK(std::string(rapt_status_text(run(call))) == rapt_status_text(status));
    CHECK(y == before);
  };
  refuses(RAPT_BAD_OPTIONS, [](Call &c) { c.options = nullptr; });
  refuses(RAPT_BAD_PACKED, [](Call &c) { c.packed = nullptr; });
  refuses(RAPT_BAD_PACKED, [](Call &c) { c.packed_size -= 1; });
  refuses(RAPT_BAD_PACKED, [](Call &c) { c.packed_size = 63; });
  refuses(RAPT_BAD_Y, [](Call &c) { c.y = nullptr; });
  refuses(RAPT_BAD_Y_STRIDE, [&](Call &c) { c.stride = static_cast<std::ptrdiff_t>(inputs) - 1; });
  refuses(RAPT_BAD_Y_STRIDE, [&](Call &c) { c.stride = -static_cast<std::ptrdiff_t>(inputs); });
  for (const rapt_type type : {RAPT_F64, RAPT_I8, RAPT_Q8_0})
    refuses(RAPT_BAD_TYPE, [&](Call &c) { c.y_type = type; });
  const std::size_t past[] = {0, layer.o.out_features, 0}, far[] = {0, 0, SIZE_MAX};
  refuses(RAPT_BAD_ROWS, [&](Call &c) { c.rows = past; });
  refuses(RAPT_BAD_ROWS, [&](Call &c) { c.rows = far; });
  refuses(RAPT_BAD_ROWS, [&](Call &c) { c.rows = nullptr, c.count = layer.o.out_features + 1; });
  refuses(RAPT_BAD_SIZE, [&](Call &c) { c.count = SIZE_MAX / 2; });
  refuses(RAPT_BAD_OVERLAP, [&](Call &c) { c.y = const_cast<std::size_t *>(rows); });
  refuses(RAPT_BAD_OVERLAP, [&](Call &c) { c.y = const_cast<unsigned char *>(layer.packed.data() + 64); });
  rapt_linear_options other = options;
  other.w_type = RAPT_I4;
  refuses(RAPT_BAD_PACKED, [&](Call &c) { c.options = &other; });
  other = options, other.size = 3;
  refuses(RAPT_BAD_OPTIONS_SIZE, [&](Call &c) { c.options = &other; });
  Bytes damaged = layer.packed;
  damaged[17] ^= 1;
  refuses(RAPT_BAD_PACKED, [&](Call &c) { c.packed = damaged.data(); });

  Call none = good;
  none.count = 0, none.y = nullptr, none.packed = nullptr;
  CHECK(run(none) == RAPT_OK);
  CHECK(y == before);
  CHECK(run(good) == RAPT_OK);
  CHECK(y != before);
}

}  // namespace
}  // namespace rapt::test
