#include "validate/short_models.hpp"

#include "validate/seeded_model.hpp"

namespace decoder {
namespace {

// More inputs than a group of 512 in the down projection; rows that are no multiple of 64; grouped queries;
// norms of q and k; biases; scaled RoPE. The original context is short, so that its three branches occur.
std::string short_config(const char *dtype) {
  return std::string(R"({"model_type": "qwen3", "dtype": ")") + dtype +
         R"(", "attention_bias": true, "tie_word_embeddings": false,
    "hidden_size": 72, "num_hidden_layers": 2, "intermediate_size": 544, "vocab_size": 300,
    "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-5,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 128}})";
}

}  // namespace

const std::vector<ShortModel> &short_models() {
  constexpr rapt_type stored = RAPT_TYPE_DEFAULT;
  constexpr int f32 = RAPT_ARITHMETIC_F32, bf16 = RAPT_ARITHMETIC_BF16, i8 = RAPT_ARITHMETIC_I8;
  static const std::vector<ShortModel> models = {
      {"f32 in F32, f32 cache", "float32", stored, f32, RAPT_F32, 0x884e3b1fc1698fb4, 0x94248f223b05590f},
      {"f16 in F32, bf16 cache", "float16", stored, f32, RAPT_BF16, 0x884e3b1fc1698fb4, 0x3a90d300797f58f2},
      {"bf16 in F32, i8 cache", "bfloat16", stored, f32, RAPT_I8, 0x884e3b1fc1698fb4, 0xc65aa7148e6a6bbd},
      {"bf16 in BF16, f32 cache", "bfloat16", stored, bf16, RAPT_F32, 0x884e3b1fc1698fb4, 0x05036c6ec34c2708},
      {"bf16 in BF16, bf16 cache", "bfloat16", stored, bf16, RAPT_BF16, 0x884e3b1fc1698fb4,
       0xe13467b81056647a},
      {"i8 in F32, f32 cache", "float32", RAPT_I8, f32, RAPT_F32, 0x884e3b1fc1698fb4, 0x3115f5567d2c561d},
      {"i8 in I8, i8 cache", "float16", RAPT_I8, i8, RAPT_I8, 0x884e3b1fc1698fb4, 0x2fa0b8a785a7465a},
      {"i4 in F32, bf16 cache", "float32", RAPT_I4, f32, RAPT_BF16, 0x5648339b7d28a1f9, 0x7d155cad38940a6b},
      {"i4 in I8, i8 cache", "bfloat16", RAPT_I4, i8, RAPT_I8, 0x5648339b7d28a1f9, 0xf0dcf446fb15be22},
  };
  return models;
}

std::vector<std::vector<std::uint32_t>> short_prompts(std::size_t sequences) {
  std::vector<std::vector<std::uint32_t>> prompts(sequences);
  for (std::size_t i = 0; i < sequences; ++i) {
    // AMX multiplies bytes from 32 rows on.
    const std::uint32_t length = static_cast<std::uint32_t>(i == 0 ? 36 : 5 * i % 23 + 1);
    for (std::uint32_t t = 0; t < length; ++t) {
      prompts[i].push_back((t * t * 7 + t * 31 + 5 + 11 * static_cast<std::uint32_t>(i)) % 300);
    }
  }
  return prompts;
}

Plan short_plan() {
  Plan plan;
  plan.chunk = 0;
  plan.new_tokens = 16;
  return plan;
}

HashedReport decode_short(const ShortModel &model, const Plan &plan, std::size_t threads,
                          std::size_t sequences) {
  const auto checkpoint = seeded_checkpoint(parse_config(short_config(model.stored), {}), 1);
  Settings settings;
  settings.weights = model.weights;
  settings.arithmetic = model.arithmetic;
  settings.cache = model.cache;
  settings.threads = threads;
  Model made(*checkpoint, settings);
  return generate_hashed(made, short_prompts(sequences), plan);
}

bool is_published(const ShortModel &model, const HashedReport &report) {
  return hash_of_tokens(report.sequences.front()) == model.tokens &&
         report.logits.front().value() == model.logits;
}

}  // namespace decoder
