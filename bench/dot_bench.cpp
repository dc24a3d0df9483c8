#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

template <class T, auto dot>
void register_dot(Suite &suite) {
  // Bytes: both inputs.
  const auto add = [&suite](const std::string &size, std::size_t n, std::size_t misalignment = 0) {
    suite.add(size, {.elements = n, .bytes = 2 * n * sizeof(T)}, [n, misalignment] {
      return [n, a = logits<T>(n, misalignment, 0), b = logits<T>(n, misalignment, 1)] {
        T result = dot(a.data(), b.data(), n);
        benchmark::DoNotOptimize(result);
      };
    });
  };
  for (const WorkingSet &set : suite.working_sets<T>()) {
    add(set.label, set.bytes / (2 * sizeof(T)), set.misalignment);
  }
  // Head dimensions, then the widths of sentence and language model embeddings.
  for (const std::size_t n : suite.shapes<T, std::size_t>({64, 96, 128, 768, 1536, 4096})) {
    add("n:" + std::to_string(n), n);
  }
}

}  // namespace

void register_dot_f32(Suite &suite) { register_dot<float, rapt_dot_f32>(suite); }
void register_dot_f64(Suite &suite) { register_dot<double, rapt_dot_f64>(suite); }

}  // namespace rapt::bench
