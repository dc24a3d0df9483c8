// Which keys a query sees, and in which order attention counts them.
//
// rapt's attention counts blocks of 64 keys and chunks of 512 by position. A cache gives keys any cells, so a query
// attends over slots: the number of a key is its slot. Where the cells are in this order already, nothing moves.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ggml/mask.hpp"
#include "ggml/numbers.hpp"

namespace rapt_ggml {

// Queries of one sequence of a batch that attend over the same slots.
struct Group {
  static constexpr std::int32_t no_cell = -1;

  std::vector<std::uint32_t> queries;
  std::vector<std::int32_t> cells;  // of each slot; empty: slots are cells
  std::size_t slots = 0;

  // What each query sees: in order, the first query sees the slots below `causal_offset` + 1, the next one slot more,
  // and so on. Or a byte for each query and slot.
  bool causal = false;
  std::ptrdiff_t causal_offset = 0;
  std::size_t window = 0;  // 0: all; else each query sees so many slots at most
  std::vector<std::uint8_t> visible;

  // Whether the queries follow each other, so that they need not be gathered.
  bool is_run() const { return queries.back() - queries.front() + 1 == queries.size(); }
};

struct Sight {
  std::vector<std::vector<Group> > sequences;  // of each sequence of the batch

  // For which call it was made: layers of one kind have equal ones.
  Tensor mask = nullptr;
  std::vector<RowNumber> before;              // of the cells, before fresh rows had numbers
  std::vector<std::uint32_t> fresh, numbers;  // rows, and the numbers that they got
  std::size_t first_row = 0, sequence_step = 0;
};

// The keys of an attention call in a cache: cell c of sequence b is row first_row + b * sequence_step + c.
struct Cells {
  CacheNumbers *cache = nullptr;
  std::size_t first_row = 0, sequence_step = 0;
};

// What the queries of an attention op see, with mask->only_excludes or not. Gives fresh rows of the cache their
// numbers.
std::shared_ptr<const Sight> sight_of(Graph &graph, Tensor attention, const Cells &cells);

}  // namespace rapt_ggml
