// Divides the passes of a convolution into tasks, and chooses how they are computed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/convolution_call.hpp"
#include "contract/linear.hpp"

namespace rapt {

// Says how planes lie, which hold the elements that the taps of neighbouring positions meet. A channel has a plane for
// each tap of the outermost dimension and each remainder by the strides of the others. Element i of a line is the one
// that position i meets through a tap of that remainder. Lines have one distance, so that positions of one line and of
// the next lie side by side for every tap. Results between them mean nothing.
struct PlaneShape {
  explicit PlaneShape(const ConvolutionPass &pass) : most_positions(positions_of(pass)) {
    if (pass.tap_count() == 0 || pass.rows() == 0) return;
    for (std::size_t d = 1; d < convolved; ++d) {
      const std::ptrdiff_t span = static_cast<std::ptrdiff_t>(pass.taps[d] - 1) * pass.dilation[d];
      least[d] = span < 0 ? span : 0;
      const auto reach = static_cast<std::size_t>(span < 0 ? -span : span),
                 stride = static_cast<std::size_t>(pass.stride[d]);
      shift[d] = reach / stride;
      phases[d] = reach < stride ? reach + 1 : stride;
    }
    has_parts_of_lines = pass.out[2] > most_positions;
    const std::size_t in_line = has_parts_of_lines ? most_positions : pass.out[2];
    pitch = in_line + shift[2];
    if (!has_parts_of_lines) {
      lines = (most_positions - 1) / pass.out[2] + 2;
      if (lines > pass.out[1]) lines = pass.out[1];
    }
    fits = pass.tap_count() > 1 && pitch * 7 <= in_line * 8;
    std::size_t elements = pass.taps[0];
    for (const std::size_t by : {phases[1], phases[2], lines + shift[1], pitch}) {
      fits = fits && !__builtin_mul_overflow(elements, by, &elements) &&
             elements <= most_positions * pass.tap_count();
    }
    if (!fits) return;
    plane = (lines + shift[1]) * pitch;
    // Channels begin in different sets of the caches.
    constexpr std::size_t unit = 16;
    channel = ((elements + unit - 1) / unit | 1) * unit;
  }

  // Few outputs take less time than the copies of lines that tasks have in common: with 3, dx of 7 x 7 taps by 2 took
  // 1.3 of the time with 256.
  static std::size_t positions_of(const ConvolutionPass &pass) { return pass.outputs < 16 ? 1024 : 256; }
  std::size_t lanes() const { return lines * pitch; }
  // Whether many taps meet an element of a plane.
  bool share(const ConvolutionPass &pass) const {
    const std::size_t all = phases[1] * phases[2];
    return pass.tap_count() > 2 && (all == 1 || pass.tap_count() >= 8 * all);
  }
  std::size_t at(std::size_t tap, std::size_t middle, std::size_t inner) const {
    return ((tap * phases[1] + middle) * phases[2] + inner) * plane;
  }

  std::size_t most_positions;            // of a task
  std::ptrdiff_t least[convolved] = {};  // of a tap's distance from a position's first element
  std::size_t shift[convolved] = {}, phases[convolved] = {1, 1, 1};
  bool has_parts_of_lines = false;
  std::size_t pitch = 0, lines = 1, plane = 0, channel = 0;
  // Whether few results mean nothing, and copies take less than those of patches.
  bool fits = false;
};

// How the layer of a pass lies: its rows are positions, or these are its outputs, of which vectors have one in each
// lane. f32 on AVX2, time of patches and planes in lanes, where rows take 1:
//
//   layer                 | channels first       | channels last
//   64 3x3 64             | .89, .95             | .90, .92
//   128 3x3 by 2 128      | .93, 1.15            | .94, 1.16
//   3 7x7 by 2 64         | .88, .92             | 1.07, .87
//   3 16x16 by 16 768     | .95, 1.18            |
//   32 3x3x3 32           | .86, .70             | .81, .67
//   dx of 3 7x7 by 2 64   | .46, .24             | .73, .22
//
// Planes take less memory than patches. Below 128 rows, the weights that become rows are copied for too few: 49 rows of
// 512 channels took 1.05 to 1.27 as patches. Results that lie far apart must be copied from lanes.
enum class ConvolutionWay { rows, patches_in_lanes, planes_in_lanes };

inline ConvolutionWay way_of(const ConvolutionPass &pass) {
  if (pass.is_depthwise() || pass.phases > 1 || pass.has_quantized_weights) return ConvolutionWay::rows;
  const PlaneShape planes(pass);
  const bool has_few_outputs = pass.outputs < 48 && pass.rows() >= 2 * pass.outputs,
             has_many_rows = pass.rows() >= 128;
  if (planes.fits && (has_few_outputs || (has_many_rows && planes.share(pass))))
    return ConvolutionWay::planes_in_lanes;
  const bool in_lanes = has_few_outputs || (has_many_rows && pass.to.channel != 1 && pass.to.steps[2] == 1);
  return in_lanes ? ConvolutionWay::patches_in_lanes : ConvolutionWay::rows;
}

// A task is some rows, which are elements of the result in row-major order, with some outputs of a group. Tasks follow
// each other by rows, and share weights that are put in order for all of them. Where weights are packed, or y has few
// rows, they follow each other by outputs, and share patches.
struct ConvolutionTask {
  std::size_t group, first_row, rows, first_output, outputs;
};

class ConvolutionTasks {
 public:
  static constexpr std::size_t most_rows = 96, row_unit = 12;
  static constexpr std::size_t most_rows_in_lanes = 256, outputs_of_lanes = 96;
  // Depthwise, all groups count as one, whose outputs are the channels of all.
  static constexpr std::size_t outputs_of_y = 256, outputs_of_dx = 128;

  ConvolutionTasks(const ConvolutionShape &s, const ConvolutionPass &pass)
      : groups_(pass.is_depthwise() ? 1 : pass.groups),
        rows_(pass.rows()),
        outputs_(pass.is_depthwise() ? pass.groups * pass.outputs : pass.outputs),
        is_y_(s.result == RAPT_CONVOLUTION_Y),
        packed_w_(s.packed_w),
        has_rows_in_lanes_(way_of(pass) != ConvolutionWay::rows),
        most_outputs_(most_outputs(is_y_, has_rows_in_lanes_)) {
    const std::size_t most = has_rows_in_lanes_ ? most_rows_in_lanes : most_rows,
                      unit = has_rows_in_lanes_ ? linear_block : row_unit,
                      blocks = rows_ == 0 ? 1 : (rows_ - 1) / most + 1, even = (rows_ + blocks - 1) / blocks;
    rows_per_task_ = even == 0 ? unit : (even + unit - 1) / unit * unit;
    if (way_of(pass) == ConvolutionWay::planes_in_lanes) rows_per_task_ = rows_of_planes(pass);
  }
  // Whole lines, or even parts of one.
  static std::size_t rows_of_planes(const ConvolutionPass &pass) {
    const auto part_of = [](std::size_t n, std::size_t most) {
      const std::size_t parts = (n + most - 1) / most;
      return (n + parts - 1) / parts;
    };
    const std::size_t line = pass.out[2], most = PlaneShape::positions_of(pass);
    if (line >= most) return part_of(line, most);
    return part_of(pass.out[1], most / line) * line;
  }
  static constexpr std::size_t most_outputs(bool is_y, bool has_rows_in_lanes) {
    return !is_y ? outputs_of_dx : has_rows_in_lanes ? outputs_of_lanes : outputs_of_y;
  }
  std::size_t count() const { return groups_ * row_blocks() * output_blocks(); }
  ConvolutionTask operator[](std::size_t task) const {
    const bool by_rows = shares_weights();
    const std::size_t inner = by_rows ? row_blocks() : output_blocks(),
                      outer = by_rows ? output_blocks() : row_blocks();
    const std::size_t of_inner = task % inner, of_outer = task / inner % outer;
    const std::size_t row = (by_rows ? of_inner : of_outer) * rows_per_task_,
                      output = (by_rows ? of_outer : of_inner) * most_outputs_;
    return {task / inner / outer, row, rows_ - row < rows_per_task_ ? rows_ - row : rows_per_task_, output,
            outputs_ - output < most_outputs_ ? outputs_ - output : most_outputs_};
  }
  // Whether tasks share weights that were put in order before. With up to 3 blocks of rows and several of outputs, that
  // took 1.1 times as long for y.
  bool shares_weights() const {
    return !is_y_ || (!has_rows_in_lanes_ && !packed_w_ && row_blocks() > (output_blocks() == 1 ? 1 : 3));
  }

 private:
  std::size_t row_blocks() const { return rows_ == 0 ? 0 : (rows_ - 1) / rows_per_task_ + 1; }
  std::size_t output_blocks() const { return outputs_ == 0 ? 0 : (outputs_ - 1) / most_outputs_ + 1; }

  std::size_t groups_, rows_, outputs_;
  bool is_y_, packed_w_, has_rows_in_lanes_;
  std::size_t most_outputs_, rows_per_task_;
};

// Tasks of dw: some output channels of a group, with the taps of some channels.
struct WeightGradientTasks {
  static constexpr std::size_t most_outputs = 96, most_terms = 256;

  explicit WeightGradientTasks(const ConvolutionShape &s)
      : groups(s.groups),
        output_blocks(s.out_channels == 0 ? 0 : (s.out_channels - 1) / most_outputs + 1),
        channels(s.all_taps() >= most_terms ? 1 : most_terms / s.all_taps()) {
    if (channels > s.in_channels) channels = s.in_channels;
    channel_blocks = (s.in_channels - 1) / channels + 1;
  }
  std::size_t count() const { return groups * blocks_of_group(); }
  std::size_t blocks_of_group() const { return output_blocks * channel_blocks; }
  // Whether tasks follow each other by outputs, and may share what is copied of x. Else they go along a row of dw,
  // which is faster where both have many blocks.
  bool outputs_follow() const { return channel_blocks < output_blocks; }

  std::size_t groups, output_blocks, channels, channel_blocks;
};

// Tasks of dw of a depthwise convolution: some groups, with one of their output channels each.
struct DepthwiseGradientTasks {
  static constexpr std::size_t lanes = 32;

  explicit DepthwiseGradientTasks(const ConvolutionShape &s)
      : reads_in_place(s.x.channel == 1 && s.y.channel == 1 && s.out_channels == 1) {
    is_depthwise = s.groups > 1 && s.in_channels == 1;
    blocks = (s.groups - 1) / lanes + 1;
    outputs = s.out_channels;
    std::size_t elements = s.in[2];
    for (std::size_t d = 0; d < 2; ++d) {
      held[d] = (s.taps[d] - 1) * s.dilation[d] + 1;
      if (held[d] > s.in[d]) held[d] = s.in[d] > 0 ? s.in[d] : 1;
      if (__builtin_mul_overflow(elements, held[d], &elements)) elements = SIZE_MAX;
    }
    fits = is_depthwise && (reads_in_place || elements <= most_elements);
  }
  std::size_t count() const { return blocks * outputs; }
  std::size_t lines() const { return held[0] * held[1]; }

  // Elements of a channel whose lines are copied.
  static constexpr std::size_t most_elements = 1 << 14;
  bool is_depthwise, reads_in_place, fits;
  std::size_t blocks, outputs, held[2];
};

}  // namespace rapt
