// Lists the names of an enumeration's values, in their order. Each enumeration with names specialises
// names_of.
#pragma once

#include <array>
#include <cstddef>

namespace rapt::test {

template <class Enum>
inline constexpr std::nullptr_t names_of = nullptr;

template <class Enum>
constexpr const char *name_of(Enum value) {
  return names_of<Enum>[static_cast<std::size_t>(value)];
}

}  // namespace rapt::test
