// oneDNN: primitives made once for a shape, executed in one thread.
#include <dlfcn.h>

#include <cstddef>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "peer.hpp"
#include "shape_cache.hpp"

namespace rapt::bench {
namespace {

const dnnl::engine &engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// A primitive of one input and one output of the same shape.
class Operator {
 public:
  Operator(const dnnl::primitive &primitive, const dnnl::memory::desc &shape)
      : primitive_(primitive),
        in_(shape, engine(), nullptr),
        out_(shape, engine(), nullptr),
        stream_(engine()),
        arguments_{{DNNL_ARG_SRC, in_}, {DNNL_ARG_DST, out_}} {}

  void run(const float *x, float *y) {
    in_.set_data_handle(const_cast<float *>(x));  // an input is not written
    out_.set_data_handle(y);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::primitive primitive_;
  dnnl::memory in_, out_;
  dnnl::stream stream_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

dnnl::memory::dim dim(std::size_t n) { return static_cast<dnnl::memory::dim>(n); }

Operator eltwise(dnnl::algorithm algorithm, std::size_t n, float alpha) {
  const auto inference = dnnl::prop_kind::forward_inference;
  const dnnl::memory::desc shape({dim(n)}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
#if DNNL_VERSION_MAJOR < 3
  const dnnl::eltwise_forward::primitive_desc primitive({inference, algorithm, shape, alpha, 0.0f}, engine());
#else
  const dnnl::eltwise_forward::primitive_desc primitive(engine(), inference, algorithm, shape, shape, alpha,
                                                        0.0f);
#endif
  return {dnnl::eltwise_forward(primitive), shape};
}

Operator softmax_of(std::size_t rows, std::size_t cols) {
  const auto inference = dnnl::prop_kind::forward_inference;
  const dnnl::memory::desc shape({dim(rows), dim(cols)}, dnnl::memory::data_type::f32,
                                 dnnl::memory::format_tag::ab);
#if DNNL_VERSION_MAJOR < 3
  const dnnl::softmax_forward::primitive_desc primitive({inference, shape, 1}, engine());
#else
  const dnnl::softmax_forward::primitive_desc primitive(engine(), inference,
                                                        dnnl::algorithm::softmax_accurate, shape, shape, 1);
#endif
  return {dnnl::softmax_forward(primitive), shape};
}

void exp(const float *x, float *y, std::size_t n) {
  static ShapeCache<std::size_t, Operator> cache;
  if (n == 0) return;
  cache.get(n, [&] { return eltwise(dnnl::algorithm::eltwise_exp, n, 0.0f); }).run(x, y);
}

void scale(const float *x, float factor, float *y, std::size_t n) {
  static ShapeCache<std::pair<std::size_t, float>, Operator> cache;
  if (n == 0) return;
  cache.get({n, factor}, [&] { return eltwise(dnnl::algorithm::eltwise_linear, n, factor); }).run(x, y);
}

void softmax(const float *x, float *y, std::size_t rows, std::size_t cols, float factor) {
  static ShapeCache<std::pair<std::size_t, std::size_t>, Operator> cache;
  if (rows == 0 || cols == 0) return;
  if (factor != 1.0f) {
    scale(x, factor, y, rows * cols);
    x = y;
  }
  cache.get({rows, cols}, [&] { return softmax_of(rows, cols); }).run(x, y);
}

// The level of the kernels that oneDNN calls; empty for those below every level of rapt.
std::string isa() {
#if defined(__x86_64__)
  const auto chosen = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [&](dnnl::cpu_isa isa) {  // the values are sets of bits, each within the next better
    return (chosen & static_cast<unsigned>(isa)) == static_cast<unsigned>(isa);
  };
  if (has(dnnl::cpu_isa::avx512_core)) return "avx512";
  if (has(dnnl::cpu_isa::avx2)) return "avx2";
  return "";
#elif defined(__aarch64__)
  return "neon";
#else
  return "";
#endif
}

std::string version() {
  const dnnl_version_t *linked = dnnl_version();
  return std::to_string(linked->major) + "." + std::to_string(linked->minor) + "." +
         std::to_string(linked->patch);
}

}  // namespace

void add_onednn(std::vector<Peer> &peers) {
  // One thread, told to the OpenMP that oneDNN brought along: the benchmark itself is built without one.
  if (void *set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(set_threads)(1);
  }
  Peer peer;
  peer.name = "onednn";
  peer.isa = isa();
  peer.version = version();
  peer.scale_f32 = scale;
  peer.exp_f32 = exp;
  peer.softmax_f32 = softmax;
  if (!peer.isa.empty()) peers.push_back(peer);
}

}  // namespace rapt::bench
