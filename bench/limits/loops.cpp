// Defines the loops for one instruction-set level. RAPT_LIMITS_REGISTERS is the header in limits/registers/
// that cmake/isa.cmake names for the level.
#include "limits/loops.hpp"

#include <cstdint>

#include RAPT_LIMITS_REGISTERS

namespace {

constexpr std::size_t width = sizeof(Bits);
constexpr std::size_t line = 64;

// keep() and keep_float() force the compiler to compute a value. barrier() keeps the compiler from moving
// memory accesses across it.
inline void keep(Bits bits) { __asm__ volatile("" : : RAPT_LIMITS_BITS_REGISTER(bits)); }
template <class Register>
inline void keep_float(Register chain) {
  __asm__ volatile("" : : RAPT_LIMITS_FLOAT_REGISTER(chain));
}
inline void barrier() { __asm__ volatile("" : : : "memory"); }

// Twelve independent chains keep two FMA pipelines busy. With a latency of four to six cycles, two pipelines
// need eight to twelve chains.
#define RAPT_LIMITS_TWELVE(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)

// If `additions` is set, an addition follows each multiply-add. The chains don't use the sum, so their
// latency stays the same.
template <class Register, class Element, bool additions>
std::size_t fused_multiply_adds() {
  constexpr std::size_t rounds = 4096;
  const Register half = broadcast(Element(0.5)), one = broadcast(Element(1));  // the chains converge to 2
#define DECLARE(i) Register chain##i = broadcast(Element(1) + Element(i));
#define STEP(i)                        \
  chain##i = fma(chain##i, half, one); \
  if constexpr (additions) keep_float(chain##i + one);
#define KEEP(i) keep_float(chain##i);
  RAPT_LIMITS_TWELVE(DECLARE)
  for (std::size_t round = 0; round < rounds; ++round) {
    RAPT_LIMITS_TWELVE(STEP)
    barrier();
  }
  RAPT_LIMITS_TWELVE(KEEP)
#undef DECLARE
#undef STEP
#undef KEEP
  return rounds * 12 * (additions ? 2 : 1);
}

#ifdef RAPT_LIMITS_BYTE_PRODUCTS
std::size_t products_of_bytes() {
  constexpr std::size_t rounds = 4096;
#define DECLARE(i) Bits chain##i = zero();
#define STEP(i) RAPT_LIMITS_BYTE_PRODUCTS(chain##i);
#define KEEP(i) keep(chain##i);
  RAPT_LIMITS_TWELVE(DECLARE)
  for (std::size_t round = 0; round < rounds; ++round) {
    RAPT_LIMITS_TWELVE(STEP)
  }
  RAPT_LIMITS_TWELVE(KEEP)
#undef DECLARE
#undef STEP
#undef KEEP
  return rounds * 12;
}
#else
constexpr std::size_t (*products_of_bytes)() = nullptr;
#endif

#if defined(__AMX_BF16__) || defined(__AMXBF16__)  // clang 14 defines __AMXBF16__
// Uses four accumulator tiles, because a tile product has a throughput of 16 cycles and a latency of 52.
std::size_t products_of_tiles() {
  constexpr std::size_t rounds = 4096;
  struct alignas(64) {
    unsigned char palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64};
    unsigned char rows[16] = {16, 16, 16, 16, 16, 16};
  } whole;
  __asm__ volatile("ldtilecfg %0" : : "m"(whole) : "memory");  // zeroes the tiles
  for (std::size_t round = 0; round < rounds; ++round) {
    __asm__ volatile(
        "tdpbf16ps %tmm5, %tmm4, %tmm0\n\ttdpbf16ps %tmm5, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm5, %tmm4, %tmm2\n\ttdpbf16ps %tmm5, %tmm4, %tmm3");
  }
  __asm__ volatile("tilerelease");
  return rounds * 4;
}
#else
constexpr std::size_t (*products_of_tiles)() = nullptr;
#endif

// Counts cycles using a chain of integer additions, each of which takes one cycle on every core.
// Multiply-adds run at the same time, so the clock rate is the one that vector code of the level has.
std::size_t cycles() {
  constexpr std::size_t rounds = 1024;
  const F32 half = broadcast(0.5F), one = broadcast(1.0F);
  std::size_t sum = rounds, addend = 3;
  __asm__ volatile("" : "+r"(addend));
#define DECLARE(i) F32 chain##i = broadcast(1.0F + i);
#define STEP(i)                        \
  chain##i = fma(chain##i, half, one); \
  sum += addend;                       \
  __asm__ volatile("" : "+r"(sum));
#define KEEP(i) keep_float(chain##i);
  RAPT_LIMITS_TWELVE(DECLARE)
  for (std::size_t round = 0; round < rounds; ++round) {
    RAPT_LIMITS_TWELVE(STEP)
  }
  RAPT_LIMITS_TWELVE(KEEP)
#undef DECLARE
#undef STEP
#undef KEEP
  return rounds * 12;
}

template <class Step>
inline void each_register(std::size_t bytes, Step step) {
  for (std::size_t at = 0; at < bytes; at += rapt::bench::limit_block) {
#if defined(__clang__)
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 64
#endif
    for (std::size_t i = 0; i < rapt::bench::limit_block; i += width) step(at + i);
    barrier();
  }
}

// This distance is long enough for a prefetched line to arrive in time, and too short for the line to be
// evicted before its use.
constexpr std::size_t ahead = 1024;

template <bool prefetched>
inline void prefetch(const char *source, std::size_t offset) {
  if (prefetched && offset % line == 0) __builtin_prefetch(source + offset + ahead);
}

template <bool prefetched>
void load_all(const void *from, std::size_t bytes) {
  const char *source = static_cast<const char *>(from);
  each_register(bytes, [=](std::size_t i) {
    prefetch<prefetched>(source, i);
    keep(load(source + i));
  });
}

void store_all(void *to, std::size_t bytes) {
  char *target = static_cast<char *>(to);
  const Bits bits = zero();
  each_register(bytes, [=](std::size_t i) { store(target + i, bits); });
}

template <bool prefetched, auto store_one>
inline void copy_by(const void *from, void *to, std::size_t bytes) {
  const char *source = static_cast<const char *>(from);
  char *target = static_cast<char *>(to);
  each_register(bytes, [=](std::size_t i) {
    prefetch<prefetched>(source, i);
    store_one(target + i, load(source + i));
  });
}

template <bool prefetched>
void copy_all(const void *from, void *to, std::size_t bytes) {
  copy_by<prefetched, store>(from, to, bytes);
}

template <bool prefetched>
void copy_all_nt(const void *from, void *to, std::size_t bytes) {
  copy_by<prefetched, store_nt>(from, to, bytes);
  fence_nt();
}

// The asm statement hides from the compiler that the value stays the same. Otherwise the compiler would drop
// the store.
template <bool prefetched>
void update_all(void *at, std::size_t bytes) {
  char *place = static_cast<char *>(at);
  each_register(bytes, [=](std::size_t i) {
    prefetch<prefetched>(place, i);
    Bits bits = load(place + i);
    __asm__ volatile("" : "+" RAPT_LIMITS_BITS_REGISTER(bits));
    store(place + i, bits);
  });
}

}  // namespace

namespace rapt::bench {

extern "C" const LimitLoops RAPT_LIMITS_ENTRY;
const LimitLoops RAPT_LIMITS_ENTRY = {
    .register_bytes = width,
    .fma_f32 = fused_multiply_adds<F32, float, false>,
    .fma_f64 = fused_multiply_adds<F64, double, false>,
    .fma_add_f32 = fused_multiply_adds<F32, float, true>,
    .fma_add_f64 = fused_multiply_adds<F64, double, true>,
    .clock = cycles,
    .products_i8 = products_of_bytes,
    .products_bf16 = products_of_tiles,
    .load = {load_all<false>, load_all<true>},
    .store = store_all,
    .copy = {copy_all<false>, copy_all<true>},
    .copy_nt = {copy_all_nt<false>, copy_all_nt<true>},
    .update = {update_all<false>, update_all<true>},
};

}  // namespace rapt::bench
