// Which kernels a level has itself, rather than from the level that it builds on.
#pragma once

namespace rapt::test {

// Whether the active level has one of the kernels whose names hold one of `parts`, words separated by spaces
// or commas. Tests leave out the others: inherited code has been tested on the level that has it. No
// std::string: the fuzzers use it.
bool active_level_has(const char *parts);

// Whether it has any kernel itself. Not where Linux refuses it the tiles that its kernels need.
bool active_level_serves();

}  // namespace rapt::test
