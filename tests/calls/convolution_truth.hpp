// What convolutions should give: the bits of a linear layer's loop over the products, and how near they are to what is
// exact.
#pragma once

#include "calls/convolution.hpp"
#include "calls/linear_truth.hpp"
#include "support/problem_data.hpp"

namespace rapt::validate {

template <class T>
struct ConvolutionAccuracy : LinearAccuracy<T> {
  using Loop = LinearAccuracy<T>;
  using A = typename Loop::A;

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto &of = problem.as<ConvolutionProblem>();
    const auto &made = make_operands<T>(Family::convolution, problem);
    const std::vector<A> biases = bias_of<A>(problem);
    Worst worst;
    std::size_t next = 0;
    for (const ConvolutionProducts &output : products_of(of)) {
      const std::size_t i = next++;
      std::vector<A> x, w;
      for (const auto &[a, b] : output.products) {
        const bool is_padding = a == ConvolutionProducts::padding;
        x.push_back(is_padding ? A(0) : static_cast<A>(made.first[a]));
        w.push_back(is_padding ? A(0) : static_cast<A>(made.second[b]));
      }
      const A *const bias = biases.empty() ? nullptr : &biases[output.channel];
      if (!Loop::template has_bits_of_loop<T>(x, w, nullptr, bias, nullptr, nullptr, bits[i]))
        worst.see(wrong, Loop::bound);
      if (x.empty()) continue;  // without products there is no error to divide by
      const auto sum = Loop::sum(x, w);
      if (std::isfinite(sum.error))
        Loop::template see<T>(sum, nullptr, bias, nullptr, nullptr, bits[i], worst);
    }
    return worst.judgement;
  }
};

}  // namespace rapt::validate
