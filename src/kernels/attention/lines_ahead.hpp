// Keys and values that are read later, brought nearer a line at a time.
//
// A core's own prefetchers stop at the end of a page, and while scores become weights nothing is loaded that
// they could go by. So lines are asked for in the order in which rows will be read, one for each line that is
// worked on, 8 to 32 KB ahead. 8 heads of 128 dimensions with keys in L2, L3, memory, AVX-512, against the
// next rows' lines in the order of a transposition, at most 32 rows ahead and only within keys or values:
// 150, 1245 us, 17.9 ms for 170, 1351, 19.1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_contract.hpp"

namespace {

// 16 rows of keys or values, at one distance from each other.
template <class T>
struct RowGroup {
  static constexpr std::size_t rows = rapt::attention_page_unit;
  const T *first;
  std::ptrdiff_t stride;
  std::size_t dim;
};
inline constexpr std::size_t groups_a_block = rapt::attention_block / rapt::attention_page_unit;

template <class T>
[[gnu::always_inline]] inline const T *row_of(const RowGroup<T> *groups, std::size_t i) {
  const RowGroup<T> &group = groups[i / group.rows];
  return group.first + group.stride * static_cast<std::ptrdiff_t>(i % group.rows);
}

// From `group` to `last`, which is asked for again at the end. One query waits for single lines and wants
// them in L1, 16 at a time. More have their time in arithmetic: in L2 there is room to get further ahead (4
// queries a head, memory: 18.9 ms for 20.4; keys in L2 30.8 us for 32.3 by that).
template <class T, std::size_t queries>
class LinesAhead {
 public:
  LinesAhead(const RowGroup<T> *group, const RowGroup<T> *last)
      : group_(group < last ? group : last), last_(last) {
    begin();
  }

  [[gnu::always_inline]] void fetch() {
    __builtin_prefetch(reinterpret_cast<const void *>(at_), 0, queries <= 2 ? 3 : 2);
    at_ += 64;
    if (at_ < end_) return;
    // Rows that do not exist are asked for like others, so that these are numbers, not pointers.
    at_ = end_ + skip_;
    end_ = at_ + row_;
    if (--left_ > 0) return;
    if (group_ < last_) ++group_;
    begin();
  }

 private:
  [[gnu::always_inline]] void begin() {
    at_ = reinterpret_cast<std::uintptr_t>(group_->first);
    row_ = group_->dim * sizeof(T);
    skip_ = static_cast<std::uintptr_t>(group_->stride) * sizeof(T) - row_;
    end_ = at_ + row_;
    left_ = group_->rows;
  }

  const RowGroup<T> *group_, *last_;
  std::uintptr_t at_, end_, row_, skip_;
  std::size_t left_;
};

}  // namespace
