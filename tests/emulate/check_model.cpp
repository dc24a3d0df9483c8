// Checks the arithmetic of model.hpp against the golden records.
#include "golden.hpp"
#include "report.hpp"

namespace rapt::emulate {
namespace {

void check_tile_products(const std::string &golden, Report &report) {
  report.begin("tdpbf16ps");
  for (const TileRecord &r : read_golden<TileRecord>(golden, "tdpbf16ps")) {
    for (unsigned m = 0; m < r.rows; ++m) {
      for (unsigned n = 0; n < r.columns; ++n) {
        const Word found = tdpbf16ps(r.c[m][n], r.a[m], &r.b[0][n], 16, r.pairs);
        report.compare(equal_floats(r.d[m][n], found), r.d[m][n], found);
      }
    }
  }
  report.end_of_model();

  report.begin("tdpbssd, tdpbsud, tdpbusd, tdpbuud");
  for (const TileRecord &r : read_golden<TileRecord>(golden, "tdpb_int8")) {
    for (unsigned m = 0; m < r.rows; ++m) {
      for (unsigned n = 0; n < r.columns; ++n) {
        Word sum = r.c[m][n];
        for (unsigned k = 0; k < r.pairs; ++k) {
          const Word a = r.a[m][k], b = r.b[k][n];
          switch (r.kind) {
            case 0:
              sum = wrapped(sum_of_bytes<std::int8_t, std::int8_t>(sum, a, b));
              break;
            case 1:
              sum = wrapped(sum_of_bytes<std::int8_t, std::uint8_t>(sum, a, b));
              break;
            case 2:
              sum = wrapped(sum_of_bytes<std::uint8_t, std::int8_t>(sum, a, b));
              break;
            default:
              sum = wrapped(sum_of_bytes<std::uint8_t, std::uint8_t>(sum, a, b));
          }
        }
        report.compare(r.d[m][n] == sum, r.d[m][n], sum);
      }
    }
  }
  report.end_of_model();
}

template <class Sum>
void check_sums(const std::string &golden, Report &report, const char *file, const char *instructions,
                Sum &&sum) {
  report.begin(instructions);
  for (const SumRecord &r : read_golden<SumRecord>(golden, file)) {
    for (unsigned e = 0; e < 16; ++e) {
      const std::int64_t exact = sum(r.c.words[e], r.a.words[e], r.b.words[e]);
      report.compare(r.wrapped.words[e] == wrapped(exact), r.wrapped.words[e], wrapped(exact));
      report.compare(r.saturated.words[e] == saturated(exact), r.saturated.words[e], saturated(exact));
    }
  }
  report.end_of_model();
}

}  // namespace

void check_model(const std::string &golden, Report &report) {
  check_tile_products(golden, report);
  check_sums(golden, report, "vpdpbusd", "vpdpbusd, vpdpbusds", sum_of_bytes<std::uint8_t, std::int8_t>);
  check_sums(golden, report, "vpdpwssd", "vpdpwssd, vpdpwssds", sum_of_shorts);
}

}  // namespace rapt::emulate
