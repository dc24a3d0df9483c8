// More than 300 lines, as the trampolines of both processors stand beside what reads their frames.
#include "support/watched_call.hpp"

#include <iterator>

#include "support/fp_state.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace rapt::test {
namespace {

void append(std::string &list, const std::string &name) {
  if (!list.empty()) list += ", ";
  list += name;
}

}  // namespace

#if defined(__x86_64__) || defined(__aarch64__)

extern "C" {
void rapt_test_watched_call(CallFrame *frame);
void rapt_test_do_nothing();
void rapt_test_use_upper_ymm();
void rapt_test_use_upper_zmm();
void rapt_test_change_first();
void rapt_test_change_last();
void rapt_test_change_control();
#if defined(__x86_64__)
void rapt_test_change_direction();
void rapt_test_change_x87();
#endif
}

#if defined(__x86_64__)

// vzeroupper and xgetbv run only if the frame asks for them.
__asm__(R"(
.text
.globl rapt_test_watched_call
.type rapt_test_watched_call, @function
rapt_test_watched_call:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  pushq %rdi
  movq %rdi, %r11
  pushq 64(%r11)
  pushq 56(%r11)
  cmpq $0, 88(%r11)
  je 1f
  vzeroupper
1:
  movsd 72(%r11), %xmm0
  movsd 80(%r11), %xmm1
  movq 8(%r11), %rdi
  movq 16(%r11), %rsi
  movq 24(%r11), %rdx
  movq 32(%r11), %rcx
  movq 40(%r11), %r8
  movq 48(%r11), %r9
  movq 128(%r11), %rbx
  movq 136(%r11), %rbp
  movq 144(%r11), %r12
  movq 152(%r11), %r13
  movq 160(%r11), %r14
  movq 168(%r11), %r15
  call *(%r11)
  addq $16, %rsp
  popq %r11
  pushfq
  popq 112(%r11)
  cld
  movq %rax, 96(%r11)
  movq %rbx, 288(%r11)
  movq %rbp, 296(%r11)
  movq %r12, 304(%r11)
  movq %r13, 312(%r11)
  movq %r14, 320(%r11)
  movq %r15, 328(%r11)
  cmpq $0, 88(%r11)
  je 2f
  movl $1, %ecx
  xgetbv
  movl %eax, 120(%r11)
  vzeroupper
2:
  movsd %xmm0, 104(%r11)
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size rapt_test_watched_call, . - rapt_test_watched_call

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
  stmxcsr -8(%rsp)
  xorl $0x2000, -8(%rsp)
  ldmxcsr -8(%rsp)
  ret
rapt_test_change_direction:
  std
  ret
rapt_test_change_x87:
  fnstcw -8(%rsp)
  xorw $0x0400, -8(%rsp)
  fldcw -8(%rsp)
  ret
)");

namespace {

constexpr const char *register_names[] = {"rbx", "rbp", "r12", "r13", "r14", "r15"};

std::uint16_t read_x87_control() {
  std::uint16_t control;
  __asm__ volatile("fnstcw %0" : "=m"(control));
  return control;
}
void write_x87_control(std::uint16_t control) { __asm__ volatile("fldcw %0" : : "m"(control)); }

// Bits of XCR0 and of XINUSE: the upper halves of ymm0 to 15, and of zmm0 to 15.
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
  for (std::size_t i = 0; i < std::size(register_names); ++i) {
    frame_.before[i] = 0xa5c3f00d00000000u + 0x0101010101010101u * i;
  }
  const std::uint64_t own_sse = read_fp_control();
  const std::uint16_t own_x87 = read_x87_control();
  const std::uint64_t sse = foreign_control_ ? own_sse ^ (1u << 15 | 2u << 13) : own_sse;  // FTZ, rounds up
  const auto x87 = static_cast<std::uint16_t>(foreign_control_ ? own_x87 ^ 0x0100 : own_x87);  // 53 bits
  write_fp_control(sse);
  write_x87_control(x87);
  rapt_test_watched_call(&frame_);
  const std::uint64_t sse_after = read_fp_control();
  const std::uint16_t x87_after = read_x87_control();
  write_fp_control(own_sse);
  write_x87_control(own_x87);
  control_changed_.clear();
  if (sse_after != sse) append(control_changed_, "MXCSR");
  if (x87_after != x87) append(control_changed_, "x87 control word");
  constexpr std::uint64_t direction = 1u << 10;
  if (frame_.flags & direction) append(control_changed_, "direction flag");
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

std::vector<std::pair<std::string, void (*)()>> misbehaving_functions() {
  return {{"rbx", rapt_test_change_first},
          {"r15", rapt_test_change_last},
          {"MXCSR", rapt_test_change_control},
          {"direction flag", rapt_test_change_direction},
          {"x87 control word", rapt_test_change_x87}};
}

#else  // AArch64

// before[] and after[]: x19 to x28, then d8 to d15, then how far the stack pointer moved.
__asm__(R"(
.text
.globl rapt_test_watched_call
.type rapt_test_watched_call, %function
rapt_test_watched_call:
  stp x29, x30, [sp, #-176]!
  mov x29, sp
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  str x0, [sp, #160]
  mov x9, x0
  ldr x17, [x9]
  ldp d0, d1, [x9, #72]
  ldp x19, x20, [x9, #128]
  ldp x21, x22, [x9, #144]
  ldp x23, x24, [x9, #160]
  ldp x25, x26, [x9, #176]
  ldp x27, x28, [x9, #192]
  ldp d8, d9, [x9, #208]
  ldp d10, d11, [x9, #224]
  ldp d12, d13, [x9, #240]
  ldp d14, d15, [x9, #256]
  ldp x0, x1, [x9, #8]
  ldp x2, x3, [x9, #24]
  ldp x4, x5, [x9, #40]
  ldp x6, x7, [x9, #56]
  blr x17
  ldr x9, [x29, #160]
  str x0, [x9, #96]
  str d0, [x9, #104]
  stp x19, x20, [x9, #288]
  stp x21, x22, [x9, #304]
  stp x23, x24, [x9, #320]
  stp x25, x26, [x9, #336]
  stp x27, x28, [x9, #352]
  stp d8, d9, [x9, #368]
  stp d10, d11, [x9, #384]
  stp d12, d13, [x9, #400]
  stp d14, d15, [x9, #416]
  mov x10, sp
  sub x10, x29, x10
  str x10, [x9, #432]
  mov sp, x29
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #176
  ret
.size rapt_test_watched_call, . - rapt_test_watched_call

.globl rapt_test_change_first, rapt_test_change_last, rapt_test_change_control
rapt_test_change_first:
  add x19, x19, #1
  ret
rapt_test_change_last:
  fmov d15, xzr
  ret
rapt_test_change_control:
  mrs x9, fpcr
  eor x9, x9, #0x400000
  msr fpcr, x9
  ret
)");

namespace {

constexpr const char *register_names[] = {"x19", "x20", "x21", "x22", "x23", "x24", "x25",
                                          "x26", "x27", "x28", "d8",  "d9",  "d10", "d11",
                                          "d12", "d13", "d14", "d15", "sp"};

}  // namespace

void WatchedCall::run() {
  for (std::size_t i = 0; i + 1 < std::size(register_names); ++i) {
    frame_.before[i] = 0xa5c3f00d00000000u + 0x0101010101010101u * i;
  }
  const std::uint64_t own = read_fp_control();
  const std::uint64_t control = foreign_control_ ? own ^ (1u << 24 | 1u << 22) : own;  // FZ, rounds up
  write_fp_control(control);
  rapt_test_watched_call(&frame_);
  const std::uint64_t after = read_fp_control();
  write_fp_control(own);
  control_changed_ = after == control ? "" : "FPCR";
}

bool WatchedCall::upper_halves_in_use() const { return false; }
std::string why_upper_halves_are_unknown() { return "this processor's vector registers have none"; }

std::vector<std::pair<std::string, void (*)()>> misbehaving_functions() {
  return {
      {"x19", rapt_test_change_first}, {"d15", rapt_test_change_last}, {"FPCR", rapt_test_change_control}};
}

#endif

std::string WatchedCall::changed() const {
  std::string list = control_changed_;
  for (std::size_t i = 0; i < std::size(register_names); ++i) {
    if (frame_.after[i] != frame_.before[i]) append(list, register_names[i]);
  }
  return list;
}

#endif

}  // namespace rapt::test
