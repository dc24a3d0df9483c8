#include "instruction.hpp"

#include <cstring>

namespace rapt::emulate {
namespace {

enum Prefix : std::uint8_t { none, p66, pF3, pF2 };  // numbered as in VEX and EVEX
enum class Operand : std::uint8_t { memory, with_index, registers, either };

struct Form {
  bool evex;
  Prefix prefix;
  std::uint8_t opcode;
  Operand operand;
  bool uses_vvvv;
  Operation operation;
  Feature feature;
};

// All forms are in the opcode map 0F38 with W = 0.
constexpr Form forms[] = {
    {false, none, 0x49, Operand::memory, false, Operation::ldtilecfg, Feature::amx},
    {false, p66, 0x49, Operand::memory, false, Operation::sttilecfg, Feature::amx},
    {false, none, 0x49, Operand::registers, false, Operation::tilerelease, Feature::amx},
    {false, pF2, 0x49, Operand::registers, false, Operation::tilezero, Feature::amx},
    {false, pF2, 0x4b, Operand::with_index, false, Operation::tileload, Feature::amx},
    {false, p66, 0x4b, Operand::with_index, false, Operation::tileload, Feature::amx},  // TILELOADDT1
    {false, pF3, 0x4b, Operand::with_index, false, Operation::tilestored, Feature::amx},
    {false, pF3, 0x5c, Operand::registers, true, Operation::tdpbf16ps, Feature::amx},
    {false, pF2, 0x5e, Operand::registers, true, Operation::tdpbssd, Feature::amx},
    {false, pF3, 0x5e, Operand::registers, true, Operation::tdpbsud, Feature::amx},
    {false, p66, 0x5e, Operand::registers, true, Operation::tdpbusd, Feature::amx},
    {false, none, 0x5e, Operand::registers, true, Operation::tdpbuud, Feature::amx},
    {true, p66, 0x50, Operand::either, true, Operation::vpdpbusd, Feature::avx512_vnni},
    {true, p66, 0x51, Operand::either, true, Operation::vpdpbusds, Feature::avx512_vnni},
    {true, p66, 0x52, Operand::either, true, Operation::vpdpwssd, Feature::avx512_vnni},
    {true, p66, 0x53, Operand::either, true, Operation::vpdpwssds, Feature::avx512_vnni},
    {false, p66, 0x50, Operand::either, true, Operation::vpdpbusd, Feature::avx_vnni},
    {false, p66, 0x51, Operand::either, true, Operation::vpdpbusds, Feature::avx_vnni},
    {false, p66, 0x52, Operand::either, true, Operation::vpdpwssd, Feature::avx_vnni},
    {false, p66, 0x53, Operand::either, true, Operation::vpdpwssds, Feature::avx_vnni},
};

struct Prefixes {
  bool evex, r, x, b, r_high, w, z, broadcast;
  unsigned vvvv, prefix, vector_length, mask;
};

// Reads the VEX or EVEX prefix and moves `at` past it. Returns false if it does not select map 0F38.
bool read_prefixes(const unsigned char *&at, Prefixes &p) {
  p = {};
  if (at[0] == 0xc4) {
    if ((at[1] & 31) != 2) return false;
    p.vvvv = ~(at[2] >> 3) & 15;
    p.vector_length = at[2] >> 2 & 1;
  } else if (at[0] == 0x62) {
    if ((at[1] & 15) != 2 || !(at[2] & 4)) return false;
    p.evex = true;
    p.r_high = !(at[1] & 0x10);
    p.vvvv = (~(at[2] >> 3) & 15) | (at[3] & 8 ? 0 : 16);
    p.z = at[3] & 0x80;
    p.vector_length = at[3] >> 5 & 3;
    p.broadcast = at[3] & 0x10;
    p.mask = at[3] & 7;
  } else {
    return false;
  }
  p.r = !(at[1] & 0x80), p.x = !(at[1] & 0x40), p.b = !(at[1] & 0x20);
  p.w = at[2] & 0x80;
  p.prefix = at[2] & 3;
  at += p.evex ? 4 : 3;
  return true;
}

std::uintptr_t general_register(const greg_t *registers, unsigned number) {
  static constexpr int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return static_cast<std::uintptr_t>(registers[order[number]]);
}

std::intptr_t displacement(const unsigned char *&at, bool one_byte, unsigned scale) {
  if (one_byte) return std::intptr_t{static_cast<signed char>(*at++)} * static_cast<std::intptr_t>(scale);
  std::int32_t value;
  std::memcpy(&value, at, sizeof value);
  at += sizeof value;
  return value;
}

// Returns the factor by which EVEX multiplies an 8-bit displacement.
unsigned displacement_scale(const Instruction &i) {
  if (!i.evex) return 1;
  return i.broadcast ? 4 : i.vector_size;
}

// Reads the address that follows the ModRM byte. Returns whether the address has a SIB byte.
bool read_address(const unsigned char *&at, unsigned modrm, const Prefixes &p, const greg_t *registers,
                  Instruction &i) {
  const unsigned mod = modrm >> 6;
  const bool sib = (modrm & 7) == 4;
  bool has_base = true, of_next_instruction = false;
  unsigned base = modrm & 7;
  if (sib) {
    const unsigned byte = *at++, index = (byte >> 3 & 7) | (p.x ? 8 : 0);
    if (index != 4) i.index = general_register(registers, index) << (byte >> 6);
    base = byte & 7;
    has_base = base != 5 || mod != 0;
  } else if (base == 5 && mod == 0) {
    has_base = false;
    of_next_instruction = true;
  }
  if (has_base) i.base = general_register(registers, base | (p.b ? 8 : 0));
  if (mod == 1 || mod == 2 || !has_base) {
    i.base += static_cast<std::uintptr_t>(displacement(at, mod == 1, displacement_scale(i)));
  }
  if (of_next_instruction) i.base += reinterpret_cast<std::uintptr_t>(at);
  return sib;
}

bool matches(Operand operand, bool memory, bool sib) {
  switch (operand) {
    case Operand::memory:
      return memory;
    case Operand::with_index:
      return memory && sib;
    case Operand::registers:
      return !memory;
    case Operand::either:
      return true;
  }
  return false;
}

// Returns whether the instruction set allows the operands. If not, the program must get its SIGILL.
bool is_legal(const Form &form, const Instruction &i) {
  if (!form.uses_vvvv && i.vvvv != 0) return false;
  if (form.feature == Feature::amx)
    return i.vector_size == 16 && i.reg < 8 && (i.memory || i.rm < 8) && i.vvvv < 8;
  if (i.broadcast && !i.memory) return false;
  return i.mask != 0 || !i.zeroing;
}

}  // namespace

bool decode(const greg_t *registers, Instruction &i) {
  const auto *const start = reinterpret_cast<const unsigned char *>(registers[REG_RIP]);
  const unsigned char *at = start;
  Prefixes p;
  if (!read_prefixes(at, p) || p.w || p.vector_length == 3) return false;
  const unsigned opcode = *at++, modrm = *at++;
  i = {};
  i.evex = p.evex;
  i.vector_size = 16u << p.vector_length;
  i.reg = (modrm >> 3 & 7) | (p.r ? 8 : 0) | (p.r_high ? 16 : 0);
  i.vvvv = p.vvvv;
  i.memory = modrm >> 6 != 3;
  i.rm = (modrm & 7) | (p.b ? 8 : 0) | (p.evex && p.x ? 16 : 0);
  i.broadcast = p.broadcast;
  i.mask = p.mask;
  i.zeroing = p.z;
  const bool sib = i.memory && read_address(at, modrm, p, registers, i);
  i.length = static_cast<unsigned>(at - start);
  for (const Form &form : forms) {
    if (form.evex != p.evex || form.prefix != p.prefix || form.opcode != opcode) continue;
    if (!matches(form.operand, i.memory, sib)) continue;
    i.operation = form.operation;
    i.feature = form.feature;
    return is_legal(form, i);
  }
  return false;
}

}  // namespace rapt::emulate
