#include <algorithm>
#include <string>
#include <vector>

#include "support/accuracy.hpp"
#include "support/buffer.hpp"
#include "support/dot_rows.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

struct Matrix {
  std::size_t rows, dim;
  std::size_t elements() const { return rows * dim; }
};

struct Model {
  const char *name;
  Matrix attention, up, down, classifier;  // each maps `dim` inputs to `rows` outputs
  std::vector<Matrix> layer() const { return {attention, attention, attention, attention, up, down, up}; }
};

// Holds two models of llama2.c. Each token multiplies every matrix by a vector.
const Model models[] = {
    {"llama2c-15M", {288, 288}, {768, 288}, {288, 768}, {32000, 288}},
    {"llama2c-42M", {512, 512}, {1376, 512}, {512, 1376}, {32000, 512}},
};

// Adds a call that multiplies copies of all matrices of `group`, one after the other. The copies fill a
// buffer much larger than the caches, so every matrix is read from memory. The query and the results stay in
// a cache.
template <class T>
void add_in_turn(Kernel<RowsProduct<T>> &kernel, const std::string &size, const std::vector<Matrix> &group) {
  std::size_t of_group = 0, most_rows = 0, most_dim = 0;
  for (const Matrix &one : group) {
    of_group += one.elements();
    most_rows = std::max(most_rows, one.rows);
    most_dim = std::max(most_dim, one.dim);
  }
  const WorkingSet &memory = kernel.suite().plan().working_sets.back();
  const std::size_t groups = std::max<std::size_t>(1, memory.bytes / (of_group * sizeof(T)));
  const std::size_t n = groups * of_group;
  const Work work = {.elements = n, .element_bytes = sizeof(T), .read = n * sizeof(T)};
  kernel.add(size, work, [group, groups, n, most_rows, most_dim] {
    return [group, groups, query = logits<T>(most_dim, 0, 0), matrices = logits<T>(n, 0, 1),
            out = Buffer<T>(most_rows), copies = PackedCopies()](const RowsProduct<T> &dot_rows) mutable {
      const T *next = matrices.data();
      for (std::size_t i = 0; i < groups; ++i) {
        for (const Matrix &one : group) {
          dot_rows(query.data(), next, one.rows, one.dim, T(1), out.data(), copies);
          next += one.elements();
        }
      }
    };
  });
}

template <class T>
void add_models(Kernel<RowsProduct<T>> &kernel) {
  for (const Model &model : models) {
    for (const Matrix &one : {model.attention, model.up, model.down, model.classifier})
      add_in_turn(kernel, std::to_string(one.rows) + "x" + std::to_string(one.dim) + ":mem", {one});
    add_in_turn(kernel, std::string(model.name) + ":layers", model.layer());
  }
}

template <class T>
void register_dot_rows(Suite &suite, DotRows<T> own) {
  const auto of_peer = [](const Peer &peer) {
    const PeerFunctions<T> &functions = peer.functions<T>();
    return RowsProduct<T>{functions.dot_rows, functions.packed_dot_rows};
  };
  Kernel<RowsProduct<T>> kernel = suite.kernel(RowsProduct<T>{own, {}}, of_peer, dot_rows_error<T>, 1);
  // The query stays in L1.
  const auto add = [&kernel](const std::string &size, std::size_t rows, std::size_t dim) {
    const std::size_t n = rows * dim;
    const Work work = {
        .elements = n, .element_bytes = sizeof(T), .read = n * sizeof(T), .written = rows * sizeof(T)};
    kernel.add(size, work, [rows, dim, n] {
      return [rows, dim, query = logits<T>(dim, 0, 0), matrix = logits<T>(n, 0, 1), out = Buffer<T>(rows),
              copies = PackedCopies()](const RowsProduct<T> &dot_rows) mutable {
        dot_rows(query.data(), matrix.data(), rows, dim, T(0.125), out.data(), copies);
      };
    });
  };
  constexpr std::size_t head_dim = 128;
  for (const WorkingSet &set : suite.plan().working_sets) {
    add("dim:128:" + set.label, set.bytes / ((head_dim + 1) * sizeof(T)), head_dim);
  }
  // Multiplies one query by 4096 keys of a context, or by 4096 stored embeddings.
  for (const std::size_t dim : suite.sizes({64, 96, 128, 768}, {64, 768})) {
    add("4096xdim:" + std::to_string(dim), 4096, dim);
  }
  if constexpr (sizeof(T) == sizeof(float)) {
    for (const std::size_t dim : suite.sizes({64, 288, 768}, {768})) {
      add("dim:" + std::to_string(dim) + ":mem",
          suite.plan().working_sets.back().bytes / ((dim + 1) * sizeof(T)), dim);
    }
    if (!suite.plan().quick) add_models(kernel);
  }
}

}  // namespace

void register_dot_rows_f32(Suite &suite) { register_dot_rows<float>(suite, rapt_dot_rows_f32); }
void register_dot_rows_f64(Suite &suite) { register_dot_rows<double>(suite, rapt_dot_rows_f64); }

}  // namespace rapt::bench
