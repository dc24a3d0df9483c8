// Benchmarks embedding bags and sums of rows by index. Each row of memory is named once, in an order without steps, so
// that its bytes count once. A bag has 32 rows, and a row 64 elements.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

constexpr std::size_t cols = 64, length = 32;

// The numbers from 0 to n - 1, each followed by one about 0.6 n further on.
Buffer<std::int64_t> indices(std::size_t n) {
  Buffer<std::int64_t> made(n);
  std::size_t step = n * 5 / 8 | 1, next = 0;
  while (std::gcd(step, n) != 1) step += 2;
  for (std::int64_t &index : made.elements()) {
    index = static_cast<std::int64_t>(next);
    next = (next + step) % n;
  }
  return made;
}

Buffer<std::size_t> offsets(std::size_t bags) {
  Buffer<std::size_t> made(bags + 1);
  for (std::size_t bag = 0; bag <= bags; ++bag) made.data()[bag] = bag * length;
  return made;
}

template <class T, rapt_type type, rapt_bag_operation operation>
void own_bags(const T *w, const std::int64_t *of_rows, const std::size_t *of_bags, T *y, std::size_t bags,
              std::size_t columns) {
  rapt_embedding_bag_options options = RAPT_EMBEDDING_BAG_OPTIONS_INIT;
  options.type = type;
  options.operation = operation;
  options.rows = of_bags[bags];
  options.cols = columns;
  options.bags = bags;
  options.offsets = of_bags;
  require_ok(rapt_embedding_bag(w, of_rows, y, nullptr, &options));
}

template <class T, rapt_type type>
void own_index_add(const T *x, const std::int64_t *of_rows, T *out, std::size_t rows, std::size_t columns) {
  rapt_index_add_options options = RAPT_INDEX_ADD_OPTIONS_INIT;
  options.type = type;
  options.rows = options.out_rows = rows;
  options.cols = columns;
  options.indices = of_rows;
  require_ok(rapt_index_add(x, out, &options));
}

// The largest error relative to the sum of the magnitudes.
template <class T>
double bags_error(BagSums<T> function) {
  constexpr std::size_t bags = 8;
  const auto of_rows = indices(bags * length);
  const auto of_bags = offsets(bags);
  const auto w = logits<T>(bags * length * cols);
  Buffer<T> y(bags * cols);
  function(w.data(), of_rows.data(), of_bags.data(), y.data(), bags, cols);
  long double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    long double exact = 0, sizes = 0;
    for (std::size_t j = i / cols * length; j < (i / cols + 1) * length; ++j) {
      const auto x =
          static_cast<long double>(w.data()[static_cast<std::size_t>(of_rows.data()[j]) * cols + i % cols]);
      exact += x, sizes += std::fabs(x);
    }
    worst = std::max(worst, std::fabs(static_cast<long double>(y.data()[i]) - exact) / sizes);
  }
  return static_cast<double>(2 * worst / std::numeric_limits<T>::epsilon());  // in 2^-24, 2^-53
}

template <class T>
constexpr std::size_t bytes_in_arithmetic = sizeof(T) < sizeof(float) ? sizeof(float) : sizeof(T);

template <class T, class Make>
void add_bags(Kernel<BagSums<T>> kernel, Make make) {
  for (const WorkingSet &set : kernel.suite().plan().working_sets) {
    const std::size_t bags = std::max<std::size_t>(1, set.bytes / (length * (cols * sizeof(T) + 8)));
    const Work work = {.elements = bags * cols,
                       .element_bytes = bytes_in_arithmetic<T>,
                       .read = bags * length * (cols * sizeof(T) + sizeof(std::int64_t)),
                       .written = bags * cols * sizeof(T)};
    kernel.add(set.label, work, [=] {
      return [bags, w = make(bags * length * cols), of_rows = indices(bags * length), of_bags = offsets(bags),
              y = Buffer<T>(bags * cols)](BagSums<T> sums) {
        sums(w.data(), of_rows.data(), of_bags.data(), y.data(), bags, cols);
      };
    });
  }
}

template <class T, rapt_type type, class Make>
void register_bags(Suite &suite, const std::string &name, Make make) {
  constexpr Uops uops = {0, length};
  if constexpr (sizeof(T) >= sizeof(float)) {
    add_bags<T>(suite.kernel(BagSums<T>(own_bags<T, type, RAPT_BAG_SUM>), &PeerFunctions<T>::bag_sums,
                             bags_error<T>, uops),
                make);
  } else {
    add_bags<T>(suite.kernel(BagSums<T>(own_bags<T, type, RAPT_BAG_SUM>), uops), make);
  }
  suite.begin_kernel(name + ":max");
  add_bags<T>(suite.kernel(BagSums<T>(own_bags<T, type, RAPT_BAG_MAX>), uops), make);
}

template <class T, class Make>
void add_additions(Kernel<IndexAdd<T>> kernel, Make make) {
  for (const WorkingSet &set : kernel.suite().plan().working_sets) {
    const std::size_t rows = std::max<std::size_t>(2, set.bytes / (2 * cols * sizeof(T) + 8)),
                      n = rows * cols;
    const Work work = {.elements = n,
                       .element_bytes = bytes_in_arithmetic<T>,
                       .read = 2 * n * sizeof(T) + rows * sizeof(std::int64_t),
                       .written = n * sizeof(T)};
    kernel.add(set.label, work, [=] {
      // Zeros, so that numbers stay ordinary however often the call is repeated.
      return [rows, x = make(n), of_rows = indices(rows), out = Buffer<T>(n)](IndexAdd<T> add) {
        add(x.data(), of_rows.data(), out.data(), rows, cols);
      };
    });
  }
}

template <class T, rapt_type type, class Make>
void register_index_add(Suite &suite, Make make) {
  constexpr Uops uops = {0, 1};
  const IndexAdd<T> own = own_index_add<T, type>;
  if constexpr (sizeof(T) >= sizeof(float)) {
    add_additions<T>(suite.kernel(own, &PeerFunctions<T>::index_add, nullptr, uops), make);
  } else {
    add_additions<T>(suite.kernel(own, uops), make);
  }
}

}  // namespace

#define INDEX_ROWS(name, T, type, make)                          \
  void register_embedding_bag_##name(Suite &suite) {             \
    register_bags<T, type>(suite, "embedding_bag_" #name, make); \
  }                                                              \
  void register_index_add_##name(Suite &suite) { register_index_add<T, type>(suite, make); }
INDEX_ROWS(f32, float, RAPT_F32, [](std::size_t n) { return logits<float>(n); })
INDEX_ROWS(f64, double, RAPT_F64, [](std::size_t n) { return logits<double>(n); })
INDEX_ROWS(f16, std::uint16_t, RAPT_F16, [](std::size_t n) { return halves(rapt_convert_f32_to_f16, n); })
INDEX_ROWS(bf16, std::uint16_t, RAPT_BF16, [](std::size_t n) { return halves(rapt_convert_f32_to_bf16, n); })
#undef INDEX_ROWS

}  // namespace rapt::bench
