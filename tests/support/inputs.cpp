#include "support/inputs.hpp"

#include <limits>

#include "support/bits.hpp"

namespace rapt::test {
namespace {

// Random sign and fraction under an exponent field in [lowest, lowest + count).
template <class T>
T with_exponent(Random &random, unsigned lowest, unsigned count) {
  constexpr int fraction_bits = std::numeric_limits<T>::digits - 1;
  const auto sign = static_cast<BitsOf<T>>(random.next() & 1) << (sizeof(T) * 8 - 1);
  const auto exponent = static_cast<BitsOf<T>>(lowest + random.below(count)) << fraction_bits;
  const auto fraction = static_cast<BitsOf<T>>(random.next()) & ((BitsOf<T>{1} << fraction_bits) - 1);
  return from_bits<T>(sign | exponent | fraction);
}

template <class T>
T draw(InputClass input, Random &random) {
  constexpr unsigned infinity_exponent = 2 * std::numeric_limits<T>::max_exponent - 1;
  switch (input) {
    case InputClass::uniform:
      return static_cast<T>(2 * random.uniform() - 1);
    case InputClass::gaussian_wide:
      return static_cast<T>(40 * random.gaussian());
    case InputClass::denormals:
      return random.one_in(8) ? T(0) : with_exponent<T>(random, 0, 1);
    case InputClass::huge:
      return with_exponent<T>(random, infinity_exponent - 8, 8);
    case InputClass::signed_zeros:
      return random.one_in(16) ? (random.one_in(2) ? T(1) : T(-1)) : (random.one_in(2) ? T(0) : -T(0));
    case InputClass::wide_exponents:
      return with_exponent<T>(random, 0, infinity_exponent);
    case InputClass::exp_range:
      return static_cast<T>(sizeof(T) == 4 ? 200 * random.uniform() - 108 : 1472 * random.uniform() - 752);
    case InputClass::minus_infinities:
      if (random.one_in(8)) return -std::numeric_limits<T>::infinity();
      break;
    case InputClass::gaussian:
    case InputClass::specials:
      break;
  }
  return static_cast<T>(2 * random.gaussian());
}

template <class T>
T draw_special(Random &random) {
  using Limits = std::numeric_limits<T>;
  switch (random.below(9)) {
    case 0:
      return Limits::quiet_NaN();
    case 1:
      return -Limits::quiet_NaN();
    case 2:
      return Limits::infinity();
    case 3:
      return -Limits::infinity();
    case 4:
      return -T(0);
    case 5:
      return Limits::max();
    case 6:
      return Limits::lowest();
    case 7:
      return Limits::min();
    default:
      return Limits::denorm_min();
  }
}

}  // namespace

const char *name_of(InputClass input) {
  switch (input) {
    case InputClass::uniform:
      return "uniform";
    case InputClass::gaussian:
      return "gaussian";
    case InputClass::gaussian_wide:
      return "gaussian_wide";
    case InputClass::denormals:
      return "denormals";
    case InputClass::huge:
      return "huge";
    case InputClass::signed_zeros:
      return "signed_zeros";
    case InputClass::wide_exponents:
      return "wide_exponents";
    case InputClass::exp_range:
      return "exp_range";
    case InputClass::minus_infinities:
      return "minus_infinities";
    case InputClass::specials:
      return "specials";
  }
  return "?";
}

template <class T>
void fill(InputClass input, Random &random, std::span<T> values) {
  for (T &value : values) value = draw<T>(input, random);
  if (input != InputClass::specials || values.empty()) return;
  for (std::size_t left = 1 + random.below(3); left > 0; --left) {
    values[random.below(values.size())] = draw_special<T>(random);
  }
}

template <class T>
void fill_probabilities(Random &random, std::span<T> values) {
  const double scale = values.empty() ? 0 : 2.0 / static_cast<double>(values.size());
  for (T &value : values) value = random.one_in(8) ? T(0) : static_cast<T>(random.uniform() * scale);
}

template void fill<float>(InputClass, Random &, std::span<float>);
template void fill<double>(InputClass, Random &, std::span<double>);
template void fill_probabilities<float>(Random &, std::span<float>);
template void fill_probabilities<double>(Random &, std::span<double>);

}  // namespace rapt::test
