#include "dispatch/levels.hpp"

#include <iterator>

extern "C" {
#define LEVEL(name, ...) extern const rapt::KernelTable *const rapt_table_##name[];
#include "rapt_levels.def"
#undef LEVEL
}

namespace rapt {
namespace {

constexpr const KernelTable *const *tables[] = {
#define LEVEL(name, ...) rapt_table_##name,
#include "rapt_levels.def"
#undef LEVEL
};

}  // namespace

std::size_t level_count() { return std::size(tables); }

Level level(std::size_t index) { return {level_needs[index], tables[index]}; }

}  // namespace rapt
