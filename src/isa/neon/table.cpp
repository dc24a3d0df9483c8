#include "kernels/kernels.hpp"
extern "C" constinit const rapt::KernelTable rapt_table_neon;
constinit const rapt::KernelTable rapt_table_neon = {};
