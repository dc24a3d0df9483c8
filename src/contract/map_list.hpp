// Says what rapt_map's functions read, and compares their list with rapt_map_function.
#pragma once

#include <cstddef>

#include "rapt/rapt.h"

namespace rapt {

struct MapFunction {
  rapt_map_function number;
  std::size_t inputs, parameters;
  bool has_kernel;  // kernels.def has another kernel for it
};

namespace {

inline constexpr MapFunction map_functions[] = {
#define MAP(name, Class, number, inputs, parameters) {number, inputs, parameters, false},
#define MAP_OF_KERNEL(kernel, number, inputs) {number, inputs, 0, true},
#include "contract/maps.def"
};
inline constexpr std::size_t map_function_count = sizeof(map_functions) / sizeof(map_functions[0]);

// Returns the function's position in the list, from 1. A number of rapt_map_function that the list lacks is a case that
// this switch lacks, about which compilers warn.
constexpr std::size_t position_of(rapt_map_function function) {
  switch (function) {
#define MAP(name, Class, number, inputs, parameters) \
  case number:                                       \
    break;
#define MAP_OF_KERNEL(kernel, number, inputs) \
  case number:                                \
    break;
#include "contract/maps.def"
  }
  return static_cast<std::size_t>(function);
}

constexpr bool maps_are_in_order() {
  for (std::size_t i = 0; i < map_function_count; ++i) {
    if (position_of(map_functions[i].number) != i + 1) return false;
  }
  return true;
}
static_assert(maps_are_in_order(), "row i of contract/maps.def is the function with the number i + 1");

}  // namespace
}  // namespace rapt
