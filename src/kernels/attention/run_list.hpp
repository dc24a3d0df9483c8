// Lists a chunk's keys and values in the order in which tiles of few rows read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "call/attention_tile.hpp"
#include "kernels/attention/lines_ahead.hpp"
#include "machine/questions.hpp"

namespace {

// Lists runs of 16 rows: the keys of each block, followed by the values of the block before.
template <class KV>
class RunList {
 public:
  using Run = RowRun<KV>;
  static constexpr std::size_t block = rapt::attention_block;

  explicit RunList(const AttentionTile &tile)
      : tile_(tile),
        o_(tile.options()),
        far_(exceed(16) && rapt_fetches_far_ahead() ? 65536 : 0),
        alone_(has_vectors_of_runs && !o_.packed_keys && exceed(48) && rapt_reads_in_order()) {}

  // Lists the runs of the chunk [from, chunk_end). Keys end at `end`.
  void begin_chunk(std::size_t from, std::size_t chunk_end, std::size_t end) {
    Run *run = runs_;
    std::size_t k = from;
    run = add_keys(run, k, end);
    for (k += block; k < chunk_end; k += block) {
      run = add_keys(run, k, end);
      run = add_values(run, k - block, end);
    }
    run = add_values(run, k - block, end);
    if (chunk_end < end) {
      run = add_keys(run, chunk_end, end);
      run = add_keys(run, chunk_end + block < end ? chunk_end + block : chunk_end, end);
    }
    last_ = run - 1;
    next_ = runs_;
  }

  // Returns the runs of the next block of keys or values.
  const Run *next_block() {
    const Run *const run = next_;
    next_ += runs_per_block;
    return run;
  }
  const Run *last() const { return last_; }

 private:
  static constexpr bool has_vectors_of_runs = std::is_same_v<KV, float> && simd<float>::width == Run::rows;

  // Returns whether the keys and values of all heads are larger than so many MB, as a cache has.
  bool exceed(std::size_t mb) const {
    const std::size_t tokens = tile_.kv_len() * o_.kv_heads * o_.batch;
    return tokens * (o_.qk_dim + o_.v_dim) * sizeof(KV) > mb << 20;
  }
  Run *add_keys(Run *run, std::size_t first, std::size_t end) const {
    const std::ptrdiff_t stride =
        o_.packed_keys ? static_cast<std::ptrdiff_t>(o_.qk_dim) : o_.k_strides.token;
    for (std::size_t i = 0; i < block; i += Run::rows) {
      const std::size_t at = first + i < end ? first + i : end - 1;
      // Packed keys have another order, but occupy the same cache lines.
      const KV *const key = o_.packed_keys ? tile_.k<KV>(first) + i * o_.qk_dim : tile_.k<KV>(at);
      *run++ = {key, stride, o_.qk_dim, far_, alone_};
    }
    return run;
  }
  Run *add_values(Run *run, std::size_t first, std::size_t end) const {
    for (std::size_t i = 0; i < block; i += Run::rows) {
      *run++ = {tile_.v<KV>(first + i < end ? first + i : end - 1), o_.v_strides.token, o_.v_dim, far_,
                alone_};
    }
    return run;
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  std::uintptr_t far_;
  bool alone_;
  const Run *next_ = nullptr, *last_ = nullptr;
  Run runs_[2 * runs_per_block * (rapt::attention_chunk / block + 1)];
};

}  // namespace
