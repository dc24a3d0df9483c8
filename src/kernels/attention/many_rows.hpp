// Attention of tiles with many rows: rows in the vector lanes, keys and values broadcast.
//
// A block of 64 keys is: dot products of all rows (tile_scores), scores of them if options ask for it or rows
// see different keys (make_scores, exclude), weights and their sum (tile_weights), values (tile_values).
// Queries are transposed once, outputs at the end; of keys and values nothing is copied, as each element is
// used for 64 rows when it is loaded. A score is then one chain over the dimension by construction.
//
// On AVX-512 in f32 with head_dim 64 the products of 16 scores take 64 cycles at least and their weights 7,
// and accumulators are loaded and stored once a block: 84 % of the peak is what is left to reach. Measured 79
// % (full, 512 tokens), 84 % with head_dim 128.
//
// What lost, in microseconds for 8 heads of 128 causal tokens, 152 now: ranges of a vector's rows looked up
// row by row for each block, 176; then results cleared, rescaled and looked through for NaN in passes of
// their own, 165. Under causality the products on the diagonal leave out what a vector of 16 rows does not
// see, in steps of 16 keys.
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/attention/block.hpp"
#include "kernels/attention/rows.hpp"
#include "kernels/attention/tile.hpp"
#include "kernels/attention/transposed.hpp"
#include "kernels/attention/weight.hpp"
#include "kernels/vector/tanh.hpp"

namespace {

template <class T>
class ManyRows {
 public:
  using S = simd<T>;
  using batch = typename S::batch;
  static constexpr std::size_t block = rapt::attention_block;
  static constexpr std::size_t chunk = rapt::attention_chunk;

  ManyRows(const AttentionTile &tile, TileRows<T> &rows, T *workspace)
      : tile_(tile),
        o_(tile.options()),
        rows_(rows),
        queries_(workspace),
        total_values_(queries_ + o_.qk_dim * tile_pitch),
        chunk_values_(total_values_ + o_.v_dim * tile_pitch),
        scores_(chunk_values_ + o_.v_dim * tile_pitch),
        exclusions_(scores_ + block * tile_pitch) {
    load_queries();
  }

  // Takes in the keys [begin, end), which begin at a chunk.
  [[gnu::flatten]] void run(RowSums<T> &total, std::size_t begin, std::size_t end) {
    some_excluded_ = false;
    take_keys(total, begin, end);
  }

  // What is excluded for some rows of a tile has weight 0 there, and 0 times NaN or infinity is NaN. A result
  // that has a NaN and may have it from there is computed once more, by row; looking at every value
  // beforehand would cost 2 % of masked blocks.
  bool some_excluded() const { return some_excluded_; }
  void be_careful() { careful_ = true; }

  // Row r's values times rows.rescale to address(r). Whether one is NaN.
  template <class Address>
  [[gnu::always_inline]] bool store(Address address) const {
    batch all(T(0));
    for (std::size_t r = 0; r < rows_.rows; r += S::width) {
      const batch factor = S::load(rows_.rescale + r), seen = S::load(rows_.seen + r);
      const std::size_t count = rows_.rows - r < S::width ? rows_.rows - r : S::width;
      T *row[S::width];
      for (std::size_t i = 0; i < S::width; ++i) row[i] = address(i < count ? r + i : r);
      store_transposed(
          row, count, o_.v_dim, [&](std::size_t d) __attribute__((always_inline)) {
            const batch v = rows_.finished(S::load(total_values_ + d * tile_pitch + r), factor, seen);
            all = all + v;
            return v;
          });
    }
    return S::any(S::unordered(all, all));
  }

 private:
  // Keys of a block, from its first, that the same vectors of rows see.
  struct Segment {
    std::size_t begin, end;
    std::size_t from, to;  // rows
  };
  static constexpr std::size_t group = S::panel_vectors * S::width;  // rows of a register tile
  static constexpr std::size_t most_segments = block / rapt::attention_page_unit;

  void load_queries() {
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      const T *row[S::width];
      bool any_negated = false;
      for (std::size_t i = 0; i < S::width; ++i) {
        row[i] = tile_.q<T>(rows_.of[r + i]);
        any_negated = any_negated || rows_.sign[r + i] != 1;  // NaN too
      }
      transpose_rows(row, o_.qk_dim, queries_ + r, tile_pitch);
      if (!any_negated) continue;
      const batch sign = S::load(rows_.sign + r);
      for (std::size_t d = 0; d < o_.qk_dim; ++d) {
        T *query = queries_ + d * tile_pitch + r;
        S::store(query, S::load(query) * sign);
      }
    }
  }

  void clear(T *values, std::size_t from, std::size_t to) const {
    for (std::size_t d = 0; d < o_.v_dim; ++d) {
      for (std::size_t r = from; r < to; r += S::width) S::store(values + d * tile_pitch + r, batch(T(0)));
    }
  }

  void take_keys(RowSums<T> &total, std::size_t begin, std::size_t end) {
    const AttentionTile::Range seen = rows_.range();
    if (begin < seen.first) begin = seen.first / chunk * chunk;
    if (end > seen.end) end = seen.end;
    if (begin >= end) {
      total.clear();
      clear(total_values_, 0, rows_.lanes);
      return;
    }
    RowSums<T> next;
    for (std::size_t key = begin; key < end; key += chunk) {
      const bool is_first = key == begin;
      RowSums<T> &sums = is_first ? total : next;
      T *values = is_first ? total_values_ : chunk_values_;
      sums.clear();
      for (bool &has : has_values_) has = false;
      const std::size_t from = key < seen.first ? seen.first / block * block : key;
      const std::size_t chunk_end = end - key < chunk ? end : key + chunk;
      for (std::size_t k = from; k < chunk_end; k += block) take_block(sums, values, k);
      for (std::size_t r = 0; r < rows_.lanes; r += group) {
        if (!has_values_[r / group]) clear(values, r, r + group < rows_.lanes ? r + group : rows_.lanes);
      }
      if (!is_first) fold(total, next);
    }
  }

  void fold(RowSums<T> &total, const RowSums<T> &next) {
    rows_.fold(total, next);
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      const batch a = S::load(rows_.rescale + r), b = S::load(rows_.rescale_next + r);
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        T *value = total_values_ + d * tile_pitch + r;
        S::store(value, S::fma(S::load(chunk_values_ + d * tile_pitch + r), b, S::load(value) * a));
      }
    }
  }

  void take_block(RowSums<T> &sums, T *values, std::size_t first) {
    const std::size_t left = tile_.kv_len() - first, keys = left < block ? left : block;
    first_ = first;
    addresses_.find(tile_, first, keys);
    addresses_.find_next(tile_, first + block, left - keys);
    for (std::size_t r = 0; r < rows_.lanes; r += group) {
      const std::size_t to = rows_.lanes - r < group ? rows_.lanes : r + group;
      take_block_of_rows(sums, values, first, r, to);
    }
  }

  const typename TileRows<T>::VectorRange &vector_range(std::size_t r) const {
    return rows_.of_vector[r / S::width];
  }

  // The keys of a block that rows [from, to) see, in steps of 16: under causality and windows not every
  // vector of rows sees each.
  std::size_t segments_of(Segment (&segment)[most_segments], std::size_t first, std::size_t from,
                          std::size_t to) const {
    constexpr std::size_t step = rapt::attention_page_unit;
    AttentionTile::Range range[S::panel_vectors];
    std::size_t vectors = 0, begin = block, end = 0;
    bool same = true;
    for (std::size_t r = from; r < to; r += S::width, ++vectors) {
      const AttentionTile::Range seen = range[vectors] = within_block(vector_range(r).any, first);
      same = same && seen.first == range[0].first && seen.end == range[0].end;
      if (seen.first >= seen.end) continue;
      if (seen.first < begin) begin = seen.first;
      if (seen.end > end) end = seen.end;
    }
    if (begin >= end) return 0;
    begin = begin / step * step;
    if (same) {
      segment[0] = {begin, end, from, to};
      return 1;
    }
    std::size_t count = 0;
    for (std::size_t j = begin; j < end; j += step) {
      const std::size_t step_end = end - j < step ? end : j + step;
      std::size_t row_from = to, row_to = from;
      for (std::size_t v = 0; v < vectors; ++v) {
        if (range[v].first < step_end && range[v].end > j && range[v].first < range[v].end) {
          const std::size_t r = from + v * S::width;
          if (r < row_from) row_from = r;
          row_to = r + S::width;
        }
      }
      if (row_from >= row_to) continue;
      if (count > 0 && segment[count - 1].end == j && segment[count - 1].from == row_from &&
          segment[count - 1].to == row_to) {
        segment[count - 1].end = step_end;
      } else {
        segment[count++] = {j, step_end, row_from, row_to};
      }
    }
    return count;
  }

  void take_block_of_rows(RowSums<T> &sums, T *values, std::size_t first, std::size_t from, std::size_t to) {
    Segment segment[most_segments];
    const std::size_t segments = segments_of(segment, first, from, to);
    if (segments == 0) return;
    std::size_t seen_from = to, seen_to = from;
    alignas(64) T largest[S::panel_vectors * S::width], segment_largest[S::panel_vectors * S::width];
    for (std::size_t r = 0; r < to - from; r += S::width) {
      S::store(largest + r, batch(-std::numeric_limits<T>::infinity()));
    }
    for (std::size_t s = 0; s < segments; ++s) {
      const Segment &part = segment[s];
      by_vectors(
          part, [&](auto vectors) __attribute__((always_inline)) {
            tile_scores<T, vectors>(queries_ + part.from, addresses_.k, addresses_.k_step, o_.qk_dim,
                                    addresses_.next_k, addresses_.v, o_.v_dim, from == 0, part.begin,
                                    part.end, scores_ + part.from, segment_largest);
          });
      for (std::size_t r = part.from; r < part.to; r += S::width) {
        T *of_row = largest + (r - from);
        S::store(of_row, S::max(S::load(segment_largest + (r - part.from)), S::load(of_row)));
      }
      if (part.from < seen_from) seen_from = part.from;
      if (part.to > seen_to) seen_to = part.to;
    }

    bool any_rescaled = false;
    for (std::size_t r = seen_from; r < seen_to; r += S::width) {
      batch max = S::load(largest + (r - from));
      const AttentionTile::Range any = within_block(vector_range(r).any, first),
                                 all = within_block(vector_range(r).all, first);
      const std::size_t begin = any.first, end = any.end;
      // Whether keys were multiplied that some of these rows do not see.
      const bool excludes =
          all.first != begin || all.end != end || !segments_are(segment, segments, r, begin, end);
      if (rows_.made || o_.mask || careful_) {
        max = make_scores(r, first, begin, end);
      } else if (excludes) {
        max = exclude(r, first, any, all);
      }
      some_excluded_ = some_excluded_ || o_.mask || o_.bias || excludes;
      // Bitwise, so that every vector is taken in.
      any_rescaled |= rows_.take_max(sums, r, max);
      rows_.take_sum(sums, r,
                     tile_weights<T>(scores_ + r, begin, end, S::load(rows_.reference + r),
                                     S::load(rows_.to_log2 + r), S::load(rows_.cutoff + r)));
    }

    // The first segment deals with what was there before, if it is of all rows.
    bool &has_values = has_values_[from / group];
    Before before = !has_values ? Before::dropped : any_rescaled ? Before::rescaled : Before::kept;
    if (careful_ || segment[0].from != from || segment[0].to != to) {
      if (!has_values) clear(values, from, to);
      if (before == Before::rescaled) rescale(values, seen_from, seen_to);
      before = Before::kept;
    }
    has_values = true;
    for (std::size_t s = 0; s < segments; ++s) {
      const Segment &part = segment[s];
      if (careful_) {
        take_values_by_row(values, part);
        continue;
      }
      by_vectors(
          part, [&](auto vectors) __attribute__((always_inline)) {
            tile_values<T, vectors>(scores_ + part.begin * tile_pitch + part.from, addresses_.v + part.begin,
                                    part.end - part.begin, before, rows_.rescale + part.from, o_.v_dim,
                                    values + part.from);
          });
      before = Before::kept;
    }
  }

  template <class F>
  [[gnu::always_inline]] static void by_vectors(const Segment &part, F f) {
    const std::size_t vectors = (part.to - part.from) / S::width;
    if (vectors == 1) return f(std::integral_constant<std::size_t, 1>{});
    if (vectors == 2) return f(std::integral_constant<std::size_t, 2>{});
    if constexpr (S::panel_vectors > 2) {
      if (vectors == 3) return f(std::integral_constant<std::size_t, 3>{});
      f(std::integral_constant<std::size_t, 4>{});
    }
  }

  // Whether the segments of the rows from r on are the keys [begin, end) and no others.
  static bool segments_are(const Segment (&segment)[most_segments], std::size_t segments, std::size_t r,
                           std::size_t begin, std::size_t end) {
    std::size_t keys = 0;
    for (std::size_t s = 0; s < segments; ++s) {
      if (segment[s].from > r || segment[s].to <= r) continue;
      if (segment[s].begin < begin || segment[s].end > end) return false;
      keys += segment[s].end - segment[s].begin;
    }
    return keys == end - begin;
  }

  // Scores of keys outside of a row's range become -inf; returns the largest of the others. Nothing need be
  // done where all rows see a key.
  batch exclude(std::size_t r, std::size_t first, AttentionTile::Range any, AttentionTile::Range all) {
    const batch minus_infinity(-std::numeric_limits<T>::infinity());
    alignas(64) T range_begin[S::width], range_end[S::width];
    for (std::size_t i = 0; i < S::width; ++i) {
      range_begin[i] = static_cast<T>(within_block(rows_.first[r + i], first));
      range_end[i] = static_cast<T>(within_block(rows_.end[r + i], first));
    }
    const batch from = S::load(range_begin), to = S::load(range_end);
    T *const column = scores_ + r;
    batch max[4] = {minus_infinity, minus_infinity, minus_infinity, minus_infinity};
    std::size_t j = any.first;
    const auto take = [&](batch & largest, std::size_t key) __attribute__((always_inline)) {
      batch score = S::load(column + key * tile_pitch);
      if (key < all.first || key >= all.end) {
        const batch index(static_cast<T>(key));
        const auto excluded = S::either(S::less(index, from), S::negate(S::less(index, to)));
        score = S::select(excluded, minus_infinity, score);
        S::store(column + key * tile_pitch, score);
      }
      largest = S::max_number(score, largest);
    };
    for (; any.end - j >= 4; j += 4) {
      unroll<4>([&](auto i) __attribute__((always_inline)) { take(max[i], j + i); });
    }
    for (; j < any.end; ++j) take(max[0], j);
    return S::max(S::max(max[0], max[1]), S::max(max[2], max[3]));
  }

  // Turns a vector's dot products with keys [begin, end) of a block into scores, -inf where one is excluded;
  // returns the largest.
  [[gnu::noinline, gnu::flatten]] batch make_scores(std::size_t r, std::size_t first, std::size_t begin,
                                                    std::size_t end) {
    const batch minus_infinity(-std::numeric_limits<T>::infinity()), zero(T(0));
    alignas(64) T range_begin[S::width], range_end[S::width], to_block[S::width];
    const T *bias_row[S::width];
    const std::uint8_t *mask_row[S::width];
    for (std::size_t i = 0; i < S::width; ++i) {
      const AttentionTile::Row row = rows_.of[r + i];
      range_begin[i] = static_cast<T>(within_block(rows_.first[r + i], first));
      range_end[i] = static_cast<T>(within_block(rows_.end[r + i], first));
      to_block[i] = static_cast<T>(static_cast<std::int64_t>(first) - tile_.position(row));
      bias_row[i] = o_.bias ? tile_.bias<T>(row) + first : nullptr;
      mask_row[i] = o_.mask ? tile_.mask(row) + first : nullptr;
    }
    const batch from = S::load(range_begin), to = S::load(range_end), distance = S::load(to_block);
    const batch factor = S::load(rows_.factor + r), cap(rows_.cap), slope = S::load(rows_.slope + r);
    const bool has_cap = rows_.cap != 0, has_slopes = o_.alibi_slopes;
    batch max = minus_infinity;
    const std::size_t left = tile_.kv_len() - first;
    for (std::size_t j = begin / S::width * S::width; j < end; j += S::width) {
      const std::size_t keys = left - j < S::width ? left - j : S::width;
      // By way of memory: unrolled over the keys, the loop below was 13 KB and no faster.
      alignas(64) T bias[S::width][S::width], exclusion[S::width][S::width];
      batch v[S::width];
      if (o_.bias) {
        load_transposed<T>(v, bias_row, j, keys);
        unroll<S::width>([&](auto i) __attribute__((always_inline)) { S::store(bias[i], v[i]); });
      }
      if (o_.mask) {
        unroll<S::width>([&](auto i) __attribute__((always_inline)) {
          v[i] = S::select(S::load_flags(mask_row[i] + j, keys), zero, minus_infinity);
        });
        S::transpose(v);
        unroll<S::width>([&](auto i) __attribute__((always_inline)) { S::store(exclusion[i], v[i]); });
      }
      const std::size_t last = end - j < S::width ? end : j + S::width;
      for (std::size_t key = j < begin ? begin : j; key < last; ++key) {
        T *const address = scores_ + key * tile_pitch + r;
        const batch index(static_cast<T>(key));
        batch score = S::load(address);
        auto excluded = S::either(S::less(index, from), S::negate(S::less(index, to)));
        if (rows_.made) {
          score = score * factor;
          if (has_cap) {
            const batch tanh = tanh_of<T>(score);
            if (keeps_slopes_) {
              S::store(exclusions_ + key * tile_pitch + r, S::fnma(tanh, tanh, batch(T(1))));
            }
            score = cap * tanh;
          }
          if (has_slopes) score = S::fma(slope, distance + index, score);
          if (o_.bias) {
            const batch added = S::load(bias[key - j]);
            score = score + added;
            excluded = S::either(excluded, S::equal(added, minus_infinity));
          }
        }
        if (o_.mask) excluded = S::either(excluded, S::equal(S::load(exclusion[key - j]), minus_infinity));
        score = S::select(excluded, minus_infinity, score);
        S::store(address, score);
        if (careful_) S::store(exclusions_ + key * tile_pitch + r, S::select(excluded, minus_infinity, zero));
        max = S::max_number(score, max);
      }
    }
    return max;
  }

  void rescale(T *values, std::size_t from, std::size_t to) const {
    for (std::size_t r = from; r < to; r += S::width) {
      const batch factor = S::load(rows_.rescale + r);
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        T *value = values + d * tile_pitch + r;
        S::store(value, S::load(value) * factor);
      }
    }
  }

  [[gnu::noinline]] void take_values_by_row(T *values, const Segment &part) const {
    const batch zero(T(0));
    for (std::size_t r = part.from; r < part.to; r += S::width) {
      const AttentionTile::Range seen = vector_range(r).any;
      for (std::size_t j = part.begin; j < part.end; ++j) {
        const std::size_t key = first_ + j;
        if (key < seen.first || key >= seen.end) continue;
        const auto visible = S::equal(S::load(exclusions_ + j * tile_pitch + r), zero);
        const batch weight = S::load(scores_ + j * tile_pitch + r);
        for (std::size_t d = 0; d < o_.v_dim; ++d) {
          T *value = values + d * tile_pitch + r;
          const batch before = S::load(value);
          S::store(value, S::select(visible, S::fma(weight, batch(addresses_.v[j][d]), before), before));
        }
      }
    }
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  TileRows<T> &rows_;
  T *queries_, *total_values_, *chunk_values_, *scores_, *exclusions_;
  BlockAddresses<T> addresses_;
  std::size_t first_ = 0;
  bool has_values_[rapt::attention_tile_rows / group];
  bool some_excluded_ = false;
  bool careful_ = false;
  bool keeps_slopes_ = false;

  template <class>
  friend class TileGradients;
};

}  // namespace
