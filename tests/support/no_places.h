// For tests of packet sockets alone, which bring no payload.
#pragma once

#include <mutex>

#include "runtime/link/packet_socket.h"

namespace kerf::tests {

// What receive() is called with.
class NoPlaces final : public runtime::PayloadPlaces {
 public:
  NoPlaces() : lock_(mutex_) {}
  std::byte* place(const runtime::PacketHeader&) override { return nullptr; }
  std::optional<runtime::Packet> receive(runtime::PacketSocket& socket) {
    return socket.receive(*this, lock_);
  }

 private:
  std::mutex mutex_;
  runtime::PacketSocket::Lock lock_;
};

}  // namespace kerf::tests
