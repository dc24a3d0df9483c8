// Adds benchmarks of the kernels that compute y[i] from x[i]: scale, exp and exp_sum.
#pragma once

#include <string>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

// make_x() returns the input, and call(function, x, y, n) calls the kernel. If in_place is set, y is x, and
// the kernel works on its own results again and again. The results must then stay ordinary numbers.
struct Elementwise {
  bool special_values = false;
  bool in_place = false;
};
template <class T, class Function, class MakeX, class Call>
void add_elementwise(Kernel<Function> &kernel, const std::string &size, std::size_t n, MakeX make_x,
                     Call call, Elementwise kind = {}) {
  const Work work = {.elements = n,
                     .element_bytes = sizeof(T),
                     .read = n * sizeof(T),
                     .written = n * sizeof(T),
                     .in_place = kind.in_place,
                     .special_values = kind.special_values};
  kernel.add(size, work, [n, make_x, call, in_place = kind.in_place] {
    return [n, call, in_place, x = make_x(), y = Buffer<T>(in_place ? 0 : n)](Function function) {
      call(function, x.data(), in_place ? x.data() : y.data(), n);
    };
  });
}

// Adds every memory level and a few lengths. The inputs are logits.
template <class T, class Function, class Call>
void add_elementwise_sizes(Kernel<Function> &kernel, Call call) {
  const Suite &suite = kernel.suite();
  const auto add = [&](const std::string &size, std::size_t n) {
    add_elementwise<T>(
        kernel, size, n, [n] { return logits<T>(n); }, call);
  };
  for (const WorkingSet &set : suite.plan().working_sets) add(set.label, set.bytes / (2 * sizeof(T)));
  for (const std::size_t n : suite.sizes({16, 64, 1024, 4096}, {16, 4096})) {
    add("n:" + std::to_string(n), n);
  }
}

}  // namespace rapt::bench
