// Wraps a vector instruction in code that loads the registers, runs the instruction, and stores the
// destination. The instruction finds its operands here:
//
//             destination   first operand   second operand   mask   memory   constant 16
//   ZMM_CODE  zmm18, zmm2   zmm3            zmm29            k5     rax      rcx
//   YMM_CODE  ymm2          ymm3            ymm9             -      rax      rcx
//
// r8, r12 and r13 are copies of rax, and r9 of rcx. ZMM_CODE stores zmm18, and LOW_ZMM_CODE stores zmm2.
#pragma once

#include "model.hpp"

namespace rapt::emulate {

struct Operands {
  Vector destination, first, second;
  std::uint32_t mask;
};
static_assert(sizeof(Vector) == 64);

using Code = void(Operands &);

// The memory operand is instructions_test_memory[2]. Hidden visibility makes the array addressable relative
// to the next instruction.
extern "C" [[gnu::visibility("hidden")]] Vector instructions_test_memory[5];

#define VECTOR_CODE(load, instruction, store)                                                             \
  [](Operands &o) {                                                                                       \
    asm volatile(                                                                                         \
        "mov %%rax, %%r8\n\tmov %%rax, %%r12\n\tmov %%rax, %%r13\n\tmov %%rcx, %%r9\n\t" load instruction \
        "\n\t" store "vzeroupper\n\t" ::"r"(&o),                                                          \
        "a"(instructions_test_memory + 2), "c"(16L)                                                       \
        : "memory", "r8", "r9", "r12", "r13", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",     \
          "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");                  \
  }
#define LOAD_ZMM                                                                                         \
  "vmovdqu32 (%0), %%zmm18\n\tvmovdqu32 (%0), %%zmm2\n\tvmovdqu32 64(%0), %%zmm3\n\tvmovdqu32 128(%0), " \
  "%%zmm29\n\t"                                                                                          \
  "kmovd 192(%0), %%k5\n\t"
#define ZMM_CODE(instruction) VECTOR_CODE(LOAD_ZMM, instruction, "vmovdqu32 %%zmm18, (%0)\n\t")
#define LOW_ZMM_CODE(instruction) VECTOR_CODE(LOAD_ZMM, instruction, "vmovdqu32 %%zmm2, (%0)\n\t")
#define YMM_CODE(instruction)                                                                               \
  VECTOR_CODE("vmovdqu (%0), %%ymm2\n\tvmovdqu 64(%0), %%ymm3\n\tvmovdqu 128(%0), %%ymm9\n\t", instruction, \
              "vmovdqu %%ymm2, (%0)\n\t")

// Marks the next instruction with ud1 %eax, %eax, so that the emulator executes it even if the CPU has it.
#define MARKED ".byte 0x0f, 0xb9, 0xc0\n\t"

}  // namespace rapt::emulate
