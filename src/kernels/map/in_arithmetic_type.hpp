// Computes the functions of rapt_map that are a few operations of the arithmetic type (contract/map.hpp), and exp2.
#pragma once

#include <cstddef>

#include "contract/exp_constants.hpp"
#include "kernels/vector/exp.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// F::of(x, ...) returns the result of one vector of each input.
template <class F>
struct EachVector : F {
  static constexpr bool in_double = false;
  using F::F;
  template <class batch, std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    unroll<registers>([&](std::size_t i) RAPT_INNER { x[i] = this->of(x[i]); });
  }
  template <class batch, std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers], const batch (&y)[registers]) const {
    unroll<registers>([&](std::size_t i) RAPT_INNER { x[i] = this->of(x[i], y[i]); });
  }
  template <class batch, std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers], const batch (&y)[registers],
                             const batch (&z)[registers]) const {
    unroll<registers>([&](std::size_t i) RAPT_INNER { x[i] = this->of(x[i], y[i], z[i]); });
  }
};

// The formulas, of vectors of A.
template <class A>
struct Formulas {
  using S = simd<A>;
  using batch = typename S::batch;

  // The upper limit wins where the limits cross, and a NaN stays.
  RAPT_INNER static batch clamped(batch x, batch low, batch high) {
    return S::at_most(high, S::at_least(low, x));
  }
  RAPT_INNER static batch interpolated(batch x, batch y, batch weight) {
    const batch difference = y - x;
    return S::select(S::less(S::abs(weight), batch(A(0.5))), x + weight * difference,
                     y - difference * (batch(A(1)) - weight));
  }
  RAPT_INNER static batch zero_or_nan(batch x) { return S::select(S::unordered(x, x), x, batch(A(0))); }

  struct SquareRoot {
    RAPT_INNER static batch of(batch x) { return S::square_root(x); }
  };
  struct ReciprocalSquareRoot {
    RAPT_INNER static batch of(batch x) { return S::divide(batch(A(1)), S::square_root(x)); }
  };
  struct Reciprocal {
    RAPT_INNER static batch of(batch x) { return S::divide(batch(A(1)), x); }
  };
  struct HardSigmoid {
    RAPT_INNER static batch of(batch x) {
      return S::divide(clamped(x + batch(A(3)), batch(A(0)), batch(A(6))), batch(A(6)));
    }
  };
  struct HardSwish {
    RAPT_INNER static batch of(batch x) {
      return S::divide(x * clamped(x + batch(A(3)), batch(A(0)), batch(A(6))), batch(A(6)));
    }
  };
  struct Clamp {
    batch low, high;
    RAPT_INNER explicit Clamp(const A *parameters) : low(parameters[0]), high(parameters[1]) {}
    RAPT_INNER batch of(batch x) const { return clamped(x, low, high); }
  };
  struct Add {
    RAPT_INNER static batch of(batch x, batch y) { return x + y; }
  };
  struct Subtract {
    RAPT_INNER static batch of(batch x, batch y) { return x - y; }
  };
  struct Multiply {
    RAPT_INNER static batch of(batch x, batch y) { return x * y; }
  };
  struct Divide {
    RAPT_INNER static batch of(batch x, batch y) { return S::divide(x, y); }
  };
  struct AddScaled {
    batch a;
    RAPT_INNER explicit AddScaled(const A *parameters) : a(parameters[0]) {}
    RAPT_INNER batch of(batch x, batch y) const { return x + a * y; }
  };
  struct FusedMultiplyAdd {
    RAPT_INNER static batch of(batch x, batch y, batch z) { return S::fma(x, y, z); }
  };
  struct AddProduct : AddScaled {
    using AddScaled::AddScaled;
    RAPT_INNER batch of(batch x, batch y, batch z) const { return x + this->a * y * z; }
  };
  struct AddQuotient : AddScaled {
    using AddScaled::AddScaled;
    RAPT_INNER batch of(batch x, batch y, batch z) const { return x + S::divide(this->a * y, z); }
  };
  struct Interpolate {
    RAPT_INNER static batch of(batch x, batch y, batch z) { return interpolated(x, y, z); }
  };
  struct InterpolateAt : AddScaled {
    using AddScaled::AddScaled;
    RAPT_INNER batch of(batch x, batch y) const { return interpolated(x, y, this->a); }
  };
  struct SigmoidBackward {
    RAPT_INNER static batch of(batch x, batch dy) { return dy * (batch(A(1)) - x) * x; }
  };
  struct TanhBackward {
    RAPT_INNER static batch of(batch x, batch dy) { return dy * (batch(A(1)) - x * x); }
  };
  struct HardSigmoidBackward {
    RAPT_INNER static batch of(batch x, batch dy) {
      return S::select(S::less(S::abs(x), batch(A(3))), S::divide(dy, batch(A(6))), zero_or_nan(x));
    }
  };
  struct HardSwishBackward {
    RAPT_INNER static batch of(batch x, batch dy) {
      const batch three(A(3)), middle = dy * (S::divide(x, three) + batch(A(0.5)));
      const batch above = S::select(S::less(three, x), dy, middle);
      return S::select(S::unordered(x, x), x, S::select(S::less(x, batch(A(-3))), batch(A(0)), above));
    }
  };
  struct ClampBackward : Clamp {
    using Clamp::Clamp;
    RAPT_INNER batch of(batch x, batch dy) const {
      const auto outside = S::either(S::less(x, this->low), S::less(this->high, x));
      return S::select(S::either(outside, S::unordered(x, x)), zero_or_nan(x), dy);
    }
  };
};

template <class A>
struct PowerOf2 {
  static constexpr bool in_double = false;
  Exp<A, rapt::Exp2Contract<A>> exp{exp2_constants<A>()};
  template <std::size_t registers>
  RAPT_INNER void operator()(typename simd<A>::batch (&x)[registers]) const {
    exp(x);
  }
};

}  // namespace
