// What the fields of a call may be: values at a limit, which the library accepts, and values past it, each with the
// status that names the field. The argument tests try each of them, and the fuzzer draws some.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "calls/statuses.hpp"

namespace rapt::test {

// Which functions have a limit: the one that computes, all that look at the work, or all with the options.
enum class Where { call, work, options };

struct Limit {
  const char *field;             // as in rapt.h
  Statuses expected;             // empty: the call succeeds
  std::function<void()> change;  // of a call that is placed
  Where where = Where::call;
};

class Limits {
 public:
  // `values` of an enumeration are integers, because most values past its limits are none of its own.
  template <class V>
  using Value =
      typename std::conditional_t<std::is_enum_v<V>, std::underlying_type<V>, std::type_identity<V>>::type;

  // Says where a field is, so that edge calls can set it.
  template <class V>
  void field(const char *name, V &where) {
    fields_.push_back({name, [&where](long double value) {
                         if constexpr (std::is_pointer_v<V>) {
                           static unsigned char some[64];
                           where = value == 0 ? nullptr : reinterpret_cast<V>(some);
                         } else {
                           // -1 of an unsigned type is its largest number, which a conversion of floats need not be.
                           const bool wraps = std::is_integral_v<Value<V>> && value < 0;
                           const auto number = wraps ? static_cast<Value<V>>(static_cast<std::int64_t>(value))
                                                     : static_cast<Value<V>>(value);
                           std::memcpy(&where, &number, sizeof number);
                         }
                       }});
  }
  template <class V>
  void at(const char *field, V &where, std::initializer_list<Value<V>> values) {
    past(field, where, 0, values);
  }
  template <class V>
  void past(const char *field, V &where, Statuses expected, std::initializer_list<Value<V>> values) {
    this->field(field, where);
    for (const Value<V> value : values)
      add({field, expected, [&where, value] { std::memcpy(&where, &value, sizeof value); }});
  }
  template <class V>
  void past(const char *field, V &where, rapt_status expected, std::initializer_list<Value<V>> values) {
    past(field, where, only(expected), values);
  }
  void add(Limit limit) {
    limit.where = where_;
    all_.push_back(std::move(limit));
  }
  // Says where the limits are that are added from now on.
  void are_of(Where where) { where_ = where; }
  std::vector<Limit> take() { return std::move(all_); }
  // Returns false if no such field has been named.
  bool set(std::string_view name, long double value) const {
    for (const Field &field : fields_) {
      if (name != field.name) continue;
      field.set(value);
      return true;
    }
    return false;
  }

 private:
  struct Field {
    const char *name;
    std::function<void(long double)> set;
  };
  std::vector<Limit> all_;
  std::vector<Field> fields_;
  Where where_ = Where::call;
};

}  // namespace rapt::test
