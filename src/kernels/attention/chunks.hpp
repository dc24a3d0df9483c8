// A tile goes through its keys chunk by chunk, and through a chunk block by block.
#pragma once

#include <cstddef>

#include "call/attention_tile.hpp"
#include "contract/attention.hpp"

namespace {

// Calls f(first, end, is_first) for each chunk of the keys [begin, end) in which a row sees a key. `begin`
// must be the first key of a chunk. `first` is the first key of the first block in which a row sees a key.
template <class F>
[[gnu::always_inline]] inline void each_chunk(AttentionTile::Range seen, std::size_t begin, std::size_t end,
                                              F f) {
  constexpr std::size_t block = rapt::attention_block, chunk = rapt::attention_chunk;
  if (begin < seen.first) begin = seen.first / chunk * chunk;
  if (end > seen.end) end = seen.end;
  for (std::size_t key = begin; key < end; key += chunk) {
    f(key < seen.first ? seen.first / block * block : key, end - key < chunk ? end : key + chunk,
      key == begin);
  }
}

}  // namespace
