// The forward pass of a Llama, Mistral or Qwen model. All its arithmetic is in rapt.
#pragma once

#include <rapt/rapt.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <rapt/parallel.hpp>
#include <span>
#include <string>
#include <vector>

#include "checkpoint.hpp"

namespace decoder {

// Calls body(0) to body(parts - 1), possibly at the same time: one of parallel.hpp's adapters.
using Pool = std::function<void(std::size_t parts, const std::function<void(std::size_t)> &body)>;

struct Settings {
  rapt_type weights = RAPT_TYPE_DEFAULT;  // as they are stored; or RAPT_I8, RAPT_I4: quantized, 32 to a scale
  int arithmetic =
      RAPT_ARITHMETIC_F32;     // of linear layers; BF16 needs stored weights of bf16, I8 quantized ones
  rapt_type cache = RAPT_F32;  // or RAPT_BF16, or RAPT_I8 with a scale for each head of a token
  std::size_t threads = 1;
  Pool pool = rapt::std_threads;
};

// Throws where rapt refuses a call, which is a mistake in this program.
void must(rapt_status status);

// The keys and values of sequences: [sequences][kv_heads][capacity][head_dim] for each layer.
class Cache {
 public:
  Cache(const Config &config, rapt_type type, std::size_t sequences, std::size_t capacity);

  struct Tensor {
    std::vector<std::byte> elements;
    std::vector<float> scales;  // of RAPT_I8, one for each head of a token
  };
  struct Layer {
    Tensor k, v;
  };

  // Rounds the heads of one token to the cache's type. A head has head_dim elements.
  void store(Tensor &to, std::size_t sequence, std::size_t position, const float *heads) const;
  // Says where attention finds the keys and values of a layer.
  void describe(const Layer &layer, rapt_attention_options &options) const;

  std::vector<Layer> layers;
  std::vector<std::int32_t> lengths;  // tokens in each sequence

 private:
  rapt_type type_;
  std::size_t kv_heads_, head_dim_, capacity_;
};

// The weights of one linear layer, packed. It may be several layers of a checkpoint with the same input.
class Linear {
 public:
  struct Part {
    std::string name;
    std::size_t outputs;
  };
  Linear(Checkpoint &checkpoint, std::initializer_list<Part> parts, std::size_t inputs, bool bias,
         const Settings &settings);

  rapt_linear_options options = RAPT_LINEAR_OPTIONS_INIT;  // all but rows, add and lists of rows
  std::vector<std::byte> packed;

 private:
  std::vector<float> bias_;
};

// Tokens that a sequence appends in one step.
struct Feed {
  std::size_t sequence;
  std::span<const std::uint32_t> tokens;
  std::size_t logits;  // of its last tokens
};

class Model {
 public:
  Model(Checkpoint &checkpoint, const Settings &settings);

  const Config &config() const { return config_; }
  const Settings &settings() const { return settings_; }

  // Appends the tokens to their sequences, at most one Feed each. Writes a row of logits for each token whose
  // logits are asked for, in the order of the feeds.
  void forward(std::span<const Feed> feeds, Cache &cache, std::vector<float> &logits);

 private:
  struct Layer {
    std::vector<float> attention_norm, mlp_norm, q_norm, k_norm;
    Linear qkv, o, gate_up, down;
  };
  Layer read_layer(Checkpoint &checkpoint, std::size_t index) const;

  void embed(std::span<const Feed> feeds, std::size_t rows);
  void norm(const std::vector<float> &x, std::size_t rows, const std::vector<float> &weight,
            std::vector<float> &y);
  void linear(const Linear &layer, const std::vector<float> &x, std::size_t rows, float *y, const float *add,
              const std::vector<std::size_t> *x_rows = nullptr);
  void attend(std::size_t index, std::span<const Feed> feeds, Cache &cache, std::size_t rows);
  void norm_rows(const float *x, float *y, std::size_t rows, const std::vector<float> &weight) const;
  void rotate(float *heads, std::size_t count, std::size_t rows) const;
  template <class Body>
  void in_parts(std::size_t rows, const Body &body) const;

  Config config_;
  Settings settings_;
  std::vector<double> frequencies_;
  double attention_factor_ = 0;
  std::size_t q_width_, kv_width_, qkv_width_;  // elements of all heads of a token
  Tensor embedding_;
  std::vector<Layer> layers_;
  std::vector<float> final_norm_;
  Linear head_;
  // What a step computes, kept for the memory.
  std::vector<float> x_, normed_, qkv_, attended_, gate_up_, gated_;
  std::vector<rapt_bf16> rounded_;
  std::vector<std::int64_t> positions_;
};

}  // namespace decoder
