// Adds xsimd's exp as a peer.
#include <cstddef>
#include <xsimd/xsimd.hpp>

#include "by_registers.hpp"
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
struct Register {
  using Batch = xsimd::batch<T, Arch>;
  static constexpr std::size_t lanes = Batch::size;
  static void exp(const T *x, T *y) { xsimd::exp(Batch::load_unaligned(x)).store_unaligned(y); }
};

}  // namespace

extern "C" const char *RAPT_PEER_ENTRY(rapt::bench::Peer &peer) {
  peer.f32.exp = exp_by_registers<Register<float>, float>;
  peer.f64.exp = exp_by_registers<Register<double>, double>;
  return RAPT_PEER_TEXT(XSIMD_VERSION_MAJOR) "." RAPT_PEER_TEXT(XSIMD_VERSION_MINOR) "." RAPT_PEER_TEXT(
      XSIMD_VERSION_PATCH);
}
