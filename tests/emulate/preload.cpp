// Shows a program another CPU, and executes instructions that the real CPU lacks. LD_PRELOAD loads this
// library.
//
//   RAPT_CPU_MODEL=skylake-x     CPUID shows no feature that this model lacks; the program runs at full speed
//   RAPT_EMULATE=amx,avx_vnni    CPUID shows these features too, and the handler of SIGILL executes their
//                                instructions: amx, avx512_vnni, avx_vnni
//   RAPT_REFUSE_TILES=1          the permission to use tile data is refused
//   RAPT_REQUIRE_TILES=1         the exit status is 3 if the program multiplied no tiles here
//
// The cpuid instruction traps (cpuid_trap.hpp). If it cannot trap, and CPUID itself does not show the
// features, the exit status is 77. XGETBV cannot fault, so XCR0 is the CPU's own. If AMX is emulated, this
// library answers requests for tile data as Linux does: tile data trap until they are permitted, which needs
// signal stacks with room for tiles. A CPU with AMX always traps then, because Linux got no request.
//
// This library always executes an instruction after ud1 %eax, %eax. Tests compare its result with the CPU's.
#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cpuid_trap.hpp"
#include "features.hpp"
#include "frame.hpp"
#include "instruction.hpp"
#include "tiles.hpp"
#include "vectors.hpp"

using namespace rapt::emulate;

namespace {

enum ArchPrctl : long { get_supported = 0x1021, get_permitted = 0x1022, request = 0x1023 };
constexpr long tile_data = 18;
constexpr unsigned long tile_components = 0x60000;
constexpr std::size_t signal_stack_with_tiles = 12 * 1024;  // roughly the room that Linux needs
constexpr int cannot = 77, no_tiles = 3;

std::atomic<unsigned long> executed{0}, products_of_tiles{0}, requests_for_tiles{0};
std::atomic<bool> tiles_permitted{false};
struct sigaction program_actions[2];  // the program's own handlers of SIGILL and SIGSEGV
bool installed = false;

struct sigaction *program_action(int signal) {
  if (signal == SIGILL) return &program_actions[0];
  return signal == SIGSEGV ? &program_actions[1] : nullptr;
}

using SigactionFunction = int(int, const struct sigaction *, struct sigaction *);

int real_sigaction(int signal, const struct sigaction *action, struct sigaction *before) {
  static const auto next = reinterpret_cast<SigactionFunction *>(dlsym(RTLD_NEXT, "sigaction"));
  return next(signal, action, before);
}

void hand_on(int signal, siginfo_t *info, void *context) {
  const struct sigaction &action = *program_action(signal);
  if (action.sa_flags & SA_SIGINFO && action.sa_sigaction) {
    action.sa_sigaction(signal, info, context);
  } else if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) {
    action.sa_handler(signal);
  } else {
    struct sigaction as_ever = {};
    as_ever.sa_handler = SIG_DFL;  // the instruction traps again, now in the default way
    real_sigaction(signal, &as_ever, nullptr);
  }
}

using SigaltstackFunction = int(const stack_t *, stack_t *);

int real_sigaltstack(const stack_t *stack, stack_t *before) {
  static const auto next = reinterpret_cast<SigaltstackFunction *>(dlsym(RTLD_NEXT, "sigaltstack"));
  return next(stack, before);
}

bool has_room_for_tiles(const stack_t &stack) {
  return (stack.ss_flags & SS_DISABLE) != 0 || stack.ss_size >= signal_stack_with_tiles;
}

bool has_variable(const char *name) {
  const char *const value = std::getenv(name);
  return value && *value;
}

// Returns the error of a request for tile data, or 0 if it is granted.
int grant_tiles() {
  ++requests_for_tiles;
  if (has_variable("RAPT_REFUSE_TILES")) return EPERM;
  stack_t stack{};
  if (real_sigaltstack(nullptr, &stack) == 0 && !has_room_for_tiles(stack)) return ENOSPC;
  tiles_permitted = true;
  return 0;
}

bool skip_marker(greg_t *registers) {
  static constexpr unsigned char marker[] = {0x0f, 0xb9, 0xc0};
  if (std::memcmp(reinterpret_cast<const void *>(registers[REG_RIP]), marker, sizeof marker) != 0)
    return false;
  registers[REG_RIP] += sizeof marker;
  return true;
}

bool execute(ucontext_t &context) {
  greg_t *const registers = context.uc_mcontext.gregs;
  const greg_t trapped_at = registers[REG_RIP];
  const bool marked = skip_marker(registers);
  Instruction instruction;
  Frame frame(context);
  if (decode(registers, instruction) && (marked || is_emulated(instruction.feature)) &&
      (marked || tiles_permitted || !uses_tile_data(instruction.operation)) &&
      (instruction.feature == Feature::amx ? execute_tile(instruction, frame)
                                           : execute_vector(instruction, frame))) {
    registers[REG_RIP] += instruction.length;
    if (multiplies_tiles(instruction.operation)) ++products_of_tiles;
    return true;
  }
  registers[REG_RIP] = trapped_at;
  return false;
}

// Linux starts a handler in the default floating-point mode, but qemu 7.2 keeps the program's mode. If qemu
// 7.2 presents AMX, it also misaligns the handler's stack.
[[gnu::force_align_arg_pointer]] void on_illegal_instruction(int signal, siginfo_t *info, void *context) {
  constexpr unsigned default_mode = 0x1f80;
  const int error = errno;
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(default_mode);
  ucontext_t *const interrupted = static_cast<ucontext_t *>(context);
  const bool is_cpuid = present_cpuid(signal, info, interrupted), done = !is_cpuid && execute(*interrupted);
  _mm_setcsr(mode);
  errno = error;
  if (is_cpuid) return;
  if (done) {
    executed.fetch_add(1, std::memory_order_relaxed);
  } else {
    hand_on(signal, info, context);
  }
}

void on_fault(int signal, siginfo_t *info, void *context) {
  if (!present_cpuid(signal, info, static_cast<ucontext_t *>(context))) hand_on(signal, info, context);
}

void handle(int signal, void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  real_sigaction(signal, &action, program_action(signal));
}

__attribute__((constructor)) void install() {
  choose_features();
  Frame::find_components();
  find_tile_configuration();
  handle(SIGILL, on_illegal_instruction);
  handle(SIGSEGV, on_fault);
  installed = true;
  if (must_present_features() && !make_cpuid_trap()) {
    std::fprintf(
        stderr,
        "skipped: emulated x86 features: cpuid neither faults on this machine nor could be replaced\n");
    _exit(cannot);
  }
}

__attribute__((destructor)) void require_tiles() {
  if (!has_variable("RAPT_REQUIRE_TILES") || products_of_tiles != 0) return;
  std::fflush(nullptr);
  std::fprintf(stderr, "emulator: the program multiplied no tiles\n");
  _exit(no_tiles);
}

}  // namespace

#define EXPORTED extern "C" [[gnu::visibility("default")]]

// Return the number of instructions executed by this library, the number of tile products among them, and the
// number of the program's requests for tile data.
EXPORTED unsigned long rapt_emulated_instructions() { return executed.load(std::memory_order_relaxed); }
EXPORTED unsigned long rapt_emulated_tile_products() { return products_of_tiles; }
EXPORTED unsigned long rapt_emulated_tile_requests() { return requests_for_tiles; }

// The program may handle these signals too. Its handler gets the signals that this library does not handle.
EXPORTED int sigaction(int signal, const struct sigaction *action, struct sigaction *before) noexcept {
  struct sigaction *const own = installed ? program_action(signal) : nullptr;
  if (own == nullptr) return real_sigaction(signal, action, before);
  if (before) *before = *own;
  if (action) *own = *action;
  return 0;
}

EXPORTED sighandler_t signal(int signal, sighandler_t handler) noexcept {
  struct sigaction action = {}, before;
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  return sigaction(signal, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

EXPORTED int sigaltstack(const stack_t *stack, stack_t *before) noexcept {
  if (stack && tiles_permitted && !has_room_for_tiles(*stack)) {
    errno = ENOMEM;
    return -1;
  }
  return real_sigaltstack(stack, before);
}

EXPORTED long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long &argument : a) argument = va_arg(list, long);
  va_end(list);
  const bool of_tiles = number == SYS_arch_prctl && a[0] == request && a[1] == tile_data;
  if (of_tiles && (is_emulated(Feature::amx) || has_variable("RAPT_REFUSE_TILES"))) {
    const int error = grant_tiles();
    if (error == 0) return 0;
    errno = error;
    return -1;
  }
  long result;
  register long r10 asm("r10") = a[3], r8 asm("r8") = a[4], r9 asm("r9") = a[5];
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  if (number == SYS_arch_prctl && (a[0] == get_supported || a[0] == get_permitted) &&
      is_emulated(Feature::amx)) {
    auto *const components = reinterpret_cast<unsigned long *>(a[1]);
    if (result != 0) *components = 0;  // Linux before 5.16 lacks this request
    if (a[0] == get_supported || tiles_permitted) *components |= tile_components;
    return 0;
  }
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}
