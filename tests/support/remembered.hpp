// What was made last: the levels run a problem one after the other, and making its inputs takes longer than
// running it.
#pragma once

#include <optional>

namespace rapt::test {

// make(), or what it returned last if that was for an equal key. Valid until the next call with another key.
// Each `make` has its own memory, as its type is its own.
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
