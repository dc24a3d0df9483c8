// A model whose weights follow from a seed. It says nothing, but it computes all that a trained model does.
//
// Every tensor has its own stream: SplitMix64 (Steele, Lea, Flood 2014) that starts at the seed XOR the FNV-1a
// hash of the tensor's name. Its numbers z become odd integers times powers of two, exact in f16 and bf16:
//   norm weights   (2 * (z >> 59) + 97) / 128, from 97/128 to 159/128
//   all others     (2 * (z >> 57) - 127) / 2^e: e is 8 for a bias and 6 for an embedding that is not the head.
//                  Otherwise it is 6 + half the binary digits of the row's length, 1 less for the head.
// tests/decoder/make_model.py writes the same model as safetensors.
#pragma once

#include <cstdint>
#include <memory>

#include "examples/decoder/checkpoint.hpp"

namespace decoder {

std::unique_ptr<Checkpoint> seeded_checkpoint(const Config &config, std::uint64_t seed);

// The config.json of a small model with grouped queries, norms of q and k, biases, and RoPE scaled as in Llama 3.
extern const char *const small_config;

}  // namespace decoder
