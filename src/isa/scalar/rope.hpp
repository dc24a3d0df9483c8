// Implements the scalar reference of rope. The code spells out the order of every operation
// (contract/rope.hpp).
#pragma once

#include <cstddef>

#include "call/rope_call.hpp"
#include "contract/fused.hpp"
#include "contract/rope.hpp"
#include "contract/types.hpp"

namespace {

template <std::size_t count>
double polynomial(const double (&coefficients)[count], double z) {
  double sum = coefficients[count - 1];
  for (std::size_t i = count - 1; i-- > 0;) sum = fused(sum, z, coefficients[i]);
  return sum;
}

// Holds the sine and the cosine of an angle.
template <class A>
struct Turn {
  double sine, cosine;

  Turn(double position, double frequency) {
    using C = rapt::RopeContract<A>;
    const double angle = position * frequency;
    const double n = fused(angle, C::two_over_pi, C::magic) - C::magic;
    const double r = fused(-n, C::half_pi_low, fused(-n, C::half_pi, angle)), z = r * r;
    const double s = fused(r * z, polynomial(C::s, z), r), c = fused(z, polynomial(C::c, z), 1.0);
    switch (static_cast<long long>(n) & 3) {
      case 0:
        sine = s, cosine = c;
        break;
      case 1:
        sine = c, cosine = -s;
        break;
      case 2:
        sine = -s, cosine = -c;
        break;
      default:
        sine = -c, cosine = s;
    }
  }
};

template <class E>
void rope(const rapt::RopeCall *call) {
  using A = rapt::Arithmetic<E>;
  const rapt_rope_options &o = call->options;
  const std::size_t pairs = call->pairs();
  const bool in_halves = o.layout == RAPT_ROPE_HALVES;
  for (std::size_t item = 0; item < o.batch; ++item) {
    for (std::size_t token = 0; token < o.tokens; ++token) {
      for (std::size_t i = 0; i < pairs; ++i) {
        const Turn<A> turn(call->position(item, token), o.frequencies[i]);
        const A sine = static_cast<A>(turn.sine * call->sine_factor()),
                cosine = static_cast<A>(turn.cosine * o.attention_factor);
        const std::size_t first = in_halves ? i : 2 * i, second = in_halves ? i + pairs : 2 * i + 1;
        for (std::size_t head = 0; head < o.heads; ++head) {
          const E *const x = call->x_at<E>(item, head, token);
          E *const y = call->y_at<E>(item, head, token);
          const A a = rapt::widened(x[first]), b = rapt::widened(x[second]);
          y[first] = rapt::narrowed<E>(fused(a, cosine, -(b * sine)));
          y[second] = rapt::narrowed<E>(fused(a, sine, b * cosine));
        }
      }
      for (std::size_t head = 0; head < o.heads; ++head) {
        for (std::size_t i = o.rotary_dim; i < o.head_dim; ++i) {
          call->y_at<E>(item, head, token)[i] = call->x_at<E>(item, head, token)[i];
        }
      }
    }
  }
}

}  // namespace
