// Provides the dot kernels of 8-bit elements that all instruction-set levels share.
#pragma once

#include "kernels/byte_dot.hpp"
#include "kernels/byte_metric.hpp"

#define RAPT_FAMILY_dot(kernel) kernel
#define RAPT_FAMILY_metric(kernel) kernel
#include "kernels/part.hpp"
