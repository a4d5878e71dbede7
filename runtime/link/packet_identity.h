// Who a packet socket speaks for, and whom it listens to: what every packet of a run carries.
//
// A plain value, guarded as its owner is.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>

#include "runtime/link/packet_header.h"

namespace kerf::runtime {

struct PacketIdentity {
  int32_t self = 0;
  uint32_t epoch = 0;
  uint64_t token = 0;
  std::set<int32_t> peers = {};

  // As ours, with checksums.
  void sign(PacketHeader& head, std::string_view body) const {
    head.epoch = epoch;
    head.from = self;
    head.token = token;
    seal(head, body);
  }
  // Whether one of our peers has signed it.
  bool is_peers(const PacketHeader& head) const {
    return head.epoch == epoch && head.token == token && peers.contains(head.from);
  }
};

}  // namespace kerf::runtime
