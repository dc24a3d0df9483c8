// Accumulates dot products in the lanes that contract/reductions.hpp fixes for all instruction-set levels.
#pragma once

#include <cstddef>
#include <type_traits>

#include "contract/reductions.hpp"
#include "contract/types.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class A>
struct DotLanes {
  using S = simd<A>;
  static constexpr std::size_t lanes = rapt::dot_lanes<A>;
  static constexpr std::size_t registers = lanes / S::width;
  typename S::batch lane[registers];

  // Sets all lanes to 0. It is not a constructor: gcc 12 would construct an array of these in a loop, and
  // keep it in memory.
  RAPT_INNER void clear() {
    unroll<registers>([&](std::size_t r) RAPT_INNER { lane[r] = typename S::batch(A(0)); });
  }
  // Does the same as clear() followed by add().
  template <class E>
  RAPT_INNER void begin(const E *a, const E *b) {
    const typename S::batch zero(A(0));
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      lane[r] = S::fma(S::load(a + r * S::width), S::load(b + r * S::width), zero);
    });
  }
  template <class E>
  RAPT_INNER void add(const E *a, const E *b) {
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      lane[r] = S::fma(S::load(a + r * S::width), S::load(b + r * S::width), lane[r]);
    });
  }
  // Adds a tail of `left` elements, fewer than `lanes`: whole registers first, then a partial one.
  //
  //   100 elements, AVX-512                 | ns
  //   four masked fused operations          | 6.5
  //   four pairs of masked loads            | 5.3
  //   whole registers, then one (this one)  | 4.0
  //
  // At random lengths below 256 the three take 6.8, 5.7 and 4.9 ns, including mispredicted branches.
  //
  // By definition, missing elements add 0 * 0, which turns -0 into +0 in every lane. Adding +0 to only one
  // register gives the same sum.
  template <class E>
  RAPT_INNER void add_first(const E *a, const E *b, std::size_t left) {
    unroll_while<registers>([&](auto r) RAPT_INNER {
      constexpr std::size_t begin = r * S::width;
      if (left < begin + S::width) {
        if (left > begin) {
          const std::size_t k = left - begin;
          lane[r] = S::fma(S::load_first(a + begin, k), S::load_first(b + begin, k), lane[r]);
        }
        return false;
      }
      lane[r] = S::fma(S::load(a + begin), S::load(b + begin), lane[r]);
      return true;
    });
    lane[0] = lane[0] + typename S::batch(A(0));
  }
  RAPT_INNER DotLanes &in_order() { return *this; }
  RAPT_INNER void load(const A *lanes_in_order) {
    unroll<registers>([&](std::size_t r) RAPT_INNER { lane[r] = S::load(lanes_in_order + r * S::width); });
  }
  RAPT_INNER void store(A *lanes_in_order) const {
    unroll<registers>([&](std::size_t r) RAPT_INNER { S::store(lanes_in_order + r * S::width, lane[r]); });
  }
  RAPT_INNER typename S::batch folded() const { return fold_registers(lane); }
  RAPT_INNER A fold() const { return S::fold(folded()); }
};

// Accumulates dot products of bf16, which are loaded as 32-bit words of two elements. One shift or mask of a
// word extracts its even or odd element, so even and odd lanes are in separate registers. in_order()
// interleaves them for a tail. Loading single elements would take two instructions, one of them across lanes.
struct DotPairs : DotLanes<float> {
  using Base = DotLanes<float>;
  using E = rapt::BF16;

  RAPT_INNER void begin(const E *a, const E *b) {
    clear();
    add(a, b);
  }
  RAPT_INNER void add(const E *a, const E *b) {
    unroll<registers / 2>([&](std::size_t r) RAPT_INNER {
      const auto left = words(a + 2 * r * S::width), right = words(b + 2 * r * S::width);
      lane[2 * r] = S::fma(S::lower_bf16(left), S::lower_bf16(right), lane[2 * r]);
      lane[2 * r + 1] = S::fma(S::upper_bf16(left), S::upper_bf16(right), lane[2 * r + 1]);
    });
  }
  RAPT_INNER Base &in_order() {
    unroll<registers / 2>([&](std::size_t r) RAPT_INNER { S::interleave(lane[2 * r], lane[2 * r + 1]); });
    return *this;
  }
  RAPT_INNER S::batch folded() const {
    S::batch half[2];
    fold_pairs(half);
    S::interleave(half[0], half[1]);
    return half[0] + half[1];
  }
  RAPT_INNER float fold() const { return S::fold(folded()); }

 private:
  static S::batch words(const E *p) { return S::load(reinterpret_cast<const float *>(p)); }
  RAPT_INNER void fold_pairs(S::batch (&half)[2]) const {
    unroll<2>([&](std::size_t i) RAPT_INNER {
      S::batch of[registers / 2];
      unroll<registers / 2>([&](std::size_t r) RAPT_INNER { of[r] = lane[2 * r + i]; });
      half[i] = fold_registers(of);
    });
  }
};

template <class E>
using LanesForDot =
    std::conditional_t<std::is_same_v<E, rapt::BF16>, DotPairs, DotLanes<rapt::Arithmetic<E>>>;

// Sums n > dot_stretch elements. lanes_of(begin, count, lane) computes the lanes of [begin, begin + count).
template <class A, class F>
RAPT_INNER inline A sum_of_stretches(std::size_t n, F lanes_of) {
  constexpr std::size_t lanes = rapt::dot_lanes<A>, stretch = rapt::dot_stretch<A>;
  A total[lanes];
  lanes_of(std::size_t{0}, stretch, total);
  for (std::size_t begin = stretch; begin < n; begin += stretch) {
    A lane[lanes];
    lanes_of(begin, n - begin < stretch ? n - begin : stretch, lane);
    for (std::size_t j = 0; j < lanes; ++j) total[j] += lane[j];
  }
  DotLanes<A> sum;
  sum.load(total);
  return sum.fold();
}

}  // namespace
