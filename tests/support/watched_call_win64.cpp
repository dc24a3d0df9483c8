// Implements the trampoline of WatchedCall for x86-64 Windows.
#include "support/watched_call_abi.hpp"

extern "C" {
void rapt_test_change_rdi();
void rapt_test_change_xmm6();
void rapt_test_change_upper_xmm15();
}

// From rsp upwards, the stack holds 32 bytes for the callee, the fifth to tenth argument, xmm6 to xmm15, and
// the address of the frame. The first four arguments go into both an integer and a vector register, because
// the function reads one of the two.
__asm__(R"(
.text
.globl rapt_test_watched_call
rapt_test_watched_call:
  pushq %rbp
  pushq %rbx
  pushq %rdi
  pushq %rsi
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $248, %rsp
  movups %xmm6, 80(%rsp)
  movups %xmm7, 96(%rsp)
  movups %xmm8, 112(%rsp)
  movups %xmm9, 128(%rsp)
  movups %xmm10, 144(%rsp)
  movups %xmm11, 160(%rsp)
  movups %xmm12, 176(%rsp)
  movups %xmm13, 192(%rsp)
  movups %xmm14, 208(%rsp)
  movups %xmm15, 224(%rsp)
  movq %rcx, 240(%rsp)
  movq %rcx, %r11
  movq 40(%r11), %rax
  movq %rax, 32(%rsp)
  movq 48(%r11), %rax
  movq %rax, 40(%rsp)
  movq 56(%r11), %rax
  movq %rax, 48(%rsp)
  movq 64(%r11), %rax
  movq %rax, 56(%rsp)
  movq 72(%r11), %rax
  movq %rax, 64(%rsp)
  movq 80(%r11), %rax
  movq %rax, 72(%rsp)
  cmpq $0, 88(%r11)
  je 1f
  vzeroupper
1:
  movq 128(%r11), %rbx
  movq 136(%r11), %rbp
  movq 144(%r11), %rdi
  movq 152(%r11), %rsi
  movq 160(%r11), %r12
  movq 168(%r11), %r13
  movq 176(%r11), %r14
  movq 184(%r11), %r15
  movups 192(%r11), %xmm6
  movups 208(%r11), %xmm7
  movups 224(%r11), %xmm8
  movups 240(%r11), %xmm9
  movups 256(%r11), %xmm10
  movups 272(%r11), %xmm11
  movups 288(%r11), %xmm12
  movups 304(%r11), %xmm13
  movups 320(%r11), %xmm14
  movups 336(%r11), %xmm15
  movq 8(%r11), %rcx
  movq %rcx, %xmm0
  movq 16(%r11), %rdx
  movq %rdx, %xmm1
  movq 24(%r11), %r8
  movq %r8, %xmm2
  movq 32(%r11), %r9
  movq %r9, %xmm3
  call *(%r11)
  movq 240(%rsp), %r11
  pushfq
  popq 112(%r11)
  cld
  movq %rax, 96(%r11)
  movq %rbx, 352(%r11)
  movq %rbp, 360(%r11)
  movq %rdi, 368(%r11)
  movq %rsi, 376(%r11)
  movq %r12, 384(%r11)
  movq %r13, 392(%r11)
  movq %r14, 400(%r11)
  movq %r15, 408(%r11)
  movups %xmm6, 416(%r11)
  movups %xmm7, 432(%r11)
  movups %xmm8, 448(%r11)
  movups %xmm9, 464(%r11)
  movups %xmm10, 480(%r11)
  movups %xmm11, 496(%r11)
  movups %xmm12, 512(%r11)
  movups %xmm13, 528(%r11)
  movups %xmm14, 544(%r11)
  movups %xmm15, 560(%r11)
  cmpq $0, 88(%r11)
  je 2f
  movl $1, %ecx
  xgetbv
  movl %eax, 120(%r11)
  vzeroupper
2:
  movsd %xmm0, 104(%r11)
  movups 80(%rsp), %xmm6
  movups 96(%rsp), %xmm7
  movups 112(%rsp), %xmm8
  movups 128(%rsp), %xmm9
  movups 144(%rsp), %xmm10
  movups 160(%rsp), %xmm11
  movups 176(%rsp), %xmm12
  movups 192(%rsp), %xmm13
  movups 208(%rsp), %xmm14
  movups 224(%rsp), %xmm15
  addq $248, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rsi
  popq %rdi
  popq %rbx
  popq %rbp
  ret

.globl rapt_test_change_rdi, rapt_test_change_xmm6, rapt_test_change_upper_xmm15
rapt_test_change_rdi:
  incq %rdi
  ret
rapt_test_change_xmm6:
  xorps %xmm6, %xmm6
  ret
rapt_test_change_upper_xmm15:
  unpcklpd %xmm15, %xmm15
  ret
)");

namespace rapt::test {

std::span<const char *const> preserved_words() {
  static constexpr const char *names[] = {"rbx",   "rbp",
                                          "rdi",   "rsi",
                                          "r12",   "r13",
                                          "r14",   "r15",
                                          "xmm6",  "xmm6's upper half",
                                          "xmm7",  "xmm7's upper half",
                                          "xmm8",  "xmm8's upper half",
                                          "xmm9",  "xmm9's upper half",
                                          "xmm10", "xmm10's upper half",
                                          "xmm11", "xmm11's upper half",
                                          "xmm12", "xmm12's upper half",
                                          "xmm13", "xmm13's upper half",
                                          "xmm14", "xmm14's upper half",
                                          "xmm15", "xmm15's upper half"};
  return names;
}

void place_arguments(std::span<const Argument> arguments, CallFrame &frame) {
  for (std::size_t i = 0; i < arguments.size(); ++i) frame.arguments[i] = arguments[i].bits;
}

std::vector<std::pair<std::string, void (*)()>> misbehaving_functions() {
  auto functions = misbehaving_functions_of_x86();
  functions.emplace_back("rdi", rapt_test_change_rdi);
  functions.emplace_back("xmm6", rapt_test_change_xmm6);
  functions.emplace_back("xmm15's upper half", rapt_test_change_upper_xmm15);
  return functions;
}

}  // namespace rapt::test
