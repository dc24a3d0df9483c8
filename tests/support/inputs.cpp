#include "support/inputs.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "support/bits.hpp"
#include "support/elements.hpp"

namespace rapt::test {
namespace {

template <class T>
T of_bits(std::uint64_t bits) {
  return from_bits<T>(static_cast<BitsOf<T>>(bits));
}

// Returns a number with a random sign and fraction, and an exponent field in [lowest, lowest + count).
template <class T>
T with_exponent(Random &random, unsigned lowest, unsigned count) {
  constexpr int fraction_bits = std::numeric_limits<T>::digits - 1;
  const std::uint64_t sign = (random.next() & 1) << (sizeof(T) * 8 - 1);
  const std::uint64_t exponent = (lowest + random.below(count)) << fraction_bits;
  const std::uint64_t fraction = random.next() & ((std::uint64_t{1} << fraction_bits) - 1);
  return of_bits<T>(sign | exponent | fraction);
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
      return static_cast<T>(sizeof(T) == 8 ? 1472 * random.uniform() - 752 : 200 * random.uniform() - 108);
    case InputClass::minus_infinities:
      if (random.one_in(8)) return -std::numeric_limits<T>::infinity();
      break;
    case InputClass::gaussian:
    case InputClass::specials:
    case InputClass::odd_rows:
    case InputClass::losing:
    case InputClass::far_scores:
    case InputClass::tiny_rows:
    case InputClass::bad_values:
    case InputClass::bad_keys:
    case InputClass::bad_queries:
    case InputClass::bad_dout:
    case InputClass::periodic:
    case InputClass::nans:
    case InputClass::tiny_queries:
    case InputClass::rising:
      break;
    case InputClass::largest:
      return std::numeric_limits<T>::max();
  }
  return static_cast<T>(2 * random.gaussian());
}

// In f64, 2048 terms of exp(-41.49) add 0.55 ulp of 1 to each of 16 lane sums. Lane 0 already holds exp(0) =
// 1, so each such addition rounds up to a whole ulp. Rows above 131072 columns are summed in one pass, so
// they get a larger maximum in the last third.
template <class T>
void make_losing(std::span<T> values) {
  for (T &value : values) value = static_cast<T>(-41.49352);
  values[0] = T(0);
  if (values.size() > 131072) values[values.size() - values.size() / 3] = T(1);
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

// Draws a NaN with a random payload. In half of the draws the upper half of the payload is 0.
template <class T>
T draw_nan(Random &random) {
  constexpr std::uint64_t infinity_bits = std::bit_cast<BitsOf<T>>(std::numeric_limits<T>::infinity());
  constexpr int fraction_bits = std::numeric_limits<T>::digits - 1;
  const std::uint64_t sign = (random.next() & 1) << (sizeof(T) * 8 - 1);
  const int bits = random.one_in(2) ? fraction_bits : fraction_bits / 2;
  const std::uint64_t payload = random.next() & ((std::uint64_t{1} << bits) - 1);
  return of_bits<T>(sign | infinity_bits | (payload == 0 ? 1 : payload));
}

// Lists rows that softmax may have to treat specially: with NaNs, infinities, or magnitudes near `large`.
// From `large` on, kernels subtract the maximum.
enum class OddRow : std::size_t {
  nan,
  nan_with_payload,
  signalling_nan,
  nan_among_minus_infinities,
  infinity,
  infinity_and_nan,
  infinity_among_minus_infinities,
  minus_infinity,
  all_minus_infinity,
  one_above_minus_infinity,
  huge,
  largest,
  all_lowest,
  all_very_low,
  large,
  almost_large,
  all_minus_large,
  all_almost_minus_large,
  zeros,
  far_apart,
  denormals,
};
constexpr std::size_t odd_row_kinds = static_cast<std::size_t>(OddRow::denormals) + 1;

// Turns a row of ordinary values into an odd row. If the kind has one odd element, it is at `place`.
template <class T>
void make_odd(std::size_t kind, std::size_t place, double large, std::span<T> row) {
  using Limits = std::numeric_limits<T>;
  constexpr BitsOf<T> infinity_bits = std::bit_cast<BitsOf<T>>(Limits::infinity());
  constexpr std::uint64_t sign_bit = std::uint64_t{1} << (sizeof(T) * 8 - 1);
  const std::size_t next = (place + 1) % row.size();
  const T limit = static_cast<T>(large), below = static_cast<T>(large * (1 - 0x1p-20));
  const auto set_all = [&](auto &&value_at) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = value_at(i);
  };
  const auto all = [&](T value) { set_all([=](std::size_t) { return value; }); };
  switch (static_cast<OddRow>(kind)) {
    case OddRow::nan:
      row[place] = Limits::quiet_NaN();
      break;
    case OddRow::nan_with_payload:
      row[place] = of_bits<T>(std::numeric_limits<BitsOf<T>>::max() ^ 0x5a5);
      break;
    case OddRow::signalling_nan:
      row[place] = of_bits<T>((infinity_bits + std::uint64_t{1}) | (place % 2 == 0 ? sign_bit : 0));
      break;
    case OddRow::nan_among_minus_infinities:
      all(-Limits::infinity());
      row[place] = of_bits<T>((infinity_bits | infinity_bits >> 1) + 3 * place);
      break;
    case OddRow::infinity_and_nan:
      row[next] = -Limits::quiet_NaN();
      [[fallthrough]];
    case OddRow::infinity:
      row[place] = Limits::infinity();
      break;
    case OddRow::infinity_among_minus_infinities:
      all(-Limits::infinity());
      row[place] = Limits::infinity();
      break;
    case OddRow::minus_infinity:
      row[place] = -Limits::infinity();
      break;
    case OddRow::all_minus_infinity:
      all(-Limits::infinity());
      break;
    case OddRow::one_above_minus_infinity:
      all(-Limits::infinity());
      row[place] = T(-3);
      break;
    case OddRow::huge:
      row[place] = static_cast<T>(1e30);
      break;
    case OddRow::largest:
      row[place] = Limits::max();
      if (next != place) row[next] = Limits::lowest();
      break;
    case OddRow::all_lowest:
      all(Limits::lowest());
      break;
    case OddRow::all_very_low:
      set_all([&](std::size_t i) {
        return static_cast<T>(-limit * static_cast<T>(1 + 0x1p-10 * static_cast<double>(i)));
      });
      break;
    case OddRow::large:
      row[place] = limit;
      break;
    case OddRow::almost_large:
      row[place] = below;
      break;
    case OddRow::all_minus_large:
      all(-limit);
      break;
    case OddRow::all_almost_minus_large:
      all(-below);
      break;
    case OddRow::zeros:
      set_all([](std::size_t i) { return i % 3 == 1 ? -T(0) : T(0); });
      break;
    case OddRow::far_apart:
      set_all([](std::size_t i) {
        return static_cast<T>(static_cast<double>(-((i * 37) % 128)) * (sizeof(T) == 8 ? 8 : 1));
      });
      break;
    case OddRow::denormals:
      set_all([](std::size_t i) { return of_bits<T>(i * 99 + 1); });
      break;
  }
}

}  // namespace

template <class T>
void fill(InputClass input, Random &random, std::span<T> values) {
  const bool is_rising = input == InputClass::rising;
  const bool is_periodic = input == InputClass::periodic || input == InputClass::nans || is_rising;
  const std::size_t period = is_periodic ? 2039 : values.size();
  for (T &value : values.first(std::min(period, values.size()))) value = draw<T>(input, random);
  for (std::size_t i = period; i < values.size(); ++i) {
    values[i] = is_rising ? static_cast<T>(values[i - period] + T(0.1)) : values[i - period];
  }
  if (values.empty()) return;
  if (input == InputClass::losing) make_losing(values);
  if (input == InputClass::odd_rows && random.one_in(8)) {
    const std::size_t kind = random.below(odd_row_kinds);
    make_odd<T>(kind, random.below(values.size()), 65536, values);
  }
  if (input != InputClass::specials && input != InputClass::nans) return;
  for (std::size_t left = 1 + random.below(3); left > 0; --left) {
    const T value = input == InputClass::nans ? draw_nan<T>(random) : draw_special<T>(random);
    values[random.below(values.size())] = value;
  }
}

// Fills with random bytes. signed_zeros has mostly zeros. huge, specials and largest have only the bytes that
// give the largest products.
template <class T>
void fill_bytes(InputClass input, Random &random, std::span<T> values) {
  const bool largest = input == InputClass::huge || input == InputClass::specials;
  for (T &value : values) {
    value = static_cast<T>(random.next());
    if (largest) value = random.one_in(8) ? std::numeric_limits<T>::max() : static_cast<T>(0x80);
    if (std::is_unsigned_v<T> && largest) value = static_cast<T>(value | 0x7f);
    if (input == InputClass::largest) value = std::numeric_limits<T>::max();
    if (input == InputClass::signed_zeros && !random.one_in(16)) value = 0;
  }
}
template <>
void fill(InputClass input, Random &random, std::span<std::int8_t> values) {
  fill_bytes(input, random, values);
}
template <>
void fill(InputClass input, Random &random, std::span<std::uint8_t> values) {
  fill_bytes(input, random, values);
}

template <class T>
void fill_probabilities(Random &random, std::span<T> values) {
  const double scale = values.empty() ? 0 : 2.0 / static_cast<double>(values.size());
  for (T &value : values) value = random.one_in(8) ? T(0) : static_cast<T>(random.uniform() * scale);
}

template void fill(InputClass, Random &, std::span<float>);
template void fill(InputClass, Random &, std::span<double>);
template void fill(InputClass, Random &, std::span<F16>);
template void fill(InputClass, Random &, std::span<BF16>);
template void fill_probabilities(Random &, std::span<float>);
template void fill_probabilities(Random &, std::span<double>);
template void fill_probabilities(Random &, std::span<F16>);
template void fill_probabilities(Random &, std::span<BF16>);

}  // namespace rapt::test
