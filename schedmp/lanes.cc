#include "schedmp/lanes.h"

#include <algorithm>

namespace kerf::schedmp {

using partitioner::at;

Lanes::Lanes(const Schedule& schedule, const partitioner::StageGraph& graph, double transfer,
             Buffering buffering)
    : schedule_(schedule), transfer_(transfer), buffering_(buffering) {
  for (auto* sides : {&in_, &out_})
    for (auto& of_group : *sides) of_group.resize(schedule.groups.size());
  sums_in_.resize(schedule.groups.size());
  sums_out_.resize(schedule.groups.size());
  for (int replica = 0; replica < schedule.replicas; ++replica) add_all(graph, replica);
  add_sums();
  messages_.resize(lanes_.size() * at(schedule.micro_batches));
}

void Lanes::add_all(const partitioner::StageGraph& graph, int replica) {
  const int stages = schedule_.stages();
  const int first = replica * stages;
  const auto add_from = [&](const std::vector<int>& others, int stage, bool gradient) {
    for (const int other : others) {
      if (other >= stages) continue;
      const int lane = add(first + other, first + stage);
      lanes_.back().gradient = gradient;
      in_[gradient][at(first + stage)].push_back(lane);
      out_[gradient][at(first + other)].push_back(lane);
    }
  };
  for (int stage = 0; stage < std::min(stages, graph.stages()); ++stage) {
    add_from(graph.reads[at(stage)], stage, false);
    add_from(graph.gradients[at(stage)], stage, true);
  }
}

void Lanes::add_sums() {
  const auto groups = static_cast<int>(schedule_.groups.size());
  for (int from = 0; from < groups; ++from)
    for (int to = from % schedule_.stages(); to < groups; to += schedule_.stages()) {
      if (from == to) continue;
      const int lane = add(from, to);
      lanes_.back().sum = true;
      sums_out_[at(from)].push_back(lane);
      sums_in_[at(to)].push_back(lane);
    }
}

int Lanes::add(int from, int to) {
  const std::vector<int>& senders = schedule_.groups[at(from)];
  const std::vector<int>& receivers = schedule_.groups[at(to)];
  Lane lane;
  lane.from = from;
  lane.to = to;
  lane.local = std::find_first_of(senders.begin(), senders.end(), receivers.begin(),
                                  receivers.end()) != senders.end();
  lane.senders = static_cast<int>(senders.size());
  lane.receivers = static_cast<int>(receivers.size());
  lane.sent.resize(senders.size());
  lanes_.push_back(std::move(lane));
  return count() - 1;
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
  if (counts(lane)) {
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
  if (++message.receivers == lane.receivers && counts(lane)) lane.freed.push_back(message.taken);
  return now;
}

std::optional<double> Lanes::taken(int lane, int micro_batch, double now) const {
  const Message& message = messages_[index(lane, micro_batch)];
  if (message.receivers < of(lane).receivers) return std::nullopt;
  return std::max(now, message.taken);
}

}  // namespace kerf::schedmp
