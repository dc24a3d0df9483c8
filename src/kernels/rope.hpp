// Turns pairs of elements by the angles of their positions (contract/rope.hpp).
//
// The sines and cosines of a token are the same for all its heads. They are computed once, for a block of
// tokens, into a table on the stack. Then every head is turned in one pass over its elements.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "call/rope_call.hpp"
#include "contract/rope.hpp"
#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <std::size_t count>
RAPT_INNER inline simd<double>::batch polynomial(const double (&c)[count], simd<double>::batch z) {
  using batch = simd<double>::batch;
  batch sum(c[count - 1]);
  unroll<count - 1>([&](std::size_t i)
                        RAPT_INNER { sum = simd<double>::fma(sum, z, batch(c[count - 2 - i])); });
  return sum;
}

// Computes sines and cosines times their factors.
template <class A>
class Turns {
 public:
  using S = simd<double>;
  using C = rapt::RopeContract<A>;
  using f64 = S::batch;
  using batch = typename simd<A>::batch;

  RAPT_INNER Turns(double sine_factor, double cosine_factor)
      : sine_factor_(sine_factor), cosine_factor_(cosine_factor) {}

  // Computes as many as a vector of A has lanes. Those past the first k have the frequency 0.
  template <bool whole>
  RAPT_INNER void operator()(double position, const double *frequencies, std::size_t k, batch &sine,
                             batch &cosine) const {
    constexpr std::size_t count = simd<A>::width / S::width;
    f64 s[count], c[count];
    unroll<count>([&](auto i) RAPT_INNER {
      constexpr std::size_t at = i * S::width;
      f64 frequency(0.0);
      if constexpr (whole) {
        frequency = S::load(frequencies + at);
      } else if (k > at) {
        frequency = S::load_first(frequencies + at, k - at);
      }
      one(f64(position) * frequency, s[i], c[i]);
    });
    if constexpr (count == 2) {
      sine = simd<A>::narrowed(s[0], s[1]);
      cosine = simd<A>::narrowed(c[0], c[1]);
    } else {
      sine = s[0];
      cosine = c[0];
    }
  }

 private:
  RAPT_INNER void one(f64 angle, f64 &sine, f64 &cosine) const {
    const f64 magic(C::magic), one(1.0);
    const f64 shifted = S::fma(angle, f64(C::two_over_pi), magic), n = shifted - magic;
    const f64 r = S::fnma(n, f64(C::half_pi_low), S::fnma(n, f64(C::half_pi), angle)), z = r * r;
    const f64 s = S::fma(r * z, polynomial(C::s, z), r), c = S::fma(z, polynomial(C::c, z), one);
    // The cosine is negative in the quadrants 1 and 2, where the second bit of n + 1 is set.
    sine = S::negate_where_second_bit(shifted, S::select_where_odd(shifted, c, s)) * f64(sine_factor_);
    cosine =
        S::negate_where_second_bit(shifted + one, S::select_where_odd(shifted, s, c)) * f64(cosine_factor_);
  }

  double sine_factor_, cosine_factor_;
};

// Returns the r-th of rows that are `step` apart.
template <class E>
RAPT_INNER inline E *row_at(E *first, std::size_t r, std::ptrdiff_t step) {
  return first + static_cast<std::ptrdiff_t>(r) * step;
}

// Pairs are elements i and i + distance. The table of a token has the cosines, and then the sines.
template <class A>
struct InHalves {
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t numbers_per_pair = 2;

  RAPT_INNER static void store(A *table, std::size_t i, std::size_t padded, batch sine, batch cosine) {
    S::store(table + i, cosine);
    S::store(table + padded + i, sine);
  }

  // Turns `rows` rows of x, which are steps apart, by the same angles.
  template <std::size_t rows, class E>
  RAPT_INNER static void turn(const E *x, std::ptrdiff_t x_step, E *y, std::ptrdiff_t y_step,
                              std::size_t distance, std::size_t pairs, std::size_t padded, const A *table) {
    std::size_t i = 0;
    for (; pairs - i >= S::width; i += S::width) {
      unroll<rows>([&](std::size_t r) RAPT_INNER {
        const E *const from = row_at(x, r, x_step) + i;
        E *const to = row_at(y, r, y_step) + i;
        batch a = S::load(from), b = S::load(from + distance);
        one(table + i, padded, a, b);
        S::store(to, a);
        S::store(to + distance, b);
      });
    }
    if (i == pairs) return;
    const std::size_t left = pairs - i;
    unroll<rows>([&](std::size_t r) RAPT_INNER {
      const E *const from = row_at(x, r, x_step) + i;
      E *const to = row_at(y, r, y_step) + i;
      batch a = S::load_first(from, left), b = S::load_first(from + distance, left);
      one(table + i, padded, a, b);
      S::store_first(to, a, left);
      S::store_first(to + distance, b, left);
    });
  }

 private:
  RAPT_INNER static void one(const A *table, std::size_t padded, batch &a, batch &b) {
    batch cosine = S::load(table), sine = S::load(table + padded);
    if constexpr (requires { S::keep_in_register(b); }) S::keep_in_register(b), S::keep_in_register(cosine);
    const batch first = S::fms(a, cosine, b * sine);
    b = S::fma(a, sine, b * cosine);
    a = first;
  }
};

// Pairs are elements 2i and 2i + 1. The table of a token has pairs of cosine and sine, and then of -sine and
// cosine. A pair a, b becomes a times the former plus b times the latter, so that no vectors of a and b alone
// are needed.
template <class A>
struct InPairs {
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t numbers_per_pair = 4;

  RAPT_INNER static void store(A *table, std::size_t i, std::size_t padded, batch sine, batch cosine) {
    batch minus_sine = batch(A(-0.0)) - sine, other = cosine;
    S::interleave(other, sine);
    S::store(table + 2 * i, other);
    S::store(table + 2 * i + S::width, sine);
    S::interleave(minus_sine, cosine);
    S::store(table + 2 * padded + 2 * i, minus_sine);
    S::store(table + 2 * padded + 2 * i + S::width, cosine);
  }

  template <std::size_t rows, class E>
  RAPT_INNER static void turn(const E *x, std::ptrdiff_t x_step, E *y, std::ptrdiff_t y_step, std::size_t,
                              std::size_t pairs, std::size_t padded, const A *table) {
    const std::size_t n = 2 * pairs;
    std::size_t i = 0;
    for (; n - i >= S::width; i += S::width) {
      unroll<rows>([&](std::size_t r) RAPT_INNER {
        S::store(row_at(y, r, y_step) + i, one(table + i, padded, S::load(row_at(x, r, x_step) + i)));
      });
    }
    if (i == n) return;
    unroll<rows>([&](std::size_t r) RAPT_INNER {
      const batch v = S::load_first(row_at(x, r, x_step) + i, n - i);
      S::store_first(row_at(y, r, y_step) + i, one(table + i, padded, v), n - i);
    });
  }

 private:
  RAPT_INNER static batch one(const A *table, std::size_t padded, batch v) {
    return S::fma(S::evens_twice(v), S::load(table), S::odds_twice(v) * S::load(table + 2 * padded));
  }
};

template <class E, class Layout>
class Rope {
 public:
  using A = rapt::Arithmetic<E>;
  static constexpr std::size_t width = simd<A>::width;
  static constexpr std::size_t rows_at_once = 4;  // heads that share loads of the table
  // 8 KB of f32 hold 16 tokens of 64 pairs in halves, or 8 of adjacent elements.
  static constexpr std::size_t table_length = 2048, most_pairs = table_length / Layout::numbers_per_pair;

  RAPT_INNER explicit Rope(const rapt::RopeCall &call)
      : call_(call), turns_(call.sine_factor(), call.options.attention_factor) {}

  RAPT_INNER void run() {
    const rapt_rope_options &o = call_.options;
    const std::size_t pairs = call_.pairs(), most = pairs < most_pairs ? pairs : most_pairs;
    padded_ = (most + width - 1) / width * width;
    const std::size_t fit = most_pairs / padded_, block = fit > 0 ? fit : 1;
    for (std::size_t item = 0; item < o.batch; ++item) {
      for (std::size_t token = 0; token < o.tokens; token += block) {
        const std::size_t count = o.tokens - token < block ? o.tokens - token : block;
        for (std::size_t pair = 0; pair < pairs; pair += most) {
          const std::size_t chunk = pairs - pair < most ? pairs - pair : most;
          for (std::size_t t = 0; t < count; ++t) fill(call_.position(item, token + t), pair, chunk, row(t));
          turn(item, token, count, pair, chunk);
        }
      }
    }
  }

 private:
  RAPT_INNER A *row(std::size_t t) { return table_ + t * padded_ * Layout::numbers_per_pair; }

  RAPT_INNER void fill(double position, std::size_t pair, std::size_t count, A *table) const {
    const double *const frequencies = call_.options.frequencies + pair;
    typename simd<A>::batch sine, cosine;
    std::size_t i = 0;
    for (; count - i >= width; i += width) {
      turns_.template operator()<true>(position, frequencies + i, width, sine, cosine);
      Layout::store(table, i, padded_, sine, cosine);
    }
    if (i == count) return;
    turns_.template operator()<false>(position, frequencies + i, count - i, sine, cosine);
    Layout::store(table, i, padded_, sine, cosine);
  }

  // Goes through memory in its order: heads of a token, or tokens of a head.
  RAPT_INNER void turn(std::size_t item, std::size_t token, std::size_t count, std::size_t pair,
                       std::size_t chunk) {
    const rapt_rope_options &o = call_.options;
    const rapt_strides &of_x = o.x_strides, &of_y = o.y_strides;
    const std::size_t pairs = call_.pairs(), first = o.layout == RAPT_ROPE_HALVES ? pair : 2 * pair;
    const bool copies_rest = pair + chunk == pairs && call_.x != call_.y && o.rotary_dim < o.head_dim;
    const bool tokens_inside = count > 1 && of_y.head > of_y.token;
    const std::size_t outer = tokens_inside ? o.heads : count, inner = tokens_inside ? count : o.heads;
    const std::ptrdiff_t x_step = tokens_inside ? of_x.token : of_x.head,
                         y_step = tokens_inside ? of_y.token : of_y.head;
    const std::size_t table_step = padded_ * Layout::numbers_per_pair,
                      inner_table_step = tokens_inside ? table_step : 0;
    for (std::size_t i = 0; i < outer; ++i) {
      const std::size_t head = tokens_inside ? i : 0, t = tokens_inside ? 0 : i;
      const E *x = call_.x_at<E>(item, head, token + t) + first;
      E *y = call_.y_at<E>(item, head, token + t) + first;
      const A *table = row(t);
      const auto turn_rows = [&](auto rows) RAPT_INNER {
        Layout::template turn<rows>(x, x_step, y, y_step, pairs, chunk, padded_, table);
        if (copies_rest) [[unlikely]]
          unroll<rows>(
              [&](std::size_t r) { copy_rest(row_at(x, r, x_step) - first, row_at(y, r, y_step) - first); });
        x = row_at(x, rows, x_step);
        y = row_at(y, rows, y_step);
        table += inner_table_step;
      };
      std::size_t j = 0;
      if (!tokens_inside) {
        for (; inner - j >= rows_at_once; j += rows_at_once) {
          turn_rows(std::integral_constant<std::size_t, rows_at_once>{});
        }
      }
      for (; j < inner; ++j) turn_rows(std::integral_constant<std::size_t, 1>{});
    }
  }
  void copy_rest(const E *x, E *y) const {
    const rapt_rope_options &o = call_.options;
    std::memcpy(y + o.rotary_dim, x + o.rotary_dim, (o.head_dim - o.rotary_dim) * sizeof(E));
  }

  const rapt::RopeCall &call_;
  Turns<A> turns_;
  std::size_t padded_ = 0;
  alignas(64) A table_[table_length];
};

template <class E, class Layout>
[[gnu::flatten, gnu::noinline]] void rope_in(const rapt::RopeCall &call) {
  Rope<E, Layout>(call).run();
}

template <class E>
void rope(const rapt::RopeCall *call) {
  using A = rapt::Arithmetic<E>;
  return call->options.layout == RAPT_ROPE_HALVES ? rope_in<E, InHalves<A>>(*call)
                                                  : rope_in<E, InPairs<A>>(*call);
}

}  // namespace
