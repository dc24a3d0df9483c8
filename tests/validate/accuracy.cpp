#include "validate/accuracy.hpp"

#include "validate/accuracy_attention.hpp"
#include "validate/accuracy_softmax.hpp"
#include "validate/accuracy_vectors.hpp"

namespace rapt::validate {
namespace {

// One type for each line of kernels.def. A kernel without an accuracy does not compile.
namespace kernel {
#define KERNEL(name, result, parameters, arguments) struct name;
#include "kernels/kernels.def"
#undef KERNEL
}  // namespace kernel

template <class Kernel>
struct AccuracyOf;

#define ACCURACY(name, Type)                             \
  template <>                                            \
  struct AccuracyOf<kernel::name##_f32> : Type<float> {  \
    using Element = float;                               \
  };                                                     \
  template <>                                            \
  struct AccuracyOf<kernel::name##_f64> : Type<double> { \
    using Element = double;                              \
  };
ACCURACY(dot, DotAccuracy)
ACCURACY(dot_rows, DotRowsAccuracy)
ACCURACY(scale, ScaleAccuracy)
ACCURACY(exp, ExpAccuracy)
ACCURACY(exp_sum, ExpSumAccuracy)
ACCURACY(softmax, SoftmaxAccuracy)
ACCURACY(log_softmax, LogSoftmaxAccuracy)
ACCURACY(logsumexp, LogsumexpAccuracy)
ACCURACY(softmax_backward, SoftmaxBackwardAccuracy)
ACCURACY(attention, AttentionWholeAccuracy)
ACCURACY(attention_partial, AttentionPartialAccuracy)
ACCURACY(attention_merge, AttentionWholeAccuracy)
ACCURACY(attention_backward, AttentionBackwardAccuracy)
#undef ACCURACY

template <class Kernel>
Judgement judge(const Problem &problem, const std::vector<std::uint64_t> &bits) {
  if constexpr (!measurable<typename AccuracyOf<Kernel>::Element>) return {};
  return AccuracyOf<Kernel>::judge(problem, bits);
}

constexpr Accuracy accuracies[] = {
#define KERNEL(name, result, parameters, arguments) \
  {#name, AccuracyOf<kernel::name>::unit_text, AccuracyOf<kernel::name>::bound, judge<kernel::name>},
#include "kernels/kernels.def"
#undef KERNEL
};

}  // namespace

const Accuracy *accuracy_of(const std::string &kernel) {
  for (const Accuracy &accuracy : accuracies) {
    if (kernel == accuracy.kernel) return &accuracy;
  }
  return nullptr;
}

}  // namespace rapt::validate
