// The gradient of attention. A tile of rows goes through the blocks of keys in order: scores and weights are
// computed again, then five matrix products, of which those with the keys' gradients add to memory as it
// lies.
//
// Tiles outside and blocks within, so that dq is a tile's own and what is read and written for a block is its
// keys' gradients, 4 bytes for 80 operations. With blocks outside, dq would be transposed to and from memory
// each time. Tasks of rows apart from tasks of keys would compute scores twice: 7 products instead of 5.
#pragma once

#include <cstddef>
#include <limits>

#include "call/begin_gradients.hpp"
#include "kernels/attention/backward/outer_products.hpp"
#include "kernels/attention/block.hpp"
#include "kernels/attention/many_rows.hpp"
#include "kernels/attention/rows.hpp"
#include "kernels/attention/tile.hpp"
#include "kernels/attention/transposed.hpp"
#include "kernels/attention/weight.hpp"

namespace {

template <class T>
class TileGradients {
 public:
  using S = simd<T>;
  using C = rapt::AttentionContract<T>;
  using batch = typename S::batch;
  using Segment = typename ManyRows<T>::Segment;
  static constexpr std::size_t block = rapt::attention_block;
  static constexpr std::size_t count = rapt::attention_tile_rows;
  static constexpr std::size_t group = ManyRows<T>::group;

  TileGradients(const AttentionTile &tile, T *workspace)
      : tile_(tile),
        o_(tile.options()),
        rows_(tile),
        forward_(tile, rows_, workspace),
        scores_(forward_.scores_),
        slopes_(forward_.exclusions_),
        dout_(forward_.total_values_),
        products_(slopes_ + block * tile_pitch),
        dq_(products_ + (block + 8) * tile_pitch) {
    forward_.keeps_slopes_ = rows_.cap != 0;
  }

  [[gnu::flatten]] void run() {
    load_rows();
    for (std::size_t d = 0; d < o_.qk_dim; ++d) {
      for (std::size_t r = 0; r < rows_.lanes; r += S::width) S::store(dq_ + d * tile_pitch + r, batch(T(0)));
    }
    const AttentionTile::Range seen = rows_.range();
    for (std::size_t first = seen.first / block * block; first < seen.end; first += block)
      take_block(first, seen.end);
    store_dq();
    if (tile_.gradients().dsinks) add_sinks();
  }

 private:
  void load_rows() {
    for (std::size_t r = 0; r < rows_.lanes; ++r) {
      const AttentionTile::Row row = rows_.of[r];
      q_row_[r] = tile_.q<T>(row);
      dout_row_[r] = tile_.dout<T>(row);
      out_row_[r] = tile_.forward_out<T>(row);
      const T lse = *tile_.lse<T>(row);
      // A row that has seen nothing has no weights.
      lse_log2_[r] =
          lse == -std::numeric_limits<T>::infinity() ? T(0) : static_cast<T>(double{lse} * C::log2_e);
      to_score_[r] = static_cast<T>(tile_.scale<T>(row));
    }
    T *const out = forward_.chunk_values_;
    const batch zero(T(0));
    batch all = zero;
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      transpose_rows(dout_row_ + r, o_.v_dim, dout_ + r, tile_pitch);
      transpose_rows(out_row_ + r, o_.v_dim, out + r, tile_pitch);
      batch mean = zero;
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        const batch dout = S::load(dout_ + d * tile_pitch + r);
        mean = S::fma(dout, S::load(out + d * tile_pitch + r), mean);
        all = S::fma(dout, zero, all);
      }
      S::store(mean_ + r, mean);
      for (std::size_t d = 0; d < o_.qk_dim; ++d) {
        all = S::fma(S::load(forward_.queries_ + d * tile_pitch + r), zero, all);
      }
    }
    rows_are_finite_ = !S::any(S::unordered(all, all));
  }

  void take_block(std::size_t first, std::size_t end) {
    const std::size_t keys = end - first < block ? end - first : block;
    addresses_.find(tile_, first, keys);
    addresses_.find_next(tile_, first + block, first + block < end ? end - first - block : 0);
    const bool keys_are_finite = are_finite(addresses_.k, keys);
    for (std::size_t r = 0; r < rows_.lanes; r += group) {
      take_block_of_rows(first, r, rows_.lanes - r < group ? rows_.lanes : r + group, keys, keys_are_finite);
    }
    if (tile_.gradients().dbias) add_to_bias(first, keys);
    T *dk[block], *dv[block];
    for (std::size_t j = 0; j < keys; ++j) {
      dk[j] = tile_.dk<T>(first + j);
      dv[j] = tile_.dv<T>(first + j);
    }
    if (!rows_are_finite_) return add_by_element(keys, dk, dv);
    constexpr std::size_t depth = tile_depth<T, S::panel_vectors>;
    std::size_t j = 0;
    for (; keys - j >= depth; j += depth) add_outer<depth>(first, j, dk, dv);
    for (; keys - j >= 4; j += 4) add_outer<4>(first, j, dk, dv);
    for (; j < keys; ++j) add_outer<1>(first, j, dk, dv);
  }

  bool are_finite(const T *const *row, std::size_t keys) const {
    const batch zero(T(0));
    batch all[2] = {zero, zero};
    for (std::size_t j = 0; j < keys; ++j) {
      std::size_t d = 0;
      for (; o_.qk_dim - d >= 2 * S::width; d += 2 * S::width) {
        all[0] = S::fma(S::load(row[j] + d), zero, all[0]);
        all[1] = S::fma(S::load(row[j] + d + S::width), zero, all[1]);
      }
      for (; d < o_.qk_dim; d += S::width)
        all[0] = S::fma(S::load_first(row[j] + d, o_.qk_dim - d), zero, all[0]);
    }
    return !S::any(S::unordered(all[0], all[1]));
  }

  void take_block_of_rows(std::size_t first, std::size_t from, std::size_t to, std::size_t keys,
                          bool keys_are_finite) {
    Segment segment[ManyRows<T>::most_segments];
    const std::size_t segments = forward_.segments_of(segment, first, from, to);
    alignas(64) T largest[group];
    for (std::size_t s = 0; s < segments; ++s) {
      const Segment &part = segment[s];
      ManyRows<T>::by_vectors(
          part, [&](auto vectors) __attribute__((always_inline)) {
            tile_scores<T, vectors>(forward_.queries_ + part.from, addresses_.k, addresses_.k_step, o_.qk_dim,
                                    addresses_.next_k, addresses_.v, o_.v_dim, from == 0, part.begin,
                                    part.end, scores_ + part.from, largest);
            tile_scores<T, vectors>(dout_ + part.from, addresses_.v, 1, o_.v_dim, addresses_.v, addresses_.v,
                                    0, false, part.begin, part.end, products_ + part.from, largest);
          });
    }
    for (std::size_t r = from; r < to; r += S::width) {
      const auto &range = forward_.vector_range(r);
      AttentionTile::Range any = within_block(range.any, first);
      const AttentionTile::Range all = within_block(range.all, first);
      if (any.first >= any.end) any = {0, 0};
      if (any.end > 0 && (rows_.made || o_.mask)) {
        (void)forward_.make_scores(r, first, any.first, any.end);
      } else if (any.end > 0 && (all.first != any.first || all.end != any.end)) {
        (void)forward_.exclude(r, first, any, all);
      }
      make_gradients(r, any, keys);
    }
    for (std::size_t s = 0; s < segments; ++s) {
      const Segment &part = segment[s];
      if (!keys_are_finite) {
        add_to_dq_by_element(part);
        continue;
      }
      ManyRows<T>::by_vectors(
          part, [&](auto vectors) __attribute__((always_inline)) {
            tile_values<T, vectors>(products_ + part.begin * tile_pitch + part.from,
                                    addresses_.k + part.begin, part.end - part.begin, Before::kept, nullptr,
                                    o_.qk_dim, dq_ + part.from);
          });
    }
  }

  // Of a logit in units of log 2. No weight is above 1, however far the rounding of large scores is off.
  [[gnu::always_inline]] static batch final_weight(batch distance) {
    return Weight<T>()(S::min(batch(T(0)), distance), batch(T(1)), batch(C::lowest_log2));
  }

  // Scores become weights, and products of values the gradients of the dot products; those of the scores go
  // to slopes_ where a gradient of the bias is asked for. All 0 outside of `seen`.
  [[gnu::noinline, gnu::flatten]] void make_gradients(std::size_t r, AttentionTile::Range seen,
                                                      std::size_t keys) {
    const batch zero(T(0)), none(-std::numeric_limits<T>::infinity());
    const batch to_log2 = S::load(rows_.to_log2 + r), lse = S::load(lse_log2_ + r);
    const batch mean = S::load(mean_ + r), to_score = S::load(to_score_ + r);
    const bool has_cap = rows_.cap != 0, has_dbias = tile_.gradients().dbias != nullptr;
    const auto make = [&](std::size_t j) __attribute__((always_inline)) {
      const std::size_t at = j * tile_pitch + r;
      // What is excluded has no weight in a row of NaN either.
      const batch score = S::load(scores_ + at);
      const batch w = S::select(S::equal(score, none), zero, final_weight(S::fma(score, to_log2, -lse)));
      const auto is_nothing = S::equal(w, zero);
      const batch ds = w * (S::load(products_ + at) - mean);
      batch g = ds;
      if (has_cap) g = g * S::load(slopes_ + at);
      if (has_dbias) S::store(slopes_ + at, S::select(is_nothing, zero, ds));
      S::store(scores_ + at, w);
      S::store(products_ + at, S::select(is_nothing, zero, g * to_score));
    };
    std::size_t j = seen.first;
    for (; seen.end - j >= 4; j += 4) {
      unroll<4>([&](auto i) __attribute__((always_inline)) { make(j + i); });
    }
    for (; j < seen.end; ++j) make(j);
    for (std::size_t i = 0; i < keys; ++i) {
      if (i >= seen.first && i < seen.end) continue;
      S::store(scores_ + i * tile_pitch + r, zero);
      S::store(products_ + i * tile_pitch + r, zero);
      if (has_dbias) S::store(slopes_ + i * tile_pitch + r, zero);
    }
  }

  template <std::size_t depth>
  void add_outer(std::size_t first, std::size_t j, T *const *dk, T *const *dv) const {
    // The rows that see any of these keys; what others have is 0.
    std::size_t begin = 0, end = rows_.rows;
    const auto unseen = [&](std::size_t r) {
      return rows_.end[r] <= first + j || rows_.first[r] >= first + j + depth;
    };
    while (begin < end && unseen(begin)) ++begin;
    while (begin < end && unseen(end - 1)) --end;
    outer_products<T, depth>(scores_ + j * tile_pitch, dout_row_, begin, end, o_.v_dim, dv + j);
    outer_products<T, depth>(products_ + j * tile_pitch, q_row_, begin, end, o_.qk_dim, dk + j);
  }

  // Where a query, a gradient or a key is not finite: a weight of 0 leaves it alone.
  [[gnu::noinline]] void add_by_element(std::size_t keys, T *const *dk, T *const *dv) const {
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      for (std::size_t j = 0; j < keys; ++j) {
        const T w = scores_[j * tile_pitch + r], g = products_[j * tile_pitch + r];
        if (w == 0) continue;
        for (std::size_t d = 0; d < o_.v_dim; ++d) dv[j][d] = fused(w, dout_row_[r][d], dv[j][d]);
        for (std::size_t d = 0; d < o_.qk_dim; ++d) dk[j][d] = fused(g, q_row_[r][d], dk[j][d]);
      }
    }
  }
  [[gnu::noinline]] void add_to_dq_by_element(const Segment &part) const {
    for (std::size_t j = part.begin; j < part.end; ++j) {
      for (std::size_t r = part.from; r < part.to; ++r) {
        if (scores_[j * tile_pitch + r] == 0) continue;
        for (std::size_t d = 0; d < o_.qk_dim; ++d) {
          T &dq = dq_[d * tile_pitch + r];
          dq = fused(products_[j * tile_pitch + r], addresses_.k[j][d], dq);
        }
      }
    }
  }
  static T fused(T a, T b, T c) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return __builtin_fmaf(a, b, c);
    } else {
      return __builtin_fma(a, b, c);
    }
  }

  void add_to_bias(std::size_t first, std::size_t keys) const {
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      T *const dbias = tile_.dbias<T>(rows_.of[r]) + first;
      for (std::size_t j = 0; j < keys; ++j) dbias[j] = dbias[j] + slopes_[j * tile_pitch + r];
    }
  }

  void add_sinks() const {
    T *const dsinks = static_cast<T *>(tile_.gradients().dsinks);
    alignas(64) T sink[count];
    for (std::size_t r = 0; r < rows_.lanes; ++r) {
      const bool none = *tile_.lse<T>(rows_.of[r]) == -std::numeric_limits<T>::infinity();
      sink[r] = none ? -std::numeric_limits<T>::infinity()
                     : static_cast<T>(double{tile_.sink<T>(rows_.of[r])} * C::log2_e);
    }
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      S::store(sink + r, final_weight(S::load(sink + r) - S::load(lse_log2_ + r)));
    }
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      T &sum = dsinks[rows_.of[r].q_head];
      if (sink[r] != 0) sum = fused(-sink[r], mean_[r], sum);
    }
  }

  void store_dq() const {
    for (std::size_t r = 0; r < rows_.rows; r += S::width) {
      T *row[S::width];
      for (std::size_t i = 0; i < S::width; ++i) row[i] = tile_.dq<T>(rows_.of[r + i]);
      const std::size_t count = rows_.rows - r < S::width ? rows_.rows - r : S::width;
      store_transposed(
          row, count, o_.qk_dim, [&](std::size_t d) __attribute__((always_inline)) {
            return S::load(dq_ + d * tile_pitch + r) + batch(T(0));
          });
    }
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  TileRows<T> rows_;
  ManyRows<T> forward_;
  T *scores_, *slopes_, *dout_, *products_, *dq_;
  BlockAddresses<T> addresses_;
  const T *q_row_[count], *dout_row_[count], *out_row_[count];
  alignas(64) T lse_log2_[count];
  alignas(64) T to_score_[count];
  alignas(64) T mean_[count];
  bool rows_are_finite_ = true;
};

// No zero of a gradient is negative, wherever terms that are 0 have been left out.
template <class T>
void end_gradients(const BackwardTask &task) {
  using S = simd<T>;
  const auto add_zero = [](T *x, std::size_t n) {
    const typename S::batch zero(T(0));
    std::size_t i = 0;
    for (; n - i >= S::width; i += S::width) S::store(x + i, S::load(x + i) + zero);
    if (i < n) S::store_first(x + i, S::load_first(x + i, n - i) + zero, n - i);
  };
  const auto of_head = [&](const AttentionTile &tile) {
    for (std::size_t j = 0; j < tile.kv_len(); ++j) {
      add_zero(tile.dk<T>(j), tile.options().qk_dim);
      add_zero(tile.dv<T>(j), tile.options().v_dim);
    }
    if (T *dsinks = static_cast<T *>(tile.gradients().dsinks)) {
      add_zero(dsinks + tile.kv_head() * tile.group(), tile.group());
    }
  };
  task.for_each_head(of_head);
}

template <class T>
void attention_backward(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                        void *workspace) {
  for (std::size_t index = first; index < last; ++index) {
    const BackwardTask task(*call, index);
    begin_gradients<T>(task);
    task.for_each_tile(
        [&](const AttentionTile &tile) { TileGradients<T>(tile, static_cast<T *>(workspace)).run(); });
    end_gradients<T>(task);
  }
}

}  // namespace
