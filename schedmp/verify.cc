// The proof: the messages of every worker's row, played against each other under limited slots.
#include "schedmp/verify.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "partitioner/let_go.h"
#include "runtime/error.h"
#include "schedmp/interpreter.h"

namespace kerf::schedmp {

using partitioner::Instruction;
using partitioner::Model;
using partitioner::Part;
using partitioner::Plan;

namespace {

using Kind = Instruction::Kind;

// What a worker does with a route, in the order in which it does it.
struct SlotEvent {
  Kind kind{};
  int route = -1;
  int step = 0;           // of the message, from that in which this happens
  int micro_batch = -1;   // of that step
  bool retained = false;  // kSend: until its kRetire
  Action action;
};

// Writes down what a row does with messages.
class Recorder : public MessageMachine {
 public:
  std::vector<SlotEvent> events;
  Action action;

  void message(const Site& site, const Instruction& i) override {
    events.push_back({i.kind, i.route, site.step, site.micro_batch, i.retained, action});
  }
};

// What a worker does in a step, by its ramps: its rows, run on a machine that does nothing but
// write down. Where steps go on, one that fills, one between two others, and one that drains.
using Rehearsal = ByRamps<std::vector<SlotEvent>>;

Rehearsal rehearse(const std::vector<const Part*>& mine, const Steps& steps, int worker) {
  Rehearsal rehearsal;
  const auto rehearse_in_turn = [&](int count) {
    Recorder recorder;
    Interpreter interpreter(mine, steps, recorder);
    run_steps(
        interpreter, steps, worker, count,
        [&](const ListRun& run) {
          recorder.action = run.action;
          interpreter.run(run);
        },
        [&](const Ramps& ramps) { rehearsal[ramps] = std::exchange(recorder.events, {}); });
  };
  rehearse_in_turn(1);
  if (steps.go_on()) rehearse_in_turn(3);
  return rehearsal;
}

// Plays so many steps of all workers until nothing moves. `slots` 0: every send meets its receive.
class Play {
 public:
  Play(const Model& model, const Plan& plan, const std::vector<Rehearsal>& workers,
       const Steps& steps, int count, const std::vector<int>& held, int slots)
      : model_(model),
        plan_(plan),
        workers_(workers),
        steps_(steps),
        count_(count),
        held_(held),
        slots_(slots),
        players_(workers.size()),
        taken_(held.size()),
        held_now_(held.size()),
        held_most_(held.size()),
        messages_(held.size()) {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t worker = 0; worker < workers_.size(); ++worker)
        while (!is_through(worker) && advance(worker)) moved = true;
    }
  }

  bool finished() {
    for (size_t worker = 0; worker < workers_.size(); ++worker)
      if (!is_through(worker)) return false;
    return true;
  }

  // route -> messages at once that their sender had not retired or their receiver not released.
  const std::vector<int>& held_at_most() const { return held_most_; }

  // The workers that wait for each other in a circle, or for what nobody sends.
  std::string explain() {
    size_t worker = 0;
    while (is_through(worker)) ++worker;
    std::vector<size_t> path;
    while (!is_through(worker) && std::find(path.begin(), path.end(), worker) == path.end()) {
      path.push_back(worker);
      worker = waits_for(worker);
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), worker) == path.end()
                                 ? path.begin()
                                 : std::find(path.begin(), path.end(), worker));
    std::string text = slots_ == 0 ? "deadlock under rendezvous: "
                                   : kerf::format("deadlock with {} free slots: ", slots_);
    for (const size_t member : path) text += describe(member) + "; ";
    text.resize(text.size() - 2);
    return text;
  }

 private:
  struct Player {
    int step = 0;
    size_t event = 0;
  };
  const std::vector<SlotEvent>& events(size_t worker) const {
    return workers_[worker][steps_.ramps(players_[worker].step, count_)];
  }
  const SlotEvent& current(size_t worker) const { return events(worker)[players_[worker].event]; }
  // Steps in which it does nothing with messages are none.
  bool is_through(size_t worker) {
    Player& player = players_[worker];
    while (player.step < count_ && player.event == events(worker).size())
      player = {player.step + 1, 0};
    return player.step == count_;
  }
  // Of the message that the worker's event is of, in its route.
  int number(size_t worker) const {
    const SlotEvent& event = current(worker);
    const int step = players_[worker].step + event.step;
    return event.micro_batch < 0 ? step : step * steps_.micro_batches() + event.micro_batch;
  }
  size_t worker_of(int part) const {
    return static_cast<size_t>(plan_.binding[static_cast<size_t>(part)]);
  }
  const partitioner::Route& route(const SlotEvent& event) const {
    return plan_.routes[static_cast<size_t>(event.route)];
  }

  size_t waits_for(size_t worker) const {
    const SlotEvent& event = current(worker);
    return worker_of(event.kind == Kind::kReceive ? route(event).from : route(event).to);
  }

  std::string describe(size_t worker) const {
    const SlotEvent& event = current(worker);
    const char* what = event.kind == Kind::kReceive ? "for"
                       : event.kind == Kind::kSend  ? "for the receiver of"
                                                    : "for a free slot of";
    const std::string of =
        event.micro_batch < 0 ? std::string() : kerf::format(" of micro-batch {}", number(worker));
    return kerf::format("worker {} at {} waits {} {}{} {} worker {}", worker,
                        to_string(event.action), what, name_of(model_, route(event)), of,
                        event.kind == Kind::kReceive ? "from" : "to", waits_for(worker));
  }

  bool advance(size_t worker) {
    const SlotEvent& event = current(worker);
    const auto r = static_cast<size_t>(event.route);
    switch (event.kind) {
      case Kind::kAcquire:
        if (slots_ > 0 && taken_[r] >= held_[r] + slots_) return false;
        ++taken_[r];
        break;
      case Kind::kSend: {
        const size_t receiver = waits_for(worker);
        const bool met = !is_through(receiver) && current(receiver).kind == Kind::kReceive &&
                         current(receiver).route == event.route &&
                         number(receiver) == number(worker);
        if (slots_ == 0 && !met) return false;
        message_of(worker) = {.sent = true, .retained = event.retained};
        if (event.retained) hold(r);
        break;
      }
      case Kind::kRetire:
        change(worker, [](Message& message) { message.retained = false; });
        break;
      case Kind::kReceive:
        if (!message_of(worker).sent) return false;
        change(worker, [](Message& message) { message.viewed = true; });
        break;
      case Kind::kRelease:
        change(worker, [](Message& message) {
          message.viewed = false;
          message.released = true;
        });
        break;
      default:
        KERF_CHECK(false, "no instruction of a message");
    }
    ++players_[worker].event;
    return true;
  }

  // A slot is taken until both ends are done with the message in it.
  struct Message {
    bool sent = false;
    bool retained = false;
    bool viewed = false;
    bool released = false;
    bool held() const { return retained || viewed; }
    bool over() const { return released && !retained; }
  };
  Message& message_of(size_t worker) {
    std::vector<Message>& of_route = messages_[static_cast<size_t>(current(worker).route)];
    const auto number = static_cast<size_t>(this->number(worker));
    if (of_route.size() <= number) of_route.resize(number + 1);
    return of_route[number];
  }
  void hold(size_t route) { held_most_[route] = std::max(held_most_[route], ++held_now_[route]); }
  template <class Change>
  void change(size_t worker, const Change& change) {
    const auto r = static_cast<size_t>(current(worker).route);
    Message& message = message_of(worker);
    const bool held = message.held();
    change(message);
    if (!held && message.held()) hold(r);
    if (held && !message.held()) --held_now_[r];
    if (message.over()) --taken_[r];
  }

  const Model& model_;
  const Plan& plan_;
  const std::vector<Rehearsal>& workers_;
  const Steps& steps_;
  const int count_;
  const std::vector<int>& held_;
  int slots_;
  std::vector<Player> players_;
  std::vector<int> taken_;  // by route: slots
  std::vector<int> held_now_, held_most_;
  std::vector<std::vector<Message>> messages_;  // by route, by number
};

// Nobody waits for a slot.
constexpr int kUnlimited = std::numeric_limits<int>::max() / 2;

// The first of [low, high] for which `holds`, which holds for `high` and all above the first: a
// slot more never blocks anybody.
template <class Holds>
int first_true(int low, int high, const Holds& holds) {
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (holds(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// One step by itself, and as many as show all that there is between two.
std::set<int> counts_of(const Steps& steps) { return {1, steps.proving_steps()}; }

// Of steps one behind the other: what routes hold, at least what they are said to; one message of
// those of which that is enough (let_go.h).
void find_held(const Model& model, const Plan& plan, const std::vector<Part>& parts,
               const std::vector<Rehearsal>& workers, const Steps& steps, std::vector<int>& held) {
  const std::vector<partitioner::RouteEnds> ends = ends_of_routes(plan, parts);
  const std::vector<int> nothing(plan.routes.size());
  for (const int count : counts_of(steps)) {
    const Play play(model, plan, workers, steps, count, nothing, kUnlimited);
    for (size_t route = 0; route < held.size(); ++route) {
      const int most = is_brief(plan.routes[route], ends[route]) ? 1 : kUnlimited;
      held[route] = std::max(held[route], std::min(play.held_at_most()[route], most));
    }
  }
}

// Of steps one behind the other: the smallest safe number of slots, and whether those that there
// are do.
void prove_messages(const Model& model, const Plan& plan, const std::vector<Rehearsal>& workers,
                    const Steps& steps, int slots, Verdict& verdict) {
  const std::set<int> counts = counts_of(steps);
  const auto safe = [&](int k) {
    return std::ranges::all_of(counts, [&](int count) {
      return Play(model, plan, workers, steps, count, verdict.held, k).finished();
    });
  };
  const int all = steps.under_way();
  if (safe(all)) verdict.smallest_safe_slots = first_true(0, all, safe);
  for (const int count : counts) {
    Play play(model, plan, workers, steps, count, verdict.held, slots);
    if (play.finished()) continue;
    verdict.problems.push_back(play.explain() +
                               (verdict.smallest_safe_slots > 0
                                    ? kerf::format("; {} would do", verdict.smallest_safe_slots)
                                    : std::string()));
    return;
  }
}

}  // namespace

std::string above_cap(const std::vector<int64_t>& peak_bytes, int64_t cap) {
  for (size_t worker = 0; worker < peak_bytes.size(); ++worker)
    if (const int64_t over = peak_bytes[worker] - cap; over > 0)
      return kerf::format(
          "worker {} needs {} bytes more than the memory cap of {} bytes; --memory {} would do, or "
          "another plan",
          worker, over, cap, *std::max_element(peak_bytes.begin(), peak_bytes.end()));
  return {};
}

Verdict verify(const Model& model, const Plan& plan, const std::vector<Part>& parts,
               const Schedule& schedule, const partitioner::Setting& setting,
               const std::vector<int>& least_held) {
  Verdict verdict;
  verdict.problems = check_order(schedule);
  for (std::string& problem : check_fits(schedule, plan))
    verdict.problems.push_back(std::move(problem));
  if (setting.slots < 1) verdict.problems.push_back("a route needs at least 1 free slot");
  if (!verdict.problems.empty()) return verdict;

  const int64_t samples = plan.largest_micro_batch();
  const bool trains = schedule.trains();
  if (const auto why = why_it_drains(schedule, plan.stage_of(model.loss()))) {
    verdict.problems.push_back("its steps cannot go on, and it does not drain: " + *why);
    return verdict;
  }
  const Steps steps(schedule);
  std::vector<Rehearsal> workers;
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    const std::vector<const Part*> mine = parts_of(parts, worker);
    workers.push_back(rehearse(mine, steps, worker));
    verdict.arena_bytes.push_back(ArenaPlan(mine, region_needs(mine, steps, worker)).bytes());
    int64_t persistent = 0;
    for (const Part* part : mine)
      persistent +=
          persistent_bytes(*part, setting.optimizer_states, steps.micro_batches(), trains);
    verdict.persistent_bytes.push_back(persistent);
  }
  verdict.held = least_held;
  verdict.held.resize(plan.routes.size());
  find_held(model, plan, parts, workers, steps, verdict.held);
  prove_messages(model, plan, workers, steps, setting.slots, verdict);

  verdict.peak_bytes = slot_bytes(model, plan, verdict.held, setting, samples);
  for (size_t worker = 0; worker < verdict.peak_bytes.size(); ++worker)
    verdict.peak_bytes[worker] += verdict.arena_bytes[worker] + verdict.persistent_bytes[worker];
  return verdict;
}

}  // namespace kerf::schedmp
