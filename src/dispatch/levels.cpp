#include "dispatch/levels.hpp"

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

const KernelTable *const *parts_of_level(std::size_t index) { return tables[index]; }

}  // namespace rapt
