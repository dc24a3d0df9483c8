// Computes linear layers with quantized weights in i8 arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/integer_tiles.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/linear/quantized_groups.hpp"
#include "kernels/linear/rounded_rows.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Rows are for codes of least_bits to most_bits.
template <class Rows, unsigned least_bits = 1, unsigned most_bits = 8>
class CodeGroups {
 public:
  CodeGroups(const rapt::LinearCall &call, float *scratch, const Rows &rows)
      : groups_(call, scratch), bytes_(reinterpret_cast<std::uint8_t *>(scratch)), rows_(rows) {
    for (unsigned q = 0; groups_.weights().has_codebook() && q < 16; ++q) {
      const int integer = static_cast<int>(groups_.weights().codebook(q));
      table_[q] = static_cast<std::uint8_t>(integer + groups_.weights().common_zero_of_integers() - bias());
    }
  }

  // Calls f(kind, codes, 0), like WeightGroups.
  template <class F>
  RAPT_INNER void use(std::size_t output, std::size_t, std::size_t input, std::size_t inputs,
                      std::size_t rows, F f) {
    const std::uint8_t *const codes = groups_.load(output, input, inputs, rows);
    // Tiles of many rows would look the same codes up again, or join split ones again.
    if (rows > rapt::LinearTasks::few_rows && use_in_order(codes, inputs, f)) return;
    with_kind_of_integers(groups_.weights(), [&](auto kind) RAPT_INNER {
      if constexpr (kind.bits >= least_bits && kind.bits <= most_bits) f(kind, codes, std::size_t{0});
    });
  }

  IntegerTerms terms(std::size_t r, std::size_t height, std::size_t input) const {
    return {groups_.terms(), groups_.zeros(), rows_.terms(r, height, input), table_};
  }

  std::size_t inputs_in_turn(std::size_t bytes) const { return groups_.inputs_in_turn(bytes); }
  Prefetch prefetch(std::size_t output, std::size_t input, std::size_t inputs, std::size_t passes) const {
    return groups_.prefetch(output, input, inputs, passes);
  }

 protected:
  QuantizedGroups groups_;
  alignas(16) std::uint8_t table_[16] = {};

 private:
  // Puts codes of a codebook, or split ones, in order, and calls f. Returns whether they are such.
  template <class F>
  RAPT_INNER bool use_in_order(const std::uint8_t *codes, std::size_t inputs, F f) {
    const rapt::QuantizedWeights &weights = groups_.weights();
    if (!weights.has_codebook() && !weights.is_split()) return false;
    const auto use_as = [&](auto kind) RAPT_INNER {
      if constexpr (kind.bits >= least_bits && kind.bits <= most_bits)
        f(kind, static_cast<const std::uint8_t *>(bytes_), std::size_t{0});
    };
    alignas(16) std::uint8_t unbiased[16];
    for (std::size_t q = 0; q < 16; ++q) unbiased[q] = static_cast<std::uint8_t>(table_[q] + bias());
    with_kind_of_integers(weights, [&](auto kind) RAPT_INNER {
      if constexpr (kind.bits >= least_bits && kind.bits <= most_bits && is_put_in_order<decltype(kind)>)
        put_in_order<decltype(kind)>(codes, inputs, unbiased);
    });
    // Sums of 16 inputs suffice, because groups may have no more. Codes of 5 bits are the largest for which they fit.
    if (weights.has_integers_of_bytes()) {
      use_as(CodesOfBytes{});
    } else if (weights.is_split() && weights.bits() == 6) {
      use_as(CodesInOrder<6>{});
    } else {
      use_as(CodesInOrder<5>{});
    }
    return true;
  }
  int bias() const { return groups_.weights().has_integers_of_bytes() ? Rows::byte_bias : 0; }
  // Sets bytes_ to the codes in the order of CodesOfBytes, or to what the table has for them.
  template <class Kind>
  [[gnu::noinline, gnu::flatten]] void put_in_order(const std::uint8_t *codes, std::size_t inputs,
                                                    const std::uint8_t *table) {
    using Codes = typename Rows::Layout::Codes;
    std::uint8_t *to = bytes_;
    for (std::size_t k = 0; k < inputs; k += Kind::inputs, codes += Kind::bytes) {
      unroll<Kind::inputs / 4>([&](auto q) RAPT_INNER {
        for (std::size_t n = 0; n < rapt::linear_block;
             n += simd<float>::width, to += 4 * simd<float>::width) {
          const CodeWords words = Kind::template quad<Codes, q>(codes + Kind::words_of(n), table);
          words.store_unaligned(reinterpret_cast<std::uint32_t *>(to));
        }
      });
    }
  }

  std::uint8_t *bytes_;
  const Rows &rows_;
};

template <class Quads, unsigned least_bits = 1, unsigned most_bits = 8>
struct I8Layer {
  using A = float;
  using Tiles = IntegerTiles<Quads>;
  using Rows = RoundedRows<QuadsOfRows<Quads>>;
  using Weights = CodeGroups<Rows, least_bits, most_bits>;
  using Guard = NoGuard;
};

template <class Quads>
void linear_of_integers(const rapt::LinearCall *call, std::size_t first, std::size_t last, void *workspace) {
  linear_tasks<I8Layer<Quads>>(call, first, last, workspace);
}

// Codes of bytes have other quads than smaller ones.
template <class OfBytes, class Small>
void linear_of_bytes_or_small(const rapt::LinearCall *call, std::size_t first, std::size_t last,
                              void *workspace) {
  if (rapt::QuantizedWeights(call->options, call->w).has_integers_of_bytes()) {
    linear_tasks<I8Layer<OfBytes, 8>>(call, first, last, workspace);
  } else {
    linear_tasks<I8Layer<Small, 1, 7>>(call, first, last, workspace);
  }
}

}  // namespace
