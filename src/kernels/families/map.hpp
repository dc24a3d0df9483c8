// Provides the elementwise functions that all instruction-set levels share.
#pragma once

#include "kernels/map/map.hpp"

#define RAPT_FAMILY_map(kernel) kernel
#include "kernels/part.hpp"
