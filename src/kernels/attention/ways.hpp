// Chooses how a tile of attention is computed. No other file makes this choice.
//
//   way          | lanes of a vector                       | tiles
//   KeysInLanes  | keys for scores, dimensions for values  | few rows, as in decoding; all of int8
//   RowsInLanes  | rows                                    | many rows, as in prompts
//   TileBatch    | AMX: tiles of a head share packed keys  | bf16 arithmetic and int8 from a few rows on
//
// On AMX, goes_in_batch_bf16() or goes_in_batch_int8() decides first. Tiles that do not go in a batch take
// one of the other two ways. Each way is a function with its name in the library's symbol table, so that a
// test can count the tiles of each way (tests/validate/coverage.py).
#pragma once

#include <cstddef>

#include "call/attention_tile.hpp"
#include "contract/attention.hpp"
#include "kernels/attention/keys_in_lanes.hpp"
#include "kernels/attention/rows_in_lanes.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Chooses the way of tiles with one type of keys and values. Tiles of up to most_rows rows have keys in the
// lanes. RowProducts is void if that is true for all tiles.
template <class KeyProducts, std::size_t most_rows, class RowProducts>
struct Ways {
  using A = typename KeyProducts::A;
  using KV = typename KeyProducts::KV;

  // Calls compute(way) with the way for this tile.
  template <class Compute>
  RAPT_INNER static void choose(const AttentionTile &tile, const TileRows<A> &rows, void *workspace,
                                Compute compute) {
    if constexpr (most_rows < rapt::attention_tile_rows) {
      if (rows.rows > most_rows) {
        RowsInLanes<RowProducts> way(tile, rows, static_cast<A *>(workspace));
        return compute(way);
      }
    }
    KeysInLanes<KeyProducts, most_rows> way(tile, rows, static_cast<A *>(workspace));
    compute(way);
  }
};

// FloatWays is for f32, f64, and f16 and bf16 in f32. With rows in the lanes, a partial vector of rows takes
// as long as a whole one. Times for 512 keys of 128 dimensions in L2 on AVX-512, us:
//
//   rows             | 8    | 9    | 12   | 16   | 17   | 20   | 24   | 32
//   keys in lanes    | 22.1 | 23.9 | 29.6 | 40.0 | 45.4 | 51.1 | 60.0 |
//   rows in lanes    |      | 39.7 | 39.7 | 39.7 | 60.7 | 60.7 | 60.7 | 60.8
template <class KeyProducts, class RowProducts>
using FloatWays = Ways<KeyProducts, simd<typename KeyProducts::A>::keys_in_lanes_rows, RowProducts>;

// In bf16 arithmetic, tiles of up to 8 rows have keys in the lanes.
template <class KeyProducts, class RowProducts>
using Bf16Ways = Ways<KeyProducts, 8, RowProducts>;

// Int8 uses keys in lanes for any number of rows. Each group of rows widens the keys again.
template <class KeyProducts>
using Int8Ways = Ways<KeyProducts, rapt::attention_tile_rows, void>;

// Returns whether AMX computes a tile in bf16 arithmetic. AMX's queries are bf16, so they can include a scale
// only if it is a sign that all rows share. With one or two rows over 4096 keys of 128 dimensions,
// KeysInLanes takes 77 us and AMX 125, because AMX packs the values.
inline bool goes_in_batch_bf16(const TileRows<float> &rows) {
  if (rows.rows <= 2) return false;
  for (std::size_t r = 0; r < rows.lanes; ++r) {
    if (rows.sign[r] != rows.sign[0] || (rows.sign[r] != 1 && rows.sign[r] != -1)) return false;
  }
  return true;
}

// Returns whether AMX computes a tile over int8. Times for 4096 keys, us:
//
//   rows                           | 4    | 6    | 8     | 16    | 32
//   64 dimensions: keys in lanes   | 37.5 | 57.7 | 70.0  | 135.2 | 277.4
//   AMX                            | 56.4 | 56.5 | 56.3  | 56.5  | 101.1
//   128 dimensions: keys in lanes  | 55.4 | 87.1 | 108.4 | 206.1 | 410.5
//   AMX                            | 91.7 | 91.4 | 91.2  | 91.3  | 158.4
inline bool goes_in_batch_int8(const TileRows<float> &rows) { return rows.rows > 6; }

}  // namespace
