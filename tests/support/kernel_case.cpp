#include "support/kernel_case.hpp"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "calls/convolution.hpp"
#include "calls/delta_rule.hpp"
#include "calls/index_rows.hpp"
#include "calls/linear.hpp"
#include "calls/map.hpp"
#include "calls/norm.hpp"
#include "calls/optimizer.hpp"
#include "calls/quantized_rows.hpp"
#include "calls/random.hpp"
#include "calls/reduce.hpp"
#include "calls/rope.hpp"
#include "calls/scan.hpp"
#include "calls/search.hpp"
#include "calls/softmax.hpp"
#include "calls/vectors.hpp"
#include "support/attention_backward_case.hpp"
#include "support/attention_case.hpp"

namespace rapt::test {
namespace drivers {
namespace {

template <class T, AttentionStage stage>
struct AttentionInStage {
  static constexpr Family family = Family::attention;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_attention<T>(problem, layout, stage);
  }
};
template <class T>
using Attention = AttentionInStage<T, AttentionStage::whole>;
template <class T>
using AttentionPartial = AttentionInStage<T, AttentionStage::partial>;
template <class T>
using AttentionMerge = AttentionInStage<T, AttentionStage::merge>;

template <class T>
struct AttentionInBf16 {
  static constexpr Family family = Family::attention;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_attention<T>(problem, layout, AttentionStage::whole, RAPT_ARITHMETIC_BF16);
  }
};
template <class T>
struct AttentionInBf16Partial : AttentionInBf16<T> {
  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_attention<T>(problem, layout, AttentionStage::partial, RAPT_ARITHMETIC_BF16);
  }
};

template <class T>
struct AttentionBackward {
  static constexpr Family family = Family::attention_backward;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_attention_backward<T>(problem, layout);
  }
};

// What the descriptions make of a problem, by type and function.
template <class T, Vectors function>
std::unique_ptr<Call> vectors(const Problem &problem, const Layout &layout) {
  return make_vectors<T>(function, problem, layout);
}
template <class T, Rows function>
std::unique_ptr<Call> softmax(const Problem &problem, const Layout &layout) {
  return make_softmax<T>(function, problem, layout);
}
template <class T, Norm function>
std::unique_ptr<Call> norm(const Problem &problem, const Layout &layout) {
  return make_norm(function, element_of<T>, problem, layout);
}
template <class T, RowGradient function>
std::unique_ptr<Call> row_gradient(const Problem &problem, const Layout &layout) {
  return make_softmax_backward<T>(function, problem, layout);
}
template <class T>
std::unique_ptr<Call> rope(const Problem &problem, const Layout &layout) {
  return make_rope(element_of<T>, problem, layout);
}
template <class T>
std::unique_ptr<Call> reduce(const Problem &problem, const Layout &layout) {
  return make_reduce(element_of<T>, problem, layout);
}
template <class T>
std::unique_ptr<Call> scan(const Problem &problem, const Layout &layout) {
  return make_scan(element_of<T>, problem, layout);
}
template <class T>
std::unique_ptr<Call> delta(const Problem &problem, const Layout &layout) {
  return make_delta_rule(element_of<T>, problem, layout);
}
template <class T>
std::unique_ptr<Call> delta_backward(const Problem &problem, const Layout &layout) {
  return make_delta_rule_backward(element_of<T>, problem, layout);
}
template <class T>
std::unique_ptr<Call> convolution(const Problem &problem, const Layout &layout) {
  return make_convolution(element_of<T>, problem, layout);
}
template <class T, rapt_arithmetic arithmetic>
std::unique_ptr<Call> linear(const Problem &problem, const Layout &layout) {
  return make_linear_call<T>(problem, layout, arithmetic);
}
template <rapt_arithmetic arithmetic>
std::unique_ptr<Call> quantized(const Problem &problem, const Layout &layout) {
  return make_quantized_call(problem, layout, arithmetic);
}

}  // namespace
}  // namespace drivers

namespace {

// Declares a type for each kernel of kernels.def. A kernel without a row below does not compile.
namespace kernel {
#define KERNEL(name, ...) struct name;
#include "kernels/kernels.def"
#undef KERNEL
}  // namespace kernel

template <class Kernel>
struct CaseOf;

using namespace drivers;

// DESCRIBED(name, element, family, function): the kernel's call is what the function makes of a problem.
#define DESCRIBED(name, Element, of, ...)                   \
  template <>                                               \
  struct CaseOf<kernel::name> {                             \
    static constexpr std::size_t element = sizeof(Element); \
    static constexpr Family family = Family::of;            \
    static constexpr auto make = __VA_ARGS__;               \
  };
#define OF_FLOATS(name, of, function, ...)                                     \
  DESCRIBED(name##_f32, float, of, function<float __VA_OPT__(, ) __VA_ARGS__>) \
  DESCRIBED(name##_f64, double, of, function<double __VA_OPT__(, ) __VA_ARGS__>)
#define OF_HALVES(name, of, function, ...)                                 \
  DESCRIBED(name##_f16, F16, of, function<F16 __VA_OPT__(, ) __VA_ARGS__>) \
  DESCRIBED(name##_bf16, BF16, of, function<BF16 __VA_OPT__(, ) __VA_ARGS__>)
#define OF_ALL(name, of, function, ...)                    \
  OF_FLOATS(name, of, function __VA_OPT__(, ) __VA_ARGS__) \
  OF_HALVES(name, of, function __VA_OPT__(, ) __VA_ARGS__)
#define OF_BYTES(name, of, function)                                             \
  DESCRIBED(name##_i8, std::int8_t, of, vectors<std::int8_t, Vectors::function>) \
  DESCRIBED(name##_u8i8, std::uint8_t, of, vectors<std::uint8_t, Vectors::function>)
OF_ALL(dot, two_vectors, vectors, Vectors::dot)
OF_BYTES(dot, two_vectors, dot)
OF_ALL(dot_rows, dot_rows, vectors, Vectors::dot_rows)
OF_BYTES(dot_rows, dot_rows, dot_rows)
OF_ALL(metric, dot_rows, make_metric)
DESCRIBED(metric_i8, std::int8_t, dot_rows, make_metric<std::int8_t>)
OF_ALL(metric_rows, dot_rows, make_metric_rows)
DESCRIBED(metric_rows_i8, std::int8_t, dot_rows, make_metric_rows<std::int8_t>)
OF_ALL(scale, vector, vectors, Vectors::scale)
OF_FLOATS(exp, vector, vectors, Vectors::exp)
OF_ALL(silu, vector, vectors, Vectors::silu)
OF_ALL(gelu, vector, vectors, Vectors::gelu)
OF_ALL(gelu_tanh, vector, vectors, Vectors::gelu_tanh)
OF_ALL(gated, two_vectors, vectors, Vectors::gated)
OF_ALL(expert_sum, two_vectors, vectors, Vectors::expert_sum)
OF_ALL(convolution, convolution, convolution)
OF_FLOATS(map, two_vectors, make_map)
OF_ALL(embedding_bag, two_vectors, make_embedding_bag)
OF_ALL(index_add, two_vectors, make_index_add)
OF_ALL(silu_backward, two_vectors, vectors, Vectors::silu_backward)
OF_ALL(gelu_backward, two_vectors, vectors, Vectors::gelu_backward)
OF_ALL(gelu_tanh_backward, two_vectors, vectors, Vectors::gelu_tanh_backward)
OF_ALL(gated_backward, two_vectors, vectors, Vectors::gated_backward)
DESCRIBED(adamw_step, float, two_vectors, make_adamw_step)
DESCRIBED(sgd_step, float, two_vectors, make_sgd_step)
DESCRIBED(random, float, vector, make_random)
OF_ALL(argmax, vector, vectors, Vectors::argmax)
OF_FLOATS(exp_sum, vector, vectors, Vectors::exp_sum)
OF_ALL(softmax, softmax, softmax, Rows::softmax)
OF_ALL(log_softmax, softmax, softmax, Rows::log_softmax)
OF_FLOATS(logsumexp, softmax, softmax, Rows::logsumexp)
OF_ALL(softmax_backward, softmax_backward, row_gradient, RowGradient::softmax)
OF_ALL(log_softmax_backward, softmax_backward, row_gradient, RowGradient::log_softmax)
OF_ALL(rms_norm, norm, norm, Norm::rms)
OF_ALL(layer_norm, norm, norm, Norm::layer)
OF_ALL(rms_norm_backward, norm, norm, Norm::rms_backward)
OF_ALL(layer_norm_backward, norm, norm, Norm::layer_backward)
OF_ALL(linear, linear, linear, RAPT_ARITHMETIC_F32)
DESCRIBED(linear_in_bf16, BF16, linear, linear<BF16, RAPT_ARITHMETIC_BF16>)
DESCRIBED(linear_quantized, std::int8_t, quantized_linear, quantized<RAPT_ARITHMETIC_F32>)
DESCRIBED(linear_in_i8, std::int8_t, quantized_linear, quantized<RAPT_ARITHMETIC_I8>)
DESCRIBED(quantize_rows, std::int8_t, vector, make_quantize_rows)
DESCRIBED(dequantize_rows, std::int8_t, vector, make_dequantize_rows)
DESCRIBED(dequantize_blocks, std::int8_t, vector, make_dequantize_blocks)
OF_ALL(rope, rope, rope)
OF_ALL(reduce, reduce, reduce)
OF_ALL(scan, reduce, scan)
DESCRIBED(delta_rule, float, delta_rule, delta<float>)
OF_HALVES(delta_rule, delta_rule, delta)
DESCRIBED(delta_rule_backward, float, delta_rule, delta_backward<float>)
OF_HALVES(delta_rule_backward, delta_rule, delta_backward)
DESCRIBED(convert_f16_to_f32, F16, vector, vectors<F16, Vectors::to_f32>)
DESCRIBED(convert_bf16_to_f32, BF16, vector, vectors<BF16, Vectors::to_f32>)
DESCRIBED(convert_f32_to_f16, F16, vector, vectors<F16, Vectors::from_f32>)
DESCRIBED(convert_f32_to_bf16, BF16, vector, vectors<BF16, Vectors::from_f32>)
#undef OF_BYTES
#undef OF_ALL
#undef OF_HALVES
#undef OF_FLOATS
#undef DESCRIBED

#define DRIVER_OF(name, Driver, Element)                    \
  template <>                                               \
  struct CaseOf<kernel::name> : drivers::Driver<Element> {  \
    static constexpr std::size_t element = sizeof(Element); \
  };
#define DRIVER_OF_ALL(name, Driver)     \
  DRIVER_OF(name##_f32, Driver, float)  \
  DRIVER_OF(name##_f64, Driver, double) \
  DRIVER_OF(name##_f16, Driver, F16)    \
  DRIVER_OF(name##_bf16, Driver, BF16)
DRIVER_OF_ALL(attention, Attention)
DRIVER_OF_ALL(attention_partial, AttentionPartial)
DRIVER_OF_ALL(attention_merge, AttentionMerge)
DRIVER_OF(attention_i8, Attention, std::int8_t)
DRIVER_OF(attention_partial_i8, AttentionPartial, std::int8_t)
DRIVER_OF(attention_merge_i8, AttentionMerge, std::int8_t)
DRIVER_OF(attention_dequantizing, Attention, InBlocks)
DRIVER_OF(attention_partial_dequantizing, AttentionPartial, InBlocks)
DRIVER_OF(attention_in_bf16, AttentionInBf16, BF16)
DRIVER_OF(attention_partial_in_bf16, AttentionInBf16Partial, BF16)
DRIVER_OF_ALL(attention_backward, AttentionBackward)
#undef DRIVER_OF_ALL
#undef DRIVER_OF

template <class Of>
constexpr KernelCase case_of(const char *name) {
  const KernelTraits traits{Of::element, Of::family};
  if constexpr (requires { Of::make; }) {
    const auto run = [](const Problem &problem, const Layout &layout) {
      const std::unique_ptr<Call> call = Of::make(problem, layout);
      return call ? run_call(*call, layout) : Outcome{{}, "this problem is another kernel's; "};
    };
    return {name, traits, run, Of::make};
  } else {
    return {name, traits, Of::run, nullptr};
  }
}

constexpr KernelCase cases[] = {
#define KERNEL(name, ...) case_of<CaseOf<kernel::name>>(#name),
#include "kernels/kernels.def"
#undef KERNEL
};

}  // namespace

std::span<const KernelCase> kernel_cases() { return cases; }

std::span<const KernelCase *const> described_kernels() {
  static const std::vector<const KernelCase *> described = [] {
    const char *const part = std::getenv("RAPT_CALLS_OF");
    std::vector<const KernelCase *> made;
    for (const KernelCase &kernel : cases) {
      if (kernel.make && (!part || std::strstr(kernel.name, part))) made.push_back(&kernel);
    }
    return made;
  }();
  return described;
}

}  // namespace rapt::test
