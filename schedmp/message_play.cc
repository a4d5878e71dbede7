#include "schedmp/message_play.h"

#include <algorithm>
#include <utility>

#include "partitioner/let_go.h"
#include "runtime/error.h"
#include "schedmp/interpreter.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

using partitioner::Model;
using partitioner::Part;
using partitioner::Plan;

namespace {

using Kind = partitioner::Instruction::Kind;

// Writes down what a row does with messages.
class Recorder : public MessageMachine {
 public:
  std::vector<SlotEvent> events;
  Action action;

  void message(const Site& site, const partitioner::Instruction& i) override {
    events.push_back({i.kind, i.route, site.step, site.micro_batch, i.retained, action});
  }
};

}  // namespace

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

MessagePlay::MessagePlay(const Model& model, const Plan& plan,
                         const std::vector<Rehearsal>& workers, const Steps& steps, int count,
                         const std::vector<int>& held, int slots)
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

bool MessagePlay::finished() {
  for (size_t worker = 0; worker < workers_.size(); ++worker)
    if (!is_through(worker)) return false;
  return true;
}

std::string MessagePlay::explain() {
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

// Steps in which it does nothing with messages are none.
bool MessagePlay::is_through(size_t worker) {
  Player& player = players_[worker];
  while (player.step < count_ && player.event == events(worker).size())
    player = {player.step + 1, 0};
  return player.step == count_;
}

// Of the message that the worker's event is of, in its route.
int MessagePlay::number(size_t worker) const {
  const SlotEvent& event = current(worker);
  const int step = players_[worker].step + event.step;
  return event.micro_batch < 0 ? step : step * steps_.micro_batches() + event.micro_batch;
}

size_t MessagePlay::waits_for(size_t worker) const {
  const SlotEvent& event = current(worker);
  return worker_of(event.kind == Kind::kReceive ? route(event).from : route(event).to);
}

std::string MessagePlay::describe(size_t worker) const {
  const SlotEvent& event = current(worker);
  const char* what = event.kind == Kind::kReceive ? "for"
                     : event.kind == Kind::kSend  ? "for the receiver of"
                                                  : "for a free slot of";
  const std::string of =
      event.micro_batch < 0 ? std::string() : kerf::format(" of micro-batch {}", number(worker));
  return kerf::format("worker {} at {} waits {} {}{} {} worker {}", worker, to_string(event.action),
                      what, name_of(model_, route(event)), of,
                      event.kind == Kind::kReceive ? "from" : "to", waits_for(worker));
}

void MessagePlay::hold(size_t route) {
  held_most_[route] = std::max(held_most_[route], ++held_now_[route]);
}

template <class Change>
void MessagePlay::change(size_t worker, const Change& change) {
  const auto r = static_cast<size_t>(current(worker).route);
  Message& message = message_of(worker);
  const bool held = message.held();
  change(message);
  if (!held && message.held()) hold(r);
  if (held && !message.held()) --held_now_[r];
  if (message.over()) --taken_[r];
}

MessagePlay::Message& MessagePlay::message_of(size_t worker) {
  std::vector<Message>& of_route = messages_[static_cast<size_t>(current(worker).route)];
  const auto number = static_cast<size_t>(this->number(worker));
  if (of_route.size() <= number) of_route.resize(number + 1);
  return of_route[number];
}

bool MessagePlay::advance(size_t worker) {
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
                       current(receiver).route == event.route && number(receiver) == number(worker);
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

std::set<int> steps_to_play(const Steps& steps) { return {1, steps.proving_steps()}; }

bool raise_held(const Model& model, const Plan& plan, const std::vector<Part>& parts,
                const std::vector<Rehearsal>& workers, const Steps& steps, std::vector<int>& held) {
  const std::vector<partitioner::RouteEnds> ends = ends_of_routes(plan, parts);
  const std::vector<int> nothing(plan.routes.size());
  bool finished = true;
  for (const int count : steps_to_play(steps)) {
    MessagePlay play(model, plan, workers, steps, count, nothing, MessagePlay::kUnlimited);
    finished = play.finished() && finished;
    for (size_t route = 0; route < held.size(); ++route) {
      const int most = is_brief(plan.routes[route], ends[route]) ? 1 : MessagePlay::kUnlimited;
      held[route] = std::max(held[route], std::min(play.held_at_most()[route], most));
    }
  }
  return finished;
}

std::vector<int> held_by_routes(const Schedule& schedule, const Model& model, const Plan& plan,
                                const std::vector<Part>& parts) {
  if (!check_fits(schedule, plan).empty()) return {};
  const Steps steps(schedule);
  std::vector<Rehearsal> workers;
  for (int worker = 0; worker < schedule.workers(); ++worker)
    workers.push_back(rehearse(parts_of(parts, worker), steps, worker));
  std::vector<int> held(plan.routes.size());
  if (!raise_held(model, plan, parts, workers, steps, held)) return {};
  return held;
}

}  // namespace kerf::schedmp
