// Says what a model is: the config.json of a Llama, Mistral or Qwen checkpoint, checked key by key.
#pragma once

#include <rapt/rapt.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace decoder {

// Text of a file as part of a sentence: one line, without control characters, and cut where it is long.
std::string shown(std::string_view text, std::size_t longest = 100);

// The input is broken, or asks for what this decoder does not do. The text names the key or the tensor.
class Refused : public std::runtime_error {
 public:
  explicit Refused(const std::string &text) : std::runtime_error(shown(text, 2000)) {}
};

struct Config {
  std::size_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0, vocab = 0;
  std::size_t max_positions = 0;  // 0: the checkpoint does not say
  double eps = 0;
  bool tied = false;     // the embedding is the head, too
  bool qk_norm = false;  // every head of q and k has a norm before RoPE
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  rapt_type dtype = RAPT_F32;  // of weights that are made from a seed
  int rope_layout = RAPT_ROPE_HALVES;
  rapt_rope_frequency_options rope = RAPT_ROPE_FREQUENCY_OPTIONS_INIT;
  double attention_factor = 0;       // 0: what follows from the scaling of RoPE
  std::vector<std::size_t> windows;  // the keys that a query of each layer sees; 0: all. Empty: no windows
  std::vector<std::uint32_t> eos;
};

// No size that a checkpoint names is larger. So the product of two sizes, in bytes, fits 64 bits.
inline constexpr std::size_t largest_size = std::size_t{1} << 24;

// Reads config.json. A key is refused if it is unknown, unless it is in `ignored`.
Config parse_config(std::string_view json, const std::vector<std::string> &ignored);

}  // namespace decoder
