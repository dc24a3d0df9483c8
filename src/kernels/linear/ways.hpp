// Chooses how a linear layer is computed. No other file makes these choices: others ask, or are handed the answer.
// Tiles say what they are like by the members of TileTraits, and levels by those of simd<A> (vector/simd.hpp).
// call/linear_call.hpp has divided the call into tasks, by its sizes alone.
//
//   way of a task | reads packed weights                                     | tasks
//   GroupsInTurn  | of a block, a page of several groups in turn             | one row; f32 on AVX2
//   BlocksInTurn  | a part of each block in turn, without prefetches         | one row; bf16 and i8 arithmetic on AVX-512,
//                 |                                                          | but not with K-quants and 5 bits
//   FewRows       | of a block, from its first input to its last             | up to few_rows rows
//     in order    | each part of a block once, by all passes over it         | up to 8 rows of float weights
//   ManyRows      | a group of inputs of all blocks                          | others; all of AMX in bf16
//
// The first two are for CPUs that prefer their own prefetcher, and the fourth is for those that read weights in order
// (machine/questions.hpp).
//
//   weights                              | are multiplied
//   packed, of the type of the products  | where they are
//   packed, of 16 bits                   | where they are by few rows; by more, in scratch as numbers
//   codes in f32 arithmetic              | packed where they are by 4 rows; by more, in scratch as numbers
//   plain                                | where they are by few rows, if tiles can; else transposed in scratch
//   at offsets, of a convolution         | where they are
//   codes in i8 arithmetic               | packed where they are; AMX and NEON's I8MM put them in order in scratch
#pragma once

#include <cstddef>
#include <type_traits>

#include "call/linear_call.hpp"
#include "contract/file_blocks.hpp"
#include "kernels/vector/inner.hpp"
#include "machine/questions.hpp"

namespace {

struct GroupsInTurn {};
struct BlocksInTurn {};
struct FewRows {};
struct ManyRows {};

// Lists what tiles may say of themselves, as most of them say it. Tiles derive from it, and replace what differs.
struct TileTraits {
  // A tile has from least_rows to most_rows rows. Each class of tiles has its most_rows.
  static constexpr std::size_t least_rows = 1;
  // Tiles of these weights have at most so many rows.
  template <class Weights>
  static constexpr std::size_t most_rows_of = 16;
  // A single row multiplies one block of outputs at a time, or two.
  static constexpr std::size_t blocks_of_one_row = 1;
  // How many groups, or bytes of each block, a single row reads in turn. 1 and 0: it has no such way.
  static constexpr std::size_t groups_in_turn = 1, bytes_in_turn = 0;
  // A layer of up to this many inputs is a single group, even if other groups have fewer.
  static constexpr std::size_t most_inputs_of_only_group = 0;
  // Whether many rows multiply weights of another type as numbers in scratch.
  static constexpr bool converts_weights = true;
  // Whether few rows multiply plain weights, whose inputs are contiguous, where they are.
  static constexpr bool takes_plain_weights = false;
  // Whether tiles multiply weights at offsets (LinearCall).
  static constexpr bool takes_offsets = false;
  // Whether few rows can read packed weights in the order of memory.
  static constexpr bool reads_in_order = false;
  // Whether a task of any length is one part.
  static constexpr bool takes_whole_tasks = false;
  // Whether tasks of the same rows are computed together, so that rows pass once for more outputs. Weights of the
  // next task are then prefetched too, and results are stored one tile of rows after the other.
  static constexpr bool joins_tasks = false;
  // Whether the only tile of rows prefetches weights.
  static constexpr bool prefetches_alone = true;

  // The mode of the processor that the products need, while an object of it lives.
  struct Mode {};
  // What tiles do before many rows multiply a group, and before the sums of all groups are used.
  template <class... Of>
  static void begin_group(const Of &...) {}
  static void end_groups() {}
};

template <class Tiles>
struct LinearWays {
  using S = simd<typename Tiles::A>;
  static constexpr std::size_t block = rapt::linear_block, few_rows = rapt::LinearTasks::few_rows;

  // Pairs of bf16 are faster in order: groups in turn took 1.8 of the time in L2.
  template <class Weights>
  static constexpr bool has_groups_in_turn = [] {
    if constexpr (Tiles::groups_in_turn > 1) return Weights::AsPacked::inputs == 1;
    return false;
  }();
  // AVX2 needs the prefetches of reading in order: without them bf16 took 1.7 of the time in memory, and i4 1.06.
  static constexpr bool has_blocks_in_turn = S::leaves_prefetches_to_cpu && Tiles::bytes_in_turn > 0;
  // Returns whether packed weights are codes in one place and at most scales in another. The CPU's prefetcher does not
  // follow more streams: on a Zen 4, with blocks in turn, Q4_K took 1.27 of the time in memory, Q6_K 1.45, Q3_K 1.5,
  // and Q5_K 2.2, but codes of bytes .86.
  static bool has_few_streams(rapt_type weights) {
    const rapt::FileBlocks file = rapt::FileBlocks::of(weights);
    return !file.has_steps && file.bits != 5;
  }

  // Calls compute(way) with the way of a task.
  template <class Weights, class Compute>
  RAPT_INNER static void choose(const rapt_linear_options &o, std::size_t rows, Compute compute) {
    if constexpr (has_groups_in_turn<Weights> || has_blocks_in_turn) {
      if (rows == 1 && o.packed_w && rapt_prefers_its_prefetcher()) {
        if constexpr (has_groups_in_turn<Weights>) {
          if (o.in_features > Tiles::group) return compute(GroupsInTurn{});
        }
        if constexpr (has_blocks_in_turn) {
          if (has_few_streams(o.w_type)) return compute(BlocksInTurn{});
        }
      }
    }
    if constexpr (!Tiles::joins_tasks && Tiles::least_rows <= few_rows) {
      if (rows <= few_rows) return compute(FewRows{});
    }
    compute(ManyRows{});
  }

  // Returns how many rows of a task are computed together. A task in bf16 or i8 arithmetic has up to 256. As one part,
  // AVX2 would take 3 to 5 % longer. Parts end with a tile.
  static std::size_t rows_of_part(std::size_t rows) {
    if constexpr (Tiles::takes_whole_tasks) {
      return rows;
    } else {
      constexpr std::size_t most = rapt::LinearTasks::most_rows,
                            unit = 12;  // a multiple of all heights of tiles
      static_assert(unit % Tiles::most_rows == 0);
      const std::size_t parts = (rows + most - 1) / most;
      return (rows + parts * unit - 1) / (parts * unit) * unit;
    }
  }

  // Returns the inputs of a group of a layer.
  static constexpr std::size_t group(std::size_t inputs) {
    constexpr std::size_t most = Tiles::most_inputs_of_only_group;
    if constexpr (most > 0) return inputs <= most ? most : Tiles::group;
    return Tiles::group;
  }

  // Returns whether few rows read weights in the order of memory, each part of a block once. With a second tile of six
  // rows, whose products wait for no memory, it took 1.25 of the time. Weights in scratch are read so too.
  static bool reads_in_order(std::size_t rows) {
    return Tiles::reads_in_order && rows <= 8 && rapt_reads_in_order();
  }

  // Returns how many blocks few rows multiply together, of those that `outputs` outputs fill.
  static constexpr std::size_t blocks_together(std::size_t rows, std::size_t outputs) {
    return rows == 1 && outputs > block ? Tiles::blocks_of_one_row : 1;
  }

  // Returns whether tiles prefetch the weights that follow.
  static constexpr bool prefetches(std::size_t rows) {
    return Tiles::prefetches_alone || rows > Tiles::most_rows;
  }
  // Returns whether tiles of many rows prefetch the weights of the next inputs from L2 to L1. On Sapphire Rapids that
  // gives 1.03 to 1.05 of the speed, for 2 to 8 inputs ahead. AVX2 gains nothing. To store a block's results while its
  // sums are in L1 gave nothing more.
  static bool prefetches_to_l1() {
    return S::leaves_prefetches_to_cpu && !rapt_prefers_its_prefetcher() && !rapt_reads_in_order();
  }
  // Returns the bytes from one prefetched line to the next. One line of four is enough where the CPU fetches the rest
  // by itself. On AVX2, or with more rows, it is slower. So it is with codes, but for two rows of bytes (.88 of the
  // time): with 4 rows on a Zen 4, Q8_0 took 1.13 of the time in memory, Q4_0 1.19, Q6_K 1.8 and Q5_K 2.5.
  static std::size_t prefetched_every(std::size_t rows, rapt_type weights) {
    const bool are_bytes = weights == RAPT_I8 || weights == RAPT_U8 || weights == RAPT_Q8_0;
    const std::size_t most = !rapt::is_quantized(weights) ? 4 : are_bytes ? 2 : 0;
    const bool by_cpu =
        S::leaves_prefetches_to_cpu && rows > 1 && rows <= most && rapt_prefers_its_prefetcher();
    return by_cpu ? 256 : 64;
  }

  // Returns whether `next` is computed together with `task`, which is one of the tasks before it or several.
  static bool joins(const rapt::LinearTask &task, const rapt::LinearTask &next) {
    return Tiles::joins_tasks && next.first_row == task.first_row &&
           task.outputs + next.outputs <= rapt::most_outputs_in_bf16;
  }
  // Calls store(first row, rows) for the rows of a task whose results are stored before those of the rows after them.
  template <class Store>
  RAPT_INNER static void each_stored(std::size_t rows, Store store) {
    if constexpr (Tiles::joins_tasks) {
      constexpr std::size_t most = Tiles::most_rows;
      for (std::size_t r = 0; r < rows; r += most) store(r, rows - r < most ? rows - r : most);
    } else {
      store(std::size_t{0}, rows);
    }
  }

  // Returns whether weights of another type become numbers in scratch.
  static constexpr bool converts(std::size_t rows) { return Tiles::converts_weights && rows > few_rows; }
  // Returns whether plain weights are multiplied where they are. The scratch of a group does not fit in L1.
  static bool takes_plain(const rapt_linear_options &o, std::size_t rows) {
    return Tiles::takes_plain_weights && rows <= few_rows && o.w_strides.column == 1;
  }
};

// A single row of the type of the products, whose inputs are contiguous, is multiplied where it is.
inline bool takes_row_in_place(const rapt_linear_options &o, std::size_t rows) {
  return rows == 1 && o.x_strides.column == 1;
}

// NEON's I8MM multiplies one row by USDOT. For more, codes are put in the order of USMMLA
// (isa/neon_i8mm/matrix_tiles.hpp).
constexpr bool orders_codes_for_matrices(std::size_t rows) { return rows > 1; }

// Return whether AMX computes a call, if the process may use its tiles. Fewer rows are faster without them: plain
// weights must be packed for tiles, and codes become bytes in scratch.
inline bool goes_in_tiles_bf16(const rapt_linear_options &o) { return o.rows >= (o.packed_w ? 4 : 8); }
inline bool goes_in_tiles_i8(const rapt_linear_options &o) { return o.rows >= 32; }

}  // namespace
