#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "support/faults.hpp"

namespace rapt::test {
namespace {

constexpr int fault_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};

struct Recovery {
  sigjmp_buf here;
  Fault *fault;
};

thread_local Recovery *volatile recovery = nullptr;
Describe describe_what_runs = nullptr;

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

// Uses write(), because a signal handler may call only async-signal-safe functions.
void print(const char *text) {
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(1);
}

// Returns whether a user or another process sent the signal. Such a signal does not come from the interrupted
// code.
bool is_from_outside(int number, const siginfo_t &info) {
  const bool sent = info.si_code <= 0 || info.si_code == SI_USER || info.si_code == SI_QUEUE;
  return sent && !(number == SIGABRT && info.si_pid == getpid());  // abort() sends its signal itself
}

void on_fault(int signal, siginfo_t *info, void *) {
  if (is_from_outside(signal, *info)) {
    ::signal(signal, SIG_DFL);
    raise(signal);
  }
  if (recovery != nullptr && signal != SIGABRT) {
    Recovery *const target = recovery;
    recovery = nullptr;
    *target->fault = {name_of_signal(signal), info->si_addr, signal == SIGILL};
    siglongjmp(target->here, 1);
  }
  char text[1024];
  describe_what_runs(text, sizeof text);
  print("\nFAIL: ");
  print(name_of_signal(signal));
  print(" in ");
  print(text);
  print("\n");
  _exit(1);
}

}  // namespace

void catch_faults(Describe describe) {
  describe_what_runs = describe;
  // The handler needs its own stack, because the fault may be a stack overflow.
  static char stack[1 << 16];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (const int signal : fault_signals) sigaction(signal, &action, nullptr);
  sigaction(SIGABRT, &action, nullptr);
}

// No local variable may change between sigsetjmp() and siglongjmp(), because the change would be lost.
__attribute__((noinline)) bool survives(void (*body)(void *), void *context, Fault &fault) {
  Recovery own;
  own.fault = &fault;
  if (sigsetjmp(own.here, 0) != 0) return false;
  recovery = &own;
  body(context);
  recovery = nullptr;
  return true;
}

}  // namespace rapt::test
