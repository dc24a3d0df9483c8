// Reads the fuzzer's bytes as a stream of decisions and data.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "support/bits.hpp"
#include "support/elements.hpp"
#include "support/random.hpp"

namespace rapt::test {

class FuzzInput {
 public:
  FuzzInput(const std::uint8_t *bytes, std::size_t size) : at_(bytes), end_(bytes + size) {
    for (std::size_t i = 0; i < size; ++i) hash_ = (hash_ ^ bytes[i]) * 0x100000001b3u;
  }

  std::uint8_t byte() { return at_ == end_ ? 0 : *at_++; }
  bool one_in(unsigned count) { return byte() % count == count - 1; }  // false at the end of the input
  std::size_t below(std::size_t bound) { return (std::size_t{byte()} | std::size_t{byte()} << 8) % bound; }

  template <class T>
  T raw() {
    BitsOf<T> bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) bits |= static_cast<BitsOf<T>>(BitsOf<T>{byte()} << (8 * i));
    return std::bit_cast<T>(bits);
  }

  // Draws a number such as a scale: mostly ordinary, sometimes special or random bits.
  template <class T>
  T number() {
    constexpr double ordinary[] = {1, 0.125, 0.3, -0.7, 1.7, 0, 50, -1};
    const unsigned choice = byte() % 10;
    if (choice == 9) return raw<T>();
    if (choice == 8) return special<T>(byte());
    return static_cast<T>(ordinary[choice]);
  }

  // Fills with random bytes, because every byte is a valid int8.
  void fill(std::int8_t *values, std::size_t count) {
    Random random(hash_ + ++fills_);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::int8_t>(random.next());
  }
  // Fills with bits of the input, special values that the input chooses, random bits, or random numbers.
  template <class T>
  void fill(T *values, std::size_t count) {
    const unsigned kind = byte() % 5;
    Random random(hash_ + ++fills_);
    for (std::size_t i = 0; i < count; ++i) {
      if (kind == 0 && at_ != end_) {
        values[i] = raw<T>();
      } else if (kind == 1 && at_ != end_) {
        values[i] = special<T>(byte());
      } else if (kind == 2) {
        values[i] = std::bit_cast<T>(static_cast<BitsOf<T>>(random.next()));
      } else {
        values[i] = static_cast<T>((kind == 3 ? 2 : 40) * random.gaussian());
        if (random.one_in(64)) values[i] = special<T>(byte());
      }
    }
  }

  template <class T>
  static T special(unsigned choice) {
    using Limits = std::numeric_limits<T>;
    const T values[] = {T(0),
                        -T(0),
                        Limits::infinity(),
                        -Limits::infinity(),
                        Limits::quiet_NaN(),
                        Limits::max(),
                        Limits::lowest(),
                        Limits::min(),
                        Limits::denorm_min(),
                        T(88.72284),
                        T(-103.97),
                        T(709.7827),
                        T(-745.13),
                        T(1),
                        T(-87.33654),
                        Limits::epsilon()};
    return values[choice % 16];
  }

 private:
  const std::uint8_t *at_, *end_;
  std::uint64_t hash_ = 0xcbf29ce484222325u;
  std::uint64_t fills_ = 0;
};

// Calls fuzz(T()) for the element type T that the input chooses.
template <class Fuzz>
void with_element_type(FuzzInput &input, Fuzz &&fuzz) {
  if (input.one_in(2)) {
    fuzz(double{});
  } else {
    fuzz(float{});
  }
}

// Like with_element_type(), but bytes from 0xc0 on choose 16-bit elements. Smaller bytes choose the same
// types as in with_element_type(), so older files of the corpus keep their meaning.
template <class Fuzz>
void with_any_element_type(FuzzInput &input, Fuzz &&fuzz) {
  const unsigned draw = input.byte();
  const bool odd = draw % 2 != 0;
  if (draw < 0xc0) {
    odd ? fuzz(double{}) : fuzz(float{});
  } else {
    odd ? fuzz(BF16{}) : fuzz(F16{});
  }
}

}  // namespace rapt::test
