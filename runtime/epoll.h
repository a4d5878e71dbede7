// A set of descriptors to wait for.
//
// Belongs to whoever waits; thread-safe as epoll is.
#pragma once

#include <sys/epoll.h>

#include <cstdint>

#include "runtime/open_file.h"

namespace kerf::runtime {

class Epoll {
 public:
  // Throws Error{kUnavailable} if the kernel has no descriptors left.
  Epoll();
  int descriptor() const { return file_.number(); }
  // `events` as epoll_ctl() has them, `whose` for epoll_event::data. Throws Error{kUnavailable} if
  // the kernel has no room left.
  void add(int descriptor, uint32_t events, void* whose = nullptr) const;
  // Whether it could.
  bool try_add(int descriptor, uint32_t events, void* whose) const;
  // Of a descriptor that was added. One that is closed is removed by that, unless a forked child
  // has it too.
  void remove(int descriptor) const;
  void change(int descriptor, uint32_t events, void* whose = nullptr) const;

 private:
  OpenFile file_;
};

}  // namespace kerf::runtime
