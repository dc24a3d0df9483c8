// Implements rapt_triangular_solve. It checks its arguments before it writes anything.
#include <cstddef>
#include <cstring>

#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/matrix.hpp"
#include "api/read_options.hpp"
#include "call/element.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

struct TriangularSolve {
  rapt_triangular_solve_options o = RAPT_TRIANGULAR_SOLVE_OPTIONS_INIT;
  Matrix a{}, b{}, x{};  // of one problem of the batch

  bool is_empty() const { return o.batch == 0 || o.n == 0 || o.cols == 0; }

  rapt_status read(const void *a_data, const void *b_data, void *x_data,
                   const rapt_triangular_solve_options *given) {
    if (!given) return RAPT_BAD_OPTIONS;
    const rapt_status status = read_options(given, o);
    if (status != RAPT_OK) return status;
    const int type = number_of(o.type);
    if (type != RAPT_TYPE_DEFAULT && type != RAPT_F32 && type != RAPT_F64) return RAPT_BAD_TYPE;
    if (type == RAPT_TYPE_DEFAULT) o.type = RAPT_F32;
    const std::size_t size = size_of(o.type);
    if (!set_stride(o.a_stride, o.n) || !set_stride(o.b_stride, o.cols) || !set_stride(o.x_stride, o.cols))
      return RAPT_BAD_SIZE;
    a = {a_data, o.a_stride, o.n, o.n, size};
    b = {b_data, o.b_stride, o.n, o.cols, size};
    x = {x_data, o.x_stride, o.n, o.cols, size};
    if (!a.stride_fits()) return RAPT_BAD_A_STRIDE;
    if (!b.stride_fits()) return RAPT_BAD_B_STRIDE;
    if (!x.stride_fits()) return RAPT_BAD_X_STRIDE;
    Matrix whole[3] = {a, b, x};
    std::ptrdiff_t *const batch_strides[] = {&o.a_batch_stride, &o.b_batch_stride, &o.x_batch_stride};
    for (std::size_t i = 0; i < 3; ++i) {
      std::size_t bytes;
      if (!whole[i].extent(bytes)) return RAPT_BAD_SIZE;
      std::ptrdiff_t &between = *batch_strides[i];
      if (between == 0) between = whole[i].stride * static_cast<std::ptrdiff_t>(o.n);
      const std::size_t length = bytes / size;
      // All problems of the batch are one matrix whose rows are problems.
      whole[i] = {whole[i].data, between, o.batch, length, size};
      if (!whole[i].stride_fits()) return RAPT_BAD_BATCH_STRIDE;
      if (!whole[i].extent(bytes)) return RAPT_BAD_SIZE;
    }
    if (is_empty()) return RAPT_OK;
    if (!a_data) return RAPT_BAD_A;
    if (!b_data) return RAPT_BAD_B;
    if (!x_data) return RAPT_BAD_X;
    if (overlap(whole[0], whole[2]) != Overlap::none) return RAPT_BAD_OVERLAP;
    const bool is_in_place = b_data == x_data && b.used_stride() == x.used_stride() &&
                             (o.batch == 1 || o.b_batch_stride == o.x_batch_stride);
    if (!is_in_place && overlap(whole[1], whole[2]) != Overlap::none) return RAPT_BAD_OVERLAP;
    return RAPT_OK;
  }

  template <class A>
  void run() const {
    for (std::size_t i = 0; i < o.batch; ++i) {
      const auto problem = static_cast<std::ptrdiff_t>(i);
      const A *const of_a = static_cast<const A *>(a.data) + problem * o.a_batch_stride;
      const A *const of_b = static_cast<const A *>(b.data) + problem * o.b_batch_stride;
      A *const of_x = static_cast<A *>(const_cast<void *>(x.data)) + problem * o.x_batch_stride;
      for (std::size_t col = 0; col < o.cols; col += block)
        solve(of_a, of_b + col, of_x + col, o.cols - col < block ? o.cols - col : block);
    }
  }

 private:
  static constexpr std::size_t block = 256;  // 64 rows of it lie in L2

  // Solves for some columns. A lane is a column, and columns do not depend on each other.
  template <class A>
  void solve(const A *of_a, const A *of_b, A *of_x, std::size_t cols) const {
    const auto map = kernels().of<A>().map;
    A divisors[block];
    for (std::size_t step = 0; step < o.n; ++step) {
      const std::size_t row = o.upper ? o.n - 1 - step : step;
      const A *const factors = of_a + static_cast<std::ptrdiff_t>(row) * a.used_stride();
      const A *const from = of_b + static_cast<std::ptrdiff_t>(row) * b.used_stride();
      A *const to = of_x + static_cast<std::ptrdiff_t>(row) * x.used_stride();
      if (to != from) std::memcpy(to, from, cols * sizeof(A));
      for (std::size_t before = 0; before < step; ++before) {
        const std::size_t solved = o.upper ? o.n - 1 - before : before;
        const A parameters[3] = {-factors[solved]};
        map(RAPT_MAP_ADD_SCALED, to, of_x + static_cast<std::ptrdiff_t>(solved) * x.used_stride(), nullptr,
            to, parameters, cols);
      }
      if (o.unit_diagonal) continue;
      for (std::size_t i = 0; i < cols; ++i) divisors[i] = factors[row];
      map(RAPT_MAP_DIVIDE, to, divisors, nullptr, to, divisors, cols);
    }
  }
};

rapt_status triangular_solve(const void *a, const void *b, void *x,
                             const rapt_triangular_solve_options *options) {
  TriangularSolve call;
  const rapt_status status = call.read(a, b, x, options);
  if (status != RAPT_OK || call.is_empty()) return status;
  if (call.o.type == RAPT_F64) {
    call.run<double>();
  } else {
    call.run<float>();
  }
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

rapt_status rapt_triangular_solve(const void *a, const void *b, void *x,
                                  const rapt_triangular_solve_options *options) {
  return rapt::in_default_mode([&] { return rapt::triangular_solve(a, b, x, options); });
}
