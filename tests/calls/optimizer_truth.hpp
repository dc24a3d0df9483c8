// What adamw_step, sgd_step and random should give. The steps are PyTorch's, operation by operation: a sum, product,
// quotient or root of floats is computed in double and rounded, which is the correctly rounded f32 (Figueroa, 1995).
// Random123's known answers are in optimizer_test.cpp.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "calls/optimizer.hpp"
#include "calls/random.hpp"
#include "oracle/bounds.hpp"
#include "validate/accuracy_parts.hpp"

namespace rapt::validate {

// A float whose operations round once, whatever the compiler would fuse.
struct Rounded {
  float value;
  Rounded(double exact) : value(static_cast<float>(exact)) {}
  explicit operator double() const { return value; }
  friend Rounded operator+(Rounded a, Rounded b) { return double{a.value} + double{b.value}; }
  friend Rounded operator-(Rounded a, Rounded b) { return double{a.value} - double{b.value}; }
  friend Rounded operator*(Rounded a, Rounded b) { return double{a.value} * double{b.value}; }
  friend Rounded operator/(Rounded a, Rounded b) { return double{a.value} / double{b.value}; }
};

template <class Options>
void see_step(Worst &worst, const Options &o, Bits got, std::size_t first, std::size_t i, Rounded wanted,
              bool is_param) {
  const std::uint64_t bits = is_param && o.type == RAPT_F16 ? canonical_bits(static_cast<F16>(wanted.value))
                             : is_param && o.type == RAPT_BF16
                                 ? canonical_bits(static_cast<BF16>(wanted.value))
                                 : canonical_bits(wanted.value);
  worst.see(got[first + i] == bits ? 0 : wrong, 1);
}

template <class>
struct AdamwAccuracy {
  static constexpr const char *unit_text = "equal bits";
  static constexpr double bound = 1;

  static Judgement judge(const Problem &problem, Bits bits) {
    const AdamwNumbers numbers = make_adamw_numbers(problem);
    const rapt_adamw_options &o = numbers.options;
    const std::size_t n = o.count;
    const bool in_gradient = o.decay_in_gradient != 0;
    const auto correction = [&](double beta) {
      return 1 - as_double(std::pow(Real{beta}, static_cast<Real>(o.step)));
    };
    const Rounded step_size = -(o.lr / correction(o.beta1)), root = std::sqrt(correction(o.beta2));
    const Rounded weight = 1 - o.beta1, beta2 = o.beta2, rest = 1 - o.beta2, eps = o.eps;
    Worst worst;
    for (std::size_t i = 0; i < n; ++i) {
      Rounded p = numbers.param[i], g = o.maximize ? -numbers.grad[i] : numbers.grad[i];
      if (o.weight_decay != 0 && !in_gradient) p = p * Rounded(1 - o.lr * o.weight_decay);
      if (in_gradient) g = g + Rounded(o.weight_decay) * p;
      Rounded m = numbers.average[i], v = numbers.squares[i];
      m = weight.value < 0.5f ? m + weight * (g - m) : g - (g - m) * (Rounded(1) - weight);
      v = v * beta2 + (rest * g) * g;
      Rounded w = v;
      if (!numbers.most.empty() && !std::isnan(v.value) && !(numbers.most[i] < v.value)) w = numbers.most[i];
      p = p + (step_size * m) / (Rounded(std::sqrt(double{w.value})) / root + eps);
      see_step(worst, o, bits, 0, i, p, true);
      see_step(worst, o, bits, n, i, m, false);
      see_step(worst, o, bits, 2 * n, i, v, false);
      if (!numbers.most.empty()) see_step(worst, o, bits, 3 * n, i, w, false);
    }
    return worst.judgement;
  }
};

template <class>
struct SgdAccuracy {
  static constexpr const char *unit_text = "equal bits";
  static constexpr double bound = 1;

  static Judgement judge(const Problem &problem, Bits bits) {
    const SgdNumbers numbers = make_sgd_numbers(problem);
    const rapt_sgd_options &o = numbers.options;
    Worst worst;
    for (std::size_t i = 0; i < o.count; ++i) {
      Rounded p = numbers.param[i], g = o.maximize ? -numbers.grad[i] : numbers.grad[i];
      if (o.weight_decay != 0) g = g + Rounded(o.weight_decay) * p;
      if (o.momentum != 0) {
        const Rounded before = numbers.average[i];
        const Rounded b = o.first_step ? g : before * Rounded(o.momentum) + Rounded(1 - o.dampening) * g;
        see_step(worst, o, bits, o.count, i, b, false);
        g = o.nesterov ? g + Rounded(o.momentum) * b : b;
      }
      see_step(worst, o, bits, 0, i, p + Rounded(-o.lr) * g, true);
    }
    return worst.judgement;
  }
};

// A word of Philox 4x32-10, by the paper's pseudocode.
inline std::uint32_t philox_word(const rapt_random_options &o, std::uint64_t index) {
  std::uint32_t left[2] = {static_cast<std::uint32_t>(o.stream >> 32),
                           static_cast<std::uint32_t>(index / 4 >> 32)};
  std::uint32_t right[2] = {static_cast<std::uint32_t>(o.stream), static_cast<std::uint32_t>(index / 4)};
  std::uint64_t keys[2] = {o.seed >> 32, o.seed & 0xffffffffu};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t products[2] = {std::uint64_t{0xCD9E8D57u} * right[0],
                                       std::uint64_t{0xD2511F53u} * right[1]};
    right[0] = static_cast<std::uint32_t>(products[1] >> 32 ^ left[0] ^ keys[0]);
    right[1] = static_cast<std::uint32_t>(products[0] >> 32 ^ left[1] ^ keys[1]);
    left[0] = static_cast<std::uint32_t>(products[1]);
    left[1] = static_cast<std::uint32_t>(products[0]);
    keys[0] = (keys[0] + 0xBB67AE85u) & 0xffffffffu;
    keys[1] = (keys[1] + 0x9E3779B9u) & 0xffffffffu;
  }
  const std::uint32_t words[4] = {right[1], left[1], right[0], left[0]};
  return words[index % 4];
}

// Element i of RAPT_RANDOM_UNIFORM.
inline double uniform_element(const rapt_random_options &o, std::uint64_t i) {
  if (o.type != RAPT_F64) return static_cast<double>(philox_word(o, i) >> 8) * 0x1p-24;
  const std::uint64_t high = philox_word(o, 2 * i) >> 5, low = philox_word(o, 2 * i + 1) >> 6;
  return static_cast<double>(high << 26 | low) * 0x1p-53;
}

template <class>
struct RandomAccuracy {
  static constexpr const char *unit_text = "equal bits, of normal numbers the bound of rapt.h";
  static constexpr double bound = 1;

  static Judgement judge(const Problem &problem, Bits bits) {
    const rapt_random_options o = random_options_of(problem);
    Worst worst;
    for (std::size_t i = 0; i < o.count; ++i) {
      const std::uint64_t at = o.offset + i;
      if (o.kind == RAPT_RANDOM_NORMAL) {
        see_normal(worst, o, at, bits[i]);
        continue;
      }
      std::uint64_t wanted;
      if (o.kind == RAPT_RANDOM_KEEP) {
        wanted = static_cast<double>(philox_word(o, at)) < o.probability * 0x1p32;
      } else if (o.type == RAPT_F64) {
        wanted = canonical_bits(uniform_element(o, at));
      } else {
        wanted = canonical_bits(static_cast<float>(uniform_element(o, at)));
      }
      worst.see(bits[i] == wanted ? 0 : wrong, bound);
    }
    return worst.judgement;
  }

 private:
  // The error in units of the bound, with the formula in the oracle's wider numbers.
  static void see_normal(Worst &worst, const rapt_random_options &o, std::uint64_t at, std::uint64_t got) {
    const Real v = Real{uniform_element(o, at - at % 2)}, w = Real{uniform_element(o, at - at % 2 + 1)};
    const Real r = std::sqrt(-2 * std::log(1 - v)), angle = (2 * w - 1) * std::acos(Real{-1});
    const Real wanted = r * (at % 2 == 0 ? std::cos(angle) : std::sin(angle));
    const bool is_f64 = o.type == RAPT_F64;
    const Real number = is_f64 ? Real{std::bit_cast<double>(got)}
                               : Real{std::bit_cast<float>(static_cast<std::uint32_t>(got))};
    const Real most = r * (is_f64 ? test::random_normal_bound<double> * Real{0x1p-53}
                                  : test::random_normal_bound<float> * Real{0x1p-24});
    const double error = as_double(std::abs(number - wanted));
    worst.see(most > 0 ? error / as_double(most) : error == 0 ? 0 : wrong, bound);
  }
};

}  // namespace rapt::validate
