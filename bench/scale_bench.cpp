#include <string>

#include "support/accuracy.hpp"
#include "support/elementwise.hpp"

namespace rapt::bench {
namespace {

template <class T>
void register_scale(Suite &suite, Scale<T> own) {
  Kernel<Scale<T>> kernel = suite.kernel(own, &PeerFunctions<T>::scale, scale_error<T>, 1);
  // The factor is -1. Repeated calls in place with any factor except 1 and -1 would reach infinity or 0.
  const auto call = [](Scale<T> scale, const T *x, T *y, std::size_t n) { scale(x, T(-1), y, n); };
  const auto add_in_place = [&](const std::string &size, std::size_t n) {
    add_elementwise<T>(kernel, size + ":in-place", n, [n] { return logits<T>(n); }, call, {.in_place = true});
  };
  add_elementwise_sizes<T>(kernel, call);
  for (const WorkingSet &set : suite.plan().working_sets) add_in_place(set.label, set.bytes / sizeof(T));
  for (const std::size_t n : suite.sizes({16, 64, 1024, 4096}, {})) {
    add_in_place("n:" + std::to_string(n), n);
  }
}

}  // namespace

void register_scale_f32(Suite &suite) { register_scale<float>(suite, rapt_scale_f32); }
void register_scale_f64(Suite &suite) { register_scale<double>(suite, rapt_scale_f64); }

}  // namespace rapt::bench
