#include "kernels/kernels.hpp"
extern "C" constinit const rapt::KernelTable rapt_table_avx512;
constinit const rapt::KernelTable rapt_table_avx512 = {};
