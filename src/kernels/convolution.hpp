// Sums over the taps of a convolution that does not mix channels: depthwise, with channels or positions in the lanes.
// Others are linear layers over patches (api/convolution_run.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/tap_sums.hpp"
#include "contract/linear.hpp"
#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class E>
class TapSum {
 public:
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;

  explicit TapSum(const rapt::TapSums &call) : call_(call) {}

  // Computes some vectors from lane i on. load(from, r) loads vector r of an array.
  template <std::size_t count, class Load>
  RAPT_INNER void sum(std::size_t i, batch (&t)[count], const Load &load) const {
    const auto number = [&](const void *from, std::size_t r) RAPT_INNER {
      const A *const numbers = static_cast<const A *>(from);
      return call_.has_one_weight ? batch(*numbers) : load(numbers + i, r);
    };
    unroll<count>([&](std::size_t r) RAPT_INNER { t[r] = batch(A(0)); });
    const rapt::Tap *tap = call_.taps, *const last = tap + call_.tap_count;
    while (tap < last) {
      const std::size_t end = (tap->number / rapt::linear_sum_group + 1) * rapt::linear_sum_group;
      batch p[count];
      unroll<count>([&](std::size_t r) RAPT_INNER { p[r] = batch(A(0)); });
      for (; tap < last && tap->number < end; ++tap) {
        const E *const x = static_cast<const E *>(tap->x) + i;
        unroll<count>([&](std::size_t r) RAPT_INNER { p[r] = S::fma(load(x, r), number(tap->w, r), p[r]); });
      }
      unroll<count>([&](std::size_t r) RAPT_INNER { t[r] = t[r] + p[r]; });
    }
    unroll<count>([&](std::size_t r) RAPT_INNER { t[r] = t[r] + batch(A(0)); });
    if (call_.bias) unroll<count>([&](std::size_t r) RAPT_INNER { t[r] = t[r] + number(call_.bias, r); });
  }

 private:
  const rapt::TapSums &call_;
};

// Adds the products of a line to the sums of some taps, whose products share dy.
template <class E>
class TapGradientSums {
 public:
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;
  // Six chains hide how long a fused operation takes, and leave registers of 16 for dy and x.
  static constexpr std::size_t most_taps = 3, vectors = 2;

  explicit TapGradientSums(const rapt::TapGradient &call) : call_(call) {}

  void run() const {
    std::size_t t = 0;
    for (; call_.tap_count - t >= most_taps; t += most_taps) add_taps<most_taps>(t);
    for (; t < call_.tap_count; ++t) add_taps<1>(t);
  }

 private:
  template <std::size_t taps>
  [[gnu::noinline, gnu::flatten]] void add_taps(std::size_t t) const {
    std::size_t i = 0;
    for (; call_.n - i >= vectors * S::width; i += vectors * S::width) {
      add<taps, vectors>(
          t, i, [](const auto *from) RAPT_INNER { return S::load(from); },
          [](A *to, batch sum) RAPT_INNER { S::store(to, sum); });
    }
    for (; i < call_.n; i += S::width) {
      const std::size_t left = call_.n - i < S::width ? call_.n - i : S::width;
      add<taps, 1>(
          t, i, [&](const auto *from) RAPT_INNER { return S::load_first(from, left); },
          [&](A *to, batch sum) RAPT_INNER { S::store_first(to, sum, left); });
    }
  }

  // Positions that meet x through all taps share loads of dy. A tap has positions before them, or behind.
  template <std::size_t taps, std::size_t count, class Load, class Store>
  RAPT_INNER void add(std::size_t tap, std::size_t i, Load load, Store store) const {
    const rapt::TapRun *const runs = call_.runs + tap;
    std::size_t begin = 0, end = SIZE_MAX;
    for (std::size_t t = 0; t < taps; ++t) {
      if (runs[t].first > begin) begin = runs[t].first;
      if (runs[t].first + runs[t].count < end) end = runs[t].first + runs[t].count;
    }
    if (end < begin) end = begin;
    A *const sums = static_cast<A *>(call_.sums) + tap * call_.n + i;
    batch sum[taps][count];
    unroll_pairs<taps, count>([&](std::size_t t, std::size_t v)
                                  RAPT_INNER { sum[t][v] = load(sums + t * call_.n + v * S::width); });
    const auto from = [&](const E *array, std::ptrdiff_t step, std::size_t r)
                          RAPT_INNER { return array + i + step * static_cast<std::ptrdiff_t>(r); };
    const auto x_of = [&](std::size_t t, std::size_t r) RAPT_INNER {
      return from(static_cast<const E *>(runs[t].x), call_.x_step, r - runs[t].first);
    };
    const auto alone = [&](std::size_t t, std::size_t first, std::size_t last) RAPT_INNER {
      for (std::size_t r = first; r < last; ++r) {
        const E *const x = x_of(t, r), *const dy = from(static_cast<const E *>(call_.dy), call_.dy_step, r);
        unroll<count>([&](std::size_t v) RAPT_INNER {
          sum[t][v] = S::fma(load(dy + v * S::width), load(x + v * S::width), sum[t][v]);
        });
      }
    };
    const auto least = [](std::size_t a, std::size_t b) RAPT_INNER { return a < b ? a : b; };
    unroll<taps>([&](std::size_t t)
                     RAPT_INNER { alone(t, runs[t].first, least(begin, runs[t].first + runs[t].count)); });
    if (begin < end) {
      const E *x[taps], *dy = from(static_cast<const E *>(call_.dy), call_.dy_step, begin);
      unroll<taps>([&](std::size_t t) RAPT_INNER { x[t] = x_of(t, begin); });
      for (std::size_t r = begin; r < end; ++r, dy += call_.dy_step) {
        unroll<count>([&](std::size_t v) RAPT_INNER {
          const batch of_dy = load(dy + v * S::width);
          unroll<taps>([&](std::size_t t)
                           RAPT_INNER { sum[t][v] = S::fma(of_dy, load(x[t] + v * S::width), sum[t][v]); });
        });
        unroll<taps>([&](std::size_t t) RAPT_INNER { x[t] += call_.x_step; });
      }
    }
    unroll<taps>([&](std::size_t t) RAPT_INNER {
      const std::size_t last = runs[t].first + runs[t].count;
      alone(t, end < runs[t].first ? runs[t].first : end, last);
    });
    unroll_pairs<taps, count>([&](std::size_t t, std::size_t v)
                                  RAPT_INNER { store(sums + t * call_.n + v * S::width, sum[t][v]); });
  }

  const rapt::TapGradient &call_;
};

// Several vectors at a time hide how long a fused operation takes.
template <class E>
[[gnu::flatten]] void convolution(const rapt::TapSums *call) {
  if (call->gradient) return TapGradientSums<E>(*call->gradient).run();
  using Sum = TapSum<E>;
  using S = typename Sum::S;
  constexpr std::size_t count = 4;
  const Sum sums(*call);
  const std::size_t n = call->n;
  E *const y = static_cast<E *>(call->y);
  std::size_t i = 0;
  for (; n - i >= count * S::width; i += count * S::width) {
    typename Sum::batch t[count];
    sums.sum(i, t, [](const auto *from, std::size_t r) RAPT_INNER { return S::load(from + r * S::width); });
    unroll<count>([&](std::size_t r) RAPT_INNER { S::store(y + i + r * S::width, t[r]); });
  }
  for (; i < n; i += S::width) {
    typename Sum::batch t[1];
    const std::size_t left = n - i < S::width ? n - i : S::width;
    sums.sum(i, t, [&](const auto *from, std::size_t) RAPT_INNER { return S::load_first(from, left); });
    S::store_first(y + i, t[0], left);
  }
}

}  // namespace
