// Walks over the elements of reductions, which have any strides. Elements that are not as lanes need them are copied to
// L1 first: those of 16 bits, which are widened, and those that do not lie next to each other.
#pragma once

#include <cstddef>

#include "call/element.hpp"
#include "call/reduce_call.hpp"
#include "contract/reductions.hpp"
#include "contract/types.hpp"
#include "kernels/reduce/lanes.hpp"
#include "kernels/vector/widen.hpp"

namespace {

// Steps through the runs of an output: the elements along its last reduced dimension.
class Runs {
 public:
  explicit Runs(const rapt::ReduceCall &call) : call_(call) {}
  std::size_t length() const { return last().count; }
  std::ptrdiff_t stride() const { return last().x; }
  std::ptrdiff_t offset() const { return offset_; }
  void next() {
    for (std::size_t d = call_.reduced_dims; d-- > 1;) {
      const rapt::ReduceCall::Dim &dim = call_.reduced[d - 1];
      offset_ += dim.x;
      if (++index_[d - 1] < dim.count) return;
      offset_ -= dim.x * static_cast<std::ptrdiff_t>(dim.count);
      index_[d - 1] = 0;
    }
  }

 private:
  const rapt::ReduceCall::Dim &last() const { return call_.reduced[call_.reduced_dims - 1]; }

  const rapt::ReduceCall &call_;
  std::size_t index_[RAPT_MAX_DIMS] = {};
  std::ptrdiff_t offset_ = 0;
};

// Copies n elements. It may store a vector past the last.
template <class A>
[[gnu::flatten, gnu::noinline]] void copy_elements(const rapt::ReduceCall &call, std::ptrdiff_t at,
                                                   std::ptrdiff_t stride, std::size_t n, A *to) {
  rapt::with_element<A>(call.type, [&](auto element) {
    using E = typename decltype(element)::type;
    const E *x = static_cast<const E *>(call.x) + at;
    if (stride == 1) return widen(x, n, to);
    for (std::size_t i = 0; i < n; ++i) to[i] = rapt::widened(x[stride * static_cast<std::ptrdiff_t>(i)]);
  });
}

template <class A>
inline constexpr std::size_t elements_at_once = 4096 / sizeof(A);

template <class A>
bool is_of_arithmetic_type(const rapt::ReduceCall &call) {
  return sizeof(A) == 8 || call.type == RAPT_F32;
}

// Calls use(x, n) for all elements of an output, in order. Each time but the last, n is a multiple of the lanes. It is
// at most `most`, and no stretch is exceeded.
template <class A, class Use>
void each_piece(const rapt::ReduceCall &call, std::ptrdiff_t first, std::size_t most, Use use) {
  constexpr std::size_t lanes = rapt::dot_lanes<A>, stretch = rapt::dot_stretch<A>;
  const auto smaller = [](std::size_t a, std::size_t b) { return a < b ? a : b; };
  Runs runs(call);
  const std::size_t length = runs.length(), n = call.elements;
  const bool is_direct = is_of_arithmetic_type<A>(call) && (runs.stride() == 1 || length == 1) &&
                         (length == n || length % lanes == 0);
  if (is_direct) {
    for (std::size_t i = 0; i < n; runs.next()) {
      const A *const x = static_cast<const A *>(call.x) + first + runs.offset();
      for (std::size_t j = 0; j < length;) {
        const std::size_t k = smaller(smaller(length - j, most), stretch - i % stretch);
        if (!use(x + j, k)) return;
        j += k;
        i += k;
      }
    }
    return;
  }
  constexpr std::size_t size = elements_at_once<A>;
  alignas(64) A copied[size + 64 / sizeof(A)];
  std::size_t in_run = 0;
  for (std::size_t i = 0; i < n;) {
    std::size_t filled = 0;
    while (filled < size && i < n) {
      const std::size_t k = smaller(length - in_run, size - filled);
      copy_elements<A>(call, first + runs.offset() + runs.stride() * static_cast<std::ptrdiff_t>(in_run),
                       runs.stride(), k, copied + filled);
      filled += k;
      i += k;
      in_run += k;
      if (in_run == length) runs.next(), in_run = 0;
    }
    if (!use(copied, filled)) return;
  }
}

// Whether the elements of an output lie in a row of memory as its lanes need them.
template <class A>
bool is_row(const rapt::ReduceCall &call) {
  const Runs runs(call);
  return is_of_arithmetic_type<A>(call) && call.reduced_dims == 1 &&
         (runs.stride() == 1 || runs.length() == 1);
}

// Reduces the elements of one output.
template <class A>
A reduce_row(const rapt::ReduceCall &call, std::ptrdiff_t first, const Steps<A> &steps, A shift) {
  constexpr std::size_t lanes = rapt::dot_lanes<A>, stretch = rapt::dot_stretch<A>;
  const std::size_t n = call.elements;
  alignas(64) A lane[lanes], total[lanes];
  if (n <= stretch && is_row<A>(call))
    return steps.take_row(static_cast<const A *>(call.x) + first, n, shift, lane, {true, true});
  std::size_t i = 0;
  A result = steps.start;
  each_piece<A>(call, first, stretch, [&](const A *x, std::size_t k) {
    const bool begins = i % stretch == 0, is_first = i < stretch;
    i += k;
    const bool ends = n <= stretch && i == n;
    result = steps.take_row(x, k, shift, is_first ? total : lane, {begins, ends});
    if (!is_first && (i % stretch == 0 || i == n)) steps.join(total, lane, lanes);
    return true;
  });
  return n <= stretch ? result : steps.take_row(nullptr, 0, shift, total, {false, true});
}

// The outputs of a task whose elements lie side by side. Lane l of output c is lane[l * count + c]. Where nothing lies
// between the elements of all outputs, several rows of them are one vector.
template <class A>
class Columns {
 public:
  static constexpr std::size_t lanes = rapt::dot_lanes<A>, most = rapt::ReduceCall::outputs_per_task;
  static constexpr std::size_t most_packed = 16;

  Columns(const rapt::ReduceCall &call, std::ptrdiff_t first, std::size_t count)
      : call_(call), first_(first), count_(count) {
    const Runs runs(call);
    is_packed_ = count <= most_packed && runs.stride() == static_cast<std::ptrdiff_t>(count);
    fetches_ = runs.stride() >= 1024 && runs.length() >= 64;
  }

  // Sets result[c] to output c. shift[c] belongs to it.
  void reduce(const Steps<A> &steps, const A *shift, A *result) {
    constexpr std::size_t stretch = rapt::dot_stretch<A>;
    const std::size_t n = call_.elements, live = n < lanes ? n : lanes;
    alignas(64) A lane[lanes * most];
    alignas(64) A shifts[lanes * most_packed];
    if (steps.has_shift && is_packed_) {
      for (std::size_t e = 0; e < lanes * count_; ++e) shifts[e] = shift[e % count_];
      shift = shifts;
    }
    if (n <= stretch) {
      Runs runs(call_);
      std::size_t in_run = 0;
      take(steps, shift, runs, in_run, n, lane);
    } else {
      reduce_stretches(steps, shift, lane);
    }
    for (std::size_t left = live; left > 1;) {
      std::size_t half = lanes / 2;
      while (half >= left) half /= 2;
      steps.join(lane, lane + half * count_, (left - half) * count_);
      left = half;
    }
    for (std::size_t c = 0; c < count_; ++c) result[c] = n == 0 ? steps.start : lane[c];
  }

  // Calls use(x, i) for the row of elements i of all outputs, in order, until it returns false.
  template <class Use>
  void each_row(Use use) const {
    Runs runs(call_);
    for (std::size_t i = 0; i < call_.elements; runs.next()) {
      for (std::size_t j = 0; j < runs.length(); ++j, ++i) {
        alignas(64) A copied[most + 64 / sizeof(A)];
        if (!use(elements(runs, j, 1, count_, copied), i)) return;
      }
    }
  }

 private:
  [[gnu::noinline]] void reduce_stretches(const Steps<A> &steps, const A *shift, A *total) const {
    constexpr std::size_t stretch = rapt::dot_stretch<A>;
    alignas(64) A lane[lanes * most];
    Runs runs(call_);
    std::size_t in_run = 0;
    take(steps, shift, runs, in_run, stretch, total);
    for (std::size_t i = stretch; i < call_.elements; i += stretch) {
      const std::size_t left = call_.elements - i;
      take(steps, shift, runs, in_run, left < stretch ? left : stretch, lane);
      steps.join(total, lane, lanes * count_);
    }
  }

  // Returns `rows` rows of elements, from element j of the run on, `size` elements each. They are `step` apart.
  const A *elements(const Runs &runs, std::size_t j, std::size_t rows, std::size_t size, A *copied) const {
    const std::ptrdiff_t at = first_ + runs.offset() + runs.stride() * static_cast<std::ptrdiff_t>(j);
    if (is_of_arithmetic_type<A>(call_)) return static_cast<const A *>(call_.x) + at;
    for (std::size_t r = 0; r < rows; ++r) {
      copy_elements<A>(call_, at + runs.stride() * static_cast<std::ptrdiff_t>(lanes * r), 1, size,
                       copied + r * most);
    }
    return copied;
  }

  // Takes `n` rows of elements, a stretch of every output or what is left of it. Lanes begin anew.
  void take(const Steps<A> &steps, const A *shift, Runs &runs, std::size_t &in_run, std::size_t n,
            A *lane) const {
    alignas(64) A copied[4 * most + 64 / sizeof(A)];
    const std::size_t most_together = most / count_;
    const bool is_direct = is_of_arithmetic_type<A>(call_);
    const std::ptrdiff_t step =
        is_direct ? runs.stride() * static_cast<std::ptrdiff_t>(lanes) : static_cast<std::ptrdiff_t>(most);
    for (std::size_t i = 0; i < n;) {
      const std::size_t in_this = runs.length() - in_run, left = in_this < n - i ? in_this : n - i;
      // Each lane takes four elements of these rows, which are in the same run.
      const std::size_t groups = left >= 4 * lanes ? 4 : 1, rows = groups == 4    ? lanes
                                                                   : left < lanes ? left
                                                                                  : lanes;
      for (std::size_t r = 0; r < rows;) {
        const std::size_t l = (i + r) % lanes;
        std::size_t together = 1;
        if (is_packed_) {
          together = rows - r < lanes - l ? rows - r : lanes - l;
          if (!is_direct && together > most_together) together = most_together;
        }
        if (fetches_) fetch(runs, in_run + r + fetched_ahead, groups);
        const A *const x = elements(runs, in_run + r, groups, together * count_, copied);
        const auto take_columns = i + r < lanes ? steps.begin_columns : steps.take_columns;
        take_columns(x, step, groups, together * count_, shift, lane + l * count_);
        r += together;
      }
      i += rows * groups;
      in_run += rows * groups;
      if (in_run == runs.length()) runs.next(), in_run = 0;
    }
  }

  // Each row of a large tensor is in another page, so that no prefetcher of the CPU follows.
  RAPT_INNER void fetch(const Runs &runs, std::size_t j, std::size_t groups) const {
    const std::size_t size = rapt::size_of(call_.type);
    for (std::size_t g = 0; g < groups && j + g * lanes < runs.length(); ++g) {
      const std::ptrdiff_t at =
          first_ + runs.offset() + runs.stride() * static_cast<std::ptrdiff_t>(j + g * lanes);
      const char *const x = static_cast<const char *>(call_.x) + at * static_cast<std::ptrdiff_t>(size);
      for (std::size_t byte = 0; byte < count_ * size; byte += 64) __builtin_prefetch(x + byte);
    }
  }
  static constexpr std::size_t fetched_ahead = 4;  // rows

  const rapt::ReduceCall &call_;
  const std::ptrdiff_t first_;
  const std::size_t count_;
  bool is_packed_, fetches_;
};

}  // namespace
