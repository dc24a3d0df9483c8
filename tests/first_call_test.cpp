// Tests the first call of a process. Several threads make it at once, or a signal handler or a forked child
// calls while another first call is in progress. Each case is a separate process, because a process has only
// one first call.
//
// The library reads RAPT_ISA in the middle of a first call. The getenv() of this program lets the tests act
// at that moment.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "rapt/rapt.h"

extern "C" char **environ;

namespace {

void (*in_the_midst)() = nullptr;

const char *value_of(const char *name) {
  const std::size_t length = std::strlen(name);
  for (char **entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  }
  return nullptr;
}

// Calls functions of several kinds, because each kind must find its kernels if it is called first.
bool calls_are_right() {
  const float x[4] = {1, 2, 3, 4};
  float y[4];
  const std::int8_t bytes[3] = {1, -2, 3};
  rapt_scale_f32(x, 2, y, 4);
  const bool right = rapt_dot_f32(x, x, 4) == 30 && y[3] == 8 && rapt_dot_i8(bytes, bytes, 3) == 14;
  return right && rapt_kernel_isa("dot_f32") != nullptr && rapt_isa_usable("scalar") == 1;
}

void require(bool right, const char *what) {
  if (right) return;
  std::fprintf(stderr, "%s\n", what);
  _exit(1);
}

// QEMU 7.2 misaligns the stack of a signal handler if the emulated CPU has AMX.
#if defined(__x86_64__)
[[gnu::force_align_arg_pointer]]
#endif
void call_in_a_handler(int) {
  require(calls_are_right(), "a call in a handler is wrong");
}

void first_call_in_a_handler() {
  struct sigaction action = {};
  action.sa_handler = call_in_a_handler;
  sigaction(SIGUSR1, &action, nullptr);
  in_the_midst = [] { raise(SIGUSR1); };
  require(calls_are_right(), "the interrupted call is wrong");
}

void first_call_in_a_forked_child() {
  in_the_midst = [] {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(calls_are_right() && rapt_force_isa("scalar") == RAPT_OK && calls_are_right() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    require(status == 0, "a child forked in the midst of a first call does not run");
  };
  require(calls_are_right(), "the call that forked is wrong");
}

void first_call_of_another_thread() {
  in_the_midst = [] {
    std::thread([] { require(calls_are_right(), "a thread's first call is wrong"); }).join();
  };
  require(calls_are_right(), "the first call that waited for a thread is wrong");
}

// If another thread forces a level during the first call, the level stays active. If RAPT_ISA changes during
// the first call, the change has no effect.
void level_forced_meanwhile() {
  in_the_midst = [] {
    require(rapt_force_isa("scalar") == RAPT_OK, "scalar cannot be forced");
    setenv("RAPT_ISA", "bogus", 1);
  };
  require(calls_are_right(), "the first call is wrong");
  require(std::strcmp(rapt_active_isa(), "scalar") == 0, "the first call took back a forced level");
  require(rapt_isa_status() == RAPT_OK, "the environment was read twice");
}

// In each repetition, the other thread calls at a different moment of the first call. A first call takes one
// to a hundred microseconds, and longer if a hypervisor emulates cpuid.
int repetition = 0;
void first_calls_of_two_threads_at_once() {
  std::atomic<int> waiting{2};
  const auto call = [&](std::chrono::nanoseconds delay) {
    for (--waiting; waiting != 0;) {
    }
    const auto begin = std::chrono::steady_clock::now() + delay;
    while (std::chrono::steady_clock::now() < begin) {
    }
    for (int i = 0; i < 3; ++i) require(calls_are_right(), "one of two first calls is wrong");
  };
  std::thread other(
      [&] { call(std::chrono::nanoseconds(static_cast<long>(20 * std::pow(1.022, repetition)))); });
  call(std::chrono::nanoseconds(0));
  other.join();
}

// Any of these functions may be the first call.
void first_calls_that_ask() {
  require(rapt_isa_status() == RAPT_OK, "rapt_isa_status");
  require(std::strlen(rapt_status_text(RAPT_BAD_ISA_FOR_THIS_CPU)) > 60, "rapt_status_text");
  require(rapt_force_isa(nullptr) == RAPT_OK, "rapt_force_isa");
  require(calls_are_right(), "calls after questions are wrong");
}

bool passes(void (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // ends a call that waits forever
    unsetenv("RAPT_ISA");
    body();
    require(in_the_midst == nullptr, "the first call did not read RAPT_ISA");
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace

extern "C" char *getenv(const char *name) noexcept {
  if (in_the_midst != nullptr && std::strcmp(name, "RAPT_ISA") == 0) {
    void (*const now)() = in_the_midst;
    in_the_midst = nullptr;
    now();
  }
  return const_cast<char *>(value_of(name));
}

int main() {
  struct Case {
    const char *name;
    void (*body)();
    int times = 1;
  };
  const Case cases[] = {{"in a signal's handler", first_call_in_a_handler},
                        {"in a forked child", first_call_in_a_forked_child},
                        {"of another thread", first_call_of_another_thread},
                        {"while a level is forced", level_forced_meanwhile},
                        {"by questions", first_calls_that_ask},
                        {"of two threads at once", first_calls_of_two_threads_at_once, 400}};
  bool failed = false;
  for (const Case &of : cases) {
    bool passed = true;
    for (repetition = 0; repetition < of.times && passed; ++repetition) passed = passes(of.body);
    std::printf("first call %s: %s\n", of.name, passed ? "passed" : "FAILED");
    std::fflush(stdout);
    failed |= !passed;
  }
  return failed;
}
