#include "validate/crash.hpp"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "support/fp_state.hpp"

namespace rapt::validate {
namespace {

constexpr int crash_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};

thread_local sigjmp_buf *volatile recovery = nullptr;
volatile sig_atomic_t caught_signal;
void *volatile caught_address;
std::size_t survived = 0;
char running[1024] = "";

const char *name_of_signal(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGILL:
      return "SIGILL";
    case SIGFPE:
      return "SIGFPE";
    case SIGTRAP:
      return "SIGTRAP";
    default:
      return "SIGABRT";
  }
}

// Only write(): a handler may call little else.
void print(const char *text) {
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(1);
}

void on_crash(int signal, siginfo_t *info, void *) {
  if (recovery != nullptr && signal != SIGABRT) {
    sigjmp_buf *const target = recovery;
    recovery = nullptr;
    caught_signal = signal;
    caught_address = info->si_addr;
    siglongjmp(*target, 1);
  }
  print("\nFAIL: ");
  print(name_of_signal(signal));
  print(" in ");
  print(running);
  print("\n");
  _exit(1);
}

// Only the call stands between setting the jump and taking it, so that no local variable is lost.
__attribute__((noinline)) bool survives(const test::KernelCase &kernel, const test::Problem &problem,
                                        const test::Layout &layout, test::Outcome *outcome) {
  sigjmp_buf here;
  if (sigsetjmp(here, 0) != 0) return false;
  recovery = &here;
  *outcome = kernel.run(problem, layout);
  recovery = nullptr;
  return true;
}

}  // namespace

void catch_crashes() {
  // A separate stack, as the crash may be a stack overflow.
  static char stack[1 << 16];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (const int signal : crash_signals) sigaction(signal, &action, nullptr);
  sigaction(SIGABRT, &action, nullptr);
}

test::Outcome run_caught(const test::KernelCase &kernel, const test::Problem &problem,
                         const test::Layout &layout) {
  const std::uint64_t control = test::read_fp_control();
  test::Outcome outcome;
  if (survives(kernel, problem, layout, &outcome)) return outcome;
  test::write_fp_control(control);
  survived += 1;
  char text[96];
  const int signal = static_cast<int>(caught_signal);
  const char *meaning =
      signal == SIGILL ? " (an instruction that this CPU or its system does not have) at" : " at";
  std::snprintf(text, sizeof text, "crashed: %s%s %p", name_of_signal(signal), meaning, caught_address);
  test::Outcome crashed;
  crashed.fault = text;
  return crashed;
}

std::size_t crashes_survived() { return survived; }

void note_running(const std::string &what) {
  const std::size_t length = what.copy(running, sizeof running - 1);
  running[length] = '\0';
}

}  // namespace rapt::validate
