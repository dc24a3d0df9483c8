// When a measurement is not to be believed. The rules alone, on plain numbers: a unit test has made-up ones.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace rapt::bench {

// What was seen of a row, a benchmark by an implementation. NaN where it is not known, which marks nothing.
struct Observation {
  double share = 0;     // the limit / the median time
  double spread = 0;    // quartile_spread() of the repetitions
  double slowdown = 1;  // the time of the limit as measured beside the row / as measured at best
  double load = 0;      // CPUs that others kept busy meanwhile
};

// By how much a limit, a mean of what the machine does in a millisecond, may be wrong.
constexpr double inaccuracy_of_limits = 1.05;

struct Rule {
  const char *name;
  double Observation::*value;
  double most;
  const char *meaning;
};

constexpr Rule rules[] = {
    {"share", &Observation::share, inaccuracy_of_limits, "faster than 105% of the limit"},
    {"spread", &Observation::spread, 0.10, "repetitions' quartiles over 10% of the median apart"},
    {"machine", &Observation::slowdown, 1.10, "the limit, measured beside it, 10% off its best"},
    {"load", &Observation::load, 0.20, "others kept more than 0.2 CPUs busy"},
};

// The names of the rules that the row breaks.
std::vector<std::string> doubts(const Observation &seen);

// (third quartile - first quartile) / median, the quartiles interpolated. A median of five is right if one
// repetition is not, and so the slowest one does not count alone.
double quartile_spread(const std::vector<double> &values);

// By instruction set and by what limit_cases() names.
using Rates = std::map<std::string, std::map<std::string, double>>;

// A limit that lies below another one, which it cannot do on a quiet machine.
struct Inversion {
  std::string limit;  // "avx512 copy:L2"
  std::string below;  // "avx2 copy:L2"
};

// Stronger instruction sets can do what weaker ones do, and nearer memory is no slower than farther. Of the
// two ways to copy the faster one is the limit. Both lists weakest and nearest first.
std::vector<Inversion> inversions(const Rates &rates, const std::vector<std::string> &isas,
                                  const std::vector<std::string> &levels);

}  // namespace rapt::bench
