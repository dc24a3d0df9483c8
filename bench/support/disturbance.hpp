// Decides when a measurement should not be trusted. The rules take plain numbers, so that a unit test can
// make them up.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace rapt::bench {

// Holds measurements of one row, which is a benchmark of one implementation. NaN means unknown, and breaks no
// rule.
struct Observation {
  double share = 0;     // the limit / the median time
  double spread = 0;    // quartile_spread() of the repetitions
  double slowdown = 1;  // the time of the limit measured just before and after, over its best time
  double load = 0;      // CPU time that others took, as a share of the row's
};

// A measured limit may be wrong by this factor, because it is a mean over only a millisecond.
constexpr double inaccuracy_of_limits = 1.05;

struct Rule {
  const char *name;
  double Observation::*value;
  double most;
  const char *meaning;
};

constexpr Rule rules[] = {
    {"share", &Observation::share, inaccuracy_of_limits,
     "faster than 105% of the limit, which is wrong: no share"},
    {"spread", &Observation::spread, 0.10, "repetitions' quartiles over 10% of the median apart"},
    {"machine", &Observation::slowdown, 1.10, "the limit, measured beside it, 10% off its best"},
    {"load", &Observation::load, 0.20, "others took the CPU for more than 20% of its time"},
};

// Returns the names of the rules that the row breaks.
std::vector<std::string> doubts(const Observation &seen);

// Returns (third quartile - first quartile) / median, with interpolated quartiles. The slowest of five
// repetitions has no influence, just as it has none on the median.
double quartile_spread(const std::vector<double> &values);

// Maps an instruction set and a name from limit_cases() to a rate.
using Rates = std::map<std::string, std::map<std::string, double>>;
double rate_of(const Rates &rates, const std::string &isa, const std::string &what);  // 0 if not measured

// Records that `limit` is lower than `below`, which is impossible on a quiet machine.
struct Inversion {
  std::string limit;  // "avx512 copy:L2"
  std::string below;  // "avx2 copy:L2"
};

// Returns the limits that cannot be right. A stronger instruction set is at least as fast as a weaker one,
// and nearer memory is at least as fast as farther memory. The limit of copying is the faster of copy and
// copy_nt. `isas` must be ordered weakest first, and `memory_levels` nearest first.
std::vector<Inversion> inversions(const Rates &rates, const std::vector<std::string> &isas,
                                  const std::vector<std::string> &memory_levels);

}  // namespace rapt::bench
