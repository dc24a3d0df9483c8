// Makes random numbers for the examples without libm, so the numbers are the same on every system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// Returns random numbers with mean 0 and variance 1, each from four uniform numbers.
inline std::vector<float> random_numbers(std::size_t n, std::uint64_t seed) {
  std::vector<float> numbers(n);
  for (float &x : numbers) {
    float sum = -2;
    for (int i = 0; i < 4; ++i) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      sum += float(seed >> 40) * 0x1p-24F;
    }
    x = sum * 1.7320508F;
  }
  return numbers;
}
