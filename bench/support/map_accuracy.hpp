// Measures the errors of rapt_map's functions, and makes their inputs.
#pragma once

#include <cstddef>

#include "peers/functions.hpp"
#include "support/buffer.hpp"

namespace rapt::bench {

// Numbers of the function's domain: logits, or their magnitudes for roots, logarithms and powers.
template <class T>
Buffer<T> map_inputs(rapt_map_function function, std::size_t n, std::size_t array);

// In units in the last place of the exact result, on inputs like the timed ones and on fifty times larger ones.
template <class T>
double map_function_error(rapt_map_function function, TwoToOne<T> map);

}  // namespace rapt::bench
