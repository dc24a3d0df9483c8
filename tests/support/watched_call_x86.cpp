// Implements the control words and the upper halves of vector registers in WatchedCall, for all of x86-64.
#include <cpuid.h>

#include "support/fp_state.hpp"
#include "support/watched_call_abi.hpp"

extern "C" {
void rapt_test_do_nothing();
void rapt_test_use_upper_ymm();
void rapt_test_use_upper_zmm();
void rapt_test_change_first();
void rapt_test_change_last();
void rapt_test_change_control();
void rapt_test_change_direction();
void rapt_test_change_x87();
}

// These functions use no memory below the stack pointer, because Windows has no red zone.
__asm__(R"(
.text
.globl rapt_test_do_nothing, rapt_test_use_upper_ymm, rapt_test_use_upper_zmm
.globl rapt_test_change_first, rapt_test_change_last, rapt_test_change_control
.globl rapt_test_change_direction, rapt_test_change_x87
rapt_test_do_nothing:
  ret
rapt_test_use_upper_ymm:
  vpcmpeqd %ymm7, %ymm7, %ymm7
  ret
rapt_test_use_upper_zmm:
  vpternlogd $255, %zmm7, %zmm7, %zmm7
  ret
rapt_test_change_first:
  incq %rbx
  ret
rapt_test_change_last:
  incq %r15
  ret
rapt_test_change_control:
  subq $8, %rsp
  stmxcsr (%rsp)
  xorl $0x2000, (%rsp)
  ldmxcsr (%rsp)
  addq $8, %rsp
  ret
rapt_test_change_direction:
  std
  ret
rapt_test_change_x87:
  subq $8, %rsp
  fnstcw (%rsp)
  xorw $0x0400, (%rsp)
  fldcw (%rsp)
  addq $8, %rsp
  ret
)");

namespace rapt::test {
namespace {

std::uint16_t read_x87_control() {
  std::uint16_t control;
  __asm__ volatile("fnstcw %0" : "=m"(control));
  return control;
}
void write_x87_control(std::uint16_t control) { __asm__ volatile("fldcw %0" : : "m"(control)); }

// In XCR0 and XINUSE, these bits represent the upper halves of ymm0 to ymm15, and of zmm0 to zmm15.
constexpr std::uint64_t upper_ymm = 1u << 2, upper_zmm = 1u << 6;

std::uint64_t enabled_state() {
  std::uint32_t eax, edx;
  __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return eax;
}

bool uses_upper_halves(void (*function)()) {
  WatchedCall call(false);
  call.watch_upper_halves();
  call(function);
  return call.upper_halves_in_use();
}

}  // namespace

void WatchedCall::run() {
  prepare();
  const std::uint64_t own_sse = read_fp_control();
  const std::uint16_t own_x87 = read_x87_control();
  const std::uint64_t sse = foreign_control_ ? own_sse ^ (1u << 15 | 2u << 13) : own_sse;  // FTZ, round up
  const auto x87 = static_cast<std::uint16_t>(foreign_control_ ? own_x87 ^ 0x0100 : own_x87);  // 53 bits
  write_fp_control(sse);
  write_x87_control(x87);
  rapt_test_watched_call(&frame_);
  const std::uint64_t sse_after = read_fp_control();
  const std::uint16_t x87_after = read_x87_control();
  write_fp_control(own_sse);
  write_x87_control(own_x87);
  control_changed_.clear();
  if (sse_after != sse) append_name(control_changed_, "MXCSR");
  if (x87_after != x87) append_name(control_changed_, "x87 control word");
  constexpr std::uint64_t direction = 1u << 10;
  if (frame_.flags & direction) append_name(control_changed_, "direction flag");
}

bool WatchedCall::upper_halves_in_use() const { return (frame_.state_in_use & (upper_ymm | upper_zmm)) != 0; }

std::string why_upper_halves_are_unknown() {
  std::uint32_t eax, ebx, ecx, edx;
  constexpr std::uint32_t osxsave = 1u << 27, xgetbv_of_1 = 1u << 2;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & osxsave)) return "the system enables no AVX";
  if (!__get_cpuid_count(13, 1, &eax, &ebx, &ecx, &edx) || !(eax & xgetbv_of_1)) {
    return "this CPU has no XGETBV with ECX=1";
  }
  if (!(enabled_state() & upper_ymm)) return "the system enables no AVX";
  if (uses_upper_halves(rapt_test_do_nothing)) return "XGETBV shows them in use after VZEROUPPER";
  if (!uses_upper_halves(rapt_test_use_upper_ymm)) return "XGETBV does not show a YMM register in use";
  if ((enabled_state() & upper_zmm) && !uses_upper_halves(rapt_test_use_upper_zmm)) {
    return "XGETBV does not show a ZMM register in use";
  }
  return "";
}

std::vector<std::pair<std::string, void (*)()>> misbehaving_functions_of_x86() {
  return {{"rbx", rapt_test_change_first},
          {"r15", rapt_test_change_last},
          {"MXCSR", rapt_test_change_control},
          {"direction flag", rapt_test_change_direction},
          {"x87 control word", rapt_test_change_x87}};
}

}  // namespace rapt::test
