#include "dispatch/dispatch.hpp"

#include <cstdlib>
#include <cstring>
#include <iterator>

#include "dispatch/cpu.hpp"
#include "dispatch/levels.hpp"

namespace rapt {
namespace {

enum KernelIndex : unsigned {
#define KERNEL(name, family, operation, element) name,
#include "kernels/kernels.def"
  kernel_count
};

constexpr const char *kernel_names[] = {
#define KERNEL(name, family, operation, element) #name,
#include "kernels/kernels.def"
};

// A level, with the kernels that it lacks taken from the level that it builds on.
struct ResolvedLevel {
  KernelTable kernels;
  const char *isa_of_kernel[kernel_count];
  bool usable;
};

constexpr std::size_t no_level = std::size(level_needs);

constinit ResolvedLevel resolved[std::size(level_needs)] = {};
std::size_t best_level;       // the strongest usable one
std::size_t chosen_at_start;  // best_level unless RAPT_ISA names another usable one
rapt_status environment_status = RAPT_OK;
char unusable_text[160] = "this CPU or its operating system cannot run that instruction set; usable:";

enum class Setup : int { none, running, done };
std::atomic<Setup> setup{Setup::none};

std::size_t find_level(const char *name) {
  for (std::size_t i = 0; i < level_count(); ++i) {
    if (std::strcmp(level(i).name, name) == 0) return i;
  }
  return no_level;
}

rapt_status status_of(std::size_t level) {
  if (level == no_level) return RAPT_BAD_ISA_NAME;
  return resolved[level].usable ? RAPT_OK : RAPT_BAD_ISA_FOR_THIS_CPU;
}

void add_part(ResolvedLevel &level, const KernelTable &part, const char *level_name) {
#define KERNEL(name, family, operation, element)              \
  if (part.element.operation != nullptr) {                    \
    level.kernels.element.operation = part.element.operation; \
    level.isa_of_kernel[KernelIndex::name] = level_name;      \
  }
#include "kernels/kernels.def"
}

void resolve_levels() {
  const FeatureSet features = detect_features().usable;
  for (std::size_t i = 0; i < level_count(); ++i) {
    const Level candidate = level(i);
    ResolvedLevel &entry = resolved[i];
    entry.usable = features.contains(candidate.needs);
    if (!entry.usable) continue;
    const std::size_t base = find_level(candidate.base);
    if (base != no_level) entry = resolved[base];
    for (auto part = candidate.parts; *part != nullptr; ++part) add_part(entry, **part, candidate.name);
    best_level = i;
    std::strncat(unusable_text, " ", sizeof unusable_text - std::strlen(unusable_text) - 1);
    std::strncat(unusable_text, candidate.name, sizeof unusable_text - std::strlen(unusable_text) - 1);
  }

  chosen_at_start = best_level;
  const char *const wanted = std::getenv("RAPT_ISA");
  if (wanted && *wanted != 0) {
    const std::size_t found = find_level(wanted);
    environment_status = status_of(found);
    if (environment_status == RAPT_OK) chosen_at_start = found;
  }
}

// Runs once. std::call_once and function-local statics would tie librapt.a to the C++ runtime or to threads.
void ensure_resolved() {
  if (setup.load(std::memory_order_acquire) == Setup::done) return;
  Setup expected = Setup::none;
  if (setup.compare_exchange_strong(expected, Setup::running, std::memory_order_acquire)) {
    resolve_levels();
    setup.store(Setup::done, std::memory_order_release);
  } else {
    while (setup.load(std::memory_order_acquire) != Setup::done) {
    }
  }
}

const KernelTable &choose_at_first_call();

// Stands in for a kernel, a member of Operations<E>, until a level is chosen.
template <class E, auto kernel>
struct FirstCall;
template <class E, class Result, class... Parameters, Result (*Operations<E>::*kernel)(Parameters...)>
struct FirstCall<E, kernel> {
  static Result call(Parameters... parameters) {
    return (choose_at_first_call().of<E>().*kernel)(parameters...);
  }
};

template <class E, auto kernel, bool exists>
constexpr auto first_call() {
  if constexpr (exists) {
    return FirstCall<E, kernel>::call;
  } else {
    return nullptr;
  }
}

template <class E>
constexpr Operations<E> first_calls_of = {
#define OPERATION(family, name, result, parameters, elements) \
  first_call<E, &Operations<E>::name, HasOperations<E>::elements>(),
#include "kernels/kernels.def"
};

constexpr KernelTable first_calls = {first_calls_of<float>,       first_calls_of<double>,
                                     first_calls_of<F16>,         first_calls_of<BF16>,
                                     first_calls_of<std::int8_t>, first_calls_of<std::uint8_t>};

const KernelTable &choose_at_first_call() {
  ensure_resolved();
  const KernelTable *expected = &first_calls;
  // A level forced meanwhile by another thread stays.
  if (active_kernels.compare_exchange_strong(expected, &resolved[chosen_at_start].kernels,
                                             std::memory_order_acq_rel, std::memory_order_acquire)) {
    return resolved[chosen_at_start].kernels;
  }
  return *expected;
}

std::size_t active_level() {
  const KernelTable *table = &kernels();
  if (table == &first_calls) table = &choose_at_first_call();
  for (std::size_t i = 0; i < level_count(); ++i) {
    if (table == &resolved[i].kernels) return i;
  }
  return 0;
}

}  // namespace

constinit std::atomic<const KernelTable *> active_kernels{&first_calls};

const char *unusable_isa_text() {
  ensure_resolved();
  return unusable_text;
}

}  // namespace rapt

using namespace rapt;

size_t rapt_isa_count(void) { return level_count(); }

const char *rapt_isa_name(size_t index) { return index < level_count() ? level(index).name : nullptr; }

int rapt_isa_usable(const char *name) {
  ensure_resolved();
  return name && status_of(find_level(name)) == RAPT_OK;
}

const char *rapt_active_isa(void) { return level(active_level()).name; }

rapt_status rapt_isa_status(void) {
  ensure_resolved();
  return environment_status;
}

rapt_status rapt_force_isa(const char *name) {
  ensure_resolved();
  const std::size_t found = name ? find_level(name) : best_level;
  const rapt_status status = status_of(found);
  if (status != RAPT_OK) return status;
  active_kernels.store(&resolved[found].kernels, std::memory_order_release);
  return RAPT_OK;
}

const char *rapt_kernel_isa(const char *kernel) {
  if (!kernel) return nullptr;
  for (std::size_t i = 0; i < kernel_count; ++i) {
    if (std::strcmp(kernel_names[i], kernel) == 0) return resolved[active_level()].isa_of_kernel[i];
  }
  return nullptr;
}
