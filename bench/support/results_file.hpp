// Chooses the name of the results file if there is no --json.
#pragma once

#include <string>

namespace rapt::bench {

// A partial or quick run must not overwrite the results of the last full run.
inline std::string results_file(bool quick, bool filtered) {
  if (filtered) return "results-filtered.json";
  return quick ? "results-quick.json" : "results.json";
}

}  // namespace rapt::bench
