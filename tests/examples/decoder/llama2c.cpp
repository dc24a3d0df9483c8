// Reads llama2.c's .bin (the legacy format): seven sizes, and all weights in f32.
#include <algorithm>
#include <cstring>
#include <map>

#include "checkpoint.hpp"
#include "files.hpp"
#include "model.hpp"

namespace decoder {
namespace {

class Llama2c : public Checkpoint {
 public:
  explicit Llama2c(const std::filesystem::path &path) : file_(path) {
    refuse_others(path.filename().string());
    std::int32_t sizes[7];
    if (file_.size() < sizeof sizes) throw Refused(path.filename().string() + " is shorter than its header");
    file_.read(0, sizeof sizes, sizes);
    if (sizes[0] == 0x616b3432)
      throw Refused("the .bin has llama2.c's newer format (ak42), which is not supported");
    const bool own_head = sizes[5] < 0;
    if (own_head) sizes[5] = sizes[5] == INT32_MIN ? 0 : -sizes[5];
    static const char *const names[] = {"dim",        "hidden_dim", "n_layers", "n_heads",
                                        "n_kv_heads", "vocab_size", "seq_len"};
    for (int i = 0; i < 7; ++i) {
      if (sizes[i] < 1 || sizes[i] > static_cast<std::int32_t>(largest_size)) {
        throw Refused(std::string("the .bin's ") + names[i] + " is not from 1 to 2^24");
      }
    }
    Config &c = config_;
    std::size_t *const fields[] = {&c.hidden,   &c.intermediate, &c.layers,       &c.heads,
                                   &c.kv_heads, &c.vocab,        &c.max_positions};
    for (int i = 0; i < 7; ++i) *fields[i] = static_cast<std::size_t>(sizes[i]);
    if (c.hidden % c.heads != 0) throw Refused("the .bin's n_heads does not divide its dim");
    if (c.heads % c.kv_heads != 0) throw Refused("the .bin's n_kv_heads does not divide its n_heads");
    c.head_dim = c.hidden / c.heads;
    if (c.head_dim % 2 != 0) throw Refused("the .bin's heads have an odd size, but RoPE turns pairs");
    c.eps = 1e-5;
    c.tied = !own_head;
    c.rope_layout = RAPT_ROPE_PAIRS;
    c.rope.rotary_dim = c.head_dim;
    c.eos = {1};  // llama2.c ends where a sequence begins
    find_tensors();
  }

  Tensor read(const std::string &name, std::size_t rows, std::size_t cols) override {
    const auto found = offsets_.find(name);
    if (found == offsets_.end()) throw Refused(name + " is missing");
    Tensor tensor{RAPT_F32, std::vector<std::byte>((rows ? rows : 1) * cols * sizeof(float))};
    file_.read(found->second, tensor.bytes.size(), tensor.bytes.data());
    return tensor;
  }

 private:
  // Other formats of models begin with other names, or with the length of a header.
  void refuse_others(const std::string &name) {
    static constexpr struct {
      const char *start, *format;
    } others[] = {{"GGUF", "GGUF"},        {"lmgg", "ggml's"},      {"fmgg", "ggml's"}, {"tjgg", "ggml's"},
                  {"PK\3\4", "PyTorch's"}, {"\x80\2", "PyTorch's"}, {"\x89HDF", "HDF5"}};
    const std::string start =
        file_.read(0, static_cast<std::size_t>(std::min<std::uint64_t>(file_.size(), 16)));
    for (const auto &other : others) {
      if (start.rfind(other.start, 0) == 0) {
        throw Refused(name + " has the format of " + other.format + ", which is not supported");
      }
    }
    if (start.size() > 9 && start[8] == '{' && start[9] == '"') {
      throw Refused(name + " is a safetensors file; the decoder takes its folder, with config.json");
    }
  }

  void find_tensors() {
    const Config &c = config_;
    const std::size_t kv = c.kv_heads * c.head_dim;
    std::uint64_t at = 7 * sizeof(std::int32_t);
    const auto skip = [&](std::uint64_t elements) {
      at += elements * sizeof(float);
      if (at > file_.size()) throw Refused("the .bin is shorter than its sizes say");
    };
    const auto tensor = [&](const std::string &name, std::uint64_t elements) {
      offsets_[name] = at;
      skip(elements);
    };
    const auto layers = [&](const char *name, std::uint64_t elements) {
      for (std::size_t i = 0; i < c.layers; ++i) {
        tensor("model.layers." + std::to_string(i) + "." + name + ".weight", elements);
      }
    };
    tensor("model.embed_tokens.weight", c.vocab * c.hidden);
    layers("input_layernorm", c.hidden);
    layers("self_attn.q_proj", c.hidden * c.hidden);
    layers("self_attn.k_proj", kv * c.hidden);
    layers("self_attn.v_proj", kv * c.hidden);
    layers("self_attn.o_proj", c.hidden * c.hidden);
    layers("post_attention_layernorm", c.hidden);
    layers("mlp.gate_proj", c.intermediate * c.hidden);
    layers("mlp.down_proj", c.hidden * c.intermediate);
    layers("mlp.up_proj", c.intermediate * c.hidden);
    tensor("model.norm.weight", c.hidden);
    const std::uint64_t tables = at;
    skip(c.max_positions * c.head_dim);
    if (!c.tied) tensor("lm_head.weight", c.vocab * c.hidden);
    if (at != file_.size()) throw Refused("the .bin is longer than its sizes say");
    check_tables(tables);
  }

  // The file has cosines and sines of all angles, which llama2.c no longer reads. Turned back by its angle, each
  // pair is (1, 0), as far as f32 holds the angle of a high position.
  void check_tables(std::uint64_t at) {
    constexpr std::size_t positions_at_a_time = 64, last_position = 32768;
    const std::size_t half = config_.head_dim / 2, positions = std::min(config_.max_positions, last_position);
    std::vector<double> frequencies(half);
    must(rapt_rope_frequencies(frequencies.data(), nullptr, &config_.rope));
    for (std::size_t first = 0; first < positions; first += positions_at_a_time) {
      const std::size_t count = std::min(positions_at_a_time, positions - first);
      std::vector<float> pairs(count * 2 * half);  // halves: a row of cosines, then of sines
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t cosines = at + (first + i) * half * sizeof(float);
        file_.read(cosines, half * sizeof(float), &pairs[2 * i * half]);
        file_.read(cosines + config_.max_positions * half * sizeof(float), half * sizeof(float),
                   &pairs[(2 * i + 1) * half]);
      }
      rapt_rope_options options = RAPT_ROPE_OPTIONS_INIT;
      options.batch = options.heads = 1;
      options.tokens = count;
      options.head_dim = 2 * half;
      options.frequencies = frequencies.data();
      options.first_position = static_cast<std::int64_t>(first);
      options.backward = 1;
      must(rapt_rope(pairs.data(), pairs.data(), &options));
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const bool is_cosine = i / half % 2 == 0;
        if (is_cosine ? pairs[i] > 0.98f && pairs[i] < 1.02f : pairs[i] > -0.02f && pairs[i] < 0.02f)
          continue;
        throw Refused("the .bin's tables freq_cis_real and freq_cis_imag are not those of theta 10000");
      }
    }
  }

  File file_;
  std::map<std::string, std::uint64_t> offsets_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_llama2c(const std::filesystem::path &path) {
  return std::make_unique<Llama2c>(path);
}

}  // namespace decoder
