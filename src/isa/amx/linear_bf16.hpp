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
#include "kernels/linear/linear.hpp"
#include "kernels/linear/ways.hpp"
#include "kernels/vector/inner.hpp"
#include "machine/questions.hpp"

namespace {

struct Bf16TilesByAmx : TilesByAmx {
  static constexpr std::size_t group = 192, most_inputs_of_only_group = 256;
  static constexpr bool joins_tasks = true;
  // With 16 rows the CPU fetches weights in time by itself, and other fetches took 10 % longer.
  static constexpr bool prefetches_alone = false;

  // The rows' part of the next group, at input `next`, is fetched by the tiles of this one.
  void begin_group(const RowTiles &rows, const rapt::LinearTask &task, std::size_t inputs, std::size_t next,
                   std::size_t next_inputs) {
    const std::size_t tiles = (task.rows + most_rows - 1) / most_rows,
                      blocks = (task.outputs + rapt::linear_block - 1) / rapt::linear_block;
    next_rows_ = {rows.tile(0, most_rows, next),
                  rows.tile(most_rows, most_rows, next),
                  tiles,
                  next_inputs * most_rows * sizeof(rapt::BF16),
                  tiles * blocks,
                  steps_of(inputs)};
  }

  template <class Weights, std::size_t rows, std::size_t blocks>
  RAPT_INNER void multiply(const TileOperands<rapt::BF16, rapt::BF16, float> &tile, NoTerms,
                           std::size_t inputs, bool first, Prefetch &fetch) {
    static_assert(rows == most_rows && blocks == 1);
    const std::size_t steps = steps_of(inputs);
    products_.multiply(tile.x, {tile.w, Weights::row_bytes, Weights::pitch}, steps, first, tile.sums,
                       next_rows_.next(), lines_of_pass(fetch, steps));
  }
  void end_groups() { products_.flush(); }

 private:
  static std::size_t steps_of(std::size_t inputs) { return (inputs + amx_k32 - 1) / amx_k32; }

  LinearProducts<rapt::BF16> products_;
  PiecesToFetch next_rows_;
};

struct Bf16LayerByAmx {
  using A = float;
  using Tiles = Bf16TilesByAmx;
  using Rows = RowTiles;
  using Weights = TilesOfWeights;
  using Guard = NoGuard;
};

void linear_in_bf16_by_amx(const rapt::LinearCall *call, std::size_t first, std::size_t last,
                           void *workspace) {
  TileRegisters registers;
  if (!goes_in_tiles_bf16(call->options) || !registers.configure()) {
    return rapt_kernels_without_tiles()->bf16.linear_in_bf16(call, first, last, workspace);
  }
  linear_tasks<Bf16LayerByAmx>(call, first, last, workspace);
}

}  // namespace
