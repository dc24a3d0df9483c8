#include "ggml/backend.hpp"

#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>

#include "ggml/buffer.hpp"
#include "ggml/fused.hpp"
#include "ggml/host.hpp"
#include "ggml/ops.hpp"

namespace rapt_ggml {

namespace {

using Signature = std::tuple<Tensor, Tensor, std::size_t>;  // first node, last node, how many

struct Times {
  double seconds = 0;
  std::size_t calls = 0;
};

struct Backend {
  Engine engine;
  std::vector<ggml_tensor *> nodes;     // of the graph that is being computed
  std::unordered_set<Tensor> computed;  // by this backend: what is not among them comes from somebody else
  std::set<Signature> known;            // graphs whose sources were checked
  std::map<std::string, Times> times;   // of a graph, by the first op of those that are computed together
};

std::atomic<int> backends{0};

Backend &of(ggml_backend_t backend) { return *static_cast<Backend *>(backend->context); }
const char *name(ggml_backend_t) { return "RAPT"; }

void print_times(Backend &backend, std::size_t nodes) {
  double all = 0;
  std::string text;
  for (const auto &[op, times] : backend.times) {
    char line[80];
    std::snprintf(line, sizeof line, ", %s %zu x %.0f us", op.c_str(), times.calls,
                  1e6 * times.seconds / static_cast<double>(times.calls));
    text += line;
    all += times.seconds;
  }
  backend.times.clear();
  char head[80];
  std::snprintf(head, sizeof head, "a graph of %zu nodes in %.2f ms", nodes, 1e3 * all);
  say(GGML_LOG_LEVEL_INFO, head + text);
}

void release(ggml_backend_t backend) {
  delete &of(backend);
  delete backend;
  if (--backends == 0) say_all_again();  // a new model is told everything
}

// Says what the graph reads that rapt did not compute.
void check_sources(const Backend &backend, Tensor op) {
  for (const ggml_tensor *source : op->src) {
    if (!source) continue;
    if (place_of(source) == Place::foreign) {
      not_our_bits(text_of(op) + " reads " + source->name +
                   " from memory of another device: leave -ngl, -ot, --n-cpu-moe and --fit out");
    }
    const Tensor root = root_of(source);
    const bool is_copy = root->op == GGML_OP_NONE && std::strncmp(root->name, "RAPT#", 5) == 0;
    if (is_copy || (root->op != GGML_OP_NONE && !backend.computed.contains(root))) {
      not_our_bits(text_of(op) + " reads " + root->name +
                   ", which another backend has computed: leave -ngl, -ot, --n-cpu-moe and --fit out");
    }
  }
}

// A graph is often the one before, with other inputs: its sources are checked once.
void check_new_graph(Backend &backend, std::span<ggml_tensor *const> nodes) {
  const Signature signature = {nodes.front(), nodes.back(), nodes.size()};
  if (!backend.known.insert(signature).second) return;
  if (backend.known.size() > 1000) backend.known.clear(), backend.computed.clear();
  backend.computed.insert(nodes.begin(), nodes.end());
  for (const Tensor op : nodes) check_sources(backend, op);
}

enum ggml_status compute_graph(ggml_backend_t b, ggml_cgraph *cgraph) {
  Backend &backend = of(b);
  const int length = host().graph_length(cgraph);
  if (length == 0) return GGML_STATUS_SUCCESS;
  std::vector<ggml_tensor *> &nodes = backend.nodes;
  nodes.resize(static_cast<std::size_t>(length));
  for (int i = 0; i < length; ++i) nodes[static_cast<std::size_t>(i)] = host().graph_node(cgraph, i);
  check_new_graph(backend, nodes);

  Graph graph{backend.engine, {}, {}, {}, {}, {}};
  std::size_t i = 0;
  try {
    const FusedGraph fused(nodes);
    while (i < nodes.size()) {
      const auto begin = std::chrono::steady_clock::now();
      backend.engine.op_memory.reset();
      const std::size_t done = fused.compute(graph, i);
      if (log_is_on() && has_work(nodes[i])) {
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
        Times &times = backend.times[host().op_text(nodes[i])];
        times.seconds += time.count(), ++times.calls;
      }
      i += done;
    }
  } catch (const std::bad_alloc &) {
    say(GGML_LOG_LEVEL_ERROR, text_of(nodes[i]) + ": there is no memory left");
    return GGML_STATUS_ALLOC_FAILED;
  } catch (const std::exception &failure) {
    say(GGML_LOG_LEVEL_ERROR, text_of(nodes[i]) + ": " + failure.what());
    return GGML_STATUS_FAILED;
  }
  if (log_is_on()) print_times(backend, nodes.size());
  return GGML_STATUS_SUCCESS;
}

}  // namespace

ggml_backend_t new_backend(ggml_backend_dev_t device) {
  static ggml_guid guid = {0x72, 0x61, 0x70, 0x74, 0x2d, 0x67, 0x67, 0x6d,
                           0x6c, 0x9e, 0x4b, 0x1f, 0xa2, 0x33, 0xd0, 0x58};
  ggml_backend_i functions = {};
  functions.get_name = name;
  functions.free = release;
  functions.graph_compute = compute_graph;
  ggml_backend *const made = new (std::nothrow) ggml_backend{};
  Backend *const context = new (std::nothrow) Backend;
  if (!made || !context) {
    delete made;
    delete context;
    return nullptr;
  }
  made->guid = &guid, made->iface = functions, made->device = device, made->context = context;
  ++backends;
  return made;
}

void set_n_threads(ggml_backend_t backend, int threads) {
  of(backend).engine.set_threads(static_cast<std::size_t>(std::max(1, threads)));
}

}  // namespace rapt_ggml
