#include "ggml/backend.hpp"

#include <chrono>
#include <map>
#include <unordered_set>

#include "ggml/buffer.hpp"
#include "ggml/host.hpp"
#include "ggml/ops.hpp"

namespace rapt_ggml {

namespace {

struct Backend {
  Engine engine;
  std::unordered_set<Tensor> computed;  // by this backend: what is not among them comes from somebody else
  std::map<std::string, double> seconds;
  std::size_t graphs = 0;
};

std::atomic<int> backends{0};

Backend &of(ggml_backend_t backend) { return *static_cast<Backend *>(backend->context); }
const char *name(ggml_backend_t) { return "RAPT"; }

void print_times(const Backend &backend) {
  for (const auto &[op, seconds] : backend.seconds) {
    say(GGML_LOG_LEVEL_INFO, op + ": " + std::to_string(seconds * 1000) + " ms");
  }
}

void release(ggml_backend_t backend) {
  if (log_is_on()) print_times(of(backend));
  delete &of(backend);
  delete backend;
  if (--backends == 0) say_all_again();  // a new model is told everything
}

// Says what the graph reads that rapt did not compute.
void check_sources(Backend &backend, Tensor op) {
  for (const ggml_tensor *source : op->src) {
    if (!source) continue;
    if (place_of(source) == Place::foreign) {
      not_our_bits(text_of(op) + " reads " + source->name +
                   " from memory of another device: leave -ot, --n-cpu-moe, --fit and -ngl out");
    }
    const Tensor root = root_of(source);
    const bool is_copy = root->op == GGML_OP_NONE && std::strncmp(root->name, "RAPT#", 5) == 0;
    if (is_copy || (root->op != GGML_OP_NONE && !backend.computed.contains(root))) {
      not_our_bits(text_of(op) + " reads " + root->name + ", which another backend has computed");
    }
  }
}

enum ggml_status compute_graph(ggml_backend_t b, ggml_cgraph *cgraph) {
  Backend &backend = of(b);
  const int length = host().graph_length(cgraph);
  Graph graph{backend.engine, {}, {}, {}, {}, {}};
  backend.engine.graph_memory.reset();
  if (backend.computed.size() > 100000) backend.computed.clear();
  for (int i = 0; i < length; ++i) {
    const Tensor op = host().graph_node(cgraph, i);
    backend.computed.insert(op);
    if (op->op != GGML_OP_FLASH_ATTN_EXT) continue;
    if (const Tensor cache = cache_of(op)) graph.caches.insert(cache);
  }
  if (log_is_on()) {
    say(GGML_LOG_LEVEL_INFO,
        "graph " + std::to_string(++backend.graphs) + " with " + std::to_string(length) + " nodes");
  }
  for (int i = 0; i < length; ++i) {
    ggml_tensor *const op = host().graph_node(cgraph, i);
    if (!(op->flags & GGML_TENSOR_FLAG_COMPUTE)) continue;
    try {
      check_sources(backend, op);
      backend.engine.op_memory.reset();
      const auto begin = std::chrono::steady_clock::now();
      compute(graph, op);
      if (log_is_on()) {
        backend.seconds[host().op_text(op)] +=
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      }
    } catch (const std::bad_alloc &) {
      say(GGML_LOG_LEVEL_ERROR, text_of(op) + ": there is no memory left");
      return GGML_STATUS_ALLOC_FAILED;
    } catch (const std::exception &failure) {
      say(GGML_LOG_LEVEL_ERROR, text_of(op) + ": " + failure.what());
      return GGML_STATUS_FAILED;
    }
  }
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
