// Where results go unless --json says so.
#pragma once

#include <string>

namespace rapt::bench {

// A run of a part, or a quick one, leaves the last full run's results alone.
inline std::string results_file(bool quick, bool filtered) {
  if (filtered) return "results-filtered.json";
  return quick ? "results-quick.json" : "results.json";
}

}  // namespace rapt::bench
