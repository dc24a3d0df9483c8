// Implements adamw_step and sgd_step. Each call checks its arguments before it writes anything.
#include "contract/optimizer.hpp"

#include <cfloat>
#include <initializer_list>

#include "api/floating_point.hpp"
#include "api/halves.hpp"
#include "api/matrix.hpp"
#include "api/numbers.hpp"
#include "api/read_options.hpp"
#include "call/element.hpp"
#include "call/optimizer_call.hpp"
#include "contract/norm.hpp"

namespace rapt {
namespace {

bool is_float(double x) { return x >= -FLT_MAX && x <= FLT_MAX; }
bool is_rate(double x) { return x >= 0 && x <= FLT_MAX; }

// Judges what both steps have, and fills in the types.
template <class Options>
rapt_status resolve_common(Options &o) {
  for (rapt_type *type : {&o.type, &o.grad_type}) {
    const int number = number_of(*type);
    if (number != RAPT_TYPE_DEFAULT && number != RAPT_F32 && number != RAPT_F16 && number != RAPT_BF16)
      return RAPT_BAD_TYPE;
  }
  if (o.type == RAPT_TYPE_DEFAULT) o.type = RAPT_F32;
  if (o.grad_type == RAPT_TYPE_DEFAULT) o.grad_type = o.type;
  if (!is_rate(o.lr)) return RAPT_BAD_LR;
  if (!is_rate(o.weight_decay)) return RAPT_BAD_WEIGHT_DECAY;
  return RAPT_OK;
}

// Judges the arrays, of which a state may be null.
template <class Options>
rapt_status check_arrays(const Options &o, const void *param, const void *grad,
                         std::initializer_list<const float *> states) {
  std::size_t bytes;
  if (!Matrix{nullptr, 0, 1, o.count, sizeof(float)}.extent(bytes)) return RAPT_BAD_SIZE;
  if (o.count == 0) return RAPT_OK;
  if (!param) return RAPT_BAD_PARAM;
  if (!grad) return RAPT_BAD_GRAD;
  Matrix arrays[5] = {{param, 0, 1, o.count, size_of(o.type)}, {grad, 0, 1, o.count, size_of(o.grad_type)}};
  std::size_t count = 2;
  for (const float *state : states) {
    if (state) arrays[count++] = {state, 0, 1, o.count, sizeof(float)};
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (overlap(arrays[i], arrays[j]) != Overlap::none) return RAPT_BAD_OVERLAP;
    }
  }
  return RAPT_OK;
}

// Calls run(first, count, param, grad) for blocks whose param and grad are f32: in place, or widened and narrowed.
template <class Options, class Run>
void for_each_block_of(const Options &o, void *param, const void *grad, Run run) {
  if (o.type == RAPT_F32 && o.grad_type == RAPT_F32)
    return run(std::size_t{0}, o.count, static_cast<float *>(param), static_cast<const float *>(grad));
  alignas(64) float of_param[half_block], of_grad[half_block];
  for_each_block(o.count, [&](std::size_t i, std::size_t k) {
    float *p = of_param;
    const float *g = of_grad;
    with_element<float>(o.type, [&]<class E>(Element<E>) {
      if constexpr (sizeof(E) == sizeof(float)) p = static_cast<float *>(param) + i;
      if constexpr (sizeof(E) == 2) widen_elements<E>(static_cast<const E *>(param) + i, of_param, k);
    });
    with_element<float>(o.grad_type, [&]<class E>(Element<E>) {
      if constexpr (sizeof(E) == sizeof(float)) g = static_cast<const float *>(grad) + i;
      if constexpr (sizeof(E) == 2) widen_elements<E>(static_cast<const E *>(grad) + i, of_grad, k);
    });
    run(i, k, p, g);
    with_element<float>(o.type, [&]<class E>(Element<E>) {
      if constexpr (sizeof(E) == 2) narrow_elements<E>(of_param, static_cast<E *>(param) + i, k);
    });
  });
}

struct AdamwStep {
  void *param;
  const void *grad;
  float *exp_avg, *exp_avg_sq, *max_exp_avg_sq;
  const rapt_adamw_options *given;

  rapt_status operator()() const {
    if (!given) return RAPT_BAD_OPTIONS;
    rapt_adamw_options o = RAPT_ADAMW_OPTIONS_INIT;
    rapt_status status = read_options(given, o);
    if (status == RAPT_OK) status = resolve_common(o);
    if (status != RAPT_OK) return status;
    if (o.step == 0) return RAPT_BAD_STEP;
    if (!(o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1)) return RAPT_BAD_DECAY_RATES;
    if (o.eps != 0 && !(o.eps > 0 && is_usable<float>(o.eps))) return RAPT_BAD_EPS;
    if (o.decay_in_gradient != 0 && o.weight_decay == 0) return RAPT_BAD_WEIGHT_DECAY;
    status = check_arrays(o, param, grad, {exp_avg, exp_avg_sq, max_exp_avg_sq});
    if (status != RAPT_OK || o.count == 0) return status;
    if (!exp_avg || !exp_avg_sq) return RAPT_BAD_STATE;

    AdamwCall call;
    call.sign = o.maximize ? -1.0f : 1.0f;
    if (o.weight_decay != 0 && !o.decay_in_gradient)
      call.param_factor = static_cast<float>(1 - o.lr * o.weight_decay);
    if (o.decay_in_gradient) call.decay = static_cast<float>(o.weight_decay);
    call.weight = static_cast<float>(1 - o.beta1);
    call.beta2 = static_cast<float>(o.beta2);
    call.square_factor = static_cast<float>(1 - o.beta2);
    call.root = static_cast<float>(square_root(1 - power_of(o.beta2, o.step)));
    call.eps = static_cast<float>(o.eps);
    call.step_size = static_cast<float>(-(o.lr / (1 - power_of(o.beta1, o.step))));
    for_each_block_of(o, param, grad, [&](std::size_t i, std::size_t k, float *p, const float *g) {
      call.param = p;
      call.grad = g;
      call.exp_avg = exp_avg + i;
      call.exp_avg_sq = exp_avg_sq + i;
      call.max_exp_avg_sq = max_exp_avg_sq ? max_exp_avg_sq + i : nullptr;
      call.count = k;
      kernels().f32.adamw_step(&call);
    });
    return RAPT_OK;
  }
};

struct SgdStep {
  void *param;
  const void *grad;
  float *momentum_buffer;
  const rapt_sgd_options *given;

  rapt_status operator()() const {
    if (!given) return RAPT_BAD_OPTIONS;
    rapt_sgd_options o = RAPT_SGD_OPTIONS_INIT;
    rapt_status status = read_options(given, o);
    if (status == RAPT_OK) status = resolve_common(o);
    if (status != RAPT_OK) return status;
    if (!is_float(o.momentum) || !is_float(o.dampening)) return RAPT_BAD_MOMENTUM;
    const bool has_fields = o.dampening != 0 || o.nesterov != 0 || o.first_step != 0;
    if (o.momentum == 0 && has_fields) return RAPT_BAD_MOMENTUM;
    if (o.momentum == 0 && momentum_buffer) return RAPT_BAD_STATE;
    status = check_arrays(o, param, grad, {momentum_buffer});
    if (status != RAPT_OK || o.count == 0) return status;
    if (o.momentum != 0 && !momentum_buffer) return RAPT_BAD_STATE;

    SgdCall call;
    call.sign = o.maximize ? -1.0f : 1.0f;
    call.decay = static_cast<float>(o.weight_decay);
    call.momentum = static_cast<float>(o.momentum);
    call.grad_factor = static_cast<float>(1 - o.dampening);
    call.step_size = static_cast<float>(-o.lr);
    call.nesterov = o.nesterov != 0;
    call.first_step = o.first_step != 0;
    for_each_block_of(o, param, grad, [&](std::size_t i, std::size_t k, float *p, const float *g) {
      call.param = p;
      call.grad = g;
      call.momentum_buffer = momentum_buffer ? momentum_buffer + i : nullptr;
      call.count = k;
      kernels().f32.sgd_step(&call);
    });
    return RAPT_OK;
  }
};

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_adamw_step(void *param, const void *grad, float *exp_avg, float *exp_avg_sq,
                            float *max_exp_avg_sq, const rapt_adamw_options *options) {
  return in_default_mode(AdamwStep{param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq, options});
}
rapt_status rapt_sgd_step(void *param, const void *grad, float *momentum_buffer,
                          const rapt_sgd_options *options) {
  return in_default_mode(SgdStep{param, grad, momentum_buffer, options});
}
