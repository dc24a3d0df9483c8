// What gradients of 16 bits should be: the results of f32 with the widened elements, rounded once. f32's own results
// are judged elsewhere, so that what is left is a comparison of bits.
#pragma once

#include <vector>

#include "calls/norm.hpp"
#include "calls/softmax.hpp"
#include "support/public_api.hpp"
#include "validate/accuracy_vectors.hpp"

namespace rapt::validate {

template <class E>
std::vector<float> as_f32(const std::vector<E> &elements) {
  return {elements.begin(), elements.end()};
}

// Compares results that begin at `first`.
template <class T>
void see_bits(Worst &worst, Bits got, std::size_t first, const std::vector<float> &wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    worst.see(got[first + i] == canonical_bits(static_cast<T>(wanted[i])) ? 0 : wrong, 1);
}

struct ComparedBits {
  static constexpr const char *unit_text = "equal bits";
  static constexpr double bound = 1;
};

template <class E, auto function>
struct RoundedActivation : ComparedBits {
  static Judgement judge(const Problem &problem, Bits bits) {
    const auto operands = make_operands<E>(Family::two_vectors, problem);
    std::vector<float> x = as_f32(operands.first), dy = as_f32(operands.second);
    function(x.data(), dy.data(), x.data(), x.size());
    Worst worst;
    see_bits<E>(worst, bits, 0, x);
    return worst.judgement;
  }
};
template <class E>
using RoundedSiluBackward = RoundedActivation<E, rapt_silu_backward_f32>;
template <class E>
using RoundedGeluBackward = RoundedActivation<E, rapt_gelu_backward_f32>;
template <class E>
using RoundedGeluTanhBackward = RoundedActivation<E, rapt_gelu_tanh_backward_f32>;

template <class E>
struct RoundedGatedBackward : ComparedBits {
  static Judgement judge(const Problem &problem, Bits bits) {
    const auto operands = make_operands<E>(Family::two_vectors, problem);
    std::vector<float> gate = as_f32(operands.first), up = as_f32(operands.second);
    const std::vector<float> dy = up;
    const rapt_gated_options options =
        gated_row<float>(ChosenActivation(problem.seed).activation, gate.size());
    Worst worst;
    if (rapt_gated_backward(gate.data(), up.data(), dy.data(), gate.data(), up.data(), &options) != RAPT_OK)
      worst.see(wrong, bound);
    see_bits<E>(worst, bits, 0, gate);
    see_bits<E>(worst, bits, gate.size(), up);
    return worst.judgement;
  }
};

template <class E, bool is_log>
struct RoundedRowGradient : ComparedBits {
  static Judgement judge(const Problem &problem, Bits bits) {
    const auto operands = make_operands<E>(Family::softmax_backward, problem);
    std::vector<float> y = as_f32(is_log ? like_logarithms(operands.first) : operands.first),
                       dx = as_f32(operands.second);
    const auto gradient = is_log ? rapt_log_softmax_backward_f32 : rapt_softmax_backward_f32;
    const auto cols = static_cast<std::ptrdiff_t>(problem.cols());
    const float scale = static_cast<float>(problem.of_rows()->scale);
    Worst worst;
    if (gradient(y.data(), cols, dx.data(), cols, dx.data(), cols, problem.rows(), problem.cols(), scale) !=
        RAPT_OK)
      worst.see(wrong, bound);
    see_bits<E>(worst, bits, 0, dx);
    return worst.judgement;
  }
};
template <class E>
using RoundedSoftmaxBackward = RoundedRowGradient<E, false>;
template <class E>
using RoundedLogSoftmaxBackward = RoundedRowGradient<E, true>;

template <class E, bool is_layer>
struct RoundedNormGradient : ComparedBits {
  static Judgement judge(const Problem &problem, Bits bits) {
    const NormProblem &wanted = problem.as<NormProblem>();
    if (wanted.cols == 0) return {};
    const NormValues<E> values = make_norm_values<E>(problem);
    std::vector<float> x = as_f32(values.x), dx = as_f32(values.second), weight = as_f32(values.weight);
    std::vector<float> dweight = weight, dbias = as_f32(values.bias);
    rapt_norm_backward_options o = RAPT_NORM_BACKWARD_OPTIONS_INIT;
    o.rows = wanted.rows;
    o.cols = wanted.cols;
    o.eps = wanted.eps;
    o.weight = wanted.weight ? weight.data() : nullptr;
    o.weight_plus_one = wanted.weight && wanted.plus_one && !is_layer;
    o.dweight = wanted.bias ? dweight.data() : nullptr;
    o.dbias = wanted.bias && is_layer ? dbias.data() : nullptr;
    o.accumulate = wanted.bias && wanted.second;
    Worst worst;
    const auto gradient = is_layer ? rapt_layer_norm_backward : rapt_rms_norm_backward;
    if (gradient(x.data(), dx.data(), dx.data(), &o) != RAPT_OK) worst.see(wrong, bound);
    see_bits<E>(worst, bits, 0, dx);
    if (o.dweight) see_bits<float>(worst, bits, dx.size(), dweight);
    if (o.dbias) see_bits<float>(worst, bits, dx.size() + dweight.size(), dbias);
    return worst.judgement;
  }
};
template <class E>
using RoundedRmsNormBackward = RoundedNormGradient<E, false>;
template <class E>
using RoundedLayerNormBackward = RoundedNormGradient<E, true>;

}  // namespace rapt::validate
