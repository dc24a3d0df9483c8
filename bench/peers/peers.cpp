// Lists the peers that CMake found and wrote to peers.def.
#include <string>
#include <vector>

#include "peer.hpp"
#include "rapt/rapt.h"

// Each of these functions fills in a peer's functions and returns the peer's version.
#define RAPT_PEER(name)
#define RAPT_ISA_PEER(name, text, isa) \
  extern "C" const char *rapt_peer_##name##_##isa(rapt::bench::Peer &peer);
#include "peers.def"
#undef RAPT_PEER
#undef RAPT_ISA_PEER

namespace rapt::bench {

#define RAPT_PEER(name) void add_##name(std::vector<Peer> &peers);
#define RAPT_ISA_PEER(name, text, isa)
#include "peers.def"
#undef RAPT_PEER
#undef RAPT_ISA_PEER

namespace {

// `entry` is compiled for `isa`, so only a CPU that has `isa` may call it.
[[maybe_unused]] void add(std::vector<Peer> &peers, const char *name, const char *isa,
                          const char *(*entry)(Peer &)) {
  if (!rapt_isa_usable(isa)) return;
  Peer peer;
  peer.name = name;
  peer.isa = isa;
  peer.version = entry(peer);
  peers.push_back(peer);
}

std::vector<Peer> all_peers() {
  std::vector<Peer> peers;
#define RAPT_PEER(name) add_##name(peers);
#define RAPT_ISA_PEER(name, text, isa) add(peers, text, #isa, rapt_peer_##name##_##isa);
#include "peers.def"
#undef RAPT_PEER
#undef RAPT_ISA_PEER
  return peers;
}

}  // namespace

const std::vector<Peer> &peers() {
  static const std::vector<Peer> all = all_peers();
  return all;
}

}  // namespace rapt::bench
