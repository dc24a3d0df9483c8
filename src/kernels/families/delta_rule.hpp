// Provides the delta rule that all instruction-set levels share.
#pragma once

#include "kernels/delta_rule/delta_rule.hpp"

#define RAPT_FAMILY_delta_rule(kernel) kernel
#include "kernels/part.hpp"
