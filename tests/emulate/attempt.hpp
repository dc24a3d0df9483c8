// Runs code whose instructions the CPU may lack, and finds out whether the CPU or the emulator executed it.
#pragma once

#include <setjmp.h>
#include <signal.h>

// The preloaded emulator defines this function. Without the emulator, its address is null.
extern "C" [[gnu::weak]] unsigned long rapt_emulated_instructions();

namespace rapt::emulate {

enum class Executed { not_at_all, natively, emulated };

inline const char *name_of(Executed executed) {
  static constexpr const char *names[] = {"not run", "native", "emulated"};
  return names[static_cast<int>(executed)];
}

inline unsigned long emulated_so_far() {
  return rapt_emulated_instructions ? rapt_emulated_instructions() : 0;
}

inline sigjmp_buf illegal_instruction;

template <class Code>
Executed attempt(Code &&code) {
  struct sigaction action = {}, before;
  action.sa_handler = [](int) { siglongjmp(illegal_instruction, 1); };
  sigaction(SIGILL, &action, &before);
  const volatile unsigned long emulated = emulated_so_far();
  volatile bool ran = false;
  if (sigsetjmp(illegal_instruction, 1) == 0) {
    code();
    ran = true;
  }
  sigaction(SIGILL, &before, nullptr);
  if (!ran) return Executed::not_at_all;
  return emulated_so_far() == emulated ? Executed::natively : Executed::emulated;
}

}  // namespace rapt::emulate
