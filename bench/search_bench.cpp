// Benchmarks the metrics of pairs, as an index such as HNSW calls them, and exact search.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

Buffer<std::int8_t> bytes(std::size_t n) {
  Buffer<std::int8_t> made(n);
  Uniform uniform;
  for (std::int8_t &one : made.elements())
    one = static_cast<std::int8_t>(static_cast<int>(256 * uniform()) - 128);
  return made;
}

const char *name_of(rapt_metric_kind kind) {
  return kind == RAPT_METRIC_DOT ? "dot" : kind == RAPT_METRIC_COSINE ? "cosine" : "l2";
}

// One vector is compared with many of L1 and L2: a call gets the function once, and calls it for each.
template <class T, class Get, class Make>
void register_pairs(Suite &suite, Get *own, Make make) {
  constexpr std::size_t pairs = 64;
  Kernel<Get *> kernel = suite.kernel(own, Uops{2});
  for (const rapt_metric_kind kind : {RAPT_METRIC_DOT, RAPT_METRIC_COSINE, RAPT_METRIC_L2_SQUARED}) {
    for (const std::size_t n : suite.sizes({16, 64, 256, 768}, {16, 256})) {
      Work work = {.elements = pairs * n, .element_bytes = sizeof(T), .read = 2 * pairs * n * sizeof(T)};
      work.calls = pairs;
      kernel.add(fmt::format("{}:{}", name_of(kind), n), work, [=] {
        return [=, a = make(n), b = make(pairs * n)](Get *get) {
          const auto metric = get(kind);
          for (std::size_t i = 0; i < pairs; ++i) {
            auto result = metric(a.data(), b.data() + i * n, n);
            benchmark::DoNotOptimize(result);
          }
        };
      });
    }
  }
}

using Search = decltype(&rapt_top_k);

// Finds the 10 best rows.
template <class T, class Make>
void register_search(Suite &suite, rapt_type type, Make make) {
  Kernel<Search> kernel = suite.kernel(&rapt_top_k, Uops{1});
  const auto add = [&](rapt_metric_kind kind, std::size_t queries, std::size_t bytes, std::size_t dim) {
    const std::size_t rows = bytes / (dim * sizeof(T)) / queries;
    const Work work = {.elements = queries * rows * dim,
                       .element_bytes = sizeof(T),
                       .read = (queries + rows) * dim * sizeof(T)};
    kernel.add(fmt::format("{}:{}x{}x{}", name_of(kind), queries, rows, dim), work, [=] {
      rapt_search_options options = RAPT_SEARCH_OPTIONS_INIT;
      options.metric = kind;
      options.type = type;
      options.queries = queries;
      options.rows = rows;
      options.dim = dim;
      options.k = 10;
      std::size_t workspace = 0;
      require_ok(rapt_top_k_workspace(&options, &workspace));
      return [options, q = make(queries * dim), x = make(rows * dim),
              indices = Buffer<std::int64_t>(queries * 10), scores = Buffer<float>(queries * 10),
              memory = Buffer<std::uint8_t>(workspace)](Search search) mutable {
        require_ok(search(q.data(), x.data(), indices.data(), scores.data(), &options, memory.data(),
                          memory.elements().size()));
      };
    });
  };
  constexpr std::size_t from_memory = std::size_t{256} << 20;
  for (const std::size_t dim : suite.sizes({384, 768, 1536}, {768})) {
    for (const rapt_metric_kind kind : {RAPT_METRIC_DOT, RAPT_METRIC_COSINE, RAPT_METRIC_L2_SQUARED}) {
      add(kind, 1, from_memory, dim);
      add(kind, 16, from_memory, dim);
    }
  }
}

}  // namespace

#define METRIC(name, T, type, make)                                      \
  void register_metric_##name(Suite &suite) {                            \
    register_pairs<T>(                                                   \
        suite, +[](int kind) { return rapt_metric(kind, type); }, make); \
  }                                                                      \
  void register_metric_rows_##name(Suite &suite) { register_search<T>(suite, type, make); }
METRIC(f32, float, RAPT_F32, [](std::size_t n) { return logits<float>(n); })
METRIC(f16, std::uint16_t, RAPT_F16, [](std::size_t n) { return halves(rapt_convert_f32_to_f16, n); })
METRIC(bf16, std::uint16_t, RAPT_BF16, [](std::size_t n) { return halves(rapt_convert_f32_to_bf16, n); })
METRIC(i8, std::int8_t, RAPT_I8, bytes)

void register_metric_f64(Suite &suite) {
  register_pairs<double>(
      suite, +[](int kind) { return rapt_metric_f64(kind); },
      [](std::size_t n) { return logits<double>(n); });
}

// rapt_top_k has no f64: its rows are compared with one query.
void register_metric_rows_f64(Suite &suite) {
  using Rows = decltype(&rapt_metric_rows);
  Kernel<Rows> kernel = suite.kernel(&rapt_metric_rows, Uops{1});
  constexpr std::size_t rows = 1000, dim = 768;
  const Work work = {
      .elements = rows * dim, .element_bytes = sizeof(double), .read = rows * dim * sizeof(double)};
  kernel.add("l2:1x1000x768", work, [=] {
    rapt_search_options options = RAPT_SEARCH_OPTIONS_INIT;
    options.metric = RAPT_METRIC_L2_SQUARED;
    options.type = RAPT_F64;
    options.queries = 1;
    options.rows = rows;
    options.dim = dim;
    return [options, q = logits<double>(dim), x = logits<double>(rows * dim), out = Buffer<double>(rows)](
               Rows compare) mutable { require_ok(compare(q.data(), x.data(), out.data(), &options)); };
  });
}

}  // namespace rapt::bench
