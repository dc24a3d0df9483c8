// Implements the scalar reference of random.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/random_call.hpp"
#include "contract/philox.hpp"

namespace {

// Returns word i of a stream.
inline std::uint32_t random_word(const rapt::RandomCall &call, std::uint64_t i) {
  using P = rapt::Philox;
  const std::uint64_t block = i / 4;
  std::uint32_t c[4] = {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                        static_cast<std::uint32_t>(call.stream),
                        static_cast<std::uint32_t>(call.stream >> 32)};
  std::uint32_t key[2] = {static_cast<std::uint32_t>(call.seed), static_cast<std::uint32_t>(call.seed >> 32)};
  for (int round = 0; round < P::rounds; ++round) {
    if (round > 0) key[0] += P::w0, key[1] += P::w1;
    const std::uint64_t a = std::uint64_t{c[0]} * P::m0, b = std::uint64_t{c[2]} * P::m1;
    c[0] = static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0];
    c[1] = static_cast<std::uint32_t>(b);
    c[2] = static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1];
    c[3] = static_cast<std::uint32_t>(a);
  }
  return c[i % 4];
}

template <class A>
void random(const rapt::RandomCall *call) {
  for (std::size_t n = 0; n < call->count; ++n) {
    const std::uint64_t i = call->offset + n;
    switch (call->element) {
      case rapt::RandomElement::uniform_f32:
        static_cast<A *>(call->out)[n] = static_cast<A>(random_word(*call, i) >> 8) * A(0x1p-24);
        break;
      case rapt::RandomElement::uniform_f64: {
        const std::uint64_t bits =
            (std::uint64_t{random_word(*call, 2 * i) >> 5} << 26) | (random_word(*call, 2 * i + 1) >> 6);
        static_cast<double *>(call->out)[n] = static_cast<double>(bits) * 0x1p-53;
        break;
      }
      case rapt::RandomElement::keep:
        static_cast<std::uint8_t *>(call->out)[n] = random_word(*call, i) < call->threshold;
        break;
      case rapt::RandomElement::word:
        static_cast<std::uint32_t *>(call->out)[n] = random_word(*call, i);
        break;
    }
  }
}

}  // namespace
