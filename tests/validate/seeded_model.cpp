#include "validate/seeded_model.hpp"

#include <cstring>

#include "validate/decoder_hash.hpp"

namespace decoder {

const char *const small_config = R"({
  "model_type": "qwen3", "dtype": "float32", "attention_bias": true, "tie_word_embeddings": false,
  "hidden_size": 192, "num_hidden_layers": 3, "intermediate_size": 544, "vocab_size": 1000,
  "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 64,
  "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 4096,
  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 256}
})";

namespace {

int digits(std::size_t n) {
  int count = 0;
  for (; n != 0; n /= 2) ++count;
  return count;
}

bool ends_with(const std::string &name, const std::string &end) {
  return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

// Returns the bits of numerator / 2^exponent as an element of the type. The numerator is odd, and has at most
// 8 binary digits, so nothing is rounded.
std::uint32_t element(rapt_type type, int numerator, int exponent) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(numerator < 0 ? -numerator : numerator);
  const int top = digits(magnitude) - 1;  // magnitude is 1.xxx * 2^top
  const int fraction = type == RAPT_F32 ? 23 : type == RAPT_F16 ? 10 : 7, bias = type == RAPT_F16 ? 15 : 127;
  const std::uint32_t sign = numerator < 0 ? 1u << (type == RAPT_F32 ? 31 : 15) : 0;
  // The implicit first digit adds 1 to the exponent field.
  return sign | ((static_cast<std::uint32_t>(bias + top - exponent - 1) << fraction) +
                 (magnitude << (fraction - top)));
}

class Seeded : public Checkpoint {
 public:
  Seeded(const Config &config, std::uint64_t seed) : seed_(seed) { config_ = config; }

  Tensor read(const std::string &name, std::size_t rows, std::size_t cols) override {
    // The smallest number of a longer row is subnormal in f16.
    if (cols >= 65536) throw Refused(name + ": a seed makes rows of less than 65536 elements");
    const std::size_t count = (rows ? rows : 1) * cols, size = bytes_of(config_.dtype);
    const bool norm = name.find("norm") != std::string::npos, embedding = name == "model.embed_tokens.weight";
    int exponent = 6 + digits(cols) / 2;
    if (norm)
      exponent = 7;
    else if (ends_with(name, ".bias"))
      exponent = 8;
    else if (embedding && !config_.tied)
      exponent = 6;
    else if (embedding || name == "lm_head.weight")
      exponent -= 1;

    Hash start;
    for (const char c : name) start.add_byte(static_cast<unsigned char>(c));
    std::uint64_t state = seed_ ^ start.value();
    Tensor tensor{config_.dtype, std::vector<std::byte>(count * size)};
    for (std::size_t i = 0; i < count; ++i) {
      state += 0x9e3779b97f4a7c15u;
      std::uint64_t z = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      z ^= z >> 31;
      const int numerator = norm ? 2 * static_cast<int>(z >> 59) + 97 : 2 * static_cast<int>(z >> 57) - 127;
      const std::uint32_t bits = element(config_.dtype, numerator, exponent);
      const std::uint16_t half = static_cast<std::uint16_t>(bits);
      std::memcpy(&tensor.bytes[i * size], size == 4 ? static_cast<const void *>(&bits) : &half, size);
    }
    return tensor;
  }

 private:
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Checkpoint> seeded_checkpoint(const Config &config, std::uint64_t seed) {
  return std::make_unique<Seeded>(config, seed);
}

}  // namespace decoder
