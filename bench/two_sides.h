// Two processes with a channel between them: what the benchmarks of the data plane share.
//
// The parent has neither threads nor a ZeroMQ context whenever it makes a Child, which is forked.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/channel.h"

namespace kerf::bench {

inline constexpr std::chrono::seconds kPatience{60};

double seconds_since(runtime::Clock::time_point begin);
// Of all processors, of this process and of its children that have ended.
double processor_seconds();

// A child process that is joined by a pair of sockets and runs `body`.
class Child {
 public:
  explicit Child(const std::function<void(int socket)>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();  // waits for its end
  int socket() const { return socket_; }

 private:
  int pid_ = -1;
  int socket_ = -1;
};

void tell(int socket, const std::string& text);
std::string hear(int socket);

// What payload on its way is guarded by: nothing, as within a host; checksums, as between hosts; or
// encryption.
enum class Guard { kNone, kSummed, kEncrypted };

// One side of a channel 0 -> 1 with this lane; the other calls it too.
std::unique_ptr<runtime::Endpoint> open_side(runtime::TransportKind kind, int self,
                                             const runtime::Lane& lane, int socket,
                                             Guard guard = Guard::kNone);

double median(std::vector<double> values);

}  // namespace kerf::bench
