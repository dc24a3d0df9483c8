// Implements rapt_rope. It checks its arguments before it writes anything.
#include "contract/rope.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/numbers.hpp"
#include "api/read_options.hpp"
#include "api/strided.hpp"
#include "api/strides.hpp"
#include "call/element.hpp"
#include "call/rope_call.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

rapt_status resolve_type(rapt_type &type) {
  const int number = number_of(type);
  if (number == RAPT_TYPE_DEFAULT) type = RAPT_F32;
  return number >= RAPT_TYPE_DEFAULT && number <= RAPT_BF16 ? RAPT_OK : RAPT_BAD_TYPE;
}

// Fills in the stride of positions, which is 0 if all sequences have the same.
rapt_status resolve_positions(rapt_rope_options &o) {
  if (!o.positions) return o.positions_stride == 0 ? RAPT_OK : RAPT_BAD_POSITIONS;
  if (o.first_position != 0) return RAPT_BAD_POSITIONS;
  if (o.tokens > std::size_t{PTRDIFF_MAX}) return RAPT_BAD_SIZE;
  const auto tokens = static_cast<std::ptrdiff_t>(o.tokens);
  if (o.positions_stride == 0) o.positions_stride = tokens;
  const bool repeats = o.positions_stride == RAPT_REPEAT;
  if (!repeats && o.positions_stride < tokens) return RAPT_BAD_POSITIONS;
  if (repeats || o.batch == 1) o.positions_stride = 0;
  return RAPT_OK;
}

// Fills in the defaults of options that have been read.
rapt_status resolve(rapt_rope_options &o) {
  if (o.batch == 0 || o.heads == 0 || o.head_dim == 0) return RAPT_BAD_SHAPE;
  rapt_status status = resolve_type(o.type);
  if (status != RAPT_OK) return status;
  if (o.layout != RAPT_ROPE_HALVES && o.layout != RAPT_ROPE_PAIRS) return RAPT_BAD_LAYOUT;
  if (o.rotary_dim == 0) o.rotary_dim = o.head_dim;
  if (o.rotary_dim % 2 != 0 || o.rotary_dim > o.head_dim) return RAPT_BAD_ROTARY_DIM;
  if (o.attention_factor == 0) o.attention_factor = 1;
  const bool is_normal =
      o.type == RAPT_F64 ? is_usable<double>(o.attention_factor) : is_usable<float>(o.attention_factor);
  if (!is_normal) return RAPT_BAD_ATTENTION_FACTOR;
  status = resolve_positions(o);
  const Dims dims{o.batch, o.heads, o.tokens, o.head_dim};
  if (status == RAPT_OK) status = resolve_strides(o.x_strides, dims, MayRepeat::yes, RAPT_BAD_X_STRIDES);
  if (status == RAPT_OK) status = resolve_strides(o.y_strides, dims, MayRepeat::no, RAPT_BAD_Y_STRIDES);
  return status;
}

// The strides must have been resolved, and no pointer may be missing.
rapt_status check_arrays(const RopeCall &call) {
  const rapt_rope_options &o = call.options;
  const auto tensor = [&](const void *data, const rapt_strides &strides) {
    const Reach all = Reach::of_all(o.batch, o.tokens);
    return Strided(data, strides, all, o.heads, o.head_dim, o.head_dim, size_of(o.type));
  };
  Strided x = tensor(call.x, o.x_strides), y = tensor(call.y, o.y_strides);
  const Reach sequences = Reach::of_all(o.positions_stride == 0 ? 1 : o.batch, 1);
  Strided frequencies(o.frequencies, call.pairs(), sizeof(double)),
      positions(o.positions, {o.positions_stride, 0, 0}, sequences, 1, o.tokens, o.tokens,
                sizeof(std::int64_t));
  if (!x.measure() || !y.measure() || !frequencies.measure() || !positions.measure()) return RAPT_BAD_SIZE;
  if (!y.rows_are_apart()) return RAPT_BAD_Y_STRIDES;
  if (!x.is_exactly(y) && x.overlaps(y)) return RAPT_BAD_OVERLAP;
  return frequencies.overlaps(y) || positions.overlaps(y) ? RAPT_BAD_OVERLAP : RAPT_OK;
}

// Looks at all, because a loop without an exit takes a cycle for each.
rapt_status check_frequencies(const RopeCall &call) {
  bool all_fit = true;
  for (std::size_t i = 0; i < call.pairs(); ++i) {
    all_fit &= std::fabs(call.options.frequencies[i]) <= RopeReduction::largest_frequency;
  }
  return all_fit ? RAPT_OK : RAPT_BAD_FREQUENCIES;
}

rapt_status check_positions(const rapt_rope_options &o) {
  constexpr std::int64_t largest = RopeReduction::largest_position;
  const auto fits = [](std::int64_t position) { return position >= -largest && position <= largest; };
  if (!o.positions) {
    const bool all_fit =
        fits(o.first_position) && o.tokens - 1 <= static_cast<std::size_t>(largest - o.first_position);
    return all_fit ? RAPT_OK : RAPT_BAD_POSITIONS;
  }
  const std::size_t rows = o.positions_stride == 0 ? 1 : o.batch;
  for (std::size_t b = 0; b < rows; ++b) {
    const std::int64_t *const row = o.positions + o.positions_stride * static_cast<std::ptrdiff_t>(b);
    for (std::size_t t = 0; t < o.tokens; ++t) {
      if (!fits(row[t])) return RAPT_BAD_POSITIONS;
    }
  }
  return RAPT_OK;
}

struct Run {
  RopeCall call;
  const rapt_rope_options *given;

  rapt_status operator()() {
    if (!given) return RAPT_BAD_OPTIONS;
    rapt_rope_options &o = call.options;
    rapt_status status = read_options(given, o);
    if (status == RAPT_OK) status = resolve(o);
    if (status != RAPT_OK || o.tokens == 0) return status;
    if (!call.x) return RAPT_BAD_X;
    if (!call.y) return RAPT_BAD_Y;
    if (!o.frequencies) return RAPT_BAD_FREQUENCIES;
    status = check_arrays(call);
    if (status == RAPT_OK) status = check_frequencies(call);
    if (status == RAPT_OK) status = check_positions(o);
    if (status != RAPT_OK) return status;
    with_any_element(o.type,
                     [&](auto element) { kernels().of<typename decltype(element)::type>().rope(&call); });
    return RAPT_OK;
  }
};

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_rope(const void *x, void *y, const rapt_rope_options *options) {
  return in_default_mode(Run{{.x = x, .y = y}, options});
}
