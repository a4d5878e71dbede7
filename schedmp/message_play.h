// The messages of all workers, played against each other: each worker goes through its messages as
// its rows have them and waits where it must. What routes hold at once, how many free slots are
// safe, and who waits for whom, follow from it. Used by one thread.
#pragma once

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "partitioner/part.h"
#include "schedmp/steps.h"

namespace kerf::schedmp {

// What a worker does with a route, in the order in which it does it.
struct SlotEvent {
  partitioner::Instruction::Kind kind{};
  int route = -1;
  int step = 0;           // of the message, from that in which this happens
  int micro_batch = -1;   // of that step
  bool retained = false;  // kSend: until its kRetire
  Action action;
};

// What a worker does in a step, by its ramps: its rows, run on a machine that does nothing but
// write down. Where steps go on, one that fills, one between two others, and one that drains.
using Rehearsal = ByRamps<std::vector<SlotEvent>>;

// `mine`: the parts of the worker.
Rehearsal rehearse(const std::vector<const partitioner::Part*>& mine, const Steps& steps,
                   int worker);

// Plays so many steps of all workers until nothing moves. Borrows all that it is given.
class MessagePlay {
 public:
  static constexpr int kUnlimited = std::numeric_limits<int>::max() / 2;  // nobody waits for a slot

  // `held`: by route; `slots`: free ones beyond that; 0: every send meets its receive.
  MessagePlay(const partitioner::Model& model, const partitioner::Plan& plan,
              const std::vector<Rehearsal>& workers, const Steps& steps, int count,
              const std::vector<int>& held, int slots);

  bool finished();
  // route -> messages at once that their sender had not retired or their receiver not released.
  const std::vector<int>& held_at_most() const { return held_most_; }
  // The workers that wait for each other in a circle, or for what nobody sends.
  std::string explain();

 private:
  struct Player {
    int step = 0;
    size_t event = 0;
  };
  // A slot is taken until both ends are done with the message in it.
  struct Message {
    bool sent = false;
    bool retained = false;
    bool viewed = false;
    bool released = false;
    bool held() const { return retained || viewed; }
    bool over() const { return released && !retained; }
  };

  const std::vector<SlotEvent>& events(size_t worker) const {
    return workers_[worker][steps_.ramps(players_[worker].step, count_)];
  }
  const SlotEvent& current(size_t worker) const { return events(worker)[players_[worker].event]; }
  bool is_through(size_t worker);
  int number(size_t worker) const;
  size_t worker_of(int part) const {
    return static_cast<size_t>(plan_.binding[static_cast<size_t>(part)]);
  }
  const partitioner::Route& route(const SlotEvent& event) const {
    return plan_.routes[static_cast<size_t>(event.route)];
  }
  size_t waits_for(size_t worker) const;
  std::string describe(size_t worker) const;
  bool advance(size_t worker);
  Message& message_of(size_t worker);
  void hold(size_t route);
  template <class Change>
  void change(size_t worker, const Change& change);

  const partitioner::Model& model_;
  const partitioner::Plan& plan_;
  const std::vector<Rehearsal>& workers_;
  const Steps& steps_;
  const int count_;
  const std::vector<int>& held_;
  const int slots_;
  std::vector<Player> players_;
  std::vector<int> taken_;  // by route: slots
  std::vector<int> held_now_, held_most_;
  std::vector<std::vector<Message>> messages_;  // by route, by number
};

// One step by itself, and as many as show all that there is between two.
std::set<int> steps_to_play(const Steps& steps);

// Raises what routes hold to what they do in steps one behind the other; one message of those of
// which that is enough (let_go.h). Whether all steps came to their end; else it may be too little.
bool raise_held(const partitioner::Model& model, const partitioner::Plan& plan,
                const std::vector<partitioner::Part>& parts, const std::vector<Rehearsal>& workers,
                const Steps& steps, std::vector<int>& held);

// By route, what its ends hold at once, for partitioner::InFlight; empty of a schedule that is none
// of the plan's, or does not come to its end.
std::vector<int> held_by_routes(const Schedule& schedule, const partitioner::Model& model,
                                const partitioner::Plan& plan,
                                const std::vector<partitioner::Part>& parts);

}  // namespace kerf::schedmp
