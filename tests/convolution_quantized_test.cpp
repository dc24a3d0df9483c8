// Tests convolutions with quantized weights: their bits are those of a linear layer over patches that the test copies,
// for drawn shapes, types, strides and tasks; and the status of each bad argument.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "rapt/rapt.h"
#include "rapt/rapt.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/guarded_buffer.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

using Bytes = std::vector<unsigned char>;
using Floats = std::vector<float>;

// Elements of 16 bits or floats.
struct Numbers {
  Floats widened;
  Bytes data;

  Numbers(rapt_type type, std::size_t count, Random &random) {
    for (std::size_t i = 0; i < count; ++i) {
      float number = static_cast<float>(random.gaussian());
      std::uint16_t half = 0;
      if (type == RAPT_F16)
        rapt_convert_f32_to_f16(&number, &half, 1), rapt_convert_f16_to_f32(&half, &number, 1);
      if (type == RAPT_BF16)
        rapt_convert_f32_to_bf16(&number, &half, 1), rapt_convert_bf16_to_f32(&half, &number, 1);
      const auto *const from = type == RAPT_F32 ? reinterpret_cast<const unsigned char *>(&number)
                                                : reinterpret_cast<const unsigned char *>(&half);
      data.insert(data.end(), from, from + (type == RAPT_F32 ? 4 : 2));
      widened.push_back(number);
    }
  }
};

class Drawn {
 public:
  explicit Drawn(Random &random) : random_(random) {
    layer_.w_type = o_.w_type =
        random.one_of({RAPT_I8, RAPT_I8, RAPT_I4, RAPT_U4, RAPT_U8, RAPT_F8_E4M3, RAPT_Q8_0});
    o_.type = random.one_of({RAPT_F32, RAPT_F32, RAPT_F16, RAPT_BF16});
    const bool is_file = o_.w_type == RAPT_Q8_0;
    o_.dims = 2;
    o_.batch = 1 + random.below(3);
    o_.in_channels = is_file ? 32 : 1 + random.below(random.one_in(4) ? 70 : 12);
    o_.out_channels = 1 + random.below(random.one_in(4) ? 300 : 70);
    for (std::size_t d = 0; d < 2; ++d) {
      o_.taps[d] = 1 + random.below(3), o_.in_size[d] = 3 + random.below(12);
      o_.stride[d] = random.below(3), o_.dilation[d] = 1;
      o_.pad_before[d] = random.below(3), o_.pad_after[d] = random.below(3);
    }
    if (!is_file) layer_.scale_group = random.one_of<std::size_t>({0, 16, 32, 256});
    if (o_.w_type != RAPT_F8_E4M3 && random.one_in(2)) layer_.arithmetic = RAPT_ARITHMETIC_I8;
    if (layer_.arithmetic == RAPT_ARITHMETIC_I8)
      layer_.x_group = random.one_of<std::size_t>({0, 512, SIZE_MAX});
    o_.scale_group = layer_.scale_group, o_.arithmetic = layer_.arithmetic, o_.x_group = layer_.x_group;
    o_.packed_w = 1;
    layer_.in_features = o_.in_channels * o_.taps[0] * o_.taps[1];
    layer_.out_features = o_.out_channels;
    layer_.y_type = o_.type;
    REQUIRE(rapt_convolution_positions(&o_, out_) == RAPT_OK);
    pack();
    if (random.one_in(2)) {
      for (std::size_t n = 0; n < o_.out_channels; ++n)
        bias_.push_back(static_cast<float>(random.gaussian()));
      layer_.bias = o_.bias = bias_.data();
    }
    draw_strides();
  }

  void check() {
    const Numbers x(o_.type, x_length_, random_);
    const Bytes wanted = expected(x.widened), before(wanted.size(), 0x7b);
    std::size_t bytes = 0, tasks = 0;
    REQUIRE(rapt_convolution_workspace(&o_, &bytes) == RAPT_OK);
    REQUIRE(rapt_convolution_tasks(&o_, &tasks) == RAPT_OK);
    GuardedBuffer y(before.size(), Placement::ends_at_guard, 0),
        workspace(bytes, Placement::ends_at_guard, random_.below(64)),
        w(packed_.size(), Placement::ends_at_guard, 0);
    std::memcpy(w.data(), packed_.data(), packed_.size());
    const auto at_y = [&](std::size_t i) { return static_cast<const char *>(y.data()) + i * size(); };
    const auto holds = [&] {
      for (std::size_t i = 0; i < positions() * o_.out_channels; ++i) {
        if (std::memcmp(at_y(place(i)), &wanted[i * size()], size()) != 0) return false;
      }
      return y.surroundings_intact() && workspace.surroundings_intact();
    };
    const auto run = [&](std::size_t first, std::size_t last) {
      return rapt_convolution_run(x.data.data(), w.data(), y.data(), &o_, first, last, workspace.data(),
                                  bytes);
    };
    on_every_level([&] {
      std::memcpy(y.data(), before.data(), before.size());
      REQUIRE(rapt_convolution(x.data.data(), w.data(), y.data(), &o_, workspace.data(), bytes) == RAPT_OK);
      CHECK(holds());
      std::memcpy(y.data(), before.data(), before.size());
      for (std::size_t task = tasks; task-- > 0;) CHECK(run(task, task + 1) == RAPT_OK);
      CHECK(holds());
    });
  }

 private:
  std::size_t size() const { return o_.type == RAPT_F32 ? 4 : 2; }
  std::size_t positions() const { return o_.batch * out_[0] * out_[1]; }

  void pack() {
    std::size_t row = layer_.in_features;
    if (o_.w_type == RAPT_I4 || o_.w_type == RAPT_U4) row = (row + 1) / 2;
    if (o_.w_type == RAPT_Q8_0) row = row / 32 * 34;
    Bytes w;
    for (std::size_t i = 0; i < o_.out_channels * row; ++i) {
      // Scales of blocks and numbers of 8 bits are finite.
      const bool is_scale = o_.w_type == RAPT_Q8_0 && i % 34 == 1;
      w.push_back(
          static_cast<unsigned char>(random_.below(is_scale || o_.w_type == RAPT_F8_E4M3 ? 0x38 : 256)));
    }
    Floats scales;
    rapt_linear_options o = layer_;
    o.arithmetic = 0, o.x_group = 0;
    if (o_.w_type != RAPT_Q8_0) {
      const std::size_t groups = o.scale_group ? (o.in_features - 1) / o.scale_group + 1 : 1;
      for (std::size_t i = 0; i < o_.out_channels * groups; ++i)
        scales.push_back(static_cast<float>(random_.uniform()) / 64);
      o.w_scales = scales.data();
    }
    std::size_t length = 0;
    REQUIRE(rapt_linear_packed_length(&o, &length) == RAPT_OK);
    packed_.resize(length);
    REQUIRE(rapt_linear_pack(w.data(), 0, o_.out_channels, &o, packed_.data(), length) == RAPT_OK);
  }

  // Channels are first or last, without gaps.
  void draw_strides() {
    const auto set = [&](std::ptrdiff_t(&strides)[5], std::size_t channels, std::size_t height,
                         std::size_t width) {
      const auto c = static_cast<std::ptrdiff_t>(channels), h = static_cast<std::ptrdiff_t>(height),
                 w = static_cast<std::ptrdiff_t>(width);
      const std::ptrdiff_t first[] = {c * h * w, h * w, w, 1}, last[] = {c * h * w, 1, w * c, c};
      std::copy_n(random_.one_in(2) ? first : last, 4, strides);
    };
    set(o_.x_strides, o_.in_channels, o_.in_size[0], o_.in_size[1]);
    set(o_.y_strides, o_.out_channels, out_[0], out_[1]);
    std::copy_n(o_.y_strides, 4, y_strides_);
    x_length_ = o_.batch * o_.in_channels * o_.in_size[0] * o_.in_size[1];
  }

  // Where number i of [batch][positions][channels] is in y.
  std::size_t place(std::size_t i) const {
    const std::size_t n = i % o_.out_channels, p = i / o_.out_channels % (out_[0] * out_[1]),
                      b = i / o_.out_channels / (out_[0] * out_[1]);
    const auto at = [&](std::size_t index, std::size_t d) {
      return index * static_cast<std::size_t>(y_strides_[d]);
    };
    return at(b, 0) + at(n, 1) + at(p / out_[1], 2) + at(p % out_[1], 3);
  }

  // A row of rapt_linear for each position: [batch][positions][channels].
  Bytes expected(const Floats &x) const {
    Floats patches;
    for (std::size_t row = 0; row < positions(); ++row) {
      const std::size_t i = row / out_[1] % out_[0], j = row % out_[1], b = row / out_[1] / out_[0];
      for (std::size_t c = 0; c < o_.in_channels; ++c) {
        for (std::size_t s = 0; s < o_.taps[0]; ++s) {
          for (std::size_t t = 0; t < o_.taps[1]; ++t) {
            const std::size_t at_i = i * std::max<std::size_t>(o_.stride[0], 1) + s - o_.pad_before[0],
                              at_j = j * std::max<std::size_t>(o_.stride[1], 1) + t - o_.pad_before[1];
            const bool is_inside = at_i < o_.in_size[0] && at_j < o_.in_size[1];
            const auto at = [&](std::size_t index, std::size_t d) {
              return index * static_cast<std::size_t>(o_.x_strides[d]);
            };
            patches.push_back(is_inside ? x[at(b, 0) + at(c, 1) + at(at_i, 2) + at(at_j, 3)] : 0.0f);
          }
        }
      }
    }
    rapt_linear_options o = layer_;
    o.rows = positions(), o.packed_w = 1;
    std::size_t bytes = 0;
    REQUIRE(rapt_linear_workspace(&o, &bytes) == RAPT_OK);
    Bytes y(o.rows * o.out_features * size()), workspace(bytes);
    REQUIRE(rapt_linear(patches.data(), packed_.data(), y.data(), &o, workspace.data(), bytes) == RAPT_OK);
    return y;
  }

  Random &random_;
  rapt_convolution_options o_ = RAPT_CONVOLUTION_OPTIONS_INIT;
  rapt_linear_options layer_ = RAPT_LINEAR_OPTIONS_INIT;
  std::size_t out_[3] = {}, x_length_ = 0;
  std::ptrdiff_t y_strides_[4] = {};
  Bytes packed_;
  Floats bias_;
};

TEST_CASE("quantized weights have the bits of a linear layer over patches") {
  for (std::size_t seed = 1; seed <= native_or_emulated<std::size_t>(300, 12); ++seed) {
    Random random(seed);
    CAPTURE(seed);
    Drawn(random).check();
  }
}

TEST_CASE("arguments of quantized weights") {
  constexpr std::size_t channels = 8, outputs = 6, inputs = channels * 9;
  rapt_linear_options layer = linear_options();
  layer.w_type = RAPT_I8, layer.in_features = inputs, layer.out_features = outputs, layer.scale_group = 16;
  const Floats scales(outputs * 5, 0.5f), x(channels * 16);
  const std::vector<std::int8_t> w(outputs * inputs, 3);
  layer.w_scales = scales.data();
  std::vector<std::byte> packed(linear_packed_length<float, void>(layer));
  REQUIRE(rapt_linear_pack(w.data(), 0, outputs, &layer, packed.data(), packed.size()) == RAPT_OK);
  rapt_convolution_options good = convolution_options({4, 4}, {3, 3});
  good.batch = 1, good.in_channels = channels, good.out_channels = outputs;
  good.packed_w = 1, good.w_type = RAPT_I8, good.scale_group = 16;
  std::vector<std::byte> workspace(convolution_workspace<float>(good) + 100000);
  const auto status = [&](auto change) {
    rapt_convolution_options o = good;
    change(o);
    Floats y(outputs * 4, 7.0f);
    const rapt_status given = convolution(x, packed, y, o, workspace);
    if (given != RAPT_OK) CHECK(y == Floats(outputs * 4, 7.0f));
    return given;
  };
  using Options = rapt_convolution_options;
  CHECK(status([](Options &) {}) == RAPT_OK);
  CHECK(status([](Options &o) { o.arithmetic = RAPT_ARITHMETIC_I8, o.x_group = 32; }) == RAPT_OK);
  CHECK(status([](Options &o) { o.w_type = RAPT_U8; }) == RAPT_BAD_PACKED);
  CHECK(status([](Options &o) { o.scale_group = 32; }) == RAPT_BAD_PACKED);
  CHECK(status([](Options &o) { o.scale_group = 17; }) == RAPT_BAD_SCALE_GROUP);
  CHECK(status([](Options &o) { o.x_group = 32; }) == RAPT_BAD_X_GROUP);
  CHECK(status([](Options &o) { o.arithmetic = RAPT_ARITHMETIC_BF16; }) == RAPT_BAD_ARITHMETIC);
  CHECK(status([](Options &o) { o.w_type = RAPT_F8_E5M2, o.arithmetic = RAPT_ARITHMETIC_I8; }) ==
        RAPT_BAD_ARITHMETIC);
  CHECK(status([](Options &o) { o.w_type = RAPT_Q8_0; }) == RAPT_BAD_SHAPE);
  for (const int type : {static_cast<int>(RAPT_BF16), static_cast<int>(RAPT_F64), 100, -1})
    CHECK(status([=](Options &o) { std::memcpy(&o.w_type, &type, sizeof type); }) == RAPT_BAD_TYPE);
  CHECK(status([](Options &o) { o.result = RAPT_CONVOLUTION_DX; }) == RAPT_BAD_PACKED);
  CHECK(status([](Options &o) { o.packed_w = 0; }) == RAPT_BAD_TYPE);
  CHECK(status([](Options &o) { o.groups = 2; }) == RAPT_BAD_PACKED);
  // Weights of floats take none of it.
  const auto of_floats = [&](auto change) {
    Options o = convolution_options({4, 4}, {3, 3});
    o.batch = 1, o.in_channels = channels, o.out_channels = outputs;
    change(o);
    std::size_t bytes = 0;
    return rapt_convolution_workspace(&o, &bytes);
  };
  CHECK(of_floats([](Options &o) { o.w_type = RAPT_F32; }) == RAPT_OK);
  CHECK(of_floats([](Options &o) { o.w_type = RAPT_F16; }) == RAPT_BAD_TYPE);
  CHECK(of_floats([](Options &o) { o.w_type = RAPT_I8; }) == RAPT_BAD_TYPE);
  CHECK(of_floats([](Options &o) { o.arithmetic = RAPT_ARITHMETIC_F32; }) == RAPT_BAD_ARITHMETIC);
  CHECK(of_floats([](Options &o) { o.scale_group = 32; }) == RAPT_BAD_SCALE_GROUP);
  CHECK(of_floats([](Options &o) { o.x_group = 32; }) == RAPT_BAD_X_GROUP);
  Floats y(outputs * 4);
  CHECK(convolution(x, std::span(packed).first(packed.size() - 1), y, good, workspace) == RAPT_BAD_PACKED);
  Options plain = good;
  plain.packed_w = 0, plain.w_type = RAPT_TYPE_DEFAULT, plain.scale_group = 0;
  CHECK(convolution(x, packed, y, plain, workspace) == RAPT_BAD_TYPE);
}

}  // namespace
}  // namespace rapt::test
