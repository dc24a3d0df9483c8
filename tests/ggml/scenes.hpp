// Scenes: what the plugin must do inside an unmodified llama.cpp, each run in a process of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "llama_calls.hpp"

namespace rapt_ggml_tests {

// The model's file is made before the scene's process starts.
struct Seeded {
  std::string model = "llama", weights = "Q8_0",
              cache = "f16";  // cache: "f16", "q8_0/q4_0", "f16,off" (no flash attention)
  std::string text() const { return model + " " + weights + " " + cache; }
};
void set_cache(Settings &settings, const std::string &cache);

struct Verdict {
  std::string problem;  // empty: passed
  std::string detail;
};

struct Scene {
  std::string name;  // "group: what"
  Seeded seeded;
  std::function<Verdict(const std::string &model_path)> run;
};

// What the command line chooses.
struct Choice {
  std::vector<int> threads = {1, 2, 3}, ubatches = {1, 32, 512};
  int prompt = 80, steps = 16;
  int turns = 90;                    // of a random scene
  unsigned seed = 1, seeds = 3;      // random scenes: the first seed, and how many
  int contexts = 1000;               // created and freed
  std::string plugin;                // its path
  std::string hashes;                // the file of published ones; empty: none is compared
  bool print = false;                // prints lines of that file in place of a table
  std::vector<Seeded> combinations;  // in place of the published ones
};

std::vector<Scene> hash_scenes(const Choice &choice);
std::vector<Scene> server_scenes(const Choice &choice);
std::vector<Scene> embedding_scenes(const Choice &choice);
std::vector<Scene> lifetime_scenes(const Choice &choice);
std::vector<Scene> hostile_scenes(const Choice &choice);
std::vector<Scene> paths_scenes(const Choice &choice);

}  // namespace rapt_ggml_tests
