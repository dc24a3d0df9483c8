// Computes linear layers in i8 arithmetic with AMX.

#include "isa/amx/linear_int8.hpp"
#include "kernels/part.hpp"

RAPT_PART(linear_in_i8) = {.i8 = {.linear_in_i8 = linear_of_integers_by_amx}};
