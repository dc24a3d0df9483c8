// Provides the delta rule's gradients that all instruction-set levels share.
#pragma once

#include "kernels/delta_rule/backward.hpp"

#define RAPT_FAMILY_delta_rule_backward(kernel) kernel
#include "kernels/part.hpp"
