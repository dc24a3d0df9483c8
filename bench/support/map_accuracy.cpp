#include "support/map_accuracy.hpp"

#include <algorithm>
#include <cmath>

#include "validate/accuracy_map.hpp"

namespace rapt::bench {

template <class T>
Buffer<T> map_inputs(rapt_map_function function, std::size_t n, std::size_t array) {
  Buffer<T> made = logits<T>(n, 0, array);
  const bool is_positive = function == RAPT_MAP_LOG || function == RAPT_MAP_LOG2 ||
                           function == RAPT_MAP_LOG1P || function == RAPT_MAP_SQRT ||
                           (function == RAPT_MAP_POW && array == 0);
  for (T &x : made.elements()) {
    if (is_positive) x = std::fabs(x) + T(0x1p-10);
  }
  return made;
}

template <class T>
double map_function_error(rapt_map_function function, TwoToOne<T> map) {
  constexpr std::size_t n = 20000;
  double worst = 0;
  for (const T factor : {T(1), T(50)}) {
    Buffer<T> x = map_inputs<T>(function, n, 0), y = map_inputs<T>(function, n, 1), out(n);
    for (T &number : x.elements()) number *= factor;
    map(x.data(), y.data(), out.data(), n);
    for (std::size_t i = 0; i < n; ++i) {
      const validate::MapTruth truth{x.data()[i], y.data()[i], 0, 1, 20, 1};
      const auto exact = truth.of(function);
      if (static_cast<T>(exact) - static_cast<T>(exact) == 0)
        worst = std::max(worst, validate::ulps<T>(exact, out.data()[i]));
    }
  }
  return worst;
}

#define RAPT_INSTANTIATE(T)                                                      \
  template Buffer<T> map_inputs<T>(rapt_map_function, std::size_t, std::size_t); \
  template double map_function_error<T>(rapt_map_function, TwoToOne<T>);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::bench
