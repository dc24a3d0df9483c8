#include "calls/vectors.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "calls/expert_sum.hpp"
#include "calls/shapes.hpp"
#include "contract/activation_list.hpp"
#include "support/problem_data.hpp"
#include "support/public_api.hpp"

namespace rapt::test {
namespace {

// A function without a status: what it gets must be right.
template <class T>
class VectorCall : public Call {
  using A = Number<T>;

 public:
  VectorCall(Vectors function, const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1), function_(function), n_(problem.cols()) {
    const auto *const numbers = std::get_if<VectorProblem>(&problem.of);
    // Here, because the call may run in another rounding mode.
    if (numbers) factor_ = static_cast<A>(numbers->scale), shift_ = static_cast<A>(numbers->shift);
  }
  bool has_status() const override { return false; }

  rapt_status run() override {
    T *const x = static_cast<T *>(x_);
    if (function_ == Vectors::dot) {
      returned(Api<T>::dot(x, static_cast<const Factor<T> *>(second_), n_));
    } else if constexpr (sizeof(T) > 1) {
      T *const y = static_cast<T *>(y_);
      if (function_ == Vectors::scale) Api<T>::scale(x, factor_, y, n_);
      if (function_ == Vectors::silu) Api<T>::silu(x, y, n_);
      if (function_ == Vectors::gelu) Api<T>::gelu(x, y, n_);
      if (function_ == Vectors::gelu_tanh) Api<T>::gelu_tanh(x, y, n_);
      if (function_ == Vectors::argmax) returned(Api<T>::argmax(x, n_));
      const T *const dy = static_cast<T *>(second_);
      if (function_ == Vectors::silu_backward) Api<T>::silu_backward(x, dy, y, n_);
      if (function_ == Vectors::gelu_backward) Api<T>::gelu_backward(x, dy, y, n_);
      if (function_ == Vectors::gelu_tanh_backward) Api<T>::gelu_tanh_backward(x, dy, y, n_);
      if constexpr (sizeof(T) > 2) {
        if (function_ == Vectors::exp) Api<T>::exp(x, y, n_);
        if (function_ == Vectors::exp_sum) returned(Api<T>::exp_sum(x, factor_, shift_, y, n_));
      } else {
        if (function_ == Vectors::to_f32) Api<T>::to_f32(x, static_cast<float *>(y_), n_);
        if (function_ == Vectors::from_f32) Api<T>::from_f32(static_cast<const float *>(x_), y, n_);
      }
    }
    return RAPT_OK;
  }

  // Adds x, the second vector if there is one, and y if there is one. Of y there are `copies`, made of as many of x.
  template <class X, class Second, class Y>
  void add_vectors(std::span<const X> x, std::span<const Second> second, bool has_second, bool has_y) {
    constexpr std::size_t past_caches_from = std::size_t{16} << 20;  // where streaming stores begin
    const std::size_t bytes = n_ * sizeof(Y),
                      copies = layout().past_caches && bytes > 0 && has_y ? past_caches_from / bytes + 1 : 1;
    std::vector<X> all;
    for (std::size_t i = 0; i < copies; ++i) all.insert(all.end(), x.begin(), x.end());
    add_vector<X>(function_ == Vectors::dot ? "a" : "x", 0, &x_, copies).hold(std::span<const X>(all));
    if (has_second) add_vector<Second>(function_ == Vectors::dot ? "b" : "dy", 1, &second_, 1).hold(second);
    if (has_y) {
      Operand &y = add_vector<Y>(has_second ? "dx" : "y", 2, &y_, copies);
      y.role = Role::output;
      y.replaces = std::is_same_v<X, Y> ? "x dy" : "";
    }
    n_ *= copies;
  }

 protected:
  template <class E>
  Operand &add_vector(const char *name, std::size_t slot, void *pointer, std::size_t copies) {
    Operand &added = add(name, element_of<E>, {1, 1, copies, n_}, slot, pointer);
    added.set_rows_apart(0);
    added.copies = copies;
    return added;
  }

  const Vectors function_;
  std::size_t n_;
  A factor_ = 1, shift_ = 0;
  void *x_ = nullptr, *second_ = nullptr, *y_ = nullptr;
};

template <class T>
class DotRowsCall final : public Call {
 public:
  DotRowsCall(const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1),
        scale_(static_cast<Number<T>>(problem.of_rows()->scale)),
        dim_(problem.cols()) {
    const auto &wanted = problem.as<DotRowsProblem>();
    const auto &[query, rows] = make_operands<T>(Family::dot_rows, problem);
    const std::vector<Factor<T>> factors = as_factors(rows);
    const std::size_t first = wanted.window.first;
    count_ = wanted.window.end(wanted.rows) - first;
    add("query", element_of<T>, {1, 1, 1, dim_}, 0, &query_).hold(std::span<const T>(query));
    Operand &of_rows = add("rows", element_of<Factor<T>>, {1, 1, count_, dim_}, 1, &rows_);
    of_rows.hold(std::span<const Factor<T>>(factors).subspan(first * dim_, count_ * dim_));
    if (layout.reversed) of_rows.strides[2] = -of_rows.strides[2];
    if (wanted.same_row) of_rows.strides[2] = 0;
    stride_ = of_rows.strides[2];
    add("out", element_of<Number<T>>, {1, 1, 1, count_}, 2, &out_).role = Role::output;
  }
  bool has_status() const override { return false; }
  rapt_status run() override {
    Api<T>::dot_rows(static_cast<T *>(query_), static_cast<Factor<T> *>(rows_), stride_, count_, dim_, scale_,
                     static_cast<Number<T> *>(out_));
    return RAPT_OK;
  }

 private:
  const Number<T> scale_;
  const std::size_t dim_;
  std::size_t count_ = 0;
  std::ptrdiff_t stride_ = 0;
  void *query_ = nullptr, *rows_ = nullptr, *out_ = nullptr;
};

// One row of gated, or of its gradient, where the second vector is both up and dy. The seed chooses the activation.
template <class T>
class GatedCall final : public Call {
 public:
  GatedCall(bool is_backward, const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1), is_backward_(is_backward) {
    const auto &[gate, up] = make_operands<T>(Family::two_vectors, problem);
    o_ = gated_row<T>(activations[problem.seed % activation_count], problem.cols());
    add_row("gate", 0, &gate_, "gate_stride", &o_.gate_stride, RAPT_BAD_GATE, RAPT_BAD_GATE_STRIDE)
        .hold(std::span<const T>(gate));
    add_row("up", 1, &up_, "up_stride", &o_.up_stride, RAPT_BAD_UP, RAPT_BAD_UP_STRIDE)
        .hold(std::span<const T>(up));
    if (!is_backward) {
      add_output("y", &y_, "y_stride", &o_.y_stride, RAPT_BAD_Y, RAPT_BAD_Y_STRIDE, "gate up");
      return;
    }
    add_row("dy", 1, &dy_, "y_stride", &o_.y_stride, RAPT_BAD_DY, RAPT_BAD_Y_STRIDE)
        .hold(std::span<const T>(up));
    add_output("dgate", &dgate_, "", nullptr, RAPT_BAD_GATE, RAPT_OK, "gate");
    add_output("dup", &dup_, "", nullptr, RAPT_BAD_UP, RAPT_OK, "up");
  }
  rapt_status run() override {
    if (!is_backward_) return rapt_gated(gate_, up_, y_, given(o_));
    return rapt_gated_backward(gate_, up_, dy_, dgate_, dup_, given(o_));
  }
  const char *options() const override { return "rapt_gated_options"; }
  void add_limits(Limits &limits) override {
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_I8, RAPT_I4, RAPT_U4, 100, ~0u});
    limits.past("activation", o_.activation, RAPT_BAD_ACTIVATION,
                {-1, static_cast<int>(activation_count), INT32_MAX, INT32_MIN});
    const Statuses too_large =
        only(RAPT_BAD_SIZE) | only(RAPT_BAD_GATE_STRIDE) | only(RAPT_BAD_UP_STRIDE) | only(RAPT_BAD_Y_STRIDE);
    limits.past("cols", o_.cols, too_large, {SIZE_MAX, SIZE_MAX / 2 + 2});
    if (o_.cols > 1) limits.past("rows", o_.rows, too_large, {SIZE_MAX, SIZE_MAX / 2 + 2});
  }

 private:
  Operand &add_row(const char *name, std::size_t slot, void *pointer, const char *stride_name,
                   std::ptrdiff_t *stride, rapt_status missing, rapt_status bad_stride) {
    Operand &added = add(name, element_of<T>, {1, 1, 1, o_.cols}, slot, pointer);
    added.missing = missing;
    added.stride_fields[2] = stride;
    added.stride_name = stride_name;
    added.bad_stride = bad_stride;
    return added;
  }
  void add_output(const char *name, void *pointer, const char *stride_name, std::ptrdiff_t *stride,
                  rapt_status missing, rapt_status bad_stride, const char *replaces) {
    Operand &added = add_row(name, 2, pointer, stride_name, stride, missing, bad_stride);
    added.role = Role::output;
    added.replaces = replaces;
  }

  const bool is_backward_;
  rapt_gated_options o_{};
  void *gate_ = nullptr, *up_ = nullptr, *y_ = nullptr, *dy_ = nullptr, *dgate_ = nullptr, *dup_ = nullptr;
};

// The sum over the slots of some tokens.
template <class T>
class ExpertSumCall final : public Call {
 public:
  ExpertSumCall(const Problem &problem, const Layout &layout) : Call(layout, problem.seed % 2 == 1) {
    const ExpertSumNumbers<T> numbers(problem);
    o_.size = sizeof o_;
    o_.type = element_of<T> == Element::f32 && is_short() ? RAPT_TYPE_DEFAULT : type_of(element_of<T>);
    o_.tokens = numbers.tokens;
    o_.top_k = numbers.slots;
    o_.cols = problem.cols();
    add_rows("x", 0, &x_, o_.tokens * o_.top_k, "x_stride", &o_.x_stride, RAPT_BAD_X, RAPT_BAD_X_STRIDE)
        .hold(std::span<const T>(numbers.x));
    if (!numbers.weights.empty()) {
      Operand &weights = add("weights", element_of<Number<T>>, {1, 1, o_.tokens, o_.top_k}, 1, &o_.weights);
      weights.stride_fields[2] = &o_.weights_stride;
      weights.stride_name = "weights_stride";
      weights.bad_stride = RAPT_BAD_WEIGHTS_STRIDE;
      weights.hold(std::span<const Number<T>>(numbers.weights));
    }
    if (!numbers.add.empty())
      add_rows("add", 1, &o_.add, o_.tokens, "add_stride", &o_.add_stride, RAPT_OK, RAPT_BAD_ADD)
          .hold(std::span<const T>(numbers.add));
    Operand &y = add_rows("y", 2, &y_, o_.tokens, "y_stride", &o_.y_stride, RAPT_BAD_Y, RAPT_BAD_Y_STRIDE);
    y.role = Role::output;
    y.replaces = "add";
  }
  rapt_status run() override { return rapt_expert_sum(x_, y_, given(o_)); }
  const char *options() const override { return "rapt_expert_sum_options"; }
  void add_limits(Limits &limits) override {
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_I8, RAPT_I4, RAPT_U4, 100, ~0u});
    const Statuses too_large = only(RAPT_BAD_SIZE) | only(RAPT_BAD_X_STRIDE) | only(RAPT_BAD_Y_STRIDE) |
                               only(RAPT_BAD_WEIGHTS_STRIDE) | only(RAPT_BAD_ADD);
    limits.past("top_k", o_.top_k, RAPT_BAD_SHAPE, {0});
    limits.past("top_k", o_.top_k, too_large, {SIZE_MAX, SIZE_MAX / 2 + 2});
    if (o_.cols > 1) limits.past("tokens", o_.tokens, too_large, {SIZE_MAX, SIZE_MAX / 2 + 2});
    limits.past("cols", o_.cols, too_large, {SIZE_MAX, SIZE_MAX / 2 + 2});
    if (!o_.weights && !has("weights"))
      limits.past("weights_stride", o_.weights_stride, RAPT_BAD_WEIGHTS_STRIDE, {1, -1, 1000});
    if (!has("add")) limits.past("add_stride", o_.add_stride, RAPT_BAD_ADD, {1, -1, 1000});
  }

 private:
  bool has(const char *name) const {
    return std::ranges::any_of(operands(),
                               [&](const Operand &one) { return std::strcmp(one.name, name) == 0; });
  }
  Operand &add_rows(const char *name, std::size_t slot, void *pointer, std::size_t rows,
                    const char *stride_name, std::ptrdiff_t *stride, rapt_status missing,
                    rapt_status bad_stride) {
    Operand &added = add(name, element_of<T>, {1, 1, rows, o_.cols}, slot, pointer);
    added.missing = missing;
    added.stride_fields[2] = stride;
    added.stride_name = stride_name;
    added.bad_stride = bad_stride;
    return added;
  }

  rapt_expert_sum_options o_{};
  void *x_ = nullptr, *y_ = nullptr;
};

bool is_gated(Vectors function) { return function == Vectors::gated || function == Vectors::gated_backward; }
bool has_two(Vectors function) {
  return function == Vectors::dot || function == Vectors::silu_backward ||
         function == Vectors::gelu_backward || function == Vectors::gelu_tanh_backward;
}
bool has_output(Vectors function) { return function != Vectors::dot && function != Vectors::argmax; }

}  // namespace

template <class T>
std::unique_ptr<Call> make_vectors(Vectors function, const Problem &problem, const Layout &layout) {
  if (function == Vectors::dot_rows) return std::make_unique<DotRowsCall<T>>(problem, layout);
  if constexpr (sizeof(T) > 1) {
    if (function == Vectors::expert_sum) return std::make_unique<ExpertSumCall<T>>(problem, layout);
    if (is_gated(function))
      return std::make_unique<GatedCall<T>>(function == Vectors::gated_backward, problem, layout);
  }
  auto call = std::make_unique<VectorCall<T>>(function, problem, layout);
  if (function == Vectors::from_f32) {
    const auto &x = make_operands<float>(Family::vector, problem).first;
    call->template add_vectors<float, float, T>(x, {}, false, true);
    return call;
  }
  const auto &[x, second] =
      make_operands<T>(has_two(function) ? Family::two_vectors : Family::vector, problem);
  const std::vector<Factor<T>> factors = as_factors(second);
  if (function == Vectors::to_f32) {
    call->template add_vectors<T, T, float>(x, {}, false, true);
  } else {
    call->template add_vectors<T, Factor<T>, T>(x, factors, has_two(function), has_output(function));
  }
  return call;
}
template std::unique_ptr<Call> make_vectors<float>(Vectors, const Problem &, const Layout &);
template std::unique_ptr<Call> make_vectors<double>(Vectors, const Problem &, const Layout &);
template std::unique_ptr<Call> make_vectors<F16>(Vectors, const Problem &, const Layout &);
template std::unique_ptr<Call> make_vectors<BF16>(Vectors, const Problem &, const Layout &);
template std::unique_ptr<Call> make_vectors<std::int8_t>(Vectors, const Problem &, const Layout &);
template std::unique_ptr<Call> make_vectors<std::uint8_t>(Vectors, const Problem &, const Layout &);

Problem draw_vector_problem(Random &random, std::size_t most) {
  VectorProblem made;
  made.cols = draw_cols(random, most);
  made.scale = random.one_of({1.0, 0.125, 0.3, -0.7, 0.0, -0.0, 1e-30, 1e30});
  made.shift = random.one_of({0.0, 1.25, -3.5, 87.5, -103.9, 700.0});
  return with_numbers(random, made);
}
Problem draw_dot_rows_problem(Random &random, std::size_t most) {
  DotRowsProblem made;
  draw_rows(random, most, made);
  made.same_row = random.one_in(4);
  made.scale = random.one_of({1.0, 0.125, 0.3, -0.7, 0.0, 1e30});
  return with_numbers(random, made);
}

}  // namespace rapt::test
