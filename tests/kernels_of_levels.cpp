// Prints kernels_of_levels.def. A level's table says which kernels the level has, and the level need not run:
// levels that this CPU lacks count too. Rows of levels that are not compiled are printed as they are published.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "dispatch/levels.hpp"

namespace {

struct Row {
  std::string level, text;
};

const std::vector<Row> published = {
#define EVERY_KERNEL_OF(level) {#level, "EVERY_KERNEL_OF(" #level ")"},
#define KERNEL_OF(level, kernel) {#level, "KERNEL_OF(" #level ", " #kernel ")"},
#include "kernels_of_levels.def"
#undef EVERY_KERNEL_OF
#undef KERNEL_OF
};

const std::vector<std::string> compiled = {
#define LEVEL(name, ...) #name,
#include "rapt_levels.def"
#undef LEVEL
};

template <class KernelOf>
bool has(std::size_t level, KernelOf kernel_of) {
  for (auto part = rapt::parts_of_level(level); *part != nullptr; ++part) {
    if (kernel_of(**part) != nullptr) return true;
  }
  return false;
}

void print_compiled(std::size_t level) {
  std::string rows;
  bool has_every_kernel = true;
  const auto add = [&](const char *kernel, bool is_there) {
    has_every_kernel = has_every_kernel && is_there;
    if (is_there) rows += "KERNEL_OF(" + compiled[level] + ", " + kernel + ")\n";
  };
#define KERNEL(name, family, operation, element) \
  add(#name, has(level, [](const rapt::KernelTable &part) { return part.element.operation; }));
#include "kernels/kernels.def"
  if (has_every_kernel) rows = "EVERY_KERNEL_OF(" + compiled[level] + ")\n";
  std::fputs(rows.c_str(), stdout);
}

}  // namespace

int main() {
  std::puts(
      "// Lists the kernels that each level has. A level takes the others from the level that it builds on.\n"
      "// Made by a build for each processor: rapt_kernels_of_levels > tests/kernels_of_levels.def");
  std::vector<std::string> levels;  // in the published order, and new ones at the end
  for (const Row &row : published) levels.push_back(row.level);
  levels.insert(levels.end(), compiled.begin(), compiled.end());
  for (auto level = levels.begin(); level != levels.end(); ++level) {
    if (std::find(levels.begin(), level, *level) != level) continue;
    const auto found = std::find(compiled.begin(), compiled.end(), *level);
    if (found != compiled.end()) {
      print_compiled(static_cast<std::size_t>(found - compiled.begin()));
    } else {
      for (const Row &row : published) {
        if (row.level == *level) std::puts(row.text.c_str());
      }
    }
  }
}
