// Provides the norms and their gradients that all instruction-set levels share.
#pragma once

#include "kernels/norm/backward.hpp"
#include "kernels/norm/layer_norm.hpp"
#include "kernels/norm/rms_norm.hpp"

#define RAPT_FAMILY_norm(kernel) kernel
#include "kernels/part.hpp"
