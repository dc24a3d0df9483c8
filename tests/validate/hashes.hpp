#pragma once

#include <cstdint>
#include <string>

#include "validate/cases.hpp"

namespace rapt::validate {

// Returns the hash that hashes.def holds for a kernel of kernels.def. It is the hash of its results under the
// default seed.
std::uint64_t published_hash(const std::string &kernel, Effort effort);

// Returns a line of hashes.def.
std::string hash_line(const std::string &kernel, Effort effort, std::uint64_t hash);

// Returns the comment above the lines.
std::string hashes_head();

}  // namespace rapt::validate
