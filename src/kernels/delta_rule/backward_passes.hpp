// The passes of the delta rule's gradients over a block of columns of a state and of its gradient. The end of a token
// and the beginning of the one before it are one pass: a vector of the gradient is loaded and stored once a token.
#pragma once

#include <cstddef>

#include "call/delta_backward_call.hpp"
#include "kernels/delta_rule/arithmetic.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/lane_index.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// A token's factors, one for each row of the state.
struct DeltaFactors {
  const float *q, *k, *decay;
  std::ptrdiff_t decay_key_step;
  RAPT_INNER float decay_of(std::size_t i) const {
    return decay[static_cast<std::ptrdiff_t>(i) * decay_key_step];
  }
};

// What a token has for each column. All rows have delta_pitch() elements, with zeros after the columns.
struct DeltaColumns {
  const float *u;     // what the state gets for a unit of k
  const float *p;     // gradients of the outputs, times the scale
  const float *back;  // -dv, what the gradient of the state gets for a unit of k
};

// A block of n vectors of columns, from column `first` on. With `keeps`, only the first `columns` of them exist. The
// others stay zeros, whatever they are multiplied by, so that they add nothing to sums.
template <class S, class Math, std::size_t n, bool keeps>
struct DeltaBackwardBlock {
  using V = typename S::batch;
  using Mask = typename S::mask;
  static constexpr std::size_t vectors = n;
  static constexpr std::size_t registers = rapt::delta_lanes / S::width;
  static_assert(n % registers == 0, "a lane has the same register in every block");

  std::size_t first, columns, rows, pitch;

  RAPT_INNER static V factor(float x) { return Math::operand(V(x)); }
  RAPT_INNER static void clear(V (&v)[n]) {
    unroll<n>([&](std::size_t j) RAPT_INNER { v[j] = V(0.0f); });
  }
  RAPT_INNER std::size_t left(std::size_t j) const {
    return columns > j * S::width ? columns - j * S::width : 0;
  }
  RAPT_INNER void make_masks(Mask (&masks)[n]) const {
    const V index = S::load(lane_index<float>);
    unroll<n>([&](std::size_t j) RAPT_INNER { masks[j] = S::less(index, V(static_cast<float>(left(j)))); });
  }
  RAPT_INNER static V kept(const Mask (&masks)[n], std::size_t j, V v) {
    if constexpr (keeps) return S::select(masks[j], v, V(0.0f));
    return v;
  }
  // Elements of a caller's row.
  RAPT_INNER V load(const float *row, std::size_t j) const {
    if constexpr (!keeps) return S::load(row + first + j * S::width);
    return left(j) == 0 ? V(0.0f) : S::load_first(row + first + j * S::width, left(j));
  }
  RAPT_INNER void store(float *row, std::size_t j, V v) const {
    if constexpr (!keeps) {
      S::store(row + first + j * S::width, v);
    } else if (left(j) > 0) {
      S::store_first(row + first + j * S::width, v, left(j));
    }
  }

  // Lets the state decay, and sums its products with k. Before it, the state gets what the last token adds, if `adds`.
  template <bool adds>
  RAPT_INNER void decay(const float *from, const DeltaFactors &last, const V (&u)[n],
                        const DeltaFactors &token, float *to, V (&r)[n]) const {
    Mask masks[n];
    make_masks(masks);
    clear(r);
    for (std::size_t i = 0; i < rows; ++i) {
      const V k = factor(token.k[i]), decay = factor(token.decay_of(i));
      const V last_k = adds ? factor(last.k[i]) : V(0.0f);
      const std::size_t at = i * pitch + first;
      unroll<n>([&](std::size_t j) RAPT_INNER {
        const V before = S::load(from + at + j * S::width);
        const V s = adds ? Math::fma(last_k, u[j], before) : Math::operand(before);
        const V decayed = kept(masks, j, Math::product(s, decay));
        S::store(to + at + j * S::width, decayed);
        r[j] = Math::fma(k, decayed, r[j]);
      });
    }
  }
  // Stores the state after a token.
  RAPT_INNER void add(const float *decayed, const DeltaFactors &token, const V (&u)[n], float *to) const {
    Mask masks[n];
    make_masks(masks);
    for (std::size_t i = 0; i < rows; ++i) {
      const V k = factor(token.k[i]);
      const std::size_t at = i * pitch + first;
      unroll<n>([&](std::size_t j) RAPT_INNER {
        const V s = Math::fma(k, u[j], S::load(decayed + at + j * S::width));
        S::store(to + at + j * S::width, kept(masks, j, s));
      });
    }
  }

  // The lanes of a row's sum. The first block begins it.
  RAPT_INNER void load_lanes(const float *sums, V (&lanes)[registers]) const {
    unroll<registers>([&](std::size_t r)
                          RAPT_INNER { lanes[r] = first == 0 ? V(0.0f) : S::load(sums + r * S::width); });
  }
  RAPT_INNER static void store_lanes(float *sums, const V (&lanes)[registers]) {
    unroll<registers>([&](std::size_t r) RAPT_INNER { S::store(sums + r * S::width, lanes[r]); });
  }

  // What a head of q that is not the token's last adds to the gradient, and the gradient of its row.
  RAPT_INNER void answer(const DeltaFactors &token, const DeltaColumns &of, const float *decayed,
                         float *gradient, float *sums) const {
    Mask masks[n];
    make_masks(masks);
    for (std::size_t i = 0; i < rows; ++i) {
      const V k = factor(token.k[i]), q = factor(token.q[i]);
      const std::size_t at = i * pitch + first;
      V dq[registers];
      load_lanes(sums + i * rapt::delta_lanes, dq);
      unroll<n>([&](std::size_t j) RAPT_INNER {
        const std::size_t column = first + j * S::width, e = at + j * S::width;
        const V p = S::load(of.p + column);
        const V s = Math::fma(k, S::load(of.u + column), S::load(decayed + e));
        dq[j % registers] = Math::fma(kept(masks, j, s), p, dq[j % registers]);
        S::store(gradient + e, kept(masks, j, Math::fma(q, p, S::load(gradient + e))));
      });
      store_lanes(sums + i * rapt::delta_lanes, dq);
    }
  }
  // The end of a token's gradients, if `leaves`, and the beginning of those of the token before it, if `enters`: its
  // output and the products w of the gradient and k. The sums are [rows][3][lanes], of dq, dk and dg.
  template <bool leaves, bool enters, bool has_delta>
  RAPT_INNER void pass(const DeltaFactors &token, const DeltaColumns &of, const DeltaFactors &next,
                       const DeltaColumns &of_next, const float *decayed, float *gradient, float *sums,
                       V (&w)[n]) const {
    Mask masks[n];
    make_masks(masks);
    clear(w);
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t at = i * pitch + first;
      float *const sums_of_row = sums + 3 * i * rapt::delta_lanes;
      const V k = factor(token.k[i]), decay = factor(token.decay_of(i));
      const V next_q = factor(next.q[i]), next_k = factor(next.k[i]);
      V dq[registers], dk[registers], dg[registers];
      if constexpr (leaves) {
        load_lanes(sums_of_row, dq);
        load_lanes(sums_of_row + rapt::delta_lanes, dk);
        load_lanes(sums_of_row + 2 * rapt::delta_lanes, dg);
      }
      unroll<n>([&](std::size_t j) RAPT_INNER {
        const std::size_t column = first + j * S::width, e = at + j * S::width, r = j % registers;
        V g = S::load(gradient + e);
        if constexpr (leaves) {
          const V a = S::load(decayed + e), u = S::load(of.u + column);
          const V s = kept(masks, j, Math::fma(k, u, a));
          dq[r] = Math::fma(s, S::load(of.p + column), dq[r]);
          dk[r] = Math::fma(g, u, dk[r]);
          if constexpr (has_delta) {
            const V back = S::load(of.back + column);
            dk[r] = Math::fma(a, back, dk[r]);
            g = kept(masks, j, Math::fma(k, back, g));
          }
          dg[r] = Math::fma(g, a, dg[r]);
          g = Math::product(g, decay);
        }
        if constexpr (enters) g = Math::fma(next_q, S::load(of_next.p + column), g);
        g = kept(masks, j, g);
        S::store(gradient + e, g);
        if constexpr (enters) w[j] = Math::fma(next_k, g, w[j]);
      });
      if constexpr (leaves) {
        store_lanes(sums_of_row, dq);
        store_lanes(sums_of_row + rapt::delta_lanes, dk);
        store_lanes(sums_of_row + 2 * rapt::delta_lanes, dg);
      }
    }
  }
};

}  // namespace
