#include <string>

#include "support/accuracy.hpp"
#include "support/elementwise.hpp"

namespace rapt::bench {
namespace {

template <class T>
void register_scale(Kernel<Scale<T>> kernel) {
  const Suite &suite = kernel.suite();
  // By -1: in place, any other factor would lead to infinity or to 0.
  const auto call = [](Scale<T> scale, const T *x, T *y, std::size_t n) { scale(x, T(-1), y, n); };
  const auto add_in_place = [&](const std::string &size, std::size_t n) {
    add_elementwise<T>(kernel, size + ":in-place", n, [n] { return logits<T>(n); }, call, {.in_place = true});
  };
  add_elementwise_sizes<T>(kernel, call);
  for (const WorkingSet &level : suite.plan().levels) add_in_place(level.label, level.bytes / sizeof(T));
  for (const std::size_t n : suite.sizes<std::size_t>({16, 64, 1024, 4096}, {})) {
    add_in_place("n:" + std::to_string(n), n);
  }
}

}  // namespace

void register_scale_f32(Suite &suite) {
  register_scale<float>(suite.kernel(rapt_scale_f32, &Peer::scale_f32, scale_error<float>, 1));
}
void register_scale_f64(Suite &suite) {
  register_scale<double>(suite.kernel(rapt_scale_f64, &Peer::scale_f64, scale_error<double>, 1));
}

}  // namespace rapt::bench
