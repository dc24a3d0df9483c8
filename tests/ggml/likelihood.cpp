// The mean negative log-likelihood of a text's tokens: the plugin beside ggml-cpu. The script `likelihood` builds and
// starts it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <iterator>

#include "llama_calls.hpp"
#include "text.hpp"

using namespace rapt_ggml_tests;

namespace {

struct Options {
  std::string file, text;
  int tokens = 2048, threads = 1;
};

double loss(std::span<const float> logits, llama_token token) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float l : logits) sum += std::exp(l - most);
  return most + std::log(sum) - logits[static_cast<std::size_t>(token)];
}

// "mean tokens", in contexts of 512 tokens.
bool measure(const Place &place, const Options &o, const std::string &cache, std::FILE *out) {
  if (!load_backends(place)) return false;
  const Model model = load_model(o.file);
  if (!model) return std::fputs(take_log().c_str(), stderr), false;
  std::ifstream in(o.text);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<llama_token> tokens = tokens_of(model.get(), text, false);
  tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(o.tokens)));
  Settings settings;
  settings.threads = o.threads;
  settings.cache = cache;
  const Context context = new_context(model.get(), settings);
  if (!context) return false;
  double sum = 0;
  int n = 0;
  for (std::size_t from = 0; from + 1 < tokens.size(); from += 512) {
    llama_memory_clear(llama_get_memory(context.get()), true);
    std::vector<Entry> entries;
    for (std::size_t i = from; i < std::min(from + 512, tokens.size()); ++i)
      entries.push_back({tokens[i], static_cast<llama_pos>(i - from), 0});
    if (evaluate(context.get(), entries) != 0) return false;
    for (std::size_t i = 0; i + 1 < entries.size(); ++i, ++n)
      sum += loss(logits_of(context.get(), static_cast<int>(i)), entries[i + 1].token);
  }
  if (n == 0) return std::fputs("the text has no two tokens\n", stderr), false;
  fmt::print(out, "{:.6f} {}", sum / n, n);
  return true;
}

}  // namespace

int main(int argc, char **argv) {
  CLI::App app{"Mean negative log-likelihood of a text, on ggml-cpu and on the plugin"};
  Options o;
  std::string lib, plugin;
  std::vector<std::string> builds, caches = {"f16"};
  app.add_option("model", o.file, "a GGUF file with a tokenizer")->required();
  app.add_option("text", o.text, "a text file")->required();
  app.add_option("--plugin", plugin, "libggml-rapt.so");
  app.add_option("--lib", lib, "folder of llama.cpp's libraries")->required();
  app.add_option("--builds", builds, "CPU builds of ggml; without it, the best that runs here")
      ->delimiter(',');
  app.add_option("--caches", caches, "types of caches: f16,q8_0,f16/q4_0 (keys/values)")->delimiter(',');
  app.add_option("--tokens", o.tokens, "how many of the text's tokens");
  app.add_option("--threads", o.threads, "threads");
  CLI11_PARSE(app, argc, argv);

  if (builds.empty()) {
    builds = cpu_builds(lib);
    if (builds.empty()) return fmt::print(stderr, "no CPU build of ggml in {} runs here\n", lib), 1;
    builds.resize(1);
  }
  bool all = true;
  double first = 0;
  const auto row = [&](const std::string &name, const std::string &cache, const Place &place) {
    const Outcome r = in_child([&](std::FILE *out) { return measure(place, o, cache, out); });
    all &= r.passed;
    if (!r.passed) return fmt::print("{:<22} {:<12} {}\n", name, cache, r.text);
    const double mean = std::stod(r.text);
    if (first == 0) first = mean;
    fmt::print("{:<22} {:<12} {:.6f}  {:+.4f} %  {} tokens\n", name, cache, mean, 100 * (mean / first - 1),
               r.text.substr(r.text.find(' ') + 1));
  };
  for (const auto &cache : caches) {
    for (const auto &b : builds) row("ggml-cpu " + b, cache, {lib, b, ""});
    if (!plugin.empty()) row("rapt", cache, {lib, builds.front(), plugin});
  }
  return all ? 0 : 1;
}
