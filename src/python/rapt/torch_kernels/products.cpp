// mm, addmm and bmm, which matmul and einsum are made of, and linear.
#include <ATen/ops/empty.h>
#include <ATen/ops/linear_native.h>

#include <vector>

#include "kernels.hpp"
#include "packed.hpp"

namespace rapt_torch {
namespace {

rapt_linear_options layer_of(rapt_type type, std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
  rapt_linear_options options = RAPT_LINEAR_OPTIONS_INIT;
  options.x_type = type;
  options.rows = rows;
  options.in_features = inputs;
  options.out_features = outputs;
  return options;
}

bool are_factors(const Tensor &a, const Tensor &b, std::int64_t dims) {
  return a.dim() == dims && b.dim() == dims && a.scalar_type() == b.scalar_type() && has_elements(a) &&
         has_elements(b) && a.size(dims - 1) == b.size(dims - 2);
}

// f32 of 16 bits, as rapt_linear() takes a bias. `copy` keeps it.
const void *bias_of(const Tensor &bias, std::vector<float> &copy) {
  const rapt_type type = type_of(bias);
  if (type == RAPT_F32 || type == RAPT_F64) return bias.const_data_ptr();
  copy.resize(bias.numel());
  if (type == RAPT_F16) {
    rapt_convert_f16_to_f32(static_cast<const rapt_f16 *>(bias.const_data_ptr()), copy.data(), copy.size());
  } else {
    rapt_convert_bf16_to_f32(static_cast<const rapt_bf16 *>(bias.const_data_ptr()), copy.data(), copy.size());
  }
  return copy.data();
}

// y = x w + bias, of matrices. The tensor x may have more dimensions, without gaps.
Tensor product(const Tensor &x, rapt_linear_options options, const Tensor &w, const Layout &of,
               const Tensor *bias, Tensor y) {
  options.w_strides = {of.output_stride, of.input_stride};
  std::vector<float> copy;
  if (bias) options.bias = bias_of(*bias, copy);
  const void *data = w.const_data_ptr();
  const Packed weights = packed(w, of);
  if (weights) {
    options.packed_w = 1;
    options.w_strides = {0, 0};
    data = weights->data.get();
  }
  const void *const from = x.const_data_ptr();
  void *const to = y.mutable_data_ptr();
  std::size_t bytes = 0, tasks = 0;
  check(rapt_linear_workspace(&options, &bytes));
  const std::int64_t threads = threads_for(double(options.rows) * double(of.inputs) * double(of.outputs));
  if (threads == 1) {
    check(rapt_linear(from, data, to, &options, workspace(bytes), bytes));
    return y;
  }
  check(rapt_linear_tasks(&options, &tasks));
  in_tasks(tasks, threads, bytes, [&](std::size_t first, std::size_t last, void *memory) {
    return rapt_linear_run(from, data, to, &options, first, last, memory, bytes);
  });
  return y;
}

Tensor product(const Tensor &a, const Tensor &b, const Tensor *bias) {
  rapt_linear_options options = layer_of(type_of(a), a.size(0), a.size(1), b.size(1));
  options.x_strides = {a.stride(0), a.stride(1)};
  return product(a, options, b, {b.size(0), b.size(1), b.stride(0), b.stride(1)}, bias,
                 at::empty({a.size(0), b.size(1)}, a.options()));
}

bool are_matrices(const Tensor &a, const Tensor &b) {
  return are_factors(a, b, 2) && has_strides(a) && has_strides(b);
}

Tensor mm(const Tensor &a, const Tensor &b) {
  static Counter counter("mm");
  if (are_matrices(a, b)) {
    counter.add();
    return product(a, b, nullptr);
  }
  static const InPython<Tensor(const Tensor &, const Tensor &)> in_python("mm");
  return in_python(a, b);
}

Tensor addmm(const Tensor &addend, const Tensor &a, const Tensor &b, const at::Scalar &beta,
             const at::Scalar &alpha) {
  static Counter counter("addmm");
  if (are_matrices(a, b) && addend.dim() == 1 && addend.size(0) == b.size(1) && addend.is_contiguous() &&
      addend.scalar_type() == a.scalar_type() && beta.equal(1) && alpha.equal(1)) {
    counter.add();
    return product(a, b, &addend);
  }
  static const InPython<Tensor(const Tensor &, const Tensor &, const Tensor &, const at::Scalar &,
                               const at::Scalar &)>
      in_python("addmm");
  return in_python(addend, a, b, beta, alpha);
}

Tensor bmm(const Tensor &a, const Tensor &b) {
  static Counter counter("bmm");
  if (are_factors(a, b, 3) && a.size(0) == b.size(0) && has_strides(a) && has_strides(b)) {
    counter.add();
    Tensor y = at::empty({a.size(0), a.size(1), b.size(2)}, a.options());
    rapt_linear_options options = layer_of(type_of(a), a.size(1), a.size(2), b.size(2));
    options.x_strides = {a.stride(1), a.stride(2)};
    options.w_strides = {b.stride(2), b.stride(1)};
    rapt_linear_batch_options batch = RAPT_LINEAR_BATCH_OPTIONS_INIT;
    batch.dims = 1;
    batch.shape[0] = a.size(0);
    batch.x_strides[0] = a.stride(0);
    batch.w_strides[0] = b.stride(0);
    batch.y_strides[0] = y.stride(0);
    const void *const from = a.const_data_ptr(), *const by = b.const_data_ptr();
    void *const to = y.mutable_data_ptr();
    std::size_t bytes = 0, tasks = 0;
    check(rapt_linear_batch_workspace(&options, &batch, &bytes));
    check(rapt_linear_batch_tasks(&options, &batch, &tasks));
    const std::int64_t threads = threads_for(double(a.numel()) * double(b.size(2)));
    in_tasks(tasks, threads, bytes, [&](std::size_t first, std::size_t last, void *memory) {
      return rapt_linear_batch_run(from, by, to, &options, &batch, first, last, memory, bytes);
    });
    return y;
  }
  static const InPython<Tensor(const Tensor &, const Tensor &)> in_python("bmm");
  return in_python(a, b);
}

using OfLinear = Tensor(const Tensor &, const Tensor &, const std::optional<Tensor> &);

// Whether PyTorch makes one product of it, to which the bias is added before the result is rounded.
bool is_one_product(const Tensor &x, const Tensor &w, const Tensor *bias) {
  if (x.dim() == 0 || w.dim() != 2 || x.scalar_type() != w.scalar_type() || !has_elements(x) ||
      !has_elements(w) || x.size(-1) != w.size(1) || !has_strides(w) ||
      !(x.dim() == 2 ? has_strides(x) : x.is_contiguous()))
    return false;
  return !bias || (x.dim() != 1 && bias->dim() == 1 && bias->size(0) == w.size(0) && bias->is_contiguous() &&
                   bias->scalar_type() == x.scalar_type());
}

Tensor linear(const Tensor &x, const Tensor &w, const std::optional<Tensor> &bias) {
  static Counter counter("linear");
  const Tensor *const b = bias && bias->defined() ? &*bias : nullptr;
  if (!is_one_product(x, w, b)) return at::native::linear(x, w, bias);
  counter.add();
  const std::int64_t inputs = w.size(1), outputs = w.size(0);
  rapt_linear_options options = layer_of(type_of(x), x.numel() / inputs, inputs, outputs);
  if (x.dim() == 2) options.x_strides = {x.stride(0), x.stride(1)};
  c10::SmallVector<std::int64_t, 4> shape(x.sizes().begin(), x.sizes().end());
  shape.back() = outputs;
  return product(x, options, w, {inputs, outputs, w.stride(1), w.stride(0)}, b,
                 at::empty(shape, x.options()));
}

// PyTorch's gradients are those of the products that it makes of the call.
Tensor linear_above(const Tensor &x, const Tensor &w, const std::optional<Tensor> &bias) {
  static const BelowAutograd<OfLinear> below("linear");
  return are_operators_watched() || needs_parts(x) || needs_parts(w) || needs_parts(bias)
             ? at::native::linear(x, w, bias)
             : below(x, w, bias);
}

}  // namespace

void add_products(torch::Library &library) {
  library.impl("linear", TORCH_FN(linear));
  library.impl("mm", TORCH_FN(mm));
  library.impl("addmm", TORCH_FN(addmm));
  library.impl("bmm", TORCH_FN(bmm));
}

void add_products_above(torch::Library &library) { library.impl("linear", TORCH_FN(linear_above)); }

}  // namespace rapt_torch
