// Benchmarks rms_norm with a weight, layer_norm with weight and bias, and their gradients. A size is rows x columns.
// Rows of 4096 elements are those of a model, and 64x128 the heads that some models normalise.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "support/accuracy.hpp"
#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

using Function = rapt_status (*)(const void *, void *, const rapt_norm_options *);
using Gradient = rapt_status (*)(const void *, const void *, void *, const rapt_norm_backward_options *);

// Gives rapt's function the signature of the peers' functions.
template <class Element, rapt_type type, Function function>
void norm(const Element *x, const Element *weight, const Element *bias, Element *y, std::size_t rows,
          std::size_t cols) {
  rapt_norm_options options = RAPT_NORM_OPTIONS_INIT;
  options.type = type;
  options.rows = rows;
  options.cols = cols;
  options.eps = norm_eps;
  options.weight = weight;
  options.bias = bias;
  require_ok(function(x, y, &options));
}

struct Shape {
  std::size_t rows, cols;
};

std::vector<Shape> shapes_of(const Suite &suite) {
  return suite.choose<Shape>({{64, 128}, {1, 4096}, {32, 4096}, {512, 4096}, {4096, 8192}},
                             {{64, 128}, {1, 4096}});
}

// `arrays` counts those of whole rows that are read.
template <class Element>
Work work_of(const Shape &shape, std::size_t arrays) {
  const std::size_t elements = shape.rows * shape.cols;
  return {.elements = elements,
          .element_bytes = sizeof(Element) < sizeof(float) ? sizeof(float) : sizeof(Element),
          .read = arrays * elements * sizeof(Element),
          .written = elements * sizeof(Element),
          .row_bytes = (arrays + 1) * shape.cols * sizeof(Element)};
}

template <class Element, class Make>
void add_sizes(Kernel<Norm<Element>> kernel, bool is_layer, Make make) {
  for (const Shape &shape : shapes_of(kernel.suite())) {
    kernel.add(fmt::format("{}x{}", shape.rows, shape.cols), work_of<Element>(shape, 1), [=] {
      return [shape, is_layer, x = make(shape.rows * shape.cols, 0), weight = make(shape.cols, 1),
              bias = make(shape.cols, 2),
              y = Buffer<Element>(shape.rows * shape.cols)](Norm<Element> function) {
        function(x.data(), weight.data(), is_layer ? bias.data() : nullptr, y.data(), shape.rows, shape.cols);
      };
    });
  }
}

// Of a vector: the square, and two products. layer_norm has a sum and a difference, two sums and two differences, and
// a difference and two fused operations.
constexpr Uops rms_uops = 3;
constexpr Uops layer_uops = {5, 9};

template <class T>
double rms_norm_error(Norm<T> norm) {
  return norm_error<T>(norm, false);
}
template <class T>
double layer_norm_error(Norm<T> norm) {
  return norm_error<T>(norm, true);
}

template <class T, rapt_type type>
void register_rms_norm(Suite &suite) {
  add_sizes<T>(suite.kernel(Norm<T>{norm<T, type, rapt_rms_norm>}, &PeerFunctions<T>::rms_norm,
                            rms_norm_error<T>, rms_uops),
               false, [](std::size_t n, std::size_t tensor) { return logits<T>(n, 0, tensor); });
}
template <class T, rapt_type type>
void register_layer_norm(Suite &suite) {
  add_sizes<T>(suite.kernel(Norm<T>{norm<T, type, rapt_layer_norm>}, &PeerFunctions<T>::layer_norm,
                            layer_norm_error<T>, layer_uops),
               true, [](std::size_t n, std::size_t tensor) { return logits<T>(n, 0, tensor); });
}

template <rapt_type type, Function function>
void register_of_halves(Suite &suite, Narrow narrow, bool is_layer) {
  using Element = std::uint16_t;
  add_sizes<Element>(
      suite.kernel(Norm<Element>{norm<Element, type, function>}, is_layer ? layer_uops : rms_uops), is_layer,
      [narrow](std::size_t n, std::size_t tensor) { return halves(narrow, n, tensor); });
}

// The gradients read x and dy, and add to sums that stay in a cache.
// elements(n, tensor) makes a buffer of n elements.
template <class T, rapt_type type, Gradient function, class Elements>
void register_gradient(Suite &suite, bool is_layer, Uops uops, Elements elements) {
  using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
  Kernel<Gradient> kernel = suite.kernel(function, uops);
  for (const Shape &shape : shapes_of(kernel.suite())) {
    if (sizeof(T) == 2 && shape.cols > 4096) continue;  // those need a workspace
    const std::size_t n = shape.rows * shape.cols;
    kernel.add(fmt::format("{}x{}", shape.rows, shape.cols), work_of<T>(shape, 2), [=] {
      return [shape, is_layer, x = elements(n, 0), dy = elements(n, 1), weight = elements(shape.cols, 2),
              dx = Buffer<T>(n), sums = Buffer<Sum>(2 * shape.cols)](Gradient gradient) {
        rapt_norm_backward_options options = RAPT_NORM_BACKWARD_OPTIONS_INIT;
        options.type = type;
        options.rows = shape.rows;
        options.cols = shape.cols;
        options.eps = norm_eps;
        options.weight = weight.data();
        options.dweight = sums.data();
        if (is_layer) options.dbias = sums.data() + shape.cols;
        require_ok(gradient(x.data(), dy.data(), dx.data(), &options));
      };
    });
  }
}
template <class T, rapt_type type, Gradient function>
void register_gradient(Suite &suite, bool is_layer, Uops uops) {
  register_gradient<T, type, function>(
      suite, is_layer, uops, [](std::size_t n, std::size_t tensor) { return logits<T>(n, 0, tensor); });
}
template <rapt_type type, Gradient function>
void register_gradient_of_halves(Suite &suite, bool is_layer, Uops uops, Narrow narrow) {
  register_gradient<std::uint16_t, type, function>(
      suite, is_layer, uops,
      [narrow](std::size_t n, std::size_t tensor) { return halves(narrow, n, tensor); });
}

// Of a vector: two sums of products, a product with the weight in both passes, and 4 for dx and dweight. layer_norm
// has the sums of the forward call, two of its own and the normals in both passes, and adds to dbias.
constexpr Uops rms_backward_uops = 8;
constexpr Uops layer_backward_uops = {12, 19};

}  // namespace

void register_rms_norm_f32(Suite &suite) { register_rms_norm<float, RAPT_F32>(suite); }
void register_rms_norm_f64(Suite &suite) { register_rms_norm<double, RAPT_F64>(suite); }
void register_rms_norm_f16(Suite &suite) {
  register_of_halves<RAPT_F16, rapt_rms_norm>(suite, rapt_convert_f32_to_f16, false);
}
void register_rms_norm_bf16(Suite &suite) {
  register_of_halves<RAPT_BF16, rapt_rms_norm>(suite, rapt_convert_f32_to_bf16, false);
}
void register_layer_norm_f32(Suite &suite) { register_layer_norm<float, RAPT_F32>(suite); }
void register_layer_norm_f64(Suite &suite) { register_layer_norm<double, RAPT_F64>(suite); }
void register_layer_norm_f16(Suite &suite) {
  register_of_halves<RAPT_F16, rapt_layer_norm>(suite, rapt_convert_f32_to_f16, true);
}
void register_layer_norm_bf16(Suite &suite) {
  register_of_halves<RAPT_BF16, rapt_layer_norm>(suite, rapt_convert_f32_to_bf16, true);
}

void register_rms_norm_backward_f32(Suite &suite) {
  register_gradient<float, RAPT_F32, rapt_rms_norm_backward>(suite, false, rms_backward_uops);
}
void register_rms_norm_backward_f64(Suite &suite) {
  register_gradient<double, RAPT_F64, rapt_rms_norm_backward>(suite, false, rms_backward_uops);
}
void register_layer_norm_backward_f32(Suite &suite) {
  register_gradient<float, RAPT_F32, rapt_layer_norm_backward>(suite, true, layer_backward_uops);
}
void register_layer_norm_backward_f64(Suite &suite) {
  register_gradient<double, RAPT_F64, rapt_layer_norm_backward>(suite, true, layer_backward_uops);
}
void register_rms_norm_backward_f16(Suite &suite) {
  register_gradient_of_halves<RAPT_F16, rapt_rms_norm_backward>(suite, false, rms_backward_uops,
                                                                rapt_convert_f32_to_f16);
}
void register_rms_norm_backward_bf16(Suite &suite) {
  register_gradient_of_halves<RAPT_BF16, rapt_rms_norm_backward>(suite, false, rms_backward_uops,
                                                                 rapt_convert_f32_to_bf16);
}
void register_layer_norm_backward_f16(Suite &suite) {
  register_gradient_of_halves<RAPT_F16, rapt_layer_norm_backward>(suite, true, layer_backward_uops,
                                                                  rapt_convert_f32_to_f16);
}
void register_layer_norm_backward_bf16(Suite &suite) {
  register_gradient_of_halves<RAPT_BF16, rapt_layer_norm_backward>(suite, true, layer_backward_uops,
                                                                   rapt_convert_f32_to_bf16);
}

}  // namespace rapt::bench
