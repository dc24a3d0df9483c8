// Functions of elements: rapt_map() over arrays without gaps, in any order of their dimensions.
#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub_cpu_dispatch.h>

#include "kernels.hpp"

namespace rapt_torch {
namespace {

constexpr std::int64_t grain = 1 << 15;  // elements that pay for a thread

rapt_map_options options_of(int function, const Tensor &x, std::int64_t count) {
  rapt_map_options options = RAPT_MAP_OPTIONS_INIT;
  options.function = function;
  options.type = type_of(x);
  options.dims = 1;
  options.shape[0] = count;
  return options;
}

// A second or third input: an array as x, or one number for all elements.
struct Operand {
  Operand() = default;
  Operand(const Tensor &array) : data(static_cast<const char *>(array.const_data_ptr())) {}
  explicit Operand(const char *number) : data(number), is_number(true) {}

  const void *at(std::int64_t place) const { return data && !is_number ? data + place : data; }

  const char *data = nullptr;
  bool is_number = false;
};

void map_into(int function, const Tensor &x, const Operand &y, const Operand &z, double alpha, Tensor &out) {
  const char *from = static_cast<const char *>(x.const_data_ptr());
  char *to = static_cast<char *>(out.mutable_data_ptr());
  const std::int64_t size = x.element_size();
  in_parallel(x.numel(), grain, [&](std::int64_t first, std::int64_t last) {
    rapt_map_options options = options_of(function, x, last - first);
    options.y_strides[0] = y.is_number ? RAPT_REPEAT : 0;
    options.alpha = alpha;
    const std::int64_t place = first * size;
    check(rapt_map(from + place, y.at(place), z.at(place), to + place, &options));
  });
}

bool is_array(const Tensor &x) { return has_elements(x) && x.is_non_overlapping_and_dense(); }

// Whether y has the elements of x in the same places.
bool is_like(const Tensor &y, const Tensor &x) {
  return y.scalar_type() == x.scalar_type() && y.sizes() == x.sizes() && y.strides() == x.strides();
}

template <int function>
struct Unary {
  static inline const char *name = "";

  static Tensor make(const Tensor &x) {
    static Counter counter(name);
    if (is_array(x)) {
      counter.add();
      Tensor y = at::empty_like(x);
      map_into(function, x, {}, {}, 0, y);
      return y;
    }
    static const InPython<Tensor(const Tensor &)> in_python(name);
    return in_python(x);
  }

  static Tensor &change(Tensor &x) {
    static const std::string of_place = std::string(name) + "_";
    static Counter counter(of_place.c_str());
    if (is_array(x)) {
      counter.add();
      map_into(function, x, {}, {}, 0, x);
      return x;
    }
    static const InPython<Tensor &(Tensor &)> in_python(of_place.c_str());
    return in_python(x);
  }
};

template <int function>
void add_unary(torch::Library &library, const char *name) {
  Unary<function>::name = name;
  library.impl(name, TORCH_FN(Unary<function>::make));
  library.impl((std::string(name) + "_").c_str(), TORCH_FN(Unary<function>::change));
}

Tensor gelu(const Tensor &x, c10::string_view approximate) {
  static Counter counter("gelu");
  if (is_array(x) && (approximate == "none" || approximate == "tanh")) {
    counter.add();
    Tensor y = at::empty_like(x);
    map_into(approximate == "none" ? RAPT_MAP_GELU : RAPT_MAP_GELU_TANH, x, {}, {}, 0, y);
    return y;
  }
  static const InPython<Tensor(const Tensor &, c10::string_view)> in_python("gelu");
  return in_python(x, approximate);
}

// Of dy and x, or of dy and the function's result.
template <int function>
struct Gradient {
  static inline const char *name = "";

  static Tensor make(const Tensor &dy, const Tensor &x) {
    static Counter counter(name);
    if (is_array(x) && is_like(dy, x)) {
      counter.add();
      Tensor dx = at::empty_like(x);
      map_into(function, x, dy, {}, 0, dx);
      return dx;
    }
    static const InPython<Tensor(const Tensor &, const Tensor &)> in_python(name);
    return in_python(dy, x);
  }
};

template <int function>
void add_gradient(torch::Library &library, const char *name) {
  Gradient<function>::name = name;
  library.impl(name, TORCH_FN(Gradient<function>::make));
}

Tensor gelu_backward(const Tensor &dy, const Tensor &x, c10::string_view approximate) {
  static Counter counter("gelu_backward");
  if (is_array(x) && is_like(dy, x) && (approximate == "none" || approximate == "tanh")) {
    counter.add();
    Tensor dx = at::empty_like(x);
    map_into(approximate == "none" ? RAPT_MAP_GELU_BACKWARD : RAPT_MAP_GELU_TANH_BACKWARD, x, dy, {}, 0, dx);
    return dx;
  }
  static const InPython<Tensor(const Tensor &, const Tensor &, c10::string_view)> in_python("gelu_backward");
  return in_python(dy, x, approximate);
}

// What optimizers do in place.

template <int function>
struct Update {
  static inline const char *name = "";

  static Tensor &change(Tensor &x, const Tensor &a, const Tensor &b, const at::Scalar &value) {
    static Counter counter(name);
    if (is_array(x) && is_like(a, x) && is_like(b, x) && !value.isComplex()) {
      counter.add();
      map_into(function, x, a, b, value.toDouble(), x);
      return x;
    }
    static const InPython<Tensor &(Tensor &, const Tensor &, const Tensor &, const at::Scalar &)> in_python(
        name);
    return in_python(x, a, b, value);
  }
};

template <int function>
void add_update(torch::Library &library, const char *name) {
  Update<function>::name = name;
  library.impl(name, TORCH_FN(Update<function>::change));
}

Tensor &lerp_in_place(Tensor &x, const Tensor &end, const at::Scalar &weight) {
  static Counter counter("lerp_.Scalar");
  if (is_array(x) && is_like(end, x) && !weight.isComplex()) {
    counter.add();
    map_into(RAPT_MAP_LERP_AT, x, end, {}, weight.toDouble(), x);
    return x;
  }
  static const InPython<Tensor &(Tensor &, const Tensor &, const at::Scalar &)> in_python("lerp_", "Scalar");
  return in_python(x, end, weight);
}

// The number in the type of x. False if it is none of that type.
bool element_of(double number, rapt_type type, void *element) {
  switch (type) {
    case RAPT_F64:
      return *static_cast<double *>(element) = number, true;
    case RAPT_F32:
      return (*static_cast<float *>(element) = static_cast<float>(number)) == number;
    case RAPT_F16:
      return (*static_cast<at::Half *>(element) = static_cast<float>(number)) == number;
    default:
      return (*static_cast<at::BFloat16 *>(element) = static_cast<float>(number)) == number;
  }
}

Tensor power(const Tensor &x, const at::Scalar &exponent) {
  static Counter counter("pow.Tensor_Scalar");
  alignas(8) char element[8];
  if (is_array(x) && !exponent.isComplex() && element_of(exponent.toDouble(), type_of(x), element)) {
    counter.add();
    const double y = exponent.toDouble();
    Tensor result = at::empty_like(x);
    if (y == 0.5 || y == -0.5) {
      map_into(y > 0 ? RAPT_MAP_SQRT : RAPT_MAP_RSQRT, x, {}, {}, 0, result);
    } else {
      map_into(RAPT_MAP_POW, x, Operand(element), {}, 0, result);
    }
    return result;
  }
  static const InPython<Tensor(const Tensor &, const at::Scalar &)> in_python("pow", "Tensor_Scalar");
  return in_python(x, exponent);
}

// Without alpha, a sum is one operation of IEEE 754, and PyTorch's own.

template <class Result, class X, Result (*own)(X, const Tensor &, const at::Scalar &)>
struct Sum {
  static inline const char *name = "";

  static Result make(X x, const Tensor &y, const at::Scalar &alpha) {
    if (alpha.equal(1)) return own(x, y, alpha);
    static const InPython<Result(X, const Tensor &, const at::Scalar &)> in_python(name, "Tensor");
    return in_python(x, y, alpha);
  }
};

template <class Result, class X, Result (*own)(X, const Tensor &, const at::Scalar &)>
void add_sum(torch::Library &library, const char *name) {
  using Kernel = Sum<Result, X, own>;
  Kernel::name = name;
  library.impl((std::string(name) + ".Tensor").c_str(), TORCH_FN(Kernel::make));
}

}  // namespace

void add_elements(torch::Library &library) {
  add_unary<RAPT_MAP_SQRT>(library, "sqrt");
  add_unary<RAPT_MAP_RSQRT>(library, "rsqrt");
  add_unary<RAPT_MAP_EXP>(library, "exp");
  add_unary<RAPT_MAP_EXP2>(library, "exp2");
  add_unary<RAPT_MAP_EXPM1>(library, "expm1");
  add_unary<RAPT_MAP_LOG>(library, "log");
  add_unary<RAPT_MAP_LOG2>(library, "log2");
  add_unary<RAPT_MAP_LOG1P>(library, "log1p");
  add_unary<RAPT_MAP_SIN>(library, "sin");
  add_unary<RAPT_MAP_COS>(library, "cos");
  add_unary<RAPT_MAP_TAN>(library, "tan");
  add_unary<RAPT_MAP_TANH>(library, "tanh");
  add_unary<RAPT_MAP_ERF>(library, "erf");
  add_unary<RAPT_MAP_SIGMOID>(library, "sigmoid");
  add_unary<RAPT_MAP_SILU>(library, "silu");
  add_gradient<RAPT_MAP_SILU_BACKWARD>(library, "silu_backward");
  add_gradient<RAPT_MAP_TANH_BACKWARD>(library, "tanh_backward");
  add_gradient<RAPT_MAP_SIGMOID_BACKWARD>(library, "sigmoid_backward");
  add_update<RAPT_MAP_ADDCMUL>(library, "addcmul_");
  add_update<RAPT_MAP_ADDCDIV>(library, "addcdiv_");
  library.impl("lerp_.Scalar", TORCH_FN(lerp_in_place));
  library.impl("gelu", TORCH_FN(gelu));
  library.impl("gelu_backward", TORCH_FN(gelu_backward));
  library.impl("pow.Tensor_Scalar", TORCH_FN(power));
  add_sum<Tensor, const Tensor &, at::cpu::add>(library, "add");
  add_sum<Tensor &, Tensor &, at::cpu::add_>(library, "add_");
  add_sum<Tensor, const Tensor &, at::cpu::sub>(library, "sub");
  add_sum<Tensor &, Tensor &, at::cpu::sub_>(library, "sub_");
}

}  // namespace rapt_torch
