// Tiles of attention in bf16 arithmetic that share keys: several tiles, several chunks, and references that
// move. And the AMX tiles of a caller.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/every_level.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

struct Inputs {
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  std::vector<BF16> q, k, v;
};

// Draws queries and keys that are multiplied by `size`, so that scores are multiplied by its square.
Inputs draw(std::size_t queries, std::size_t keys, std::size_t qk_dim, std::size_t v_dim, double size) {
  Inputs of;
  Random random(21);
  const auto fill = [&](std::vector<BF16> &to, std::size_t count, double times) {
    for (std::size_t i = 0; i < count; ++i) to.push_back(BF16(times * random.gaussian()));
  };
  rapt_attention_options &o = of.options;
  o.arithmetic = RAPT_ARITHMETIC_BF16;
  o.q_type = o.kv_type = RAPT_BF16;
  o.out_type = RAPT_F32;
  o.q_heads = 2;
  o.kv_heads = 1;
  o.q_len = queries;
  o.kv_len = keys;
  o.qk_dim = qk_dim;
  o.v_dim = v_dim;
  fill(of.q, 2 * queries * qk_dim, size);
  fill(of.k, keys * qk_dim, size);
  fill(of.v, keys * v_dim, 1);
  return of;
}

// Runs the tasks in ranges of `together` tasks; returns the bits, with `partial` those of partial results.
std::vector<std::uint64_t> run(const Inputs &of, std::size_t together, bool partial = false) {
  rapt_attention_options o = of.options;
  std::size_t tasks = 0, length = 0;
  REQUIRE(rapt_attention_tasks(&o, &tasks) == RAPT_OK);
  if (partial) REQUIRE(rapt_attention_partial_tasks(&o, &tasks, &length) == RAPT_OK);
  const std::size_t rows = 2 * o.q_len;
  std::vector<float> out(partial ? length : rows * o.v_dim), lse(rows);
  if (!partial) o.lse = lse.data();
  std::vector<unsigned char> workspace = workspace_for(o);
  for (std::size_t first = 0; first < tasks; first += together) {
    const std::size_t last = tasks - first < together ? tasks : first + together;
    const auto call = partial ? rapt_attention_partial : rapt_attention_run;
    REQUIRE(call(of.q.data(), of.k.data(), of.v.data(), out.data(), &o, first, last, workspace.data(),
                 workspace.size()) == RAPT_OK);
  }
  std::vector<std::uint64_t> bits;
  for (const float x : out) bits.push_back(canonical_bits(x));
  for (const float x : lse) bits.push_back(canonical_bits(x));
  return bits;
}

void check_levels(const Inputs &of, bool partial = false) {
  std::vector<std::uint64_t> expected;
  on_every_level([&] {
    if (expected.empty()) expected = run(of, SIZE_MAX, partial);  // by the scalar reference
    for (const std::size_t together : {std::size_t{1}, std::size_t{3}, SIZE_MAX}) {
      CAPTURE(together);
      CHECK(run(of, together, partial) == expected);
    }
  });
}

TEST_CASE("tiles that share keys, and references that move or lie far from 0") {
  for (const double size : {1.0, 3.0, 8.0, 1e6}) {
    CAPTURE(size);
    Inputs of = draw(290, 580, 40, 24, size);
    check_levels(of);
    of.options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    of.options.window_left = 300;
    check_levels(of);
    check_levels(of, true);
  }
}

// Tiles and blocks are whole. A NaN next to excluded keys would be computed again, by another body.
TEST_CASE("scores that are all far below 0") {
  Inputs of = draw(64, 192, 40, 24, 1e6);
  for (BF16 &x : of.q) x = BF16(std::fabs(static_cast<double>(static_cast<float>(x))));
  for (BF16 &x : of.k) x = BF16(-std::fabs(static_cast<double>(static_cast<float>(x))));
  check_levels(of);
}

// Later keys are larger: a reference moves in the middle of a chunk, in some rows of a tile.
TEST_CASE("references that move late") {
  Inputs of = draw(70, 512, 64, 16, 1);
  for (std::size_t key = 200; key < 512; key += 70) {
    for (std::size_t d = 0; d < 64; ++d) of.k[key * 64 + d] = BF16(static_cast<double>(key * (d % 3)) / 8);
  }
  check_levels(of);
  of.options.scale = 1e-3;
  check_levels(of);
}

// Each row meets larger scores at different blocks, one or two of them. So strips of a tile move separately:
// again before their values are added, and in the last block.
TEST_CASE("references that move at blocks of their own") {
  Inputs of = draw(100, 1100, 32, 40, 0.1);
  for (std::size_t row = 0; row < 200; ++row) of.q[row * 32 + row % 29] = BF16(8.0);
  for (std::size_t d = 0; d < 29; ++d) {
    for (std::size_t key = 64 * (d % 9) + d; key < 1100; key += 64 * (5 + d % 3)) {
      of.k[key * 32 + d] = BF16(8.0 + static_cast<double>(key) / 16);
    }
  }
  check_levels(of);
  check_levels(of, true);
  of.options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
  check_levels(of);
}

TEST_CASE("NaN and infinities in keys and values that are excluded, and in others") {
  Inputs of = draw(150, 300, 32, 40, 1);
  of.options.causal = RAPT_CAUSAL_TOP_LEFT;
  of.k[280 * 32] = of.v[290 * 40] = BF16(std::numeric_limits<double>::quiet_NaN());
  of.v[100 * 40 + 3] = of.k[90 * 32 + 1] = BF16(std::numeric_limits<double>::infinity());
  check_levels(of);
  check_levels(of, true);
}

#if defined(__x86_64__)

struct alignas(64) Configuration {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
Configuration present() {
  Configuration now;
  __asm__ volatile("sttilecfg %0" : "=m"(now));
  return now;
}

TEST_CASE("AMX tiles of a caller stay as they are, and none is left behind") {
  if (!rapt_isa_usable("amx")) return;
  const ForcedIsa forced("amx");
  const Inputs of = draw(70, 130, 64, 64, 1);
  const auto expected = run(of, SIZE_MAX);
  CHECK(present().palette == 0);

  Configuration own{};
  own.palette = 1;
  own.row_bytes[0] = own.row_bytes[5] = 20;
  own.rows[0] = own.rows[5] = 3;
  alignas(64) std::uint8_t data[16 * 64], after[16 * 64] = {};
  for (std::size_t i = 0; i < sizeof data; ++i) data[i] = static_cast<std::uint8_t>(i);
  __asm__ volatile("ldtilecfg %0\n\ttileloadd (%1,%2,1), %%tmm5"
                   :
                   : "m"(own), "r"(data), "r"(64L)
                   : "memory");
  const auto found = run(of, SIZE_MAX);
  const Configuration kept = present();
  __asm__ volatile("tilestored %%tmm5, (%0,%1,1)\n\ttilerelease" : : "r"(after), "r"(64L) : "memory");
  CHECK(found == expected);
  CHECK(std::memcmp(&kept, &own, sizeof own) == 0);
  for (std::size_t row = 0; row < 3; ++row) CHECK(std::memcmp(after + row * 64, data + row * 64, 20) == 0);
}

#endif

}  // namespace
}  // namespace rapt::test
