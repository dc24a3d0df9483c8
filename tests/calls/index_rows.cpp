#include "calls/index_rows.hpp"

#include <span>
#include <type_traits>

namespace rapt::test {
namespace {

// What both functions have.
class IndexRowsCall : public Call {
 public:
  using Call::Call;

 protected:
  Operand &add_rows(const char *name, Element element, const Sizes4 &sizes, std::size_t slot, void *pointer,
                    const char *stride_name, std::ptrdiff_t *stride, rapt_status missing,
                    rapt_status bad_stride) {
    Operand &added = add(name, element, sizes, slot, pointer);
    added.missing = missing;
    added.stride_fields[2] = stride;
    added.stride_name = stride_name;
    added.bad_stride = bad_stride;
    return added;
  }
  // An array that the library looks at, one element after the other.
  template <class E>
  Operand &add_list(const char *name, std::span<const E> values, std::size_t slot, void *pointer,
                    rapt_status missing) {
    Operand &added = add(name, element_of<E>, {1, 1, 1, values.size()}, slot, pointer);
    added.hold(values);
    added.has_limits = std::is_integral_v<E>;
    added.missing = added.is_empty() ? RAPT_OK : missing;
    return added;
  }
  void add_limits_of_indices(Limits &limits, std::size_t count, std::size_t rows) {
    for (std::size_t i = 0; i<count; i += count> 1 ? count - 1 : 1) {
      const auto change = [this, i](std::int64_t value) {
        return [this, i, value] { set_value("indices", i, value); };
      };
      for (const std::int64_t bad : {std::int64_t{-2}, static_cast<std::int64_t>(rows), INT64_MAX, INT64_MIN})
        limits.add({"indices", only(RAPT_BAD_INDICES), change(bad)});
      limits.add({"indices", 0, change(-1)});
    }
  }
};

template <class T>
class EmbeddingBagCall final : public IndexRowsCall {
 public:
  EmbeddingBagCall(const Problem &problem, const Layout &layout)
      : IndexRowsCall(layout, problem.seed % 2 == 1) {
    const BagNumbers<T> numbers(problem);
    o_.size = sizeof o_;
    o_.type = element_of<T> == Element::f32 && is_short() ? RAPT_TYPE_DEFAULT : type_of(element_of<T>);
    o_.operation = numbers.operation;
    o_.rows = numbers.rows;
    o_.cols = problem.cols();
    o_.bags = numbers.bags();
    count_ = numbers.indices.size();
    add_rows("w", element_of<T>, {1, 1, o_.rows, o_.cols}, 0, &w_, "w_stride", &o_.w_stride, RAPT_BAD_W,
             RAPT_BAD_W_STRIDES)
        .hold(std::span<const T>(numbers.w));
    add_list<std::int64_t>("indices", numbers.indices, 1, &indices_, RAPT_BAD_INDICES);
    add_list<std::size_t>("offsets", numbers.offsets, 1, &o_.offsets, RAPT_BAD_OFFSETS);
    if (!numbers.weights.empty()) add_list<Number<T>>("weights", numbers.weights, 1, &o_.weights, RAPT_OK);
    add_rows("y", element_of<T>, {1, 1, o_.bags, o_.cols}, 2, &y_, "y_stride", &o_.y_stride, RAPT_BAD_Y,
             RAPT_BAD_Y_STRIDE)
        .role = Role::output;
    if (!numbers.finds_rows) return;
    Operand &rows = add("max_rows", Element::i64, {1, 1, o_.bags, o_.cols}, 2, &max_rows_);
    rows.role = Role::output;
    rows.set_rows_apart(0);
  }
  rapt_status run() override { return rapt_embedding_bag(w_, indices_, y_, max_rows_, given(o_)); }
  const char *options() const override { return "rapt_embedding_bag_options"; }
  // Bags without indices are written too.
  bool has_work() const override { return o_.bags > 0 && o_.cols > 0; }
  void add_limits(Limits &limits) override {
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_I8, RAPT_I4, RAPT_U4, 100, ~0u});
    limits.past("operation", o_.operation, RAPT_BAD_OPERATION, {-1, RAPT_BAG_MAX + 1, INT32_MAX, INT32_MIN});
    // Without work, the arrays may be null.
    const Statuses of_nothing = has_work() ? 0 : only(RAPT_BAD_W) | only(RAPT_BAD_Y);
    const Statuses too_large =
        only(RAPT_BAD_SIZE) | only(RAPT_BAD_W_STRIDES) | only(RAPT_BAD_Y_STRIDE) | of_nothing;
    limits.past("rows", o_.rows, o_.cols > 0 ? too_large : only(RAPT_OK), {SIZE_MAX / 2});
    limits.past("cols", o_.cols, too_large, {SIZE_MAX, SIZE_MAX / 2 + 2});
    limits.past("bags", o_.bags, too_large, {SIZE_MAX, SIZE_MAX / 4});
    limits.field("weights", o_.weights);
    if (o_.operation != RAPT_BAG_SUM) limits.past("weights", o_.weights, RAPT_BAD_WEIGHT, {this});
    if (max_rows_) limits.add({"max_rows", only(RAPT_BAD_ROWS), [this] { o_.operation = RAPT_BAG_MEAN; }});
    if (!has_work()) return;
    add_limits_of_indices(limits, count_, o_.rows);
    const auto end = static_cast<std::size_t>(o_.bags);
    limits.add({"offsets", only(RAPT_BAD_OFFSETS), [this] { set_value("offsets", 0, std::size_t{1}); }});
    limits.add({"offsets", only(RAPT_BAD_SIZE), [this, end] { set_value("offsets", end, SIZE_MAX); }});
    if (end < 2) return;
    limits.add({"offsets", only(RAPT_BAD_OFFSETS), [this] { set_value("offsets", 1, SIZE_MAX); }});
  }

 private:
  rapt_embedding_bag_options o_{};
  std::size_t count_ = 0;  // of indices
  void *w_ = nullptr, *y_ = nullptr;
  std::int64_t *indices_ = nullptr, *max_rows_ = nullptr;
};

template <class T>
class IndexAddCall final : public IndexRowsCall {
 public:
  IndexAddCall(const Problem &problem, const Layout &layout) : IndexRowsCall(layout, problem.seed % 2 == 1) {
    const IndexAddNumbers<T> numbers(problem);
    o_.size = sizeof o_;
    o_.type = element_of<T> == Element::f32 && is_short() ? RAPT_TYPE_DEFAULT : type_of(element_of<T>);
    o_.rows = numbers.indices.size();
    o_.cols = problem.cols();
    o_.out_rows = numbers.out_rows;
    add_rows("x", element_of<T>, {1, 1, o_.rows, o_.cols}, 0, &x_, "x_stride", &o_.x_stride, RAPT_BAD_X,
             RAPT_BAD_X_STRIDE)
        .hold(std::span<const T>(numbers.x));
    Operand &out = add_rows("out", element_of<T>, {1, 1, o_.out_rows, o_.cols}, 2, &out_, "out_stride",
                            &o_.out_stride, RAPT_BAD_OUT, RAPT_BAD_OUT_STRIDE);
    out.role = Role::both;
    out.hold(std::span<const T>(numbers.out));
    // Last, so that an `out` that lies on them holds indices, and not other numbers.
    add_list<std::int64_t>("indices", numbers.indices, 1, &o_.indices, RAPT_BAD_INDICES);
  }
  rapt_status run() override { return rapt_index_add(x_, out_, given(o_)); }
  const char *options() const override { return "rapt_index_add_options"; }
  void add_limits(Limits &limits) override {
    limits.past("size", o_.size, RAPT_BAD_OPTIONS_SIZE,
                {0, sizeof o_ - 8, sizeof o_ - 1, sizeof o_ + 1, sizeof o_ + 8, SIZE_MAX});
    limits.past("type", o_.type, RAPT_BAD_TYPE, {RAPT_I8, RAPT_I4, RAPT_U4, 100, ~0u});
    const Statuses too_large = only(RAPT_BAD_SIZE) | only(RAPT_BAD_X_STRIDE) | only(RAPT_BAD_OUT_STRIDE);
    limits.past("rows", o_.rows, too_large, {SIZE_MAX, SIZE_MAX / 2 + 2});
    limits.past("cols", o_.cols, too_large, {SIZE_MAX, SIZE_MAX / 2 + 2});
    if (o_.cols > 0) limits.past("out_rows", o_.out_rows, too_large, {SIZE_MAX, SIZE_MAX / 2});
    if (has_work()) add_limits_of_indices(limits, o_.rows, o_.out_rows);
  }

 private:
  rapt_index_add_options o_{};
  void *x_ = nullptr, *out_ = nullptr;
};

}  // namespace

template <class T>
std::unique_ptr<Call> make_embedding_bag(const Problem &problem, const Layout &layout) {
  return std::make_unique<EmbeddingBagCall<T>>(problem, layout);
}
template <class T>
std::unique_ptr<Call> make_index_add(const Problem &problem, const Layout &layout) {
  return std::make_unique<IndexAddCall<T>>(problem, layout);
}
#define INSTANCES(T)                                                                     \
  template std::unique_ptr<Call> make_embedding_bag<T>(const Problem &, const Layout &); \
  template std::unique_ptr<Call> make_index_add<T>(const Problem &, const Layout &);
INSTANCES(float)
INSTANCES(double)
INSTANCES(F16)
INSTANCES(BF16)
#undef INSTANCES

}  // namespace rapt::test
