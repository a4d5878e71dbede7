// The mailbox: a worker's messages, route by route.
//
// A channel delivers in the order of commits; the executor consumes in the order of its row. What
// comes early waits here, in its slot. What a worker sends to itself goes through a lane of its own
// here: slots and credits as any, and no transport. Time spent waiting, and what crossed, is
// counted. A step without waiting allocates nothing.
//
// Used by the compute thread only; all references outlive it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "partitioner/plan.h"
#include "runtime/worker.h"
#include "schedmp/interpreter.h"
#include "schedmp/training/messages.h"

namespace kerf::schedmp {

class Mailbox {
 public:
  // `credits`: slots of each route.
  Mailbox(const partitioner::Model& model, const partitioner::Plan& plan,
          const std::vector<int32_t>& credits, runtime::Workplace& workplace);

  // What is sent and taken from now on belongs to the task with this number, or where its site says
  // so to the one behind or before it, and counts from 0.
  void begin(int64_t sequence);

  // For the micro-batch of the site, or its step. Blocks until a slot is free.
  runtime::Slot acquire(int route, const Site& site, size_t bytes);
  // Of what is in the worker's stream by now. What is retained is to be retired.
  void commit(int route, const Site& site, const runtime::Slot& slot, bool retained = false);
  // What reads the slot is in the worker's stream by now.
  void retire(int route, const runtime::Slot& slot);

  // Blocks until the message is there. Throws Error{kProtocol} if it is not of `bytes`.
  runtime::View take(int route, const Site& site, size_t bytes);
  void release(int route, const runtime::View& view);

  // "the gradient of fc1 of micro-batch 3"
  std::string name_of(int route, const Site& site) const;
  // For traces: equal at a send and its receive, different for any two messages of a run.
  uint64_t flow_of(int route, const Site& site) const;

  // Since begin().
  int64_t waited_ns() const { return waited_ns_; }
  int64_t bytes_in() const { return bytes_in_; }  // from other workers
  // Routes with messages only; overwrites.
  void sent(std::vector<RouteCount>& counts) const;

 private:
  // The slots of a route from this worker to itself.
  struct OwnLane {
    enum class State : uint8_t { kFree, kTaken, kCommitted, kHeld, kReleased };
    std::byte* memory = nullptr;
    size_t slot_bytes = 0;
    std::vector<State> slots;
    std::vector<char> retained;
    std::vector<runtime::Tag> tags;
    std::vector<size_t> bytes;
  };

  const partitioner::Route& route(int index) const {
    return plan_.routes[static_cast<size_t>(index)];
  }
  int sender_of(int route) const;
  int receiver_of(int route) const;
  bool own(int route) const { return sender_of(route) == receiver_of(route); }
  void make_own_lanes(const std::vector<int32_t>& credits);
  int32_t sequence_of(const Site& site) const;
  runtime::Tag tag_of(int route, const Site& site) const;
  runtime::Slot acquire_own(int route, size_t bytes);
  runtime::View take_own(int route, const runtime::Tag& tag);
  runtime::View await(int route, const Site& site);
  const std::string& say(std::string_view before, int route, const Site& site);

  const partitioner::Model& model_;
  const partitioner::Plan& plan_;
  runtime::Workplace& workplace_;
  std::vector<int> lanes_;        // by route
  std::vector<RouteCount> sent_;  // by route
  std::vector<runtime::View> early_;
  std::map<int, OwnLane> own_;  // by route
  runtime::Buffer own_memory_;
  std::vector<std::string> names_;  // by route
  std::string said_;                // what is awaited, scratch
  int64_t sequence_ = 0;
  int64_t waited_ns_ = 0;
  int64_t bytes_in_ = 0;
};

}  // namespace kerf::schedmp
