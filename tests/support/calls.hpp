// Helps to call the public API, and records broken rules in the Outcome.
#pragma once

#include <string>

#include "rapt/rapt.h"
#include "support/problem.hpp"

namespace rapt::test {

// Runs call() under the floating-point state of the layout. The caller converts arguments beforehand, because
// conversions would round differently in that state.
template <class Call>
void call_in_state(const Layout &layout, Outcome &outcome, Call &&call) {
  if (!layout.fp_state) {
    call();
    return;
  }
  const std::uint64_t own = read_fp_control();
  write_fp_control(layout.fp_state->control);
  call();
  const std::uint64_t after = read_fp_control();
  write_fp_control(own);
  if (after != layout.fp_state->control)
    outcome.fault += "the caller's floating-point state was not restored; ";
}

inline void check_status(rapt_status status, Outcome &outcome) {
  if (status != RAPT_OK) outcome.fault += std::string("returned: ") + rapt_status_text(status) + "; ";
}

}  // namespace rapt::test
