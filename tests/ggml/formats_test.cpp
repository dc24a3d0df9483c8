// Tests rows of ggml's types: what their blocks mean, for every scale, against the layouts' definitions and
// against the host's own functions; what is lost by rounding to them; special values, and what is written.
#include "ggml/formats.hpp"

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ggml/host_types.hpp"
#include "oracle/file_blocks.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

using namespace oracle;
using namespace rapt_ggml;
using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// A type of blocks. The places of halves, and of other bytes that decide scales, are those of the layouts.
struct Type {
  ggml_type type;
  FileType file;
  const char *name;
  std::size_t elements, bytes;
  std::vector<std::size_t> halves;  // all of them scales or offsets
};
const std::vector<Type> types = {
    {GGML_TYPE_Q8_0, FileType::q8_0, "Q8_0", 32, 34, {0}},
    {GGML_TYPE_Q4_0, FileType::q4_0, "Q4_0", 32, 18, {0}},
    {GGML_TYPE_Q4_1, FileType::q4_1, "Q4_1", 32, 20, {0, 2}},
    {GGML_TYPE_Q5_0, FileType::q5_0, "Q5_0", 32, 22, {0}},
    {GGML_TYPE_Q5_1, FileType::q5_1, "Q5_1", 32, 24, {0, 2}},
    {GGML_TYPE_Q2_K, FileType::q2_k, "Q2_K", 256, 84, {80, 82}},
    {GGML_TYPE_Q3_K, FileType::q3_k, "Q3_K", 256, 110, {108}},
    {GGML_TYPE_Q4_K, FileType::q4_k, "Q4_K", 256, 144, {0, 2}},
    {GGML_TYPE_Q5_K, FileType::q5_k, "Q5_K", 256, 176, {0, 2}},
    {GGML_TYPE_Q6_K, FileType::q6_k, "Q6_K", 256, 210, {208}},
    {GGML_TYPE_IQ4_NL, FileType::iq4_nl, "IQ4_NL", 32, 18, {0}},
    {GGML_TYPE_IQ4_XS, FileType::iq4_xs, "IQ4_XS", 256, 136, {0}},
    {GGML_TYPE_MXFP4, FileType::mxfp4, "MXFP4", 32, 17, {}},
    {GGML_TYPE_NVFP4, FileType::nvfp4, "NVFP4", 64, 36, {}},
};

// The elements and bytes of a block, or of a number.
BlockSize size_of_type(ggml_type type) {
  for (const Type &one : types) {
    if (one.type == type) return {one.elements, one.bytes, 0};
  }
  return {1, type == GGML_TYPE_F32 ? 4U : 2U, 0};
}

template <class Body>
void for_each_type(bool (*can)(ggml_type), Body &&body) {
  for (const Type &type : types) {
    if (!can(type.type)) continue;
    CAPTURE(std::string(type.name));
    body(type);
  }
}

enum class Scales { finite, any };

// Returns a row of random blocks. Each half has every pattern once, in an order of its own. Other scales are
// bytes, so a random row has all of them.
Bytes random_row(const Type &type, Scales scales) {
  constexpr std::size_t patterns = 1 << 16;
  Random random(static_cast<std::uint64_t>(type.type) + 1);
  const std::size_t blocks = native_or_emulated<std::size_t>(patterns, 512);
  Bytes row(blocks * type.bytes);
  for (std::uint8_t &byte : row) byte = static_cast<std::uint8_t>(random.next() >> 56);
  for (std::size_t block = 0; block < blocks; ++block) {
    std::size_t odd = 40503;  // odd factors leave no pattern out
    for (const std::size_t place : type.halves) {
      std::size_t half = block * odd % patterns;
      odd += 2;
      if (scales == Scales::finite && (half & 0x7c00) == 0x7c00) half ^= 0x4000;
      row[block * type.bytes + place] = static_cast<std::uint8_t>(half & 255);
      row[block * type.bytes + place + 1] = static_cast<std::uint8_t>(half >> 8);
    }
  }
  return row;
}

Floats decode(ggml_type type, const Bytes &row) {
  const BlockSize size = size_of_type(type);
  Floats y(row.size() / size.bytes * size.inputs, -7);
  decode_row(type, row.data(), y.size(), y.data());
  return y;
}

Bytes encode(ggml_type type, const Floats &x) {
  const BlockSize size = size_of_type(type);
  Bytes row(x.size() / size.inputs * size.bytes, 0xa5);
  encode_row(type, x.data(), x.size(), row.data());
  return row;
}

template <class T>
std::size_t differences(const std::vector<T> &a, const std::vector<T> &b) {
  std::size_t count = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if constexpr (std::is_same_v<T, float>) {
      count += !same_bits(a[i], b[i]);
    } else {
      count += a[i] != b[i];
    }
  }
  return count;
}

// ---- what blocks mean -------------------------------------------------------------------------------------

TEST_CASE("decoded blocks have the numbers of the layouts, for every scale") {
  for_each_type(can_decode, [](const Type &type) {
    const Bytes row = random_row(type, Scales::any);
    const Floats y = decode(type.type, row);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const BlockElement element =
          element_of_block(type.file, &row[i / type.elements * type.bytes], i % type.elements);
      wrong += y[i] != element.number() && !(std::isnan(y[i]) && std::isnan(element.number()));
    }
    CHECK(wrong == 0);
  });
}

// ggml computes integer * scale + offset too. A compiler that fuses the two, as it may for arm64, is
// accepted.
TEST_CASE("decoded blocks have the bits of the host's own function") {
  if (!has_host_types("the host's functions")) return;
  for_each_type(can_decode, [](const Type &type) {
    const Bytes row = random_row(type, Scales::finite);
    const Floats y = decode(type.type, row);
    Floats host(y.size()), fused(y.size());
    host_type(type.type).to_float(row.data(), host.data(), static_cast<std::int64_t>(host.size()));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const BlockElement element =
          element_of_block(type.file, &row[i / type.elements * type.bytes], i % type.elements);
      fused[i] = std::fma(static_cast<float>(element.integer), element.scale, element.offset);
    }
    const std::size_t wrong = differences(y, host);
    const bool host_fuses = wrong > 0 && differences(fused, host) == 0;
    CHECK((wrong == 0 || host_fuses));
  });
}

TEST_CASE("floats are decoded and encoded by rapt's conversions") {
  Random random(3);
  Floats x, want(300);
  for (std::size_t i = 0; i < 300; ++i)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random.next() >> 32)));
  CHECK(differences(decode(GGML_TYPE_F32, encode(GGML_TYPE_F32, x)), x) == 0);
  std::vector<std::uint16_t> elements(300);
  rapt_convert_f32_to_f16(x.data(), elements.data(), 300);
  rapt_convert_f16_to_f32(elements.data(), want.data(), 300);
  CHECK(differences(decode(GGML_TYPE_F16, encode(GGML_TYPE_F16, x)), want) == 0);
  rapt_convert_f32_to_bf16(x.data(), elements.data(), 300);
  rapt_convert_bf16_to_f32(elements.data(), want.data(), 300);
  CHECK(differences(decode(GGML_TYPE_BF16, encode(GGML_TYPE_BF16, x)), want) == 0);
}

// ---- which types there are --------------------------------------------------------------------------------

TEST_CASE("what is known of each type") {
  std::string decoded, encoded, blocks;
  for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
    const auto type = static_cast<ggml_type>(number);
    const std::string word = std::string(" ").append(std::to_string(number));
    if (can_decode(type)) decoded += word;
    if (can_encode(type)) encoded += word;
    const auto known = blocks_of(type);
    if (known) blocks += word + ":" + std::to_string(known->type) + "/" + std::to_string(known->group);
    CHECK((float_type(type) || known) == can_decode(type));
  }
  CHECK(decoded == " 0 1 2 3 6 7 8 10 11 12 13 14 20 23 30 39 40");
  CHECK(encoded == " 0 1 2 3 6 7 8 20 30");
  CHECK(
      blocks ==
      " 2:9/32 3:10/32 6:11/32 7:12/32 8:8/32 10:16/16 11:17/16 12:13/32 13:14/32 14:15/16 20:18/32 23:19/32"
      " 39:20/32 40:21/16");
  CHECK(float_type(GGML_TYPE_F32) == RAPT_F32);
  CHECK(float_type(GGML_TYPE_F16) == RAPT_F16);
  CHECK(float_type(GGML_TYPE_BF16) == RAPT_BF16);
  for (const ggml_type other :
       {GGML_TYPE_IQ2_XS, GGML_TYPE_IQ1_S, GGML_TYPE_TQ1_0, GGML_TYPE_I32, GGML_TYPE_COUNT}) {
    CHECK(!blocks_of(other));
    CHECK(!can_decode(other));
    CHECK(!can_encode(other));
  }
}

TEST_CASE("the host has the same sizes of blocks") {
  if (!has_host_types("the host's sizes")) return;
  for (const Type &type : types) {
    CAPTURE(std::string(type.name));
    CHECK(type.elements == static_cast<std::size_t>(host_type(type.type).blck_size));
    CHECK(type.bytes == host_type(type.type).type_size);
  }
}

// ---- what is lost -----------------------------------------------------------------------------------------

bool encodes_blocks(ggml_type type) { return can_encode(type) && !float_type(type); }

struct Numbers {
  const char *name;
  std::function<double(Random &, std::size_t)> draw;  // of element i of the row
};

float multiple_of_half(Random &r, int limit) {
  return static_cast<float>(r.below(static_cast<std::size_t>(4 * limit + 1))) / 2 - static_cast<float>(limit);
}

// Where scales are 1, which is the case in blocks that have their type's extreme, elements are ties.
template <int limit>
double tie(Random &r, std::size_t) {
  return double{multiple_of_half(r, limit)};
}

template <int limit>
double beside_tie(Random &r, std::size_t) {
  const float number = multiple_of_half(r, limit);
  return double{r.one_in(3) ? number : std::nextafter(number, r.one_in(2) ? 0.0f : 2 * number)};
}

template <int limit>
double positive_tie(Random &r, std::size_t) {
  return static_cast<double>(r.below(2 * limit + 1)) / 2;
}

constexpr int iq4_values[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

const Numbers all_numbers[] = {
    {"normal", [](Random &r, auto) { return r.gaussian(); }},
    {"uniform", [](Random &r, auto) { return 2 * r.uniform() - 1; }},
    {"outliers", [](Random &r, auto) { return r.gaussian() * (r.one_in(40) ? 30 : 1); }},
    {"one outlier", [](Random &r, auto i) { return r.gaussian() * (i % 32 == i / 32 % 32 ? 1000 : 1); }},
    {"one sign", [](Random &r, auto) { return -3 - r.uniform(); }},
    {"far from 0", [](Random &r, auto) { return 100 + r.uniform(); }},
    {"large", [](Random &r, auto) { return 60000 * (2 * r.uniform() - 1); }},
    {"small", [](Random &r, auto) { return 1e-4 * r.gaussian(); }},
    {"smaller", [](Random &r, auto) { return 1e-6 * r.gaussian(); }},
    {"tiny", [](Random &r, auto) { return 1e-12 * r.gaussian(); }},
    {"near IQ4_NL's limit", [](Random &r, auto) { return 1e-15 * (r.uniform() + 0.01); }},
    {"few", [](Random &r, auto) { return r.one_in(20) ? r.gaussian() : 0.0; }},
    {"integers", [](Random &r, auto) { return static_cast<double>(r.below(17)) - 8; }},
    {"both signs", [](Random &r, auto) { return r.one_in(2) ? 1.0 : -1.0; }},
    {"constants",
     [](Random &, auto i) { return (i % 64 < 32 ? 1 : -1) * static_cast<double>(i / 32 + 1) / 7; }},
    {"zeros", [](Random &r, auto) { return r.one_in(2) ? 0.0 : -0.0; }},
    {"zeros first", [](Random &r, auto) { return r.one_in(3)   ? r.uniform()
                                                 : r.one_in(2) ? 0.0
                                                               : -0.0; }},
    {"subnormal", [](Random &r, auto) { return 0x1p-130 * r.gaussian(); }},
    {"of a few bits",
     [](Random &r, auto) { return 0x1p-149 * static_cast<double>(r.below(41)) - 0x1.4p-145; }},
    {"subnormal scales", [](Random &r, auto) { return 0x1p-125 * r.gaussian(); }},
    // The scales' last bits, which depend on the order of the sums, decide what f16 rounds them to.
    {"scales of IQ4_NL between two halves",
     [](Random &r, auto) { return (1 + 0x1p-11) * iq4_values[r.below(16)]; }},
    {"ties of Q8_0, IQ4_NL", tie<127>},
    {"ties of Q4_0", tie<8>},
    {"ties of Q5_0", tie<16>},
    {"ties of Q4_1", positive_tie<15>},
    {"ties of Q5_1", positive_tie<31>},
    {"beside ties of Q8_0, IQ4_NL", beside_tie<127>},
    {"beside ties of Q4_0", beside_tie<8>},
    {"beside ties of Q5_0", beside_tie<16>},
};
const Numbers too_large[] = {
    {"near the largest scales", [](Random &r, auto) { return 2e6 * r.gaussian(); }},
    {"near the largest scale of Q8_0, IQ4_NL", [](Random &r, auto) { return 8.4e6 * (2 * r.uniform() - 1); }},
    {"near the largest offset",
     [](Random &r, auto i) { return 65518 + static_cast<double>(i / 32 % 4) + r.uniform(); }},
    {"huge", [](Random &r, auto) { return 1e25 * r.gaussian(); }},
    {"largest", [](Random &r, auto) { return double{FLT_MAX} * (2 * r.uniform() - 1); }},
};

Floats drawn(const Numbers &numbers, std::size_t n) {
  Random random(n);
  Floats x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(numbers.draw(random, i));
  return x;
}

// What a block's elements are divided by, and the offset, before they are rounded to f16, from the
// definitions in formats.hpp.
struct Unrounded {
  double step, offset = 0;
};
Unrounded unrounded(ggml_type type, const float *x) {
  double extreme = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    if (std::abs(double{x[i]}) > std::abs(extreme)) extreme = double{x[i]};
  }
  const double smallest = double{*std::min_element(x, x + 32)},
               largest = double{*std::max_element(x, x + 32)};
  switch (type) {
    case GGML_TYPE_Q8_0:
      return {std::abs(extreme) / 127};
    case GGML_TYPE_Q4_0:
      return {extreme / -8};
    case GGML_TYPE_Q5_0:
      return {extreme / -16};
    case GGML_TYPE_IQ4_NL:
      return {extreme / -127};
    default:
      return {(largest - smallest) / (type == GGML_TYPE_Q4_1 ? 15 : 31), smallest};
  }
}

// Returns the integer of this type that is nearest to y.
double nearest_integer(ggml_type type, double y) {
  if (type != GGML_TYPE_IQ4_NL) {
    const double last = type == GGML_TYPE_Q4_0 ? 7 : type == GGML_TYPE_Q5_0 ? 15 : 127;
    return std::min(std::round(y), last);
  }
  double nearest = infinity;
  for (const int value : iq4_values) {
    if (std::abs(value - y) < std::abs(nearest - y)) nearest = value;
  }
  return nearest;
}

double rounding_of_half(double x) { return std::abs(x) * 0x1p-11 + 0x1p-25; }

// Scales that f16 rounds to 0 are left out: what their codes are does not matter.
TEST_CASE("each element gets the code nearest to the unrounded scale's, and scales are rounded once") {
  for_each_type(encodes_blocks, [](const Type &type) {
    for (const Numbers &numbers : all_numbers) {
      CAPTURE(std::string(numbers.name));
      const Floats x = drawn(numbers, 32 * 64);
      const Bytes row = encode(type.type, x);
      std::size_t wrong_scale = 0, wrong_offset = 0, not_nearest = 0, too_far = 0;
      for (std::size_t block = 0; block < x.size() / 32; ++block) {
        const Unrounded want = unrounded(type.type, &x[block * 32]);
        if (std::abs(want.step) < 0x1p-26) continue;
        double step = want.step, product = 0, square = 0;
        for (std::size_t i = 0; i < 32; ++i) {
          const double number = double{x[block * 32 + i]};
          const BlockElement element = element_of_block(type.file, &row[block * type.bytes], i);
          const double y = (number - want.offset) / want.step, integer = element.integer;
          not_nearest += std::abs(integer - y) > std::abs(nearest_integer(type.type, y) - y) + 0x1p-14;
          product += number * number * number * integer;
          square += number * number * integer * integer;
        }
        if (type.type == GGML_TYPE_IQ4_NL) step = product / square;
        for (std::size_t i = 0; i < 32; ++i) {
          const BlockElement element = element_of_block(type.file, &row[block * type.bytes], i);
          const double number = double{x[block * 32 + i]}, scale = double{element.scale};
          wrong_scale += std::abs(scale - step) > rounding_of_half(step) + std::abs(step) * 0x1p-18;
          wrong_offset += std::abs(double{element.offset} - want.offset) > rounding_of_half(want.offset);
          const bool largest = (type.type == GGML_TYPE_Q4_0 && element.integer == 7) ||
                               (type.type == GGML_TYPE_Q5_0 && element.integer == 15);
          const double bound = std::abs(step) * (largest ? 1 : 0.5) * (1 + 0x1p-14) +
                               std::abs(element.integer) * std::abs(scale - step) +
                               std::abs(double{element.offset} - want.offset);
          const double decoded = scale * element.integer + double{element.offset};
          if (type.type != GGML_TYPE_IQ4_NL) too_far += std::abs(decoded - number) > bound * (1 + 0x1p-20);
        }
      }
      CHECK(wrong_scale == 0);
      CHECK(wrong_offset == 0);
      CHECK(not_nearest == 0);
      CHECK(too_far == 0);
    }
  });
}

// Compilers may fuse operations of the host's encoder, as they do for arm64, and blocks are not defined there
// if 1 / d overflows. ggml does not set the codes of IQ4_NL below its limit.
#ifdef __x86_64__
TEST_CASE("encoded blocks have the bytes of the host's reference") {
  if (!has_host_types("the host's encoders")) return;
  for_each_type(encodes_blocks, [](const Type &type) {
    const auto check = [&](const Numbers &numbers) {
      CAPTURE(std::string(numbers.name));
      const Floats x = drawn(numbers, 32 * native_or_emulated<std::size_t>(8192, 64));
      const Bytes row = encode(type.type, x);
      Bytes host(row.size());
      host_type(type.type).from_float_ref(x.data(), host.data(), static_cast<std::int64_t>(x.size()));
      std::size_t wrong = 0;
      for (std::size_t block = 0; block < row.size(); block += type.bytes) {
        bool finite = true, nans = true;
        for (const std::size_t place : type.halves) {
          const auto half_of = [&](const Bytes &bytes) {
            return number_of_half(bytes[block + place] | bytes[block + place + 1] * 256U);
          };
          finite = finite && std::isfinite(half_of(host));
          nans = nans && std::isnan(half_of(row));
        }
        const float *first = &x[block / type.bytes * 32];
        const bool no_codes =
            type.type == GGML_TYPE_IQ4_NL &&
            std::all_of(first, first + 32, [](float number) { return std::abs(number) < 1e-15f; });
        wrong += finite ? std::memcmp(&row[block], &host[block], no_codes ? 2 : type.bytes) != 0 : !nans;
      }
      CHECK(wrong == 0);
    };
    for (const Numbers &numbers : all_numbers) check(numbers);
    for (const Numbers &numbers : too_large) check(numbers);
  });
}
#endif

// Numbers that a block has exactly, its extreme among them, come back.
TEST_CASE("decoded blocks are encoded as they were") {
  for_each_type(encodes_blocks, [](const Type &type) {
    const Floats x = decode(type.type, encode(type.type, drawn(all_numbers[0], 32 * 256)));
    const Floats again = decode(type.type, encode(type.type, x));
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      worst = std::max(worst, std::abs(double{x[i]} - double{again[i]}));
      largest = std::max(largest, std::abs(double{x[i]}));
    }
    CHECK(worst <= largest * 0.002);  // a scale may have been rounded to its neighbour
  });
}

// The same on every CPU and with every compiler.
TEST_CASE("published bits of encoded rows") {
  std::string hashes;
  for_each_type(encodes_blocks, [&](const Type &type) {
    std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
    for (const Numbers &numbers : all_numbers) {
      for (const std::uint8_t byte : encode(type.type, drawn(numbers, 32 * 256)))
        hash = (hash ^ byte) * 0x100000001b3U;
    }
    hashes.append(type.name).append(" ").append(hex(hash, 8)).append("\n");
  });
  CHECK(hashes ==
        "Q8_0 0x3c1175f92e5912e5\n"
        "Q4_0 0x841899621daea3af\n"
        "Q4_1 0x51221cf4831eb157\n"
        "Q5_0 0xee5f153a1de9140f\n"
        "Q5_1 0x5322144b23107835\n"
        "IQ4_NL 0xeba0ac46937c902c\n");
}

// ---- special values ---------------------------------------------------------------------------------------

TEST_CASE("a block with an infinity or a NaN is NaN, and its neighbours are not") {
  for_each_type(encodes_blocks, [](const Type &type) {
    for (const float special :
         {nan, -nan, std::bit_cast<float>(0x7f800001U), infinity, -infinity, FLT_MAX, -FLT_MAX}) {
      for (std::size_t at = 0; at < 32; ++at) {
        Floats x = drawn(all_numbers[0], 96);
        x[32 + at] = special;
        const Bytes row = encode(type.type, x);
        const Floats y = decode(type.type, row);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < 96; ++i) wrong += std::isnan(y[i]) != (i / 32 == 1);
        CHECK(wrong == 0);
        const BlockElement element = element_of_block(type.file, &row[type.bytes], 0);
        CHECK(std::isnan(element.scale));
        if (has_offsets(type.file)) CHECK(std::isnan(element.offset));
      }
    }
  });
}

TEST_CASE("the largest scales") {
  const auto alone = [](ggml_type type, float number, std::size_t at = 9) {
    Floats x(32);
    x[at] = number;
    return decode(type, encode(type, x))[at];
  };
  CHECK(alone(GGML_TYPE_Q8_0, 127 * 65504.0f) == 127 * 65504.0f);
  CHECK(std::isnan(alone(GGML_TYPE_Q8_0, 127 * 65520.0f)));
  for (const float sign : {1.0f, -1.0f}) {
    CHECK(alone(GGML_TYPE_Q4_0, sign * 8 * 65504.0f) == sign * 8 * 65504.0f);
    CHECK(std::isnan(alone(GGML_TYPE_Q4_0, sign * 8 * 65520.0f)));
    CHECK(alone(GGML_TYPE_Q5_0, sign * 16 * 65504.0f) == sign * 16 * 65504.0f);
    CHECK(std::isnan(alone(GGML_TYPE_Q5_0, sign * 16 * 65520.0f)));
    CHECK(alone(GGML_TYPE_IQ4_NL, sign * 127 * 65504.0f) == sign * 127 * 65504.0f);
    CHECK(std::isnan(alone(GGML_TYPE_IQ4_NL, sign * 127 * 65520.0f)));
  }
  CHECK(alone(GGML_TYPE_Q4_1, 15 * 65504.0f) == 15 * 65504.0f);
  CHECK(std::isnan(alone(GGML_TYPE_Q4_1, 15 * 65520.0f)));
  CHECK(alone(GGML_TYPE_Q4_1, -65504.0f) == -65504.0f);
  CHECK(std::isnan(alone(GGML_TYPE_Q4_1, -65520.0f)));
  CHECK(alone(GGML_TYPE_Q5_1, 31 * 65504.0f) == 31 * 65504.0f);
  CHECK(std::isnan(alone(GGML_TYPE_Q5_1, 31 * 65520.0f)));
}

TEST_CASE("zeros become zeros, and numbers too small for a scale become 0") {
  for_each_type(encodes_blocks, [](const Type &type) {
    for (const float number : {0.0f, -0.0f, FLT_TRUE_MIN, -FLT_TRUE_MIN, FLT_MIN, 1e-20f}) {
      CAPTURE(number);
      const Floats y = decode(type.type, encode(type.type, Floats(32, number)));
      for (const float decoded : y) CHECK(std::abs(decoded - number) <= 0x1p-24f);
      if (number == 0) CHECK(*std::max_element(y.begin(), y.end()) == 0);
    }
  });
}

TEST_CASE("where both signs have the largest magnitude, the first is exact") {
  for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q5_0}) {
    for (const float first : {-2.0f, 2.0f}) {
      Floats x(32);
      x[3] = first;
      x[20] = -first;
      const Floats y = decode(type, encode(type, x));
      CHECK(y[3] == first);
      CHECK(y[20] == -first * (type == GGML_TYPE_Q4_0 ? 7.0f / 8 : 15.0f / 16));
      CHECK(y[0] == 0);
    }
  }
}

// ---- what is written --------------------------------------------------------------------------------------

// Rows of 0, 1 and more blocks, at odd addresses.
TEST_CASE("rows of all lengths, and nothing but the row is written") {
  for_each_type(can_decode, [](const Type &type) {
    const Bytes all = random_row(type, Scales::finite);
    const Floats whole = decode(type.type, all);
    for (const std::size_t blocks : Sizes{0, 1, 2, 7, 8, 9, 63, 64, 65, 130}) {
      CAPTURE(blocks);
      const std::size_t n = blocks * type.elements, bytes = blocks * type.bytes;
      Bytes row(bytes + 1);
      std::copy_n(all.begin(), bytes, row.begin() + 1);
      Floats y(n + 1, -7);
      decode_row(type.type, row.data() + 1, n, y.data());
      CHECK(y[n] == -7);
      y.pop_back();
      CHECK(differences(y, Floats(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n))) == 0);

      if (can_encode(type.type)) {
        Bytes again(bytes + 2, 0xa5);
        encode_row(type.type, y.data(), n, again.data() + 1);
        CHECK(again.front() == 0xa5);
        CHECK(again.back() == 0xa5);
        CHECK(differences(Bytes(again.begin() + 1, again.end() - 1), encode(type.type, y)) == 0);
      }
    }
  });
}

}  // namespace
}  // namespace rapt::test
