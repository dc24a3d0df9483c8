// Tells which kernels a level has itself, instead of inheriting them from the level that it builds on.
#pragma once

namespace rapt::test {

// Returns whether the active level itself has a kernel whose name contains a word of `parts`. Words are
// separated by spaces or commas. Tests skip other levels, because inherited code was tested on the level that
// has it. The function takes no std::string, because the fuzzers use it.
bool active_level_has(const char *parts);

// Returns whether the active level has any kernel itself. Returns false if Linux refuses the tiles that its
// kernels need.
bool active_level_serves();

}  // namespace rapt::test
