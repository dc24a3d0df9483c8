// Implements the trampoline of WatchedCall for x86-64 with the System V calling convention.
#include "support/watched_call_abi.hpp"

// vzeroupper and xgetbv run only if watch_upper_halves (offset 88) is set, because the CPU may lack them.
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
  pushq 80(%r11)
  pushq 72(%r11)
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
  addq $32, %rsp
  popq %r11
  pushfq
  popq 112(%r11)
  cld
  movq %rax, 96(%r11)
  movq %rbx, 352(%r11)
  movq %rbp, 360(%r11)
  movq %r12, 368(%r11)
  movq %r13, 376(%r11)
  movq %r14, 384(%r11)
  movq %r15, 392(%r11)
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
)");

namespace rapt::test {

std::span<const char *const> preserved_words() {
  static constexpr const char *names[] = {"rbx", "rbp", "r12", "r13", "r14", "r15"};
  return names;
}

// The first six integers go into registers, and the last four go onto the stack.
void place_arguments(std::span<const Argument> arguments, CallFrame &frame) {
  place_by_kind(arguments, frame);
}

std::vector<std::pair<std::string, void (*)()>> misbehaving_functions() {
  return misbehaving_functions_of_x86();
}

}  // namespace rapt::test
