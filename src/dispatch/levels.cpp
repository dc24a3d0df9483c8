#include "dispatch/levels.hpp"

#include <iterator>

#include "dispatch/requirements.hpp"

extern "C" {
extern const rapt::KernelTable rapt_table_scalar;
#if defined(__x86_64__)
extern const rapt::KernelTable rapt_table_avx2;
extern const rapt::KernelTable rapt_table_avx512;
#elif defined(__aarch64__)
extern const rapt::KernelTable rapt_table_neon;
#endif
}

namespace rapt {
namespace {

constexpr const KernelTable *tables[] = {
    &rapt_table_scalar,
#if defined(__x86_64__)
    &rapt_table_avx2,
    &rapt_table_avx512,
#elif defined(__aarch64__)
    &rapt_table_neon,
#endif
};
static_assert(std::size(tables) == std::size(level_needs));

}  // namespace

std::size_t level_count() { return std::size(tables); }

Level level(std::size_t index) { return {level_needs[index].name, tables[index], level_needs[index].needs}; }

}  // namespace rapt
