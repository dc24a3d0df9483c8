// Prefetches keys and values that are read later.
//
// Hardware prefetchers follow lines in order, up to the end of a page. Prefetching a page's first lines early
// starts them. Every line is prefetched again shortly before it is read, when it is already in L2. So it only
// briefly occupies one of L1's 16 outstanding misses.
//
//   AVX-512, 128 dimensions, heads x keys | 1 x 1024 in L2 | 8 x 4096 in L3 | 8 x 16384 in memory
//   lines, 2 runs of 16 rows ahead        | 12900 ns       | 1305 us        | 11150 us
//   first lines of pages, 6 runs ahead    | 13950 ns       | 1274 us        |
//   both                                  | 13300 ns       | 1161 us        | 9230 us
//
// Zen 4's L1 allows few outstanding misses, and its prefetchers fail if a loop reads columns of 16 rows. So
// on Zen 4, large arrays of keys and values are also prefetched to L2, far ahead, all lines of a run at once. Decoding
// 32768 keys of 128 dimensions then takes .86 of the time in f16 and bf16, and .9 in f32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract/attention.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Describes a run: 16 rows of keys or values, which usually have a constant distance.
template <class E>
struct RowRun {
  static constexpr std::size_t rows = rapt::attention_page_unit;
  const E *first;
  std::ptrdiff_t stride;
  std::size_t dim;
  std::uintptr_t far;  // if not 0, fetch_pages() prefetches to L2 what is this many bytes after the run
  bool alone;          // one or two queries read this run alone, and prefetch nothing but the next one
  bool to_l2;          // lines of this run are prefetched to L2, not to L1
  const E *const *scattered;  // if not null, the addresses of the rows, which are at no constant distance

  RAPT_INNER const E *row(std::size_t i) const {
    return scattered ? scattered[i] : first + stride * static_cast<std::ptrdiff_t>(i);
  }
};
inline constexpr std::size_t runs_per_block = rapt::attention_block / rapt::attention_page_unit;

// Returns row i of consecutive runs.
template <class E>
RAPT_INNER inline const E *row_of(const RowRun<E> *runs, std::size_t i) {
  constexpr std::size_t rows = RowRun<E>::rows;
  return runs[i / rows].row(i % rows);
}

// Tiles of more queries in bf16 arithmetic or over int8 read copies of scattered rows (run_list.hpp).
inline constexpr std::size_t most_addressed = 4;

// Returns whether some of a block's rows are scattered. RunList scatters pairs of runs.
template <class E>
RAPT_INNER inline bool any_scattered(const RowRun<E> *block) {
  return block[0].scattered || block[2].scattered;
}

// Returns whether rows at this distance are all a multiple of a page apart, as in a token-major cache of 8 heads of 128
// floats. L1 then has room for only 12 rows, so lines prefetched to L1 are evicted before they are read. L2 keeps them.
// That costs a branch per line, which no other stride notices (within 1 %).
//
//   AVX-512, a query over 8 heads of 128 dimensions, us         | 512 keys | 4096 keys
//   stride of 1024 floats, to L1                                | 213      | 1925
//   the same, to L2 (this one)                                  | 208      | 1657
//   the same, all lines of a run at once to L2, none to L1      | 208      | 2030
//   stride of 1040 floats                                       | 164      | 1700
template <class E>
bool rows_share_sets(std::ptrdiff_t stride) {
  return static_cast<std::uintptr_t>(stride) * sizeof(E) % 4096 == 0;
}

// Lines are prefetched to one of these caches, `runs_ahead` runs before they are read. Scattered rows of a large array,
// which no hardware prefetcher begins, need as much time as L2 has room for:
//
//   AVX-512, a query over 8 heads of 128 dimensions of f32 in any order | 4096 keys, 32 MB | 32768 keys, 256 MB
//   to L1, 2 runs ahead                                                 | 1.27 of in order | 1.67
//   to L2, 2 runs ahead                                                 | 1.60             | 1.53
//   to L2, 4 runs ahead (this one, above 48 MB)                         | 1.21             | 1.29
enum class Cache { l1, l2 };
template <std::size_t queries, class E>
RAPT_INNER inline std::size_t runs_ahead(const RowRun<E> &run) {
  if constexpr (queries <= 2) {
    if (run.alone) return 1;
  }
  if (run.to_l2 && run.scattered) return 4;
  return queries <= 4 ? 2 : 4;
}

// Returns the i-th run after `run`, or the last one.
template <class E>
RAPT_INNER inline const RowRun<E> *run_after(const RowRun<E> *run, std::size_t i, const RowRun<E> *last) {
  return static_cast<std::size_t>(last - run) > i ? run + i : last;
}

// Prefetches a line. Rows past the last key have no valid pointers, so the address is an integer.
template <Cache cache>
RAPT_INNER inline void fetch_line(std::uintptr_t at, bool to_l2 = false) {
  if constexpr (cache == Cache::l1) {
    if (to_l2) [[unlikely]]
      return fetch_line<Cache::l2>(at);
  }
  __builtin_prefetch(reinterpret_cast<const void *>(at), 0, cache == Cache::l1 ? 3 : 2);
}

// Prefetches the lines that are `far` bytes after the lines of a run to L2.
template <class E>
[[gnu::noinline, gnu::flatten]] void fetch_far_lines(const RowRun<E> &run) {
  constexpr std::uintptr_t line = 64;
  __asm__ volatile("");  // else gcc 12 drops the call, as a prefetch changes nothing
  const bool dense = run.stride == static_cast<std::ptrdiff_t>(run.dim);
  const std::size_t rows = dense ? 1 : run.rows, bytes = (dense ? run.rows : 1) * run.dim * sizeof(E);
  std::uintptr_t row = reinterpret_cast<std::uintptr_t>(run.first) + run.far;
  for (std::size_t r = 0; r < rows; ++r, row += static_cast<std::uintptr_t>(run.stride) * sizeof(E)) {
    for (std::uintptr_t at = row; at < row + bytes; at += line) fetch_line<Cache::l2>(at);
  }
}

// Prefetches the first two lines of each page of the run that is read 6 runs after `run`. With more than 4
// queries the hardware prefetchers have enough time without this. With 8 queries per key/value head and keys
// in L3, it would cost 2 to 6 %.
template <std::size_t queries, class E>
RAPT_INNER inline void fetch_pages(const RowRun<E> *run, const RowRun<E> *last) {
  if (run->far != 0) [[unlikely]]
    return fetch_far_lines(*run);
  if constexpr (queries > 4) return;
  if (queries <= 2 && run->alone) return;
  if (run_after(run, 6, last)->scattered) [[unlikely]]
    return;
  constexpr std::ptrdiff_t page = 4096;
  constexpr std::uintptr_t line = 64;
  const RowRun<E> &of = *run_after(run, 6, last);
  const std::ptrdiff_t stride = of.stride * static_cast<std::ptrdiff_t>(sizeof(E));
  const std::ptrdiff_t bytes = stride * static_cast<std::ptrdiff_t>(of.rows);
  for (std::ptrdiff_t i = 0; i < bytes; i += stride < page ? page : stride) {
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(of.first) + static_cast<std::uintptr_t>(i);
    fetch_line<Cache::l2>(at);
    fetch_line<Cache::l2>(at + line);
  }
}

// Prefetches the lines of runs in order, for loops that read columns of several rows at a time. It begins
// `runs_ahead` runs after `run`, and repeats the run `last` at the end. With many queries it is so far ahead
// that the lines go to L2, which has room for them.
template <class E, std::size_t queries, Cache cache>
class LinesAhead {
 public:
  LinesAhead(const RowRun<E> *run, const RowRun<E> *last)
      : run_(run_after(run, runs_ahead<queries>(*run), last)), last_(last) {
    begin();
  }

  // Prefetches line `i` of a group of `lines` lines. The address is updated once per group, so that a line
  // costs little more than its prefetch. The last group of a row may reach past its end.
  template <std::size_t i = 0, std::size_t lines = 1>
  RAPT_INNER void fetch() {
    static_assert(i < lines);
    fetch_line<cache>(at_ + i * line, to_l2_);
    if constexpr (i + 1 == lines) {
      at_ += lines * line;
      if (at_ >= end_) next_row();
    }
  }

  const RowRun<E> *last() const { return last_; }

 private:
  static constexpr std::uintptr_t line = 64;

  RAPT_INNER void next_row() {
    at_ += skip_;
    end_ += skip_ + row_;
    if (--left_ > 0) return;
    if (run_->scattered && ++scattered_row_ < run_->rows) [[unlikely]]
      return begin_row(run_->scattered[scattered_row_]);
    if (run_ < last_) ++run_;
    begin();
  }
  RAPT_INNER void begin_row(const E *row) {
    at_ = reinterpret_cast<std::uintptr_t>(row);
    end_ = at_ + row_;
    left_ = 1;
  }
  RAPT_INNER void begin() {
    row_ = run_->dim * sizeof(E);
    to_l2_ = run_->to_l2;
    if (run_->scattered) [[unlikely]] {
      skip_ = 0;
      scattered_row_ = 0;
      return begin_row(run_->scattered[0]);
    }
    at_ = reinterpret_cast<std::uintptr_t>(run_->first);
    skip_ = static_cast<std::uintptr_t>(run_->stride) * sizeof(E) - row_;
    left_ = run_->rows;
    if (skip_ == 0) {  // contiguous rows count as one long row
      row_ *= left_;
      left_ = 1;
    }
    end_ = at_ + row_;
  }

  const RowRun<E> *run_, *last_;
  std::uintptr_t at_, end_, row_, skip_;
  std::size_t left_;
  std::size_t scattered_row_ = 0;
  bool to_l2_;
};

// Prefetches for loops that read rows one after the other, from row `row` of a run and dimension d on. With up to 4
// queries, each row prefetches the same lines of the row `runs_ahead` runs later. With more, a loop reads rows in
// several passes, and each pass prefetches the next lines of `lines`.
template <class E, std::size_t queries>
class RowsAhead {
 public:
  using Lines = LinesAhead<E, queries, Cache::l1>;

  RowsAhead(const RowRun<E> *run, Lines &lines, std::size_t d) : RowsAhead(run_of(run, lines), lines, d, 0) {}
  // For loops that read each row by its address: `of` is run_of() the row's run.
  RowsAhead(const RowRun<E> &of, Lines &lines, std::size_t d, std::size_t row)
      : lines_(lines),
        at_(reinterpret_cast<std::uintptr_t>((row == 0 ? of.first : of.row(row)) + d)),
        stride_(static_cast<std::uintptr_t>(of.stride) * sizeof(E)),
        to_l2_(of.to_l2) {}
  // Returns the run whose rows are prefetched while `run` is read.
  RAPT_INNER static const RowRun<E> &run_of(const RowRun<E> *run, const Lines &lines) {
    return *run_after(run, runs_ahead<queries>(*run), lines.last());
  }
  RAPT_INNER void fetch(std::uintptr_t bytes) {
    if constexpr (queries <= 4) {
      fetch_line<Cache::l1>(at_ + bytes, to_l2_);
    } else {
      lines_.fetch();
    }
  }
  RAPT_INNER void next_row() { at_ += stride_; }

 private:
  Lines &lines_;
  std::uintptr_t at_, stride_;
  bool to_l2_;
};

// Does the work of RowsAhead for a block with scattered rows. `in_passes` says whether the loop reads only some lines
// of each row before the next row. Then it prefetches the next lines of `lines`: memory has all lines of a row in one
// place.
//
//   AVX-512, 4 queries per head over 32768 keys of 128 dimensions of bf16 in any order, time over keys in their order
//   the line that the loop reads 1.88 | the next line 1.53
template <class E, std::size_t queries, bool in_passes>
class ScatteredRowsAhead {
 public:
  using Lines = LinesAhead<E, queries, Cache::l1>;

  ScatteredRowsAhead(const RowRun<E> *run, Lines &lines, std::size_t d)
      : lines_(lines), of_(run_after(run, runs_ahead<queries>(*run), lines.last())), d_(d) {
    begin_row();
  }
  RAPT_INNER void fetch(std::uintptr_t bytes) {
    if constexpr (in_passes) return lines_.fetch();
    fetch_line<Cache::l1>(at_ + bytes, of_->to_l2);
  }
  RAPT_INNER void next_row() {
    if (++row_ < of_->rows) begin_row();
  }

 private:
  RAPT_INNER void begin_row() { at_ = reinterpret_cast<std::uintptr_t>(of_->row(row_) + d_); }

  Lines &lines_;
  const RowRun<E> *of_;
  std::size_t d_, row_ = 0;
  std::uintptr_t at_;
};

// Reads the rows of a run one after the other, from an element on. The rows are scattered, or at a constant distance.
template <class E>
class ScatteredRows {
 public:
  ScatteredRows(const RowRun<E> &run, std::size_t element) : run_(run), element_(element) {}
  RAPT_INNER const E *next() { return run_.row(row_++) + element_; }

 private:
  const RowRun<E> &run_;
  std::size_t element_, row_ = 0;
};
template <class E>
class EvenRows {
 public:
  EvenRows(const RowRun<E> &run, std::size_t element) : row_(run.first + element), stride_(run.stride) {}
  RAPT_INNER const E *next() {
    const E *const row = row_;
    row_ += stride_;
    return row;
  }

 private:
  const E *row_;
  std::ptrdiff_t stride_;
};

}  // namespace
