// What gradients that are added up begin with.
#pragma once

#include <cstddef>

#include "call/attention_call.hpp"

namespace {

template <class T>
void fill_gradient(T *x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] = 0;
}

template <class T>
void begin_gradients(const BackwardTask &task) {
  const auto of_head = [](const AttentionTile &tile) {
    const rapt_attention_options &o = tile.options();
    const rapt_attention_gradients &g = tile.gradients();
    for (std::size_t j = 0; j < tile.all_keys(); ++j) {
      fill_gradient(tile.dk<T>(j), o.qk_dim);
      fill_gradient(tile.dv<T>(j), o.v_dim);
    }
    AttentionTile::Row row{0, tile.kv_head() * tile.group()};
    for (std::size_t h = 0; h < tile.group(); ++h, ++row.q_head) {
      if (g.dsinks) static_cast<T *>(g.dsinks)[row.q_head] = 0;
      for (row.token = 0; g.dbias && row.token < o.q_len; ++row.token) {
        fill_gradient(tile.dbias<T>(row), o.kv_len);
      }
    }
  };
  task.for_each_head(of_head);
}

}  // namespace
