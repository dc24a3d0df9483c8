#include "support/linear_case.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/attention_memory.hpp"
#include "support/kernel_memory.hpp"
#include "support/linear_data.hpp"
#include "support/linear_memory.hpp"
#include "support/task_calls.hpp"

namespace rapt::test {
namespace {

template <class X, class W, class Y>
class LinearRun : TaskCalls {
  using A = Number<W>;

 public:
  LinearRun(const Problem &problem, const Layout &layout, rapt_arithmetic arithmetic)
      : TaskCalls(layout, layout.linear.calls, problem.seed * 77 + 5),
        problem_(problem.as<LinearProblem>()),
        how_(layout.linear),
        numbers_(make_linear<W>(problem)),
        arithmetic_(arithmetic),
        first_(problem_.window.first),
        rows_(problem_.window.end(problem_.rows) - first_),
        x_list_(rows_, how_.x_rows, random_),
        y_list_(rows_, how_.y_rows, random_),
        x_(x_list_.rows_of_memory, problem_.cols, how_.x_order, layout, 0),
        w_(problem_.outputs, problem_.cols, how_.w_order, layout, 1),
        y_(y_list_.rows_of_memory, problem_.outputs, stride(2), layout.placement,
           drivers::offset_of<Y>(layout, 2)) {
    x_.fill(x_list_.in_memory<X>(rows_of(numbers_.x, problem_.cols), problem_.cols));
    w_.fill(elements<W>(numbers_.w));
    bias_.set(numbers_.bias, layout, layout.offset[1]);
    row_scales_.set(rows_of(numbers_.row_scales, 1), layout, layout.offset[0]);
    if (how_.x_rows) x_rows_.set(x_list_.place, layout);
    if (how_.y_rows) y_rows_.set(y_list_.place, layout);
    place_addend();
    if (how_.packed_w) pack();
  }

  Outcome run() {
    if (how_.calls == Calls::query_by_query) {
      for (std::size_t r = rows_; r > 0; --r) run_rows(r - 1, r);
    } else {
      run_rows(0, rows_);
    }
    collect();
    return std::move(outcome_);
  }

 private:
  template <class E>
  static std::vector<E> elements(const std::vector<A> &numbers) {
    std::vector<E> made;
    for (const A number : numbers) made.push_back(E(number));
    return made;
  }
  // Returns the problem's rows that the calls get.
  std::span<const A> rows_of(const std::vector<A> &all, std::size_t cols) const {
    return all.empty() ? std::span<const A>() : std::span(all).subspan(first_ * cols, rows_ * cols);
  }
  std::ptrdiff_t stride(std::size_t slot) const {
    return static_cast<std::ptrdiff_t>(problem_.outputs) + layout_.gap[slot];
  }

  void place_addend() {
    const std::span<const A> values = rows_of(numbers_.add, problem_.outputs);
    const bool has_type_of_y = problem_.add == Addend::like_y || std::is_same_v<X, Y>;
    in_place_ = problem_.add != Addend::none && has_type_of_y && layout_.alias != Alias::none;
    if (in_place_) {
      y_.fill(y_list_.in_memory<Y>(values, problem_.outputs));
    } else if (problem_.add == Addend::like_y) {
      place(values, add_like_y_, add_image_y_);
    } else if (problem_.add == Addend::like_x) {
      place(values, add_like_x_, add_image_x_);
    }
  }
  template <class E>
  void place(std::span<const A> values, std::optional<Matrix<E>> &matrix, std::vector<E> &image) {
    matrix.emplace(y_list_.rows_of_memory, problem_.outputs, stride(0), layout_.placement,
                   drivers::offset_of<E>(layout_, 0));
    image = y_list_.in_memory<E>(values, problem_.outputs);
    matrix->fill(image);
  }

  // Packs some blocks of outputs at a time, in any order.
  void pack() {
    std::size_t bytes = 0;
    const rapt_linear_options o = options_of(0, rows_);
    check(rapt_linear_packed_length(&o, &bytes));
    packed_.emplace(bytes, layout_.placement, drivers::offset_of<W>(layout_, 1));
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    for (std::size_t first = 0; first < problem_.outputs;) {
      const std::size_t outputs = std::min(problem_.outputs - first, 64 * (1 + random_.below(3)));
      parts.emplace_back(first, outputs);
      first += outputs;
    }
    if (random_.one_in(2)) std::reverse(parts.begin(), parts.end());
    for (const auto &[first, outputs] : parts) {
      check(rapt_linear_pack(w_.row(first), first, outputs, &o, packed_->data()));
    }
    const auto *packed = static_cast<const unsigned char *>(packed_->data());
    packed_image_.assign(packed, packed + bytes);
  }

  // Returns the options of a call for the rows [first, end), with the strides of unpacked weights.
  rapt_linear_options options_of(std::size_t first, std::size_t end) {
    rapt_linear_options o{};
    o.size = sizeof o;
    const bool is_short = random_.one_in(2);  // leaves out what has a default
    o.x_type = is_short && std::is_same_v<X, float> ? RAPT_TYPE_DEFAULT : Api<X>::type;
    o.w_type = is_short && std::is_same_v<X, W> ? RAPT_TYPE_DEFAULT : Api<W>::type;
    o.y_type = is_short && std::is_same_v<X, Y> ? RAPT_TYPE_DEFAULT : Api<Y>::type;
    if (std::is_same_v<W, BF16> && std::is_same_v<X, BF16>) {
      o.arithmetic = arithmetic_;
    } else if (!std::is_same_v<W, double> && !is_short) {
      o.arithmetic = RAPT_ARITHMETIC_F32;
    }
    o.rows = end - first;
    o.in_features = problem_.cols;
    o.out_features = problem_.outputs;
    if (!x_.is_contiguous() || !is_short) o.x_strides = x_.strides();
    if (!w_.is_contiguous() || !is_short) o.w_strides = w_.strides();
    if (layout_.gap[2] != 0 || !is_short) o.y_stride = y_.stride();
    o.bias = bias_.data();
    o.row_scales = row_scales_.from(first);
    o.x_rows = x_rows_.from(first);
    o.y_rows = y_rows_.from(first);
    set_addend(first, is_short, o);
    return o;
  }
  void set_addend(std::size_t first, bool is_short, rapt_linear_options &o) const {
    if (problem_.add == Addend::none) return;
    const std::size_t row = how_.y_rows ? 0 : first;
    std::ptrdiff_t add_stride = 0;
    rapt_type type = Api<Y>::type;
    if (in_place_) {
      o.add = y_.row(row);
      add_stride = y_.stride();
    } else if (add_like_y_) {
      o.add = add_like_y_->row(row);
      add_stride = add_like_y_->stride();
    } else {
      o.add = add_like_x_->row(row);
      add_stride = add_like_x_->stride();
      type = Api<X>::type;
    }
    if (!is_short || type != Api<Y>::type) o.add_type = type;
    if (!is_short || static_cast<std::size_t>(add_stride) != problem_.outputs) o.add_stride = add_stride;
  }

  void run_rows(std::size_t first, std::size_t end) {
    if (!outcome_.fault.empty()) return;  // one fault is enough
    rapt_linear_options o = options_of(first, end);
    const void *w = w_.data();
    if (how_.packed_w) {
      o.packed_w = 1;
      o.w_strides = {0, 0};
      w = packed_->data();
    }
    std::size_t bytes = 0, tasks = 0;
    check(rapt_linear_workspace(&o, &bytes));
    check(rapt_linear_tasks(&o, &tasks));
    if (!outcome_.fault.empty()) return;
    make_workspace(bytes);
    const X *const x = x_.row(how_.x_rows ? 0 : first);
    Y *const y = y_.row(how_.y_rows ? 0 : first);
    if (how_.calls == Calls::whole || how_.calls == Calls::by_sequence ||
        how_.calls == Calls::query_by_query) {
      call([&] { return rapt_linear(x, w, y, &o, workspace_->data(), bytes); });
    } else {
      run_tasks(tasks, [&](std::size_t begin, std::size_t last) {
        return rapt_linear_run(x, w, y, &o, begin, last, workspace_->data(), bytes);
      });
    }
    check_workspace();
  }

  void collect() {
    const std::size_t row_bytes = problem_.outputs * sizeof(Y);
    std::vector<bool> is_listed(y_list_.rows_of_memory);
    for (const std::size_t row : y_list_.place) is_listed[row] = true;
    for (std::size_t r = 0; problem_.outputs > 0 && r < rows_; ++r) {
      const Y *const row = y_.row(y_list_.place[r]);
      for (std::size_t n = 0; n < problem_.outputs; ++n) outcome_.bits.push_back(canonical_bits(row[n]));
    }
    for (std::size_t row = 0; problem_.outputs > 0 && row < is_listed.size(); ++row) {
      fault_unless(is_listed[row] || is_canary(y_.row(row), row_bytes), "to a row of y that is not listed");
    }
    fault_unless(y_.gaps_intact(), "outside the rows of y");
    fault_unless(x_.unchanged(), "to x");
    fault_unless(w_.unchanged(), "to w");
    fault_unless(!packed_ || (packed_->surroundings_intact() &&
                              std::memcmp(packed_->data(), packed_image_.data(), packed_image_.size()) == 0),
                 "to the packed weights or around them");
    fault_unless(bias_.intact() && row_scales_.intact() && x_rows_.intact() && y_rows_.intact(),
                 "to an option's array");
    fault_unless((!add_like_x_ || (add_like_x_->holds(add_image_x_) && add_like_x_->gaps_intact())) &&
                     (!add_like_y_ || (add_like_y_->holds(add_image_y_) && add_like_y_->gaps_intact())),
                 "to the addend");
  }

  const LinearProblem &problem_;
  const LinearLayout &how_;
  const LinearNumbers<A> &numbers_;
  rapt_arithmetic arithmetic_;
  std::size_t first_, rows_;
  RowList x_list_, y_list_;
  Grid<X> x_;
  Grid<W> w_;
  Matrix<Y> y_;
  bool in_place_ = false;
  std::optional<Matrix<X>> add_like_x_;
  std::optional<Matrix<Y>> add_like_y_;
  std::vector<X> add_image_x_;
  std::vector<Y> add_image_y_;
  std::optional<GuardedBuffer> packed_;
  std::vector<unsigned char> packed_image_;
  Array<A> bias_, row_scales_;
  Array<std::size_t> x_rows_, y_rows_;
};

}  // namespace

template <class W>
Outcome run_linear(const Problem &problem, const Layout &layout, rapt_arithmetic arithmetic) {
  Outcome outcome;
  const bool are_known =
      with_linear_types<W>(problem.as<LinearProblem>().types, [&]<class X, class Y>(LinearTypes<X, Y>) {
        outcome = LinearRun<X, W, Y>(problem, layout, arithmetic).run();
      });
  if (!are_known) outcome.fault = "these types are another kernel's; ";
  return outcome;
}

template Outcome run_linear<float>(const Problem &, const Layout &, rapt_arithmetic);
template Outcome run_linear<double>(const Problem &, const Layout &, rapt_arithmetic);
template Outcome run_linear<F16>(const Problem &, const Layout &, rapt_arithmetic);
template Outcome run_linear<BF16>(const Problem &, const Layout &, rapt_arithmetic);

}  // namespace rapt::test
