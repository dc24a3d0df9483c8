// Adds ggml as a peer. Each graph has one operation, is made once per shape and runs on one thread. Attention
// is ggml_flash_attn_ext. Its queries and results are f32, so 16-bit queries and results are converted. Its
// result has the layout [token][head][dim].
#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "peer.hpp"
#include "rapt/rapt.h"
#include "shape_cache.hpp"

namespace rapt::bench {
namespace {

std::int64_t signed_(std::size_t n) { return static_cast<std::int64_t>(n); }

ggml_threadpool *one_thread() {
  static ggml_threadpool_params parameters = ggml_threadpool_params_default(1);
  static ggml_threadpool *const pool = ggml_threadpool_new(&parameters);
  return pool;
}

// Holds a graph of one operation. The caller sets the memory of the tensors before each run.
class Graph {
 public:
  Graph()
      : context_(ggml_init({.mem_size = 16 * ggml_tensor_overhead() + ggml_graph_overhead(),
                            .mem_buffer = nullptr,
                            .no_alloc = true})) {
    if (!context_) throw std::runtime_error("ggml_init failed");
  }

  ggml_context *context() const { return context_.get(); }
  ggml_tensor *tensor(ggml_type type, std::size_t a, std::size_t b, std::size_t c = 1) const {
    return ggml_new_tensor_3d(context(), type, signed_(a), signed_(b), signed_(c));
  }
  // Builds the graph that computes `result`. Call it only once.
  void compute_later(ggml_tensor *result) {
    graph_ = ggml_new_graph(context());
    ggml_build_forward_expand(graph_, result);
    plan_ = ggml_graph_plan(graph_, 1, one_thread());
    work_.resize(plan_.work_size);
    plan_.work_data = work_.data();
  }
  void compute() {
    if (ggml_graph_compute(graph_, &plan_) != GGML_STATUS_SUCCESS) throw std::runtime_error("ggml failed");
  }

 private:
  struct Free {
    void operator()(ggml_context *context) const { ggml_free(context); }
  };
  std::unique_ptr<ggml_context, Free> context_;
  ggml_cgraph *graph_ = nullptr;
  ggml_cplan plan_{};
  std::vector<std::uint8_t> work_;
};

// ggml takes inputs as non-const pointers, but does not write to them.
void *memory(const void *input) { return const_cast<void *>(input); }

// ---- dot products

template <ggml_type type, class T>
float dot(const T *a, const T *b, std::size_t n) {
  static const ggml_vec_dot_t function = ggml_get_type_traits_cpu(type)->vec_dot;
  float sum = 0;
  function(static_cast<int>(n), &sum, 0, a, 0, b, 0, 1);
  return sum;
}

struct RowsByQuery {
  RowsByQuery(ggml_type type, std::size_t row_count, std::size_t dim)
      : rows(graph.tensor(type, dim, row_count)),
        query(graph.tensor(type, dim, 1)),
        out(ggml_mul_mat(graph.context(), rows, query)) {
    graph.compute_later(out);
  }

  Graph graph;
  ggml_tensor *rows, *query, *out;
};

template <ggml_type type, class T>
void dot_rows(const T *query, const T *rows, std::ptrdiff_t row_stride, std::size_t row_count,
              std::size_t dim, float scale, float *out) {
  static ShapeCache<std::pair<std::size_t, std::size_t>, RowsByQuery> cache;
  RowsByQuery &product = cache.get({row_count, dim}, [&] { return RowsByQuery(type, row_count, dim); });
  product.rows->nb[1] = static_cast<std::size_t>(row_stride) * sizeof(T);
  product.rows->data = memory(rows);
  product.query->data = memory(query);
  product.out->data = out;
  product.graph.compute();
  for (std::size_t r = 0; r < row_count; ++r) out[r] *= scale;
}

// ---- linear layers with quantized weights

struct RowsByWeights {
  RowsByWeights(ggml_type type, const LinearShape &shape)
      : weights(graph.tensor(type, shape.inputs, shape.outputs)),
        rows(graph.tensor(GGML_TYPE_F32, shape.inputs, shape.rows)),
        out(ggml_mul_mat(graph.context(), weights, rows)) {
    graph.compute_later(out);
  }

  Graph graph;
  ggml_tensor *weights, *rows, *out;
};

template <ggml_type type>
Linear<float> quantized_linear() {
  Linear<float> linear;
  linear.packed_bytes = [](const LinearShape &s) {
    return ggml_row_size(type, signed_(s.inputs)) * s.outputs;
  };
  linear.pack = [](const float *w, void *packed, const LinearShape &s) {
    ggml_quantize_chunk(type, w, packed, 0, signed_(s.outputs), signed_(s.inputs), nullptr);
  };
  linear.multiply = [](const float *x, const void *packed, float *y, const LinearShape &s) {
    static ShapeCache<LinearShape, RowsByWeights> cache;
    RowsByWeights &product = cache.get(s, [&] { return RowsByWeights(type, s); });
    product.weights->data = memory(packed);
    product.rows->data = memory(x);
    product.out->data = y;
    product.graph.compute();
  };
  return linear;
}

// ---- attention

using Dims = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, std::size_t, std::size_t, bool>;

Dims dims_of(const AttentionShape &shape) {
  return {shape.q_heads, shape.kv_heads, shape.q_len, shape.kv_len, shape.qk_dim, shape.v_dim, shape.causal};
}

// Supports no windows, softcaps or sinks.
class FlashAttention {
 public:
  FlashAttention(ggml_type type, const AttentionShape &shape)
      : shape_(shape),
        q_(graph_.tensor(GGML_TYPE_F32, shape.qk_dim, shape.q_len, shape.q_heads)),
        k_(graph_.tensor(type, shape.qk_dim, shape.kv_len, shape.kv_heads)),
        v_(graph_.tensor(type, shape.v_dim, shape.kv_len, shape.kv_heads)) {
    ggml_tensor *mask = nullptr;
    if (shape.causal && shape.q_len > 1) {
      mask = graph_.tensor(GGML_TYPE_F16, shape.kv_len, shape.q_len);
      fill_mask();
      mask->data = mask_.data();
    }
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.qk_dim)));
    out_ = ggml_flash_attn_ext(graph_.context(), q_, k_, v_, mask, scale, 0, 0);
    if (by_token()) by_token_.resize(shape.q_len * shape.q_heads * shape.v_dim);
    graph_.compute_later(out_);
  }

  void run(const float *q, const void *k, const void *v, float *out) {
    q_->data = memory(q);
    k_->data = memory(k);
    v_->data = memory(v);
    out_->data = by_token() ? by_token_.data() : out;
    graph_.compute();
    if (!by_token()) return;
    const std::size_t heads = shape_.q_heads, dim = shape_.v_dim;
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = 0; i < shape_.q_len; ++i, out += dim)
        std::copy_n(by_token_.data() + (i * heads + h) * dim, dim, out);
    }
  }

 private:
  bool by_token() const { return shape_.q_len > 1 && shape_.q_heads > 1; }
  void fill_mask() {
    mask_.assign(shape_.q_len * shape_.kv_len, ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity()));
    for (std::size_t i = 0; i < shape_.q_len; ++i)
      std::fill_n(mask_.data() + i * shape_.kv_len, shape_.last_key(i), ggml_fp32_to_fp16(0));
  }

  AttentionShape shape_;
  Graph graph_;
  ggml_tensor *q_, *k_, *v_, *out_ = nullptr;
  std::vector<ggml_fp16_t> mask_;
  std::vector<float> by_token_;
};

struct F16 {
  static constexpr ggml_type type = GGML_TYPE_F16;
  static void widen(const std::uint16_t *x, float *y, std::int64_t n) { ggml_cpu_fp16_to_fp32(x, y, n); }
  static void narrow(const float *x, std::uint16_t *y, std::int64_t n) { ggml_cpu_fp32_to_fp16(x, y, n); }
};
struct Bf16 {
  static constexpr ggml_type type = GGML_TYPE_BF16;
  static void widen(const std::uint16_t *x, float *y, std::int64_t n) {
    ggml_cpu_bf16_to_fp32(reinterpret_cast<const ggml_bf16_t *>(x), y, n);
  }
  static void narrow(const float *x, std::uint16_t *y, std::int64_t n) {
    ggml_cpu_fp32_to_bf16(x, reinterpret_cast<ggml_bf16_t *>(y), n);
  }
};

template <class Half>
void attention_of_halves(const AttentionProblem<std::uint16_t> &problem) {
  static ShapeCache<Dims, FlashAttention> cache;
  static std::vector<float> q, out;
  const AttentionShape &shape = problem.shape;
  FlashAttention &attention = cache.get(dims_of(shape), [&] { return FlashAttention(Half::type, shape); });
  q.resize(shape.q_heads * shape.q_len * shape.qk_dim);
  out.resize(shape.q_heads * shape.q_len * shape.v_dim);
  Half::widen(problem.q, q.data(), signed_(q.size()));
  attention.run(q.data(), problem.k, problem.v, out.data());
  Half::narrow(out.data(), problem.out, signed_(out.size()));
}

void attention_of_blocks(const BlockAttentionProblem &problem) {
  static ShapeCache<Dims, FlashAttention> cache;
  FlashAttention &attention =
      cache.get(dims_of(problem.shape), [&] { return FlashAttention(GGML_TYPE_Q8_0, problem.shape); });
  attention.run(problem.q, problem.k, problem.v, problem.out);
}

template <class Half>
HalfFunctions functions_of() {
  HalfFunctions functions;
  functions.dot = dot<Half::type, std::uint16_t>;
  functions.dot_rows = dot_rows<Half::type, std::uint16_t>;
  functions.attention = attention_of_halves<Half>;
  return functions;
}

// Returns the level whose instruction sets ggml was compiled for, or "" if they are below every level of
// rapt.
std::string isa() {
#if defined(__x86_64__)
  if (ggml_cpu_has_avx512_vnni()) return "avx512_vnni";
  if (ggml_cpu_has_avx512()) return "avx512";
  if (ggml_cpu_has_avx_vnni()) return "avx2_vnni";
  if (ggml_cpu_has_avx2()) return "avx2";
  return "";
#elif defined(__aarch64__)
  if (ggml_cpu_has_matmul_int8()) return "neon_i8mm";
  if (ggml_cpu_has_dotprod()) return "neon_dotprod";
  return "neon";
#else
  return "";
#endif
}

// Returns whether this CPU has those instruction sets of ggml's build that belong to no level of rapt.
bool has_other_sets() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return (!ggml_cpu_has_avx512_bf16() || __builtin_cpu_supports("avx512bf16")) &&
         (!ggml_cpu_has_avx512_vbmi() || __builtin_cpu_supports("avx512vbmi"));
#else
  return true;
#endif
}

}  // namespace

// ggml uses the instruction sets that it was compiled for, usually those of one CPU.
void add_ggml(std::vector<Peer> &peers) {
  Peer peer;
  peer.name = "ggml";
  peer.isa = isa();
  peer.version = RAPT_PEER_GGML_VERSION;
  if (peer.isa.empty() || !rapt_isa_usable(peer.isa.c_str()) || !has_other_sets()) return;
  ggml_cpu_init();
  peer.f32.dot = dot<GGML_TYPE_F32, float>;
  peer.f32.dot_rows = dot_rows<GGML_TYPE_F32, float>;
  peer.f16 = functions_of<F16>();
  peer.bf16 = functions_of<Bf16>();
  peer.i8.attention = attention_of_blocks;
  peer.quantized_linear = {quantized_linear<GGML_TYPE_Q8_0>(), quantized_linear<GGML_TYPE_Q4_0>()};
  peers.push_back(peer);
}

}  // namespace rapt::bench
