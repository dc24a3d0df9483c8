// Multiplies 16-bit keys and values for RowsInLanes. A block is widened once for all rows of the tile, and
// then multiplied like f32.
#pragma once

#include <cstddef>

#include "call/attention_workspace.hpp"
#include "kernels/attention/broadcast_products.hpp"

namespace {

template <Half KV>
class WideningProducts : public BroadcastProducts<float> {
 public:
  using Base = BroadcastProducts<float>;

  static std::size_t workspace_length(const rapt_attention_options &o) {
    return Base::workspace_length(o) + rapt::widened_block_length(o.qk_dim, o.v_dim);
  }

  WideningProducts(const AttentionTile &tile, const TileRows<float> &rows, float *workspace)
      : Base(tile, rows, workspace),
        keys_(workspace + Base::workspace_length(o_)),
        values_(keys_ + rapt::widened_rows_length(o_.qk_dim)) {
    fetches_ = false;  // find_block() has already read the keys and values
  }

  void find_block(std::size_t first, std::size_t keys, std::size_t left) {
    narrow_.find(tile_, first, keys, left);
    addresses_.k_step = narrow_.k_step;
    if (o_.packed_keys) {
      widen_row(narrow_.k[0], rapt::packed_dim_stride * o_.qk_dim, keys_);
    }
    for (std::size_t j = 0; j < keys; ++j) {
      float *const key = o_.packed_keys ? keys_ + j : keys_ + j * o_.qk_dim, *const value =
                                                                                 values_ + j * o_.v_dim;
      if (!o_.packed_keys) widen_row(narrow_.k[j], o_.qk_dim, key);
      widen_row(narrow_.v[j], o_.v_dim, value);
      addresses_.k[j] = key;
      addresses_.v[j] = value;
    }
  }

 private:
  float *keys_, *values_;
  BlockAddresses<KV> narrow_;
};

}  // namespace
