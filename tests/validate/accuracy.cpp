#include "validate/accuracy.hpp"

#include "calls/convolution_truth.hpp"
#include "calls/delta_rule_truth.hpp"
#include "calls/index_rows_truth.hpp"
#include "calls/linear_truth.hpp"
#include "calls/norm_truth.hpp"
#include "calls/optimizer_truth.hpp"
#include "calls/quantized_rows_truth.hpp"
#include "calls/quantized_truth.hpp"
#include "calls/reduce_truth.hpp"
#include "calls/rope_truth.hpp"
#include "calls/rounded_truth.hpp"
#include "calls/scan_truth.hpp"
#include "calls/softmax_truth.hpp"
#include "validate/accuracy_attention.hpp"
#include "validate/accuracy_map.hpp"
#include "validate/accuracy_vectors.hpp"

namespace rapt::validate {
namespace {

// Declares a type for each kernel of kernels.def. A kernel without an ACCURACY line below does not compile.
namespace kernel {
#define KERNEL(name, ...) struct name;
#include "kernels/kernels.def"
#undef KERNEL
}  // namespace kernel

template <class Kernel>
struct AccuracyOf;

#define ACCURACY_OF(name, Type, ElementType)            \
  template <>                                           \
  struct AccuracyOf<kernel::name> : Type<ElementType> { \
    using Element = ElementType;                        \
  };
#define ACCURACY(name, Type)           \
  ACCURACY_OF(name##_f32, Type, float) \
  ACCURACY_OF(name##_f64, Type, double)
#define ACCURACY_OF_ALL(name, Type)  \
  ACCURACY(name, Type)               \
  ACCURACY_OF(name##_f16, Type, F16) \
  ACCURACY_OF(name##_bf16, Type, BF16)
ACCURACY_OF_ALL(dot, DotAccuracy)
ACCURACY_OF_ALL(dot_rows, DotRowsAccuracy)
ACCURACY_OF_ALL(metric, MetricAccuracy)
ACCURACY_OF(metric_i8, MetricAccuracy, std::int8_t)
ACCURACY_OF_ALL(metric_rows, MetricRowsAccuracy)
ACCURACY_OF(metric_rows_i8, MetricRowsAccuracy, std::int8_t)
ACCURACY_OF_ALL(scale, ScaleAccuracy)
ACCURACY(exp, ExpAccuracy)
ACCURACY_OF_ALL(silu, SiluAccuracy)
ACCURACY_OF_ALL(gelu, GeluAccuracy)
ACCURACY_OF_ALL(gelu_tanh, GeluTanhAccuracy)
ACCURACY_OF_ALL(gated, GatedAccuracy)
ACCURACY_OF_ALL(expert_sum, ExpertSumAccuracy)
ACCURACY_OF_ALL(convolution, ConvolutionAccuracy)
ACCURACY(silu_backward, SiluBackwardAccuracy)
ACCURACY(gelu_backward, GeluBackwardAccuracy)
ACCURACY(gelu_tanh_backward, GeluTanhBackwardAccuracy)
ACCURACY(gated_backward, GatedBackwardAccuracy)
ACCURACY(map, MapAccuracy)
ACCURACY_OF_ALL(embedding_bag, EmbeddingBagAccuracy)
ACCURACY_OF_ALL(index_add, IndexAddAccuracy)
ACCURACY_OF(silu_backward_f16, RoundedSiluBackward, F16)
ACCURACY_OF(silu_backward_bf16, RoundedSiluBackward, BF16)
ACCURACY_OF(gelu_backward_f16, RoundedGeluBackward, F16)
ACCURACY_OF(gelu_backward_bf16, RoundedGeluBackward, BF16)
ACCURACY_OF(gelu_tanh_backward_f16, RoundedGeluTanhBackward, F16)
ACCURACY_OF(gelu_tanh_backward_bf16, RoundedGeluTanhBackward, BF16)
ACCURACY_OF(gated_backward_f16, RoundedGatedBackward, F16)
ACCURACY_OF(gated_backward_bf16, RoundedGatedBackward, BF16)
ACCURACY_OF(adamw_step, AdamwAccuracy, float)
ACCURACY_OF(sgd_step, SgdAccuracy, float)
ACCURACY_OF(random, RandomAccuracy, float)
ACCURACY_OF_ALL(argmax, ArgmaxAccuracy)
ACCURACY(exp_sum, ExpSumAccuracy)
ACCURACY_OF_ALL(softmax, SoftmaxAccuracy)
ACCURACY_OF_ALL(log_softmax, LogSoftmaxAccuracy)
ACCURACY(logsumexp, LogsumexpAccuracy)
ACCURACY(softmax_backward, SoftmaxBackwardAccuracy)
ACCURACY_OF(softmax_backward_f16, RoundedSoftmaxBackward, F16)
ACCURACY_OF(softmax_backward_bf16, RoundedSoftmaxBackward, BF16)
ACCURACY(log_softmax_backward, LogSoftmaxBackwardAccuracy)
ACCURACY_OF(log_softmax_backward_f16, RoundedLogSoftmaxBackward, F16)
ACCURACY_OF(log_softmax_backward_bf16, RoundedLogSoftmaxBackward, BF16)
ACCURACY_OF_ALL(rms_norm, RmsNormAccuracy)
ACCURACY_OF_ALL(layer_norm, LayerNormAccuracy)
ACCURACY(rms_norm_backward, RmsNormBackwardAccuracy)
ACCURACY(layer_norm_backward, LayerNormBackwardAccuracy)
ACCURACY_OF(rms_norm_backward_f16, RoundedRmsNormBackward, F16)
ACCURACY_OF(rms_norm_backward_bf16, RoundedRmsNormBackward, BF16)
ACCURACY_OF(layer_norm_backward_f16, RoundedLayerNormBackward, F16)
ACCURACY_OF(layer_norm_backward_bf16, RoundedLayerNormBackward, BF16)
ACCURACY_OF_ALL(linear, LinearAccuracy)
ACCURACY_OF(linear_in_bf16, LinearInBf16Accuracy, BF16)
ACCURACY_OF(linear_quantized, QuantizedInF32Accuracy, std::int8_t)
ACCURACY_OF(quantize_rows, QuantizeRowsAccuracy, std::int8_t)
ACCURACY_OF(dequantize_rows, DequantizeRowsAccuracy, std::int8_t)
ACCURACY_OF(dequantize_blocks, DequantizeBlocksAccuracy, std::int8_t)
ACCURACY_OF(linear_in_i8, QuantizedInI8Accuracy, std::int8_t)
ACCURACY_OF_ALL(rope, RopeAccuracy)
ACCURACY_OF_ALL(reduce, ReduceAccuracy)
ACCURACY_OF_ALL(scan, ScanAccuracy)
ACCURACY_OF(delta_rule, DeltaRuleAccuracy, float)
ACCURACY_OF(delta_rule_f16, DeltaRuleAccuracy, F16)
ACCURACY_OF(delta_rule_bf16, DeltaRuleAccuracy, BF16)
ACCURACY_OF(delta_rule_backward, DeltaBackwardAccuracy, float)
ACCURACY_OF(delta_rule_backward_f16, DeltaBackwardAccuracy, F16)
ACCURACY_OF(delta_rule_backward_bf16, DeltaBackwardAccuracy, BF16)
ACCURACY_OF_ALL(attention, AttentionWholeAccuracy)
ACCURACY_OF_ALL(attention_partial, AttentionPartialAccuracy)
ACCURACY_OF_ALL(attention_merge, AttentionWholeAccuracy)
ACCURACY_OF(attention_dequantizing, AttentionWholeAccuracy, InBlocks)
ACCURACY_OF(attention_partial_dequantizing, AttentionPartialAccuracy, InBlocks)
ACCURACY_OF(attention_in_bf16, AttentionInBf16Accuracy, BF16)
ACCURACY_OF(attention_partial_in_bf16, AttentionPartialAccuracy, BF16)
ACCURACY(attention_backward, AttentionBackwardAccuracy)
ACCURACY_OF(attention_backward_f16, RoundedBackwardAccuracy, F16)
ACCURACY_OF(attention_backward_bf16, RoundedBackwardAccuracy, BF16)
ACCURACY_OF(convert_f16_to_f32, ToF32Accuracy, F16)
ACCURACY_OF(convert_bf16_to_f32, ToF32Accuracy, BF16)
ACCURACY_OF(convert_f32_to_f16, FromF32Accuracy, F16)
ACCURACY_OF(convert_f32_to_bf16, FromF32Accuracy, BF16)
ACCURACY_OF(dot_i8, DotAccuracy, std::int8_t)
ACCURACY_OF(dot_rows_i8, DotRowsAccuracy, std::int8_t)
ACCURACY_OF(dot_u8i8, DotAccuracy, std::uint8_t)
ACCURACY_OF(dot_rows_u8i8, DotRowsAccuracy, std::uint8_t)
ACCURACY_OF(attention_i8, AttentionWholeAccuracy, std::int8_t)
ACCURACY_OF(attention_partial_i8, AttentionPartialAccuracy, std::int8_t)
ACCURACY_OF(attention_merge_i8, AttentionWholeAccuracy, std::int8_t)
#undef ACCURACY_OF_ALL
#undef ACCURACY_OF
#undef ACCURACY

template <class Kernel>
Judgement judge(const Problem &problem, const std::vector<std::uint64_t> &bits) {
  if constexpr (!measurable<Number<typename AccuracyOf<Kernel>::Element>>) return {};
  return AccuracyOf<Kernel>::judge(problem, bits);
}

constexpr Accuracy accuracies[] = {
#define KERNEL(name, ...) \
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
