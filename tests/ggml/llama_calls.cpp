#include "llama_calls.hpp"

#include <dlfcn.h>
#include <ggml-backend.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <utility>

namespace rapt_ggml_tests {
namespace {

std::mutex log_mutex;
std::string log_text;

void keep_log(ggml_log_level, const char *text, void *) {
  const std::lock_guard lock(log_mutex);
  log_text += text;
  if (std::getenv("RAPT_GGML_TEST_VERBOSE")) std::fputs(text, stderr);
}

std::string all_of(std::FILE *file) {
  std::string text;
  char part[4096];
  std::rewind(file);
  while (const auto n = std::fread(part, 1, sizeof part, file)) text.append(part, n);
  return text;
}

std::string path_of_build(const std::string &lib, const std::string &name) {
  return lib + "/libggml-cpu-" + name + ".so";
}

}  // namespace

ggml_type ggml_type_of(const std::string &name) {
  for (int t = 0; t < GGML_TYPE_COUNT; ++t) {
    const char *known = ggml_type_name(static_cast<ggml_type>(t));
    if (known && strcasecmp(name.c_str(), known) == 0) return static_cast<ggml_type>(t);
  }
  std::fprintf(stderr, "no type %s\n", name.c_str());
  std::exit(2);
}

Outcome in_child(const std::function<bool(std::FILE *)> &body) {
  std::FILE *out = std::tmpfile(), *errors = std::tmpfile();
  if (!out || !errors) return {false, false, "no temporary file"};
  std::fflush(nullptr);
  constexpr int yes = 40, no = 41;  // not what a library would exit with
  const pid_t child = fork();
  if (child == 0) {
    dup2(fileno(errors), STDERR_FILENO);
    setenv("RAPT_GGML_STRICT", "1", 0);   // what would bring somebody else's bits ends the process
    setenv("GGML_NO_BACKTRACE", "1", 0);  // its debugger's output hides the message
    const bool passed = body(out);
    std::fflush(out);
    _exit(passed ? yes : no);  // no destructors of libraries: their order is not what is tested
  }
  int status = 0;
  waitpid(child, &status, 0);
  Outcome o;
  o.finished = WIFEXITED(status) && (WEXITSTATUS(status) == yes || WEXITSTATUS(status) == no);
  o.passed = o.finished && WEXITSTATUS(status) == yes;
  o.text = all_of(out);
  std::string said = all_of(errors);
  if (!o.finished) {
    o.text += WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                  : "exit status " + std::to_string(WEXITSTATUS(status));
    if (said.size() > 2000) said = "..." + said.substr(said.size() - 2000);
  }
  if (!said.empty() && (!o.passed || std::getenv("RAPT_GGML_TEST_VERBOSE"))) o.text += "\n" + said;
  std::fclose(out);
  std::fclose(errors);
  return o;
}

std::vector<std::string> cpu_builds(const std::string &lib) {
  std::vector<std::pair<int, std::string>> found;
  for (const auto &entry : std::filesystem::directory_iterator(lib)) {
    const std::string file = entry.path().filename(), start = "libggml-cpu-";
    if (!file.starts_with(start) || !file.ends_with(".so")) continue;
    void *handle = dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) continue;
    const auto score = reinterpret_cast<int (*)()>(dlsym(handle, "ggml_backend_score"));
    if (const int s = score ? score() : 1; s > 0)
      found.emplace_back(-s, file.substr(start.size(), file.size() - start.size() - 3));
    dlclose(handle);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (const auto &[score, name] : found) names.push_back(name);
  return names;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

bool load_backends(const Place &place) {
  llama_log_set(keep_log, nullptr);
  const auto builds = place.cpu.empty() ? cpu_builds(place.lib) : std::vector{place.cpu};
  const bool is_inside =
      builds.empty() && ggml_backend_dev_by_name("CPU");  // a host with its one CPU backend inside
  if (builds.empty() && !is_inside)
    return std::fprintf(stderr, "no CPU build of ggml in %s\n", place.lib.c_str()), false;
  if (!is_inside && !ggml_backend_load(path_of_build(place.lib, builds.front()).c_str()))
    return std::fprintf(stderr, "the CPU build %s does not load\n%s", builds.front().c_str(),
                        take_log().c_str()),
           false;
  if (!place.plugin.empty() &&
      (!ggml_backend_load(place.plugin.c_str()) || !ggml_backend_dev_by_name("RAPT")))
    return std::fprintf(stderr, "the plugin does not load\n%s", take_log().c_str()), false;
  return true;
}

std::string take_log() {
  const std::lock_guard lock(log_mutex);
  return std::exchange(log_text, {});
}

// llama.cpp 0.4.0 logs "graph splits = 1" or "graph splits = 1 (with bs=512), 25 (with bs=1)", 0.5.0 "splits = 1 / 25".
int splits_in(const std::string &log) {
  int most = -1;
  for (auto at = log.find("splits = "); at != log.npos; at = log.find("splits = ", at + 1)) {
    const std::string line = log.substr(at + 9, log.find('\n', at) - at - 9);
    int first = 0, second = 0;
    if (std::sscanf(line.c_str(), "%d / %d", &first, &second) < 2)
      std::sscanf(line.c_str(), "%d (with bs=%*d), %d", &first, &second);
    most = std::max({most, first, second});
  }
  return most;
}

Model load_model(const std::string &path, const std::function<void(llama_model_params &)> &change) {
  llama_model_params p = llama_model_default_params();
  ggml_backend_dev_t devices[2] = {ggml_backend_dev_by_name("RAPT"), nullptr};
  p.devices = devices;
  p.n_gpu_layers = devices[0] ? 99 : 0;
  if (change) change(p);
  return Model(llama_model_load_from_file(path.c_str(), p));
}

Context new_context(llama_model *model, const Settings &s) {
  llama_context_params p = llama_context_default_params();
  p.n_ctx = static_cast<std::uint32_t>(s.cells);
  p.n_batch = static_cast<std::uint32_t>(s.cells);
  p.n_ubatch = static_cast<std::uint32_t>(s.ubatch);
  p.n_seq_max = static_cast<std::uint32_t>(s.sequences);
  p.n_threads = p.n_threads_batch = s.threads;
  p.kv_unified = s.unified;
  p.swa_full = s.whole_windows;
  p.offload_kqv = s.cache_on_device;
  p.flash_attn_type = s.flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  const auto slash = s.cache.find('/');
  p.type_k = ggml_type_of(s.cache.substr(0, slash));
  p.type_v = slash == s.cache.npos ? p.type_k : ggml_type_of(s.cache.substr(slash + 1));
  p.embeddings = s.embeddings;
  if (s.observed) p.cb_eval = [](ggml_tensor *, bool, void *) { return true; };  // every op apart
  p.pooling_type = s.pooling;
  return Context(llama_init_from_model(model, p));
}

bool is_last(std::span<const Entry> batch, std::size_t entry) {
  const auto later = batch.subspan(entry + 1);
  return std::none_of(later.begin(), later.end(),
                      [&](const Entry &e) { return e.sequence == batch[entry].sequence; });
}

int evaluate(llama_context *context, std::span<const Entry> entries, bool last_only) {
  const auto n = static_cast<std::int32_t>(entries.size());
  llama_batch batch = llama_batch_init(std::max(n, 1), 0, 1);
  batch.n_tokens = n;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    batch.token[i] = entries[i].token;
    batch.pos[i] = entries[i].position;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = entries[i].sequence;
    batch.logits[i] = !last_only || is_last(entries, i);
  }
  const int status = llama_get_memory(context) ? llama_decode(context, batch) : llama_encode(context, batch);
  llama_synchronize(context);
  llama_batch_free(batch);
  return status;
}

void Hash::add(std::span<const float> values) {
  for (const float v : values) {
    h_ = (h_ ^ std::bit_cast<std::uint32_t>(v)) * 1099511628211u;
    h_ ^= h_ >> 29;
  }
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

llama_token largest(std::span<const float> logits) {
  return static_cast<llama_token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::span<const float> logits_of(llama_context *context, int entry) {
  const int n = llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)));
  const float *l = llama_get_logits_ith(context, entry);
  return {l, l ? static_cast<std::size_t>(n) : 0};
}

}  // namespace rapt_ggml_tests
