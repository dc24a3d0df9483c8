// Multiplies a block of keys or values by 16 rows of queries or weights with AMX. Each 16-bit integer of a
// row is two 8-bit digits. The results are integer sums.
//
// AMX tiles 0 to 3 accumulate the products of two tiles of keys or values with two digits. Tiles 4 and 5 have
// keys or values, and tiles 6 and 7 have the digits. A product takes about 18 cycles, the time of one store
// or of two loads. So digits are loaded once for two or more tiles of keys or values. Accumulators are stored
// when the next products need their tiles.
//
// A patch is one block of keys and 16 rows. All products of a patch are issued at once. Interleaving them
// with vector operations does not help, because vector instructions have one multiplier instead of two while
// AMX is busy, and for some hundred cycles after.
//
//   2048 queries and keys                                            | 64 dimensions | 128
//   products between vector operations, sums converted to f32        | 2.80 ms       | 4.39 ms
//   the same, with three patches interleaved                         | 3.16          | 4.62
//   integer sums that start as bits of f32 and need no conversion    | 2.67          | 4.55
//   all products of a patch at once (this one)                       | 2.65          | 4.15
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa/amx/int8_operands.hpp"
#include "isa/amx/tiles.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Describes keys that AMX can load as tiles. A tile has 16 keys and 64 dimensions, and its rows are
// `row_bytes` apart. The tile of the next 16 keys is `pitch` bytes further. The tile of the next 64
// dimensions is `step` bytes further.
struct KeyBytes {
  const std::int8_t *first;
  std::size_t pitch, step, row_bytes;
};

// A tile of keys or values has this many sums: 16 x 16 sums of products with the high digits, then 16 x 16
// with the low digits.
inline constexpr std::size_t sums_of_tile = 2 * amx_rows * amx_rows;

class DigitProducts {
 public:
  // Stores the accumulators now. Without flush(), the next scores() or values() stores them.
  void flush() {
    if (!pending_) return;
    unroll<4>([&](auto i) RAPT_INNER { store<i>(pending_); });
    pending_ = nullptr;
  }

  // Multiplies a block's keys by 16 queries, over `steps` times 64 dimensions.
  [[gnu::noinline, gnu::flatten]] void scores(const KeyBytes &keys, const std::int8_t *queries,
                                              std::size_t steps, std::int32_t *to) {
    for (std::size_t i = 0; i < rapt::attention_block / amx_rows; i += 2, to += 2 * sums_of_tile) {
      const std::int8_t *key = keys.first + i * keys.pitch, *digits = queries;
      const auto step = [&](auto first) RAPT_INNER {
        load_digits(digits);
        multiply<first>(key, key + keys.pitch, keys.row_bytes);
        key += keys.step;
        digits += 2 * tile_bytes;
      };
      step(std::true_type{});
      for (std::size_t s = 1; s < steps; ++s) step(std::false_type{});
      pending_ = to;
    }
  }

  // Multiplies a block's weights by `tiles` tiles of values. If `tiles` is odd, `to` must have room for one
  // more tile.
  [[gnu::noinline, gnu::flatten]] void values(const std::int8_t *values, const std::int8_t *digits,
                                              std::size_t tiles, std::int32_t *to) {
    load_digits(digits);
    for (std::size_t i = 0; i < tiles; i += 2, to += 2 * sums_of_tile, values += 2 * tile_bytes) {
      multiply<true>(values, values + tile_bytes, amx_row_bytes);
      pending_ = to;
    }
  }

 private:
  RAPT_INNER static void load_digits(const std::int8_t *digits) {
    load_tile<6>(digits, amx_row_bytes);
    load_tile<7>(digits + tile_bytes, amx_row_bytes);
  }
  template <bool first>
  RAPT_INNER void multiply(const std::int8_t *a, const std::int8_t *b, std::size_t row_bytes) {
    load_tile<4>(a, row_bytes);
    load_tile<5>(b, row_bytes);
    unroll<2>([&](auto i) RAPT_INNER {
      unroll<2>([&](auto digit) RAPT_INNER {
        if constexpr (first) {
          if (pending_) store<2 * i + digit>(pending_);
          zero_tile<2 * i + digit>();
        }
      });
      multiply_signed_bytes<2 * i, 4 + i, 6>();
      multiply_unsigned_bytes<2 * i + 1, 4 + i, 7>();
    });
  }
  template <std::size_t i>
  RAPT_INNER static void store(std::int32_t *to) {
    store_tile<i>(to + i * (sums_of_tile / 2), amx_row_bytes);
  }

  std::int32_t *pending_ = nullptr;  // where to store the accumulators
};

}  // namespace
