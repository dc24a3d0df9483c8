// Sets of statuses, because a call with several mistakes may return the status of any of them.
#pragma once

#include "rapt/rapt.h"

namespace rapt::test {

__extension__ using Statuses = unsigned __int128;  // one bit each
static_assert(RAPT_BAD_PACKED < 128);
constexpr Statuses only(rapt_status status) { return status == RAPT_OK ? 0 : Statuses{1} << status; }
constexpr bool has(Statuses set, rapt_status status) { return (set & only(status)) != 0; }

}  // namespace rapt::test
