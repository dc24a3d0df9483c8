// Implements rapt_embedding_bag, by map's kernels over blocks of columns that lie in L1. It checks its arguments, every
// index among them, before it writes anything.
#include <cstddef>
#include <cstdint>

#include "api/add_row.hpp"
#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/halves.hpp"
#include "api/matrix.hpp"
#include "api/read_options.hpp"
#include "call/element.hpp"

namespace rapt {
namespace {

struct EmbeddingBag {
  rapt_embedding_bag_options o = RAPT_EMBEDDING_BAG_OPTIONS_INIT;
  const std::int64_t *indices = nullptr;
  std::int64_t *max_rows = nullptr;
  Matrix w{}, y{};

  rapt_status read(const void *w_data, void *y_data, const rapt_embedding_bag_options *given) {
    if (!given) return RAPT_BAD_OPTIONS;
    const rapt_status status = read_options(given, o);
    if (status != RAPT_OK) return status;
    if (resolve_float_type(o.type) != RAPT_OK) return RAPT_BAD_TYPE;
    if (o.operation < RAPT_BAG_SUM || o.operation > RAPT_BAG_MAX) return RAPT_BAD_OPERATION;
    if (o.weights && o.operation != RAPT_BAG_SUM) return RAPT_BAD_WEIGHT;
    if (max_rows && o.operation != RAPT_BAG_MAX) return RAPT_BAD_ROWS;
    if (!set_stride(o.w_stride, o.cols) || !set_stride(o.y_stride, o.cols)) return RAPT_BAD_SIZE;
    w = {w_data, o.w_stride, o.rows, o.cols, size_of(o.type)};
    y = {y_data, o.y_stride, o.bags, o.cols, size_of(o.type)};
    if (!w.stride_fits()) return RAPT_BAD_W_STRIDES;
    if (!y.stride_fits()) return RAPT_BAD_Y_STRIDE;
    if (o.bags >= PTRDIFF_MAX / sizeof(std::size_t)) return RAPT_BAD_SIZE;
    if (o.bags == 0) return RAPT_OK;
    const rapt_status lists = check_lists();
    if (lists != RAPT_OK || o.cols == 0) return lists;
    if (!w_data && o.rows > 0) return RAPT_BAD_W;
    if (!y_data) return RAPT_BAD_Y;
    return check_overlap();
  }

  template <class E>
  void run() const {
    for (std::size_t b = 0; b < o.bags; ++b) {
      for_each_block(o.cols, [&](std::size_t first, std::size_t count) { reduce<E>(b, first, count); });
    }
  }

 private:
  std::size_t count_of_indices() const { return o.offsets[o.bags]; }

  rapt_status check_lists() const {
    if (!o.offsets || o.offsets[0] != 0) return RAPT_BAD_OFFSETS;
    for (std::size_t b = 0; b < o.bags; ++b) {
      if (o.offsets[b] > o.offsets[b + 1]) return RAPT_BAD_OFFSETS;
    }
    if (count_of_indices() > PTRDIFF_MAX / sizeof(std::int64_t)) return RAPT_BAD_SIZE;
    if (count_of_indices() > 0 && !indices) return RAPT_BAD_INDICES;
    for (std::size_t i = 0; i < count_of_indices(); ++i) {
      if (indices[i] < -1 || indices[i] >= static_cast<std::int64_t>(o.rows)) return RAPT_BAD_INDICES;
    }
    return RAPT_OK;
  }

  rapt_status check_overlap() const {
    const std::size_t number = number_size(o.type);
    const auto array = [](const void *data, std::size_t count, std::size_t size) {
      return Matrix{data, 0, 1, data ? count : 0, size};
    };
    const Matrix of_rows{max_rows, static_cast<std::ptrdiff_t>(o.cols), max_rows ? o.bags : 0, o.cols,
                         sizeof *max_rows};
    const Matrix reads[] = {w, array(indices, count_of_indices(), sizeof *indices),
                            array(o.offsets, o.bags + 1, sizeof *o.offsets),
                            array(o.weights, count_of_indices(), number)};
    std::size_t bytes;
    if (!y.extent(bytes) || !of_rows.extent(bytes)) return RAPT_BAD_SIZE;
    for (const Matrix &matrix : reads) {
      if (!matrix.extent(bytes)) return RAPT_BAD_SIZE;
    }
    for (const Matrix &matrix : reads) {
      if (overlap(matrix, y) != Overlap::none || overlap(matrix, of_rows) != Overlap::none)
        return RAPT_BAD_OVERLAP;
    }
    return overlap(of_rows, y) == Overlap::none ? RAPT_OK : RAPT_BAD_OVERLAP;
  }

  // Reduces `count` columns of a bag from `first` on.
  template <class E>
  void reduce(std::size_t bag, std::size_t first, std::size_t count) const {
    using A = Arithmetic<E>;
    alignas(64) A total[half_block], widened[half_block];
    std::int64_t *const from_rows = max_rows ? max_rows + bag * o.cols + first : nullptr;
    const bool is_max = o.operation == RAPT_BAG_MAX;
    std::size_t rows = 0;
    for (std::size_t c = 0; c < count; ++c) total[c] = 0;
    for (std::size_t c = 0; from_rows && c < count; ++c) from_rows[c] = -1;
    for (std::size_t i = o.offsets[bag]; i < o.offsets[bag + 1]; ++i) {
      if (indices[i] < 0) continue;
      const A *const x = row<E>(indices[i], first, count, widened);
      if (is_max) {
        take_larger(x, indices[i], rows == 0, total, from_rows, count);
      } else {
        add_row(total, x, o.weights ? static_cast<const A *>(o.weights) + i : nullptr, count);
      }
      ++rows;
    }
    if (o.operation == RAPT_BAG_MEAN && rows > 0) {
      for (std::size_t c = 0; c < count; ++c) total[c] = total[c] / static_cast<A>(rows);
    }
    E *const to = static_cast<E *>(const_cast<void *>(y.data)) +
                  static_cast<std::ptrdiff_t>(bag) * y.used_stride() + first;
    if constexpr (sizeof(E) == sizeof(A)) {
      for (std::size_t c = 0; c < count; ++c) to[c] = total[c];
    } else {
      narrow_elements<E>(total, to, count);
    }
  }

  // Returns columns of a row of w, in w itself or widened.
  template <class E, class A>
  const A *row(std::int64_t index, std::size_t first, std::size_t count, A *widened) const {
    const E *const x =
        static_cast<const E *>(w.data) + static_cast<std::ptrdiff_t>(index) * w.used_stride() + first;
    if constexpr (sizeof(E) == sizeof(A)) {
      return x;
    } else {
      widen_elements<E>(x, widened, count);
      return widened;
    }
  }

  // Selections instead of branches become vectors.
  template <class A>
  static void take_larger(const A *x, std::int64_t index, bool is_first, A *largest, std::int64_t *from_rows,
                          std::size_t count) {
    // A NaN equals nothing, not even itself.
    const auto takes = [&](std::size_t c) {
      return is_first | (x[c] > largest[c]) | ((x[c] != x[c]) & (largest[c] == largest[c]));
    };
    for (std::size_t c = 0; from_rows && c < count; ++c) from_rows[c] = takes(c) ? index : from_rows[c];
    for (std::size_t c = 0; c < count; ++c) largest[c] = takes(c) ? x[c] : largest[c];
  }
};

rapt_status embedding_bag(const void *w, const std::int64_t *indices, void *y, std::int64_t *max_rows,
                          const rapt_embedding_bag_options *options) {
  EmbeddingBag call;
  call.indices = indices, call.max_rows = max_rows;
  const rapt_status status = call.read(w, y, options);
  if (status != RAPT_OK || call.o.bags == 0 || call.o.cols == 0) return status;
  with_any_element(call.o.type, [&](auto element) { call.run<typename decltype(element)::type>(); });
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

rapt_status rapt_embedding_bag(const void *w, const int64_t *indices, void *y, int64_t *max_rows,
                               const rapt_embedding_bag_options *options) {
  return rapt::in_default_mode([&] { return rapt::embedding_bag(w, indices, y, max_rows, options); });
}
