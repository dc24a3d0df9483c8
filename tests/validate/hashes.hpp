#pragma once

#include <cstdint>
#include <string>

#include "validate/cases.hpp"

namespace rapt::validate {

// Returns the hash in hashes.def of the kernel's results under the default seed.
std::uint64_t published_hash(const std::string &kernel, Effort effort);

// Returns a HASH line of hashes.def.
std::string hash_line(const std::string &kernel, Effort effort, std::uint64_t hash);

// Returns the text above the HASH lines: the comment and the BITS line.
std::string hashes_head();

}  // namespace rapt::validate
