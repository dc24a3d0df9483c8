#include "config.hpp"

#include <algorithm>
#include <cfloat>
#include <sstream>

#include "json.hpp"

namespace decoder {

namespace {

using nlohmann::json;

// These keys change no logit of a model that is only evaluated, and not which logit is the largest. They are names and
// special tokens, how a program trains or computes the same, what it returns, and how it samples. transformers writes
// most of them into every config.json.
constexpr const char harmless[] = R"(
_name_or_path name_or_path _commit_hash auto_map _auto_class architectures transformers_version transformers.js_config
unsloth_fixed unsloth_version is_llama_config tokenizer_class finetuning_task task_specific_params problem_type id2label
label2id num_labels bos_token_id pad_token_id sep_token_id decoder_start_token_id
attention_dropout initializer_range gradient_checkpointing pretraining_tp use_cache is_decoder chunk_size_feed_forward
torchscript tf_legacy_loss use_bfloat16 xla_device _attn_implementation _attn_implementation_autoset
_attn_implementation_internal attn_implementation _experts_implementation _experts_implementation_internal
experts_implementation _flash_attn_2_enabled base_model_tp_plan base_model_pp_plan base_model_ep_plan
base_model_fsdp_plan distributed_config
output_attentions _output_attentions output_hidden_states output_scores return_dict use_return_dict
return_dict_in_generate tie_last_hidden_states
do_sample temperature top_k top_p typical_p epsilon_cutoff eta_cutoff num_beams num_beam_groups diversity_penalty
length_penalty early_stopping num_return_sequences max_length remove_invalid_values num_assistant_tokens
num_assistant_tokens_schedule assistant_confidence_threshold assistant_lookbehind target_lookbehind
)";

// These keys have one value. Another one makes another model, or greedy decoding choose other tokens.
constexpr const char fixed[] = R"({
  "hidden_act": "silu", "quantization_config": null, "use_mrope": false, "rope_interleaved": false,
  "partial_rotary_factor": 1, "pruned_heads": {}, "per_layer_config": {}, "is_encoder_decoder": false,
  "tie_encoder_decoder": false, "add_cross_attention": false, "cross_attention_hidden_size": null, "prefix": "",
  "min_length": 0, "repetition_penalty": 1, "encoder_repetition_penalty": 1, "no_repeat_ngram_size": 0,
  "encoder_no_repeat_ngram_size": 0, "bad_words_ids": null, "forced_bos_token_id": null,
  "forced_eos_token_id": null, "suppress_tokens": null, "begin_suppress_tokens": null,
  "exponential_decay_length_penalty": null
})";

// Reads the keys of an object, and says which of them nobody asked for.
class Keys {
 public:
  Keys(const json &object, std::string of) : object_(object), of_(std::move(of)) {}

  // A key with the value null counts as absent.
  const json *find(const std::string &key) {
    asked_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  bool has(const std::string &key) const { return object_.contains(key); }

  std::size_t size(const std::string &key, std::size_t absent = 0, std::size_t least = 1) {
    const json *value = find(key);
    if (!value && absent) return absent;
    if (!value || !value->is_number_unsigned() || value->get<std::uint64_t>() < least ||
        value->get<std::uint64_t>() > largest_size) {
      refuse(key, "must be an integer from " + std::to_string(least) + " to 2^24");
    }
    return value->get<std::size_t>();
  }
  double number(const std::string &key, double absent = 0) {
    const json *value = find(key);
    if (!value && absent > 0) return absent;
    if (!value || !value->is_number() || !(value->get<double>() >= FLT_MIN && value->get<double>() < 1e30)) {
      refuse(key, "must be a positive number that is normal in f32");
    }
    return value->get<double>();
  }
  bool flag(const std::string &key, bool absent = false) {
    const json *value = find(key);
    if (!value) return absent;
    if (!value->is_boolean()) refuse(key, "must be true or false");
    return value->get<bool>();
  }
  std::string text(const std::string &key, const std::string &absent) {
    const json *value = find(key);
    if (!value) return absent;
    if (!value->is_string()) refuse(key, "must be a string");
    return value->get<std::string>();
  }
  // Refuses every value of the key but one.
  void only(const std::string &key, const json &supported) {
    const json *value = find(key);
    if (value && *value != supported) refuse(key, "is supported only as " + supported.dump());
  }

  [[noreturn]] void refuse(const std::string &key, const std::string &why) const {
    const auto found = object_.find(key);
    const std::string value =
        found == object_.end() ? "absent" : found->dump(-1, ' ', true, json::error_handler_t::replace);
    throw Refused(of_ + ": " + key + " " + why + "; it is " + shown(value));
  }
  // Appends the keys that nobody asked for.
  void add_unknown(const std::string &prefix, std::vector<std::string> &unknown) const {
    for (const auto &item : object_.items()) {
      if (asked_.count(item.key()) == 0) unknown.push_back(prefix + item.key());
    }
  }

 private:
  const json &object_;
  std::string of_;
  std::set<std::string> asked_;
};

void read_rope(Keys &keys, Config &config, std::vector<std::string> &unknown) {
  const json *parameters = keys.find("rope_parameters"), *scaling = keys.find("rope_scaling");
  if (parameters && scaling) throw Refused("config.json: rope_parameters and rope_scaling are both given");
  const json none = json::object();
  const json &object = parameters ? *parameters : scaling ? *scaling : none;
  const std::string name = parameters ? "rope_parameters" : "rope_scaling";
  if (!object.is_object()) keys.refuse(name, "must be an object");
  Keys rope(object, "config.json: " + name);
  rope.only("partial_rotary_factor", 1);

  rapt_rope_frequency_options &o = config.rope;
  o.rotary_dim = config.head_dim;
  o.base = keys.number("rope_theta", 10000);
  o.base = rope.number("rope_theta", o.base);
  if (!(o.base > 1)) (rope.has("rope_theta") ? rope : keys).refuse("rope_theta", "must be above 1");
  const std::string old_name = rope.text("type", "default"), type = rope.text("rope_type", old_name);
  if (type != "default") {
    if (type != "linear" && type != "llama3" && type != "yarn") {
      rope.refuse(rope.has("rope_type") ? "rope_type" : "type", "must be default, linear, llama3 or yarn");
    }
    o.factor = rope.number("factor");
    if (o.factor < 0x1p-10) rope.refuse("factor", "must be 1/1024 or more");
  }
  if (type == "linear") {
    o.scaling = RAPT_ROPE_SCALING_LINEAR;
  } else if (type == "llama3" || type == "yarn") {
    // Versions of transformers differ about a value outside that is not the one inside.
    const char *original = "original_max_position_embeddings";
    const std::size_t outside = keys.find(original) ? keys.size(original) : 0;
    o.original_max_position_embeddings =
        rope.find(original) ? rope.size(original) : keys.size("max_position_embeddings");
    if (outside && outside != o.original_max_position_embeddings) {
      keys.refuse(original, "differs from that of the scaling");
    }
    if (type == "llama3") {
      o.scaling = RAPT_ROPE_SCALING_LLAMA3;
      o.low_freq_factor = rope.number("low_freq_factor");
      o.high_freq_factor = rope.number("high_freq_factor");
      if (o.low_freq_factor >= o.high_freq_factor) {
        rope.refuse("high_freq_factor", "must be above low_freq_factor");
      }
    } else {
      o.scaling = RAPT_ROPE_SCALING_YARN;
      o.beta_fast = rope.number("beta_fast", 32);
      o.beta_slow = rope.number("beta_slow", 1);
      if (o.beta_slow >= o.beta_fast) rope.refuse("beta_fast", "must be above beta_slow");
      o.no_truncate = !rope.flag("truncate", true);
      if (rope.find("attention_factor")) config.attention_factor = rope.number("attention_factor");
    }
  } else if (rope.has("factor")) {
    rope.refuse("rope_type", "is needed with factor");
  }
  rope.add_unknown(name + ".", unknown);
}

// Which layers see only the last keys. transformers' Llama has no windows. All layers of a Mistral have them, and in
// a Qwen those from max_window_layers on, or those that layer_types names.
std::vector<std::size_t> windows_of(Keys &keys, const std::string &model, std::size_t layers) {
  const bool mistral = model == "mistral", llama = model == "llama";
  const bool slides = keys.flag("use_sliding_window") || mistral;
  const bool none = keys.has("sliding_window") && !keys.find("sliding_window");
  const std::size_t window = slides && !none ? keys.size("sliding_window", 4096) : 0;
  if (llama && window) keys.refuse("use_sliding_window", "is not supported in a llama");
  keys.find("max_window_layers");
  const std::size_t full = window && !mistral ? keys.size("max_window_layers", 28, 0) : 0;
  std::vector<std::size_t> windows(window ? layers : 0);
  for (std::size_t i = full; i < windows.size(); ++i) windows[i] = window;

  const json *const kinds = keys.find("layer_types");
  if (!kinds) return windows;
  if (!kinds->is_array() || kinds->size() != layers)
    keys.refuse("layer_types", "must be a list of all layers");
  for (std::size_t i = 0; i < layers; ++i) {
    const bool sliding = (*kinds)[i] == "sliding_attention";
    if (!sliding && (*kinds)[i] != "full_attention") {
      keys.refuse("layer_types", "may have only full_attention and sliding_attention");
    }
    if (sliding && !window) keys.refuse("layer_types", "has windows, but no sliding_window is in use");
    if (mistral && !sliding && window) keys.refuse("layer_types", "contradicts sliding_window");
    if (window) windows[i] = sliding ? window : 0;
  }
  return windows;
}

void refuse_unknown(std::vector<std::string> unknown, const std::vector<std::string> &ignored) {
  const auto is_ignored = [&](const std::string &key) {
    return std::find(ignored.begin(), ignored.end(), key) != ignored.end();
  };
  unknown.erase(std::remove_if(unknown.begin(), unknown.end(), is_ignored), unknown.end());
  if (unknown.empty()) return;
  constexpr std::size_t most = 16;
  std::string text = "config.json: ";
  for (std::size_t i = 0; i < std::min(most, unknown.size()); ++i) {
    text += (i > 0 ? ", " : "") + shown(unknown[i]);
  }
  if (unknown.size() > most) text += " and " + std::to_string(unknown.size() - most) + " more";
  throw Refused(text + (unknown.size() > 1 ? " are" : " is") +
                " not known here, and may change the logits; --ignore-key says of one that it does not");
}

rapt_type dtype_of(Keys &keys) {
  const std::string name = keys.text("dtype", keys.text("torch_dtype", "float32"));
  return name == "float16" ? RAPT_F16 : name == "bfloat16" ? RAPT_BF16 : RAPT_F32;
}

std::vector<std::uint32_t> eos_of(Keys &keys) {
  std::vector<std::uint32_t> eos;
  const json *value = keys.find("eos_token_id");
  if (!value) return eos;
  for (const json &id : value->is_array() ? *value : json::array({*value})) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > largest_size) {
      keys.refuse("eos_token_id", "must be a token or a list of tokens");
    }
    eos.push_back(id.get<std::uint32_t>());
  }
  return eos;
}

}  // namespace

Config parse_config(std::string_view text, const std::vector<std::string> &ignored) {
  const json object = parse_json(text, "config.json");
  Keys keys(object, "config.json");
  const std::string type = keys.text("model_type", "");
  const bool llama = type == "llama", mistral = type == "mistral", qwen2 = type == "qwen2",
             qwen3 = type == "qwen3";
  if (!llama && !mistral && !qwen2 && !qwen3) {
    keys.refuse("model_type", "must be llama, mistral, qwen2 or qwen3");
  }
  const json values = json::parse(fixed);
  for (const auto &one : values.items()) keys.only(one.key(), one.value());
  std::istringstream words(harmless);
  for (std::string key; words >> key;) keys.find(key);
  Config c;
  c.hidden = keys.size("hidden_size");
  c.layers = keys.size("num_hidden_layers");
  c.heads = keys.size("num_attention_heads");
  // Without the key, each head of a Llama has its own keys. Mistral has 8 in transformers, and Qwen 32.
  const bool own_keys = llama || keys.has("num_key_value_heads");
  c.kv_heads = keys.size("num_key_value_heads", own_keys ? c.heads : mistral ? 8 : 32);
  if (c.heads % c.kv_heads != 0) keys.refuse("num_key_value_heads", "must divide num_attention_heads");
  if (keys.find("head_dim")) {
    c.head_dim = keys.size("head_dim");
  } else if (qwen3 && !keys.has("head_dim")) {
    c.head_dim = 128;
  } else {
    if (c.hidden % c.heads != 0) keys.refuse("num_attention_heads", "must divide hidden_size");
    c.head_dim = c.hidden / c.heads;
  }
  if (c.head_dim % 2 != 0) {
    throw Refused("config.json: head_dim must be even, as RoPE turns pairs; it is " +
                  std::to_string(c.head_dim));
  }
  if (c.heads * c.head_dim > largest_size) keys.refuse("num_attention_heads", "is too large for head_dim");
  c.intermediate = keys.size("intermediate_size");
  c.vocab = keys.size("vocab_size");
  c.eps = keys.number("rms_norm_eps", 1e-6);
  c.tied = keys.flag("tie_word_embeddings");
  c.qk_norm = qwen3;
  // Qwen2 has biases of q, k and v, and no key says so. Mistral has none, whatever the keys say.
  const bool attention_bias = keys.flag("attention_bias"), mlp_bias = keys.flag("mlp_bias");
  c.qkv_bias = qwen2 || (!mistral && attention_bias);
  c.o_bias = (llama || qwen3) && attention_bias;
  c.mlp_bias = llama && mlp_bias;
  c.dtype = dtype_of(keys);
  c.eos = eos_of(keys);
  if (keys.find("max_position_embeddings")) c.max_positions = keys.size("max_position_embeddings");
  c.windows = windows_of(keys, type, c.layers);
  std::vector<std::string> unknown;
  read_rope(keys, c, unknown);
  keys.add_unknown("", unknown);
  refuse_unknown(std::move(unknown), ignored);
  return c;
}

std::string shown(std::string_view text, std::size_t longest) {
  std::string line(text.substr(0, longest));
  for (char &c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text.size() > longest ? line + "..." : line;
}

}  // namespace decoder
