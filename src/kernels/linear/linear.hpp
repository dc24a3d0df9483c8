// Computes linear layers. A task is a block of rows with some outputs, which are computed 64 at a time.
#pragma once

#include <cstddef>

#include "call/linear_call.hpp"
#include "kernels/linear/chain_tiles.hpp"
#include "kernels/linear/results.hpp"
#include "kernels/linear/rows.hpp"
#include "kernels/linear/tiles.hpp"
#include "kernels/linear/weights.hpp"
#include "machine/questions.hpp"

namespace {

// A single row may read several groups of packed weights in turn. Pairs of bf16 are faster in order: in turn they took
// 1.8 of the time in L2.
template <class Parts>
concept ReadsInTurn = (Parts::Tiles::groups_in_turn > 1) && Parts::Weights::AsPacked::inputs == 1;

// A single row of AVX-512 may read blocks in turn. AVX2 needs the prefetches of reading in order: without them bf16 took
// 1.7 of the time in memory, and i4 1.06.
template <class Parts>
concept ReadsBlocksInTurn = (simd<typename Parts::A>::width == 16) && (Parts::Tiles::bytes_in_turn > 0);

// Parts names the classes of a kind of layer:
//
//   Rows     holds rows of x in the order of the tiles (rows.hpp)
//   Weights  finds the weights of a block of outputs (weights.hpp)
//   Tiles    multiplies the rows of a tile by a block of outputs (chain_tiles.hpp)
//   Guard    decides whether sums must be computed again
template <class Parts>
class LinearLayer {
 public:
  using A = typename Parts::A;
  using Tiles = typename Parts::Tiles;
  static constexpr std::size_t block = rapt::linear_block, group = Tiles::group;

  LinearLayer(const rapt::LinearCall &call, A *workspace)
      : call_(call),
        o_(call.options),
        sums_length_(rapt::LinearWorkspace(o_).padded_rows * block),
        rows_(call, workspace),
        sums_(workspace + rapt::LinearWorkspace(o_).rows),
        weights_(call, sums_ + rapt::LinearWorkspace(o_).sums, rows_) {}

  // A task in bf16 or i8 arithmetic has up to 256 rows. As one part, AVX2 would take 3 to 5 % longer.
  void run(const rapt::LinearTask &task) {
    rows_.load(task);
    if (task.rows == 1 && o_.packed_w && rapt_prefers_its_prefetcher()) {
      if constexpr (ReadsInTurn<Parts>) {
        if (o_.in_features > group) return run_in_turn(task);
      }
      if constexpr (ReadsBlocksInTurn<Parts>) return run_blocks_in_turn(task);
    }
    if (task.rows <= few_rows) return run_few_rows(task);
    constexpr bool by_amx = Tiles::most_rows == rapt::LinearTasks::row_unit_of_amx;
    constexpr std::size_t most = by_amx ? rapt::LinearTasks::most_rows_of_amx : rapt::LinearTasks::most_rows,
                          unit = by_amx ? rapt::LinearTasks::row_unit_of_amx : 12;  // parts end with a tile
    const std::size_t parts = (task.rows + most - 1) / most,
                      rows = (task.rows + parts * unit - 1) / (parts * unit) * unit;
    rapt::LinearTask part = task;
    for (std::size_t r = 0; r < task.rows; r += rows, part.first_row += rows) {
      part.rows = task.rows - r < rows ? task.rows - r : rows;
      run_many_rows(part, r);
    }
  }

 private:
  // Few rows read the weights of a block from its first input to its last, in the order of memory.
  static constexpr std::size_t few_rows = 12;
  void run_few_rows(const rapt::LinearTask &task) {
    const std::size_t end = task.first_output + task.outputs, passes = passes_over(task.rows);
    // One line of four is enough where the CPU fetches the rest by itself. On AVX2, or with more rows, it is slower.
    const bool by_cpu =
        simd<A>::width == 16 && task.rows > 1 && task.rows <= 4 && rapt_prefers_its_prefetcher();
    for (std::size_t n = task.first_output; n < end;) {
      const std::size_t blocks = task.rows == 1 && end - n > block ? Tiles::blocks_of_one_row : 1;
      for (std::size_t k = 0; k < o_.in_features; k += group) {
        Prefetch next =
            blocks == 1 ? weights_.prefetch(n, k + group, inputs_from(k + group), passes) : Prefetch{};
        if (by_cpu) next.stride = 256;
        add_group(task, 0, n, blocks, k, inputs_from(k), sums_, next);
      }
      for (std::size_t b = 0; b < blocks; ++b, n += block) finish(task, n, sums_ + b * sums_length_);
    }
  }

  // A single row reads a page of several groups in turn.
  [[gnu::noinline, gnu::flatten]] void run_in_turn(const rapt::LinearTask &task) {
    constexpr std::size_t most = Tiles::groups_in_turn * group;
    const std::size_t end = task.first_output + task.outputs;
    for (std::size_t n = task.first_output; n < end; n += block) {
      for (std::size_t k = 0; k < o_.in_features; k += most) {
        const std::size_t left = o_.in_features - k, inputs = left < most ? left : most;
        weights_.use(n, 1, k, inputs, 1, [&](auto kind, const auto *w, std::size_t) {
          if constexpr (std::is_same_v<decltype(kind), typename Parts::Weights::AsPacked>) {
            Tiles::multiply_in_turn(rows_.tile(0, 1, k), w, inputs, k == 0, sums_);
          }
        });
      }
      finish(task, n, sums_);
    }
  }

  // A single row reads a part of each block in turn, and prefetches nothing.
  void run_blocks_in_turn(const rapt::LinearTask &task) {
    const std::size_t part = weights_.inputs_in_turn(Tiles::bytes_in_turn);
    Prefetch none;
    for (std::size_t k = 0; k < o_.in_features; k += part) {
      const std::size_t left = o_.in_features - k, inputs = left < part ? left : part;
      A *sums = sums_;
      for (std::size_t n = 0; n < task.outputs; n += block, sums += sums_length_) {
        add_group(task, 0, task.first_output + n, 1, k, inputs, sums, none);
      }
    }
    finish_blocks(task);
  }

  // Many rows read a group of inputs of all blocks, so that the rows' part of the group stays in L2. The rows
  // are those of a task from `row` on.
  void run_many_rows(const rapt::LinearTask &task, std::size_t row) {
    const std::size_t end = task.first_output + task.outputs, passes = passes_over(task.rows);
    for (std::size_t k = 0; k < o_.in_features; k += group) {
      A *sums = sums_;
      for (std::size_t n = task.first_output; n < end; n += block, sums += sums_length_) {
        const bool is_last = end - n <= block;
        Prefetch next = weights_.prefetch(is_last ? task.first_output : n + block, is_last ? k + group : k,
                                          is_last ? inputs_from(k + group) : inputs_from(k), passes);
        add_group(task, row, n, 1, k, inputs_from(k), sums, next);
      }
    }
    finish_blocks(task);
  }

  // Returns how often tiles pass over the inputs of a group.
  static std::size_t passes_over(std::size_t rows) {
    std::size_t passes = 0;
    each_tile<Tiles::most_rows>(rows, [&](std::size_t, auto height) { passes += Tiles::passes(height); });
    return passes;
  }
  // Returns the number of inputs in the group at k.
  std::size_t inputs_from(std::size_t k) const {
    if (k >= o_.in_features) return 0;
    return o_.in_features - k < group ? o_.in_features - k : group;
  }

  [[gnu::noinline, gnu::flatten]] void add_group(const rapt::LinearTask &task, std::size_t row,
                                                 std::size_t output, std::size_t blocks, std::size_t k,
                                                 std::size_t inputs, A *sums, Prefetch &next) {
    weights_.use(output, blocks, k, inputs, task.rows, [&](auto kind, const auto *w, std::size_t to_next) {
      using Weights = decltype(kind);
      const auto operands = [&](std::size_t r, std::size_t height) {
        return TileOperands{rows_.tile(row + r, height, k), w, sums + r * block, to_next, sums_length_};
      };
      const typename Tiles::Mode mode;
      if constexpr (Tiles::blocks_of_one_row == 2) {
        if (blocks == 2) {
          Tiles::template multiply<Weights, 1, 2>(operands(0, 1), weights_.terms(0, 1, k), inputs, k == 0,
                                                  next);
          return guard_.note(mode);
        }
      }
      each_tile<Tiles::most_rows>(task.rows, [&](std::size_t r, auto height) {
        Tiles::template multiply<Weights, height, 1>(operands(r, height), weights_.terms(row + r, height, k),
                                                     inputs, k == 0, next);
      });
      guard_.note(mode);
    });
  }

  void finish_blocks(const rapt::LinearTask &task) {
    A *sums = sums_;
    for (std::size_t n = 0; n < task.outputs; n += block, sums += sums_length_) {
      finish(task, task.first_output + n, sums);
    }
  }
  void finish(const rapt::LinearTask &task, std::size_t n, A *sums) {
    const std::size_t end = task.first_output + task.outputs, outputs = end - n < block ? end - n : block;
    guard_.correct(call_, task.first_row, task.rows, n, outputs, sums);
    store_results(call_, task.first_row, task.rows, n, outputs, sums);
  }

  const rapt::LinearCall &call_;
  const rapt_linear_options &o_;
  std::size_t sums_length_;
  typename Parts::Rows rows_;
  A *sums_;
  typename Parts::Weights weights_;
  typename Parts::Guard guard_;
};

// The sums of a chain are always right.
struct NoGuard {
  template <class... Arguments>
  void note(const Arguments &...) const {}
  template <class... Arguments>
  void correct(const Arguments &...) const {}
};

template <class Parts>
void linear_tasks(const rapt::LinearCall *call, std::size_t first, std::size_t last, void *workspace) {
  const rapt::LinearTasks tasks(call->options);
  LinearLayer<Parts> layer(*call, static_cast<typename Parts::A *>(workspace));
  for (std::size_t i = first; i < last; ++i) layer.run(tasks[i]);
}

template <class E>
struct FloatLayer {
  using A = rapt::Arithmetic<E>;
  using Tiles = ChainTiles<A>;
  using Rows = PackedRows<A, Tiles::most_rows>;
  using Weights = WeightGroups<E, 12, 12>;
  using Guard = NoGuard;
};

template <class E>
void linear(const rapt::LinearCall *call, std::size_t first, std::size_t last, void *workspace) {
  linear_tasks<FloatLayer<E>>(call, first, last, workspace);
}

}  // namespace
