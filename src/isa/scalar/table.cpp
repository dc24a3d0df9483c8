// The reference level: plain loops that spell out the numeric contract, for every CPU.
// clang-format off
#include "isa/scalar/dot.hpp"
#include "isa/scalar/exp.hpp"
#include "isa/scalar/softmax.hpp"
#include "isa/scalar/softmax_backward.hpp"
#include "kernels/table.hpp"
// clang-format on

extern "C" constinit const rapt::KernelTable rapt_table_scalar;
constinit const rapt::KernelTable rapt_table_scalar = all_kernels();
