// Checks the AMX instructions against the golden records.
#include <cstring>

#include "golden.hpp"
#include "report.hpp"

namespace rapt::emulate {
namespace {

struct alignas(64) Configuration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes_per_row[16] = {};
  std::uint8_t rows[16] = {};

  explicit Configuration(const TileRecord &r) {
    rows[0] = r.rows, bytes_per_row[0] = static_cast<std::uint16_t>(4 * r.columns);
    rows[1] = r.rows, bytes_per_row[1] = static_cast<std::uint16_t>(4 * r.pairs);
    rows[2] = r.pairs, bytes_per_row[2] = static_cast<std::uint16_t>(4 * r.columns);
  }
};

constexpr long row_bytes = 64;

// These functions compute tmm0 += tmm1 * tmm2.
using Multiply = void();
void tdpbf16ps() { asm volatile("tdpbf16ps %tmm2, %tmm1, %tmm0"); }
void tdpbssd() { asm volatile("tdpbssd %tmm2, %tmm1, %tmm0"); }
void tdpbsud() { asm volatile("tdpbsud %tmm2, %tmm1, %tmm0"); }
void tdpbusd() { asm volatile("tdpbusd %tmm2, %tmm1, %tmm0"); }
void tdpbuud() { asm volatile("tdpbuud %tmm2, %tmm1, %tmm0"); }

struct Results {
  Word d[16][16], zeroed[16][16];
  unsigned char configuration[64];
};

Results multiply(const TileRecord &r, Multiply *operation) {
  const Configuration configuration(r);
  Results results;
  std::memset(&results, 0xcc, sizeof results);
  asm volatile("ldtilecfg %0" ::"m"(configuration) : "memory");
  asm volatile("tileloadd (%0, %1, 1), %%tmm0" ::"r"(r.c), "r"(row_bytes) : "memory");
  asm volatile("tileloaddt1 (%0, %1, 1), %%tmm1" ::"r"(r.a), "r"(row_bytes) : "memory");
  // This address has a base register above r8, an index that is scaled by 8, and a displacement.
  asm volatile("mov %0, %%r12\n\ttileloadd -64(%%r12, %1, 8), %%tmm2" ::"r"(r.b + 1), "r"(row_bytes / 8)
               : "memory", "r12");
  operation();
  asm volatile("tilestored %%tmm0, (%0, %1, 1)" ::"r"(results.d), "r"(row_bytes) : "memory");
  asm volatile("tilezero %%tmm0\n\ttilestored %%tmm0, (%0, %1, 1)" ::"r"(results.zeroed), "r"(row_bytes)
               : "memory");
  asm volatile("sttilecfg (%0)" ::"r"(results.configuration) : "memory");
  asm volatile("tilerelease");
  return results;
}

template <class Equal>
void compare(const TileRecord &r, const Results &results, Report &report, Equal &&equal) {
  const Configuration configuration(r);
  report.compare(std::memcmp(results.configuration, &configuration, 64) == 0, 1, 0);
  for (unsigned m = 0; m < 16; ++m) {
    for (unsigned n = 0; n < 16; ++n) {
      report.compare(equal(r.d[m][n], results.d[m][n]), r.d[m][n], results.d[m][n]);
      const Word zeroed = m < r.rows && n < r.columns ? 0 : TileRecord::untouched;
      report.compare(results.zeroed[m][n] == zeroed, zeroed, results.zeroed[m][n]);
    }
  }
}

// Checks that a tile stores what it loaded, and that another configuration zeroes the tile.
Executed check_moves(const TileRecord &r, Report &report) {
  Word moved[16][16], zeroed[16][16];
  const Configuration configuration(r);
  Configuration other(r);
  other.rows[7] = 3, other.bytes_per_row[7] = 20;
  const Executed executed = attempt([&] {
    std::memset(moved, 0xcc, sizeof moved);
    asm volatile("ldtilecfg %0" ::"m"(configuration) : "memory");
    asm volatile("tileloadd (%0, %1, 1), %%tmm1" ::"r"(r.a), "r"(row_bytes) : "memory");
    asm volatile("tilestored %%tmm1, (%0, %1, 1)" ::"r"(moved), "r"(row_bytes) : "memory");
    asm volatile("ldtilecfg %0" ::"m"(other) : "memory");
    asm volatile("tilestored %%tmm1, (%0, %1, 1)" ::"r"(zeroed), "r"(row_bytes) : "memory");
    asm volatile("tilerelease");
  });
  if (executed == Executed::not_at_all) return executed;
  for (unsigned m = 0; m < 16; ++m) {
    for (unsigned n = 0; n < 16; ++n) {
      const Word expected = m < r.rows && n < r.pairs ? r.a[m][n] : TileRecord::untouched;
      report.compare(moved[m][n] == expected, expected, moved[m][n]);
      if (m < r.rows && n < r.pairs) report.compare(zeroed[m][n] == 0, 0, zeroed[m][n]);
    }
  }
  return executed;
}

// Returns whether a tile instruction runs without a tile configuration, which must be illegal.
bool runs_without_configuration() {
  return attempt([] { asm volatile("tilerelease\n\ttilezero %tmm0"); }) != Executed::not_at_all;
}

}  // namespace

void check_tiles(const std::string &golden, Report &report) {
  const auto records = read_golden<TileRecord>(golden, "tdpbf16ps");
  Executed executed = Executed::not_at_all;
  report.begin("tdpbf16ps");
  for (const TileRecord &r : records) {
    Results results;
    executed = attempt([&] { results = multiply(r, tdpbf16ps); });
    if (executed == Executed::not_at_all) break;
    compare(r, results, report, equal_floats);
  }
  report.end(executed, "amx");

  static constexpr Multiply *of_kind[] = {tdpbssd, tdpbsud, tdpbusd, tdpbuud};
  report.begin("tdpbssd, tdpbsud, tdpbusd, tdpbuud");
  for (const TileRecord &r : read_golden<TileRecord>(golden, "tdpb_int8")) {
    Results results;
    executed = attempt([&] { results = multiply(r, of_kind[r.kind]); });
    if (executed == Executed::not_at_all) break;
    compare(r, results, report, [](Word a, Word b) { return a == b; });
  }
  report.end(executed, "amx");

  report.begin("tileload, tilestored, tilerelease");
  for (const TileRecord &r : records) {
    executed = check_moves(r, report);
    if (executed == Executed::not_at_all) break;
  }
  report.compare(!runs_without_configuration(), 0, 1);
  report.end(executed, "amx");
}

}  // namespace rapt::emulate
