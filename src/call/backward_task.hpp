// A task of a backward call: its heads, its tiles, and the gradients that it clears first.
#pragma once

#include <cstddef>

#include "call/attention_call.hpp"
#include "call/attention_tile.hpp"

namespace {

// The sequences and key/value heads of a task of a backward call. Tasks share no gradient: heads or sequences
// that add to one element of dbias or dsinks are in one task.
class BackwardTask {
 public:
  BackwardTask(const rapt::AttentionCall &call, std::size_t index) : call_(call) {
    const rapt_attention_options &o = call.options;
    const bool all_batches = joins_batches(call), all_heads = joins_heads(call);
    const std::size_t heads = all_heads ? 1 : o.kv_heads;
    first_batch_ = all_batches ? 0 : index / heads;
    batches_ = all_batches ? o.batch : 1;
    first_head_ = all_heads ? 0 : index % heads;
    heads_ = all_heads ? o.kv_heads : 1;
  }
  static std::size_t count(const rapt::AttentionCall &call) {
    return (joins_batches(call) ? 1 : call.options.batch) * (joins_heads(call) ? 1 : call.options.kv_heads);
  }

  // f(tile) for the first tile of every head, in order.
  template <class F>
  void for_each_head(F f) const {
    for_each_index([&](std::size_t index) { f(AttentionTile(call_, index)); });
  }
  // f(tile) for every tile with rows, in order.
  template <class F>
  void for_each_tile(F f) const {
    for_each_index([&](std::size_t index) {
      for (std::size_t t = 0; t < call_.tile_numbers_per_sequence(); ++t) {
        const AttentionTile tile(call_, index + t);
        if (tile.rows() > 0) f(tile);
      }
    });
  }

  // f(x, n) for the gradients that sums of the task have been added to, dbias excepted.
  template <class A, class F>
  void for_each_summed_gradient(F f) const {
    for_each_head([&](const AttentionTile &tile) {
      for (std::size_t j = 0; j < tile.kv_len(); ++j) {
        f(tile.dk<A>(j), tile.options().qk_dim);
        f(tile.dv<A>(j), tile.options().v_dim);
      }
      if (A *dsinks = static_cast<A *>(tile.gradients().dsinks)) {
        const std::size_t heads = tile.q_heads_per_kv_head();
        f(dsinks + tile.kv_head() * heads, heads);
      }
    });
  }

 private:
  template <class F>
  void for_each_index(F f) const {
    for (std::size_t b = first_batch_; b < first_batch_ + batches_; ++b) {
      for (std::size_t h = first_head_; h < first_head_ + heads_; ++h) {
        f((b * call_.options.kv_heads + h) * call_.tile_numbers_per_sequence());
      }
    }
  }
  static bool joins_batches(const rapt::AttentionCall &call) {
    const rapt_attention_options &o = call.options;
    return call.gradients->dsinks || (call.gradients->dbias && o.batch > 1 && o.bias_strides.batch == 0);
  }
  static bool joins_heads(const rapt::AttentionCall &call) {
    const rapt_attention_options &o = call.options;
    return call.gradients->dbias && o.kv_heads > 1 && o.bias_strides.head == 0;
  }

  const rapt::AttentionCall &call_;
  std::size_t first_batch_, batches_, first_head_, heads_;
};

template <class A>
void clear_gradient(A *x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] = 0;
}

// The gradients of a task that sums add to: dk, dv, dbias and dsinks. Each tile writes its own dq.
template <class A>
void clear_gradients(const BackwardTask &task) {
  const auto of_head = [](const AttentionTile &tile) {
    const rapt_attention_options &o = tile.options();
    const rapt_attention_gradients &g = tile.gradients();
    for (std::size_t j = 0; j < tile.all_keys(); ++j) {
      clear_gradient(tile.dk<A>(j), o.qk_dim);
      clear_gradient(tile.dv<A>(j), o.v_dim);
    }
    AttentionTile::Row row{0, tile.kv_head() * tile.q_heads_per_kv_head()};
    for (std::size_t h = 0; h < tile.q_heads_per_kv_head(); ++h, ++row.q_head) {
      if (g.dsinks) static_cast<A *>(g.dsinks)[row.q_head] = 0;
      for (row.token = 0; g.dbias && row.token < o.q_len; ++row.token) {
        clear_gradient(tile.dbias<A>(row), o.kv_len);
      }
    }
  };
  task.for_each_head(of_head);
}

}  // namespace
