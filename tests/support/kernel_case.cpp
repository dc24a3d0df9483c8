#include "support/kernel_case.hpp"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "calls/integer_rows.hpp"
#include "calls/linear.hpp"
#include "calls/norm.hpp"
#include "calls/rope.hpp"
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

template <class T, Vectors function, Family of>
struct VectorsOf {
  static constexpr Family family = of;

  static std::unique_ptr<Call> make(const Problem &problem, const Layout &layout) {
    return make_vectors<T>(function, problem, layout);
  }
};
template <class T>
using Dot = VectorsOf<T, Vectors::dot, Family::two_vectors>;
template <class T>
using DotRows = VectorsOf<T, Vectors::dot_rows, Family::dot_rows>;
template <class T>
using Scale = VectorsOf<T, Vectors::scale, Family::vector>;
template <class T>
using Exp = VectorsOf<T, Vectors::exp, Family::vector>;
template <class T>
using ExpSum = VectorsOf<T, Vectors::exp_sum, Family::vector>;
template <class T>
using Silu = VectorsOf<T, Vectors::silu, Family::vector>;
template <class T>
using Gelu = VectorsOf<T, Vectors::gelu, Family::vector>;
template <class T>
using GeluTanh = VectorsOf<T, Vectors::gelu_tanh, Family::vector>;
template <class T>
using SiluBackward = VectorsOf<T, Vectors::silu_backward, Family::two_vectors>;
template <class T>
using GeluBackward = VectorsOf<T, Vectors::gelu_backward, Family::two_vectors>;
template <class T>
using GeluTanhBackward = VectorsOf<T, Vectors::gelu_tanh_backward, Family::two_vectors>;
template <class T>
using Gated = VectorsOf<T, Vectors::gated, Family::two_vectors>;
template <class T>
using GatedBackward = VectorsOf<T, Vectors::gated_backward, Family::two_vectors>;
template <class T>
using Argmax = VectorsOf<T, Vectors::argmax, Family::vector>;
template <class T>
using ToF32 = VectorsOf<T, Vectors::to_f32, Family::vector>;
template <class T>
using FromF32 = VectorsOf<T, Vectors::from_f32, Family::vector>;

template <class T, Rows function>
struct SoftmaxOf {
  static constexpr Family family = Family::softmax;

  static std::unique_ptr<Call> make(const Problem &problem, const Layout &layout) {
    return make_softmax<T>(function, problem, layout);
  }
};
template <class T>
using Softmax = SoftmaxOf<T, Rows::softmax>;
template <class T>
using LogSoftmax = SoftmaxOf<T, Rows::log_softmax>;
template <class T>
using Logsumexp = SoftmaxOf<T, Rows::logsumexp>;

template <class T>
struct SoftmaxBackward {
  static constexpr Family family = Family::softmax_backward;

  static std::unique_ptr<Call> make(const Problem &problem, const Layout &layout) {
    return make_softmax_backward<T>(problem, layout);
  }
};

template <class T, Norm function>
struct NormOf {
  static constexpr Family family = Family::norm;

  static std::unique_ptr<Call> make(const Problem &problem, const Layout &layout) {
    return make_norm(function, element_of<T>, problem, layout);
  }
};
template <class T>
using RmsNorm = NormOf<T, Norm::rms>;
template <class T>
using LayerNorm = NormOf<T, Norm::layer>;
template <class T>
using RmsNormBackward = NormOf<T, Norm::rms_backward>;
template <class T>
using LayerNormBackward = NormOf<T, Norm::layer_backward>;

template <class T, rapt_arithmetic arithmetic>
struct LinearIn {
  static constexpr Family family = Family::linear;

  static std::unique_ptr<Call> make(const Problem &problem, const Layout &layout) {
    return make_linear_call<T>(problem, layout, arithmetic);
  }
};
template <class T>
using Linear = LinearIn<T, RAPT_ARITHMETIC_F32>;
template <class T>
using LinearInBf16 = LinearIn<T, RAPT_ARITHMETIC_BF16>;

template <rapt_arithmetic arithmetic>
struct QuantizedIn {
  static constexpr Family family = Family::quantized_linear;

  static std::unique_ptr<Call> make(const Problem &problem, const Layout &layout) {
    return make_quantized_call(problem, layout, arithmetic);
  }
};
template <class>
using QuantizedInF32 = QuantizedIn<RAPT_ARITHMETIC_F32>;
template <class>
using QuantizedInI8 = QuantizedIn<RAPT_ARITHMETIC_I8>;

template <class>
struct QuantizeRows {
  static constexpr Family family = Family::vector;
  static constexpr auto make = make_quantize_rows;
};
template <class>
struct DequantizeRows {
  static constexpr Family family = Family::vector;
  static constexpr auto make = make_dequantize_rows;
};

template <class T>
struct Rope {
  static constexpr Family family = Family::rope;

  static std::unique_ptr<Call> make(const Problem &problem, const Layout &layout) {
    return make_rope(element_of<T>, problem, layout);
  }
};

}  // namespace
}  // namespace drivers

namespace {

// Declares a type for each kernel of kernels.def. A kernel without a DRIVER line below does not compile.
namespace kernel {
#define KERNEL(name, ...) struct name;
#include "kernels/kernels.def"
#undef KERNEL
}  // namespace kernel

template <class Kernel>
struct CaseOf;

#define DRIVER_OF(name, Driver, Element)                    \
  template <>                                               \
  struct CaseOf<kernel::name> : drivers::Driver<Element> {  \
    static constexpr std::size_t element = sizeof(Element); \
  };
#define DRIVER(name, Driver)           \
  DRIVER_OF(name##_f32, Driver, float) \
  DRIVER_OF(name##_f64, Driver, double)
#define DRIVER_OF_ALL(name, Driver)  \
  DRIVER(name, Driver)               \
  DRIVER_OF(name##_f16, Driver, F16) \
  DRIVER_OF(name##_bf16, Driver, BF16)
DRIVER_OF_ALL(dot, Dot)
DRIVER_OF(dot_i8, Dot, std::int8_t)
DRIVER_OF(dot_u8i8, Dot, std::uint8_t)
DRIVER_OF_ALL(dot_rows, DotRows)
DRIVER_OF(dot_rows_i8, DotRows, std::int8_t)
DRIVER_OF(dot_rows_u8i8, DotRows, std::uint8_t)
DRIVER_OF_ALL(scale, Scale)
DRIVER(exp, Exp)
DRIVER_OF_ALL(silu, Silu)
DRIVER_OF_ALL(gelu, Gelu)
DRIVER_OF_ALL(gelu_tanh, GeluTanh)
DRIVER_OF_ALL(gated, Gated)
DRIVER(silu_backward, SiluBackward)
DRIVER(gelu_backward, GeluBackward)
DRIVER(gelu_tanh_backward, GeluTanhBackward)
DRIVER(gated_backward, GatedBackward)
DRIVER_OF_ALL(argmax, Argmax)
DRIVER(exp_sum, ExpSum)
DRIVER_OF_ALL(softmax, Softmax)
DRIVER_OF_ALL(log_softmax, LogSoftmax)
DRIVER(logsumexp, Logsumexp)
DRIVER(softmax_backward, SoftmaxBackward)
DRIVER_OF_ALL(rms_norm, RmsNorm)
DRIVER_OF_ALL(layer_norm, LayerNorm)
DRIVER(rms_norm_backward, RmsNormBackward)
DRIVER(layer_norm_backward, LayerNormBackward)
DRIVER_OF_ALL(linear, Linear)
DRIVER_OF(linear_in_bf16, LinearInBf16, BF16)
DRIVER_OF(linear_quantized, QuantizedInF32, std::int8_t)
DRIVER_OF(quantize_rows, QuantizeRows, std::int8_t)
DRIVER_OF(dequantize_rows, DequantizeRows, std::int8_t)
DRIVER_OF(linear_in_i8, QuantizedInI8, std::int8_t)
DRIVER_OF_ALL(rope, Rope)
DRIVER_OF_ALL(attention, Attention)
DRIVER_OF_ALL(attention_partial, AttentionPartial)
DRIVER_OF_ALL(attention_merge, AttentionMerge)
DRIVER_OF(attention_i8, Attention, std::int8_t)
DRIVER_OF(attention_partial_i8, AttentionPartial, std::int8_t)
DRIVER_OF(attention_merge_i8, AttentionMerge, std::int8_t)
DRIVER_OF(attention_in_bf16, AttentionInBf16, BF16)
DRIVER_OF(attention_partial_in_bf16, AttentionInBf16Partial, BF16)
DRIVER_OF_ALL(attention_backward, AttentionBackward)
DRIVER_OF(convert_f16_to_f32, ToF32, F16)
DRIVER_OF(convert_bf16_to_f32, ToF32, BF16)
DRIVER_OF(convert_f32_to_f16, FromF32, F16)
DRIVER_OF(convert_f32_to_bf16, FromF32, BF16)
#undef DRIVER_OF_ALL
#undef DRIVER_OF
#undef DRIVER

template <class Driver>
constexpr KernelCase case_of(const char *name) {
  const KernelTraits traits{Driver::element, Driver::family};
  if constexpr (requires { Driver::make; }) {
    const auto run = [](const Problem &problem, const Layout &layout) {
      const std::unique_ptr<Call> call = Driver::make(problem, layout);
      return call ? run_call(*call, layout) : Outcome{{}, "this problem is another kernel's; "};
    };
    return {name, traits, run, Driver::make};
  } else {
    return {name, traits, Driver::run, nullptr};
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
