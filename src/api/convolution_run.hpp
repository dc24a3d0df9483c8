// Runs the tasks of checked convolutions: as linear layers over patches, or depthwise as sums over taps.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "api/carved.hpp"
#include "api/convolution_depthwise_gradient.hpp"
#include "api/convolution_patches.hpp"
#include "api/convolution_planes.hpp"
#include "api/copy_matrix.hpp"
#include "api/linear_options.hpp"
#include "call/convolution_call.hpp"
#include "call/convolution_tasks.hpp"
#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "call/packed_header.hpp"
#include "call/packed_weights.hpp"
#include "call/tap_sums.hpp"
#include "contract/fused.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

template <class E>
constexpr rapt_type type_of = std::is_same_v<E, double> ? RAPT_F64
                              : std::is_same_v<E, F16>  ? RAPT_F16
                              : std::is_same_v<E, BF16> ? RAPT_BF16
                                                        : RAPT_F32;

// The options of the linear layer of some rows or patches.
template <class E>
rapt_linear_options layer_of(std::size_t rows, std::size_t inputs, std::size_t outputs) {
  constexpr rapt_type type = type_of<E>;
  rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
  o.x_type = type == RAPT_F64 ? RAPT_F64 : RAPT_F32;
  o.w_type = o.y_type = o.add_type = type;
  o.arithmetic = type == RAPT_F64 ? RAPT_ARITHMETIC_DEFAULT : RAPT_ARITHMETIC_F32;
  o.rows = rows, o.in_features = inputs, o.out_features = outputs;
  return o;
}

// The options of the layer of y with all outputs. Quantized weights multiply elements that are widened.
template <class E>
rapt_linear_options layer_of_y(const ConvolutionShape &s, std::size_t rows) {
  rapt_linear_options o = layer_of<E>(rows, s.in_channels * s.all_taps(), s.out_channels);
  o.packed_w = s.packed_w;
  if (!s.has_quantized_weights()) return o;
  o.w_type = s.w_type, o.add_type = RAPT_TYPE_DEFAULT;
  o.arithmetic = s.arithmetic, o.scale_group = s.scale_group, o.x_group = s.x_group;
  return o;
}

template <class E>
void run_layer(const LinearCall &call, void *workspace) {
  const LinearTasks tasks(call.options);
  kernels().of<E>().linear(&call, 0, tasks.count(), workspace);
}

// Copies elements to patches of the arithmetic type. Those of 16 bits are copied to `narrow` first.
template <class E>
void copy_patches(const Patches &patches, const E *x, std::size_t channels, E *narrow, Arithmetic<E> *to) {
  if constexpr (std::is_same_v<E, Arithmetic<E>>) {
    patches.copy(x, channels, to);
  } else {
    patches.copy(x, channels, narrow);
    kernels().of<E>().widen(narrow, to, patches.copied(channels));
  }
}

template <class E>
bool is_nan(E x) {
  const auto number = widened(x);
  return number != number;
}
template <class A>
bool has_nan(const A *x, std::size_t count) {
  bool has = false;
  for (std::size_t i = 0; i < count; ++i) has |= is_nan(x[i]);
  return has;
}
template <class E>
bool are_finite(const E *x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = widened(x[i]);
    if (!(number - number == 0)) return false;
  }
  return true;
}

// A sum in the order of a linear layer, a product at a time.
template <class A>
class SumInOrder {
 public:
  void add(A x, A w) {
    p_ = fused(x, w, p_);
    skip();
  }
  // Counts a product of zeros.
  void skip() {
    if (++count_ % linear_sum_group != 0) return;
    t_ = t_ + p_;
    p_ = 0;
  }
  bool is_nan() const { return p_ != p_ || t_ != t_; }
  A value() const { return t_ + p_ + A(0); }

 private:
  A t_ = 0, p_ = 0;
  std::size_t count_ = 0;
};

// ---- y and dx

template <class E>
class ConvolutionRunner {
 public:
  using A = Arithmetic<E>;
  static constexpr std::size_t pitch = ConvolutionTasks::most_rows, lanes = linear_block;

  // The arrays of a thread. Sizes are the largest of any pass.
  ConvolutionRunner(const ConvolutionShape &shape, void *memory) : shape_(shape), carved_(memory) {
    const bool is_y = shape.result == RAPT_CONVOLUTION_Y;
    const ConvolutionPass of_y = ConvolutionPass::of_y(shape);
    std::size_t taps = 1;
    for (std::size_t d = 0; d < convolved; ++d) {
      const std::size_t every =
          is_y ? 1 : shape.stride[d] / ConvolutionPass::common_divisor(shape.stride[d], shape.dilation[d]);
      taps *= (shape.taps[d] - 1) / every + 1;
    }
    const std::size_t channels = is_y ? shape.in_channels : shape.out_channels,
                      outputs = is_y ? shape.out_channels : ConvolutionPass::of_dx(shape, {}).outputs,
                      terms = channels * taps;
    Sizes sizes;
    each_pass(shape, [&](const ConvolutionPass &pass) { return sizes.add(pass), true; });
    const bool in_lanes = sizes.lanes > 0;
    const std::size_t most = ConvolutionTasks::most_outputs(is_y, in_lanes),
                      all = of_y.groups > 1 && channels == 1 ? of_y.groups * outputs : outputs,
                      together = all < most ? all : most, rows = sizes.rows;
    auto *const segments = carved_.take<Segment>(rows);
    auto *const met = carved_.take<MetRows>(rows * taps);
    patches_.use(segments, met);
    const bool is_quantized = shape.has_quantized_weights();
    results_ =
        carved_.take<E>((sizes.lanes < pitch ? pitch : sizes.lanes) * (is_quantized ? outputs : together));
    if (of_y.groups > 1 && channels == 1) {
      taps_ = carved_.take<Tap>(taps);
      weights_ = carved_.take<A>(taps * together);
      narrow_ = carved_.take<E>(pitch * taps);
      return;
    }
    terms_ = carved_.take<A>(sizes.copies);
    if (!std::is_same_v<E, A>) narrow_ = carved_.take<E>(sizes.copies);
    if (is_quantized) {
      layer_workspace_ = carved_.take<A>(LinearWorkspace(layer_of_y<E>(shape, pitch)).length());
      return;
    }
    if (in_lanes) offsets_ = carved_.take<std::ptrdiff_t>(terms);
    // Packed weights need none of it, but packing then changes no size that a caller has asked for.
    gathered_ =
        carved_.take<E>(packed_block_length<E>(terms) * ((together + linear_block - 1) / linear_block));
    if (!is_y && outputs > shape.in_channels) {
      w_at_ = carved_.take<std::size_t>(together);
      to_at_ = carved_.take<std::ptrdiff_t>(together);
      bias_ = carved_.take<A>(together);
    }
    const std::size_t inputs = terms > 0 ? terms : 1;
    // Other passes of dx may have rows.
    const std::size_t by_rows = LinearWorkspace(layer_of<E>(pitch, inputs, together)).length(),
                      by_lanes =
                          in_lanes ? LinearWorkspace(layer_of<E>(together, inputs, sizes.lanes)).length() : 0;
    layer_workspace_ = carved_.take<A>(by_rows < by_lanes ? by_lanes : by_rows);
  }
  std::size_t bytes() const { return carved_.bytes(); }

  // Computes the tasks [first, last) of a pass.
  void run(const ConvolutionPass &pass, const E *from, const void *w, E *to, std::size_t first,
           std::size_t last) {
    pass_ = &pass, from_ = from, w_ = w, to_ = to;
    has_patches_ = has_weights_ = false;
    weights_are_finite_ = Finite::unknown;
    const ConvolutionTasks tasks(shape_, pass);
    way_ = way_of(pass);
    const bool in_lanes = way_ != ConvolutionWay::rows;
    const std::size_t block = way_ == ConvolutionWay::patches_in_lanes  ? lanes
                              : way_ == ConvolutionWay::planes_in_lanes ? PlaneShape::positions_of(pass)
                                                                        : pitch;
    const PlaneShape planes(pass);
    planes_ = &planes;
    if (way_ == ConvolutionWay::planes_in_lanes) Planes(pass, planes).find_offsets(offsets_);
    gathers_weights_ = tasks.shares_weights();
    ConvolutionTask before{};
    for (std::size_t i = first; i < last; ++i) {
      const ConvolutionTask task = tasks[i];
      has_weights_ = has_weights_ && task.group == before.group && task.first_output == before.first_output;
      const bool has_rows = has_patches_ && task.first_row == before.first_row;
      if (!has_rows) patches_.find(pass, task.first_row, task.rows, block);
      has_patches_ = has_rows && task.group == before.group;
      before = task;
      if (pass.terms() == 0) {
        fill(task);
      } else if (pass.is_depthwise()) {
        run_depthwise(task);
        has_patches_ = true;
      } else if (shape_.has_quantized_weights()) {
        run_quantized(task);
      } else {
        in_lanes ? run_in_lanes(task) : run_dense(task);
      }
    }
  }

 private:
  static std::ptrdiff_t at(std::size_t i, std::ptrdiff_t step) {
    return static_cast<std::ptrdiff_t>(i) * step;
  }
  // The most rows of a task of any pass, elements of copies, and lanes of results.
  struct Sizes {
    std::size_t rows = pitch, copies = 0, lanes = 0;

    void add(const ConvolutionPass &pass) {
      const auto raise = [](std::size_t &most, std::size_t to) { most = most < to ? to : most; };
      const ConvolutionWay way = way_of(pass);
      if (way == ConvolutionWay::rows) return raise(copies, pitch * pass.terms());
      if (way == ConvolutionWay::patches_in_lanes) {
        raise(rows, ConvolutionTasks::most_rows_in_lanes);
        raise(copies, ConvolutionTasks::most_rows_in_lanes * pass.terms());
        return raise(lanes, ConvolutionTasks::most_rows_in_lanes);
      }
      const PlaneShape planes(pass);
      raise(rows, planes.most_positions);
      // Some elements are read behind the last.
      raise(copies, pass.channels * planes.channel + 2 * linear_block);
      raise(lanes, planes.lanes());
    }
  };
  const A *bias(std::size_t channel) const {
    return shape_.bias ? static_cast<const A *>(shape_.bias) + channel : nullptr;
  }
  std::size_t channel_of(const ConvolutionTask &task, std::size_t output) const {
    return (task.group * pass_->outputs + task.first_output + output) / pass_->phases;
  }

  // ---- as a linear layer

  // A task has the outputs of one or two tasks of the layer.
  void run_quantized(const ConvolutionTask &task) {
    const ConvolutionPass &pass = *pass_;
    if (!has_patches_) copy_patches(patches_, from_, pass.channels, narrow_, terms_);
    has_patches_ = true;
    LinearCall call{.x = terms_, .w = w_, .options = layer_of_y<E>(shape_, task.rows)};
    rapt_linear_options &o = call.options;
    o.x_strides = {1, pitch};
    o.bias = bias(0);
    std::ptrdiff_t step;
    const bool is_in_place = patches_.results_are_even(step) && pass.to.channel == 1;
    call.y = is_in_place ? to_ + patches_.segment(0).to : results_;
    o.y_stride = is_in_place ? step : static_cast<std::ptrdiff_t>(o.out_features);
    const LinearTasks tasks(o);
    const std::size_t first = task.first_output / tasks.outputs_per_task(),
                      count = (task.outputs - 1) / tasks.outputs_per_task() + 1;
    linear_kernel(o)(&call, first, first + count, layer_workspace_);
    if (!is_in_place)
      store(task, results_ + task.first_output, o.out_features, to_ + at(task.first_output, pass.to.channel));
  }

  void run_dense(const ConvolutionTask &task) {
    const ConvolutionPass &pass = *pass_;
    const std::size_t terms = pass.terms();
    LinearCall call;
    call.options = layer_of<E>(task.rows, terms, task.outputs);
    rapt_linear_options &o = call.options;
    const E *const x = from_ + at(task.group * pass.channels, pass.from.channel);
    std::ptrdiff_t step;
    if (patches_.operands_are_even(step)) {
      call.x = x + patches_.met(0, 0).from;
      o.x_strides = {step, pass.from.channel};
      o.x_type = o.w_type;
    } else {
      if (!has_patches_) copy_patches(patches_, x, pass.channels, narrow_, terms_);
      has_patches_ = true;
      call.x = terms_;
      o.x_strides = {1, pitch};
    }
    use_weights(task, call);
    o.bias = pass.phases > 1 ? bias_of_phases(task) : bias(channel_of(task, 0));
    const std::ptrdiff_t channel = pass.to.channel;
    E *const to = pass.phases > 1 ? to_ : to_ + at(channel_of(task, 0), channel);
    const bool is_in_place =
        pass.phases == 1 && patches_.results_are_even(step) && (channel == 1 || task.outputs == 1);
    call.y = is_in_place ? to + patches_.segment(0).to : results_;
    o.y_stride = is_in_place ? step : static_cast<std::ptrdiff_t>(task.outputs);
    run_layer<E>(call, layer_workspace_);
    for (std::size_t s = 0; patches_.has_padding() && s < patches_.segments(); ++s)
      correct(task, s, static_cast<E *>(call.y) + at(patches_.segment(s).row, o.y_stride), o.y_stride, 1);
    if (is_in_place) return;
    pass.phases > 1 ? store_phases(task) : store(task, results_, task.outputs, to);
  }

  // ---- as a linear layer whose rows are channels, and whose outputs are positions

  void run_in_lanes(const ConvolutionTask &task) {
    if (way_ == ConvolutionWay::planes_in_lanes) return run_over_planes(task);
    const ConvolutionPass &pass = *pass_;
    const E *const x = from_ + at(task.group * pass.channels, pass.from.channel);
    LinearCall call;
    call.options = layer_of<E>(task.outputs, pass.terms(), task.rows);
    rapt_linear_options &o = call.options;
    std::ptrdiff_t step;
    const bool is_even = patches_.operands_are_even(step) && (step == 1 || pass.from.channel == 1);
    if (is_even) {
      call.w = x + patches_.met(0, 0).from;
      o.w_strides = {step, pass.from.channel};
    } else {
      if (!has_patches_) copy_patches(patches_, x, pass.channels, narrow_, terms_);
      has_patches_ = true;
      call.w = terms_;
      o.w_type = o.x_type, o.packed_w = 1;
    }
    const bool is_in_place = patches_.results_are_even(step) && (step == 1 || task.rows == 1);
    E *const to = to_ + at(channel_of(task, 0), pass.to.channel);
    call.y = is_in_place ? to + patches_.segment(0).to : results_;
    o.y_stride = is_in_place ? pass.to.channel : static_cast<std::ptrdiff_t>(task.rows);
    is_even ? run_rows_of_weights<E>(task, call) : run_rows_of_weights<A>(task, call);
    finish_lanes(task, call, is_in_place, 0, patches_.segments(),
                 [](const Segment &segment) { return segment.row; });
  }

  // Segments of one element in the outermost dimension are one layer, with the results between lines that mean nothing.
  void run_over_planes(const ConvolutionTask &task) {
    const ConvolutionPass &pass = *pass_;
    const Planes planes(pass, *planes_);
    const E *const x = from_ + at(task.group * pass.channels, pass.from.channel);
    const std::size_t all = patches_.segments(), width = pass.out[2], height = pass.out[1];
    for (std::size_t s = 0, end; s < all; s = end) {
      const std::size_t row = task.first_row + patches_.segment(s).row, image = row / width / height,
                        line = row / width % height;
      for (end = s + 1; end < all && !planes_->has_parts_of_lines; ++end) {
        if ((task.first_row + patches_.segment(end).row) / width / height != image) break;
      }
      const Segment &last = patches_.segment(end - 1);
      const std::size_t lines = (task.first_row + last.row) / width % height - line + 1, inner = row % width,
                        first = planes_->has_parts_of_lines ? inner : 0;
      // The lane of a segment's first position.
      const auto lane = [&](const Segment &segment) {
        const std::size_t of = task.first_row + segment.row;
        return (of / width % height - line) * planes_->pitch + of % width - inner;
      };
      if (!has_patches_) {
        const E *const of_image = x + at(image / pass.out[0], pass.from.batch);
        const std::size_t outer = image % pass.out[0];
        if constexpr (std::is_same_v<E, A>) {
          planes.copy(patches_, of_image, outer, line, lines, first, terms_);
        } else {
          planes.copy(patches_, of_image, outer, line, lines, first, narrow_);
          kernels().of<E>().widen(narrow_, terms_, pass.channels * planes_->channel);
        }
      }
      has_patches_ = s == 0 && end == all;
      const std::size_t lanes = lane(last) + last.count;
      LinearCall call;
      call.options = layer_of<E>(task.outputs, pass.terms(), lanes);
      rapt_linear_options &o = call.options;
      o.w_type = o.x_type;
      call.w = terms_ + (inner - first);
      call.w_offsets = offsets_;
      const bool is_in_place = pass.to.steps[2] == 1 && end - s == 1;
      E *const to = to_ + at(channel_of(task, 0), pass.to.channel);
      call.y = is_in_place ? to + patches_.segment(s).to : results_;
      o.y_stride = is_in_place ? pass.to.channel : static_cast<std::ptrdiff_t>(lanes);
      run_rows_of_weights<A>(task, call);
      finish_lanes(task, call, is_in_place, s, end, lane);
    }
  }

  // Runs the layer of a task, whose weights are of type W.
  template <class W>
  void run_rows_of_weights(const ConvolutionTask &task, LinearCall call) {
    rapt_linear_options &o = call.options;
    o.x_type = type_of<E>;
    E *const y = static_cast<E *>(call.y);
    for (std::size_t n = 0; n < task.outputs; n += o.rows) {
      o.rows = use_weights_as_rows(task, n, call);
      call.y = y + at(n, o.y_stride);
      call.row_bias = bias(channel_of(task, n));
      run_layer<W>(call, layer_workspace_);
    }
  }

  // Returns how many of a task's channels are rows from channel n on.
  std::size_t use_weights_as_rows(const ConvolutionTask &task, std::size_t n, LinearCall &call) {
    const std::size_t terms = pass_->terms();
    const auto *const w = static_cast<const E *>(w_);
    rapt_linear_options &o = call.options;
    if (shape_.packed_w && packed_group<E> == 1) {
      const std::size_t output = task.first_output + n, in_block = linear_block - output % linear_block;
      call.x = w + packed_weight_offset<E>(output, 0, terms);
      o.x_strides = {1, linear_block};
      return in_block < task.outputs - n ? in_block : task.outputs - n;
    }
    o.x_strides = {static_cast<std::ptrdiff_t>(terms), 1};
    call.x = w + pass_->w_at(task.group, task.first_output, 0);
    if (shape_.packed_w || shape_.result == RAPT_CONVOLUTION_DX) {
      if (!has_weights_) gather_rows_of_weights(task);
      has_weights_ = true;
      call.x = gathered_;
    }
    return task.outputs;
  }
  // Copies the weights of a task: [channels][terms].
  void gather_rows_of_weights(const ConvolutionTask &task) {
    const ConvolutionPass &pass = *pass_;
    const auto *const w = static_cast<const E *>(w_);
    const std::size_t terms = pass.terms();
    for (std::size_t n = 0; shape_.packed_w && n < task.outputs; ++n) {
      for (std::size_t k = 0; k < terms; ++k)
        gathered_[n * terms + k] = w[packed_weight_offset<E>(task.first_output + n, k, terms)];
    }
    if (shape_.packed_w) return;
    // The weights of a few channels that are summed are read in the order of memory.
    constexpr std::size_t few = 16;
    const std::size_t taps = pass.tap_count();
    const bool is_whole = taps == shape_.all_taps();
    for (std::size_t first = 0; first < pass.channels; first += few) {
      const std::size_t end = pass.channels - first < few ? pass.channels : first + few;
      for (std::size_t n = 0; n < task.outputs; ++n) {
        E *to = gathered_ + n * terms + first * taps;
        for (std::size_t c = first; c < end; ++c) {
          const E *const from = w + pass.w_at(task.group, task.first_output + n, c) + pass.w_first;
          if (is_whole) {
            Patches::copy_run(from, taps, to);
            to += taps;
            continue;
          }
          for (std::size_t a = 0; a < pass.taps[0]; ++a) {
            for (std::size_t b = 0; b < pass.taps[1]; ++b) {
              const E *const line = from + a * pass.w_steps[0] + b * pass.w_steps[1];
              for (std::size_t t = 0; t < pass.taps[2]; ++t) *to++ = line[t * pass.w_steps[2]];
            }
          }
        }
      }
    }
  }

  // Corrects the results of the segments [first, end), [channels][lanes], and copies them to where they belong unless
  // they are there. lane(segment) returns the first.
  template <class Lane>
  void finish_lanes(const ConvolutionTask &task, const LinearCall &call, bool is_in_place, std::size_t first,
                    std::size_t end, Lane lane) {
    const std::ptrdiff_t step = pass_->to.steps[2], channel = pass_->to.channel,
                         pitch = call.options.y_stride;
    for (std::size_t s = first; s < end; ++s) {
      const Segment &segment = patches_.segment(s);
      E *const from = static_cast<E *>(call.y) + lane(segment);
      if (patches_.has_padding()) correct(task, s, from, 1, pitch);
      if (is_in_place) continue;
      E *const y = to_ + at(channel_of(task, 0), channel) + segment.to;
      copy_matrix(from, pitch, 1, task.outputs, segment.count, y, channel, step);
    }
  }

  const A *bias_of_phases(const ConvolutionTask &task) const {
    for (std::size_t n = 0; shape_.bias && n < task.outputs; ++n) bias_[n] = *bias(channel_of(task, n));
    return shape_.bias ? bias_ : nullptr;
  }

  void use_weights(const ConvolutionTask &task, LinearCall &call) {
    rapt_linear_options &o = call.options;
    const auto *const w = static_cast<const E *>(w_);
    o.w_strides = {static_cast<std::ptrdiff_t>(o.in_features), 1};
    if (shape_.packed_w) {
      o.packed_w = 1;
      call.w = w + packed_weight_offset<E>(task.first_output, 0, o.in_features);
    } else if (!gathers_weights_) {
      call.w = w + pass_->w_at(task.group, task.first_output, 0);
    } else {
      if (!has_weights_) gather_weights(task);
      has_weights_ = true;
      o.packed_w = 1;
      call.w = gathered_;
    }
  }
  // Copies the weights of a task in the layout of packed weights. Else each task would transpose those of y again.
  void gather_weights(const ConvolutionTask &task) {
    const ConvolutionPass &pass = *pass_;
    if (shape_.result == RAPT_CONVOLUTION_Y) {
      const auto *const w = static_cast<const E *>(w_) + pass.w_at(task.group, task.first_output, 0);
      pack_weights(w, static_cast<std::ptrdiff_t>(pass.terms()), 1, 0, task.outputs, pass.terms(), gathered_);
      return;
    }
    constexpr std::size_t group = packed_group<E>;
    const std::size_t terms = pass.terms();
    for (std::size_t n = 0; pass.phases > 1 && n < task.outputs; ++n) {
      w_at_[n] = pass.w_at(task.group, task.first_output + n, 0);
      to_at_[n] = pass.to_at(task.group * pass.outputs + task.first_output + n);
    }
    for (std::size_t first = 0; first < task.outputs; first += linear_block) {
      const std::size_t left = task.outputs - first, outputs = left < linear_block ? left : linear_block;
      E *const block = gathered_ + packed_weight_offset<E>(first, 0, terms);
      if (outputs < linear_block || terms % group != 0)
        std::memset(static_cast<void *>(block), 0, packed_block_length<E>(terms) * sizeof(E));
      for (std::size_t c = 0, k = 0; c < pass.channels; ++c) {
        const bool joined = pass.phases > 1;
        const E *const w =
            static_cast<const E *>(w_) +
            (joined ? c * pass.w_channel : pass.w_at(task.group, task.first_output + first, c));
        for (std::size_t t = 0; t < pass.tap_count(); ++t, ++k) {
          const E *const from = w + pass.w_of_tap(t);
          E *const to = block + packed_weight_offset<E>(0, k, terms);
          for (std::size_t n = 0; joined && n < outputs; ++n) to[n * group] = from[w_at_[first + n]];
          for (std::size_t n = 0; !joined && n < outputs; ++n) to[n * group] = from[n * pass.w_output];
        }
      }
    }
  }

  // Copies results to where they belong. Channels may be far apart.
  void store(const ConvolutionTask &task, const E *results, std::size_t pitch_of_results, E *to) const {
    for (std::size_t s = 0; s < patches_.segments(); ++s) {
      const Segment &segment = patches_.segment(s);
      copy_matrix(results + segment.row * pitch_of_results, static_cast<std::ptrdiff_t>(pitch_of_results), 1,
                  segment.count, task.outputs, to + segment.to, pass_->to.steps[2], pass_->to.channel);
    }
  }

  void store_phases(const ConvolutionTask &task) const {
    for (std::size_t s = 0; s < patches_.segments(); ++s) {
      const Segment &segment = patches_.segment(s);
      const E *from = results_ + segment.row * task.outputs;
      E *y = to_ + segment.to;
      for (std::size_t r = 0; r < segment.count; ++r, from += task.outputs, y += pass_->to.steps[2]) {
        for (std::size_t n = 0; n < task.outputs; ++n) y[to_at_[n]] = from[n];
      }
    }
  }

  // Computes results of a segment again that padding and a weight that is not finite have made NaN. The first is at y.
  void correct(const ConvolutionTask &task, std::size_t s, E *y, std::ptrdiff_t row, std::ptrdiff_t output) {
    const Segment &segment = patches_.segment(s);
    // These rows meet an element through every tap.
    std::size_t first = segment.row, end = segment.row + segment.count;
    for (std::size_t t = 0; t < pass_->tap_count(); ++t) {
      const MetRows &met = patches_.met(s, t);
      if (met.row > first) first = met.row;
      if (met.row + met.count < end) end = met.row + met.count;
    }
    for (std::size_t r = segment.row; r < segment.row + segment.count; ++r, y += row) {
      if (r >= first && r < end) continue;
      for (std::size_t n = 0; n < task.outputs; ++n) {
        E &result = y[at(n, output)];
        if (!is_nan(result)) continue;
        if (!may_meet_infinity()) return;
        A t = exact(task, r, n);
        if (shape_.bias) t = t + *bias(channel_of(task, n));
        result = narrowed<E>(t);
      }
    }
  }
  bool may_meet_infinity() {
    if (weights_are_finite_ == Finite::unknown) {
      const std::size_t count = shape_.groups * shape_.out_channels * shape_.in_channels * shape_.all_taps();
      const std::size_t padded =
          shape_.packed_w
              ? packed_weight_offset<E>(
                    (shape_.out_channels + linear_block - 1) / linear_block * linear_block, 0, pass_->terms())
              : count;
      weights_are_finite_ = are_finite(static_cast<const E *>(w_), padded) ? Finite::yes : Finite::no;
    }
    return weights_are_finite_ == Finite::no;
  }
  A exact(const ConvolutionTask &task, std::size_t row, std::size_t n) const {
    const ConvolutionPass &pass = *pass_;
    const std::size_t s = patches_.segment_of(row);
    const auto *const w = static_cast<const E *>(w_);
    SumInOrder<A> sum;
    for (std::size_t c = 0; c < pass.channels; ++c) {
      const E *const x = from_ + at(task.group * pass.channels + c, pass.from.channel);
      for (std::size_t t = 0; t < pass.tap_count(); ++t) {
        const MetRows &met = patches_.met(s, t);
        if (!met.has(row)) {
          sum.skip();
          continue;
        }
        const std::size_t output = task.first_output + n;
        const std::size_t weight =
            shape_.packed_w ? packed_weight_offset<E>(output, c * pass.tap_count() + t, pass.terms())
                            : pass.w_at(task.group, output, c) + pass.w_of_tap(t);
        sum.add(widened(x[met.from + at(row - met.row, patches_.step())]), widened(w[weight]));
        if (sum.is_nan()) return sum.value();
      }
    }
    return sum.value();
  }

  // ---- without products

  void fill(const ConvolutionTask &task) const {
    for (std::size_t n = 0; n < task.outputs; ++n) {
      A t = 0;
      if (shape_.bias) t = t + *bias(channel_of(task, n));
      for (std::size_t s = 0; s < patches_.segments(); ++s) {
        E *y =
            to_ + pass_->to_at(task.group * pass_->outputs + task.first_output + n) + patches_.segment(s).to;
        for (std::size_t r = 0; r < patches_.segment(s).count; ++r, y += pass_->to.steps[2])
          *y = narrowed<E>(t);
      }
    }
  }

  // ---- depthwise

  void run_depthwise(const ConvolutionTask &task) {
    const bool channels_are_lanes = pass_->outputs == 1 && pass_->from.channel == 1 && pass_->to.channel == 1;
    widen_weights(task, channels_are_lanes);
    channels_are_lanes ? run_over_channels(task) : run_over_positions(task);
  }
  // Widens the weights: [taps][channels] or [channels][taps].
  void widen_weights(const ConvolutionTask &task, bool by_tap) {
    if (has_weights_) return;
    has_weights_ = true;
    const std::size_t taps = pass_->tap_count();
    for (std::size_t t = 0; t < taps; ++t) {
      const std::size_t of_tap = pass_->w_of_tap(t);
      for (std::size_t n = 0; n < task.outputs; ++n) {
        const std::size_t output = task.first_output + n;
        const E w = static_cast<const E *>(
            w_)[pass_->w_at(output / pass_->outputs, output % pass_->outputs, 0) + of_tap];
        weights_[by_tap ? t * task.outputs + n : n * taps + t] = widened(w);
      }
    }
  }

  void run_over_channels(const ConvolutionTask &task) const {
    TapSums sums{taps_, 0, task.outputs, false, bias(task.first_output), nullptr};
    const std::size_t taps = pass_->tap_count();
    for (std::size_t s = 0; s < patches_.segments(); ++s) {
      const Segment &segment = patches_.segment(s);
      for (std::size_t r = segment.row; r < segment.row + segment.count; ++r) {
        sums.tap_count = 0;
        for (std::size_t t = 0; t < taps; ++t) {
          const MetRows &met = patches_.met(s, t);
          if (!met.has(r)) continue;
          taps_[sums.tap_count++] = {from_ + task.first_output + met.from + at(r - met.row, patches_.step()),
                                     weights_ + t * task.outputs, t};
        }
        sums.y = to_ + task.first_output + segment.to + at(r - segment.row, pass_->to.steps[2]);
        kernels().of<E>().convolution(&sums);
      }
    }
  }

  void run_over_positions(const ConvolutionTask &task) const {
    const std::size_t taps = pass_->tap_count();
    // Zeros times finite weights change no sum, so that all rows are computed at once. Else taps are left out.
    const bool are_padded = are_finite(weights_, task.outputs * taps);
    if (are_padded && patches_.has_padding())
      std::memset(static_cast<void *>(narrow_), 0, taps * pitch * sizeof(E));
    for (std::size_t n = 0; n < task.outputs; ++n) {
      const std::size_t output = task.first_output + n;
      const E *const x = from_ + at(output / pass_->outputs, pass_->from.channel);
      E *const y = to_ + at(output, pass_->to.channel);
      const A *const w = weights_ + n * taps;
      if (patches_.step() != 1 || are_padded) patches_.copy_channel(x, narrow_, pitch);
      if (are_padded) {
        run_block(w, bias(output), y);
        continue;
      }
      for (std::size_t s = 0; s < patches_.segments(); ++s) {
        const Segment &segment = patches_.segment(s);
        for (std::size_t r = segment.row, end; r < segment.row + segment.count; r = end) {
          end = run_positions(s, r, x, w, bias(output),
                              y + segment.to + at(r - segment.row, pass_->to.steps[2]));
        }
      }
    }
  }
  // Computes all rows of a channel, whose patches have been copied.
  void run_block(const A *w, const A *bias, E *y) const {
    const std::size_t taps = pass_->tap_count();
    for (std::size_t t = 0; t < taps; ++t) taps_[t] = {narrow_ + t * pitch, w + t, t};
    std::ptrdiff_t step;
    const bool is_in_place = patches_.results_are_even(step) && step == 1;
    E *const to = is_in_place ? y + patches_.segment(0).to : results_;
    const TapSums sums{taps_, taps, patches_.rows(), true, bias, to};
    kernels().of<E>().convolution(&sums);
    for (std::size_t s = 0; !is_in_place && s < patches_.segments(); ++s) {
      const Segment &segment = patches_.segment(s);
      for (std::size_t i = 0; i < segment.count; ++i)
        y[segment.to + at(i, pass_->to.steps[2])] = results_[segment.row + i];
    }
  }
  // Computes rows from r on that meet the same taps. Returns the row behind them.
  std::size_t run_positions(std::size_t s, std::size_t r, const E *x, const A *w, const A *bias, E *y) const {
    const Segment &segment = patches_.segment(s);
    const std::size_t taps = pass_->tap_count();
    std::size_t end = segment.row + segment.count;
    TapSums sums{taps_, 0, 0, true, bias, y};
    for (std::size_t t = 0; t < taps; ++t) {
      const MetRows &met = patches_.met(s, t);
      const std::size_t met_end = met.row + met.count;
      if (met.row > r && met.row < end && met.count > 0) end = met.row;
      if (met_end > r && met_end < end) end = met_end;
      if (!met.has(r)) continue;
      const E *const from = patches_.step() == 1 ? x + met.from + (r - met.row) : narrow_ + t * pitch + r;
      taps_[sums.tap_count++] = {from, w + t, t};
    }
    sums.n = end - r;
    const bool is_in_place = pass_->to.steps[2] == 1 || sums.n == 1;
    if (!is_in_place) sums.y = results_;
    kernels().of<E>().convolution(&sums);
    for (std::size_t i = 0; !is_in_place && i < sums.n; ++i) y[at(i, pass_->to.steps[2])] = results_[i];
    return end;
  }

  enum class Finite { unknown, yes, no };

  const ConvolutionShape &shape_;
  Carved carved_;
  Patches patches_;
  E *results_ = nullptr, *narrow_ = nullptr, *gathered_ = nullptr;
  // Of outputs that are phases: their weights, places and bias.
  std::size_t *w_at_ = nullptr;
  std::ptrdiff_t *to_at_ = nullptr;
  A *bias_ = nullptr;
  A *terms_ = nullptr, *weights_ = nullptr, *layer_workspace_ = nullptr;
  Tap *taps_ = nullptr;
  std::ptrdiff_t *offsets_ = nullptr;
  ConvolutionWay way_ = ConvolutionWay::rows;
  const PlaneShape *planes_ = nullptr;
  const ConvolutionPass *pass_ = nullptr;
  const E *from_ = nullptr;
  const void *w_ = nullptr;
  E *to_ = nullptr;
  bool has_patches_ = false, has_weights_ = false, gathers_weights_ = false;
  Finite weights_are_finite_ = Finite::unknown;
};

// ---- dw

// Rows of the layer are output channels, its inputs are 512 positions, and its outputs are terms of w. Each layer adds
// its sums to those of the positions before, as a linear layer of all positions does.
template <class E>
class WeightGradientRunner {
 public:
  using A = Arithmetic<E>;
  static constexpr std::size_t chunk = linear_sum_group;
  static constexpr bool is_narrow = !std::is_same_v<E, A>;

  WeightGradientRunner(const ConvolutionShape &shape, void *memory)
      : shape_(shape), pass_(ConvolutionPass::of_y(shape)), tasks_(shape), carved_(memory) {
    const std::size_t taps = shape.all_taps(), terms = tasks_.channels * taps,
                      outputs =
                          shape.out_channels < tasks_.most_outputs ? shape.out_channels : tasks_.most_outputs;
    // Of dy, a position meets the one element that is its own.
    of_dy_ = pass_;
    of_dy_.from = shape.y;
    for (std::size_t d = 0; d < convolved; ++d) {
      of_dy_.in[d] = shape.out[d];
      of_dy_.taps[d] = 1, of_dy_.stride[d] = 1, of_dy_.offset[d] = 0, of_dy_.dilation[d] = 1;
    }
    for (Patches *const patches : {&x_patches_, &dy_patches_}) {
      auto *const segments = carved_.take<Segment>(chunk);
      patches->use(segments, carved_.take<MetRows>(chunk * (patches == &x_patches_ ? taps : 1)));
    }
    terms_ = carved_.take<A>(chunk * terms);
    dy_ = carved_.take<A>(chunk * outputs);
    if (is_narrow) {
      narrow_ = carved_.take<E>(chunk * (terms > outputs ? terms : outputs));
      sums_ = carved_.take<A>(outputs * terms);
    }
    layer_workspace_ = carved_.take<A>(LinearWorkspace(layer_of<A>(outputs, chunk, terms)).length());
  }
  std::size_t bytes() const { return carved_.bytes(); }

  void run(const E *x, const E *dy, E *dw, std::size_t first, std::size_t last) {
    has_terms_ = false;
    for (std::size_t task = first; task < last; ++task) run_task(x, dy, dw, task);
  }

 private:
  static std::ptrdiff_t at(std::size_t i, std::ptrdiff_t step) {
    return static_cast<std::ptrdiff_t>(i) * step;
  }

  void run_task(const E *x, const E *dy, E *dw, std::size_t task) {
    const std::size_t group = task / tasks_.blocks_of_group(), of_group = task % tasks_.blocks_of_group();
    const bool by_outputs = tasks_.outputs_follow();
    const std::size_t first_output =
                          (by_outputs ? of_group % tasks_.output_blocks : of_group / tasks_.channel_blocks) *
                          tasks_.most_outputs,
                      first_channel =
                          (by_outputs ? of_group / tasks_.output_blocks : of_group % tasks_.channel_blocks) *
                          tasks_.channels,
                      block = group * shape_.in_channels + first_channel;
    const auto least = [](std::size_t a, std::size_t b) { return a < b ? a : b; };
    const std::size_t channels = least(shape_.in_channels - first_channel, tasks_.channels),
                      outputs = least(shape_.out_channels - first_output, tasks_.most_outputs),
                      taps = shape_.all_taps(), terms = channels * taps,
                      row = shape_.in_channels * taps;  // of w
    x += at(group * shape_.in_channels + first_channel, shape_.x.channel);
    dy += at(group * shape_.out_channels + first_output, shape_.y.channel);
    dw += (group * shape_.out_channels + first_output) * row + first_channel * taps;
    A *sums = sums_;
    std::size_t stride = terms;
    if constexpr (!is_narrow) sums = dw, stride = row;
    // The tasks of a block of channels follow each other.
    has_terms_ = has_terms_ && block == block_;
    block_ = block;
    bool has_padding = false;
    const std::size_t positions = pass_.rows();
    for (std::size_t p = 0; p < positions; p += chunk) {
      const std::size_t count = least(positions - p, chunk);
      if (!has_terms_) x_patches_.find(pass_, p, count, chunk);
      dy_patches_.find(of_dy_, p, count, chunk);
      has_padding = has_padding || x_patches_.has_padding();
      LinearCall call{.y = sums, .options = layer_of<A>(outputs, count, terms)};
      rapt_linear_options &o = call.options;
      const bool is_in_place = use_x(x, channels, call);
      has_terms_ = positions <= chunk;
      use_dy(dy, outputs, call);
      o.y_stride = o.add_stride = static_cast<std::ptrdiff_t>(stride);
      if (p > 0) o.add = sums;
      is_in_place ? run_layer<E>(call, layer_workspace_) : run_layer<A>(call, layer_workspace_);
    }
    if (positions == 0) {
      for (std::size_t n = 0; n < outputs; ++n) {
        for (std::size_t k = 0; k < terms; ++k) sums[n * stride + k] = 0;
      }
    }
    for (std::size_t n = 0; has_padding && n < outputs; ++n) {
      A *const of_output = sums + n * stride;
      if (!has_nan(of_output, terms)) continue;
      for (std::size_t k = 0; k < terms; ++k) {
        if (!is_nan(of_output[k])) continue;
        of_output[k] = exact(x + at(k / taps, shape_.x.channel), dy + at(n, shape_.y.channel), k % taps);
      }
    }
    if constexpr (is_narrow) {
      for (std::size_t n = 0; n < outputs; ++n)
        kernels().of<E>().narrow(sums + n * stride, dw + n * row, terms);
    }
  }

  // Channels side by side, which meet the same positions, are weights of the layer where they are. Returns whether x
  // has them.
  bool use_x(const E *x, std::size_t channels, LinearCall &call) {
    rapt_linear_options &o = call.options;
    std::ptrdiff_t step;
    if (x_patches_.operands_are_even(step) && (step == 1 || shape_.x.channel == 1)) {
      call.w = x + x_patches_.met(0, 0).from;
      o.w_type = type_of<E>, o.w_strides = {shape_.x.channel, step};
      return true;
    }
    call.w = terms_;
    o.w_strides = {chunk, 1};
    if (!has_terms_) copy_patches(x_patches_, x, channels, narrow_, terms_);
    return false;
  }
  void use_dy(const E *dy, std::size_t outputs, LinearCall &call) {
    rapt_linear_options &o = call.options;
    std::ptrdiff_t step;
    if (dy_patches_.operands_are_even(step) && (step == 1 || shape_.y.channel == 1)) {
      call.x = dy + dy_patches_.met(0, 0).from;
      o.x_type = type_of<E>, o.x_strides = {shape_.y.channel, step};
      return;
    }
    copy_patches(dy_patches_, dy, outputs, narrow_, dy_);
    call.x = dy_;
    o.x_strides = {chunk, 1};
  }
  // Padding and a gradient that is not finite have made NaN.
  A exact(const E *x, const E *dy, std::size_t tap) {
    const std::size_t positions = pass_.rows();
    SumInOrder<A> sum;
    for (std::size_t p = 0; p < positions; p += chunk) {
      const std::size_t count = positions - p < chunk ? positions - p : chunk;
      x_patches_.find(pass_, p, count, chunk);
      dy_patches_.find(of_dy_, p, count, chunk);
      for (std::size_t s = 0; s < x_patches_.segments(); ++s) {
        const Segment &segment = x_patches_.segment(s);
        const MetRows &met = x_patches_.met(s, tap), &of_dy = dy_patches_.met(s, 0);
        for (std::size_t r = segment.row; r < segment.row + segment.count; ++r) {
          if (!met.has(r)) {
            sum.skip();
            continue;
          }
          const auto along = [&](const MetRows &rows, std::ptrdiff_t step) {
            return rows.from + static_cast<std::ptrdiff_t>(r - rows.row) * step;
          };
          sum.add(widened(dy[along(of_dy, dy_patches_.step())]), widened(x[along(met, x_patches_.step())]));
          if (sum.is_nan()) return sum.value();
        }
      }
    }
    return sum.value();
  }

  const ConvolutionShape &shape_;
  ConvolutionPass pass_, of_dy_{};
  WeightGradientTasks tasks_;
  Carved carved_;
  Patches x_patches_, dy_patches_;
  A *terms_ = nullptr, *dy_ = nullptr, *sums_ = nullptr, *layer_workspace_ = nullptr;
  E *narrow_ = nullptr;
  bool has_terms_ = false;
  std::size_t block_ = 0;
};

}  // namespace
}  // namespace rapt
