// Provides the linear layers with quantized weights, and the rows that become integers and numbers, for all
// instruction-set levels.
#pragma once

#include "kernels/linear/linear_in_i8.hpp"
#include "kernels/linear/quantized.hpp"
#include "kernels/linear/quantized_rows.hpp"
#include "kernels/part.hpp"
