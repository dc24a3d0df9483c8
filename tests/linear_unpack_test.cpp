// Tests rapt_linear_unpack: weights and their scales, zeros, offsets and codebook come back as they were packed, in any
// parts and strides; nothing else is written; and the status of each bad argument.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "rapt/rapt.h"
#include "support/effort.hpp"
#include "support/expect_status.hpp"
#include "support/guarded_buffer.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

using Bytes = std::vector<unsigned char>;
constexpr rapt_type all_types[] = {RAPT_F32, RAPT_F64, RAPT_F16, RAPT_BF16,
                                   RAPT_I8,  RAPT_I4,  RAPT_U4,  RAPT_U8};
constexpr rapt_type types_of_scales[] = {RAPT_F32, RAPT_F16, RAPT_BF16};

constexpr bool is_4_bits(rapt_type type) { return type == RAPT_I4 || type == RAPT_U4; }
constexpr bool is_quantized(rapt_type type) { return type == RAPT_I8 || type == RAPT_U8 || is_4_bits(type); }
constexpr std::size_t size_of(rapt_type type) {
  switch (type) {
    case RAPT_F64:
      return 8;
    case RAPT_F16:
    case RAPT_BF16:
      return 2;
    case RAPT_I8:
    case RAPT_I4:
    case RAPT_U4:
    case RAPT_U8:
      return 1;
    default:
      return 4;
  }
}

// ---- drawn layers

// A matrix of elements of some bytes, in guarded memory. All other bytes have the canary.
class Elements {
 public:
  Elements(std::size_t rows, std::size_t columns, std::size_t size, rapt_matrix_strides strides,
           Placement placement, std::size_t offset)
      : rows_(rows),
        columns_(columns),
        size_(size),
        strides_(strides),
        image_(bytes(), canary),
        buffer_(bytes(), placement, offset) {}

  void *data() const { return buffer_.data(); }
  void *row(std::size_t r) const { return static_cast<char *>(buffer_.data()) + place(r, 0); }
  void fill(const unsigned char *dense) {
    expect(dense);
    std::memcpy(data(), image_.data(), image_.size());
  }
  // From now on the memory should have these elements, and canary bytes between them.
  void expect(const unsigned char *dense) {
    for (std::size_t r = 0; r < rows_; ++r) {
      for (std::size_t c = 0; c < columns_; ++c)
        std::memcpy(image_.data() + place(r, c), dense + (r * columns_ + c) * size_, size_);
    }
  }
  bool holds() const {
    return (image_.empty() || std::memcmp(data(), image_.data(), image_.size()) == 0) &&
           buffer_.surroundings_intact();
  }

 private:
  static std::size_t step(std::ptrdiff_t stride) {
    return stride == RAPT_REPEAT ? 0 : static_cast<std::size_t>(stride);
  }
  std::size_t place(std::size_t r, std::size_t c) const {
    return (r * step(strides_.row) + c * step(strides_.column)) * size_;
  }
  std::size_t bytes() const {
    return rows_ == 0 || columns_ == 0 ? 0 : place(rows_ - 1, columns_ - 1) + size_;
  }

  std::size_t rows_, columns_, size_;
  rapt_matrix_strides strides_;
  Bytes image_;
  GuardedBuffer buffer_;
};

// The arrays of some outputs of a layer, as dense bytes. An array that the layer does not have is empty.
struct Arrays {
  Bytes w, scales, zeros, offsets, codebook;
};

class Layer {
 public:
  explicit Layer(Random &random) : random_(random) {
    o_.size = sizeof o_;
    o_.w_type = random.one_of(all_types);
    if (o_.w_type == RAPT_F64 || (!is_quantized(o_.w_type) && random.one_in(2))) o_.x_type = o_.w_type;
    o_.in_features = 1 + (random.one_in(6) ? random.below(900) : random.below(80));
    o_.out_features = 1 + (random.one_in(4) ? random.below(400) : random.below(140));
    columns_ = is_4_bits(o_.w_type) ? (o_.in_features + 1) / 2 : o_.in_features;
    draw_arrays();
  }

  // Packs the weights in parts, with drawn strides, and begins with the first.
  void pack() {
    set_arrays(arrays_);
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_packed_length(&o_, &bytes) == RAPT_OK);
    packed_.emplace(bytes, placement(), 0);
    const rapt_matrix_strides strides = draw_strides(o_.out_features);
    Elements w = elements(o_.out_features, strides);
    w.fill(arrays_.w.data());
    const std::size_t step = 64 * (1 + random_.below(4));
    for (std::size_t first = 0; first < o_.out_features; first += step) {
      const std::size_t outputs = std::min(step, o_.out_features - first);
      const Arrays part = part_of(first, outputs);
      set_arrays(part);
      REQUIRE(rapt_linear_pack(w.row(first), first, outputs, &o_, packed_->data(), bytes) == RAPT_OK);
    }
    packed_image_.assign(packed(), packed() + bytes);
  }

  // Unpacks the layer in parts that begin anywhere, each with strides of its own.
  void unpack() {
    rapt_linear_options o = o_;
    o.w_scales = o.w_offsets = nullptr;
    o.w_zeros = nullptr;
    o.w_codebook = nullptr;
    o.packed_w = random_.one_in(2);
    for (std::size_t first = 0; first < o_.out_features;) {
      const std::size_t outputs = 1 + random_.below(std::min<std::size_t>(o_.out_features - first, 200));
      unpack_part(first, outputs, o);
      first += outputs;
    }
    CHECK(packed_->surroundings_intact());
    CHECK(std::memcmp(packed(), packed_image_.data(), packed_image_.size()) == 0);
  }

  std::string text() const {
    const auto number = [](auto value) { return std::to_string(static_cast<std::size_t>(value)) + " "; };
    return "type " + number(o_.w_type) + "inputs " + number(o_.in_features) + "outputs " +
           number(o_.out_features) + "group " + number(o_.scale_group) + "scales " +
           number(!arrays_.scales.empty()) + "of " + number(o_.w_scale_type) + "zeros " +
           number(!arrays_.zeros.empty()) + "offsets " + number(!arrays_.offsets.empty()) + "codebook " +
           number(!arrays_.codebook.empty());
  }

 private:
  // Any bytes will do: among them are NaNs with payloads, and numbers that a flush would change.
  Bytes draw_bytes(std::size_t count) {
    Bytes bytes(count);
    for (unsigned char &byte : bytes) byte = static_cast<unsigned char>(random_.below(256));
    return bytes;
  }
  void draw_arrays() {
    arrays_.w = draw_bytes(o_.out_features * columns_ * size_of(o_.w_type));
    if (!is_quantized(o_.w_type)) return;
    o_.scale_group = random_.one_of<std::size_t>({0, 16, 32, 64, 128, 256});
    groups_ = o_.scale_group ? (o_.in_features + o_.scale_group - 1) / o_.scale_group : 1;
    const rapt_type scale_type = random_.one_of(types_of_scales);
    const std::size_t numbers = o_.out_features * groups_;
    if (!random_.one_in(4)) arrays_.scales = draw_bytes(numbers * size_of(scale_type));
    if (random_.one_in(2)) arrays_.offsets = draw_bytes(numbers * size_of(scale_type));
    const bool has_type = !arrays_.scales.empty() || !arrays_.offsets.empty();
    if (has_type && (scale_type != RAPT_F32 || random_.one_in(2))) o_.w_scale_type = scale_type;
    if (o_.w_type != RAPT_U4 && o_.w_type != RAPT_U8) return;
    const std::size_t extra = random_.below(o_.w_type == RAPT_U4 ? 3 : 2);
    if (extra == 1) arrays_.zeros = draw_bytes(numbers);
    if (extra == 2) arrays_.codebook = draw_bytes(16 * sizeof(float));
  }
  Arrays part_of(std::size_t first, std::size_t outputs) const {
    const auto part = [&](const Bytes &all) {
      const std::size_t row = all.size() / o_.out_features;
      return Bytes(all.begin() + static_cast<std::ptrdiff_t>(first * row),
                   all.begin() + static_cast<std::ptrdiff_t>((first + outputs) * row));
    };
    return {part(arrays_.w), part(arrays_.scales), part(arrays_.zeros), part(arrays_.offsets),
            arrays_.codebook};
  }
  void set_arrays(const Arrays &arrays) {
    const auto given = [](const Bytes &bytes) { return bytes.empty() ? nullptr : bytes.data(); };
    o_.w_scales = given(arrays.scales);
    o_.w_zeros = given(arrays.zeros);
    o_.w_offsets = given(arrays.offsets);
    o_.w_codebook = reinterpret_cast<const float *>(given(arrays.codebook));
  }

  // Draws rows, columns or elements apart, or both in one order.
  rapt_matrix_strides draw_strides(std::size_t rows) {
    const auto number = [](std::size_t n) { return static_cast<std::ptrdiff_t>(n); };
    const std::size_t gap = random_.one_in(2) ? random_.below(9) : 0;
    rapt_matrix_strides strides{number(columns_ + gap), 1};
    if (!is_4_bits(o_.w_type)) {
      const std::size_t apart = 2 + random_.below(3);
      const std::size_t way = random_.below(4);
      if (way == 1) strides = {1, number(rows + gap)};
      if (way == 2) strides = {number(apart * columns_ + gap), number(apart)};
      if (way == 3) strides = {number(apart), number(apart * rows + gap)};
    }
    o_.w_strides = strides;
    if (strides.row == number(columns_) && strides.column == 1 && random_.one_in(2)) o_.w_strides = {0, 0};
    return strides;
  }
  Elements elements(std::size_t rows, rapt_matrix_strides strides) {
    const std::size_t size = size_of(o_.w_type);
    return {rows, columns_, size, strides, placement(), random_.below(64 / size) * size};
  }
  // `count` numbers for each of some outputs.
  Elements array(const Bytes &bytes, std::size_t size) {
    const std::size_t count = bytes.size() / size;
    return {1, count, size, {static_cast<std::ptrdiff_t>(count), 1}, placement(), random_.below(8) * size};
  }
  Placement placement() { return random_.one_in(2) ? Placement::ends_at_guard : Placement::begins_at_guard; }
  const unsigned char *packed() const { return static_cast<const unsigned char *>(packed_->data()); }

  void unpack_part(std::size_t first, std::size_t outputs, rapt_linear_options o) {
    Arrays part = part_of(first, outputs);
    // The high half that ends a row of an odd number of inputs belongs to no input.
    for (std::size_t i = columns_; is_4_bits(o.w_type) && o.in_features % 2 != 0 && i <= part.w.size();
         i += columns_)
      part.w[i - 1] &= 0x0f;
    const rapt_matrix_strides strides = draw_strides(outputs);
    o.w_strides = o_.w_strides;
    const std::size_t scale_size = size_of(o.w_scale_type);
    Elements w = elements(outputs, strides), scales = array(part.scales, scale_size),
             zeros = array(part.zeros, 1), offsets = array(part.offsets, scale_size),
             codebook = array(part.codebook, sizeof(float));
    const auto wanted = [&](Elements &memory, const Bytes &bytes) -> void * {
      if (bytes.empty() || random_.one_in(4)) return nullptr;
      memory.expect(bytes.data());
      return memory.data();
    };
    w.expect(part.w.data());
    void *const of_scales = wanted(scales, part.scales), *const of_zeros = wanted(zeros, part.zeros),
                *const of_offsets = wanted(offsets, part.offsets),
                *const of_codebook = wanted(codebook, part.codebook);
    const std::size_t more = random_.one_in(2) ? random_.below(1000) : 0;
    CHECK(rapt_linear_unpack(packed(), packed_image_.size() + more, first, outputs, &o, w.data(), of_scales,
                             static_cast<std::uint8_t *>(of_zeros), of_offsets,
                             static_cast<float *>(of_codebook)) == RAPT_OK);
    CHECK(w.holds());
    CHECK(scales.holds());
    CHECK(zeros.holds());
    CHECK(offsets.holds());
    CHECK(codebook.holds());
  }

  Random &random_;
  rapt_linear_options o_{};
  std::size_t columns_ = 0, groups_ = 1;
  Arrays arrays_;
  std::optional<GuardedBuffer> packed_;
  Bytes packed_image_;
};

TEST_CASE("drawn layers come back as they were packed, and nothing else is written") {
  Random random(20261203);
  for (std::size_t i = 0; i < native_or_emulated<std::size_t>(1500, 150); ++i) {
    Layer layer(random);
    const std::string text = layer.text();
    CAPTURE(text);
    layer.pack();
    layer.unpack();
  }
}

// The same numbers as one part and as many, for all small layers.
TEST_CASE("each number of inputs and each first output") {
  for (const rapt_type type : all_types) {
    for (std::size_t inputs = 1; inputs <= native_or_emulated<std::size_t>(70, 18); ++inputs) {
      constexpr std::size_t outputs = 66;
      CAPTURE(type);
      CAPTURE(inputs);
      const std::size_t columns = is_4_bits(type) ? (inputs + 1) / 2 : inputs, row = columns * size_of(type);
      Bytes w(outputs * row);
      for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<unsigned char>(i * 151 + i / 256);
      if (is_4_bits(type) && inputs % 2 != 0) {
        for (std::size_t i = row; i <= w.size(); i += row) w[i - 1] &= 0x0f;
      }
      rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
      o.w_type = type;
      o.x_type = type == RAPT_F64 ? RAPT_F64 : RAPT_F32;
      o.in_features = inputs;
      o.out_features = outputs;
      std::size_t bytes = 0;
      REQUIRE(rapt_linear_packed_length(&o, &bytes) == RAPT_OK);
      Bytes packed(bytes);
      REQUIRE(rapt_linear_pack(w.data(), 0, outputs, &o, packed.data(), bytes) == RAPT_OK);
      for (std::size_t first = 0; first < outputs; ++first) {
        Bytes back((outputs - first) * row, 0x55);
        CHECK(rapt_linear_unpack(packed.data(), bytes, first, outputs - first, &o, back.data(), nullptr,
                                 nullptr, nullptr, nullptr) == RAPT_OK);
        CHECK(std::equal(back.begin(), back.end(), w.begin() + static_cast<std::ptrdiff_t>(first * row)));
      }
    }
  }
}

// ---- statuses

// A layer of 4-bit weights that is packed with scales and zeros, unless a change packs another one.
struct Call {
  static constexpr std::size_t inputs = 70, outputs = 130, groups = 3;
  static constexpr FunctionName functions[] = {{1, "rapt_linear_unpack"}};

  rapt_linear_options options{};
  std::vector<float> numbers = std::vector<float>(outputs * groups, 0.25f),
                     codebook_numbers = std::vector<float>(16, 2.0f);
  Bytes plain = Bytes(outputs * inputs * sizeof(double), 0x5a), zero_numbers = Bytes(outputs * groups, 3);
  Bytes packed_memory, memory = Bytes(300000, 0x55);
  const void *packed = nullptr;
  std::size_t packed_size = 0, first = 0, count = outputs;
  const rapt_linear_options *given = &options;
  // w, w_scales, w_zeros, w_offsets and the codebook lie apart in `memory`.
  void *w = memory.data(), *scales = nullptr, *offsets = nullptr;
  std::uint8_t *zeros = nullptr;
  float *codebook = nullptr;

  explicit Call(unsigned = 1) {
    options.size = sizeof options;
    options.w_type = RAPT_U4;
    options.in_features = inputs;
    options.out_features = outputs;
    options.scale_group = 32;
    options.w_scales = numbers.data();
    options.w_zeros = zero_numbers.data();
    pack();
    scales = at(150000);
    zeros = at(160000);
  }
  Call(const Call &) = delete;

  unsigned char *at(std::size_t offset) { return memory.data() + offset; }
  // Packs the weights that the options describe. The arrays leave the options.
  void pack() {
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_packed_length(&options, &bytes) == RAPT_OK);
    packed_memory.assign(bytes, 0);
    REQUIRE(rapt_linear_pack(plain.data(), 0, outputs, &options, packed_memory.data(), bytes) == RAPT_OK);
    packed = packed_memory.data();
    packed_size = bytes;
    options.w_scales = options.w_offsets = nullptr;
    options.w_zeros = nullptr;
    options.w_codebook = nullptr;
    scales = offsets = nullptr;
    zeros = nullptr;
    codebook = nullptr;
  }
  void pack_type(rapt_type type) {
    options.w_type = type;
    if (!is_quantized(type)) options.scale_group = 0;
    if (type == RAPT_F64) options.x_type = RAPT_F64;
    pack();
  }
  void pack_with_codebook() {
    options.w_codebook = codebook_numbers.data();
    options.w_scales = numbers.data();
    pack();
    codebook = reinterpret_cast<float *>(at(170000));
  }
  void pack_with_offsets(rapt_type type) {
    options.w_offsets = options.w_scales = numbers.data();
    options.w_scale_type = type;
    pack();
    offsets = at(180000);
  }

  rapt_status run() {
    return rapt_linear_unpack(packed, packed_size, first, count, given, w, scales, zeros, offsets, codebook);
  }
  bool writes_nothing() const { return count == 0; }
  std::string image() const {
    std::string bytes;
    append_bytes(bytes, memory);
    append_bytes(bytes, packed_memory);
    return bytes;
  }
};
using C = Call;
constexpr auto far_apart = PTRDIFF_MAX;

TEST_CASE("valid calls") {
  expect_statuses<C>({
      {"all that was packed", 1, RAPT_OK, [](C &) {}},
      {"only w", 1, RAPT_OK,
       [](C &c) {
         c.scales = nullptr;
         c.zeros = nullptr;
       }},
      {"packed_w", 1, RAPT_OK, [](C &c) { c.options.packed_w = 1; }},
      {"the type of scales", 1, RAPT_OK, [](C &c) { c.options.w_scale_type = RAPT_F32; }},
      {"scales of f16", 1, RAPT_OK, [](C &c) { c.pack_with_offsets(RAPT_F16); }},
      {"no scales of a type that is not named", 1, RAPT_OK,
       [](C &c) {
         c.pack_with_offsets(RAPT_F16);
         c.options.w_scale_type = RAPT_TYPE_DEFAULT;
         c.offsets = nullptr;
       }},
      {"a codebook", 1, RAPT_OK, [](C &c) { c.pack_with_codebook(); }},
      {"a codebook of integers in i8 arithmetic", 1, RAPT_OK,
       [](C &c) {
         c.pack_with_codebook();
         c.options.arithmetic = RAPT_ARITHMETIC_I8;
       }},
      {"more memory than the weights have", 1, RAPT_OK, [](C &c) { c.packed_size = SIZE_MAX; }},
      {"no outputs", 1, RAPT_OK,
       [](C &c) {
         c.count = 0;
         c.w = nullptr;
       }},
      {"no outputs at the end", 1, RAPT_OK, [](C &c) { c.first = C::outputs, c.count = 0; }},
      {"the last output", 1, RAPT_OK, [](C &c) { c.first = C::outputs - 1, c.count = 1; }},
      {"f32", 1, RAPT_OK, [](C &c) { c.pack_type(RAPT_F32); }},
      {"f64", 1, RAPT_OK, [](C &c) { c.pack_type(RAPT_F64); }},
      {"columns", 1, RAPT_OK,
       [](C &c) {
         c.pack_type(RAPT_F16);
         c.options.w_strides = {1, C::outputs};
       }},
      {"columns of a part", 1, RAPT_OK,
       [](C &c) {
         c.pack_type(RAPT_F16);
         c.count = 7;
         c.options.w_strides = {1, 7};
       }},
      {"options of i8 arithmetic", 1, RAPT_OK, [](C &c) { c.options.arithmetic = RAPT_ARITHMETIC_I8; }},
  });
  // A layer without outputs is its header.
  C empty;
  empty.options.out_features = 0;
  std::size_t bytes = 0;
  REQUIRE(rapt_linear_packed_length(&empty.options, &bytes) == RAPT_OK);
  REQUIRE(rapt_linear_pack(empty.plain.data(), 0, 0, &empty.options, empty.packed_memory.data(), bytes) ==
          RAPT_OK);
  empty.packed_size = bytes;
  empty.count = 0;
  empty.scales = nullptr;
  empty.zeros = nullptr;
  expect_status(empty, RAPT_OK);
}

TEST_CASE("bad arguments") {
  expect_statuses<C>({
      {"no options", 1, RAPT_BAD_OPTIONS, [](C &c) { c.given = nullptr; }},
      {"size of options", 1, RAPT_BAD_OPTIONS_SIZE, [](C &c) { c.options.size -= 1; }},
      {"no inputs", 1, RAPT_BAD_SHAPE, [](C &c) { c.options.in_features = 0; }},
      {"type", 1, RAPT_BAD_TYPE, [](C &c) { c.options.x_type = RAPT_F64; }},
      {"arithmetic", 1, RAPT_BAD_ARITHMETIC, [](C &c) { c.options.arithmetic = RAPT_ARITHMETIC_BF16; }},
      {"x", 1, RAPT_BAD_X_STRIDES,
       [](C &c) {
         c.options.rows = 2;
         c.options.x_strides = {0, 1};
       }},
      {"y", 1, RAPT_BAD_Y_STRIDE, [](C &c) { c.options.y_stride = 1; }},
      {"add", 1, RAPT_BAD_ADD, [](C &c) { c.options.add_stride = 1; }},
      {"group", 1, RAPT_BAD_SCALE_GROUP, [](C &c) { c.options.scale_group = 31; }},
      {"w", 1, RAPT_BAD_W, [](C &c) { c.w = nullptr; }},
      {"too many outputs", 1, RAPT_BAD_SIZE, [](C &c) { c.count += 1; }},
      {"too many outputs", 1, RAPT_BAD_SIZE, [](C &c) { c.first = 1; }},
      {"too many outputs", 1, RAPT_BAD_SIZE, [](C &c) { c.count = SIZE_MAX; }},
      {"an output that does not exist", 1, RAPT_BAD_SIZE, [](C &c) { c.first = SIZE_MAX, c.count = 1; }},
      {"an output that does not exist", 1, RAPT_BAD_SIZE,
       [](C &c) { c.first = C::outputs + 1, c.count = 0; }},
      {"many outputs", 1, RAPT_BAD_SIZE, [](C &c) { c.options.out_features = SIZE_MAX; }},
      {"many inputs", 1, RAPT_BAD_SIZE, [](C &c) { c.options.in_features = SIZE_MAX; }},
  });
}

TEST_CASE("arrays and options of arrays") {
  expect_statuses<C>({
      {"scales in the options", 1, RAPT_BAD_W_SCALES, [](C &c) { c.options.w_scales = c.numbers.data(); }},
      {"zeros in the options", 1, RAPT_BAD_W_ZEROS, [](C &c) { c.options.w_zeros = c.zero_numbers.data(); }},
      {"offsets in the options", 1, RAPT_BAD_W_OFFSETS, [](C &c) { c.options.w_offsets = c.numbers.data(); }},
      {"a codebook in the options", 1, RAPT_BAD_W_CODEBOOK,
       [](C &c) { c.options.w_codebook = c.codebook_numbers.data(); }},
      {"scales of weights without", 1, RAPT_BAD_W_SCALES,
       [](C &c) {
         c.pack();
         c.scales = c.at(150000);
       }},
      {"zeros of weights without", 1, RAPT_BAD_W_ZEROS,
       [](C &c) {
         c.pack();
         c.zeros = c.at(160000);
       }},
      {"offsets of weights without", 1, RAPT_BAD_W_OFFSETS, [](C &c) { c.offsets = c.at(180000); }},
      {"a codebook of weights without", 1, RAPT_BAD_W_CODEBOOK,
       [](C &c) { c.codebook = reinterpret_cast<float *>(c.at(170000)); }},
      {"scales of floats", 1, RAPT_BAD_W_SCALES,
       [](C &c) {
         c.pack_type(RAPT_F32);
         c.scales = c.at(150000);
       }},
      {"zeros of floats", 1, RAPT_BAD_W_ZEROS,
       [](C &c) {
         c.pack_type(RAPT_F32);
         c.zeros = c.at(160000);
       }},
      {"offsets of floats", 1, RAPT_BAD_W_OFFSETS,
       [](C &c) {
         c.pack_type(RAPT_F32);
         c.offsets = c.at(180000);
       }},
      {"a codebook of floats", 1, RAPT_BAD_W_CODEBOOK,
       [](C &c) {
         c.pack_type(RAPT_F32);
         c.codebook = reinterpret_cast<float *>(c.at(170000));
       }},
      {"a type of scales of floats", 1, RAPT_BAD_W_SCALES,
       [](C &c) {
         c.pack_type(RAPT_F32);
         c.options.w_scale_type = RAPT_F32;
       }},
      {"a codebook that i8 arithmetic does not have", 1, RAPT_BAD_W_CODEBOOK,
       [](C &c) {
         c.codebook_numbers[3] = 2.5f;
         c.pack_with_codebook();
         c.options.arithmetic = RAPT_ARITHMETIC_I8;
       }},
      {"another type of scales", 1, RAPT_BAD_PACKED, [](C &c) { c.options.w_scale_type = RAPT_F16; }},
      {"another type of scales by default", 1, RAPT_BAD_PACKED,
       [](C &c) {
         c.pack_with_offsets(RAPT_F16);
         c.options.w_scale_type = RAPT_TYPE_DEFAULT;
       }},
      {"another type of scales by default", 1, RAPT_BAD_PACKED,
       [](C &c) {
         c.pack_with_offsets(RAPT_BF16);
         c.options.w_scale_type = RAPT_TYPE_DEFAULT;
         c.offsets = nullptr;
         c.scales = c.at(150000);
       }},
      {"no type of scales", 1, RAPT_BAD_W_SCALES, [](C &c) { c.options.w_scale_type = RAPT_F64; }},
  });
}

TEST_CASE("strides of w") {
  const auto strides = [](std::ptrdiff_t row, std::ptrdiff_t column) {
    return [=](C &c) {
      c.pack_type(RAPT_I8);
      c.options.w_strides = {row, column};
    };
  };
  constexpr std::ptrdiff_t inputs = C::inputs, outputs = C::outputs;
  expect_statuses<C>({
      {"rows apart", 1, RAPT_OK, strides(inputs + 1, 1)},
      {"columns apart", 1, RAPT_OK, strides(1, outputs + 1)},
      {"all apart", 1, RAPT_OK, strides(2 * inputs, 2)},
      {"no stride of rows", 1, RAPT_BAD_W_STRIDES, strides(0, 1)},
      {"no stride of inputs", 1, RAPT_BAD_W_STRIDES, strides(inputs, 0)},
      {"backwards", 1, RAPT_BAD_W_STRIDES, strides(-inputs, 1)},
      {"inputs backwards", 1, RAPT_BAD_W_STRIDES, strides(inputs, -1)},
      {"one row for all", 1, RAPT_BAD_W_STRIDES, strides(RAPT_REPEAT, 1)},
      {"one column for all", 1, RAPT_BAD_W_STRIDES, strides(1, RAPT_REPEAT)},
      {"rows that overlap", 1, RAPT_BAD_W_STRIDES, strides(inputs - 1, 1)},
      {"columns that overlap", 1, RAPT_BAD_W_STRIDES, strides(1, outputs - 1)},
      {"rows that overlap columns", 1, RAPT_BAD_W_STRIDES, strides(1, 1)},
      {"rows far apart", 1, RAPT_BAD_SIZE, strides(far_apart, 1)},
      {"inputs far apart", 1, RAPT_BAD_SIZE, strides(1, far_apart)},
      {"rows apart by half the address space", 1, RAPT_BAD_SIZE, strides(far_apart / 2, 1)},
      {"inputs of 4 bits in columns", 1, RAPT_BAD_W_STRIDES,
       [](C &c) {
         c.options.w_strides = {1, outputs};
       }},
      {"inputs of 4 bits apart", 1, RAPT_BAD_W_STRIDES,
       [](C &c) {
         c.options.w_strides = {inputs, 2};
       }},
      {"rows of 4 bits that overlap", 1, RAPT_BAD_W_STRIDES,
       [](C &c) {
         c.options.w_strides = {inputs / 2 - 1, 1};
       }},
      {"one row has no stride", 1, RAPT_OK,
       [](C &c) {
         c.pack_type(RAPT_I8);
         c.count = 1;
         c.options.w_strides = {1, 1};
       }},
  });
}

TEST_CASE("packed weights of another layer, and damaged ones") {
  expect_statuses<C>({
      {"none", 1, RAPT_BAD_PACKED, [](C &c) { c.packed = nullptr; }},
      {"too little memory for a header", 1, RAPT_BAD_PACKED, [](C &c) { c.packed_size = 63; }},
      {"no memory", 1, RAPT_BAD_PACKED, [](C &c) { c.packed_size = 0; }},
      {"too little memory", 1, RAPT_BAD_PACKED, [](C &c) { c.packed_size -= 1; }},
      {"only a header", 1, RAPT_BAD_PACKED, [](C &c) { c.packed_size = 64; }},
      {"type", 1, RAPT_BAD_PACKED,
       [](C &c) {
         c.options.w_type = RAPT_I4;
         c.zeros = nullptr;
       }},
      {"type", 1, RAPT_BAD_PACKED,
       [](C &c) {
         c.pack_type(RAPT_F16);
         c.options.w_type = RAPT_BF16;
       }},
      {"group", 1, RAPT_BAD_PACKED, [](C &c) { c.options.scale_group = 64; }},
      {"inputs", 1, RAPT_BAD_PACKED, [](C &c) { c.options.in_features -= 1; }},
      {"outputs", 1, RAPT_BAD_PACKED, [](C &c) { c.options.out_features += 1; }},
      {"no outputs of damaged weights", 1, RAPT_BAD_PACKED,
       [](C &c) {
         c.packed_memory[9] ^= 1;
         c.count = 0;
       }},
  });
  for (const rapt_type type : all_types) {
    CAPTURE(type);
    C call;
    call.pack_type(type);
    const std::string before = call.image();
    for (std::size_t i = 0; i < 64; ++i) {
      for (int change = 1; change < 256; ++change) {
        call.packed_memory[i] ^= static_cast<unsigned char>(change);
        if (call.run() != RAPT_BAD_PACKED) FAIL_CHECK("byte " << i << " changed by " << change);
        call.packed_memory[i] ^= static_cast<unsigned char>(change);
      }
    }
    CHECK(call.image() == before);
    CHECK(call.run() == RAPT_OK);
  }
}

// The header must not be read past the memory that the caller has named.
TEST_CASE("no byte is read past packed_size") {
  const C call;
  for (const std::size_t size : Sizes{0, 1, 63, 64, call.packed_size - 1, call.packed_size}) {
    CAPTURE(size);
    const GuardedBuffer packed(size, Placement::ends_at_guard, 0);
    if (size > 0) std::memcpy(packed.data(), call.packed, size);
    Bytes w(C::outputs * C::inputs);
    CHECK(rapt_linear_unpack(packed.data(), size, 0, C::outputs, &call.options, w.data(), nullptr, nullptr,
                             nullptr, nullptr) == (size == call.packed_size ? RAPT_OK : RAPT_BAD_PACKED));
  }
}

// Each written array is put at the first and the last bytes of each other one and of the packed weights, and next to
// them.
TEST_CASE("arrays that overlap") {
  constexpr std::size_t numbers = C::outputs * C::groups, place = 100000;
  struct Array {
    const char *name;
    std::size_t bytes;
    void (*set)(C &, unsigned char *);
  };
  constexpr Array with_zeros[] = {
      {"w", C::outputs * C::inputs / 2, [](C &c, unsigned char *at) { c.w = at; }},
      {"w_scales", numbers * 2, [](C &c, unsigned char *at) { c.scales = at; }},
      {"w_zeros", numbers, [](C &c, unsigned char *at) { c.zeros = at; }},
      {"w_offsets", numbers * 2, [](C &c, unsigned char *at) { c.offsets = at; }},
  };
  constexpr Array with_codebook[] = {
      with_zeros[0],
      with_zeros[1],
      {"w_codebook", 64, [](C &c, unsigned char *at) { c.codebook = reinterpret_cast<float *>(at); }},
      with_zeros[3],
  };
  std::size_t refused = 0;
  const auto try_all = [&](const Array(&arrays)[4], bool has_codebook) {
    const auto make = [&](C &c) {
      c.options.w_scales = c.options.w_offsets = c.numbers.data();
      c.options.w_scale_type = RAPT_BF16;
      if (has_codebook) {
        c.options.w_codebook = c.codebook_numbers.data();
      } else {
        c.options.w_zeros = c.zero_numbers.data();
      }
      c.pack();
      for (std::size_t i = 0; i < 4; ++i) arrays[i].set(c, c.at(place + 20000 * (i + 1)));
    };
    const auto put = [&](const Array &moved, const Array *fixed, std::size_t distance, bool before,
                         rapt_status expected) {
      INFO(moved.name << " and " << (fixed ? fixed->name : "packed") << ", " << distance
                      << (before ? " before" : " after"));
      C call;
      make(call);
      unsigned char *at = call.at(place);
      if (fixed) {
        fixed->set(call, at);
      } else {
        std::memcpy(at, call.packed, call.packed_size);
        call.packed = at;
      }
      moved.set(call, before ? at - distance : at + distance);
      expect_status(call, expected);
      refused += expected != RAPT_OK;
    };
    for (const Array &moved : arrays) {
      for (const Array &fixed : arrays) {
        if (&moved == &fixed) continue;
        put(moved, &fixed, 0, false, RAPT_BAD_OVERLAP);
        put(moved, &fixed, fixed.bytes - 4, false, RAPT_BAD_OVERLAP);
        put(moved, &fixed, moved.bytes / 4 * 4 - 4, true, RAPT_BAD_OVERLAP);
        put(moved, &fixed, (fixed.bytes + 3) / 4 * 4, false, RAPT_OK);
        put(moved, &fixed, (moved.bytes + 3) / 4 * 4, true, RAPT_OK);
      }
      C measured;
      make(measured);
      put(moved, nullptr, 0, false, RAPT_BAD_OVERLAP);
      put(moved, nullptr, measured.packed_size - 4, false, RAPT_BAD_OVERLAP);
      put(moved, nullptr, moved.bytes / 4 * 4 - 4, true, RAPT_BAD_OVERLAP);
      put(moved, nullptr, measured.packed_size, false, RAPT_OK);
      put(moved, nullptr, (moved.bytes + 3) / 4 * 4, true, RAPT_OK);
    }
  };
  try_all(with_zeros, false);
  try_all(with_codebook, true);
  CHECK(refused > 80);
}

}  // namespace
}  // namespace rapt::test
