// Defines the order of operations of rapt_scan. Elements along the dimension are joined in groups of `scan_group`, from
// element 0.
//
//   prefixes   p[j] = x[j]; then, for s = 1, 2, 4 and 8: p[j] = p[j - s] + p[j] for each j >= s, all at once
//   results    y[j] = c + p[j], where c is the last result of the group before, and -0 before the first group
//
// Products have * for +, and begin with c = 1. -0 and 1 change nothing that is joined to them.
//
// Errors: p[j] is a tree of at most 4 levels. An element of the first group then meets one addition per later group,
// and those of later groups meet no more than these: 4 + i / 16 additions at most for result i. Sums err by nothing but
// their roundings,
// so that |error| <= D u T / (1 - D u) with D = 4 + i / 16, and T the sum of the magnitudes. A product of i + 1 numbers has i
// roundings, in any tree.
#pragma once

#include <cstddef>

namespace rapt {
namespace {

inline constexpr std::size_t scan_group = 16;

}  // namespace
}  // namespace rapt
