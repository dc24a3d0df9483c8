// Adds NumKong as a peer. This file is compiled for every level, so NumKong chooses the level's kernels at
// compile time. Kernels for instruction sets that belong to no level are used only if NumKong finds the set
// in the CPU. For each level, the file is compiled twice: with one dot product per row, and with
// RAPT_PEER_PACKED for rows that are packed first. NumKong adds f32 products in f64.
#if defined(__AVX512VNNI__)
#define NK_TARGET_ICELAKE 1
#define NK_TARGET_GENOA 1
#elif defined(RAPT_PEER_LEVEL_neon_dotprod) || defined(RAPT_PEER_LEVEL_neon_i8mm)
#define NK_TARGET_NEONSDOT 1
#elif defined(RAPT_PEER_LEVEL_neon_bf16)
#define NK_TARGET_NEONSDOT 1
#define NK_TARGET_NEONFHM 1
#define NK_TARGET_NEONBFDOT 1
#endif
#define NK_TARGET_SAPPHIREAMX 0  // slower than vectors for a single query

#include <numkong/capabilities.h>
#include <numkong/dot.h>
#include <numkong/dots.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "compiler.hpp"
#include "peer.hpp"

namespace {

// These are the types of NumKong's functions. E is NumKong's element type, and Sum is the type of its sums.
template <class E, class Sum>
using NkDot = void (*)(const E *a, const E *b, nk_size_t n, Sum *result);
template <class E>
using NkPack = void (*)(const E *rows, nk_size_t row_count, nk_size_t dim, nk_size_t row_bytes, void *packed);
template <class E, class Sum>
using NkMultiply = void (*)(const E *queries, const void *packed, Sum *out, nk_size_t query_count,
                            nk_size_t row_count, nk_size_t dim, nk_size_t query_bytes, nk_size_t out_bytes);

// This function is always inlined, so that `function` is a constant and the compiler may inline it too.
template <class Out, class T, class E, class Sum>
[[gnu::always_inline]] inline Out sum_of(NkDot<E, Sum> function, const T *a, const T *b, std::size_t n) {
  Sum sum{};
  function(reinterpret_cast<const E *>(a), reinterpret_cast<const E *>(b), n, &sum);
  return static_cast<Out>(sum);
}

template <auto function, class T, class Out>
Out dot(const T *a, const T *b, std::size_t n) {
  return sum_of<Out>(function, a, b, n);
}

template <auto function, class T>
void dot_rows(const T *query, const T *rows, std::ptrdiff_t row_stride, std::size_t row_count,
              std::size_t dim, float scale, float *out) {
  for (std::size_t r = 0; r < row_count; ++r) {
    out[r] = scale * sum_of<float>(function, query, rows + static_cast<std::ptrdiff_t>(r) * row_stride, dim);
  }
}

template <class T, class E>
void call_pack(NkPack<E> function, const T *rows, std::size_t row_count, std::size_t dim, void *packed) {
  function(reinterpret_cast<const E *>(rows), row_count, dim, dim * sizeof(T), packed);
}

template <auto function, class T>
void pack(const T *rows, std::size_t row_count, std::size_t dim, void *packed) {
  call_pack(function, rows, row_count, dim, packed);
}

template <class T, class E, class Sum>
void call_multiply(NkMultiply<E, Sum> function, const T *query, const void *packed, std::size_t row_count,
                   std::size_t dim, float scale, float *out) {
  const auto run = [&](Sum *sums) {
    function(reinterpret_cast<const E *>(query), packed, sums, 1, row_count, dim, dim * sizeof(T),
             row_count * sizeof(Sum));
    for (std::size_t r = 0; r < row_count; ++r) out[r] = scale * static_cast<float>(sums[r]);
  };
  if constexpr (std::is_same_v<Sum, float>) {
    run(out);
  } else {
    static std::vector<Sum> sums;
    if (sums.size() < row_count) sums.resize(row_count);
    run(sums.data());
  }
}

template <auto function, class T>
void multiply(const T *query, const void *packed, std::size_t row_count, std::size_t dim, float scale,
              float *out) {
  call_multiply(function, query, packed, row_count, dim, scale, out);
}

#if defined(RAPT_PEER_PACKED)
#define RAPT_USE(functions, element, T, Sum)                                               \
  functions.packed_dot_rows = {[](std::size_t row_count, std::size_t dim) -> std::size_t { \
                                 return nk_dots_packed_size_##element(row_count, dim);     \
                               },                                                          \
                               pack<nk_dots_pack_##element, T>, multiply<nk_dots_packed_##element, T>}
#else
#define RAPT_USE(functions, element, T, Sum)     \
  functions.dot = dot<nk_dot_##element, T, Sum>; \
  functions.dot_rows = dot_rows<nk_dot_##element, T>
#endif

}  // namespace

extern "C" const char *RAPT_PEER_ENTRY(rapt::bench::Peer &peer) {
  RAPT_USE(peer.f32, f32, float, float);
  RAPT_USE(peer.f16, f16, std::uint16_t, float);
  RAPT_USE(peer.bf16, bf16, std::uint16_t, float);
  RAPT_USE(peer.i8, i8, std::int8_t, std::int64_t);
  // If the CPU lacks a set, this level has no kernel for the type: NumKong chose at compile time what its
  // kernels call. The object file of a weaker level has kernels that the CPU can run.
  [[maybe_unused]] const nk_capability_t cpu = nk_capabilities();
#if NK_TARGET_ICELAKE
  if ((cpu & nk_cap_icelake_k) == 0) peer.i8 = {};
  if ((cpu & nk_cap_genoa_k) == 0) peer.bf16 = {};
#endif
#if NK_TARGET_NEONBFDOT
  if ((cpu & nk_cap_neonfhm_k) == 0) peer.f16 = {};
  if ((cpu & nk_cap_neonbfdot_k) == 0) peer.bf16 = {};
#endif
  return RAPT_PEER_TEXT(NK_VERSION_MAJOR) "." RAPT_PEER_TEXT(NK_VERSION_MINOR) "." RAPT_PEER_TEXT(
      NK_VERSION_PATCH);
}
