#include <string>

#include "support/accuracy.hpp"
#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

template <class T>
void register_dot_rows(Suite &suite, DotRows<T> own) {
  Kernel<DotRows<T>> kernel = suite.kernel(own, &PeerFunctions<T>::dot_rows, dot_rows_error<T>, 1);
  // The query stays in L1.
  const auto add = [&kernel](const std::string &size, std::size_t rows, std::size_t dim) {
    const std::size_t n = rows * dim;
    const Work work = {
        .elements = n, .element_bytes = sizeof(T), .read = n * sizeof(T), .written = rows * sizeof(T)};
    kernel.add(size, work, [rows, dim, n] {
      return [rows, dim, query = logits<T>(dim, 0, 0), matrix = logits<T>(n, 0, 1),
              out = Buffer<T>(rows)](DotRows<T> dot_rows) {
        dot_rows(query.data(), matrix.data(), static_cast<std::ptrdiff_t>(dim), rows, dim, T(0.125),
                 out.data());
      };
    });
  };
  constexpr std::size_t head_dim = 128;
  for (const WorkingSet &set : suite.plan().working_sets) {
    add("dim:128:" + set.label, set.bytes / ((head_dim + 1) * sizeof(T)), head_dim);
  }
  // One query against 4096 keys of a context, or as many stored embeddings.
  for (const std::size_t dim : suite.sizes({64, 96, 128, 768}, {64, 768})) {
    add("4096xdim:" + std::to_string(dim), 4096, dim);
  }
}

}  // namespace

void register_dot_rows_f32(Suite &suite) { register_dot_rows<float>(suite, rapt_dot_rows_f32); }
void register_dot_rows_f64(Suite &suite) { register_dot_rows<double>(suite, rapt_dot_rows_f64); }

}  // namespace rapt::bench
