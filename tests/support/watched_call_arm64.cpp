// Implements WatchedCall for AArch64.
#include "support/fp_state.hpp"
#include "support/watched_call_abi.hpp"

extern "C" {
void rapt_test_change_first();
void rapt_test_change_last();
void rapt_test_change_control();
}

// CallFrame's `before` and `after` hold x19 to x28, d8 to d15, and how far the call moved sp.
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
  ldp x10, x11, [x9, #72]
  stp x10, x11, [sp, #-16]!
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
  stp x19, x20, [x9, #352]
  stp x21, x22, [x9, #368]
  stp x23, x24, [x9, #384]
  stp x25, x26, [x9, #400]
  stp x27, x28, [x9, #416]
  stp d8, d9, [x9, #432]
  stp d10, d11, [x9, #448]
  stp d12, d13, [x9, #464]
  stp d14, d15, [x9, #480]
  add x10, sp, #16
  sub x10, x29, x10
  str x10, [x9, #496]
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

namespace rapt::test {

std::span<const char *const> preserved_words() {
  static constexpr const char *names[] = {"x19", "x20", "x21", "x22", "x23", "x24", "x25",
                                          "x26", "x27", "x28", "d8",  "d9",  "d10", "d11",
                                          "d12", "d13", "d14", "d15", "sp"};
  return names;
}

void place_arguments(std::span<const Argument> arguments, CallFrame &frame) {
  place_by_kind(arguments, frame);
}

void WatchedCall::run() {
  prepare();
  frame_.before[preserved_words().size() - 1] = 0;
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

}  // namespace rapt::test
