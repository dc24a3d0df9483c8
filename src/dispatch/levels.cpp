#include "dispatch/levels.hpp"

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

#if defined(__x86_64__)
constexpr FeatureSet x86_64_v3(Feature::sse3, Feature::ssse3, Feature::sse4_1, Feature::sse4_2, Feature::popcnt,
                               Feature::cx16, Feature::lahf, Feature::movbe, Feature::lzcnt, Feature::bmi1,
                               Feature::bmi2, Feature::f16c, Feature::fma, Feature::avx, Feature::avx2);
constexpr FeatureSet x86_64_v4 = x86_64_v3 | FeatureSet(Feature::avx512f, Feature::avx512bw, Feature::avx512cd,
                                                        Feature::avx512dq, Feature::avx512vl);
#endif

// Feature sets follow the flags in cmake/isa.cmake: change both together.
constexpr Level level_list[] = {
    {"scalar", &rapt_table_scalar, FeatureSet()},
#if defined(__x86_64__)
    {"avx2", &rapt_table_avx2, x86_64_v3},
    {"avx512", &rapt_table_avx512, x86_64_v4},
#elif defined(__aarch64__)
    {"neon", &rapt_table_neon, FeatureSet(Feature::asimd)},
#endif
};

}  // namespace

std::span<const Level> levels() { return level_list; }

}  // namespace rapt
