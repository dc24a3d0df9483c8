#include "features.hpp"

#include <cpuid.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace rapt::emulate {
namespace {

// CPUID leaf 7 reports the parts of AVX-512, and other features that decide which levels are usable.
enum Leaf7B : std::uint32_t {
  bmi2 = 1u << 8,
  f = 1u << 16,
  dq = 1u << 17,
  ifma = 1u << 21,
  pf = 1u << 26,
  er = 1u << 27,
  cd = 1u << 28,
  bw = 1u << 30,
  vl = 1u << 31
};
constexpr std::uint32_t all_b = f | dq | ifma | pf | er | cd | bw | vl, avx512_v4 = f | dq | cd | bw | vl;
enum Leaf7C : std::uint32_t {
  vbmi = 1u << 1,
  vbmi2 = 1u << 6,
  gfni = 1u << 8,
  vaes = 1u << 9,
  vpclmul = 1u << 10,
  vnni = 1u << 11,
  bitalg = 1u << 12,
  popcnt = 1u << 14
};
constexpr std::uint32_t all_c = vbmi | vbmi2 | gfni | vaes | vpclmul | vnni | bitalg | popcnt;
enum Leaf7D : std::uint32_t {
  vp2intersect = 1u << 8,
  amx_bf16 = 1u << 22,
  fp16 = 1u << 23,
  amx_tile = 1u << 24,
  amx_int8 = 1u << 25
};
constexpr std::uint32_t amx = amx_bf16 | amx_tile | amx_int8, all_d = vp2intersect | fp16 | amx;
enum Leaf71A : std::uint32_t { avx_vnni = 1u << 4, bf16 = 1u << 5, amx_fp16 = 1u << 21 };
constexpr std::uint32_t all_71a = avx_vnni | bf16 | amx_fp16;
enum Leaf1C : std::uint32_t { fma = 1u << 12, osxsave = 1u << 27 };

// Palette 1 of AMX has 8192 bytes in 8 tiles. A tile has 1024 bytes, in 16 rows of 64.
constexpr std::uint32_t tile_leaf = 0x1d;
constexpr CpuidWords palette_1 = {8192 | 1024 << 16, 64 | 8 << 16, 16, 0};

// Says which bits of all_b, all_c, all_d and all_71a a CPU model has, and which other bits it lacks.
struct Model {
  std::string_view name;
  std::uint32_t b, c, d, leaf71_a;
  std::uint32_t without_leaf1_c = 0, without_b = 0;
};
constexpr Model models[] = {
    {"haswell", 0, 0, 0, 0},
    {"haswell-without-fma", 0, 0, 0, 0, fma, 0},
    {"haswell-without-bmi2", 0, 0, 0, 0, 0, bmi2},
    {"system-without-xsave", all_b, all_c, all_d, all_71a, osxsave, 0},
    {"alder-lake", 0, gfni | vaes | vpclmul, 0, avx_vnni},
    {"knights-landing", f | cd | er | pf, 0, 0, 0},
    {"skylake-x", avx512_v4, 0, 0, 0},
    {"cooper-lake", avx512_v4, vnni, 0, bf16},
    {"ice-lake", avx512_v4 | ifma, all_c, 0, 0},
    {"sapphire-rapids", avx512_v4 | ifma, all_c, all_d & ~vp2intersect, avx_vnni | bf16},
};

struct Emulated {
  std::string_view name;
  Feature feature;
  std::uint32_t c, d, leaf71_a;
};
constexpr Emulated emulations[] = {
    {"amx", Feature::amx, 0, amx, 0},
    {"avx512_vnni", Feature::avx512_vnni, vnni, 0, 0},
    {"avx_vnni", Feature::avx_vnni, 0, 0, avx_vnni},
};

const Model *model = nullptr;
bool emulated[std::size(emulations)] = {};

template <class Table>
[[noreturn]] void stop(const char *variable, std::string_view name, const Table &table) {
  std::fprintf(stderr, "emulator: %s has no '%.*s'; it has:", variable, int(name.size()), name.data());
  for (const auto &row : table) std::fprintf(stderr, " %.*s", int(row.name.size()), row.name.data());
  std::fprintf(stderr, "\n");
  _exit(2);
}

void choose_model(std::string_view name) {
  for (const Model &candidate : models) {
    if (candidate.name == name) model = &candidate;
  }
  if (model == nullptr) stop("RAPT_CPU_MODEL", name, models);
}

void choose_emulation(std::string_view name) {
  for (const Emulated &row : emulations) {
    if (row.name != name) continue;
    emulated[&row - emulations] = true;
    return;
  }
  stop("RAPT_EMULATE", name, emulations);
}

}  // namespace

void choose_features() {
  if (const char *const name = std::getenv("RAPT_CPU_MODEL"); name && *name) choose_model(name);
  const char *const list = std::getenv("RAPT_EMULATE");
  for (std::string_view names = list ? list : ""; !names.empty();) {
    const std::size_t end = names.find(',');
    choose_emulation(names.substr(0, end));
    names.remove_prefix(end == names.npos ? names.size() : end + 1);
  }
}

bool is_emulated(Feature feature) {
  for (const Emulated &row : emulations) {
    if (row.feature == feature) return emulated[&row - emulations];
  }
  return false;
}

CpuidWords read_cpuid(std::uint32_t leaf, std::uint32_t subleaf) {
  CpuidWords words;
  __cpuid_count(leaf, subleaf, words.a, words.b, words.c, words.d);
  return words;
}

CpuidWords presented(std::uint32_t leaf, std::uint32_t subleaf, CpuidWords words) {
  const bool leaf7 = leaf == 7 && subleaf == 0, leaf71 = leaf == 7 && subleaf == 1;
  if (model && leaf == 1) words.c &= ~model->without_leaf1_c;
  if (model && leaf7) {
    words.b &= (model->b | ~all_b) & ~model->without_b;
    words.c &= model->c | ~all_c;
    words.d &= model->d | ~all_d;
  }
  if (model && leaf71) words.a &= model->leaf71_a | ~all_71a;
  if (is_emulated(Feature::amx)) {
    if (leaf == 0 && words.a < tile_leaf) words.a = tile_leaf;
    if (leaf == tile_leaf)
      words = subleaf == 0 ? CpuidWords{1, 0, 0, 0} : subleaf == 1 ? palette_1 : CpuidWords{};
  }
  for (const Emulated &row : emulations) {
    if (!emulated[&row - emulations]) continue;
    if (leaf7) {
      words.c |= row.c;
      words.d |= row.d;
      if (row.leaf71_a != 0 && words.a == 0) words.a = 1;  // the last subleaf of leaf 7
    }
    if (leaf71) words.a |= row.leaf71_a;
  }
  return words;
}

bool must_present_features() {
  if (model) return true;
  for (const std::uint32_t subleaf : {0u, 1u}) {
    const CpuidWords native = read_cpuid(7, subleaf), wanted = presented(7, subleaf, native);
    if (wanted.a != native.a || wanted.c != native.c || wanted.d != native.d) return true;
  }
  return false;
}

}  // namespace rapt::emulate
