// Which kernels a level has itself, instead of inheriting them from the level that it builds on.
#pragma once

namespace rapt::test {

// Whether the active level itself has one of the kernels whose names contain one of `parts`, words separated
// by spaces or commas. Tests leave out other levels: inherited code was tested on the level that has it. No
// std::string, because the fuzzers use this.
bool active_level_has(const char *parts);

// Whether the level has any kernel itself. False if Linux refuses it the tiles that its kernels need.
bool active_level_serves();

}  // namespace rapt::test
