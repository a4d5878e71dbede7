// Packet sockets between threads of one process: for tests that must know who takes which packet.
//
//   PacketExchange exchange;
//   LinkEndpoint endpoint(exchange.make_socket("worker 0"), device, store);
//
// Workers are known by the number that they identify() themselves with. Owned by the test, outlives
// its sockets. Thread-safe; a socket is what runtime/link/packet_socket.h says.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "runtime/event_fd.h"
#include "runtime/link/packet_socket.h"

namespace kerf::tests {

class PacketExchange {
 public:
  std::unique_ptr<runtime::PacketSocket> make_socket(const std::string& label);

  // Packets that the calling thread took for this worker, and that others did.
  int64_t taken_by_me(int worker) const;
  int64_t taken_by_others(int worker) const;
  // How often somebody looked for this worker's packets.
  int64_t looks(int worker) const;
  // Both false if it is not so by the deadline. Nothing is there for this worker, and whoever took
  // the last packet has looked again:
  bool wait_until_taken(int worker, runtime::Deadline deadline);
  // somebody waits for this worker's packets in PacketSocket::wait():
  bool wait_until_waiting(int worker, runtime::Deadline deadline);
  // Packets like this one for this worker, all at once.
  void flood(int worker, const runtime::PacketHeader& head, int count);
  // From now on nobody is woken by this worker's packets: whoever would be comes too late.
  void silence(int worker);
  // Packets that nobody has taken for this worker.
  size_t untaken(int worker) const;
  // From now on connections of this worker take payload only by send_unsent(), as they do; counted
  // is who calls it.
  void keep_payload(int worker);
  int64_t sent_by_me(int worker) const;
  int64_t sent_by_others(int worker) const;
  // From now on whoever looks for this worker's packets gets an Error{kUnavailable} with this text.
  void fail(int worker, const std::string& text);

 private:
  friend class ExchangeSocket;
  struct Inbox {
    std::deque<std::pair<runtime::PacketHeader, std::string>> packets;
    bool looked_at = true;  // and found empty, since the last one came
    bool silent = false;
    int waiting = 0;
    int64_t looks = 0;
    std::map<std::thread::id, int64_t> taken;
    std::string failure;
    // Of packets that this worker sends:
    bool keeps_payload = false;
    struct Unsent {
      int to = 0;
      runtime::PacketHeader head;
      std::string_view body;
    };
    std::deque<Unsent> unsent;
    std::map<std::thread::id, int64_t> sent;
    // Rings when packets come and whoever looked last had found none, and is still by the next
    // look: so do those of connections.
    runtime::EventFd bell;
  };
  // Both with the lock.
  Inbox& inbox(int worker) const;
  void put(int worker, const runtime::PacketHeader& head, std::string_view body);

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  mutable std::map<int, Inbox> inboxes_;
  int sockets_ = 0;
};

}  // namespace kerf::tests
