// Describes a call of rapt_rope, whose arguments have been checked.
#pragma once

#include <cstddef>

#include "rapt/rapt.h"

namespace rapt {

// Holds the arguments of rapt_rope, with every default filled in. The strides of dimensions of one index are 0.
struct RopeCall {
  const void *x = nullptr;
  void *y = nullptr;
  rapt_rope_options options{};

  std::size_t pairs() const { return options.rotary_dim / 2; }
  double sine_factor() const {
    return options.backward ? -options.attention_factor : options.attention_factor;
  }
  double position(std::size_t item, std::size_t token) const {
    const auto t = static_cast<std::ptrdiff_t>(token);
    if (!options.positions) return static_cast<double>(options.first_position + t);
    return static_cast<double>(
        options.positions[options.positions_stride * static_cast<std::ptrdiff_t>(item) + t]);
  }
  template <class E>
  const E *x_at(std::size_t item, std::size_t head, std::size_t token) const {
    return static_cast<const E *>(x) + offset(options.x_strides, item, head, token);
  }
  template <class E>
  E *y_at(std::size_t item, std::size_t head, std::size_t token) const {
    return static_cast<E *>(y) + offset(options.y_strides, item, head, token);
  }

 private:
  static std::ptrdiff_t offset(const rapt_strides &s, std::size_t item, std::size_t head, std::size_t token) {
    return s.batch * static_cast<std::ptrdiff_t>(item) + s.head * static_cast<std::ptrdiff_t>(head) +
           s.token * static_cast<std::ptrdiff_t>(token);
  }
};

}  // namespace rapt
