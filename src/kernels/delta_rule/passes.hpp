// The passes of the delta rule over a block of columns of a state. Columns are independent, so that the block stays
// in L1 for all tokens. The end of a token and the beginning of the next are one pass: a vector is loaded and stored
// once a token.
//
//   us a token and head of 128 x 128, AVX-512, one core | one pass | four passes
//   a prompt                                            | .75      | 5.05
#pragma once

#include <cstddef>

#include "call/delta_call.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// The rows of the state, whose vectors of a block lie next to each other.
template <class T>
struct StateRows {
  T *data;
  std::ptrdiff_t step;  // to the next row
  RAPT_INNER T *row(std::size_t i) const { return data + static_cast<std::ptrdiff_t>(i) * step; }
};

// A state that is read next: its rows, or its columns, are fetched into L2 while others are computed.
struct StateAhead {
  const float *data;  // null: none
  std::ptrdiff_t step;
  // Fetches `count` elements of a row.
  RAPT_INNER void fetch(std::size_t row, std::size_t count) const {
    if (!data) return;
    constexpr std::size_t line = 16;
    const float *const p = data + static_cast<std::ptrdiff_t>(row) * step;
    for (std::size_t i = 0; i < count; i += line) __builtin_prefetch(p + i, 0, 2);
  }
  RAPT_INNER void fetch_at(std::size_t row, std::size_t i) const {
    __builtin_prefetch(data + static_cast<std::ptrdiff_t>(row) * step + i, 0, 2);
  }
};

// A token's factors, one for each row of the state.
struct DeltaToken {
  const float *q, *k, *decay;
  std::ptrdiff_t decay_key_step;
  std::size_t rows;
  RAPT_INNER float decay_of(std::size_t i) const {
    return decay[static_cast<std::ptrdiff_t>(i) * decay_key_step];
  }
};

// Math is one of arithmetic.hpp. n vectors of columns are in registers at a time.
template <class S, class Math, std::size_t n>
struct DeltaPasses {
  using V = typename S::batch;

  RAPT_INNER static V factor(float x) { return Math::operand(V(x)); }
  RAPT_INNER static void clear(V (&v)[n]) {
    unroll<n>([&](std::size_t j) RAPT_INNER { v[j] = V(0.0f); });
  }

  // Lets the state decay, and sums its products with k. The new state is stored only with `stores`.
  template <bool stores>
  RAPT_INNER static void begin(const DeltaToken &token, StateRows<const float> from, StateRows<float> to,
                               V (&r)[n], const StateAhead &ahead) {
    clear(r);
    for (std::size_t i = 0; i < token.rows; ++i) {
      if constexpr (!stores) ahead.fetch(i, n * S::width);
      const V k = factor(token.k[i]), decay = factor(token.decay_of(i));
      const float *const row = from.row(i);
      unroll<n>([&](std::size_t j) RAPT_INNER {
        const V s = Math::product(Math::operand(S::load(row + j * S::width)), decay);
        if constexpr (stores) S::store(to.row(i) + j * S::width, s);
        r[j] = Math::fma(k, s, r[j]);
      });
    }
  }
  // Adds k u to the state, and sums its products with q. With `decays`, the state still has to decay.
  template <bool decays>
  RAPT_INNER static void end(const DeltaToken &token, StateRows<const float> from, StateRows<float> to,
                             const V (&u)[n], V (&o)[n]) {
    clear(o);
    for (std::size_t i = 0; i < token.rows; ++i) {
      const V k = factor(token.k[i]), q = factor(token.q[i]);
      const V decay = decays ? factor(token.decay_of(i)) : V(0.0f);
      const float *const row = from.row(i);
      unroll<n>([&](std::size_t j) RAPT_INNER {
        V s = S::load(row + j * S::width);
        if constexpr (decays) s = Math::product(Math::operand(s), decay);
        s = Math::fma(k, u[j], s);
        S::store(to.row(i) + j * S::width, s);
        o[j] = Math::fma(q, s, o[j]);
      });
    }
  }
  // begin() of a state whose columns are contiguous. The new state is stored as rows.
  RAPT_INNER static void begin_columns(const DeltaToken &token, const float *from, std::ptrdiff_t column_step,
                                       float *to, V (&r)[n], const StateAhead &ahead) {
    constexpr std::size_t width = S::width;
    clear(r);
    unroll<n>([&](std::size_t j) RAPT_INNER {
      const float *const columns = from + static_cast<std::ptrdiff_t>(j * width) * column_step;
      for (std::size_t i = 0; i < token.rows; i += width) {
        const std::size_t depth = token.rows - i;
        V v[width];
        unroll<width>([&](std::size_t c) RAPT_INNER {
          if (ahead.data && i % 16 == 0) ahead.fetch_at(j * width + c, i);
          v[c] = load(columns + static_cast<std::ptrdiff_t>(c) * column_step + i, depth);
        });
        S::transpose(v);
        unroll<width>([&](std::size_t row) RAPT_INNER {
          if (row >= depth) return;
          const V s = Math::product(Math::operand(v[row]), factor(token.decay_of(i + row)));
          S::store(to + (i + row) * n * width + j * width, s);
          r[j] = Math::fma(factor(token.k[i + row]), s, r[j]);
        });
      }
    });
  }
  // The first `count` elements, which are rarely fewer than a vector.
  RAPT_INNER static V load(const float *p, std::size_t count) {
    return count >= S::width ? S::load(p) : S::load_first(p, count);
  }
  // end() of rows that have decayed, of which the sums alone are kept.
  RAPT_INNER static void sum_end(const DeltaToken &token, StateRows<const float> from, const V (&u)[n],
                                 V (&o)[n]) {
    clear(o);
    for (std::size_t i = 0; i < token.rows; ++i) {
      const V k = factor(token.k[i]), q = factor(token.q[i]);
      const float *const row = from.row(i);
      unroll<n>([&](std::size_t j) RAPT_INNER {
        o[j] = Math::fma(q, Math::fma(k, u[j], S::load(row + j * S::width)), o[j]);
      });
    }
  }
  // end() of a contiguous column, without the sums. u is that of the column.
  RAPT_INNER static void end_column(const DeltaToken &token, const float *from, float *to, float u) {
    const V u_of_column = V(u), decay_of_all = factor(*token.decay);
    const auto take = [&](std::size_t i, auto load_part, auto store_part) RAPT_INNER {
      const V decay = token.decay_key_step == 0 ? decay_of_all : Math::operand(load_part(token.decay + i));
      const V s = Math::product(Math::operand(load_part(from + i)), decay);
      store_part(to + i, Math::fma(Math::operand(load_part(token.k + i)), u_of_column, s));
    };
    const std::size_t whole = token.rows / S::width * S::width, left = token.rows - whole;
    for (std::size_t i = 0; i < whole; i += S::width) {
      take(
          i, [](const float *p) RAPT_INNER { return S::load(p); },
          [](float *p, V v) RAPT_INNER { S::store(p, v); });
    }
    if (left == 0) return;
    take(
        whole, [&](const float *p) RAPT_INNER { return S::load_first(p, left); },
        [&](float *p, V v) RAPT_INNER { S::store_first(p, v, left); });
  }
  // end() of a token and begin() of the next.
  RAPT_INNER static void advance(const DeltaToken &token, const DeltaToken &next, StateRows<float> state,
                                 const V (&u)[n], V (&o)[n], V (&r)[n]) {
    clear(o);
    clear(r);
    for (std::size_t i = 0; i < token.rows; ++i) {
      const V k = factor(token.k[i]), q = factor(token.q[i]);
      const V next_k = factor(next.k[i]), decay = factor(next.decay_of(i));
      float *const row = state.row(i);
      unroll<n>([&](std::size_t j) RAPT_INNER {
        const V s = Math::fma(k, u[j], S::load(row + j * S::width));
        o[j] = Math::fma(q, s, o[j]);
        const V decayed = Math::product(s, decay);
        S::store(row + j * S::width, decayed);
        r[j] = Math::fma(next_k, decayed, r[j]);
      });
    }
  }
  // Sums the products of a state with the rows of another query.
  RAPT_INNER static void answer(const float *q, std::size_t rows, StateRows<const float> state, V (&o)[n]) {
    clear(o);
    for (std::size_t i = 0; i < rows; ++i) {
      const V factor_of_row = factor(q[i]);
      const float *const row = state.row(i);
      unroll<n>([&](std::size_t j)
                    RAPT_INNER { o[j] = Math::fma(factor_of_row, S::load(row + j * S::width), o[j]); });
    }
  }
};

}  // namespace
