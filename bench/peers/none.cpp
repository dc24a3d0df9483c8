// Defines an empty list of peers for builds without peers.
#include "peer.hpp"

namespace rapt::bench {

const std::vector<Peer> &peers() {
  static const std::vector<Peer> none;
  return none;
}

}  // namespace rapt::bench
