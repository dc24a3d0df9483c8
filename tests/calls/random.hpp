// The call of rapt_random, and its options.
#pragma once

#include <memory>

#include "calls/call.hpp"

namespace rapt::test {

// The seed chooses the kind, the stream and the offset.
rapt_random_options random_options_of(const Problem &problem);
std::unique_ptr<Call> make_random(const Problem &problem, const Layout &layout);

}  // namespace rapt::test
