// Defines attention's entries of a level's table: included after the bodies, the shared ones or the
// reference's, as they carry the same names.
#pragma once

#include "kernels/attention/entries.hpp"

namespace rapt::level {

RAPT_ATTENTION_ENTRY(attention_f32) { attention<float>(call, first, last, workspace); }
RAPT_ATTENTION_ENTRY(attention_f64) { attention<double>(call, first, last, workspace); }
RAPT_ATTENTION_ENTRY(attention_backward_f32) { attention_backward<float>(call, first, last, workspace); }
RAPT_ATTENTION_ENTRY(attention_backward_f64) { attention_backward<double>(call, first, last, workspace); }

}  // namespace rapt::level
