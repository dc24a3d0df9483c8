// The reference level: plain loops that spell out the numeric contract, for every CPU.
// clang-format off
#include "isa/scalar/attention.hpp"
#include "isa/scalar/dot.hpp"
#include "isa/scalar/exp.hpp"
#include "isa/scalar/softmax.hpp"
#include "isa/scalar/softmax_backward.hpp"
#include "kernels/table.hpp"
// clang-format on

extern "C" constinit const rapt::KernelTable rapt_table_scalar;
constinit const rapt::KernelTable rapt_table_scalar = [] {
  rapt::KernelTable table = all_kernels();
  table.attention_f32 = attention<float>;
  table.attention_f64 = attention<double>;
  table.attention_partial_f32 = attention_partial<float>;
  table.attention_partial_f64 = attention_partial<double>;
  table.attention_merge_f32 = attention_merge<float>;
  table.attention_merge_f64 = attention_merge<double>;
  return table;
}();
