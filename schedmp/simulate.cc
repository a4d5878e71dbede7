#include "schedmp/simulate.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/copies.h"
#include "schedmp/interpreter.h"
#include "schedmp/links.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

using partitioner::at;
using partitioner::DeviceSpeed;
using partitioner::Instruction;
using partitioner::Model;
using partitioner::NodeCost;
using partitioner::Part;
using partitioner::Plan;

namespace {

// The rows of a step's micro-batches. Those of as many take as long: such sizes have a number.
class NumberedSizes {
 public:
  explicit NumberedSizes(const Plan& plan) : sizes_(plan.sizes().of(plan.batch)) {
    std::map<int64_t, size_t> numbers;
    for (const int64_t rows : sizes_)
      numbers_.push_back(numbers.try_emplace(rows, numbers.size()).first->second);
    distinct_ = numbers.size();
  }

  size_t micro_batches() const { return sizes_.size(); }
  size_t distinct() const { return distinct_; }
  // Of what is of the step itself, micro-batch -1: no rows, and the first number.
  int64_t rows(int micro_batch) const { return micro_batch < 0 ? 0 : sizes_[at(micro_batch)]; }
  size_t number(int micro_batch) const { return micro_batch < 0 ? 0 : numbers_[at(micro_batch)]; }

 private:
  std::vector<int64_t> sizes_;   // by micro-batch
  std::vector<size_t> numbers_;  // likewise
  size_t distinct_ = 0;
};

// Of its weights, what an update is worth: each copy reads and writes them once.
constexpr double kUpdateCopies = 2.5;

// What takes or gives time, in the order in which a worker comes to it.
struct TimedEvent {
  enum class Kind : uint8_t { kCompute, kCopy, kSend, kReceive, kEnd };
  Kind kind{};
  double seconds = 0;    // kCompute, kCopy
  int route = -1;        // kSend, kReceive
  int step = 0;          // likewise: of the message, from that in which this happens
  int micro_batch = -1;  // -1: of the step
  Action action = {};    // kEnd: that this ends a list of
};

// Writes down what a worker's row computes, copies, sends and receives.
class Stopwatch : public Machine {
 public:
  Stopwatch(const Model& model, const Plan& plan, std::vector<const Part*> parts,
            const DeviceSpeed& speed, int worker)
      : model_(model),
        times_as_fast_(speed.capacities.speed_of(worker)),
        largest_(plan.largest_micro_batch()),
        sizes_(plan),
        parts_(std::move(parts)),
        speed_(speed) {
    for (const Part* part : parts_) costs_.emplace_back(sizes_.distinct() * part->calls.size());
  }

  std::vector<TimedEvent> events;

  void forward(const Site& site, const Instruction& i) override {
    compute(cost_of(site, i).forward_seconds);
  }
  void gradient(const Site& site, const Instruction& i, std::span<const char>) override {
    const NodeCost& cost = cost_of(site, i);
    compute(i.weights ? cost.weight_gradient_seconds : cost.input_gradient_seconds);
  }
  void send(const Site& site, const Instruction& i) override {
    copy(site, i);
    events.push_back({TimedEvent::Kind::kSend, 0, i.route, site.step, site.micro_batch});
  }
  void receive(const Site& site, const Instruction& i) override {
    events.push_back({TimedEvent::Kind::kReceive, 0, i.route, site.step, site.micro_batch});
    copy(site, i);
  }
  // One at the step's end is not priced; those within it are many. It reads gradient, weights and a
  // state, and writes the latter two; what older gradients read is copied first.
  void update(const Site& site, const Instruction& i) override {
    const Part& part = *parts_[site.part];
    if (!part.updates_within()) return;
    const auto bytes = static_cast<double>(part.locals[static_cast<size_t>(i.local)].bytes(0));
    const double copies = kUpdateCopies + (part.versions > 1 ? 1 : 0);
    events.push_back({TimedEvent::Kind::kCopy,
                      partitioner::copy_seconds(speed_, copies * bytes) / times_as_fast_});
  }
  void copy(const Site& site, const Instruction& i) override {
    if (i.moves.empty()) return;
    const auto bytes =
        static_cast<double>(copied_bytes(*parts_[site.part], i, sizes_.rows(site.micro_batch)));
    const double seconds = partitioner::copy_seconds(speed_, bytes) / times_as_fast_;
    events.push_back({TimedEvent::Kind::kCopy, seconds});
  }

 private:
  void compute(double seconds) {
    events.push_back({TimedEvent::Kind::kCompute, seconds / times_as_fast_});
  }

  const NodeCost& cost_of(const Site& site, const Instruction& i) {
    const auto index = static_cast<size_t>(i.call);
    std::optional<NodeCost>& cost =
        costs_[site.part][sizes_.distinct() * index + sizes_.number(site.micro_batch)];
    if (!cost) {
      const partitioner::LocalCall& call = parts_[site.part]->calls[index];
      cost = partitioner::node_cost(model_, call.node, call.iterations, largest_,
                                    sizes_.rows(site.micro_batch), speed_);
    }
    return *cost;
  }

  const Model& model_;
  double times_as_fast_;
  int64_t largest_;
  const NumberedSizes sizes_;
  std::vector<const Part*> parts_;
  const DeviceSpeed& speed_;
  std::vector<std::vector<std::optional<NodeCost>>> costs_;  // by part, by call and rows
};

// What a worker does in a step, by its ramps.
using TimedRows = ByRamps<std::vector<TimedEvent>>;

// Of steps that go on, one is told that comes when turns of a long one and a short one show: it
// takes what it and the one before take on average, and the last drains.
constexpr int kSteps = 6;
constexpr int kTold = 4;
constexpr int kMeanSteps = 2;

// Lets all rows run against each other until nothing moves. What a worker does depends on what it
// did before and on what arrives, so the order in which workers are asked does not matter.
class Race {
 public:
  Race(const Model& model, const Plan& plan, const DeviceSpeed& speed, const Steps& steps,
       const std::vector<TimedRows>& workers)
      : model_(model),
        plan_(plan),
        speed_(speed),
        sizes_(plan),
        steps_(steps),
        workers_(workers),
        count_(steps.go_on() ? kSteps : 1),
        told_(steps.go_on() ? kTold : 0),
        players_(workers.size()),
        sent_(plan.routes.size()),
        wires_(plan.routes.size()),
        on_link_(plan.routes.size() * sizes_.distinct(), kNotYet),
        link_free_(workers.size() * workers.size()) {
    timeline_.rows.resize(workers.size());
    timeline_.busy.resize(workers.size());
    timeline_.copying.resize(workers.size());
    for (bool moved = true; std::exchange(moved, false);)
      for (size_t worker = 0; worker < workers_.size(); ++worker)
        while (players_[worker].step < count_ && advance(worker)) moved = true;
  }

  std::optional<Timeline> take() {
    for (const Player& each : players_)
      if (each.step < count_) return std::nullopt;
    if (steps_.go_on()) {
      take_step_of_many();
    } else {
      for (const Player& each : players_)
        timeline_.step_seconds = std::max(timeline_.step_seconds, each.now);
    }
    return std::move(timeline_);
  }

 private:
  static constexpr double kNotYet = -1;
  struct Player {
    int step = 0;
    size_t event = 0;
    double now = 0;
    double begin = kNotYet;    // of the list that runs
    double busy = 0;           // likewise
    std::vector<double> ends;  // of its steps
  };

  // From when the first worker begins; messages within the step alone.
  void take_step_of_many() {
    double begin = players_[0].now;
    for (const std::vector<Moment>& row : timeline_.rows)
      if (!row.empty()) begin = std::min(begin, row.front().begin);
    for (std::vector<Moment>& row : timeline_.rows)
      for (Moment& each : row) {
        each.begin -= begin;
        each.end -= begin;
      }
    std::vector<TimedMessage> within;
    for (TimedMessage message : timeline_.messages) {
      if (message.sent_in == kElsewhere || message.taken_in == kElsewhere) continue;
      for (double* each : {&message.sent, &message.arrived, &message.taken}) *each -= begin;
      within.push_back(message);
    }
    timeline_.messages = std::move(within);
    const std::vector<double>& ends = players_[0].ends;
    timeline_.step_seconds = (ends[kTold] - ends[kTold - kMeanSteps]) / kMeanSteps;
  }

  bool advance(size_t worker) {
    Player& player = players_[worker];
    const auto& row = workers_[worker][steps_.ramps(player.step, count_)];
    if (player.event == row.size()) {
      player.ends.push_back(player.now);
      ++player.step;
      player.event = 0;
      return true;
    }
    const TimedEvent& event = row[player.event];
    double& now = player.now;
    switch (event.kind) {
      case TimedEvent::Kind::kCompute:
      case TimedEvent::Kind::kCopy: {
        if (player.begin == kNotYet) player.begin = now;
        now += event.seconds;
        const bool computes = event.kind == TimedEvent::Kind::kCompute;
        if (player.step == told_)
          (computes ? timeline_.busy : timeline_.copying)[worker] += event.seconds;
        player.busy += event.seconds;
        break;
      }
      case TimedEvent::Kind::kSend:
        message_of(event, player.step) = static_cast<int>(timeline_.messages.size());
        timeline_.messages.push_back({.from = static_cast<int>(worker),
                                      .sent_in = list_of(worker),
                                      .taken_in = kElsewhere,
                                      .sent = now,
                                      .arrived = arrival(event, now)});
        break;
      case TimedEvent::Kind::kReceive: {
        const int number = message_of(event, player.step);
        if (number < 0) return false;
        TimedMessage& message = timeline_.messages[static_cast<size_t>(number)];
        if (player.begin != kNotYet) message.waited = std::max(0.0, message.arrived - now);
        now = std::max(now, message.arrived);
        message.to = static_cast<int>(worker);
        message.taken_in = list_of(worker);
        message.taken = now;
        break;
      }
      case TimedEvent::Kind::kEnd: {
        const double begin = std::exchange(player.begin, kNotYet);
        const double busy = std::exchange(player.busy, 0);
        if (player.step == told_)
          timeline_.rows[worker].push_back(
              {event.action, begin == kNotYet ? now : begin, now, busy});
        break;
      }
    }
    ++player.event;
    return true;
  }

  // The place of the list that runs, in the step that is told.
  static constexpr size_t kElsewhere = SIZE_MAX;
  size_t list_of(size_t worker) const {
    return players_[worker].step == told_ ? timeline_.rows[worker].size() : kElsewhere;
  }

  // What messages of a route take on their way, beside what they are on the link.
  struct Wire {
    double latency = 0;
    size_t link = 0;
    bool local = false;
  };

  // The number of a message of this route; -1 until it is sent.
  int& message_of(const TimedEvent& event, int step) {
    std::vector<int>& of_route = sent_[at(event.route)];
    const size_t each = event.micro_batch < 0 ? 1 : sizes_.micro_batches();
    if (of_route.empty()) of_route.assign(each * at(count_), -1);
    return of_route[at(step + event.step) * each + at(std::max(event.micro_batch, 0))];
  }

  double arrival(const TimedEvent& event, double sent) {
    Wire& wire = wires_[static_cast<size_t>(event.route)];
    double& seconds =
        on_link_[at(event.route) * sizes_.distinct() + sizes_.number(event.micro_batch)];
    if (seconds == kNotYet) measure(event.route, sizes_.rows(event.micro_batch), seconds, wire);
    if (wire.local) return sent;
    return schedmp::arrival(link_free_[wire.link], sent, seconds, wire.latency);
  }

  void measure(int number, int64_t samples, double& seconds, Wire& wire) const {
    const partitioner::Route& route = plan_.routes[static_cast<size_t>(number)];
    const auto worker_of = [&](int part) { return plan_.binding[static_cast<size_t>(part)]; };
    const int from = worker_of(route.from);
    const int to = worker_of(route.to);
    const partitioner::LinkCosts link = partitioner::link_costs(speed_, from, to);
    const auto bytes = static_cast<double>(partitioner::message_bytes(model_, route, samples));
    seconds = bytes / link.bytes_per_second;
    wire.latency = link.seconds;
    wire.link = static_cast<size_t>(from) * workers_.size() + static_cast<size_t>(to);
    wire.local = partitioner::is_local(plan_, route);
  }

  const Model& model_;
  const Plan& plan_;
  const DeviceSpeed& speed_;
  const NumberedSizes sizes_;
  const Steps& steps_;
  const std::vector<TimedRows>& workers_;
  const int count_;
  const int told_;  // the step whose times are told
  std::vector<Player> players_;
  std::vector<std::vector<int>> sent_;  // by route, by step and micro-batch: the message
  std::vector<Wire> wires_;             // by route
  std::vector<double> on_link_;         // by route and number of rows
  std::vector<double> link_free_;       // by sender and receiver
  Timeline timeline_;
};

class SimulatedStep : public partitioner::Objective {
 public:
  explicit SimulatedStep(ScheduleOf schedule_of) : schedule_of_(std::move(schedule_of)) {}

  std::optional<double> step_seconds(const partitioner::Sums& sums, const Plan& plan,
                                     const DeviceSpeed& speed) const override {
    const Model& model = sums.sources().model();
    const Schedule schedule = schedule_of_(model, plan);
    if (!check_fits(schedule, plan).empty()) return std::nullopt;
    partitioner::LowerOptions options = lowering_for(schedule);
    options.times_only = true;
    const auto timeline = simulate(model, plan, lower(sums, plan, options), schedule, speed);
    if (!timeline) return std::nullopt;
    return timeline->step_seconds;
  }

 private:
  ScheduleOf schedule_of_;
};

}  // namespace

std::optional<Timeline> simulate(const Model& model, const Plan& plan,
                                 const std::vector<Part>& parts, const Schedule& schedule,
                                 const DeviceSpeed& speed) {
  const Steps steps(schedule);
  std::vector<TimedRows> workers(static_cast<size_t>(schedule.workers()));
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    const std::vector<const Part*> mine = parts_of(parts, worker);
    Stopwatch stopwatch(model, plan, mine, speed, worker);
    Interpreter interpreter(mine, steps, stopwatch);
    run_steps(
        interpreter, steps, worker, steps.go_on() ? 3 : 1,
        [&](const ListRun& run) {
          interpreter.run(run);
          stopwatch.events.push_back({.kind = TimedEvent::Kind::kEnd, .action = run.action});
        },
        [&](const Ramps& ramps) {
          workers[at(worker)][ramps] = std::exchange(stopwatch.events, {});
        });
  }
  return Race(model, plan, speed, steps, workers).take();
}

std::unique_ptr<partitioner::Objective> simulated_step(ScheduleOf schedule_of) {
  return std::make_unique<SimulatedStep>(std::move(schedule_of));
}

}  // namespace kerf::schedmp
