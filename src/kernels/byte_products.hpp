// Implements ByteSimd and RowSimd for levels where one instruction adds four products of bytes to a lane of
// 32 bits.
//
// Such an instruction fixes the signs of its factors. If they are not the signs of E and a signed byte, the
// second factor is biased by 128. Then 128 times the sum of the first factors is subtracted again. That sum
// is a second product. The sum of a query is the same for every row. Lanes may wrap before the subtraction.
//
// Each level defines Level:
//
//   Bytes, width     a register of so many bytes, or of lanes of 32 bits
//   together         accumulators of a dot
//   load, load_first(p, k), zero, join, less, sum        as their names say
//   load_once(p)     into a register for two uses, where gcc 12 would load twice
//   biased(b)        the signed bytes b plus 128, unsigned; bias() is the biased zero
//   add_products(s, f, b)          for the E whose signs the instruction has
//   add_biased_products(s, f, b)   for the other, with biased b
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
