// Takes elements into lanes: a vector of them at a time, by any operation. Whoever walks over a tensor calls the
// functions of a Steps, so that walks are compiled once for all operations.
#pragma once

#include <cstddef>

#include "contract/reductions.hpp"
#include "kernels/reduce/operations.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Where the elements of a call are in a stretch of an output.
struct Piece {
  bool begins, ends;
};

template <class A>
struct Steps {
  A start;
  bool has_shift;
  // Takes n elements into the lanes of one output. The first belongs to lane 0. Lanes begin anew if the piece begins a
  // stretch. If it ends one, they are folded by halves, and it returns the result; else they are stored.
  A (*take_row)(const A *x, std::size_t n, A shift, A *lane, Piece piece);
  // Takes x[step * g + e] into lane[e], for each e below n, and each g below `groups` in order. shift[e] belongs to e.
  // begin_columns does the same with lanes that begin anew.
  void (*take_columns)(const A *x, std::ptrdiff_t step, std::size_t groups, std::size_t n, const A *shift,
                       A *lane);
  void (*begin_columns)(const A *x, std::ptrdiff_t step, std::size_t groups, std::size_t n, const A *shift,
                        A *lane);
  // Joins b[e] to a[e].
  void (*join)(A *a, const A *b, std::size_t n);
};

template <class Operation, class Batch, std::size_t count>
RAPT_INNER inline Batch join_registers(const Batch (&lane)[count]) {
  if constexpr (count == 1) {
    return lane[0];
  } else {
    Batch half[count / 2];
    unroll<count / 2>([&](std::size_t r)
                          RAPT_INNER { half[r] = Operation::join(lane[r], lane[r + count / 2]); });
    return join_registers<Operation>(half);
  }
}

// Takes the first k elements of a vector, fewer than its width.
template <class Operation, class A, class Batch>
RAPT_INNER inline Batch take_first(Batch lane, const A *x, std::size_t k, Batch shift) {
  using S = simd<A>;
  if constexpr (Operation::has_shift) {  // a missing element has a deviation too
    return Operation::take_deviation(lane,
                                     S::keep_first(Operation::deviation(S::load_first(x, k), shift), k));
  } else if constexpr (Operation::fill == 0) {
    return Operation::take(lane, S::load_first(x, k), shift);
  } else {
    return Operation::take(lane, S::fill_after(S::load_first(x, k), k, Operation::fill), shift);
  }
}

template <class Operation, class A>
[[gnu::flatten, gnu::noinline]] A take_row(const A *x, std::size_t n, A shift, A *lanes, Piece piece) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t count = rapt::dot_lanes<A>, registers = count / S::width;
  batch lane[registers];
  const batch by(shift);
  if (piece.begins) {
    unroll<registers>([&](std::size_t r) RAPT_INNER { lane[r] = batch(Operation::start); });
  } else {
    unroll<registers>([&](std::size_t r) RAPT_INNER { lane[r] = S::load(lanes + r * S::width); });
  }
  for (; n >= count; n -= count, x += count) {
    unroll<registers>([&](std::size_t r)
                          RAPT_INNER { lane[r] = Operation::take(lane[r], S::load(x + r * S::width), by); });
  }
  unroll_while<registers>([&](auto r) RAPT_INNER {
    constexpr std::size_t begin = r * S::width;
    if (n < begin + S::width) {
      if (n > begin) lane[r] = take_first<Operation>(lane[r], x + begin, n - begin, by);
      return false;
    }
    lane[r] = Operation::take(lane[r], S::load(x + begin), by);
    return true;
  });
  if (!piece.ends) {
    unroll<registers>([&](std::size_t r) RAPT_INNER { S::store(lanes + r * S::width, lane[r]); });
    return A(0);
  }
  const batch joined = join_registers<Operation>(lane);
  if constexpr (Operation::adds_lanes) {
    return S::fold(joined);
  } else {
    A of[S::width];
    S::store(of, joined);
    for (std::size_t half = S::width / 2; half > 0; half /= 2) {
      for (std::size_t j = 0; j < half; ++j) of[j] = Operation::join(of[j], of[j + half]);
    }
    return of[0];
  }
}

template <class Operation, bool begins, class A>
[[gnu::flatten, gnu::noinline]] void take_columns(const A *x, std::ptrdiff_t step, std::size_t groups,
                                                  std::size_t n, const A *shift, A *lane) {
  using S = simd<A>;
  using batch = typename S::batch;
  const batch start(Operation::start);
  const auto of_columns = [&](std::size_t e, const auto &load, const auto &store) RAPT_INNER {
    batch of = start, by = start;
    if constexpr (!begins) of = load(lane + e);
    if constexpr (Operation::has_shift) by = load(shift + e);
    if (groups == 4) {
      unroll<4>([&](std::size_t g) RAPT_INNER {
        of = Operation::take(of, load(x + step * static_cast<std::ptrdiff_t>(g) + e), by);
      });
    } else {
      of = Operation::take(of, load(x + e), by);
    }
    store(lane + e, of);
  };
  std::size_t e = 0;
  for (; n - e >= S::width; e += S::width) {
    of_columns(
        e, [](const A *p) RAPT_INNER { return S::load(p); },
        [](A *p, batch v) RAPT_INNER { S::store(p, v); });
  }
  if (e == n) return;
  of_columns(
      e, [=](const A *p) RAPT_INNER { return S::load_first(p, n - e); },
      [=](A *p, batch v) RAPT_INNER { S::store_first(p, v, n - e); });
}

template <class Operation, class A>
[[gnu::flatten, gnu::noinline]] void join_lanes(A *a, const A *b, std::size_t n) {
  using S = simd<A>;
  std::size_t e = 0;
  for (; n - e >= S::width; e += S::width) S::store(a + e, Operation::join(S::load(a + e), S::load(b + e)));
  for (; e < n; ++e) a[e] = Operation::join(a[e], b[e]);
}

template <class Operation, class A>
inline constexpr Steps<A> steps_of = {Operation::start,
                                      Operation::has_shift,
                                      take_row<Operation, A>,
                                      take_columns<Operation, false, A>,
                                      take_columns<Operation, true, A>,
                                      join_lanes<Operation, A>};

// Of an operation that only rows need, and that adds lanes.
template <class Operation, class A>
inline constexpr Steps<A> steps_of_rows = {
    Operation::start, Operation::has_shift,         take_row<Operation, A>, nullptr,
    nullptr,          join_lanes<AddElements<A>, A>};

}  // namespace
