// Tells which kernels a level implements itself, and does not inherit from the level that it builds on.
#pragma once

namespace rapt::test {

// Returns whether the active level itself implements a kernel whose name contains a word of `parts`. Spaces
// or commas separate words. Tests skip other levels, because inherited code was tested on the level that has
// it. The parameter is not a std::string, because the fuzzers do not use std::string.
bool active_level_has(const char *parts);

// Returns whether the active level implements any kernel itself. Returns false if Linux refuses the AMX tiles
// that its kernels need.
bool active_level_serves();

}  // namespace rapt::test
