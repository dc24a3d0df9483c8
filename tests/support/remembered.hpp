// Caches the last result of a function. Each problem runs on all levels in turn, and making its inputs takes
// longer than running it.
#pragma once

#include <optional>

namespace rapt::test {

// Returns make(), or its last result if `key` is unchanged. The result is valid until the next call with
// another key. Each lambda has a separate cache, because each has a different type.
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
