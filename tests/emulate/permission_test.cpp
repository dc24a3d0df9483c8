// Tests when the library asks Linux to permit AMX tiles, and what it does without permission. Each case runs
// in a separate process:
//
//   permission_test granted | refused | small_stack | by_kernel_isa
//
// "refused" needs run.sh --refuse tiles, which makes Linux refuse tiles. The other cases also run on a CPU
// with AMX.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "rapt/rapt.h"

// The preloaded emulator defines these functions. Without the emulator, their addresses are null.
extern "C" [[gnu::weak]] unsigned long rapt_emulated_tile_requests();
extern "C" [[gnu::weak]] unsigned long rapt_emulated_tile_products();

namespace {

void require(bool right, const char *what) {
  if (right) return;
  std::printf("FAILED: %s\n", what);
  std::exit(1);
}

bool tiles_are_permitted() {
  constexpr long get_permitted = 0x1022;
  std::uint64_t components = 0;
  return syscall(SYS_arch_prctl, get_permitted, &components) == 0 && (components >> 18 & 1) != 0;
}

// Checks how often Linux was asked to permit tiles. Only the emulator counts the requests.
void require_requests(unsigned long count, const char *when) {
  if (rapt_emulated_tile_requests) require(rapt_emulated_tile_requests() == count, when);
}

// Tries to set a signal stack without room for tiles. Linux refuses it to a process that may use tiles.
bool can_set_small_signal_stack() {
  static char memory[8192];
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = sizeof memory;
  return sigaltstack(&stack, nullptr) == 0;
}
void disable_signal_stack() {
  stack_t stack = {};
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, nullptr);
}

template <class Element>
std::vector<Element> numbers(std::size_t count);
template <>
std::vector<rapt_bf16> numbers(std::size_t count) {
  std::vector<rapt_bf16> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<rapt_bf16>(0x3e00 + i * 37 % 0x180);
  return all;
}
template <>
std::vector<std::int8_t> numbers(std::size_t count) {
  std::vector<std::int8_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<std::int8_t>(i * 37 % 251 - 125);
  return all;
}

template <class Element>
std::vector<float> attention(std::size_t queries, std::size_t keys = 70) {
  constexpr std::size_t dim = 64;
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_type = RAPT_BF16;
  options.kv_type = sizeof(Element) == 1 ? RAPT_I8 : RAPT_BF16;
  options.out_type = RAPT_F32;
  options.q_len = queries;
  options.kv_len = keys;
  options.qk_dim = options.v_dim = dim;
  const std::vector<float> scales(keys, 0.01f);
  if (sizeof(Element) == 1) options.k_scales = options.v_scales = scales.data();
  const auto q = numbers<rapt_bf16>(queries * dim);
  const auto k = numbers<Element>(keys * dim), v = numbers<Element>(keys * dim);
  std::vector<float> out(queries * dim);
  std::size_t bytes = 0;
  require(rapt_attention_workspace(&options, &bytes) == RAPT_OK, "the size of the workspace");
  std::vector<unsigned char> workspace(bytes);
  require(
      rapt_attention(q.data(), k.data(), v.data(), out.data(), &options, workspace.data(), bytes) == RAPT_OK,
      "a call of attention");
  return out;
}

struct Results {
  std::vector<float> in_bf16, over_bytes;
  bool operator==(const Results &) const = default;
};
// With nine queries, both calls compute with tiles.
Results results() { return {attention<rapt_bf16>(9), attention<std::int8_t>(9)}; }

std::string server_of(const char *kernel) { return rapt_kernel_isa(kernel); }

void calls_without_tiles() {
  const float x[3] = {1, 2, 3};
  require(rapt_dot_f32(x, x, 3) == 14, "a dot product");
  require(rapt_isa_usable("amx") == 1 && rapt_isa_status() == RAPT_OK, "the level amx is usable");
  require(std::strcmp(rapt_active_isa(), "amx") == 0, "the level amx is active");
  require(server_of("dot_f32") == "avx512" && server_of("dot_i8") == "avx512_vnni", "other levels' kernels");
  attention<rapt_bf16>(1);  // a single query is computed without tiles
  attention<rapt_bf16>(2);
  attention<std::int8_t>(1);
  attention<rapt_bf16>(9, 0);
}

void granted() {
  calls_without_tiles();
  require_requests(0, "a call without tiles asked Linux for them");
  require(!tiles_are_permitted(), "a call without tiles has their permission");

  require(rapt_force_isa("avx2") == RAPT_OK, "avx2 is usable");
  const Results expected = results();
  require(server_of("attention_in_bf16") == "avx2", "avx2 serves");
  require_requests(0, "the level avx2 asked Linux for tiles");
  require(!tiles_are_permitted() && can_set_small_signal_stack(),
          "a small stack of signals is refused to avx2");
  disable_signal_stack();

  require(rapt_force_isa(nullptr) == RAPT_OK, "amx is usable");
  require(results() == expected, "amx has other bits than avx2");
  require_requests(1, "amx did not ask Linux once");
  require(tiles_are_permitted(), "amx ran without permission");
  require(server_of("attention_in_bf16") == "amx" && server_of("attention_i8") == "amx", "amx serves");
  if (rapt_emulated_tile_products) require(rapt_emulated_tile_products() > 0, "amx multiplied no tiles");

  Results of_thread;
  std::thread([&] { of_thread = results(); }).join();
  require(of_thread == expected, "another thread has other bits");
  require_requests(1, "Linux was asked twice");
}

void without_tiles(const Results &expected, const char *texts) {
  require(rapt_force_isa("amx") == RAPT_OK && results() == expected, texts);
  require_requests(1, "Linux was not asked once");
  require(rapt_isa_usable("amx") == 1 && std::strcmp(rapt_active_isa(), "amx") == 0,
          "a refusal changes what is usable or active");
  require(server_of("attention_in_bf16") == "avx512", "avx512 serves instead of amx");
  require(server_of("attention_partial_in_bf16") == "avx512", "avx512 serves instead of amx");
  require(server_of("attention_i8") == "avx512_vnni", "avx512_vnni serves instead of amx");
  require(results() == expected, "later calls have other bits");
  require_requests(1, "Linux was asked again");
  if (rapt_emulated_tile_products) require(rapt_emulated_tile_products() == 0, "tiles were multiplied");
}

Results results_of_avx2() {
  require(rapt_force_isa("avx2") == RAPT_OK, "avx2 is usable");
  return results();
}

void refused() {
  calls_without_tiles();
  require_requests(0, "a call without tiles asked Linux for them");
  without_tiles(results_of_avx2(), "a refusal changes bits");
}

// If a program has already set a signal stack without room for tiles, attention computes without tiles.
void small_stack() {
  require(can_set_small_signal_stack(), "a small stack of signals is refused");
  without_tiles(results_of_avx2(), "bits with a small stack of signals");
  require(!tiles_are_permitted(), "tiles are permitted with a small stack of signals");
}

void by_kernel_isa() {
  require(server_of("dot_f32") == "avx512", "avx512 has dot");
  require_requests(0, "a question about a kernel without tiles asked Linux for them");
  require(server_of("attention_i8") == "amx", "amx has attention_i8");
  require_requests(1, "rapt_kernel_isa did not ask Linux");
  require(tiles_are_permitted(), "rapt_kernel_isa named amx without permission");
}

}  // namespace

int main(int argc, char **argv) {
  if (!rapt_isa_usable("amx")) {
    std::printf("skipped: permission of tiles: this machine cannot run amx\n");
    return 77;
  }
  struct Case {
    const char *name;
    void (*body)();
  };
  for (const Case &of : {Case{"granted", granted}, Case{"refused", refused}, Case{"small_stack", small_stack},
                         Case{"by_kernel_isa", by_kernel_isa}}) {
    if (argc != 2 || std::strcmp(argv[1], of.name) != 0) continue;
    of.body();
    std::printf("%s: passed\n", of.name);
    return 0;
  }
  return 2;
}
