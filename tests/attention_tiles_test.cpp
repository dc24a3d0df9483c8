// Checks that calls leave the AMX tiles of their caller as they are.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "support/attention_call.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

std::vector<BF16> draw(Random &random, std::size_t count) {
  std::vector<BF16> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(BF16(random.gaussian()));
  return made;
}

// Returns the results of attention with 2 heads in bf16 arithmetic.
std::vector<float> run_attention() {
  constexpr std::size_t heads = 2, queries = 70, keys = 130, dim = 64;
  Random random(21);
  const std::vector<BF16> q = draw(random, heads * queries * dim), k = draw(random, keys * dim),
                          v = draw(random, keys * dim);
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
  o.arithmetic = RAPT_ARITHMETIC_BF16;
  o.q_type = RAPT_BF16;
  o.out_type = RAPT_F32;
  o.q_heads = heads;
  o.kv_heads = 1;
  o.q_len = queries;
  o.kv_len = keys;
  o.qk_dim = dim;
  std::vector<float> out(heads * queries * dim);
  std::vector<unsigned char> workspace = workspace_for(o);
  REQUIRE(rapt_attention(q.data(), k.data(), v.data(), out.data(), &o, workspace.data(), workspace.size()) ==
          RAPT_OK);
  return out;
}

// Returns the results of a linear layer in bf16 arithmetic.
std::vector<float> run_linear() {
  constexpr std::size_t rows = 40, inputs = 70, outputs = 130;
  Random random(22);
  const std::vector<BF16> x = draw(random, rows * inputs), w = draw(random, outputs * inputs);
  rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
  o.arithmetic = RAPT_ARITHMETIC_BF16;
  o.x_type = RAPT_BF16;
  o.y_type = RAPT_F32;
  o.rows = rows;
  o.in_features = inputs;
  o.out_features = outputs;
  std::size_t bytes = 0;
  REQUIRE(rapt_linear_workspace(&o, &bytes) == RAPT_OK);
  std::vector<float> y(rows * outputs);
  std::vector<unsigned char> workspace(bytes);
  REQUIRE(rapt_linear(x.data(), w.data(), y.data(), &o, workspace.data(), bytes) == RAPT_OK);
  return y;
}

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

void check_tiles(std::vector<float> (*run)()) {
  if (!rapt_isa_usable("amx")) return;
  const ForcedIsa forced("amx");
  const auto expected = run();
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
  const auto found = run();
  const Configuration kept = present();
  __asm__ volatile("tilestored %%tmm5, (%0,%1,1)\n\ttilerelease" : : "r"(after), "r"(64L) : "memory");
  CHECK(found == expected);
  CHECK(std::memcmp(&kept, &own, sizeof own) == 0);
  for (std::size_t row = 0; row < 3; ++row) CHECK(std::memcmp(after + row * 64, data + row * 64, 20) == 0);
}

TEST_CASE("AMX tiles of a caller of attention stay as they are, and none is left behind") {
  check_tiles(run_attention);
}
TEST_CASE("AMX tiles of a caller of linear layers stay as they are, and none is left behind") {
  check_tiles(run_linear);
}

}  // namespace
}  // namespace rapt::test
