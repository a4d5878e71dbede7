// A TCP relay that breaks: it stands between two peers on loopback and cuts their connections, so
// that what was under way is lost, swallows what is sent, holds it back, changes bits of it, or
// answers in place of whom it is for.
//
// Runs its own thread; all else is thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

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
  // From now on a bit of about every so many bytes towards the target is flipped, at random
  // distances: what is sent again is not always damaged at one place. 0: of none.
  void damage(int64_t every) { damage_every_ = every; }
  int64_t damaged() const { return damaged_; }  // bits
  // From now on every so many milliseconds a little passes; 0: at once.
  void slow_down(int milliseconds) { pause_ms_ = milliseconds; }
  // Ends every connection towards the target, as a peer that will send no more does.
  void half_close() {
    is_half_closing_ = true;
    event_.signal();
  }

  // Puts a byte of its own into each connection, towards who made it.
  void answer() {
    is_answering_ = true;
    event_.signal();
  }

 private:
  void run(const std::stop_token& stop);
  void harm(std::vector<char>& bytes);

  uint16_t target_port_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int64_t> cuts_{0};  // connections that were cut
  std::atomic<int64_t> accepted_{0};
  std::atomic<bool> swallowing_{false};
  std::atomic<int64_t> swallowed_{0};
  std::atomic<int64_t> damage_every_{0};
  std::atomic<int64_t> damaged_{0};
  std::atomic<int> pause_ms_{0};
  std::atomic<bool> is_half_closing_{false};
  std::atomic<bool> is_answering_{false};
  std::minstd_rand random_;
  int64_t harm_in_ = -1;  // bytes until the next is damaged; negative: not known yet
  runtime::EventFd event_;
  std::jthread thread_;
};

}  // namespace kerf::tests
