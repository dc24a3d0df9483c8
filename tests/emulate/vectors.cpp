#include "vectors.hpp"

#include <cstring>

namespace rapt::emulate {
namespace {

bool frame_holds_operands(const Instruction &i, const Frame &frame) {
  if (i.mask != 0 && !frame.holds(Component::masks)) return false;
  return frame.holds_register(i.reg, i.vector_size) && frame.holds_register(i.vvvv, i.vector_size) &&
         (i.memory || frame.holds_register(i.rm, i.vector_size));
}

// Returns the operand from a register or from memory. It does not read elements of memory outside `needed`.
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

}  // namespace

bool execute_vector(const Instruction &i, Frame &frame) {
  if (!frame_holds_operands(i, frame)) return false;
  const unsigned count = i.vector_size / 4;
  const std::uint64_t mask = i.mask == 0 ? ~std::uint64_t{0} : frame.read_mask(i.mask);
  const Vector before = frame.read(i.reg), a = frame.read(i.vvvv);
  Vector result = {};
  const Vector b = source(i, frame, mask);
  for (unsigned e = 0; e < count; ++e) {
    if (mask >> e & 1) {
      result.words[e] = element_of(i.operation, before.words[e], a.words[e], b.words[e]);
    } else if (!i.zeroing) {
      result.words[e] = before.words[e];
    }
  }
  frame.write(i.reg, result);
  return true;
}

}  // namespace rapt::emulate
