// Tests the emulated instructions against golden/: first the model of their arithmetic, then the
// instructions, executed by the CPU or the emulator, with every form of operands.
//
//   rapt_instructions_test GOLDEN_FOLDER [--emulated FEATURE,...] [--native] [--everything]
//
// Each row names what executed an instruction: native, emulated or not run. The features of --emulated must
// be emulated. With --native, the features in /proc/cpuinfo must be native. --everything reports features
// that nothing executes as skipped; it is for the run that presents the CPU with the most features. evex_ymm
// means EVEX forms that need no AVX-512 registers.
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "report.hpp"

namespace {

// Linux may refuse the permission to use tiles although the CPU has them.
std::string native_features(bool tiles_permitted) {
  std::ifstream file("/proc/cpuinfo");
  std::string features, line;
  while (std::getline(file, line) && line.rfind("flags", 0) != 0) {
  }
  std::istringstream flags(line);
  for (std::string flag; flags >> flag;) {
    if (flag == "amx_tile" && tiles_permitted) features += "amx,";
    if (flag == "avx512_vnni" || flag == "avx_vnni") features += flag + ",";
  }
  return features;
}

}  // namespace

int main(int argc, char **argv) {
  constexpr long arch_req_xcomp_perm = 0x1023, tile_data = 18;
  const bool tiles_permitted = syscall(SYS_arch_prctl, arch_req_xcomp_perm, tile_data) == 0;
  std::string golden, emulated, native;
  bool everything = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--emulated" && i + 1 < argc) {
      emulated = argv[++i];
    } else if (argument == "--native") {
      native = native_features(tiles_permitted);
    } else if (argument == "--everything") {
      everything = true;
    } else {
      golden = argument;
    }
  }
  using namespace rapt::emulate;
  Report report(emulated, native);
  check_model(golden, report);
  check_tiles(golden, report);
  check_vectors(golden, report);
  check_operands(report);
  if (everything) report.print_skips();
  return report.failed();
}
