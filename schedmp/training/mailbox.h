// The mailbox: messages of all peers, asked for by tag.
//
// A channel delivers in the order of commits; the executor consumes in the order of its row. What
// comes early waits here, in its slot. Time spent waiting is counted. One thread.
#pragma once

#include <map>

#include "runtime/worker.h"

namespace kerf::schedmp {

class Mailbox {
 public:
  explicit Mailbox(runtime::Workplace& workplace) : workplace_(workplace) {}

  // Blocks until the message with this tag is there. `what` names it in reports.
  runtime::View take(int peer, const runtime::Tag& tag, const std::string& what);
  // Blocks until a slot is free.
  runtime::Slot acquire(int peer, int lane, size_t bytes, const std::string& what);
  void release(int peer, const runtime::View& view);

  int64_t waited_ns() const { return waited_ns_; }
  int64_t bytes_in() const { return bytes_in_; }

 private:
  runtime::Workplace& workplace_;
  std::map<std::pair<int, runtime::Tag>, runtime::View> early_;
  int64_t waited_ns_ = 0;
  int64_t bytes_in_ = 0;
};

}  // namespace kerf::schedmp
