// Random numbers of Philox (contract/philox.hpp). On AVX2 a word takes 2.7 ns where the compiler makes vectors of a
// loop over blocks, because it does not find the product of 32-bit integers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/random_call.hpp"
#include "contract/philox.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"
#include "kernels/vector/wide_products.hpp"

namespace {

struct RandomWords {
  static constexpr std::size_t blocks = 32, words = 4 * blocks;
  alignas(64) std::uint32_t word[words];

  // Sets the words of the blocks from `first` on. Two groups of blocks at a time hide how long a product takes. The
  // high half of a lane holds anything, because only low halves are multiplied and stored.
  RAPT_INNER void set(const rapt::RandomCall &call, std::uint64_t first) {
    using P = rapt::Philox;
    constexpr std::size_t groups = 2;
    constexpr std::uint64_t low = 0xffffffff;
    for (std::size_t b = 0; b < blocks; b += groups * wide_lanes) {
      WideWords c0[groups], c1[groups], c2[groups], c3[groups];
      unroll<groups>([&](std::size_t g) RAPT_INNER {
        WideWords block;
        for (std::size_t j = 0; j < wide_lanes; ++j) block[j] = first + b + g * wide_lanes + j;
        c0[g] = block;
        c1[g] = block >> 32;
        c2[g] = WideWords{} + call.stream;
        c3[g] = WideWords{} + (call.stream >> 32);
      });
      std::uint32_t k0 = static_cast<std::uint32_t>(call.seed),
                    k1 = static_cast<std::uint32_t>(call.seed >> 32);
      for (int round = 0; round < P::rounds; ++round, k0 += P::w0, k1 += P::w1) {
        unroll<groups>([&](std::size_t g) RAPT_INNER {
          const WideWords p0 = wide_products(c0[g], P::m0), p1 = wide_products(c2[g], P::m1);
          c0[g] = (p1 >> 32) ^ c1[g] ^ std::uint64_t{k0};
          c1[g] = p1;
          c2[g] = (p0 >> 32) ^ c3[g] ^ std::uint64_t{k1};
          c3[g] = p0;
        });
      }
      unroll<groups>([&](std::size_t g) RAPT_INNER {
        const WideWords a = (c0[g] & low) | c1[g] << 32, d = (c2[g] & low) | c3[g] << 32;
        for (std::size_t j = 0; j < wide_lanes; ++j) {
          const std::uint64_t pair[2] = {a[j], d[j]};
          __builtin_memcpy(word + 4 * (b + g * wide_lanes + j), pair, sizeof pair);
        }
      });
    }
  }
};

// Writes element(words, i) for the elements of the call, each of which has `width` words.
template <std::size_t width, class T, class Element>
RAPT_INNER inline void write_random(const rapt::RandomCall &call, T *out, Element element) {
  constexpr std::size_t most = RandomWords::words / width;
  RandomWords words;
  std::uint64_t index = call.offset;
  for (std::size_t done = 0; done < call.count;) {
    const std::size_t begin = static_cast<std::size_t>(index % most), left = call.count - done,
                      k = left < most - begin ? left : most - begin;
    words.set(call, index / most * RandomWords::blocks);
    for (std::size_t i = 0; i < k; ++i) out[done + i] = element(words.word, begin + i);
    done += k;
    index += k;
  }
}

template <class A>
[[gnu::flatten]] void random(const rapt::RandomCall *call) {
  const rapt::RandomCall c = *call;
  switch (c.element) {
    case rapt::RandomElement::uniform_f32:
      return write_random<1>(c, static_cast<A *>(c.out),
                             [](const std::uint32_t *word, std::size_t i) RAPT_INNER {
                               return static_cast<A>(static_cast<std::int32_t>(word[i] >> 8)) * A(0x1p-24);
                             });
    case rapt::RandomElement::uniform_f64:
      return write_random<2>(c, static_cast<double *>(c.out),
                             [](const std::uint32_t *word, std::size_t i) RAPT_INNER {
                               const double high = static_cast<std::int32_t>(word[2 * i] >> 5),
                                            low = static_cast<std::int32_t>(word[2 * i + 1] >> 6);
                               return (high * 0x1p26 + low) * 0x1p-53;
                             });
    case rapt::RandomElement::keep: {
      // All words are below 2^32. Otherwise the threshold fits 32 bits.
      const bool all = c.threshold >> 32 != 0;
      const std::uint32_t threshold = static_cast<std::uint32_t>(c.threshold);
      return write_random<1>(c, static_cast<std::uint8_t *>(c.out),
                             [=](const std::uint32_t *word, std::size_t i) RAPT_INNER {
                               return static_cast<std::uint8_t>(all | (word[i] < threshold));
                             });
    }
    case rapt::RandomElement::word:
      return write_random<1>(c, static_cast<std::uint32_t *>(c.out),
                             [](const std::uint32_t *word, std::size_t i) RAPT_INNER { return word[i]; });
  }
}

}  // namespace
