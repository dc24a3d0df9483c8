// Computes the numbers that turn a row's dot products into scores, and scores into weights.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "call/attention_tile.hpp"
#include "contract/attention.hpp"

namespace {

// A score is the dot product with the query times `sign`, +-1 for all ordinary scales, in units of |scale|. ALiBi and the
// bias are divided by this unit and added, so that a slope or a bias of 0 changes no bit. After a softcap, scores are
// in natural units.
template <class A>
struct AttentionScale {
  using C = rapt::AttentionContract<A>;

  bool has_formula;  // a softcap, ALiBi or a bias
  A sign = 1;
  A factor = 1;           // multiplies the dot product, before the softcap's tanh
  A cap = 0;              // multiplies tanh; 0: no softcap
  A slope;                // in the units of scores
  A from_natural;         // a bias times this is in the units of scores
  A to_log2;              // a score times this is in units of log 2
  A cutoff;               // a weight is 0 if its score is at least this far below the maximum
  double to_natural = 1;  // a score times this is in units of log e

  AttentionScale(const AttentionTile &tile, AttentionTile::Row row) {
    const rapt_attention_options &o = tile.options();
    const double scale = tile.scale<A>(row);
    has_formula = o.softcap != 0 || o.bias || o.alibi_slopes;
    if (o.softcap != 0) {
      cap = static_cast<A>(o.softcap);
      factor = static_cast<A>(scale / o.softcap);
    } else {
      to_natural = unit_of(scale);
      sign = static_cast<A>(scale / to_natural);
    }
    slope = static_cast<A>(double{tile.slope<A>(row)} / to_natural);
    from_natural = static_cast<A>(1 / to_natural);
    to_log2 = static_cast<A>(to_natural * C::log2_e);
    cutoff = C::lowest_log2 / to_log2;
  }

 private:
  // Returns the unit of scores: |scale|, whose exponent is limited. So biases divided by it do not overflow, and to_log2
  // and from_natural are normal numbers. Queries are multiplied by scale / unit, a power of two: exact in bf16 too.
  static double unit_of(double scale) {
    constexpr std::uint64_t fraction = (std::uint64_t{1} << 52) - 1, bias = 1023;
    constexpr std::uint64_t least = bias - rapt::attention_least_unit_bits,
                            largest = bias + std::numeric_limits<A>::max_exponent - 3;
    const auto bits = __builtin_bit_cast(std::uint64_t, std::fabs(scale));
    const std::uint64_t exponent = bits >> 52;
    const std::uint64_t limited = exponent < least ? least : exponent > largest ? largest : exponent;
    return __builtin_bit_cast(double, limited << 52 | (bits & fraction));
  }
};

}  // namespace
