// Attention of tiles with few rows, as in decoding: keys in the vector lanes for the scores, dimensions for
// the values. All rows of a key/value head use a key or value while it is in a register.
//
// The order of the sums wants keys in lanes, so squares of keys are transposed in registers and multiplied
// there, which is the price of the same bits beside keys packed that way: AVX-512, 8 heads of 64 (128)
// dimensions, 128 keys in L2, .0136 (.0221) ms against .0090 (.0161), of which reading takes .0082; with 4
// queries a head .0170 (.0308) against .0124 (.0222). From L3 and memory the reading hides most of it. A
// packed copy of the block in L1, to be multiplied by all queries then, lost: 128 dimensions .0284 with one,
// .0389 with 4 queries, as its 32 KB drive out themselves and what is fetched ahead.
//
// Weights wait for each other in a chain of some 250 cycles, so the values of the block before come after
// them in the program; that and addresses by groups of 16 keys instead of one by one took .0145 to .0137.
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/attention/block.hpp"
#include "kernels/attention/lines_ahead.hpp"
#include "kernels/attention/rows.hpp"
#include "kernels/attention/transposed.hpp"
#include "kernels/attention/weight.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/tanh.hpp"

namespace {

// 0, 1, 2, …
template <class T>
alignas(64) constexpr T lane_index[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// scores[r][j] = dot(query r, key j) for the keys of a block, one chain of fused operations over the
// dimension. Dimension d of the keys lies at keys + 64 d. With more than two queries lines are fetched on the
// way; with fewer a core's own prefetchers do as well.
template <class T, std::size_t rows>
[[gnu::noinline, gnu::flatten]] void row_scores(const T *queries, const T *keys, std::size_t count,
                                                std::size_t dim, LinesAhead<T, Cache::l2> lines, T *scores) {
  using S = simd<T>;
  using batch = typename S::batch;
  constexpr std::size_t block = rapt::attention_block;
  // Vectors of keys at a time: the chains hide their latency behind each other.
  constexpr std::size_t together = rows >= 4 ? 2 : 4;
  for (std::size_t j = 0; j < count; j += together * S::width) {
    batch score[together][rows];
    unroll<together>([&](auto g) __attribute__((always_inline)) {
      unroll<rows>([&](auto r) __attribute__((always_inline)) { score[g][r] = batch(T(0)); });
    });
    const T *key = keys + j;
    for (std::size_t d = 0; d < dim; ++d, key += block) {
      if constexpr (rows > 2) lines.fetch();
      batch element[together];
      unroll<together>([&](auto g)
                           __attribute__((always_inline)) { element[g] = S::load(key + g * S::width); });
      unroll<rows>([&](auto r) __attribute__((always_inline)) {
        const batch query(queries[r * dim + d]);
        unroll<together>([&](auto g) __attribute__((always_inline)) {
          score[g][r] = S::fma(query, element[g], score[g][r]);
        });
      });
    }
    unroll<together>([&](auto g) __attribute__((always_inline)) {
      unroll<rows>([&](auto r) __attribute__((always_inline)) {
        S::store(scores + r * block + j + g * S::width, score[g][r]);
      });
    });
  }
}

// values[r][d] = rescale[r] * values[r][d] + sum over j of weights[r][j] * value j [d], in key order, for
// some vectors of dimensions from d on; the last one has `tail` elements.
template <class T, std::size_t rows, std::size_t vectors, bool whole>
[[gnu::always_inline]] inline void row_values_of(const T *weights, const RowGroup<T> *value, std::size_t keys,
                                                 LinesAhead<T, Cache::l1> &lines, const T *rescale,
                                                 std::size_t d, std::size_t tail, T *values,
                                                 std::size_t pitch) {
  using S = simd<T>;
  using batch = typename S::batch;
  constexpr std::size_t block = rapt::attention_block, size = RowGroup<T>::rows;
  batch sum[rows][vectors];
  unroll<rows>([&](auto r) __attribute__((always_inline)) {
    const batch factor(rescale[r]);
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      sum[r][v] = S::load(values + r * pitch + d + v * S::width) * factor;
    });
  });
  for (std::size_t j = 0; j < keys; j += size, ++value) {
    const std::size_t end = keys - j < size ? keys : j + size;
    for (std::size_t i = j; i < end; ++i) {
      const T *const from = row_of(value, i - j) + d;
      batch element[vectors];
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        if constexpr (v * S::width * sizeof(T) % 64 == 0) lines.fetch();
        element[v] = whole || v + 1 < vectors ? S::load(from + v * S::width)
                                              : S::load_first(from + v * S::width, tail);
      });
      unroll<rows>([&](auto r) __attribute__((always_inline)) {
        const batch weight(weights[r * block + i]);
        unroll<vectors>([&](auto v) __attribute__((always_inline)) {
          sum[r][v] = S::fma(weight, element[v], sum[r][v]);
        });
      });
    }
  }
  unroll<rows>([&](auto r) __attribute__((always_inline)) {
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      S::store(values + r * pitch + d + v * S::width, sum[r][v]);
    });
  });
}

template <class T, std::size_t rows>
[[gnu::noinline]] void row_values(const T *weights, const RowGroup<T> *value, std::size_t keys,
                                  LinesAhead<T, Cache::l1> lines, const T *rescale, std::size_t dim,
                                  T *values, std::size_t pitch) {
  constexpr std::size_t width = simd<T>::width;
  constexpr std::size_t vectors = rows <= 2 ? 8 : 4;
  std::size_t d = 0;
  for (; dim - d >= vectors * width; d += vectors * width) {
    row_values_of<T, rows, vectors, true>(weights, value, keys, lines, rescale, d, 0, values, pitch);
  }
  if constexpr (vectors > 4) {
    for (; dim - d >= 4 * width; d += 4 * width) {
      row_values_of<T, rows, 4, true>(weights, value, keys, lines, rescale, d, 0, values, pitch);
    }
  }
  for (; dim - d >= width; d += width) {
    row_values_of<T, rows, 1, true>(weights, value, keys, lines, rescale, d, 0, values, pitch);
  }
  if (d < dim)
    row_values_of<T, rows, 1, false>(weights, value, keys, lines, rescale, d, dim - d, values, pitch);
}

template <class T>
class FewRows {
 public:
  using S = simd<T>;
  using batch = typename S::batch;
  static constexpr std::size_t block = rapt::attention_block;
  static constexpr std::size_t chunk = rapt::attention_chunk;
  static constexpr std::size_t most = rapt::attention_few_rows;

  // All that is needed to fold and store results, with room for rows of whole vectors.
  FewRows(const AttentionTile &tile, TileRows<T> &rows, T *workspace)
      : tile_(tile),
        o_(tile.options()),
        rows_(rows),
        pitch_((o_.v_dim + S::width - 1) / S::width * S::width),
        total_values_(workspace),
        chunk_values_(total_values_ + most * pitch_),
        scores_{chunk_values_ + most * pitch_, chunk_values_ + most * (pitch_ + block)},
        queries_(scores_[1] + most * block) {}

  // Takes in the keys [begin, end), which begin at a chunk.
  [[gnu::flatten]] void run(RowSums<T> &total, std::size_t begin, std::size_t end) {
    if (!careful_) load_queries();  // out may be q
    some_excluded_ = false;
    take_keys(total, begin, end);
  }

  // As ManyRows has it.
  bool some_excluded() const { return some_excluded_; }
  void be_careful() { careful_ = true; }

  // Row r's results of all chunks, from address(r, chunk): the maximum, the sum, the values.
  template <class Address>
  void merge(RowSums<T> &total, std::size_t chunks, Address address) {
    total.clear();
    clear(total_values_, rows_.rows);
    RowSums<T> next;
    next.clear();
    for (std::size_t c = 0; c < chunks; ++c) {
      for (std::size_t r = 0; r < rows_.lanes; ++r) {
        const T *partial = address(r < rows_.rows ? r : rows_.rows - 1, c);
        next.max[r] = partial[0];
        next.sum[r] = partial[1];
      }
      rows_.fold(total, next);
      for (std::size_t r = 0; r < rows_.rows; ++r) fold_values(r, address(r, c) + 2);
    }
  }

  // Row r's values times rows.rescale to address(r). Whether one is NaN.
  template <class Address>
  bool store(Address address) const {
    batch all(T(0));
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      T *const out = address(r);
      const batch factor(rows_.rescale[r]), seen(rows_.seen[r]);
      for (std::size_t d = 0; d < o_.v_dim; d += S::width) {
        const batch v = rows_.finished(S::load(total_values_ + r * pitch_ + d), factor, seen);
        S::store_first(out + d, v, o_.v_dim - d);
        all = all + v;
      }
    }
    return S::any(S::unordered(all, all));
  }

 private:
  // Rows after the last are copies of it.
  void load_queries() {
    for (std::size_t r = 0; r < most; ++r) {
      const std::size_t from = r < rows_.rows ? r : rows_.rows - 1;
      const T *q = tile_.q<T>(rows_.of[from]);
      const batch sign(rows_.sign[from]);
      for (std::size_t d = 0; d < o_.qk_dim; d += S::width) {
        S::store_first(queries_ + r * o_.qk_dim + d, S::load_first(q + d, o_.qk_dim - d) * sign,
                       o_.qk_dim - d);
      }
    }
  }

  void clear(T *values, std::size_t rows) const {
    for (std::size_t i = 0; i < rows * pitch_; i += S::width) S::store(values + i, batch(T(0)));
  }

  void take_keys(RowSums<T> &total, std::size_t begin, std::size_t end) {
    const AttentionTile::Range seen = rows_.range();
    if (begin < seen.first) begin = seen.first / chunk * chunk;
    if (end > seen.end) end = seen.end;
    total.clear();
    clear(total_values_, most);
    RowSums<T> next;
    bool is_first = true;
    for (std::size_t key = begin; key < end; key += chunk) {
      const std::size_t chunk_end = end - key < chunk ? end : key + chunk;
      RowSums<T> &sums = is_first ? total : next;
      T *values = is_first ? total_values_ : chunk_values_;
      if (!is_first) {
        next.clear();
        clear(chunk_values_, most);
      }
      const std::size_t from = key < seen.first ? seen.first / block * block : key;
      list_groups(from, chunk_end, end);
      const RowGroup<T> *keys = groups_;
      Block now{}, before{};
      for (std::size_t k = from; k < chunk_end; k += block, before = now) {
        now = {k, chunk_end - k < block ? chunk_end - k : block, scores_[k / block % 2], {}};
        // The weights of a block are a chain of latencies; the values of the block before hide it.
        take_scores(sums, now, keys);
        if (before.keys > 0) take_values(values, before, keys + groups_a_block);
        keys += before.keys > 0 ? 2 * groups_a_block : groups_a_block;
      }
      take_values(values, before, keys);
      if (!is_first) {
        rows_.fold(total, next);
        for (std::size_t r = 0; r < rows_.rows; ++r) fold_values(r, chunk_values_ + r * pitch_);
      }
      is_first = false;
    }
  }

  // One row's values of the total and the next results, by the factors that rows.fold left.
  void fold_values(std::size_t r, const T *next) const {
    const batch a(rows_.rescale[r]), b(rows_.rescale_next[r]);
    T *const value = total_values_ + r * pitch_;
    for (std::size_t d = 0; d < o_.v_dim; d += S::width) {
      S::store(value + d, S::fma(S::load_first(next + d, o_.v_dim - d), b, S::load(value + d) * a));
    }
  }

  struct Block {
    std::size_t first, keys;
    T *scores;
    T rescale[most];
  };

  // The rows of keys and values of a chunk in the order in which they are read, and of what comes next.
  void list_groups(std::size_t from, std::size_t chunk_end, std::size_t end) {
    constexpr std::size_t rows = RowGroup<T>::rows;
    RowGroup<T> *group = groups_;
    const std::ptrdiff_t k_stride =
        o_.packed_keys ? static_cast<std::ptrdiff_t>(o_.qk_dim) : o_.k_strides.token;
    const auto add_keys = [&](std::size_t first) {
      for (std::size_t i = 0; i < block; i += rows) {
        const std::size_t at = first + i < end ? first + i : end - 1;
        // Packed keys lie otherwise, but in the same lines.
        const T *const key = o_.packed_keys ? tile_.k<T>(first) + i * o_.qk_dim : tile_.k<T>(at);
        *group++ = {key, k_stride, o_.qk_dim};
      }
    };
    const auto add_values = [&](std::size_t first) {
      for (std::size_t i = 0; i < block; i += rows) {
        *group++ = {tile_.v<T>(first + i < end ? first + i : end - 1), o_.v_strides.token, o_.v_dim};
      }
    };
    std::size_t k = from;
    add_keys(k);
    for (k += block; k < chunk_end; k += block) {
      add_keys(k);
      add_values(k - block);
    }
    add_values(k - block);
    if (chunk_end < end) {
      add_keys(chunk_end);
      add_keys(chunk_end + block < end ? chunk_end + block : chunk_end);
    }
    last_group_ = group - 1;
  }

  void take_scores(RowSums<T> &sums, Block &now, const RowGroup<T> *keys) {
    by_rows([&](auto rows) __attribute__((always_inline)) {
      if (o_.packed_keys) {
        row_scores<T, rows>(queries_, tile_.k<T>(now.first), now.keys, o_.qk_dim, {keys + 4, last_group_},
                            now.scores);
      } else {
        scores_of_keys<rows>(now, keys);
      }
    });
    alignas(64) T numbers[RowSums<T>::count];
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      const std::size_t begin = within_block(rows_.first[r], now.first),
                        row_end = within_block(rows_.end[r], now.first);
      if (begin > 0 || row_end < now.keys || o_.mask || o_.bias) some_excluded_ = true;
      const bool as_they_are = begin == 0 && row_end == block && !rows_.made && !o_.mask;
      numbers[r] = as_they_are ? largest_of(now.scores + r * block) : make_scores(r, now, begin, row_end);
    }
    for (std::size_t r = rows_.rows; r < rows_.lanes; ++r) numbers[r] = numbers[rows_.rows - 1];
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) rows_.take_max(sums, r, S::load(numbers + r));
    for (std::size_t r = 0; r < rows_.rows; ++r) numbers[r] = make_weights(r, now);
    for (std::size_t r = rows_.rows; r < rows_.lanes; ++r) numbers[r] = numbers[rows_.rows - 1];
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) rows_.take_sum(sums, r, S::load(numbers + r));
    for (std::size_t r = 0; r < most; ++r) now.rescale[r] = rows_.rescale[r < rows_.lanes ? r : 0];
  }

  void take_values(T *values, const Block &now, const RowGroup<T> *rows) const {
    if (careful_) return take_values_by_row(values, now);
    by_rows([&](auto count) __attribute__((always_inline)) {
      row_values<T, count>(now.scores, rows, now.keys, {rows + (count <= 2 ? 2 : 4), last_group_},
                           now.rescale, o_.v_dim, values, pitch_);
    });
  }

  // Scores straight from keys as they lie: squares of them are transposed in registers and multiplied there.
  // With few rows two vectors of keys take turns, so that a chain has its latency while the other's square is
  // transposed.
  template <std::size_t rows>
  [[gnu::noinline, gnu::flatten]] void scores_of_keys(const Block &now, const RowGroup<T> *keys) const {
    constexpr std::size_t vectors = rows <= 4 ? 2 : 1, together = vectors * S::width;
    LinesAhead<T, rows <= 2 ? Cache::l1 : Cache::l2> lines(keys + (rows <= 2 ? 3 : 4), last_group_);
    for (std::size_t j = 0; j < now.keys; j += together) {
      const T *row[together];
      for (std::size_t r = 0; r < together; ++r)
        row[r] = row_of(keys, j + r < now.keys ? j + r : now.keys - 1);
      batch score[vectors][rows];
      unroll<vectors>([&](auto g) __attribute__((always_inline)) {
        unroll<rows>([&](auto r) __attribute__((always_inline)) { score[g][r] = batch(T(0)); });
      });
      const auto multiply = [&](auto g, std::size_t d, batch key) __attribute__((always_inline)) {
        unroll<rows>([&](auto r) __attribute__((always_inline)) {
          score[g][r] = S::fma(batch(queries_[r * o_.qk_dim + d]), key, score[g][r]);
        });
      };
      std::size_t d = 0;
      for (; o_.qk_dim - d >= S::width; d += S::width) {
        unroll<vectors>([&](auto g) __attribute__((always_inline)) {
          batch key[S::width];
          S::load_transposed(key, row + g * S::width, d);
          unroll<S::width>([&](auto i) __attribute__((always_inline)) {
            // One at a time: a burst of them holds up the loads.
            if constexpr (i * S::width * sizeof(T) % 64 == 0) lines.fetch();
            multiply(g, d + i, key[i]);
          });
        });
      }
      // One by one: the last dimensions of an odd number.
      for (; d < o_.qk_dim; ++d) {
        alignas(64) T column[together];
        for (std::size_t r = 0; r < together; ++r) column[r] = row[r][d];
        unroll<vectors>([&](auto g) __attribute__((always_inline)) {
          multiply(g, d, S::load(column + g * S::width));
        });
      }
      unroll<vectors>([&](auto g) __attribute__((always_inline)) {
        unroll<rows>([&](auto r) __attribute__((always_inline)) {
          S::store(now.scores + r * block + j + g * S::width, score[g][r]);
        });
      });
    }
  }

  template <class F>
  [[gnu::always_inline]] void by_rows(F f) const {
    switch (rows_.rows) {
      case 1:
        return f(std::integral_constant<std::size_t, 1>{});
      case 2:
        return f(std::integral_constant<std::size_t, 2>{});
      case 3:
        return f(std::integral_constant<std::size_t, 3>{});
      case 4:
        return f(std::integral_constant<std::size_t, 4>{});
      case 5:
      case 6:
        return f(std::integral_constant<std::size_t, 6>{});
      default:
        return f(std::integral_constant<std::size_t, 8>{});
    }
  }

  bool visible(std::size_t r, std::size_t key) const {
    if (key < rows_.first[r] || key >= rows_.end[r]) return false;
    if (o_.mask && tile_.mask(rows_.of[r])[key] == 0) return false;
    return !o_.bias || tile_.bias<T>(rows_.of[r])[key] != -std::numeric_limits<T>::infinity();
  }

  // Turns a row's dot products with a block into scores, -inf where a key is excluded or does not exist;
  // returns the largest.
  T make_scores(std::size_t r, const Block &now, std::size_t begin, std::size_t end) const {
    const std::size_t first = now.first;
    const batch minus_infinity(-std::numeric_limits<T>::infinity());
    T *const row = now.scores + r * block;
    const T *bias = o_.bias ? tile_.bias<T>(rows_.of[r]) + first : nullptr;
    const std::uint8_t *mask = o_.mask ? tile_.mask(rows_.of[r]) + first : nullptr;
    const batch factor(rows_.factor[r]), cap(rows_.cap), slope(rows_.slope[r]);
    const bool has_cap = rows_.cap != 0, has_slopes = o_.alibi_slopes;
    const batch distance(static_cast<T>(static_cast<std::int64_t>(first) - tile_.position(rows_.of[r])));
    const batch from(static_cast<T>(begin)), to(static_cast<T>(end));
    batch max = minus_infinity;
    for (std::size_t j = 0; j < block; j += S::width) {
      if (j >= end || j + S::width <= begin) {
        S::store(row + j, minus_infinity);
        continue;
      }
      batch score = S::load(row + j);
      const std::size_t count = now.keys - j;
      const batch index = S::load(lane_index<T>) + batch(static_cast<T>(j));
      auto excluded = S::either(S::less(index, from), S::negate(S::less(index, to)));
      if (rows_.made) {
        score = score * factor;
        if (has_cap) score = cap * tanh_of<T>(score);
        if (has_slopes) score = S::fma(slope, distance + index, score);
        if (bias) {
          const batch added = S::load_first(bias + j, count);
          score = score + added;
          excluded = S::either(excluded, S::equal(added, minus_infinity));
        }
      }
      if (mask) excluded = S::either(excluded, S::negate(S::load_flags(mask + j, count)));
      score = S::select(excluded, minus_infinity, score);
      S::store(row + j, score);
      max = S::max_number(score, max);
    }
    return S::fold_max(max);
  }

  static T largest_of(const T *row) {
    const batch none(-std::numeric_limits<T>::infinity());
    batch max[4];
    unroll<4>([&](auto i) __attribute__((always_inline)) {
      max[i] = S::max_number(S::load(row + i * S::width), none);
    });
    for (std::size_t j = 4 * S::width; j < block; j += 4 * S::width) {
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        max[i] = S::max_number(S::load(row + j + i * S::width), max[i]);
      });
    }
    return S::fold_max(S::max(S::max(max[0], max[1]), S::max(max[2], max[3])));
  }

  // Turns a row's scores into weights; returns their sum by halves.
  T make_weights(std::size_t r, const Block &now) const {
    T *const row = now.scores + r * block;
    const batch reference(rows_.reference[r]), to_log2(rows_.to_log2[r]), cutoff(rows_.cutoff[r]);
    batch weights[block / S::width];
    unroll<block / S::width>([&](auto i) __attribute__((always_inline)) {
      weights[i] = Weight<T>()(S::load(row + i * S::width) - reference, to_log2, cutoff);
      S::store(row + i * S::width, weights[i]);
    });
    return fold_lanes<T>(weights);
  }

  [[gnu::noinline]] void take_values_by_row(T *values, const Block &now) const {
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      const batch rescale(now.rescale[r]);
      T *const value = values + r * pitch_;
      for (std::size_t d = 0; d < o_.v_dim; d += S::width) S::store(value + d, S::load(value + d) * rescale);
      for (std::size_t j = 0; j < now.keys; ++j) {
        if (!visible(r, now.first + j)) continue;
        const T *const from = tile_.v<T>(now.first + j);
        const batch weight(now.scores[r * block + j]);
        for (std::size_t d = 0; d < o_.v_dim; d += S::width) {
          const batch element = S::load_first(from + d, o_.v_dim - d);
          S::store(value + d, S::fma(weight, element, S::load(value + d)));
        }
      }
    }
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  TileRows<T> &rows_;
  std::size_t pitch_;
  T *total_values_, *chunk_values_, *scores_[2], *queries_;
  const RowGroup<T> *last_group_;
  RowGroup<T> groups_[2 * groups_a_block * (chunk / block + 1)];
  bool some_excluded_ = false;
  bool careful_ = false;
};

}  // namespace
