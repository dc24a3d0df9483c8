// Computes the gradient of the weights of a depthwise convolution: sums over positions, with channels in the lanes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/carved.hpp"
#include "api/convolution_patches.hpp"
#include "api/copy_matrix.hpp"
#include "call/convolution_call.hpp"
#include "call/convolution_tasks.hpp"
#include "call/tap_sums.hpp"
#include "contract/linear.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

// Where channels lie side by side, x and dy are read where they are. Else their lines are copied, [elements][channels].
// A line of x stays copied while lines of dy may meet it.
template <class E>
class DepthwiseGradientRunner {
 public:
  using A = Arithmetic<E>;
  static constexpr std::size_t chunk = linear_sum_group, lanes = DepthwiseGradientTasks::lanes;

  DepthwiseGradientRunner(const ConvolutionShape &shape, void *memory)
      : shape_(shape), pass_(ConvolutionPass::of_y(shape)), tasks_(shape), carved_(memory) {
    const std::size_t taps = shape.all_taps();
    auto *const segments = carved_.take<Segment>(chunk);
    patches_.use(segments, carved_.take<MetRows>(chunk * taps));
    runs_ = carved_.take<TapRun>(taps);
    chains_ = carved_.take<A>(taps * lanes);
    sums_ = carved_.take<A>(taps * lanes);
    if (tasks_.reads_in_place) return;
    held_ = carved_.take<std::ptrdiff_t>(tasks_.lines());
    lines_ = carved_.take<E>(tasks_.lines() * shape.in[2] * lanes);
    dy_ = carved_.take<E>((shape.out[2] < chunk ? shape.out[2] : chunk) * lanes);
  }
  std::size_t bytes() const { return carved_.bytes(); }

  void run(const E *x, const E *dy, E *dw, std::size_t first, std::size_t last) {
    for (std::size_t task = first; task < last; ++task) run_task(x, dy, dw, task);
  }

 private:
  static std::ptrdiff_t at(std::size_t i, std::ptrdiff_t step) {
    return static_cast<std::ptrdiff_t>(i) * step;
  }

  void run_task(const E *x, const E *dy, E *dw, std::size_t task) {
    const std::size_t first = task / shape_.out_channels * lanes, output = task % shape_.out_channels,
                      left = shape_.groups - first, taps = shape_.all_taps(), positions = pass_.rows();
    n_ = left < lanes ? left : lanes;
    x += at(first, shape_.x.channel);
    dy += at(first * shape_.out_channels + output, shape_.y.channel);
    for (std::size_t i = 0; i < taps * n_; ++i) sums_[i] = 0;
    for (std::size_t i = 0; !tasks_.reads_in_place && i < tasks_.lines(); ++i) held_[i] = PTRDIFF_MIN;
    for (std::size_t p = 0; p < positions; p += chunk) {
      const std::size_t count = positions - p < chunk ? positions - p : chunk;
      patches_.find(pass_, p, count, chunk);
      for (std::size_t i = 0; i < taps * n_; ++i) chains_[i] = 0;
      for (std::size_t s = 0; s < patches_.segments(); ++s)
        tasks_.reads_in_place ? add_in_place(x, dy, s) : add_copied(x, dy, p, s);
      for (std::size_t i = 0; i < taps * n_; ++i) sums_[i] = sums_[i] + chains_[i];
    }
    for (std::size_t i = 0; i < n_; ++i) {
      E *const of_channel = dw + ((first + i) * shape_.out_channels + output) * taps;
      for (std::size_t t = 0; t < taps; ++t) of_channel[t] = narrowed<E>(sums_[t * n_ + i] + A(0));
    }
  }

  void add_in_place(const E *x, const E *dy, std::size_t s) {
    const Segment &segment = patches_.segment(s);
    const std::size_t taps = shape_.all_taps();
    for (std::size_t t = 0; t < taps; ++t) {
      const MetRows &met = patches_.met(s, t);
      runs_[t] = {x + met.from, met.row - segment.row, met.count};
    }
    add({runs_, taps, n_, patches_.step(), shape_.y.steps[2], dy + segment.to, chains_});
  }

  void add_copied(const E *x, const E *dy, std::size_t first_row, std::size_t s) {
    const Segment &segment = patches_.segment(s);
    const std::size_t row = first_row + segment.row, inner = row % pass_.out[2],
                      middle = row / pass_.out[2] % pass_.out[1],
                      outer = row / pass_.out[2] / pass_.out[1] % pass_.out[0],
                      batch = row / pass_.out[2] / pass_.out[1] / pass_.out[0];
    const auto element = [&](std::size_t d, std::size_t position, std::size_t tap) {
      return at(position, pass_.stride[d]) + pass_.offset[d] + at(tap, pass_.dilation[d]);
    };
    std::size_t t = 0;
    for (std::size_t a = 0; a < pass_.taps[0]; ++a) {
      for (std::size_t b = 0; b < pass_.taps[1]; ++b) {
        const std::ptrdiff_t i = element(0, outer, a), j = element(1, middle, b);
        const E *line = nullptr;
        for (std::size_t c = 0; c < pass_.taps[2]; ++c, ++t) {
          const MetRows &met = patches_.met(s, t);
          runs_[t] = {lines_, met.row - segment.row, met.count};
          if (met.count == 0) continue;
          if (!line) line = line_at(x, batch, static_cast<std::size_t>(i), static_cast<std::size_t>(j));
          runs_[t].x =
              line + element(2, inner + met.row - segment.row, c) * static_cast<std::ptrdiff_t>(lanes);
        }
      }
    }
    copy_line(dy + segment.to, shape_.y.channel * static_cast<std::ptrdiff_t>(shape_.out_channels),
              shape_.y.steps[2], segment.count, dy_);
    add({runs_, t, n_, at(lanes, pass_.stride[2]), lanes, dy_, chains_});
  }
  // Returns a line of x, which it copies unless it has.
  const E *line_at(const E *x, std::size_t batch, std::size_t i, std::size_t j) {
    const std::size_t slot = i % tasks_.held[0] * tasks_.held[1] + j % tasks_.held[1];
    const std::ptrdiff_t from =
        at(batch, shape_.x.batch) + at(i, shape_.x.steps[0]) + at(j, shape_.x.steps[1]);
    E *const line = lines_ + slot * shape_.in[2] * lanes;
    if (held_[slot] != from) copy_line(x + from, shape_.x.channel, shape_.x.steps[2], shape_.in[2], line);
    held_[slot] = from;
    return line;
  }
  void copy_line(const E *from, std::ptrdiff_t channel, std::ptrdiff_t step, std::size_t count, E *to) const {
    copy_matrix(from, channel, step, n_, count, to, 1, static_cast<std::ptrdiff_t>(lanes));
  }

  void add(const TapGradient &gradient) const {
    TapSums sums{};
    sums.gradient = &gradient;
    kernels().of<E>().convolution(&sums);
  }

  const ConvolutionShape &shape_;
  ConvolutionPass pass_;
  DepthwiseGradientTasks tasks_;
  Carved carved_;
  Patches patches_;
  TapRun *runs_ = nullptr;
  A *chains_ = nullptr, *sums_ = nullptr;
  std::ptrdiff_t *held_ = nullptr;  // where a copied line is in x
  E *lines_ = nullptr, *dy_ = nullptr;
  std::size_t n_ = 0;
};

}  // namespace
}  // namespace rapt
