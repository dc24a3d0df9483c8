// Implements rapt_random. A call checks its arguments before it writes anything.
#include <cstring>

#include "api/floating_point.hpp"
#include "api/matrix.hpp"
#include "api/read_options.hpp"
#include "call/random_call.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

// Returns the least integer that is not below probability * 2^32.
std::uint64_t threshold_of(double probability) {
  const double wanted = probability * 0x1p32;
  const auto below = static_cast<std::uint64_t>(wanted);
  return below + (static_cast<double>(below) < wanted);
}

// Writes normal numbers by the formula of rapt.h, a block of pairs at a time, which lies in L1.
template <class A>
void write_normal(RandomCall call, A *out) {
  constexpr std::size_t block = 256;
  constexpr A pi = static_cast<A>(3.14159265358979323846);
  constexpr A none[3] = {};
  alignas(64) A numbers[2 * block], radius[block], angle[block], cosine[block];
  const auto map = kernels().of<A>().map;
  const std::uint64_t begin = call.offset, end = begin + call.count;
  call.out = numbers;
  for (std::uint64_t pair = begin / 2; 2 * pair < end;) {
    const std::uint64_t left = (end + 1) / 2 - pair, most = block - pair % block;
    const std::size_t pairs = static_cast<std::size_t>(left < most ? left : most);
    call.offset = 2 * pair, call.count = 2 * pairs;
    kernels().f32.random(&call);
    for (std::size_t i = 0; i < pairs; ++i) {
      radius[i] = 1 - numbers[2 * i];
      angle[i] = (2 * numbers[2 * i + 1] - 1) * pi;
    }
    map(RAPT_MAP_LOG, radius, nullptr, nullptr, radius, none, pairs);
    for (std::size_t i = 0; i < pairs; ++i) radius[i] = -2 * radius[i];
    map(RAPT_MAP_SQRT, radius, nullptr, nullptr, radius, none, pairs);
    map(RAPT_MAP_COS, angle, nullptr, nullptr, cosine, none, pairs);
    map(RAPT_MAP_SIN, angle, nullptr, nullptr, angle, none, pairs);
    for (std::size_t i = 0; i < pairs; ++i) {
      numbers[2 * i] = radius[i] * cosine[i];
      numbers[2 * i + 1] = radius[i] * angle[i];
    }
    // The first number and the last may be half of a pair.
    const std::uint64_t first = 2 * pair < begin ? begin : 2 * pair,
                        last = 2 * (pair + pairs) < end ? 2 * (pair + pairs) : end;
    std::memcpy(out + (first - begin), numbers + (first - 2 * pair),
                static_cast<std::size_t>(last - first) * sizeof(A));
    pair += pairs;
  }
}

rapt_status random(void *out, const rapt_random_options *given) {
  if (!given) return RAPT_BAD_OPTIONS;
  rapt_random_options o = RAPT_RANDOM_OPTIONS_INIT;
  const rapt_status status = read_options(given, o);
  if (status != RAPT_OK) return status;
  if (o.kind < RAPT_RANDOM_UNIFORM || o.kind > RAPT_RANDOM_NORMAL) return RAPT_BAD_KIND;
  const int type = number_of(o.type);
  const bool is_normal = o.kind == RAPT_RANDOM_NORMAL, is_keep = o.kind == RAPT_RANDOM_KEEP,
             is_float = is_normal || o.kind == RAPT_RANDOM_UNIFORM;
  if (type != RAPT_TYPE_DEFAULT && !(is_float && (type == RAPT_F32 || type == RAPT_F64)))
    return RAPT_BAD_TYPE;
  if (!(o.probability >= 0 && o.probability <= 1) || (!is_keep && o.probability != 0))
    return RAPT_BAD_PROBABILITY;
  const std::size_t size = is_keep ? 1 : type == RAPT_F64 ? sizeof(double) : sizeof(float);
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  std::size_t bytes;
  if (!Matrix{out, 0, 1, o.count, size}.extent(bytes) || o.offset > most || o.count > most - o.offset)
    return RAPT_BAD_SIZE;
  if (o.count == 0) return RAPT_OK;
  if (!out) return RAPT_BAD_OUT;
  RandomCall call{out,     RandomElement::uniform_f32, o.seed, o.stream, o.offset,
                  o.count, threshold_of(o.probability)};
  if (type == RAPT_F64) call.element = RandomElement::uniform_f64;
  if (is_keep) call.element = RandomElement::keep;
  if (o.kind == RAPT_RANDOM_WORDS) call.element = RandomElement::word;
  if (!is_normal) {
    kernels().f32.random(&call);
  } else if (type == RAPT_F64) {
    write_normal(call, static_cast<double *>(out));
  } else {
    write_normal(call, static_cast<float *>(out));
  }
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

rapt_status rapt_random(void *out, const rapt_random_options *options) {
  return rapt::in_default_mode([&] { return rapt::random(out, options); });
}
