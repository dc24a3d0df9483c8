// Tests rapt_linear_pack_words: words of GPTQ and AWQ, of 2, 3, 4 and 8 bits, written here by the formats' definitions,
// become the packed bytes of the same plain integers. Sorted inputs have their order. Each bad argument has its status.
// Rows of MatMulNBits are packed as they are.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <numeric>
#include <vector>

#include "rapt/rapt.h"
#include "support/random.hpp"

namespace rapt::test {
namespace {

using Bytes = std::vector<unsigned char>;

// What a format means for the words of a type.
struct Format {
  rapt_type type;
  int format;
  unsigned bits;
  bool is_awq, is_v1;
};
constexpr Format formats[] = {
    {RAPT_U4, RAPT_WORDS_GPTQ, 4, false, true},          {RAPT_U4, RAPT_WORDS_GPTQ_V2, 4, false, false},
    {RAPT_U4, RAPT_WORDS_AWQ, 4, true, false},           {RAPT_U4, RAPT_WORDS_GPTQ_2BIT, 2, false, true},
    {RAPT_U4, RAPT_WORDS_GPTQ_V2_2BIT, 2, false, false}, {RAPT_U4, RAPT_WORDS_GPTQ_3BIT, 3, false, true},
    {RAPT_U4, RAPT_WORDS_GPTQ_V2_3BIT, 3, false, false}, {RAPT_U8, RAPT_WORDS_GPTQ, 8, false, true},
    {RAPT_U8, RAPT_WORDS_GPTQ_V2, 8, false, false},
};

// Packs integers as files do. Those of 3 bits are 10 to a word; number 10 and number 21 of 32 are in two words.
std::vector<std::uint32_t> words_of(const std::vector<unsigned> &integers, const Format &format) {
  std::vector<std::uint32_t> words;
  constexpr std::size_t awq[] = {0, 2, 4, 6, 1, 3, 5, 7};
  if (format.bits != 3) {
    const std::size_t count = 32 / format.bits;
    for (std::size_t first = 0; first < integers.size(); first += count) {
      words.push_back(0);
      for (std::size_t i = 0; i < count; ++i)
        words.back() |= integers[first + (format.is_awq ? awq[i] : i)] << format.bits * i;
    }
    return words;
  }
  for (std::size_t first = 0; first < integers.size(); first += 32) {
    const unsigned *const q = &integers[first];
    std::uint32_t three[3] = {};
    for (std::size_t i = 0; i < 10; ++i) {
      three[0] |= q[i] << 3 * i;
      three[1] |= q[11 + i] << (3 * i + 1);
      three[2] |= q[22 + i] << (3 * i + 2);
    }
    three[0] |= q[10] << 30;
    three[1] |= q[10] >> 2 & 1;
    three[1] |= q[21] << 31;
    three[2] |= q[21] >> 1 & 3;
    words.insert(words.end(), three, three + 3);
  }
  return words;
}

struct File {
  rapt_linear_options o{};
  Format format;
  std::size_t groups = 0;
  std::vector<unsigned> q, zeros;  // [outputs][inputs] in the file's order, and [outputs][groups]
  std::vector<std::int32_t> qweight, qzeros, g_idx;
  Bytes scales;  // [groups][outputs]
  std::vector<std::size_t> order;

  explicit File(Random &random) : File(random, formats[random.below(std::size(formats))]) {}
  File(Random &random, const Format &given) : format(given) {
    o.size = sizeof o;
    o.w_type = format.type;
    o.scale_group = random.one_of<std::size_t>({0, 16, 32, 64, 128});
    const std::size_t unit = unit_of(), most = 320 / unit;
    const std::size_t n = o.out_features = unit * (1 + random.below(most / 2)),
                      k = o.in_features = unit * (1 + random.below(most));
    o.w_scale_type = random.one_of({RAPT_F32, RAPT_F16, RAPT_BF16});
    groups = o.scale_group ? (k + o.scale_group - 1) / o.scale_group : 1;
    const unsigned count = 1U << format.bits;
    for (std::size_t i = 0; i < n * k; ++i) q.push_back(static_cast<unsigned>(random.below(count)));
    // A zero of 256 is refused.
    for (std::size_t i = 0; i < n * groups; ++i)
      zeros.push_back(std::min(static_cast<unsigned>(random.below(count)) + (format.is_v1 ? 1 : 0), 255U));
    scales.resize(groups * n * (o.w_scale_type == RAPT_F32 ? 4 : 2));
    for (unsigned char &byte : scales) byte = static_cast<unsigned char>(random.below(256));
    write_words();
    if (random.one_in(2)) draw_order(random);
  }

  std::size_t unit_of() const { return format.bits == 3 ? 32 : 32 / format.bits; }
  void write_words() {
    const std::size_t n = o.out_features, k = o.in_features;
    // The words of a row of outputs follow each other, and so do those of an output's inputs, which then are columns.
    const std::size_t lines = format.is_awq ? k : n;
    std::vector<std::vector<std::uint32_t>> of_lines;
    for (std::size_t line = 0; line < lines; ++line) {
      std::vector<unsigned> integers;
      for (std::size_t i = 0; i < n * k / lines; ++i)
        integers.push_back(format.is_awq ? q[i * k + line] : q[line * k + i]);
      of_lines.push_back(words_of(integers, format));
    }
    for (std::size_t i = 0; i < of_lines.size() * of_lines[0].size(); ++i) {
      const std::size_t words = of_lines[0].size();
      qweight.push_back(static_cast<std::int32_t>(format.is_awq ? of_lines[i / words][i % words]
                                                                : of_lines[i % lines][i / lines]));
    }
    for (std::size_t g = 0; g < groups; ++g) {
      std::vector<unsigned> integers;
      for (std::size_t output = 0; output < n; ++output)
        integers.push_back(zeros[output * groups + g] - (format.is_v1 ? 1 : 0));
      for (const std::uint32_t word : words_of(integers, format))
        qzeros.push_back(static_cast<std::int32_t>(word));
    }
  }
  // Gives the inputs groups in any order.
  void draw_order(Random &random) {
    const std::size_t k = o.in_features, group = o.scale_group ? o.scale_group : k;
    for (std::size_t i = 0; i < k; ++i) g_idx.push_back(static_cast<std::int32_t>(i / group));
    for (std::size_t i = k; i-- > 1;) std::swap(g_idx[i], g_idx[random.below(i + 1)]);
    order.assign(k, 77);
  }

  Bytes expected() const {
    const std::size_t n = o.out_features, k = o.in_features, size = scales.size() / (groups * n);
    std::vector<std::size_t> from(k);
    std::iota(from.begin(), from.end(), std::size_t{0});
    if (!g_idx.empty())
      std::stable_sort(from.begin(), from.end(), [&](auto a, auto b) { return g_idx[a] < g_idx[b]; });
    if (!g_idx.empty()) CHECK(from == order);
    const bool in_bytes = format.bits == 8;
    Bytes plain(in_bytes ? n * k : n * k / 2), plain_scales(scales.size()), plain_zeros(n * groups);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; in_bytes && j < k; ++j)
        plain[i * k + j] = static_cast<unsigned char>(q[i * k + from[j]]);
      for (std::size_t j = 0; !in_bytes && j < k; j += 2)
        plain[(i * k + j) / 2] = static_cast<unsigned char>(q[i * k + from[j]] | q[i * k + from[j + 1]] << 4);
      for (std::size_t g = 0; g < groups; ++g) {
        std::memcpy(&plain_scales[(i * groups + g) * size], &scales[(g * n + i) * size], size);
        plain_zeros[i * groups + g] = static_cast<unsigned char>(zeros[i * groups + g]);
      }
    }
    rapt_linear_options options = o;
    options.w_scales = plain_scales.data(), options.w_zeros = plain_zeros.data();
    Bytes packed(length());
    REQUIRE(rapt_linear_pack(plain.data(), 0, n, &options, packed.data(), packed.size()) == RAPT_OK);
    return packed;
  }
  std::size_t length() const {
    rapt_linear_options options = o;
    options.w_scales = scales.data(), options.w_zeros = scales.data();
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_packed_length(&options, &bytes) == RAPT_OK);
    return bytes;
  }
  rapt_status pack(Bytes &packed) {
    return rapt_linear_pack_words(qweight.data(), qzeros.data(), scales.data(),
                                  g_idx.empty() ? nullptr : g_idx.data(), format.format, &o, packed.data(),
                                  packed.size(), order.empty() ? nullptr : order.data());
  }
};

TEST_CASE("words become the packed bytes of the same integers") {
  Random random(9);
  for (int i = 0; i < 300; ++i) {
    File file(random);
    CAPTURE(file.format.bits);
    CAPTURE(file.format.format);
    Bytes packed(file.length(), 0x5a);
    REQUIRE(file.pack(packed) == RAPT_OK);
    CHECK(packed == file.expected());
  }
}

// The arguments of a call, which a test changes.
struct Call {
  const std::int32_t *qweight, *qzeros;
  const void *scales;
  const std::int32_t *g_idx;
  int format;
  const rapt_linear_options *o;
  void *packed;
  std::size_t packed_size;
  std::size_t *order;
  rapt_status operator()() const {
    return rapt_linear_pack_words(qweight, qzeros, scales, g_idx, format, o, packed, packed_size, order);
  }
};

TEST_CASE("bad arguments write nothing") {
  Random random(10);
  const auto refused = [&](auto change, rapt_status expected) {
    File file(random, formats[0]);
    file.g_idx.clear();
    file.draw_order(random);
    Bytes packed(file.length() + 8, 0x5a);
    Call call{file.qweight.data(), file.qzeros.data(), file.scales.data(),
              file.g_idx.data(),   RAPT_WORDS_GPTQ,    &file.o,
              packed.data(),       file.length(),      file.order.data()};
    REQUIRE(Call(call)() == RAPT_OK);
    std::fill(packed.begin(), packed.end(), static_cast<unsigned char>(0x5a));
    std::fill(file.order.begin(), file.order.end(), std::size_t{77});
    change(file, call);
    const File before = file;
    const Bytes packed_before = packed;
    CHECK(call() == expected);
    CHECK(packed == packed_before);
    CHECK(file.order == before.order);
    CHECK(file.qweight == before.qweight);
    CHECK(file.qzeros == before.qzeros);
    CHECK(file.scales == before.scales);
    CHECK(file.g_idx == before.g_idx);
  };
  SUBCASE("null pointers") {
    refused([](File &, Call &c) { c.o = nullptr; }, RAPT_BAD_OPTIONS);
    refused([](File &, Call &c) { c.qweight = nullptr; }, RAPT_BAD_W);
    refused([](File &, Call &c) { c.scales = nullptr; }, RAPT_BAD_W_SCALES);
    refused([](File &, Call &c) { c.qzeros = nullptr; }, RAPT_BAD_W_ZEROS);
    refused([](File &, Call &c) { c.packed = nullptr; }, RAPT_BAD_PACKED);
    refused([](File &, Call &c) { c.g_idx = nullptr; }, RAPT_BAD_OUT);
    refused([](File &, Call &c) { c.order = nullptr; }, RAPT_BAD_OUT);
  }
  SUBCASE("options") {
    refused([](File &f, Call &) { f.o.size = 1; }, RAPT_BAD_OPTIONS_SIZE);
    for (const rapt_type type : {RAPT_TYPE_DEFAULT, RAPT_F32, RAPT_I8, RAPT_I4, RAPT_Q4_0, RAPT_F8_E4M3})
      refused([&](File &f, Call &) { f.o.w_type = type; }, RAPT_BAD_TYPE);
    for (const int format : {-1, RAPT_WORDS_GPTQ_V2_3BIT + 1})
      refused([&](File &, Call &c) { c.format = format; }, RAPT_BAD_TYPE);
    for (const int format : {-1, 2, 3, 4, 5, 6, 7}) {
      refused(
          [&](File &f, Call &c) {
            f.o.w_type = RAPT_U8;
            c.format = format;
          },
          RAPT_BAD_TYPE);
    }
    refused([](File &f, Call &) { f.o.x_type = RAPT_F64; }, RAPT_BAD_TYPE);
    refused([](File &f, Call &) { f.o.w_scales = &f; }, RAPT_BAD_W_SCALES);
    refused([](File &f, Call &) { f.o.w_scale_type = RAPT_I8; }, RAPT_BAD_W_SCALES);
    refused([](File &f, Call &) { f.o.w_zeros = f.scales.data(); }, RAPT_BAD_W_ZEROS);
    refused([](File &f, Call &) { f.o.w_offsets = &f; }, RAPT_BAD_W_OFFSETS);
    refused([](File &f, Call &) { f.o.w_codebook = reinterpret_cast<const float *>(&f); },
            RAPT_BAD_W_CODEBOOK);
    refused([](File &f, Call &) { f.o.scale_group = 48; }, RAPT_BAD_SCALE_GROUP);
    refused([](File &, Call &c) { --c.packed_size; }, RAPT_BAD_PACKED);
    refused([](File &f, Call &) { f.o.in_features = 0; }, RAPT_BAD_SHAPE);
    for (std::size_t i = 1; i < 8; ++i) {
      refused([&](File &f, Call &) { f.o.in_features -= i; }, RAPT_BAD_SHAPE);
      refused([&](File &f, Call &) { f.o.out_features -= i; }, RAPT_BAD_SHAPE);
    }
    refused([](File &f, Call &) { f.o.in_features = SIZE_MAX / 8 * 8; }, RAPT_BAD_SIZE);
  }
  SUBCASE("groups") {
    for (const int bad : {-1, 1, INT32_MAX, INT32_MIN}) {
      refused(
          [&](File &f, Call &) {
            f.o.scale_group = 0;
            std::fill(f.g_idx.begin(), f.g_idx.end(), 0);
            f.g_idx.back() = bad;
          },
          RAPT_BAD_SCALE_GROUP);
    }
  }
  SUBCASE("overlap") {
    const auto last_byte = [](const void *begin, std::size_t bytes) {
      return const_cast<char *>(static_cast<const char *>(begin)) + bytes - 1;
    };
    // The first byte of what is written is the last byte of what is read.
    refused([&](File &f, Call &c) { c.packed = last_byte(f.qweight.data(), 4 * f.qweight.size()); },
            RAPT_BAD_OVERLAP);
    refused([&](File &f, Call &c) { c.packed = last_byte(f.qzeros.data(), 4 * f.qzeros.size()); },
            RAPT_BAD_OVERLAP);
    refused([&](File &f, Call &c) { c.packed = last_byte(f.scales.data(), f.scales.size()); },
            RAPT_BAD_OVERLAP);
    refused([&](File &f, Call &c) { c.packed = last_byte(f.g_idx.data(), 4 * f.g_idx.size()); },
            RAPT_BAD_OVERLAP);
    refused(
        [&](File &f, Call &c) { c.packed = last_byte(f.order.data(), sizeof(std::size_t) * f.order.size()); },
        RAPT_BAD_OVERLAP);
    // And what is read begins in order.
    refused([](File &f, Call &c) { c.qweight = reinterpret_cast<std::int32_t *>(&f.order.back()) + 1; },
            RAPT_BAD_OVERLAP);
    refused([](File &f, Call &c) { c.qzeros = reinterpret_cast<std::int32_t *>(&f.order.back()) + 1; },
            RAPT_BAD_OVERLAP);
    refused([](File &f, Call &c) { c.g_idx = reinterpret_cast<std::int32_t *>(&f.order.back()) + 1; },
            RAPT_BAD_OVERLAP);
    refused([&](File &f, Call &c) { c.scales = last_byte(&f.order.back(), sizeof(std::size_t)); },
            RAPT_BAD_OVERLAP);
  }
}

// Sizes that are no whole words, of each format.
TEST_CASE("sizes of words") {
  Random random(13);
  for (const Format &format : formats) {
    File file(random, format);
    Bytes packed(file.length(), 0x5a);
    const rapt_linear_options o = file.o;
    for (std::size_t i = 0; i < file.unit_of(); ++i) {
      const rapt_status expected = i == 0 ? RAPT_OK : RAPT_BAD_SHAPE;
      Bytes fresh = packed;
      file.o.in_features = o.in_features - i;
      CHECK(file.pack(fresh) == expected);
      file.o = o;
      file.o.out_features = o.out_features - i;
      CHECK(file.pack(fresh) == expected);
      file.o = o;
      if (i > 0) CHECK(fresh == packed);
    }
  }
}

// The first version of GPTQ stores a zero less one, so that 255 says 256, for which a byte has no room.
TEST_CASE("a zero of 256") {
  Random random(14);
  for (const bool is_v1 : {true, false}) {
    for (int i = 0; i < 20; ++i) {
      File file(random, formats[is_v1 ? 7 : 8]);
      Bytes packed(file.length(), 0x5a);
      const Bytes before = packed;
      const std::vector<std::size_t> order = file.order;
      auto &word = file.qzeros[random.below(file.qzeros.size())];
      word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) | 255U << 8 * random.below(4));
      CHECK(file.pack(packed) == (is_v1 ? RAPT_BAD_W_ZEROS : RAPT_OK));
      CHECK((packed == before) == is_v1);
      if (is_v1) CHECK(file.order == order);
    }
  }
}

// Groups of other sizes than scale_group.
TEST_CASE("uneven groups") {
  Random random(11);
  File file(random, formats[1]);
  file.o.scale_group = 16, file.o.in_features = 32, file.o.out_features = 8;
  file.qweight.resize(4 * 8), file.qzeros.resize(2), file.scales.resize(64);
  file.g_idx.assign(32, 0), file.order.resize(32);
  std::fill(file.g_idx.begin() + 15, file.g_idx.end(), 1);
  Bytes packed(file.length());
  CHECK(file.pack(packed) == RAPT_BAD_SCALE_GROUP);
  file.g_idx.assign(32, 1);
  std::fill(file.g_idx.begin() + 1, file.g_idx.begin() + 18, 0);
  CHECK(file.pack(packed) == RAPT_BAD_SCALE_GROUP);
  file.g_idx[17] = 1;
  CHECK(file.pack(packed) == RAPT_OK);
  CHECK(file.order[0] == 1);
  CHECK(file.order[16] == 0);
}

// MatMulNBits of ONNX with 4 bits: B [N][blocks][block_size / 2] has input 2j of a block in the low half of byte j.
// Scales are [N][blocks]. Zero points are [N][(blocks + 1) / 2] bytes with the first of two in the low half; without,
// they are 8. With 8 bits, B [N][blocks][block_size] and zero points [N][blocks] are bytes; without, these are 128.
TEST_CASE("rows of MatMulNBits are rows of RAPT_U4 or RAPT_U8") {
  Random random(12);
  for (int i = 0; i < 120; ++i) {
    const bool in_bytes = i % 2 == 1;
    rapt_linear_options o{};
    o.size = sizeof o;
    o.w_type = in_bytes ? RAPT_U8 : RAPT_U4;
    o.rows = 1;
    const std::size_t block = o.scale_group = random.one_of<std::size_t>({16, 32, 64, 128, 256}),
                      blocks = 1 + random.below(5), n = o.out_features = 1 + random.below(70),
                      k = o.in_features = block * blocks, row_of_zeros = in_bytes ? blocks : (blocks + 1) / 2,
                      bytes_of_block = in_bytes ? block : block / 2;
    CAPTURE(block);
    CAPTURE(blocks);
    const bool has_zeros = random.one_in(2);
    Bytes b(n * blocks * bytes_of_block), zero_points(n * row_of_zeros), zeros(n * blocks);
    for (unsigned char &byte : b) byte = static_cast<unsigned char>(random.below(256));
    for (unsigned char &byte : zero_points) byte = static_cast<unsigned char>(random.below(256));
    std::vector<float> scales(n * blocks);
    for (float &scale : scales) scale = static_cast<float>(1 + random.below(8)) / 4;
    for (std::size_t j = 0; j < n * blocks; ++j)
      zeros[j] = in_bytes
                     ? zero_points[j]
                     : zero_points[j / blocks * row_of_zeros + j % blocks / 2] >> 4 * (j % blocks % 2) & 15;
    o.w_scales = scales.data();
    if (has_zeros) o.w_zeros = in_bytes ? zero_points.data() : zeros.data();
    std::size_t length = 0, workspace_length = 0;
    REQUIRE(rapt_linear_packed_length(&o, &length) == RAPT_OK);
    Bytes packed(length);
    REQUIRE(rapt_linear_pack(b.data(), 0, n, &o, packed.data(), length) == RAPT_OK);
    o.packed_w = 1, o.w_scales = nullptr, o.w_zeros = nullptr;
    REQUIRE(rapt_linear_workspace(&o, &workspace_length) == RAPT_OK);
    Bytes workspace(workspace_length);
    // All products and sums are exact.
    std::vector<float> x(k), y(n);
    for (float &number : x) number = static_cast<float>(random.below(9)) - 4;
    REQUIRE(rapt_linear(x.data(), packed.data(), y.data(), &o, workspace.data(), workspace_length) ==
            RAPT_OK);
    for (std::size_t output = 0; output < n; ++output) {
      float expected = 0;
      for (std::size_t g = 0; g < blocks; ++g) {
        const unsigned char *const of_block = &b[(output * blocks + g) * bytes_of_block];
        const auto half = [](unsigned byte, std::size_t at) { return at % 2 ? byte >> 4 : byte & 15U; };
        const unsigned char *const of_zeros = &zero_points[output * row_of_zeros];
        const unsigned zero = !has_zeros ? (in_bytes ? 128 : 8)
                              : in_bytes ? of_zeros[g]
                                         : half(of_zeros[g / 2], g);
        for (std::size_t j = 0; j < block; ++j) {
          const unsigned q = in_bytes ? of_block[j] : half(of_block[j / 2], j);
          const float w = (static_cast<float>(q) - static_cast<float>(zero)) * scales[output * blocks + g];
          expected += w * x[g * block + j];
        }
      }
      CHECK(y[output] == expected);
    }
  }
}

}  // namespace
}  // namespace rapt::test
