// Splits a linear layer into calls, with its matrices in guarded memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "support/attention_memory.hpp"
#include "support/kernel_memory.hpp"
#include "support/linear_memory.hpp"
#include "support/task_calls.hpp"

namespace rapt::test {

// X, W and Y are the elements of the matrices, and A is the arithmetic type. Derived has these functions:
//
//   options_of(first, end, with_weights)   the options of a call for some rows
//   part_of(options, first)                those for packing, whose weights begin with output `first`
//   check_arrays()                         adds a fault if another array of the layer has changed
template <class Derived, class X, class W, class Y, class A>
class LinearCalls : protected TaskCalls {
 public:
  Outcome run() {
    if (how_.packed_w) pack();
    if (how_.calls == Calls::query_by_query) {
      for (std::size_t r = rows_; r > 0; --r) run_rows(r - 1, r);
    } else {
      run_rows(0, rows_);
    }
    collect();
    self().check_arrays();
    return std::move(outcome_);
  }

 protected:
  // w has w_cols elements in a row, in the order w_order.
  LinearCalls(const RowsProblem &problem, std::size_t outputs, std::size_t w_cols, MatrixOrder w_order,
              const Layout &layout, std::uint64_t seed)
      : TaskCalls(layout, layout.linear.calls, seed * 77 + 5),
        how_(layout.linear),
        cols_(problem.cols),
        outputs_(outputs),
        first_(problem.window.first),
        rows_(problem.window.end(problem.rows) - first_),
        x_list_(rows_, how_.x_rows, random_),
        y_list_(rows_, how_.y_rows, random_),
        x_(x_list_.rows_of_memory, cols_, how_.x_order, layout, 0),
        w_(outputs, w_cols, w_order, layout, 1),
        y_(y_list_.rows_of_memory, outputs, stride(2), layout.placement, drivers::offset_of<Y>(layout, 2)) {
    if (how_.x_rows) x_rows_.set(x_list_.place, layout);
    if (how_.y_rows) y_rows_.set(y_list_.place, layout);
  }

  void place(const std::vector<A> &bias, const std::vector<A> &row_scales) {
    bias_.set(bias, layout_, layout_.offset[1]);
    row_scales_.set(rows_of(row_scales, 1), layout_, layout_.offset[0]);
  }

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
    return static_cast<std::ptrdiff_t>(outputs_) + layout_.gap[slot];
  }

  // Sets what all layers have. `is_short` leaves out strides that are the default.
  void set_layer(std::size_t first, std::size_t end, bool is_short, bool with_weights,
                 rapt_linear_options &o) const {
    o.size = sizeof o;
    o.rows = end - first;
    o.in_features = cols_;
    o.out_features = outputs_;
    if (!x_.is_contiguous() || !is_short) o.x_strides = x_.strides();
    if (with_weights && (!w_.is_contiguous() || !is_short)) o.w_strides = w_.strides();
    if (layout_.gap[2] != 0 || !is_short) o.y_stride = y_.stride();
    o.bias = bias_.data();
    o.row_scales = row_scales_.from(first);
    o.x_rows = x_rows_.from(first);
    o.y_rows = y_rows_.from(first);
  }

  const LinearLayout &how_;
  std::size_t cols_, outputs_, first_, rows_;
  RowList x_list_, y_list_;
  Grid<X> x_;
  Grid<W> w_;
  Matrix<Y> y_;
  Array<A> bias_, row_scales_;
  Array<std::size_t> x_rows_, y_rows_;

 private:
  Derived &self() { return *static_cast<Derived *>(this); }

  // Packs some blocks of outputs at a time, the first ones first and then in any order.
  void pack() {
    std::size_t bytes = 0;
    const rapt_linear_options o = self().options_of(0, rows_, true);
    check(rapt_linear_packed_length(&o, &bytes));
    packed_.emplace(bytes, layout_.placement, drivers::offset_of<W>(layout_, 1));
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    for (std::size_t first = 0; first < outputs_;) {
      const std::size_t outputs = std::min(outputs_ - first, 64 * (1 + random_.below(3)));
      parts.emplace_back(first, outputs);
      first += outputs;
    }
    if (parts.size() > 1 && random_.one_in(2)) std::reverse(parts.begin() + 1, parts.end());
    for (const auto &[first, outputs] : parts) {
      const rapt_linear_options part = self().part_of(o, first);
      check(rapt_linear_pack(w_.row(first), first, outputs, &part, packed_->data(), bytes));
    }
    const auto *packed = static_cast<const unsigned char *>(packed_->data());
    packed_image_.assign(packed, packed + bytes);
  }

  void run_rows(std::size_t first, std::size_t end) {
    if (!outcome_.fault.empty()) return;  // one fault is enough
    rapt_linear_options o = self().options_of(first, end, !how_.packed_w);
    const void *w = w_.data();
    if (how_.packed_w) {
      o.packed_w = 1;
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
    const std::size_t row_bytes = outputs_ * sizeof(Y);
    std::vector<bool> is_listed(y_list_.rows_of_memory);
    for (const std::size_t row : y_list_.place) is_listed[row] = true;
    for (std::size_t r = 0; outputs_ > 0 && r < rows_; ++r) {
      const Y *const row = y_.row(y_list_.place[r]);
      for (std::size_t n = 0; n < outputs_; ++n) outcome_.bits.push_back(canonical_bits(row[n]));
    }
    for (std::size_t row = 0; outputs_ > 0 && row < is_listed.size(); ++row) {
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
  }

  std::optional<GuardedBuffer> packed_;
  std::vector<unsigned char> packed_image_;
};

}  // namespace rapt::test
