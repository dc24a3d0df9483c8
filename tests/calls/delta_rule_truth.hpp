// What rapt_delta_rule should give: the exact numbers, and a bound of what the roundings of each token add to the
// errors of the state before it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "calls/delta_rule.hpp"
#include "validate/accuracy_parts.hpp"

namespace rapt::validate {

// A number that was computed with an error of at most `off`.
struct Bounded {
  Real value = 0, off = 0;
  Real most() const { return std::fabs(value) + off; }
};

// Operations of f32 under FTZ and DAZ on such numbers.
struct BoundedOperations {
  static constexpr Real u = 0x1p-24L, flush = 0x1p-126L;

  static Bounded rounded(Real value, Real off) { return {value, off + u * (std::fabs(value) + off) + flush}; }
  static Bounded product(const Bounded &a, const Bounded &b) {
    return rounded(a.value * b.value, std::fabs(a.value) * b.off + a.off * b.most());
  }
  static Bounded difference(const Bounded &a, const Bounded &b) {
    return rounded(a.value - b.value, a.off + b.off);
  }
  static Bounded fma(const Bounded &a, const Bounded &b, const Bounded &c) {
    return rounded(a.value * b.value + c.value, std::fabs(a.value) * b.off + a.off * b.most() + c.off);
  }
};

// Measures every result's error relative to its bound.
template <class T>
struct DeltaRuleAccuracy {
  using B = BoundedOperations;
  static constexpr const char *unit_text = "share";
  static constexpr double bound = 1 + 0x1p-10;  // the judge's own error

  static Judgement judge(const Problem &problem, Bits bits) {
    if (problem.input != InputClass::gaussian && problem.input != InputClass::uniform) return {};
    const auto &of = problem.as<DeltaProblem>();
    const DeltaValues<T> &values = make_delta_values<T>(problem);
    DeltaRuleAccuracy judge(of, values, bits);
    const std::size_t outs =
        std::max(of.q_heads(), of.v_heads()) * judge.all_tokens() * (of.ragged ? 1 : of.batch);
    judge.states_ = outs * of.cols;
    judge.eps_ = problem.seed % 4 == 0 ? 0x1p-12L : Real{1e-6f};
    for (std::size_t b = 0; b < of.batch; ++b) {
      for (std::size_t head = 0; head < of.v_heads(); ++head) judge.see_head(b, head);
    }
    return judge.worst_.judgement;
  }

  DeltaRuleAccuracy(const DeltaProblem &problem, const DeltaValues<T> &made, Bits results)
      : of(problem), values(made), bits(results) {}

 private:
  const DeltaProblem &of;
  const DeltaValues<T> &values;
  Bits bits;

  // Tokens from the beginning of a head's rows to that of the next head's.
  std::size_t all_tokens() const {
    return of.ragged ? static_cast<std::size_t>(values.offsets.back()) : of.rows;
  }
  std::size_t row(std::size_t b, std::size_t heads, std::size_t head, std::size_t token) const {
    if (of.ragged) return head * all_tokens() + static_cast<std::size_t>(values.offsets[b]) + token;
    return (b * heads + head) * of.rows + token;
  }
  std::size_t shared(std::size_t h, std::size_t n, std::size_t m) const {
    return of.interleaved ? h % n : h / (m / n);
  }

  // A row of q or k, divided by its length.
  std::vector<Bounded> divided(const std::vector<T> &all, std::size_t at) const {
    std::vector<Bounded> made(of.key_dim);
    Real sum = 0;
    for (std::size_t i = 0; i < of.key_dim; ++i) {
      made[i].value = Real{Number<T>(all[at * of.key_dim + i])};
      sum += made[i].value * made[i].value;
    }
    if (of.l2_norm == 0) return made;
    const Real least = eps_;
    const Real factor =
        of.l2_norm == RAPT_L2_NORM_ADD_EPS ? 1 / std::sqrt(sum + least) : 1 / std::max(std::sqrt(sum), least);
    // The sum errs as a dot product, of which the root takes half, and four operations follow.
    const Real off = (static_cast<Real>(dot_bound<float>(of.key_dim)) / 2 + 5) * B::u;
    for (Bounded &x : made) x = {x.value * factor, std::fabs(x.value * factor) * off + 0x1p-126L};
    return made;
  }
  Bounded decay(std::size_t at, std::size_t i) const {
    if (!of.decay) return {1, 0};
    const Real a = std::exp(Real{values.g[of.per_key ? at * of.key_dim + i : at]});
    return {a, 2 * B::u * a + 0x1p-126L};
  }

  void see_head(std::size_t b, std::size_t head) {
    const std::size_t tokens =
        of.ragged ? static_cast<std::size_t>(values.offsets[b + 1] - values.offsets[b]) : of.rows;
    const std::size_t n = of.key_dim, m = of.cols, first_state = (b * of.v_heads() + head) * n * m;
    std::vector<Bounded> state(n * m);
    for (std::size_t i = 0; i < n * m && of.state; ++i) state[i].value = Real{values.state[first_state + i]};
    const std::size_t k_head = shared(head, of.k_heads(), of.v_heads());
    const float wanted = static_cast<float>(of.scale == 0 ? 1 / std::sqrt(static_cast<double>(n)) : of.scale);
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::vector<Bounded> k = divided(values.k, row(b, of.k_heads(), k_head, t));
      const std::size_t gate = row(b, of.v_heads(), head, t);
      for (std::size_t j = 0; j < m; ++j) {
        Bounded r;
        for (std::size_t i = 0; i < n; ++i) {
          Bounded &s = state[i * m + j];
          if (of.decay) s = B::product(s, decay(gate, i));
          r = B::fma(k[i], s, r);
        }
        Bounded u{Real{Number<T>(values.v[gate * m + j])}, 0};
        if (of.beta) u = B::product({Real{values.beta[gate]}, 0x1p-126L}, B::difference(u, r));
        for (std::size_t i = 0; i < n; ++i) state[i * m + j] = B::fma(k[i], u, state[i * m + j]);
      }
      for (std::size_t query = 0; query < of.q_group; ++query) {
        const std::size_t q_head = of.q_group == 1  ? shared(head, of.q_heads(), of.v_heads())
                                   : of.interleaved ? query * of.v_heads() + head
                                                    : head * of.q_group + query;
        const std::size_t out_head = of.q_group == 1 ? head : q_head;
        const std::vector<Bounded> q = divided(values.q, row(b, of.q_heads(), q_head, t));
        const std::size_t at = row(b, std::max(of.q_heads(), of.v_heads()), out_head, t) * m;
        for (std::size_t j = 0; j < m; ++j) {
          Bounded o;
          for (std::size_t i = 0; i < n; ++i) o = B::fma(q[i], state[i * m + j], o);
          see(value_of<T>(bits[at + j]), B::product({Real{wanted}, 0}, o), sizeof(T) == 2);
        }
      }
    }
    for (std::size_t i = 0; i < n * m; ++i)
      see(value_of<float>(bits[states_ + first_state + i]), state[i], false);
  }
  void see(Real got, Bounded wanted, bool is_short) {
    if (wanted.most() > (is_short ? 30000.0L : 1e37L)) return;
    if (is_short) {
      constexpr int digits = std::numeric_limits<T>::digits;
      wanted.off += std::max(std::ldexp(wanted.most(), -digits),
                             std::ldexp(Real{1}, std::numeric_limits<T>::min_exponent - digits - 1));
    }
    const Real off = std::fabs(got - wanted.value);
    worst_.see(off == 0                                 ? 0
               : !std::isfinite(got) || wanted.off == 0 ? wrong
                                                        : as_double(off / wanted.off),
               bound);
  }

  std::size_t states_ = 0;
  Real eps_ = 0;
  Worst worst_;
};

}  // namespace rapt::validate
