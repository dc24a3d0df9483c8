// Copies a caller's struct of options. Its `size` names the version of the struct.
#pragma once

#include <cstddef>
#include <cstring>

#include "rapt/rapt.h"

namespace rapt {

// `options` holds the defaults, which stay if `given` is null.
template <class Options>
rapt_status read_options(const Options *given, Options &options) {
  if (!given) return RAPT_OK;
  // No version has had fewer fields.
  if (given->size < sizeof options) return RAPT_BAD_OPTIONS_SIZE;
  if (given->size > 4096) return RAPT_BAD_OPTIONS_SIZE;  // uninitialised memory, not a size
  const auto *bytes = reinterpret_cast<const unsigned char *>(given);
  for (std::size_t i = sizeof options; i < given->size; ++i) {
    if (bytes[i] != 0) return RAPT_BAD_OPTION;
  }
  std::memcpy(&options, given, sizeof options);
  return RAPT_OK;
}

}  // namespace rapt
