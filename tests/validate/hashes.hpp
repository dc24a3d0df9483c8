#pragma once

#include <cstdint>
#include <string>

#include "validate/cases.hpp"

namespace rapt::validate {

// The hash that hashes.def holds for a kernel of kernels.def: its results under the default seed.
std::uint64_t published_hash(const std::string &kernel, Effort effort);

// A line of hashes.def.
std::string hash_line(const std::string &kernel, Effort effort, std::uint64_t hash);

// The comment above the lines.
std::string hashes_head();

}  // namespace rapt::validate
