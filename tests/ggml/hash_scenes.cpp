// One hash of all logits for each model, type of weights and type of cache: the same for every number of threads, every
// physical batch, every level and every host, and the published one.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "model.hpp"
#include "scenes.hpp"

namespace rapt_ggml_tests {
namespace {

struct Run {
  std::uint64_t hash = 0;
  std::string problem;
};

// A prompt, then greedy tokens; of an encoder the embeddings of all tokens.
Run run(llama_model *model, const Settings &settings, int prompt, int steps) {
  const Context context = new_context(model, settings);
  if (!context) return {0, "no context"};
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  const auto width = static_cast<std::size_t>(llama_model_n_embd(model));
  std::vector<Entry> entries;
  for (int i = 0; i < prompt; ++i)
    entries.push_back({static_cast<llama_token>((static_cast<std::uint32_t>(i) * 2654435761u >> 7) %
                                                static_cast<std::uint32_t>(vocabulary)),
                       i, 0});
  Hash hash;
  for (int step = 0; step <= (settings.embeddings ? 0 : steps); ++step) {
    if (const int status = evaluate(context.get(), entries); status != 0)
      return {0, "llama_decode returns " + std::to_string(status)};
    std::span<const float> values;
    for (int i = 0; i < static_cast<int>(entries.size()); ++i) {
      values = settings.embeddings ? std::span<const float>(llama_get_embeddings_ith(context.get(), i), width)
                                   : logits_of(context.get(), i);
      if (!all_finite(values)) return {0, "not all numbers are finite"};
      hash.add(values);
    }
    entries = {{largest(values), prompt + step, 0}};
  }
  return {hash.value(), ""};
}

// The hashes of each setting: one of each graph that hosts make of it.
std::map<std::string, std::set<std::string>> published(const std::string &file) {
  std::map<std::string, std::set<std::string>> hashes;
  std::ifstream in(file);
  std::string line, model, weights, cache, hash;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    if (line.starts_with('#') || !(words >> model >> weights >> cache)) continue;
    while (words >> hash) hashes[model + " " + weights + " " + cache].insert(hash);
  }
  return hashes;
}

Verdict one_hash(const std::string &path, const Seeded &seeded, const Choice &choice) {
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  std::map<std::uint64_t, std::string> hashes;  // with the settings that gave them
  Settings settings;
  set_cache(settings, seeded.cache);
  settings.embeddings = is_encoder(seeded.model);
  if (!settings.flash) unsetenv("RAPT_GGML_STRICT");  // one sequence has the same bits, several may not
  if (settings.embeddings) settings.pooling = LLAMA_POOLING_TYPE_NONE;
  std::string splits;
  for (const int ubatch : choice.ubatches) {
    if (settings.embeddings && ubatch < choice.prompt) continue;  // a text of an encoder is one batch
    for (const int threads : choice.threads) {
      settings.threads = threads, settings.ubatch = ubatch;
      const Run r = run(model.get(), settings, choice.prompt, choice.steps);
      if (!r.problem.empty()) return {r.problem, ""};
      hashes[r.hash] += " " + std::to_string(threads) + "x" + std::to_string(ubatch);
      if (const int n = splits_in(take_log()); n != 1) splits = ", graph splits = " + std::to_string(n);
    }
  }
  char text[17];
  std::string all;
  for (const auto &[hash, where] : hashes) {
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    all += (all.empty() ? "" : "; ") + std::string(text) + (hashes.size() > 1 ? where : "");
  }
  if (!splits.empty() && ggml_backend_dev_by_name("RAPT")) return {all + splits, all};
  if (hashes.size() != 1) return {std::to_string(hashes.size()) + " hashes (threads x ubatch): " + all, all};
  if (!choice.hashes.empty() && !choice.print) {
    const auto known = published(choice.hashes);
    const auto row = known.find(seeded.text());
    if (row == known.end()) return {all + " is not published", all};
    if (!row->second.contains(text)) return {all + " is not the published " + *row->second.begin(), all};
  }
  return {"", all};
}

// Not all products: every type of weights in one model, every model with two types, every type of cache in one model.
std::vector<Seeded> standard() {
  std::vector<Seeded> all;
  std::set<std::string> seen;
  const auto add = [&](const Seeded &s) {
    if (seen.insert(s.text()).second) all.push_back(s);
  };
  for (const auto &w : weight_types()) add({"llama", w, "f16"});
  for (const auto &m : architectures())
    for (const char *w : {"Q8_0", "Q4_K"}) add({m, w, "f16"});
  for (const char *c : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1", "q8_0/q4_0",
                        "f16/q8_0", "q5_1/f16", "f16,off"})
    add({"llama", "Q8_0", c});
  for (const char *m : {"gemma2", "gemma3", "gpt-oss"})
    for (const char *c : {"q8_0", "f16,off"}) add({m, "Q8_0", c});
  for (const char *m : {"qwen3moe", "mixtral"})
    for (const char *w : {"Q6_K", "IQ4_XS", "Q5_0"}) add({m, w, "f16"});
  return all;
}

}  // namespace

void set_cache(Settings &settings, const std::string &cache) {
  const auto comma = cache.find(',');
  settings.cache = cache.substr(0, comma);
  settings.flash = comma == cache.npos;
}

std::vector<Scene> hash_scenes(const Choice &choice) {
  std::vector<Scene> scenes;
  for (const Seeded &s : choice.combinations.empty() ? standard() : choice.combinations)
    scenes.push_back({"hash", s, [=](const std::string &path) { return one_hash(path, s, choice); }});
  return scenes;
}

}  // namespace rapt_ggml_tests
