// Finds keys and values that are dequantized, block by block, just before products read them: blocks of files, rows of
// 4 bits, and floats that go with keys or values of another type. What is multiplied then is f32, so that results have
// the bits of a call with the dequantized numbers.
//
// Keys become packed ones, values rows. A block of 64 rows stays in L1 or L2 until it has been multiplied. Rows of the
// next block are prefetched meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/attention_tile.hpp"
#include "call/attention_workspace.hpp"
#include "call/element.hpp"
#include "call/packed_keys.hpp"
#include "contract/cache_rows.hpp"
#include "kernels/attention/block.hpp"
#include "kernels/attention/dequantized_keys.hpp"
#include "kernels/attention/lines_ahead.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/transposed.hpp"

namespace {

// Finds the addresses of rows. Missing keys get that of token 0, which exists.
template <class T, class Address>
void find_rows(const AttentionTile &tile, std::size_t first, std::size_t count, std::ptrdiff_t stride,
               const T *token0, Address address, const T **row) {
  if (const std::int32_t *const list = tile.list()) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t token = list[first + i];
      row[i] = token < 0 ? token0 : token0 + stride * token;
    }
    return;
  }
  const std::size_t unit = tile.is_scattered() ? 1 : rapt::attention_page_unit;
  for (std::size_t i = 0; i < count; i += unit) {
    const T *row_at = address(first + i);
    for (std::size_t j = i; j < count && j < i + unit; ++j, row_at += stride) row[j] = row_at;
  }
}
// Finds those of a block. Its last row stands for those after it.
template <class T, class Address>
void find_rows_of_block(const AttentionTile &tile, std::size_t first, std::size_t count,
                        std::ptrdiff_t stride, const T *token0, Address address, const T **row) {
  find_rows(tile, first, count, stride, token0, address, row);
  for (std::size_t i = count; i < rapt::attention_block; ++i) row[i] = row[count - 1];
}

// The addresses of a block's scales, where they lie apart.
template <bool are_apart>
struct ScalesOfBlock {
  static ScalesApart from(std::size_t) { return {}; }
};
template <>
struct ScalesOfBlock<true> {
  const float *at[rapt::attention_block];
  std::size_t blocks;

  template <class Address>
  void find(const AttentionTile &tile, std::size_t first, std::size_t count, std::ptrdiff_t stride,
            const float *token0, Address address, std::size_t group) {
    find_rows_of_block(tile, first, count, stride, token0, address, at);
    blocks = group / rapt::I4Row::inputs;
  }
  ScalesApart from(std::size_t i) const { return {at + i, blocks}; }
};

// Dequantizes up to a block of keys or values.
template <class Codes>
class Dequantizer {
 public:
  static constexpr std::size_t block = rapt::attention_block;

  explicit Dequantizer(const AttentionTile &tile) : tile_(tile), o_(tile.options()) {}

  // Writes the keys [first, first + count) to a block of packed keys. Vectors after the last key are zeros.
  void keys(std::size_t first, std::size_t count, float *to) const {
    const Rows rows(
        tile_, first, count, o_.k_strides.token, tile_.k_of_token<std::uint8_t>(0),
        [&](std::size_t key) { return tile_.k<std::uint8_t>(key); },
        rapt::row_length(o_.kv_type, o_.qk_dim) * rapt::size_of(o_.kv_type));
    const bool has_blocks = rapt::with_cache_blocks(o_.kv_type, [&]<class File>(File) {
      const auto scales = scales_of<File>(
          first, count, tile_.k_scale_strides().token, tile_.k_scales_of_token(0),
          [&](std::size_t key) { return tile_.k_scales(key); }, o_.qk_dim);
      for (std::size_t i = 0; i < count; i += S::width)
        pack_numbers<Codes, File>(rows.at + i, scales.from(i), o_.qk_dim, to + i, rows.fetch_from(i));
    });
    if (!has_blocks) {
      rapt::with_element<float>(
          o_.kv_type, [&](auto element) { pack_floats<typename decltype(element)::type>(rows, count, to); });
    }
    for (std::size_t i = (count + S::width - 1) / S::width * S::width; i < block; i += S::width) {
      for (std::size_t d = 0; d < o_.qk_dim; ++d) S::store(to + d * rapt::packed_dim_stride + i, batch(0.0f));
    }
    each_missing(first, count, [&](std::size_t i) {
      for (std::size_t d = 0; d < o_.qk_dim; ++d) to[d * rapt::packed_dim_stride + i] = 0;
    });
  }
  // Writes the values [first, first + count) to rows at the distance Dequantized::pitch().
  void values(std::size_t first, std::size_t count, float *to) const {
    const Rows rows(
        tile_, first, count, o_.v_strides.token, tile_.v_of_token<std::uint8_t>(0),
        [&](std::size_t key) { return tile_.v<std::uint8_t>(key); },
        rapt::row_length(o_.v_type, o_.v_dim) * rapt::size_of(o_.v_type));
    const std::size_t pitch = rapt::Dequantized::pitch(o_.v_dim);
    const bool has_blocks = rapt::with_cache_blocks(o_.v_type, [&]<class File>(File) {
      const auto scales = scales_of<File>(
          first, count, tile_.v_scale_strides().token, tile_.v_scales_of_token(0),
          [&](std::size_t key) { return tile_.v_scales(key); }, o_.v_dim);
      numbers_of<File>(rows, scales, count, to, pitch);
    });
    if (!has_blocks) {
      rapt::with_element<float>(o_.v_type, [&](auto element) {
        widen_rows<typename decltype(element)::type>(rows, count, to, pitch);
      });
    }
    each_missing(first, count, [&](std::size_t i) {
      for (std::size_t d = 0; d < o_.v_dim; ++d) to[i * pitch + d] = 0;
    });
  }

 private:
  using S = simd<float>;
  using batch = typename S::batch;

  // The addresses of a block's rows, and what to prefetch of the next block.
  struct Rows {
    const std::uint8_t *at[block];
    const std::uint8_t *next[block];  // of scattered rows
    std::uintptr_t distance;          // of the next block's rows; 0: they are in `next`
    std::size_t bytes;

    template <class Address>
    Rows(const AttentionTile &tile, std::size_t first, std::size_t count, std::ptrdiff_t stride,
         const std::uint8_t *token0, Address address, std::size_t row_bytes)
        : distance(tile.is_scattered() ? 0 : static_cast<std::uintptr_t>(stride) * block), bytes(row_bytes) {
      find_rows_of_block(tile, first, count, stride, token0, address, at);
      if (distance != 0) return;
      const std::size_t left = tile.kv_len() - first, exist = left <= block          ? 0
                                                              : left - block < count ? left - block
                                                                                     : count;
      find_rows(tile, first + block, exist, stride, token0, address, next);
      for (std::size_t i = exist; i < block; ++i) next[i] = at[i];
    }
    // Returns a function that prefetches the row of the next block that has the place of row first + r here.
    auto fetch_from(std::size_t first) const {
      return [this, first](std::size_t r) RAPT_INNER {
        const std::uintptr_t from = distance != 0 ? reinterpret_cast<std::uintptr_t>(at[first + r]) + distance
                                                  : reinterpret_cast<std::uintptr_t>(next[first + r]);
        constexpr std::size_t line = 64;
        for (std::size_t b = 0; b < bytes; b += line)
          __builtin_prefetch(reinterpret_cast<const void *>(from + b), 0, 2);
      };
    }
  };

  template <class File, class Address>
  auto scales_of(std::size_t first, std::size_t count, std::ptrdiff_t stride, const float *token0,
                 Address address, std::size_t dim) const {
    ScalesOfBlock<File::has_scales_apart> scales;
    if constexpr (File::has_scales_apart)
      scales.find(tile_, first, count, stride, token0, address, rapt::scale_group_of(o_, dim));
    return scales;
  }
  template <class File>
  [[gnu::noinline, gnu::flatten]] void numbers_of(const Rows &rows,
                                                  const ScalesOfBlock<File::has_scales_apart> &scales,
                                                  std::size_t count, float *to, std::size_t pitch) const {
    for (std::size_t i = 0; i < count; i += S::width) {
      const std::size_t some = count - i < S::width ? count - i : S::width;
      numbers_of_rows<Codes, File>(rows.at + i, scales.from(i), some, o_.v_dim, to + i * pitch, pitch,
                                   rows.fetch_from(i));
    }
  }
  template <class E>
  [[gnu::noinline, gnu::flatten]] void pack_floats(const Rows &rows, std::size_t count, float *to) const {
    for (std::size_t i = 0; i < count; i += S::width) {
      const E *row[S::width];
      for (std::size_t r = 0; r < S::width; ++r) {
        rows.fetch_from(i)(r);
        row[r] = reinterpret_cast<const E *>(rows.at[i + r]);
      }
      transpose_rows<float>(row, o_.qk_dim, to + i, rapt::packed_dim_stride);
    }
  }
  template <class E>
  [[gnu::noinline, gnu::flatten]] void widen_rows(const Rows &rows, std::size_t count, float *to,
                                                  std::size_t pitch) const {
    for (std::size_t i = 0; i < count; ++i, to += pitch) {
      rows.fetch_from(i)(0);
      const E *const from = reinterpret_cast<const E *>(rows.at[i]);
      std::size_t d = 0;
      for (; o_.v_dim - d >= S::width; d += S::width) S::store(to + d, S::load(from + d));
      if (d < o_.v_dim) S::store_first(to + d, S::load_first(from + d, o_.v_dim - d), o_.v_dim - d);
    }
  }
  template <class F>
  void each_missing(std::size_t first, std::size_t count, F f) const {
    for (std::uint64_t missing = tile_.missing(first, count); missing != 0; missing &= missing - 1)
      f(static_cast<std::size_t>(__builtin_ctzll(missing)));
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
};

// Gives tiles of few rows their runs, as RunList does. Keys and values have the same memory, because products have read
// the ones before they need the others.
template <class Codes>
class DequantizedRuns {
 public:
  using Run = RowRun<float>;
  static constexpr bool packs = true;

  explicit DequantizedRuns(const AttentionTile &tile)
      : o_(tile.options()), dequantizer_(tile), numbers_(rapt::Dequantized(o_, tile.gathered()).keys) {}

  void begin_chunk(std::size_t, std::size_t, std::size_t) {}
  const Run *next_keys(std::size_t first, std::size_t count) {
    dequantizer_.keys(first, count, numbers_);
    return runs_of(rapt::attention_block, rapt::attention_block, o_.qk_dim);
  }
  const float *packed_keys() const { return numbers_; }
  const Run *next_values(std::size_t first, std::size_t count) {
    dequantizer_.values(first, count, numbers_);
    return runs_of(rapt::Dequantized::pitch(o_.v_dim), o_.v_dim, count);
  }
  const Run *next_block() { return runs_; }
  const Run *last() const { return runs_ + runs_per_block - 1; }
  const float *value(std::size_t key) {
    dequantizer_.values(key, 1, numbers_);
    return numbers_;
  }

 private:
  // Runs without rows are the last one that has some.
  const Run *runs_of(std::size_t pitch, std::size_t dim, std::size_t count) {
    const std::size_t last = (count - 1) / Run::rows;
    for (std::size_t i = 0; i < runs_per_block; ++i) {
      const std::size_t at = i < last ? i : last;
      runs_[i] = {numbers_ + at * Run::rows * pitch,
                  static_cast<std::ptrdiff_t>(pitch),
                  dim,
                  0,
                  false,
                  false,
                  nullptr};
    }
    return runs_;
  }

  const rapt_attention_options &o_;
  Dequantizer<Codes> dequantizer_;
  float *numbers_;
  Run runs_[runs_per_block];
};

// The place of tiles of many rows (block.hpp).
template <class Codes>
class DequantizedBlock : public BlockAddresses<float> {
 public:
  static constexpr bool is_copy = true;
  static std::size_t length(const rapt_attention_options &) { return 0; }
  DequantizedBlock(const rapt_attention_options &, const float *) {}

  void find(const AttentionTile &tile, std::size_t first, std::size_t keys, std::size_t) {
    const rapt_attention_options &o = tile.options();
    const rapt::Dequantized numbers(o, tile.gathered());
    const Dequantizer<Codes> dequantizer(tile);
    dequantizer.keys(first, keys, numbers.keys);
    dequantizer.values(first, keys, numbers.values);
    k_step = rapt::packed_dim_stride;
    for (std::size_t j = 0; j < keys; ++j) {
      k[j] = numbers.keys + j;
      v[j] = numbers.values + j * rapt::Dequantized::pitch(o.v_dim);
    }
  }
};

}  // namespace
