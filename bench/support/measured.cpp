#include "support/measured.hpp"

#include <algorithm>

#include "support/limit_cases.hpp"
#include "support/text.hpp"

namespace rapt::bench {
namespace {

template <class IsSize>
const Case *find_rapt(const std::vector<const Case *> &cases, const std::string &isa, const IsSize &is_size) {
  for (const Case *one : cases) {
    if (!one->is_peer && one->isa == isa && is_size(one->size)) return one;
  }
  return nullptr;
}

}  // namespace

bool shows_set(const std::string &size, const WorkingSet &set) {
  return size == set.label || size == "cols:1024:" + set.label || size == "dim:128:" + set.label;
}

Measured::Measured(const Plan &plan, const std::vector<Case *> &cases) : plan_(plan) {
  for (const Case *one : cases) {
    if (one->kernel == limit_kernel || !one->measured()) continue;
    if (kernels_.empty() || kernels_.back() != one->kernel) kernels_.push_back(one->kernel);
    by_kernel_[one->kernel].push_back(one);
  }
}

const Case *Measured::rapt(const std::string &kernel, const std::string &isa, const std::string &size) const {
  return find_rapt(of(kernel), isa, [&](const std::string &other) { return other == size; });
}

const Case *Measured::rapt(const std::string &kernel, const std::string &isa, const WorkingSet &set) const {
  return find_rapt(of(kernel), isa, [&](const std::string &size) { return shows_set(size, set); });
}

const std::string &Measured::strongest_isa(const std::string &kernel) const {
  const auto is_measured = [&](const std::string &isa) {
    return find_rapt(of(kernel), isa, [](const std::string &) { return true; }) != nullptr;
  };
  const auto strongest = std::find_if(plan_.isas.rbegin(), plan_.isas.rend(), is_measured);
  return strongest == plan_.isas.rend() ? plan_.isas.back() : *strongest;
}

const Case *Measured::best_peer(const Case &own, double largest_error) const {
  const Case *best = nullptr;
  for (const Case *one : of(own.kernel)) {
    if (!one->is_peer || one->size != own.size || !one->error || !(*one->error <= largest_error)) continue;
    if (one->isa != own.isa && own.isa != strongest_isa(own.kernel)) continue;
    if (!best || one->median() < best->median()) best = one;
  }
  return best;
}

double Measured::speed_up(const Case &own) const {
  const Case *scalar = rapt(own.kernel, "scalar", own.size);
  return scalar ? scalar->median() / own.median() : 0;
}

std::string peer_name(const Case &peer, const std::string &isa) {
  if (peer.isa != isa) return peer.implementation;
  return peer.implementation.substr(0, peer.implementation.size() - isa.size() - 1);
}

double ratio(const Case &own, const Case &peer) { return peer.median() / own.median(); }

double ns_per_element(const Case &one) { return one.median() / static_cast<double>(one.work.elements) * 1e9; }

std::string share_text(const Case &one) {
  const std::string share = one.has_share() ? fmt::format("{:.0f}%", 100 * one.share()) : "-";
  return share + (one.doubts.empty() ? " " : mark);
}

std::string speed_up_text(double speed_up) {
  return speed_up > 0 ? fmt::format("{:.{}f}x", speed_up, speed_up < 10 ? 2 : 1) : "-";
}

}  // namespace rapt::bench
