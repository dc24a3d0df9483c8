// Sets of statuses, because a call with several mistakes may return the status of any of them.
#pragma once

#include <cstdint>

#include "rapt/rapt.h"

namespace rapt::test {

class Statuses {
  static constexpr int words = 4;

 public:
  static constexpr int limit = 64 * words;  // each status is below it
  static_assert(RAPT_BAD_DBETA < limit);

  // The empty set, which is written as 0.
  constexpr Statuses(int = 0) {}
  static constexpr Statuses of(rapt_status status) {
    Statuses set;
    if (status != RAPT_OK) set.bits_[status / 64] = std::uint64_t{1} << status % 64;
    return set;
  }

  constexpr Statuses &operator|=(const Statuses &other) {
    for (int i = 0; i < words; ++i) bits_[i] |= other.bits_[i];
    return *this;
  }
  friend constexpr Statuses operator|(Statuses a, const Statuses &b) { return a |= b; }
  friend constexpr Statuses operator&(Statuses a, const Statuses &b) {
    for (int i = 0; i < words; ++i) a.bits_[i] &= b.bits_[i];
    return a;
  }
  friend constexpr bool operator==(const Statuses &, const Statuses &) = default;

 private:
  std::uint64_t bits_[words] = {};
};

constexpr Statuses only(rapt_status status) { return Statuses::of(status); }
constexpr bool has(const Statuses &set, rapt_status status) { return (set & only(status)) != 0; }

}  // namespace rapt::test
