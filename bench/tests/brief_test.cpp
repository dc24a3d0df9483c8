// Tests the summary that a run prints last, on made-up cases.
#include "support/brief.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "support/text.hpp"

namespace rapt::bench {
namespace {

Case case_of(const std::string &kernel, const std::string &isa, const std::string &size, double seconds) {
  Case one;
  one.kernel = kernel;
  one.implementation = one.isa = isa;
  one.size = size;
  one.bound.seconds = 1;
  one.seconds = {seconds};
  return one;
}

std::string screen_of(std::deque<Case> &cases) {
  Plan plan;
  plan.isas = {"scalar", "avx2", "avx2_vnni"};
  std::vector<Case *> pointers;
  for (Case &one : cases) pointers.push_back(&one);
  std::FILE *const file = std::tmpfile();
  print_to(file);
  print_brief("made up", plan, pointers);
  print_to(stdout);
  std::string text(static_cast<std::size_t>(std::ftell(file)), ' ');
  std::rewind(file);
  REQUIRE(std::fread(text.data(), 1, text.size(), file) == text.size());
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE(
    "an operation has one line, of the best level that has its kernel: mean shares, and the gain over "
    "scalar") {
  std::deque<Case> cases = {case_of("exp_f32", "scalar", "L1", 16),
                            case_of("exp_f32", "avx2", "L1", 2),
                            case_of("exp_f32", "avx2", "L2", 8),
                            case_of("exp_f64", "avx2", "L1", 5),
                            case_of("attention_in_bf16", "avx2", "prefill", 4),
                            case_of("dot_i8", "avx2", "L1", 5),
                            case_of("dot_i8", "avx2_vnni", "L1", 2),
                            case_of("dot_i8", "avx2_vnni", "L2", 0.9)};  // above its limit: has no share
  cases[3].doubts = {"load"};
  CHECK(screen_of(cases) ==
        "\nmade up, avx2_vnni: the share of the limit, as the mean over all sizes\n"
        "                           f32   f64   f16  bf16    i8  u8i8  over scalar\n"
        "-------------------------------------------------------------------------\n"
        "exp                        25%   20%!                               8.00x\n"
        "attention_in_bf16                            25%\n"
        "dot                                                50%\n");
}

TEST_CASE("packing does not count in the mean of a layer's products") {
  std::deque<Case> cases = {case_of("linear_f32", "avx2", "64x4096x4096", 2),
                            case_of("linear_f32", "avx2", "pack:4096x4096", 10)};
  cases[0].work.multiply_adds = true;
  CHECK(screen_of(cases).find("\nlinear                     50%") != std::string::npos);
}

TEST_CASE("with the verdict, all kernels fit a screen of 50 lines") {
  std::deque<Case> cases;
#define KERNEL(name, ...) cases.push_back(case_of(#name, "avx2", "L1", 2));
#include "../../src/kernels/kernels.def"
#undef KERNEL
  REQUIRE(cases.size() > 40);
  constexpr int verdict = 9, files = 4;
  const std::string screen = screen_of(cases);
  CHECK(std::count(screen.begin(), screen.end(), '\n') + verdict + files <= 50);
}

}  // namespace rapt::bench
