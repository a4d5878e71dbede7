// Messages over links: unfolded times against a plain event simulator, against formulas, and what
// workers wait for each other on the way.
#include "schedmp/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <random>
#include <tuple>

#include "runtime/error.h"
#include "schedmp/action_costs.h"
#include "schedmp/schedules.h"
#include "schedmp/staircase.h"
#include "tests/schedmp/named_schedules.h"

namespace kerf::schedmp {
namespace {

using partitioner::chain_of_stages;
using partitioner::StageGraph;
using testing::ElementsAre;

// ---- an oracle: events in order of time, links that hold queues

// (gradient, from group, to group, micro-batch, sender, receiver): one share of a message.
using Share = std::tuple<bool, int, int, int, int, int>;

class EventLoop {
 public:
  EventLoop(const Schedule& schedule, const StageGraph& graph, const ActionCosts& costs)
      : schedule_(schedule), graph_(graph), costs_(costs), workers_(schedule.rows.size()) {
    for (size_t worker = 0; worker < workers_.size(); ++worker) start(worker, 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
  }

  std::vector<std::vector<Interval>> rows() const {
    std::vector<std::vector<Interval>> all;
    for (const Worker& worker : workers_) all.push_back(worker.done);
    return all;
  }

 private:
  struct Worker {
    std::vector<Interval> done;
    bool busy = false;
  };
  struct Queue {
    std::deque<std::tuple<Share, double, double>> waiting;  // and its time on the link, its latency
    bool busy = false;
  };
  enum class Kind : uint8_t { kComputed, kLinkFree, kArrived };
  struct Event {
    double time = 0;
    int64_t number = 0;  // earlier ones of the same time first
    Kind kind{};
    size_t worker = 0;
    std::pair<int, int> queue = {};
    Share share = {};
    bool operator<(const Event& other) const {
      return std::tie(time, number) > std::tie(other.time, other.number);
    }
  };

  void add(Event event) {
    event.number = counted_++;
    events_.push(event);
  }

  static bool is_gradient(const Action& action) {
    return action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
  }
  bool moves(const Action& action) const {
    return is_gradient(action) || action.kind == ActionKind::kForward;
  }
  int group(int stage, int micro_batch) const {
    return static_cast<int>(schedule_.group(stage, micro_batch));
  }
  const std::vector<int>& members(int group) const {
    return schedule_.groups[static_cast<size_t>(group)];
  }
  bool local(int from, int to) const {
    return std::ranges::any_of(
        members(from), [&](int worker) { return std::ranges::count(members(to), worker) > 0; });
  }

  std::vector<Share> shares(bool gradient, int from, int to, int micro_batch) const {
    std::vector<Share> all;
    for (const int sender : members(from))
      for (const int receiver : members(to))
        all.emplace_back(gradient, from, to, micro_batch, sender, receiver);
    return all;
  }

  bool ready(const Action& action) const {
    if (!moves(action)) return true;
    const bool gradient = is_gradient(action);
    const auto& before = (gradient ? graph_.gradients : graph_.reads);
    for (const int other : before[static_cast<size_t>(action.stage)])
      for (const Share& share : shares(gradient, group(other, action.micro_batch),
                                       group(action.stage, action.micro_batch), action.micro_batch))
        if (!arrived_.contains(share)) return false;
    return true;
  }

  void start(size_t number, double now) {
    Worker& worker = workers_[number];
    const auto& row = schedule_.rows[number];
    if (worker.busy || worker.done.size() == row.size()) return;
    const size_t next = worker.done.size();
    if (!ready(row[next])) return;
    worker.busy = true;
    const double end = now + costs_.of(row[next], static_cast<int>(number), next);
    worker.done.push_back({now, end});
    add({end, 0, Kind::kComputed, number, {}, {}});
  }

  void send(size_t number, const Action& action, double now) {
    const bool gradient = is_gradient(action);
    const auto& after = gradient ? graph_.gradients : graph_.reads;
    const int from = group(action.stage, action.micro_batch);
    for (int stage = 0; stage < graph_.stages(); ++stage) {
      if (std::ranges::count(after[static_cast<size_t>(stage)], action.stage) == 0) continue;
      const int to = group(stage, action.micro_batch);
      const StageBytes& bytes = costs_.bytes_of_stage(action.stage);
      const double share_bytes = (gradient ? bytes.input_gradient : bytes.forward) /
                                 static_cast<double>(members(from).size());
      for (const Share& share : shares(gradient, from, to, action.micro_batch))
        if (std::get<4>(share) == static_cast<int>(number)) put(share, share_bytes, now);
    }
  }

  void put(const Share& share, double bytes, double now) {
    const auto& [gradient, from, to, micro_batch, sender, receiver] = share;
    if (local(from, to)) return add({now, 0, Kind::kArrived, 0, {}, share});
    const Link* link = costs_.links.between(sender, receiver);
    if (link == nullptr) return add({now + costs_.transfer, 0, Kind::kArrived, 0, {}, share});
    const double on_link = bytes / link->bandwidth;
    if (costs_.links.contention == Contention::kNone)
      return add({now + on_link + link->latency, 0, Kind::kArrived, 0, {}, share});
    const std::pair key(sender, costs_.links.contention == Contention::kPort ? -1 : receiver);
    queues_[key].waiting.emplace_back(share, on_link, link->latency);
    advance(key, now);
  }

  void advance(std::pair<int, int> key, double now) {
    Queue& queue = queues_[key];
    if (queue.busy || queue.waiting.empty()) return;
    const auto [share, on_link, latency] = queue.waiting.front();
    queue.waiting.pop_front();
    queue.busy = true;
    add({now + on_link, 0, Kind::kLinkFree, 0, key, share});
    add({now + on_link + latency, 0, Kind::kArrived, 0, key, share});
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case Kind::kComputed: {
        Worker& worker = workers_[event.worker];
        const Action& action = schedule_.rows[event.worker][worker.done.size() - 1];
        worker.busy = false;
        if (moves(action)) send(event.worker, action, event.time);
        start(event.worker, event.time);
        break;
      }
      case Kind::kLinkFree:
        queues_[event.queue].busy = false;
        advance(event.queue, event.time);
        break;
      case Kind::kArrived:
        arrived_.emplace(event.share, event.time);
        // Members of a group act as one: they begin once all of them have all of it.
        for (const int worker : members(std::get<2>(event.share)))
          start(static_cast<size_t>(worker), event.time);
        break;
    }
  }

  const Schedule& schedule_;
  const StageGraph& graph_;
  const ActionCosts& costs_;
  std::vector<Worker> workers_;
  std::map<std::pair<int, int>, Queue> queues_;
  std::map<Share, double> arrived_;
  std::priority_queue<Event> events_;
  int64_t counted_ = 0;
};

double draw(std::mt19937& random, double most) {
  return most * static_cast<double>(random() % 1000 + 1) / 1000;
}

ActionCosts random_costs(std::mt19937& random, int stages, int workers) {
  ActionCosts costs;
  for (int stage = 0; stage < stages; ++stage) {
    costs.stages.push_back({draw(random, 2), draw(random, 2), draw(random, 2)});
    costs.bytes.push_back({draw(random, 100), draw(random, 100), 0, 0});
  }
  costs.transfer = draw(random, 1);
  for (int worker = 0; worker < workers; ++worker) costs.speeds.push_back(0.5 + draw(random, 2));
  const auto link = [&] { return Link{draw(random, 1), 10 + draw(random, 100)}; };
  if (random() % 2 == 0) costs.links.every = link();
  for (int worker = 0; worker < workers; ++worker)
    for (int other = worker + 1; other < workers; ++other)
      if (random() % 2 == 0) costs.links.listed[{worker, other}] = link();
  costs.links.contention = static_cast<Contention>(random() % 3);
  return costs;
}

void expect_as_the_oracle(const Schedule& schedule, const StageGraph& graph,
                          const ActionCosts& costs) {
  const Unfolded unfolded = unfold(schedule, graph, costs);
  ASSERT_TRUE(unfolded.stuck.empty());
  const auto expected = EventLoop(schedule, graph, costs).rows();
  for (size_t worker = 0; worker < expected.size(); ++worker) {
    ASSERT_EQ(unfolded.rows[worker].size(), expected[worker].size());
    for (size_t i = 0; i < expected[worker].size(); ++i) {
      ASSERT_NEAR(unfolded.rows[worker][i].begin, expected[worker][i].begin, 1e-9)
          << schedule.name << " worker " << worker << " " << to_string(schedule.rows[worker][i]);
      ASSERT_NEAR(unfolded.rows[worker][i].end, expected[worker][i].end, 1e-9);
    }
  }
}

TEST(LinksOracle, AgreesOnEveryBuiltInSchedule) {
  std::mt19937 random(1);
  for (int round = 0; round < 8; ++round)
    for (const int workers : {2, 4})
      for (const std::string& name : tests::schedules_of(workers, 6)) {
        Schedule schedule = tests::made(name, workers, 6);
        if (schedule.endless()) schedule = unrolled(schedule, 2);
        // Sums of replicas are told apart below.
        if (schedule.replicas > 1)
          for (auto& row : schedule.rows)
            std::erase_if(row, [](const Action& action) { return is_of_updates(action.kind); });
        const StageGraph graph = chain_of_stages(schedule.stages());
        expect_as_the_oracle(schedule, graph, random_costs(random, schedule.stages(), workers));
      }
}

TEST(LinksOracle, AgreesOnGraphsAndGroups) {
  std::mt19937 random(2);
  const StageGraph towers{{{}, {0}, {}, {2}, {1, 3}}, {{1}, {4}, {3}, {4}, {}}};
  StageGraph skipping = chain_of_stages(4);
  skipping.reads[3] = {0, 2};
  skipping.gradients[0] = {1, 3};
  for (int round = 0; round < 40; ++round) {
    expect_as_the_oracle(one_f_one_b({{{0}, {1}, {2}, {3}, {4}}, towers}, 5), towers,
                         random_costs(random, 5, 5));
    expect_as_the_oracle(gpipe({{{0}, {1}, {2}, {0}}, skipping}, 4), skipping,
                         random_costs(random, 4, 3));
    expect_as_the_oracle(one_f_one_b({{{0, 1}, {2, 3, 4}, {5}}, chain_of_stages(3)}, 4),
                         chain_of_stages(3), random_costs(random, 3, 6));
  }
}

// ---- formulas

ActionCosts over(const Link& link, double bytes, StageCosts each = {}) {
  ActionCosts costs;
  costs.others = each;
  costs.links.every = link;
  costs.other_bytes = {bytes, bytes, 0, 0};
  return costs;
}

double makespan(const Schedule& schedule, const ActionCosts& costs) {
  return bubble(schedule, chain_of_stages(schedule.stages()), costs).makespan;
}

// While a link takes no longer than what feeds it, a message costs each ramp its way once.
TEST(Links, AddTheirWayToEachRampOfGPipe) {
  for (const int p : {2, 3, 5})
    for (const int m : {1, 4, 9}) {
      const Schedule schedule = tests::made("gpipe", p, m);
      const ActionCosts costs = over({0.25, 100}, 50, {1, 1, 1});
      EXPECT_NEAR(makespan(schedule, costs), 3.0 * (m + p - 1) + 2 * (p - 1) * 0.75, 1e-9);
    }
}

// Beyond that, the link is what a step takes: m messages one after another, each way.
TEST(Links, AreTheBottleneckWhereTheyTakeLonger) {
  const ActionCosts costs = over({0.5, 10}, 50, {1, 1, 1});  // 5 on the link
  for (const int m : {1, 3, 8}) {
    const Schedule schedule = tests::made("gpipe", 2, m);
    EXPECT_NEAR(makespan(schedule, costs), 2 * 1 + 2 * 2 + 2 * m * 5 + 2 * 0.5, 1e-9);
    ActionCosts free = costs;
    free.links.contention = Contention::kNone;
    EXPECT_NEAR(makespan(schedule, free), 3.0 * (m + 1) + 2 * 5.5, 1e-9)
        << "as if each had a link to itself";
  }
}

// ---- what is modelled

std::vector<double> begins(const Unfolded& unfolded, size_t worker) {
  std::vector<double> all;
  for (const Interval& each : unfolded.rows[worker]) all.push_back(each.begin);
  return all;
}

Schedule parsed(const std::string& body) {
  return parse_schedule("kerf-schedule 1\nname x\n" + body, "test");
}

// A stage whose forward goes to two others, on workers of their own.
TEST(Links, ShareAPortOrDoNot) {
  const Schedule schedule = parsed(
      "workers 3\nmicro-batches 1\nstage 0 on 0\nstage 1 on 1\nstage 2 on 2\n"
      "row 0: 0F0\nrow 1: 1F0\nrow 2: 2F0\n");
  const StageGraph fork{{{}, {0}, {0}}, {{1, 2}, {}, {}}};
  ActionCosts costs = over({0.5, 10}, 30);
  EXPECT_THAT(begins(unfold(schedule, fork, costs), 2), ElementsAre(4.5));
  costs.links.contention = Contention::kPort;
  EXPECT_THAT(begins(unfold(schedule, fork, costs), 1), ElementsAre(4.5));
  EXPECT_THAT(begins(unfold(schedule, fork, costs), 2), ElementsAre(7.5));
}

// Both are held until it has arrived.
TEST(Links, UnderRendezvousHoldBothEnds) {
  const Schedule schedule = parsed(
      "workers 2\nmicro-batches 2\nstage 0 on 0\nstage 1 on 1\n"
      "row 0: 0F0 0F1\nrow 1: 1F0 1F1\n");
  const Unfolded unfolded =
      unfold(schedule, chain_of_stages(2), over({0.5, 10}, 20), {Buffering::kRendezvous});
  EXPECT_THAT(begins(unfolded, 0), ElementsAre(0, 3.5));
  EXPECT_THAT(begins(unfolded, 1), ElementsAre(3.5, 7));
}

TEST(Links, OfWhichNothingIsKnownTakeCOMM) {
  const Schedule schedule = parsed(
      "workers 3\nmicro-batches 1\nstage 0 on 0\nstage 1 on 1\nstage 2 on 2\n"
      "row 0: 0F0\nrow 1: 1F0\nrow 2: 2F0\n");
  ActionCosts costs;
  costs.transfer = 4;
  costs.links.listed[{0, 1}] = {0.5};
  const Unfolded unfolded = unfold(schedule, chain_of_stages(3), costs);
  EXPECT_THAT(begins(unfolded, 1), ElementsAre(1.5));
  EXPECT_THAT(begins(unfolded, 2), ElementsAre(6.5));
}

TEST(Links, CarryTheSumsOfReplicas) {
  const Schedule schedule = tests::made("chimera", 2, 2);
  const StageGraph graph = chain_of_stages(2);
  ActionCosts costs = over({0, 10}, 0);
  const auto end = [&] {
    double last = 0;
    for (const auto& row : unfold(schedule, graph, costs).rows)
      last = std::max(last, row.back().end);
    return last;
  };
  const double without = end();
  costs.other_bytes.weight_gradient = 70;
  EXPECT_NEAR(end(), without + 14, 1e-9) << "of two stages, one behind the other";
}

// ---- as text

TEST(Links, AreReadAsWritten) {
  EXPECT_EQ(parse_link("0.5").latency, 0.5);
  EXPECT_EQ(parse_link("5e-5,1e9"), (Link{5e-5, 1e9}));
  for (const char* text :
       {"", "1,", "1,0", "-1", "nan", "1,nan", "1,-1", "1,1,1", "x", "inf", "1,1e19", "1e7", " 1"})
    EXPECT_THROW(parse_link(text), Error) << text;
  ActionCosts costs;
  parse_message_bytes("100", costs);
  EXPECT_EQ(costs.other_bytes, (StageBytes{100, 100, 0, 0}));
  parse_message_bytes("100,50,7", costs);
  EXPECT_EQ(costs.other_bytes, (StageBytes{100, 50, 7, 0}));
  for (const char* text : {"", "-1", "1,2,3,4", "1e16", "nan", "a"})
    EXPECT_THROW(parse_message_bytes(text, costs), Error) << text;
  EXPECT_THROW(parse_contention("lnk"), Error);
}

TEST(Links, OfAFileOfDevicesTakeWhatItLeavesOutFromAllOthers) {
  partitioner::Capacities capacities;
  capacities.links[{0, 1}] = {1e6, std::nullopt};
  capacities.links[{1, 2}] = {std::nullopt, 0.25};
  const Links links = links_of(capacities, Link{0.5, 1e3});
  EXPECT_EQ(*links.between(1, 0), (Link{0.5, 1e6}));
  EXPECT_EQ(*links.between(1, 2), (Link{0.25, 1e3}));
  EXPECT_EQ(*links.between(0, 2), (Link{0.5, 1e3}));
  EXPECT_EQ(links_of(capacities, std::nullopt).between(0, 2), nullptr);
}

TEST(Links, BytesOfCostsAreReadAsWritten) {
  ActionCosts costs{{{1, 2, 3}, {4, 5, 6}}};
  costs.bytes = {{10, 0, 0, 40}, {0, 20, 30, 0}};
  const ActionCosts back = read_costs(write_costs(costs), "costs.json");
  EXPECT_EQ(back.stages, costs.stages);
  EXPECT_EQ(back.bytes, costs.bytes);
  for (const char* bytes : {"-1", "1e16", "\"x\"", "null"})
    EXPECT_THROW(read_costs(format(R"({{"kerf_costs": 1, "stages": [{{"F": 1, "I": 1, "W": 1,
                                      "F_bytes": {}}}]}})",
                                   bytes),
                            "costs.json"),
                 Error)
        << bytes;
}

}  // namespace
}  // namespace kerf::schedmp
