// Benchmarks of the kernels that make y[i] of x[i]: scale, exp, exp_sum.
#pragma once

#include <string>
#include <utility>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

// make_x() returns the input; call(function, x, y, n) calls the kernel.
template <class T, class Function, class MakeX, class Call>
void add_elementwise(Kernel<Function> &kernel, const std::string &size, std::size_t n, MakeX make_x,
                     Call call) {
  const Work work = {
      .elements = n, .element_bytes = sizeof(T), .read = n * sizeof(T), .written = n * sizeof(T)};
  kernel.add(size, work, [n, make_x, call] {
    return [n, call, x = make_x(), y = Buffer<T>(n)](Function function) {
      call(function, x.data(), y.data(), n);
    };
  });
}

// In place the kernel works on its own results, over and over: make_x() and call() have to go with that.
template <class T, class Function, class MakeX, class Call>
void add_in_place(Kernel<Function> &kernel, const std::string &size, std::size_t n, MakeX make_x, Call call) {
  const Work work = {.elements = n,
                     .element_bytes = sizeof(T),
                     .read = n * sizeof(T),
                     .written = n * sizeof(T),
                     .in_place = true};
  kernel.add(size + ":in-place", work, [n, make_x, call] {
    return [n, call, x = make_x()](Function function) { call(function, x.data(), x.data(), n); };
  });
}

// Every level of the memory hierarchy and a few lengths of their own, on logits.
template <class T, class Function, class Call>
void add_elementwise_sizes(Kernel<Function> &kernel, Call call) {
  const Suite &suite = kernel.suite();
  const auto add = [&](const std::string &size, std::size_t n) {
    add_elementwise<T>(
        kernel, size, n, [n] { return logits<T>(n); }, call);
  };
  for (const WorkingSet &level : suite.plan().levels) add(level.label, level.bytes / (2 * sizeof(T)));
  for (const std::size_t n : suite.sizes<std::size_t>({16, 64, 1024, 4096}, {16, 4096})) {
    add("n:" + std::to_string(n), n);
  }
}

}  // namespace rapt::bench
