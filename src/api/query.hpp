// Answers what a call with some options needs, such as its tasks or its bytes.
#pragma once

#include "api/floating_point.hpp"
#include "rapt/rapt.h"

namespace rapt {

// Reads the options as Call, and calls answer(call), which writes to `out`.
template <class Call, class Options, class Out, class Answer>
rapt_status query(const Options *options, Out *out, Answer answer) {
  return in_default_mode([&] {
    Call call;
    const rapt_status status = call.read(options);
    if (status != RAPT_OK) return status;
    if (!out) return RAPT_BAD_OUT;
    answer(call);
    return RAPT_OK;
  });
}

}  // namespace rapt
