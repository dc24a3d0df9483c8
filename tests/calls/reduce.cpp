#include "calls/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "calls/shapes.hpp"
#include "support/options.hpp"
#include "support/problem_data.hpp"

namespace rapt::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::ptrdiff_t apart = 3;  // elements from one to the next, in tensors without neighbours

class ReduceCall final : public Call {
 public:
  template <class T>
  ReduceCall(const std::vector<T> &values, const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1), of_(problem.as<ReduceProblem>()), element_(element_of<T>) {
    const Sizes4 sizes = of_.sizes();
    o_.size = sizeof o_;
    o_.operation = static_cast<int>(of_.operation_of());
    o_.type = is_short() && element_ == Element::f32 ? RAPT_TYPE_DEFAULT : type_of(element_);
    const bool is_wide = of_.wide_out && !of_.finds_index();
    const Element out_element = of_.finds_index()      ? Element::i64
                                : is_wide && !is_f64() ? Element::f32
                                                       : element_;
    if (is_wide || (!is_short() && !of_.finds_index())) o_.out_type = type_of(out_element);
    // A short call leaves out leading dimensions of 1, others have more of them behind.
    while (is_short() && first_ < 3 && sizes[first_] == 1 && (of_.mask() >> (first_ + 1)) != 0) ++first_;
    o_.dims = is_short() ? 4 - first_ : 4 + problem.seed / 2 % 5;
    for (std::size_t d = 0; d < o_.dims; ++d) o_.shape[d] = first_ + d < 4 ? sizes[first_ + d] : 1;
    o_.reduced = static_cast<std::uint32_t>(of_.mask() >> first_);
    const bool are_all = o_.reduced == (1u << (4 - first_)) - 1;
    if (are_all && is_short()) o_.reduced = 0;
    if (are_all && !is_short()) o_.reduced = (1u << o_.dims) - 1;
    o_.correction = of_.operation_of() == RAPT_VARIANCE ? of_.correction : 0;

    Operand &x = add("x", element_, sizes, 0, &x_);
    if (!x.is_empty()) x.missing = RAPT_BAD_X;
    x.stride_name = "x_strides";
    for (std::size_t d = first_; d < 4; ++d) x.stride_fields[d] = &o_.x_strides[d - first_];
    put_in_order(x, layout.linear.x_order, layout.gap[x.slot]);
    x.hold(std::span(values));
    add_output("out", &out_, out_element).missing = RAPT_BAD_OUT;
    if (of_.operation_of() == RAPT_VARIANCE && of_.mean) add_output("mean", &o_.mean, out_element);
  }

  rapt_status run() override { return rapt_reduce(x_, out_, given(o_)); }
  const char *options() const override { return "rapt_reduce_options"; }
  bool has_work() const override { return !operands()[1].is_empty(); }

  void add_limits(Limits &limits) override {
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("operation", o_.operation, RAPT_BAD_OPERATION,
                {0, -1, RAPT_ARGMAX + 1, INT32_MAX, INT32_MIN});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_I8, RAPT_I4, RAPT_U8, 100, ~0u});
    limits.past("out_type", o_.out_type, RAPT_BAD_TYPE, {RAPT_I8, 100, ~0u});
    limits.past("out_type", o_.out_type, RAPT_BAD_TYPE, {is_f64() ? RAPT_F32 : RAPT_F64});
    if (of_.finds_index()) limits.past("out_type", o_.out_type, RAPT_BAD_TYPE, {RAPT_F32, RAPT_F64});
    limits.past("dims", o_.dims, RAPT_BAD_DIMS, {0, RAPT_MAX_DIMS + 1, SIZE_MAX});
    if (o_.dims < 8) limits.past("reduced", o_.reduced, RAPT_BAD_REDUCED, {1u << o_.dims, 1u << 31, ~0u});
    limits.past("reduced", o_.reduced, RAPT_BAD_REDUCED, {1u << 8});
    limits.past("correction", o_.correction, RAPT_BAD_CORRECTION, {nan, infinity, -infinity});
    if (of_.operation_of() != RAPT_VARIANCE) {
      limits.past("correction", o_.correction, RAPT_BAD_CORRECTION, {1, -1, 0x1p-1074});
      limits.past<void *>("mean", o_.mean, RAPT_BAD_MEAN, {&limits});
    } else {
      limits.at("correction", o_.correction, {0, -0.0, 1, -1, 0.5, 1e300, -1e300});
      limits.field("mean", o_.mean);
    }
    // A dimension that is too long makes the product too large, or the extent. Elsewhere it is empty as before.
    const Sizes4 sizes = of_.sizes();
    const bool is_empty = sizes[0] == 0 || sizes[1] == 0 || sizes[2] == 0 || sizes[3] == 0;
    if (!is_empty) {
      const Statuses too_large = only(RAPT_BAD_SIZE) | only(RAPT_BAD_X_STRIDES) | only(RAPT_BAD_OUT_STRIDES);
      limits.past("shape", o_.shape[0], too_large, {SIZE_MAX, SIZE_MAX / 2 + 1});
    }
    const bool needs_elements =
        of_.operation_of() == RAPT_MIN || of_.operation_of() == RAPT_MAX || of_.finds_index();
    for (std::size_t d = first_; d < 4 && needs_elements; ++d) {
      if (of_.is_reduced(d)) limits.past("shape", o_.shape[d - first_], RAPT_BAD_SHAPE, {0});
    }
    if (!is_empty) add_strides(limits);
  }

 private:
  bool is_f64() const { return element_ == Element::f64; }

  Operand &add_output(const char *name, void *pointer, Element element) {
    Sizes4 sizes = of_.sizes();
    for (std::size_t d = 0; d < 4; ++d) sizes[d] = of_.is_reduced(d) ? 1 : sizes[d];
    Operand &out = add(name, element, sizes, 2, pointer);
    out.role = Role::output;
    out.stride_name = "out_strides";
    for (std::size_t d = first_, k = 0; d < 4; ++d) {
      if (!of_.is_reduced(d)) out.stride_fields[d] = &o_.out_strides[k++];
    }
    put_in_order(out, layout().linear.w_order, layout().gap[out.slot]);
    return out;
  }

  // A stride of a dimension longer than 1 is given if another is. None is negative, but for RAPT_REPEAT, which only x
  // takes.
  void add_strides(Limits &limits) {
    for (std::size_t d = first_; d < 4; ++d) {
      if (of_.sizes()[d] <= 1) continue;
      const std::size_t at = d - first_;
      limits.add({"x_strides", only(RAPT_BAD_X_STRIDES), [this, at] { set_x_stride(at, 0); }});
      limits.add({"x_strides", only(RAPT_BAD_X_STRIDES), [this, at] { set_x_stride(at, -1); }});
      limits.add({"x_strides", only(RAPT_BAD_SIZE), [this, at] { set_x_stride(at, PTRDIFF_MAX); }});
    }
    std::size_t k = 0, longest_kept = 0, kept = 0;
    for (std::size_t d = first_; d < 4; ++d) {
      if (of_.is_reduced(d)) continue;
      if (of_.sizes()[d] > 1) longest_kept = k, ++kept;
      ++k;
    }
    if (kept == 0) return;
    const auto set_out = [this, longest_kept](std::ptrdiff_t stride) {
      for (std::size_t i = 0; i < RAPT_MAX_DIMS; ++i) o_.out_strides[i] = 1;
      o_.out_strides[longest_kept] = stride;
    };
    for (const std::ptrdiff_t stride : {std::ptrdiff_t{-1}, RAPT_REPEAT}) {
      limits.add({"out_strides", only(RAPT_BAD_OUT_STRIDES), [set_out, stride] { set_out(stride); }});
    }
    if (kept > 1)
      limits.add({"out_strides", only(RAPT_BAD_OUT_STRIDES), [set_out] { set_out(1); }});
    else
      limits.add({"out_strides", only(RAPT_BAD_SIZE), [set_out] { set_out(PTRDIFF_MAX); }});
  }
  // Others are given, so that no 0 means contiguous.
  void set_x_stride(std::size_t at, std::ptrdiff_t stride) {
    for (std::size_t d = 0; d < RAPT_MAX_DIMS; ++d) o_.x_strides[d] = 1;
    o_.x_strides[at] = stride;
    if (o_.dims == 1 && stride == 0) o_.x_strides[at] = -1;  // alone, 0 is contiguous
  }

  const ReduceProblem of_;
  const Element element_;
  std::size_t first_ = 0;  // the first dimension of the call
  rapt_reduce_options o_{};
  void *x_ = nullptr, *out_ = nullptr;
};

}  // namespace

void put_in_order(Operand &tensor, MatrixOrder order, std::ptrdiff_t gap) {
  std::ptrdiff_t step = order == MatrixOrder::apart ? apart : 1;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t d = order == MatrixOrder::columns ? i : 3 - i;
    tensor.strides[d] = step;
    step *= static_cast<std::ptrdiff_t>(std::max<std::size_t>(tensor.sizes[d], 1));
    if (i == 0) step += gap;
  }
}

template <class T>
std::vector<std::vector<T>> elements_of_outputs(const ReduceProblem &problem, const std::vector<T> &x) {
  const Sizes4 sizes = problem.sizes();
  std::size_t outputs = 1;
  for (std::size_t d = 0; d < 4; ++d) outputs *= problem.is_reduced(d) ? 1 : sizes[d];
  std::vector<std::vector<T>> made(outputs);
  std::size_t at = 0;
  for (std::size_t a = 0; a < sizes[0]; ++a) {
    for (std::size_t b = 0; b < sizes[1]; ++b) {
      for (std::size_t r = 0; r < sizes[2]; ++r) {
        for (std::size_t c = 0; c < sizes[3]; ++c, ++at) {
          std::size_t output = 0;
          const std::size_t index[] = {a, b, r, c};
          for (std::size_t d = 0; d < 4; ++d)
            output = problem.is_reduced(d) ? output : output * sizes[d] + index[d];
          made[output].push_back(x[at]);
        }
      }
    }
  }
  return made;
}
template std::vector<std::vector<float>> elements_of_outputs(const ReduceProblem &,
                                                             const std::vector<float> &);
template std::vector<std::vector<double>> elements_of_outputs(const ReduceProblem &,
                                                              const std::vector<double> &);
template std::vector<std::vector<F16>> elements_of_outputs(const ReduceProblem &, const std::vector<F16> &);
template std::vector<std::vector<BF16>> elements_of_outputs(const ReduceProblem &, const std::vector<BF16> &);

std::unique_ptr<Call> make_reduce(Element element, const Problem &problem, const Layout &layout) {
  return with_float_type_of(element, [&]<class T>(T) -> std::unique_ptr<Call> {
    return std::make_unique<ReduceCall>(make_operands<T>(Family::reduce, problem).first, problem, layout);
  });
}

Problem draw_reduce_problem(Random &random, std::size_t most) {
  ReduceProblem made;
  // One dimension is long, and it may be any.
  std::size_t sizes[4];
  for (std::size_t &size : sizes) {
    const std::size_t few = random.below(6), more = 1 + random.below(20);
    size = random.one_in(3) ? more : few;
    if (size == 0 && !random.one_in(6)) size = 1;
  }
  const std::size_t longest = 3 - random.below(2) * (1 + random.below(3)), cols = draw_cols(random, most);
  sizes[longest] = cols;
  for (std::size_t d = 0; d < 4; ++d) {
    const std::size_t all = std::max<std::size_t>(sizes[0] * sizes[1] * sizes[2] * sizes[3], 1);
    if (d != longest && all > most) sizes[d] = 1;
  }
  made.outer = sizes[0];
  made.middle = sizes[1];
  made.rows = sizes[2];
  made.cols = sizes[3];
  draw(random, made);
  return with_numbers(random, made);
}

std::vector<Problem> reductions_of_shapes() {
  std::vector<Problem> problems;
  std::size_t count = 0;
  const auto add = [&](const Sizes4 &sizes, std::size_t reduced, std::size_t operation) {
    ReduceProblem made;
    made.outer = sizes[0];
    made.middle = sizes[1];
    made.rows = sizes[2];
    made.cols = sizes[3];
    made.reduced = reduced;
    made.operation = operation;
    made.correction = count % 3 == 0 ? 1 : 0;
    made.mean = count % 2 == 0;
    made.wide_out = count % 5 == 0;
    problems.push_back({count % 7 == 0 ? InputClass::specials : InputClass::gaussian, ++count, made});
  };
  for (std::size_t operation = RAPT_SUM; operation <= RAPT_ARGMAX; ++operation) {
    for (const std::size_t n : {1u, 7u, 8u, 63u, 64u, 65u, 300u, 1100u}) {
      add({1, 1, 3, n}, 8, operation);   // rows
      add({1, 1, n, 5}, 4, operation);   // a few columns without gaps
      add({1, 1, n, 67}, 4, operation);  // columns
      add({3, 1, n, 3}, 5, operation);   // columns whose elements are in several runs
    }
    add({5, 3, 20, 40}, 10, operation);
    add({5, 3, 20, 40}, 9, operation);
    add({4, 5, 16, 128}, 13, operation);
    add({2, 3, 4, 5}, 15, operation);
    add({1, 1, 1, 33000}, 8, operation);
    add({1, 1, 66000, 2}, 4, operation);
    add({3, 11000, 1, 3}, 3, operation);
  }
  return problems;
}

}  // namespace rapt::test
