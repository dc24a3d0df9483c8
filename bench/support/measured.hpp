// Groups the measured cases by kernel, and formats the cells of the summary's tables.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "support/case.hpp"

namespace rapt::bench {

// Returns whether the level table shows the kernel at this size.
bool shows_set(const std::string &size, const WorkingSet &set);

class Measured {
 public:
  Measured(const Plan &plan, const std::vector<Case *> &cases);

  const std::vector<std::string> &kernels() const { return kernels_; }
  const std::vector<const Case *> &of(const std::string &kernel) const { return by_kernel_.at(kernel); }

  const Case *rapt(const std::string &kernel, const std::string &isa, const std::string &size) const;
  const Case *rapt(const std::string &kernel, const std::string &isa, const WorkingSet &set) const;

  // Returns the strongest instruction set on which the kernel was measured. Stronger sets inherit the kernel.
  const std::string &strongest_isa(const std::string &kernel) const;

  // Returns the fastest peer at the same size. An instruction set is compared with peers of the same set. The
  // strongest set is compared with all peers.
  const Case *best_peer(const Case &own, double largest_error = HUGE_VAL) const;

  // Returns the scalar level's time divided by the case's time, or 0 if the scalar level was not measured.
  double speed_up(const Case &own) const;

 private:
  const Plan &plan_;
  std::vector<std::string> kernels_;
  std::map<std::string, std::vector<const Case *>> by_kernel_;
};

class GeometricMean {
 public:
  void add(double value) {
    log_sum_ += std::log(value);
    ++count_;
  }
  bool empty() const { return count_ == 0; }
  double value() const { return std::exp(log_sum_ / count_); }

 private:
  double log_sum_ = 0;
  int count_ = 0;
};

// Returns the peer's time divided by rapt's. Above 1, rapt is faster.
double ratio(const Case &own, const Case &peer);

// Marks a number that should not be trusted.
constexpr const char *mark = "!";

// Returns the library's name, followed by its instruction set if that is not `isa`.
std::string peer_name(const Case &peer, const std::string &isa);
double ns_per_element(const Case &one);
std::string share_text(const Case &one);
std::string speed_up_text(double speed_up);

}  // namespace rapt::bench
