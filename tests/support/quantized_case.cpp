#include "support/quantized_case.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/attention_memory.hpp"
#include "support/kernel_memory.hpp"
#include "support/linear_memory.hpp"
#include "support/quantized_data.hpp"
#include "support/task_calls.hpp"

namespace rapt::test {
namespace {

template <class E>
constexpr rapt_type type_of() {
  if constexpr (std::is_same_v<E, std::int8_t>) {
    return RAPT_I8;
  } else {
    return Api<E>::type;
  }
}

template <class X, class Y, class Scale>
class QuantizedRun : TaskCalls {
 public:
  QuantizedRun(const Problem &problem, const Layout &layout, rapt_arithmetic arithmetic)
      : TaskCalls(layout, layout.linear.calls, problem.seed * 77 + 5),
        problem_(problem.as<QuantizedProblem>()),
        how_(layout.linear),
        numbers_(make_quantized(problem)),
        arithmetic_(arithmetic),
        first_(problem_.window.first),
        rows_(problem_.window.end(problem_.rows) - first_),
        w_cols_(problem_.weights == WeightType::i8 ? problem_.cols : (problem_.cols + 1) / 2),
        x_list_(rows_, how_.x_rows, random_),
        y_list_(rows_, how_.y_rows, random_),
        x_(x_list_.rows_of_memory, problem_.cols, how_.x_order, layout, 0),
        w_(problem_.outputs, w_cols_, problem_.weights == WeightType::i8 ? how_.w_order : MatrixOrder::rows,
           layout, 1),
        y_(y_list_.rows_of_memory, problem_.outputs,
           static_cast<std::ptrdiff_t>(problem_.outputs) + layout.gap[2], layout.placement,
           drivers::offset_of<Y>(layout, 2)) {
    if constexpr (std::is_same_v<X, std::int8_t>) {
      const std::vector<float> xq(numbers_.xq.begin(), numbers_.xq.end());
      x_.fill(x_list_.in_memory<X>(rows_of(xq, problem_.cols), problem_.cols));
      x_scales_.set(
          x_list_.in_memory<float>(rows_of(numbers_.x_scales, numbers_.x_groups), numbers_.x_groups), layout);
    } else {
      x_.fill(x_list_.in_memory<X>(rows_of(numbers_.x, problem_.cols), problem_.cols));
    }
    std::vector<std::uint8_t> bytes;
    for (std::size_t n = 0; n < problem_.outputs; ++n) {
      const auto row =
          stored_integers(problem_.weights, std::span(numbers_.q).subspan(n * problem_.cols, problem_.cols));
      bytes.insert(bytes.end(), row.begin(), row.end());
    }
    w_.fill(bytes);
    scales_.set(elements<Scale>(numbers_.scales), layout);
    offsets_.set(elements<Scale>(numbers_.offsets), layout);
    zeros_.set(numbers_.zeros, layout);
    codebook_.set(numbers_.codebook, layout);
    bias_.set(numbers_.bias, layout, layout.offset[1]);
    row_scales_.set(rows_of(numbers_.row_scales, 1), layout, layout.offset[0]);
    if (how_.x_rows) x_rows_.set(x_list_.place, layout);
    if (how_.y_rows) y_rows_.set(y_list_.place, layout);
    if (problem_.add)
      y_.fill(y_list_.in_memory<Y>(rows_of(numbers_.add, problem_.outputs), problem_.outputs));
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
  static std::vector<E> elements(const std::vector<float> &numbers) {
    std::vector<E> made;
    for (const float number : numbers) made.push_back(E(number));
    return made;
  }
  std::span<const float> rows_of(const std::vector<float> &all, std::size_t cols) const {
    return all.empty() ? std::span<const float>() : std::span(all).subspan(first_ * cols, rows_ * cols);
  }

  void pack() {
    std::size_t bytes = 0;
    const rapt_linear_options o = options_of(0, rows_, true);
    check(rapt_linear_packed_length(&o, &bytes));
    packed_.emplace(bytes, layout_.placement, layout_.offset[1]);
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    for (std::size_t first = 0; first < problem_.outputs;) {
      const std::size_t outputs = std::min(problem_.outputs - first, 64 * (1 + random_.below(3)));
      parts.emplace_back(first, outputs);
      first += outputs;
    }
    if (random_.one_in(2)) std::reverse(parts.begin(), parts.end());
    for (const auto &[first, outputs] : parts) {
      rapt_linear_options part = o;
      part.w_scales = scales_.from(first * numbers_.groups);
      part.w_offsets = offsets_.from(first * numbers_.groups);
      part.w_zeros = zeros_.from(first * numbers_.groups);
      check(rapt_linear_pack(w_.row(first), first, outputs, &part, packed_->data()));
    }
    const auto *packed = static_cast<const unsigned char *>(packed_->data());
    packed_image_.assign(packed, packed + bytes);
  }

  rapt_linear_options options_of(std::size_t first, std::size_t end, bool with_weights) {
    rapt_linear_options o{};
    o.size = sizeof o;
    const bool is_short = random_.one_in(2);  // leaves out what has a default
    o.x_type = is_short && std::is_same_v<X, float> ? RAPT_TYPE_DEFAULT : type_of<X>();
    constexpr rapt_type types[] = {RAPT_I8, RAPT_I4, RAPT_U4};
    o.w_type = types[static_cast<int>(problem_.weights)];
    const bool is_default_y =
        std::is_same_v<X, Y> || (std::is_same_v<X, std::int8_t> && std::is_same_v<Y, float>);
    o.y_type = is_short && is_default_y ? RAPT_TYPE_DEFAULT : Api<Y>::type;
    const rapt_arithmetic by_default =
        std::is_same_v<X, std::int8_t> ? RAPT_ARITHMETIC_I8 : RAPT_ARITHMETIC_F32;
    if (!is_short || arithmetic_ != by_default) o.arithmetic = arithmetic_;
    o.rows = end - first;
    o.in_features = problem_.cols;
    o.out_features = problem_.outputs;
    if (!x_.is_contiguous() || !is_short) o.x_strides = x_.strides();
    if (layout_.gap[2] != 0 || !is_short) o.y_stride = y_.stride();
    o.bias = bias_.data();
    o.row_scales = row_scales_.from(first);
    o.x_rows = x_rows_.from(first);
    o.y_rows = y_rows_.from(first);
    o.scale_group = problem_.scale_group;
    if (arithmetic_ == RAPT_ARITHMETIC_I8) o.x_group = x_group_option(problem_);
    o.x_scales = x_scales_.from(how_.x_rows ? 0 : first * numbers_.x_groups);
    if (problem_.add) {
      o.add = y_.row(how_.y_rows ? 0 : first);
      if (!is_short) o.add_type = Api<Y>::type;
      if (o.y_stride != 0 || !is_short) o.add_stride = y_.stride();
    }
    if (!with_weights) return o;
    if (!w_.is_contiguous() || !is_short) o.w_strides = w_.strides();
    o.w_scales = scales_.data();
    o.w_offsets = offsets_.data();
    o.w_zeros = zeros_.data();
    o.w_codebook = codebook_.data();
    const bool has_type = o.w_scales || o.w_offsets;
    if (has_type && (!is_short || !std::is_same_v<Scale, float>)) o.w_scale_type = Api<Scale>::type;
    return o;
  }

  void run_rows(std::size_t first, std::size_t end) {
    if (!outcome_.fault.empty()) return;  // one fault is enough
    rapt_linear_options o = options_of(first, end, !how_.packed_w);
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
    if (how_.calls == Calls::task_by_task || how_.calls == Calls::task_ranges) {
      run_tasks(tasks, [&](std::size_t begin, std::size_t last) {
        return rapt_linear_run(x, w, y, &o, begin, last, workspace_->data(), bytes);
      });
    } else {
      call([&] { return rapt_linear(x, w, y, &o, workspace_->data(), bytes); });
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
    fault_unless(x_.unchanged() && x_scales_.intact(), "to x");
    fault_unless(w_.unchanged(), "to w");
    fault_unless(!packed_ || (packed_->surroundings_intact() &&
                              std::memcmp(packed_->data(), packed_image_.data(), packed_image_.size()) == 0),
                 "to the packed weights or around them");
    fault_unless(scales_.intact() && offsets_.intact() && zeros_.intact() && codebook_.intact() &&
                     bias_.intact() && row_scales_.intact() && x_rows_.intact() && y_rows_.intact(),
                 "to an option's array");
  }

  const QuantizedProblem &problem_;
  const LinearLayout &how_;
  const QuantizedNumbers &numbers_;
  rapt_arithmetic arithmetic_;
  std::size_t first_, rows_, w_cols_;
  RowList x_list_, y_list_;
  Grid<X> x_;
  Grid<std::uint8_t> w_;
  Matrix<Y> y_;
  std::optional<GuardedBuffer> packed_;
  std::vector<unsigned char> packed_image_;
  Array<Scale> scales_, offsets_;
  Array<std::uint8_t> zeros_;
  Array<float> codebook_, x_scales_, bias_, row_scales_;
  Array<std::size_t> x_rows_, y_rows_;
};

}  // namespace

Outcome run_quantized_linear(const Problem &problem, const Layout &layout, rapt_arithmetic arithmetic) {
  const QuantizedProblem &of = problem.as<QuantizedProblem>();
  const bool in_i8 = arithmetic == RAPT_ARITHMETIC_I8;
  if ((in_i8 && of.codebook) || (!in_i8 && (has_x_of_i8(of.types) || of.x_group != XGroup::as_weights))) {
    Outcome outcome;
    outcome.fault = "this problem is another kernel's; ";
    return outcome;
  }
  return with_quantized_types(of.types, [&]<class X, class Y, class Scale>(TypesOfQuantized<X, Y, Scale>) {
    return QuantizedRun<X, Y, Scale>(problem, layout, arithmetic).run();
  });
}

}  // namespace rapt::test
