#include "validate/crash.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "support/faults.hpp"
#include "support/fp_state.hpp"

namespace rapt::validate {
namespace {

std::size_t survived = 0;
char running[1024] = "";

struct Call {
  const test::KernelCase &kernel;
  const test::Problem &problem;
  const test::Layout &layout;
  test::Outcome outcome;

  static void run(void *at) {
    Call &call = *static_cast<Call *>(at);
    call.outcome = call.kernel.run(call.problem, call.layout);
  }
};

}  // namespace

void catch_crashes() {
  test::catch_faults([](char *text, std::size_t size) {
    std::strncpy(text, running, size - 1);
    text[size - 1] = '\0';
  });
}

test::Outcome run_caught(const test::KernelCase &kernel, const test::Problem &problem,
                         const test::Layout &layout) {
  const std::uint64_t control = test::read_fp_control();
  Call call{kernel, problem, layout, {}};
  test::Fault fault;
  if (test::survives(Call::run, &call, fault)) return std::move(call.outcome);
  test::write_fp_control(control);
  survived += 1;
  char text[160];
  const char *meaning =
      fault.unknown_instruction ? " (an instruction that this CPU or its system does not have) at" : " at";
  std::snprintf(text, sizeof text, "crashed: %s%s %p", fault.name, meaning, fault.address);
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
