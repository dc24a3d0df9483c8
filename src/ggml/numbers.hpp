// The numbers of the rows of a K cache, by which attention counts blocks of 64 keys and chunks of 512.
//
// A cache gives a key any free cell, so cells do not say which key of its sequence a key is. The number does: it is 1 +
// the largest number among the earlier-written cells that the row's own query sees, or 0 if there is none. In a cache
// of its own that is the position of a sequence that begins at 0. Numbers belong to the memory of the cache: whatever
// moves rows moves them, and whatever clears rows erases them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rapt_ggml {

struct RowNumber {
  static constexpr std::uint32_t none = UINT32_MAX;

  std::uint32_t number = none;
  std::uint32_t written = 0;  // the turn of the cache's clock at which the row was written; 0: never

  friend bool operator==(const RowNumber &, const RowNumber &) = default;
};

// The rows of one cache tensor.
class CacheNumbers {
 public:
  CacheNumbers(std::size_t rows, std::size_t row_bytes) : rows_(rows), row_bytes_(row_bytes) {}

  std::size_t row_count() const { return rows_.size(); }
  std::size_t row_bytes() const { return row_bytes_; }
  RowNumber *row(std::size_t i) { return &rows_[i]; }
  const RowNumber *row(std::size_t i) const { return &rows_[i]; }

  // Rows that were written since the last attention over the cache, in the order of writing. They have no number yet.
  const std::vector<std::uint32_t> &fresh() const { return fresh_; }
  void forget_fresh() { fresh_.clear(); }

  // A row gets new contents. What its query sees will say its number.
  void write(std::size_t row);
  // Rows are put back from `data`. Where SavedNumbers does not know a row, its number follows that of the row before.
  void restore(std::size_t first, std::size_t count, const std::byte *data);
  // Rows get the contents of rows of `from`, which may be this cache.
  void copy(std::size_t first, std::size_t count, const CacheNumbers &from, std::size_t from_first);
  void erase(std::size_t first, std::size_t count);

  // Whether a row was put back that SavedNumbers did not know, until this question is asked.
  bool take_unknown_origin() { return std::exchange(unknown_origin_, false); }

 private:
  std::vector<RowNumber> rows_;
  std::vector<std::uint32_t> fresh_;
  std::size_t row_bytes_;
  std::uint32_t clock_ = 0;
  std::uint32_t next_restored_ = 0;
  bool unknown_origin_ = false;
};

// The caches of one buffer, by the address of the tensor that owns the memory.
class BufferNumbers {
 public:
  CacheNumbers *find(const void *data);
  CacheNumbers &at(const void *data, std::size_t rows, std::size_t row_bytes);
  void erase_all() { caches_.clear(); }

 private:
  std::map<const void *, CacheNumbers> caches_;
};

// Rows that a program has read out of caches, to put them back later: llama.cpp saves the state of a sequence so. The
// hash of a row's bytes finds its number again. Of two generations of 8 million rows the older one is forgotten.
class SavedNumbers {
 public:
  void save(const std::byte *row, std::size_t bytes, std::uint32_t number);

  // Returns RowNumber::none for an unknown row. Where equal rows had several numbers, it returns `next` if that is one
  // of them.
  std::uint32_t find(const std::byte *row, std::size_t bytes, std::uint32_t next) const;

  static SavedNumbers &of_process();

 private:
  using Generation = std::unordered_multimap<std::uint64_t, std::uint32_t>;

  mutable std::mutex mutex_;
  Generation young_, old_;
};

}  // namespace rapt_ggml
