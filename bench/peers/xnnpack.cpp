// Adds XNNPACK as a peer. Each operator is made once per shape and runs on the calling thread. An operator
// may read up to XNN_EXTRA_BYTES (16) past the end of x.
#include <xnnpack.h>

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "peer.hpp"
#include "rapt/rapt.h"
#include "shape_cache.hpp"

namespace rapt::bench {
namespace {

constexpr pthreadpool_t calling_thread = nullptr;
constexpr std::size_t one = 1;

#ifdef RAPT_PEER_XNNPACK_RESHAPES  // since 2024, the shape is set before the memory

xnn_operator_t make_multiply(std::size_t n) {
  xnn_operator_t made = nullptr;
  xnn_create_binary_elementwise_nd(xnn_binary_multiply, xnn_datatype_fp32, nullptr, nullptr, nullptr, 0,
                                   &made);
  xnn_reshape_binary_elementwise_nd(made, 1, &n, 1, &one, calling_thread);
  return made;
}

void set_up_multiply(xnn_operator_t made, std::size_t, const float *x, const float *factor, float *y) {
  xnn_setup_binary_elementwise_nd(made, x, factor, y);
}

xnn_operator_t make_softmax(std::size_t rows, std::size_t cols) {
  xnn_operator_t made = nullptr;
  xnn_create_softmax_nc_f32(0, &made);
  xnn_reshape_softmax_nc_f32(made, cols, cols, cols, rows, calling_thread);
  return made;
}

void set_up_softmax(xnn_operator_t made, std::size_t, const float *x, float *y) {
  xnn_setup_softmax_nc_f32(made, x, y);
}

#else

xnn_operator_t make_multiply(std::size_t) {
  const float infinity = std::numeric_limits<float>::infinity();
  xnn_operator_t made = nullptr;
  xnn_create_multiply_nd_f32(-infinity, infinity, 0, &made);
  return made;
}

void set_up_multiply(xnn_operator_t made, std::size_t n, const float *x, const float *factor, float *y) {
  xnn_setup_multiply_nd_f32(made, 1, &n, 1, &one, x, factor, y, calling_thread);
}

xnn_operator_t make_softmax(std::size_t, std::size_t cols) {
  xnn_operator_t made = nullptr;
  xnn_create_softmax_nc_f32(cols, cols, cols, 0, &made);
  return made;
}

void set_up_softmax(xnn_operator_t made, std::size_t rows, const float *x, float *y) {
  xnn_setup_softmax_nc_f32(made, rows, x, y, calling_thread);
}

#endif

void scale(const float *x, float factor, float *y, std::size_t n) {
  static ShapeCache<std::size_t, xnn_operator_t> cache;
  if (n == 0) return;
  const xnn_operator_t multiply = cache.get(n, [&] { return make_multiply(n); });
  set_up_multiply(multiply, n, x, &factor, y);
  xnn_run_operator(multiply, calling_thread);
}

void softmax(const float *x, float *y, std::size_t rows, std::size_t cols, float factor) {
  static ShapeCache<std::pair<std::size_t, std::size_t>, xnn_operator_t> cache;
  if (rows == 0 || cols == 0) return;
  if (factor != 1.0f) {
    scale(x, factor, y, rows * cols);
    x = y;
  }
  const xnn_operator_t made = cache.get({rows, cols}, [&] { return make_softmax(rows, cols); });
  set_up_softmax(made, rows, x, y);
  xnn_run_operator(made, calling_thread);
}

}  // namespace

// XNNPACK uses its best kernel for this CPU and does not say which, so it is compared with the best level.
// The version of 2022 has softmax only for SSE2, but multiplies using AVX-512.
void add_xnnpack(std::vector<Peer> &peers) {
  if (xnn_initialize(nullptr) != xnn_status_success) return;
  Peer peer;
  for (const char *isa : {"avx2", "avx512", "neon"}) {
    if (rapt_isa_usable(isa)) peer.isa = isa;
  }
  peer.name = "xnnpack";
  peer.version = RAPT_PEER_XNNPACK_VERSION;
  peer.f32.scale = scale;
  peer.f32.softmax = softmax;
  if (!peer.isa.empty()) peers.push_back(peer);
}

}  // namespace rapt::bench
