// Describes a checked convolution as passes. In a pass, element i of the result meets tap j at element
// i * stride + offset + j * dilation of the operand. y is one pass. The gradient of x is one for each remainder of its
// elements by the strides, because elements of one remainder meet the same taps. Where patches lie side by side, as in
// a transformer of images, all remainders meet the same elements: they are outputs of one pass.
#pragma once

#include <cstddef>
#include <utility>

#include "contract/linear.hpp"
#include "rapt/rapt.h"

namespace rapt {

inline constexpr std::size_t convolved = RAPT_MAX_CONVOLVED;

// Where the elements of x, y, dx or dy are. Dimensions that the call lacks come first, with one element.
struct ConvolvedTensor {
  std::ptrdiff_t batch = 0, channel = 0, steps[convolved] = {};
};

// The options with every default filled in, and all dimensions.
struct ConvolutionShape {
  rapt_type type = RAPT_F32;
  int result = RAPT_CONVOLUTION_Y;
  bool packed_w = false;
  // Of quantized weights.
  rapt_type w_type = RAPT_TYPE_DEFAULT;
  int arithmetic = RAPT_ARITHMETIC_DEFAULT;
  std::size_t scale_group = 0, x_group = 0;
  const void *bias = nullptr;
  std::size_t batch = 0, groups = 1, in_channels = 0, out_channels = 0;  // channels of a group
  std::size_t in[convolved], taps[convolved], stride[convolved], dilation[convolved], pad[convolved],
      out[convolved];
  ConvolvedTensor x, y;

  bool has_quantized_weights() const { return w_type != RAPT_TYPE_DEFAULT; }
  std::size_t all_taps() const { return taps[0] * taps[1] * taps[2]; }
  std::size_t positions() const { return batch * out[0] * out[1] * out[2]; }
};

struct ConvolutionPass {
  std::size_t batch, groups, channels,
      outputs;  // channels are summed, and belong to a group like the outputs
  std::size_t out[convolved], in[convolved], taps[convolved];
  std::ptrdiff_t stride[convolved], offset[convolved], dilation[convolved];
  ConvolvedTensor from, to;
  std::ptrdiff_t to_first = 0;
  bool has_quantized_weights = false;
  // Where the weights are: of a group, output, channel and tap.
  std::size_t w_first = 0, w_group, w_output, w_channel, w_steps[convolved];
  // The remainders of a channel that are outputs side by side, and how far each is from the one before.
  std::size_t phases = 1, phases_of[convolved] = {1, 1, 1}, w_of_phase[convolved] = {};
  std::ptrdiff_t to_of_phase[convolved] = {};

  std::size_t tap_count() const { return taps[0] * taps[1] * taps[2]; }
  std::size_t terms() const { return channels * tap_count(); }
  std::size_t rows() const { return batch * out[0] * out[1] * out[2]; }
  // Whether outputs are sums over a single channel.
  bool is_depthwise() const { return groups > 1 && channels == 1; }

  std::size_t w_of_tap(std::size_t t) const {
    const std::size_t inner = t % taps[2], middle = t / taps[2] % taps[1], outer = t / taps[2] / taps[1];
    return w_first + outer * w_steps[0] + middle * w_steps[1] + inner * w_steps[2];
  }
  std::size_t w_at(std::size_t group, std::size_t output, std::size_t channel) const {
    const std::size_t first = group * w_group + channel * w_channel;
    if (phases == 1) return first + output * w_output;
    return first + output / phases * w_output + of_phase(output, w_of_phase);
  }
  // Where an output is, of those of all groups.
  std::ptrdiff_t to_at(std::size_t output) const {
    if (phases == 1) return static_cast<std::ptrdiff_t>(output) * to.channel;
    return static_cast<std::ptrdiff_t>(output / phases) * to.channel + of_phase(output, to_of_phase);
  }

  static ConvolutionPass of_y(const ConvolutionShape &s) {
    ConvolutionPass pass;
    pass.batch = s.batch, pass.groups = s.groups, pass.channels = s.in_channels,
    pass.outputs = s.out_channels;
    pass.from = s.x, pass.to = s.y;
    pass.has_quantized_weights = s.has_quantized_weights();
    std::size_t step = 1;
    for (std::size_t d = convolved; d-- > 0; step *= s.taps[d]) {
      pass.out[d] = s.out[d], pass.in[d] = s.in[d], pass.taps[d] = s.taps[d];
      pass.stride[d] = static_cast<std::ptrdiff_t>(s.stride[d]);
      pass.offset[d] = -static_cast<std::ptrdiff_t>(s.pad[d]);
      pass.dilation[d] = static_cast<std::ptrdiff_t>(s.dilation[d]);
      pass.w_steps[d] = step;
    }
    pass.w_channel = step;
    pass.w_output = step * s.in_channels;
    pass.w_group = pass.w_output * s.out_channels;
    return pass;
  }

  // Elements of dx of the remainders r, with the taps that meet them.
  static ConvolutionPass of_dx(const ConvolutionShape &s, const std::size_t (&r)[convolved]) {
    ConvolutionPass pass = of_y(s);
    pass.channels = s.out_channels, pass.outputs = s.in_channels;
    pass.from = s.y, pass.to = s.x;
    std::swap(pass.w_channel, pass.w_output);
    for (std::size_t d = 0; d < convolved; ++d) {
      const bool joins = joins_phases(s, d);
      if (joins) {
        pass.phases_of[d] = s.stride[d], pass.phases *= s.stride[d], pass.outputs *= s.stride[d];
        pass.w_of_phase[d] = pass.w_steps[d], pass.to_of_phase[d] = s.x.steps[d];
      }
      const std::size_t every = s.stride[d] / common_divisor(s.stride[d], s.dilation[d]);
      const auto meets = [&](std::size_t j) {
        return (r[d] + s.pad[d]) % s.stride[d] == j * s.dilation[d] % s.stride[d];
      };
      std::size_t first = 0;
      while (first < s.taps[d] && first < every && !meets(first)) ++first;
      const bool has_taps = first < s.taps[d] && first < every;
      pass.taps[d] = has_taps ? (s.taps[d] - 1 - first) / every + 1 : 0;
      pass.in[d] = s.out[d];
      pass.out[d] = (s.in[d] - r[d] - 1) / s.stride[d] + 1;
      const auto stride = static_cast<std::ptrdiff_t>(s.stride[d]);
      const auto met =
          static_cast<std::ptrdiff_t>(r[d] + s.pad[d]) - static_cast<std::ptrdiff_t>(first * s.dilation[d]);
      pass.stride[d] = 1;
      pass.offset[d] = has_taps ? met / stride : 0;
      pass.dilation[d] = -static_cast<std::ptrdiff_t>(every * s.dilation[d] / s.stride[d]);
      pass.to_first += s.x.steps[d] * static_cast<std::ptrdiff_t>(r[d]);
      pass.to.steps[d] = s.x.steps[d] * stride;
      pass.w_first += first * pass.w_steps[d];
      pass.w_steps[d] *= every;
    }
    return pass;
  }

  // Whether remainders of a dimension are outputs of one pass, because all meet the same elements of y. Channels that
  // fill a block of outputs are faster by themselves, as their results lie together.
  static bool joins_phases(const ConvolutionShape &s, std::size_t d) {
    const bool is_depthwise = s.groups > 1 && s.out_channels == 1;
    return s.in_channels < linear_block && s.stride[d] > 1 && s.dilation[d] == 1 &&
           s.pad[d] % s.stride[d] == 0 && s.taps[d] % s.stride[d] == 0 && s.in[d] % s.stride[d] == 0 &&
           !is_depthwise;
  }

  static std::size_t common_divisor(std::size_t a, std::size_t b) {
    while (b != 0) {
      const std::size_t rest = a % b;
      a = b, b = rest;
    }
    return a;
  }

 private:
  template <class T>
  T of_phase(std::size_t output, const T (&steps)[convolved]) const {
    const std::size_t inner = output % phases_of[2], middle = output / phases_of[2] % phases_of[1],
                      outer = output / phases_of[2] / phases_of[1] % phases_of[0];
    return static_cast<T>(outer) * steps[0] + static_cast<T>(middle) * steps[1] +
           static_cast<T>(inner) * steps[2];
  }
};

// Calls f(pass) for each pass of y or dx, until it returns false.
template <class F>
void each_pass(const ConvolutionShape &s, F f) {
  if (s.result == RAPT_CONVOLUTION_Y) return void(f(ConvolutionPass::of_y(s)));
  const auto count = [&](std::size_t d) {
    if (ConvolutionPass::joins_phases(s, d)) return std::size_t{1};
    return s.stride[d] < s.in[d] ? s.stride[d] : s.in[d];
  };
  std::size_t r[convolved];
  for (r[0] = 0; r[0] < count(0); ++r[0]) {
    for (r[1] = 0; r[1] < count(1); ++r[1]) {
      for (r[2] = 0; r[2] < count(2); ++r[2]) {
        if (!f(ConvolutionPass::of_dx(s, r))) return;
      }
    }
  }
}

}  // namespace rapt
