// Implements rapt_causal_convolution: depthwise sums over the last tokens. It checks its arguments before it writes
// anything.
#include <cstddef>
#include <cstring>

#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/matrix.hpp"
#include "api/read_options.hpp"
#include "call/element.hpp"
#include "call/tap_sums.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

struct CausalConvolution {
  static constexpr std::size_t most_taps = RAPT_MAX_CAUSAL_TAPS;

  rapt_causal_convolution_options o = RAPT_CAUSAL_CONVOLUTION_OPTIONS_INIT;
  const void *x, *w;
  void *state, *y;

  bool is_empty() const { return o.batch == 0 || o.tokens == 0 || o.channels == 0; }
  std::size_t before() const { return o.taps - 1; }  // tokens of the state

  rapt_status read(const rapt_causal_convolution_options *given) {
    if (!given) return RAPT_BAD_OPTIONS;
    const rapt_status status = read_options(given, o);
    if (status != RAPT_OK) return status;
    if (resolve_float_type(o.type) != RAPT_OK) return RAPT_BAD_TYPE;
    if (o.taps == 0 || o.taps > most_taps) return RAPT_BAD_SHAPE;
    const std::size_t size = size_of(o.type);
    constexpr std::size_t most = PTRDIFF_MAX / most_taps;
    if (o.channels > most || o.tokens > most || o.batch > most) return RAPT_BAD_SIZE;
    const auto channels = static_cast<std::ptrdiff_t>(o.channels);
    if (o.w_strides[0] == 0 && o.w_strides[1] == 0)
      o.w_strides[0] = static_cast<std::ptrdiff_t>(o.taps), o.w_strides[1] = 1;
    if ((o.channels > 1 && o.w_strides[0] <= 0) || (o.taps > 1 && o.w_strides[1] <= 0))
      return RAPT_BAD_W_STRIDES;
    Matrix of_x, of_y;
    rapt_status bad = whole(x, o.x_stride, o.x_batch_stride, RAPT_BAD_X_STRIDE, of_x);
    if (bad == RAPT_OK) bad = whole(y, o.y_stride, o.y_batch_stride, RAPT_BAD_Y_STRIDE, of_y);
    if (bad != RAPT_OK) return bad;
    std::size_t bytes;
    if (!set_stride(o.state_stride, o.channels)) return RAPT_BAD_SIZE;
    if (o.state_stride < channels) return RAPT_BAD_STATE_STRIDE;
    // All sequences together are one matrix of tokens.
    const Matrix of_state{state, o.state_stride, o.batch * before(), o.channels, size},
        of_w{w, 0, 1, w_length(), size};
    if (!of_state.extent(bytes) || !of_w.extent(bytes) || w_length() == 0) return RAPT_BAD_SIZE;
    if (is_empty()) return RAPT_OK;
    if (!x) return RAPT_BAD_X;
    if (!w) return RAPT_BAD_W;
    if (!y) return RAPT_BAD_Y;
    const Matrix of_bias{o.bias, 0, 1, o.bias ? o.channels : 0,
                         o.type == RAPT_F64 ? sizeof(double) : sizeof(float)};
    for (const Matrix &input : {of_x, of_w, of_bias}) {
      if (overlap(input, of_y) != Overlap::none) return RAPT_BAD_OVERLAP;
      if (state && overlap(input, of_state) != Overlap::none) return RAPT_BAD_OVERLAP;
    }
    return state && overlap(of_state, of_y) != Overlap::none ? RAPT_BAD_OVERLAP : RAPT_OK;
  }

  template <class E>
  void run() const {
    for (std::size_t first = 0; first < o.channels; first += block) {
      const std::size_t left = o.channels - first;
      Part<E> part(*this, first, left < block ? left : block);
      for (std::size_t sequence = 0; sequence < o.batch; ++sequence) part.run(sequence);
    }
  }

 private:
  static constexpr std::size_t block = 256;

  // Describes the sequences of x or y as rows of a matrix, and fills in the strides.
  rapt_status whole(const void *data, std::ptrdiff_t &stride, std::ptrdiff_t &batch_stride,
                    rapt_status bad_stride, Matrix &all) const {
    if (!set_stride(stride, o.channels)) return RAPT_BAD_SIZE;
    const Matrix sequence{data, stride, o.tokens, o.channels, size_of(o.type)};
    if (!sequence.stride_fits()) return bad_stride;
    std::size_t bytes;
    if (!sequence.extent(bytes)) return RAPT_BAD_SIZE;
    if (batch_stride == 0 &&
        __builtin_mul_overflow(stride, static_cast<std::ptrdiff_t>(o.tokens), &batch_stride))
      return RAPT_BAD_SIZE;
    all = {data, batch_stride, o.batch, bytes / size_of(o.type), size_of(o.type)};
    if (!all.stride_fits()) return RAPT_BAD_BATCH_STRIDE;
    return all.extent(bytes) ? RAPT_OK : RAPT_BAD_SIZE;
  }

  // The elements from the first weight to the last, or 0 if there are too many.
  std::size_t w_length() const {
    std::size_t by_channel = 0, by_tap = 0, length;
    if (o.channels > 1 &&
        __builtin_mul_overflow(o.channels - 1, static_cast<std::size_t>(o.w_strides[0]), &by_channel))
      return 0;
    if (o.taps > 1 && __builtin_mul_overflow(o.taps - 1, static_cast<std::size_t>(o.w_strides[1]), &by_tap))
      return 0;
    return __builtin_add_overflow(by_channel, by_tap, &length) || length == SIZE_MAX ? 0 : length + 1;
  }

  // Some channels of all sequences. Their weights are widened, and those of a tap lie next to each other.
  template <class E>
  struct Part {
    using A = Arithmetic<E>;
    const CausalConvolution &call;
    std::size_t first, count;
    const A *of_tap[most_taps];
    alignas(64) A weights[most_taps][block];

    Part(const CausalConvolution &of, std::size_t first_channel, std::size_t channel_count)
        : call(of), first(first_channel), count(channel_count) {
      const auto &o = call.o;
      const E *const w = static_cast<const E *>(call.w) + static_cast<std::ptrdiff_t>(first) * o.w_strides[0];
      for (std::size_t k = 0; k < o.taps; ++k) {
        const E *const from = w + static_cast<std::ptrdiff_t>(k) * o.w_strides[1];
        of_tap[k] = weights[k];
        if constexpr (sizeof(E) == sizeof(A)) {
          if (o.w_strides[0] == 1) {
            of_tap[k] = from;
            continue;
          }
        }
        for (std::size_t c = 0; c < count; ++c)
          weights[k][c] = widened(from[static_cast<std::ptrdiff_t>(c) * o.w_strides[0]]);
      }
    }

    void run(std::size_t sequence) const {
      const auto &o = call.o;
      const auto at = static_cast<std::ptrdiff_t>(sequence);
      const E *const of_x = static_cast<const E *>(call.x) + at * o.x_batch_stride + first;
      E *const of_y = static_cast<E *>(call.y) + at * o.y_batch_stride + first;
      E *const of_state = call.state ? static_cast<E *>(call.state) + first : nullptr;
      const auto old = [&](std::size_t i) {
        return of_state + static_cast<std::ptrdiff_t>(sequence * call.before() + i) * o.state_stride;
      };
      const auto token = [&](std::size_t t) { return of_x + static_cast<std::ptrdiff_t>(t) * o.x_stride; };
      const A *const bias = o.bias ? static_cast<const A *>(o.bias) + first : nullptr;
      Tap taps[most_taps];
      for (std::size_t t = 0; t < o.tokens; ++t) {
        E *const to = of_y + static_cast<std::ptrdiff_t>(t) * o.y_stride;
        TapSums sums{taps, 0, count, false, bias, to};
        for (std::size_t k = 0; k < o.taps; ++k) {
          const std::size_t index = t + k;  // counts from the first token of the state
          if (index >= call.before()) {
            taps[sums.tap_count++] = {token(index - call.before()), of_tap[k], k};
          } else if (of_state) {
            taps[sums.tap_count++] = {old(index), of_tap[k], k};
          }
        }
        kernels().of<E>().convolution(&sums);
        if (o.silu) kernels().of<E>().silu(to, to, count);
      }
      if (!of_state) return;
      // The last tokens become the state. Rows move towards the first, so that each is read before it is written.
      for (std::size_t j = 0; j < call.before(); ++j) {
        const std::size_t index = j + o.tokens;
        const E *const from = index < call.before() ? old(index) : token(index - call.before());
        std::memcpy(static_cast<void *>(old(j)), from, count * sizeof(E));
      }
    }
  };
};

}  // namespace
}  // namespace rapt

rapt_status rapt_causal_convolution(const void *x, const void *w, void *state, void *y,
                                    const rapt_causal_convolution_options *options) {
  return rapt::in_default_mode([&] {
    rapt::CausalConvolution call{.x = x, .w = w, .state = state, .y = y};
    const rapt_status status = call.read(options);
    if (status != RAPT_OK || call.is_empty()) return status;
    rapt::with_any_element(call.o.type, [&](auto element) { call.run<typename decltype(element)::type>(); });
    return RAPT_OK;
  });
}
