// Keys and values that are read later, prefetched a line at a time.
//
// A core's own prefetchers stop at the end of a page, and while scores become weights no load tells them
// where to go on. So lines are fetched in the order in which rows will be read, one for each line that is
// worked on, up to 32 KB ahead. 16 rows more or less is within 5 %.
//
//   AVX-512, 8 heads of 128 dimensions   | in L3, us | in memory, ms
//   next 16 or 32 rows, transposed order | 1369      | 19.2
//   this                                 | 1257      | 18.3
//   the same with 4 queries per head     | 1769      | 22.2
//   this (in part few_rows.hpp's gain)   | 1449      | 19.5
//   packed keys, no lines                | 1189      | 16.4 (4 queries: 22.2)
//   packed keys, this                    | 1211      | 16.9 (4 queries: 18.1)
//
// L2 is the better place for lines far ahead (4 queries, memory: 18.9 ms against 20.4), L1 for near ones (one
// query, L3: 1245 us against 1311).
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract/attention.hpp"

namespace {

// 16 rows of keys or values, at one distance from each other.
template <class E>
struct RowRun {
  static constexpr std::size_t rows = rapt::attention_page_unit;
  const E *first;
  std::ptrdiff_t stride;
  std::size_t dim;
};
inline constexpr std::size_t runs_per_block = rapt::attention_block / rapt::attention_page_unit;

// Row i of the runs.
template <class E>
[[gnu::always_inline]] inline const E *row_of(const RowRun<E> *runs, std::size_t i) {
  constexpr std::size_t rows = RowRun<E>::rows;
  const RowRun<E> &run = runs[i / rows];
  return run.first + run.stride * static_cast<std::ptrdiff_t>(i % rows);
}

// L1 waits for at most 16 lines at a time; L2 has room to get further ahead.
enum class Cache { l1, l2 };

// From `run` to `last`, which is fetched again at the end.
template <class E, Cache cache>
class LinesAhead {
 public:
  LinesAhead(const RowRun<E> *run, const RowRun<E> *last) : run_(run < last ? run : last), last_(last) {
    begin();
  }

  [[gnu::always_inline]] void fetch() {
    __builtin_prefetch(reinterpret_cast<const void *>(at_), 0, cache == Cache::l1 ? 3 : 2);
    at_ += 64;
    if (at_ < end_) return;
    // Rows past the last key are fetched like others, so that these are numbers, not pointers.
    at_ = end_ + skip_;
    end_ = at_ + row_;
    if (--left_ > 0) return;
    if (run_ < last_) ++run_;
    begin();
  }

 private:
  [[gnu::always_inline]] void begin() {
    at_ = reinterpret_cast<std::uintptr_t>(run_->first);
    row_ = run_->dim * sizeof(E);
    skip_ = static_cast<std::uintptr_t>(run_->stride) * sizeof(E) - row_;
    left_ = run_->rows;
    if (skip_ == 0) {  // rows side by side are one long row
      row_ *= left_;
      left_ = 1;
    }
    end_ = at_ + row_;
  }

  const RowRun<E> *run_, *last_;
  std::uintptr_t at_, end_, row_, skip_;
  std::size_t left_;
};

}  // namespace
