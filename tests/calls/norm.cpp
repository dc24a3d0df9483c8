#include "calls/norm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "calls/shapes.hpp"
#include "support/options.hpp"
#include "support/problem_data.hpp"

namespace rapt::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();

class NormCall : public Call {
 public:
  NormCall(Norm function, Element element, const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1),
        wanted_(problem.as<NormProblem>()),
        is_layer_(function == Norm::layer || function == Norm::layer_backward),
        element_(element),
        first_(wanted_.window.first),
        rows_(wanted_.window.end(wanted_.rows) - first_) {}

 protected:
  // Sets what the options of both directions have.
  template <class Options>
  void set(Options &o) const {
    o.size = sizeof o;
    o.type = element_ == Element::f32 && is_short() ? RAPT_TYPE_DEFAULT : type_of(element_);
    o.rows = rows_;
    o.cols = wanted_.cols;
    o.eps = wanted_.eps;
    o.weight_plus_one = wanted_.weight && wanted_.plus_one && !is_layer_;
  }
  template <class T>
  Operand &add_rows(const char *name, void *pointer, const char *stride_name, std::ptrdiff_t &stride,
                    rapt_status missing, rapt_status bad_stride, std::size_t slot,
                    const std::vector<T> &values) {
    Operand &added = add(name, element_, {1, 1, rows_, wanted_.cols}, slot, pointer);
    added.missing = missing;
    added.stride_fields[2] = &stride;
    added.stride_name = stride_name;
    added.bad_stride = bad_stride;
    if (!values.empty()) added.hold(std::span(values).subspan(first_ * wanted_.cols, rows_ * wanted_.cols));
    return added;
  }
  // Adds an array of one row, which a call may go without.
  template <class T>
  void add_row(const char *name, void *pointer, std::size_t slot, const std::vector<T> &values,
               Role role = Role::input) {
    Operand &added = add(name, element_, {1, 1, 1, wanted_.cols}, slot, pointer);
    added.role = role;
    added.hold(std::span(values));
  }
  template <class Options>
  void add_limits_of(Options &o, Limits &limits, bool has_sums = false) {
    const bool in_f64 = element_ == Element::f64;
    const double least = in_f64 ? 0x1p-1022 : 0x1p-126,
                 most = in_f64 ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
    limits.past("size", o.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o - 8, sizeof o - 1, sizeof o + 1, sizeof o + 8, SIZE_MAX});
    limits.past("type", o.type, RAPT_BAD_TYPE, {RAPT_I8, RAPT_I4, RAPT_U4, 100, ~0u});
    limits.at("eps", o.eps, {0, -0.0, least, most});
    limits.past("eps", o.eps, RAPT_BAD_EPS, {-1, -least, infinity, -infinity, nan, least / 1.1, 0x1p-1074});
    if (!in_f64) limits.past("eps", o.eps, RAPT_BAD_EPS, {most * 2, 1e-300});
    if (wanted_.weight && !is_layer_) {
      limits.at("weight_plus_one", o.weight_plus_one, {0, 1, -1, 256});
    } else {
      limits.past("weight_plus_one", o.weight_plus_one, RAPT_BAD_WEIGHT, {1, -1, 256});
    }
    // Rows of such lengths are longer than their strides, or than the address space.
    Statuses too_large = only(RAPT_BAD_SIZE);
    const bool has_strides = !is_short() || std::ranges::any_of(operands(), &Operand::has_gaps);
    for (const Operand &operand : operands())
      too_large |= rows_ > 1 && has_strides ? only(operand.bad_stride) : 0;
    limits.field("cols", o.cols);
    if (rows_ == 0)
      limits.past("cols", o.cols, has_sums ? only(RAPT_BAD_SIZE) : 0, {SIZE_MAX, SIZE_MAX / 2 + 2});
    if (rows_ > 0)
      limits.past("cols", o.cols, too_large,
                  {SIZE_MAX, SIZE_MAX / 2 + 2, PTRDIFF_MAX / size_of(element_) + 1});
    if (wanted_.cols > 1) limits.past("rows", o.rows, too_large, {SIZE_MAX, SIZE_MAX / 2 + 2});
  }

  const NormProblem wanted_;
  const bool is_layer_;

 private:
  const Element element_;
  const std::size_t first_, rows_;
};

class Forward final : public NormCall {
 public:
  template <class T>
  Forward(Norm function, const NormValues<T> &values, const Problem &problem, const Layout &layout)
      : NormCall(function, element_of<T>, problem, layout) {
    set(o_);
    add_rows("x", &x_, "x_stride", o_.x_stride, RAPT_BAD_X, RAPT_BAD_X_STRIDE, 0, values.x);
    Operand &y = add_rows<T>("y", &y_, "y_stride", o_.y_stride, RAPT_BAD_Y, RAPT_BAD_Y_STRIDE, 2, {});
    y.role = Role::output;
    y.replaces = "x";
    if (wanted_.second)
      add_rows("residual", &o_.residual, "residual_stride", o_.residual_stride, RAPT_OK,
               RAPT_BAD_RESIDUAL_STRIDE, 1, values.second)
          .role = Role::both;
    if (wanted_.weight) add_row("weight", &o_.weight, 1, values.weight);
    if (wanted_.bias && is_layer_) add_row("bias", &o_.bias, 2, values.bias);
  }
  rapt_status run() override { return (is_layer_ ? rapt_layer_norm : rapt_rms_norm)(x_, y_, given(o_)); }
  const char *options() const override { return "rapt_norm_options"; }
  void add_limits(Limits &limits) override {
    add_limits_of(o_, limits);
    if (!is_layer_) {
      limits.past<const void *>("bias", o_.bias, RAPT_BAD_BIAS, {&limits});
      limits.past<void *>("mean", o_.mean, RAPT_BAD_NORM_MEAN, {&limits});
      limits.past<void *>("mean_rest", o_.mean_rest, RAPT_BAD_NORM_MEAN, {&limits});
    }
    limits.at<void *>("rstd", o_.rstd, {nullptr});
    if (has_work()) limits.add({"rstd", only(RAPT_BAD_OVERLAP), [this] { o_.rstd = y_; }});
    if (has_work() && is_layer_) {
      limits.add({"mean", only(RAPT_BAD_OVERLAP), [this] { o_.mean = x_; }});
      limits.add({"mean_rest", only(RAPT_BAD_OVERLAP), [this] { o_.mean_rest = y_; }});
    }
    if (!wanted_.second)
      limits.past("residual_stride", o_.residual_stride, RAPT_BAD_RESIDUAL_STRIDE, {1, -1, 1000});
  }

 private:
  rapt_norm_options o_{};
  void *x_ = nullptr, *y_ = nullptr;
};

class Backward final : public NormCall {
 public:
  template <class T>
  Backward(Norm function, const NormValues<T> &values, const Problem &problem, const Layout &layout)
      : NormCall(function, element_of<T>, problem, layout) {
    set(o_);
    add_rows("x", &x_, "x_stride", o_.x_stride, RAPT_BAD_X, RAPT_BAD_X_STRIDE, 0, values.x);
    add_rows("dy", &dy_, "dy_stride", o_.dy_stride, RAPT_BAD_DY, RAPT_BAD_DY_STRIDE, 1, values.second);
    Operand &dx = add_rows<T>("dx", &dx_, "dx_stride", o_.dx_stride, RAPT_BAD_DX, RAPT_BAD_DX_STRIDE, 2, {});
    dx.role = Role::output;
    dx.replaces = "x dy";
    if (wanted_.weight) add_row("weight", &o_.weight, 1, values.weight);
    if (wanted_.bias) add_sums("dweight", &o_.dweight, 2, values.weight);
    if (wanted_.bias && is_layer_) add_sums("dbias", &o_.dbias, 0, values.bias);
    o_.accumulate = wanted_.bias && wanted_.second;
    // What the forward call writes, or nothing, with the same bits.
    if (problem.seed % 4 >= 2) add_statistics(values);
    if (sizeof(T) == 2 && wanted_.cols > 4096 && o_.rows > 0) {
      Operand &workspace = add("workspace", Element::f32, {1, 1, 1, 3 * wanted_.cols}, 1, &o_.workspace);
      workspace.role = Role::scratch;
      workspace.missing = workspace.bad_overlap = RAPT_BAD_WORKSPACE;
      o_.workspace_size = 3 * wanted_.cols * sizeof(float);
    }
  }
  rapt_status run() override {
    return (is_layer_ ? rapt_layer_norm_backward : rapt_rms_norm_backward)(x_, dy_, dx_, given(o_));
  }
  const char *options() const override { return "rapt_norm_backward_options"; }
  void add_limits(Limits &limits) override {
    add_limits_of(o_, limits, wanted_.bias);
    if (o_.workspace_size > 0) {
      limits.past("workspace_size", o_.workspace_size, RAPT_BAD_WORKSPACE, {0, o_.workspace_size - 1});
    } else {
      limits.at<void *>("workspace", o_.workspace, {nullptr});
      limits.at("workspace_size", o_.workspace_size, {0, 64});
    }
    if (!is_layer_) {
      limits.past<const void *>("mean", o_.mean, RAPT_BAD_NORM_MEAN, {&limits});
      limits.past<const void *>("mean_rest", o_.mean_rest, RAPT_BAD_NORM_MEAN, {&limits});
    } else if (!has_statistics_) {
      limits.past<const void *>("mean", o_.mean, RAPT_BAD_RSTD, {&limits});
      limits.past<const void *>("rstd", o_.rstd, RAPT_BAD_NORM_MEAN, {&limits});
    }
    if (!is_layer_) limits.past<void *>("dbias", o_.dbias, RAPT_BAD_NORM_DBIAS, {&limits});
    if (!wanted_.bias) limits.past("accumulate", o_.accumulate, RAPT_BAD_ACCUMULATE, {1, -1, 256});
  }

 private:
  // Sums over the rows have the arithmetic type, and begin with the numbers that a weight or bias has.
  template <class T>
  void add_sums(const char *name, void *pointer, std::size_t slot, const std::vector<T> &values) {
    add_numbers(name, pointer, slot, std::vector<Number<T>>(values.begin(), values.end()), Role::both);
  }
  template <class A>
  void add_numbers(const char *name, void *pointer, std::size_t slot, const std::vector<A> &numbers,
                   Role role = Role::input) {
    Operand &added = add(name, element_of<A>, {1, 1, 1, numbers.size()}, slot, pointer);
    added.role = role;
    added.hold(std::span<const A>(numbers));
  }
  template <class T>
  void add_statistics(const NormValues<T> &values) {
    const std::size_t first = wanted_.window.first, rows = o_.rows;
    if (rows == 0 || wanted_.cols == 0) return;
    std::vector<Number<T>> rstd(rows), mean(rows), mean_rest(rows);
    std::vector<T> y(rows * wanted_.cols);
    rapt_norm_options forward = RAPT_NORM_OPTIONS_INIT;
    forward.type = type_of(element_of<T>);
    forward.rows = rows;
    forward.cols = wanted_.cols;
    forward.eps = wanted_.eps;
    forward.rstd = rstd.data();
    if (is_layer_) forward.mean = mean.data(), forward.mean_rest = mean_rest.data();
    has_statistics_ = (is_layer_ ? rapt_layer_norm : rapt_rms_norm)(values.x.data() + first * wanted_.cols,
                                                                    y.data(), &forward) == RAPT_OK;
    if (!has_statistics_) return;
    add_numbers("rstd", &o_.rstd, 1, rstd);
    if (is_layer_) add_numbers("mean", &o_.mean, 0, mean);
    if (is_layer_) add_numbers("mean_rest", &o_.mean_rest, 2, mean_rest);
  }

  bool has_statistics_ = false;
  rapt_norm_backward_options o_{};
  void *x_ = nullptr, *dy_ = nullptr, *dx_ = nullptr;
};

}  // namespace

template <class T>
NormValues<T> make_norm_values(const Problem &problem) {
  const NormProblem &wanted = problem.as<NormProblem>();
  const OperandValues<T> &operands = make_operands<T>(Family::norm, problem);
  NormValues<T> made{operands.first, operands.second, {}, {}};
  Random random(problem.seed ^ 0x6e6f726d73u);
  for (std::size_t i = 0; i < wanted.cols; ++i) {
    made.weight.push_back(static_cast<T>(static_cast<Number<T>>(wanted.scale * (1 + random.gaussian() / 4))));
    made.bias.push_back(static_cast<T>(static_cast<Number<T>>(random.gaussian())));
  }
  return made;
}
template NormValues<float> make_norm_values(const Problem &);
template NormValues<double> make_norm_values(const Problem &);
template NormValues<F16> make_norm_values(const Problem &);
template NormValues<BF16> make_norm_values(const Problem &);

std::unique_ptr<Call> make_norm(Norm function, Element element, const Problem &problem,
                                const Layout &layout) {
  return with_float_type_of(element, [&]<class T>(T) -> std::unique_ptr<Call> {
    const NormValues<T> values = make_norm_values<T>(problem);
    const bool is_forward = function == Norm::rms || function == Norm::layer;
    if (is_forward) return std::make_unique<Forward>(function, values, problem, layout);
    return std::make_unique<Backward>(function, values, problem, layout);
  });
}

Problem draw_norm_problem(Random &random, std::size_t most) {
  NormProblem made;
  draw_rows(random, most, made);
  made.scale = random.one_of({1.0, 1.0, 0.125, -0.7, 0.0, 1e-30, 1e30});
  draw(random, made);
  return with_numbers(random, made);
}

}  // namespace rapt::test
