#include "vectors.hpp"

#include <bit>
#include <cstring>

#include "model.hpp"

namespace rapt::emulate {
namespace {

bool frame_holds_operands(const Instruction &i, const Frame &frame) {
  if (i.mask != 0 && !frame.holds(Component::masks)) return false;
  return frame.holds_register(i.reg, i.vector_size) && frame.holds_register(i.vvvv, i.vector_size) &&
         (i.memory || frame.holds_register(i.rm, i.vector_size));
}

// The operand in a register or in memory. Elements of memory outside `needed` are not read.
Vector source(const Instruction &i, const Frame &frame, std::uint64_t needed) {
  if (!i.memory) return frame.read(i.rm);
  Vector value = {};
  for (unsigned e = 0; e < i.vector_size / 4; ++e) {
    if (!(needed >> e & 1)) continue;
    std::memcpy(&value.words[e], reinterpret_cast<const void *>(i.address() + (i.broadcast ? 0 : 4 * e)),
                sizeof(Word));
  }
  return value;
}

Word element_of(Operation operation, Word c, Word a, Word b) {
  switch (operation) {
    case Operation::vdpbf16ps:
      return vdpbf16ps(c, a, b);
    case Operation::vpdpbusd:
      return wrapped(sum_of_bytes<std::uint8_t, std::int8_t>(c, a, b));
    case Operation::vpdpbusds:
      return saturated(sum_of_bytes<std::uint8_t, std::int8_t>(c, a, b));
    case Operation::vpdpwssd:
      return wrapped(sum_of_shorts(c, a, b));
    default:
      return saturated(sum_of_shorts(c, a, b));
  }
}

struct Halves {
  std::uint16_t element[32];
};

// The results of a conversion: of `low`, then of `high` if both are converted.
Halves converted(const Vector &low, const Vector &high, bool both, unsigned count) {
  Halves result = {};
  for (unsigned e = 0; e < count; ++e) {
    result.element[e] = bf16_of(low.words[e]);
    if (both) result.element[count + e] = bf16_of(high.words[e]);
  }
  return result;
}

// `count` elements by the mask; zeros behind them.
template <class T>
void apply_mask(T *result, const T *before, unsigned count, std::uint64_t mask, bool zeroing) {
  for (unsigned e = 0; e < count; ++e) {
    if (!(mask >> e & 1)) result[e] = zeroing ? T{0} : before[e];
  }
}

}  // namespace

bool execute_vector(const Instruction &i, Frame &frame) {
  if (!frame_holds_operands(i, frame)) return false;
  const unsigned count = i.vector_size / 4;
  const std::uint64_t mask = i.mask == 0 ? ~std::uint64_t{0} : frame.read_mask(i.mask);
  const Vector before = frame.read(i.reg), a = frame.read(i.vvvv);
  Vector result = {};
  if (i.operation == Operation::vcvtneps2bf16 || i.operation == Operation::vcvtne2ps2bf16) {
    // The mask of two vectors has a bit per result, so that all of both are read.
    const bool both = i.operation == Operation::vcvtne2ps2bf16;
    const Vector b = source(i, frame, both ? ~std::uint64_t{0} : mask);
    Halves halves = converted(b, a, both, count);
    apply_mask(halves.element, std::bit_cast<Halves>(before).element, both ? 2 * count : count, mask,
               i.zeroing);
    result = std::bit_cast<Vector>(halves);
  } else {
    const Vector b = source(i, frame, mask);
    for (unsigned e = 0; e < count; ++e) {
      result.words[e] = element_of(i.operation, before.words[e], a.words[e], b.words[e]);
    }
    apply_mask(result.words, before.words, count, mask, i.zeroing);
  }
  frame.write(i.reg, result);
  return true;
}

}  // namespace rapt::emulate
