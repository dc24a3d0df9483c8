// Tokens/s of a prompt and of decoding after it, with the plugin and with ggml-cpu, in turns. The script `run` builds
// and starts it.
#include <fmt/format.h>
#include <ggml-backend.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "llama_calls.hpp"
#include "model.hpp"

using namespace rapt_ggml_tests;

namespace {

struct Size {
  const char *model;  // in model.hpp
  Shape shape;
  const char *text;
};

// The dimensions of SmolLM2, Llama 3.2 and Llama 3, and of models with other layers. No file has more than 2.1 GB.
const std::map<std::string, Size> sizes = {
    {"135M",
     {"llama-tied",
      {576, 9, 3, 64, 1536, 49152, 30, true},
      "30 layers of 576, heads 9:3 of 64, feed-forward 1536, vocabulary 49152, tied"}},
    {"1B",
     {"llama-tied",
      {2048, 32, 8, 64, 8192, 32000, 16, true},
      "16 layers of 2048, heads 32:8 of 64, feed-forward 8192, vocabulary 32000 (not 128256), tied"}},
    {"8B",
     {"llama",
      {4096, 32, 8, 128, 14336, 32000, 3, true},
      "3 layers (not 32) of 4096, heads 32:8 of 128, feed-forward 14336, vocabulary 32000 (not 128256)"}},
    {"gemma3",
     {"gemma3",
      {1152, 4, 1, 256, 6912, 32000, 12, true},
      "Gemma 3 1B, 12 layers (not 26) of 1152, heads 4:1 of 256, feed-forward 6912, windows of 64 (not 512)"}},
    {"moe",
     {"qwen3moe",
      {2048, 32, 4, 128, 768, 32000, 6, true},
      "Qwen3 30B-A3B, 6 layers (not 48) of 2048, heads 32:4 of 128, 2 of 8 experts (not 8 of 128) of 768"}},
    {"gpt-oss",
     {"gpt-oss",
      {2880, 64, 8, 64, 2880, 32000, 3, true},
      "gpt-oss 20B, 3 layers (not 24) of 2880, heads 64:8 of 64, 2 of 8 experts (not 4 of 32) of 2880 in MXFP4"}},
    {"qwen35",
     {"qwen35",
      {1024, 16, 4, 128, 3584, 32000, 8, true},
      "Qwen 3.5 0.8B, 8 layers (not 24) of 1024, the delta rule and attention in turns, heads 16:4 of 128, feed-forward 3584"}},
};

// The names of files, and the type that model.hpp mixes.
const std::map<std::string, const char *> mixtures = {
    {"f16", "F16"}, {"q8_0", "Q8_0"}, {"q4_0", "Q4_0"}, {"q4_1", "Q4_1"}, {"Q4_K_M", "Q4_K"}};

struct Turn {
  double prompt = 0, decode = 0;       // tokens/s
  long peak = 0, own = 0, mapped = 0;  // KB after loading
  double busy = 0;                     // the share of the time in which the first thread was running
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// ---- one process

// "VmHWM:", "RssAnon:" or "RssFile:", in KB.
long status_of(const std::string &key) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with(key)) return std::strtol(line.c_str() + key.size(), nullptr, 10);
  return 0;
}

// The calling thread, and those that it starts, stay on so many cores, one thread each.
void pin(int threads) {
  cpu_set_t allowed, chosen;
  CPU_ZERO(&chosen);
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&chosen) < threads; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::ifstream siblings(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    int first = cpu;
    siblings >> first;
    if (first == cpu) CPU_SET(cpu, &chosen);
  }
  if (CPU_COUNT(&chosen) == threads) sched_setaffinity(0, sizeof chosen, &chosen);
}

double running() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Logits of the last token only, as a program asks for them.
bool decode(llama_context *context, int first, int n) {
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)));
  llama_batch batch = llama_batch_init(n, 0, 1);
  batch.n_tokens = n;
  for (int i = 0; i < n; ++i) {
    batch.token[i] = static_cast<llama_token>((static_cast<unsigned>(first + i) * 2654435761u >> 7) %
                                              static_cast<unsigned>(vocabulary));
    batch.pos[i] = first + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = i == n - 1;
  }
  const bool done = llama_decode(context, batch) == 0;
  llama_synchronize(context);
  llama_batch_free(batch);
  return done && all_finite(logits_of(context, n - 1));
}

struct Task {
  int prompt = 512, fresh = 64;
  std::string level, cache = "f16";
};

bool measure(const Place &place, const std::string &file, int threads, const Task &task, std::FILE *out) {
  if (!task.level.empty()) setenv("RAPT_ISA", task.level.c_str(), 1);
  if (!load_backends(place)) return false;
  const Model model = load_model(file);
  if (!model) return std::fputs(take_log().c_str(), stderr), false;
  const long peak = status_of("VmHWM:"), own = status_of("RssAnon:"), mapped = status_of("RssFile:");
  pin(threads);
  Settings settings;
  settings.threads = threads;
  settings.cache = task.cache;
  settings.cells = (task.prompt + task.fresh + 255) / 256 * 256;
  const Context context = new_context(model.get(), settings);
  if (!context) return std::fputs(take_log().c_str(), stderr), false;
  if (const int n = splits_in(take_log()); n != 1 && !place.plugin.empty())
    return fmt::print(stderr, "the graph has {} splits\n", n), false;
  // A first prompt and tokens touch all weights.
  if (!decode(context.get(), 0, 64) || !decode(context.get(), 64, 1)) return false;
  llama_memory_clear(llama_get_memory(context.get()), true);
  const double ran = running(), begin = now();
  if (!decode(context.get(), 0, task.prompt)) return false;
  const double middle = now();
  for (int i = 0; i < task.fresh; ++i)
    if (!decode(context.get(), task.prompt + i, 1)) return false;
  const double end = now();
  fmt::print(out, "{} {} {} {} {} {}", task.prompt / (middle - begin), task.fresh / (end - middle), peak, own,
             mapped, (running() - ran) / (end - begin));
  return true;
}

// ---- the table

struct Side {
  std::vector<Turn> turns;
  double median_of(double Turn::*what) const {
    std::vector<double> values;
    for (const Turn &t : turns) values.push_back(t.*what);
    return median(values);
  }
};

// "1.23 (1.20 to 1.25)": the ratio of medians, and the lowest and highest of the turns.
std::string ratio(const Side &ours, const Side &theirs, double Turn::*what) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.turns.size(); ++i)
    ratios.push_back(ours.turns[i].*what / (theirs.turns[i].*what));
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", ours.median_of(what) / theirs.median_of(what), *least,
                     *most);
}

std::string rate(double tokens) {
  return tokens < 9.95 ? fmt::format("{:.2f}", tokens)
                       : fmt::format("{:.{}f}", tokens, tokens < 99.5 ? 1 : 0);
}

double load_average() {
  double one = 0;
  return getloadavg(&one, 1) == 1 ? one : 0;
}

nlohmann::json json_of(const Side &side) {
  nlohmann::json turns = nlohmann::json::array();
  for (const Turn &t : side.turns)
    turns.push_back({{"prompt", t.prompt},
                     {"decode", t.decode},
                     {"peak_kb", t.peak},
                     {"own_kb", t.own},
                     {"mapped_kb", t.mapped},
                     {"busy", t.busy}});
  return turns;
}

template <class Value>
bool all_known(const std::vector<std::string> &names, const std::map<std::string, Value> &known) {
  for (const auto &name : names)
    if (!known.contains(name)) return fmt::print(stderr, "no {} here\n", name), false;
  return true;
}

}  // namespace

int main(int argc, char **argv) {
  CLI::App app{"Tokens/s with the plugin and with ggml-cpu, in turns"};
  Place place;
  Task task;
  std::vector<std::string> shapes = {"135M", "1B", "8B"}, weights = {"f16", "q8_0", "q4_0", "q4_1", "Q4_K_M"},
                           caches = {"f16"};
  std::vector<int> threads = {1, 2};
  std::string folder = "/tmp", commit = "unknown", host = "unknown", json_file;
  int turns = 5;
  bool keep = false;
  app.add_option("--plugin", place.plugin, "libggml-rapt.so")->required();
  app.add_option("--lib", place.lib, "folder of llama.cpp's libraries")->required();
  app.add_option("--host", host, "llama.cpp's version");
  app.add_option("--commit", commit, "rapt's commit");
  app.add_option("--folder", folder, "where the models' files are written");
  app.add_option("--cpu", place.cpu, "CPU build of ggml, such as haswell; without it, the best");
  app.add_option("--shapes", shapes, "135M,1B,8B; others: gemma3,moe,gpt-oss,qwen35")->delimiter(',');
  app.add_option("--weights", weights, "f16,q8_0,q4_0,q4_1,Q4_K_M")->delimiter(',');
  app.add_option("--caches", caches, "types of caches: f16,q8_0,f16/q4_0 (keys/values)")->delimiter(',');
  app.add_option("--threads", threads, "1,2")->delimiter(',');
  app.add_option("--turns", turns, "turns of each side")->check(CLI::PositiveNumber);
  app.add_option("--level", task.level, "RAPT_ISA of the plugin");
  app.add_option("--prompt", task.prompt, "tokens of the prompt")->check(CLI::PositiveNumber);
  app.add_option("--new", task.fresh, "tokens decoded after it")->check(CLI::PositiveNumber);
  app.add_option("--json", json_file, "also writes every turn to this file");
  app.add_flag("--keep", keep, "leaves the models' files, and takes those that are there");
  CLI11_PARSE(app, argc, argv);
  if (!all_known(shapes, sizes) || !all_known(weights, mixtures)) return 2;
  if (place.cpu.empty()) {
    const auto builds = cpu_builds(place.lib);
    if (builds.empty()) return fmt::print(stderr, "no CPU build of ggml in {} runs here\n", place.lib), 1;
    place.cpu = builds.front();
  }

  const double load_before = load_average();
  const Outcome described = in_child([&](std::FILE *out) {
    if (!task.level.empty()) setenv("RAPT_ISA", task.level.c_str(), 1);
    if (!load_backends(place)) return false;
    fmt::print(out, "{} and ggml {}", ggml_backend_dev_description(ggml_backend_dev_by_name("RAPT")),
               ggml_version());
    return true;
  });
  if (!described.passed) return fmt::print(stderr, "{}\n", described.text), 1;
  const std::time_t time = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", std::gmtime(&time));
  utsname system;
  uname(&system);
  fmt::print("{}, commit {}, of llama.cpp {}, beside its ggml-cpu {}\n", described.text, commit, host,
             place.cpu);
  fmt::print("{}, {} CPUs, {} {}; {}; load average {:.2f}\n", cpu_name(), sysconf(_SC_NPROCESSORS_ONLN),
             system.sysname, system.release, date, load_before);
  const std::string disturbed =
      fmt::format("Disturbed: the load average was {:.2f} before the start.\n", load_before);
  if (load_before > 1) fmt::print("{}", disturbed);
  fmt::print(
      "\nTokens/s, medians of {} turns: a process each, rapt's and ggml-cpu's one after the other, pinned to as many cores as\n"
      "threads. A prompt of {} tokens, then {} tokens one by one. Ratios are rapt / ggml-cpu, with the lowest and highest of the\n"
      "turns. Flash attention, random weights.\n",
      turns, task.prompt, task.fresh);
  for (const auto &name : shapes) fmt::print("{}: {}.\n", name, sizes.at(name).text);
  fmt::print(
      "\n| model | weights | cache | threads | prompt: rapt | ggml-cpu | ratio | decode: rapt | ggml-cpu | ratio |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");

  nlohmann::json rows = nlohmann::json::array();
  std::string memory;
  double least_busy = 1;
  for (const auto &shape : shapes)
    for (const auto &weight : weights) {
      const std::string file = fmt::format("{}/{}-{}.gguf", folder, shape, weight);
      if (!keep || !std::filesystem::exists(file)) {
        const Outcome written = in_child([&](std::FILE *) {
          const Size &size = sizes.at(shape);
          write_model(file + ".part", size.model, mixtures.at(weight), {}, size.shape);
          std::filesystem::rename(file + ".part", file);
          return true;
        });
        if (!written.passed) return fmt::print(stderr, "{}: {}\n", file, written.text), 1;
      }
      for (const std::string &cache : caches)
        for (const int n : threads) {
          task.cache = cache;
          Side ours, theirs;
          for (int i = 0; i < turns; ++i)
            for (Side *side : {&ours, &theirs}) {
              Place here = place;
              if (side == &theirs) here.plugin.clear();
              const Outcome o = in_child([&](std::FILE *out) { return measure(here, file, n, task, out); });
              Turn t;
              if (!o.passed || std::sscanf(o.text.c_str(), "%lf %lf %ld %ld %ld %lf", &t.prompt, &t.decode,
                                           &t.peak, &t.own, &t.mapped, &t.busy) != 6) {
                if (!keep) std::filesystem::remove(file);
                return fmt::print(stderr, "{} {}: {}\n", shape, weight, o.text), 1;
              }
              least_busy = std::min(least_busy, t.busy);
              side->turns.push_back(t);
            }
          fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", shape, weight, cache, n,
                     rate(ours.median_of(&Turn::prompt)), rate(theirs.median_of(&Turn::prompt)),
                     ratio(ours, theirs, &Turn::prompt), rate(ours.median_of(&Turn::decode)),
                     rate(theirs.median_of(&Turn::decode)), ratio(ours, theirs, &Turn::decode));
          std::fflush(stdout);
          rows.push_back({{"model", shape},
                          {"weights", weight},
                          {"cache", cache},
                          {"threads", n},
                          {"file_bytes", std::filesystem::file_size(file)},
                          {"rapt", json_of(ours)},
                          {"ggml_cpu", json_of(theirs)}});
          if (n != threads.front() || cache != caches.front()) continue;
          const auto megabytes = [](const Side &s) {
            return fmt::format("{} | {} | {}", s.turns[0].peak / 1024, s.turns[0].own / 1024,
                               s.turns[0].mapped / 1024);
          };
          memory += fmt::format("| {} | {} | {} | {} | {} |\n", shape, weight,
                                std::filesystem::file_size(file) >> 20, megabytes(ours), megabytes(theirs));
        }
      if (!keep) std::filesystem::remove(file);
    }

  const double load_after = load_average();
  fmt::print(
      "\nMiB after loading: the most so far (VmHWM), then the process's own memory, and pages of the mapped file, which the kernel\n"
      "can drop.\n\n"
      "| model | weights | file | rapt: most | own | mapped | ggml-cpu: most | own | mapped |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n{}\nLoad average {:.2f} before, {:.2f} after.\n",
      memory, load_before, load_after);
  if (load_before > 1) fmt::print("{}", disturbed);
  if (least_busy < .9)
    fmt::print("Disturbed: in one turn the first thread ran for only {:.0f} % of the time.\n",
               100 * least_busy);
  if (!json_file.empty()) {
    std::ofstream out(json_file);
    out << nlohmann::json{{"commit", commit},           {"versions", described.text},
                          {"llama_cpp", host},          {"ggml_cpu", place.cpu},
                          {"level", task.level},        {"cpu", cpu_name()},
                          {"kernel", system.release},   {"date", date},
                          {"prompt", task.prompt},      {"new", task.fresh},
                          {"load_before", load_before}, {"load_after", load_after},
                          {"least_busy", least_busy},   {"rows", rows}}
               .dump(1)
        << '\n';
    if (!out) return fmt::print(stderr, "cannot write {}\n", json_file), 1;
  }
  return 0;
}
