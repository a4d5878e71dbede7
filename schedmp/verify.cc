// The proof: the messages of every worker's row, played against each other under limited slots.
#include "schedmp/verify.h"

#include <algorithm>
#include <limits>

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
  int micro_batch = -1;
  bool retained = false;  // kSend: until its kRetire
  Action action;
};

// Writes down what a row does with messages.
class Recorder : public MessageMachine {
 public:
  std::vector<SlotEvent> events;
  Action action;

  void message(const Site& site, const Instruction& i) override {
    events.push_back({i.kind, i.route, site.micro_batch, i.retained, action});
  }
};

// A worker's row, run on a machine that does nothing but write down.
struct Rehearsal {
  std::vector<SlotEvent> events;
  int64_t arena_bytes = 0;
};

Rehearsal rehearse(const std::vector<const Part*>& parts, const std::vector<Action>& row,
                   int micro_batches) {
  Recorder recorder;
  Interpreter interpreter(parts, micro_batches, recorder);
  for (const ListRun& run : list_runs_of(row)) {
    recorder.action = run.action;
    interpreter.run(run);
  }
  return {std::move(recorder.events), ArenaPlan(parts, interpreter.needs()).bytes()};
}

// Plays all rows until nothing moves. `slots` 0: every send meets its receive.
class Play {
 public:
  Play(const Model& model, const Plan& plan, const std::vector<std::vector<SlotEvent>>& workers,
       const std::vector<int>& held, int slots)
      : model_(model),
        plan_(plan),
        workers_(workers),
        held_(held),
        slots_(slots),
        at_(workers.size()),
        taken_(held.size()),
        held_now_(held.size()),
        held_most_(held.size()),
        messages_(held.size()) {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t worker = 0; worker < workers_.size(); ++worker)
        while (at_[worker] < workers_[worker].size() && advance(worker)) moved = true;
    }
  }

  bool finished() const {
    for (size_t worker = 0; worker < workers_.size(); ++worker)
      if (at_[worker] < workers_[worker].size()) return false;
    return true;
  }

  // route -> messages at once that their sender had not retired or their receiver not released.
  const std::vector<int>& held_at_most() const { return held_most_; }

  // The workers that wait for each other in a circle, or for what nobody sends.
  std::string explain() const {
    size_t worker = 0;
    while (at_[worker] >= workers_[worker].size()) ++worker;
    std::vector<size_t> path;
    while (at_[worker] < workers_[worker].size() &&
           std::find(path.begin(), path.end(), worker) == path.end()) {
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
  const SlotEvent& current(size_t worker) const { return workers_[worker][at_[worker]]; }
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
    const std::string of = event.micro_batch < 0
                               ? std::string()
                               : kerf::format(" of micro-batch {}", event.micro_batch);
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
        const bool met = at_[receiver] < workers_[receiver].size() &&
                         current(receiver).kind == Kind::kReceive &&
                         current(receiver).route == event.route &&
                         current(receiver).micro_batch == event.micro_batch;
        if (slots_ == 0 && !met) return false;
        message_of(event) = {.sent = true, .retained = event.retained};
        if (event.retained) hold(r);
        break;
      }
      case Kind::kRetire:
        change(event, [](Message& message) { message.retained = false; });
        break;
      case Kind::kReceive:
        if (!message_of(event).sent) return false;
        change(event, [](Message& message) { message.viewed = true; });
        break;
      case Kind::kRelease:
        change(event, [](Message& message) {
          message.viewed = false;
          message.released = true;
        });
        break;
      default:
        KERF_CHECK(false, "no instruction of a message");
    }
    ++at_[worker];
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
  Message& message_of(const SlotEvent& event) {
    std::vector<Message>& of_route = messages_[static_cast<size_t>(event.route)];
    const auto number = static_cast<size_t>(std::max(event.micro_batch, 0));
    if (of_route.size() <= number) of_route.resize(number + 1);
    return of_route[number];
  }
  void hold(size_t route) { held_most_[route] = std::max(held_most_[route], ++held_now_[route]); }
  template <class Change>
  void change(const SlotEvent& event, const Change& change) {
    const auto r = static_cast<size_t>(event.route);
    Message& message = message_of(event);
    const bool held = message.held();
    change(message);
    if (!held && message.held()) hold(r);
    if (held && !message.held()) --held_now_[r];
    if (message.over()) --taken_[r];
  }

  const Model& model_;
  const Plan& plan_;
  const std::vector<std::vector<SlotEvent>>& workers_;
  const std::vector<int>& held_;
  int slots_;
  std::vector<size_t> at_;
  std::vector<int> taken_;  // by route: slots
  std::vector<int> held_now_, held_most_;
  std::vector<std::vector<Message>> messages_;  // by route, by micro-batch
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
  std::vector<std::vector<SlotEvent>> events;
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    const std::vector<const Part*> mine = parts_of(parts, worker);
    Rehearsal rehearsal =
        rehearse(mine, schedule.rows[static_cast<size_t>(worker)], schedule.micro_batches);
    events.push_back(std::move(rehearsal.events));
    verdict.arena_bytes.push_back(rehearsal.arena_bytes);
    int64_t persistent = 0;
    for (const Part* part : mine)
      persistent +=
          persistent_bytes(*part, setting.optimizer_states, schedule.micro_batches, trains);
    verdict.persistent_bytes.push_back(persistent);
  }
  const std::vector<int> nothing(plan.routes.size());
  verdict.held = Play(model, plan, events, nothing, kUnlimited).held_at_most();
  for (size_t route = 0; route < least_held.size(); ++route)
    verdict.held[route] = std::max(verdict.held[route], least_held[route]);
  const auto safe = [&](int k) { return Play(model, plan, events, verdict.held, k).finished(); };
  if (safe(schedule.micro_batches))
    verdict.smallest_safe_slots = first_true(0, schedule.micro_batches, safe);
  const Play play(model, plan, events, verdict.held, setting.slots);
  if (!play.finished())
    verdict.problems.push_back(play.explain() +
                               (verdict.smallest_safe_slots > 0
                                    ? kerf::format("; {} would do", verdict.smallest_safe_slots)
                                    : std::string()));

  verdict.peak_bytes = slot_bytes(model, plan, verdict.held, setting, samples);
  for (size_t worker = 0; worker < verdict.peak_bytes.size(); ++worker)
    verdict.peak_bytes[worker] += verdict.arena_bytes[worker] + verdict.persistent_bytes[worker];
  return verdict;
}

}  // namespace kerf::schedmp
