// Defines the level "scalar", the reference. Its plain loops spell out the numeric contract, and run on every
// CPU.
#include "isa/scalar/activation.hpp"
#include "isa/scalar/argmax.hpp"
#include "isa/scalar/attention.hpp"
#include "isa/scalar/attention_backward.hpp"
#include "isa/scalar/convolution.hpp"
#include "isa/scalar/delta_rule.hpp"
#include "isa/scalar/delta_rule_backward.hpp"
#include "isa/scalar/dot.hpp"
#include "isa/scalar/exp.hpp"
#include "isa/scalar/expert_sum.hpp"
#include "isa/scalar/int8_attention.hpp"
#include "isa/scalar/linear.hpp"
#include "isa/scalar/map.hpp"
#include "isa/scalar/metric.hpp"
#include "isa/scalar/norm.hpp"
#include "isa/scalar/optimizer.hpp"
#include "isa/scalar/quantized_linear.hpp"
#include "isa/scalar/quantized_rows.hpp"
#include "isa/scalar/random.hpp"
#include "isa/scalar/reduce.hpp"
#include "isa/scalar/rope.hpp"
#include "isa/scalar/scan.hpp"
#include "isa/scalar/softmax.hpp"
#include "isa/scalar/softmax_backward.hpp"

#define RAPT_FAMILY_dot(kernel) kernel
#define RAPT_FAMILY_metric(kernel) kernel
#define RAPT_FAMILY_vector(kernel) kernel
#define RAPT_FAMILY_map(kernel) kernel
#define RAPT_FAMILY_softmax(kernel) kernel
#define RAPT_FAMILY_norm(kernel) kernel
#define RAPT_FAMILY_linear(kernel) kernel
#define RAPT_FAMILY_linear_in_bf16(kernel) kernel
#define RAPT_FAMILY_linear_quantized(kernel) kernel
#define RAPT_FAMILY_linear_in_i8(kernel) kernel
#define RAPT_FAMILY_reduce(kernel) kernel
#define RAPT_FAMILY_delta_rule(kernel) kernel
#define RAPT_FAMILY_delta_rule_backward(kernel) kernel
#define RAPT_FAMILY_rope(kernel) kernel
#define RAPT_FAMILY_attention(kernel) kernel
#define RAPT_FAMILY_attention_in_bf16(kernel) kernel
#define RAPT_FAMILY_attention_dequantizing(kernel) kernel
#define RAPT_FAMILY_attention_backward(kernel) kernel
#include "kernels/part.hpp"

RAPT_PART(kernels) = {.f32 = bodies<float>(),
                      .f64 = bodies<double>(),
                      .f16 = bodies<rapt::F16>(),
                      .bf16 = bodies<rapt::BF16>(),
                      .i8 = bodies<std::int8_t>(),
                      .u8i8 = bodies<std::uint8_t>()};
