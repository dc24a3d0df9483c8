// Computes linear layers in bf16 arithmetic with AMX.
//
// Rows and weights are divided into groups of 192 inputs. The weights of 64 outputs take 24 KB of a group and
// stay in L1, while the rows of a task pass from L2. The sums are in L2 between two groups.
//
// Numbers other than 0 lower the clock: products with loads from L1 then have 79 to 87 % of the rate of zeros.
//
// Variants that lost, 256 rows with 4096 inputs and outputs | time
// groups of 128 inputs                                      | + 5 to 15 %
// groups of 256 inputs                                      | - 2 to + 7 %
// weights fetched a group ahead                             | + 4 to 9 %
// 32 rows by 32 outputs, whose rows stay in L1              | + 7 to 18 %
// the same without fetches                                  | and 14 to 23 %
// the same with copies of weights, whose tiles are compact  | and 13 to 33 %
#pragma once

#include <cstddef>

#include "call/linear_call.hpp"
#include "contract/types.hpp"
#include "isa/amx/linear_fetches.hpp"
#include "isa/amx/linear_operands.hpp"
#include "isa/amx/linear_products.hpp"
#include "isa/amx/tiles.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/kernels.hpp"
#include "kernels/linear/results.hpp"
#include "kernels/linear/ways.hpp"
#include "machine/questions.hpp"

namespace {

class LayerByAmx {
 public:
  static constexpr std::size_t block = rapt::linear_block;

  LayerByAmx(const rapt::LinearCall &call, float *workspace)
      : LayerByAmx(call, rapt::LinearWorkspace(call.options), workspace) {}

  // Computes a task, or several tasks of the same rows. The weights from next_output on are needed after it.
  void run(const rapt::LinearTask &task, std::size_t next_output) {
    rows_.load(task);
    for (std::size_t k = 0; k < o_.in_features; k += group_) {
      const bool is_last = o_.in_features - k <= group_;
      add_group(task, k, is_last ? next_output : task.first_output, is_last ? 0 : k + group_);
    }
    products_.flush();
    // A few rows of all outputs at a time, so that stores are next to each other.
    for (std::size_t r = 0; r < task.rows; r += amx_rows) {
      const std::size_t rows = task.rows - r < amx_rows ? task.rows - r : amx_rows;
      for (std::size_t n = 0; n < task.outputs; n += block) {
        store_results(call_, task.first_row + r, rows, task.first_output + n,
                      task.outputs - n < block ? task.outputs - n : block, sums_of(r, n / block));
      }
    }
  }

 private:
  LayerByAmx(const rapt::LinearCall &call, const rapt::LinearWorkspace &sizes, float *workspace)
      : call_(call),
        o_(call.options),
        group_(o_.in_features <= WeightGroup::most_inputs ? WeightGroup::most_inputs : 192),
        sums_length_(sizes.sums / rapt::most_outputs_in_bf16 * block),
        rows_(call, reinterpret_cast<rapt::BF16 *>(workspace)),
        sums_(workspace + sizes.rows),
        weights_(call, reinterpret_cast<rapt::BF16 *>(workspace + sizes.rows + sizes.sums)) {}

  std::size_t inputs_from(std::size_t k) const {
    return o_.in_features - k < group_ ? o_.in_features - k : group_;
  }
  float *sums_of(std::size_t row, std::size_t of_block) const {
    return sums_ + of_block * sums_length_ + row * block;
  }

  // Adds the group at k to the sums. Then follows the group of the outputs from next_output on at next_k.
  void add_group(const rapt::LinearTask &task, std::size_t k, std::size_t next_output, std::size_t next_k) {
    weights_.choose(task.first_output, task.outputs, k, inputs_from(k));
    const std::size_t steps = (inputs_from(k) + amx_k32 - 1) / amx_k32;
    const std::size_t tiles = (task.rows + amx_rows - 1) / amx_rows,
                      blocks = (task.outputs + block - 1) / block;
    const PiecesToFetch next_rows(tiles, inputs_from(next_k) * amx_rows * sizeof(rapt::BF16), tiles * blocks,
                                  steps),
        next_weights(1, inputs_from(k) * block * sizeof(rapt::BF16), tiles, steps);
    for (std::size_t b = 0; b < blocks; ++b) {
      const rapt::BF16 *after = b + 1 < blocks ? weights_.packed(task.first_output + (b + 1) * block, k)
                                               : weights_.packed(next_output, next_k);
      // With 16 rows the CPU fetches weights in time by itself, and other fetches took 10 % longer.
      if (tiles == 1) after = nullptr;
      for (std::size_t t = 0; t < tiles; ++t) {
        products_.multiply(
            rows_.tile(t * amx_rows, k), weights_.of_block(b), steps, k == 0, sums_of(t * amx_rows, b),
            next_rows.of(
                b * tiles + t,
                [&](std::size_t i) { return i < tiles ? rows_.tile(i * amx_rows, next_k) : nullptr; }),
            next_weights.of(t, [&](std::size_t) { return after; }));
      }
    }
  }

  const rapt::LinearCall &call_;
  const rapt_linear_options &o_;
  std::size_t group_, sums_length_;
  RowTiles rows_;
  float *sums_;
  WeightGroup weights_;
  LinearProducts<rapt::BF16> products_;
};

void linear_by_amx(const rapt::LinearCall *call, std::size_t first, std::size_t last, void *workspace) {
  TileRegisters registers;
  if (!goes_in_tiles_bf16(call->options) || !registers.configure()) {
    return rapt_kernels_without_tiles()->bf16.linear_in_bf16(call, first, last, workspace);
  }
  const rapt::LinearTasks tasks(call->options);
  LayerByAmx layer(*call, static_cast<float *>(workspace));
  while (first < last) {
    rapt::LinearTask all = tasks[first++];
    for (; first < last; ++first) {
      const rapt::LinearTask next = tasks[first];
      if (next.first_row != all.first_row || all.outputs + next.outputs > rapt::most_outputs_in_bf16) break;
      all.outputs += next.outputs;
    }
    layer.run(all, first < last ? tasks[first].first_output : call->options.out_features);
  }
}

}  // namespace
