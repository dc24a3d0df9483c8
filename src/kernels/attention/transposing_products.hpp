// Multiplies queries by keys and weights by values for KeysInLanes, on any instruction-set level. Keys that
// the caller has not packed are transposed in registers.
//
// Every score must be summed in the same order as with packed keys, so each lane must hold one key. That is
// why keys that are not packed are transposed. Reads from L3 or memory hide most of that time. A packed copy
// of the block in L1 was slower at 128 dimensions (.0284 ms with one query, .0389 with 4). Its 32 KB evicted
// parts of the copy, and lines that were prefetched.
//
//   AVX-512, a head of 512 keys in L2, us | not packed  | packed
//   64 dimensions, one query              | 3.9         | 2.7
#pragma once

#include <cstddef>
#include <iterator>

#include "call/attention_tile.hpp"
#include "call/element.hpp"
#include "kernels/attention/plain_rule.hpp"
#include "kernels/attention/row_products.hpp"
#include "kernels/attention/run_list.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// KV is the type of keys and values; queries have any type. Runs finds their rows (run_list.hpp, dequantized_rows.hpp).
// A level with a faster way to multiply supplies a class with the same members.
template <class Element, class Runs = RunList<Element>>
class TransposingProducts {
 public:
  using KV = Element;
  using A = rapt::Arithmetic<KV>;
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t block = rapt::attention_block;
  using Rule = PlainRule<A>;
  // Says whether the values of excluded keys can never make a result NaN.
  static constexpr bool ignores_excluded = false;

  TransposingProducts(const AttentionTile &tile, const TileRows<A> &rows, A *workspace)
      : tile_(tile),
        o_(tile.options()),
        rows_(rows),
        queries_(workspace),
        rows_at_once_(most_rows_at_once()),
        runs_(tile) {}

  // Returns how many rows are computed for a tile of `rows` rows. The additional ones do not exist.
  static std::size_t padded(std::size_t rows) { return (rows + 1) / 2 * 2; }

  // Loads the queries times rows_.sign. Rows after the last one are copies of it.
  void load_queries() {
    for (std::size_t r = 0; r < padded(rows_.rows); ++r) {
      const std::size_t from = r < rows_.rows ? r : rows_.rows - 1;
      const batch sign(rows_.sign[from]);
      rapt::with_element<A>(o_.q_type, [&](auto element) {
        const auto *q = tile_.q<typename decltype(element)::type>(rows_.of[from]);
        A *const to = queries_ + r * o_.qk_dim;
        std::size_t d = 0;
        for (; o_.qk_dim - d >= S::width; d += S::width) S::store(to + d, S::load(q + d) * sign);
        if (d < o_.qk_dim) S::store_first(to + d, S::load_first(q + d, o_.qk_dim - d) * sign, o_.qk_dim - d);
      });
    }
  }

  // Begins the chunk [from, chunk_end) of keys up to `end`. scores() and values() then process the chunk's
  // blocks in order.
  void begin_chunk(std::size_t from, std::size_t chunk_end, std::size_t end) {
    runs_.begin_chunk(from, chunk_end, end);
  }

  // Sets scores[r * 64 + j] to dot(query r, key first + j) for the next block of the chunk.
  void scores(std::size_t first, std::size_t keys, A *scores) {
    const RowRun<KV> *const run = runs_.next_keys(first, keys);
    by_rows_at_once([&](std::size_t r, auto count) RAPT_INNER {
      const A *const queries = queries_ + r * o_.qk_dim;
      A *const scores_of = scores + r * block;
      if (!are_packed()) {
        row_scores<A, count>(queries, run, runs_.last(), keys, o_.qk_dim, scores_of);
      } else if constexpr (count <= most_packed_rows) {
        packed_row_scores<A, count>(queries, packed_keys(first), keys, o_.qk_dim, run, runs_.last(),
                                    scores_of);
      }
    });
  }

  // Is called with the weights of the block that scores() processed last, before values() gets them. Only
  // int8 weights need a preparation.
  void prepare_weights(std::size_t, std::size_t, const A *) const {}

  // Rescales the earlier results, and adds the weighted values of the next block of the chunk.
  void values(std::size_t first, std::size_t keys, const A *weights, const A *rescale, A *values,
              std::size_t pitch) {
    const RowRun<KV> *const run = runs_.next_values(first, keys);
    by_rows_at_once([&](std::size_t r, auto count) RAPT_INNER {
      row_values<A, count>(weights + r * block, run, keys, runs_.last(), rescale + r, o_.v_dim,
                           values + r * pitch, pitch);
    });
  }
  // Adds values like values(), but skips a key for rows with !is_visible(row, key).
  template <class IsVisible>
  [[gnu::noinline, gnu::flatten]] void careful_values(std::size_t first, std::size_t keys, const A *weights,
                                                      const A *rescale, A *values, std::size_t pitch,
                                                      IsVisible is_visible) {
    runs_.next_block();
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      A *const value = values + r * pitch;
      for (std::size_t d = 0; d < o_.v_dim; d += S::width)
        S::store(value + d, S::load(value + d) * batch(rescale[r]));
      for (std::size_t j = 0; j < keys; ++j) {
        if (is_visible(r, first + j)) add_value(first + j, batch(weights[r * block + j]), value);
      }
    }
  }

  // Results always have the bits that all levels must agree on, so no tile is computed again.
  static constexpr bool is_doubtful() { return false; }
  static constexpr void use_exact_products() {}

 protected:
  // Some runs pack keys that the caller has not packed.
  bool are_packed() const { return Runs::packs || o_.packed_keys; }
  const KV *packed_keys(std::size_t first) const {
    if constexpr (Runs::packs) return runs_.packed_keys();
    return tile_.k<KV>(first);
  }
  void add_value(std::size_t key, batch weight, A *values) {
    const KV *const from = runs_.value(key);
    for (std::size_t d = 0; d < o_.v_dim; d += S::width) {
      const batch element = S::load_first(from + d, o_.v_dim - d);
      S::store(values + d, S::fma(weight, element, S::load(values + d)));
    }
  }

  // Calls f(first row, count) for groups of rows. The rows of a group share each load of a key or value.
  template <class F>
  RAPT_INNER void by_rows_at_once(F f) const {
    for (std::size_t r = 0; r < rows_.rows; r += rows_at_once_) {
      const std::size_t rows = rows_.rows - r < rows_at_once_ ? rows_.rows - r : rows_at_once_;
      unroll_while<std::size(counts)>([&](auto i) RAPT_INNER {
        if constexpr (counts[i] <= (Runs::packs ? most_packed_rows : S::rows_per_key)) {
          if (rows > counts[i]) return true;
          f(r, std::integral_constant<std::size_t, counts[i]>{});
        }
        return false;
      });
    }
  }
  // Returns the number of rows per group that makes all groups about equal. Packed keys are not transposed,
  // so a second group costs little.
  std::size_t most_rows_at_once() const {
    static_assert(has_count(S::rows_per_key) && has_count(most_packed_rows));
    const std::size_t most = are_packed() ? most_packed_rows : S::rows_per_key,
                      groups = (rows_.rows + most - 1) / most;
    const std::size_t rows = (rows_.rows + groups - 1) / groups;
    for (const std::size_t count : counts) {
      if (rows <= count) return count;
    }
    return most;
  }

  // Groups have these numbers of rows. Other numbers are rounded up, so some computed rows do not exist.
  static constexpr std::size_t counts[] = {1, 2, 3, 4, 6, 8, 9, 10, 12, 14, 16};
  static constexpr std::size_t most_packed_rows = 8;
  // by_rows_at_once() would compute nothing for a group that is larger than all counts.
  static constexpr bool has_count(std::size_t rows) {
    for (const std::size_t count : counts) {
      if (count == rows) return true;
    }
    return false;
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  const TileRows<A> &rows_;
  A *queries_;
  std::size_t rows_at_once_;
  Runs runs_;
};

}  // namespace
