#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

template <class T, auto exp>
void register_exp(Suite &suite) {
  // Bytes: x read, y written.
  const auto add = [&suite](const std::string &size, std::size_t n, std::size_t misalignment = 0) {
    suite.add(size, {.elements = n, .bytes = 2 * n * sizeof(T)}, [n, misalignment] {
      return
          [n, x = logits<T>(n, misalignment), y = Buffer<T>(n, misalignment)] { exp(x.data(), y.data(), n); };
    });
  };
  for (const WorkingSet &set : suite.working_sets<T>()) {
    add(set.label, set.bytes / (2 * sizeof(T)), set.misalignment);
  }
  // A tile of scores, and a row of them.
  for (const std::size_t n : suite.shapes<T, std::size_t>({64, 2048})) {
    add("n:" + std::to_string(n), n);
  }
}

}  // namespace

void register_exp_f32(Suite &suite) { register_exp<float, rapt_exp_f32>(suite); }
void register_exp_f64(Suite &suite) { register_exp<double, rapt_exp_f64>(suite); }

}  // namespace rapt::bench
