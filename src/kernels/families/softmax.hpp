// Provides the softmax kernels that all instruction-set levels share.
#pragma once

#include "kernels/softmax/log_softmax.hpp"
#include "kernels/softmax/logsumexp.hpp"
#include "kernels/softmax/softmax.hpp"
#include "kernels/softmax/softmax_backward.hpp"

#define RAPT_FAMILY_softmax(kernel) kernel
#include "kernels/part.hpp"
