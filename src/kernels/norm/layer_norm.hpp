// Computes layer_norm: for each row what its mean is beyond the first element, a pass that corrects the mean and sums
// the squared deviations, and a pass that writes y.
//
//   time over that without the correction        | 64x128 | 8x768 | 16x4096 | 64x4096
//   layer_norm on AVX2                           | 1.36   | 1.27  | 1.25    | 1.14
//   on AVX-512                                   | 1.37   | 1.20  | 1.12    | 1.11
//   its gradient on AVX2                         | 1.24   | 1.11  | 1.06    | 0.99
//   on AVX-512                                   | 1.17   | 1.08  | 0.96    | 0.96
#pragma once

#include <cstddef>

#include "contract/fused.hpp"
#include "contract/types.hpp"
#include "kernels/norm/rows.hpp"
#include "kernels/norm/sums.hpp"
#include "kernels/norm/weights.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Holds what is to be known of a row: contract/norm.hpp has the letters.
template <class A>
class Normals {
  using S = simd<A>;
  using batch = typename S::batch;

 public:
  A mean, mean_rest, rstd;  // c, l + m and r

  template <class E>
  RAPT_INNER Normals(const E *x, std::size_t n, A eps, const Columns<A> &columns) {
    const batch one(A(1));
    const A p = rapt::widened(*x);
    const batch first(p);
    const A a = columns.mean(sum_of_terms<A>(n, [&](auto part, std::size_t i) RAPT_INNER {
      return Factors<batch>{part.keep(part.load(x + i) - first), one};
    }));
    const A c = p + a, l = (p - c) + a;
    const batch rest(l), center(c);
    A sums[2];
    sums_of_terms(
        n,
        [&](auto part, std::size_t i) RAPT_INNER {
          const batch d = part.keep((part.load(x + i) - center) - rest);
          return TwoFactors<batch>{{d, one}, {d, d}};
        },
        sums);
    const A m = columns.mean(sums[0]), r = inverse_root(fused(-m, m, columns.mean(sums[1])), eps);
    *this = Normals(c, l + m, r);
  }
  RAPT_INNER Normals(A mean, A mean_rest, A rstd)
      : mean(mean), mean_rest(mean_rest), rstd(rstd), center_(mean), root_(rstd), shift_(mean_rest * rstd) {}
  RAPT_INNER batch root() const { return root_; }
  // Returns h.
  RAPT_INNER batch of(batch x) const { return S::fms(x - center_, root_, shift_); }

 private:
  batch center_, root_, shift_;
};

template <class E, bool has_bias, class W>
[[gnu::flatten, gnu::noinline]] void layer_norm_rows(const rapt::NormCall &call, W weights) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;
  const std::size_t cols = call.options.cols;
  const A eps = static_cast<A>(call.options.eps);
  const Columns<A> columns(cols);
  const E *bias = static_cast<const E *>(call.options.bias);
  A *rstd = static_cast<A *>(call.options.rstd), *mean = static_cast<A *>(call.options.mean),
    *mean_rest = static_cast<A *>(call.options.mean_rest);
  const auto normals_of = [&](const E *x) RAPT_INNER { return Normals<A>(x, cols, eps, columns); };
  each_norm_row<E>(call, normals_of,
                   [&](const E *x, E *y, const Writing<E> &writing, const Normals<A> &normals) RAPT_INNER {
                     if (rstd) *rstd++ = normals.rstd;
                     if (mean) *mean++ = normals.mean;
                     if (mean_rest) *mean_rest++ = normals.mean_rest;
                     write_row(y, cols, writing, [&](auto part, std::size_t i) RAPT_INNER {
                       const batch h = normals.of(part.load(x + i));
                       if constexpr (!has_bias) {
                         return weights.times(part, i, h);
                       } else if constexpr (W::is_given) {
                         return S::fma(h, weights.template load<batch>(part, i), part.load(bias + i));
                       } else {
                         return h + part.load(bias + i);
                       }
                     });
                   });
}

template <class E>
void layer_norm(const rapt::NormCall *call) {
  const auto run = [&](const auto &weights) {
    call->options.bias ? layer_norm_rows<E, true>(*call, weights) : layer_norm_rows<E, false>(*call, weights);
  };
  const E *weight = static_cast<const E *>(call->options.weight);
  weight ? run(Weights<E, Weight::plain>{weight}) : run(Weights<E, Weight::none>{weight});
}

}  // namespace
