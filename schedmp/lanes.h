// The lanes of a graph of stages: the messages that go from one stage to another, and who waits for
// them. For unfold.cc. Used by one thread.
//
// Groups act as one: a message is there once every member of the group that sends it has, and its
// place is free again once every member of the other has taken it up.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "partitioner/at.h"
#include "partitioner/stage_graph.h"
#include "schedmp/unfold.h"

namespace kerf::schedmp {

class Lanes {
 public:
  // Schedule and graph outlive them. An edge to a stage that the schedule lacks has no lane.
  Lanes(const Schedule& schedule, const partitioner::StageGraph& graph, const ActionCosts& costs,
        Buffering buffering);

  int count() const { return static_cast<int>(lanes_.size()); }
  int from(int lane) const { return of(lane).from; }  // group, by its number in the schedule
  int to(int lane) const { return of(lane).to; }
  bool is_gradient(int lane) const { return of(lane).gradient; }
  bool is_local(int lane) const { return of(lane).local; }
  bool is_sum(int lane) const { return of(lane).sum; }
  // By group, where stages have replicas: what its REDUCE_GRAD sends to the stage's others, once a
  // step, and its update takes up from them. Nobody waits to send it.
  const std::vector<int>& sums_out(size_t group) const { return sums_out_[group]; }
  const std::vector<int>& sums_in(size_t group) const { return sums_in_[group]; }
  // By group: the lanes that its forwards take up and send on, or those of its input gradients.
  const std::vector<int>& in(size_t group, bool gradient) const { return in_[gradient][group]; }
  const std::vector<int>& out(size_t group, bool gradient) const { return out_[gradient][group]; }

  // The moment from which a worker that comes to it `now` may go on; empty: not yet, so that it
  // asks again, and no more for the first time.
  std::optional<double> send(int lane, int micro_batch, int worker, double now, bool first);
  std::optional<double> receive(int lane, int micro_batch, double now, bool first);
  // The same, until what was sent is taken up.
  std::optional<double> taken(int lane, int micro_batch, double now) const;

 private:
  struct Lane {
    int from = 0;
    int to = 0;
    bool gradient = false;
    bool local = false;  // some worker is at both ends
    bool sum = false;    // of gradients of weights, to another replica
    int senders = 0;
    int receivers = 0;
    int first_way = -1;         // by sender, by receiver; -1: nothing is known of its links
    std::vector<int> sent;      // by member of the sending group: messages
    std::vector<double> freed;  // when a place was, in order; kept where places are counted
  };
  // What a member's share of a message takes to a member of the other group.
  struct Way {
    double on_link = 0;
    double latency = 0;
    int queue = -1;  // that it goes through; -1: it waits for nobody
  };
  struct Message {
    double time = 0;   // from which it is there; until all have met: at which the last has come
    double taken = 0;  // when the last that took it up did
    int senders = 0;   // that have sent it
    int receivers = 0;
  };

  const Lane& of(int lane) const { return lanes_[partitioner::at(lane)]; }
  size_t index(int lane, int micro_batch) const {
    return partitioner::at(lane) * partitioner::at(schedule_.micro_batches) +
           partitioner::at(micro_batch);
  }
  Message& message(int lane, int micro_batch) { return messages_[index(lane, micro_batch)]; }
  void add_all(const partitioner::StageGraph& graph, int replica);
  void add_sums();
  // Its number.
  int add(int from, int to);
  // What all lanes' messages take on their way.
  void add_ways(const ActionCosts& costs);
  double bytes_of(const Lane& lane, const ActionCosts& costs) const;
  int queue_of(int sender, int receiver, Contention contention);
  // When what that member sends of a micro-batch is with all of the other group.
  double arrives(const Lane& lane, int member, int micro_batch, double sent);
  static int member_of(const std::vector<int>& group, int worker);
  bool meets(const Lane& lane) const {
    return buffering_.messages == Buffering::kRendezvous && !lane.local && !lane.sum;
  }
  bool counts(const Lane& lane) const { return buffering_.messages > 0 && !lane.sum; }
  std::optional<double> meet(const Lane& lane, int micro_batch, Message& message, double now,
                             int& came, bool first);

  const Schedule& schedule_;
  double transfer_;
  std::vector<MicroBatchShare> shares_;  // of what a message is on its link; empty: all alike
  Buffering buffering_;
  std::vector<Lane> lanes_;
  std::array<std::vector<std::vector<int>>, 2> in_, out_;  // by whether of gradients, by group
  std::vector<std::vector<int>> sums_in_, sums_out_;       // by group
  std::vector<Message> messages_;                          // by lane, by micro-batch
  std::vector<Way> ways_;
  std::map<std::pair<int, int>, int> queues_;  // by sender and receiver; -1: by sender alone
  std::vector<double> free_;                   // by queue: from when on it has nothing to carry
};

}  // namespace kerf::schedmp
