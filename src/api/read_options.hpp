// Copies of a caller's options, whose size tells which version of the struct they are.
#pragma once

#include <cstddef>
#include <cstring>

#include "rapt/rapt.h"

namespace rapt {

// `options` holds the defaults.
template <class Options>
rapt_status read_options(const Options *given, Options &options) {
  if (!given) return RAPT_OK;
  // A version with fewer fields does not exist yet.
  if (given->size < sizeof options) return RAPT_BAD_OPTIONS_SIZE;
  if (given->size > 4096) return RAPT_BAD_OPTIONS_SIZE;  // not a size: memory that nobody set
  const auto *bytes = reinterpret_cast<const unsigned char *>(given);
  for (std::size_t i = sizeof options; i < given->size; ++i) {
    if (bytes[i] != 0) return RAPT_BAD_OPTION;
  }
  std::memcpy(&options, given, sizeof options);
  return RAPT_OK;
}

}  // namespace rapt
