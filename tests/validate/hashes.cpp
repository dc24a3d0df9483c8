#include "validate/hashes.hpp"

#include <fmt/format.h>

#include "rapt/rapt.h"

namespace rapt::validate {
namespace {

// Each kernel of kernels.def needs HASH lines in hashes.def. Otherwise published::NAME_quick is undeclared,
// and this file does not compile.
namespace published {
#define BITS(number) static_assert(number == RAPT_BITS_VERSION, "these are the hashes of other bits");
#define HASH(kernel, effort, hash) [[maybe_unused]] constexpr std::uint64_t kernel##_##effort = hash;
#include "validate/hashes.def"
#undef BITS
#undef HASH
}  // namespace published

struct Published {
  const char *kernel;
  std::uint64_t quick, full;
};

constexpr Published hashes[] = {
#define KERNEL(name, ...) {#name, published::name##_quick, published::name##_full},
#include "kernels/kernels.def"
#undef KERNEL
};

}  // namespace

std::uint64_t published_hash(const std::string &kernel, Effort effort) {
  for (const Published &line : hashes) {
    if (kernel == line.kernel) return effort == Effort::quick ? line.quick : line.full;
  }
  return 0;
}

std::string hash_line(const std::string &kernel, Effort effort, std::uint64_t hash) {
  return fmt::format("HASH({}, {}, {:#018x})\n", kernel, effort == Effort::quick ? "quick" : "full", hash);
}

std::string hashes_head() {
  return fmt::format(
      "// The published results: BITS(RAPT_BITS_VERSION), and HASH(kernel, effort, hash of all result bits "
      "under the\n"
      "// default seed). Made by the scalar level: rapt-validate --isa scalar --print-hashes > tests/validate/hashes.def\n"
      "// A line that changes says that results change, or that the cases did.\n"
      "BITS({})\n",
      RAPT_BITS_VERSION);
}

}  // namespace rapt::validate
