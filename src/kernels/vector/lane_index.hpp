// Defines 0, 1, 2, … as the lanes of a vector.
#pragma once

namespace {

template <class A>
alignas(64) constexpr A lane_index[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

}  // namespace
