// Tests the arithmetic that turns measurements into the numbers of the tables, on made-up measurements.
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "limits/loops.hpp"
#include "support/attention_work.hpp"
#include "support/case.hpp"
#include "support/limit_cases.hpp"
#include "support/limits.hpp"

using namespace rapt::bench;
using doctest::Approx;

namespace {

std::size_t slow_passes = 0;
double touched = 0;  // bytes that the loops over memory have read and written

void read_or_write(const void *, std::size_t bytes) { touched += static_cast<double>(bytes); }
void write(void *to, std::size_t bytes) { read_or_write(to, bytes); }
void update(void *, std::size_t bytes) { touched += 2 * static_cast<double>(bytes); }
void copy(const void *from, void *to, std::size_t bytes) {
  CHECK(static_cast<const char *>(from) + bytes == to);
  touched += 2 * static_cast<double>(bytes);
}
std::size_t hundred() { return 100; }
bool permitted(const std::string &) { return true; }
bool forbidden(const std::string &) { return false; }

constexpr LimitLoops loops = {.register_bytes = 32,
                              .fma_f32 = hundred,
                              .fma_f64 = hundred,
                              .fma_add_f32 = hundred,
                              .fma_add_f64 = hundred,
                              .clock = hundred,
                              .products_i8 = hundred,
                              .products_bf16 = hundred,
                              .load = {read_or_write, read_or_write},
                              .store = write,
                              .copy = {copy, copy},
                              .copy_nt = {copy, copy},
                              .update = {update, update}};

void linger(std::chrono::microseconds time) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < time) {
  }
}
// The quick ones are not instant, or the meter would find that it takes thousands of passes to time them, and make as
// many of the slow ones.
constexpr std::chrono::microseconds slow_pass{400}, quick_pass{40};
template <std::chrono::microseconds::rep time>
void read_for(const void *from, std::size_t bytes) {
  slow_passes += time == slow_pass.count();
  linger(std::chrono::microseconds(time)), read_or_write(from, bytes);
}
template <std::chrono::microseconds::rep time>
void copy_for(const void *from, void *to, std::size_t bytes) {
  linger(std::chrono::microseconds(time)), copy(from, to, bytes);
}

// In these loops, prefetches make loads slower and copies faster.
constexpr LimitLoops uneven_loops = [] {
  LimitLoops uneven = loops;
  uneven.load[0] = read_for<quick_pass.count()>, uneven.load[1] = read_for<slow_pass.count()>;
  uneven.copy[0] = copy_for<slow_pass.count()>, uneven.copy[1] = copy_for<quick_pass.count()>;
  return uneven;
}();

const std::vector<WorkingSet> sets = {{"L1", 16384}, {"L2", 262144}, {"mem", 1 << 22}};

Limits made_up_limits() {
  Limits limits(sets);
  limits.record("avx2", "fma_f32", 16e9);  // 1e9 instructions x 8 lanes x 2 operations
  limits.record("avx2", "fma_f64", 8e9);
  limits.record("avx2", "fma_add_f32", 24e9);  // 2e9 instructions x 8 lanes x 1.5 operations
  limits.record("avx2", "fma_add_f64", 6e9);   // 1e9 instructions x 4 lanes x 1.5 operations
  limits.record("avx2", "products_i8", 64e9);
  for (const char *level : {"L1", "L2", "mem"}) {
    const double nearer = level[0] == 'm' ? 1 : level[1] == '1' ? 4 : 2;
    limits.record("avx2", std::string("load:") + level, nearer * 2e9);
    limits.record("avx2", std::string("store:") + level, nearer * 0.5e9);
    limits.record("avx2", std::string("copy:") + level, nearer * 1e9);
    limits.record("avx2", std::string("copy_nt:") + level, nearer * 0.8e9);
    limits.record("avx2", std::string("update:") + level, nearer * 1.5e9);
  }
  return limits;
}

// Returns nanoseconds, because doctest would treat two small numbers as equal.
double limit_of(const Work &work) { return 1e9 * made_up_limits().bound("avx2", work).seconds; }

Case made_up_case(const std::string &implementation, const std::string &isa, double seconds) {
  Case one;
  one.kernel = "exp_f32";
  one.implementation = implementation;
  one.isa = one.served_by = isa;
  one.size = "L1";
  one.is_peer = implementation != isa;
  one.work.elements = 100;
  one.seconds = {seconds, seconds, 9 * seconds};
  one.error = 1;
  return one;
}

}  // namespace

namespace rapt::bench {
const LimitLoops *limit_loops(const std::string &isa) {
  return isa == "avx2" ? &loops : isa == "uneven" ? &uneven_loops : nullptr;
}
}  // namespace rapt::bench

TEST_CASE("a limit counts every byte that is read and every byte that is written") {
  LimitMeter meter(limit_cases({"avx2"}, sets, permitted));
  std::size_t over_memory = 0;
  for (const LimitCase &limit : meter.cases()) {
    CAPTURE(limit.what);
    touched = 0;
    const double amount = meter.pass(limit);
    if (limit.bytes == 0) continue;
    ++over_memory;
    CHECK(amount == touched);
    CHECK(amount >= static_cast<double>(limit.bytes) * 0.9);
  }
  CHECK(over_memory == 5 * sets.size());
}

TEST_CASE("a limit of arithmetic counts lanes and both operations of a multiply-add") {
  LimitMeter meter(limit_cases({"avx2"}, sets, permitted));
  const auto amount = [&](const std::string &what) {
    for (const LimitCase &limit : meter.cases()) {
      if (limit.what == what) return meter.pass(limit);
    }
    return 0.0;
  };
  CHECK(amount("fma_f32") == 100 * 8 * 2);
  CHECK(amount("fma_f64") == 100 * 4 * 2);
  CHECK(amount("products_i8") == 100 * 32 * 2);
  CHECK(amount("products_bf16") == 100.0 * 2 * 16 * 16 * 32);
  CHECK(amount("fma_add_f32") == 50 * 8 * 2 + 50 * 8);
  CHECK(amount("fma_add_f64") == 50 * 4 * 2 + 50 * 4);
  CHECK(amount("clock") == 100);
}

TEST_CASE("tiles that Linux does not permit have no limit") {
  for (const LimitCase &limit : limit_cases({"avx2"}, sets, forbidden)) CHECK(limit.what != "products_bf16");
}

TEST_CASE("the limit of traffic is all bytes over the bandwidth of such accesses") {
  CHECK(limit_of({.elements = 1, .element_bytes = 4, .read = 4000, .written = 4000, .uops_per_vector = 1}) ==
        Approx(8000 / 4.0));
  CHECK(limit_of({.elements = 1,
                  .element_bytes = 4,
                  .read = 4000,
                  .written = 4000,
                  .in_place = true,
                  .uops_per_vector = 1}) == Approx(8000 / 6.0));
  CHECK(limit_of({.elements = 1, .element_bytes = 4, .read = 8000, .uops_per_vector = 1}) ==
        Approx(8000 / 8.0));
  CHECK(limit_of({.elements = 1, .element_bytes = 4, .read = 1000, .written = 5000, .uops_per_vector = 1}) ==
        Approx(2000 / 4.0 + 4000 / 2.0));
}

TEST_CASE("memory beyond a level is partly in the next one") {
  const auto loaded = [](std::size_t bytes) {
    return limit_of({.elements = 1, .element_bytes = 4, .read = bytes, .uops_per_vector = 1});
  };
  CHECK(loaded(32768) == Approx(32768 / 8.0));  // a working set is half of a level
  CHECK(loaded(40960) == Approx(0.75 * 40960 / 8.0 + 0.25 * 40960 / 4.0));
  CHECK(loaded(65536) == Approx(65536 / 4.0));
  CHECK(loaded(1 << 24) == Approx((1 << 24) / 2.0));
}

TEST_CASE("a row that the nearer level does not hold is read again") {
  Work rows = {.elements = 1, .element_bytes = 4, .read = 100000, .row_bytes = 20000, .uops_per_vector = 1};
  CHECK(limit_of(rows) == Approx(100000 / 4.0));  // the nearer cache holds a row
  rows.row_bytes = 40000;
  CHECK(limit_of(rows) == Approx(2 * 100000 / 4.0));
}

TEST_CASE("of the loops with and without prefetches, the faster one is the limit") {
  LimitMeter meter(limit_cases({"uneven"}, sets, permitted));
  const auto slow = [](std::size_t bytes) {
    return static_cast<double>(bytes) / (1e-6 * static_cast<double>(slow_pass.count()));
  };
  CHECK(meter.measure("uneven", "load:mem") > 3 * slow(sets[2].bytes));
  CHECK(meter.measure("uneven", "copy:mem") > 3 * slow(sets[2].bytes));
  for (const LimitCase &limit : meter.cases()) {
    const bool is_load = limit.what == "load:mem", is_copy = limit.what == "copy:mem";
    if (!is_load && !is_copy) continue;
    const auto start = std::chrono::steady_clock::now();
    meter.pass(limit);
    CHECK(std::chrono::steady_clock::now() - start < slow_pass);
  }
}

TEST_CASE("next to a row, only the faster loop is measured") {
  LimitMeter meter(limit_cases({"uneven"}, sets, permitted));
  const double slow = static_cast<double>(sets[2].bytes) / (1e-6 * static_cast<double>(slow_pass.count()));
  CHECK(meter.measure_again("uneven", "load:mem") > 3 * slow);  // the first time, both
  const std::size_t before = slow_passes;
  CHECK(before > 0);
  CHECK(meter.measure_again("uneven", "load:mem") > 3 * slow);
  CHECK(slow_passes == before);
  CHECK(meter.measure("uneven", "load:mem") > 3 * slow);
  CHECK(slow_passes > before);
}

TEST_CASE("the limit of arithmetic is whole registers times their instructions") {
  CHECK(limit_of({.elements = 801, .element_bytes = 4, .read = 4, .uops_per_vector = 3}) ==
        Approx(101.0 * 3));
  CHECK(limit_of({.elements = 801, .element_bytes = 8, .read = 4, .uops_per_vector = 3}) ==
        Approx(201.0 * 3));
  const Bound bound =
      made_up_limits().bound("avx2", {.elements = 801, .element_bytes = 4, .read = 4, .uops_per_vector = 3});
  CHECK(bound.resource == arithmetic);
  CHECK(bound.uops == 303);
}

TEST_CASE("additions count at the rate of a loop that has both") {
  const auto bound_of = [](Uops uops, std::size_t element_bytes) {
    return made_up_limits().bound(
        "avx2", {.elements = 808, .element_bytes = element_bytes, .read = 4, .uops_per_vector = uops});
  };
  CHECK(1e9 * bound_of({3, 4}, 4).seconds == Approx(101.0 * 3));  // additions have separate units
  CHECK(1e9 * bound_of({1, 4}, 4).seconds == Approx(101.0 * 2));  // all units are busy
  CHECK(1e9 * bound_of({3, 4}, 8).seconds == Approx(202.0 * 4));  // the same units do both
  CHECK(bound_of({1, 4}, 4).uops == Approx(101.0 * 2));           // multiply-adds that take equally long
  CHECK(made_up_limits().needed_for({.element_bytes = 8, .uops_per_vector = {3, 4}})[1] == "fma_add_f64");
}

TEST_CASE("so do the bits of products of bytes") {
  const Work biased = {
      .elements = 3200, .element_bytes = 2, .read = 4, .uops_per_vector = 1, .byte_uops_per_vector = {2, 5}};
  CHECK(limit_of(biased) == Approx(100 * 2.5));  // two instructions take one nanosecond
}

TEST_CASE("a stronger level is as fast as a weaker one, but for its clock") {
  Limits limits(sets);
  limits.record("scalar", "load:L1", 9);
  limits.record("scalar", "clock", 9);
  limits.record("avx2", "load:L1", 7);
  limits.record("avx2", "load:L1", 5);  // the best is kept
  limits.record("avx2", "clock", 5);
  CHECK(limits.rate("avx2", "load:L1") == 7);
  limits.record("avx512", "load:L2", 3);
  limits.record("avx2", "load:L2", 6);
  limits.record("scalar", "load:L2", 2);
  limits.raise_to_weaker({"scalar", "avx2", "avx512"});
  CHECK(limits.rate("avx2", "load:L1") == 9);
  CHECK(limits.rate("avx2", "clock") == 5);
  CHECK(limits.rate("avx512", "load:L2") == 6);  // not the rate of the weakest
}

TEST_CASE("the work of attention is that of the visible keys") {
  AttentionShape shape = token_shape(8, 2, 4096, 64, 32);
  Work work = attention_work(shape, 4);
  CHECK(work.elements == 8 * 4096 * (64 + 32));
  CHECK(work.read == 4 * (2 * 4096 * (64 + 32) + 8 * 64));
  CHECK(work.written == 4 * 8 * 32);
  shape.window = 512;
  work = attention_work(shape, 2);
  CHECK(work.elements == 8 * 512 * (64 + 32));
  CHECK(work.read == 2 * (2 * 512 * (64 + 32) + 8 * 64));
  work = attention_work(prompt_shape(1, 1, 10, 3, 5, true), 4);
  CHECK(work.elements == 55 * (3 + 5));
  CHECK(work.read == 4 * (10 * (3 + 5) + 10 * 3));
}

TEST_CASE("a machine that is slower beside a row than at its best marks the row") {
  Case one = made_up_case("avx2", "avx2", 2);
  one.bound.seconds = 1;
  one.wall_over_cpu = 1;
  one.seconds = {2, 2, 2};
  one.beside.seconds = 1.2;
  CHECK(observation_of(one, 1).slowdown == Approx(1.2));
  CHECK(doubts(observation_of(one, 1)) == std::vector<std::string>{"machine"});
  one.beside.seconds = 1.05;
  CHECK(doubts(observation_of(one, 1)).empty());
  one.wall_over_cpu = 1.5;
  CHECK(doubts(observation_of(one, 1)) == std::vector<std::string>{"load"});
}

TEST_CASE("a peer may be faster than the arithmetic of rapt, and not than memory") {
  Case peer = made_up_case("sleef-avx2", "avx2", 1);
  peer.seconds = {1, 1, 1};
  peer.beside.seconds = 2;
  peer.bound = {2, 0, arithmetic};
  CHECK(doubts(observation_of(peer, 2)).empty());
  peer.bound.resource = "L1 copy";
  CHECK(doubts(observation_of(peer, 2)) == std::vector<std::string>{"share"});
}

TEST_CASE("medians and shares") {
  Case one = made_up_case("avx2", "avx2", 2);
  CHECK(one.median() == 2);
  one.seconds = {4, 1, 2, 8};
  CHECK(one.median() == 3);
  CHECK(one.best() == 1);
  one.bound.seconds = 1.5;
  CHECK(one.share() == 0.5);
}

TEST_CASE("a share above 105 % is not shown: its limit is wrong") {
  Case one = made_up_case("avx2", "avx2", 2);
  one.bound.seconds = 2 * 1.04;
  CHECK(one.has_share());
  one.bound.seconds = 2 * 1.06;
  CHECK(!one.has_share());
}
