// Simd: the vectors of a level. The shared bodies are written over them.
//
// src/isa/<level>/simd.hpp defines simd<A> for the arithmetic types A, float and double. Lane j is element j
// in memory. k counts lanes from lane 0 on; a k above the width counts as the width. Unless an operation's
// text says otherwise, a NaN operand gives a NaN in its lane.
//
// Elements in memory may have another type than A: loads and stores are overloaded on the pointer, and
// convert. So are load_first, store_first, stream, load_halves and each_transposed; load_last has only A.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "contract/types.hpp"

namespace {

template <class A>
struct simd;

// Half is an element of 16 bits, which is computed in f32.
template <class E>
concept Half = std::same_as<E, rapt::F16> || std::same_as<E, rapt::BF16>;

// V is the vector, xsimd's batch: it has operators, and a constructor that fills every lane. M is the mask: a
// truth value per lane.
template <class S, class V = typename S::batch, class M = typename S::mask>
concept SimdTypes = requires(V v) {
  { v - v } -> std::same_as<V>;
  { v + v } -> std::same_as<V>;
  { (v * v) } -> std::same_as<V>;
  V(typename V::value_type());
  requires S::width * sizeof(typename V::value_type) == sizeof(V);
};

// Each level chooses these.
template <class S>
concept SimdChoices = requires {
  // The architecture has this many vector registers.
  requires S::registers == 16 || S::registers == 32;
  // In attention, a panel has this many vectors of rows.
  requires S::panel_vectors == 2 || S::panel_vectors == 4;
  // Exponentials of this many vectors are computed together. More would not fit in the registers with the
  // constants.
  requires S::exp_together == 4 || S::exp_together == 8;
  // Says whether a panel's prefetches are at every line, instead of at every fourth.
  typename std::bool_constant<S::fetches_by_line>;
  // A tile with at most keys_in_lanes_rows rows has keys in the lanes (attention/ways.hpp). rows_per_key of
  // those rows share one loaded key.
  requires S::keys_in_lanes_rows >= 8 && S::keys_in_lanes_rows <= 32;
  requires S::rows_per_key >= 8 && S::rows_per_key <= 16;
  // In dot_rows, dot_rows_together rows share each load of the query. aligns_dot says whether load_last
  // brings the vectors of dot to alignment.
  requires 4 % S::dot_rows_together == 0;
  typename std::bool_constant<S::aligns_dot>;
  // Says whether stream() makes large outputs faster.
  typename std::bool_constant<S::can_stream>;
  // Says whether zero_where costs nothing if there is arithmetic on its operand.
  typename std::bool_constant<S::masks_are_free>;
  // Says whether max and fold_max give NaN for a NaN in any operand.
  typename std::bool_constant<S::max_keeps_nan>;
  // Says whether ExpParts::exp_normal gives NaN for NaN.
  typename std::bool_constant<S::exp_keeps_nan>;
};

template <class S, class V = typename S::batch, class A = typename V::value_type>
concept SimdMemory = requires(const A *from, A *to, const std::uint8_t *flags, const typename S::word *words,
                              std::size_t k, V v) {
  // load and store work at any alignment.
  { S::load(from) } -> std::same_as<V>;
  S::store(to, v);
  // load_first and store_first touch only the first k elements. load_first sets the other lanes to 0.
  { S::load_first(from, k) } -> std::same_as<V>;
  S::store_first(to, v, k);
  // Stores past the caches, to an aligned address. Other threads may read the stored elements only after
  // end_streaming().
  S::stream(to, v);
  S::end_streaming();
  // A lane is set if its byte is not 0. Only the first k bytes are read; the other lanes are clear.
  { S::load_flags(flags, k) } -> std::same_as<typename S::mask>;
  // Bit i is set if byte i is not 0, for the first k bytes, at most 64. No others are read.
  { S::flag_bits(flags, k) } -> std::same_as<std::uint64_t>;
  // Lane i is set if words[i] has the bit; a word is as wide as a lane.
  { S::bit_set(words, *words) } -> std::same_as<typename S::mask>;
};

// Loads element j into lane j, for the last k lanes. The other lanes are 0, and their elements are not read.
// k is at least 1.
template <class S, class V = typename S::batch>
concept LoadsLast = requires(const typename V::value_type *p, std::size_t k) {
  { S::load_last(p, k) } -> std::same_as<V>;
};

template <class S, class V = typename S::batch>
concept SimdArithmetic = requires(V a, V b, V c) {
  // a * b + c and c - a * b, rounded only once.
  { S::fma(a, b, c) } -> std::same_as<V>;
  { S::fnma(a, b, c) } -> std::same_as<V>;
  // The quotient is correctly rounded.
  { S::divide(a, b) } -> std::same_as<V>;
  { S::abs(a) } -> std::same_as<V>;
  // a with the sign of b. The sign of a must be clear.
  { S::with_sign(a, b) } -> std::same_as<V>;
  // A NaN in b gives NaN. A NaN in a gives NaN or b.
  { S::max(a, b) } -> std::same_as<V>;
  { S::min(a, b) } -> std::same_as<V>;
  // b where a is NaN. No lane of b is NaN.
  { S::max_number(a, b) } -> std::same_as<V>;
};

template <class S, class V = typename S::batch, class M = typename S::mask>
concept SimdMasks = requires(V a, V b, M m, std::size_t k, typename V::value_type value) {
  // a < b and a == b are clear where either is NaN; unordered is set there.
  { S::less(a, b) } -> std::same_as<M>;
  { S::equal(a, b) } -> std::same_as<M>;
  { S::unordered(a, b) } -> std::same_as<M>;
  { S::either(m, m) } -> std::same_as<M>;
  { S::negate(m) } -> std::same_as<M>;
  { S::any(m) } -> std::same_as<bool>;
  // a where m is set, b elsewhere.
  { S::select(m, a, b) } -> std::same_as<V>;
  // +0 where m is set, a elsewhere.
  { S::zero_where(m, a) } -> std::same_as<V>;
  // a + b where m is set; a or a + 0 elsewhere.
  { S::add_where(m, a, b) } -> std::same_as<V>;
  // a in the first k lanes, +0 or `value` in the others.
  { S::keep_first(a, k) } -> std::same_as<V>;
  { S::fill_after(a, k, value) } -> std::same_as<V>;
};

// Arithmetic on the bits of numbers. `shifted` is round_magic + n for an integer n.
template <class S, class V = typename S::batch>
concept SimdBits = requires(V v, V cutoff, V p, V n, V shifted, typename S::mask m) {
  // p * 2^n where that is a normal number: the low bits of `shifted` are added to the exponent.
  { S::add_exponent(p, shifted) } -> std::same_as<V>;
  // p * 2^n where v is above the cutoff or NaN, +0 elsewhere. A NaN in p gives NaN.
  { S::scale_by_power_above(v, cutoff, p, n, shifted) } -> std::same_as<V>;
};

// Tests of bits. They look at exponent and sign: at every bit that is the same for all exponents in a window.
template <class S, class V = typename S::batch>
concept TestsBits = requires(V a, V b, V c) {
  // a | b | c.
  { S::either_bits(a, b, c) } -> std::same_as<V>;
  // Returns whether some bit is set in both, in any lane.
  { S::any_common_bit(a, b) } -> std::same_as<bool>;
};

// For exp with an instruction that scales by any power of two. Irregular arguments show in the bits of n.
template <class S, class V = typename S::batch>
concept ScalesByPower =
    requires(V a, V b, V n, V (&v)[4], typename S::mask m,
             std::conditional_t<sizeof(typename V::value_type) == 8, std::uint64_t, std::uint32_t> which) {
  // a * 2^n for any integer n, rounded once.
  { S::scale_by_power(a, n) } -> std::same_as<V>;
  // bits_of_any returns the bits that are set in any of the vectors. has_bits returns whether any lane has
  // one of the bits `which`.
  { S::bits_of_any(v) } -> std::same_as<V>;
  { S::has_bits(a, which) } -> std::same_as<bool>;
  // The bits of the nearest integer where m is set, a elsewhere.
  { S::integer_bits_where(m, a) } -> std::same_as<V>;
};

// For exp with add_exponent. Irregular arguments show in their magnitude.
template <class S, class V = typename S::batch, class M = typename S::mask>
concept TestsMagnitude = requires(V a, V b, M m) {
  // A lane is set if |a| >= b, or a is NaN. Only either() and any() may use the result.
  { S::magnitude_reaches(a, b) } -> std::same_as<M>;
  // A lane is set if a <= b, and clear if either is NaN.
  { S::not_greater(a, b) } -> std::same_as<M>;
  // a where m is set, +0 elsewhere.
  { S::keep_where(m, a) } -> std::same_as<V>;
  // The bits of a less the bits of b where m is set, a elsewhere.
  { S::subtract_bits_where(m, a, b) } -> std::same_as<V>;
};

// Reductions by halves: lane i is combined with lane i + half, until lane 0 is left. Transpositions follow.
template <class S, class V = typename S::batch, class A = typename V::value_type>
concept SimdFolds = requires(V v, V (&vectors)[S::width], V (*op)(V, V), A scale, A *out, const A *const *row,
                             std::size_t at, void (*take)(std::size_t, V)) {
  // The sum of the lanes, and the largest of them.
  { S::fold(v) } -> std::same_as<A>;
  { S::fold_max(v) } -> std::same_as<A>;
  // Lane r becomes the reduction of vectors[r] by op.
  { S::fold_each(vectors, op) } -> std::same_as<V>;
  // out[j] = scale * the sum of the j-th of four vectors.
  S::store_scaled_folds(out, scale, v, v, v, v);
  // Lane j of vectors[i] and lane i of vectors[j] change places.
  S::transpose(vectors);
  // Calls take(i, v) for i = 0, 1, … as a constant; lane r of v is row[r][at + i]. Only a few of these
  // vectors are in registers at a time.
  S::each_transposed(row, at, take);
};

// The level can multiply a vector by one lane of another: a * factors[i] + c, rounded once. Then one load
// brings several factors. Other levels load and broadcast each factor.
template <class S, class V = typename S::batch>
concept MultipliesByLane = requires(V factors, V a, V c) {
  { S::template fma_by_lane<1>(factors, a, c) } -> std::same_as<V>;
};

// For f32 and f64: the lower (0) or upper half of a vector, and a vector of two halves.
template <class S>
concept Widens = requires(typename S::batch v, typename S::f64 half) {
  { S::template widened<1>(v) } -> std::same_as<typename S::f64>;
  { S::narrowed(half, half) } -> std::same_as<typename S::batch>;
};

// The vector that begins with lane k of a and continues in b.
template <class S, class V = typename S::batch>
concept ShiftsLanes = requires(V a, V b, std::size_t k) {
  { S::shifted(a, b, S::shift_by(k)) } -> std::same_as<V>;
};

// For two short rows in a vector, each in one half.
template <class S, class V = typename S::batch>
concept JoinsHalves = requires(V a, V b, V (&vectors)[S::width / 2], V (*op)(V, V), std::size_t k,
                               std::size_t l) {
  // Joins the lower halves of a and b.
  { S::join_halves(a, b) } -> std::same_as<V>;
  // Moves the upper half of a to the lower half.
  { S::upper_half(a) } -> std::same_as<V>;
  // Does keep_first with k in the lower half and with l in the upper half.
  { S::keep_first_of_halves(a, k, l) } -> std::same_as<V>;
  // Does fold_each on halves: for i below 4, vectors[i] has rows i and i + 4, and vectors[i + 4] has rows i +
  // 8 and i + 12.
  { S::fold_each_half(vectors, op) } -> std::same_as<V>;
};

template <class S>
concept Simd = requires {
  requires SimdTypes<S> && SimdChoices<S>;
  requires SimdMemory<S>;
  requires !S::aligns_dot || LoadsLast<S>;
  requires SimdArithmetic<S>;
  requires SimdMasks<S>;
  requires SimdBits<S> && TestsBits<S>;
  requires ScalesByPower<S> || TestsMagnitude<S>;
  requires SimdFolds<S>;
  requires sizeof(typename S::batch::value_type) == 8 || Widens<S>;
};

}  // namespace
