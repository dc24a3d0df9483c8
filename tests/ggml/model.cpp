#include "model.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace rapt_ggml_tests {
namespace {

using Bytes = std::vector<std::uint8_t>;

// ---- numbers from a seed

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t h = 1469598103934665603u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

class Random {  // splitmix64
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::int32_t below(std::int32_t n) {
    return static_cast<std::int32_t>((next() >> 32) * static_cast<std::uint64_t>(n) >> 32);
  }

 private:
  std::uint64_t state_;
};

// m * 2^e as f32, for |m| < 2^24 and a normal result.
float scaled(std::int32_t m, int e) {
  const auto factor = std::bit_cast<float>(static_cast<std::uint32_t>(127 + e) << 23);
  return static_cast<float>(m) * factor;
}

// (1024 + fraction) * 2^(e - 10) as f16; below 2^-14 it is subnormal, and low bits of the fraction are cut off.
std::uint16_t f16_bits(int e, std::int32_t fraction, bool negative) {
  std::int32_t bits = e >= -14 ? ((e + 15) << 10) | fraction : (1024 + fraction) >> std::min(-14 - e, 11);
  if (negative) bits |= 0x8000;
  return static_cast<std::uint16_t>(bits);
}

// ---- types of weights

struct F16Field {
  int offset;    // in the block; -1: no such field
  int exponent;  // of the field, where the weights' is 0
  int sign;      // 1, -1, or 0: either
};

struct Type {
  std::string_view name;
  std::uint32_t id, file_type;  // ggml's numbers
  std::uint32_t block, bytes;   // weights of a block, and its bytes
  F16Field scale, minimum;
};

// Blocks are random bytes, so that every code and every inner scale occurs. Only the f16 fields are chosen: weights of
// about unit size. The minimum is about half of the largest product, so that weights of both signs occur.
constexpr F16Field none = {-1, 0, 0};
constexpr Type types[] = {
    {"F32", 0, 0, 1, 4, none, none},
    {"F16", 1, 1, 1, 2, none, none},
    {"BF16", 30, 32, 1, 2, none, none},
    {"Q4_0", 2, 2, 32, 18, {0, -3, 0}, none},
    {"Q4_1", 3, 3, 32, 20, {0, -3, 1}, {2, 0, -1}},
    {"Q5_0", 6, 8, 32, 22, {0, -4, 0}, none},
    {"Q5_1", 7, 9, 32, 24, {0, -4, 1}, {2, 0, -1}},
    {"Q8_0", 8, 7, 32, 34, {0, -7, 1}, none},
    {"Q2_K", 10, 10, 256, 84, {80, -4, 1}, {82, -3, 1}},
    {"Q3_K", 11, 12, 256, 110, {108, -6, 0}, none},
    {"Q4_K", 12, 15, 256, 144, {0, -8, 1}, {2, -5, 1}},
    {"Q5_K", 13, 17, 256, 176, {0, -9, 1}, {2, -5, 1}},
    {"Q6_K", 14, 18, 256, 210, {208, -11, 0}, none},
    {"IQ4_NL", 20, 25, 32, 18, {0, -7, 0}, none},
    {"IQ4_XS", 23, 30, 256, 136, {0, -11, 0}, none},
    {"TQ1_0", 34, 36, 256, 54, {52, 0, 0}, none},
    {"TQ2_0", 35, 37, 256, 66, {64, 0, 0}, none},
    {"MXFP4", 39, 38, 32, 17, none, none},  // the first byte is an exponent
};

const Type &type_named(std::string_view name) {
  const auto *found =
      std::find_if(std::begin(types), std::end(types), [&](const Type &t) { return t.name == name; });
  if (found == std::end(types)) throw std::invalid_argument("no weights " + std::string(name));
  return *found;
}

// ---- architectures

// Dimensions in lists of tensors: E width, Q all heads of queries, K all heads of keys, D one head, H heads of queries,
// G heads of keys, F the middle of the feed-forward part, V vocabulary, X experts, C context, numbers, and sums of them
// such as Q+K+K. `name:E,Q` has Q rows of E columns. `name:E,Q^2` has weights 2^2 times as large as 1 / sqrt(E).
struct Architecture {
  std::string model, name;  // ours, and GGUF's
  int layers;
  std::string tensors, of_layer;
  std::string keys;  // name=u (integer), d (a dimension), a (integers), f (f32), b (bool), s (string)
  std::string of_odd_layer = {};  // empty: as the others
};

const std::vector<Architecture> &table() {
  static const std::vector<Architecture> all = [] {
    using S = std::string;
    const S norms = "attn_norm.weight:E ffn_norm.weight:E ";
    const S post_norms = "post_attention_norm.weight:E post_ffw_norm.weight:E ";
    const S qkv = "attn_q.weight:E,Q^1 attn_k.weight:E,K^1 attn_v.weight:E,K attn_output.weight:Q,E ";
    const S fused_qkv = "attn_qkv.weight:E,Q+K+K^1 attn_output.weight:Q,E ";
    const S qkv_biases = "attn_q.bias:Q attn_k.bias:K attn_v.bias:K ";
    const S head_norms = "attn_q_norm.weight:D attn_k_norm.weight:D ";
    const S gated = "ffn_gate.weight:E,F ffn_up.weight:E,F ffn_down.weight:F,E ";
    const S fused_gate = "ffn_up.weight:E,F+F ffn_down.weight:F,E ";
    const S experts =
        "ffn_gate_inp.weight:E,X^2 ffn_gate_exps.weight:E,F,X ffn_up_exps.weight:E,F,X ffn_down_exps.weight:F,E,X ";
    const S shared_expert = "ffn_gate_shexp.weight:E,F ffn_up_shexp.weight:E,F ffn_down_shexp.weight:F,E ";
    const S gated_expert = "ffn_gate_inp_shexp.weight:E " + shared_expert;
    // The gated delta rule has as many heads of keys as attention, and as many of values as attention has of queries.
    const S delta_rule =
        "attn_qkv.weight:E,K+K+Q^1 attn_gate.weight:E,Q ssm_conv1d.weight:4,K+K+Q ssm_dt.bias:H ssm_a:H "
        "ssm_norm.weight:D ssm_out.weight:Q,E ";
    const S gated_attention =
        "attn_q.weight:E,Q+Q^1 attn_k.weight:E,K^1 attn_v.weight:E,K attn_output.weight:Q,E " + head_norms;
    const S two_norms = "attn_norm.weight:E post_attention_norm.weight:E ";
    const S expert_biases =
        "ffn_gate_inp.bias:X ffn_gate_exps.bias:F,X ffn_up_exps.bias:F,X ffn_down_exps.bias:E,X ";
    const S tied = "token_embd.weight:E,V^2 output_norm.weight:E ", untied = tied + "output.weight:E,V^1 ";
    const auto layer_norm = [](const S &name) { return name + ".weight:E " + name + ".bias:E "; };
    const S layer_norms = layer_norm("attn_output_norm") + layer_norm("layer_output_norm");
    const S bert = "token_embd.weight:E,V^2 token_types.weight:E,2 " + layer_norm("token_embd_norm");

    const S rms = "attention.layer_norm_rms_epsilon=f0.00001 ";
    const S encoder = "attention.layer_norm_epsilon=f0.00001 attention.causal=b0 pooling_type=u1 ";
    const S window = "attention.sliding_window=u64 ";
    const S some_experts = "expert_count=u8 expert_used_count=u2 expert_feed_forward_length=dF ";
    const S states =
        "full_attention_interval=u2 ssm.conv_kernel=u4 ssm.state_size=dD ssm.group_count=dG "
        "ssm.time_step_rank=dH ssm.inner_size=dQ ";
    const S yarn =
        "rope.scaling.type=syarn rope.scaling.factor=f32 rope.scaling.original_context_length=u4096 "
        "rope.freq_base=f150000 ";
    return std::vector<Architecture>{
        {"llama", "llama", 3, untied, norms + qkv + gated, rms},
        {"llama-tied", "llama", 2, tied + "rope_freqs.weight:D/2 ", norms + qkv + gated, rms},
        {"qwen2", "qwen2", 2, untied, norms + qkv + qkv_biases + gated, rms + "rope.freq_base=f1000000 "},
        {"qwen3", "qwen3", 2, tied, norms + qkv + head_norms + gated, rms + "rope.freq_base=f1000000 "},
        {"gemma2", "gemma2", 4, tied, norms + qkv + post_norms + gated,
         rms + window + "attn_logit_softcapping=f50 final_logit_softcapping=f30 "},
        {"gemma3", "gemma3", 4, tied, norms + qkv + head_norms + post_norms + gated,
         rms + window + "attention.sliding_window_pattern=u3 rope.freq_base=f1000000 "},
        {"phi3", "phi3", 2, untied, norms + fused_qkv + fused_gate, rms},
        {"olmo2", "olmo2", 2, untied, qkv + "attn_q_norm.weight:Q attn_k_norm.weight:K " + post_norms + gated,
         rms},
        {"granite", "granite", 2, tied, norms + qkv + gated,
         rms + "logit_scale=f8 residual_scale=f0.25 embedding_scale=f12 attention.scale=f0.015625 "},
        {"smollm3", "smollm3", 4, tied, norms + qkv + gated, rms + "rope.freq_base=f5000000 "},
        {"gpt-oss", "gpt-oss", 4, untied,
         "attn_norm.weight:E post_attention_norm.weight:E " + qkv + qkv_biases +
             "attn_output.bias:E attn_sinks.weight:H " + experts + expert_biases,
         rms + window + some_experts + yarn},
        {"qwen3moe", "qwen3moe", 2, untied, norms + qkv + head_norms + experts, rms + some_experts},
        {"qwen3next", "qwen3next", 4, untied,
         two_norms + delta_rule + "ssm_ba.weight:E,H+H " + experts + gated_expert,
         rms + some_experts + "expert_shared_feed_forward_length=dF " + states,
         two_norms + gated_attention + experts + gated_expert},
        {"qwen35", "qwen35", 4, tied,
         two_norms + delta_rule + "ssm_alpha.weight:E,H ssm_beta.weight:E,H " + gated,
         rms + "rope.dimension_sections=a11,11,10,0 " + states, two_norms + gated_attention + gated},
        // Latent attention: 256 numbers and a rope of 64 for all heads.
        {"deepseek2", "deepseek2", 3, untied,
         norms +
             "attn_q_a.weight:E,256 attn_q_a_norm.weight:256 attn_q_b.weight:256,Q+Q^1 "
             "attn_kv_a_mqa.weight:E,320^1 attn_kv_a_norm.weight:256 attn_k_b.weight:64,256,H "
             "attn_v_b.weight:256,64,H attn_output.weight:Q,E " +
             experts + "exp_probs_b.bias:X " + shared_expert,
         rms + some_experts +
             "attention.q_lora_rank=u256 attention.kv_lora_rank=u256 attention.head_count_kv=u1 "
             "attention.key_length=u320 attention.value_length=u256 attention.key_length_mla=u128 "
             "attention.value_length_mla=u64 leading_dense_block_count=u0 expert_shared_count=u1 "
             "expert_weights_scale=f2 expert_weights_norm=b1 expert_gating_func=u2 expert_group_count=u4 "
             "expert_group_used_count=u2 "},
        {"lfm2", "lfm2", 4, "token_embd.weight:E,V^2 token_embd_norm.weight:E ",
         norms + gated +
             "shortconv.conv.weight:3,E shortconv.in_proj.weight:E,E+E+E shortconv.out_proj.weight:E,E ",
         rms + "shortconv.l_cache=u3 attention.head_count_kv=a0,2,0,2 ", norms + qkv + head_norms + gated},
        {"mixtral", "llama", 2, untied, norms + qkv + experts, rms + some_experts},
        {"bert", "bert", 2, bert + "position_embd.weight:E,C ",
         qkv + qkv_biases + "attn_output.bias:E " + layer_norms +
             "ffn_up.weight:E,F ffn_up.bias:F ffn_down.weight:F,E ffn_down.bias:E ",
         encoder},
        {"nomic-bert", "nomic-bert", 2, bert, fused_qkv + layer_norms + gated,
         encoder + "rope.freq_base=f1000 "},
        {"modern-bert", "modern-bert", 4,
         "token_embd.weight:E,V^2 token_embd_norm.weight:E output_norm.weight:E ",
         norms + "attn_qkv.weight:E,Q+Q+Q^1 attn_output.weight:Q,E " + fused_gate,
         encoder + window + "attention.head_count_kv=u4 rope.freq_base=f160000 "},
    };
  }();
  return all;
}

const Architecture &architecture_named(std::string_view model) {
  const auto found =
      std::find_if(table().begin(), table().end(), [&](const Architecture &a) { return a.model == model; });
  if (found == table().end()) throw std::invalid_argument("no model " + std::string(model));
  return *found;
}

constexpr int context = 2048;

std::uint64_t dimension(std::string_view text, const Shape &shape) {
  if (const auto plus = text.find('+'); plus != text.npos)
    return dimension(text.substr(0, plus), shape) + dimension(text.substr(plus + 1), shape);
  if (text == "D/2") return shape.head / 2;
  switch (text[0]) {
    case 'E':
      return shape.width;
    case 'Q':
      return shape.heads * shape.head;
    case 'K':
      return shape.key_heads * shape.head;
    case 'D':
      return shape.head;
    case 'H':
      return shape.heads;
    case 'G':
      return shape.key_heads;
    case 'F':
      return shape.middle;
    case 'V':
      return shape.vocabulary;
    case 'X':
      return 8;
    case 'C':
      return context;
    default:
      return std::stoul(std::string(text));
  }
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(at), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// ---- tensors

struct Tensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // the first is the length of a row
  int gain = 0;
  const Type *type = nullptr;
  std::uint64_t elements() const {
    std::uint64_t n = 1;
    for (const auto d : dims) n *= d;
    return n;
  }
  std::uint64_t bytes() const { return elements() / type->block * type->bytes; }
};

void add_tensors(std::string_view list, const std::string &prefix, const Type &weights, const Shape &shape,
                 std::vector<Tensor> &out) {
  for (const auto entry : split(list, ' ')) {
    const auto colon = entry.find(':'), gain = entry.find('^');
    Tensor t;
    t.name = prefix + std::string(entry.substr(0, colon));
    for (const auto d : split(entry.substr(colon + 1, gain - colon - 1), ','))
      t.dims.push_back(dimension(d, shape));
    if (gain != entry.npos) t.gain = entry[gain + 1] - '0';
    // What llama.cpp's own converter leaves in f32: vectors, routers, biases, and the small tables of BERT.
    const bool plain = t.dims.size() == 1 || t.name.ends_with(".bias") ||
                       t.name.ends_with("gate_inp.weight") || t.name.ends_with("conv1d.weight") ||
                       t.name.ends_with("conv.weight") || t.name == "token_types.weight" ||
                       t.name == "position_embd.weight";
    t.type = plain ? &types[0] : &weights;
    out.push_back(std::move(t));
  }
}

// The first and last eighth of the layers, and every third of the others.
bool has_more_bits(int layer, int layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

// A mixed model's type of a tensor.
void mix(Tensor &t, bool more_bits, bool is_tied) {
  const bool is_output = t.name == "output.weight" || (is_tied && t.name == "token_embd.weight");
  const bool is_chosen = t.name.ends_with("attn_v.weight") || t.name.ends_with("ffn_down.weight");
  const std::string_view name = t.type->name;
  const bool is_q4 = name == "Q4_0" || name == "Q4_1" || name == "Q4_K";
  if (is_q4 && (is_output || (name == "Q4_K" && is_chosen && more_bits))) t.type = &type_named("Q6_K");
}

std::vector<Tensor> tensors_of(const Architecture &a, const Type &weights, const Shape &shape) {
  std::vector<Tensor> all;
  const bool is_tied = a.tensors.find("output.weight") == std::string::npos;
  const auto add = [&](std::string_view list, const std::string &prefix, bool more_bits) {
    const std::size_t first = all.size();
    add_tensors(list, prefix, weights, shape, all);
    for (std::size_t i = first; i < all.size(); ++i) {
      Tensor &t = all[i];
      if (shape.mixed) mix(t, more_bits, is_tied);
      if (t.dims[0] % t.type->block != 0) t.type = &type_named(t.type->name == "Q6_K" ? "Q8_0" : "Q5_0");
    }
  };
  add(a.tensors, "", false);
  const int layers = shape.layers ? shape.layers : a.layers;
  for (int i = 0; i < layers; ++i)
    add(i % 2 == 1 && !a.of_odd_layer.empty() ? a.of_odd_layer : a.of_layer, "blk." + std::to_string(i) + ".",
        has_more_bits(i, layers));
  if (a.model == "gpt-oss")  // as its files are
    for (Tensor &t : all)
      if (t.name.ends_with("_exps.weight")) t.type = &type_named("MXFP4");
  return all;
}

template <class T>
void put(Bytes &out, T value) {
  const auto *p = reinterpret_cast<const std::uint8_t *>(&value);
  out.insert(out.end(), p, p + sizeof value);
}

// Real weights: integers times a power of two, which f32, f16 and bf16 hold exactly.
void real_weights(const Tensor &t, int exponent, Random &random, Bytes &out) {
  const bool norm = t.name.find("norm.weight") != t.name.npos, frequencies = t.name == "rope_freqs.weight";
  for (std::uint64_t i = 0; i < t.elements(); ++i) {
    const std::int32_t m = random.below(256) - 128;
    float value = scaled(m, exponent - 7);
    if (norm) value = 1 + scaled(m, -9);                                        // .75 to 1.25
    if (frequencies) value = 1 + scaled(static_cast<std::int32_t>(i) * 8, -5);  // 1 to 8.75
    if (t.name.ends_with("sinks.weight")) value = scaled(m, -6);                // -2 to 2
    if (t.name.ends_with(".bias")) value = scaled(m, -9);                       // up to .25
    if (t.name.ends_with("ssm_a")) value = scaled(m - 129, -7);                 // decays: -2 to 0
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (t.type->name == "F32") {
      put(out, value);
    } else if (t.type->name == "BF16") {
      put(out, static_cast<std::uint16_t>(bits >> 16));
    } else if (value == 0) {
      put(out, std::uint16_t{0});
    } else {
      put(out, f16_bits(static_cast<int>(bits >> 23 & 255) - 127,
                        static_cast<std::int32_t>(bits >> 13 & 1023), m < 0));
    }
  }
}

void blocks(const Tensor &t, int exponent, bool poisoned, Random &random, Bytes &out) {
  for (std::uint64_t b = 0; b < t.elements() / t.type->block; ++b) {
    const std::size_t start = out.size();
    while (out.size() < start + t.type->bytes) put(out, random.next());
    out.resize(start + t.type->bytes);
    for (const F16Field &f : {t.type->scale, t.type->minimum}) {
      if (f.offset < 0) continue;
      const bool negative = f.sign < 0 || (f.sign == 0 && random.below(2) == 1);
      std::uint16_t bits = f16_bits(exponent + f.exponent, random.below(1024), negative);
      if (poisoned) bits = 0x7e00;
      std::memcpy(&out[start + static_cast<std::size_t>(f.offset)], &bits, 2);
    }
    if (t.type->name == "MXFP4") out[start] = static_cast<std::uint8_t>(127 + exponent - 2 + random.below(2));
  }
}

void tensor_bytes(const Tensor &t, std::uint64_t seed, const Damage &damage, Bytes &out) {
  Random random(seed ^ hash_of(t.name));
  // About 1 / sqrt(length of a row), rounded to a power of two.
  const int exponent = t.gain + 1 - static_cast<int>(std::bit_width(t.dims[0])) / 2;
  if (t.type->block == 1) {
    real_weights(t, exponent, random, out);
  } else {
    blocks(t, exponent, t.name == damage.poisoned, random, out);
  }
}

// ---- the file

enum : std::uint32_t { u32 = 4, f32 = 6, boolean = 7, text = 8, array = 9 };

void put_text(Bytes &out, std::string_view s) {
  put(out, static_cast<std::uint64_t>(s.size()));
  out.insert(out.end(), s.begin(), s.end());
}

// A value as in the table: its type's letter, then the value. Every decimal fraction there is exact in binary but
// epsilons, which strtof rounds to nearest.
void put_key(Bytes &out, const std::string &key, std::string_view value) {
  put_text(out, key);
  const std::string rest(value.substr(1));
  switch (value[0]) {
    case 'u':
      put(out, std::uint32_t{u32}), put(out, static_cast<std::uint32_t>(std::stoul(rest)));
      break;
    case 'a': {
      const auto numbers = split(rest, ',');
      put(out, std::uint32_t{array}), put(out, std::uint32_t{u32}), put(out, std::uint64_t{numbers.size()});
      for (const auto n : numbers) put(out, static_cast<std::uint32_t>(std::stoul(std::string(n))));
      break;
    }
    case 'f':
      put(out, std::uint32_t{f32}), put(out, std::strtof(rest.c_str(), nullptr));
      break;
    case 'b':
      put(out, std::uint32_t{boolean}), put(out, static_cast<std::uint8_t>(rest == "1"));
      break;
    default:
      put(out, std::uint32_t{text}), put_text(out, rest);
  }
}

void pad(Bytes &out) { out.resize((out.size() + 31) / 32 * 32); }

// Everything before the tensors' data.
Bytes head_bytes(const Architecture &a, const Type &weights, const std::vector<Tensor> &tensors,
                 const Shape &shape) {
  static_assert(std::endian::native == std::endian::little);
  std::vector<std::pair<std::string, std::string>> keys = {
      {"general.architecture", "s" + std::string(a.name)},
      {"general.file_type", "u" + std::to_string(weights.file_type)},
      {"general.quantization_version", "u2"},
      {"tokenizer.ggml.model", "snone"},
      {"tokenizer.ggml.token_type_count", "u2"}};
  const auto number = [](const char *name, std::uint64_t value) {
    return name + std::to_string(value) + ' ';
  };
  const std::string standard =
      number("vocab_size=u", shape.vocabulary) + number("context_length=u", context) +
      number("embedding_length=u", shape.width) + number("feed_forward_length=u", shape.middle) +
      number("attention.head_count=u", shape.heads) + number("attention.head_count_kv=u", shape.key_heads) +
      number("attention.key_length=u", shape.head) + number("attention.value_length=u", shape.head) +
      number("rope.dimension_count=u", shape.head) + "block_count=u" +
      std::to_string(shape.layers ? shape.layers : a.layers);
  const std::string all_keys = standard + " " + a.keys;
  for (const auto entry : split(all_keys, ' ')) {
    const auto equals = entry.find('=');
    const std::string key = std::string(a.name) + "." + std::string(entry.substr(0, equals));
    std::string value(entry.substr(equals + 1));
    if (value[0] == 'd') value = "u" + std::to_string(dimension(value.substr(1), shape));
    const auto same = std::find_if(keys.begin(), keys.end(), [&](const auto &k) { return k.first == key; });
    if (same == keys.end()) {
      keys.emplace_back(key, value);
    } else {
      same->second = value;
    }
  }
  Bytes out;
  for (const char c : std::string_view("GGUF")) out.push_back(static_cast<std::uint8_t>(c));
  put(out, std::uint32_t{3});
  put(out, static_cast<std::uint64_t>(tensors.size()));
  put(out, static_cast<std::uint64_t>(keys.size()));
  for (const auto &[key, value] : keys) put_key(out, key, value);
  std::uint64_t offset = 0;
  for (const Tensor &t : tensors) {
    put_text(out, t.name);
    put(out, static_cast<std::uint32_t>(t.dims.size()));
    for (const auto d : t.dims) put(out, d);
    put(out, t.type->id);
    put(out, offset);
    offset += (t.bytes() + 31) / 32 * 32;
  }
  pad(out);
  return out;
}

}  // namespace

std::vector<std::string> architectures() {
  std::vector<std::string> names;
  for (const auto &a : table()) names.push_back(a.model);
  return names;
}

std::vector<std::string> weight_types() {
  std::vector<std::string> names;
  for (const auto &t : types) names.emplace_back(t.name);
  return names;
}

bool is_encoder(std::string_view model) { return model.find("bert") != model.npos; }
bool is_recurrent(std::string_view model) {
  return model == "qwen3next" || model == "qwen35" || model == "lfm2";
}
int vocabulary_of(std::string_view) { return static_cast<int>(Shape().vocabulary); }

void write_model(const std::string &path, std::string_view model, std::string_view weights,
                 const Damage &damage, const Shape &shape) {
  const Architecture &a = architecture_named(model);
  const Type &type = type_named(weights);
  std::vector<Tensor> tensors = tensors_of(a, type, shape);
  for (Tensor &t : tensors)
    if (t.name == damage.wrong_shape) t.dims.back() += 1;
  std::ofstream file(path, std::ios::binary);
  std::size_t left = damage.keep_bytes > 0 ? damage.keep_bytes : SIZE_MAX;
  const auto write = [&](const Bytes &bytes) {
    const std::size_t n = std::min(left, bytes.size());
    file.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(n));
    left -= n;
  };
  write(head_bytes(a, type, tensors, shape));
  const std::uint64_t seed = hash_of(a.model) ^ hash_of(type.name);
  for (const Tensor &t : tensors) {
    Bytes bytes;
    bytes.reserve(t.bytes() + 64);
    tensor_bytes(t, seed, damage, bytes);
    pad(bytes);
    write(bytes);
  }
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace rapt_ggml_tests
