// The post office of an endpoint: one ROUTER that every peer sends to, one DEALER to each peer.
//
// It carries parcels (a sealed header and a body) and knows their form, not their meaning. Parcels
// of the wrong form, epoch or token are dropped and counted here.
//
// Threads: one, except interrupt(). Payload given to send_pinned must outlive the Post.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <zmq.hpp>

#include "runtime/bell.h"
#include "runtime/time.h"
#include "runtime/zmq/descriptor.h"

namespace kerf::runtime {

struct Parcel {
  Descriptor head;
  zmq::message_t body;
  std::string_view text() const { return body.to_string_view(); }
};

class Post {
 public:
  // `scheme` is "ipc" or "tcp"; binds at once.
  Post(std::string label, const std::string& scheme);

  const std::string& label() const { return label_; }
  const std::string& address() const { return address_; }

  // From now on parcels carry and must carry these.
  void identify(int32_t self, uint32_t epoch, uint64_t token);
  void connect(int32_t peer, const std::string& address);

  // Fills in magic, version, epoch, from, token and checksums.
  void send(int32_t peer, Descriptor head, std::string_view body = {});
  // The same, with `bytes` at `data` as body: not copied, not to be changed before the peer has it.
  void send_pinned(int32_t peer, Descriptor head, const std::byte* data, size_t bytes);
  // The next sound parcel, without waiting. Returns empty as well after many unsound ones, so that
  // their sender cannot hold us; wait() then returns at once.
  [[nodiscard]] std::optional<Parcel> receive();

  // Blocks until a parcel may be there, interrupt(), a signal, or `deadline`. Only after receive()
  // returned empty: ZeroMQ tells of new messages once, not of those still unread.
  void wait(Deadline deadline);
  void interrupt();
  // Throws Error{kInterrupted} after interrupt().
  void check_interrupted() const;

  int64_t dropped() const { return dropped_; }
  void drop() { ++dropped_; }

 private:
  zmq::socket_t& dealer(int32_t peer);
  void send_head(int32_t peer, Descriptor& head, std::string_view body, bool more);
  void send_frame(int32_t peer, std::string_view bytes, bool more);
  std::optional<Parcel> read_parcel();

  const std::string label_;
  zmq::context_t context_;
  zmq::socket_t router_;
  std::map<int32_t, zmq::socket_t> dealers_;
  const std::string address_;
  const int router_descriptor_;
  std::string incarnation_;
  int32_t self_ = 0;
  uint32_t epoch_ = 0;
  uint64_t token_ = 0;
  int64_t dropped_ = 0;
  bool more_ = false;  // receive() stopped before it had read everything
  std::atomic<bool> interrupted_{false};
  Bell bell_;
};

}  // namespace kerf::runtime
