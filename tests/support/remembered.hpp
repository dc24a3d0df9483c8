// Remembers the last result. Each problem runs on all levels in turn, and making its inputs takes longer than
// running it.
#pragma once

#include <optional>

namespace rapt::test {

// Returns make(), or its last result if the key is equal. The result is valid until the next call with
// another key. Each `make` has a separate memory, because each lambda has a different type.
template <class Key, class Make>
const auto &remembered(const Key &key, const Make &make) {
  using Made = decltype(make());
  thread_local std::optional<Key> last_key;
  thread_local std::optional<Made> last_made;
  if (last_key != key) {
    last_made = make();
    last_key = key;
  }
  return *last_made;
}

}  // namespace rapt::test
