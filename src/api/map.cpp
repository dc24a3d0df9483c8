// Implements rapt_map. It checks its arguments before it writes anything, and hands the kernels contiguous arrays of
// the arithmetic type: the caller's own, or blocks that lie in L1.
#include <cmath>

#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/read_options.hpp"
#include "api/tensor.hpp"
#include "call/element.hpp"
#include "contract/map_list.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

constexpr std::size_t most_inputs = 3, arrays = most_inputs + 1;  // the last array is the output

struct MapCall {
  rapt_map_options options = RAPT_MAP_OPTIONS_INIT;
  MapFunction function{};
  bool is_empty = false;
  Tensor tensors[arrays];

  const Tensor &out() const { return tensors[most_inputs]; }

  rapt_status read(const void *x, const void *y, const void *z, void *out, const rapt_map_options *given) {
    if (!given) return RAPT_BAD_OPTIONS;
    rapt_status status = read_options(given, options);
    if (status != RAPT_OK) return status;
    const int number = options.function;
    if (number < 1 || static_cast<std::size_t>(number) > map_function_count) return RAPT_BAD_FUNCTION;
    function = map_functions[number - 1];
    if (resolve_float_type(options.type) != RAPT_OK) return RAPT_BAD_TYPE;
    if (options.dims == 0 || options.dims > RAPT_MAX_DIMS) return RAPT_BAD_DIMS;
    for (std::size_t d = 0; d < options.dims; ++d) is_empty = is_empty || options.shape[d] == 0;
    if ((y && function.inputs < 2) || (z && function.inputs < 3)) return RAPT_BAD_INPUTS;
    const void *const data[] = {x, y, z, out};
    const std::ptrdiff_t *const strides[] = {options.x_strides, options.y_strides, options.z_strides,
                                             options.out_strides};
    constexpr rapt_status bad[] = {RAPT_BAD_X_STRIDES, RAPT_BAD_Y_STRIDES, RAPT_BAD_Z_STRIDES,
                                   RAPT_BAD_OUT_STRIDES};
    for (std::size_t i = 0; i < arrays; ++i) {
      if (i < most_inputs && i >= function.inputs) {
        for (std::size_t d = 0; d < options.dims; ++d) {
          if (strides[i][d] != 0) return bad[i];
        }
        continue;
      }
      status = tensors[i].read(data[i], size_of(options.type), options.dims, options.shape, strides[i],
                               i < most_inputs ? Repeats::yes : Repeats::no, bad[i]);
      if (status != RAPT_OK) return status;
    }
    if (!is_empty && !this->out().elements_are_apart()) return RAPT_BAD_OUT_STRIDES;
    status = read_parameters();
    if (status != RAPT_OK || is_empty) return status;
    if (!x) return RAPT_BAD_X;
    if ((!y && function.inputs > 1) || (!z && function.inputs > 2)) return RAPT_BAD_INPUTS;
    if (!out) return RAPT_BAD_OUT;
    for (std::size_t i = 0; i < function.inputs; ++i) {
      if (tensors[i].overlaps(this->out()) && !tensors[i].is_exactly(this->out())) return RAPT_BAD_OVERLAP;
    }
    return RAPT_OK;
  }

 private:
  rapt_status read_parameters() {
    double *const parameters[] = {&options.alpha, &options.beta, &options.gamma};
    for (std::size_t i = 0; i < 3; ++i) {
      double &value = *parameters[i];
      if (i >= function.parameters ? value != 0 || std::isnan(value) : std::isnan(value))
        return RAPT_BAD_PARAMETERS;
      if (options.type != RAPT_F64 && std::isfinite(value) && !std::isfinite(static_cast<float>(value))) {
        return RAPT_BAD_PARAMETERS;
      }
    }
    const auto by_default = [](double &value, double number) {
      if (value == 0) value = number;
    };
    switch (function.number) {
      case RAPT_MAP_SOFTPLUS:
      case RAPT_MAP_SOFTPLUS_BACKWARD:
        by_default(options.alpha, 1);
        by_default(options.beta, 20);
        break;
      case RAPT_MAP_ELU:
      case RAPT_MAP_ELU_BACKWARD:
        for (double *parameter : parameters) by_default(*parameter, 1);
        break;
      default:
        break;
    }
    return RAPT_OK;
  }
};

template <class A>
void run_kernel(const MapFunction &function, const A *const (&from)[most_inputs], A *out, const A *parameters,
                std::size_t n) {
  const Operations<A> &table = kernels().of<A>();
  if (!function.has_kernel) {
    return table.map(function.number, from[0], from[1], from[2], out, parameters, n);
  }
  switch (static_cast<int>(function.number)) {
#define MAP(name, Class, number, inputs, parameter_count)
#define MAP_OF_KERNEL(kernel, number, inputs)        \
  case number:                                       \
    if constexpr (inputs == 1) {                     \
      return table.kernel(from[0], out, n);          \
    } else {                                         \
      return table.kernel(from[0], from[1], out, n); \
    }
#include "contract/maps.def"
    default:
      __builtin_unreachable();
  }
}

// Runs over the elements in blocks, of one row of the innermost loop, or of many short rows.
template <class E>
class MapRun {
  using A = Arithmetic<E>;
  static constexpr std::size_t block = 512, short_row = 64;

 public:
  explicit MapRun(const MapCall &call) : call_(call) {
    const double parameters[] = {call.options.alpha, call.options.beta, call.options.gamma};
    for (std::size_t i = 0; i < 3; ++i) parameters_[i] = static_cast<A>(parameters[i]);
    // The dimension with the smallest stride of the output is innermost.
    std::size_t order[RAPT_MAX_DIMS];
    const std::size_t dims = call.options.dims;
    for (std::size_t d = 0; d < dims; ++d) {
      std::size_t at = d;
      for (; at > 0 && call.out().strides[order[at - 1]] < call.out().strides[d]; --at)
        order[at] = order[at - 1];
      order[at] = d;
    }
    for (std::size_t i = 0; i < dims; ++i) {
      std::ptrdiff_t steps[arrays];
      for (std::size_t a = 0; a < arrays; ++a) steps[a] = call.tensors[a].strides[order[i]];
      loops_.add(call.options.shape[order[i]], steps);
    }
    if (loops_.dims == 0) {
      constexpr std::ptrdiff_t steps[arrays] = {};
      loops_.shape[0] = 1;
      for (std::size_t a = 0; a < arrays; ++a) loops_.strides[a][0] = steps[a];
      loops_.dims = 1;
    }
    cols_ = loops_.shape[loops_.dims - 1];
    rows_ = 1;
    for (std::size_t d = 0; d + 1 < loops_.dims; ++d) rows_ *= loops_.shape[d];
    for (std::size_t a = 0; a < arrays; ++a) {
      step_[a] = loops_.strides[a][loops_.dims - 1];
      is_direct_[a] = sizeof(E) == sizeof(A) && (step_[a] == 1 || cols_ == 1);
    }
  }

  void run() {
    if (cols_ >= short_row) {
      for (std::size_t row = 0; row < rows_; ++row) {
        next_row(0);
        bool all_direct = true;
        for (std::size_t a = 0; a < arrays; ++a) all_direct = all_direct && (is_direct_[a] || is_unused(a));
        const std::size_t most = all_direct ? cols_ : block;
        for (std::size_t col = 0; col < cols_; col += most)
          run_block(1, col, cols_ - col < most ? cols_ - col : most);
      }
      return;
    }
    const std::size_t rows_at_once = block / cols_;
    for (std::size_t row = 0; row < rows_; row += rows_at_once) {
      const std::size_t count = rows_ - row < rows_at_once ? rows_ - row : rows_at_once;
      for (std::size_t r = 0; r < count; ++r) next_row(r);
      run_block(count, 0, cols_);
    }
  }

 private:
  bool is_unused(std::size_t a) const { return a >= call_.function.inputs && a < most_inputs; }

  // Stores the offsets of the current row as the r-th of a block, and goes on to the next.
  void next_row(std::size_t r) {
    for (std::size_t a = 0; a < arrays; ++a) offsets_[a][r] = offset_[a];
    for (std::size_t d = loops_.dims - 1; d-- > 0;) {
      for (std::size_t a = 0; a < arrays; ++a) offset_[a] += loops_.strides[a][d];
      if (++index_[d] < loops_.shape[d]) return;
      index_[d] = 0;
      for (std::size_t a = 0; a < arrays; ++a) {
        offset_[a] -= loops_.strides[a][d] * static_cast<std::ptrdiff_t>(loops_.shape[d]);
      }
    }
  }

  const E *element(std::size_t a, std::size_t row, std::size_t col) const {
    return static_cast<const E *>(call_.tensors[a].data) + offsets_[a][row] +
           static_cast<std::ptrdiff_t>(col) * step_[a];
  }

  // Runs `rows` rows of the block, of the columns from `col` on.
  void run_block(std::size_t rows, std::size_t col, std::size_t cols) {
    const A *from[most_inputs] = {};
    for (std::size_t a = 0; a < call_.function.inputs; ++a) {
      if (rows == 1 && is_direct_[a]) {
        from[a] = reinterpret_cast<const A *>(element(a, 0, col));
      } else {
        for (std::size_t r = 0; r < rows; ++r) gather(a, r, col, cols, blocks_[a] + r * cols);
        from[a] = blocks_[a];
      }
    }
    const bool is_direct = rows == 1 && is_direct_[most_inputs];
    A *const to = is_direct ? reinterpret_cast<A *>(const_cast<E *>(element(most_inputs, 0, col)))
                            : blocks_[most_inputs];
    run_kernel(call_.function, from, to, parameters_, rows * cols);
    if (is_direct) return;
    for (std::size_t r = 0; r < rows; ++r) scatter(r, col, cols, to + r * cols);
  }

  void gather(std::size_t a, std::size_t row, std::size_t col, std::size_t cols, A *to) const {
    const E *p = element(a, row, col);
    const std::ptrdiff_t step = step_[a];
    if constexpr (sizeof(E) < sizeof(A)) {
      if (step == 1 && cols >= short_row) return kernels().of<E>().widen(p, to, cols);
    }
    if (step == 0) {
      const A value = widened(*p);
      for (std::size_t i = 0; i < cols; ++i) to[i] = value;
      return;
    }
    for (std::size_t i = 0; i < cols; ++i) to[i] = widened(p[static_cast<std::ptrdiff_t>(i) * step]);
  }
  void scatter(std::size_t row, std::size_t col, std::size_t cols, const A *from) const {
    E *const p = const_cast<E *>(element(most_inputs, row, col));
    const std::ptrdiff_t step = step_[most_inputs];
    if constexpr (sizeof(E) < sizeof(A)) {
      if (step == 1 && cols >= short_row) return kernels().of<E>().narrow(from, p, cols);
    }
    for (std::size_t i = 0; i < cols; ++i) p[static_cast<std::ptrdiff_t>(i) * step] = narrowed<E>(from[i]);
  }

  const MapCall &call_;
  Loops<arrays> loops_;
  std::size_t cols_ = 0, rows_ = 0, index_[RAPT_MAX_DIMS] = {};
  std::ptrdiff_t step_[arrays], offset_[arrays] = {};
  bool is_direct_[arrays];
  A parameters_[3];
  std::ptrdiff_t offsets_[arrays][block];
  alignas(64) A blocks_[arrays][block];
};

rapt_status map(const void *x, const void *y, const void *z, void *out, const rapt_map_options *options) {
  MapCall call;
  const rapt_status status = call.read(x, y, z, out, options);
  if (status != RAPT_OK || call.is_empty) return status;
  with_any_element(call.options.type,
                   [&](auto element) { MapRun<typename decltype(element)::type>(call).run(); });
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

rapt_status rapt_map(const void *x, const void *y, const void *z, void *out,
                     const rapt_map_options *options) {
  return rapt::in_default_mode([&] { return rapt::map(x, y, z, out, options); });
}
