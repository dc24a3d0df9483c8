// The name of the results file without --json.
#pragma once

#include <string>

namespace rapt::bench {

// A partial or quick run keeps the results of the last full run.
inline std::string results_file(bool quick, bool filtered) {
  if (filtered) return "results-filtered.json";
  return quick ? "results-quick.json" : "results.json";
}

}  // namespace rapt::bench
