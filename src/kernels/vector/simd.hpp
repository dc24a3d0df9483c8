// Defines the concept Simd: the vector operations that each instruction-set level provides for all kernels.
//
// src/isa/<level>/simd.hpp implements it as simd<A>, where A is float or double. Lane j holds element j in
// memory. k counts lanes from lane 0, and a k above the width counts as the width. Unless a comment says
// otherwise, a NaN operand gives NaN in its lane.
//
// Elements in memory may have another type than A. load, store, load_first, store_first, stream, load_halves
// and each_transposed are overloaded on the pointer type and convert. load_last takes only A. load also takes bytes,
// for f32.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "contract/types.hpp"

namespace {

template <class A>
struct simd;

// A Half is a 16-bit floating-point type. Its arithmetic is done in f32.
template <class E>
concept Half = std::same_as<E, rapt::F16> || std::same_as<E, rapt::BF16>;

// V is the vector type, xsimd's batch. It has operators, and a constructor that fills every lane. M is the
// mask type, with a truth value per lane.
template <class S, class V = typename S::batch, class M = typename S::mask>
concept SimdTypes = requires(V v) {
  { v - v } -> std::same_as<V>;
  { v + v } -> std::same_as<V>;
  { (v * v) } -> std::same_as<V>;
  V(typename V::value_type());
  requires S::width * sizeof(typename V::value_type) == sizeof(V);
};

// Lists the constants that each instruction-set level chooses for its hardware.
template <class S>
concept SimdChoices = requires {
  requires S::registers == 16 || S::registers == 32;
  // The matrix products of attention process this many vectors of query rows at a time.
  requires S::panel_vectors == 2 || S::panel_vectors == 4;
  // exp is computed for this many vectors together. More would not fit in the registers with its constants.
  requires S::exp_together == 4 || S::exp_together == 8;
  // Says whether attention's matrix products prefetch one cache line at a time, instead of four.
  typename std::bool_constant<S::fetches_by_line>;
  // An attention tile with at most keys_in_lanes_rows query rows holds keys in the lanes
  // (attention/ways.hpp). In it, rows_per_key rows share each load of a key.
  requires S::keys_in_lanes_rows >= 8 && S::keys_in_lanes_rows <= 32;
  requires S::rows_per_key >= 8 && S::rows_per_key <= 16;
  // Where the CPU prefers its own prefetcher, these say what a linear layer gains by it (linear/ways.hpp): whether a
  // single row reads groups of inputs in turn, and whether few rows leave prefetches of weights to the CPU.
  typename std::bool_constant<S::reads_groups_in_turn>;
  typename std::bool_constant<S::leaves_prefetches_to_cpu>;
  // In dot_rows, dot_rows_together rows share each load of the query. aligns_dot says whether dot begins with
  // load_last to align its vectors.
  requires 4 % S::dot_rows_together == 0;
  typename std::bool_constant<S::aligns_dot>;
  // Says whether stream() makes large outputs faster.
  typename std::bool_constant<S::can_stream>;
  // Says whether zero_where is free when it can merge with the arithmetic on its operand.
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
  // Sets lane i if flags[i] is not 0, for i < k, and clears the other lanes. Reads only the first k flags.
  { S::load_flags(flags, k) } -> std::same_as<typename S::mask>;
  // Sets bit i if flags[i] is not 0, for the first k flags, at most 64. Reads no others.
  { S::flag_bits(flags, k) } -> std::same_as<std::uint64_t>;
  // Sets lane i if words[i] contains the bit that the second argument holds. A word is as wide as a lane.
  { S::bit_set(words, *words) } -> std::same_as<typename S::mask>;
};

// load_last(p, k) loads p[j] into lane j, for the last k lanes. The other lanes become 0, and their elements
// are not read. k is at least 1.
template <class S, class V = typename S::batch>
concept LoadsLast = requires(const typename V::value_type *p, std::size_t k) {
  { S::load_last(p, k) } -> std::same_as<V>;
};

template <class S, class V = typename S::batch>
concept SimdArithmetic = requires(V a, V b, V c) {
  // Return a * b + c and c - a * b, each rounded only once.
  { S::fma(a, b, c) } -> std::same_as<V>;
  { S::fnma(a, b, c) } -> std::same_as<V>;
  // Returns a * b - c, rounded only once.
  { S::fms(a, b, c) } -> std::same_as<V>;
  // Return the correctly rounded quotient and square root.
  { S::divide(a, b) } -> std::same_as<V>;
  { S::square_root(a) } -> std::same_as<V>;
  { S::abs(a) } -> std::same_as<V>;
  // Returns a with the sign bit of b. The sign bit of a must be 0.
  { S::with_sign(a, b) } -> std::same_as<V>;
  // Return the maximum and minimum. A NaN in b gives NaN. A NaN in a gives NaN or b.
  { S::max(a, b) } -> std::same_as<V>;
  { S::min(a, b) } -> std::same_as<V>;
  // Returns the maximum, or b where a is NaN. No lane of b is NaN.
  { S::max_number(a, b) } -> std::same_as<V>;
};

template <class S, class V = typename S::batch, class M = typename S::mask>
concept SimdMasks = requires(V a, V b, M m, std::size_t k, typename V::value_type value) {
  // Where a or b is NaN, less and equal clear the lane, and unordered sets it.
  { S::less(a, b) } -> std::same_as<M>;
  { S::equal(a, b) } -> std::same_as<M>;
  { S::unordered(a, b) } -> std::same_as<M>;
  { S::either(m, m) } -> std::same_as<M>;
  { S::negate(m) } -> std::same_as<M>;
  { S::any(m) } -> std::same_as<bool>;
  // Returns a where m is set, b elsewhere.
  { S::select(m, a, b) } -> std::same_as<V>;
  // Returns +0 where m is set, a elsewhere.
  { S::zero_where(m, a) } -> std::same_as<V>;
  // Returns a + b where m is set; a or a + 0 elsewhere.
  { S::add_where(m, a, b) } -> std::same_as<V>;
  // Return a in the first k lanes. The other lanes are +0 (keep_first) or `value` (fill_after).
  { S::keep_first(a, k) } -> std::same_as<V>;
  { S::fill_after(a, k, value) } -> std::same_as<V>;
};

// Multiplies by powers of two. `shifted` is round_magic + n for an integer n, so its low bits hold n.
template <class S, class V = typename S::batch>
concept SimdBits = requires(V v, V cutoff, V p, V n, V shifted, typename S::mask m) {
  // Returns p * 2^n where that is a normal number. It adds the low bits of `shifted` to the exponent.
  { S::add_exponent(p, shifted) } -> std::same_as<V>;
  // Returns p * 2^n where v is above the cutoff or NaN, +0 elsewhere. A NaN in p gives NaN.
  { S::scale_by_power_above(v, cutoff, p, n, shifted) } -> std::same_as<V>;
};

// Tests the bits of numbers. Softmax tests bits that are the same for all exponents in a range, to find out
// whether a score is outside of the range.
template <class S, class V = typename S::batch>
concept TestsBits = requires(V a, V b, V c) {
  // Returns the bits a | b | c.
  { S::either_bits(a, b, c) } -> std::same_as<V>;
  // Returns whether a and b have a set bit in common in any lane.
  { S::any_common_bit(a, b) } -> std::same_as<bool>;
};

// Serves exp on levels with an instruction that multiplies by any power of two, such as vscalefps. exp
// recognises irregular arguments by the bits of n.
template <class S, class V = typename S::batch>
concept ScalesByPower =
    requires(V a, V b, V n, V (&v)[4], typename S::mask m,
             std::conditional_t<sizeof(typename V::value_type) == 8, std::uint64_t, std::uint32_t> which) {
  // Returns a * 2^n for any integer n, rounded once.
  { S::scale_by_power(a, n) } -> std::same_as<V>;
  // bits_of_any returns the bits that are set in any of the vectors. has_bits returns whether any lane has
  // one of the bits of `which`.
  { S::bits_of_any(v) } -> std::same_as<V>;
  { S::has_bits(a, which) } -> std::same_as<bool>;
  // Returns the nearest integer's bits where m is set, a elsewhere.
  { S::integer_bits_where(m, a) } -> std::same_as<V>;
};

// Serves exp on levels that use add_exponent. exp recognises irregular arguments by their magnitude.
template <class S, class V = typename S::batch, class M = typename S::mask>
concept TestsMagnitude = requires(V a, V b, M m) {
  // Sets a lane if |a| >= b or a is NaN. Only either() and any() may use the result.
  { S::magnitude_reaches(a, b) } -> std::same_as<M>;
  // Sets a lane if a <= b, and clears it if either is NaN.
  { S::not_greater(a, b) } -> std::same_as<M>;
  // Returns a where m is set, +0 elsewhere.
  { S::keep_where(m, a) } -> std::same_as<V>;
  // Returns the difference of the bits of a and b, as integers, where m is set, a elsewhere.
  { S::subtract_bits_where(m, a, b) } -> std::same_as<V>;
};

// Reduces or transposes vectors. A reduction combines lane i with lane i + half, until one lane is left.
template <class S, class V = typename S::batch, class A = typename V::value_type>
concept SimdFolds = requires(V v, V (&vectors)[S::width], V (*op)(V, V), A scale, A *out, const A *const *row,
                             std::size_t at, void (*take)(std::size_t, V)) {
  // Return the sum of the lanes, and the largest lane.
  { S::fold(v) } -> std::same_as<A>;
  { S::fold_max(v) } -> std::same_as<A>;
  // Returns a vector whose lane r is vectors[r] reduced by op.
  { S::fold_each(vectors, op) } -> std::same_as<V>;
  // Stores out[j] = scale * the sum of the lanes of the j-th vector, for four vectors.
  S::store_scaled_folds(out, scale, v, v, v, v);
  // Swaps lane j of vectors[i] with lane i of vectors[j].
  S::transpose(vectors);
  // Calls take(i, v) for i = 0, 1, …, where i is a compile-time constant and lane r of v is row[r][at + i].
  // Only a few of these vectors are in registers at a time.
  S::each_transposed(row, at, take);
};

// The level can multiply a vector by one lane of another: a * factors[i] + c, rounded once. So one load
// provides several factors. Other levels load and broadcast each factor.
template <class S, class V = typename S::batch>
concept MultipliesByLane = requires(V factors, V a, V c) {
  { S::template fma_by_lane<1>(factors, a, c) } -> std::same_as<V>;
};

// The level can store the low byte of each 32-bit lane. Other levels take bytes from memory.
template <class S, class V = typename S::batch>
concept StoresLowBytes = requires(std::int8_t *p, V v) {
  S::store_low_bytes(p, v);
};

// Converts between f32 and f64. widened<0> takes the lower half of an f32 vector, widened<1> the upper half.
// narrowed makes one vector of two halves.
template <class S>
concept Widens = requires(typename S::batch v, typename S::f64 half) {
  { S::template widened<1>(v) } -> std::same_as<typename S::f64>;
  { S::narrowed(half, half) } -> std::same_as<typename S::batch>;
};

// Reorders the lanes of pairs of elements.
template <class S, class V = typename S::batch>
concept HandlesPairs = requires(V a, V b) {
  // Replaces two vectors by a0 b0 a1 b1 and so on.
  S::interleave(a, b);
  // Return v0 v0 v2 v2 and so on, and v1 v1 v3 v3 and so on.
  { S::evens_twice(a) } -> std::same_as<V>;
  { S::odds_twice(a) } -> std::same_as<V>;
};

// Serves sines and cosines. `shifted` is round_magic + n of f64 for an integer n, so its low bits hold n.
template <class S, class V = typename S::f64>
concept TestsIntegers = requires(V shifted, V yes, V no) {
  { S::select_where_odd(shifted, yes, no) } -> std::same_as<V>;
  // Returns -v where the second bit of n is set, v elsewhere.
  { S::negate_where_second_bit(shifted, no) } -> std::same_as<V>;
};

// shifted(a, b, …) returns the vector that begins with lane k of a and continues in b.
template <class S, class V = typename S::batch>
concept ShiftsLanes = requires(V a, V b, std::size_t k) {
  { S::shifted(a, b, S::shift_by(k)) } -> std::same_as<V>;
};

// Handles two short rows in one vector, each in one half.
template <class S, class V = typename S::batch>
concept JoinsHalves = requires(V a, V b, V (&vectors)[S::width / 2], V (*op)(V, V), std::size_t k,
                               std::size_t l) {
  // Joins the lower halves of a and b.
  { S::join_halves(a, b) } -> std::same_as<V>;
  // Moves the upper half of a to the lower half.
  { S::upper_half(a) } -> std::same_as<V>;
  // Keeps the first k lanes of the lower half and the first l lanes of the upper half. The others become +0.
  { S::keep_first_of_halves(a, k, l) } -> std::same_as<V>;
  // Reduces each half as fold_each reduces vectors. For i < 4, vectors[i] has rows i and i + 4, and vectors[i
  // + 4] has rows i + 8 and i + 12.
  { S::fold_each_half(vectors, op) } -> std::same_as<V>;
};

// Gives the bits of numbers as unsigned integers, which have the operators +, -, &, | and >>, and numbers of such bits.
template <class S, class V = typename S::batch>
concept HasBits = requires(V v) {
  { S::number(S::bits(v) >> 1) } -> std::same_as<V>;
  { S::number((S::bits(v) & S::bits(v)) + S::bits(v)) } -> std::same_as<V>;
};

template <class S>
concept Simd = requires {
  requires SimdTypes<S> && SimdChoices<S>;
  requires SimdMemory<S>;
  requires !S::aligns_dot || LoadsLast<S>;
  requires SimdArithmetic<S>;
  requires SimdMasks<S>;
  requires SimdBits<S> && TestsBits<S> && HasBits<S>;
  requires ScalesByPower<S> || TestsMagnitude<S>;
  requires SimdFolds<S>;
  requires HandlesPairs<S> && TestsIntegers<S>;
  requires sizeof(typename S::batch::value_type) == 8 || Widens<S>;
};

}  // namespace
