// Adds BLIS as a peer. BLIS infers from the CPU's model name whether an Intel CPU has one or two AVX-512 FMA
// units. If BLIS does not know the name, it uses AVX2.
#include <cstddef>
#include <string>
#include <vector>

#include "cblas.hpp"
#include "peer.hpp"

namespace rapt::bench {
namespace {

struct Blis {
  static constexpr const char *name = "blis";
  static constexpr const char *path = RAPT_PEER_BLIS;
  static constexpr const char *variable = "BLIS_ARCH_TYPE";  // read by bli_init

  static bool start(const SharedLibrary &library) {
    auto *init = library.function<void()>("bli_init");
    if (!init || !library.function<char *()>("bli_info_get_version_str") ||
        !library.function<int()>("bli_arch_query_id") || !library.function<char *(int)>("bli_arch_string")) {
      return false;
    }
    init();
    // A build with threads would split large matrices among cores, but the benchmark uses one core.
    if (auto *set = library.function<void(std::ptrdiff_t)>("bli_thread_set_num_threads")) set(1);
    return true;
  }

  static std::string version(const SharedLibrary &library) {
    return library.function<char *()>("bli_info_get_version_str")();
  }

  static std::string kernels(const SharedLibrary &library) {
    return kernels(library, library.function<int()>("bli_arch_query_id")());
  }

  static std::string isa_of(const std::string &arch) {
    if (arch == "skx") return "avx512";
    if (arch == "haswell" || arch == "zen" || arch == "zen2" || arch == "zen3") return "avx2";
#if defined(__aarch64__)
    return "neon";
#else
    return "";
#endif
  }

  // Returns the number of the kernels for `isa`. The numbers differ between versions of BLIS. "generic" has
  // the last number.
  static std::string to_force(const SharedLibrary &library, const std::string &isa) {
    const std::string wanted = isa == "avx512" ? "skx" : "haswell";
    for (int number = 0;; ++number) {
      const std::string arch = kernels(library, number);
      if (arch == wanted || arch == "generic") return std::to_string(number);
    }
  }

 private:
  static std::string kernels(const SharedLibrary &library, int number) {
    return library.function<char *(int)>("bli_arch_string")(number);
  }
};

}  // namespace

void add_blis(std::vector<Peer> &peers) { add_blas<Blis>(peers); }

}  // namespace rapt::bench
