// Implements rapt_index_add. It checks its arguments, every index among them, before it writes anything.
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

struct IndexAdd {
  rapt_index_add_options o = RAPT_INDEX_ADD_OPTIONS_INIT;
  Matrix x{}, out{};

  rapt_status read(const void *x_data, void *out_data, const rapt_index_add_options *given) {
    if (!given) return RAPT_BAD_OPTIONS;
    const rapt_status status = read_options(given, o);
    if (status != RAPT_OK) return status;
    if (resolve_float_type(o.type) != RAPT_OK) return RAPT_BAD_TYPE;
    if (!set_stride(o.x_stride, o.cols) || !set_stride(o.out_stride, o.cols)) return RAPT_BAD_SIZE;
    x = {x_data, o.x_stride, o.rows, o.cols, size_of(o.type)};
    out = {out_data, o.out_stride, o.out_rows, o.cols, size_of(o.type)};
    if (!x.stride_fits()) return RAPT_BAD_X_STRIDE;
    if (!out.stride_fits()) return RAPT_BAD_OUT_STRIDE;
    const Matrix indices{o.indices, 0, 1, o.rows, sizeof *o.indices};
    std::size_t bytes;
    if (!x.extent(bytes) || !out.extent(bytes) || !indices.extent(bytes)) return RAPT_BAD_SIZE;
    if (o.rows == 0) return RAPT_OK;
    if (!o.indices) return RAPT_BAD_INDICES;
    for (std::size_t i = 0; i < o.rows; ++i) {
      if (o.indices[i] < -1 || o.indices[i] >= static_cast<std::int64_t>(o.out_rows)) return RAPT_BAD_INDICES;
    }
    if (o.cols == 0 || o.out_rows == 0) return RAPT_OK;
    if (!x_data) return RAPT_BAD_X;
    if (!out_data) return RAPT_BAD_OUT;
    if (overlap(x, out) != Overlap::none || overlap(indices, out) != Overlap::none) return RAPT_BAD_OVERLAP;
    return RAPT_OK;
  }

  template <class E>
  void run() const {
    using A = Arithmetic<E>;
    for (std::size_t i = 0; i < o.rows; ++i) {
      if (o.indices[i] < 0) continue;
      const E *const from = static_cast<const E *>(x.data) + static_cast<std::ptrdiff_t>(i) * x.used_stride();
      E *const to = static_cast<E *>(const_cast<void *>(out.data)) +
                    static_cast<std::ptrdiff_t>(o.indices[i]) * out.used_stride();
      if constexpr (sizeof(E) == sizeof(A)) {
        add_row<A>(to, from, nullptr, o.cols);
      } else {
        for_each_block(o.cols, [&](std::size_t first, std::size_t count) {
          alignas(64) float sum[half_block], term[half_block];
          widen_elements<E>(to + first, sum, count);
          widen_elements<E>(from + first, term, count);
          add_row<A>(sum, term, nullptr, count);
          narrow_elements<E>(sum, to + first, count);
        });
      }
    }
  }
};

rapt_status index_add(const void *x, void *out, const rapt_index_add_options *options) {
  IndexAdd call;
  const rapt_status status = call.read(x, out, options);
  if (status != RAPT_OK || call.o.cols == 0 || call.o.out_rows == 0) return status;
  with_any_element(call.o.type, [&](auto element) { call.run<typename decltype(element)::type>(); });
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

rapt_status rapt_index_add(const void *x, void *out, const rapt_index_add_options *options) {
  return rapt::in_default_mode([&] { return rapt::index_add(x, out, options); });
}
