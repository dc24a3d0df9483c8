// Divides a backward call into tasks: their heads, their shares of rows and keys, and the gradients that they
// clear first.
//
// dq of a row is summed in one chain over its keys. dk and dv of a key, and its column of dbias, are summed
// in one chain over the rows. So a task has two shares: rows, whose dq it writes, and keys, whose other
// gradients it writes. A task goes through the tiles in order, and computes the blocks that its rows or its
// keys need. Consecutive tasks of one run join their shares, so that scores and products of values are
// computed only once for each pair of a row and a key.
//
//   runs per head                             | 1   | 2   | 4   | 8    | many
//   products of all rows with all keys        | 5   | 6   | 6.5 | 6.75 | 7
//   8 key/value heads, 1024 tokens, AVX-512   | 158 | 186 |     | 218  |      ms
//
// So one run of all tasks costs no more than a head without shares. Under causality, rows of later shares see
// more keys, and keys of later shares are seen by fewer rows. The longest of 8 tasks then takes 1.13 times
// the mean. The alternatives have drawbacks:
//
//   separate tasks for rows and for keys           7 products always, and unequal tasks under causality
//   dq continued by the task of the next keys      tasks would wait for each other
//   dq summed over shares of the keys              results would have other bits
//   weights and gradients of scores in memory      threads would share a workspace of rows times keys
#pragma once

#include <cstddef>

#include "call/attention_call.hpp"
#include "call/attention_tile.hpp"
#include "call/attention_workspace.hpp"
#include "call/element.hpp"

namespace {

// Says what a run of tasks computes for a tile: dq of its queries, its terms in the sums of some keys, and
// its terms of dsinks. keys.first is a multiple of a block.
struct TileShare {
  bool dq;
  AttentionTile::Range keys;
  bool sinks;
};

// Finds where dk and dv of a head are summed: in the gradients, or in the workspace if the gradients have 16
// bits.
template <class A>
class KeySums {
 public:
  KeySums(const AttentionTile &head, A *workspace) : head_(head), sums_(head.options(), workspace) {
    constexpr rapt_type own = sizeof(A) == sizeof(float) ? RAPT_F32 : RAPT_F64;
    in_place_ = head.dkv_type() == own;
  }
  A *dk(std::size_t key) const {
    return in_place_ ? head_.dk<A>(key) : sums_.dk + key * head_.options().qk_dim;
  }
  A *dv(std::size_t key) const {
    return in_place_ ? head_.dv<A>(key) : sums_.dv + key * head_.options().v_dim;
  }

  // Rounds the sums of a key to its gradients, if these have 16 bits. round(x, y, n) rounds n sums x to
  // elements y.
  template <class Round>
  void round(std::size_t key, Round round) const {
    if (in_place_) return;
    rapt::with_element<A>(head_.dkv_type(), [&](auto element) {
      using E = typename decltype(element)::type;
      round(dk(key), head_.dk<E>(key), head_.options().qk_dim);
      round(dv(key), head_.dv<E>(key), head_.options().v_dim);
    });
  }

 private:
  const AttentionTile &head_;
  rapt::WidenedForGradients<A> sums_;
  bool in_place_;
};

// Holds consecutive tasks with the same heads: one key/value head of one sequence, or all heads and sequences
// that add to the same elements of dbias.
class BackwardTasks {
 public:
  using Range = AttentionTile::Range;

  // Selects the tasks of `run` from `first` on that have the same heads as task `first`.
  BackwardTasks(const rapt::AttentionCall &call, Range run, std::size_t first)
      : call_(call), shares_(shares(call)), run_has_all_(run.end - run.first == count(call)) {
    const rapt_attention_options &o = call.options;
    const bool all_batches = joins_batches(call), all_heads = joins_heads(call);
    const std::size_t heads = all_heads ? 1 : o.kv_heads, set = first / shares_;
    first_batch_ = all_batches ? 0 : set / heads;
    batches_ = all_batches ? o.batch : 1;
    first_head_ = all_heads ? 0 : set % heads;
    heads_ = all_heads ? o.kv_heads : 1;
    first_share_ = first % shares_;
    end_share_ = run.end - set * shares_ < shares_ ? run.end - set * shares_ : shares_;
    end_ = set * shares_ + end_share_;
    // The keys are divided once for all sequences, so that a task has the same columns of dbias in each. Sequences that
    // begin at different columns are not divided (shares()).
    std::size_t longest = 0;
    for_each_head(
        [&](const AttentionTile &head) { longest = head.kv_len() > longest ? head.kv_len() : longest; });
    const Range blocks = share_of(blocks_of(longest));
    keys_ = {blocks.first * rapt::attention_block,
             end_share_ == shares_ ? o.kv_len : blocks.end * rapt::attention_block};
  }
  static std::size_t count(const rapt::AttentionCall &call) { return sets(call) * shares(call); }
  // Returns the first task after these tasks.
  std::size_t end() const { return end_; }

  // Calls take(tile, its share) for every tile with rows, in the order of the sums. Gradients that several
  // tiles add to are cleared first. At the end, finish(x, n) is called on them, except on dbias. If dk and dv
  // have another type than their sums, round(x, y, n) follows. Each tile writes its own dq.
  template <class A, class Take, class Finish, class Round>
  void run(A *workspace, Take take, Finish finish, Round round) const {
    clear_dbias_and_dsinks<A>();
    for_each_head([&](const AttentionTile &head) {
      const KeySums<A> sums(head, workspace);
      const Range of_dq = share_of(tiles_of(head.all_rows())), written = keys_below(head.all_keys()),
                  of_keys = keys_below(head.kv_len());
      const std::size_t end = written.end;
      std::size_t cleared = written.first, finished = written.first;
      if (first_share_ == 0) clear_padding<A>(head);
      const auto clear_to = [&](std::size_t key) {
        for (; cleared < key && cleared < end; ++cleared) for_dk_and_dv(head, sums, cleared, set_to_zero<A>);
      };
      const auto finish_to = [&](std::size_t key) {
        for (; finished < key && finished < end; ++finished) {
          for_dk_and_dv(head, sums, finished, finish);
          sums.round(finished, round);
        }
      };
      // With windows, a tile sees only a few keys. Their dk and dv are cleared just before they are summed,
      // and finished soon after, so they are still in a cache.
      for_each_tile_of(head, [&](const AttentionTile &tile, std::size_t index) {
        const Range seen = keys_around(tile);
        clear_to(seen.end);
        finish_to(seen.first);
        const bool dq = index >= of_dq.first && index < of_dq.end;
        const bool sees_keys = seen.first < of_keys.end && of_keys.first < seen.end;
        if (dq || sums_sinks() || sees_keys) take(tile, TileShare{dq, of_keys, sums_sinks()});
      });
      clear_to(end);
      finish_to(end);
    });
    if (sums_sinks() && !run_has_all_) visit_sinks_of_other_sequences(take);
    for_each_dsinks<A>(finish);
  }

 private:
  // There are at least this many tasks, unless a task would then have less than a tile of rows or a block of
  // keys.
  static constexpr std::size_t enough_tasks = 64;

  static std::size_t sets(const rapt::AttentionCall &call) {
    return (joins_batches(call) ? 1 : call.options.batch) * (joins_heads(call) ? 1 : call.options.kv_heads);
  }
  static bool joins_batches(const rapt::AttentionCall &call) {
    const rapt_attention_options &o = call.options;
    return call.gradients->dbias && o.batch > 1 && o.bias_strides.batch == 0;
  }
  static bool joins_heads(const rapt::AttentionCall &call) {
    const rapt_attention_options &o = call.options;
    return call.gradients->dbias && o.kv_heads > 1 && o.bias_strides.head == 0;
  }
  static std::size_t shares(const rapt::AttentionCall &call) {
    if (call.options.kv_starts && joins_batches(call)) return 1;
    const std::size_t blocks = blocks_of(call.options.kv_len), tiles = call.tiles_per_sequence();
    std::size_t most = (enough_tasks + sets(call) - 1) / sets(call);
    if (most > blocks) most = blocks;
    if (most > tiles) most = tiles;
    return most > 0 ? most : 1;
  }
  static std::size_t blocks_of(std::size_t keys) {
    return (keys + rapt::attention_block - 1) / rapt::attention_block;
  }
  static std::size_t tiles_of(std::size_t rows) {
    return (rows + rapt::attention_tile_rows - 1) / rapt::attention_tile_rows;
  }

  // Returns the part of [0, n) that belongs to these tasks.
  Range share_of(std::size_t n) const { return {n * first_share_ / shares_, n * end_share_ / shares_}; }
  // Returns the keys, among the first `count` of a sequence, whose gradients belong to these tasks.
  Range keys_below(std::size_t count) const {
    return {keys_.first < count ? keys_.first : count, keys_.end < count ? keys_.end : count};
  }
  // Returns the keys that the tile's rows may see. Rows of later tiles see no earlier key: the first and the
  // last key that a row sees grow with its token. The range of a row that sees no key is {0, 0}.
  static Range keys_around(const AttentionTile &tile) {
    const Range first = tile.range(tile.row(0)), last = tile.range(tile.row(tile.rows() - 1));
    return {first.first, last.end == 0 ? tile.kv_len() : last.end};
  }

  template <class A>
  static void set_to_zero(A *x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) x[i] = A{};
  }
  // Clears the gradients of the padding before the first key. No row adds to them, so that they have no sums.
  template <class A>
  static void clear_padding(const AttentionTile &head) {
    rapt::with_element<A>(head.dkv_type(), [&](auto element) {
      using E = typename decltype(element)::type;
      const std::size_t keys = head.padding();
      for (std::size_t key = 0 - keys; key != 0; ++key) {  // keys count from the first one
        set_to_zero(head.dk<E>(key), head.options().qk_dim);
        set_to_zero(head.dv<E>(key), head.options().v_dim);
      }
    });
  }
  template <class A, class F>
  static void for_dk_and_dv(const AttentionTile &head, const KeySums<A> &sums, std::size_t key, F f) {
    f(sums.dk(key), head.options().qk_dim);
    f(sums.dv(key), head.options().v_dim);
  }
  template <class A>
  void clear_dbias_and_dsinks() const {
    if (first_batch_ == 0) for_each_dsinks<A>(set_to_zero<A>);
    if (!call_.gradients->dbias) return;
    for_each_head([&](const AttentionTile &head) {
      const Range columns = keys_below(call_.options.kv_len - head.padding());
      AttentionTile::Row row{0, head.kv_head() * head.q_heads_per_kv_head()};
      for (std::size_t h = 0; h < head.q_heads_per_kv_head(); ++h, ++row.q_head) {
        for (row.token = 0; row.token < call_.options.q_len; ++row.token) {
          A *const first_key = head.dbias<A>(row);
          if (first_share_ == 0) set_to_zero(first_key - head.padding(), head.padding());
          set_to_zero(first_key + columns.first, columns.end - columns.first);
        }
      }
    });
  }

  // dsinks of a head is a sum over all sequences. The first share of the first sequence writes dsinks, and
  // adds the rows of the other shares too. Only a run of all tasks can sum dsinks while it computes the rest.
  bool sums_sinks() const {
    return call_.gradients->dsinks && (run_has_all_ || (first_batch_ == 0 && first_share_ == 0));
  }
  template <class A, class F>
  void for_each_dsinks(F f) const {
    const std::size_t heads = call_.q_heads_per_kv_head();
    if (sums_sinks()) f(static_cast<A *>(call_.gradients->dsinks) + first_head_ * heads, heads_ * heads);
  }

  template <class Take>
  void visit_sinks_of_other_sequences(Take take) const {
    for_each_head_of(first_batch_ + batches_, call_.options.batch, [&](const AttentionTile &head) {
      for_each_tile_of(head, [&](const AttentionTile &tile, std::size_t) {
        take(tile, TileShare{false, {0, 0}, true});
      });
    });
  }

  // Calls f(first tile) for every head, in order.
  template <class F>
  void for_each_head(F f) const {
    for_each_head_of(first_batch_, first_batch_ + batches_, f);
  }
  template <class F>
  void for_each_head_of(std::size_t first_batch, std::size_t end_batch, F f) const {
    for (std::size_t b = first_batch; b < end_batch; ++b) {
      for (std::size_t h = first_head_; h < first_head_ + heads_; ++h) {
        f(AttentionTile(call_, (b * call_.options.kv_heads + h) * call_.tile_numbers_per_sequence()));
      }
    }
  }
  // Calls f(tile, its number) for every tile with rows of a head, in order.
  template <class F>
  void for_each_tile_of(const AttentionTile &head, F f) const {
    for (std::size_t t = 0; t < tiles_of(head.all_rows()); ++t) f(AttentionTile(call_, head.index() + t), t);
  }

  const rapt::AttentionCall &call_;
  std::size_t shares_;
  bool run_has_all_;
  std::size_t first_batch_, batches_, first_head_, heads_;
  std::size_t first_share_, end_share_, end_;
  Range keys_;  // keys of each sequence whose gradients these tasks write
};

}  // namespace
