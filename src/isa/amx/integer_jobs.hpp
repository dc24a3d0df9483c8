// The products of a block and 16 rows by AMX, a tile of keys or dimensions at a time: jobs between the vector
// operations on another block.
//
// AMX tiles 0 and 1 accumulate the products with the two digits, 2 has keys or values, 3 and 4 the digits. A
// job's accumulators are stored by the next job: stored at once they would wait for their last product.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa/amx/integer_operands.hpp"
#include "isa/amx/tiles.hpp"

namespace {

// Keys as AMX tiles, in bytes: 16 keys are `pitch` after the 16 before them, 64 dimensions `step`.
struct KeyBytes {
  const std::int8_t *first;
  std::size_t pitch, step, row_bytes;
};

// Sums of products: 16 rows of a tile with the high digits, and then with the low ones.
inline constexpr std::size_t sums_of_tile = 2 * amx_rows * amx_rows;

class IntegerJobs {
 public:
  IntegerJobs(const QuerySegments &segments, std::size_t v_tiles, std::size_t v_group)
      : segments_(segments), v_tiles_(v_tiles), v_group_(v_group) {}

  // The products of weights and values, then those of queries and keys; null where there are none.
  void plan(const std::int8_t *digits, const std::int8_t *values, std::int32_t *value_sums,
            const std::int8_t *queries, KeyBytes keys, std::int32_t *score_sums) {
    digits_ = digits;
    values_ = values;
    queries_ = queries;
    keys_ = keys;
    value_sums_ = value_sums;
    score_sums_ = score_sums;
    done_ = progress_ = 0;
    of_values_ = digits ? v_tiles_ : 0;
    count_ = of_values_ + (queries ? 4 * segments_.count : 0);
  }
  // Does the share of the jobs that comes with `parts` of all 80 parts of the vector operations.
  static constexpr std::size_t all_parts = 80;
  [[gnu::always_inline]] void beside(std::size_t parts) {
    progress_ += parts * count_;
    while (all_parts * done_ < progress_ && done_ < count_) one();
  }
  void finish() {
    while (done_ < count_) one();
    store();
  }

 private:
  [[gnu::always_inline]] void one() {
    store();
    zero_tile<0>();
    zero_tile<1>();
    if (done_ < of_values_) {
      const std::int8_t *const digits = digits_ + done_ * amx_rows / v_group_ * (2 * tile_bytes);
      load_tile<2>(values_ + done_ * tile_bytes, amx_row_bytes);
      multiply(digits);
      pending_ = value_sums_ + done_ * sums_of_tile;
    } else {
      const std::size_t i = done_ - of_values_;
      const QuerySegment &segment = segments_.at[i / 4];
      const std::int8_t *digits = queries_ + segment.tile * tile_bytes;
      const std::int8_t *keys = keys_.first + i % 4 * keys_.pitch + segment.step * keys_.step;
      for (std::size_t s = 0; s < segment.steps; ++s, digits += 2 * tile_bytes, keys += keys_.step) {
        load_tile<2>(keys, keys_.row_bytes);
        multiply(digits);
      }
      pending_ = score_sums_ + i * sums_of_tile;
    }
    ++done_;
  }
  [[gnu::always_inline]] static void multiply(const std::int8_t *digits) {
    load_tile<3>(digits, amx_row_bytes);
    load_tile<4>(digits + tile_bytes, amx_row_bytes);
    multiply_signed_bytes<0, 2, 3>();
    multiply_unsigned_bytes<1, 2, 4>();
  }
  [[gnu::always_inline]] void store() {
    if (!pending_) return;
    store_tile<0>(pending_, amx_row_bytes);
    store_tile<1>(pending_ + sums_of_tile / 2, amx_row_bytes);
    pending_ = nullptr;
  }

  const QuerySegments &segments_;
  std::size_t v_tiles_, v_group_;
  const std::int8_t *digits_ = nullptr, *values_ = nullptr, *queries_ = nullptr;
  KeyBytes keys_{};
  std::int32_t *value_sums_ = nullptr, *score_sums_ = nullptr, *pending_ = nullptr;
  std::size_t done_ = 0, count_ = 0, of_values_ = 0, progress_ = 0;
};

}  // namespace
