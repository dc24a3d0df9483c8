// Adds OpenBLAS as a peer. OpenBLAS recognises CPUs by their model, and uses SSE3 kernels for unknown models.
#include <cstddef>
#include <string>
#include <vector>

#include "cblas.hpp"
#include "peer.hpp"

namespace rapt::bench {
namespace {

struct OpenBlas {
  static constexpr const char *name = "openblas";
  static constexpr const char *path = RAPT_PEER_OPENBLAS;
  static constexpr const char *variable = "OPENBLAS_CORETYPE";  // read while the library loads

  static bool start(const SharedLibrary &library) {
    // A build with threads would split long vectors among cores, but the benchmark uses one core.
    if (auto *set_threads = library.function<void(int)>("openblas_set_num_threads")) set_threads(1);
    return library.function<char *()>("openblas_get_config") &&
           library.function<char *()>("openblas_get_corename");
  }

  // Returns "0.3.21" from "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...".
  static std::string version(const SharedLibrary &library) {
    const std::string config = library.function<char *()>("openblas_get_config")();
    const std::size_t begin = config.find(' ') + 1;
    return config.substr(begin, config.find(' ', begin) - begin);
  }

  static std::string kernels(const SharedLibrary &library) {
    return library.function<char *()>("openblas_get_corename")();
  }

  static std::string isa_of(const std::string &core) {
    if (core == "SkylakeX" || core == "Cooperlake" || core == "SapphireRapids") return "avx512";
    if (core == "Haswell" || core == "Zen") return "avx2";
#if defined(__aarch64__)
    return "neon";
#else
    return "";
#endif
  }

  static std::string to_force(const SharedLibrary &, const std::string &isa) {
    return isa == "avx512" ? "SkylakeX" : "Haswell";
  }
};

}  // namespace

void add_openblas(std::vector<Peer> &peers) { add_blas<OpenBlas>(peers); }

}  // namespace rapt::bench
