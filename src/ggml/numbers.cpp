#include "ggml/numbers.hpp"

#include <algorithm>
#include <cstring>

namespace rapt_ggml {

namespace {

constexpr std::size_t generation_rows = std::size_t{1} << 23;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 32;
}

std::uint64_t hash_of(const std::byte *row, std::size_t bytes) {
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  std::size_t i = 0;
  for (; i + 32 <= bytes; i += 32) {
    std::uint64_t words[4];
    std::memcpy(words, row + i, sizeof words);
    for (int lane = 0; lane < 4; ++lane) lanes[lane] = mixed(lanes[lane], words[lane]);
  }
  std::uint64_t rest[4] = {};
  std::memcpy(rest, row + i, bytes - i);
  std::uint64_t hash = bytes;
  for (int lane = 0; lane < 4; ++lane) hash = mixed(mixed(hash, lanes[lane]), rest[lane]);
  return hash;
}

bool is_zero(const std::byte *row, std::size_t bytes) {
  return std::all_of(row, row + bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

void CacheNumbers::write(std::size_t row) {
  rows_[row] = {RowNumber::none, ++clock_};
  fresh_.push_back(static_cast<std::uint32_t>(row));
  next_restored_ = 0;
}

void CacheNumbers::restore(std::size_t first, std::size_t count, const std::byte *data) {
  const SavedNumbers &saved = SavedNumbers::of_process();
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t number = saved.find(data + i * row_bytes_, row_bytes_, next_restored_);
    if (number == RowNumber::none) {
      // llama.cpp 0.6.0 clears what it has restored in vain.
      if (is_zero(data + i * row_bytes_, row_bytes_)) {
        rows_[first + i] = {};
        continue;
      }
      number = next_restored_;
      unknown_origin_ = true;
    }
    rows_[first + i] = {number, ++clock_};
    next_restored_ = number + 1;
  }
}

void CacheNumbers::copy(std::size_t first, std::size_t count, const CacheNumbers &from,
                        std::size_t from_first) {
  for (std::size_t i = 0; i < count; ++i) {
    const RowNumber source = from.rows_[from_first + i];
    // The order of writing means something within one cache only.
    rows_[first + i] = &from == this || source.written == 0 ? source : RowNumber{source.number, ++clock_};
  }
}

void CacheNumbers::erase(std::size_t first, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) rows_[first + i] = {};
}

CacheNumbers *BufferNumbers::find(const void *data) {
  const auto found = caches_.find(data);
  return found == caches_.end() ? nullptr : &found->second;
}

CacheNumbers &BufferNumbers::at(const void *data, std::size_t rows, std::size_t row_bytes) {
  CacheNumbers *const found = find(data);
  if (found && found->row_count() == rows && found->row_bytes() == row_bytes) return *found;
  return caches_.insert_or_assign(data, CacheNumbers(rows, row_bytes)).first->second;
}

void SavedNumbers::save(const std::byte *row, std::size_t bytes, std::uint32_t number) {
  const std::uint64_t hash = hash_of(row, bytes);
  const std::lock_guard lock(mutex_);
  const auto [first, last] = young_.equal_range(hash);
  for (auto i = first; i != last; ++i) {
    if (i->second == number) return;
  }
  if (young_.size() >= generation_rows) old_ = std::exchange(young_, {});
  young_.emplace(hash, number);
}

std::uint32_t SavedNumbers::find(const std::byte *row, std::size_t bytes, std::uint32_t next) const {
  const std::uint64_t hash = hash_of(row, bytes);
  const std::lock_guard lock(mutex_);
  std::uint32_t number = RowNumber::none;
  for (const Generation *generation : {&old_, &young_}) {
    const auto [first, last] = generation->equal_range(hash);
    for (auto i = first; i != last; ++i) {
      number = i->second;
      if (number == next) return number;
    }
  }
  return number;
}

SavedNumbers &SavedNumbers::of_process() {
  static SavedNumbers saved;
  return saved;
}

}  // namespace rapt_ggml
