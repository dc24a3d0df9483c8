// Benchmarks gated with silu (SwiGLU), the gradients of gated and of activations, and argmax.
#include <string>

#include "support/accuracy.hpp"
#include "support/elementwise.hpp"

namespace rapt::bench {
namespace {

// Adds every memory level and a few lengths of a function. make(n) returns a call of it.
template <class T, class Function, class Make>
void add_sizes(Kernel<Function> kernel, std::size_t inputs, std::size_t outputs, Make make) {
  const Suite &suite = kernel.suite();
  const auto add = [&](const std::string &size, std::size_t n) {
    const Work work = {.elements = n,
                       .element_bytes = sizeof(T) < sizeof(float) ? sizeof(float) : sizeof(T),
                       .read = inputs * n * sizeof(T),
                       .written = outputs * n * sizeof(T)};
    kernel.add(size, work, [n, make] { return make(n); });
  };
  for (const WorkingSet &set : suite.plan().working_sets) {
    add(set.label, set.bytes / ((inputs + outputs) * sizeof(T)));
  }
  for (const std::size_t n : suite.sizes({16, 64, 1024, 11008}, {16, 1024})) add("n:" + std::to_string(n), n);
}

template <class T>
constexpr rapt_type type_of = sizeof(T) == sizeof(float) ? RAPT_F32 : RAPT_F64;

rapt_gated_options options_of(rapt_type type, std::size_t n) {
  rapt_gated_options options = RAPT_GATED_OPTIONS_INIT;
  options.type = type;
  options.rows = 1;
  options.cols = n;
  return options;
}

template <class T, rapt_type type>
void gated(const T *gate, const T *up, T *y, std::size_t n) {
  const rapt_gated_options options = options_of(type, n);
  require_ok(rapt_gated(gate, up, y, &options));
}

template <class T, class MakeX>
auto two_to_one(MakeX make_x) {
  return [make_x](std::size_t n) {
    return [n, a = make_x(n, 0), b = make_x(n, 1), y = Buffer<T>(n)](TwoToOne<T> f) {
      f(a.data(), b.data(), y.data(), n);
    };
  };
}

template <class T>
void register_gated(Suite &suite) {
  const auto make_x = [](std::size_t n, std::size_t tensor) { return logits<T>(n, 0, tensor); };
  add_sizes<T>(
      suite.kernel(&gated<T, type_of<T>>, &PeerFunctions<T>::gated, gated_error<T>, silu_uops<T> + 1), 2, 1,
      two_to_one<T>(make_x));
}

void register_halves(Suite &suite, TwoToOne<std::uint16_t> own, Narrow narrow) {
  const auto make_x = [narrow](std::size_t n, std::size_t tensor) { return halves(narrow, n, tensor); };
  add_sizes<std::uint16_t>(suite.kernel(own, silu_uops<float> + 1), 2, 1, two_to_one<std::uint16_t>(make_x));
}

template <class T>
void register_gradient(Suite &suite, TwoToOne<T> own, Uops uops) {
  const auto make_x = [](std::size_t n, std::size_t tensor) { return logits<T>(n, 0, tensor); };
  add_sizes<T>(suite.kernel(own, uops), 2, 1, two_to_one<T>(make_x));
}

void register_gradient_of_halves(Suite &suite, TwoToOne<std::uint16_t> own, Uops uops, Narrow narrow) {
  const auto make_x = [narrow](std::size_t n, std::size_t tensor) { return halves(narrow, n, tensor); };
  add_sizes<std::uint16_t>(suite.kernel(own, uops), 2, 1, two_to_one<std::uint16_t>(make_x));
}

using GatedBackward = rapt_status (*)(const void *gate, const void *up, const void *dy, void *dgate,
                                      void *dup, const rapt_gated_options *options);

template <class T>
void register_gated_backward(Suite &suite) {
  add_sizes<T>(suite.kernel(GatedBackward(rapt_gated_backward), gated_backward_uops<T>), 3, 2,
               [](std::size_t n) {
                 return [options = options_of(type_of<T>, n), gate = logits<T>(n), up = logits<T>(n, 0, 1),
                         dy = logits<T>(n, 0, 2), dgate = Buffer<T>(n), dup = Buffer<T>(n)](GatedBackward f) {
                   require_ok(f(gate.data(), up.data(), dy.data(), dgate.data(), dup.data(), &options));
                 };
               });
}

void register_gated_backward_of_halves(Suite &suite, rapt_type type, Narrow narrow) {
  using T = std::uint16_t;
  add_sizes<T>(suite.kernel(GatedBackward(rapt_gated_backward), gated_backward_uops<float>), 3, 2,
               [type, narrow](std::size_t n) {
                 return
                     [options = options_of(type, n), gate = halves(narrow, n), up = halves(narrow, n, 1),
                      dy = halves(narrow, n, 2), dgate = Buffer<T>(n), dup = Buffer<T>(n)](GatedBackward f) {
                       require_ok(f(gate.data(), up.data(), dy.data(), dgate.data(), dup.data(), &options));
                     };
               });
}

constexpr Uops argmax_uops = {0, 1.5};  // of a pair of vectors, two maxima and a comparison

template <class T, class MakeX>
auto argmax_of(MakeX make_x) {
  return [make_x](std::size_t n) {
    return [n, x = make_x(n)](Argmax<T> f) {
      std::size_t index = f(x.data(), n);
      benchmark::DoNotOptimize(index);
    };
  };
}

template <class T>
void register_argmax(Suite &suite, Argmax<T> own) {
  add_sizes<T>(suite.kernel(own, &PeerFunctions<T>::argmax, argmax_error<T>, argmax_uops), 1, 0,
               argmax_of<T>([](std::size_t n) { return logits<T>(n); }));
}

void register_argmax_of_halves(Suite &suite, Argmax<std::uint16_t> own, Narrow narrow) {
  add_sizes<std::uint16_t>(suite.kernel(own, argmax_uops), 1, 0,
                           argmax_of<std::uint16_t>([narrow](std::size_t n) { return halves(narrow, n); }));
}

}  // namespace

void register_gated_f32(Suite &suite) { register_gated<float>(suite); }
void register_gated_f64(Suite &suite) { register_gated<double>(suite); }
void register_gated_f16(Suite &suite) {
  register_halves(suite, gated<std::uint16_t, RAPT_F16>, rapt_convert_f32_to_f16);
}
void register_gated_bf16(Suite &suite) {
  register_halves(suite, gated<std::uint16_t, RAPT_BF16>, rapt_convert_f32_to_bf16);
}

void register_silu_backward_f32(Suite &suite) {
  register_gradient<float>(suite, rapt_silu_backward_f32, silu_backward_uops<float>);
}
void register_silu_backward_f64(Suite &suite) {
  register_gradient<double>(suite, rapt_silu_backward_f64, silu_backward_uops<double>);
}
void register_gelu_backward_f32(Suite &suite) {
  register_gradient<float>(suite, rapt_gelu_backward_f32, gelu_backward_uops<float>);
}
void register_gelu_backward_f64(Suite &suite) {
  register_gradient<double>(suite, rapt_gelu_backward_f64, gelu_backward_uops<double>);
}
void register_gelu_tanh_backward_f32(Suite &suite) {
  register_gradient<float>(suite, rapt_gelu_tanh_backward_f32, gelu_tanh_backward_uops<float>);
}
void register_gelu_tanh_backward_f64(Suite &suite) {
  register_gradient<double>(suite, rapt_gelu_tanh_backward_f64, gelu_tanh_backward_uops<double>);
}
void register_gated_backward_f32(Suite &suite) { register_gated_backward<float>(suite); }
void register_gated_backward_f64(Suite &suite) { register_gated_backward<double>(suite); }
void register_silu_backward_f16(Suite &suite) {
  register_gradient_of_halves(suite, rapt_silu_backward_f16, silu_backward_uops<float>,
                              rapt_convert_f32_to_f16);
}
void register_silu_backward_bf16(Suite &suite) {
  register_gradient_of_halves(suite, rapt_silu_backward_bf16, silu_backward_uops<float>,
                              rapt_convert_f32_to_bf16);
}
void register_gelu_backward_f16(Suite &suite) {
  register_gradient_of_halves(suite, rapt_gelu_backward_f16, gelu_backward_uops<float>,
                              rapt_convert_f32_to_f16);
}
void register_gelu_backward_bf16(Suite &suite) {
  register_gradient_of_halves(suite, rapt_gelu_backward_bf16, gelu_backward_uops<float>,
                              rapt_convert_f32_to_bf16);
}
void register_gelu_tanh_backward_f16(Suite &suite) {
  register_gradient_of_halves(suite, rapt_gelu_tanh_backward_f16, gelu_tanh_backward_uops<float>,
                              rapt_convert_f32_to_f16);
}
void register_gelu_tanh_backward_bf16(Suite &suite) {
  register_gradient_of_halves(suite, rapt_gelu_tanh_backward_bf16, gelu_tanh_backward_uops<float>,
                              rapt_convert_f32_to_bf16);
}
void register_gated_backward_f16(Suite &suite) {
  register_gated_backward_of_halves(suite, RAPT_F16, rapt_convert_f32_to_f16);
}
void register_gated_backward_bf16(Suite &suite) {
  register_gated_backward_of_halves(suite, RAPT_BF16, rapt_convert_f32_to_bf16);
}

void register_argmax_f32(Suite &suite) { register_argmax<float>(suite, rapt_argmax_f32); }
void register_argmax_f64(Suite &suite) { register_argmax<double>(suite, rapt_argmax_f64); }
void register_argmax_f16(Suite &suite) {
  register_argmax_of_halves(suite, rapt_argmax_f16, rapt_convert_f32_to_f16);
}
void register_argmax_bf16(Suite &suite) {
  register_argmax_of_halves(suite, rapt_argmax_bf16, rapt_convert_f32_to_bf16);
}

}  // namespace rapt::bench
