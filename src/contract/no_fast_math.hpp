// Stops the compilation under flags that would change results. The project's own build sets its flags after
// all others. These checks protect builds that compile the sources in another way.
#pragma once

#if defined(__FAST_MATH__) || __FINITE_MATH_ONLY__ + 0 != 0 || defined(__ASSOCIATIVE_MATH__) || \
    defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error "rapt: -ffast-math, or a part of it, would change results"
#endif

#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "rapt: float is computed in another precision here (x87?), which would change results"
#endif
