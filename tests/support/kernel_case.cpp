#include "support/kernel_case.hpp"

#include "support/attention_backward_case.hpp"
#include "support/attention_case.hpp"
#include "support/softmax_cases.hpp"
#include "support/vector_cases.hpp"

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
struct AttentionBackward {
  static constexpr Family family = Family::attention_backward;

  static Outcome run(const Problem &problem, const Layout &layout) {
    return run_attention_backward<T>(problem, layout);
  }
};

}  // namespace
}  // namespace drivers

namespace {

// One type for each line of kernels.def. A kernel without a driver below does not compile.
namespace kernel {
#define KERNEL(name, result, parameters, arguments) struct name;
#include "kernels/kernels.def"
#undef KERNEL
}  // namespace kernel

template <class Kernel>
struct CaseOf;

#define DRIVER(name, Driver)                                    \
  template <>                                                   \
  struct CaseOf<kernel::name##_f32> : drivers::Driver<float> {  \
    static constexpr std::size_t element = sizeof(float);       \
  };                                                            \
  template <>                                                   \
  struct CaseOf<kernel::name##_f64> : drivers::Driver<double> { \
    static constexpr std::size_t element = sizeof(double);      \
  };
DRIVER(dot, Dot)
DRIVER(dot_rows, DotRows)
DRIVER(scale, Scale)
DRIVER(exp, Exp)
DRIVER(exp_sum, ExpSum)
DRIVER(softmax, Softmax)
DRIVER(log_softmax, LogSoftmax)
DRIVER(logsumexp, Logsumexp)
DRIVER(softmax_backward, SoftmaxBackward)
DRIVER(attention, Attention)
DRIVER(attention_partial, AttentionPartial)
DRIVER(attention_merge, AttentionMerge)
DRIVER(attention_backward, AttentionBackward)
#undef DRIVER

constexpr KernelCase cases[] = {
#define KERNEL(name, result, parameters, arguments) \
  {#name, {CaseOf<kernel::name>::element, CaseOf<kernel::name>::family}, CaseOf<kernel::name>::run},
#include "kernels/kernels.def"
#undef KERNEL
};

}  // namespace

std::span<const KernelCase> kernel_cases() { return cases; }

}  // namespace rapt::test
