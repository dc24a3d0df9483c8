// Implements rapt_linear_batch and its companions: rapt_linear's kernels, product by product.
#include <cstddef>
#include <cstdint>

#include "api/floating_point.hpp"
#include "api/linear_options.hpp"
#include "api/read_options.hpp"
#include "api/tasks.hpp"
#include "api/tensor.hpp"
#include "call/element.hpp"
#include "call/linear_call.hpp"

namespace rapt {
namespace {

// An array that has a matrix for each index of the batch. It points into itself, so it is never copied.
struct BatchArray {
  Tensor tensor;
  std::size_t sizes[RAPT_MAX_DIMS];

  BatchArray() = default;
  BatchArray(const BatchArray &) = delete;

  struct Matrices {
    std::size_t rows, columns, element_size;
    rapt_matrix_strides strides;  // of kernels: 0 repeats

    // Returns whether a matrix has no gaps, in the order of its rows or of its columns.
    bool are_dense() const {
      const auto are = [&](std::size_t row, std::size_t column) {
        return (rows <= 1 || static_cast<std::size_t>(strides.row) == row) &&
               (columns <= 1 || static_cast<std::size_t>(strides.column) == column);
      };
      return are(columns, 1) || are(1, rows);
    }
  };
  rapt_status read(const Matrices &of, std::size_t dims, const std::size_t *shape,
                   const std::ptrdiff_t *given, Repeats repeats, rapt_status bad) {
    std::ptrdiff_t strides[RAPT_MAX_DIMS];
    bool has_none = true;
    for (std::size_t d = 0; d < dims; ++d) {
      sizes[d] = shape[d], strides[d] = given[d];
      has_none = has_none && given[d] == 0;
    }
    const std::size_t last[] = {of.rows, of.columns};
    const std::ptrdiff_t steps[] = {of.strides.row, of.strides.column};
    for (std::size_t i = 0; i < 2; ++i) {
      sizes[dims + i] = last[i];
      strides[dims + i] = steps[i] != 0 ? steps[i] : last[i] > 1 ? RAPT_REPEAT : 1;
    }
    std::size_t elements = of.rows * of.columns;
    for (std::size_t d = dims; d-- > 0 && has_none && of.are_dense();) {
      if (elements > std::size_t{PTRDIFF_MAX}) return RAPT_BAD_SIZE;
      strides[d] = static_cast<std::ptrdiff_t>(elements);
      if (__builtin_mul_overflow(elements, shape[d], &elements)) return RAPT_BAD_SIZE;
    }
    return tensor.read(nullptr, of.element_size, dims + 2, sizes, strides, repeats, bad);
  }
};

// Options that have been read, and what follows from them.
struct Batch {
  rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
  rapt_linear_batch_options batch = RAPT_LINEAR_BATCH_OPTIONS_INIT;
  enum { of_x, of_w, of_y, of_add, of_bias, arrays };
  BatchArray array[arrays];
  std::size_t dims = 0, shape[RAPT_MAX_BATCH_DIMS];
  std::ptrdiff_t steps[arrays][RAPT_MAX_BATCH_DIMS];  // in bytes
  std::size_t products = 0, tasks_of_product = 0;

  std::size_t tasks() const { return products * tasks_of_product; }
  std::size_t workspace() const { return workspace_bytes(o); }
  const Tensor &y() const { return array[of_y].tensor; }

  rapt_status read(const rapt_linear_options *options, const rapt_linear_batch_options *given) {
    if (!options || !given) return RAPT_BAD_OPTIONS;
    rapt_status status = read_options(options, o);
    if (status == RAPT_OK) status = read_options(given, batch);
    if (status != RAPT_OK) return status;
    if (o.packed_w) return RAPT_BAD_PACKED;
    if (o.x_rows || o.y_rows) return RAPT_BAD_ROWS;
    status = resolve(o, Reads::layer);
    if (status != RAPT_OK) return status;
    if (is_quantized(o.w_type)) return RAPT_BAD_TYPE;
    if (batch.dims == 0 || batch.dims > RAPT_MAX_BATCH_DIMS) return RAPT_BAD_DIMS;
    status = read_arrays();
    if (status != RAPT_OK) return status;
    if (y().bytes > 0 && !y().elements_are_apart()) return RAPT_BAD_Y_STRIDES;
    set_loops();
    return RAPT_OK;
  }

  // Checks the pointers of a call that has tasks, and the overlap of its arrays.
  rapt_status check_arrays(const void *x, const void *w, const void *y_data, const Workspace &workspace) {
    if (!x) return RAPT_BAD_X;
    if (!w) return RAPT_BAD_W;
    if (!y_data) return RAPT_BAD_Y;
    const std::size_t bytes = this->workspace();
    if (!workspace.holds(bytes)) return RAPT_BAD_WORKSPACE;
    array[of_x].tensor.data = x, array[of_w].tensor.data = w, array[of_y].tensor.data = y_data;
    array[of_add].tensor.data = o.add, array[of_bias].tensor.data = o.bias;
    const std::size_t number = number_size(o.x_type);
    struct {
      const void *data;
      std::size_t bytes;
    } const shared[] = {{o.row_scales, o.row_scales ? rows_of_one * number : 0},
                        {o.output_scales, o.output_scales ? o.out_features * number : 0}};
    for (const auto &[data, size] : shared) {
      if (y().overlaps(data, size)) return RAPT_BAD_OVERLAP;
      if (Tensor{.data = data, .bytes = size}.overlaps(workspace.data, bytes)) return RAPT_BAD_WORKSPACE;
    }
    for (std::size_t a = 0; a < arrays; ++a) {
      const Tensor &tensor = array[a].tensor;
      if (!tensor.data) continue;
      if (tensor.overlaps(workspace.data, bytes)) return RAPT_BAD_WORKSPACE;
      const bool is_y = a == of_y || (a == of_add && o.add_type == o.y_type && tensor.is_exactly(y()));
      if (!is_y && tensor.overlaps(y())) return RAPT_BAD_OVERLAP;
    }
    return RAPT_OK;
  }

  // Returns the bytes from the first matrix of an array to that of a product.
  std::ptrdiff_t offset(std::size_t a, std::size_t product) const {
    std::ptrdiff_t bytes = 0;
    for (std::size_t d = dims; d-- > 0; product /= shape[d])
      bytes += static_cast<std::ptrdiff_t>(product % shape[d]) * steps[a][d];
    return bytes;
  }

 private:
  std::size_t rows_of_one = 0;

  rapt_status read_arrays() {
    const auto rows_of_y = [&](std::ptrdiff_t stride, rapt_type type) {
      return BatchArray::Matrices{
          o.rows, o.out_features, size_of(type), {o.rows > 1 ? stride : 0, o.out_features > 1 ? 1 : 0}};
    };
    const std::size_t number = number_size(o.x_type);
    const BatchArray::Matrices matrices[arrays] = {
        {o.rows, o.in_features, size_of(o.x_type), o.x_strides},
        {o.out_features, o.in_features, size_of(o.w_type), o.w_strides},
        rows_of_y(o.y_stride, o.y_type),
        rows_of_y(o.add_stride, o.add_type),
        {1, o.out_features, number, {0, o.out_features > 1 ? 1 : 0}}};
    const std::ptrdiff_t *const strides[arrays] = {batch.x_strides, batch.w_strides, batch.y_strides,
                                                   batch.add_strides, batch.bias_strides};
    constexpr rapt_status bad[arrays] = {RAPT_BAD_X_STRIDES, RAPT_BAD_W_STRIDES, RAPT_BAD_Y_STRIDES,
                                         RAPT_BAD_ADD, RAPT_BAD_BIAS_STRIDES};
    const bool is_given[arrays] = {true, true, true, o.add != nullptr, o.bias != nullptr};
    for (std::size_t a = 0; a < arrays; ++a) {
      for (std::size_t d = 0; !is_given[a] && d < batch.dims; ++d) {
        if (strides[a][d] != 0) return bad[a];
      }
      if (!is_given[a]) continue;
      const rapt_status status = array[a].read(matrices[a], batch.dims, batch.shape, strides[a],
                                               a == of_y ? Repeats::no : Repeats::yes, bad[a]);
      if (status != RAPT_OK) return status;
    }
    return RAPT_OK;
  }

  // Finds the loops over the products. Rows that share their weights become rows of one product.
  void set_loops() {
    rows_of_one = o.rows;
    if (y().bytes == 0) return;
    for (std::size_t d = 0; d < batch.dims; ++d) {
      if (batch.shape[d] == 1) continue;
      shape[dims] = batch.shape[d];
      for (std::size_t a = 0; a < arrays; ++a) steps[a][dims] = array[a].tensor.strides[d];
      ++dims;
    }
    while (dims > 0 && goes_on_in_rows()) {
      --dims;
      if (o.rows == 1) {
        o.x_strides.row = steps[of_x][dims];
        o.y_stride = steps[of_y][dims];
        o.add_stride = steps[of_add][dims];
      }
      o.rows *= shape[dims];
    }
    products = 1;
    for (std::size_t d = 0; d < dims; ++d) {
      products *= shape[d];
      for (std::size_t a = 0; a < arrays; ++a)
        steps[a][d] *= static_cast<std::ptrdiff_t>(array[a].tensor.element_size);
    }
    tasks_of_product = count_tasks(o);
  }
  // Returns whether the rows of the products along the last dimension are those of one layer.
  bool goes_on_in_rows() const {
    const std::size_t last = dims - 1;
    if (steps[of_w][last] != 0 || (o.bias && steps[of_bias][last] != 0) || o.row_scales) return false;
    const auto goes_on = [&](std::size_t a, std::ptrdiff_t row) {
      std::ptrdiff_t rows;
      return o.rows == 1 || (!__builtin_mul_overflow(row, static_cast<std::ptrdiff_t>(o.rows), &rows) &&
                             steps[a][last] == rows);
    };
    return goes_on(of_x, o.x_strides.row) && goes_on(of_y, o.y_stride) &&
           (!o.add || (goes_on(of_add, o.add_stride) && steps[of_add][last] != 0));
  }
};

struct RunBatch {
  LinearCall call;
  const rapt_linear_options *options;
  const rapt_linear_batch_options *given;
  Tasks tasks;
  Workspace workspace;

  rapt_status operator()() {
    Batch batch;
    rapt_status status = batch.read(options, given);
    if (status != RAPT_OK) return status;
    const std::size_t count = batch.tasks();
    if (!tasks.fit(count)) return RAPT_BAD_TASKS;
    if (count == 0) return RAPT_OK;
    status = batch.check_arrays(call.x, call.w, call.y, workspace);
    if (status == RAPT_OK) compute(batch);
    return status;
  }

  void compute(const Batch &batch) const {
    const auto kernel = linear_kernel(batch.o);
    LinearCall one{call.x, call.w, call.y, batch.o};
    for (std::size_t task = tasks.first; task < tasks.last;) {
      const std::size_t product = task / batch.tasks_of_product, first = task % batch.tasks_of_product,
                        left = batch.tasks_of_product - first,
                        count = left < tasks.last - task ? left : tasks.last - task;
      const auto moved = [&](const void *from, std::size_t a) -> const void * {
        return from ? static_cast<const char *>(from) + batch.offset(a, product) : nullptr;
      };
      one.x = moved(call.x, Batch::of_x);
      one.w = moved(call.w, Batch::of_w);
      one.y = static_cast<char *>(call.y) + batch.offset(Batch::of_y, product);
      one.options.add = moved(batch.o.add, Batch::of_add);
      one.options.bias = moved(batch.o.bias, Batch::of_bias);
      kernel(&one, first, first + count, workspace.aligned());
      task += count;
    }
  }
};

template <class F>
rapt_status query(const rapt_linear_options *options, const rapt_linear_batch_options *given,
                  std::size_t *out, F f) {
  return in_default_mode([&] {
    Batch batch;
    const rapt_status status = batch.read(options, given);
    if (status != RAPT_OK) return status;
    if (!out) return RAPT_BAD_OUT;
    *out = f(batch);
    return RAPT_OK;
  });
}

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_linear_batch_workspace(const rapt_linear_options *options,
                                        const rapt_linear_batch_options *batch, size_t *bytes) {
  return query(options, batch, bytes, [](const Batch &read) { return read.workspace(); });
}
rapt_status rapt_linear_batch_tasks(const rapt_linear_options *options,
                                    const rapt_linear_batch_options *batch, size_t *tasks) {
  return query(options, batch, tasks, [](const Batch &read) { return read.tasks(); });
}
rapt_status rapt_linear_batch(const void *x, const void *w, void *y, const rapt_linear_options *options,
                              const rapt_linear_batch_options *batch, void *workspace,
                              size_t workspace_size) {
  return in_default_mode(
      RunBatch{{.x = x, .w = w, .y = y}, options, batch, all_tasks, {workspace, workspace_size}});
}
rapt_status rapt_linear_batch_run(const void *x, const void *w, void *y, const rapt_linear_options *options,
                                  const rapt_linear_batch_options *batch, size_t first, size_t last,
                                  void *workspace, size_t workspace_size) {
  return in_default_mode(
      RunBatch{{.x = x, .w = w, .y = y}, options, batch, {first, last}, {workspace, workspace_size}});
}
