// Finds the keys of a block that a panel's rows see.
#pragma once

#include <cstddef>

#include "contract/attention.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// A panel is this many query rows, which the matrix products process together.
template <class A>
inline constexpr std::size_t panel_rows = simd<A>::panel_vectors *simd<A>::width;

// Describes keys [begin, end) of a block, which the products multiply by the rows [from, to).
struct Segment {
  std::size_t begin, end;
  std::size_t from, to;
};

// Cuts a block into segments at multiples of `step` keys. With causal masking and windows, not every vector
// of rows sees each key. So the products can skip groups of `step` keys that a vector does not see.
template <class A, std::size_t step = rapt::attention_page_unit>
class Segments {
 public:
  using S = simd<A>;

  // Finds the segments of the rows [from, to) in the block at `first`.
  Segments(const TileRows<A> &rows, std::size_t first, std::size_t from, std::size_t to) {
    AttentionTile::Range range[S::panel_vectors];
    std::size_t vectors = 0, begin = block, end = 0;
    bool same = true;
    for (std::size_t r = from; r < to; r += S::width, ++vectors) {
      const AttentionTile::Range seen = range[vectors] = rows.seen_of_block(first, r).any;
      same = same && seen.first == range[0].first && seen.end == range[0].end;
      if (seen.first >= seen.end) continue;
      if (seen.first < begin) begin = seen.first;
      if (seen.end > end) end = seen.end;
    }
    if (begin >= end) return;
    begin = begin / step * step;
    if (same) {
      segment_[count_++] = {begin, end, from, to};
      return;
    }
    for (std::size_t j = begin; j < end; j += step) {
      const std::size_t step_end = end - j < step ? end : j + step;
      Segment next{j, step_end, to, from};
      for (std::size_t v = 0; v < vectors; ++v) {
        if (range[v].first < step_end && range[v].end > j) {
          const std::size_t r = from + v * S::width;
          if (r < next.from) next.from = r;
          next.to = r + S::width;
        }
      }
      if (next.from < next.to) add(next);
    }
  }

  bool empty() const { return count_ == 0; }
  const Segment &front() const { return segment_[0]; }
  const Segment *begin() const { return segment_; }
  const Segment *end() const { return segment_ + count_; }

  // Returns whether the segments that contain the vector of rows at r cover exactly these keys.
  bool cover(std::size_t r, AttentionTile::Range keys) const {
    std::size_t covered = 0;
    for (const Segment &segment : *this) {
      if (segment.from > r || segment.to <= r) continue;
      if (segment.begin < keys.first || segment.end > keys.end) return false;
      covered += segment.end - segment.begin;
    }
    return covered == keys.end - keys.first;
  }

 private:
  static constexpr std::size_t block = rapt::attention_block;

  void add(const Segment &next) {
    if (count_ > 0) {
      Segment &last = segment_[count_ - 1];
      if (last.end == next.begin && last.from == next.from && last.to == next.to) {
        last.end = next.end;
        return;
      }
    }
    segment_[count_++] = next;
  }

  Segment segment_[block / step];
  std::size_t count_ = 0;
};

// Calls f(n) with the number of vectors in a segment's rows as a constant n.
template <class A, class F>
RAPT_INNER inline void by_vectors(const Segment &segment, F f) {
  using S = simd<A>;
  const std::size_t vectors = (segment.to - segment.from) / S::width;
  if (vectors == 1) return f(std::integral_constant<std::size_t, 1>{});
  if (vectors == 2) return f(std::integral_constant<std::size_t, 2>{});
  if constexpr (S::panel_vectors > 2) {
    if (vectors == 3) return f(std::integral_constant<std::size_t, 3>{});
    f(std::integral_constant<std::size_t, 4>{});
  }
}

}  // namespace
