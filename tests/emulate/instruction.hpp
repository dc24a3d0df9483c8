// Decodes the VEX and EVEX instructions that are emulated.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace rapt::emulate {

enum class Operation : std::uint8_t {
  ldtilecfg,
  sttilecfg,
  tilerelease,
  tilezero,
  tileload,
  tilestored,
  tdpbf16ps,
  tdpbssd,
  tdpbsud,
  tdpbusd,
  tdpbuud,
  vpdpbusd,
  vpdpbusds,
  vpdpwssd,
  vpdpwssds
};

// Returns whether a CPU with AMX traps on the operation until Linux permits tile data.
constexpr bool uses_tile_data(Operation operation) {
  return operation >= Operation::tilezero && operation <= Operation::tdpbuud;
}
constexpr bool multiplies_tiles(Operation operation) {
  return operation >= Operation::tdpbf16ps && operation <= Operation::tdpbuud;
}

enum class Feature : std::uint8_t { amx, avx512_vnni, avx_vnni };

struct Instruction {
  Operation operation;
  Feature feature;
  bool evex;
  unsigned length;       // in bytes
  unsigned vector_size;  // in bytes: 16, 32 or 64
  unsigned reg, vvvv;    // register operands; reg is the destination of all but stores
  bool memory;           // one operand is in memory; otherwise it is in the register rm
  unsigned rm;
  std::uintptr_t base;   // the address without the scaled index register
  std::uintptr_t index;  // the scaled index register, which holds the stride of tile loads and stores
  bool broadcast;        // all elements use the same word of memory
  unsigned mask;         // the mask register; 0 if every element is written
  bool zeroing;          // elements outside the mask become zero

  std::uintptr_t address() const { return base + index; }
};

// Decodes the instruction at RIP. Returns false if it is not an emulated instruction.
bool decode(const greg_t *registers, Instruction &instruction);

}  // namespace rapt::emulate
