// Reads safetensors: 8 bytes for the length of a header, the header in JSON, and the tensors one after the other.
#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <map>

#include "checkpoint.hpp"
#include "files.hpp"
#include "json.hpp"

namespace decoder {
namespace {

using nlohmann::json;
using std::filesystem::path;

struct Entry {
  path file;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // in the file
};
using Entries = std::map<std::string, Entry>;

std::uint64_t whole_number(const json &value, const std::string &what) {
  if (!value.is_number_unsigned()) throw Refused(what + " has a number that is no unsigned integer");
  return value.get<std::uint64_t>();
}

Entry parse_entry(const json &value, const std::string &what, std::uint64_t body, std::uint64_t body_size) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets") || !value["dtype"].is_string() || !value["shape"].is_array() ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2) {
    throw Refused(what + " does not consist of dtype, shape and data_offsets");
  }
  Entry entry;
  entry.dtype = value["dtype"].get<std::string>();
  for (const json &size : value["shape"]) entry.shape.push_back(whole_number(size, what));
  const std::uint64_t begin = whole_number(value["data_offsets"][0], what);
  const std::uint64_t end = whole_number(value["data_offsets"][1], what);
  if (begin > end || end > body_size) throw Refused(what + " lies outside of the file");
  entry.begin = body + begin;
  entry.end = body + end;
  return entry;
}

rapt_type type_of(const std::string &name, const Entry &entry) {
  if (entry.dtype == "F32") return RAPT_F32;
  if (entry.dtype == "F16") return RAPT_F16;
  if (entry.dtype == "BF16") return RAPT_BF16;
  throw Refused(name + " has the dtype " + shown(entry.dtype) + "; F32, F16 and BF16 are supported");
}

std::vector<float> rounded(std::vector<float> numbers, rapt_type type) {
  std::vector<std::uint16_t> halves(numbers.size());
  if (type == RAPT_F16) {
    rapt_convert_f32_to_f16(numbers.data(), halves.data(), numbers.size());
    rapt_convert_f16_to_f32(halves.data(), numbers.data(), numbers.size());
  } else if (type == RAPT_BF16) {
    rapt_convert_f32_to_bf16(numbers.data(), halves.data(), numbers.size());
    rapt_convert_bf16_to_f32(halves.data(), numbers.data(), numbers.size());
  }
  return numbers;
}

// Says whether positive numbers are the same but for their last `bits` bits, by which formulas in f32 differ.
bool nearly_equal(const std::vector<float> &a, const std::vector<float> &b, int bits) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](float x, float y) {
    const std::int64_t distance =
        std::int64_t{std::bit_cast<std::int32_t>(x)} - std::bit_cast<std::int32_t>(y);
    return distance >> bits == 0 || -distance >> bits == 0;
  });
}

// Adds the tensors of one file. The format demands that tensors cover the file, without gaps or overlaps.
void read_header(const path &file, Entries &entries) {
  const std::string name = file.filename().string();
  File in(file);
  std::uint64_t length = 0;
  if (in.size() < 8) throw Refused(name + " is shorter than the length of its header");
  const std::string start = in.read(0, 8);
  for (int byte = 7; byte >= 0; --byte)
    length = length << 8 | static_cast<unsigned char>(start[static_cast<std::size_t>(byte)]);
  if (length > in.size() - 8) throw Refused(name + " ends within its header");
  const json header = parse_json(in.read(8, length), "the header of " + name);

  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;
  for (const auto &item : header.items()) {
    if (item.key() == "__metadata__") continue;
    Entry entry =
        parse_entry(item.value(), shown(item.key()) + " in " + name, 8 + length, in.size() - 8 - length);
    entry.file = file;
    spans.emplace_back(entry.begin, entry.end);
    if (!entries.emplace(item.key(), std::move(entry)).second)
      throw Refused(shown(item.key()) + " is in two files");
  }
  std::sort(spans.begin(), spans.end());
  std::uint64_t at = 8 + length;
  for (const auto &[begin, end] : spans) {
    if (begin != at) throw Refused(name + " has tensors that overlap, or a gap between them");
    at = end;
  }
  if (at != in.size()) throw Refused(name + " has bytes after its last tensor");
}

// The index of a model in several files says which file has which tensor.
void read_index(const path &folder, Entries &entries) {
  const std::string name = "model.safetensors.index.json";
  const json index = parse_json(File(folder / name).read_all(), name);
  if (!index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw Refused(name + " has no weight_map");
  }
  std::set<std::string> files;
  for (const auto &item : index["weight_map"].items()) {
    if (!item.value().is_string()) throw Refused(name + ": " + shown(item.key()) + " is in no file");
    const std::string file = item.value().get<std::string>();
    if (file.find_first_of("/\\") != std::string::npos)
      throw Refused(name + ": " + shown(file) + " is not in the folder");
    if (files.insert(file).second) read_header(folder / file, entries);
  }
  for (const auto &item : index["weight_map"].items()) {
    const auto found = entries.find(item.key());
    if (found == entries.end() || found->second.file.filename() != item.value().get<std::string>()) {
      throw Refused(shown(item.key()) + " is not in the file that " + name + " names");
    }
  }
  if (entries.size() != index["weight_map"].size())
    throw Refused(name + " does not have all tensors of its files");
}

class Safetensors : public Checkpoint {
 public:
  Safetensors(const path &folder, const std::vector<std::string> &ignored) {
    config_ = parse_config(File(folder / "config.json").read_all(), ignored);
    const path whole = folder / "model.safetensors";
    if (exists(whole)) {
      read_header(whole, entries_);
    } else if (exists(folder / "model.safetensors.index.json")) {
      read_index(folder, entries_);
    } else {
      throw Refused(folder.string() + " has neither model.safetensors nor model.safetensors.index.json");
    }
    check_names();
    for (const auto &[name, entry] : entries_) {
      if (is_table(name)) check_table(name);
    }
    if (config_.tied && entries_.count("lm_head.weight")) check_head();
  }

  Tensor read(const std::string &name, std::size_t rows, std::size_t cols) override {
    const Entry &entry = find(name, rows, cols);
    Tensor tensor;
    tensor.type = type_of(name, entry);
    const std::size_t bytes = (rows ? rows : 1) * cols * bytes_of(tensor.type);
    if (entry.end - entry.begin != bytes)
      throw Refused(name + " has another number of bytes than its shape says");
    tensor.bytes.resize(bytes);
    File(entry.file).read(entry.begin, bytes, tensor.bytes.data());
    return tensor;
  }

 private:
  const Entry &find(const std::string &name, std::size_t rows, std::size_t cols) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) throw Refused(name + " is missing");
    std::vector<std::uint64_t> shape{cols};
    if (rows) shape.insert(shape.begin(), rows);
    if (found->second.shape != shape) throw Refused(name + " has another shape than config.json says");
    return found->second;
  }

  // A tensor that the model does not read may change what the model means, such as a bias that no key announces.
  void check_names() const {
    static const char *const in_layer[] = {"input_layernorm.weight",  "post_attention_layernorm.weight",
                                           "self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                           "self_attn.v_proj.weight", "self_attn.o_proj.weight",
                                           "mlp.gate_proj.weight",    "mlp.up_proj.weight",
                                           "mlp.down_proj.weight"};
    std::set<std::string> known{"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"};
    for (std::size_t layer = 0; layer < config_.layers && known.size() <= 2 * entries_.size() + 32; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      for (const char *name : in_layer) known.insert(prefix + name);
      const auto insert = [&](bool used, std::initializer_list<const char *> names) {
        if (used)
          for (const char *name : names) known.insert(prefix + name);
      };
      insert(config_.qkv_bias, {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"});
      insert(config_.o_bias, {"self_attn.o_proj.bias"});
      insert(config_.mlp_bias, {"mlp.gate_proj.bias", "mlp.up_proj.bias", "mlp.down_proj.bias"});
      insert(config_.qk_norm, {"self_attn.q_norm.weight", "self_attn.k_norm.weight"});
    }
    for (const auto &[name, entry] : entries_) {
      if (!is_table(name) && known.count(name) == 0)
        throw Refused(shown(name) + " is not a tensor of the model in config.json");
    }
  }

  static bool is_table(const std::string &name) {
    return name.find("rotary_emb.inv_freq") != std::string::npos;
  }

  // Old files have the frequencies of RoPE: scaled or not, and rounded to some type of weights.
  void check_table(const std::string &name) {
    const Tensor tensor = read(name, 0, config_.head_dim / 2);
    std::vector<float> stored(config_.head_dim / 2);
    widen(tensor.type, tensor.bytes.data(), stored.data(), stored.size());
    rapt_rope_frequency_options plain = RAPT_ROPE_FREQUENCY_OPTIONS_INIT;
    plain.rotary_dim = config_.rope.rotary_dim;
    plain.base = config_.rope.base;
    for (const rapt_rope_frequency_options &options : {plain, config_.rope}) {
      std::vector<double> exact(stored.size());
      if (rapt_rope_frequencies(exact.data(), nullptr, &options) != RAPT_OK)
        continue;  // the model refuses it
      const std::vector<float> numbers(exact.begin(), exact.end());
      // The formula in f32 errs by less than 128 units, and by at most one unit of a shorter type.
      for (const auto &[type, bits] : {std::pair(RAPT_F32, 7), {RAPT_F16, 14}, {RAPT_BF16, 17}}) {
        if (rounded(stored, type) == stored && nearly_equal(stored, rounded(numbers, type), bits)) return;
      }
    }
    throw Refused(name + " differs from the frequencies that rope_theta in config.json gives");
  }

  // The embedding is the head. A file may repeat it, but another head would be another model.
  void check_head() {
    const std::string head = "lm_head.weight", embedding = "model.embed_tokens.weight";
    const auto rows = [&](const std::string &name, std::size_t row, std::size_t count) {
      const Entry &entry = find(name, config_.vocab, config_.hidden);
      const rapt_type type = type_of(name, entry);
      const std::size_t row_bytes = config_.hidden * bytes_of(type);
      std::vector<std::byte> stored(count * row_bytes);
      File(entry.file).read(entry.begin + row * row_bytes, stored.size(), stored.data());
      std::vector<float> numbers(count * config_.hidden);
      widen(type, stored.data(), numbers.data(), numbers.size());
      return numbers;
    };
    constexpr std::size_t at_a_time = 1024;
    for (std::size_t row = 0; row < config_.vocab; row += at_a_time) {
      const std::size_t count = std::min(at_a_time, config_.vocab - row);
      const std::vector<float> a = rows(head, row, count), b = rows(embedding, row, count);
      if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) != 0) {
        throw Refused(head + " differs from " + embedding +
                      ", but tie_word_embeddings says that they are one");
      }
    }
  }

  Entries entries_;
};

}  // namespace

std::unique_ptr<Checkpoint> open_checkpoint(const path &at, const std::vector<std::string> &ignored_keys) {
  if (is_directory(at)) return std::make_unique<Safetensors>(at, ignored_keys);
  return open_llama2c(at);
}

}  // namespace decoder
