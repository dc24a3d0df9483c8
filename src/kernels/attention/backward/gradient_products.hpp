// Adds to BroadcastProducts the four matrix products that compute gradients. 16-bit elements are widened to
// f32 first: queries and output gradients once per tile, keys and values once per block.
#pragma once

#include <cstddef>
#include <type_traits>

#include "call/attention_workspace.hpp"
#include "call/element.hpp"
#include "contract/fused.hpp"
#include "kernels/attention/backward/outer_products.hpp"
#include "kernels/attention/broadcast_products.hpp"
#include "kernels/vector/inner.hpp"

namespace {

template <class E>
class GradientProducts : public BroadcastProducts<StoredBlock<E>> {
 public:
  using Base = BroadcastProducts<StoredBlock<E>>;
  using typename Base::A, typename Base::S, typename Base::batch;
  static constexpr std::size_t block = rapt::attention_block;

  // Returns the number of elements that queries and output gradients need.
  static std::size_t workspace_length(const rapt_attention_options &o) {
    return Base::workspace_length(o) + o.v_dim * tile_pitch;
  }

  GradientProducts(const AttentionTile &tile, const TileRows<A> &rows, A *workspace)
      : Base(tile, rows, workspace),
        dout_(workspace + Base::workspace_length(tile.options())),
        widened_(tile.options(), workspace) {
    // dk and dv evict keys and values from L2, so these are always prefetched. On AVX-512 that made 1024 keys
    // of 128 dimensions 2 % faster, a window of 512 in 16K tokens 1 to 4 %, and 512 keys 0 %.
    fetches_ = o_.kv_type == own;  // widen_block() has already read keys and values of 16 bits
  }

  // Loads queries and output gradients. Sets mean[r] to the dot product of row r's output and its gradient.
  // `out` is scratch for transposed outputs. Returns false if a query or output gradient is not finite.
  [[gnu::flatten]] bool load_rows(A *out, A *mean) {
    Base::load_queries();
    find_rows();
    const batch zero(A(0));
    batch all = zero;
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      transpose_rows(dout_row_ + r, o_.v_dim, dout_ + r, tile_pitch);
      rapt::with_element<A>(o_.out_type, [&](auto element) {
        using Out = typename decltype(element)::type;
        const Out *out_row[S::width];
        for (std::size_t i = 0; i < S::width; ++i)
          out_row[i] = tile_.template forward_out<Out>(rows_.of[r + i]);
        transpose_rows(out_row, o_.v_dim, out + r, tile_pitch);
      });
      batch sum = zero;
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        const batch dout = S::load(dout_ + d * tile_pitch + r);
        sum = S::fma(dout, S::load(out + d * tile_pitch + r), sum);
        all = S::fma(dout, zero, all);
      }
      S::store(mean + r, sum);
      for (std::size_t d = 0; d < o_.qk_dim; ++d) {
        all = S::fma(S::load(queries_ + d * tile_pitch + r), zero, all);
      }
    }
    return !S::any(S::unordered(all, all));
  }

  void find_block(std::size_t first, std::size_t keys, std::size_t left) {
    if constexpr (sizeof(A) == sizeof(float)) {
      if (o_.kv_type == RAPT_F16) return widen_block<rapt::F16>(first, keys);
      if (o_.kv_type == RAPT_BF16) return widen_block<rapt::BF16>(first, keys);
    }
    Base::find_block(first, keys, left);
  }

  bool keys_are_finite(std::size_t keys) const {
    const batch zero(A(0));
    batch all[2] = {zero, zero};
    for (std::size_t j = 0; j < keys; ++j) {
      const E *const row = place_.k[j];
      std::size_t d = 0;
      for (; o_.qk_dim - d >= 2 * S::width; d += 2 * S::width) {
        all[0] = S::fma(S::load(row + d), zero, all[0]);
        all[1] = S::fma(S::load(row + d + S::width), zero, all[1]);
      }
      for (; d < o_.qk_dim; d += S::width)
        all[0] = S::fma(S::load_first(row + d, o_.qk_dim - d), zero, all[0]);
    }
    return !S::any(S::unordered(all[0], all[1]));
  }

  // Computes the dot products of a segment's output gradients with its values. `largest` is scratch.
  RAPT_INNER void value_products(const Segment &segment, A *products, A *largest) const {
    by_vectors<A>(segment, [&](auto vectors) RAPT_INNER {
      tile_scores<A, vectors>(dout_ + segment.from, place_.v, 1, o_.v_dim, RowsToFetch<E>{place_.v, 0},
                              segment.begin, segment.end, products + segment.from, largest);
    });
  }

  // Adds the gradients of a segment's dot products times its keys to dq.
  RAPT_INNER void add_to_dq(const Segment &segment, const A *gradients, A *dq) const {
    by_vectors<A>(segment, [&](auto vectors) RAPT_INNER {
      tile_values<A, vectors>(gradients + segment.begin * tile_pitch + segment.from, place_.k + segment.begin,
                              segment.end - segment.begin, Before::kept, static_cast<const A *>(nullptr),
                              o_.qk_dim, dq + segment.from, Base::next_keys(segment));
    });
  }
  // Does the work of add_to_dq() for keys that may be NaN or infinite. A key does not change dq of a row in
  // which it has weight 0.
  [[gnu::noinline, gnu::flatten]] void add_to_dq_by_element(const Segment &segment, const A *weights,
                                                            const A *gradients, A *dq) const {
    for (std::size_t j = segment.begin; j < segment.end; ++j) {
      for (std::size_t r = segment.from; r < segment.to; ++r) {
        if (weights[j * tile_pitch + r] == 0) continue;
        for (std::size_t d = 0; d < o_.qk_dim; ++d) {
          A &sum = dq[d * tile_pitch + r];
          sum = fused(gradients[j * tile_pitch + r], rapt::widened(place_.k[j][d]), sum);
        }
      }
    }
  }

  // Adds weights * dout to dv and gradients * q to dk, over the rows [begin, end), for `depth` keys from j
  // on.
  template <std::size_t depth>
  void add_to_keys(std::size_t j, std::size_t begin, std::size_t end, const A *weights, const A *gradients,
                   A *const *dk, A *const *dv) const {
    outer_products<A, depth>(weights + j * tile_pitch, dout_row_, begin, end, o_.v_dim, dv + j);
    outer_products<A, depth>(gradients + j * tile_pitch, q_row_, begin, end, o_.qk_dim, dk + j);
  }
  // Does the work of add_to_keys() for queries and output gradients that may be NaN or infinite. A row does
  // not change dk and dv of a key for which it has weight 0.
  [[gnu::noinline, gnu::flatten]] void add_to_keys_by_element(std::size_t keys, const A *weights,
                                                              const A *gradients, A *const *dk,
                                                              A *const *dv) const {
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      for (std::size_t j = 0; j < keys; ++j) {
        const A w = weights[j * tile_pitch + r], g = gradients[j * tile_pitch + r];
        if (w == 0) continue;
        for (std::size_t d = 0; d < o_.v_dim; ++d) {
          dv[j][d] = fused(w, rapt::widened(dout_row_[r][d]), dv[j][d]);
        }
        for (std::size_t d = 0; d < o_.qk_dim; ++d)
          dk[j][d] = fused(g, rapt::widened(q_row_[r][d]), dk[j][d]);
      }
    }
  }

 private:
  static constexpr rapt_type own = sizeof(A) == sizeof(float) ? RAPT_F32 : RAPT_F64;

  // Returns `row` if its elements have type A. Otherwise widens it to `copy`, and returns `copy`.
  template <class Row>
  static const A *row_of_numbers(const Row *row, std::size_t dim, A *copy) {
    if constexpr (std::is_same_v<Row, A>) {
      return row;
    } else {
      widen(row, dim, copy);
      return copy;
    }
  }
  void find_rows() {
    rapt::with_element<A>(o_.q_type, [&](auto element) {
      using Q = typename decltype(element)::type;
      for (std::size_t r = 0; r < rows_.lanes; ++r) {
        q_row_[r] = row_of_numbers(tile_.template q<Q>(rows_.of[r]), o_.qk_dim, widened_.q + r * o_.qk_dim);
      }
    });
    rapt::with_element<A>(o_.out_type, [&](auto element) {
      using Out = typename decltype(element)::type;
      for (std::size_t r = 0; r < rows_.lanes; ++r) {
        dout_row_[r] =
            row_of_numbers(tile_.template dout<Out>(rows_.of[r]), o_.v_dim, widened_.dout + r * o_.v_dim);
      }
    });
  }
  template <class KV>
  [[gnu::noinline, gnu::flatten]] void widen_block(std::size_t first, std::size_t keys) {
    WidenedBlock<KV> block(o_, widened_.k);
    block.find(tile_, first, keys, 0);
    static_cast<BlockAddresses<A> &>(place_) = block;
  }

  using Base::tile_, Base::o_, Base::rows_, Base::queries_, Base::fetches_, Base::place_;
  A *dout_;  // transposed output gradients
  rapt::WidenedForGradients<A> widened_;
  const A *q_row_[rapt::attention_tile_rows], *dout_row_[rapt::attention_tile_rows];
};

}  // namespace
