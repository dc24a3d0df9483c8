// The numbers of a vector's lanes.
#pragma once

namespace {

// Holds 0, 1, 2, … in the lanes.
template <class A>
alignas(64) constexpr A lane_index[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

}  // namespace
