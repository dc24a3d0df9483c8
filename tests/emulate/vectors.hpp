// Emulates AVX512-VNNI and AVX-VNNI on the vector registers in the signal frame.
#pragma once

#include "frame.hpp"
#include "instruction.hpp"
#include "model.hpp"

namespace rapt::emulate {

// Returns an element of a VNNI instruction on registers.
inline Word element_of(Operation operation, Word c, Word a, Word b) {
  switch (operation) {
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

// Returns false if the frame does not hold the registers of the instruction.
bool execute_vector(const Instruction &instruction, Frame &frame);

}  // namespace rapt::emulate
