// Calls implementations of dot_rows, including those that must pack the rows first.
#pragma once

#include <cstddef>
#include <map>
#include <type_traits>

#include "peers/functions.hpp"
#include "support/buffer.hpp"

namespace rapt::bench {

// Holds packed copies of matrices for one implementation at a time. The address of a matrix identifies its
// copy, so copies must not outlive their matrices.
class PackedCopies {
 public:
  template <class T, class Out>
  const void *of(const PackedDotRows<T, Out> &by, const T *rows, std::size_t row_count, std::size_t dim) {
    const auto packer = reinterpret_cast<void (*)()>(by.pack);
    if (packer != packer_) copies_.clear();
    packer_ = packer;
    auto found = copies_.find(rows);
    if (found == copies_.end()) {
      found = copies_.emplace(rows, Buffer<std::byte>(by.bytes(row_count, dim))).first;
      by.pack(rows, row_count, dim, found->second.data());
    }
    return found->second.data();
  }

 private:
  void (*packer_)() = nullptr;
  std::map<const void *, Buffer<std::byte>> copies_;
};

// Holds an implementation. Only one of the two members is set.
template <class T, class Out = T, class Query = T>
struct RowsProduct {
  DotRows<T, Out, Query> plain = nullptr;
  PackedDotRows<T, Out> packed;

  explicit operator bool() const { return plain || packed.multiply; }

  // `rows` are contiguous. If the implementation needs packed rows, the first call packs them.
  void operator()(const Query *query, const T *rows, std::size_t row_count, std::size_t dim, Out scale,
                  Out *out, PackedCopies &copies) const {
    if constexpr (std::is_same_v<T, Query>) {
      if (!plain)
        return packed.multiply(query, copies.of(packed, rows, row_count, dim), row_count, dim, scale, out);
    }
    plain(query, rows, static_cast<std::ptrdiff_t>(dim), row_count, dim, scale, out);
  }
};

}  // namespace rapt::bench
