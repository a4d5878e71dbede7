// Strangers that the channel suite lets loose on an endpoint: raw sockets that say what they like.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/link/packet_header.h"
#include "runtime/open_file.h"

namespace kerf::runtime {

// What is sent on a connection after it was closed is lost, as an intruder's words may be.
class Intruder {
 public:
  // Of where an endpoint listens.
  explicit Intruder(std::string address) : address_(std::move(address)) {}

  // Descriptors that go with the first byte; a packet's header says whether one does.
  using Files = std::vector<int>;

  // One after the other, on one connection.
  void send(const std::vector<std::string>& frames, const Files& files = {});
  // What tells nobody where the next packet begins: it ends a connection, its own.
  void send_garbage(const std::vector<std::string>& frames, const Files& files = {}) const;

  // A well-formed packet, with checksums.
  void send(PacketHeader head, const std::string& body = {}, const Files& files = {}) {
    send(packet(head, body), files);
  }
  void send_garbage(PacketHeader head, const std::string& body = {}) const {
    send_garbage(packet(head, body));
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
  OpenFile connect() const;
  static void write(const OpenFile& connection, const std::vector<std::string>& frames,
                    const Files& files);

  const std::string address_;
  std::optional<OpenFile> connection_;
};

}  // namespace kerf::runtime
