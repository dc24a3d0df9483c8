// Runs one call on every usable level that implements the kernel itself, and compares the results with those
// of the scalar level.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "fuzz/support/fuzz_memory.hpp"
#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "support/serving.hpp"

namespace rapt::test {

// Does not use std::string, because the C++ library is not compiled for the memory sanitizer.
[[noreturn]] inline void finding(const char *function, const char *what) {
  std::fprintf(stderr, "FINDING: %s on %s: %s\n", function, rapt_active_isa(), what);
  std::fflush(stderr);
  std::abort();
}

// Represents a set of statuses, with one bit each.
__extension__ using Statuses = unsigned __int128;
static_assert(RAPT_BAD_PACKED < 128);
constexpr Statuses only(rapt_status status) { return Statuses{1} << status; }

struct CallRules {
  Statuses must_fail = 0;  // if not 0, the call must fail with a status of either set
  Statuses may_fail = 0;   // other statuses with which the call may fail
};

// `call` makes the call and returns its status. `results(out)` appends the canonical bits of the results.
// Only bytes of `output` may change, and none if the call fails.
template <class Call, class Results>
void on_every_level(const char *function, FuzzMemory &memory, const RowsOfBytes &output,
                    const CallRules &rules, Call &&call, Results &&results) {
  static std::vector<std::uint64_t> expected, got;
  rapt_status expected_status = RAPT_OK;
  memory.remember();
  for (std::size_t level = 0; level < rapt_isa_count(); ++level) {
    if (rapt_force_isa(rapt_isa_name(level)) != RAPT_OK || !active_level_has(function)) continue;
    memory.restore();
    const rapt_status status = call();
    const bool failed = status != RAPT_OK;
    if (!memory.unchanged_but(failed ? RowsOfBytes{} : output)) finding(function, "wrote where it must not");
    if (!failed && rules.must_fail != 0) finding(function, "a bad argument was accepted");
    if (failed && !((rules.must_fail | rules.may_fail) & only(status))) {
      finding(function, rapt_status_text(status));
    }
    std::vector<std::uint64_t> &out = level == 0 ? expected : got;
    out.clear();
    if (!failed) results(out);
    if (level == 0) expected_status = status;
    if (status != expected_status) finding(function, "another status than the scalar level's");
    if (level != 0 && got != expected) {
      for (std::size_t i = 0; i < got.size() && i < expected.size(); ++i) {
        if (got[i] == expected[i]) continue;
        std::fprintf(stderr, "result %zu: %#llx, scalar %#llx\n", i, static_cast<unsigned long long>(got[i]),
                     static_cast<unsigned long long>(expected[i]));
        break;
      }
      finding(function, "other bits than the scalar level's");
    }
  }
}

// Appends the canonical bits of a matrix of results.
template <class T>
void append_bits(std::vector<std::uint64_t> &bits, const T *data, std::ptrdiff_t stride, std::size_t rows,
                 std::size_t cols) {
  for (std::size_t r = 0; cols != 0 && r < rows; ++r) {
    const T *row = data + static_cast<std::ptrdiff_t>(r) * stride;
    for (std::size_t c = 0; c < cols; ++c) bits.push_back(canonical_bits(row[c]));
  }
}

}  // namespace rapt::test
