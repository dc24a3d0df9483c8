// Keys and values that are read later, brought nearer a line at a time.
//
// A core's own prefetchers stop at the end of a page, and while scores become weights nothing is loaded that
// they could go by. So lines are asked for in the order in which rows will be read, one for each line that is
// worked on, up to 32 KB ahead. AVX-512, 8 heads of 128 dimensions with keys in L3, in memory, against the
// lines of the next 16 or 32 rows in the order of a transposition, and of keys or of values alone: 1257
// us, 18.3 ms for 1369, 19.2; with 4 queries a head 1449, 19.5 for 1769, 22.2, part of which is
// few_rows.hpp's. With keys packed 1 to 3 % are lost by it (1211, 16.9 for 1189, 16.4) but for 4 queries in
// memory, 18.1 for 22.2.
//
// 16 rows less or more ahead is within 5 %. What is far ahead is better off in L2 (4 queries, memory: 18.9
// for 20.4 ms), what is near in L1 (one query, L3: 1245 for 1311).
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract/attention.hpp"

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
  constexpr std::size_t rows = RowGroup<T>::rows;
  const RowGroup<T> &group = groups[i / rows];
  return group.first + group.stride * static_cast<std::ptrdiff_t>(i % rows);
}

// Into L1, of which 16 lines can be waited for at a time, or into L2, where there is room to get further
// ahead.
enum class Cache { l1, l2 };

// From `group` to `last`, which is asked for again at the end.
template <class T, Cache cache>
class LinesAhead {
 public:
  LinesAhead(const RowGroup<T> *group, const RowGroup<T> *last)
      : group_(group < last ? group : last), last_(last) {
    begin();
  }

  [[gnu::always_inline]] void fetch() {
    __builtin_prefetch(reinterpret_cast<const void *>(at_), 0, cache == Cache::l1 ? 3 : 2);
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
