// Counts the activations, and compares their list with rapt_activation.
#pragma once

#include <cstddef>

#include "rapt/rapt.h"

namespace rapt {
namespace {

inline constexpr rapt_activation activations[] = {
#define ACTIVATION(function, Class, number) number,
#include "contract/activations.def"
};
inline constexpr std::size_t activation_count = sizeof(activations) / sizeof(activations[0]);

// Returns the activation's position in the list. A number of rapt_activation that the list lacks is a case that
// this switch lacks, about which compilers warn.
constexpr std::size_t position_of(rapt_activation activation) {
  switch (activation) {
#define ACTIVATION(function, Class, number) \
  case number:                              \
    break;
#include "contract/activations.def"
  }
  return static_cast<std::size_t>(activation);
}

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < activation_count; ++i) {
    if (position_of(activations[i]) != i) return false;
  }
  return true;
}
static_assert(is_in_order(), "row i of contract/activations.def is the activation with the number i");

}  // namespace
}  // namespace rapt
