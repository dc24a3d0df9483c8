// Lists a chunk's keys and values in the order in which tiles of few rows read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "call/attention_tile.hpp"
#include "call/attention_workspace.hpp"
#include "kernels/attention/gathered_rows.hpp"
#include "kernels/attention/lines_ahead.hpp"
#include "machine/questions.hpp"

namespace {

// Lists runs of 16 rows: the keys of each block, followed by the values of the block before.
//
// Rows of a run that do not lie together are read by their addresses in tiles of up to most_rows_addressed rows. Larger
// tiles read copies that follow each other. Copies of wide rows exceed the L1 cache, but groups of rows share a copy:
//
//   time over keys in order; AVX-512, 8 heads of 128 dimensions of bf16 in L2 | 1 query | 4    | 8
//   copies                                                                    | 1.90    | 1.48 | 1.28
//   addresses                                                                 | 1.31    | 1.21 | 1.32
template <class KV, std::size_t most_rows_addressed = rapt::attention_tile_rows>
class RunList {
 public:
  using Run = RowRun<KV>;
  static constexpr bool packs = false;
  static constexpr std::size_t block = rapt::attention_block;

  explicit RunList(const AttentionTile &tile)
      : tile_(tile),
        o_(tile.options()),
        gathered_(o_, tile.gathered()),
        far_(exceed(16) && rapt_fetches_far_ahead() ? bytes_ahead() : 0),
        copies_(may_copy && tile.rows() > most_rows_addressed),
        alone_(has_vectors_of_runs && !o_.packed_keys && exceed(48) && rapt_reads_in_order()) {}

  // Lists the runs of the chunk [from, chunk_end). Keys end at `end`. Rows that are copied are copied when they are
  // read. Until then their runs have the memory for them, which costs nothing to prefetch.
  void begin_chunk(std::size_t from, std::size_t chunk_end, std::size_t end) {
    if (tile_.is_scattered()) [[unlikely]] {
      add_runs<true>(from, chunk_end, end);
    } else {
      add_runs<false>(from, chunk_end, end);
    }
    next_ = runs_;
  }

  // Return the runs of the chunk's next block of keys or values, [first, first + count).
  const Run *next_keys(std::size_t first, std::size_t count) {
    if (may_copy && copies_ && tile_.is_scattered()) [[unlikely]]
      copy(gathered_.keys, first, count, gather_keys<KV>);
    return next_block();
  }
  const Run *next_values(std::size_t first, std::size_t count) {
    if (may_copy && copies_ && tile_.is_scattered()) [[unlikely]]
      copy(gathered_.values, first, count, gather_values<KV>);
    return next_block();
  }
  const Run *next_block() {
    const Run *const run = next_;
    next_ += runs_per_block;
    return run;
  }
  const Run *last() const { return last_; }
  // Returns a value that is not missing.
  const KV *value(std::size_t key) const { return tile_.v<KV>(key); }

 private:
  static constexpr bool may_copy = most_rows_addressed < rapt::attention_tile_rows;
  static constexpr bool has_vectors_of_runs = std::is_same_v<KV, float> && simd<float>::width == Run::rows;
  static constexpr std::size_t most_runs = 2 * runs_per_block * (rapt::attention_chunk / block + 1);

  // Returns how far rows are prefetched on Zen 4. Rows of pages and lists do not go on that far. Decoding 32768 keys of
  // 128 dimensions, pages of 64 tokens take .87 of the time with 8 KB in place of 64, and f64 .89. In f32, a query
  // for each of 8 heads takes .96 and four take 1.2, f16 takes 1 and 1.1, and bf16 arithmetic 1.15.
  std::uintptr_t bytes_ahead() const {
    return o_.block_table || o_.key_lists || std::is_same_v<KV, double> ? 8192 : 65536;
  }
  // Returns whether the keys and values of all heads are larger than so many MB, as a cache has.
  bool exceed(std::size_t mb) const {
    const std::size_t tokens = tile_.kv_len() * o_.kv_heads * o_.batch;
    return tokens * (o_.qk_dim + o_.v_dim) * sizeof(KV) > mb << 20;
  }
  template <bool may_scatter>
  void add_runs(std::size_t from, std::size_t chunk_end, std::size_t end) {
    Run *run = runs_;
    std::size_t k = from;
    run = add_keys<may_scatter>(run, k, end);
    for (k += block; k < chunk_end; k += block) {
      run = add_keys<may_scatter>(run, k, end);
      run = add_values<may_scatter>(run, k - block, end);
    }
    run = add_values<may_scatter>(run, k - block, end);
    if (chunk_end < end) {
      run = add_keys<may_scatter>(run, chunk_end, end);
      run = add_keys<may_scatter>(run, chunk_end + block < end ? chunk_end + block : chunk_end, end);
    }
    last_ = run - 1;
  }
  template <bool may_scatter>
  Run *add_keys(Run *run, std::size_t first, std::size_t end) {
    const std::ptrdiff_t stride =
        o_.packed_keys ? static_cast<std::ptrdiff_t>(o_.qk_dim) : o_.k_strides.token;
    const bool share_sets = rows_share_sets<KV>(stride);
    for (std::size_t i = 0; i < block; i += Run::rows) {
      const std::size_t at = first + i < end ? first + i : end - 1;
      if (may_scatter && is_scattered(at, end)) {
        *run = scattered_run(run, at, end, gathered_.keys, o_.qk_dim, tile_.k_of_token<KV>(0),
                             o_.k_strides.token, [&](std::size_t key) { return tile_.k<KV>(key); });
        ++run;
        continue;
      }
      // Packed keys have another order, but occupy the same cache lines.
      const KV *const key = o_.packed_keys ? tile_.k<KV>(first) + i * o_.qk_dim : tile_.k<KV>(at);
      *run++ = {key, stride, o_.qk_dim, far_, alone_, share_sets, nullptr};
    }
    return run;
  }
  template <bool may_scatter>
  Run *add_values(Run *run, std::size_t first, std::size_t end) {
    const bool share_sets = rows_share_sets<KV>(o_.v_strides.token);
    for (std::size_t i = 0; i < block; i += Run::rows) {
      const std::size_t at = first + i < end ? first + i : end - 1;
      if (may_scatter && is_scattered(at, end)) {
        *run = scattered_run(run, at, end, gathered_.values, o_.v_dim, tile_.v_of_token<KV>(0),
                             o_.v_strides.token, [&](std::size_t key) { return tile_.v<KV>(key); });
        ++run;
        continue;
      }
      *run++ = {tile_.v<KV>(at), o_.v_strides.token, o_.v_dim, far_, alone_, share_sets, nullptr};
    }
    return run;
  }

  static std::size_t count_of(std::size_t first, std::size_t end) {
    return end - first < Run::rows ? end - first : Run::rows;
  }
  // KeyRows reads two runs with one stride. So both are scattered if the rows of one of them do not lie together.
  bool is_scattered(std::size_t key, std::size_t end) const {
    bool together = true;
    for (std::size_t i = 0, first = key / (2 * Run::rows) * (2 * Run::rows); i < 2 && first < end;
         ++i, first += Run::rows) {
      together = together && tile_.lie_together(first, count_of(first, end));
    }
    return !together;
  }
  // Makes a run of rows that do not lie together. A missing row is the row of zeros. Token 0 of a list is at `token0`;
  // address(key) is for pages.
  template <class Address>
  [[gnu::noinline]] Run scattered_run(const Run *run, std::size_t first, std::size_t end, const KV *memory,
                                      std::size_t dim, const KV *token0, std::ptrdiff_t stride,
                                      Address address) {
    if (may_copy && copies_) return {memory, static_cast<std::ptrdiff_t>(dim), dim, 0, false, false, nullptr};
    const KV **const rows = rows_ + (run - runs_) * static_cast<std::ptrdiff_t>(Run::rows);
    const std::size_t count = count_of(first, end);
    if (const std::int32_t *const list = tile_.list()) {
      for (std::size_t i = 0; i < count; ++i) {
        rows[i] = list[first + i] < 0 ? gathered_.zeros : token0 + stride * list[first + i];
      }
    } else {
      for (std::size_t i = 0; i < count; ++i) rows[i] = address(first + i);
    }
    for (std::size_t i = count; i < Run::rows; ++i) rows[i] = rows[count - 1];
    return {rows[0], stride, dim, 0, false, exceed(48), rows};
  }
  // Copies the rows of the next block that have `memory` to be copied to.
  template <class Rows>
  [[gnu::noinline]] void copy(const KV *memory, std::size_t first, std::size_t count, Rows rows) {
    for (std::size_t i = 0; i < count; i += Run::rows) {
      Run &run = next_[i / Run::rows];
      if (run.first == memory) run.first = rows(tile_, first + i, count_of(i, count));
    }
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  rapt::Gathered<KV> gathered_;
  std::uintptr_t far_;
  bool copies_, alone_;
  Run *next_ = nullptr;
  const Run *last_ = nullptr;
  Run runs_[most_runs];
  // The addresses of scattered rows. Prefetching may read one more than there are.
  const KV *rows_[most_runs * Run::rows + 1];
};

}  // namespace
