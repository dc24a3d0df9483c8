#include "calls/optimizer.hpp"

#include <limits>

#include "support/problem_data.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();

template <class E>
void round_to(std::vector<float> &values) {
  for (float &value : values) value = static_cast<float>(static_cast<E>(value));
}
void round_to(rapt_type type, std::vector<float> &values) {
  if (type == RAPT_F16) round_to<F16>(values);
  if (type == RAPT_BF16) round_to<BF16>(values);
}

// Makes the arrays, and the options that both steps have.
template <class Options>
OptimizerNumbers<Options> make_common(const Problem &problem, Random &random) {
  OptimizerNumbers<Options> made;
  const auto &[first, second] = make_operands<float>(Family::two_vectors, problem);
  made.param = first;
  made.grad = second;
  const std::size_t n = first.size();
  for (std::size_t i = 0; i < n; ++i) {
    made.average.push_back(second[(i + 1) % n] * 0.25f);
    made.squares.push_back(second[(i + 2) % n] * second[(i + 2) % n]);
    made.most.push_back(second[(i + 3) % n] * second[(i + 3) % n]);
  }
  Options &o = made.options;
  o.size = sizeof o;
  o.type = random.one_of({RAPT_TYPE_DEFAULT, RAPT_F32, RAPT_F32, RAPT_F16, RAPT_BF16});
  o.grad_type = random.one_of({RAPT_TYPE_DEFAULT, RAPT_TYPE_DEFAULT, RAPT_F32, RAPT_F16, RAPT_BF16});
  o.count = n;
  o.lr = random.one_of({1e-3, 3e-4, 0.1, 0.0});
  o.weight_decay = random.one_of({0.0, 1e-2, 0.1, 1e-5});
  o.maximize = random.one_in(4);
  round_to(o.type, made.param);
  round_to(o.grad_type == RAPT_TYPE_DEFAULT ? o.type : o.grad_type, made.grad);
  return made;
}

Element element_of_type(rapt_type type) {
  return type == RAPT_F16 ? Element::f16 : type == RAPT_BF16 ? Element::bf16 : Element::f32;
}

template <class Options>
class Step : public Call {
 public:
  Step(const OptimizerNumbers<Options> &numbers, const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1), o_(numbers.options) {
    add_array("param", element_of_type(o_.type), 0, &param_, RAPT_BAD_PARAM, numbers.param, Role::both);
    const rapt_type grad_type = o_.grad_type == RAPT_TYPE_DEFAULT ? o_.type : o_.grad_type;
    add_array("grad", element_of_type(grad_type), 1, &grad_, RAPT_BAD_GRAD, numbers.grad, Role::input);
  }

 protected:
  void add_array(const char *name, Element element, std::size_t slot, void *pointer, rapt_status missing,
                 const std::vector<float> &values, Role role) {
    Operand &added = add(name, element, {1, 1, 1, values.size()}, slot, pointer);
    added.missing = missing;
    added.role = role;
    with_float_type_of(element, [&]<class T>(T) {
      std::vector<T> elements;
      for (const float value : values) elements.push_back(static_cast<T>(value));
      added.hold(std::span<const T>(elements));
    });
  }
  void add_common_limits(Limits &limits) {
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_F64, RAPT_I8, 100, ~0u});
    limits.past("grad_type", o_.grad_type, RAPT_BAD_TYPE, {RAPT_F64, RAPT_I8, 100, ~0u});
    limits.past("count", o_.count, RAPT_BAD_SIZE, {SIZE_MAX, SIZE_MAX / 2 + 2});
    limits.at("lr", o_.lr, {0, 1});
    limits.past("lr", o_.lr, RAPT_BAD_LR, {-1e-300, infinity, nan, 1e39});
    limits.past("weight_decay", o_.weight_decay, RAPT_BAD_WEIGHT_DECAY, {-1e-300, infinity, nan, 1e39});
    limits.at("maximize", o_.maximize, {0, 1, -1, 256});
  }

  Options o_;
  void *param_ = nullptr, *grad_ = nullptr;
};

class AdamwStep final : public Step<rapt_adamw_options> {
 public:
  AdamwStep(const AdamwNumbers &numbers, const Problem &problem, const Layout &layout)
      : Step(numbers, problem, layout) {
    add_array("exp_avg", Element::f32, 2, &average_, RAPT_BAD_STATE, numbers.average, Role::both);
    add_array("exp_avg_sq", Element::f32, 0, &squares_, RAPT_BAD_STATE, numbers.squares, Role::both);
    if (!numbers.most.empty() && numbers.has_state)
      add_array("max_exp_avg_sq", Element::f32, 1, &most_, RAPT_OK, numbers.most, Role::both);
  }
  rapt_status run() override {
    return rapt_adamw_step(param_, grad_, static_cast<float *>(average_), static_cast<float *>(squares_),
                           static_cast<float *>(most_), given(o_));
  }
  const char *options() const override { return "rapt_adamw_options"; }
  void add_limits(Limits &limits) override {
    add_common_limits(limits);
    limits.past("step", o_.step, RAPT_BAD_STEP, {0});
    limits.at("step", o_.step, {1, SIZE_MAX});
    for (const auto &[name, beta] : {std::pair{"beta1", &o_.beta1}, std::pair{"beta2", &o_.beta2}}) {
      limits.at(name, *beta, {0, 0.5, 0x1.fffffffffffffp-1});
      limits.past(name, *beta, RAPT_BAD_DECAY_RATES, {1, -0x1p-1074, infinity, nan});
    }
    limits.at("eps", o_.eps, {0, 0x1p-126, 1});
    limits.past("eps", o_.eps, RAPT_BAD_EPS, {-1, infinity, nan, 1e39, 1e-300, 0x1p-127});
    if (o_.weight_decay != 0) {
      limits.at("decay_in_gradient", o_.decay_in_gradient, {0, 1, -1});
    } else {
      limits.past("decay_in_gradient", o_.decay_in_gradient, RAPT_BAD_WEIGHT_DECAY, {1, -1});
    }
  }

 private:
  void *average_ = nullptr, *squares_ = nullptr, *most_ = nullptr;
};

class SgdStep final : public Step<rapt_sgd_options> {
 public:
  SgdStep(const SgdNumbers &numbers, const Problem &problem, const Layout &layout)
      : Step(numbers, problem, layout) {
    if (numbers.has_state)
      add_array("momentum_buffer", Element::f32, 2, &buffer_, RAPT_BAD_STATE, numbers.average, Role::both);
  }
  rapt_status run() override {
    return rapt_sgd_step(param_, grad_, static_cast<float *>(buffer_), given(o_));
  }
  const char *options() const override { return "rapt_sgd_options"; }
  void add_limits(Limits &limits) override {
    add_common_limits(limits);
    const bool has_momentum = o_.momentum != 0;
    limits.past("momentum", o_.momentum, RAPT_BAD_MOMENTUM, {infinity, -infinity, nan, 1e39});
    limits.past("dampening", o_.dampening, RAPT_BAD_MOMENTUM, {infinity, nan, -1e39});
    const Statuses alone = has_momentum ? 0 : only(RAPT_BAD_MOMENTUM);
    limits.past("dampening", o_.dampening, alone, {0.5, 1});
    limits.past("nesterov", o_.nesterov, alone, {1, -1});
    limits.past("first_step", o_.first_step, alone, {1, 256});
  }

 private:
  void *buffer_ = nullptr;
};

}  // namespace

AdamwNumbers make_adamw_numbers(const Problem &problem) {
  Random random(problem.seed ^ 0x6164616d77u);
  AdamwNumbers made = make_common<rapt_adamw_options>(problem, random);
  rapt_adamw_options &o = made.options;
  o.step = random.one_of<std::size_t>({1, 2, 3, 10, 1000, 123456789});
  o.beta1 = random.one_of({0.9, 0.9, 0.0, 0.5, 0.3});
  o.beta2 = random.one_of({0.999, 0.999, 0.95, 0.0});
  o.eps = random.one_of({1e-8, 1e-8, 0.0, 1e-3});
  o.decay_in_gradient = o.weight_decay != 0 && random.one_in(2);
  if (random.one_in(2)) made.most.clear();
  return made;
}

SgdNumbers make_sgd_numbers(const Problem &problem) {
  Random random(problem.seed ^ 0x736764u);
  SgdNumbers made = make_common<rapt_sgd_options>(problem, random);
  rapt_sgd_options &o = made.options;
  o.momentum = random.one_of({0.9, 0.9, 0.5, 0.0});
  o.dampening = random.one_of({0.0, 0.1});
  o.nesterov = random.one_in(2);
  o.first_step = random.one_in(4);
  made.has_state = o.momentum != 0;
  if (!made.has_state) o.dampening = 0, o.nesterov = o.first_step = 0;
  return made;
}

std::unique_ptr<Call> make_adamw_step(const Problem &problem, const Layout &layout) {
  return std::make_unique<AdamwStep>(make_adamw_numbers(problem), problem, layout);
}
std::unique_ptr<Call> make_sgd_step(const Problem &problem, const Layout &layout) {
  return std::make_unique<SgdStep>(make_sgd_numbers(problem), problem, layout);
}

}  // namespace rapt::test
