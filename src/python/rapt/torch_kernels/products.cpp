// mm, addmm and bmm, which linear, matmul and einsum are made of.
#include <ATen/ops/empty.h>

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

Tensor product(const Tensor &a, const Tensor &b, const Tensor *bias) {
  Tensor y = at::empty({a.size(0), b.size(1)}, a.options());
  rapt_linear_options options = layer_of(type_of(a), a.size(0), a.size(1), b.size(1));
  options.x_strides = {a.stride(0), a.stride(1)};
  options.w_strides = {b.stride(1), b.stride(0)};
  std::vector<float> copy;
  if (bias) options.bias = bias_of(*bias, copy);
  const void *w = b.const_data_ptr();
  const Packed weights = packed(b);
  if (weights) {
    options.packed_w = 1;
    options.w_strides = {0, 0};
    w = weights->data.get();
  }
  const rapt_pool pool = pool_for(double(a.size(0)) * double(a.size(1)) * double(b.size(1)));
  if (pool.threads > 1) {
    const rapt_linear_work work{a.const_data_ptr(), w, y.mutable_data_ptr(), &options};
    check(rapt_parallel_linear(&work, 1, &pool));
  } else {
    std::size_t bytes = 0;
    check(rapt_linear_workspace(&options, &bytes));
    check(rapt_linear(a.const_data_ptr(), w, y.mutable_data_ptr(), &options, workspace(bytes), bytes));
  }
  return y;
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
    const rapt_pool pool = pool_for(double(a.numel()) * double(b.size(2)));
    if (pool.threads > 1) {
      check(rapt_parallel_linear_batch(a.const_data_ptr(), b.const_data_ptr(), y.mutable_data_ptr(), &options,
                                       &batch, &pool));
    } else {
      std::size_t bytes = 0;
      check(rapt_linear_batch_workspace(&options, &batch, &bytes));
      check(rapt_linear_batch(a.const_data_ptr(), b.const_data_ptr(), y.mutable_data_ptr(), &options, &batch,
                              workspace(bytes), bytes));
    }
    return y;
  }
  static const InPython<Tensor(const Tensor &, const Tensor &)> in_python("bmm");
  return in_python(a, b);
}

}  // namespace

void add_products(torch::Library &library) {
  library.impl("mm", TORCH_FN(mm));
  library.impl("addmm", TORCH_FN(addmm));
  library.impl("bmm", TORCH_FN(bmm));
}

}  // namespace rapt_torch
