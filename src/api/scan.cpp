// Implements rapt_scan. It checks its arguments before it writes anything.
#include "contract/scan.hpp"

#include <cstddef>
#include <cstring>

#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/halves.hpp"
#include "api/read_options.hpp"
#include "api/tensor.hpp"
#include "call/element.hpp"
#include "call/scan_call.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

// Scans the lines of a tensor along a dimension. Kernels take lines whose elements are of the arithmetic type, and
// either contiguous or next to those of other lines. Other lines are copied to L1.
template <class E>
class Lines {
  using A = Arithmetic<E>;
  static constexpr bool is_arithmetic = sizeof(E) == sizeof(A);
  static constexpr std::size_t side_by_side = 1024 / sizeof(A);  // lines at once
  // Groups whose elements are a multiple of this apart would share too few lines of L1. They are copied.
  static constexpr std::size_t crowded = 2048 / sizeof(E);

 public:
  Lines(const E *x, E *out, std::size_t n, std::ptrdiff_t x_step, std::ptrdiff_t out_step, bool is_product)
      : x_(x), out_(out), n_(n), x_step_(x_step), out_step_(out_step), is_product_(is_product) {}

  void scan(const Loops<2> &loops) const {
    const std::size_t last = loops.dims - 1;
    const bool are_neighbours = loops.dims > 0 && loops.strides[0][last] == 1 && loops.strides[1][last] == 1;
    over(loops, are_neighbours ? last : loops.dims, x_, out_,
         [&](const E *x, E *out) { are_neighbours ? neighbours(x, out, loops.shape[last]) : line(x, out); });
  }

 private:
  // Calls run(x, out) for each index of the first `dims` loops.
  template <class Run>
  static void over(const Loops<2> &loops, std::size_t dims, const E *x, E *out, Run run) {
    std::size_t index[RAPT_MAX_DIMS] = {};
    for (;;) {
      run(x, out);
      std::size_t d = dims;
      for (;; --d) {
        if (d == 0) return;
        if (++index[d - 1] < loops.shape[d - 1]) {
          x += loops.strides[0][d - 1];
          out += loops.strides[1][d - 1];
          break;
        }
        const auto back = static_cast<std::ptrdiff_t>(loops.shape[d - 1] - 1);
        index[d - 1] = 0;
        x -= loops.strides[0][d - 1] * back;
        out -= loops.strides[1][d - 1] * back;
      }
    }
  }

  void run_kernel(const void *x, std::ptrdiff_t x_step, void *y, std::ptrdiff_t y_step, std::size_t n,
                  std::size_t count, A *carry) const {
    const ScanCall call{x, y, carry, n, count, x_step, y_step, is_product_};
    kernels().of<A>().scan(&call);
  }
  void begin(A *carry, std::size_t count) const {
    for (std::size_t c = 0; c < count; ++c) carry[c] = is_product_ ? A(1) : -A(0);
  }

  void line(const E *x, E *out) const {
    A carry;
    begin(&carry, 1);
    if (is_arithmetic && x_step_ == 1 && out_step_ == 1) return run_kernel(x, 1, out, 1, n_, 1, &carry);
    static_assert(half_block % scan_group == 0);
    alignas(64) A copied[half_block];
    for_each_block(n_, [&](std::size_t first, std::size_t count) {
      const auto at = static_cast<std::ptrdiff_t>(first);
      copy(x + x_step_ * at, x_step_, copied, count);
      run_kernel(copied, 1, copied, 1, count, 1, &carry);
      copy_back(copied, out + out_step_ * at, out_step_, count);
    });
  }
  static void copy(const E *x, std::ptrdiff_t step, A *to, std::size_t count) {
    if (step == 1) {
      if constexpr (is_arithmetic) {
        std::memcpy(to, x, count * sizeof(A));
      } else {
        widen_elements<E>(x, to, count);
      }
      return;
    }
    for (std::size_t i = 0; i < count; ++i) to[i] = widened(x[step * static_cast<std::ptrdiff_t>(i)]);
  }
  static void copy_back(const A *from, E *out, std::ptrdiff_t step, std::size_t count) {
    if (step == 1) {
      if constexpr (is_arithmetic) {
        std::memcpy(out, from, count * sizeof(A));
      } else {
        narrow_elements<E>(from, out, count);
      }
      return;
    }
    for (std::size_t i = 0; i < count; ++i) out[step * static_cast<std::ptrdiff_t>(i)] = narrowed<E>(from[i]);
  }

  static bool is_crowded(std::ptrdiff_t step) { return static_cast<std::size_t>(step) % crowded == 0; }
  std::size_t rows_from(std::size_t first) const { return n_ - first < scan_group ? n_ - first : scan_group; }
  // Calls use(first, count) for blocks of neighbours.
  template <class Use>
  static void each_block(std::size_t count, Use use) {
    for (std::size_t c = 0; c < count; c += side_by_side)
      use(c, count - c < side_by_side ? count - c : side_by_side);
  }
  void neighbours(const E *x, E *out, std::size_t count) const {
    alignas(64) A carry[side_by_side];
    const bool is_direct = is_arithmetic && !is_crowded(x_step_) && !is_crowded(out_step_);
    if (is_direct && count <= side_by_side) {
      begin(carry, count);
      run_kernel(x, x_step_, out, out_step_, n_, count, carry);
    } else if (is_arithmetic) {
      // Memory is passed once, in whole rows. What is carried is the last row of out.
      for (std::size_t first = 0; first < n_; first += scan_group) {
        const auto at = static_cast<std::ptrdiff_t>(first);
        each_block(count, [&](std::size_t c, std::size_t width) {
          begin(carry, width);
          if (first > 0) copy(out + c + out_step_ * (at - 1), 1, carry, width);
          if (!is_direct) return group(x + c, out + c, first, width, carry);
          run_kernel(x + c + x_step_ * at, x_step_, out + c + out_step_ * at, out_step_, rows_from(first),
                     width, carry);
        });
      }
    } else {
      each_block(count, [&](std::size_t c, std::size_t width) {
        begin(carry, width);
        for (std::size_t first = 0; first < n_; first += scan_group)
          group(x + c, out + c, first, width, carry);
      });
    }
  }
  // Scans a group of each of some neighbours in a copy.
  void group(const E *x, E *out, std::size_t first, std::size_t count, A *carry) const {
    alignas(64) A copied[scan_group * side_by_side];
    constexpr auto step = static_cast<std::ptrdiff_t>(side_by_side);
    const std::size_t rows = rows_from(first);
    const auto row = [first](std::size_t r) { return static_cast<std::ptrdiff_t>(first + r); };
    for (std::size_t r = 0; r < rows; ++r) copy(x + x_step_ * row(r), 1, copied + r * side_by_side, count);
    run_kernel(copied, step, copied, step, rows, count, carry);
    for (std::size_t r = 0; r < rows; ++r)
      copy_back(copied + r * side_by_side, out + out_step_ * row(r), 1, count);
  }

  const E *const x_;
  E *const out_;
  const std::size_t n_;
  const std::ptrdiff_t x_step_, out_step_;
  const bool is_product_;
};

struct Scan {
  rapt_scan_options o = RAPT_SCAN_OPTIONS_INIT;
  Tensor x{}, out{};
  bool is_empty = false;

  rapt_status read(const void *x_data, void *out_data, const rapt_scan_options *given) {
    if (!given) return RAPT_BAD_OPTIONS;
    const rapt_status status = read_options(given, o);
    if (status != RAPT_OK) return status;
    if (o.operation != RAPT_SUM && o.operation != RAPT_PRODUCT) return RAPT_BAD_OPERATION;
    if (resolve_float_type(o.type) != RAPT_OK) return RAPT_BAD_TYPE;
    if (o.dims == 0 || o.dims > RAPT_MAX_DIMS) return RAPT_BAD_DIMS;
    if (o.axis >= o.dims) return RAPT_BAD_AXIS;
    const std::size_t size = size_of(o.type);
    rapt_status bad = x.read(x_data, size, o.dims, o.shape, o.x_strides, Repeats::yes, RAPT_BAD_X_STRIDES);
    if (bad == RAPT_OK)
      bad = out.read(out_data, size, o.dims, o.shape, o.out_strides, Repeats::no, RAPT_BAD_OUT_STRIDES);
    if (bad != RAPT_OK) return bad;
    for (std::size_t d = 0; d < o.dims; ++d) is_empty = is_empty || o.shape[d] == 0;
    if (is_empty) return RAPT_OK;
    if (!out.elements_are_apart()) return RAPT_BAD_OUT_STRIDES;
    if (!x_data) return RAPT_BAD_X;
    if (!out_data) return RAPT_BAD_OUT;
    return x.overlaps(out) && !x.is_exactly(out) ? RAPT_BAD_OVERLAP : RAPT_OK;
  }

  // The other dimensions, of which the one with the smallest stride of out is innermost.
  Loops<2> loops() const {
    std::size_t order[RAPT_MAX_DIMS], count = 0;
    for (std::size_t d = 0; d < o.dims; ++d) {
      if (d == o.axis || o.shape[d] == 1) continue;
      std::size_t at = count++;
      for (; at > 0 && out.strides[order[at - 1]] < out.strides[d]; --at) order[at] = order[at - 1];
      order[at] = d;
    }
    Loops<2> made;
    for (std::size_t i = 0; i < count; ++i)
      made.add(o.shape[order[i]], {x.strides[order[i]], out.strides[order[i]]});
    return made;
  }
};

rapt_status scan(const void *x, void *out, const rapt_scan_options *options) {
  Scan call;
  const rapt_status status = call.read(x, out, options);
  if (status != RAPT_OK || call.is_empty) return status;
  const std::size_t axis = call.o.axis;
  with_any_element(call.o.type, [&](auto element) {
    using E = typename decltype(element)::type;
    Lines<E>(static_cast<const E *>(x), static_cast<E *>(out), call.o.shape[axis], call.x.strides[axis],
             call.out.strides[axis], call.o.operation == RAPT_PRODUCT)
        .scan(call.loops());
  });
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

rapt_status rapt_scan(const void *x, void *out, const rapt_scan_options *options) {
  return rapt::in_default_mode([&] { return rapt::scan(x, out, options); });
}
