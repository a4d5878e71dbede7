#include "schedmp/lanes.h"

#include <algorithm>

namespace kerf::schedmp {

using partitioner::at;

Lanes::Lanes(const Schedule& schedule, const partitioner::StageGraph& graph,
             const ActionCosts& costs, Buffering buffering)
    : schedule_(schedule), transfer_(costs.transfer), shares_(costs.shares), buffering_(buffering) {
  for (auto* sides : {&in_, &out_})
    for (auto& of_group : *sides) of_group.resize(schedule.groups.size());
  sums_in_.resize(schedule.groups.size());
  sums_out_.resize(schedule.groups.size());
  for (int replica = 0; replica < schedule.replicas; ++replica) add_all(graph, replica);
  add_sums();
  if (!costs.links.empty()) add_ways(costs);
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

double Lanes::bytes_of(const Lane& lane, const ActionCosts& costs) const {
  const StageBytes& stage = costs.bytes_of_stage(lane.from % schedule_.stages());
  return lane.sum ? stage.weight_gradient : lane.gradient ? stage.input_gradient : stage.forward;
}

int Lanes::queue_of(int sender, int receiver, Contention contention) {
  if (contention == Contention::kNone) return -1;
  const int to = contention == Contention::kPort ? -1 : receiver;
  const auto [queue, added] = queues_.try_emplace({sender, to}, static_cast<int>(free_.size()));
  if (added) free_.push_back(0);
  return queue->second;
}

void Lanes::add_ways(const ActionCosts& costs) {
  for (Lane& lane : lanes_) {
    if (lane.local) continue;
    lane.first_way = static_cast<int>(ways_.size());
    const double share = bytes_of(lane, costs) / lane.senders;
    for (const int sender : schedule_.groups[at(lane.from)])
      for (const int receiver : schedule_.groups[at(lane.to)]) {
        const Link* link = costs.links.between(sender, receiver);
        if (link == nullptr)
          ways_.push_back({0, transfer_});
        else
          ways_.push_back({link->seconds_of(share), link->latency,
                           queue_of(sender, receiver, costs.links.contention)});
      }
  }
}

double Lanes::arrives(const Lane& lane, int member, int micro_batch, double sent) {
  if (lane.local) return sent;
  if (lane.first_way < 0) return sent + transfer_;
  const bool all = lane.sum || shares_.empty();
  const double share = all ? 1 : shares_[at(micro_batch) % shares_.size()].bytes;
  double last = sent;
  for (int receiver = 0; receiver < lane.receivers; ++receiver) {
    const Way& way = ways_[at(lane.first_way + member * lane.receivers + receiver)];
    double unshared = 0;
    double& free = way.queue < 0 ? unshared : free_[at(way.queue)];
    last = std::max(last, arrival(free, sent, share * way.on_link, way.latency));
  }
  return last;
}

int Lanes::member_of(const std::vector<int>& group, int worker) {
  return static_cast<int>(std::find(group.begin(), group.end(), worker) - group.begin());
}

// Who comes last sets the message on its way: all others wait until then.
std::optional<double> Lanes::meet(const Lane& lane, int micro_batch, Message& message, double now,
                                  int& came, bool first) {
  if (first) {
    ++came;
    message.time = std::max(message.time, now);
  }
  if (message.senders < lane.senders || message.receivers < lane.receivers) return std::nullopt;
  if (!first) return message.time;
  const double met = message.time;
  for (int member = 0; member < lane.senders; ++member)
    message.time = std::max(message.time, arrives(lane, member, micro_batch, met));
  return message.time;
}

std::optional<double> Lanes::send(int number, int micro_batch, int worker, double now, bool first) {
  Lane& lane = lanes_[at(number)];
  Message& message = this->message(number, micro_batch);
  if (meets(lane)) return meet(lane, micro_batch, message, now, message.senders, first);
  const int member = lane.senders == 1 ? 0 : member_of(schedule_.groups[at(lane.from)], worker);
  if (counts(lane)) {
    int& sent = lane.sent[at(member)];
    const int before = sent - buffering_.messages;  // the message whose place this one takes
    if (before >= static_cast<int>(lane.freed.size())) return std::nullopt;
    if (before >= 0) now = std::max(now, lane.freed[at(before)]);
    ++sent;
  }
  ++message.senders;
  message.time = std::max(message.time, arrives(lane, member, micro_batch, now));
  return now;
}

std::optional<double> Lanes::receive(int number, int micro_batch, double now, bool first) {
  Lane& lane = lanes_[at(number)];
  Message& message = this->message(number, micro_batch);
  if (meets(lane)) return meet(lane, micro_batch, message, now, message.receivers, first);
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
