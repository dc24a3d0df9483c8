// attention in bf16 arithmetic, whose partial results merge like those of f32 arithmetic.
#pragma once

#include <cstddef>

#include "kernels/attention/few_rows.hpp"
#include "kernels/attention/group_products.hpp"
#include "kernels/attention/group_row_products.hpp"
#include "kernels/attention/many_rows.hpp"
#include "kernels/attention/stages.hpp"

namespace {

struct TilesInBf16 {
  using A = float;

  template <class F>
  [[gnu::always_inline]] static void with(const AttentionTile &tile, TileRows<A> &rows, void *workspace,
                                          F f) {
    if (rows.rows <= FewRows<GroupRowProducts>::most) {
      FewRows<GroupRowProducts> values(tile, rows, static_cast<A *>(workspace));
      f(values);
    } else {
      ManyRows<GroupProducts> values(tile, rows, static_cast<A *>(workspace));
      f(values);
    }
  }
};

template <class E>
void attention_in_bf16(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                       void *workspace) {
  const auto stage = call->stage == rapt::AttentionStage::whole ? attention_whole<TilesInBf16>
                                                                : attention_partial<TilesInBf16>;
  stage(call, first, last, workspace);
}

}  // namespace
