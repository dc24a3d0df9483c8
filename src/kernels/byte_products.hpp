// Implements ByteSimd and RowSimd for instruction sets that can add four products of bytes to a 32-bit lane.
//
// Such an instruction treats each of its factors as signed or as unsigned. If that does not match the types E
// and int8, 128 is added to the second factor. Then 128 times the sum of the first factors is subtracted,
// which a second product computes. In dot_rows, all rows share that sum. Lanes may wrap before the
// subtraction.
//
// Each instruction-set level defines a class Level with these members:
//
//   Bytes, width     a register of `width` bytes, or of 32-bit lanes
//   together         the number of accumulators in dot
//   load(p), load_first(p, k), zero()   load `width` bytes or k bytes; a register of zeros
//   join(a, b), less(a, b), sum(s)      a + b and a - b by lane; the sum of all lanes
//   load_once(p)     loads for two uses, where gcc 12 would load twice
//   biased(b)        the signed bytes b plus 128, unsigned; bias() is the biased zero
//   add_products(s, f, b)          adds f * b, for the E that needs no bias
//   add_biased_products(s, f, b)   adds f * b, for the other E; b is biased
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/byte_dot.hpp"

namespace {

template <class Level, class E>
struct DirectBytes : Level {
  using Factors = typename Level::Bytes;
  using Sums = typename Level::Bytes;
  static constexpr std::size_t most_per_step = 4 * 255 * 128;

  static Factors factors(const E *a) { return Level::load(a); }
  static Factors factors_first(const E *a, std::size_t k) { return Level::load_first(a, k); }
  static Sums add_bytes(Sums s, Factors f, typename Level::Bytes b) { return Level::add_products(s, f, b); }
  static Sums add(Sums s, Factors f, const std::int8_t *b) { return add_bytes(s, f, Level::load(b)); }
  static Sums add_first(Sums s, Factors f, const std::int8_t *b, std::size_t k) {
    return add_bytes(s, f, Level::load_first(b, k));
  }
  static Sums start() { return Level::zero(); }
  static Sums add_factors(Sums s, Factors) { return s; }
};

template <class Level, class E>
struct BiasedRows : DirectBytes<Level, E> {
  using Base = DirectBytes<Level, E>;
  using typename Base::Factors, typename Base::Sums;

  static Sums add_bytes(Sums s, Factors f, typename Level::Bytes b) {
    return Level::add_biased_products(s, f, Level::biased(b));
  }
  static Sums add(Sums s, Factors f, const std::int8_t *b) { return add_bytes(s, f, Level::load(b)); }
  static Sums add_first(Sums s, Factors f, const std::int8_t *b, std::size_t k) {
    return add_bytes(s, f, Level::load_first(b, k));
  }
  static Sums add_factors(Sums s, Factors f) {
    return Level::less(s, Level::add_biased_products(Level::zero(), f, Level::bias()));
  }
};

template <class Level, class E>
struct BiasedBytes : DirectBytes<Level, E> {
  using Base = DirectBytes<Level, E>;
  using Rows = BiasedRows<Level, E>;
  using typename Base::Factors;
  struct Sums {
    typename Level::Bytes products, excess;
  };

  static Factors factors(const E *a) { return Level::load_once(a); }
  static Sums zero() { return {Level::zero(), Level::zero()}; }
  static Sums add(Sums s, Factors f, const std::int8_t *b) {
    return {Rows::add(s.products, f, b), Level::add_biased_products(s.excess, f, Level::bias())};
  }
  static Sums add_first(Sums s, Factors f, const std::int8_t *b, std::size_t k) {
    return {Rows::add_first(s.products, f, b, k), Level::add_biased_products(s.excess, f, Level::bias())};
  }
  static Sums join(Sums a, Sums b) {
    return {Level::join(a.products, b.products), Level::join(a.excess, b.excess)};
  }
  static std::int64_t sum(Sums s) { return Level::sum(Level::less(s.products, s.excess)); }
};

}  // namespace
