// One prompt, answered by every CPU build of ggml that this machine runs, and by the plugin at every level: the hash of
// all logits, and the text. The script `table` builds and starts it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <set>

#include "llama_calls.hpp"
#include "text.hpp"

using namespace rapt_ggml_tests;

namespace {

struct Row {
  std::string name;
  Place place;
  std::string level;  // RAPT_ISA
  std::string hash, text;
};

// "hash text", greedy.
bool answer(const Row &row, const std::string &file, const std::string &prompt, int fresh, int threads,
            std::FILE *out) {
  if (!row.level.empty()) setenv("RAPT_ISA", row.level.c_str(), 1);
  if (!load_backends(row.place)) return false;
  const Model model = load_model(file);
  if (!model) return std::fputs(take_log().c_str(), stderr), false;
  std::vector<Entry> entries;
  for (const llama_token t : tokens_of(model.get(), prompt, true))
    entries.push_back({t, static_cast<llama_pos>(entries.size()), 0});
  Settings settings;
  settings.threads = threads;
  settings.cells = static_cast<int>(entries.size()) + fresh + 256;
  const Context context = new_context(model.get(), settings);
  if (!context) return std::fputs(take_log().c_str(), stderr), false;
  Hash hash;
  std::string text;
  auto position = static_cast<llama_pos>(entries.size());
  for (int i = 0; i < fresh; ++i) {
    if (evaluate(context.get(), entries) != 0) return false;
    std::span<const float> logits;
    for (int e = 0; e < static_cast<int>(entries.size()); ++e) hash.add(logits = logits_of(context.get(), e));
    const llama_token next = largest(logits);
    if (llama_vocab_is_eog(llama_model_get_vocab(model.get()), next)) break;
    text += text_of(model.get(), next);
    entries = {{next, position++, 0}};
  }
  for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos; ++at) text.replace(at, 1, " / ");
  fmt::print(out, "{:016x} {}", hash.value(), text);
  return true;
}

void count(const char *what, const std::vector<Row> &rows) {
  std::set<std::string> hashes, texts;
  for (const Row &r : rows) hashes.insert(r.hash), texts.insert(r.text);
  if (rows.empty()) return;
  fmt::print("{}: {} rows, {} distinct hash{} of all logits, {} distinct text{}.\n", what, rows.size(),
             hashes.size(), hashes.size() == 1 ? "" : "es", texts.size(), texts.size() == 1 ? "" : "s");
}

}  // namespace

int main(int argc, char **argv) {
  CLI::App app{"One prompt on every CPU build of ggml, and on every level of the plugin"};
  std::string file, lib, plugin,
      prompt = "<|im_start|>user\nWhat should I cook tonight?<|im_end|>\n<|im_start|>assistant\n";
  std::vector<std::string> levels, builds;
  int fresh = 48, threads = 1;
  std::size_t width = 80;
  app.add_option("model", file, "a GGUF file with a tokenizer")->required();
  app.add_option("--plugin", plugin, "libggml-rapt.so");
  app.add_option("--lib", lib, "folder of llama.cpp's libraries")->required();
  app.add_option("--levels", levels, "levels of the plugin, where this machine runs them")->delimiter(',');
  app.add_option("--builds", builds, "CPU builds of ggml; without it, all that this machine runs")
      ->delimiter(',');
  app.add_option("--prompt", prompt, "the prompt, with the model's own marks of a chat");
  app.add_option("--new", fresh, "tokens of the answer");
  app.add_option("--threads", threads, "threads");
  app.add_option("--width", width, "characters of the text that are shown; 0: all");
  CLI11_PARSE(app, argc, argv);

  if (builds.empty()) builds = cpu_builds(lib);
  if (builds.empty()) return fmt::print(stderr, "no CPU build of ggml in {} runs here\n", lib), 1;
  std::vector<Row> ours, theirs;
  const auto add = [&](Row row, std::vector<Row> &rows, bool may_refuse) {
    const Outcome o =
        in_child([&](std::FILE *out) { return answer(row, file, prompt, fresh, threads, out); });
    if (!o.passed) {
      const bool refused = may_refuse && o.text.find("the plugin does not load") != o.text.npos;
      fmt::print("{:<26} {}\n", row.name, refused ? "does not run here" : o.text);
      return refused;
    }
    row.hash = o.text.substr(0, 16);
    row.text = o.text.substr(std::min<std::size_t>(17, o.text.size()));
    fmt::print("{:<26} {}  {}\n", row.name, row.hash, width ? row.text.substr(0, width) : row.text);
    std::fflush(stdout);
    rows.push_back(row);
    return true;
  };
  bool all = true;
  for (const auto &b : builds) all &= add({"ggml-cpu " + b, {lib, b, ""}, "", "", ""}, theirs, false);
  if (!plugin.empty()) {
    all &= add({"rapt", {lib, builds.back(), plugin}, "", "", ""}, ours, false);
    for (const auto &level : levels)
      add({"rapt " + level, {lib, builds.front(), plugin}, level, "", ""}, ours, true);
  }
  count("ggml-cpu", theirs);
  count("rapt", ours);
  return all ? 0 : 1;
}
