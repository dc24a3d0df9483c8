// One linear layer by the plugin and by ggml-cpu, in turns, in one process: rows of f32 by weights as files have them.
// Each side has the weights in the order that it prefers. The script `run --layers` builds and starts it.
#include <fmt/format.h>
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "llama_calls.hpp"

using namespace rapt_ggml_tests;

namespace {

struct FreeAll {
  void operator()(ggml_context *c) const { ggml_free(c); }
  void operator()(ggml_backend_buffer *b) const { ggml_backend_buffer_free(b); }
  void operator()(ggml_backend *b) const { ggml_backend_free(b); }
};
template <class T>
using Owned = std::unique_ptr<T, FreeAll>;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Problem {
  ggml_type type;
  std::int64_t inputs, outputs, rows;
  int matrices;                            // of equal weights, read in turn
  const std::vector<std::uint8_t> *bytes;  // of one matrix, as a file has them
};

Owned<ggml_context> context_of(int tensors) {
  const auto count = static_cast<std::size_t>(tensors);
  return Owned<ggml_context>(
      ggml_init({.mem_size = count * ggml_tensor_overhead() + ggml_graph_overhead_custom(2 * count, false),
                 .mem_buffer = nullptr,
                 .no_alloc = true}));
}

// A backend, the weights in its memory, and a graph of all products.
class Side {
 public:
  Side(ggml_backend_dev_t device, const Problem &problem, const std::vector<float> &x)
      : backend_(ggml_backend_dev_init(device, nullptr)),
        weights_(context_of(problem.matrices)),
        rest_(context_of(problem.matrices + 1)) {
    if (!backend_ || !weights_ || !rest_) throw std::runtime_error("no backend");
    std::vector<ggml_tensor *> w;
    for (int i = 0; i < problem.matrices; ++i)
      w.push_back(ggml_new_tensor_2d(weights_.get(), problem.type, problem.inputs, problem.outputs));
    ggml_tensor *const rows = ggml_new_tensor_2d(rest_.get(), GGML_TYPE_F32, problem.inputs, problem.rows);
    graph_ = ggml_new_graph_custom(rest_.get(), 2 * (w.size() + 1), false);
    for (ggml_tensor *const matrix : w)
      ggml_build_forward_expand(graph_, ggml_mul_mat(rest_.get(), matrix, rows));
    const ggml_backend_buffer_type_t place = place_of(device, ggml_graph_node(graph_, 0));
    place_ = ggml_backend_buft_name(place);
    buffer_of_weights_.reset(ggml_backend_alloc_ctx_tensors_from_buft(weights_.get(), place));
    buffer_of_rest_.reset(
        ggml_backend_alloc_ctx_tensors_from_buft(rest_.get(), ggml_backend_dev_buffer_type(device)));
    if (!buffer_of_weights_ || !buffer_of_rest_) throw std::runtime_error("no memory");
    ggml_backend_buffer_set_usage(buffer_of_weights_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (ggml_tensor *const matrix : w)
      ggml_backend_tensor_set(matrix, problem.bytes->data(), 0, problem.bytes->size());
    ggml_backend_tensor_set(rows, x.data(), 0, ggml_nbytes(rows));
    const auto set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
    if (!set_threads) throw std::runtime_error("no number of threads");
    set_threads(backend_.get(), 1);
  }

  // Seconds for all matrices.
  double run() {
    const double begin = now();
    if (ggml_backend_graph_compute(backend_.get(), graph_) != GGML_STATUS_SUCCESS)
      throw std::runtime_error("the graph fails");
    ggml_backend_synchronize(backend_.get());
    return now() - begin;
  }
  const std::string &place() const { return place_; }

 private:
  // The first of the device's places in which it takes such weights, asked as llama.cpp does: with a buffer of size 0.
  static ggml_backend_buffer_type_t place_of(ggml_backend_dev_t device, ggml_tensor *product) {
    const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
    const ggml_backend_buffer_type_t *const places = extra ? extra(device) : nullptr;
    ggml_tensor *const w = product->src[0];
    for (int i = 0; places && places[i]; ++i) {
      const Owned<ggml_backend_buffer> empty(ggml_backend_buft_alloc_buffer(places[i], 0));
      w->buffer = empty.get();
      const bool takes = empty && ggml_backend_dev_supports_op(device, product);
      w->buffer = nullptr;
      if (takes) return places[i];
    }
    return ggml_backend_dev_buffer_type(device);
  }

  Owned<ggml_backend> backend_;
  Owned<ggml_context> weights_, rest_;
  Owned<ggml_backend_buffer> buffer_of_weights_, buffer_of_rest_;
  ggml_cgraph *graph_ = nullptr;
  std::string place_;
};

// GB/s of plain loads from a buffer of the size that the weights of one row have.
double read_bandwidth(std::size_t bytes) {
  using Line = std::uint64_t __attribute__((vector_size(64)));
  const std::vector<Line> buffer(bytes / sizeof(Line), Line{1, 2, 3});
  double best = 0;
  for (int turn = 0; turn < 5; ++turn) {
    Line sums[4] = {};
    const double begin = now();
    for (std::size_t i = 0; i + 4 <= buffer.size(); i += 4) {
      __builtin_prefetch(reinterpret_cast<const char *>(&buffer[i]) + 2048);
      for (std::size_t j = 0; j < 4; ++j) sums[j] ^= buffer[i + j];
    }
    const double seconds = now() - begin;
    const Line sum = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
    asm volatile("" : : "r"(sum[0] ^ sum[7]) : "memory");
    best = std::max(best, static_cast<double>(buffer.size() * sizeof(Line)) / seconds);
  }
  return best * 1e-9;
}

// The calling thread stays on the last CPU that it may use: the first one has most of the system's interrupts.
void pin() {
  cpu_set_t allowed, chosen;
  CPU_ZERO(&chosen);
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && CPU_COUNT(&chosen) == 0; --cpu)
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &chosen);
  sched_setaffinity(0, sizeof chosen, &chosen);
}

}  // namespace

int main(int argc, char **argv) try {
  CLI::App app{"A linear layer by the plugin and by ggml-cpu, in turns"};
  Place place;
  std::string level, commit = "unknown", host = "unknown";
  std::vector<std::string> types = {"f16",  "q8_0", "q4_0", "q4_1", "q5_0",   "q5_1",   "q4_K",
                                    "q5_K", "q6_K", "q2_K", "q3_K", "iq4_nl", "iq4_xs", "mxfp4"};
  std::vector<std::int64_t> rows = {1, 4, 512}, shape = {4096, 4096};
  int turns = 7, megabytes = 512;
  app.add_option("--plugin", place.plugin, "libggml-rapt.so")->required();
  app.add_option("--lib", place.lib, "folder of llama.cpp's libraries")->required();
  app.add_option("--host", host, "llama.cpp's version");
  app.add_option("--commit", commit, "rapt's commit");
  app.add_option("--cpu", place.cpu, "CPU build of ggml, such as haswell; without it, the best");
  app.add_option("--level", level, "RAPT_ISA of the plugin");
  app.add_option("--weights", types, "ggml's names of types")->delimiter(',');
  app.add_option("--rows", rows, "rows of x")->delimiter(',');
  app.add_option("--shape", shape, "outputs,inputs")->delimiter(',')->expected(2);
  app.add_option("--memory", megabytes, "MB of weights that up to 16 rows read in turn")
      ->check(CLI::PositiveNumber);
  app.add_option("--turns", turns, "turns of each side")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (!level.empty()) setenv("RAPT_ISA", level.c_str(), 1);
  pin();
  if (!load_backends(place)) return 1;
  const ggml_backend_dev_t devices[] = {ggml_backend_dev_by_name("RAPT"), ggml_backend_dev_by_name("CPU")};
  const std::size_t most = static_cast<std::size_t>(megabytes) * 1000 * 1000;
  fmt::print("{}, commit {}, beside ggml-cpu {} of llama.cpp {}; {}, one core\n",
             ggml_backend_dev_description(devices[0]), commit,
             place.cpu.empty() ? cpu_builds(place.lib).front() : place.cpu, host, cpu_name());
  fmt::print(
      "Medians of {} turns. Weights {} x {}: {} MB of them in turn with up to 16 rows, else one matrix. Plain loads read {:.1f} "
      "GB/s.\n\n"
      "| weights | rows | rapt, ms | GMAC/s | file's GB/s | ggml-cpu's order | ggml-cpu, ms | GB/s | rapt / ggml-cpu |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
      turns, shape[0], shape[1], megabytes, read_bandwidth(most));

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto elements = static_cast<std::size_t>(shape[0] * shape[1]);
  std::vector<float> w(elements),
      x(static_cast<std::size_t>(*std::max_element(rows.begin(), rows.end()) * shape[1]));
  for (float &number : w) number = normal(random) * .02f;
  for (float &number : x) number = normal(random);
  for (const std::string &name : types) {
    const ggml_type type = ggml_type_of(name);
    std::vector<std::uint8_t> bytes(ggml_row_size(type, shape[1]) * static_cast<std::size_t>(shape[0]));
    ggml_quantize_chunk(type, w.data(), bytes.data(), 0, shape[0], shape[1], nullptr);
    for (const std::int64_t n : rows) {
      const int matrices = n > 16 ? 1 : static_cast<int>(std::max<std::size_t>(1, most / bytes.size()));
      const Problem problem = {type, shape[1], shape[0], n, matrices, &bytes};
      Side ours(devices[0], problem, x), theirs(devices[1], problem, x);
      ours.run(), theirs.run();
      std::vector<double> our_times, their_times;
      for (int i = 0; i < turns; ++i) our_times.push_back(ours.run()), their_times.push_back(theirs.run());
      const double a = median(our_times) / matrices, b = median(their_times) / matrices;
      const auto size = static_cast<double>(bytes.size());
      fmt::print("| {} | {} | {:.3g} | {:.1f} | {:.1f} | {} | {:.3g} | {:.1f} | {:.2f} |\n", name, n, a * 1e3,
                 static_cast<double>(n) * static_cast<double>(elements) / a * 1e-9, size / a * 1e-9,
                 theirs.place(), b * 1e3, size / b * 1e-9, b / a);
      std::fflush(stdout);
    }
  }
  return 0;
} catch (const std::exception &e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
