// Benchmarks the kernels for 16- and 8-bit elements. Peers are measured only for dot products and attention.
// The other kernels have no error columns: their error is that of f32 plus one rounding, as tests check.
#include <string>
#include <type_traits>

#include "attention_bench.hpp"
#include "attention_part.hpp"
#include "cross_entropy_bench.hpp"
#include "support/accuracy.hpp"
#include "support/attention_backward.hpp"
#include "support/buffer.hpp"
#include "support/dot_rows.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

template <class Function>
Kernel<Function> kernel_of(Suite &suite, Function own, Uops uops = 1) {
  return suite.kernel(own, uops);
}

template <class T>
Buffer<T> bytes(std::size_t n) {
  Buffer<T> made(n);
  Uniform uniform;
  for (T &element : made.elements()) element = static_cast<T>(static_cast<int>(256 * uniform()));
  return made;
}

// Most levels multiply bytes in 16-bit lanes. The other levels have an instruction that adds byte products,
// but it fixes which factors are signed. For other types, dot adds 128 to one factor and subtracts the excess
// using a second sum (src/kernels/byte_products.hpp).
#if defined(__aarch64__)
template <class Query>
constexpr bool is_biased = std::is_unsigned_v<Query>;
#else
template <class Query>
constexpr bool is_biased = std::is_signed_v<Query>;
#endif
constexpr std::size_t lane_bytes(std::size_t element_bytes) { return 2 * element_bytes; }

// Adds dot(a, b, n) for every memory level and for the widths of heads and embeddings.
template <class Dot, class MakeA, class MakeB>
void add_dot(Kernel<Dot> kernel, MakeA make_a, MakeB make_b, std::size_t element_bytes) {
  const Suite &suite = kernel.suite();
  const auto add = [&](const std::string &size, std::size_t n) {
    using Element = std::remove_cvref_t<decltype(*make_a(n).data())>;
    const Work work = {.elements = n,
                       .element_bytes = lane_bytes(element_bytes),
                       .read = 2 * n * element_bytes,
                       .byte_uops_per_vector = element_bytes > 1    ? Uops{}
                                               : is_biased<Element> ? Uops{2, 3}
                                                                    : Uops{1}};
    kernel.add(size, work, [=] {
      return [n, a = make_a(n), b = make_b(n)](Dot dot) {
        auto result = dot(a.data(), b.data(), n);
        benchmark::DoNotOptimize(result);
      };
    });
  };
  for (const WorkingSet &set : suite.plan().working_sets) add(set.label, set.bytes / (2 * element_bytes));
  for (const std::size_t n : suite.sizes({16, 64, 128, 256, 768, 1536, 4096}, {128, 1536})) {
    add("n:" + std::to_string(n), n);
  }
}

template <class Product, class MakeQuery, class MakeRows>
void add_dot_rows(Kernel<Product> kernel, MakeQuery make_query, MakeRows make_rows, std::size_t element_bytes,
                  bool in_memory) {
  const Suite &suite = kernel.suite();
  const auto add = [&](const std::string &size, std::size_t rows, std::size_t dim) {
    const std::size_t n = rows * dim;
    using Element = std::remove_cvref_t<decltype(*make_query(dim).data())>;
    const Work work = {.elements = n,
                       .element_bytes = lane_bytes(element_bytes),
                       .read = n * element_bytes,
                       .written = rows * sizeof(float),
                       .byte_uops_per_vector = element_bytes > 1    ? Uops{}
                                               : is_biased<Element> ? Uops{1, 2}
                                                                    : Uops{1}};
    kernel.add(size, work, [=] {
      return [=, query = make_query(dim), matrix = make_rows(n), out = Buffer<float>(rows),
              copies = PackedCopies()](const Product &dot_rows) mutable {
        dot_rows(query.data(), matrix.data(), rows, dim, 0.125f, out.data(), copies);
      };
    });
  };
  for (const std::size_t dim : suite.sizes({64, 128, 768}, {128}))
    add("4096xdim:" + std::to_string(dim), 4096, dim);
  if (!in_memory) return;
  const WorkingSet &memory = suite.plan().working_sets.back();
  for (const std::size_t dim : suite.sizes({64, 128, 288, 768}, {})) {
    add("dim:" + std::to_string(dim) + ":" + memory.label,
        memory.bytes / (dim * element_bytes + sizeof(float)), dim);
  }
}

template <class E, class Sum>
RowsProduct<E, float> narrow_product(const NarrowFunctions<E, Sum> &functions) {
  return {functions.dot_rows, functions.packed_dot_rows};
}

constexpr Uops conversion = {0, 1};

// Adds a kernel that computes each y[i] from x[i].
template <class X, class Y, class Function, class MakeX, class Call>
void add_map(Suite &suite, Function own, Uops uops, MakeX make_x, Call call) {
  Kernel<Function> kernel = kernel_of(suite, own, uops);
  for (const WorkingSet &set : suite.plan().working_sets) {
    const std::size_t n = set.bytes / (sizeof(X) + sizeof(Y));
    const Work work = {
        .elements = n, .element_bytes = sizeof(float), .read = n * sizeof(X), .written = n * sizeof(Y)};
    kernel.add(set.label, work, [=] {
      return
          [=, x = make_x(n), y = Buffer<Y>(n)](Function function) { call(function, x.data(), y.data(), n); };
    });
  }
}

void add_activation(Suite &suite, Exp<std::uint16_t> own, Uops uops, Narrow narrow) {
  add_map<std::uint16_t, std::uint16_t>(
      suite, own, uops, [narrow](std::size_t n) { return halves(narrow, n); },
      [](auto activation, auto *x, auto *y, std::size_t n) { activation(x, y, n); });
}

using HalfRows = rapt_status (*)(const std::uint16_t *x, std::ptrdiff_t x_stride, std::uint16_t *y,
                                 std::ptrdiff_t y_stride, std::size_t rows, std::size_t cols,
                                 const rapt_softmax_options *options);
// The arithmetic is that of f32. A row of more than 256 columns computes exp twice, because its outputs cannot hold the
// exponentials; the limit counts it once.
void add_rows(Suite &suite, HalfRows own, Uops uops, Narrow narrow) {
  Kernel<HalfRows> kernel = kernel_of(suite, own, uops);
  for (const std::size_t cols : suite.sizes({64, 256, 1024, 4096}, {64, 1024})) {
    const std::size_t rows = 4096 / cols, n = rows * cols;
    const Work work = {.elements = n, .element_bytes = sizeof(float), .read = 2 * n, .written = 2 * n};
    kernel.add(std::to_string(rows) + "xcols:" + std::to_string(cols), work, [=] {
      return [=, x = halves(narrow, n), y = Buffer<std::uint16_t>(n)](HalfRows function) {
        const auto stride = static_cast<std::ptrdiff_t>(cols);
        require_ok(function(x.data(), stride, y.data(), stride, rows, cols, nullptr));
      };
    });
  }
}

// ---- attention

struct HalfAttention : TypedAttention<std::uint16_t, std::uint16_t> {
  HalfAttention(const AttentionShape &shape, rapt_type type, rapt_arithmetic arithmetic, Narrow narrow,
                std::size_t run = 0)
      : TypedAttention(shape, halves(narrow, shape.q_heads * shape.q_len * shape.qk_dim, 0),
                       halves(narrow, shape.kv_heads * shape.kv_len * shape.qk_dim, 1),
                       halves(narrow, shape.kv_heads * shape.kv_len * shape.v_dim, 2)) {
    options.q_type = type;
    options.kv_type = options.out_type = RAPT_TYPE_DEFAULT;
    options.arithmetic = arithmetic;
    prepare(run);
  }

  AttentionProblem<std::uint16_t> problem() const {
    return {.shape = shape, .q = q.data(), .k = k.data(), .v = v.data(), .out = out.data()};
  }
};

using Part = AttentionPart<HalfAttention, Attention<std::uint16_t>>;
constexpr Part whole = {&HalfAttention::whole, nullptr};
constexpr Part partial = {&HalfAttention::partial, nullptr};
constexpr Part merge = {&HalfAttention::merge, nullptr};

template <class Element, rapt_type type, rapt_arithmetic arithmetic>
double half_attention_error(Part part) {
  return worst_attention_error([&](const AttentionShape &shape) {
    const Narrow narrow = type == RAPT_F16 ? rapt_convert_f32_to_f16 : rapt_convert_f32_to_bf16;
    const HalfAttention buffers(shape, type, arithmetic, narrow);
    part(buffers);
    const auto widened = [](const Buffer<std::uint16_t> &halves) {
      Buffer<float> made(halves.size());
      for (std::size_t i = 0; i < made.size(); ++i) made.data()[i] = Element::of_bits(halves.data()[i]);
      return made;
    };
    const Buffer<float> q = widened(buffers.q), k = widened(buffers.k), v = widened(buffers.v);
    const Buffer<float> out = widened(buffers.out);
    return attention_output_error<float>(
        {.shape = shape, .q = q.data(), .k = k.data(), .v = v.data(), .out = out.data()});
  });
}

// Returns the benchmark of whole attention calls, for rapt and for peers.
template <class Element, rapt_type type, rapt_arithmetic arithmetic = RAPT_ARITHMETIC_F32>
Kernel<Part> whole_kernel(Suite &suite) {
  const auto of_peer = [](const Peer &peer) {
    return Part{nullptr, (type == RAPT_F16 ? peer.f16 : peer.bf16).attention};
  };
  return suite.kernel(whole, of_peer, half_attention_error<Element, type, arithmetic>, 1);
}

void add_attention_part(Kernel<Part> kernel, rapt_type type, Narrow narrow, bool prompts,
                        rapt_arithmetic arithmetic = RAPT_ARITHMETIC_F32) {
  const Suite &suite = kernel.suite();
  const auto add = [&](const std::string &size, const AttentionShape &shape, std::size_t run = 0) {
    Work work = attention_work(shape, 2);
    work.element_bytes = sizeof(float);
    work.multiply_adds_of_tile = arithmetic == RAPT_ARITHMETIC_BF16 ? tile_of_bf16 : 0;
    const auto make = [=] {
      HalfAttention buffers(shape, type, arithmetic, narrow, run);
      buffers.partial();  // the merge step reads these results
      return [buffers = std::move(buffers)](Part one) { one(buffers); };
    };
    kernel.add(size, work, make, run > 0 ? By::rapt_alone : By::everyone);
  };
  if (prompts) {
    for (const std::size_t dim : suite.sizes({64, 128}, {128})) {
      const AttentionShape shape = prompt_shape(1, 1, 1024, dim, dim, false);
      add("prefill:d" + std::to_string(dim) + ":t1024", shape);
    }
    if (!suite.plan().quick) {
      for (const AttentionShape &shape : compared_shapes(1)) add(decode_size(shape), shape);
    }
  }
  for (const std::size_t q_heads : suite.sizes({8, 32}, {8})) {
    for (const std::size_t keys : suite.sizes({512, 4096, 32768}, {512, 4096})) {
      const AttentionShape shape = token_shape(q_heads, 8, keys, 128, 128);
      add(decode_size(shape), shape);
      if (suite.plan().quick || !prompts) continue;
      for (const std::size_t run : Sizes{1, 64}) add(listed_size(shape, run), shape, run);
    }
  }
}

// Holds the arguments of attention_backward on 16-bit arrays. The gradients have the type of the arrays.
struct HalfGradient {
  HalfGradient(const AttentionShape &shape, rapt_type type, Narrow narrow)
      : forward(shape, type, RAPT_ARITHMETIC_F32, narrow),
        dout(halves(narrow, forward.out.size(), 3)),
        dq(forward.q.size()),
        dk(forward.k.size()),
        dv(forward.v.size()),
        lse(shape.q_heads * shape.q_len) {
    forward.options.lse = lse.data();
    forward.whole();
    std::size_t bytes = 0;
    require_ok(rapt_attention_backward_workspace(&forward.options, &bytes));
    workspace = Buffer<unsigned char>(bytes);
  }
  void run() const {
    rapt_attention_gradients gradients = RAPT_ATTENTION_GRADIENTS_INIT;
    gradients.out = forward.out.data();
    gradients.dout = dout.data();
    gradients.dq = dq.data();
    gradients.dk = dk.data();
    gradients.dv = dv.data();
    require_ok(rapt_attention_backward(forward.q.data(), forward.k.data(), forward.v.data(), &forward.options,
                                       &gradients, workspace.data(), workspace.size()));
  }

  HalfAttention forward;
  Buffer<std::uint16_t> dout, dq, dk, dv;
  Buffer<float> lse;
  Buffer<unsigned char> workspace{0};
};

using Gradient = void (HalfGradient::*)() const;

void add_gradient(Suite &suite, rapt_type type, Narrow narrow) {
  Kernel<Gradient> kernel = kernel_of(suite, &HalfGradient::run);
  for (const std::size_t tokens : suite.sizes({128, 512, 1024}, {512})) {
    const AttentionShape shape = prompt_shape(4, 4, tokens, 64, 64, false);
    Work work = attention_backward_work(shape, 2);
    work.element_bytes = sizeof(float);
    kernel.add("d64:t" + std::to_string(tokens), work, [=] {
      return [buffers = HalfGradient(shape, type, narrow)](Gradient one) { (buffers.*one)(); };
    });
  }
}

}  // namespace

#define RAPT_REGISTER_HALVES(element, Element, type)                                                         \
  void register_dot_##element(Suite &suite) {                                                                \
    const auto make = [](std::size_t n) { return halves(rapt_convert_f32_to_##element, n); };                \
    const auto of_peer = [](const Peer &peer) { return peer.element.dot; };                                  \
    add_dot(suite.kernel(rapt_dot_##element, of_peer, narrow_dot_error<Element>, 1), make, make, 2);         \
  }                                                                                                          \
  void register_dot_rows_##element(Suite &suite) {                                                           \
    const auto make = [](std::size_t n) { return halves(rapt_convert_f32_to_##element, n); };                \
    const auto of_peer = [](const Peer &peer) { return narrow_product(peer.element); };                      \
    const RowsProduct<rapt_##element, float> own = {rapt_dot_rows_##element, {}};                            \
    add_dot_rows(suite.kernel(own, of_peer, narrow_dot_rows_error<Element>, 1), make, make, 2, true);        \
  }                                                                                                          \
  void register_scale_##element(Suite &suite) {                                                              \
    const auto make = [](std::size_t n) { return halves(rapt_convert_f32_to_##element, n); };                \
    add_map<rapt_##element, rapt_##element>(                                                                 \
        suite, rapt_scale_##element, 1, make,                                                                \
        [](auto scale, auto *x, auto *y, std::size_t n) { scale(x, -1.0f, y, n); });                         \
  }                                                                                                          \
  void register_silu_##element(Suite &suite) {                                                               \
    add_activation(suite, rapt_silu_##element, silu_uops<float>, rapt_convert_f32_to_##element);             \
  }                                                                                                          \
  void register_gelu_##element(Suite &suite) {                                                               \
    add_activation(suite, rapt_gelu_##element, gelu_uops<float>, rapt_convert_f32_to_##element);             \
  }                                                                                                          \
  void register_gelu_tanh_##element(Suite &suite) {                                                          \
    add_activation(suite, rapt_gelu_tanh_##element, gelu_tanh_uops<float>, rapt_convert_f32_to_##element);   \
  }                                                                                                          \
  void register_convert_##element##_to_f32(Suite &suite) {                                                   \
    const auto make = [](std::size_t n) { return halves(rapt_convert_f32_to_##element, n); };                \
    add_map<rapt_##element, float>(suite, rapt_convert_##element##_to_f32, conversion, make,                 \
                                   [](auto convert, auto *x, auto *y, std::size_t n) { convert(x, y, n); }); \
  }                                                                                                          \
  void register_convert_f32_to_##element(Suite &suite) {                                                     \
    const auto make = [](std::size_t n) { return logits<float>(n); };                                        \
    add_map<float, rapt_##element>(suite, rapt_convert_f32_to_##element, conversion, make,                   \
                                   [](auto convert, auto *x, auto *y, std::size_t n) { convert(x, y, n); }); \
  }                                                                                                          \
  void register_softmax_##element(Suite &suite) {                                                            \
    add_rows(suite, rapt_softmax_##element, softmax_uops<float>, rapt_convert_f32_to_##element);             \
  }                                                                                                          \
  void register_log_softmax_##element(Suite &suite) {                                                        \
    add_rows(suite, rapt_log_softmax_##element, log_softmax_uops<float>, rapt_convert_f32_to_##element);     \
    add_cross_entropy<std::uint16_t, type>(suite, "log_softmax_" #element, [](std::size_t n) {               \
      return halves(rapt_convert_f32_to_##element, n);                                                       \
    });                                                                                                      \
  }                                                                                                          \
  void register_attention_##element(Suite &suite) {                                                          \
    add_attention_part(whole_kernel<Element, type>(suite), type, rapt_convert_f32_to_##element, true);       \
  }                                                                                                          \
  void register_attention_partial_##element(Suite &suite) {                                                  \
    if (!suite.plan().quick)                                                                                 \
      add_attention_part(kernel_of(suite, partial), type, rapt_convert_f32_to_##element, false);             \
  }                                                                                                          \
  void register_attention_backward_##element(Suite &suite) {                                                 \
    add_gradient(suite, type, rapt_convert_f32_to_##element);                                                \
  }                                                                                                          \
  void register_attention_merge_##element(Suite &suite) {                                                    \
    if (!suite.plan().quick)                                                                                 \
      add_attention_part(kernel_of(suite, merge), type, rapt_convert_f32_to_##element, false);               \
  }
RAPT_REGISTER_HALVES(f16, test::F16, RAPT_F16)
RAPT_REGISTER_HALVES(bf16, test::BF16, RAPT_BF16)
#undef RAPT_REGISTER_HALVES

void register_attention_in_bf16(Suite &suite) {
  add_attention_part(whole_kernel<test::BF16, RAPT_BF16, RAPT_ARITHMETIC_BF16>(suite), RAPT_BF16,
                     rapt_convert_f32_to_bf16, true, RAPT_ARITHMETIC_BF16);
}
void register_attention_partial_in_bf16(Suite &suite) {
  if (suite.plan().quick) return;
  add_attention_part(kernel_of(suite, partial), RAPT_BF16, rapt_convert_f32_to_bf16, false,
                     RAPT_ARITHMETIC_BF16);
}

void register_dot_i8(Suite &suite) {
  const auto of_peer = [](const Peer &peer) { return peer.i8.dot; };
  add_dot(suite.kernel(rapt_dot_i8, of_peer, narrow_dot_error<std::int8_t>, 1), bytes<std::int8_t>,
          bytes<std::int8_t>, 1);
}
void register_dot_u8i8(Suite &suite) {
  add_dot(kernel_of(suite, rapt_dot_u8i8), bytes<std::uint8_t>, bytes<std::int8_t>, 1);
}
void register_dot_rows_i8(Suite &suite) {
  const auto of_peer = [](const Peer &peer) { return narrow_product(peer.i8); };
  const RowsProduct<std::int8_t, float> own = {rapt_dot_rows_i8, {}};
  add_dot_rows(suite.kernel(own, of_peer, narrow_dot_rows_error<std::int8_t>, 1), bytes<std::int8_t>,
               bytes<std::int8_t>, 1, true);
}
void register_dot_rows_u8i8(Suite &suite) {
  const RowsProduct<std::int8_t, float, std::uint8_t> own = {rapt_dot_rows_u8i8, {}};
  add_dot_rows(kernel_of(suite, own), bytes<std::uint8_t>, bytes<std::int8_t>, 1, false);
}

}  // namespace rapt::bench
