// Contexts and models come and go, also in several threads.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "model.hpp"
#include "play.hpp"
#include "scenes.hpp"

namespace rapt_ggml_tests {
namespace {

long resident_kilobytes() {
  long pages = 0;
  if (std::FILE *f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%*d %ld", &pages) != 1) pages = 0;
    std::fclose(f);
  }
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

// Calls `once` n times; memory after a tenth of them and at the end may differ by what an allocator keeps in between.
Verdict bounded(int n, long kilobytes, const std::function<bool()> &once) {
  long early = 0;
  for (int i = 0; i < n; ++i) {
    take_log();  // it grows, too
    if (!once()) return {"fails at call " + std::to_string(i), ""};
    if (i == n / 10) early = resident_kilobytes();
  }
  const long grown = resident_kilobytes() - early;
  const std::string text = std::to_string(grown) + " KB more after " + std::to_string(n) + " than after " +
                           std::to_string(n / 10) + " (" + std::to_string(early) + " KB)";
  return {grown > kilobytes ? text : "", text};
}

bool one_token(llama_model *model, int i) {
  Settings settings;
  settings.cells = 256;
  settings.ubatch = 64;
  settings.threads = 1 + i % 2;
  const Context context = new_context(model, settings);
  const Entry entry{i % 512, 0, 0};
  return context && evaluate(context.get(), {&entry, 1}) == 0;
}

Verdict contexts(const std::string &path, int n) {
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  int i = 0;
  return bounded(n, 4096, [&] { return one_token(model.get(), i++); });
}

Verdict models(const std::string &path, int n) {
  return bounded(n, 16384, [&] {
    const Model model = load_model(path);
    return model && one_token(model.get(), 1);
  });
}

// Each thread has its own context, and perhaps its own model.
Verdict concurrent(const std::string &path, bool own_models) {
  const Model shared = load_model(path);
  if (!shared) return {"the model does not load", ""};
  std::string problems[3];
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      const Model own = own_models ? load_model(path) : nullptr;
      Settings settings;
      settings.sequences = 3;
      settings.threads = 1 + t % 2;
      for (int round = 0; round < 3 && problems[t].empty(); ++round) {
        Play p(own_models ? own.get() : shared.get(), settings);
        p.prompt("ABC", 20 + 10 * t), p.remove('B'), p.decode("AC", 20);
        problems[t] = p.compare_with_alone();
      }
    });
  for (auto &t : threads) t.join();
  for (const auto &p : problems)
    if (!p.empty()) return {p, ""};
  return {};
}

Verdict changing_threads(const std::string &path) {
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  Settings settings;
  Play p(model.get(), settings);
  for (int i = 0; i < 30; ++i) {
    llama_set_n_threads(p.context(), 1 + i % 3, 1 + i % 2);
    p.prompt("A", 1 + i % 5);
  }
  return {p.compare_with_alone(), ""};
}

// node-llama-cpp does so.
Verdict loaded_twice(const std::string &plugin) {
  if (plugin.empty()) return {"", "no plugin"};
  if (!ggml_backend_load(plugin.c_str())) return {"the second time it does not load", ""};
  int devices = 0;
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i)
    devices += std::string(ggml_backend_dev_name(ggml_backend_dev_get(i))) == "RAPT";
  return {devices == 1 ? "" : std::to_string(devices) + " devices", ""};
}

// A cache that memory does not hold is refused, and the next context works. The limit spares the machine: it would hand
// out more memory than it has.
Verdict too_large(const std::string &path) {
  const Model model = load_model(path);
  if (!model) return {"the model does not load", ""};
  Settings settings;
  settings.cells = 1 << 22;
  const rlimit limit{rlim_t{4} << 30, rlim_t{4} << 30};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return {"no limit", ""};
  if (new_context(model.get(), settings)) return {"a cache of 6 GB was made within 4", ""};
  return {one_token(model.get(), 1) ? "" : "the next context fails", ""};
}

}  // namespace

std::vector<Scene> lifetime_scenes(const Choice &choice) {
  const Seeded seeded;
  const int n = choice.contexts;
  return {
      {"lifetimes: contexts, created and freed", seeded,
       [=](const std::string &p) { return contexts(p, n); }},
      {"lifetimes: models, loaded and freed", seeded,
       [=](const std::string &p) { return models(p, n / 10 + 1); }},
      {"lifetimes: three threads, a context each", seeded,
       [](const std::string &p) { return concurrent(p, false); }},
      {"lifetimes: three threads, a model each", seeded,
       [](const std::string &p) { return concurrent(p, true); }},
      {"lifetimes: numbers of threads change", seeded,
       [](const std::string &p) { return changing_threads(p); }},
      {"lifetimes: loaded twice", seeded, [=](const std::string &) { return loaded_twice(choice.plugin); }},
      {"lifetimes: a cache that is too large", seeded, [](const std::string &p) { return too_large(p); }},
  };
}

}  // namespace rapt_ggml_tests
