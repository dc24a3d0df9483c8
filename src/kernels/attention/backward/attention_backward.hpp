// Computes the gradient of attention.
//
// The outer loop is over tiles of query rows, and the inner loop over blocks of keys. So only one tile adds
// to a row's dq. Each block reads and writes its keys' gradients, which is 4 bytes for 80 operations. With
// blocks in the outer loop, dq would be transposed to and from memory for each block.
#pragma once

#include <cstddef>

#include "call/backward_task.hpp"
#include "kernels/attention/backward/tile_gradients.hpp"

namespace {

// Makes every zero of a gradient positive. So its sign does not depend on which zero terms were left out.
template <class A>
void make_zeros_positive(A *x, std::size_t n) {
  using S = simd<A>;
  const typename S::batch zero(A(0));
  std::size_t i = 0;
  for (; n - i >= S::width; i += S::width) S::store(x + i, S::load(x + i) + zero);
  if (i < n) S::store_first(x + i, S::load_first(x + i, n - i) + zero, n - i);
}

struct RoundGradients {
  template <class A, class E>
  void operator()(const A *x, E *y, std::size_t n) const {
    using S = simd<A>;
    std::size_t i = 0;
    for (; n - i >= S::width; i += S::width) S::store(y + i, S::load(x + i));
    if (i < n) S::store_first(y + i, S::load_first(x + i, n - i), n - i);
  }
};

template <class E>
void attention_backward(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                        void *workspace) {
  using A = rapt::Arithmetic<E>;
  const auto take = [&](const AttentionTile &tile, const TileShare &share) {
    TileGradients<GradientProducts<E>>(tile, static_cast<A *>(workspace)).run(share);
  };
  for (std::size_t index = first; index < last;) {
    const BackwardTasks tasks(*call, {first, last}, index);
    tasks.run(static_cast<A *>(workspace), take, make_zeros_positive<A>, RoundGradients());
    index = tasks.end();
  }
}

}  // namespace
