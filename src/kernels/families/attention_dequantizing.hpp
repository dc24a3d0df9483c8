// Provides the attention kernel over keys and values that are dequantized, which all instruction-set levels share.
#pragma once

#include "kernels/attention/attention_dequantizing.hpp"
#include "kernels/part.hpp"
