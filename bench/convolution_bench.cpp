// Benchmarks convolutions. A size is batch x channels x image, outputs, taps; ":depthwise" has a group for each
// channel. Those of causal convolutions, with SiLU, are tokens x channels x taps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

struct Layer {
  const char *name;
  std::size_t dims, channels, outputs, size, taps, stride, pad;
  bool is_depthwise;
};

// Measures a layer of 3 x 3 taps. Errors are relative to the sum of |x w|.
double convolution_error(Convolve function) {
  constexpr std::size_t channels = 16, outputs = 16, size = 9, taps = 3;
  rapt_convolution_options o = RAPT_CONVOLUTION_OPTIONS_INIT;
  o.dims = 2, o.batch = 1, o.in_channels = channels, o.out_channels = outputs, o.groups = 1;
  for (std::size_t d = 0; d < 2; ++d)
    o.in_size[d] = size, o.taps[d] = taps, o.stride[d] = 1, o.pad_before[d] = o.pad_after[d] = 1;
  std::size_t bytes = 0;
  require_ok(rapt_convolution_workspace(&o, &bytes));
  const Buffer<float> x = logits<float>(channels * size * size),
                      w = logits<float>(outputs * channels * taps * taps, 0, 1);
  Buffer<float> y(outputs * size * size);
  Buffer<std::uint8_t> workspace(bytes);
  require_ok(function(x.data(), w.data(), y.data(), &o, workspace.data(), workspace.size()));
  double largest = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t column = i % size, row = i / size % size, output = i / size / size;
    double sum = 0, magnitude = 0;
    for (std::size_t k = 0; k < channels * taps * taps; ++k) {
      const std::size_t at_row = row + k / taps % taps, at_column = column + k % taps;
      if (at_row == 0 || at_row > size || at_column == 0 || at_column > size) continue;
      const double product =
          static_cast<double>(x.data()[(k / taps / taps * size + at_row - 1) * size + at_column - 1]) *
          static_cast<double>(w.data()[output * channels * taps * taps + k]);
      sum += product, magnitude += std::abs(product);
    }
    largest = std::max(largest, std::abs(static_cast<double>(y.data()[i]) - sum) / magnitude);
  }
  return largest / 0x1p-24;
}

template <class T, class Make>
void register_of(Suite &suite, rapt_type type, Make make) {
  const auto of_peer = [=](const Peer &peer) { return type == RAPT_F32 ? peer.f32.convolution : nullptr; };
  Kernel<Convolve> kernel = type == RAPT_F32
                                ? suite.kernel(&rapt_convolution, of_peer, convolution_error, Uops{1})
                                : suite.kernel(&rapt_convolution, Uops{1});
  const std::vector<Layer> layers = suite.template choose<Layer>(
      {{"resnet-3x3", 2, 64, 64, 56, 3, 1, 1, false},
       {"resnet-3x3-deep", 2, 256, 256, 14, 3, 1, 1, false},
       {"resnet-3x3-by-2", 2, 128, 128, 56, 3, 2, 1, false},
       {"resnet-1x1", 2, 256, 64, 56, 1, 1, 0, false},
       {"vit-16x16", 2, 3, 768, 224, 16, 16, 0, false},
       {"whisper", 1, 384, 384, 3000, 3, 1, 1, false},
       {"unet-3d", 3, 32, 32, 16, 3, 1, 1, false},
       {"depthwise-3x3", 2, 96, 96, 56, 3, 1, 1, true}},
      {{"resnet-3x3", 2, 64, 64, 56, 3, 1, 1, false}, {"depthwise-3x3", 2, 96, 96, 56, 3, 1, 1, true}});
  for (const Layer &layer : layers) {
    rapt_convolution_options options = RAPT_CONVOLUTION_OPTIONS_INIT;
    options.type = type;
    options.dims = layer.dims;
    options.batch = 1, options.in_channels = layer.channels, options.out_channels = layer.outputs;
    options.groups = layer.is_depthwise ? layer.channels : 1;
    std::size_t in = layer.channels, out = layer.outputs,
                weights = layer.outputs * layer.channels / options.groups;
    for (std::size_t d = 0; d < layer.dims; ++d) {
      options.in_size[d] = layer.size, options.taps[d] = layer.taps, options.stride[d] = layer.stride;
      options.pad_before[d] = options.pad_after[d] = layer.pad;
    }
    std::size_t positions[RAPT_MAX_CONVOLVED], workspace = 0;
    require_ok(rapt_convolution_positions(&options, positions));
    require_ok(rapt_convolution_workspace(&options, &workspace));
    for (std::size_t d = 0; d < layer.dims; ++d) in *= layer.size, out *= positions[d], weights *= layer.taps;
    const Work work = {.elements = out * (weights / layer.outputs),
                       .element_bytes = sizeof(T) < sizeof(float) ? sizeof(float) : sizeof(T),
                       .read = (in + weights) * sizeof(T),
                       .written = out * sizeof(T)};
    kernel.add(layer.name, work, [=] {
      return [options, x = make(in), w = make(weights), y = Buffer<T>(out),
              scratch = Buffer<std::uint8_t>(workspace)](Convolve function) mutable {
        require_ok(function(x.data(), w.data(), y.data(), &options, scratch.data(), scratch.size()));
      };
    });
  }
}

// ---- causal

template <class T, rapt_type type>
void own_causal(const T *x, const T *w, T *state, T *y, const CausalShape &shape) {
  rapt_causal_convolution_options options = RAPT_CAUSAL_CONVOLUTION_OPTIONS_INIT;
  options.type = type;
  options.silu = 1;
  options.batch = 1;
  options.tokens = shape.tokens;
  options.channels = shape.channels;
  options.taps = shape.taps;
  options.w_strides[0] = 1;
  options.w_strides[1] = static_cast<std::ptrdiff_t>(shape.channels);
  require_ok(rapt_causal_convolution(x, w, state, y, &options));
}

// Of three tokens behind a state of zeros, relative to the sum of the magnitudes.
template <class T>
double causal_error(CausalConvolution<T> function) {
  constexpr CausalShape shape = {3, 64, 4};
  const auto x = logits<T>(shape.tokens * shape.channels), w = logits<T>(shape.taps * shape.channels, 0, 1);
  Buffer<T> state((shape.taps - 1) * shape.channels), y(x.size());
  function(x.data(), w.data(), state.data(), y.data(), shape);
  long double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    long double sum = 0, sizes = 0;
    for (std::size_t back = 0; back <= i / shape.channels; ++back) {
      const std::size_t tap = shape.taps - 1 - back;
      const long double product =
          static_cast<long double>(x.data()[i - back * shape.channels]) *
          static_cast<long double>(w.data()[tap * shape.channels + i % shape.channels]);
      sum += product, sizes += std::fabs(product);
    }
    worst = std::max(worst,
                     std::fabs(static_cast<long double>(y.data()[i]) - sum / (1 + std::exp(-sum))) / sizes);
  }
  return static_cast<double>(2 * worst / std::numeric_limits<T>::epsilon());  // in 2^-24, 2^-53
}

template <class T, rapt_type type, class Make>
void register_causal(Suite &suite, const std::string &convolution, Make make) {
  suite.begin_kernel(convolution + ":causal");
  const std::vector<CausalShape> shapes = suite.choose<CausalShape>(
      {{2048, 2048, 4}, {64, 2048, 4}, {1, 8192, 4}}, {{64, 2048, 4}, {1, 8192, 4}});
  constexpr bool is_half = sizeof(T) < sizeof(float);
  const Uops uops = Uops{4} + silu_uops<std::conditional_t<is_half, float, T>>;
  const CausalConvolution<T> own = own_causal<T, type>;
  Kernel<CausalConvolution<T>> kernel = [&] {
    if constexpr (is_half) {
      return suite.kernel(own, uops);
    } else {
      return suite.kernel(own, &PeerFunctions<T>::causal_convolution, causal_error<T>, uops);
    }
  }();
  for (const CausalShape &shape : shapes) {
    const std::size_t n = shape.tokens * shape.channels, weights = shape.taps * shape.channels,
                      before = weights - shape.channels;
    const Work work = {.elements = n,
                       .element_bytes = is_half ? sizeof(float) : sizeof(T),
                       .read = (n + weights + before) * sizeof(T),
                       .written = (n + before) * sizeof(T)};
    kernel.add(fmt::format("{}x{}x{}", shape.tokens, shape.channels, shape.taps), work, [=] {
      return [shape, x = make(n), w = make(weights), state = Buffer<T>(before),
              y = Buffer<T>(n)](CausalConvolution<T> function) {
        function(x.data(), w.data(), state.data(), y.data(), shape);
      };
    });
  }
}

}  // namespace

#define CONVOLUTIONS(name, T, type, make)                        \
  void register_convolution_##name(Suite &suite) {               \
    register_of<T>(suite, type, make);                           \
    register_causal<T, type>(suite, "convolution_" #name, make); \
  }
CONVOLUTIONS(f32, float, RAPT_F32, [](std::size_t n) { return logits<float>(n); })
CONVOLUTIONS(f64, double, RAPT_F64, [](std::size_t n) { return logits<double>(n); })
CONVOLUTIONS(f16, std::uint16_t, RAPT_F16, [](std::size_t n) { return halves(rapt_convert_f32_to_f16, n); })
CONVOLUTIONS(bf16, std::uint16_t, RAPT_BF16,
             [](std::size_t n) { return halves(rapt_convert_f32_to_bf16, n); })
#undef CONVOLUTIONS

}  // namespace rapt::bench
