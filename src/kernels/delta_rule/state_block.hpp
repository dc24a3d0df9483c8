// Copies a block of columns of a state into scratch, where its rows lie next to each other, and back.
#pragma once

#include <cstddef>

#include "call/delta_call.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// The scratch has `n` vectors for each row. Columns from `columns` on do not exist, and are 0.
template <class S, std::size_t n>
struct StateBlock {
  using V = typename S::batch;
  static constexpr std::size_t width = n * S::width;

  static std::size_t left(std::size_t count, std::size_t first) { return count > first ? count - first : 0; }

  RAPT_INNER static void load(const float *from, rapt::StateLayout layout, std::size_t rows,
                              std::size_t columns, float *scratch) {
    if (!from) {
      for (std::size_t i = 0; i < rows * width; i += S::width) S::store(scratch + i, V(0.0f));
    } else if (layout.value == 1) {
      for (std::size_t i = 0; i < rows; ++i) {
        const float *const row = from + static_cast<std::ptrdiff_t>(i) * layout.key;
        for (std::size_t j = 0; j < width; j += S::width) {
          const std::size_t count = left(columns, j);
          S::store(scratch + i * width + j, count == 0 ? V(0.0f) : S::load_first(row + j, count));
        }
      }
    } else {
      for (std::size_t j = 0; j < width; j += S::width) {
        for (std::size_t i = 0; i < rows; i += S::width) {
          const std::size_t count = left(columns, j), depth = left(rows, i);
          V v[S::width];
          unroll<S::width>([&](std::size_t c) RAPT_INNER {
            const float *const column = from + static_cast<std::ptrdiff_t>(j + c) * layout.value + i;
            v[c] = c >= count ? V(0.0f) : S::load_first(column, depth);
          });
          S::transpose(v);
          unroll<S::width>([&](std::size_t r) RAPT_INNER {
            if (r < depth) S::store(scratch + (i + r) * width + j, v[r]);
          });
        }
      }
    }
  }
  RAPT_INNER static void store(float *to, rapt::StateLayout layout, std::size_t rows, std::size_t columns,
                               const float *scratch) {
    if (layout.value == 1) {
      for (std::size_t i = 0; i < rows; ++i) {
        float *const row = to + static_cast<std::ptrdiff_t>(i) * layout.key;
        for (std::size_t j = 0; j < columns; j += S::width)
          S::store_first(row + j, S::load(scratch + i * width + j), columns - j);
      }
    } else {
      for (std::size_t j = 0; j < columns; j += S::width) {
        for (std::size_t i = 0; i < rows; i += S::width) {
          const std::size_t count = columns - j, depth = rows - i;
          V v[S::width];
          unroll<S::width>([&](std::size_t r) RAPT_INNER {
            v[r] = r < depth ? S::load(scratch + (i + r) * width + j) : V(0.0f);
          });
          S::transpose(v);
          unroll<S::width>([&](std::size_t c) RAPT_INNER {
            if (c < count)
              S::store_first(to + static_cast<std::ptrdiff_t>(j + c) * layout.value + i, v[c], depth);
          });
        }
      }
    }
  }
};

}  // namespace
