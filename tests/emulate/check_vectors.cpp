// Checks the vector instructions against the golden records: whole in zmm registers, and by halves in ymm
// registers.
#include <cstring>
#include <utility>

#include "golden.hpp"
#include "report.hpp"
#include "vector_shells.hpp"

namespace rapt::emulate {
namespace {

// Holds the operands and the result of a golden record.
struct Trial {
  Vector c, a, b, d;
};

std::vector<Trial> sums(const std::string &golden, const char *file, bool saturated) {
  std::vector<Trial> trials;
  for (const auto &r : read_golden<SumRecord>(golden, file)) {
    trials.push_back({r.c, r.a, r.b, saturated ? r.saturated : r.wrapped});
  }
  return trials;
}

Vector half_of(const Vector &vector, unsigned half) {
  Vector result = {};
  std::memcpy(result.words, vector.words + 8 * half, 32);
  return result;
}

Trial half_of(const Trial &t, unsigned half) {
  return {half_of(t.c, half), half_of(t.a, half), half_of(t.b, half), half_of(t.d, half)};
}

void run(const std::vector<Trial> &trials, Code *code, unsigned words, const char *what, const char *feature,
         Report &report) {
  report.begin(what);
  Executed executed = Executed::not_at_all;
  for (const Trial &t : trials) {
    Operands operands = {t.c, t.a, t.b, 0};
    executed = attempt([&] { code(operands); });
    if (executed == Executed::not_at_all) break;
    for (unsigned e = 0; e < words; ++e) {
      const Word expected = t.d.words[e], found = operands.destination.words[e];
      report.compare(expected == found, expected, found);
    }
  }
  report.end(executed, feature);
}

std::vector<Trial> halves(const std::vector<Trial> &trials) {
  std::vector<Trial> result;
  for (const Trial &t : trials) result.insert(result.end(), {half_of(t, 0), half_of(t, 1)});
  return result;
}

}  // namespace

void check_vectors(const std::string &golden, Report &report) {
  constexpr unsigned zmm = 16, ymm = 8;
  const char *const vnni = "avx512_vnni", *const avx_vnni = "avx_vnni", *const evex_ymm = "evex_ymm";
  const auto bytes = sums(golden, "vpdpbusd", false), bytes_saturated = sums(golden, "vpdpbusd", true);
  const auto shorts = sums(golden, "vpdpwssd", false), shorts_saturated = sums(golden, "vpdpwssd", true);
  run(bytes, ZMM_CODE("vpdpbusd %%zmm29, %%zmm3, %%zmm18"), zmm, "vpdpbusd zmm", vnni, report);
  run(bytes_saturated, ZMM_CODE("vpdpbusds %%zmm29, %%zmm3, %%zmm18"), zmm, "vpdpbusds zmm", vnni, report);
  run(shorts, ZMM_CODE("vpdpwssd %%zmm29, %%zmm3, %%zmm18"), zmm, "vpdpwssd zmm", vnni, report);
  run(shorts_saturated, ZMM_CODE("vpdpwssds %%zmm29, %%zmm3, %%zmm18"), zmm, "vpdpwssds zmm", vnni, report);
  run(halves(bytes), YMM_CODE("%{evex%} vpdpbusd %%ymm9, %%ymm3, %%ymm2"), ymm, "vpdpbusd ymm", evex_ymm,
      report);
  run(halves(bytes), YMM_CODE("%{vex%} vpdpbusd %%ymm9, %%ymm3, %%ymm2"), ymm, "vpdpbusd vex ymm", avx_vnni,
      report);
  run(halves(bytes_saturated), YMM_CODE("%{vex%} vpdpbusds %%ymm9, %%ymm3, %%ymm2"), ymm, "vpdpbusds vex ymm",
      avx_vnni, report);
  run(halves(shorts), YMM_CODE("%{vex%} vpdpwssd %%ymm9, %%ymm3, %%ymm2"), ymm, "vpdpwssd vex ymm", avx_vnni,
      report);
  run(halves(shorts_saturated), YMM_CODE("%{vex%} vpdpwssds %%ymm9, %%ymm3, %%ymm2"), ymm,
      "vpdpwssds vex ymm", avx_vnni, report);
}

}  // namespace rapt::emulate
