// Computes exponentials without a maximum, for rows whose scores all have ordinary magnitudes.
//
// While the exponent n of every score is in a fixed range, the terms 2^n * exp(r) can be summed directly.
// They differ from exponentials relative to the maximum by one power of two for the whole row. That factor is
// exact in every sum and cancels in the quotient, so the bits are the same. This saves the pass for the
// maximum, the test for exponentials that become 0, and the scaling and flush of small quotients: 14 of 20
// operations are left.
//
// The range test costs half an operation per vector. A scaled score plus a magic number has n in its low
// bits. The bits above them are the same throughout the range, but differ for NaN, infinities and huge
// scores.
#pragma once

#include <cstddef>

#include "contract/exp.hpp"
#include "kernels/vector/exp.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/store.hpp"
#include "kernels/vector/sum.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class A>
struct ExponentRange : rapt::ExpContract<A> {
  using typename rapt::ExpContract<A>::Bits;
  // n must be in [-2^(bits - 1), 2^(bits - 1)). Then even with 2^30 columns a probability is at least 2^-94
  // (f64: 2^-286), and its product with Reciprocal's `low` is a normal number.
  static constexpr int bits = sizeof(A) == 4 ? 6 : 8;
  static constexpr A least = static_cast<A>(Bits{1} << rapt::ExpContract<A>::mantissa_bits);
  static constexpr A magic = least + static_cast<A>(Bits{1} << (bits - 1));
  static constexpr Bits outside = ~(__builtin_bit_cast(Bits, least) | ((Bits{1} << bits) - 1));
};

template <class A>
class ExpWithoutMax {
 public:
  using S = simd<A>;
  using C = ExponentRange<A>;
  using Bits = typename C::Bits;
  using batch = typename S::batch;
  static constexpr std::size_t together = S::exp_together;

  // Returns whether n is the same as with the magic number of a row's maximum. The two magic numbers may
  // differ in parity, so they round a score halfway between two n differently. Scores in range can be halfway
  // only if log2_e has few bits.
  RAPT_INNER static bool serves(const ExpConstants<A> &k) {
    const Bits mantissa = __builtin_bit_cast(Bits, k.log2_e);
    return (mantissa & ((Bits{1} << (C::mantissa_bits - C::bits - 1)) - 1)) != 0;
  }

  RAPT_INNER explicit ExpWithoutMax(const ExpConstants<A> &k)
      : exp_(k), magic_(C::magic), seen_(batch(A(0))) {}

  // Replaces scores by their exponentials. Returns false and leaves v unchanged if any score so far was out
  // of range, because its exponential might be subnormal and cost a microcode assist.
  template <std::size_t registers>
  RAPT_INNER bool operator()(batch (&v)[registers]) {
    batch shifted[registers];
    test(v, shifted);
    if (left_range()) [[unlikely]]
      return false;
    exponentiate(v, shifted);
    return true;
  }
  // Replaces scores by their exponentials, for a row that has passed the test.
  template <std::size_t registers>
  RAPT_INNER void without_test(batch (&v)[registers]) const {
    batch shifted[registers];
    shift(v, shifted);
    exponentiate(v, shifted);
  }
  // Sets the first `some` vectors of `term` to the exponentials of the elements [at, n), and stores these to
  // e as `to` says. The other vectors become 0.
  template <std::size_t some, Store to, class Elements, std::size_t registers>
  RAPT_INNER void first_terms(const Elements &elements, std::size_t at, A *e, std::size_t n,
                              batch (&term)[registers]) {
    const auto left = [&](std::size_t r)
                          RAPT_INNER { return n > at + r * S::width ? n - at - r * S::width : 0; };
    unroll<registers>([&](std::size_t r) RAPT_INNER { term[r] = batch(A(0)); });
    if constexpr (some > 0) {
      batch v[some];
      unroll<some>([&](std::size_t r) RAPT_INNER { v[r] = elements.first(at + r * S::width, left(r)); });
      (*this)(v);
      unroll<some>([&](std::size_t r) RAPT_INNER {
        term[r] = elements.keep_first(at + r * S::width, left(r), v[r]);
        if (left(r) > 0) store_end<to>(e, at + r * S::width, term[r], left(r));
      });
    }
  }
  template <std::size_t registers>
  RAPT_INNER void test(const batch (&v)[registers]) {
    batch shifted[registers];
    test(v, shifted);
  }
  // Returns whether any score since forget() was out of range.
  RAPT_INNER bool left_range() const { return S::any_common_bit(seen_, bits_of(C::outside)); }
  RAPT_INNER void forget() { seen_ = batch(A(0)); }

 private:
  RAPT_INNER static batch bits_of(Bits bits) { return batch(__builtin_bit_cast(A, bits)); }
  template <std::size_t registers>
  RAPT_INNER void shift(const batch (&v)[registers], batch (&shifted)[registers]) const {
    unroll<registers>([&](std::size_t i) RAPT_INNER { shifted[i] = S::fma(v[i], exp_.log2_e, magic_); });
  }
  template <std::size_t registers>
  RAPT_INNER void test(const batch (&v)[registers], batch (&shifted)[registers]) {
    shift(v, shifted);
    unroll<(registers + 1) / 2>([&](auto i) RAPT_INNER {
      constexpr std::size_t second = 2 * i + 1 < registers ? 2 * i + 1 : 2 * i;
      seen_ = S::either_bits(seen_, shifted[2 * i], shifted[second]);
    });
  }
  template <std::size_t registers>
  RAPT_INNER void exponentiate(batch (&v)[registers], const batch (&shifted)[registers]) const {
    batch n[registers], p[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER { n[i] = shifted[i] - magic_; });
    exp_.exp_of_remainders(v, n, p);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      if constexpr (ScalesByPower<S>) {
        v[i] = S::scale_by_power(p[i], n[i]);
      } else {
        v[i] = S::add_exponent(p[i], shifted[i]);  // 2^(bits - 1) times too large, but so is the whole row
      }
    });
  }

  ExpParts<A> exp_;
  batch magic_, seen_;
};

// Sums a row's exponentials, and stores them to e as `to` says. Returns false if a score is out of range; e
// is then unspecified. Calls beside(i) for each whole block, whose first element is i.
template <Store to, class A, class Elements, class Beside>
RAPT_INNER inline bool sum_without_max(ExpWithoutMax<A> &exp_of, const Elements &elements, A *e,
                                       std::size_t n, BlockSum<A> &sum, Beside beside) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t together = ExpWithoutMax<A>::together, in_block = BlockLanes<A>::in_block;
  constexpr std::size_t vectors_at_once = BlockLanes<A>::together;
  exp_of.forget();
  std::size_t i = 0;
  if constexpr (together >= in_block) {
    constexpr std::size_t step = together * S::width;
    for (; n - i >= step; i += step) {
      batch v[together];
      unroll<together>([&](std::size_t r) RAPT_INNER { v[r] = elements.full(i + r * S::width); });
      if (!exp_of(v)) [[unlikely]]
        return false;
      unroll<together>([&](std::size_t r) RAPT_INNER { v[r] = elements.keep(i + r * S::width, v[r]); });
      unroll<together>([&](std::size_t r) RAPT_INNER { store_full<to>(e, i + r * S::width, v[r]); });
      sum.add_blocks(v);
      unroll<together / in_block>([&](std::size_t block) RAPT_INNER { beside(i + block * rapt::sum_block); });
    }
  }
  for (; n - i >= rapt::sum_block; i += rapt::sum_block) {
    sum.add([&](std::size_t first, batch(&term)[vectors_at_once]) RAPT_INNER {
      const std::size_t at = i + first * S::width;
      unroll<vectors_at_once>([&](std::size_t r) RAPT_INNER { term[r] = elements.full(at + r * S::width); });
      exp_of(term);
      unroll<vectors_at_once>([&](std::size_t r)
                                  RAPT_INNER { term[r] = elements.keep(at + r * S::width, term[r]); });
      unroll<vectors_at_once>([&](std::size_t r)
                                  RAPT_INNER { store_full<to>(e, at + r * S::width, term[r]); });
    });
    beside(i);
    if (exp_of.left_range()) [[unlikely]]
      return false;
  }
  if (i < n) {
    const auto terms = [&](std::size_t first, batch(&term)[vectors_at_once]) RAPT_INNER {
      const std::size_t begin = i + first * S::width;
      const std::size_t left = n > begin ? n - begin : 0;
      if (left > 2 * S::width) {
        exp_of.template first_terms<vectors_at_once, to>(elements, begin, e, n, term);
      } else if (left > S::width) {
        exp_of.template first_terms<2, to>(elements, begin, e, n, term);
      } else if (left > 0) {
        exp_of.template first_terms<1, to>(elements, begin, e, n, term);
      } else {
        exp_of.template first_terms<0, to>(elements, 0, e, 0, term);
      }
    };
    if constexpr (in_block <= 2 * vectors_at_once) {
      sum.add(terms);
    } else {  // a loop, because four copies of this code would be most of the function
      alignas(64) A tail[rapt::sum_block];
      for (std::size_t first = 0; first < in_block; first += vectors_at_once) {
        batch term[vectors_at_once];
        terms(first, term);
        unroll<vectors_at_once>([&](std::size_t r)
                                    RAPT_INNER { S::store(tail + (first + r) * S::width, term[r]); });
      }
      sum.add([&](std::size_t first, batch(&term)[vectors_at_once]) RAPT_INNER {
        unroll<vectors_at_once>([&](std::size_t r)
                                    RAPT_INNER { term[r] = S::load(tail + (first + r) * S::width); });
      });
    }
    if (exp_of.left_range()) [[unlikely]]
      return false;
  }
  return true;
}

// Prefetches another row, one block of sum_block elements per call.
template <class E>
struct FetchRow {
  const E *row;
  RAPT_INNER void operator()(std::size_t i) const {
    constexpr std::size_t line = 64 / sizeof(E);
    unroll<rapt::sum_block / line>([&](std::size_t r) RAPT_INNER { __builtin_prefetch(row + i + r * line); });
  }
};

// Decides which rows to try without their maximum. The rows of a call are alike, so after a row out of range
// some rows are not tried. After each further row out of range, twice as many are not tried.
class TriesWithoutMax {
 public:
  // Returns how many of the next `rows` rows should not be tried. If 0, the next row should be tried.
  std::size_t untried(std::size_t rows) {
    const std::size_t skipped = waits_ < rows ? waits_ : rows;
    waits_ -= skipped;
    return skipped;
  }
  void was_outside(std::size_t rows) {
    if (next_ < rows) next_ = rows;
    waits_ = next_;
    next_ *= 2;
  }

 private:
  std::size_t waits_ = 0, next_ = 8;
};

// Returns whether all scores of a row are in the range of ExpWithoutMax.
template <class A, class Elements>
[[gnu::noinline, gnu::flatten]] bool row_is_in_range(const ExpConstants<A> &k, const Elements &elements,
                                                     std::size_t n) {
  using S = simd<A>;
  using batch = typename S::batch;
  ExpWithoutMax<A> exp_of(k);
  std::size_t i = 0;
  for (; n - i >= 4 * S::width; i += 4 * S::width) {
    batch v[4];
    unroll<4>([&](std::size_t r) RAPT_INNER { v[r] = elements.full(i + r * S::width); });
    exp_of.test(v);
  }
  for (; i < n; i += S::width < n - i ? S::width : n - i) {
    const batch v[1] = {elements.first(i, n - i)};
    exp_of.test(v);
  }
  return !exp_of.left_range();
}

}  // namespace
