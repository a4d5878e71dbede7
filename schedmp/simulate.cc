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
    events.push_back({TimedEvent::Kind::kSend, 0, i.route, site.micro_batch});
  }
  void receive(const Site& site, const Instruction& i) override {
    events.push_back({TimedEvent::Kind::kReceive, 0, i.route, site.micro_batch});
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

// Lets all rows run against each other until nothing moves. What a worker does depends on what it
// did before and on what arrives, so the order in which workers are asked does not matter.
class Race {
 public:
  Race(const Model& model, const Plan& plan, const DeviceSpeed& speed,
       const std::vector<std::vector<TimedEvent>>& workers)
      : model_(model),
        plan_(plan),
        speed_(speed),
        sizes_(plan),
        workers_(workers),
        at_(workers.size()),
        now_(workers.size()),
        begin_(workers.size(), kNotYet),
        busy_(workers.size()),
        sent_(plan.routes.size()),
        wires_(plan.routes.size()),
        on_link_(plan.routes.size() * sizes_.distinct(), kNotYet),
        link_free_(workers.size() * workers.size()) {
    timeline_.rows.resize(workers.size());
    timeline_.busy.resize(workers.size());
    timeline_.copying.resize(workers.size());
    for (bool moved = true; std::exchange(moved, false);)
      for (size_t worker = 0; worker < workers_.size(); ++worker)
        while (at_[worker] < workers_[worker].size() && advance(worker)) moved = true;
  }

  std::optional<Timeline> take() {
    for (size_t worker = 0; worker < workers_.size(); ++worker)
      if (at_[worker] < workers_[worker].size()) return std::nullopt;
    for (const double end : now_) timeline_.step_seconds = std::max(timeline_.step_seconds, end);
    return std::move(timeline_);
  }

 private:
  static constexpr double kNotYet = -1;

  bool advance(size_t worker) {
    const TimedEvent& event = workers_[worker][at_[worker]];
    double& now = now_[worker];
    switch (event.kind) {
      case TimedEvent::Kind::kCompute:
      case TimedEvent::Kind::kCopy: {
        if (begin_[worker] == kNotYet) begin_[worker] = now;
        now += event.seconds;
        const bool computes = event.kind == TimedEvent::Kind::kCompute;
        (computes ? timeline_.busy : timeline_.copying)[worker] += event.seconds;
        busy_[worker] += event.seconds;
        break;
      }
      case TimedEvent::Kind::kSend:
        message_of(event) = static_cast<int>(timeline_.messages.size());
        timeline_.messages.push_back({.from = static_cast<int>(worker),
                                      .sent_in = timeline_.rows[worker].size(),
                                      .sent = now,
                                      .arrived = arrival(event, now)});
        break;
      case TimedEvent::Kind::kReceive: {
        const int number = message_of(event);
        if (number < 0) return false;
        TimedMessage& message = timeline_.messages[static_cast<size_t>(number)];
        if (begin_[worker] != kNotYet) message.waited = std::max(0.0, message.arrived - now);
        now = std::max(now, message.arrived);
        message.to = static_cast<int>(worker);
        message.taken_in = timeline_.rows[worker].size();
        message.taken = now;
        break;
      }
      case TimedEvent::Kind::kEnd: {
        const double begin = std::exchange(begin_[worker], kNotYet);
        timeline_.rows[worker].push_back(
            {event.action, begin == kNotYet ? now : begin, now, std::exchange(busy_[worker], 0)});
        break;
      }
    }
    ++at_[worker];
    return true;
  }

  // What messages of a route take on their way, beside what they are on the link.
  struct Wire {
    double latency = 0;
    size_t link = 0;
    bool local = false;
  };

  // The number of a message of this route; -1 until it is sent.
  int& message_of(const TimedEvent& event) {
    std::vector<int>& of_route = sent_[static_cast<size_t>(event.route)];
    if (of_route.empty()) of_route.assign(event.micro_batch < 0 ? 1 : sizes_.micro_batches(), -1);
    return of_route[static_cast<size_t>(std::max(event.micro_batch, 0))];
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
  const std::vector<std::vector<TimedEvent>>& workers_;
  std::vector<size_t> at_;
  std::vector<double> now_;
  std::vector<double> begin_;           // of the list that runs
  std::vector<double> busy_;            // likewise
  std::vector<std::vector<int>> sent_;  // by route, by micro-batch: the message
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
  std::vector<std::vector<TimedEvent>> workers;
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    const std::vector<const Part*> mine = parts_of(parts, worker);
    Stopwatch stopwatch(model, plan, mine, speed, worker);
    Interpreter interpreter(mine, schedule.micro_batches, stopwatch);
    for (const ListRun& run : list_runs_of(schedule.rows[static_cast<size_t>(worker)])) {
      interpreter.run(run);
      stopwatch.events.push_back({TimedEvent::Kind::kEnd, 0, -1, -1, run.action});
    }
    workers.push_back(std::move(stopwatch.events));
  }
  return Race(model, plan, speed, workers).take();
}

std::unique_ptr<partitioner::Objective> simulated_step(ScheduleOf schedule_of) {
  return std::make_unique<SimulatedStep>(std::move(schedule_of));
}

}  // namespace kerf::schedmp
