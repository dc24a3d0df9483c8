// Provides the reductions and scans that all instruction-set levels share.
#pragma once

#include "kernels/reduce/reduce.hpp"
#include "kernels/reduce/scan.hpp"

#define RAPT_FAMILY_reduce(kernel) kernel
#include "kernels/part.hpp"
