#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

template <class T, auto scale>
void register_scale(Suite &suite) {
  // Bytes: x read, y written.
  const auto add = [&suite](const std::string &size, std::size_t n, std::size_t misalignment = 0) {
    suite.add(size, {.elements = n, .bytes = 2 * n * sizeof(T)}, [n, misalignment] {
      return [n, x = logits<T>(n, misalignment), y = Buffer<T>(n, misalignment)] {
        scale(x.data(), T(0.125), y.data(), n);
      };
    });
  };
  for (const WorkingSet &set : suite.working_sets<T>()) {
    add(set.label, set.bytes / (2 * sizeof(T)), set.misalignment);
  }
  // A query of one head, and the hidden state of one token.
  for (const std::size_t n : suite.shapes<T, std::size_t>({128, 4096})) {
    add("n:" + std::to_string(n), n);
  }
}

}  // namespace

void register_scale_f32(Suite &suite) { register_scale<float, rapt_scale_f32>(suite); }
void register_scale_f64(Suite &suite) { register_scale<double, rapt_scale_f64>(suite); }

}  // namespace rapt::bench
