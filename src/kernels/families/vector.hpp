// Provides the dot products and elementwise kernels that all instruction-set levels share.
#pragma once

#include "kernels/activation.hpp"
#include "kernels/activation_backward.hpp"
#include "kernels/argmax.hpp"
#include "kernels/convert.hpp"
#include "kernels/convolution.hpp"
#include "kernels/dot.hpp"
#include "kernels/dot_rows.hpp"
#include "kernels/exp.hpp"
#include "kernels/exp_sum.hpp"
#include "kernels/expert_sum.hpp"
#include "kernels/metric.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/random.hpp"
#include "kernels/scale.hpp"

#define RAPT_FAMILY_dot(kernel) kernel
#define RAPT_FAMILY_metric(kernel) kernel
#define RAPT_FAMILY_vector(kernel) kernel
#include "kernels/part.hpp"
