// A TCP relay that breaks: it stands between two peers on loopback and cuts their connections, so
// that what was under way is lost.
//
// Runs its own thread; all else is thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "runtime/event_fd.h"

namespace kerf::tests {

class TcpProxy {
 public:
  // Relays to "tcp://127.0.0.1:PORT".
  explicit TcpProxy(const std::string& target);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  // "tcp://127.0.0.1:PORT" to connect to instead of the target.
  std::string address() const;
  // Resets every connection; what the proxy or the kernel held of it is lost.
  void cut() { event_.signal(); }
  int64_t cuts() const { return cuts_; }
  int64_t accepted() const { return accepted_; }  // connections
  // From now on bytes are taken and thrown away, until cut().
  void swallow() {
    swallowed_ = 0;
    swallowing_ = true;
  }
  int64_t swallowed() const { return swallowed_; }  // bytes, since the last swallow()

 private:
  void run(const std::stop_token& stop);

  uint16_t target_port_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int64_t> cuts_{0};  // connections that were cut
  std::atomic<int64_t> accepted_{0};
  std::atomic<bool> swallowing_{false};
  std::atomic<int64_t> swallowed_{0};
  runtime::EventFd event_;
  std::jthread thread_;
};

}  // namespace kerf::tests
