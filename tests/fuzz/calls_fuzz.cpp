// Fuzzes every kernel that tests/calls describes: any problem, its arrays next to guard pages or over each other, and
// an argument past its limit. Every level must return the status that rapt.h names, write nothing else, and have the
// bits of the scalar level.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "calls/draw.hpp"
#include "support/case_text.hpp"
#include "support/serving.hpp"

using namespace rapt::test;

namespace {

// What runs, for the report. Only a report makes a std::string: the C++ library is not compiled for the memory
// sanitizer.
struct Running {
  const KernelCase *kernel;
  const Case *drawn;
  const Call *call;
  const char *limit;
} running;

[[noreturn]] void finding(const char *what) {
  std::fprintf(stderr, "FINDING: %s on %s: %s\n  %s\n  past a limit: %s\n", running.kernel->name,
               rapt_active_isa(), what, to_text(*running.drawn).c_str(), running.limit);
  for (const Operand &operand : running.call->operands()) {
    std::fprintf(stderr, "  %s: %zu bytes at %p\n", operand.name, operand.extent(),
                 static_cast<void *>(operand.data));
  }
  std::fflush(stderr);
  std::abort();
}

// Puts all arrays into one block, in place of each other, back to back, between the other's rows, or anywhere. Arrays
// whose elements the call looks at are at its beginning, where only outputs meet them.
void draw_places(Random &random, Call &call) {
  const auto room_of = [](const Operand &operand) { return (operand.extent() + 15) / 8 * 8; };
  std::size_t room = 0, apart = 0;
  for (const Operand &operand : call.operands()) {
    room += room_of(operand);
    if (operand.has_limits || operand.role == Role::aside) apart += room_of(operand);
  }
  std::vector<std::size_t> at;
  const Operand *previous = nullptr;
  std::size_t place_of_previous = 0, end_of_apart = 0;
  for (const Operand &operand : call.operands()) {
    const std::size_t size = size_of(operand.element), last = room - operand.extent();
    if (operand.has_limits || operand.role == Role::aside) {
      at.push_back(end_of_apart);
      end_of_apart += room_of(operand);
      continue;
    }
    const std::size_t first = operand.role == Role::input ? apart : 0;
    std::size_t place = first + random.below(last - first + 1);
    if (previous) {
      const std::size_t choice = random.below(5), row = previous->sizes[3] * size_of(previous->element);
      if (choice == 0) place = place_of_previous;
      if (choice == 1) place = place_of_previous + row;
      if (choice == 2) place = place_of_previous + previous->extent();
    }
    place_of_previous = std::clamp(place, first, last) / size * size;
    if (place_of_previous < first) place_of_previous += size;
    at.push_back(place_of_previous);
    previous = &operand;
  }
  call.place_together(room, random.one_in(2) ? Placement::begins_at_guard : Placement::ends_at_guard, at);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  Random random(bytes, size);
  const std::span<const KernelCase *const> kernels = described_kernels();
  const KernelCase &kernel = *kernels[random.below(kernels.size())];
  Case drawn = draw_case(random, kernel, 700);
  const bool is_past_limit = random.one_in(3), is_together = !is_past_limit && random.one_in(4);
  if (is_past_limit || is_together) drawn.layout = in_one_call(drawn.layout);
  const std::unique_ptr<Call> call = kernel.make(drawn.problem, drawn.layout);
  running = {&kernel, &drawn, call.get(), "none"};
  call->place(drawn.layout);
  if (is_together && call->has_status()) draw_places(random, *call);
  const std::vector<Limit> limits = call->limits();
  Statuses must_fail = 0, may_fail = 0;
  if (is_past_limit && !limits.empty()) {
    const Limit &limit = limits[random.below(limits.size())];
    limit.change();
    running.limit = limit.field;
    must_fail = limit.expected;
  }
  const Call::Overlaps overlaps = call->overlaps();
  must_fail |= overlaps.elements;
  may_fail = overlaps.gaps;

  static std::vector<std::uint64_t> expected, got;
  rapt_status expected_status = RAPT_OK;
  for (std::size_t level = 0; level < rapt_isa_count(); ++level) {
    if (rapt_force_isa(rapt_isa_name(level)) != RAPT_OK || !active_level_has(kernel.name)) continue;
    call->restore();
    const rapt_status status = call->run();
    if (status == RAPT_OK && must_fail != 0) finding("a bad argument was accepted");
    if (status != RAPT_OK && !has(must_fail | may_fail, status)) finding(rapt_status_text(status));
    std::vector<std::uint64_t> &results = level == 0 ? expected : got;
    results.clear();
    if (status == RAPT_OK) call->take(results);
    if (const char *const name = call->touched()) finding(name);
    if (status == RAPT_OK && !call->can_be_undone()) finding("the work cannot be undone");
    if (level == 0) expected_status = status;
    if (status != expected_status) finding("another status than the scalar level's");
    if (level != 0 && got != expected) finding("other bits than the scalar level's");
  }
  rapt_force_isa(nullptr);
  return 0;
}
