#include "schedmp/lanes.h"

#include <algorithm>

namespace kerf::schedmp {

using partitioner::at;

Lanes::Lanes(const Schedule& schedule, const partitioner::StageGraph& graph, double transfer,
             Buffering buffering)
    : schedule_(schedule), transfer_(transfer), buffering_(buffering) {
  for (auto* sides : {&in_, &out_})
    for (auto& of_group : *sides) of_group.resize(schedule.groups.size());
  for (int replica = 0; replica < schedule.replicas; ++replica) add_all(graph, replica);
  messages_.resize(lanes_.size() * at(schedule.micro_batches));
}

void Lanes::add_all(const partitioner::StageGraph& graph, int replica) {
  const int stages = schedule_.stages();
  const int first = replica * stages;
  const auto add_from = [&](const std::vector<int>& others, int stage, bool gradient) {
    for (const int other : others)
      if (other < stages) add(first + other, first + stage, gradient);
  };
  for (int stage = 0; stage < std::min(stages, graph.stages()); ++stage) {
    add_from(graph.reads[at(stage)], stage, false);
    add_from(graph.gradients[at(stage)], stage, true);
  }
}

void Lanes::add(int from, int to, bool gradient) {
  const std::vector<int>& senders = schedule_.groups[at(from)];
  const std::vector<int>& receivers = schedule_.groups[at(to)];
  const bool local = std::find_first_of(senders.begin(), senders.end(), receivers.begin(),
                                        receivers.end()) != senders.end();
  in_[gradient][at(to)].push_back(count());
  out_[gradient][at(from)].push_back(count());
  lanes_.push_back({from,
                    to,
                    gradient,
                    local,
                    static_cast<int>(senders.size()),
                    static_cast<int>(receivers.size()),
                    std::vector<int>(senders.size()),
                    {}});
}

std::optional<double> Lanes::meet(const Lane& lane, const Message& message) const {
  if (message.senders < lane.senders || message.receivers < lane.receivers) return std::nullopt;
  return message.time + transfer_;
}

std::optional<double> Lanes::send(int number, int micro_batch, int worker, double now, bool first) {
  Lane& lane = lanes_[at(number)];
  Message& message = this->message(number, micro_batch);
  if (meets(lane)) {
    if (first) {
      ++message.senders;
      message.time = std::max(message.time, now);
    }
    return meet(lane, message);
  }
  if (counts()) {
    const std::vector<int>& group = schedule_.groups[at(lane.from)];
    int& sent = lane.sent[at(
        static_cast<int>(std::find(group.begin(), group.end(), worker) - group.begin()))];
    const int before = sent - buffering_.messages;  // the message whose place this one takes
    if (before >= static_cast<int>(lane.freed.size())) return std::nullopt;
    if (before >= 0) now = std::max(now, lane.freed[at(before)]);
    ++sent;
  }
  ++message.senders;
  message.time = std::max(message.time, now + (lane.local ? 0 : transfer_));
  return now;
}

std::optional<double> Lanes::receive(int number, int micro_batch, double now, bool first) {
  Lane& lane = lanes_[at(number)];
  Message& message = this->message(number, micro_batch);
  if (meets(lane)) {
    if (first) {
      ++message.receivers;
      message.time = std::max(message.time, now);
    }
    return meet(lane, message);
  }
  if (message.senders < lane.senders) return std::nullopt;
  now = std::max(now, message.time);
  message.taken = std::max(message.taken, now);
  if (++message.receivers == lane.receivers && counts()) lane.freed.push_back(message.taken);
  return now;
}

std::optional<double> Lanes::taken(int lane, int micro_batch, double now) const {
  const Message& message = messages_[index(lane, micro_batch)];
  if (message.receivers < of(lane).receivers) return std::nullopt;
  return std::max(now, message.taken);
}

}  // namespace kerf::schedmp
