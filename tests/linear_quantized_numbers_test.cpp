// Tests quantized weights with numbers computed by hand: zeros, codebooks and formats of other programs, special
// scales and inputs, groups, and how the functions of rows and rapt_linear agree.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>
#include <vector>

#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/elements.hpp"
#include "support/every_level.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<std::uint8_t>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float largest = std::numeric_limits<float>::max();

rapt_linear_options layer(rapt_type w_type, std::size_t rows, std::size_t inputs, std::size_t outputs,
                          std::size_t scale_group) {
  rapt_linear_options o{};
  o.size = sizeof o;
  o.w_type = w_type;
  o.rows = rows;
  o.in_features = inputs;
  o.out_features = outputs;
  o.scale_group = scale_group;
  return o;
}

// Returns y of f32.
Floats run(const void *x, const void *w, const rapt_linear_options &o) {
  Floats y(o.rows * o.out_features, -7.0f);
  std::size_t bytes = 0;
  REQUIRE(rapt_linear_workspace(&o, &bytes) == RAPT_OK);
  std::vector<unsigned char> workspace(bytes);
  REQUIRE(rapt_linear(x, w, y.data(), &o, workspace.data(), bytes) == RAPT_OK);
  return y;
}

// The same by packed weights.
Floats run_packed(const void *x, const void *w, rapt_linear_options o) {
  std::size_t bytes = 0;
  REQUIRE(rapt_linear_packed_length(&o, &bytes) == RAPT_OK);
  Bytes packed(bytes);
  REQUIRE(rapt_linear_pack(w, 0, o.out_features, &o, packed.data(), bytes) == RAPT_OK);
  o.packed_w = 1;
  o.w_strides = {0, 0};
  o.w_scales = o.w_offsets = nullptr;
  o.w_zeros = nullptr;
  o.w_codebook = nullptr;
  o.w_scale_type = RAPT_TYPE_DEFAULT;
  return run(x, packed.data(), o);
}

std::vector<std::uint64_t> bits_of_all(const Floats &numbers) {
  std::vector<std::uint64_t> bits;
  for (const float number : numbers) bits.push_back(canonical_bits(number));
  return bits;
}

// Returns rows of which row k has only input k, 1.
Floats identity(std::size_t inputs) {
  Floats x(inputs * inputs);
  for (std::size_t k = 0; k < inputs; ++k) x[k * inputs + k] = 1;
  return x;
}

// ---- zeros, codebooks, formats

TEST_CASE("zeros from 0 to 255") {
  constexpr std::size_t inputs = 16, outputs = 256;
  Bytes w(outputs * inputs / 2), zeros(outputs);
  for (std::size_t n = 0; n < outputs; ++n) {
    zeros[n] = static_cast<std::uint8_t>(n);
    for (std::size_t k = 0; k < inputs / 2; ++k)
      w[n * inputs / 2 + k] = static_cast<std::uint8_t>(2 * k | (2 * k + 1) << 4);  // input k has k
  }
  rapt_linear_options o = layer(RAPT_U4, inputs, inputs, outputs, 16);
  o.w_zeros = zeros.data();
  const Floats x = identity(inputs);
  on_every_level([&] {
    for (const int arithmetic : {RAPT_ARITHMETIC_F32, RAPT_ARITHMETIC_I8}) {
      o.arithmetic = arithmetic;
      const Floats plain = run(x.data(), w.data(), o), packed = run_packed(x.data(), w.data(), o);
      CHECK(plain == packed);
      for (std::size_t k = 0; k < inputs; ++k) {
        for (std::size_t n = 0; n < outputs; ++n) {
          // 127 times 1 / 127 is 1 in f32.
          const int number = static_cast<int>(k) - static_cast<int>(n);
          const float unit = arithmetic == RAPT_ARITHMETIC_I8 ? 1.0f / 127 : 1.0f;
          const float expected =
              static_cast<float>(number * (arithmetic == RAPT_ARITHMETIC_I8 ? 127 : 1)) * unit;
          CHECK(plain[k * outputs + n] == expected);
        }
      }
    }
  });
}

TEST_CASE("bytes from 0 to 255 less zeros from 0 to 255") {
  constexpr std::size_t inputs = 256, outputs = 256;
  Bytes w(outputs * inputs), zeros(outputs);
  for (std::size_t n = 0; n < outputs; ++n) {
    zeros[n] = static_cast<std::uint8_t>(n);
    for (std::size_t k = 0; k < inputs; ++k) w[n * inputs + k] = static_cast<std::uint8_t>(k);
  }
  rapt_linear_options o = layer(RAPT_U8, inputs, inputs, outputs, 16);
  const Bytes zeros_of_groups = [&] {
    Bytes all;
    for (const std::uint8_t zero : zeros) all.insert(all.end(), inputs / 16, zero);
    return all;
  }();
  const Floats x = identity(inputs);
  on_every_level([&] {
    for (const bool has_zeros : {true, false}) {
      const std::uint8_t *const given = has_zeros ? zeros_of_groups.data() : nullptr;
      for (const int arithmetic : {RAPT_ARITHMETIC_F32, RAPT_ARITHMETIC_I8}) {
        o.arithmetic = arithmetic;
        o.w_zeros = given;
        const Floats plain = run(x.data(), w.data(), o), packed = run_packed(x.data(), w.data(), o);
        CHECK(plain == packed);
        std::size_t wrong = 0;
        for (std::size_t k = 0; k < inputs; ++k) {
          for (std::size_t n = 0; n < outputs; ++n) {
            const int number = static_cast<int>(k) - (given ? static_cast<int>(n) : 128);
            const float unit = arithmetic == RAPT_ARITHMETIC_I8 ? 1.0f / 127 : 1.0f;
            wrong += plain[k * outputs + n] !=
                     static_cast<float>(number * (arithmetic == RAPT_ARITHMETIC_I8 ? 127 : 1)) * unit;
          }
        }
        CHECK(wrong == 0);
      }
    }
  });
}

// The sums of bytes whose codes, zeros and x are the least and the largest ones, in whole groups and part of one.
TEST_CASE("sums of extreme bytes are exact") {
  constexpr std::size_t outputs = 70;
  for (const std::size_t group : Sizes{0, 32, 128}) {
    for (const std::size_t inputs : Sizes{512, 515}) {
      const std::size_t groups = group ? (inputs + group - 1) / group : 1;
      for (const std::size_t rows : Sizes{1, 2, 7, 40}) {
        rapt_linear_options o = layer(RAPT_U8, rows, inputs, outputs, group);
        o.x_type = RAPT_I8;
        const Floats x_scales(rows * groups, 1.0f);
        o.x_scales = x_scales.data();
        on_every_level([&] {
          for (const int code : {0, 255}) {
            for (const int zero : {-1, 0, 255}) {
              const Bytes w(outputs * inputs, static_cast<std::uint8_t>(code)),
                  zeros(outputs * groups, static_cast<std::uint8_t>(zero));
              o.w_zeros = zero < 0 ? nullptr : zeros.data();
              for (const int q : {-128, 127}) {
                const std::vector<std::int8_t> x(rows * inputs, static_cast<std::int8_t>(q));
                // So many products are exact in f32, and so are the sums of groups, in any order.
                const auto product = static_cast<float>(q * (code - (zero < 0 ? 128 : zero)));
                const float expected = product * 512 + product * static_cast<float>(inputs - 512);
                for (const Floats &y : {run(x.data(), w.data(), o), run_packed(x.data(), w.data(), o)})
                  CHECK(y == Floats(rows * outputs, expected));
              }
            }
          }
        });
      }
    }
  }
}

// The largest sums that a group of 512 can have: every product is 127 or 128 times 255.
TEST_CASE("the largest sums of integers are exact") {
  constexpr std::size_t inputs = 512, outputs = 70, rows = 7;
  const std::uint8_t zero = 255;
  const Bytes w(outputs * inputs / 2), zeros(outputs, zero);
  rapt_linear_options o = layer(RAPT_U4, rows, inputs, outputs, 0);
  o.w_zeros = zeros.data();
  o.x_type = RAPT_I8;
  const Floats x_scales(rows, 1.0f);
  o.x_scales = x_scales.data();
  on_every_level([&] {
    for (const int q : {-128, 127}) {
      const std::vector<std::int8_t> x(rows * inputs, static_cast<std::int8_t>(q));
      const auto expected = static_cast<float>(512 * q * -255);
      for (const Floats &y : {run(x.data(), w.data(), o), run_packed(x.data(), w.data(), o)})
        CHECK(y == Floats(rows * outputs, expected));
    }
  });
}

// NormalFloat, the 4-bit weights of QLoRA, has these 16 numbers.
constexpr float nf4[16] = {-1.0f,
                           -0.6961928009986877f,
                           -0.5250730514526367f,
                           -0.39491748809814453f,
                           -0.28444138169288635f,
                           -0.18477343022823334f,
                           -0.09105003625154495f,
                           0.0f,
                           0.07958029955625534f,
                           0.16093020141124725f,
                           0.24611230194568634f,
                           0.33791524171829224f,
                           0.44070982933044434f,
                           0.5626170039176941f,
                           0.7229568362236023f,
                           1.0f};

TEST_CASE("NF4") {
  constexpr std::size_t inputs = 64, outputs = 67;
  Bytes w(outputs * inputs / 2);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<std::uint8_t>(i * 73 + i / 9);
  Floats scales(outputs);
  for (std::size_t n = 0; n < outputs; ++n) scales[n] = 0.01f * static_cast<float>(n + 1);
  rapt_linear_options o = layer(RAPT_U4, inputs, inputs, outputs, 64);
  o.w_scales = scales.data();
  o.w_codebook = nf4;
  const Floats x = identity(inputs);
  on_every_level([&] {
    for (const Floats &y : {run(x.data(), w.data(), o), run_packed(x.data(), w.data(), o)}) {
      for (std::size_t k = 0; k < inputs; ++k) {
        for (std::size_t n = 0; n < outputs; ++n) {
          const unsigned byte = w[(n * inputs + k) / 2], q = k % 2 == 0 ? byte & 15 : byte >> 4;
          CHECK(y[k * outputs + n] == nf4[q] * scales[n]);
        }
      }
    }
  });
}

// Makes blocks of GGUF, which have a scale d of f16 and integers qs.
template <class Block>
std::vector<Block> blocks_by_hand(std::size_t count) {
  std::vector<Block> made(count);
  for (std::size_t b = 0; b < count; ++b) {
    made[b].d = F16(0.01 * static_cast<double>(b + 1)).bits();
    std::size_t i = 0;
    for (auto &q : made[b].qs) q = static_cast<std::remove_reference_t<decltype(q)>>(b * 53 + i++ * 29);
  }
  return made;
}

// GGUF's q8_0 is a scale of f16 and 32 bytes. The scales go into a separate array.
TEST_CASE("blocks of q8_0 made by hand") {
  constexpr std::size_t inputs = 96, outputs = 5, blocks = inputs / 32;
  struct Q8_0 {
    std::uint16_t d;
    std::int8_t qs[32];
  };
  const auto file = blocks_by_hand<Q8_0>(outputs * blocks);
  std::vector<std::int8_t> w;
  std::vector<std::uint16_t> scales;
  for (const Q8_0 &block : file) {
    w.insert(w.end(), std::begin(block.qs), std::end(block.qs));
    scales.push_back(block.d);
  }
  rapt_linear_options o = layer(RAPT_I8, inputs, inputs, outputs, 32);
  o.w_scales = scales.data();
  o.w_scale_type = RAPT_F16;
  const Floats x = identity(inputs);
  on_every_level([&] {
    const Floats y = run(x.data(), w.data(), o);
    for (std::size_t k = 0; k < inputs; ++k) {
      for (std::size_t n = 0; n < outputs; ++n) {
        const Q8_0 &block = file[n * blocks + k / 32];
        CHECK(y[k * outputs + n] == static_cast<float>(F16::of_bits(block.d)) * block.qs[k % 32]);
      }
    }
  });
}

// GGUF's q4_0 is a scale of f16 and 16 bytes: inputs 0 to 15 in the low halves, 16 to 31 in the high ones, each
// with the zero 8.
TEST_CASE("blocks of q4_0 made by hand") {
  constexpr std::size_t inputs = 64, outputs = 5, blocks = inputs / 32;
  struct Q4_0 {
    std::uint16_t d;
    std::uint8_t qs[16];
  };
  const auto file = blocks_by_hand<Q4_0>(outputs * blocks);
  Bytes w(outputs * inputs / 2);
  std::vector<std::uint16_t> scales;
  for (std::size_t b = 0; b < file.size(); ++b) {
    const std::uint8_t *const q = file[b].qs;
    for (std::size_t i = 0; i < 8; ++i) {
      w[b * 16 + i] = static_cast<std::uint8_t>((q[2 * i] & 15) | (q[2 * i + 1] & 15) << 4);
      w[b * 16 + 8 + i] = static_cast<std::uint8_t>(q[2 * i] >> 4 | (q[2 * i + 1] >> 4) << 4);
    }
    scales.push_back(file[b].d);
  }
  rapt_linear_options o = layer(RAPT_U4, inputs, inputs, outputs, 32);  // its zero is 8
  o.w_scales = scales.data();
  o.w_scale_type = RAPT_F16;
  const Floats x = identity(inputs);
  on_every_level([&] {
    const Floats y = run(x.data(), w.data(), o);
    for (std::size_t k = 0; k < inputs; ++k) {
      for (std::size_t n = 0; n < outputs; ++n) {
        const Q4_0 &block = file[n * blocks + k / 32];
        const std::uint8_t byte = block.qs[k % 16];
        const int q = (k % 32 < 16 ? byte & 15 : byte >> 4) - 8;
        CHECK(y[k * outputs + n] == static_cast<float>(F16::of_bits(block.d)) * static_cast<float>(q));
      }
    }
  });
}

// GGUF's q4_1 has a scale d, a least number m and 16 bytes for 32 numbers d q + m: zeros of 0, and offsets.
TEST_CASE("blocks of q4_1 made by hand") {
  constexpr std::size_t inputs = 96, outputs = 66, blocks = 3, rows = 5;
  struct Q4_1 {
    std::uint16_t d, m;
    std::uint8_t qs[16];
  };
  Random random(41);
  std::vector<Q4_1> file(outputs * blocks);
  for (Q4_1 &block : file) {
    block.d = F16(0.01 + 0.01 * random.gaussian()).bits();
    block.m = F16(0.1 * random.gaussian()).bits();
    for (std::uint8_t &q : block.qs) q = static_cast<std::uint8_t>(random.below(256));
  }
  Bytes w(outputs * inputs / 2);
  std::vector<std::uint16_t> scales, offsets;
  for (std::size_t b = 0; b < file.size(); ++b) {
    scales.push_back(file[b].d);
    offsets.push_back(file[b].m);
    for (std::size_t k = 0; k < 32; ++k) {
      const unsigned byte = file[b].qs[k % 16], q = k < 16 ? byte & 15 : byte >> 4;
      w[b * 16 + k / 2] = static_cast<std::uint8_t>(w[b * 16 + k / 2] | q << (k % 2 * 4));
    }
  }
  const Bytes zeros(outputs * blocks);
  Floats x(rows * inputs);
  for (float &number : x) number = static_cast<float>(random.gaussian());
  rapt_linear_options o = layer(RAPT_U4, rows, inputs, outputs, 32);
  o.w_scales = scales.data();
  o.w_offsets = offsets.data();
  o.w_zeros = zeros.data();
  o.w_scale_type = RAPT_F16;
  on_every_level([&] {
    const Floats y = run(x.data(), w.data(), o);
    CHECK(run_packed(x.data(), w.data(), o) == y);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t n = 0; n < outputs; ++n) {
        float t = 0;
        double exact = 0;
        for (std::size_t b = 0; b < blocks; ++b) {
          const Q4_1 &block = file[n * blocks + b];
          const auto d = static_cast<float>(F16::of_bits(block.d)),
                     m = static_cast<float>(F16::of_bits(block.m));
          float p = 0, sum = 0;
          for (std::size_t k = 0; k < 32; ++k) {
            const unsigned byte = block.qs[k % 16], q = k < 16 ? byte & 15 : byte >> 4;
            const float number = x[r * inputs + b * 32 + k];
            p = std::fma(number, static_cast<float>(q), p);
            sum += number;
            exact += double{number} * (double{d} * q + double{m});
          }
          t = std::fma(d, p, t);
          t = std::fma(sum, m, t);
        }
        CHECK(y[r * outputs + n] == t);
        CHECK(std::fabs(double{t} - exact) < 1e-5);
      }
    }
  });
}

// ---- special numbers

// Output n has scale n of the list, and every weight is 3. In the first row of x the sum is 2, in the second 0.
TEST_CASE("special scales and offsets are IEEE's, one output each") {
  constexpr std::size_t inputs = 16, rows = 2;
  const Floats scales = {nan,       infinity,   -infinity, 0.0f,      -0.0f,
                         0x1p-149f, -0x1p-149f, largest,   0x1p-126f, 1.0f};
  const std::size_t outputs = scales.size();
  const std::vector<std::int8_t> w(outputs * inputs, 3);
  Floats x(rows * inputs);
  x[0] = 2;
  x[inputs] = 2;
  x[inputs + 1] = -2;
  rapt_linear_options o = layer(RAPT_I8, rows, inputs, outputs, 16);
  on_every_level([&] {
    for (const int arithmetic : {RAPT_ARITHMETIC_F32, RAPT_ARITHMETIC_I8}) {
      o.arithmetic = arithmetic;
      o.w_offsets = nullptr;
      o.w_scales = scales.data();
      // 127 steps of 2 / 127 are 2 within a rounding.
      const float six = arithmetic == RAPT_ARITHMETIC_I8 ? 381.0f * (2.0f / 127) : 6.0f;
      const float two = arithmetic == RAPT_ARITHMETIC_I8 ? 127.0f * (2.0f / 127) : 2.0f;
      Floats expected, expected_offsets;
      for (std::size_t n = 0; n < outputs; ++n) expected.push_back(std::fma(scales[n], six, 0.0f) + 0.0f);
      for (std::size_t n = 0; n < outputs; ++n) expected.push_back(std::fma(scales[n], 0.0f, 0.0f) + 0.0f);
      CHECK(bits_of_all(run(x.data(), w.data(), o)) == bits_of_all(expected));
      CHECK(bits_of_all(run_packed(x.data(), w.data(), o)) == bits_of_all(expected));
      // Zero times an infinite offset is NaN: the second row's sum of x is 0.
      o.w_scales = nullptr;
      o.w_offsets = scales.data();
      for (std::size_t n = 0; n < outputs; ++n)
        expected_offsets.push_back(std::fma(two, scales[n], six) + 0.0f);
      for (std::size_t n = 0; n < outputs; ++n)
        expected_offsets.push_back(std::fma(0.0f, scales[n], 0.0f) + 0.0f);
      CHECK(bits_of_all(run(x.data(), w.data(), o)) == bits_of_all(expected_offsets));
      CHECK(bits_of_all(run_packed(x.data(), w.data(), o)) == bits_of_all(expected_offsets));
      CHECK(std::isnan(expected_offsets[outputs + 1]));
      CHECK(expected_offsets[outputs + 3] == 0);
    }
  });
}

TEST_CASE("a group of x with NaN or infinity, and groups that are too small") {
  constexpr std::size_t inputs = 40, outputs = 66, rows = 8;
  Floats x(rows * inputs);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 2.5f;
  const Floats usual = x;
  const auto row = [&](std::size_t r) { return x.begin() + static_cast<std::ptrdiff_t>(r * inputs); };
  row(1)[37] = nan;
  row(2)[0] = infinity;
  row(3)[20] = -infinity;
  std::fill(row(4), row(5), -0x1.fffffep-101f);  // below 2^-100
  std::fill(row(5), row(5) + 32, 0x1p-149f);     // only the first group
  std::fill(row(6), row(7), -0.0f);
  const std::vector<std::int8_t> w(outputs * inputs, 5);
  // In row 5 only the last 8 inputs count, which have a group by themselves.
  Floats of_eight(x.begin() + 5 * inputs, x.begin() + 6 * inputs);
  std::fill(of_eight.begin(), of_eight.begin() + 32, 0.0f);
  rapt_linear_options o = layer(RAPT_I8, rows, inputs, outputs, 32);
  on_every_level([&] {
    for (const int arithmetic : {RAPT_ARITHMETIC_F32, RAPT_ARITHMETIC_I8}) {
      o.arithmetic = arithmetic;
      o.rows = 1;
      const float eight = run(of_eight.data(), w.data(), o)[0];
      o.rows = rows;
      const bool in_i8 = arithmetic == RAPT_ARITHMETIC_I8;
      const Floats y = run(x.data(), w.data(), o), of_usual = run(usual.data(), w.data(), o);
      CHECK(bits_of_all(run_packed(x.data(), w.data(), o)) == bits_of_all(y));
      for (std::size_t n = 0; n < outputs; ++n) {
        const auto at = [&](std::size_t r) { return y[r * outputs + n]; };
        CHECK(at(0) == of_usual[n]);
        CHECK(std::isnan(at(1)));
        CHECK((in_i8 ? std::isnan(at(2)) : at(2) == infinity));
        CHECK((in_i8 ? std::isnan(at(3)) : at(3) == -infinity));
        if (in_i8) CHECK(bits_of(at(4)) == bits_of(0.0f));
        if (!in_i8) CHECK(at(4) == -0x1.fffffep-101f * 200);
        CHECK(at(5) == eight);
        CHECK(eight != 0);
        CHECK(bits_of(at(6)) == bits_of(0.0f));
        CHECK(at(7) == of_usual[7 * outputs + n]);
      }
      if (!in_i8) continue;
      // A group of the whole row is spoilt by one number, and one that is small no longer is.
      o.x_group = SIZE_MAX;
      const Floats of_rows = run(x.data(), w.data(), o);
      CHECK(std::isnan(of_rows[1 * outputs]));
      CHECK(of_rows[4 * outputs] == 0);
      o.x_group = 0;
    }
  });
}

TEST_CASE("infinite sums of x spoil nothing without offsets") {
  constexpr std::size_t inputs = 16;
  Floats x(inputs, largest);  // the sum of x overflows, that of products does not
  const std::vector<std::int8_t> w(inputs, 0);
  const float one = 0.5f;
  rapt_linear_options o = layer(RAPT_I8, 1, inputs, 1, 16);
  on_every_level([&] {
    o.w_offsets = nullptr;
    CHECK(bits_of(run(x.data(), w.data(), o)[0]) == bits_of(0.0f));
    o.w_offsets = &one;
    CHECK(run(x.data(), w.data(), o)[0] == infinity);
    const float zero = 0;
    o.w_offsets = &zero;
    CHECK(std::isnan(run(x.data(), w.data(), o)[0]));
  });
}

TEST_CASE("a sum is never -0, and a negative row scale makes it so") {
  constexpr std::size_t inputs = 19, rows = 3, outputs = 65;
  const Floats x(rows * inputs, -0.0f), row_scales(rows, -1.0f), scales(outputs, -1.0f);
  const std::vector<std::int8_t> w(outputs * inputs, 1);
  rapt_linear_options o = layer(RAPT_I8, rows, inputs, outputs, 0);
  o.w_scales = scales.data();
  on_every_level([&] {
    for (const int arithmetic : {RAPT_ARITHMETIC_F32, RAPT_ARITHMETIC_I8}) {
      o.arithmetic = arithmetic;
      o.row_scales = nullptr;
      for (const float y : run(x.data(), w.data(), o)) CHECK(bits_of(y) == bits_of(0.0f));
      o.row_scales = row_scales.data();
      for (const float y : run(x.data(), w.data(), o)) CHECK(bits_of(y) == bits_of(-0.0f));
    }
  });
}

// ---- groups

TEST_CASE("scale groups of 0 and 256 are different sums of more than 256 inputs") {
  constexpr std::size_t rows = 4, outputs = 65;
  Random random(3);
  for (const std::size_t inputs : Sizes{255, 256, 300, 512}) {
    Floats x(rows * inputs), scales;
    for (float &number : x) number = static_cast<float>(random.gaussian());
    Bytes w(outputs * inputs);
    for (std::uint8_t &byte : w) byte = static_cast<std::uint8_t>(random.below(256));
    const std::size_t groups = inputs > 256 ? 2 : 1;
    Floats of_rows, of_groups;
    for (std::size_t n = 0; n < outputs; ++n) {
      const auto scale = static_cast<float>(random.gaussian());
      of_rows.push_back(scale);
      of_groups.insert(of_groups.end(), groups, scale);
    }
    on_every_level([&] {
      rapt_linear_options o = layer(RAPT_I8, rows, inputs, outputs, 0);
      o.w_scales = of_rows.data();
      const Floats by_rows = run(x.data(), w.data(), o);
      o.scale_group = 256;
      o.w_scales = of_groups.data();
      CHECK((run(x.data(), w.data(), o) == by_rows) == (inputs <= 256));
    });
  }
}

// ---- the functions of rows

TEST_CASE("rapt_quantize_rows at its limits") {
  struct Row {
    Floats x;
    std::vector<int> q;
    float scale;
  };
  const float step = 1.0f / 127;
  const Row rows[] = {
      {{0x1p-100f, -0x1p-100f, 0x1p-101f, 0},
       {127, -127, 64, 0},
       0x1p-100f / 127},  // 63.5 becomes the even 64
      {{0x1.fffffep-101f, -0x1.fffffep-101f, 0, 0}, {0, 0, 0, 0}, 0},
      {{0x1p-149f, 0, -0.0f, 0}, {0, 0, 0, 0}, 0},
      {{0, 0, 0, 0}, {0, 0, 0, 0}, 0},
      {{largest, -largest, largest / 2, 0x1p-149f}, {127, -127, 64, 0}, largest / 127},
      {{127, 0.5f, 1.5f, 2.5f}, {127, 0, 2, 2}, 1},
      {{-127, -0.5f, -1.5f, -2.5f}, {-127, 0, -2, -2}, 1},
      {{-254, 1, 3, 5}, {-127, 0, 2, 2}, 2},
      {{1, 0.25f, -0.75f, 0x1p-30f}, {127, 32, -95, 0}, step},
      {{1, nan, 2, 3}, {0, 0, 0, 0}, nan},
      {{0, 0, 0, -nan}, {0, 0, 0, 0}, nan},
      {{1, infinity, 2, 3}, {0, 0, 0, 0}, nan},
      {{1, -infinity, nan, 3}, {0, 0, 0, 0}, nan},
  };
  for (const Row &row : rows) {
    std::int8_t q[4];
    float scale = -7;
    REQUIRE(rapt_quantize_rows(row.x.data(), RAPT_F32, 0, 1, 4, 0, RAPT_I8, q, &scale) == RAPT_OK);
    CAPTURE(row.x[0]);
    CHECK(std::equal(q, q + 4, row.q.begin()));
    CHECK(canonical_bits(scale) == canonical_bits(row.scale));
  }
  // 4 bits: 7 steps, the last high half of an odd row is 0.
  const float x[6] = {7, -7, 0.5f, 1.5f, -2.5f, 14};
  std::uint8_t q[4] = {0xee, 0xee, 0xee, 0xee};
  float scales[2];
  REQUIRE(rapt_quantize_rows(x, RAPT_F32, 0, 1, 5, 0, RAPT_I4, q, scales) == RAPT_OK);
  CHECK(scales[0] == 1);
  CHECK(q[0] == (7 | 9 << 4));  // -7 is 9
  CHECK(q[1] == (0 | 2 << 4));
  CHECK(q[2] == 14);  // -2, and no input
  CHECK(q[3] == 0xee);
  REQUIRE(rapt_quantize_rows(x, RAPT_F32, 0, 2, 3, 0, RAPT_I4, q, scales) == RAPT_OK);
  CHECK(q[2] == (1 | 15 << 4));  // 1.5 / 2 and -2.5 / 2
  CHECK(q[3] == 7);
  CHECK(scales[1] == 2);
}

// Checks the bound of rapt.h in double, in which it has no rounding that counts.
TEST_CASE("the error of rapt_quantize_rows") {
  Random random(12);
  double worst[2] = {};
  for (std::size_t i = 0; i < native_or_emulated<std::size_t>(20000, 500); ++i) {
    Floats x(16);
    for (float &number : x)
      number = std::ldexp(static_cast<float>(random.gaussian()), static_cast<int>(i % 200) - 90);
    for (const bool in_4_bits : {false, true}) {
      std::int8_t q[16];
      float scale, back[16];
      const rapt_type type = in_4_bits ? RAPT_I4 : RAPT_I8;
      REQUIRE(rapt_quantize_rows(x.data(), RAPT_F32, 0, 1, 16, 0, type, q, &scale) == RAPT_OK);
      const float one = 1;
      REQUIRE(rapt_dequantize_rows(q, type, 1, 16, 0, &one, nullptr, nullptr, RAPT_TYPE_DEFAULT, nullptr,
                                   back, RAPT_F32, 0) == RAPT_OK);
      if (scale == 0) continue;
      const double most = 0.5 + (in_4_bits ? 7 : 127) * 0x1p-22;
      for (std::size_t k = 0; k < 16; ++k) {
        const double error = std::fabs(double{back[k]} * scale - x[k]) / scale;
        worst[in_4_bits] = std::max(worst[in_4_bits], error);
        CHECK(error <= most);
      }
    }
  }
  CHECK(worst[0] > 0.49);
  CHECK(worst[1] > 0.49);
}

template <class E, class S>
void check_rows_of(Random &random) {
  constexpr rapt_type type = Api<E>::type;
  for (const rapt_type q_type : {RAPT_I8, RAPT_I4, RAPT_U4, RAPT_U8}) {
    for (const std::size_t group : Sizes{0, 16, 32}) {
      constexpr std::size_t rows = 5, inputs = 35, stride = 37;
      const std::size_t groups = group ? (inputs + group - 1) / group : 1;
      const bool in_bytes = q_type == RAPT_I8 || q_type == RAPT_U8;
      const std::size_t row_bytes = in_bytes ? inputs : (inputs + 1) / 2;
      Bytes w(rows * row_bytes), zeros(rows * groups);
      for (std::uint8_t &byte : w) byte = static_cast<std::uint8_t>(random.below(256));
      for (std::uint8_t &byte : zeros) byte = static_cast<std::uint8_t>(random.below(256));
      std::vector<S> scales(rows * groups), offsets(rows * groups);
      for (S &number : scales) number = S(static_cast<float>(random.gaussian()));
      for (S &number : offsets) number = S(static_cast<float>(random.gaussian()));
      for (const unsigned given : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 10u, 11u}) {
        const bool has_zeros = (given & 4) != 0, has_codebook = (given & 8) != 0;
        if (has_zeros && q_type != RAPT_U4 && q_type != RAPT_U8) continue;
        if (has_codebook && q_type != RAPT_U4) continue;
        const void *const of_scales = given & 1 ? scales.data() : nullptr;
        const void *const of_offsets = given & 2 ? offsets.data() : nullptr;
        // Row r of weights in y, by multiplying with ones. They are rounded in the same places.
        rapt_linear_options o = layer(q_type, inputs, inputs, rows, group);
        o.y_type = type;
        o.w_scales = of_scales;
        o.w_offsets = of_offsets;
        o.w_scale_type = given & 3 ? Api<S>::type : RAPT_TYPE_DEFAULT;
        o.w_zeros = has_zeros ? zeros.data() : nullptr;
        o.w_codebook = has_codebook ? nf4 : nullptr;
        const Floats x = identity(inputs);
        std::vector<E> columns(inputs * rows), y(rows * stride, E(-7.0f));
        std::size_t bytes = 0;
        REQUIRE(rapt_linear_workspace(&o, &bytes) == RAPT_OK);
        std::vector<unsigned char> workspace(bytes);
        REQUIRE(rapt_linear(x.data(), w.data(), columns.data(), &o, workspace.data(), bytes) == RAPT_OK);
        REQUIRE(rapt_dequantize_rows(w.data(), q_type, rows, inputs, group, of_scales, o.w_zeros, of_offsets,
                                     o.w_scale_type, o.w_codebook, y.data(), type, stride) == RAPT_OK);
        for (std::size_t r = 0; r < rows; ++r) {
          for (std::size_t k = 0; k < inputs; ++k)
            CHECK(static_cast<float>(y[r * stride + k]) == static_cast<float>(columns[k * rows + r]));
          if (r + 1 < rows) CHECK(static_cast<float>(y[r * stride + inputs]) == -7);
        }
      }
    }
  }
}

TEST_CASE("rapt_dequantize_rows gives the numbers that rapt_linear multiplies") {
  Random random(5);
  check_rows_of<float, float>(random);
  check_rows_of<F16, float>(random);
  check_rows_of<BF16, float>(random);
  check_rows_of<float, F16>(random);
  check_rows_of<BF16, F16>(random);
  check_rows_of<float, BF16>(random);
}

template <class E>
void check_composition(Random &random) {
  for (std::size_t i = 0; i < native_or_emulated<std::size_t>(40, 6); ++i) {
    const std::size_t rows = 1 + random.below(15), inputs = 1 + random.below(i % 4 == 0 ? 1300 : 200),
                      outputs = 1 + random.below(70);
    const std::size_t group = random.one_of<std::size_t>({0, 16, 32, 128}), fold = group ? group : 512;
    const std::size_t x_group = random.one_of<std::size_t>({0, fold, 2 * fold, 3 * fold, SIZE_MAX});
    std::vector<E> x;
    for (std::size_t j = 0; j < rows * inputs; ++j)
      x.push_back(E(static_cast<float>(
          random.one_in(300) ? nan : random.gaussian() * std::exp(3 * random.gaussian()))));
    Bytes w(outputs * inputs), zeros(outputs * (inputs / 16 + 1));
    for (std::uint8_t &byte : w) byte = static_cast<std::uint8_t>(random.below(256));
    for (std::uint8_t &byte : zeros) byte = static_cast<std::uint8_t>(random.below(256));
    Floats scales(zeros.size()), offsets(zeros.size());
    for (float &number : scales) number = static_cast<float>(random.gaussian());
    for (float &number : offsets) number = static_cast<float>(random.gaussian());
    rapt_linear_options o =
        layer(random.one_of<rapt_type>({RAPT_I8, RAPT_I4, RAPT_U4, RAPT_U8}), rows, inputs, outputs, group);
    o.x_type = Api<E>::type;
    o.y_type = RAPT_F32;
    o.arithmetic = RAPT_ARITHMETIC_I8;
    o.x_group = x_group;
    if (random.one_in(2)) o.w_scales = scales.data();
    if (random.one_in(2)) o.w_offsets = offsets.data();
    const bool may_have_zeros = o.w_type == RAPT_U4 || o.w_type == RAPT_U8;
    if (may_have_zeros && random.one_in(2)) o.w_zeros = zeros.data();
    rapt_linear_options of_integers = o;
    // x_group 0 is the scale group, and a row if that is 0. For rapt_quantize_rows, 0 is a row.
    const std::size_t rows_group = x_group == SIZE_MAX ? 0 : x_group ? x_group : group;
    const std::size_t groups = rows_group ? (inputs + rows_group - 1) / rows_group : 1;
    std::vector<std::int8_t> q(rows * inputs);
    Floats x_scales(rows * groups);
    REQUIRE(rapt_quantize_rows(x.data(), Api<E>::type, 0, rows, inputs, rows_group, RAPT_I8, q.data(),
                               x_scales.data()) == RAPT_OK);
    of_integers.x_type = RAPT_I8;
    of_integers.x_scales = x_scales.data();
    of_integers.arithmetic = random.one_of<int>({RAPT_ARITHMETIC_DEFAULT, RAPT_ARITHMETIC_I8});
    on_every_level([&] {
      const auto expected = bits_of_all(run(q.data(), w.data(), of_integers));
      CHECK(bits_of_all(run(x.data(), w.data(), o)) == expected);
      CHECK(bits_of_all(run_packed(x.data(), w.data(), o)) == expected);
      CHECK(bits_of_all(run_packed(q.data(), w.data(), of_integers)) == expected);
    });
  }
}

TEST_CASE("i8 arithmetic over floats of every type is rapt_quantize_rows and x of i8") {
  Random random(6);
  check_composition<float>(random);
  check_composition<F16>(random);
  check_composition<BF16>(random);
}

// ---- other formats

// The scale of MXFP4 is 2^(e - 127), whose least one is subnormal. 255 is NaN.
TEST_CASE("every scale of MXFP4 is a bf16") {
  const float fp4[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -.5f, -1, -1.5f, -2, -3, -4, -6};
  std::uint8_t q[16];  // all codes twice
  for (unsigned i = 0; i < 16; ++i) q[i] = static_cast<std::uint8_t>(i * 0x11);
  for (unsigned e = 0; e < 256; ++e) {
    const auto scale = static_cast<std::uint16_t>(e == 0 ? 0x40 : e == 255 ? 0x7fc0 : e << 7);
    float numbers[32];
    REQUIRE(rapt_dequantize_rows(q, RAPT_U4, 1, 32, 32, &scale, nullptr, nullptr, RAPT_BF16, fp4, numbers,
                                 RAPT_F32, 0) == RAPT_OK);
    rapt_linear_options o = layer(RAPT_U4, 1, 32, 1, 32);
    o.w_scales = &scale;
    o.w_scale_type = RAPT_BF16;
    o.w_codebook = fp4;
    for (std::size_t k = 0; k < 32; ++k) {
      Floats x(32);
      x[k] = 1;
      const Floats y = run(x.data(), q, o);
      const float expected = e == 255 ? std::numeric_limits<float>::quiet_NaN()
                                      : std::ldexp(fp4[k / 2], static_cast<int>(e) - 127);
      if (e == 255 ? !(std::isnan(y[0]) && std::isnan(numbers[k]))
                   : y[0] != expected || numbers[k] != expected)
        FAIL_CHECK("e = " << e << ", input " << k << ": " << y[0] << " and " << numbers[k]);
    }
  }
}

TEST_CASE("packed blocks take little more than those of the file") {
  const struct {
    rapt_type type;
    std::size_t inputs, bytes;
    double most;
  } files[] = {{RAPT_Q8_0, 32, 34, 1.03},   {RAPT_Q4_0, 32, 18, 1.03},   {RAPT_Q4_1, 32, 20, 1.03},
               {RAPT_Q5_0, 32, 22, 1.03},   {RAPT_Q5_1, 32, 24, 1.03},   {RAPT_Q4_K, 256, 144, 1.03},
               {RAPT_Q5_K, 256, 176, 1.03}, {RAPT_Q6_K, 256, 210, 1.03}, {RAPT_Q2_K, 256, 84, 1.03},
               {RAPT_Q3_K, 256, 110, 1.04}, {RAPT_IQ4_NL, 32, 18, 1.03}, {RAPT_IQ4_XS, 256, 136, 1.03},
               {RAPT_MXFP4, 32, 17, 1.03},  {RAPT_NVFP4, 64, 36, 1.03}};
  for (const auto &file : files) {
    CAPTURE(file.type);
    const rapt_linear_options o = layer(file.type, 1, 1024, 128, 0);
    std::size_t packed = 0;
    REQUIRE(rapt_linear_packed_length(&o, &packed) == RAPT_OK);
    CHECK(static_cast<double>(packed) <=
          file.most * static_cast<double>(128 * 1024 / file.inputs * file.bytes));
  }
}

TEST_CASE("packed numbers of 8 bits take little more than those of the file") {
  for (const rapt_type type : {RAPT_F8_E4M3, RAPT_F8_E5M2})
    for (const std::size_t together : {std::size_t{64}, std::size_t{128}, std::size_t{256}, SIZE_MAX}) {
      CAPTURE(type);
      CAPTURE(together);
      rapt_linear_options o = layer(type, 1, 256, 256, together < SIZE_MAX ? together : 0);
      o.outputs_per_scale = together;
      const Floats scales(16, 1);
      o.w_scales = scales.data();
      std::size_t packed = 0;
      REQUIRE(rapt_linear_packed_length(&o, &packed) == RAPT_OK);
      const std::size_t groups = together < SIZE_MAX ? 256 / together : 1;
      CHECK(static_cast<double>(packed) <= 1.03 * static_cast<double>(256 * 256 + 4 * groups * groups));
    }
}

TEST_CASE("groups of 512 inputs are groups of 256 whose scales are there twice") {
  constexpr std::size_t inputs = 1300, groups = 3;
  Random random(11);
  std::vector<std::int8_t> w(inputs);
  for (std::int8_t &code : w) code = static_cast<std::int8_t>(random.below(256));
  Floats scales(groups), twice(2 * groups), numbers(inputs), expected(inputs);
  for (std::size_t g = 0; g < groups; ++g)
    twice[2 * g] = twice[2 * g + 1] = scales[g] = static_cast<float>(random.gaussian());
  REQUIRE(rapt_dequantize_rows(w.data(), RAPT_I8, 1, inputs, 512, scales.data(), nullptr, nullptr, RAPT_F32,
                               nullptr, expected.data(), RAPT_F32, 0) == RAPT_OK);
  rapt_linear_options o = layer(RAPT_I8, 1, inputs, 1, 256);
  o.w_scales = twice.data();
  for (std::size_t k = 0; k < inputs; k += 7) {
    Floats x(inputs);
    x[k] = 1;
    const Floats y = run(x.data(), w.data(), o);
    if (y[0] != expected[k]) FAIL_CHECK("input " << k);
  }
}

// The integers are the same for every row, and the scales are not.
TEST_CASE("rows of i8 that repeat have scales of their own") {
  constexpr std::size_t inputs = 20;
  const std::vector<std::int8_t> x(inputs, 3), w(inputs, -2);
  const Floats scales = {1, 0.5f, 4};
  rapt_linear_options o = layer(RAPT_I8, 3, inputs, 1, 0);
  o.x_type = RAPT_I8;
  o.x_strides = {RAPT_REPEAT, 1};
  o.x_scales = scales.data();
  const Floats y = run(x.data(), w.data(), o);  // whose type is f32 without being named
  CHECK(y == Floats{-120, -60, -480});
}

// ---- packed parts

TEST_CASE("parts may be packed in any order after the first") {
  constexpr std::size_t inputs = 45, outputs = 200, groups = 3;
  Random random(8);
  Bytes w(outputs * (inputs + 1) / 2), zeros(outputs * groups);
  for (std::uint8_t &byte : w) byte = static_cast<std::uint8_t>(random.below(256));
  for (std::uint8_t &byte : zeros) byte = static_cast<std::uint8_t>(random.below(256));
  std::vector<std::uint16_t> scales(outputs * groups), offsets(outputs * groups);
  for (std::uint16_t &number : scales) number = static_cast<std::uint16_t>(random.below(0x7c00));
  for (std::uint16_t &number : offsets) number = static_cast<std::uint16_t>(random.below(0x7c00));
  rapt_linear_options o = layer(RAPT_U4, 1, inputs, outputs, 16);
  o.w_scales = scales.data();
  o.w_offsets = offsets.data();
  o.w_zeros = zeros.data();
  o.w_scale_type = RAPT_F16;
  std::size_t bytes = 0;
  REQUIRE(rapt_linear_packed_length(&o, &bytes) == RAPT_OK);
  Bytes whole(bytes, 0x55), parts(bytes, 0xaa);
  REQUIRE(rapt_linear_pack(w.data(), 0, outputs, &o, whole.data(), bytes) == RAPT_OK);
  for (const std::size_t first : Sizes{0, 128, 192, 64}) {
    rapt_linear_options part = o;
    part.w_scales = scales.data() + first * groups;
    part.w_offsets = offsets.data() + first * groups;
    part.w_zeros = zeros.data() + first * groups;
    const std::uint8_t *const from = w.data() + first * (inputs + 1) / 2;
    const Bytes before = parts;
    REQUIRE(rapt_linear_pack(from, first, 0, &part, parts.data(), bytes) == RAPT_OK);
    CHECK(parts == before);
    const std::size_t count = std::min<std::size_t>(64, outputs - first);
    REQUIRE(rapt_linear_pack(from, first, count, &part, parts.data(), bytes) == RAPT_OK);
    if (first == 128) {  // it wrote only its own 64 outputs
      const auto block = static_cast<std::ptrdiff_t>((bytes - 64) / 4);
      const auto is_untouched = [](std::uint8_t byte) { return byte == 0xaa; };
      CHECK(std::all_of(parts.begin() + 64 + block, parts.begin() + 64 + 2 * block, is_untouched));
      CHECK(std::all_of(parts.end() - block, parts.end(), is_untouched));
    }
  }
  CHECK(parts == whole);
}

}  // namespace
}  // namespace rapt::test
