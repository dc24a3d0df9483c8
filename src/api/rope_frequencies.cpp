// Implements rapt_rope_frequencies. It is the same on every level, and takes nothing from the C library.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "api/floating_point.hpp"
#include "api/numbers.hpp"
#include "api/read_options.hpp"
#include "api/strided.hpp"
#include "contract/exp.hpp"
#include "contract/fused.hpp"
#include "contract/log.hpp"

namespace rapt {
namespace {

constexpr double two_pi = 0x1.921fb54442d18p2;
constexpr double largest_base = 0x1p512;

// A number is the sum of two doubles, the second of which is small.
struct Two {
  double high, low;
};

// Returns log2(x), with an error of about 2^-58 times that of its mantissa.
Two log2_of(double x) {
  constexpr double two_log2_e = 0x1.71547652b82fep1, two_log2_e_low = 0x1.777d0ffda0d24p-55;
  const Scaled parts(x);
  // s = (m - 1) / (m + 1) as two doubles. m - 1 is exact.
  const double m = parts.mantissa, numerator = m - 1, sum = m + 1, sum_low = m - (sum - 1);
  const double s = numerator / sum, s_low = (fused(-s, sum, numerator) - s * sum_low) / sum;
  const double excess = s_low + s * artanh_excess(s * s);
  const double high = s * two_log2_e;
  const double low = fused(s, two_log2_e, -high) + s * two_log2_e_low + excess * two_log2_e;
  // Each sum is that of a larger and a smaller number, whose rounding error is exact (Dekker's fast two-sum).
  const double most = parts.exponent + high, rest = (parts.exponent - most) + high + low;
  const double all = most + rest;
  return {all, rest - (all - most)};
}

// Returns 2^-(q + q_low) for 0 <= q <= 512 and a tiny q_low.
double power_of_half(double q, double q_low) {
  using C = ExpContract<double>;
  const double n = (q + C::round_magic) - C::round_magic, f = n - q;
  const double w = f * C::ln2_hi, w_low = fused(f, C::ln2_hi, -w) + (f * C::ln2_lo - q_low * C::ln2_hi);
  double p = C::c[C::coefficient_count - 1];
  for (std::size_t i = C::coefficient_count - 1; i-- > 0;) p = fused(p, w, C::c[i]);
  // exp(w + w_low) = 1 + x + w_low * (1 + x), where x = exp(w) - 1
  const double x = fused(w * w, p, w), e = 1 + (w + fused(w * w, p, w_low + w_low * x));
  const auto power = static_cast<std::uint64_t>(1023 - static_cast<std::int64_t>(n)) << C::mantissa_bits;
  return e * __builtin_bit_cast(double, power);
}

double floor_of(double x) {
  if (!(std::fabs(x) < 0x1p52)) return x;
  const auto integer = static_cast<double>(static_cast<std::int64_t>(x));
  return integer > x ? integer - 1 : integer;
}
double ceil_of(double x) { return -floor_of(-x); }

// Computes the frequencies. The options must have been checked.
class Frequencies {
 public:
  explicit Frequencies(const rapt_rope_frequency_options &o)
      : o_(o), length_(static_cast<double>(o.original_max_position_embeddings)), log2_base_(log2_of(o.base)) {
    if (o.scaling != RAPT_ROPE_SCALING_YARN) return;
    low_ = dim_of(o.beta_fast);
    high_ = dim_of(o.beta_slow);
    if (!o.no_truncate) {
      low_ = floor_of(low_);
      high_ = ceil_of(high_);
    }
    const double last = static_cast<double>(o.rotary_dim - 1);
    if (!(low_ > 0)) low_ = 0;
    if (!(high_ < last)) high_ = last;
    if (low_ == high_) high_ += 0.001;
  }

  double operator[](std::size_t i) const {
    const double f = plain(static_cast<double>(i));
    switch (o_.scaling) {
      case RAPT_ROPE_SCALING_LINEAR:
        return f / o_.factor;
      case RAPT_ROPE_SCALING_LLAMA3:
        return llama3(f);
      case RAPT_ROPE_SCALING_YARN:
        return yarn(f, static_cast<double>(i));
      default:
        return f;
    }
  }

  double attention_factor() const {
    if (o_.scaling != RAPT_ROPE_SCALING_YARN) return 1;
    return o_.mscale == 0 ? magnitude(1) : magnitude(o_.mscale) / magnitude(o_.mscale_all_dim);
  }

 private:
  // Returns base^(-i / half). The exponent i * log2(base) / half has two doubles.
  double plain(double i) const {
    const double half = static_cast<double>(o_.rotary_dim / 2);
    const double p = i * log2_base_.high, p_low = fused(i, log2_base_.high, -p) + i * log2_base_.low;
    const double q = p / half, q_low = (fused(-q, half, p) + p_low) / half;
    return power_of_half(q, q_low);
  }
  double llama3(double f) const {
    const double wave = two_pi / f, low = o_.low_freq_factor, high = o_.high_freq_factor;
    if (wave < length_ / high) return f;
    if (wave > length_ / low) return f / o_.factor;
    const double s = (length_ / wave - low) / (high - low);
    return (1 - s) * f / o_.factor + s * f;
  }
  double yarn(double f, double i) const {
    double ramp = (i - low_) / (high_ - low_);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    const double e = 1 - ramp;
    return (f / o_.factor) * (1 - e) + f * e;
  }
  // Returns the index of the pair that turns this often in the original length.
  double dim_of(double turns) const {
    return static_cast<double>(o_.rotary_dim) * log_of_sum(length_ / (turns * two_pi)) /
           (2 * log_of_sum(o_.base));
  }
  double magnitude(double mscale) const {
    return o_.factor <= 1 ? 1 : 0.1 * mscale * log_of_sum(o_.factor) + 1;
  }

  const rapt_rope_frequency_options &o_;
  double length_;
  Two log2_base_;
  double low_ = 0, high_ = 0;
};

// Bounds keep quotients of these numbers normal.
bool is_positive(double x) { return x >= 0x1p-256 && x <= 0x1p256; }

// Fills in a field that only one scaling has. Returns false if it is set for another.
bool resolve_field(double &field, bool is_used, double by_default) {
  if (!is_used) return field == 0;
  if (field == 0) field = by_default;
  return is_positive(field);
}

rapt_status resolve(rapt_rope_frequency_options &o) {
  if (o.rotary_dim == 0 || o.rotary_dim % 2 != 0) return RAPT_BAD_ROTARY_DIM;
  if (o.base == 0) o.base = 10000;
  if (!(o.base > 1 && o.base <= largest_base)) return RAPT_BAD_BASE;
  if (o.scaling < RAPT_ROPE_SCALING_NONE || o.scaling > RAPT_ROPE_SCALING_YARN) return RAPT_BAD_SCALING;
  const bool is_llama3 = o.scaling == RAPT_ROPE_SCALING_LLAMA3, is_yarn = o.scaling == RAPT_ROPE_SCALING_YARN;
  const bool has_factor = o.scaling != RAPT_ROPE_SCALING_NONE;
  if (has_factor ? !is_positive(o.factor) : o.factor != 0) return RAPT_BAD_SCALING_FACTOR;
  if ((is_llama3 || is_yarn) != (o.original_max_position_embeddings != 0)) return RAPT_BAD_ORIGINAL_LENGTH;
  if (!resolve_field(o.low_freq_factor, is_llama3, 1) || !resolve_field(o.high_freq_factor, is_llama3, 4) ||
      (is_llama3 && o.high_freq_factor <= o.low_freq_factor)) {
    return RAPT_BAD_FREQ_FACTORS;
  }
  if (!resolve_field(o.beta_fast, is_yarn, 32) || !resolve_field(o.beta_slow, is_yarn, 1) ||
      (is_yarn && o.beta_fast <= o.beta_slow)) {
    return RAPT_BAD_BETAS;
  }
  if (o.no_truncate && !is_yarn) return RAPT_BAD_TRUNCATE;
  const bool has_mscale = o.mscale != 0 || o.mscale_all_dim != 0;
  if (has_mscale && !(is_yarn && is_positive(o.mscale) && is_positive(o.mscale_all_dim)))
    return RAPT_BAD_MSCALE;
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_rope_frequencies(double *frequencies, double *attention_factor,
                                  const rapt_rope_frequency_options *options) {
  return in_default_mode([&] {
    if (!options) return RAPT_BAD_OPTIONS;
    rapt_rope_frequency_options o;
    rapt_status status = read_options(options, o);
    if (status == RAPT_OK) status = resolve(o);
    if (status != RAPT_OK) return status;
    if (!frequencies) return RAPT_BAD_FREQUENCIES;
    const std::size_t count = o.rotary_dim / 2;
    Strided all(frequencies, count, sizeof(double)), factor(attention_factor, 1, sizeof(double));
    if (!all.measure() || !factor.measure()) return RAPT_BAD_SIZE;
    if (all.overlaps(factor)) return RAPT_BAD_OVERLAP;
    const Frequencies made(o);
    for (std::size_t i = 0; i < count; ++i) frequencies[i] = made[i];
    if (attention_factor) *attention_factor = made.attention_factor();
    return RAPT_OK;
  });
}
