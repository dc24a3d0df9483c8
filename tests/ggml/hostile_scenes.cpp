// Files and calls that are wrong: an error, not a crash, and the next call has the same bits as ever.
#include <unistd.h>

#include <filesystem>

#include "model.hpp"
#include "play.hpp"
#include "scenes.hpp"

namespace rapt_ggml_tests {
namespace {

// Null: llama.cpp refused the damaged file.
Model damaged(const std::string &path, const Damage &damage) {
  const std::string file = path + ".damaged." + std::to_string(getpid());
  write_model(file, "llama", "Q8_0", damage);
  Model model = load_model(file);
  std::filesystem::remove(file);
  return model;
}

Verdict truncated(const std::string &path) {
  const auto all = static_cast<std::size_t>(std::filesystem::file_size(path));
  int refused = 0;
  for (const std::size_t keep : {std::size_t{3}, std::size_t{20}, std::size_t{100}, std::size_t{700},
                                 std::size_t{2000}, all / 4, all / 2, all - 64}) {
    if (damaged(path, {keep, "", ""})) return {"a file of " + std::to_string(keep) + " bytes was loaded", ""};
    ++refused;
  }
  return {"", std::to_string(refused) + " files refused"};
}

Verdict wrong_shapes(const std::string &path) {
  for (const char *tensor : {"token_embd.weight", "output.weight", "output_norm.weight",
                             "blk.0.attn_q.weight", "blk.1.attn_v.weight", "blk.2.ffn_down.weight"})
    if (damaged(path, {0, tensor, ""}))
      return {std::string("a wrong shape of ") + tensor + " was loaded", ""};
  return {};
}

Verdict not_finite(const std::string &path) {
  for (const char *tensor : {"token_embd.weight", "output.weight", "blk.0.attn_q.weight",
                             "blk.1.attn_v.weight", "blk.2.ffn_down.weight"}) {
    const Model model = damaged(path, {0, "", tensor});
    const Context context = model ? new_context(model.get(), Settings{}) : nullptr;
    std::vector<Entry> entries;
    for (int i = 0; i < 40; ++i) entries.push_back({i, i, 0});
    if (context) evaluate(context.get(), entries);  // any status; logits are NaN
  }
  return {};
}

// Wrong batches are refused one after another, and a sequence beside them goes on as alone.
Verdict wrong_batches(const std::string &path) {
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  Settings settings;
  settings.sequences = 2;
  settings.cells = 512;
  Play p(model.get(), settings);
  p.prompt("A", 40);
  const std::pair<const char *, std::vector<Entry>> wrong[] = {
      {"a token above the vocabulary", {{1, 0, 1}, {512, 1, 1}}},
      {"a negative token", {{-1, 0, 1}}},
      {"a sequence that no context has", {{1, 0, 5000}}},
      {"a negative sequence", {{1, 0, -1}}},
      {"a position before the last", {{1, 10, 0}}},
      {"a gap in positions", {{1, 60, 0}}},
      {"no token", {}},
  };
  for (const auto &[what, entries] : wrong) {
    if (evaluate(p.context(), entries) == 0) return {std::string(what) + " is no error", ""};
    p.decode("A", 5);
  }
  std::vector<Entry> many;
  for (int i = 0; i < 512; ++i) many.push_back({i, i, 1});
  if (evaluate(p.context(), many) == 0) return {"more tokens than cells are no error", ""};
  llama_memory_seq_rm(llama_get_memory(p.context()), 1, -1, -1);
  p.decode("A", 20);
  return {p.compare_with_alone(), ""};
}

Verdict wrong_states(const std::string &path) {
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  Settings settings;
  settings.sequences = 2;
  Play p(model.get(), settings);
  p.prompt("AB", 40);
  const auto state = p.save('B');
  int refused = 0;
  for (std::size_t keep :
       {std::size_t{0}, std::size_t{4}, std::size_t{64}, state.size() / 2, state.size() - 1})
    refused += llama_state_seq_set_data(p.context(), state.data(), keep, 1) == 0;
  if (refused != 5) return {std::to_string(5 - refused) + " truncated states were taken", ""};
  p.decode("A", 20);
  p.restore('B', state, p.tokens('B'));
  p.decode("AB", 20);
  return {p.compare_with_alone(), ""};
}

}  // namespace

std::vector<Scene> hostile_scenes(const Choice &) {
  const Seeded seeded;
  return {
      {"hostile: truncated files", seeded, truncated},     {"hostile: wrong shapes", seeded, wrong_shapes},
      {"hostile: weights of NaN", seeded, not_finite},     {"hostile: wrong batches", seeded, wrong_batches},
      {"hostile: truncated states", seeded, wrong_states},
  };
}

}  // namespace rapt_ggml_tests
