// Computes the numbers that turn a row's dot products into scores, and scores into weights.
#pragma once

#include <cmath>

#include "call/attention_tile.hpp"
#include "contract/attention.hpp"

namespace {

// has_formula tells two cases apart. Without softcap, bias and ALiBi, a score is the dot product with the
// query times `sign`. With any of the three, a score is computed from the dot product, in natural units. Only
// the second case uses factor, cap and slope.
template <class A>
struct AttentionScale {
  using C = rapt::AttentionContract<A>;

  bool has_formula;
  A sign = 1;
  A factor = 1;  // multiplies the dot product, before the softcap's tanh
  A cap = 0;     // multiplies tanh; 0: no softcap
  A slope = 0;
  A to_log2;          // a score times this is in units of log 2
  A cutoff;           // a weight is 0 if its score is at least this far below the maximum
  double to_natural;  // a score times this is in units of log e

  AttentionScale(const AttentionTile &tile, AttentionTile::Row row) {
    const rapt_attention_options &o = tile.options();
    const double scale = tile.scale<A>(row);
    has_formula = o.softcap != 0 || o.bias || o.alibi_slopes;
    if (has_formula) {
      cap = static_cast<A>(o.softcap);
      factor = static_cast<A>(cap != 0 ? scale / o.softcap : scale);
      slope = tile.slope<A>(row);
      to_natural = 1;
    } else {
      sign = scale < 0 ? A(-1) : A(1);
      to_natural = std::fabs(scale);
      // If scale * log2(e) overflows the type, the queries are multiplied by the scale instead, so that
      // to_log2 stays finite.
      if (!std::isfinite(static_cast<A>(scale * C::log2_e))) {
        sign = static_cast<A>(scale);
        to_natural = 1;
      }
    }
    to_log2 = static_cast<A>(to_natural * C::log2_e);
    cutoff = C::lowest_log2 / to_log2;
  }
};

}  // namespace
