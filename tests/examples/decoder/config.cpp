#include "config.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "json.hpp"

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

using nlohmann::json;

// These keys change no logit of a model that is only evaluated.
constexpr const char *harmless[] = {"_name_or_path",
                                    "architectures",
                                    "attention_dropout",
                                    "auto_map",
                                    "bos_token_id",
                                    "id2label",
                                    "initializer_range",
                                    "is_llama_config",
                                    "label2id",
                                    "max_window_layers",
                                    "output_attentions",
                                    "output_hidden_states",
                                    "pad_token_id",
                                    "pretraining_tp",
                                    "problem_type",
                                    "return_dict",
                                    "sliding_window",
                                    "transformers.js_config",
                                    "transformers_version",
                                    "unsloth_fixed",
                                    "unsloth_version",
                                    "use_cache"};

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

  std::size_t size(const std::string &key, std::size_t absent = 0) {
    const json *value = find(key);
    if (!value && absent) return absent;
    if (!value || !value->is_number_unsigned() || value->get<std::uint64_t>() - 1 >= largest_size) {
      refuse(key, "must be an integer from 1 to 2^24");
    }
    return value->get<std::size_t>();
  }
  double number(const std::string &key, double absent = 0) {
    const json *value = find(key);
    if (!value && absent > 0) return absent;
    if (!value || !value->is_number() || !(value->get<double>() > 0 && value->get<double>() < 1e30)) {
      refuse(key, "must be a positive number");
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
    throw Refused(of_ + ": " + key + " " + why + "; it is " + value);
  }
  template <class Known>
  void refuse_others(const Known &known) const {
    for (const auto &item : object_.items()) {
      if (asked_.count(item.key()) == 0 &&
          std::find(std::begin(known), std::end(known), item.key()) == std::end(known)) {
        throw Refused(of_ + ": " + item.key() + " is not known here, and may change the logits");
      }
    }
  }

 private:
  const json &object_;
  std::string of_;
  std::set<std::string> asked_;
};

void read_rope(Keys &keys, Config &config) {
  const json *parameters = keys.find("rope_parameters"), *scaling = keys.find("rope_scaling");
  if (parameters && scaling) throw Refused("config.json: rope_parameters and rope_scaling are both given");
  const json none = json::object();
  const json &object = parameters ? *parameters : scaling ? *scaling : none;
  if (!object.is_object()) throw Refused("config.json: rope_scaling or rope_parameters is not an object");
  Keys rope(object, parameters ? "config.json: rope_parameters" : "config.json: rope_scaling");
  keys.only("partial_rotary_factor", 1);
  rope.only("partial_rotary_factor", 1);
  keys.only("rope_interleaved", false);

  rapt_rope_frequency_options &o = config.rope;
  o.rotary_dim = config.head_dim;
  o.base = keys.number("rope_theta", 10000);
  o.base = rope.number("rope_theta", o.base);
  if (!(o.base > 1)) (rope.has("rope_theta") ? rope : keys).refuse("rope_theta", "must be above 1");
  const std::string old_name = rope.text("type", "default"), type = rope.text("rope_type", old_name);
  if (type == "linear") {
    o.scaling = RAPT_ROPE_SCALING_LINEAR;
    o.factor = rope.number("factor");
  } else if (type == "llama3" || type == "yarn") {
    o.factor = rope.number("factor");
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
    } else {
      o.scaling = RAPT_ROPE_SCALING_YARN;
      o.beta_fast = rope.number("beta_fast", 32);
      o.beta_slow = rope.number("beta_slow", 1);
      o.no_truncate = !rope.flag("truncate", true);
      if (rope.find("attention_factor")) config.attention_factor = rope.number("attention_factor");
    }
  } else if (type != "default") {
    rope.refuse(rope.has("rope_type") ? "rope_type" : "type", "is not supported");
  }
  if (type == "default" && rope.has("factor"))
    throw Refused("config.json: a scaling of RoPE has no rope_type");
  rope.refuse_others(std::vector<std::string>{});
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
  const bool llama = type == "llama", qwen2 = type == "qwen2", qwen3 = type == "qwen3";
  if (!llama && !qwen2 && !qwen3) keys.refuse("model_type", "must be llama, qwen2 or qwen3");
  keys.only("hidden_act", "silu");
  keys.only("quantization_config", nullptr);
  keys.only("use_mrope", false);
  if (keys.flag("use_sliding_window") && keys.find("sliding_window")) {
    keys.refuse("use_sliding_window", "is not supported");
  }
  if (const json *kinds = keys.find("layer_types")) {
    for (const json &kind : *kinds) {
      if (kind != "full_attention") keys.refuse("layer_types", "may have only full_attention");
    }
  }

  Config c;
  c.hidden = keys.size("hidden_size");
  c.layers = keys.size("num_hidden_layers");
  c.heads = keys.size("num_attention_heads");
  // Without the key, each head of a Llama has its own keys, and transformers' Qwen has 32.
  c.kv_heads = keys.size("num_key_value_heads", llama || keys.has("num_key_value_heads") ? c.heads : 32);
  if (c.heads % c.kv_heads != 0) keys.refuse("num_key_value_heads", "must divide num_attention_heads");
  if (keys.find("head_dim")) {
    c.head_dim = keys.size("head_dim");
  } else if (qwen3 && !keys.has("head_dim")) {
    c.head_dim = 128;
  } else {
    if (c.hidden % c.heads != 0) keys.refuse("num_attention_heads", "must divide hidden_size");
    c.head_dim = c.hidden / c.heads;
  }
  if (c.head_dim % 2 != 0) throw Refused("config.json: head_dim is odd, but RoPE turns pairs");
  if (c.heads * c.head_dim > largest_size) keys.refuse("num_attention_heads", "is too large for head_dim");
  c.intermediate = keys.size("intermediate_size");
  c.vocab = keys.size("vocab_size");
  c.eps = keys.number("rms_norm_eps", 1e-6);
  c.tied = keys.flag("tie_word_embeddings");
  c.qk_norm = qwen3;
  // Qwen2 has biases of q, k and v, and no key says so.
  const bool attention_bias = keys.flag("attention_bias"), mlp_bias = keys.flag("mlp_bias");
  c.qkv_bias = qwen2 || attention_bias;
  c.o_bias = !qwen2 && attention_bias;
  c.mlp_bias = llama && mlp_bias;
  c.dtype = dtype_of(keys);
  c.eos = eos_of(keys);
  if (keys.find("max_position_embeddings")) c.max_positions = keys.size("max_position_embeddings");
  read_rope(keys, c);

  std::vector<std::string> known(std::begin(harmless), std::end(harmless));
  known.insert(known.end(), ignored.begin(), ignored.end());
  keys.refuse_others(known);
  return c;
}

}  // namespace decoder
