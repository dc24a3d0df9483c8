// What rapt_delta_rule and rapt_delta_rule_backward should give: the exact numbers, and a bound of what the roundings
// of each token add to the errors of the state before it.
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
  static Bounded sum(const Bounded &a, const Bounded &b) { return rounded(a.value + b.value, a.off + b.off); }
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

 protected:
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

// A sum over columns, or over the rows of a state, in its lanes.
struct BoundedSum {
  Bounded lanes[16];

  void add(std::size_t j, const Bounded &a, const Bounded &b) {
    lanes[j % 16] = BoundedOperations::fma(a, b, lanes[j % 16]);
  }
  Bounded fold() {
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) lanes[l] = BoundedOperations::sum(lanes[l], lanes[l + half]);
    }
    return lanes[0];
  }
};

// The same for gradients.
template <class T>
struct DeltaBackwardAccuracy : DeltaRuleAccuracy<T> {
  using Base = DeltaRuleAccuracy<T>;
  using B = BoundedOperations;
  using Rows = std::vector<Bounded>;

  static Judgement judge(const Problem &problem, Bits bits) {
    if (problem.input != InputClass::gaussian && problem.input != InputClass::uniform) return {};
    const auto &of = problem.as<DeltaProblem>();
    const DeltaGradientValues<T> &given = make_delta_gradients<T>(problem);
    if (given.has_infinity) return {};
    DeltaBackwardAccuracy judge(of, given.values, given, bits);
    judge.eps_ = problem.seed % 4 == 0 ? 0x1p-12L : Real{1e-6f};
    for (std::size_t b = 0; b < of.batch; ++b) judge.see_sequence(b);
    return judge.worst_.judgement;
  }

  DeltaBackwardAccuracy(const DeltaProblem &problem, const DeltaValues<T> &made,
                        const DeltaGradientValues<T> &given, Bits results)
      : Base(problem, made, results), gradients(given) {
    const std::size_t tokens = this->all_tokens() * (of.ragged ? 1 : of.batch);
    dk_ = of.q_heads() * tokens * of.key_dim;
    dv_ = dk_ + of.k_heads() * tokens * of.key_dim;
    dg_ = dv_ + of.v_heads() * tokens * of.cols;
    dbeta_ = dg_ + (of.decay ? of.v_heads() * tokens * (of.per_key ? of.key_dim : 1) : 0);
    dstate_ = dbeta_ + (of.beta ? of.v_heads() * tokens : 0);
  }

 private:
  using Base::of, Base::values, Base::bits, Base::eps_, Base::worst_;
  const DeltaGradientValues<T> &gradients;

  // Sums over the states that share a head.
  static void take(Bounded &sum, const Bounded &x, bool is_first) { sum = is_first ? x : B::sum(sum, x); }

  void see_sequence(std::size_t b) {
    const std::size_t tokens =
        of.ragged ? static_cast<std::size_t>(values.offsets[b + 1] - values.offsets[b]) : of.rows;
    const std::size_t n = of.key_dim;
    Rows dq(of.q_heads() * tokens * n), dk(of.k_heads() * tokens * n);
    for (std::size_t head = 0; head < of.v_heads(); ++head) see_head(b, head, tokens, dq, dk);
    see_rows(b, of.q_heads(), tokens, values.q, dq, 0);
    see_rows(b, of.k_heads(), tokens, values.k, dk, dk_);
  }
  void see_rows(std::size_t b, std::size_t heads, std::size_t tokens, const std::vector<T> &x, const Rows &d,
                std::size_t first) {
    const std::size_t n = of.key_dim;
    for (std::size_t head = 0; head < heads; ++head) {
      for (std::size_t t = 0; t < tokens; ++t) {
        const std::size_t at = this->row(b, heads, head, t);
        const Bounded *const from = d.data() + (head * tokens + t) * n;
        const Rows wanted = taken_back(x, at, Rows(from, from + n));
        for (std::size_t i = 0; i < wanted.size(); ++i)
          this->see(value_of<T>(bits[first + at * n + i]), wanted[i], sizeof(T) == 2);
      }
    }
  }
  // The gradient of a row from that of the divided row. Empty where the greater of length and eps is not clear.
  Rows taken_back(const std::vector<T> &all, std::size_t at, const Rows &d) const {
    if (of.l2_norm == 0) return d;
    const std::size_t n = of.key_dim;
    Real sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const Real x = Real{Number<T>(all[at * n + i])};
      sum += x * x;
    }
    const Real length = std::sqrt(sum), dot_off = static_cast<Real>(dot_bound<float>(n)) * B::u;
    const bool is_plain = of.l2_norm == RAPT_L2_NORM_MAX_EPS && length < eps_;
    if (of.l2_norm == RAPT_L2_NORM_MAX_EPS && std::fabs(length - eps_) < 1e-4L * eps_) return {};
    const Real by =
        of.l2_norm == RAPT_L2_NORM_ADD_EPS ? 1 / std::sqrt(sum + eps_) : 1 / std::max(length, eps_);
    const Bounded factor{by, by * (dot_off / 2 + 5 * B::u)};
    const Rows y = this->divided(all, at);
    Bounded product;
    for (std::size_t i = 0; i < n; ++i) {
      product.value += y[i].value * d[i].value;
      product.off += std::fabs(y[i].value) * d[i].off + y[i].off * d[i].most() +
                     dot_off * y[i].most() * d[i].most() + 0x1p-149L;
    }
    Rows made(n);
    for (std::size_t i = 0; i < n; ++i)
      made[i] = B::product(factor, is_plain ? d[i] : B::difference(d[i], B::product(y[i], product)));
    return made;
  }

  // A token, as the forward pass leaves it.
  struct Seen {
    Rows k, decays, before, u, difference;  // `before` is the decayed state
    Bounded beta;
  };
  Seen see_token(std::size_t b, std::size_t head, std::size_t t, Rows &state) const {
    const std::size_t n = of.key_dim, m = of.cols, gate = this->row(b, of.v_heads(), head, t);
    Seen made;
    made.k = this->divided(values.k,
                           this->row(b, of.k_heads(), this->shared(head, of.k_heads(), of.v_heads()), t));
    if (of.beta) made.beta = {Real{values.beta[gate]}, 0x1p-126L};
    for (std::size_t i = 0; i < n; ++i) made.decays.push_back(this->decay(gate, i));
    for (std::size_t i = 0; i < n * m && of.decay; ++i) state[i] = B::product(state[i], made.decays[i / m]);
    made.before = state;
    for (std::size_t j = 0; j < m; ++j) {
      Bounded r;
      for (std::size_t i = 0; i < n; ++i) r = B::fma(made.k[i], state[i * m + j], r);
      const Bounded v{Real{Number<T>(values.v[gate * m + j])}, 0};
      made.difference.push_back(B::difference(v, r));
      made.u.push_back(of.beta ? B::product(made.beta, made.difference[j]) : v);
      for (std::size_t i = 0; i < n; ++i) state[i * m + j] = B::fma(made.k[i], made.u[j], state[i * m + j]);
    }
    return made;
  }
  void see_head(std::size_t b, std::size_t head, std::size_t tokens, Rows &dq, Rows &dk) {
    const std::size_t n = of.key_dim, m = of.cols, first_state = (b * of.v_heads() + head) * n * m;
    Rows state(n * m), gradient(n * m);
    for (std::size_t i = 0; i < n * m && of.state; ++i) state[i].value = Real{values.state[first_state + i]};
    for (std::size_t i = 0; i < n * m && !gradients.dfinal.empty(); ++i)
      gradient[i].value = Real{gradients.dfinal[first_state + i]};
    std::vector<Seen> seen;
    for (std::size_t t = 0; t < tokens; ++t) seen.push_back(see_token(b, head, t, state));
    for (std::size_t t = tokens; t-- > 0;) {
      const Seen &token = seen[t];
      answer(b, head, t, tokens, token, gradient, dq);
      go_back(b, head, t, tokens, token, gradient, dk);
    }
    for (std::size_t i = 0; i < n * m; ++i)
      this->see(value_of<float>(bits[dstate_ + first_state + i]), gradient[i], false);
  }
  void answer(std::size_t b, std::size_t head, std::size_t t, std::size_t tokens, const Seen &token,
              Rows &gradient, Rows &dq) const {
    const std::size_t n = of.key_dim, m = of.cols;
    const float scale = static_cast<float>(of.scale == 0 ? 1 / std::sqrt(static_cast<double>(n)) : of.scale);
    for (std::size_t query = 0; query < of.q_group; ++query) {
      const std::size_t q_head = of.q_group == 1  ? this->shared(head, of.q_heads(), of.v_heads())
                                 : of.interleaved ? query * of.v_heads() + head
                                                  : head * of.q_group + query;
      const std::size_t out_head = of.q_group == 1 ? head : q_head;
      const bool is_first = of.q_group > 1 || (of.interleaved ? head < of.q_heads() : head % of.v_group == 0);
      const Rows q = this->divided(values.q, this->row(b, of.q_heads(), q_head, t));
      const std::size_t out = this->row(b, std::max(of.q_heads(), of.v_heads()), out_head, t) * m;
      Rows p;
      for (std::size_t j = 0; j < m; ++j)
        p.push_back(B::product({Real{scale}, 0}, {Real{Number<T>(gradients.dout[out + j])}, 0x1p-126L}));
      for (std::size_t i = 0; i < n; ++i) {
        BoundedSum sum;
        for (std::size_t j = 0; j < m; ++j) {
          sum.add(j, B::fma(token.k[i], token.u[j], token.before[i * m + j]), p[j]);
          gradient[i * m + j] = B::fma(q[i], p[j], gradient[i * m + j]);
        }
        take(dq[(q_head * tokens + t) * n + i], sum.fold(), is_first);
      }
    }
  }
  void go_back(std::size_t b, std::size_t head, std::size_t t, std::size_t tokens, const Seen &token,
               Rows &gradient, Rows &dk) {
    const std::size_t n = of.key_dim, m = of.cols, gate = this->row(b, of.v_heads(), head, t);
    const std::size_t k_head = this->shared(head, of.k_heads(), of.v_heads());
    const bool is_first = of.interleaved ? head < of.k_heads() : head % (of.v_heads() / of.k_heads()) == 0;
    BoundedSum dbeta, dg_of_head;
    Rows dv;
    for (std::size_t j = 0; j < m; ++j) {
      Bounded w;
      for (std::size_t i = 0; i < n; ++i) w = B::fma(token.k[i], gradient[i * m + j], w);
      dbeta.add(j, w, token.difference[j]);
      dv.push_back(of.beta ? B::product(token.beta, w) : w);
      this->see(value_of<T>(bits[dv_ + gate * m + j]), dv[j], sizeof(T) == 2);
    }
    if (of.beta) this->see(value_of<float>(bits[dbeta_ + gate]), dbeta.fold(), false);
    for (std::size_t i = 0; i < n; ++i) {
      BoundedSum of_k, of_g;
      for (std::size_t j = 0; j < m; ++j) {
        Bounded &g = gradient[i * m + j];
        of_k.add(j, g, token.u[j]);
        if (of.beta) {
          const Bounded back{-dv[j].value, dv[j].off};
          of_k.add(j, token.before[i * m + j], back);
          g = B::fma(token.k[i], back, g);
        }
        of_g.add(j, g, token.before[i * m + j]);
        if (of.decay) g = B::product(g, token.decays[i]);
      }
      take(dk[(k_head * tokens + t) * n + i], of_k.fold(), is_first);
      const Bounded dg = of_g.fold();
      dg_of_head.add(i, dg, {1, 0});
      if (of.per_key) this->see(value_of<float>(bits[dg_ + gate * n + i]), dg, false);
    }
    if (of.decay && !of.per_key) this->see(value_of<float>(bits[dg_ + gate]), dg_of_head.fold(), false);
  }

  std::size_t dk_ = 0, dv_ = 0, dg_ = 0, dbeta_ = 0, dstate_ = 0;
};

}  // namespace rapt::validate
