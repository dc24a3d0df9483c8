// The calls of rapt_convolution.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "calls/call.hpp"
#include "support/random.hpp"

namespace rapt::test {

// The sizes of a problem, outermost dimension first. What no call may have is made valid.
struct ConvolutionSizes {
  std::size_t in[3], taps[3], stride[3], dilation[3], before[3], after[3], out[3];
  std::size_t batch, groups, channels, outputs;  // channels and outputs of a group

  explicit ConvolutionSizes(const ConvolutionProblem &problem);
  std::size_t all_taps() const { return taps[0] * taps[1] * taps[2]; }
  std::size_t x() const { return batch * groups * channels * in[0] * in[1] * in[2]; }
  std::size_t y() const { return batch * groups * outputs * out[0] * out[1] * out[2]; }
  std::size_t w() const { return groups * outputs * channels * all_taps(); }
};

// The elements of the two arrays that an output multiplies. A product with padding has none.
struct ConvolutionProducts {
  static constexpr std::size_t padding = SIZE_MAX;
  std::vector<std::pair<std::size_t, std::size_t>> products;
  std::size_t channel = 0;  // of the result
};
// The outputs in row-major order, from rapt.h's text.
std::vector<ConvolutionProducts> products_of(const ConvolutionProblem &problem);

// How many elements the arrays have that are read: x, dy and w, dy, x.
std::size_t first_operand(const ConvolutionProblem &problem);
std::size_t second_operand(const ConvolutionProblem &problem);
// The bias of each channel of the result.
template <class A>
std::vector<A> bias_of(const Problem &problem);

std::unique_ptr<Call> make_convolution(Element element, const Problem &problem, const Layout &layout);

// Draws a problem of up to about `most` products.
Problem draw_convolution_problem(Random &random, std::size_t most);
// Problems of every way, of which some have more products than a chain.
std::vector<Problem> convolutions_of_shapes();

}  // namespace rapt::test
