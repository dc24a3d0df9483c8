// Tests linear layers with quantized weights: rows of integers, special numbers, and packed bytes. calls_test compares
// drawn calls with the oracle.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "calls/linear_problems.hpp"
#include "calls/quantized_values.hpp"
#include "oracle/quantized_linear.hpp"
#include "rapt/rapt.h"
#include "support/case_text.hpp"
#include "support/effort.hpp"
#include "support/elements.hpp"
#include "support/every_level.hpp"
#include "support/options.hpp"

namespace rapt::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// ---- a small call

struct Call {
  static constexpr std::size_t rows = 3, inputs = 70, outputs = 67, groups = 3;

  Call() : x(rows * inputs), w(outputs * inputs), scales(outputs * groups), y(rows * outputs, -7.0f) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 37) - 17.5f;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<std::uint8_t>(i * 31 + i / 7);
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 0.25f + static_cast<float>(i % 5);
    options.size = sizeof options;
    options.w_type = RAPT_U4;
    options.rows = rows;
    options.in_features = inputs;
    options.out_features = outputs;
    options.scale_group = 32;
    options.w_scales = scales.data();
  }

  rapt_status run() {
    std::size_t bytes = 0;
    const rapt_status status = rapt_linear_workspace(&options, &bytes);
    if (status != RAPT_OK) return status;
    workspace.resize(bytes);
    return rapt_linear(x.data(), packed.empty() ? static_cast<const void *>(w.data()) : packed.data(),
                       y.data(), &options, workspace.data(), bytes);
  }
  rapt_status pack() {
    std::size_t bytes = 0;
    const rapt_status status = rapt_linear_packed_length(&options, &bytes);
    if (status != RAPT_OK) return status;
    packed.assign(bytes, 0x55);
    return rapt_linear_pack(w.data(), 0, outputs, &options, packed.data(), bytes);
  }
  // Leaves out what packed weights carry.
  void use_packed() {
    options.packed_w = 1;
    options.w_scales = options.w_offsets = nullptr;
    options.w_zeros = nullptr;
    options.w_codebook = nullptr;
  }

  rapt_linear_options options{};
  std::vector<float> x;
  std::vector<std::uint8_t> w, workspace, packed;
  std::vector<float> scales, y;
  std::uint8_t zeros[outputs * groups] = {};
  float codebook[16] = {}, offsets[outputs * groups] = {}, x_scales[rows * groups] = {};
};

// ---- rows of integers

TEST_CASE("rapt_quantize_rows rounds as rapt.h says, and rapt_dequantize_rows takes it back") {
  Random random(7);
  for (const bool in_4_bits : {false, true}) {
    for (const std::size_t inputs : Sizes{1, 2, 31, 65, 200}) {
      for (const std::size_t group : Sizes{0, 1, 7, 32}) {
        constexpr std::size_t rows = 6, stride = 203;
        std::vector<float> x(rows * stride);
        for (float &value : x) value = static_cast<float>(random.gaussian());
        x[stride] = nan;
        x[2 * stride] = infinity;
        for (std::size_t k = 0; k < inputs; ++k) x[3 * stride + k] = 0x1p-101f;
        for (std::size_t k = 0; k < inputs; ++k) x[4 * stride + k] *= 0x1p100f;
        const std::size_t width = group ? group : inputs, groups = (inputs + width - 1) / width;
        const std::size_t row_bytes = in_4_bits ? (inputs + 1) / 2 : inputs;
        std::vector<std::uint8_t> q(rows * row_bytes + 1, 0x77);
        std::vector<float> scales(rows * groups + 1, -7.0f), back(rows * inputs);
        const rapt_type type = in_4_bits ? RAPT_I4 : RAPT_I8;
        REQUIRE(rapt_quantize_rows(x.data(), RAPT_F32, stride, rows, inputs, group, type, q.data(),
                                   scales.data()) == RAPT_OK);
        REQUIRE(rapt_dequantize_rows(q.data(), type, rows, inputs, group, scales.data(), nullptr, nullptr,
                                     RAPT_TYPE_DEFAULT, nullptr, back.data(), RAPT_F32, 0) == RAPT_OK);
        CHECK(q.back() == 0x77);
        CHECK(scales.back() == -7.0f);
        for (std::size_t r = 0; r < rows; ++r) {
          const auto expected =
              oracle::quantized(std::span(x).subspan(r * stride, inputs), width, in_4_bits ? 7.0f : 127.0f);
          const auto bytes = stored_integers(in_4_bits ? WeightType::i4 : WeightType::i8, expected.q);
          for (std::size_t i = 0; i < row_bytes; ++i) {
            const bool is_half = in_4_bits && i + 1 == row_bytes && inputs % 2 == 1;
            CHECK(q[r * row_bytes + i] == (is_half ? bytes[i] & 15 : bytes[i]));
          }
          for (std::size_t g = 0; g < groups; ++g)
            CHECK(canonical_bits(scales[r * groups + g]) == canonical_bits(expected.scales[g]));
          for (std::size_t k = 0; k < inputs; ++k) {
            const float number = static_cast<float>(expected.q[k]) * expected.scales[k / width];
            CHECK(canonical_bits(back[r * inputs + k]) == canonical_bits(number));
            const float value = x[r * stride + k], scale = expected.scales[k / width];
            const float share = 0.5f + (in_4_bits ? 7.0f : 127.0f) * 0x1p-22f;
            if (std::isfinite(scale) && scale > 0) CHECK(std::fabs(number - value) <= share * scale);
          }
        }
      }
    }
  }
}

TEST_CASE("rapt_dequantize_rows subtracts the zero, scales, and adds the offset") {
  const std::uint8_t q[] = {0x5a, 0x0f}, zeros[] = {3, 200};
  const float scales[] = {0.5f, 2.0f}, offsets[] = {0.25f, -1.0f};
  float codebook[16];
  std::iota(std::begin(codebook), std::end(codebook), 100.0f);
  float y[3];
  const auto run = [&](const std::uint8_t *z, const float *c) {
    return rapt_dequantize_rows(q, RAPT_U4, 1, 3, 2, scales, z, offsets, RAPT_TYPE_DEFAULT, c, y, RAPT_F32,
                                0);
  };
  REQUIRE(run(zeros, nullptr) == RAPT_OK);
  CHECK(y[0] == (10 - 3) * 0.5f + 0.25f);
  CHECK(y[1] == (5 - 3) * 0.5f + 0.25f);
  CHECK(y[2] == (15 - 200) * 2.0f - 1.0f);
  REQUIRE(run(nullptr, nullptr) == RAPT_OK);
  CHECK(y[2] == (15 - 8) * 2.0f - 1.0f);
  REQUIRE(run(nullptr, codebook) == RAPT_OK);
  CHECK(y[0] == 110 * 0.5f + 0.25f);
  CHECK(run(zeros, codebook) == RAPT_BAD_W_ZEROS);
}

TEST_CASE("i8 arithmetic over floats is the composition with rapt_quantize_rows") {
  on_every_level([] {
    Call floats, integers;
    floats.options.arithmetic = RAPT_ARITHMETIC_I8;
    REQUIRE(floats.run() == RAPT_OK);
    std::vector<std::int8_t> q(floats.x.size());
    REQUIRE(rapt_quantize_rows(floats.x.data(), RAPT_F32, 0, Call::rows, Call::inputs, 32, RAPT_I8, q.data(),
                               integers.x_scales) == RAPT_OK);
    integers.options.x_type = RAPT_I8;
    integers.options.x_scales = integers.x_scales;
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_workspace(&integers.options, &bytes) == RAPT_OK);
    std::vector<char> workspace(bytes);
    REQUIRE(rapt_linear(q.data(), integers.w.data(), integers.y.data(), &integers.options, workspace.data(),
                        bytes) == RAPT_OK);
    CHECK(integers.y == floats.y);
  });
}

// ---- special numbers

TEST_CASE("a scale, zero or offset touches only its own output, and a row only itself") {
  on_every_level([] {
    for (const int arithmetic : {RAPT_ARITHMETIC_F32, RAPT_ARITHMETIC_I8}) {
      for (const float special : {nan, infinity, 0.0f, 0x1p-140f}) {
        Call plain, spoilt;
        plain.options.arithmetic = spoilt.options.arithmetic = arithmetic;
        spoilt.scales[5 * Call::groups + 1] = special;
        spoilt.x[Call::inputs + 3] = nan;
        REQUIRE(plain.run() == RAPT_OK);
        REQUIRE(spoilt.run() == RAPT_OK);
        for (std::size_t i = 0; i < plain.y.size(); ++i) {
          if (i / Call::outputs == 1) {
            CHECK(std::isnan(spoilt.y[i]));
          } else if (i % Call::outputs != 5) {
            CHECK(spoilt.y[i] == plain.y[i]);
          } else if (!std::isfinite(special)) {
            CHECK(!std::isfinite(spoilt.y[i]));
          }
        }
      }
    }
  });
}

TEST_CASE("without offsets, an infinite sum of x makes no NaN, and with them 0 times infinity does") {
  on_every_level([] {
    Call call;
    call.x.assign(call.x.size(), 0.0f);
    call.options.w_offsets = call.offsets;
    call.offsets[0] = infinity;
    REQUIRE(call.run() == RAPT_OK);
    CHECK(std::isnan(call.y[0]));
    CHECK(call.y[1] == 0);
    call.options.w_offsets = nullptr;
    REQUIRE(call.run() == RAPT_OK);
    CHECK(call.y[0] == 0);
  });
}

TEST_CASE("a scale group of 0 is one scale, but another sum than one group") {
  Call one;
  one.options.in_features = 20;
  one.options.scale_group = 0;
  one.options.w_scales = nullptr;
  Call other = one;
  other.options.scale_group = 16;
  REQUIRE(one.run() == RAPT_OK);
  REQUIRE(other.run() == RAPT_OK);
  Call packed = one;
  REQUIRE(packed.pack() == RAPT_OK);
  packed.use_packed();
  REQUIRE(packed.run() == RAPT_OK);
  CHECK(packed.y == one.y);
}

// ---- packed bytes

// A program may store packed weights, so that their bytes must stay as they are.
TEST_CASE("the layout of packed weights") {
  on_every_level([] {
    for (const rapt_type type : {RAPT_I8, RAPT_I4, RAPT_U4, RAPT_U8}) {
      const bool has_zeros = type == RAPT_U4 || type == RAPT_U8,
                 in_bytes = type == RAPT_I8 || type == RAPT_U8;
      Call call;
      call.options.w_type = type;
      call.options.w_offsets = call.offsets;
      if (has_zeros) call.options.w_zeros = call.zeros;
      for (std::size_t i = 0; i < std::size(call.zeros); ++i) call.zeros[i] = static_cast<std::uint8_t>(i);
      for (std::size_t i = 0; i < std::size(call.offsets); ++i) call.offsets[i] = static_cast<float>(i);
      REQUIRE(call.pack() == RAPT_OK);
      const std::size_t codes = in_bytes ? 72 * 64 : 72 * 32, numbers = Call::groups * 64;
      const std::size_t block = codes + 2 * 4 * numbers + (has_zeros ? numbers : 0);
      REQUIRE(call.packed.size() == 64 + 2 * block);
      CHECK(std::memcmp(call.packed.data(), "\0raptlw1", 8) == 0);
      for (std::size_t n = 0; n < 128; ++n) {
        const std::uint8_t *const at = call.packed.data() + 64 + n / 64 * block;
        const bool exists = n < Call::outputs;
        for (std::size_t k = 0; k < 72; ++k) {
          const std::size_t row = in_bytes ? Call::inputs : Call::inputs / 2;
          int expected = in_bytes ? 128 : 8;
          if (exists && k < Call::inputs) {
            const std::uint8_t byte = call.w[n * row + (in_bytes ? k : k / 2)];
            const int nibble = k % 2 == 0 ? byte & 15 : byte >> 4;
            expected = type == RAPT_I8   ? byte ^ 128
                       : type == RAPT_U8 ? byte
                       : type == RAPT_I4 ? nibble ^ 8
                                         : nibble;
          }
          const std::uint8_t got =
              at[in_bytes ? k / 4 * 256 + n % 64 * 4 + k % 4 : k / 8 * 256 + n % 64 * 4 + k % 4];
          CHECK((in_bytes ? got : k % 8 < 4 ? got & 15 : got >> 4) == expected);
        }
        for (std::size_t g = 0; g < Call::groups; ++g) {
          float scale, offset;
          const std::size_t place = g * 64 + n % 64;
          std::memcpy(&scale, at + codes + place * 4, 4);
          std::memcpy(&offset, at + codes + (numbers + place) * 4, 4);
          CHECK(scale == (exists ? call.scales[n * Call::groups + g] : 0));
          CHECK(offset == (exists ? call.offsets[n * Call::groups + g] : 0));
          if (has_zeros)
            CHECK(at[codes + 2 * 4 * numbers + place] == (exists ? call.zeros[n * Call::groups + g] : 0));
        }
      }
    }
  });
}

// ---- statuses

}  // namespace
}  // namespace rapt::test
