// Implements gated and its gradient. Each call checks its arguments before it writes anything.
#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/halves.hpp"
#include "api/matrix.hpp"
#include "api/read_options.hpp"
#include "call/element.hpp"
#include "contract/activation_list.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

// Holds the options with every default filled in, and what both calls check.
struct GatedRows {
  rapt_gated_options options = RAPT_GATED_OPTIONS_INIT;
  rapt_activation activation = RAPT_SILU;
  std::size_t element_size = 0;

  bool any_work() const { return options.rows > 0 && options.cols > 0; }
  Matrix matrix(const void *data, std::ptrdiff_t stride) const {
    return {data, stride, options.rows, options.cols, element_size};
  }

  rapt_status read(const rapt_gated_options *given) {
    if (!given) return RAPT_BAD_OPTIONS;
    const rapt_status status = read_options(given, options);
    if (status != RAPT_OK) return status;
    if (resolve_float_type(options.type) != RAPT_OK) return RAPT_BAD_TYPE;
    element_size = size_of(options.type);
    if (options.activation < 0 || static_cast<std::size_t>(options.activation) >= activation_count) {
      return RAPT_BAD_ACTIVATION;
    }
    activation = static_cast<rapt_activation>(options.activation);
    for (std::ptrdiff_t *stride : {&options.gate_stride, &options.up_stride, &options.y_stride}) {
      if (*stride == 0 && options.rows > 1 && options.cols > std::size_t{PTRDIFF_MAX}) return RAPT_BAD_SIZE;
      if (*stride == 0) *stride = static_cast<std::ptrdiff_t>(options.cols);
    }
    if (!matrix(nullptr, options.gate_stride).stride_fits()) return RAPT_BAD_GATE_STRIDE;
    if (!matrix(nullptr, options.up_stride).stride_fits()) return RAPT_BAD_UP_STRIDE;
    if (!matrix(nullptr, options.y_stride).stride_fits()) return RAPT_BAD_Y_STRIDE;
    std::size_t bytes;
    for (const std::ptrdiff_t stride : {options.gate_stride, options.up_stride, options.y_stride}) {
      if (!matrix(nullptr, stride).extent(bytes)) return RAPT_BAD_SIZE;
    }
    return RAPT_OK;
  }

  // Calls row(gate, up, y) with the offsets of each row.
  template <class Row>
  void for_each_row(Row row) const {
    const auto step = [&](std::ptrdiff_t stride) { return matrix(nullptr, stride).used_stride(); };
    const std::ptrdiff_t gate = step(options.gate_stride), up = step(options.up_stride),
                         y = step(options.y_stride);
    for (std::ptrdiff_t r = 0; r < static_cast<std::ptrdiff_t>(options.rows); ++r)
      row(r * gate, r * up, r * y);
  }
};

template <class E>
void run_gated(const GatedRows &rows, const void *gate, const void *up, void *y) {
  const auto kernel = kernels().of<E>().gated;
  rows.for_each_row([&](std::ptrdiff_t gate_at, std::ptrdiff_t up_at, std::ptrdiff_t y_at) {
    kernel(static_cast<const E *>(gate) + gate_at, static_cast<const E *>(up) + up_at,
           static_cast<E *>(y) + y_at, rows.options.cols, rows.activation);
  });
}

rapt_status gated(const void *gate, const void *up, void *y, const rapt_gated_options *options) {
  GatedRows rows;
  const rapt_status status = rows.read(options);
  if (status != RAPT_OK) return status;
  if (!rows.any_work()) return RAPT_OK;
  if (!gate) return RAPT_BAD_GATE;
  if (!up) return RAPT_BAD_UP;
  if (!y) return RAPT_BAD_Y;
  const Matrix result = rows.matrix(y, rows.options.y_stride);
  if (overlap(rows.matrix(gate, rows.options.gate_stride), result) == Overlap::partial ||
      overlap(rows.matrix(up, rows.options.up_stride), result) == Overlap::partial) {
    return RAPT_BAD_OVERLAP;
  }
  with_any_element(rows.options.type,
                   [&](auto element) { run_gated<typename decltype(element)::type>(rows, gate, up, y); });
  return RAPT_OK;
}

// Runs f32's kernel on blocks of 16-bit elements.
template <class E>
void gated_backward_of_halves(const E *gate, const E *up, const E *dy, E *dgate, E *dup, std::size_t n,
                              rapt_activation activation) {
  alignas(64) float of_gate[half_block], of_up[half_block], of_dy[half_block];
  for_each_block(n, [&](std::size_t i, std::size_t k) {
    widen_elements<E>(gate + i, of_gate, k);
    widen_elements<E>(up + i, of_up, k);
    widen_elements<E>(dy + i, of_dy, k);
    kernels().f32.gated_backward(of_gate, of_up, of_dy, of_gate, of_up, k, activation);
    narrow_elements<E>(of_gate, dgate + i, k);
    narrow_elements<E>(of_up, dup + i, k);
  });
}

template <class E>
void run_backward(const GatedRows &rows, const void *gate, const void *up, const void *dy, void *dgate,
                  void *dup) {
  auto kernel = kernels().of<E>().gated_backward;
  if constexpr (sizeof(E) == 2) kernel = gated_backward_of_halves<E>;
  rows.for_each_row([&](std::ptrdiff_t gate_at, std::ptrdiff_t up_at, std::ptrdiff_t y_at) {
    kernel(static_cast<const E *>(gate) + gate_at, static_cast<const E *>(up) + up_at,
           static_cast<const E *>(dy) + y_at, static_cast<E *>(dgate) + gate_at,
           static_cast<E *>(dup) + up_at, rows.options.cols, rows.activation);
  });
}

rapt_status gated_backward(const void *gate, const void *up, const void *dy, void *dgate, void *dup,
                           const rapt_gated_options *options) {
  GatedRows rows;
  const rapt_status status = rows.read(options);
  if (status != RAPT_OK) return status;
  if (!rows.any_work()) return RAPT_OK;
  if (!gate || !dgate) return RAPT_BAD_GATE;
  if (!up || !dup) return RAPT_BAD_UP;
  if (!dy) return RAPT_BAD_DY;
  const Matrix of_gate = rows.matrix(gate, rows.options.gate_stride),
               of_up = rows.matrix(up, rows.options.up_stride),
               of_dy = rows.matrix(dy, rows.options.y_stride),
               to_gate = rows.matrix(dgate, rows.options.gate_stride),
               to_up = rows.matrix(dup, rows.options.up_stride);
  if (overlap(of_gate, to_gate) == Overlap::partial || overlap(of_up, to_up) == Overlap::partial ||
      overlap(of_up, to_gate) != Overlap::none || overlap(of_gate, to_up) != Overlap::none ||
      overlap(of_dy, to_gate) != Overlap::none || overlap(of_dy, to_up) != Overlap::none ||
      overlap(to_gate, to_up) != Overlap::none) {
    return RAPT_BAD_OVERLAP;
  }
  with_any_element(rows.options.type, [&](auto element) {
    run_backward<typename decltype(element)::type>(rows, gate, up, dy, dgate, dup);
  });
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

rapt_status rapt_gated(const void *gate, const void *up, void *y, const rapt_gated_options *options) {
  return rapt::in_default_mode([&] { return rapt::gated(gate, up, y, options); });
}

rapt_status rapt_gated_backward(const void *gate, const void *up, const void *dy, void *dgate, void *dup,
                                const rapt_gated_options *options) {
  return rapt::in_default_mode([&] { return rapt::gated_backward(gate, up, dy, dgate, dup, options); });
}
