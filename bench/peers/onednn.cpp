// Adds oneDNN as a peer. Each primitive is made once per shape and runs on one thread.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
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

// Runs a primitive with one input and one output of the same shape.
class Operator {
 public:
  Operator(const dnnl::primitive &primitive, const dnnl::memory::desc &shape)
      : primitive_(primitive),
        in_(shape, engine(), nullptr),
        out_(shape, engine(), nullptr),
        stream_(engine()),
        arguments_{{DNNL_ARG_SRC, in_}, {DNNL_ARG_DST, out_}} {}

  void run(const float *x, float *y) {
    in_.set_data_handle(const_cast<float *>(x));  // inputs are not written
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

template <dnnl::algorithm algorithm>
void activation(const float *x, float *y, std::size_t n) {
  static ShapeCache<std::size_t, Operator> cache;
  if (n == 0) return;
  cache.get(n, [&] { return eltwise(algorithm, n, 1.0f); }).run(x, y);
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

// oneDNN 3.8 has the flag of rms_norm, but not each of its snapshots of that number.
template <class Flags>
constexpr Flags rms_flag() {
  if constexpr (requires { Flags::rms_norm; }) {
    return Flags::rms_norm;
  } else {
    return Flags::none;
  }
}
constexpr bool has_rms_norm = rms_flag<dnnl::normalization_flags>() != dnnl::normalization_flags::none;

// Normalises rows.
class RowNorm {
 public:
  RowNorm(std::size_t rows, std::size_t cols, [[maybe_unused]] bool is_rms)
      : x_(matrix(rows, cols), engine(), nullptr),
        y_(matrix(rows, cols), engine(), nullptr),
        weight_(vector(cols), engine(), nullptr),
        bias_(vector(cols), engine(), nullptr),
        stream_(engine()) {
    const auto inference = dnnl::prop_kind::forward_inference;
    const float eps = static_cast<float>(norm_eps);
    using Flags = dnnl::normalization_flags;
#if DNNL_VERSION_MAJOR < 3
    primitive_ = dnnl::layer_normalization_forward(
        {{inference, x_.get_desc(), eps, Flags::use_scale | Flags::use_shift}, engine()});
#else
    auto flags = Flags::use_scale | Flags::use_shift;
    if (is_rms) flags = Flags::use_scale | rms_flag<Flags>();
    primitive_ =
        dnnl::layer_normalization_forward({engine(), inference, x_.get_desc(), y_.get_desc(), eps, flags});
#endif
    arguments_ = {{DNNL_ARG_SRC, x_}, {DNNL_ARG_DST, y_}, {DNNL_ARG_SCALE, weight_}, {DNNL_ARG_SHIFT, bias_}};
  }

  void run(const float *x, const float *weight, const float *bias, float *y) {
    x_.set_data_handle(const_cast<float *>(x));  // inputs are not written
    weight_.set_data_handle(const_cast<float *>(weight));
    bias_.set_data_handle(const_cast<float *>(bias));
    y_.set_data_handle(y);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  static dnnl::memory::desc matrix(std::size_t rows, std::size_t cols) {
    return {{dim(rows), dim(cols)}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab};
  }
  static dnnl::memory::desc vector(std::size_t cols) {
    return {{dim(cols)}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a};
  }

  dnnl::memory x_, y_, weight_, bias_;
  dnnl::stream stream_;
  dnnl::layer_normalization_forward primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

template <bool is_rms>
void row_norm(const float *x, const float *weight, const float *bias, float *y, std::size_t rows,
              std::size_t cols) {
  static ShapeCache<std::pair<std::size_t, std::size_t>, RowNorm> cache;
  cache.get({rows, cols}, [&] { return RowNorm(rows, cols, is_rms); }).run(x, weight, bias, y);
}

// Computes c = scale * a * b. Rows are a_stride, b_stride and c_stride elements apart. If b_by_columns is
// set, b's columns are contiguous and b_stride elements apart.
class Product {
 public:
  struct Shape {
    std::size_t m, n, k, a_stride, b_stride, c_stride;
    bool b_by_columns;
    float scale;
    auto operator<=>(const Shape &) const = default;
  };

  explicit Product(const Shape &s)
      : a_(matrix(s.m, s.k, s.a_stride, 1), engine(), nullptr),
        b_(s.b_by_columns ? matrix(s.k, s.n, 1, s.b_stride) : matrix(s.k, s.n, s.b_stride, 1), engine(),
           nullptr),
        c_(matrix(s.m, s.n, s.c_stride, 1), engine(), nullptr),
        stream_(engine()),
        arguments_{{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}} {
    dnnl::primitive_attr attributes;
#if DNNL_VERSION_MAJOR < 3
    if (s.scale != 1.0f) attributes.set_output_scales(0, {s.scale});
    primitive_ = dnnl::matmul({{a_.get_desc(), b_.get_desc(), c_.get_desc()}, attributes, engine()});
#else
    if (s.scale != 1.0f) {
      dnnl::post_ops after;
      after.append_eltwise(dnnl::algorithm::eltwise_linear, s.scale, 0.0f);
      attributes.set_post_ops(after);
    }
    primitive_ = dnnl::matmul({engine(), a_.get_desc(), b_.get_desc(), c_.get_desc(), attributes});
#endif
  }

  void run(const float *a, const float *b, float *c) {
    a_.set_data_handle(const_cast<float *>(a));  // inputs are not written
    b_.set_data_handle(const_cast<float *>(b));
    c_.set_data_handle(c);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  static dnnl::memory::desc matrix(std::size_t rows, std::size_t cols, std::size_t row_stride,
                                   std::size_t col_stride) {
    return {{dim(rows), dim(cols)}, dnnl::memory::data_type::f32, {dim(row_stride), dim(col_stride)}};
  }

  dnnl::memory a_, b_, c_;
  dnnl::stream stream_;
  std::unordered_map<int, dnnl::memory> arguments_;
  dnnl::primitive primitive_;
};

void multiply(const Product::Shape &shape, const float *a, const float *b, float *c) {
  static ShapeCache<Product::Shape, Product> cache;
  cache.get(shape, [&] { return Product(shape); }).run(a, b, c);
}

// Computes a linear layer with weights in the layout that oneDNN prefers for the shape. With many rows of f32
// its matmul is faster than its inner product.
class Layer {
 public:
  Layer(const LinearShape &s, dnnl::memory::data_type type)
      : plain_(matrix(s.inputs, s.outputs, type, dnnl::memory::format_tag::ba)),
        x_(matrix(s.rows, s.inputs, type, dnnl::memory::format_tag::ab), engine(), nullptr),
        y_(matrix(s.rows, s.outputs, type, dnnl::memory::format_tag::ab), engine(), nullptr),
        stream_(engine()) {
    const dnnl::memory::desc any = matrix(s.inputs, s.outputs, type, dnnl::memory::format_tag::any);
#if DNNL_VERSION_MAJOR < 3
    const dnnl::matmul::primitive_desc primitive({x_.get_desc(), any, y_.get_desc()}, engine());
#else
    const dnnl::matmul::primitive_desc primitive(engine(), x_.get_desc(), any, y_.get_desc());
#endif
    packed_ = dnnl::memory(primitive.weights_desc(), engine(), nullptr);
    primitive_ = dnnl::matmul(primitive);
    arguments_ = {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, packed_}, {DNNL_ARG_DST, y_}};
  }

  std::size_t packed_bytes() const { return packed_.get_desc().get_size(); }
  void pack(const void *w, void *packed) {
    packed_.set_data_handle(packed);
    dnnl::memory plain(plain_, engine(), const_cast<void *>(w));  // inputs are not written
    dnnl::reorder(plain, packed_).execute(stream_, plain, packed_);
    stream_.wait();
  }
  void run(const void *x, const void *packed, void *y) {
    x_.set_data_handle(const_cast<void *>(x));
    packed_.set_data_handle(const_cast<void *>(packed));
    y_.set_data_handle(y);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  static dnnl::memory::desc matrix(std::size_t rows, std::size_t cols, dnnl::memory::data_type type,
                                   dnnl::memory::format_tag format) {
    return {{dim(rows), dim(cols)}, type, format};
  }

  dnnl::memory::desc plain_;
  dnnl::memory x_, packed_, y_;
  dnnl::stream stream_;
  std::unordered_map<int, dnnl::memory> arguments_;
  dnnl::primitive primitive_;
};

template <dnnl::memory::data_type type>
Layer &layer_of(const LinearShape &shape) {
  static ShapeCache<LinearShape, Layer> cache;
  return cache.get(shape, [&] { return Layer(shape, type); });
}

template <class E, dnnl::memory::data_type type>
Linear<E> linear() {
  Linear<E> layer;
  layer.packed_bytes = [](const LinearShape &shape) { return layer_of<type>(shape).packed_bytes(); };
  layer.pack = [](const E *w, void *packed, const LinearShape &shape) {
    layer_of<type>(shape).pack(w, packed);
  };
  layer.multiply = [](const E *x, const void *packed, E *y, const LinearShape &shape) {
    layer_of<type>(shape).run(x, packed, y);
  };
  return layer;
}

// Computes a convolution with weights in the layout that oneDNN prefers. x and y stay as they are, channels first.
class Convolution {
 public:
  struct Shape {
    std::size_t dims, channels, outputs, groups, size, taps, stride, pad;
    auto operator<=>(const Shape &) const = default;

    std::size_t positions() const { return (size + 2 * pad - taps) / stride + 1; }
  };

  explicit Convolution(const Shape &s) : stream_(engine()) {
    const auto spatial = [&](dnnl::memory::dims sizes, std::size_t n) {
      sizes.insert(sizes.end(), s.dims, dim(n));
      return sizes;
    };
    using Tag = dnnl::memory::format_tag;
    const auto f32 = dnnl::memory::data_type::f32;
    const Tag first = s.dims == 1 ? Tag::ncw : s.dims == 2 ? Tag::nchw : Tag::ncdhw;
    const Tag plain = s.dims == 1 ? Tag::goiw : s.dims == 2 ? Tag::goihw : Tag::goidhw;
    const dnnl::memory::desc x(spatial({1, dim(s.channels)}, s.size), f32, first),
        y(spatial({1, dim(s.outputs)}, s.positions()), f32, first);
    const dnnl::memory::dims w =
        spatial({dim(s.groups), dim(s.outputs / s.groups), dim(s.channels / s.groups)}, s.taps);
    plain_ = {w, f32, plain};
    const dnnl::memory::desc any(w, f32, Tag::any);
    const auto inference = dnnl::prop_kind::forward_inference;
    const auto best = dnnl::algorithm::convolution_auto;
    const dnnl::memory::dims strides = spatial({}, s.stride), pads = spatial({}, s.pad);
#if DNNL_VERSION_MAJOR < 3
    const dnnl::convolution_forward::primitive_desc primitive(
        {inference, best, x, any, y, strides, pads, pads}, engine());
#else
    const dnnl::convolution_forward::primitive_desc primitive(engine(), inference, best, x, any, y, strides,
                                                              pads, pads);
#endif
    primitive_ = dnnl::convolution_forward(primitive);
    x_ = dnnl::memory(x, engine(), nullptr);
    y_ = dnnl::memory(y, engine(), nullptr);
    packed_ = dnnl::memory(primitive.weights_desc(), engine());
    arguments_ = {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, packed_}, {DNNL_ARG_DST, y_}};
  }

  void run(const float *x, const float *w, float *y) {
    if (w != packed_from_) {
      dnnl::memory plain(plain_, engine(), const_cast<float *>(w));  // inputs are not written
      dnnl::reorder(plain, packed_).execute(stream_, plain, packed_);
      packed_from_ = w;
    }
    x_.set_data_handle(const_cast<float *>(x));
    y_.set_data_handle(y);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::memory::desc plain_;
  dnnl::memory x_, packed_, y_;
  const float *packed_from_ = nullptr;
  dnnl::stream stream_;
  std::unordered_map<int, dnnl::memory> arguments_;
  dnnl::primitive primitive_;
};

rapt_status convolution(const void *x, const void *w, void *y, const rapt_convolution_options *o, void *,
                        std::size_t) {
  static ShapeCache<Convolution::Shape, Convolution> cache;
  const Convolution::Shape shape = {o->dims,       o->in_channels, o->out_channels, o->groups,
                                    o->in_size[0], o->taps[0],     o->stride[0],    o->pad_before[0]};
  cache.get(shape, [&] { return Convolution(shape); })
      .run(static_cast<const float *>(x), static_cast<const float *>(w), static_cast<float *>(y));
  return RAPT_OK;
}

void tanh(float *x, std::size_t n) {
  static ShapeCache<std::size_t, Operator> cache;
  cache.get(n, [&] { return eltwise(dnnl::algorithm::eltwise_tanh, n, 0.0f); }).run(x, x);
}

// Computes two products with a softmax between, one strip of queries at a time. The score of an excluded key
// is -inf. A sink is one more column of scores.
void attention(const AttentionProblem<float> &problem) {
  const AttentionShape &shape = problem.shape;
  const auto softcap = static_cast<float>(shape.softcap);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.qk_dim)));

  // A causal strip wastes half of its products on the diagonal, so causal strips have fewer rows.
  const std::size_t most = shape.causal ? attention_score_rows / 2 : attention_score_rows;
  for_each_strip(shape, most, [&](const Strip &strip) {
    const std::size_t rows = strip.rows, keys = strip.keys(), cols = keys + (problem.sinks ? 1 : 0);
    float *s = problem.scratch;
    multiply({rows, keys, shape.qk_dim, shape.qk_dim, shape.qk_dim, cols, true,
              softcap != 0 ? scale / softcap : scale},
             problem.q + strip.q_row() * shape.qk_dim, problem.k + strip.kv_row() * shape.qk_dim, s);
    if (softcap != 0) tanh(s, rows * cols);
    for (std::size_t r = 0; r < rows; ++r) {
      constexpr float hidden = -std::numeric_limits<float>::infinity();
      float *scores = s + r * cols;
      std::fill_n(scores, strip.begin(r), hidden);
      std::fill(scores + strip.end(r), scores + keys, hidden);
      if (problem.sinks) scores[keys] = problem.sinks[strip.head_of(r)];
    }
    softmax(s, s, rows, cols, softcap != 0 ? softcap : 1.0f);
    multiply({rows, shape.v_dim, keys, cols, shape.v_dim, shape.v_dim, false, 1.0f}, s,
             problem.v + strip.kv_row() * shape.v_dim, problem.out + strip.q_row() * shape.v_dim);
  });
}

#if defined(__x86_64__)
bool has(dnnl::cpu_isa isa) {  // a stronger set has all bits of a weaker one
  const auto chosen = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (chosen & static_cast<unsigned>(isa)) == static_cast<unsigned>(isa);
}
#endif

// Returns the level of the kernels that oneDNN chose, or "" for kernels below every level of rapt.
std::string isa() {
#if defined(__x86_64__)
  if (has(dnnl::cpu_isa::avx512_core)) return "avx512";
  if (has(dnnl::cpu_isa::avx2)) return "avx2";
  return "";
#elif defined(__aarch64__)
  return "neon";
#else
  return "";
#endif
}

// Returns the level of its kernels for bf16, which have another order of sums than rapt's in either arithmetic.
std::string isa_of_bf16() {
#if defined(__x86_64__)
  if (has(dnnl::cpu_isa::avx512_core_amx)) return "amx";
  if (has(dnnl::cpu_isa::avx512_core)) return "avx512";
#endif
  return "";
}

std::string version() {
  const dnnl_version_t *linked = dnnl_version();
  return std::to_string(linked->major) + "." + std::to_string(linked->minor) + "." +
         std::to_string(linked->patch);
}

}  // namespace

void add_onednn(std::vector<Peer> &peers) {
  // Limits the OpenMP runtime that oneDNN loaded to one thread.
  if (void *set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(set_threads)(1);
  }
  Peer peer;
  peer.name = "onednn";
  peer.isa = isa();
  peer.version = version();
  peer.f32.scale = scale;
  peer.f32.exp = exp;
  peer.f32.silu = activation<dnnl::algorithm::eltwise_swish>;
  peer.f32.gelu = activation<dnnl::algorithm::eltwise_gelu_erf>;
  peer.f32.gelu_tanh = activation<dnnl::algorithm::eltwise_gelu_tanh>;
  peer.f32.layer_norm = row_norm<false>;
  if (has_rms_norm) peer.f32.rms_norm = row_norm<true>;
  peer.f32.softmax = softmax;
  peer.f32.attention = attention;
  peer.f32.convolution = convolution;
  peer.f32.linear = linear<float, dnnl::memory::data_type::f32>();
  if (peer.isa.empty()) return;
  Linear<std::uint16_t> bf16 = linear<std::uint16_t, dnnl::memory::data_type::bf16>();
  if (isa_of_bf16() == peer.isa) peer.bf16.linear = bf16;
  peers.push_back(peer);
  // oneDNN chooses once for all types, so its tiles appear as a peer that has nothing else.
  if (isa_of_bf16() != "amx" || !rapt_isa_usable("amx")) return;
  Peer tiles;
  tiles.name = peer.name;
  tiles.isa = "amx";
  tiles.version = peer.version;
  tiles.bf16.linear = bf16;
  peers.push_back(tiles);
}

}  // namespace rapt::bench
