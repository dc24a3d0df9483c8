#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

template <class T, auto dot_rows>
void register_dot_rows(Suite &suite) {
  // Bytes: the rows and the results. The query stays in L1.
  const auto add = [&suite](const std::string &size, std::size_t rows, std::size_t dim,
                            std::size_t misalignment = 0) {
    const Work work = {.elements = rows * dim, .bytes = (rows * dim + rows) * sizeof(T)};
    suite.add(size, work, [rows, dim, misalignment] {
      return [rows, dim, query = logits<T>(dim, misalignment, 0),
              matrix = logits<T>(rows * dim, misalignment, 1), out = Buffer<T>(rows, misalignment)] {
        dot_rows(query.data(), matrix.data(), static_cast<std::ptrdiff_t>(dim), rows, dim, T(0.125),
                 out.data());
      };
    });
  };
  constexpr std::size_t dim = 128;
  for (const WorkingSet &set : suite.working_sets<T>()) {
    add(set.label, set.bytes / ((dim + 1) * sizeof(T)), dim, set.misalignment);
  }
  // One query against the keys of a context of 4096 tokens.
  for (const std::size_t head_dim : suite.shapes<T, std::size_t>({64, 128})) {
    add("4096xdim:" + std::to_string(head_dim), 4096, head_dim);
  }
}

}  // namespace

void register_dot_rows_f32(Suite &suite) { register_dot_rows<float, rapt_dot_rows_f32>(suite); }
void register_dot_rows_f64(Suite &suite) { register_dot_rows<double, rapt_dot_rows_f64>(suite); }

}  // namespace rapt::bench
