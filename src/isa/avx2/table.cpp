#include "kernels/kernels.hpp"
extern "C" constinit const rapt::KernelTable rapt_table_avx2;
constinit const rapt::KernelTable rapt_table_avx2 = {};
