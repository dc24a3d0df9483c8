#include "calls/search.hpp"

#include <cstdint>
#include <span>

namespace rapt::test {
namespace {

template <class T>
using Rows = std::vector<Factor<T>>;

// The rows of the problem that the call gets.
template <class T>
Rows<T> rows_in_window(const Problem &problem, std::size_t &count) {
  const auto &wanted = problem.as<DotRowsProblem>();
  const auto &rows = make_operands<T>(Family::dot_rows, problem).second;
  const std::size_t first = wanted.window.first, dim = problem.cols();
  count = wanted.window.end(wanted.rows) - first;
  const auto of_call = std::span(rows).subspan(first * dim, count * dim);
  return {of_call.begin(), of_call.end()};
}

// The function of a pair, called for one vector and each row. In another floating-point state, which its caller may not
// have, the checked function takes its place.
template <class T>
class MetricCall final : public Call {
 public:
  MetricCall(const Problem &problem, const Layout &layout)
      : Call(layout, problem.seed % 2 == 1), kind_(metric_of(problem)), dim_(problem.cols()) {
    const Rows<T> rows = rows_in_window<T>(problem, count_);
    add("a", element_of<T>, {1, 1, 1, dim_}, 0, &a_)
        .hold(std::span<const T>(make_operands<T>(Family::dot_rows, problem).first));
    Operand &b = add("b", element_of<T>, {1, 1, count_, dim_}, 1, &b_);
    b.hold(std::span<const T>(rows));
    stride_ = b.strides[2];
    add("out", element_of<Number<T>>, {1, 1, 1, count_}, 2, &out_).role = Role::output;
  }
  bool has_status() const override { return false; }
  rapt_status run() override {
    if (layout().fp_state) {
      rapt_search_options o = RAPT_SEARCH_OPTIONS_INIT;
      o.metric = kind_;
      o.type = type_of(element_of<T>);
      o.queries = 1;
      o.rows = count_;
      o.dim = dim_;
      o.x_stride = count_ > 1 ? stride_ : 0;
      return rapt_metric_rows(a_, b_, out_, &o);
    }
    auto *const function = [this] {
      if constexpr (sizeof(T) == 8) {
        return rapt_metric_f64(kind_);
      } else {
        return rapt_metric(kind_, type_of(element_of<T>));
      }
    }();
    for (std::size_t i = 0; i < count_; ++i) {
      const T *const b = static_cast<const T *>(b_) + stride_ * static_cast<std::ptrdiff_t>(i);
      static_cast<Number<T> *>(out_)[i] = function(a_, b, dim_);
    }
    return RAPT_OK;
  }

 private:
  const int kind_;
  const std::size_t dim_;
  std::size_t count_ = 0;
  std::ptrdiff_t stride_ = 0;
  void *a_ = nullptr, *b_ = nullptr, *out_ = nullptr;
};

// The problem's rows are queries, so that a query alone has the bits that it has among others.
template <class T>
class MetricRowsCall final : public Call {
 public:
  MetricRowsCall(const Problem &problem, const Layout &layout) : Call(layout, problem.seed % 2 == 1) {
    const Rows<T> queries = rows_in_window<T>(problem, o_.queries);
    o_.size = sizeof o_;
    o_.metric = metric_of(problem);
    o_.type = element_of<T> == Element::f32 && is_short() ? RAPT_TYPE_DEFAULT : type_of(element_of<T>);
    o_.dim = problem.cols();
    o_.rows = rows_of_metric(problem);
    std::vector<T> rows;
    for (std::size_t j = 0; j < o_.rows; ++j) {
      const std::vector<T> row =
          turned(std::span<const T>(make_operands<T>(Family::dot_rows, problem).first), j);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    Operand &q = add_rows("q", element_of<T>, 1, &q_, o_.queries, o_.dim, "q_stride", &o_.q_stride,
                          RAPT_BAD_Q, RAPT_BAD_Q_STRIDE);
    q.hold(std::span<const T>(queries));
    if (q.is_empty()) q.missing = RAPT_OK;
    Operand &x = add_rows("x", element_of<T>, 0, &x_, o_.rows, o_.dim, "x_stride", &o_.x_stride, RAPT_BAD_X,
                          RAPT_BAD_X_STRIDE);
    x.hold(std::span<const T>(rows));
    if (x.is_empty()) x.missing = RAPT_OK;
    add_rows("out", element_of<Number<T>>, 2, &out_, o_.queries, o_.rows, "out_stride", &o_.out_stride,
             RAPT_BAD_OUT, RAPT_BAD_OUT_STRIDE)
        .role = Role::output;
  }
  rapt_status run() override { return rapt_metric_rows(q_, x_, out_, given(o_)); }
  const char *options() const override { return "rapt_search_options"; }
  bool has_work() const override { return o_.queries > 0; }
  void add_limits(Limits &limits) override {
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("metric", o_.metric, RAPT_BAD_METRIC, {-1, metric_kinds, INT32_MAX, INT32_MIN});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_I4, RAPT_U4, RAPT_U8, 100, ~0u});
    limits.past("k", o_.k, RAPT_BAD_TOP_K, {1, 2, SIZE_MAX});
    const Statuses too_large =
        only(RAPT_BAD_SIZE) | only(RAPT_BAD_Q_STRIDE) | only(RAPT_BAD_X_STRIDE) | only(RAPT_BAD_OUT_STRIDE);
    limits.past("dim", o_.dim, too_large, {SIZE_MAX, SIZE_MAX / 2 + 2});
    limits.past("rows", o_.rows, too_large, {SIZE_MAX, SIZE_MAX / 2 + 2});
    limits.past("queries", o_.queries, too_large, {SIZE_MAX, SIZE_MAX / 2 + 2});
  }

 private:
  Operand &add_rows(const char *name, Element element, std::size_t slot, void *pointer, std::size_t rows,
                    std::size_t cols, const char *stride_name, std::ptrdiff_t *stride, rapt_status missing,
                    rapt_status bad_stride) {
    Operand &added = add(name, element, {1, 1, rows, cols}, slot, pointer);
    added.missing = missing;
    added.stride_fields[2] = stride;
    added.stride_name = stride_name;
    added.bad_stride = bad_stride;
    return added;
  }

  rapt_search_options o_{};
  void *q_ = nullptr, *x_ = nullptr, *out_ = nullptr;
};

}  // namespace

template <class T>
std::unique_ptr<Call> make_metric(const Problem &problem, const Layout &layout) {
  return std::make_unique<MetricCall<T>>(problem, layout);
}
template <class T>
std::unique_ptr<Call> make_metric_rows(const Problem &problem, const Layout &layout) {
  return std::make_unique<MetricRowsCall<T>>(problem, layout);
}
#define INSTANCES(T)                                                              \
  template std::unique_ptr<Call> make_metric<T>(const Problem &, const Layout &); \
  template std::unique_ptr<Call> make_metric_rows<T>(const Problem &, const Layout &);
INSTANCES(float)
INSTANCES(double)
INSTANCES(F16)
INSTANCES(BF16)
INSTANCES(std::int8_t)
#undef INSTANCES

}  // namespace rapt::test
