// A file that goes along with bytes over a connection within a host (SCM_RIGHTS): who receives it
// has it open, whatever processes the two see of each other.
//
// Of one call of the system, whose message refers to it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>

#include "runtime/open_file.h"

namespace kerf::runtime {

class PassedFile {
 public:
  PassedFile() = default;
  PassedFile(const PassedFile&) = delete;
  PassedFile& operator=(const PassedFile&) = delete;

  // The peer gets it with the first byte of `message`.
  void send_with(msghdr& message, const OpenFile& file);
  // One that comes with `message` is taken; the system closes all others.
  void receive_with(msghdr& message);

  struct Came {
    OpenFile file{-1};
    bool is_any = false;   // one came at least: the call took nothing of what lies behind it
    bool is_more = false;  // than one
  };
  // After a call that received `message`, with MSG_CMSG_CLOEXEC.
  static Came came_with(const msghdr& message);

 private:
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control_{};
};

}  // namespace kerf::runtime
