// Embeddings of texts, alone and in a batch with others: they must have the same bits.
#include <algorithm>

#include "model.hpp"
#include "play.hpp"
#include "scenes.hpp"

namespace rapt_ggml_tests {
namespace {

constexpr int lengths[] = {37, 64, 5, 300, 1, 170, 90};

std::vector<Entry> text_of(int which, llama_seq_id sequence, int vocabulary) {
  std::vector<Entry> entries;
  for (int i = 0; i < lengths[which]; ++i)
    entries.push_back({(i * 7919 + which * 104729 + 13) % vocabulary, i, sequence});
  return entries;
}

std::vector<Logits> embeddings(llama_model *model, Settings settings, const std::vector<int> &texts,
                               bool interleaved, std::string &problem) {
  settings.sequences =
      8;  // with mean, llama.cpp 0.4.0 ends the process if this does not divide the physical batch
  const Context context = new_context(model, settings);
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::vector<Entry> batch;
  for (std::size_t s = 0; s < texts.size(); ++s) {
    const auto text = text_of(texts[s], static_cast<llama_seq_id>(s), vocabulary);
    batch.insert(batch.end(), text.begin(), text.end());
  }
  if (interleaved)
    std::stable_sort(batch.begin(), batch.end(),
                     [](const Entry &a, const Entry &b) { return a.position < b.position; });
  if (!context || evaluate(context.get(), batch) != 0)
    return problem = "no embeddings", std::vector<Logits>();
  std::vector<Logits> all;
  for (std::size_t s = 0; s < texts.size(); ++s) {
    const float *e = llama_get_embeddings_seq(context.get(), static_cast<llama_seq_id>(s));
    if (!e) return problem = "no embedding of a sequence", std::vector<Logits>();
    all.emplace_back(e, e + llama_model_n_embd(model));
  }
  return all;
}

Verdict same_alone_and_together(const std::string &path, enum llama_pooling_type pooling, bool together,
                                const Choice &choice) {
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  Settings settings;
  settings.ubatch = 1024;
  settings.embeddings = true;
  settings.pooling = pooling;
  std::string problem;
  std::vector<Logits> alone;
  for (int t = 0; t < 7; ++t) {
    auto one = embeddings(model.get(), settings, {t}, false, problem);
    if (!problem.empty()) return {problem, ""};
    alone.push_back(std::move(one.front()));
  }
  if (const int n = splits_in(take_log()); ggml_backend_dev_by_name("RAPT") && n != 1)
    return {"graph splits = " + std::to_string(n), ""};
  Difference d;
  const std::vector<std::vector<int>> batches =
      together ? std::vector<std::vector<int>>{{0, 1, 2, 3, 4, 5, 6}, {3, 2, 5}, {1, 4, 1}}
               : std::vector<std::vector<int>>{{6}, {1}};
  for (const int threads : choice.threads)
    for (const auto &batch : batches)
      for (const bool interleaved : {false, true}) {
        settings.threads = threads;
        const auto all = embeddings(model.get(), settings, batch, interleaved, problem);
        if (!problem.empty()) return {problem, ""};
        for (std::size_t s = 0; s < batch.size(); ++s) {
          const auto t = static_cast<std::size_t>(batch[s]);
          d.compare("text of " + std::to_string(lengths[t]) + " tokens", all[s], alone[t]);
        }
      }
  return {d.text(), ""};
}

}  // namespace

std::vector<Scene> embedding_scenes(const Choice &choice) {
  const std::pair<const char *, enum llama_pooling_type> poolings[] = {
      {"mean", LLAMA_POOLING_TYPE_MEAN}, {"cls", LLAMA_POOLING_TYPE_CLS}, {"last", LLAMA_POOLING_TYPE_LAST}};
  std::vector<Seeded> combinations = choice.combinations;
  if (combinations.empty())
    for (const char *m : {"bert", "nomic-bert", "modern-bert", "llama"})
      combinations.push_back({m, "Q8_0", "f16"});
  std::vector<Scene> scenes;
  for (const Seeded &s : combinations)
    for (const auto &[name, pooling] : poolings)
      for (const bool together : {false, true})
        scenes.push_back(
            {std::string("embeddings, ") + name + (together ? ": beside other texts" : ": threads"), s,
             [=, p = pooling](const std::string &path) {
               return same_alone_and_together(path, p, together, choice);
             }});
  return scenes;
}

}  // namespace rapt_ggml_tests
