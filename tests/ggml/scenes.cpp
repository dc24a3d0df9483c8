// rapt-ggml-scenes: runs and compares what the plugin does inside an unmodified llama.cpp. --list names the scenes.
#include "scenes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "model.hpp"

using namespace rapt_ggml_tests;

namespace {

// A folder for the models' files, which goes at the end.
class Models {
 public:
  Models() {
    char name[] = "/tmp/rapt-ggml-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Models() { std::filesystem::remove_all(folder_); }
  Models(const Models &) = delete;
  std::string path(const Seeded &s) {
    const std::string path = folder_ + "/" + s.model + "-" + s.weights + ".gguf";
    if (made_.insert(path).second) write_model(path, s.model, s.weights);
    return path;
  }

 private:
  std::string folder_;
  std::set<std::string> made_;
};

bool contains_one(const std::string &text, const std::vector<std::string> &words) {
  for (const auto &w : words)
    if (text.find(w) != text.npos) return true;
  return words.empty();
}

}  // namespace

int main(int argc, char **argv) {
  CLI::App app{
      "What the plugin does inside an unmodified llama.cpp. Exit status 77: the plugin refuses RAPT_ISA here."};
  Place place;
  Choice choice;
  std::vector<std::string> only, without, models, weights, caches;
  bool list = false, quiet = false;
#ifdef RAPT_GGML_HOST_LIB
  place.lib = RAPT_GGML_HOST_LIB;
#endif
  app.add_option("--plugin", place.plugin, "libggml-rapt.so; without it, ggml-cpu alone");
  app.add_option("--lib", place.lib, "folder of llama.cpp's libraries")->required(place.lib.empty());
  app.add_option("--cpu", place.cpu, "CPU build of ggml, such as haswell; without it, the best");
  app.add_option("--only", only, "scenes whose names contain one of these texts")->delimiter(';');
  app.add_option("--without", without, "leaves out scenes whose names contain one of these texts")
      ->delimiter(';');
  app.add_option("--models", models, "models in place of the standard ones")->delimiter(',');
  app.add_option("--weights", weights, "types of weights, with or without --models")->delimiter(',');
  app.add_option("--caches", caches,
                 "types of cache, such as f16, q8_0/q4_0, or f16,off without flash attention; separated by ;")
      ->delimiter(';');
  app.add_option("--threads", choice.threads, "numbers of threads of a hash")->delimiter(',');
  app.add_option("--ubatches", choice.ubatches, "physical batches of a hash")->delimiter(',');
  app.add_option("--hashes", choice.hashes, "file of published hashes, to compare with");
  app.add_option("--seed", choice.seed, "the first seed of random turns");
  app.add_option("--seeds", choice.seeds, "how many seeds");
  app.add_option("--turns", choice.turns, "random turns of a seed");
  app.add_option("--contexts", choice.contexts, "contexts that are created and freed");
  app.add_flag("--print", choice.print, "prints the lines of the file of hashes");
  app.add_flag("--quiet", quiet, "prints only what fails, and the last line");
  app.add_flag("--list", list, "lists the scenes");
  CLI11_PARSE(app, argc, argv);

  choice.plugin = place.plugin;
  if (!models.empty() || !weights.empty() || !caches.empty())
    for (const auto &m : models.empty() ? std::vector<std::string>{"llama"} : models)
      for (const auto &w : weights.empty() ? std::vector<std::string>{"Q8_0"} : weights)
        for (const auto &c : caches.empty() ? std::vector<std::string>{"f16"} : caches)
          choice.combinations.push_back({m, w, c});
  std::vector<Scene> scenes;
  for (const auto &group :
       {hash_scenes, server_scenes, embedding_scenes, lifetime_scenes, hostile_scenes, paths_scenes})
    for (auto &scene : group(choice)) {
      if (choice.print && scene.name != "hash") continue;
      const std::string name = scene.name + " [" + scene.seeded.text() + "]";
      if (!contains_one(name, only) || (!without.empty() && contains_one(name, without))) continue;
      if (list) fmt::print("{}\n", name);
      scenes.push_back(std::move(scene));
    }
  if (list) return 0;

  const Outcome loads = in_child([&](std::FILE *) { return load_backends(place); });
  if (!loads.passed) {
    fmt::print(stderr, "{}\n", loads.text);
    const char *isa = std::getenv("RAPT_ISA");
    if (!isa || !*isa) return 1;
    const Outcome without_isa =
        in_child([&](std::FILE *) { return unsetenv("RAPT_ISA"), load_backends(place); });
    return without_isa.passed ? 77 : 1;
  }

  Models files;
  int passed = 0, failed = 0;
  for (const Scene &scene : scenes) {
    const std::string path = files.path(scene.seeded);
    const auto start = std::chrono::steady_clock::now();
    const Outcome o = in_child([&](std::FILE *out) {
      if (!load_backends(place)) return false;
      const Verdict v = scene.run(path);
      fmt::print(out, "{}", v.problem.empty() ? v.detail : v.problem);
      return v.problem.empty();
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ++(o.passed ? passed : failed);
    if (choice.print && o.passed) {
      fmt::print("{:<12} {:<7} {:<10} {}\n", scene.seeded.model, scene.seeded.weights, scene.seeded.cache,
                 o.text);
    } else if (!quiet || !o.passed) {
      fmt::print(choice.print ? stderr : stdout, "{:<6} {:5.2f} s  {} [{}]  {}\n", o.passed ? "ok" : "FAILED",
                 seconds, scene.name, scene.seeded.text(), o.text);
    }
    std::fflush(stdout);
  }
  if (!choice.print) fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
