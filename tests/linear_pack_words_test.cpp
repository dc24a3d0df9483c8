// Tests rapt_linear_pack_words: words of GPTQ and AWQ, written here by the formats' definitions, become the packed bytes of the
// same plain integers; sorted inputs have their order; and the status of each bad argument.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "rapt/rapt.h"
#include "support/random.hpp"

namespace rapt::test {
namespace {

using Bytes = std::vector<unsigned char>;

struct File {
  rapt_linear_options o{};
  int format = 0;
  std::size_t groups = 0;
  std::vector<unsigned> q, zeros;  // [outputs][inputs] in the file's order, and [outputs][groups]
  std::vector<std::int32_t> qweight, qzeros, g_idx;
  Bytes scales;  // [groups][outputs]
  std::vector<std::size_t> order;

  explicit File(Random &random, int format_ = -1) {
    format = format_ < 0 ? static_cast<int>(random.below(3)) : format_;
    o.size = sizeof o;
    o.w_type = RAPT_U4;
    o.scale_group = random.one_of<std::size_t>({0, 16, 32, 64, 128});
    const std::size_t n = o.out_features = 8 * (1 + random.below(20)),
                      k = o.in_features = 8 * (1 + random.below(40));
    o.w_scale_type = random.one_of({RAPT_F32, RAPT_F16, RAPT_BF16});
    groups = o.scale_group ? (k + o.scale_group - 1) / o.scale_group : 1;
    for (std::size_t i = 0; i < n * k; ++i) q.push_back(static_cast<unsigned>(random.below(16)));
    for (std::size_t i = 0; i < n * groups; ++i)
      zeros.push_back(static_cast<unsigned>(random.below(16)) + (format == RAPT_WORDS_GPTQ ? 1 : 0));
    scales.resize(groups * n * (o.w_scale_type == RAPT_F32 ? 4 : 2));
    for (unsigned char &byte : scales) byte = static_cast<unsigned char>(random.below(256));
    write_words();
    if (random.one_in(2)) draw_order(random);
  }

  void write_words() {
    const std::size_t n = o.out_features, k = o.in_features;
    constexpr std::size_t awq[] = {0, 2, 4, 6, 1, 3, 5, 7};
    const auto of_nibble = [&](std::size_t i) { return format == RAPT_WORDS_AWQ ? awq[i] : i; };
    for (std::size_t row = 0; row < (format == RAPT_WORDS_AWQ ? k : k / 8); ++row) {
      for (std::size_t column = 0; column < (format == RAPT_WORDS_AWQ ? n / 8 : n); ++column) {
        std::uint32_t word = 0;
        for (std::size_t i = 0; i < 8; ++i) {
          const std::size_t output = format == RAPT_WORDS_AWQ ? 8 * column + of_nibble(i) : column;
          const std::size_t input = format == RAPT_WORDS_AWQ ? row : 8 * row + i;
          word |= q[output * k + input] << 4 * i;
        }
        qweight.push_back(static_cast<std::int32_t>(word));
      }
    }
    for (std::size_t g = 0; g < groups; ++g) {
      for (std::size_t column = 0; column < n / 8; ++column) {
        std::uint32_t word = 0;
        for (std::size_t i = 0; i < 8; ++i) {
          const unsigned zero = zeros[(8 * column + of_nibble(i)) * groups + g];
          word |= (zero - (format == RAPT_WORDS_GPTQ ? 1 : 0)) << 4 * i;
        }
        qzeros.push_back(static_cast<std::int32_t>(word));
      }
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
    Bytes plain(n * k / 2), plain_scales(scales.size()), plain_zeros(n * groups);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < k; j += 2)
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
                                  g_idx.empty() ? nullptr : g_idx.data(), format, &o, packed.data(),
                                  packed.size(), order.empty() ? nullptr : order.data());
  }
};

TEST_CASE("words become the packed bytes of the same integers") {
  Random random(9);
  for (int i = 0; i < 300; ++i) {
    File file(random);
    CAPTURE(file.format);
    Bytes packed(file.length(), 0x5a);
    REQUIRE(file.pack(packed) == RAPT_OK);
    CHECK(packed == file.expected());
  }
}

TEST_CASE("bad arguments write nothing") {
  Random random(10);
  const auto refused = [&](auto change, rapt_status expected) {
    File file(random, RAPT_WORDS_GPTQ);
    file.o.scale_group = 0, file.g_idx.clear(), file.order.clear();
    Bytes packed(file.length(), 0x5a);
    change(file, packed);
    const Bytes before = packed;
    CHECK(file.pack(packed) == expected);
    CHECK(packed == before);
  };
  refused([](File &f, Bytes &) { f.o.w_type = RAPT_I4; }, RAPT_BAD_TYPE);
  refused([](File &f, Bytes &) { f.format = 3; }, RAPT_BAD_TYPE);
  refused([](File &f, Bytes &) { f.format = -1; }, RAPT_BAD_TYPE);
  refused([](File &f, Bytes &) { f.o.w_scales = &f; }, RAPT_BAD_W_SCALES);
  refused([](File &f, Bytes &) { f.o.w_zeros = f.scales.data(); }, RAPT_BAD_W_ZEROS);
  refused([](File &f, Bytes &) { f.o.w_offsets = &f; }, RAPT_BAD_W_OFFSETS);
  refused([](File &f, Bytes &) { f.o.in_features -= 1; }, RAPT_BAD_SHAPE);
  refused([](File &f, Bytes &) { f.o.out_features -= 1; }, RAPT_BAD_SHAPE);
  refused([](File &f, Bytes &) { f.o.scale_group = 48; }, RAPT_BAD_SCALE_GROUP);
  refused([](File &f, Bytes &packed) { packed.resize(f.length() - 1); }, RAPT_BAD_PACKED);
  refused([](File &f, Bytes &) { f.order.resize(f.o.in_features); }, RAPT_BAD_OUT);
  for (const int bad : {-1, 1}) {
    refused(
        [&](File &f, Bytes &) {
          f.g_idx.assign(f.o.in_features, 0), f.order.resize(f.o.in_features);
          f.g_idx.back() = bad;
        },
        RAPT_BAD_SCALE_GROUP);
  }
}

// Groups of other sizes than scale_group.
TEST_CASE("uneven groups") {
  Random random(11);
  File file(random, RAPT_WORDS_GPTQ_V2);
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

}  // namespace
}  // namespace rapt::test
