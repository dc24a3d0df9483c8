// An unmodified llama.cpp as the host of one CPU build of ggml, and of the plugin or not: models, contexts, and their
// bits.
#pragma once

#include <llama.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace rapt_ggml_tests {

// ---- processes

struct Outcome {
  bool finished = false;  // it returned: no signal, no exit inside a library
  bool passed = false;    // what it returned
  std::string text;  // what it wrote to its descriptor, and the last lines of stderr if it did not finish
};

// Runs `body` in a child process, so that an abort inside a library is a failure of one scene, and that every scene
// loads its own backends. What it prints to `out` comes back as text. The parent must have loaded no backend.
Outcome in_child(const std::function<bool(std::FILE *out)> &body);

// ---- backends

struct Place {
  std::string lib;     // folder of the host's libraries
  std::string cpu;     // "haswell" for libggml-cpu-haswell.so; empty: the best that runs here
  std::string plugin;  // path of the plugin; empty: ggml-cpu alone
};

std::vector<std::string> cpu_builds(const std::string &lib);  // those that this machine runs, best first

std::string cpu_name();  // of this machine, as the system says it

// Loads the CPU build, then the plugin. False, with a sentence on stderr, if one of them refuses.
bool load_backends(const Place &place);

// What llama.cpp, ggml and the plugin have logged through llama.cpp since the last call.
std::string take_log();
// The largest number of graph splits that a log names; -1: none.
int splits_in(const std::string &log);

// The type that ggml calls so, in letters of either case. Another name ends the program.
ggml_type ggml_type_of(const std::string &name);

// ---- models and contexts

struct Free {
  void operator()(llama_model *m) const { llama_model_free(m); }
  void operator()(llama_context *c) const { llama_free(c); }
};
using Model = std::unique_ptr<llama_model, Free>;
using Context = std::unique_ptr<llama_context, Free>;

// Null: llama.cpp refuses it. On the plugin's device if it is loaded; `change` may say something else.
Model load_model(const std::string &path, const std::function<void(llama_model_params &)> &change = {});

struct Settings {
  int threads = 1, ubatch = 512, cells = 1024, sequences = 1;
  bool unified = true, flash = true, embeddings = false, whole_windows = false, observed = false,
       last_only = false;
  bool cache_on_device = true;
  std::string cache = "f16";  // "q8_0", or "q8_0/q4_0" for keys and values
  enum llama_pooling_type pooling = LLAMA_POOLING_TYPE_UNSPECIFIED;
};
Context new_context(llama_model *model, const Settings &settings);  // null: llama.cpp refuses it

struct Entry {
  llama_token token;
  llama_pos position;
  llama_seq_id sequence;
};
// llama_decode, or llama_encode for a model without a cache. Outputs for every entry, or for the last one of each
// sequence.
int evaluate(llama_context *context, std::span<const Entry> batch, bool last_only = false);
bool is_last(std::span<const Entry> batch, std::size_t entry);  // of its sequence

// ---- bits

class Hash {
 public:
  void add(std::span<const float> values);
  std::uint64_t value() const { return h_; }

 private:
  std::uint64_t h_ = 1469598103934665603u;
};

bool all_finite(std::span<const float> values);
llama_token largest(std::span<const float> logits);  // the first of equal ones
std::span<const float> logits_of(llama_context *context, int entry);

}  // namespace rapt_ggml_tests
