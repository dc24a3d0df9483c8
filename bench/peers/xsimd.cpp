// xsimd's exp, a register at a time.
#include <algorithm>
#include <cstddef>
#include <xsimd/xsimd.hpp>

#include "compiler.hpp"
#include "peer.hpp"

namespace {

#if defined(__AVX512BW__)
using Arch = xsimd::avx512bw;
#elif defined(__AVX2__)
using Arch = xsimd::fma3<xsimd::avx2>;
#else
using Arch = xsimd::neon64;
#endif

template <class T>
void exp(const T *x, T *y, std::size_t n) {
  using Batch = xsimd::batch<T, Arch>;
  std::size_t i = 0;
  for (; i + Batch::size <= n; i += Batch::size)
    xsimd::exp(Batch::load_unaligned(x + i)).store_unaligned(y + i);
  if (i == n) return;
  alignas(64) T rest[Batch::size] = {};  // xsimd has no masked loads
  std::copy(x + i, x + n, rest);
  xsimd::exp(Batch::load_aligned(rest)).store_aligned(rest);
  std::copy(rest, rest + (n - i), y + i);
}

}  // namespace

extern "C" const char *RAPT_PEER_ENTRY(rapt::bench::Peer &peer) {
  peer.exp_f32 = exp<float>;
  peer.exp_f64 = exp<double>;
  return RAPT_PEER_TEXT(XSIMD_VERSION_MAJOR) "." RAPT_PEER_TEXT(XSIMD_VERSION_MINOR) "." RAPT_PEER_TEXT(
      XSIMD_VERSION_PATCH);
}
