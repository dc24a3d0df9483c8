// Computes linear layers with quantized weights in f32 arithmetic. Codes become numbers in scratch, which the
// tiles of f32 multiply; each group's sum is scaled.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/codes.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/linear/number_tiles.hpp"
#include "kernels/linear/quantized_groups.hpp"
#include "kernels/linear/ways.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Packed rows, and the sums of their groups if weights have offsets. A tile's sums are [groups][rows].
class SummedRows : public PackedRows<ChainTiles<float>> {
 public:
  SummedRows(const rapt::LinearCall &call, float *workspace)
      : PackedRows(call, workspace),
        o_(call.options),
        groups_(rapt::sum_groups_of(o_)),
        sums_(workspace + rapt::LinearWorkspace(o_).before_row_numbers()),
        is_summed_(rapt::QuantizedWeights(o_, call.w).has_offsets()) {}

  bool load(const rapt::LinearTask &task) {
    const bool is_new = PackedRows::load(task);
    if (!is_new || !is_summed_) return is_new;
    each_tile<ChainTiles<float>>(task.rows, [&](std::size_t r, auto height) {
      const float *x = tile(r, height, 0);
      const std::size_t sum_group = rapt::sum_group_of(o_);
      for (std::size_t k = 0, g = 0; k < o_.in_features; ++g) {
        float sum[height] = {};
        for (const std::size_t end = o_.in_features - k < sum_group ? o_.in_features : k + sum_group; k < end;
             ++k) {
          for (std::size_t i = 0; i < height; ++i) sum[i] = sum[i] + *x++;
        }
        for (std::size_t i = 0; i < height; ++i) sums_[r * groups_ + g * height + i] = sum[i];
      }
    });
    return is_new;
  }
  // Returns the sums of the tile at row r from input k on.
  const float *sums(std::size_t r, std::size_t height, std::size_t k) const {
    return sums_ + r * groups_ + k / rapt::sum_group_of(o_) * height;
  }

 private:
  const rapt_linear_options &o_;
  std::size_t groups_;
  float *sums_;
  bool is_summed_;
};

// Codes is what a level provides for codes (integer_tiles.hpp).
template <class Codes>
class NumberGroups {
 public:
  using S = simd<float>;
  using batch = S::batch;
  static constexpr std::size_t block = rapt::linear_block;

  NumberGroups(const rapt::LinearCall &call, float *scratch, const SummedRows &rows)
      : numbers_(scratch), groups_(call, scratch), rows_(rows) {
    const rapt::QuantizedWeights &weights = groups_.weights();
    for (std::size_t i = 0; i < rapt::LinearWorkspace::block_scales; ++i)
      groups_.zero_numbers()[i] = static_cast<float>(weights.common_zero()) + code_magic;
    const bool is_common = weights.bits() == 4 && !weights.has_zeros();
    has_table_ = weights.has_codebook() || (is_common && Codes::prefers_tables);
    for (int i = 0; i < 16; ++i) {
      table_[i] = weights.has_codebook() ? weights.codebook(static_cast<unsigned>(i))
                                         : static_cast<float>(i - weights.common_zero());
    }
  }

  // Calls f(kind, weights, 0), like WeightGroups.
  template <class F>
  RAPT_INNER void use(std::size_t output, std::size_t, std::size_t input, std::size_t inputs,
                      std::size_t rows, F f) {
    const std::uint8_t *const codes = groups_.load(output, input, inputs, rows);
    if (groups_.zeros()) {
      const std::size_t count = (inputs + groups_.sum_group() - 1) / groups_.sum_group() * block;
      for (std::size_t i = 0; i < count; i += S::width)
        S::store(groups_.zero_numbers() + i, S::load(groups_.zeros() + i) + batch(code_magic));
    }
    const auto use_kind = [&](auto kind) RAPT_INNER {
      const bool as_numbers = rows > NumberTiles<Codes>::template most_rows_of<decltype(kind)> ||
                              groups_.weights().may_have_specials(output);
      if (!as_numbers) return f(kind, codes, std::size_t{0});
      to_numbers<decltype(kind)>(codes, inputs);
      f(WeightsOf<float>{}, static_cast<const float *>(numbers_), std::size_t{0});
    };
    if (const rapt::F8 f8 = groups_.weights().f8()) {
      if (f8.exponent_bits == 4) return use_kind(CodesOfF8<4>{});
      return use_kind(CodesOfF8<5>{});
    }
    if (has_table_) {
      use_kind(CodesWithTable{});
    } else {
      with_kind_of(groups_.weights().bits(), use_kind);
    }
  }

  NumberTerms terms(std::size_t r, std::size_t height, std::size_t input) const {
    return {groups_.terms(), rows_.sums(r, height, input), groups_.zero_numbers(), table_};
  }

  Prefetch prefetch(std::size_t output, std::size_t input, std::size_t inputs, std::size_t passes) const {
    return groups_.prefetch(output, input, inputs, passes);
  }

 private:
  // Sets numbers_[input * 64 + output]. The scratch has room for inputs that fill the last words.
  template <class Kind>
  [[gnu::noinline, gnu::flatten]] void to_numbers(const std::uint8_t *codes, std::size_t inputs) {
    constexpr std::size_t vectors = block / S::width < 4 ? block / S::width : 4;
    // Weights of larger units have a common zero.
    const std::size_t sum_group = Kind::groups * groups_.sum_group();
    for (std::size_t begin = 0, g = 0; begin < inputs; begin += sum_group, g += Kind::groups) {
      const std::size_t end = inputs - begin < sum_group ? inputs : begin + sum_group;
      for (std::size_t v = 0; v < block; v += vectors * S::width) {
        batch zero[vectors];
        unroll<vectors>([&](std::size_t i) RAPT_INNER {
          zero[i] = S::load(groups_.zero_numbers() + g * block + v + i * S::width);
        });
        for (std::size_t k = begin; k < end; k += Kind::inputs) {
          const std::uint8_t *const from = codes + k / Kind::inputs * Kind::bytes + Kind::words_of(v);
          unroll<vectors>([&](std::size_t i) RAPT_INNER {
            const std::uint8_t *const at = from + Kind::words_of(i * S::width);
            unroll<Kind::inputs>([&](auto j) RAPT_INNER {
              batch number;
              if constexpr (Kind::whole_units) {
                number = number_in_planes<Codes, Kind, j>(at, zero[i]);
              } else if constexpr (IsOfF8<Kind>) {
                number = number_of_f8<Codes, Kind, j, true>(load_words(at));
              } else {
                number = number_of<Codes, Kind, j>(load_words(at), zero[i], table_);
              }
              S::store(numbers_ + (k + j) * block + v + i * S::width, number);
            });
          });
        }
      }
    }
  }

  float *numbers_;
  QuantizedGroups groups_;
  const SummedRows &rows_;
  bool has_table_;
  alignas(64) float table_[16];
};

template <class Codes>
struct QuantizedLayer {
  using A = float;
  using Tiles = NumberTiles<Codes>;
  using Rows = SummedRows;
  using Weights = NumberGroups<Codes>;
  using Guard = NoGuard;
};

template <class Codes>
void linear_of_codes(const rapt::LinearCall *call, std::size_t first, std::size_t last, void *workspace) {
  linear_tasks<QuantizedLayer<Codes>>(call, first, last, workspace);
}

}  // namespace
