// Implements rapt_convolution. Each call checks its arguments before it writes anything.
#include <cstddef>
#include <cstdint>

#include "api/any_element.hpp"
#include "api/convolution_run.hpp"
#include "api/floating_point.hpp"
#include "api/linear_options.hpp"
#include "api/packed_layer.hpp"
#include "api/query.hpp"
#include "api/read_options.hpp"
#include "api/tasks.hpp"
#include "api/tensor.hpp"

namespace rapt {
namespace {

// Options that have been read, and what follows from them.
struct Convolution {
  rapt_convolution_options o = RAPT_CONVOLUTION_OPTIONS_INIT;
  ConvolutionShape shape;
  std::size_t x_sizes[2 + convolved] = {}, y_sizes[2 + convolved] = {};

  bool is_y() const { return o.result == RAPT_CONVOLUTION_Y; }
  bool is_dw() const { return o.result == RAPT_CONVOLUTION_DW; }
  rapt_linear_options layer_of_y() const {
    return with_any_element(
        o.type, [&](auto element) { return rapt::layer_of_y<typename decltype(element)::type>(shape, 0); });
  }
  std::size_t weights() const {
    return shape.groups * shape.out_channels * shape.in_channels * shape.all_taps();
  }

  rapt_status read(const rapt_convolution_options *given) {
    if (!given) return RAPT_BAD_OPTIONS;
    rapt_status status = read_options(given, o);
    if (status == RAPT_OK) status = read_fields();
    if (status == RAPT_OK) status = read_shape();
    if (status == RAPT_OK) status = count();
    return status == RAPT_OK ? read_weights() : status;
  }

 private:
  rapt_status read_fields() {
    if (resolve_float_type(o.type) != RAPT_OK) return RAPT_BAD_TYPE;
    if (o.result < RAPT_CONVOLUTION_Y || o.result > RAPT_CONVOLUTION_DW) return RAPT_BAD_RESULT;
    if (o.dims == 0 || o.dims > convolved) return RAPT_BAD_DIMS;
    for (std::size_t d = o.dims; d < convolved; ++d) {
      if (o.in_size[d] | o.taps[d] | o.stride[d] | o.dilation[d] | o.pad_before[d] | o.pad_after[d])
        return RAPT_BAD_DIMS;
      if (o.x_strides[2 + d] != 0) return RAPT_BAD_X_STRIDES;
      if (o.y_strides[2 + d] != 0) return RAPT_BAD_Y_STRIDES;
    }
    if (o.groups == 0) o.groups = 1;
    if (o.in_channels == 0) return RAPT_BAD_SHAPE;
    if (o.in_channels % o.groups != 0 || o.out_channels % o.groups != 0) return RAPT_BAD_GROUPS;
    if (o.packed_w && (!is_y() || o.groups != 1)) return RAPT_BAD_PACKED;
    return o.bias && is_dw() ? RAPT_BAD_BIAS : RAPT_OK;
  }

  // The rules of quantized weights are those of a linear layer.
  rapt_status read_weights() {
    const int w_type = number_of(o.w_type);
    if (w_type == RAPT_TYPE_DEFAULT || w_type == number_of(o.type)) {
      if (o.arithmetic != RAPT_ARITHMETIC_DEFAULT) return RAPT_BAD_ARITHMETIC;
      if (o.scale_group != 0) return RAPT_BAD_SCALE_GROUP;
      return o.x_group != 0 ? RAPT_BAD_X_GROUP : RAPT_OK;
    }
    if (!o.packed_w || o.type == RAPT_F64 || w_type < RAPT_I8) return RAPT_BAD_TYPE;
    shape.w_type = o.w_type, shape.arithmetic = o.arithmetic;
    shape.scale_group = o.scale_group, shape.x_group = o.x_group;
    rapt_linear_options layer = layer_of_y();
    const rapt_status status = resolve(layer, Reads::layer);
    shape.arithmetic = layer.arithmetic, shape.scale_group = layer.scale_group, shape.x_group = layer.x_group;
    return status;
  }

  rapt_status read_shape() {
    shape.type = o.type, shape.result = o.result, shape.packed_w = o.packed_w != 0, shape.bias = o.bias;
    shape.batch = o.batch, shape.groups = o.groups;
    shape.in_channels = o.in_channels / o.groups, shape.out_channels = o.out_channels / o.groups;
    // The call's dimensions are the last ones.
    const std::size_t missing = convolved - o.dims;
    for (std::size_t d = 0; d < convolved; ++d) {
      const bool is_missing = d < missing;
      const std::size_t from = is_missing ? 0 : d - missing;
      shape.in[d] = is_missing ? 1 : o.in_size[from];
      shape.taps[d] = is_missing ? 1 : o.taps[from];
      shape.stride[d] = is_missing || o.stride[from] == 0 ? 1 : o.stride[from];
      shape.dilation[d] = is_missing || o.dilation[from] == 0 ? 1 : o.dilation[from];
      shape.pad[d] = is_missing ? 0 : o.pad_before[from];
      const std::size_t behind = is_missing ? 0 : o.pad_after[from];
      if (shape.taps[d] == 0) return RAPT_BAD_SHAPE;
      constexpr std::size_t most = std::size_t{PTRDIFF_MAX} / 8;
      for (const std::size_t size :
           {shape.in[d], shape.taps[d], shape.stride[d], shape.dilation[d], shape.pad[d], behind}) {
        if (size > most) return RAPT_BAD_SIZE;
      }
      std::size_t reach;
      if (__builtin_mul_overflow(shape.taps[d] - 1, shape.dilation[d], &reach) || reach > most)
        return RAPT_BAD_SIZE;
      const std::size_t padded = shape.in[d] + shape.pad[d] + behind;
      if (padded <= reach) return RAPT_BAD_SHAPE;
      shape.out[d] = (padded - reach - 1) / shape.stride[d] + 1;
    }
    return RAPT_OK;
  }

  // The sizes of the arrays, and with them those of the workspace, must fit the address space.
  rapt_status count() {
    x_sizes[0] = y_sizes[0] = o.batch;
    x_sizes[1] = o.in_channels, y_sizes[1] = o.out_channels;
    const std::size_t missing = convolved - o.dims;
    for (std::size_t d = 0; d < o.dims; ++d) {
      x_sizes[2 + d] = shape.in[missing + d];
      y_sizes[2 + d] = shape.out[missing + d];
    }
    std::size_t elements[4] = {1, 1, 1, 1};
    const auto multiply = [](std::size_t &product, std::size_t by) {
      return !__builtin_mul_overflow(product, by > 0 ? by : 1, &product);
    };
    bool fits = true;
    for (std::size_t d = 0; d < 2 + o.dims; ++d) {
      fits = fits && multiply(elements[0], x_sizes[d]) && multiply(elements[1], y_sizes[d]);
    }
    for (const std::size_t by : {o.in_channels, o.out_channels, shape.taps[0], shape.taps[1], shape.taps[2]})
      fits = fits && multiply(elements[2], by);
    for (std::size_t &product : elements)
      fits = fits && multiply(product, 32768) && product <= std::size_t{PTRDIFF_MAX};
    return fits ? RAPT_OK : RAPT_BAD_SIZE;
  }
};

// Finds the strides of x or y, and stores them as passes read them.
rapt_status read_tensor(const Convolution &c, bool is_x, Repeats repeats, Tensor &tensor,
                        ConvolvedTensor &steps) {
  const rapt_status status = tensor.read(nullptr, size_of(c.o.type), 2 + c.o.dims,
                                         is_x ? c.x_sizes : c.y_sizes, is_x ? c.o.x_strides : c.o.y_strides,
                                         repeats, is_x ? RAPT_BAD_X_STRIDES : RAPT_BAD_Y_STRIDES);
  steps.batch = tensor.strides[0], steps.channel = tensor.strides[1];
  for (std::size_t d = 0; d < c.o.dims; ++d) steps.steps[convolved - c.o.dims + d] = tensor.strides[2 + d];
  return status;
}

// Reads options and strides.
struct Read : Convolution {
  Tensor x, y;

  rapt_status read(const rapt_convolution_options *given) {
    rapt_status status = Convolution::read(given);
    const auto repeats = [&](int written) { return o.result == written ? Repeats::no : Repeats::yes; };
    if (status == RAPT_OK) status = read_tensor(*this, true, repeats(RAPT_CONVOLUTION_DX), x, shape.x);
    if (status == RAPT_OK) status = read_tensor(*this, false, repeats(RAPT_CONVOLUTION_Y), y, shape.y);
    if (status != RAPT_OK) return status;
    if (is_y() && !is_empty() && !y.elements_are_apart()) return RAPT_BAD_Y_STRIDES;
    const bool is_dx = o.result == RAPT_CONVOLUTION_DX;
    return is_dx && !is_empty() && !x.elements_are_apart() ? RAPT_BAD_X_STRIDES : RAPT_OK;
  }

  // Whether the result has no elements.
  bool is_empty() const {
    if (is_dw()) return o.out_channels == 0;
    const std::size_t(&sizes)[2 + convolved] = is_y() ? y_sizes : x_sizes;
    for (std::size_t d = 0; d < 2 + o.dims; ++d) {
      if (sizes[d] == 0) return true;
    }
    return false;
  }

  std::size_t tasks() const {
    if (is_empty()) return 0;
    if (is_dw()) {
      const DepthwiseGradientTasks depthwise(shape);
      return depthwise.fits ? depthwise.count() : WeightGradientTasks(shape).count();
    }
    std::size_t count = 0;
    each_pass(shape, [&](const ConvolutionPass &pass) {
      count += ConvolutionTasks(shape, pass).count();
      return true;
    });
    return count;
  }
  std::size_t workspace() const {
    return with_any_element(o.type, [&](auto element) {
      using E = typename decltype(element)::type;
      const auto bytes = [&] {
        if (!is_dw()) return ConvolutionRunner<E>(shape, nullptr).bytes();
        return DepthwiseGradientTasks(shape).fits ? DepthwiseGradientRunner<E>(shape, nullptr).bytes()
                                                  : WeightGradientRunner<E>(shape, nullptr).bytes();
      };
      return bytes() + workspace_alignment;
    });
  }
};

struct Run : Read {
  const void *a, *b;
  void *out;
  Tasks range;
  Workspace scratch;

  Run(const void *first_array, const void *second, void *result, Tasks tasks, Workspace workspace)
      : a(first_array), b(second), out(result), range(tasks), scratch(workspace) {}

  rapt_status operator()(const rapt_convolution_options *given) {
    const rapt_status status = read(given);
    if (status != RAPT_OK) return status;
    x.data = o.result == RAPT_CONVOLUTION_DX ? out : a;
    y.data = is_y() ? out : is_dw() ? b : a;
    const std::size_t all = tasks();
    if (!range.fit(all)) return RAPT_BAD_TASKS;
    if (all == 0) return RAPT_OK;
    std::size_t bytes_of_w = weights() * size_of(o.type);
    const rapt_status pointers = check_pointers(bytes_of_w);
    if (pointers != RAPT_OK) return pointers;
    const std::size_t bytes = workspace();
    if (!scratch.holds(bytes)) return RAPT_BAD_WORKSPACE;
    const rapt_status apart = check_overlap(bytes_of_w, bytes);
    if (apart != RAPT_OK || range.first == range.last) return apart;
    with_any_element(o.type, [&](auto element) { run<typename decltype(element)::type>(); });
    return RAPT_OK;
  }

 private:
  // An operand without elements may be null.
  rapt_status check_pointers(std::size_t &bytes_of_w) const {
    const Tensor &first = o.result == RAPT_CONVOLUTION_DX ? y : x;
    const bool has_second = is_dw() ? y.bytes > 0 : bytes_of_w > 0;
    if (!a && first.bytes > 0) return RAPT_BAD_X;
    if (!b && has_second) return RAPT_BAD_W;
    if (!out) return RAPT_BAD_Y;
    if (!shape.packed_w) return RAPT_OK;
    const rapt_linear_options layer = layer_of_y();
    if (!are_of_layer(layer, b)) return RAPT_BAD_PACKED;
    bytes_of_w = PackedHeader::stored_at(b).length;
    return has_codebook_of_arithmetic(layer, b) ? RAPT_OK : RAPT_BAD_W_CODEBOOK;
  }

  rapt_status check_overlap(std::size_t bytes_of_w, std::size_t bytes) const {
    const std::size_t dims[1] = {bytes_of_w};
    const std::size_t numbers[1] = {(is_y() ? o.out_channels : o.in_channels) * number_size(o.type)},
                      of_scratch[1] = {bytes};
    const std::ptrdiff_t contiguous[1] = {0};
    Tensor w, bias, memory;
    (void)w.read(is_dw() ? out : b, 1, 1, dims, contiguous, Repeats::no, RAPT_OK);
    (void)bias.read(o.bias, 1, 1, numbers, contiguous, Repeats::no, RAPT_OK);
    (void)memory.read(scratch.data, 1, 1, of_scratch, contiguous, Repeats::no, RAPT_OK);
    const Tensor &result = is_dw() ? w : is_y() ? y : x;
    const Tensor *const arrays[] = {&x, &y, &w, &bias};
    for (const Tensor *const array : arrays) {
      if (array == &bias && !o.bias) continue;
      if (array->overlaps(memory)) return RAPT_BAD_WORKSPACE;
      if (array != &result && array->overlaps(result)) return RAPT_BAD_OVERLAP;
    }
    return RAPT_OK;
  }

  template <class E>
  void run() const {
    const auto *const from = static_cast<const E *>(a);
    auto *const to = static_cast<E *>(out);
    if (is_dw()) {
      const auto *const dy = static_cast<const E *>(b);
      if (DepthwiseGradientTasks(shape).fits) {
        DepthwiseGradientRunner<E>(shape, scratch.aligned()).run(from, dy, to, range.first, range.last);
      } else {
        WeightGradientRunner<E>(shape, scratch.aligned()).run(from, dy, to, range.first, range.last);
      }
      return;
    }
    // Kernels read the header of quantized weights.
    const bool skips_header = shape.packed_w && !shape.has_quantized_weights();
    const void *const w = skips_header ? static_cast<const char *>(b) + sizeof(PackedHeader) : b;
    ConvolutionRunner<E> runner(shape, scratch.aligned());
    std::size_t before = 0;
    each_pass(shape, [&](const ConvolutionPass &pass) {
      const std::size_t count = ConvolutionTasks(shape, pass).count(), end = before + count;
      if (range.first < end) {
        const std::size_t first = range.first > before ? range.first - before : 0,
                          last = (range.last < end ? range.last : end) - before;
        runner.run(pass, from, w, to, first, last);
      }
      before = end;
      return before < range.last;
    });
  }
};

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_convolution_positions(const rapt_convolution_options *options, size_t *positions) {
  return query<Read>(options, positions, [&](const Read &read) {
    for (std::size_t d = 0; d < read.o.dims; ++d) positions[d] = read.y_sizes[2 + d];
  });
}
rapt_status rapt_convolution_workspace(const rapt_convolution_options *options, size_t *bytes) {
  return query<Read>(options, bytes, [&](const Read &read) { *bytes = read.workspace(); });
}
rapt_status rapt_convolution_tasks(const rapt_convolution_options *options, size_t *tasks) {
  return query<Read>(options, tasks, [&](const Read &read) { *tasks = read.tasks(); });
}

rapt_status rapt_convolution(const void *a, const void *b, void *out, const rapt_convolution_options *options,
                             void *workspace, size_t workspace_size) {
  return in_default_mode([&] { return Run(a, b, out, all_tasks, {workspace, workspace_size})(options); });
}
rapt_status rapt_convolution_run(const void *a, const void *b, void *out,
                                 const rapt_convolution_options *options, size_t first, size_t last,
                                 void *workspace, size_t workspace_size) {
  return in_default_mode([&] { return Run(a, b, out, {first, last}, {workspace, workspace_size})(options); });
}
