// Draws calls of any described kernel, from a seed or from a fuzzer's bytes.
#pragma once

#include "support/kernel_case.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Draws a problem of up to about `most` elements, and where its arrays lie.
Case draw_case(Random &random, const KernelCase &kernel, std::size_t most);

}  // namespace rapt::test
