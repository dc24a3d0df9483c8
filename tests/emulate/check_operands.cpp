// Checks every operand form of the vector instructions with random values: registers of all sizes, masks,
// broadcasts and addresses. Each form runs unchanged, and marked so that the emulator always executes it.
// Both runs must give the expected result.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <random>

#include "instruction.hpp"
#include "report.hpp"
#include "vector_shells.hpp"
#include "vectors.hpp"

namespace rapt::emulate {

Vector instructions_test_memory[5] = {};

namespace {

constexpr unsigned no_memory = ~0u;
enum class Masking { none, merging, zeroing };

struct Form {
  const char *text;
  const char *feature;
  Operation operation;
  unsigned words;  // number of 32-bit words of the operands
  Masking masking;
  unsigned offset;  // offset of the memory operand in instructions_test_memory, in words
  bool broadcast;
  unsigned stored_words;  // number of words of the destination to compare
  Code *code, *marked;
};

#define ZMM(feature, operation, words, masking, offset, broadcast, text)                                 \
  {                                                                                                      \
    text, feature, Operation::operation, words, Masking::masking, offset, broadcast, 16, ZMM_CODE(text), \
        ZMM_CODE(MARKED text)                                                                            \
  }
#define LOW_ZMM(feature, operation, words, text)                                                         \
  {                                                                                                      \
    text, feature, Operation::operation, words, Masking::none, no_memory, false, 16, LOW_ZMM_CODE(text), \
        LOW_ZMM_CODE(MARKED text)                                                                        \
  }
#define YMM(feature, operation, words, offset, broadcast, text)                                      \
  {                                                                                                  \
    text, feature, Operation::operation, words, Masking::none, offset, broadcast, 8, YMM_CODE(text), \
        YMM_CODE(MARKED text)                                                                        \
  }

const Form forms[] = {
    ZMM("avx512_vnni", vpdpbusd, 16, none, no_memory, false, "vpdpbusd %%zmm29, %%zmm3, %%zmm18"),
    ZMM("avx512_vnni", vpdpbusd, 8, none, no_memory, false, "vpdpbusd %%ymm29, %%ymm3, %%ymm18"),
    ZMM("avx512_vnni", vpdpbusd, 4, none, no_memory, false, "vpdpbusd %%xmm29, %%xmm3, %%xmm18"),
    ZMM("avx512_vnni", vpdpbusd, 16, merging, no_memory, false, "vpdpbusd %%zmm29, %%zmm3, %%zmm18%{%%k5%}"),
    ZMM("avx512_vnni", vpdpbusd, 16, zeroing, no_memory, false,
        "vpdpbusd %%zmm29, %%zmm3, %%zmm18%{%%k5%}%{z%}"),
    ZMM("avx512_vnni", vpdpbusd, 16, none, 32, false, "vpdpbusd (%%rax), %%zmm3, %%zmm18"),
    ZMM("avx512_vnni", vpdpbusd, 16, none, 48, false, "vpdpbusd 64(%%rax), %%zmm3, %%zmm18"),
    ZMM("avx512_vnni", vpdpbusd, 16, none, 16, false, "vpdpbusd -64(%%rax), %%zmm3, %%zmm18"),
    ZMM("avx512_vnni", vpdpbusd, 16, none, 15, false, "vpdpbusd -68(%%rax), %%zmm3, %%zmm18"),
    ZMM("avx512_vnni", vpdpbusd, 8, merging, 40, false, "vpdpbusd 32(%%r13), %%ymm3, %%ymm18%{%%k5%}"),
    ZMM("avx512_vnni", vpdpbusd, 16, none, 48, false, "vpdpbusd (%%rax,%%rcx,4), %%zmm3, %%zmm18"),
    ZMM("avx512_vnni", vpdpbusd, 16, none, 40, false, "vpdpbusd (%%r8,%%r9,2), %%zmm3, %%zmm18"),
    ZMM("avx512_vnni", vpdpbusd, 16, none, 20, false,
        "vpdpbusd instructions_test_memory+80(%%rip), %%zmm3, %%zmm18"),
    ZMM("avx512_vnni", vpdpbusd, 16, none, 34, true, "vpdpbusd 8(%%rax)%{1to16%}, %%zmm3, %%zmm18"),
    ZMM("avx512_vnni", vpdpbusd, 8, zeroing, 33, true,
        "vpdpbusd 4(%%rax)%{1to8%}, %%ymm3, %%ymm18%{%%k5%}%{z%}"),
    ZMM("avx512_vnni", vpdpbusd, 8, merging, no_memory, false, "vpdpbusd %%ymm29, %%ymm3, %%ymm18%{%%k5%}"),
    ZMM("avx512_vnni", vpdpbusds, 16, zeroing, no_memory, false,
        "vpdpbusds %%zmm29, %%zmm3, %%zmm18%{%%k5%}%{z%}"),
    ZMM("avx512_vnni", vpdpbusds, 4, none, 36, false, "vpdpbusds 16(%%rax), %%xmm3, %%xmm18"),
    ZMM("avx512_vnni", vpdpwssd, 16, merging, no_memory, false, "vpdpwssd %%zmm29, %%zmm3, %%zmm18%{%%k5%}"),
    ZMM("avx512_vnni", vpdpwssd, 16, none, 48, false, "vpdpwssd 64(%%rax), %%zmm3, %%zmm18"),
    ZMM("avx512_vnni", vpdpwssds, 16, none, no_memory, false, "vpdpwssds %%zmm29, %%zmm3, %%zmm18"),
    ZMM("avx512_vnni", vpdpwssds, 8, none, 30, true, "vpdpwssds -8(%%rax)%{1to8%}, %%ymm3, %%ymm18"),
    ZMM("avx512_vnni", vpdpbusd, 16, none, 32, false, "vpdpbusd (%%r12), %%zmm3, %%zmm18"),
    // These instructions must zero the rest of zmm2.
    LOW_ZMM("avx512_vnni", vpdpbusd, 16, "vpdpbusd %%zmm29, %%zmm3, %%zmm2"),
    LOW_ZMM("avx512_vnni", vpdpbusd, 8, "vpdpbusd %%ymm29, %%ymm3, %%ymm2"),
    LOW_ZMM("avx512_vnni", vpdpwssd, 4, "vpdpwssd %%xmm29, %%xmm3, %%xmm2"),
    // These forms need no AVX-512 registers, so they run where AVX2 runs.
    YMM("evex_ymm", vpdpbusd, 8, no_memory, false, "%{evex%} vpdpbusd %%ymm9, %%ymm3, %%ymm2"),
    YMM("evex_ymm", vpdpbusd, 8, 33, true, "%{evex%} vpdpbusd 4(%%rax)%{1to8%}, %%ymm3, %%ymm2"),
    YMM("evex_ymm", vpdpbusd, 8, 40, false, "%{evex%} vpdpbusd 32(%%rax), %%ymm3, %%ymm2"),
    YMM("evex_ymm", vpdpwssds, 4, no_memory, false, "%{evex%} vpdpwssds %%xmm9, %%xmm3, %%xmm2"),
    YMM("avx_vnni", vpdpbusd, 8, no_memory, false, "%{vex%} vpdpbusd %%ymm9, %%ymm3, %%ymm2"),
    YMM("avx_vnni", vpdpbusd, 4, no_memory, false, "%{vex%} vpdpbusd %%xmm9, %%xmm3, %%xmm2"),
    YMM("avx_vnni", vpdpbusds, 8, 40, false, "%{vex%} vpdpbusds 32(%%rax), %%ymm3, %%ymm2"),
    YMM("avx_vnni", vpdpwssd, 8, 29, false, "%{vex%} vpdpwssd -12(%%r13), %%ymm3, %%ymm2"),
    YMM("avx_vnni", vpdpwssd, 8, 40, false, "%{vex%} vpdpwssd (%%r8,%%r9,2), %%ymm3, %%ymm2"),
    YMM("avx_vnni", vpdpwssds, 8, 20, false,
        "%{vex%} vpdpwssds instructions_test_memory+80(%%rip), %%ymm3, %%ymm2"),
};

// Returns the expected destination. It is 0 after the words of the operands.
Vector expected(const Form &form, const Operands &operands) {
  Vector b = operands.second, result = {};
  if (form.offset != no_memory) {
    const Word *const memory = &instructions_test_memory[0].words[0] + form.offset;
    for (unsigned e = 0; e < form.words; ++e) b.words[e] = memory[form.broadcast ? 0 : e];
  }
  for (unsigned e = 0; e < form.words; ++e) {
    const Word before = operands.destination.words[e];
    const bool kept = form.masking == Masking::none || (operands.mask >> e & 1);
    result.words[e] = kept ? element_of(form.operation, before, operands.first.words[e], b.words[e])
                      : form.masking == Masking::merging ? before
                                                         : 0;
  }
  return result;
}

void fill(Vector &vector, std::mt19937 &random) {
  for (Word &word : vector.words) word = static_cast<Word>(random());
}

void run(const Form &form, Code *code, bool marked, Report &report) {
  static std::string what;
  what = form.text + std::string(marked ? ", marked" : "");
  std::erase(what, '%');
  report.begin(what.c_str());
  std::mt19937 random(1);
  Executed executed = Executed::not_at_all;
  for (int trial = 0; trial < 20; ++trial) {
    Operands operands;
    fill(operands.destination, random);
    fill(operands.first, random);
    fill(operands.second, random);
    operands.mask = static_cast<Word>(random());
    for (Vector &vector : instructions_test_memory) fill(vector, random);
    const Vector wanted = expected(form, operands);
    executed = attempt([&] { code(operands); });
    if (executed == Executed::not_at_all) break;
    for (unsigned e = 0; e < form.stored_words; ++e) {
      const Word found = operands.destination.words[e];
      report.compare(wanted.words[e] == found, wanted.words[e], found);
    }
  }
  report.end(executed, form.feature, marked);
}

// multiply_in_initial_state() is a signal handler, so all registers begin in their initial state. The masks
// and zmm16 to zmm31 are still in that state at the marked instruction, so the frame of its trap does not
// hold them.
Word initial_state_results[2][16];

void multiply_in_initial_state(int) {
  asm volatile("vmovd %2, %%xmm3\n\tvpbroadcastd %%xmm3, %%zmm3\n\t" MARKED
               "vpdpbusd %%zmm3, %%zmm3, %%zmm18\n\tvmovdqu32 %%zmm18, (%0)\n\t"
               "vmovd %2, %%xmm3\n\t" MARKED
               "vpdpbusd %%ymm19, %%ymm3, %%ymm3%{%%k5%}%{z%}\n\tvmovdqu32 %%zmm3, (%1)\n\t"
               "vzeroupper" ::"r"(initial_state_results[0]),
               "r"(initial_state_results[1]), "r"(0x01010101)
               : "memory", "xmm3");
}

void check_initial_state(Report &report) {
  report.begin("vpdpbusd of registers in their initial state, marked");
  std::memset(initial_state_results, 0xff, sizeof initial_state_results);
  struct sigaction action = {}, before;
  action.sa_handler = multiply_in_initial_state;
  sigaction(SIGUSR1, &action, &before);
  const Executed executed = attempt([] { raise(SIGUSR1); });
  sigaction(SIGUSR1, &before, nullptr);
  for (unsigned e = 0; e < 16 && executed != Executed::not_at_all; ++e) {
    report.compare(initial_state_results[0][e] == 4, 4, initial_state_results[0][e]);
    report.compare(initial_state_results[1][e] == 0, 0, initial_state_results[1][e]);
  }
  report.end(executed, "avx512_vnni", true);
}

// Checks a mask that excludes the elements in an unreadable page.
void check_masked_memory(Report &report) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void *const pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(static_cast<char *>(pages) + page, page, PROT_NONE) != 0) return;
  Word *const last = reinterpret_cast<Word *>(static_cast<char *>(pages) + page) - 4;
  for (unsigned e = 0; e < 4; ++e) last[e] = 0x02020202 * (e + 1);
  Word results[16] = {};
  report.begin("vpdpbusd of masked memory before a guard page, marked");
  const Executed executed = attempt([&] {
    asm volatile(
        "kmovd %2, %%k5\n\tvpbroadcastd %3, %%zmm3\n\tvpbroadcastd %3, %%zmm18\n\t" MARKED
        "vpdpbusd (%1), %%zmm3, %%zmm18%{%%k5%}%{z%}\n\tvmovdqu32 %%zmm18, (%0)\n\tvzeroupper" ::"r"(results),
        "r"(last), "r"(0xf), "r"(0x01010101)
        : "memory", "xmm3");
  });
  for (unsigned e = 0; e < 16 && executed != Executed::not_at_all; ++e) {
    const Word expected = e < 4 ? 0x01010101 + 8 * (e + 1) : 0;
    report.compare(results[e] == expected, expected, results[e]);
  }
  report.end(executed, "avx512_vnni", true);
  munmap(pages, 2 * page);
}

}  // namespace

void check_operands(Report &report) {
  for (const Form &form : forms) {
    run(form, form.code, false, report);
    if (rapt_emulated_instructions) run(form, form.marked, true, report);
  }
  if (!rapt_emulated_instructions) return;
  check_initial_state(report);
  check_masked_memory(report);
}

}  // namespace rapt::emulate
