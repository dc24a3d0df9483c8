// Multiplies queries by keys and weights by values for KeysInLanes in RAPT_ARITHMETIC_BF16.
#pragma once

#include <cstddef>

#include "kernels/attention/bf16_rule.hpp"
#include "kernels/attention/k32_rows.hpp"
#include "kernels/attention/transposing_products.hpp"
#include "kernels/flushes.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Rows is the class that multiplies few rows: K32Rows, or a level's replacement such as BfmlalRows.
template <class Rows>
class K32RowProducts : public TransposingProducts<rapt::BF16, RunList<rapt::BF16, most_addressed>> {
 public:
  using Base = TransposingProducts<rapt::BF16, RunList<rapt::BF16, most_addressed>>;
  using E = rapt::BF16;
  using Rule = Bf16Rule;
  static constexpr std::size_t k32 = rapt::Bf16Contract::k32;

  K32RowProducts(const AttentionTile &tile, const TileRows<float> &rows, float *workspace)
      : Base(tile, rows, workspace), pitch_(pitch_of(tile.options())) {}

  static std::size_t padded(std::size_t rows) { return rows <= 2 ? rows : (rows + 3) / 4 * 4; }

  // Loads the queries times rows_.sign. Rows after the last one are copies of it.
  void load_queries() {
    for (std::size_t r = 0; r < padded(rows_.rows); ++r) {
      const std::size_t from = r < rows_.rows ? r : rows_.rows - 1;
      const batch sign(rows_.sign[from]);
      const E *const q = tile_.q<E>(rows_.of[from]);
      for (std::size_t d = 0; d < pitch_; d += S::width) {
        const batch v = d < o_.qk_dim ? S::load_first(q + d, o_.qk_dim - d) * sign : batch(0.0f);
        S::store(queries_ + r * pitch_ + d, d + S::width <= o_.qk_dim ? v : S::keep_first(v, left_of(d)));
      }
    }
  }

  bool is_doubtful() const { return guard_.is_doubtful(); }
  void use_exact_products() { guard_.use_exact_products(); }

  void scores(std::size_t first, std::size_t keys, float *scores) {
    const RowRun<E> *const run = runs_.next_keys(first, keys);
    if (guard_.is_exact()) [[unlikely]]
      return exact_scores(first, keys, scores);
    const typename S::Flushing flushing;
    const auto by_all_rows = [&](std::size_t r, auto count) RAPT_INNER {
      Rows::template scores<count>(queries_ + r * pitch_, pitch_, run, runs_.last(), keys, o_.qk_dim,
                                   scores + r * block);
    };
    if (o_.packed_keys) {
      by_rows([&](std::size_t r, auto count) RAPT_INNER {
        Rows::template packed_scores<count>(queries_ + r * pitch_, pitch_, tile_.k<E>(first), run,
                                            runs_.last(), keys, o_.qk_dim, scores + r * block);
      });
    } else if (S::registers == 32 && rows_.rows > 4) {  // 8 rows share a transposition, with 16 chains
      by_all_rows(0, std::integral_constant<std::size_t, 8>{});
    } else {
      by_rows(by_all_rows);
    }
    guard_.note(flushing);
  }

  void values(std::size_t first, std::size_t keys, const float *weights, const float *rescale, float *values,
              std::size_t pitch) {
    const RowRun<E> *const run = runs_.next_values(first, keys);
    multiply_rows(rescale, values, pitch);
    if (guard_.is_exact()) [[unlikely]] {
      return exact_values(first, keys, weights, values, pitch,
                          [&](std::size_t, std::size_t key) { return !tile_.is_missing(key); });
    }
    const typename S::Flushing flushing;
    by_rows([&](std::size_t r, auto count) RAPT_INNER {
      Rows::template values<count>(weights + r * block, run, keys, runs_.last(), o_.v_dim, values + r * pitch,
                                   pitch);
    });
    guard_.note(flushing);
  }
  // Adds values like values(), but a key has the value 0 for rows with !is_visible(row, key).
  template <class IsVisible>
  void careful_values(std::size_t first, std::size_t keys, const float *weights, const float *rescale,
                      float *values, std::size_t pitch, IsVisible is_visible) {
    runs_.next_block();
    multiply_rows(rescale, values, pitch);
    exact_values(first, keys, weights, values, pitch, is_visible);
  }

 private:
  static std::size_t pitch_of(const rapt_attention_options &o) { return (o.qk_dim + k32 - 1) / k32 * k32; }
  std::size_t left_of(std::size_t d) const { return d < o_.qk_dim ? o_.qk_dim - d : 0; }

  // Calls f(first row, count) for groups of rows. The rows of a group share each load of a key or value.
  template <class F>
  RAPT_INNER void by_rows(F f) const {
    const std::size_t rows = rows_.rows;
    if (rows == 1) return f(0, std::integral_constant<std::size_t, 1>{});
    if (rows == 2) return f(0, std::integral_constant<std::size_t, 2>{});
    for (std::size_t r = 0; r < rows; r += 4) f(r, std::integral_constant<std::size_t, 4>{});
  }

  void multiply_rows(const float *factors, float *values, std::size_t pitch) const {
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      if (factors[r] == 1) continue;
      float *const row = values + r * pitch;
      for (std::size_t d = 0; d < o_.v_dim; d += S::width)
        S::store(row + d, S::load(row + d) * batch(factors[r]));
    }
  }

  template <class IsVisible>
  [[gnu::noinline, gnu::cold]] void exact_values(std::size_t first, std::size_t keys, const float *weights,
                                                 float *values, std::size_t pitch,
                                                 IsVisible is_visible) const {
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        float &value = values[r * pitch + d];
        value = add_with_flushes(
            value, keys, [&](std::size_t j) { return weights[r * block + j]; },
            [&](std::size_t j) {
              return is_visible(r, first + j) ? rapt::widened(tile_.v<E>(first + j)[d]) : 0.0f;
            });
      }
    }
  }

  [[gnu::noinline, gnu::cold]] void exact_scores(std::size_t first, std::size_t keys, float *scores) const {
    const std::size_t step = o_.packed_keys ? rapt::packed_dim_stride : 1;
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      for (std::size_t j = 0; j < keys; ++j) {
        if (tile_.is_missing(first + j)) {
          scores[r * block + j] = 0;
          continue;
        }
        const E *const key = tile_.k<E>(first + j);
        scores[r * block + j] = add_with_flushes(
            0, o_.qk_dim, [&](std::size_t d) { return queries_[r * pitch_ + d]; },
            [&](std::size_t d) { return rapt::widened(key[d * step]); });
      }
    }
  }

  std::size_t pitch_;
  FlushGuard<typename S::Flushing> guard_;
};

}  // namespace
