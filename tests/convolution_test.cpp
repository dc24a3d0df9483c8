// Tests what rapt.h promises of convolutions next to each other: 1x1 ones, patches side by side and rapt_linear, an
// item alone and in a batch, packed and plain weights, both orders of channels, and all infinite weights over padding.
#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <vector>

#include "rapt/parallel.h"
#include "rapt/rapt.hpp"
#include "support/every_level.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

using Floats = std::vector<float>;

Floats random_floats(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  Floats made(n);
  for (float &number : made) number = static_cast<float>(static_cast<int>(random.below(4001)) - 2000) / 1024;
  return made;
}

rapt_convolution_options image(std::size_t batch, std::size_t channels, std::size_t outputs, std::size_t size,
                               std::size_t taps, std::size_t pad) {
  rapt_convolution_options o = convolution_options({size, size}, {taps, taps});
  o.batch = batch, o.in_channels = channels, o.out_channels = outputs;
  for (std::size_t d = 0; d < 2; ++d) o.pad_before[d] = o.pad_after[d] = pad;
  return o;
}

Floats computed(const Floats &a, const Floats &b, std::size_t length, const rapt_convolution_options &o) {
  Floats out(length, 77);
  std::vector<std::byte> workspace(convolution_workspace<float>(o));
  REQUIRE(convolution(a, b, out, o, workspace) == RAPT_OK);
  return out;
}

// [batch][channels][positions] as [batch][positions][channels].
Floats channels_last(const Floats &x, std::size_t batch, std::size_t channels) {
  const std::size_t positions = x.size() / batch / channels;
  Floats made(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t p = i % positions, c = i / positions % channels, b = i / positions / channels;
    made[(b * positions + p) * channels + c] = x[i];
  }
  return made;
}
Floats channels_first(const Floats &x, std::size_t batch, std::size_t channels) {
  return channels_last(x, batch, x.size() / batch / channels);
}
void set_channels_last(std::ptrdiff_t *strides, std::size_t channels, std::size_t size) {
  const auto c = static_cast<std::ptrdiff_t>(channels), n = static_cast<std::ptrdiff_t>(size);
  strides[0] = c * n * n, strides[1] = 1, strides[2] = c * n, strides[3] = c;
}

}  // namespace

TEST_CASE("a 1x1 convolution has the bits of a linear layer, and so do its gradients") {
  constexpr std::size_t batch = 3, channels = 530, outputs = 70, size = 14, rows = batch * size * size;
  const Floats x = random_floats(rows * channels, 1), w = random_floats(outputs * channels, 2),
               dy = random_floats(rows * outputs, 3);
  on_every_level([&] {
    rapt_convolution_options o = image(batch, channels, outputs, size, 1, 0);
    set_channels_last(o.x_strides, channels, size);
    set_channels_last(o.y_strides, outputs, size);
    const auto linear = [&](const Floats &a, rapt_matrix_strides a_strides, const Floats &b,
                            rapt_matrix_strides b_strides, std::size_t count, std::size_t inputs,
                            std::size_t results) {
      rapt_linear_options layer = linear_options();
      layer.rows = count, layer.in_features = inputs, layer.out_features = results;
      layer.x_strides = a_strides, layer.w_strides = b_strides;
      Floats y(count * results);
      std::size_t bytes = 0;
      REQUIRE(rapt_linear_workspace(&layer, &bytes) == RAPT_OK);
      std::vector<std::byte> workspace(bytes);
      REQUIRE(rapt_linear(a.data(), b.data(), y.data(), &layer, workspace.data(), bytes) == RAPT_OK);
      return y;
    };
    CHECK(computed(x, w, rows * outputs, o) == linear(x, {0, 0}, w, {0, 0}, rows, channels, outputs));
    o.result = RAPT_CONVOLUTION_DX;
    CHECK(computed(dy, w, rows * channels, o) ==
          linear(dy, {0, 0}, w, {1, channels}, rows, outputs, channels));
    o.result = RAPT_CONVOLUTION_DW;
    CHECK(computed(x, dy, outputs * channels, o) ==
          linear(dy, {1, outputs}, x, {1, channels}, outputs, rows, channels));
  });
}

TEST_CASE("the gradient of patches that lie side by side has the bits of a linear layer") {
  constexpr std::size_t batch = 2, channels = 3, outputs = 70, size = 12, side = 4, across = size / side,
                        rows = batch * across * across, taps = channels * side * side;
  const Floats w = random_floats(outputs * taps, 6), bias = random_floats(channels, 7),
               dy = random_floats(rows * outputs, 8);
  on_every_level([&] {
    rapt_linear_options layer = linear_options();
    layer.rows = rows, layer.in_features = outputs, layer.out_features = taps;
    layer.w_strides = {1, taps};
    Floats bias_of_taps(taps);
    for (std::size_t t = 0; t < taps; ++t) bias_of_taps[t] = bias[t / (side * side)];
    layer.bias = bias_of_taps.data();
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_workspace(&layer, &bytes) == RAPT_OK);
    std::vector<std::byte> workspace(bytes);
    Floats patches(rows * taps), expected(patches.size());
    REQUIRE(rapt_linear(dy.data(), w.data(), patches.data(), &layer, workspace.data(), bytes) == RAPT_OK);
    for (std::size_t i = 0; i < patches.size(); ++i) {
      const std::size_t inner = i % side, middle = i / side % side, c = i / side / side % channels,
                        row = i / taps, x = row % across * side + inner,
                        y = row / across % across * side + middle, b = row / across / across;
      expected[((b * channels + c) * size + y) * size + x] = patches[i];
    }
    rapt_convolution_options o = image(batch, channels, outputs, size, side, 0);
    o.stride[0] = o.stride[1] = side;
    o.result = RAPT_CONVOLUTION_DX, o.bias = bias.data();
    CHECK(computed(channels_first(dy, batch, outputs), w, expected.size(), o) == expected);
    set_channels_last(o.x_strides, channels, size);
    set_channels_last(o.y_strides, outputs, across);
    CHECK(computed(dy, w, expected.size(), o) == channels_last(expected, batch, channels));
  });
}

TEST_CASE("neither the batch, the order of channels, packing nor threads change a bit") {
  constexpr std::size_t batch = 3, channels = 70, outputs = 66, size = 11, taps = 3;
  const Floats x = random_floats(batch * channels * size * size, 4),
               w = random_floats(outputs * channels * 9, 5);
  const std::size_t length = batch * outputs * size * size;
  on_every_level([&] {
    const rapt_convolution_options o = image(batch, channels, outputs, size, taps, 1);
    const Floats y = computed(x, w, length, o);
    for (std::size_t b = 0; b < batch; ++b) {
      rapt_convolution_options alone = o;
      alone.batch = 1;
      const auto part = [&](const Floats &of) {
        const auto count = static_cast<std::ptrdiff_t>(of.size() / batch),
                   first = count * static_cast<std::ptrdiff_t>(b);
        return Floats(of.begin() + first, of.begin() + first + count);
      };
      CHECK(computed(part(x), w, length / batch, alone) == part(y));
    }
    rapt_convolution_options last = o;
    set_channels_last(last.x_strides, channels, size);
    set_channels_last(last.y_strides, outputs, size);
    CHECK(computed(channels_last(x, batch, channels), w, length, last) == channels_last(y, batch, outputs));

    rapt_linear_options layer = linear_options();
    layer.in_features = channels * 9, layer.out_features = outputs;
    std::size_t packed_size = 0;
    REQUIRE(rapt_linear_packed_length(&layer, &packed_size) == RAPT_OK);
    Floats packed(packed_size / sizeof(float));
    REQUIRE(rapt_linear_pack(w.data(), 0, outputs, &layer, packed.data(), packed_size) == RAPT_OK);
    rapt_convolution_options by_pack = o;
    by_pack.packed_w = 1;
    CHECK(computed(x, packed, length, by_pack) == y);
    std::vector<std::byte> workspace(convolution_workspace<float>(by_pack));
    Floats none(length);
    const auto short_w = std::span(packed).first(packed.size() - 1);
    CHECK(convolution(x, short_w, none, by_pack, workspace) == RAPT_BAD_PACKED);
    by_pack.out_channels = outputs - 1;
    CHECK(convolution(x, packed, none, by_pack, workspace) == RAPT_BAD_PACKED);

    Floats by_threads(length);
    CHECK(rapt_parallel_convolution(x.data(), w.data(), by_threads.data(), &o, nullptr) == RAPT_OK);
    CHECK(by_threads == y);
  });
}

TEST_CASE("an infinite weight over padding does no harm, and inside it does") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const std::size_t groups : {1u, 4u}) {
    on_every_level([&] {
      rapt_convolution_options o = image(1, 4, 4, 5, 3, 1);
      o.groups = groups;
      const std::size_t inputs = 4 / groups;
      Floats x(4 * 25, 1), w(4 * inputs * 9, 0.5f);
      // The tap of the upper left corner, which the first row and column of positions do not meet.
      for (std::size_t i = 0; i < w.size(); i += 9) w[i] = infinity;
      const Floats y = computed(x, w, 4 * 25, o);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const bool is_padded = i % 5 == 0 || i % 25 < 5;
        CHECK(is_padded == (y[i] < infinity));
      }
      CHECK(y[0] == 0.5f * 4 * static_cast<float>(inputs));
    });
  }
}

TEST_CASE("arguments of C++") {
  const rapt_convolution_options o = image(1, 2, 3, 4, 3, 0);
  const Floats x(2 * 16), w(3 * 2 * 9);
  Floats y(3 * 4);
  std::vector<std::byte> workspace(convolution_workspace<float>(o));
  CHECK(convolution(x, w, y, o, workspace) == RAPT_OK);
  CHECK(convolution(std::span(x).first(31), w, y, o, workspace) == RAPT_BAD_SIZE);
  CHECK(convolution(x, std::span(w).first(53), y, o, workspace) == RAPT_BAD_SIZE);
  CHECK(convolution(x, w, std::span(y).first(11), o, workspace) == RAPT_BAD_SIZE);
  CHECK(convolution(x, w, y, o, std::span(workspace).first(workspace.size() - 1)) == RAPT_BAD_WORKSPACE);
  CHECK(convolution(x, w, std::vector<double>(12), o, workspace) == RAPT_BAD_TYPE);
  CHECK(convolution_tasks<float>(o) == 1);
  CHECK(convolution_tasks<float>(convolution_options({2}, {3})) == 0);
}

}  // namespace rapt::test
