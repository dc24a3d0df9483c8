// Describes a checked call of rapt_random.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rapt {

enum class RandomElement { uniform_f32, uniform_f64, keep, word };

struct RandomCall {
  void *out = nullptr;
  RandomElement element = RandomElement::uniform_f32;
  std::uint64_t seed = 0, stream = 0, offset = 0;
  std::size_t count = 0;
  std::uint64_t threshold = 0;  // keep: words below it give 1
};

}  // namespace rapt
