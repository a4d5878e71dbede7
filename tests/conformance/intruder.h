// Strangers that the channel suite lets loose on an endpoint: raw sockets that say what they like.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "runtime/channel.h"
#include "runtime/link/packet_header.h"

namespace kerf::runtime {

// What send_endlessly() gives up after.
inline constexpr size_t kEndless = size_t{256} << 20;

// A raw socket, connected to an endpoint.
class Intruder {
 public:
  virtual ~Intruder() = default;
  virtual void send(const std::vector<std::string>& frames) = 0;
  // What tells nobody where the next packet begins: over tcp it ends a connection, its own.
  virtual void send_garbage(const std::vector<std::string>& frames) = 0;
  // Until nobody takes more; what was taken.
  virtual size_t send_endlessly() = 0;

  // A well-formed packet, with checksums.
  void send(PacketHeader head, const std::string& body = {}) {
    const auto frames = packet(head, body);
    send(frames);
  }
  void send_garbage(PacketHeader head, const std::string& body = {}) {
    const auto frames = packet(head, body);
    send_garbage(frames);
  }
  static std::string bytes_of(const PacketHeader& head) {
    return {reinterpret_cast<const char*>(&head), sizeof head};
  }

 private:
  static std::vector<std::string> packet(PacketHeader head, const std::string& body) {
    head.body_bytes = static_cast<uint32_t>(body.size());
    seal(head, body);
    if (body.empty()) return {bytes_of(head)};
    return {bytes_of(head), body};
  }
};

// To where an endpoint over `kind` listens.
std::unique_ptr<Intruder> make_intruder(TransportKind kind, const std::string& address);

}  // namespace kerf::runtime
