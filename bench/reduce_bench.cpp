// Benchmarks sums over the rows and the columns of a contiguous matrix, in all and cumulative. A size is rows x
// columns; "1x64" is one row of 64.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

struct Shape {
  std::size_t rows, cols;
  bool of_columns;
};

// rapt_reduce: an output for each row or column.
struct Sums {
  static constexpr Uops uops = {0, 1};
  template <class T>
  static constexpr MatrixSums<T> PeerFunctions<T>::*of_peer = &PeerFunctions<T>::sums;

  static std::size_t outputs(const Shape &shape) { return shape.of_columns ? shape.cols : shape.rows; }
  static std::vector<Shape> shapes(const Suite &suite) {
    return suite.choose<Shape>({{1, 64, false},
                                {1024, 64, false},
                                {1, 4096, false},
                                {1, 1 << 20, false},
                                {16384, 4096, false},
                                {64, 64, true},
                                {4096, 64, true},
                                {16384, 4096, true},
                                {1 << 20, 3, true}},
                               {{1, 64, false}, {1, 4096, false}, {4096, 64, true}});
  }
  template <class Element, rapt_type type>
  static void compute(const Element *x, Element *y, std::size_t rows, std::size_t cols, bool of_columns) {
    rapt_reduce_options options = RAPT_REDUCE_OPTIONS_INIT;
    options.operation = RAPT_SUM;
    options.type = type;
    options.dims = 2;
    options.shape[0] = rows;
    options.shape[1] = cols;
    options.reduced = of_columns ? 1 : 2;
    require_ok(rapt_reduce(x, y, &options));
  }
};

// rapt_scan: an output for each element.
struct CumulativeSums {
  // The prefixes of 16 elements take 49 additions, and each element one more.
  static constexpr Uops uops = {0, 49.0 / 16 + 1};
  template <class T>
  static constexpr MatrixSums<T> PeerFunctions<T>::*of_peer = &PeerFunctions<T>::scans;

  static std::size_t outputs(const Shape &shape) { return shape.rows * shape.cols; }
  static std::vector<Shape> shapes(const Suite &suite) {
    return suite.choose<Shape>({{1024, 64, false},
                                {1, 4096, false},
                                {1, 1 << 20, false},
                                {8192, 4096, false},
                                {64, 64, true},
                                {4096, 64, true},
                                {8192, 4096, true}},
                               {{1, 4096, false}, {4096, 64, true}});
  }
  template <class Element, rapt_type type>
  static void compute(const Element *x, Element *y, std::size_t rows, std::size_t cols, bool of_columns) {
    rapt_scan_options options = RAPT_SCAN_OPTIONS_INIT;
    options.operation = RAPT_SUM;
    options.type = type;
    options.dims = 2;
    options.shape[0] = rows;
    options.shape[1] = cols;
    options.axis = of_columns ? 0 : 1;
    require_ok(rapt_scan(x, y, &options));
  }
};

template <class Kind, class Element, class Make>
void add_sizes(Kernel<MatrixSums<Element>> kernel, Make make) {
  for (const Shape &shape : Kind::shapes(kernel.suite())) {
    const std::size_t elements = shape.rows * shape.cols, outputs = Kind::outputs(shape);
    const Work work = {.elements = elements,
                       .element_bytes = std::max(sizeof(Element), sizeof(float)),
                       .read = elements * sizeof(Element),
                       .written = outputs * sizeof(Element)};
    kernel.add(fmt::format("{}x{}{}", shape.rows, shape.cols, shape.of_columns ? ":columns" : ""), work, [=] {
      return [shape, x = make(elements), y = Buffer<Element>(outputs)](MatrixSums<Element> function) {
        function(x.data(), y.data(), shape.rows, shape.cols, shape.of_columns);
      };
    });
  }
}

// Of a row of 4096 elements, the largest error relative to the sum of the magnitudes up to an output's last element.
template <class Kind, class T>
double error_of(MatrixSums<T> function) {
  constexpr Shape row = {1, 4096, false};
  const auto x = logits<T>(row.cols);
  Buffer<T> y(Kind::outputs(row));
  function(x.data(), y.data(), row.rows, row.cols, row.of_columns);
  const std::size_t elements_of_output = row.cols / y.size();
  long double exact = 0, sizes = 0, worst = 0;
  for (std::size_t i = 0; i < row.cols; ++i) {
    exact += static_cast<long double>(x.data()[i]);
    sizes += std::fabs(static_cast<long double>(x.data()[i]));
    if ((i + 1) % elements_of_output != 0) continue;
    const auto output = static_cast<long double>(y.data()[i / elements_of_output]);
    worst = std::max(worst, std::fabs(output - exact) / sizes);
  }
  return static_cast<double>(2 * worst / std::numeric_limits<T>::epsilon());  // in 2^-24, 2^-53
}

template <class Kind, class T, rapt_type type>
void register_of(Suite &suite) {
  add_sizes<Kind, T>(suite.kernel(MatrixSums<T>{Kind::template compute<T, type>}, Kind::template of_peer<T>,
                                  error_of<Kind, T>, Kind::uops),
                     [](std::size_t n) { return logits<T>(n); });
}
template <class Kind, rapt_type type>
void register_of_halves(Suite &suite, Narrow narrow) {
  using Element = std::uint16_t;
  add_sizes<Kind, Element>(
      suite.kernel(MatrixSums<Element>{Kind::template compute<Element, type>}, Kind::uops),
      [narrow](std::size_t n) { return halves(narrow, n); });
}

}  // namespace

void register_reduce_f32(Suite &suite) { register_of<Sums, float, RAPT_F32>(suite); }
void register_reduce_f64(Suite &suite) { register_of<Sums, double, RAPT_F64>(suite); }
void register_reduce_f16(Suite &suite) { register_of_halves<Sums, RAPT_F16>(suite, rapt_convert_f32_to_f16); }
void register_reduce_bf16(Suite &suite) {
  register_of_halves<Sums, RAPT_BF16>(suite, rapt_convert_f32_to_bf16);
}
void register_scan_f32(Suite &suite) { register_of<CumulativeSums, float, RAPT_F32>(suite); }
void register_scan_f64(Suite &suite) { register_of<CumulativeSums, double, RAPT_F64>(suite); }
void register_scan_f16(Suite &suite) {
  register_of_halves<CumulativeSums, RAPT_F16>(suite, rapt_convert_f32_to_f16);
}
void register_scan_bf16(Suite &suite) {
  register_of_halves<CumulativeSums, RAPT_BF16>(suite, rapt_convert_f32_to_bf16);
}

}  // namespace rapt::bench
