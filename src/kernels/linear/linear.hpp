// Computes linear layers. A task is a block of rows with some outputs, which are computed 64 at a time.
#pragma once

#include <cstddef>

#include "call/linear_call.hpp"
#include "kernels/linear/chain_tiles.hpp"
#include "kernels/linear/results.hpp"
#include "kernels/linear/rows.hpp"
#include "kernels/linear/tiles.hpp"
#include "kernels/linear/ways.hpp"
#include "kernels/linear/weights.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Parts names the classes of a kind of layer:
//
//   Rows     holds rows of x in the order of the tiles (rows.hpp)
//   Weights  finds the weights of a block of outputs (weights.hpp)
//   Tiles    multiplies the rows of a tile by a block of outputs (chain_tiles.hpp), and says what it is like (ways.hpp)
//   Guard    decides whether sums must be computed again
template <class Parts>
class LinearLayer {
 public:
  using A = typename Parts::A;
  using Tiles = typename Parts::Tiles;
  using Ways = LinearWays<Tiles>;
  static constexpr std::size_t block = rapt::linear_block;

  LinearLayer(const rapt::LinearCall &call, A *workspace)
      : call_(call),
        o_(call.options),
        sums_length_(rapt::LinearWorkspace(o_).padded_rows * block),
        rows_(call, workspace),
        sums_(workspace + rapt::LinearWorkspace(o_).rows),
        weights_(call, sums_ + rapt::LinearWorkspace(o_).sums, rows_) {}

  // Computes a task, after which one with outputs from next_output on may follow.
  void run(const rapt::LinearTask &task, std::size_t next_output) {
    rows_.load(task);
    next_output_ = next_output;
    Ways::template choose<typename Parts::Weights>(o_, task.rows, [&](auto way) { run(way, task); });
  }

 private:
  void run(FewRows, const rapt::LinearTask &task) {
    const std::size_t end = task.first_output + task.outputs, passes = passes_over(task.rows);
    const std::size_t every = Ways::prefetched_every(task.rows, o_.w_type);
    const bool in_order = Ways::reads_in_order(task.rows);
    for (std::size_t n = task.first_output; n < end;) {
      const std::size_t blocks = Ways::blocks_together(task.rows, end - n);
      for (std::size_t k = 0; k < o_.in_features; k += group()) {
        Prefetch next = blocks == 1 && !in_order ? next_of_few(n, k + group(), end, passes) : Prefetch{};
        next.stride = every;
        next.in_order = in_order;
        add_group(task, 0, n, blocks, k, inputs_from(k), sums_, next);
      }
      for (std::size_t b = 0; b < blocks; ++b, n += block) finish(task, n, sums_ + b * sums_length_);
    }
  }

  // Describes the weights of the group at k of a block, or of the next block's first.
  Prefetch next_of_few(std::size_t n, std::size_t k, std::size_t end, std::size_t passes) const {
    if (k < o_.in_features) return weights_.prefetch(n, k, inputs_from(k), passes);
    return n + block < end ? weights_.prefetch(n + block, 0, inputs_from(0), passes) : Prefetch{};
  }

  [[gnu::noinline, gnu::flatten]] void run(GroupsInTurn, const rapt::LinearTask &task) {
    constexpr std::size_t most = Tiles::groups_in_turn * Tiles::group;
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

  void run(BlocksInTurn, const rapt::LinearTask &task) {
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

  void run(ManyRows, const rapt::LinearTask &task) {
    const std::size_t rows = Ways::rows_of_part(task.rows);
    rapt::LinearTask part = task;
    for (std::size_t r = 0; r < task.rows; r += rows, part.first_row += rows) {
      part.rows = task.rows - r < rows ? task.rows - r : rows;
      run_part(part, r);
    }
  }
  // The rows are those of a task from `row` on. The rows' part of a group stays in L2 while all blocks use it.
  void run_part(const rapt::LinearTask &task, std::size_t row) {
    const std::size_t end = task.first_output + task.outputs, passes = passes_over(task.rows);
    for (std::size_t k = 0; k < o_.in_features; k += group()) {
      const std::size_t after = k + group() < o_.in_features ? k + group() : 0;
      tiles_.begin_group(rows_, task, inputs_from(k), after, inputs_from(after));
      A *sums = sums_;
      for (std::size_t n = task.first_output; n < end; n += block, sums += sums_length_) {
        Prefetch next = next_weights(task, n, k, passes);
        next.to_l1 = Ways::prefetches_to_l1();
        add_group(task, row, n, 1, k, inputs_from(k), sums, next);
      }
    }
    finish_blocks(task);
  }

  // Describes the weights that follow those of the block of outputs at n and the group at k.
  Prefetch next_weights(const rapt::LinearTask &task, std::size_t n, std::size_t k,
                        std::size_t passes) const {
    if (!Ways::prefetches(task.rows)) return {};
    std::size_t output = n + block, input = k;
    if (task.first_output + task.outputs - n <= block) {
      output = task.first_output;
      input = k + group();
      if (Tiles::joins_tasks && input >= o_.in_features) {
        output = next_output_;
        input = 0;
      }
    }
    return weights_.prefetch(output, input, inputs_from(input), passes);
  }

  // Returns how often tiles pass over the inputs of a group.
  static std::size_t passes_over(std::size_t rows) {
    std::size_t passes = 0;
    each_tile<Tiles>(rows, [&](std::size_t, auto height) { passes += Tiles::passes(height); });
    return passes;
  }
  std::size_t group() const { return Ways::group(o_.in_features); }
  // Returns the number of inputs in the group at k.
  std::size_t inputs_from(std::size_t k) const {
    if (k >= o_.in_features) return 0;
    return o_.in_features - k < group() ? o_.in_features - k : group();
  }

  [[gnu::noinline, gnu::flatten]] void add_group(const rapt::LinearTask &task, std::size_t row,
                                                 std::size_t output, std::size_t blocks, std::size_t k,
                                                 std::size_t inputs, A *sums, Prefetch &next) {
    weights_.use(output, blocks, k, inputs, task.rows, [&](auto kind, const auto *w, std::size_t to_next) {
      using Weights = decltype(kind);
      const std::size_t outputs = blocks * block, left = o_.out_features - output;
      const auto operands = [&](std::size_t r, std::size_t height) {
        return TileOperands{rows_.tile(row + r, height, k),
                            w,
                            sums + r * block,
                            to_next,
                            sums_length_,
                            left < outputs ? left : outputs,
                            call_.w_offsets ? call_.w_offsets + k : nullptr};
      };
      const typename Tiles::Mode mode;
      if constexpr (Tiles::blocks_of_one_row == 2) {
        if (blocks == 2) {
          tiles_.template multiply<Weights, 1, 2>(operands(0, 1), weights_.terms(0, 1, k), inputs, k == 0,
                                                  next);
          return guard_.note(mode);
        }
      }
      each_tile<Tiles>(task.rows, [&](std::size_t r, auto height) {
        if constexpr (height <= Tiles::template most_rows_of<Weights>)
          tiles_.template multiply<Weights, height, 1>(
              operands(r, height), weights_.terms(row + r, height, k), inputs, k == 0, next);
      });
      guard_.note(mode);
    });
  }

  void finish_blocks(const rapt::LinearTask &task) {
    tiles_.end_groups();
    rapt::LinearTask part = task;
    Ways::each_stored(task.rows, [&](std::size_t r, std::size_t rows) RAPT_INNER {
      part.first_row = task.first_row + r;
      part.rows = rows;
      A *sums = sums_ + r * block;
      for (std::size_t n = 0; n < task.outputs; n += block, sums += sums_length_) {
        finish(part, task.first_output + n, sums);
      }
    });
  }
  void finish(const rapt::LinearTask &task, std::size_t n, A *sums) {
    const std::size_t end = task.first_output + task.outputs, outputs = end - n < block ? end - n : block;
    guard_.correct(call_, task.first_row, task.rows, n, outputs, sums);
    store_results(call_, task.first_row, task.rows, n, outputs, sums);
  }

  const rapt::LinearCall &call_;
  const rapt_linear_options &o_;
  std::size_t sums_length_, next_output_ = 0;
  typename Parts::Rows rows_;
  A *sums_;
  typename Parts::Weights weights_;
  Tiles tiles_;
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
  using Ways = LinearWays<typename Parts::Tiles>;
  const rapt::LinearTasks tasks(call->options);
  LinearLayer<Parts> layer(*call, static_cast<typename Parts::A *>(workspace));
  while (first < last) {
    rapt::LinearTask task = tasks[first++];
    for (; first < last && Ways::joins(task, tasks[first]); ++first) task.outputs += tasks[first].outputs;
    layer.run(task, first < last && Parts::Tiles::joins_tasks ? tasks[first].first_output
                                                              : call->options.out_features);
  }
}

template <class E>
struct FloatLayer {
  using A = rapt::Arithmetic<E>;
  using Tiles = ChainTiles<A>;
  using Rows = PackedRows<Tiles>;
  using Weights = WeightGroups<E, Tiles>;
  using Guard = NoGuard;
};

template <class E>
void linear(const rapt::LinearCall *call, std::size_t first, std::size_t last, void *workspace) {
  linear_tasks<FloatLayer<E>>(call, first, last, workspace);
}

}  // namespace
