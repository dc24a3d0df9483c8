// Scans elements in groups of 16 (contract/scan.hpp). A vector has one position of several groups: those of neighbours,
// or successive groups of one row, which are transposed. So both have the same few additions, and no lane waits for
// another.
#pragma once

#include <cstddef>

#include "call/scan_call.hpp"
#include "contract/scan.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class A>
struct AddPrefixes {
  static constexpr A start = -A(0);
  template <class V>
  RAPT_INNER static V join(V a, V b) {
    return a + b;
  }
};

template <class A>
struct MultiplyPrefixes {
  static constexpr A start = 1;
  template <class V>
  RAPT_INNER static V join(V a, V b) {
    return a * b;
  }
};

template <class Joins, std::size_t distance, class V>
RAPT_INNER inline void join_at_distance(V (&p)[rapt::scan_group]) {
  constexpr std::size_t last = rapt::scan_group - 1;
  unroll<rapt::scan_group - distance>(
      [&](std::size_t k) RAPT_INNER { p[last - k] = Joins::join(p[last - k - distance], p[last - k]); });
}

template <class Joins, class V>
RAPT_INNER inline void make_prefixes(V (&p)[rapt::scan_group]) {
  static_assert(rapt::scan_group == 16);
  join_at_distance<Joins, 1>(p);
  join_at_distance<Joins, 2>(p);
  join_at_distance<Joins, 4>(p);
  join_at_distance<Joins, 8>(p);
}

// Scans a group of a vector of neighbours. Only `rows` elements and `columns` neighbours exist, or all if it is whole.
template <class Joins, bool is_whole, class A>
[[gnu::flatten, gnu::noinline]] void scan_group(const A *x, std::ptrdiff_t x_step, A *y,
                                                std::ptrdiff_t y_step, std::size_t rows, std::size_t columns,
                                                A *carry) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t group = rapt::scan_group;
  const auto load = [=](const A *from)
                        RAPT_INNER { return is_whole ? S::load(from) : S::load_first(from, columns); };
  const auto store = [=](A *to, batch v)
                         RAPT_INNER { is_whole ? S::store(to, v) : S::store_first(to, v, columns); };
  batch p[group];
  // A missing element is the last again. It changes no element before it.
  unroll<group>([&](std::size_t j) RAPT_INNER {
    const std::size_t row = is_whole || j < rows ? j : rows - 1;
    p[j] = load(x + x_step * static_cast<std::ptrdiff_t>(row));
  });
  make_prefixes<Joins>(p);
  const batch before = load(carry);
  unroll_while<group>([&](std::size_t j) RAPT_INNER {
    if (!is_whole && j >= rows) return false;
    const batch result = Joins::join(before, p[j]);
    store(y + y_step * static_cast<std::ptrdiff_t>(j), result);
    if (j + 1 == (is_whole ? group : rows)) store(carry, result);
    return true;
  });
}

template <class Joins, class A>
void scan_neighbours(const rapt::ScanCall &call) {
  using S = simd<A>;
  constexpr std::size_t group = rapt::scan_group;
  const A *x = static_cast<const A *>(call.x);
  A *y = static_cast<A *>(call.y), *const carry = static_cast<A *>(call.carry);
  for (std::size_t first = 0; first < call.n; first += group) {
    const std::size_t left = call.n - first, rows = left < group ? left : group;
    for (std::size_t c = 0; c < call.neighbours; c += S::width) {
      const std::size_t columns = call.neighbours - c;
      const bool is_whole = rows == group && columns >= S::width;
      (is_whole ? scan_group<Joins, true, A> : scan_group<Joins, false, A>)(x + c, call.x_step, y + c,
                                                                            call.y_step, rows, columns,
                                                                            carry + c);
    }
    x += call.x_step * static_cast<std::ptrdiff_t>(rows);
    y += call.y_step * static_cast<std::ptrdiff_t>(rows);
  }
}

// Scans up to a few groups of contiguous elements, for which vectors would be mostly empty.
template <class Joins, class A>
[[gnu::flatten, gnu::noinline]] void scan_few(const A *x, A *y, std::size_t n, A *carry) {
  constexpr std::size_t group = rapt::scan_group;
  for (std::size_t first = 0; first < n; first += group) {
    const std::size_t left = n - first, last = (left < group ? left : group) - 1;
    A p[group];
    unroll<group>([&](std::size_t j) RAPT_INNER { p[j] = x[first + (j < last ? j : last)]; });
    make_prefixes<Joins>(p);
    const A before = *carry;
    A result = before;
    unroll_while<group>([&](std::size_t j) RAPT_INNER {
      y[first + j] = result = Joins::join(before, p[j]);
      return j < last;
    });
    *carry = result;
  }
}

// Scans n contiguous elements.
template <class Joins, class A>
[[gnu::flatten, gnu::noinline]] void scan_row(const A *x, A *y, std::size_t n, A *carry) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t group = rapt::scan_group, block = group * S::width;
  A before_next = *carry;
  for (std::size_t first = 0; first < n; first += block) {
    const std::size_t left = n - first;
    if (left <= block - block / 4) {
      *carry = before_next;
      return scan_few<Joins>(x + first, y + first, left, carry);
    }
    alignas(64) A copied[block];
    const A *from = x + first;
    A *to = y + first;
    if (left < block) {
      for (std::size_t i = 0; i < block; ++i) copied[i] = i < left ? from[i] : Joins::start;
      from = to = copied;
    }
    const A *rows[S::width];
    unroll<S::width>([&](std::size_t r) RAPT_INNER { rows[r] = from + r * group; });
    batch p[group];
    unroll<group / S::width>([&](std::size_t part) RAPT_INNER {
      S::each_transposed(rows, part * S::width,
                         [&](auto j, batch column) RAPT_INNER { p[part * S::width + j] = column; });
    });
    make_prefixes<Joins>(p);
    alignas(64) A last[S::width], before[S::width];
    S::store(last, p[group - 1]);
    for (std::size_t r = 0; r < S::width; ++r) {
      before[r] = before_next;
      before_next = Joins::join(before_next, last[r]);
    }
    const batch joined = S::load(before);
    unroll<group / S::width>([&](std::size_t part) RAPT_INNER {
      batch v[S::width];
      unroll<S::width>([&](std::size_t j) RAPT_INNER { v[j] = Joins::join(joined, p[part * S::width + j]); });
      S::transpose(v);
      unroll<S::width>([&](std::size_t r) RAPT_INNER { S::store(to + r * group + part * S::width, v[r]); });
    });
    if (left < block) {
      for (std::size_t i = 0; i < left; ++i) y[first + i] = copied[i];
    }
  }
  *carry = before_next;
}

template <class Joins, class A>
void scan_by(const rapt::ScanCall &call) {
  const bool is_row = call.neighbours == 1 && call.x_step == 1 && call.y_step == 1;
  if (!is_row) return scan_neighbours<Joins, A>(call);
  scan_row<Joins>(static_cast<const A *>(call.x), static_cast<A *>(call.y), call.n,
                  static_cast<A *>(call.carry));
}

template <class A>
void scan(const rapt::ScanCall *call) {
  call->is_product ? scan_by<MultiplyPrefixes<A>, A>(*call) : scan_by<AddPrefixes<A>, A>(*call);
}

}  // namespace
