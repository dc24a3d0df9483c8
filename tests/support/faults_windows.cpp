#include <windows.h>
// <malloc.h> must come after <windows.h>, whose declarations it uses.
#include <malloc.h>
#include <signal.h>
#include <string.h>

#include "support/faults.hpp"

namespace rapt::test {
namespace {

struct Recovery {
  CONTEXT here;
  Fault *fault;
  volatile DWORD code;  // 0 until a fault happens
};

thread_local Recovery *volatile recovery = nullptr;
Describe describe_what_runs = nullptr;

// Returns null for exceptions that are not faults, such as C++ exceptions and debugger messages.
const char *name_of_exception(DWORD code) {
  switch (code) {
    case EXCEPTION_ACCESS_VIOLATION:
      return "access violation";
    case EXCEPTION_IN_PAGE_ERROR:
      return "in-page error";
    case EXCEPTION_DATATYPE_MISALIGNMENT:
      return "datatype misalignment";
    case EXCEPTION_STACK_OVERFLOW:
      return "stack overflow";
    case EXCEPTION_ILLEGAL_INSTRUCTION:
      return "illegal instruction";
    case EXCEPTION_PRIV_INSTRUCTION:
      return "privileged instruction";
    case EXCEPTION_BREAKPOINT:
      return "breakpoint";
    case EXCEPTION_INT_DIVIDE_BY_ZERO:
    case EXCEPTION_INT_OVERFLOW:
      return "integer division";
    case EXCEPTION_FLT_DENORMAL_OPERAND:
    case EXCEPTION_FLT_DIVIDE_BY_ZERO:
    case EXCEPTION_FLT_INEXACT_RESULT:
    case EXCEPTION_FLT_INVALID_OPERATION:
    case EXCEPTION_FLT_OVERFLOW:
    case EXCEPTION_FLT_UNDERFLOW:
      return "floating-point exception";
    default:
      return nullptr;
  }
}

void print(const char *text) {
  DWORD written;
  WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), text, static_cast<DWORD>(strlen(text)), &written, nullptr);
}

[[noreturn]] void end_program(const char *name) {
  char text[1024];
  describe_what_runs(text, sizeof text);
  print("\nFAIL: ");
  print(name);
  print(" in ");
  print(text);
  print("\n");
  TerminateProcess(GetCurrentProcess(), 1);
  for (;;) {
  }
}

const void *address_of(const EXCEPTION_RECORD &record) {
  const bool of_memory =
      record.ExceptionCode == EXCEPTION_ACCESS_VIOLATION || record.ExceptionCode == EXCEPTION_IN_PAGE_ERROR;
  return of_memory ? reinterpret_cast<const void *>(record.ExceptionInformation[1]) : record.ExceptionAddress;
}

LONG CALLBACK on_exception(EXCEPTION_POINTERS *exception) {
  const EXCEPTION_RECORD &record = *exception->ExceptionRecord;
  const DWORD code = record.ExceptionCode;
  const char *const name = name_of_exception(code);
  if (name == nullptr) return EXCEPTION_CONTINUE_SEARCH;
  Recovery *const target = recovery;
  if (target == nullptr) end_program(name);
  recovery = nullptr;
  target->code = code;
  *target->fault = {name, address_of(record), code == EXCEPTION_ILLEGAL_INSTRUCTION};
  *exception->ContextRecord = target->here;  // longjmp would unwind the frames in between
  return EXCEPTION_CONTINUE_EXECUTION;
}

void on_abort(int) { end_program("abort"); }

}  // namespace

void catch_faults(Describe describe) {
  describe_what_runs = describe;
  signal(SIGABRT, on_abort);
  static void *handler = nullptr;
  if (handler != nullptr) return;
  ULONG kept = 1 << 16;  // bytes of the stack that the handler of a stack overflow needs
  SetThreadStackGuarantee(&kept);
  handler = AddVectoredExceptionHandler(1, on_exception);
}

// This frame exists until body() has ended, so the handler can continue in it. After RtlCaptureContext(),
// only `code` may change in the frame.
__attribute__((noinline)) bool survives(void (*body)(void *), void *context, Fault &fault) {
  Recovery own;
  own.fault = &fault;
  own.code = 0;
  RtlCaptureContext(&own.here);  // returns a second time after a fault
  if (own.code != 0) {
    if (own.code == EXCEPTION_STACK_OVERFLOW) _resetstkoflw();
    return false;
  }
  recovery = &own;
  body(context);
  recovery = nullptr;
  return true;
}

}  // namespace rapt::test
