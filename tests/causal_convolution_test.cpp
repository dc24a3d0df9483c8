// Tests rapt_causal_convolution: it has the bits of rapt_convolution and of an activation, in any chunks, on every
// level.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "calls/operand.hpp"
#include "rapt/rapt.h"
#include "rapt/rapt.hpp"
#include "support/bits.hpp"
#include "support/elements.hpp"
#include "support/every_level.hpp"
#include "support/guarded_slot.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

template <class T>
void silu(T *y, std::size_t n) {
  rapt_map_options o = RAPT_MAP_OPTIONS_INIT;
  o.function = RAPT_MAP_SILU;
  o.type = type_of(element_of<T>);
  o.dims = 1;
  o.shape[0] = n;
  REQUIRE(rapt_map(y, nullptr, nullptr, y, &o) == RAPT_OK);
}

template <class T>
struct Drawn {
  std::size_t batch, tokens, channels, taps;
  std::vector<T> x, w;
  std::vector<Number<T>> bias;
  std::vector<T> expected;  // of states of zeros

  Drawn(std::size_t sequences, std::size_t length, std::size_t count, std::size_t of_taps, bool has_silu)
      : batch(sequences), tokens(length), channels(count), taps(of_taps) {
    Random random(tokens * 31 + channels * 7 + taps);
    const auto fill = [&](auto &values, std::size_t n) {
      using V = typename std::remove_reference_t<decltype(values)>::value_type;
      for (std::size_t i = 0; i < n; ++i) values.push_back(static_cast<V>(4 * random.uniform() - 2));
    };
    fill(x, batch * tokens * channels);
    fill(w, channels * taps);
    fill(bias, channels);
    expected.resize(x.size());
    rapt_convolution_options o = RAPT_CONVOLUTION_OPTIONS_INIT;
    o.type = type_of(element_of<T>);
    o.dims = 1;
    o.batch = batch;
    o.in_channels = o.out_channels = o.groups = channels;
    o.in_size[0] = tokens;
    o.taps[0] = taps;
    o.pad_before[0] = taps - 1;
    const auto row = static_cast<std::ptrdiff_t>(channels);
    const std::ptrdiff_t strides[] = {row * static_cast<std::ptrdiff_t>(tokens), 1, row};
    std::copy(strides, strides + 3, o.x_strides);
    std::copy(strides, strides + 3, o.y_strides);
    o.bias = bias.data();
    std::size_t bytes = 0;
    REQUIRE(rapt_convolution_workspace(&o, &bytes) == RAPT_OK);
    std::vector<unsigned char> workspace(bytes);
    REQUIRE(rapt_convolution(x.data(), w.data(), expected.data(), &o, workspace.data(), bytes) == RAPT_OK);
    if (has_silu) silu(expected.data(), expected.size());
  }

  rapt_causal_convolution_options options(bool has_silu) const {
    rapt_causal_convolution_options o = RAPT_CAUSAL_CONVOLUTION_OPTIONS_INIT;
    o.type = type_of(element_of<T>);
    o.silu = has_silu;
    o.batch = batch;
    o.tokens = tokens;
    o.channels = channels;
    o.taps = taps;
    o.bias = bias.data();
    return o;
  }
};

}  // namespace

TEST_CASE_TEMPLATE("a causal convolution is a convolution and SiLU, in any chunks", T, float, double, F16,
                   BF16) {
  for (const std::size_t taps : {1, 2, 4, 16}) {
    for (const std::size_t channels : {1, 37, 600}) {
      const bool has_silu = (taps + channels) % 2 == 0;
      const Drawn<T> drawn(2, 9, channels, taps, has_silu);
      CAPTURE(taps);
      CAPTURE(channels);
      on_every_level([&] {
        std::vector<T> y(drawn.x.size());
        const rapt_causal_convolution_options o = drawn.options(has_silu);
        REQUIRE(rapt_causal_convolution(drawn.x.data(), drawn.w.data(), nullptr, y.data(), &o) == RAPT_OK);
        CHECK(same_bits(y, drawn.expected));
        for (const std::size_t chunk : {1, 2, 5, 9}) {
          CAPTURE(chunk);
          std::fill(y.begin(), y.end(), T(7));
          std::vector<T> state(2 * (taps - 1) * channels, T(0));
          rapt_causal_convolution_options part = o;
          part.x_stride = part.y_stride = static_cast<std::ptrdiff_t>(channels);
          part.x_batch_stride = part.y_batch_stride = static_cast<std::ptrdiff_t>(9 * channels);
          for (std::size_t t = 0; t < 9; t += chunk) {
            part.tokens = std::min(chunk, 9 - t);
            REQUIRE(rapt_causal_convolution(drawn.x.data() + t * channels, drawn.w.data(), state.data(),
                                            y.data() + t * channels, &part) == RAPT_OK);
          }
          CHECK(same_bits(y, drawn.expected));
          for (std::size_t j = 0; j + 1 < taps && j < 9; ++j) {  // from the newest
            for (std::size_t sequence = 0; sequence < 2; ++sequence) {
              CHECK(std::memcmp(&state[((sequence + 1) * (taps - 1) - 1 - j) * channels],
                                &drawn.x[((sequence + 1) * 9 - 1 - j) * channels],
                                channels * sizeof(T)) == 0);
            }
          }
        }
      });
    }
  }
}

TEST_CASE("weights may have any strides, and threads may share channels") {
  const Drawn<float> drawn(2, 5, 40, 3, true);
  std::vector<float> turned(3 * 40);
  for (std::size_t c = 0; c < 40; ++c) {
    for (std::size_t k = 0; k < 3; ++k) turned[k * 40 + c] = drawn.w[c * 3 + k];
  }
  rapt_causal_convolution_options o = drawn.options(true);
  o.x_stride = o.y_stride = o.state_stride = 40;
  o.x_batch_stride = o.y_batch_stride = 200;
  o.w_strides[0] = 1, o.w_strides[1] = 40;
  std::vector<float> y(drawn.x.size()), state(2 * 2 * 40, 0.0f);
  for (const std::size_t first : {0, 15}) {
    o.channels = first == 0 ? 15 : 25;
    o.bias = drawn.bias.data() + first;
    REQUIRE(rapt_causal_convolution(drawn.x.data() + first, turned.data() + first, state.data() + first,
                                    y.data() + first, &o) == RAPT_OK);
  }
  CHECK(same_bits(y, drawn.expected));
  CHECK(std::memcmp(&state[2 * 40], &drawn.x[8 * 40], 80 * sizeof(float)) == 0);
}

TEST_CASE("nothing beyond the arrays of a causal convolution is read") {
  const Drawn<float> drawn(1, 6, 21, 4, false);
  const rapt_causal_convolution_options o = drawn.options(false);
  for (const Placement placement : {Placement::begins_at_guard, Placement::ends_at_guard}) {
    GuardedSlot slots[4] = {GuardedSlot(4096), GuardedSlot(4096), GuardedSlot(4096), GuardedSlot(4096)};
    const auto place = [&](std::size_t i, const std::vector<float> &values) {
      auto *const at = reinterpret_cast<float *>(slots[i].place(values.size() * sizeof(float), placement, 0));
      std::copy(values.begin(), values.end(), at);
      return at;
    };
    const std::vector<float> zeros(3 * 21, 0.0f), empty(drawn.x.size(), 0.0f);
    float *const x = place(0, drawn.x), *const w = place(1, drawn.w), *const state = place(2, zeros),
                 *const y = place(3, empty);
    on_every_level([&] {
      std::fill(state, state + zeros.size(), 0.0f);
      REQUIRE(rapt_causal_convolution(x, w, state, y, &o) == RAPT_OK);
      CHECK(std::memcmp(y, drawn.expected.data(), drawn.expected.size() * sizeof(float)) == 0);
    });
  }
}

TEST_CASE("C++ sets the shape of a causal convolution") {
  const Drawn<float> drawn(1, 6, 8, 4, true);
  std::vector<float> y(48), state(24, 0.0f);
  const rapt::Rows<const float> x(drawn.x.data(), 6, 8, 8), w(drawn.w.data(), 8, 4, 4);
  const rapt::Rows<float> to(y.data(), 6, 8, 8), old(state.data(), 3, 8, 8);
  CHECK(rapt::causal_convolution<float>(x, w, drawn.bias, old, to, true) == RAPT_OK);
  CHECK(same_bits(y, drawn.expected));
  CHECK(rapt::causal_convolution<float>(x, w, drawn.bias, {}, to, true) == RAPT_OK);
  CHECK(same_bits(y, drawn.expected));
  CHECK(rapt::causal_convolution<float>(x, w, drawn.bias, to, old, true) == RAPT_BAD_SIZE);
  CHECK(rapt::causal_convolution<float>(x, w, std::span(drawn.bias).first(7), old, to) == RAPT_BAD_SIZE);
}

TEST_CASE("arguments of rapt_causal_convolution") {
  std::vector<float> x(24, 1), w(12, 2), state(18, 3), y(24, 4);
  const std::vector<float> before = y, old = state;
  rapt_causal_convolution_options o = RAPT_CAUSAL_CONVOLUTION_OPTIONS_INIT;
  o.batch = 2, o.tokens = 4, o.channels = 3, o.taps = 4;
  const auto status = [&] {
    const rapt_status given = rapt_causal_convolution(x.data(), w.data(), state.data(), y.data(), &o);
    if (given != RAPT_OK) {
      CHECK(y == before);
      CHECK(state == old);
    }
    return given;
  };
  const auto past = [&](auto &field, auto value, rapt_status expected) {
    const auto kept = field;
    field = static_cast<std::remove_reference_t<decltype(field)>>(value);
    CHECK(status() == expected);
    field = kept;
  };
  CHECK(rapt_causal_convolution(x.data(), w.data(), state.data(), y.data(), nullptr) == RAPT_BAD_OPTIONS);
  past(o.size, 5, RAPT_BAD_OPTIONS_SIZE);
  past(o.type, RAPT_I8, RAPT_BAD_TYPE);
  past(o.taps, 0, RAPT_BAD_SHAPE);
  past(o.taps, RAPT_MAX_CAUSAL_TAPS + 1, RAPT_BAD_SHAPE);
  past(o.x_stride, 2, RAPT_BAD_X_STRIDE);
  past(o.y_stride, -3, RAPT_BAD_Y_STRIDE);
  past(o.state_stride, 2, RAPT_BAD_STATE_STRIDE);
  past(o.x_batch_stride, 11, RAPT_BAD_BATCH_STRIDE);
  past(o.y_batch_stride, -12, RAPT_BAD_BATCH_STRIDE);
  past(o.w_strides[0], -1, RAPT_BAD_W_STRIDES);
  past(o.w_strides[1], 1, RAPT_BAD_W_STRIDES);
  past(o.batch, SIZE_MAX, RAPT_BAD_SIZE);
  past(o.tokens, SIZE_MAX / 2, RAPT_BAD_SIZE);
  past(o.channels, SIZE_MAX / 4, RAPT_BAD_SIZE);
  CHECK(rapt_causal_convolution(nullptr, w.data(), state.data(), y.data(), &o) == RAPT_BAD_X);
  CHECK(rapt_causal_convolution(x.data(), nullptr, state.data(), y.data(), &o) == RAPT_BAD_W);
  CHECK(rapt_causal_convolution(x.data(), w.data(), state.data(), nullptr, &o) == RAPT_BAD_Y);
  CHECK(rapt_causal_convolution(x.data(), w.data(), state.data(), x.data(), &o) == RAPT_BAD_OVERLAP);
  CHECK(rapt_causal_convolution(x.data(), w.data(), x.data(), y.data(), &o) == RAPT_BAD_OVERLAP);
  CHECK(rapt_causal_convolution(x.data(), w.data(), y.data() + 4, y.data(), &o) == RAPT_BAD_OVERLAP);
  CHECK(y == before);
  past(o.tokens, 0, RAPT_OK);
  CHECK(y == before);
  CHECK(state == old);
  CHECK(status() == RAPT_OK);
}
