// Chooses an instruction-set level. No thread waits for another one. A first call may begin while another
// first call is in progress, even in a signal handler or a forked child. It then decides everything itself.
// All callers reach the same decision. Each caller writes the decision by an atomic operation, and only if it
// is not yet written.
#include "dispatch/dispatch.hpp"

#include <cstdlib>
#include <cstring>

#include "dispatch/cpu.hpp"
#include "dispatch/decision.hpp"
#include "dispatch/levels.hpp"
#include "machine/questions.hpp"

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

// ---- what was decided ----

constinit std::atomic<Decision> decision{Decision{}};
static_assert(std::atomic<Decision>::is_always_lock_free);

Decision decided() {
  Decision made = decision.load(std::memory_order_relaxed);
  if (made.is_made()) return made;
  const CpuFeatures features = detect_features();
  Decision own = decide(features.usable, std::getenv("RAPT_ISA"));
  own.tuning = choose_tuning(features.tuning, std::getenv("RAPT_TUNING"));
  // The first decision stays, because the environment variables may change later.
  return decision.compare_exchange_strong(made, own, std::memory_order_relaxed) ? own : made;
}

// ---- the tables of the levels ----

// Returns whether the level uses its base level's kernel instead of its own, because this CPU runs that
// kernel faster.
bool leaves_to_base(std::size_t level, unsigned kernel) {
  if (decided().tuning != Tuning::zen4 || level != find_level("avx512")) return false;
  return kernel == dot_f16 || kernel == dot_rows_f16 || kernel == metric_f16 || kernel == metric_rows_f16 ||
         kernel == scale_f16;
}

// Calls visit(part, level) for each part of a level, then for those of the level that it builds on, and so
// on. The first part that has a kernel provides it.
template <class Visit>
void for_each_part(std::size_t index, Visit &&visit) {
  for (; index != no_level; index = find_level(level_needs[index].base)) {
    for (auto part = parts_of_level(index); *part != nullptr; ++part) visit(**part, index);
  }
}

std::size_t level_that_serves(std::size_t index, unsigned kernel) {
  std::size_t serving = no_level;
  for_each_part(index, [&](const KernelTable &part, std::size_t level) {
    switch (kernel) {
#define KERNEL(name, family, operation, element)                    \
  case KernelIndex::name:                                           \
    if (part.element.operation != nullptr && serving == no_level && \
        !leaves_to_base(level, KernelIndex::name))                  \
      serving = level;                                              \
    break;
#include "kernels/kernels.def"
    }
  });
  return serving;
}

constinit KernelTable tables[all_levels] = {};
constinit std::atomic<bool> is_complete[all_levels] = {};

// Writes a value unless one has been written. All callers bring the same value, so any of them may write it.
template <class T>
void write_once(T &to, T value) {
  T found = __atomic_load_n(&to, __ATOMIC_ACQUIRE);
  if (found == T{}) {
    __atomic_compare_exchange_n(&to, &found, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  }
}

const KernelTable &kernels_of(std::size_t index) {
  KernelTable &table = tables[index];
  if (is_complete[index].load(std::memory_order_acquire)) return table;
  for_each_part(index, [&](const KernelTable &part, std::size_t level) {
#define KERNEL(name, family, operation, element)                                      \
  if (part.element.operation != nullptr && !leaves_to_base(level, KernelIndex::name)) \
    write_once(table.element.operation, part.element.operation);
#include "kernels/kernels.def"
  });
  is_complete[index].store(true, std::memory_order_release);
  return table;
}

// ---- the first call ----

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
  const KernelTable &chosen = kernels_of(decided().chosen);
  const KernelTable *expected = &first_calls;
  // If another thread has forced a level meanwhile, that level stays.
  if (active_kernels.compare_exchange_strong(expected, &chosen, std::memory_order_acq_rel,
                                             std::memory_order_acquire)) {
    return chosen;
  }
  return *expected;
}

std::size_t active_level() {
  const KernelTable *table = &kernels();
  if (table == &first_calls) table = &choose_at_first_call();
  return static_cast<std::size_t>(table - tables);
}

// ---- tiles ----

constexpr bool needs_tiles(std::size_t level) { return level_needs[level].needs.contains(Feature::amx_tile); }

// Returns the level that the first level with tiles builds on.
constexpr std::size_t level_below_tiles() {
  for (std::size_t i = 0; i < all_levels; ++i) {
    if (needs_tiles(i)) return find_level(level_needs[i].base);
  }
  return 0;
}

enum class Tiles : int { not_asked, permitted, refused };
std::atomic<Tiles> tiles{Tiles::not_asked};

// ---- texts ----

constexpr char unusable_begin[] = "this CPU or its operating system cannot run that instruction set; usable:";

constexpr std::size_t unusable_length() {
  std::size_t length = sizeof unusable_begin;
  for (const LevelNeeds &level : level_needs) length += 1 + std::string_view(level.name).size();
  return length;
}

constexpr std::size_t unusable_words = (unusable_length() + 7) / 8;
std::uint64_t unusable_text[unusable_words];

}  // namespace

constinit std::atomic<const KernelTable *> active_kernels{&first_calls};

const char *unusable_isa_text() {
  char text[8 * unusable_words] = {};
  std::strcpy(text, unusable_begin);
  const Decision made = decided();
  for (std::size_t i = 0; i < all_levels; ++i) {
    if (made.is_usable(i)) std::strcat(std::strcat(text, " "), level_needs[i].name);
  }
  for (std::size_t i = 0; i < unusable_words; ++i) {
    std::uint64_t word;
    std::memcpy(&word, text + 8 * i, sizeof word);
    write_once(unusable_text[i], word);
  }
  return reinterpret_cast<const char *>(unusable_text);
}

}  // namespace rapt

using namespace rapt;

bool rapt_reads_rows_one_by_one() { return decided().tuning == Tuning::zen4; }
bool rapt_fetches_far_ahead() { return decided().tuning == Tuning::zen4; }
bool rapt_prefers_its_prefetcher() { return decided().tuning == Tuning::zen4; }
bool rapt_reads_in_order() { return decided().tuning == Tuning::zen5; }

bool rapt_may_use_tiles() {
  Tiles answer = tiles.load(std::memory_order_relaxed);
  if (answer == Tiles::not_asked) {
    const Tiles own = request_tiles() ? Tiles::permitted : Tiles::refused;
    if (tiles.compare_exchange_strong(answer, own, std::memory_order_relaxed)) answer = own;
  }
  return answer == Tiles::permitted;
}

const KernelTable *rapt_kernels_without_tiles() { return &kernels_of(level_below_tiles()); }

size_t rapt_isa_count(void) { return all_levels; }

const char *rapt_isa_name(size_t index) { return index < all_levels ? level_needs[index].name : nullptr; }

int rapt_isa_usable(const char *name) { return name && decided().status_of(find_level(name)) == RAPT_OK; }

const char *rapt_active_isa(void) { return level_needs[active_level()].name; }

rapt_status rapt_isa_status(void) { return static_cast<rapt_status>(decided().environment); }

rapt_status rapt_force_isa(const char *name) {
  const Decision made = decided();
  const std::size_t wanted = name ? find_level(name) : made.best();
  const rapt_status status = made.status_of(wanted);
  if (status == RAPT_OK) active_kernels.store(&kernels_of(wanted), std::memory_order_release);
  return status;
}

const char *rapt_kernel_isa(const char *kernel) {
  if (!kernel) return nullptr;
  for (unsigned i = 0; i < kernel_count; ++i) {
    if (std::strcmp(kernel_names[i], kernel) != 0) continue;
    std::size_t serving = level_that_serves(active_level(), i);
    if (needs_tiles(serving) && !rapt_may_use_tiles()) serving = level_that_serves(level_below_tiles(), i);
    return level_needs[serving].name;
  }
  return nullptr;
}
