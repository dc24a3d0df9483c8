#include "support/serving.hpp"

#include <cstring>

#include "rapt/rapt.h"

namespace rapt::test {
namespace {

constexpr const char *kernel_names[] = {
#define KERNEL(name, family, operation, element) #name,
#include "kernels/kernels.def"
};

bool contains(const char *text, const char *word, std::size_t length) {
  for (; *text != 0; ++text) {
    if (std::strncmp(text, word, length) == 0) return true;
  }
  return false;
}

bool has_word_of(const char *name, const char *parts) {
  while (*parts != 0) {
    const std::size_t length = std::strcspn(parts, " ,");
    if (length != 0 && contains(name, parts, length)) return true;
    parts += length;
    parts += std::strspn(parts, " ,");
  }
  return false;
}

bool is_served_by_active(const char *kernel) {
  return std::strcmp(rapt_kernel_isa(kernel), rapt_active_isa()) == 0;
}

}  // namespace

bool active_level_has(const char *parts) {
  for (const char *name : kernel_names) {
    if (has_word_of(name, parts) && is_served_by_active(name)) return true;
  }
  return false;
}

bool active_level_serves() {
  for (const char *name : kernel_names) {
    if (is_served_by_active(name)) return true;
  }
  return false;
}

}  // namespace rapt::test
