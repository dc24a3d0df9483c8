// What the plugin computes in more ways than one, or refuses: packed and plain weights, fused and single ops, weights
// in i8 and f32 arithmetic, adapters, and layers that somebody else would compute.
#include <ggml-backend.h>
#include <ggml.h>
#include <gguf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "model.hpp"
#include "play.hpp"
#include "scenes.hpp"

namespace rapt_ggml_tests {
namespace {

bool contains(const std::string &text, std::string_view part) { return text.find(part) != text.npos; }

llama_token token_at(int i, int sequence = 0) {
  return static_cast<llama_token>(static_cast<unsigned>(i * 7 + sequence * 131 + 3) * 2654435761u >> 23);
}

// ---- a model, computed in one of several ways

struct Way {
  std::string name;
  std::map<std::string, std::string> environment;
  std::function<void(llama_model_params &)> load;
  Settings settings;
};

struct Result {
  std::string problem;  // a process that ended, and why
  std::string hash;
  int splits = -1;
  bool packed = false;                // whether the log names a buffer of packed weights
  std::vector<std::string> warnings;  // of the plugin
};

bool compute(const std::string &path, const Way &way, std::FILE *out) {
  for (const auto &[name, value] : way.environment) setenv(name.c_str(), value.c_str(), 1);
  const Model model = load_model(path, way.load);
  const Context context = model ? new_context(model.get(), way.settings) : nullptr;
  if (!context) return std::fputs(take_log().c_str(), stderr), false;
  const auto width = static_cast<std::size_t>(llama_model_n_embd(model.get()));
  Hash hash;
  std::vector<Entry> entries;
  for (int i = 0; i < 80; ++i) entries.push_back({token_at(i), i, 0});
  for (int step = 0; step < (way.settings.embeddings ? 1 : 8); ++step) {
    if (evaluate(context.get(), entries) != 0) return std::fputs("llama_decode fails\n", stderr), false;
    std::span<const float> values;
    for (int i = 0; i < static_cast<int>(entries.size()); ++i) {
      values = way.settings.embeddings
                   ? std::span<const float>(llama_get_embeddings_ith(context.get(), i), width)
                   : logits_of(context.get(), i);
      if (!all_finite(values)) return std::fputs("not all numbers are finite\n", stderr), false;
      hash.add(values);
    }
    entries = {{largest(values), 80 + step, 0}};
  }
  const std::string log = take_log();
  std::fprintf(out, "%016llx %d %d\n", static_cast<unsigned long long>(hash.value()), splits_in(log),
               contains(log, "RAPT_PACKED model buffer"));
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("rapt: ") && !contains(line, "are decoded to f16"))
      std::fprintf(out, "%s\n", line.c_str());
  return true;
}

// The scene's process has computed nothing yet, so that its children read their own environment.
Result result_of(const std::string &path, const Way &way) {
  const Outcome o = in_child([&](std::FILE *out) { return compute(path, way, out); });
  Result r;
  if (!o.passed) return r.problem = o.text, r;
  std::istringstream lines(o.text);
  lines >> r.hash >> r.splits >> r.packed;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("rapt: ") && !contains(line, "packed for each use")) r.warnings.push_back(line);
  return r;
}

// Every weight in a buffer of this type, as far as it has a name.
std::function<void(llama_model_params &)> weights_in(const std::string &device) {
  return [device](llama_model_params &p) {
    static llama_model_tensor_buft_override all[2] = {};
    all[0] = {".*", ggml_backend_dev_buffer_type(ggml_backend_dev_by_name(device.c_str()))};
    p.tensor_buft_overrides = all;
    p.use_extra_bufts = false;
  };
}

// The embedding among the packed weights.
void embedding_packed(llama_model_params &p) {
  static llama_model_tensor_buft_override all[2] = {};
  const ggml_backend_dev_t device = ggml_backend_dev_by_name("RAPT");
  const auto buffer_types =
      reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  all[0] = {"token_embd.weight", buffer_types(device)[0]};
  p.tensor_buft_overrides = all;
}

Way standard(const Seeded &seeded) {
  Way way;
  set_cache(way.settings, seeded.cache);
  if (!way.settings.flash) way.environment["RAPT_GGML_STRICT"] = "0";
  way.settings.threads = 2;
  way.settings.ubatch = is_encoder(seeded.model) ? 512 : 32;
  way.settings.embeddings = is_encoder(seeded.model);
  if (way.settings.embeddings) way.settings.pooling = LLAMA_POOLING_TYPE_NONE;
  return way;
}

std::vector<Way> ways(const Seeded &seeded) {
  const Way way = standard(seeded);
  const auto with = [&](const std::string &name, const std::function<void(Way &)> &change) {
    Way other = way;
    other.name = name;
    change(other);
    return other;
  };
  return {with("packed", [](Way &) {}),
          with("plain", [](Way &w) { w.load = weights_in("RAPT"); }),
          with("in the host's memory", [](Way &w) { w.load = weights_in("CPU"); }),
          with("embedding packed", [](Way &w) { w.load = embedding_packed; }),
          with("not fused", [](Way &w) { w.environment["RAPT_GGML_FUSE"] = "0"; }),
          with("not fused, one thread",
               [](Way &w) { w.environment["RAPT_GGML_FUSE"] = "0", w.settings.threads = 1; }),
          with("fused, one thread", [](Way &w) { w.settings.threads = 1; }),
          with("not mapped",
               [](Way &w) { w.load = [](llama_model_params &p) { p.load_mode = LLAMA_LOAD_MODE_NONE; }; })};
}

// All ways have one hash, one split and no warning, and the plain ones no packed weights.
Verdict equal(const std::string &path, const Seeded &seeded,
              const std::map<std::string, std::string> &environment) {
  std::string first, text;
  for (Way way : ways(seeded)) {
    // Packed weights of these types are rounded to f16, so their rows are not taken.
    const bool are_rounded = seeded.weights.starts_with("IQ") && !seeded.weights.starts_with("IQ4");
    if (are_rounded && way.name == "embedding packed") continue;
    way.environment.insert(environment.begin(), environment.end());
    const Result r = result_of(path, way);
    if (!r.problem.empty()) return {way.name + ": " + r.problem, ""};
    if (r.splits != 1) return {way.name + ": graph splits = " + std::to_string(r.splits), ""};
    if (!r.warnings.empty() && way.settings.flash) return {way.name + ": " + r.warnings.front(), ""};
    if (r.packed == (way.name == "plain" || way.name == "in the host's memory"))
      return {way.name + ": the weights are " + (r.packed ? "" : "not ") + "packed", ""};
    if (first.empty()) first = r.hash;
    if (r.hash != first) text += ", " + way.name + " " + r.hash;
  }
  return {text.empty() ? "" : "packed " + first + text, first};
}

// f32 arithmetic has one hash, too, and where blocks are counted in i8 else, it is another one.
Verdict in_f32(const std::string &path, const Seeded &seeded, const Choice &choice) {
  const std::map<std::string, std::string> f32 = {{"RAPT_GGML_ARITHMETIC", "f32"}};
  const Verdict all_ways = equal(path, seeded, f32);
  if (!all_ways.problem.empty()) return all_ways;
  for (const int ubatch : choice.ubatches) {
    if (is_encoder(seeded.model)) continue;
    for (const int threads : choice.threads) {
      Way way = standard(seeded);
      way.environment.insert(f32.begin(), f32.end());
      way.settings.threads = threads, way.settings.ubatch = ubatch;
      const Result r = result_of(path, way);
      if (r.hash != all_ways.detail)
        return {std::to_string(threads) + "x" + std::to_string(ubatch) + " " + r.hash + r.problem + ", not " +
                    all_ways.detail,
                ""};
    }
  }
  const Result i8 = result_of(path, standard(seeded));
  const bool has_i8 = seeded.weights.starts_with('Q') || seeded.weights.starts_with("IQ4");
  if (has_i8 && i8.hash == all_ways.detail) return {"the same hash as in i8 arithmetic: " + i8.hash, ""};
  return {"", all_ways.detail};
}

// ---- adapters

// A LoRA adapter of every linear layer, from a seed.
bool write_adapter(const std::string &path, const std::string &architecture, bool experts, int rank,
                   ggml_type type) {
  const Shape shape;
  const auto width = static_cast<std::int64_t>(shape.width), middle = static_cast<std::int64_t>(shape.middle),
             queries = static_cast<std::int64_t>(shape.heads * shape.head),
             keys = static_cast<std::int64_t>(shape.key_heads * shape.head),
             vocabulary = static_cast<std::int64_t>(shape.vocabulary);
  ggml_context *tensors = ggml_init({std::size_t{64} << 20, nullptr, false});
  gguf_context *file = gguf_init_empty();
  gguf_set_val_str(file, "general.type", "adapter");
  gguf_set_val_str(file, "general.architecture", architecture.c_str());
  gguf_set_val_str(file, "adapter.type", "lora");
  gguf_set_val_f32(file, "adapter.lora.alpha", 2.0f * static_cast<float>(rank));
  unsigned seed = 1;
  const auto add = [&](const std::string &name, std::int64_t inputs, std::int64_t outputs,
                       std::int64_t matrices) {
    ggml_tensor *t = ggml_new_tensor_3d(tensors, type, inputs, outputs, matrices);
    ggml_set_name(t, name.c_str());
    for (std::int64_t i = 0; i < ggml_nelements(t); ++i) {
      seed = seed * 1664525u + 1013904223u;
      const float value = static_cast<float>(static_cast<int>(seed >> 24) - 128) / 2048;
      if (type == GGML_TYPE_F16) {
        static_cast<ggml_fp16_t *>(t->data)[i] = ggml_fp32_to_fp16(value);
      } else {
        static_cast<float *>(t->data)[i] = value;
      }
    }
    gguf_add_tensor(file, t);
  };
  const auto pair = [&](const std::string &name, std::int64_t inputs, std::int64_t outputs,
                        std::int64_t matrices = 1) {
    add(name + ".weight.lora_a", inputs, rank, matrices);
    add(name + ".weight.lora_b", rank, outputs, matrices);
  };
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    pair(layer + "attn_q", width, queries);
    pair(layer + "attn_k", width, keys);
    pair(layer + "attn_v", width, keys);
    pair(layer + "attn_output", queries, width);
    for (const std::string part : {"ffn_gate", "ffn_up"})
      pair(layer + part + (experts ? "_exps" : ""), width, middle, experts ? 8 : 1);
    pair(layer + "ffn_down" + (experts ? "_exps" : ""), middle, width, experts ? 8 : 1);
  }
  pair("output", width, vocabulary);
  add("token_embd.weight.lora_a", rank, vocabulary, 1);  // rows are taken
  add("token_embd.weight.lora_b", rank, width, 1);
  const bool written = gguf_write_to_file(file, path.c_str(), false);
  gguf_free(file);
  ggml_free(tensors);
  return written;
}

using Apply = std::function<bool(llama_context *)>;

// The logits of sequence A's tokens: alone in one batch, or token by token among those of B and C.
std::vector<Logits> logits_of_a(llama_model *model, const Seeded &seeded, const Apply &apply, bool alone) {
  constexpr int n = 48;
  Settings settings;
  set_cache(settings, seeded.cache);
  settings.sequences = 3;
  settings.threads = alone ? 1 : 2;
  settings.ubatch = alone ? 512 : 32;
  const Context context = new_context(model, settings);
  if (!context || !apply(context.get())) return {};
  std::vector<Logits> all;
  const auto run = [&](const std::vector<Entry> &entries) {
    if (evaluate(context.get(), entries) != 0) return;
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (const auto l = logits_of(context.get(), static_cast<int>(i)); entries[i].sequence == 0)
        all.emplace_back(l.begin(), l.end());
  };
  std::vector<Entry> entries;
  for (int i = 0; i < n; ++i)
    for (const int s : {1, 0, 2})
      if (s == 0 || !alone) entries.push_back({token_at(i, s), i, s});
  if (alone) {
    run(entries);
  } else {
    run({entries.begin(), entries.begin() + 60});
    for (auto at = entries.begin() + 60; at != entries.end(); at += 3) run({at, at + 3});
  }
  return all;
}

std::string difference(const std::vector<Logits> &one, const std::vector<Logits> &other) {
  if (one.empty() || one.size() != other.size()) return "no logits";
  Difference d;
  for (std::size_t i = 0; i < one.size(); ++i) d.compare(std::to_string(i), one[i], other[i]);
  return d.text();
}

// With what `apply` sets: one split, alone as in a batch, other logits than without it, and none of it after `undo`.
Verdict adapted(llama_model *model, const Seeded &seeded, const Apply &apply, const Apply &undo) {
  const Apply nothing = [](llama_context *) { return true; };
  const auto base = logits_of_a(model, seeded, nothing, true);
  take_log();
  const auto alone = logits_of_a(model, seeded, apply, true),
             beside = logits_of_a(model, seeded, apply, false);
  std::string log = take_log();
  if (const int splits = splits_in(log); splits != 1) return {"graph splits = " + std::to_string(splits), ""};
  if (const auto at = log.find("rapt: "); at != log.npos)
    return {log.substr(at, log.find('\n', at) - at), ""};
  if (const auto text = difference(beside, alone); !text.empty()) return {"in a batch: " + text, ""};
  if (difference(alone, base).empty()) return {"the logits are those of the model alone", ""};
  const auto undone = logits_of_a(
      model, seeded, [&](llama_context *c) { return apply(c) && undo(c); }, true);
  if (const auto text = difference(undone, base); !text.empty()) return {"taken off: " + text, ""};
  return {};
}

Verdict lora(const std::string &path, const Seeded &seeded, int rank, ggml_type type) {
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  const std::string file = path + ".adapter." + std::to_string(getpid());
  const bool written = write_adapter(file, seeded.model == "mixtral" ? "llama" : seeded.model,
                                     contains(seeded.model, "moe"), rank, type);
  llama_adapter_lora *adapter = written ? llama_adapter_lora_init(model.get(), file.c_str()) : nullptr;
  std::filesystem::remove(file);
  if (!adapter) return {"the adapter does not load\n" + take_log(), ""};
  const Apply apply = [&](llama_context *context) {
    float scale = .5f;
    return llama_set_adapters_lora(context, &adapter, 1, &scale) == 0;
  };
  const Apply undo = [](llama_context *context) {
    return llama_set_adapters_lora(context, nullptr, 0, nullptr) == 0;
  };
  return adapted(model.get(), seeded, apply, undo);
}

Verdict control_vector(const std::string &path, const Seeded &seeded) {
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  const int width = llama_model_n_embd(model.get()), layers = llama_model_n_layer(model.get());
  std::vector<float> directions(static_cast<std::size_t>(width * (layers - 1)));
  for (std::size_t i = 0; i < directions.size(); ++i)
    directions[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 256;
  const Apply apply = [&](llama_context *context) {
    return llama_set_adapter_cvec(context, directions.data(), directions.size(), width, 1, layers - 1) == 0;
  };
  const Apply undo = [&](llama_context *context) {
    return llama_set_adapter_cvec(context, nullptr, 0, width, 0, 0) == 0;
  };
  return adapted(model.get(), seeded, apply, undo);
}

// ---- weights that are read back

// A model that is saved again has the bytes that ggml-cpu would write.
Verdict saved_again(const std::string &path) {
  setenv("RAPT_GGML_STRICT", "0", 1);  // a refusal is a sentence
  std::string bytes[2];
  for (const bool on_device : {false, true}) {
    const std::string file = path + (on_device ? ".rapt" : ".cpu");
    const Model model = load_model(path, [=](llama_model_params &p) {
      if (!on_device) weights_in("CPU")(p);
    });
    if (!model) return {"the model does not load", ""};
    llama_model_save_to_file(model.get(), file.c_str());
    std::ifstream in(file, std::ios::binary);
    bytes[on_device].assign(std::istreambuf_iterator<char>(in), {});
    std::filesystem::remove(file);
  }
  if (bytes[0].empty()) return {"nothing is saved", ""};
  if (bytes[0] == bytes[1]) return {"", std::to_string(bytes[0].size()) + " bytes"};
  const std::string log = take_log();
  return {contains(log, "cannot be read back") ? "" : "the bytes differ", "refused with a sentence"};
}

// What stays on the CPU is the file's mapped memory: the embedding, which may be a tenth of the weights.
Verdict embedding_mapped(const std::string &path) {
  take_log();
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  return {contains(take_log(), "CPU_Mapped model buffer") ? "" : "the embedding is copied", ""};
}

// ---- what the plugin would not compute

struct Mixed {
  const char *name;
  std::function<void(Way &)> change;
  const char *advice;  // what the sentence names
};

const Mixed mixed[] = {
    {"one layer on the device", [](Way &w) { w.load = [](llama_model_params &p) { p.n_gpu_layers = 1; }; },
     "-ngl"},
    {"no layer on the device", [](Way &w) { w.load = [](llama_model_params &p) { p.n_gpu_layers = 0; }; },
     "-ngl"},
    {"the cache in the host's memory", [](Way &w) { w.settings.cache_on_device = false; }, "--no-kv-offload"},
    {"weights that ggml-cpu has packed",
     [](Way &w) {
       w.load = [](llama_model_params &p) {
         weights_in("CPU")(p);
         p.use_extra_bufts = true;
       };
     },
     "-ot"},
    {"no flash attention", [](Way &w) { w.settings.flash = false; }, "-fa on"},
};

// Under RAPT_GGML_STRICT=1 the process ends with a sentence that says what to do. Else the log has it, once.
Verdict refused(const std::string &path, const Seeded &seeded, const Mixed &setting) {
  Way way = standard(seeded);
  setting.change(way);
  way.environment["RAPT_GGML_STRICT"] = "0";
  const Result loose = result_of(path, way);
  if (!loose.problem.empty()) return {"not strict: " + loose.problem, ""};
  std::map<std::string, int> said;
  for (const auto &line : loose.warnings)
    if (++said[line] > 1) return {"said twice: " + line, ""};
  way.environment["RAPT_GGML_STRICT"] = "1";
  const Result strict = result_of(path, way);
  std::string all;
  for (auto at = said.begin(); at != said.end() && std::distance(said.begin(), at) < 3; ++at)
    all += "\n       " + at->first;
  if (strict.problem.empty())
    return {"strict, it goes on; graph splits = " + std::to_string(strict.splits) + all, ""};
  if (!strict.problem.starts_with("exit status 1\n") || !contains(strict.problem, "rapt: "))
    return {"strict: " + strict.problem, ""};
  std::string sentence = strict.problem.substr(strict.problem.find("rapt: "));
  sentence.resize(std::min(sentence.find('\n'), sentence.size()));
  std::string problem;
  if (!contains(sentence, setting.advice))
    problem += "strict: no " + std::string(setting.advice) + " in: " + sentence + "; ";
  if (said.empty() || said.size() > 12)
    problem += "not strict: " + std::to_string(said.size()) + " lines in the log" + all;
  return {problem, sentence};
}

// An op that the plugin does not have is named.
Verdict unknown_op(bool strict) {
  const Outcome o = in_child([&](std::FILE *out) {
    setenv("RAPT_GGML_STRICT", strict ? "1" : "0", 1);
    ggml_context *context = ggml_init({1 << 16, nullptr, true});
    ggml_tensor *x = ggml_new_tensor_2d(context, GGML_TYPE_F32, 64, 4);
    ggml_set_name(x, "angles");
    ggml_backend_dev_t device = ggml_backend_dev_by_name("RAPT");
    for (int i = 0; i < 3; ++i)
      if (ggml_backend_dev_supports_op(device, ggml_leaky_relu(context, x, 0.1F, false))) return false;
    std::fputs(take_log().c_str(), out);
    return true;
  });
  const auto at = o.text.find("rapt: LEAKY_RELU of f32 (angles)");
  if (at == o.text.npos) return {"the op is not named: " + o.text, ""};
  if (contains(o.text.substr(at + 1), "rapt: ")) return {"said twice: " + o.text, ""};
  if (strict != o.text.starts_with("exit status 1\n")) return {"strict does not end the process", ""};
  return {"", o.text.substr(at, o.text.find('\n', at) - at)};
}

// The rope of 5 tokens, computed by a device. Token t of section s has the position positions[5 s + t].
std::vector<float> turned(ggml_backend_dev_t device, int mode, std::array<int, 4> sections,
                          const std::vector<std::int32_t> &positions) {
  constexpr int dims = 64, heads = 3, tokens = 5;
  ggml_context *const context = ggml_init({1 << 20, nullptr, true});
  ggml_tensor *const x = ggml_new_tensor_3d(context, GGML_TYPE_F32, dims, heads, tokens),
                     *const at = ggml_new_tensor_1d(context, GGML_TYPE_I32,
                                                    static_cast<std::int64_t>(positions.size()));
  ggml_tensor *const y =
      mode == GGML_ROPE_TYPE_NEOX
          ? ggml_rope_ext(context, x, at, nullptr, dims, mode, 0, 1e6f, 1, 0, 1, 0, 0)
          : ggml_rope_multi(context, x, at, nullptr, dims, sections.data(), mode, 0, 1e6f, 1, 0, 1, 0, 0);
  std::vector<float> numbers(dims * heads * tokens);
  if (!ggml_backend_dev_supports_op(device, y)) return {};
  ggml_cgraph *const graph = ggml_new_graph(context);
  ggml_build_forward_expand(graph, y);
  ggml_backend_t backend = ggml_backend_dev_init(device, nullptr);
  ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, backend);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>((i * 2654435761u >> 7) % 512) / 256 - 1;
  ggml_backend_tensor_set(x, numbers.data(), 0, ggml_nbytes(x));
  ggml_backend_tensor_set(at, positions.data(), 0, ggml_nbytes(at));
  const bool computed = ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS;
  ggml_backend_tensor_get(y, numbers.data(), 0, ggml_nbytes(y));
  ggml_backend_buffer_free(buffer);
  ggml_backend_free(backend);
  ggml_free(context);
  return computed ? numbers : std::vector<float>{};
}

// Text has one position in all sections, and the bits of a rope without sections. Images turn as ggml-cpu turns them.
Verdict rope_of_sections(int mode, std::array<int, 4> sections) {
  ggml_backend_dev_t rapt = ggml_backend_dev_by_name("RAPT"),
                     cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  const std::vector<std::int32_t> one = {0, 7, 8, 9, 4000},
                                  image = {7, 7, 7, 7, 7, 0, 9, 8, 30, 500, 1, 2, 3, 0, 77, 5, 0, 0, 1, 2};
  std::vector<std::int32_t> text;
  for (int s = 0; s < 4; ++s) text.insert(text.end(), one.begin(), one.end());
  const std::vector<float> plain = turned(rapt, GGML_ROPE_TYPE_NEOX, {}, one),
                           of_text = turned(rapt, mode, sections, text);
  if (plain.empty() || of_text.empty()) return {"the op is not computed", ""};
  if (std::memcmp(plain.data(), of_text.data(), plain.size() * sizeof(float)) != 0)
    return {"text has other bits than a rope without sections", ""};
  const std::vector<float> ours = turned(rapt, mode, sections, image),
                           other = turned(cpu, mode, sections, image);
  float most = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) most = std::max(most, std::fabs(ours[i] - other.at(i)));
  // ggml's angles have errors of f32: 500 radians * 2^-23.
  if (!(most < 2e-4f)) return {"differs from ggml-cpu by " + std::to_string(most), ""};
  return {"", "differs from ggml-cpu by " + std::to_string(most)};
}

}  // namespace

std::vector<Scene> paths_scenes(const Choice &choice) {
  std::vector<Scene> scenes;
  if (choice.plugin.empty()) return scenes;
  std::vector<Seeded> models = choice.combinations;
  if (models.empty()) {
    for (const auto &w : weight_types()) models.push_back({"llama", w, "f16"});
    for (const char *m :
         {"llama-tied", "qwen2", "gemma3", "phi3", "gpt-oss", "qwen3moe", "qwen3next", "bert"})
      models.push_back({m, "Q8_0", "f16"});
    models.push_back({"qwen3moe", "Q4_K", "f16"});
    models.push_back({"llama", "Q4_0", "q8_0"});
    models.push_back({"llama", "Q8_0", "f16,off"});
  }
  const auto add = [&](const std::string &name, const Seeded &seeded,
                       const std::function<Verdict(const std::string &)> &run) {
    scenes.push_back({"paths: " + name, seeded, run});
  };
  for (const Seeded &s : models) {
    add("packed or plain, fused or not, mapped or not", s,
        [=](const auto &path) { return equal(path, s, {}); });
    // MXFP4 has a -0 that becomes +0, and llama.cpp saves only some architectures.
    if (s.weights != "MXFP4" && s.model != "gpt-oss" && s.model != "gemma3" && !is_encoder(s.model))
      add("saved again", s, [](const auto &path) { return saved_again(path); });
    if (s.weights.find('Q') != s.weights.npos && (s.model == "llama" || s.model == "gpt-oss"))
      add("arithmetic in f32", s, [=](const auto &path) { return in_f32(path, s, choice); });
  }
  std::vector<Seeded> adaptable = {{"llama", "Q8_0", "f16"},
                                   {"llama", "F16", "f16"},
                                   {"llama", "Q4_K", "q8_0"},
                                   {"qwen3moe", "Q8_0", "f16"}};
  if (!choice.combinations.empty()) {
    adaptable.clear();
    for (const Seeded &s : models)
      if (s.model == "llama" || s.model == "qwen3moe") adaptable.push_back(s);
  }
  for (const Seeded &s : adaptable) {
    for (const int rank : {1, 8})
      for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16})
        add("an adapter of rank " + std::to_string(rank) + " in " + (type == GGML_TYPE_F32 ? "f32" : "f16"),
            s, [=](const auto &path) { return lora(path, s, rank, type); });
    add("a control vector", s, [=](const auto &path) { return control_vector(path, s); });
  }
  for (const char *model : {"llama", "llama-tied"})
    add("the embedding stays in the file's memory", {model, "Q4_0", "f16"}, embedding_mapped);
  const Seeded strict = {"llama", "Q4_0", "f16"};
  for (const Mixed &m : mixed)
    add(std::string("strict: ") + m.name, strict,
        [&m, strict](const auto &path) { return refused(path, strict, m); });
  add("the rope of images, in turns", strict, [](const auto &) {
    return rope_of_sections(GGML_ROPE_TYPE_IMROPE, {11, 11, 10, 0});
  });
  add("the rope of images, by sections", strict, [](const auto &) {
    return rope_of_sections(GGML_ROPE_TYPE_MROPE, {8, 12, 8, 4});
  });
  for (const bool ends : {false, true})
    add(std::string("strict: an unknown op") + (ends ? "" : ", not strict"), strict,
        [=](const auto &) { return unknown_op(ends); });
  return scenes;
}

}  // namespace rapt_ggml_tests
