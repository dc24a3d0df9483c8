// Copies what the taps of neighbouring positions meet in planes (call/convolution_tasks.hpp): an element is copied
// once, and not once a tap. Padding becomes zeros.
#pragma once

#include <cstddef>

#include "api/convolution_patches.hpp"
#include "call/convolution_call.hpp"
#include "call/convolution_tasks.hpp"

namespace rapt {
namespace {

class Planes {
 public:
  Planes(const ConvolutionPass &pass, const PlaneShape &shape) : pass_(pass), shape_(shape) {}

  // Stores where each term of a position is.
  void find_offsets(std::ptrdiff_t *offsets) const {
    const auto reach = [&](std::size_t d, std::size_t tap) {
      return static_cast<std::size_t>(static_cast<std::ptrdiff_t>(tap) * pass_.dilation[d] - shape_.least[d]);
    };
    const auto line = static_cast<std::size_t>(pass_.stride[1]),
               step = static_cast<std::size_t>(pass_.stride[2]);
    for (std::size_t c = 0; c < pass_.channels; ++c) {
      for (std::size_t a = 0; a < pass_.taps[0]; ++a) {
        for (std::size_t b = 0; b < pass_.taps[1]; ++b) {
          for (std::size_t t = 0; t < pass_.taps[2]; ++t) {
            const std::size_t middle = reach(1, b), inner = reach(2, t);
            *offsets++ =
                static_cast<std::ptrdiff_t>(c * shape_.channel + shape_.at(a, middle % line, inner % step) +
                                            middle / line * shape_.pitch + inner / step);
          }
        }
      }
    }
  }

  // Copies what the positions from `inner` on meet, of the lines [middle, middle + lines) of one element `outer`.
  template <class E>
  void copy(const Patches &patches, const E *x, std::size_t outer, std::size_t middle, std::size_t lines,
            std::size_t inner, E *to) const {
    const bool by_channels = pass_.from.channel == 1 && patches.step() != 1;
    const std::size_t copies = by_channels ? 1 : pass_.channels, channels = by_channels ? pass_.channels : 1;
    for (std::size_t c = 0; c < copies; ++c, x += pass_.from.channel, to += shape_.channel) {
      for (std::size_t a = 0; a < pass_.taps[0]; ++a) {
        const std::ptrdiff_t slice = element(0, outer) + static_cast<std::ptrdiff_t>(a) * pass_.dilation[0];
        for (std::size_t p = 0; p < shape_.phases[1]; ++p) {
          for (std::size_t i = 0; i < lines + shape_.shift[1]; ++i) {
            const std::ptrdiff_t line =
                element(1, middle + i) + shape_.least[1] + static_cast<std::ptrdiff_t>(p);
            const bool is_inside = has(0, slice) && has(1, line);
            const E *const from =
                is_inside ? x + slice * pass_.from.steps[0] + line * pass_.from.steps[1] : nullptr;
            for (std::size_t q = 0; q < shape_.phases[2]; ++q)
              copy_line(patches, from, inner, q, channels, to + shape_.at(a, p, q) + i * shape_.pitch);
          }
        }
      }
    }
  }

 private:
  std::ptrdiff_t element(std::size_t d, std::size_t position) const {
    return static_cast<std::ptrdiff_t>(position) * pass_.stride[d] + pass_.offset[d];
  }
  bool has(std::size_t d, std::ptrdiff_t element) const {
    return element >= 0 && static_cast<std::size_t>(element) < pass_.in[d];
  }

  // Copies a line of some channels, or zeros if x is null.
  template <class E>
  void copy_line(const Patches &patches, const E *x, std::size_t inner, std::size_t phase,
                 std::size_t channels, E *to) const {
    const std::ptrdiff_t stride = pass_.stride[2],
                         begin = element(2, inner) + shape_.least[2] + static_cast<std::ptrdiff_t>(phase),
                         last = static_cast<std::ptrdiff_t>(pass_.in[2]) - 1 - begin;
    std::size_t skipped = 0, end = 0;
    if (x && last >= 0) {
      skipped = begin >= 0 ? 0 : static_cast<std::size_t>((-begin + stride - 1) / stride);
      end = static_cast<std::size_t>(last / stride) + 1;
      if (end > shape_.pitch) end = shape_.pitch;
      if (skipped > end) skipped = end;
    }
    for (std::size_t c = 0; c < channels; ++c) {
      E *const line = to + c * shape_.channel;
      for (std::size_t i = 0; i < skipped; ++i) line[i] = E{};
      for (std::size_t i = end; i < shape_.pitch; ++i) line[i] = E{};
    }
    if (skipped == end) return;
    const E *const from = x + (begin + static_cast<std::ptrdiff_t>(skipped) * stride) * pass_.from.steps[2];
    if (channels == 1) return patches.copy_rows(from, end - skipped, to + skipped);
    patches.copy_channels(from, end - skipped, channels, to + skipped, shape_.channel);
  }

  const ConvolutionPass &pass_;
  const PlaneShape &shape_;
};

}  // namespace
}  // namespace rapt
