#include "schedmp/simulate_run.h"

#include <algorithm>
#include <array>
#include <utility>

#include "partitioner/at.h"
#include "runtime/error.h"
#include "schedmp/interpreter.h"
#include "schedmp/steps.h"

namespace kerf::schedmp {

using partitioner::at;
using partitioner::Instruction;
using partitioner::Part;
using partitioner::Plan;

namespace {

using Kind = Instruction::Kind;

struct RunEvent {
  double seconds = 0;     // of what computes
  int route = -1;         // of a message; -1: it computes
  int micro_batch = 0;    // of a message; one of the step is that of the first
  int step = 0;           // of a message, from that in which this happens
  Kind kind{};            // likewise
  bool retained = false;  // kSend
};

// Writes down what a worker does in a step.
class Notes final : public MessageMachine {
 public:
  Notes(const ActionCosts& costs, int worker) : costs_(costs), worker_(worker) {}

  std::vector<RunEvent> events;

  void begin(const ListRun& run, size_t number) {
    run_ = run;
    number_ = number;
    seen_ = {};
  }

  void forward(const Site&, const Instruction&) override { take(ActionKind::kForward); }
  void gradient(const Site&, const Instruction& i, std::span<const char>) override {
    take(i.weights ? ActionKind::kWeightGradient : ActionKind::kInputGradient);
  }
  void update(const Site&, const Instruction&) override { take(ActionKind::kUpdate); }
  void message(const Site& site, const Instruction& i) override {
    events.push_back({0, i.route, std::max(site.micro_batch, 0), site.step, i.kind, i.retained});
  }

 private:
  // Once an action, of each kind.
  void take(ActionKind kind) {
    bool& seen = seen_.at(static_cast<size_t>(kind));
    if (!std::exchange(seen, true)) compute(kind);
  }
  void compute(ActionKind kind) {
    Action priced = run_.action;
    priced.kind = kind;
    priced.micro_batch = run_.micro_batch;
    events.push_back({costs_.of(priced, worker_, number_)});
  }

  const ActionCosts& costs_;
  const int worker_;
  ListRun run_;
  size_t number_ = 0;
  std::array<bool, 5> seen_{};  // by kind, up to U
};

// What a worker does in a step, by its ramps.
using Rows = ByRamps<std::vector<RunEvent>>;

Rows rows_of(const std::vector<const Part*>& mine, const Steps& steps, const ActionCosts& costs,
             int worker, int count) {
  Rows rows;
  Notes notes(costs, worker);
  Interpreter interpreter(mine, steps, notes);
  size_t number = 0;
  run_steps(
      interpreter, steps, worker, std::min(count, 3),
      [&](const ListRun& run) {
        notes.begin(run, number++);
        interpreter.run(run);
      },
      [&](const Ramps& ramps) {
        number = 0;
        rows[ramps] = std::exchange(notes.events, {});
      });
  return rows;
}

// Lets all rows run against each other until nothing moves. What a worker does follows from what it
// did before, from what arrives and from what is free, so it does not matter who is asked first.
class RunRace {
 public:
  RunRace(const Plan& plan, const std::vector<Rows>& workers, const Steps& steps, double transfer,
          const std::vector<int32_t>& credits, int count)
      : plan_(plan),
        workers_(workers),
        of_(steps),
        transfer_(transfer),
        steps_(count),
        players_(workers.size()),
        routes_(plan.routes.size()) {
    for (size_t route = 0; route < routes_.size(); ++route) {
      routes_[route].credits = at(credits.at(route));
      routes_[route].messages.resize(at(plan.micro_batches) * at(count));
    }
    for (bool moved = true; std::exchange(moved, false);)
      for (size_t worker = 0; worker < workers_.size(); ++worker)
        while (players_[worker].step < steps_ && advance(worker)) moved = true;
    for (const Player& each : players_)
      KERF_CHECK(each.step == steps_, "rows that were proved wait for ever as simulated");
  }

  std::vector<double> ends;  // of worker 0

 private:
  struct Player {
    int step = 0;
    size_t event = 0;
    double now = 0;
  };
  static constexpr double kNever = -1;
  struct Message {
    double arrives = kNever;
    double released = kNever;
    double retired = kNever;  // by a sender that retains it
    bool retained = false;
  };
  struct RouteState {
    size_t credits = 0;
    size_t acquired = 0;
    std::vector<double> freed;  // when slots were, in order
    std::vector<Message> messages;
  };

  bool advance(size_t number) {
    Player& player = players_[number];
    const std::vector<RunEvent>& row = workers_[number][of_.ramps(player.step, steps_)];
    if (player.event == row.size()) {
      if (number == 0) ends.push_back(player.now);
      ++player.step;
      player.event = 0;
      return true;
    }
    const RunEvent& event = row[player.event];
    if (event.route < 0) {
      player.now += event.seconds;
    } else if (!pass(event, player)) {
      return false;
    }
    ++player.event;
    return true;
  }

  // What is of a message; false where it has to wait.
  bool pass(const RunEvent& event, Player& player) {
    RouteState& route = routes_[at(event.route)];
    Message& message = route.messages[at(player.step + event.step) * at(plan_.micro_batches) +
                                      at(event.micro_batch)];
    switch (event.kind) {
      case Kind::kAcquire: {
        const size_t freed = route.acquired + 1 - std::min(route.acquired + 1, route.credits);
        if (freed > route.freed.size()) return false;
        if (freed > 0) player.now = std::max(player.now, route.freed[freed - 1]);
        ++route.acquired;
        return true;
      }
      case Kind::kSend:
        message.retained = event.retained;
        message.arrives =
            player.now + (is_local(plan_, plan_.routes[at(event.route)]) ? 0 : transfer_);
        return true;
      case Kind::kReceive:
        if (message.arrives == kNever) return false;
        player.now = std::max(player.now, message.arrives);
        return true;
      case Kind::kRelease:
        message.released = player.now;
        free_if_over(route, message);
        return true;
      case Kind::kRetire:
        message.retired = player.now;
        free_if_over(route, message);
        return true;
      default:
        KERF_CHECK(false, "no instruction of a message");
    }
  }

  // Both ends are done with it. A slot that is freed as yet unknown is so after those that are
  // known, as far as its sender can tell.
  static void free_if_over(RouteState& route, const Message& message) {
    if (message.released == kNever || (message.retained && message.retired == kNever)) return;
    const double when = std::max(message.released, message.retired);
    route.freed.insert(std::upper_bound(route.freed.begin(), route.freed.end(), when), when);
  }

  const Plan& plan_;
  const std::vector<Rows>& workers_;
  const Steps& of_;
  const double transfer_;
  const int steps_;
  std::vector<Player> players_;
  std::vector<RouteState> routes_;
};

}  // namespace

SimulatedRun simulate_run(const Plan& plan, const std::vector<Part>& parts,
                          const Schedule& schedule, const ActionCosts& costs,
                          const std::vector<int32_t>& credits, int steps) {
  const ActionCosts steady = costs.without_jitter();
  SimulatedRun run;
  const Steps of(schedule);
  std::vector<Rows> workers;
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    workers.push_back(rows_of(parts_of(parts, worker), of, steady, worker, steps));
    for (const RunEvent& event : workers.back()[of.ramps(std::min(1, steps - 1), steps)])
      run.busy += event.seconds;
  }
  run.ends = RunRace(plan, workers, of, steady.transfer, credits, steps).ends;
  return run;
}

}  // namespace kerf::schedmp
