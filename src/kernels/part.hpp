// Builds the table of the kernels of a part: a row of isa/parts.def, or a file of isa/<level>/. It includes this
// header after the function templates that kernels.def names. Before that, it defines RAPT_FAMILY_<family>(kernel)
// as `kernel` for each family that it compiles.
#pragma once

#include "kernels/kernels.hpp"

#ifndef RAPT_FAMILY_dot
#define RAPT_FAMILY_dot(kernel)
#endif
#ifndef RAPT_FAMILY_metric
#define RAPT_FAMILY_metric(kernel)
#endif
#ifndef RAPT_FAMILY_vector
#define RAPT_FAMILY_vector(kernel)
#endif
#ifndef RAPT_FAMILY_map
#define RAPT_FAMILY_map(kernel)
#endif
#ifndef RAPT_FAMILY_softmax
#define RAPT_FAMILY_softmax(kernel)
#endif
#ifndef RAPT_FAMILY_norm
#define RAPT_FAMILY_norm(kernel)
#endif
#ifndef RAPT_FAMILY_linear
#define RAPT_FAMILY_linear(kernel)
#endif
#ifndef RAPT_FAMILY_linear_in_bf16
#define RAPT_FAMILY_linear_in_bf16(kernel)
#endif
#ifndef RAPT_FAMILY_linear_quantized
#define RAPT_FAMILY_linear_quantized(kernel)
#endif
#ifndef RAPT_FAMILY_linear_in_i8
#define RAPT_FAMILY_linear_in_i8(kernel)
#endif
#ifndef RAPT_FAMILY_reduce
#define RAPT_FAMILY_reduce(kernel)
#endif
#ifndef RAPT_FAMILY_delta_rule
#define RAPT_FAMILY_delta_rule(kernel)
#endif
#ifndef RAPT_FAMILY_delta_rule_backward
#define RAPT_FAMILY_delta_rule_backward(kernel)
#endif
#ifndef RAPT_FAMILY_rope
#define RAPT_FAMILY_rope(kernel)
#endif
#ifndef RAPT_FAMILY_attention
#define RAPT_FAMILY_attention(kernel)
#endif
#ifndef RAPT_FAMILY_attention_in_bf16
#define RAPT_FAMILY_attention_in_bf16(kernel)
#endif
#ifndef RAPT_FAMILY_attention_dequantizing
#define RAPT_FAMILY_attention_dequantizing(kernel)
#endif
#ifndef RAPT_FAMILY_attention_backward
#define RAPT_FAMILY_attention_backward(kernel)
#endif

namespace {

// RAPT_ONLY, if defined, names the only operation to compile. tests/try defines it.
constexpr bool is_compiled([[maybe_unused]] const char *operation) {
#ifdef RAPT_ONLY
  const char *only = RAPT_ONLY;
  while (*only != 0 && *only == *operation) ++only, ++operation;
  return *only == *operation;
#else
  return true;
#endif
}

template <class E>
constexpr rapt::Operations<E> bodies() {
  rapt::Operations<E> of_part;
#define OPERATION(family, name, result, parameters, elements)                                               \
  RAPT_FAMILY_##family(if constexpr (rapt::HasOperations<E>::elements && is_compiled(#name)) of_part.name = \
                           name<E>;)
#include "kernels/kernels.def"
  return of_part;
}

}  // namespace

// Begins the definition of the part's table. `name` is the name of its file, which isa/table.hpp uses too.
#define RAPT_PART(name)          \
  namespace rapt::level {        \
  extern const KernelTable name; \
  }                              \
  constinit const rapt::KernelTable rapt::level::name
