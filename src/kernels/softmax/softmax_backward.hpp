// Computes the gradients of softmax and log_softmax: for each row a sum in dot()'s order, and a pass that writes dx.
//
// Rows of 16 bits are widened to blocks in L1, twice if a row has several. The lanes of a sum stay in their registers
// from block to block, so a row may have any length, and the bits are those of f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "call/softmax_gradient.hpp"
#include "kernels/dot.hpp"
#include "kernels/vector/exp.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// dx = y * (dy - mean) * scale. An element with y = 0 counts as excluded, even if its dy is infinite or NaN.
template <class A>
struct GradientOfSoftmax {
  using S = simd<A>;
  using batch = typename S::batch;
  batch factor, sum = batch(A(0));

  RAPT_INNER explicit GradientOfSoftmax(A scale) : factor(scale) {}
  RAPT_INNER static batch added(batch y, batch dy, batch lane) {
    return S::fma(y, S::zero_where(S::equal(y, batch(A(0))), dy), lane);
  }
  // Replaces dy by dx.
  template <std::size_t count>
  RAPT_INNER void operator()(batch (&y)[count], batch (&dy)[count]) const {
    unroll<count>([&](std::size_t r) RAPT_INNER {
      dy[r] = S::zero_where(S::equal(y[r], batch(A(0))), (y[r] * (dy[r] - sum)) * factor);
    });
  }
};

// dx = (dy - exp(y) * sum) * scale. An element with y = -inf counts as excluded.
template <class A>
struct GradientOfLogSoftmax {
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr A excluded = -std::numeric_limits<A>::infinity();
  Exp<A> exp;
  batch factor, sum = batch(A(0));

  RAPT_INNER explicit GradientOfLogSoftmax(A scale) : factor(scale) {}
  RAPT_INNER static batch added(batch y, batch dy, batch lane) {
    return lane + S::zero_where(S::equal(y, batch(excluded)), dy);
  }
  template <std::size_t count>
  RAPT_INNER void operator()(batch (&y)[count], batch (&dy)[count]) const {
    batch e[count];
    unroll<count>([&](std::size_t r) RAPT_INNER { e[r] = y[r]; });
    exp(e);
    unroll<count>([&](std::size_t r) RAPT_INNER {
      dy[r] = S::zero_where(S::equal(y[r], batch(excluded)), S::fnma(e[r], sum, dy[r]) * factor);
    });
  }
};

// A row that the kernel reads and writes where it lies.
template <class A>
struct RowInPlace {
  static constexpr bool in_place = true;
  static constexpr std::size_t block = rapt::dot_stretch<A>;
  const A *y_row, *dy_row;
  A *dx_row;

  RAPT_INNER void read(std::size_t, std::size_t) {}
  RAPT_INNER const A *y(std::size_t begin) const { return y_row + begin; }
  RAPT_INNER const A *dy(std::size_t begin) const { return dy_row + begin; }
  RAPT_INNER A *dx(std::size_t begin) { return dx_row + begin; }
  RAPT_INNER void write(std::size_t, std::size_t) {}
};

// Scratch of the rows of a call.
struct WidenedBlock {
  static constexpr std::size_t size = 1024;
  alignas(64) float y[size], dy[size];
};

// A row of 16 bits. Its block stays in scratch until another one is read.
struct WidenedRow {
  static constexpr bool in_place = false;
  static constexpr std::size_t block = WidenedBlock::size, nothing = SIZE_MAX;
  const rapt::SoftmaxGradient &call;
  const std::uint16_t *y_row, *dy_row;
  std::uint16_t *dx_row;
  WidenedBlock &held;
  std::size_t first = nothing;

  void read(std::size_t begin, std::size_t count) {
    if (first == begin) return;
    call.widen(y_row + begin, held.y, count);
    call.widen(dy_row + begin, held.dy, count);
    first = begin;
  }
  RAPT_INNER const float *y(std::size_t) const { return held.y; }
  RAPT_INNER const float *dy(std::size_t) const { return held.dy; }
  RAPT_INNER float *dx(std::size_t) { return held.dy; }
  void write(std::size_t begin, std::size_t count) {
    call.narrow(held.dy, dx_row + begin, count);
    first = nothing;
  }
};

// Adds the terms of n elements to the lanes.
template <class Rule, class A>
RAPT_INNER inline void add_terms_of(DotLanes<A> &sum, const A *y, const A *dy, std::size_t n) {
  using S = simd<A>;
  constexpr std::size_t registers = DotLanes<A>::registers, lanes = DotLanes<A>::lanes;
  std::size_t i = 0;
  for (; n - i >= lanes; i += lanes) {
    unroll<registers>([&](std::size_t j) RAPT_INNER {
      sum.lane[j] = Rule::added(S::load(y + i + j * S::width), S::load(dy + i + j * S::width), sum.lane[j]);
    });
  }
  if (i < n) {
    unroll<registers>([&](auto j) RAPT_INNER {
      constexpr std::size_t begin = j * S::width;
      const std::size_t k = n - i > begin ? n - i - begin : 0;
      sum.lane[j] =
          Rule::added(S::load_first(y + i + begin, k), S::load_first(dy + i + begin, k), sum.lane[j]);
    });
  }
}

// Sets the lanes to the terms of the elements [begin, end), at most dot_stretch.
template <class Rule, class A, class Row>
RAPT_INNER inline void sum_terms(DotLanes<A> &sum, Row &row, std::size_t begin, std::size_t end) {
  sum.clear();
  if constexpr (Row::in_place) return add_terms_of<Rule>(sum, row.y(begin), row.dy(begin), end - begin);
  for (std::size_t i = begin; i < end; i += Row::block) {
    const std::size_t k = end - i < Row::block ? end - i : Row::block;
    row.read(i, k);
    add_terms_of<Rule>(sum, row.y(i), row.dy(i), k);
  }
}

template <class Rule, class A, class Row>
[[gnu::flatten, gnu::noinline]] A sum_of_long_row(Row &row, std::size_t n) {
  return sum_of_stretches<A>(n, [&](std::size_t begin, std::size_t count, A *lane) {
    DotLanes<A> sum;
    sum_terms<Rule>(sum, row, begin, begin + count);
    sum.store(lane);
  });
}

template <class Rule, class A>
RAPT_INNER inline void write_gradient(const Rule &rule, const A *y, const A *dy, A *dx, std::size_t n) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t together = 4, step = together * S::width;
  std::size_t i = 0;
  for (; n - i >= step; i += step) {
    batch of_y[together], of_dy[together];
    unroll<together>([&](std::size_t r) RAPT_INNER {
      of_y[r] = S::load(y + i + r * S::width);
      of_dy[r] = S::load(dy + i + r * S::width);
    });
    rule(of_y, of_dy);
    unroll<together>([&](std::size_t r) RAPT_INNER { S::store(dx + i + r * S::width, of_dy[r]); });
  }
  for (; i < n; i += S::width) {
    const std::size_t k = n - i < S::width ? n - i : S::width;
    batch of_y[1] = {S::load_first(y + i, k)}, of_dy[1] = {S::load_first(dy + i, k)};
    rule(of_y, of_dy);
    S::store_first(dx + i, of_dy[0], k);
  }
}

template <class A, class Rule, class Row>
RAPT_INNER inline void gradient_of_row(Rule &rule, Row &row, std::size_t n) {
  using batch = typename simd<A>::batch;
  if (n > rapt::dot_stretch<A>) [[unlikely]] {
    rule.sum = batch(sum_of_long_row<Rule, A>(row, n));
  } else {
    DotLanes<A> sum;
    sum_terms<Rule>(sum, row, 0, n);
    rule.sum = batch(sum.fold());
  }
  if constexpr (Row::in_place) return write_gradient(rule, row.y(0), row.dy(0), row.dx(0), n);
  for (std::size_t i = 0; i < n; i += Row::block) {
    const std::size_t k = n - i < Row::block ? n - i : Row::block;
    row.read(i, k);
    write_gradient(rule, row.y(i), row.dy(i), row.dx(i), k);
    row.write(i, k);
  }
}

template <class Rule>
[[gnu::flatten, gnu::noinline]] void gradients_of_halves(const rapt::SoftmaxGradient &call) {
  Rule rule(static_cast<float>(call.scale));
  WidenedBlock block;
  for (std::size_t r = 0; r < call.rows; ++r) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(r);
    WidenedRow row{call, static_cast<const std::uint16_t *>(call.y) + at * call.y_stride,
                   static_cast<const std::uint16_t *>(call.dy) + at * call.dy_stride,
                   static_cast<std::uint16_t *>(call.dx) + at * call.dx_stride, block};
    gradient_of_row<float>(rule, row, call.cols);
  }
}

template <class A, class Rule>
[[gnu::flatten]] void softmax_gradients(const rapt::SoftmaxGradient &call) {
  if constexpr (sizeof(A) == sizeof(float)) {
    if (call.widen) return gradients_of_halves<Rule>(call);
  }
  Rule rule(static_cast<A>(call.scale));
  RowInPlace<A> row{static_cast<const A *>(call.y), static_cast<const A *>(call.dy),
                    static_cast<A *>(call.dx)};
  for (std::size_t r = 0; r < call.rows; ++r) {
    gradient_of_row<A>(rule, row, call.cols);
    row.y_row += call.y_stride;
    row.dy_row += call.dy_stride;
    row.dx_row += call.dx_stride;
  }
}

template <class A>
void softmax_backward(const rapt::SoftmaxGradient *call) {
  softmax_gradients<A, GradientOfSoftmax<A>>(*call);
}
template <class A>
void log_softmax_backward(const rapt::SoftmaxGradient *call) {
  softmax_gradients<A, GradientOfLogSoftmax<A>>(*call);
}

}  // namespace
