// The verifier plays the messages of a schedule once, in one order. Here every order in which they
// can happen is tried, on plans so small that this is possible: the two agree on who can get stuck.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/partitioner/random_models.h"
#include "tests/schedmp/random_rows.h"
#include "tests/schedmp/row_steps.h"

namespace kerf::schedmp {
namespace {

using partitioner::Instruction;
using partitioner::Part;
using Kind = Instruction::Kind;

struct Event {
  Kind kind{};
  int route = -1;
  int micro_batch = -1;
  bool retained = false;
};
using Events = std::vector<std::vector<Event>>;  // by worker, in its order

Events events_of(const std::vector<Part>& parts, const Schedule& schedule) {
  Events events(static_cast<size_t>(schedule.workers()));
  for (int worker = 0; worker < schedule.workers(); ++worker)
    for (const RowStep& step : steps_of_row(parts, schedule, worker))
      if (const Instruction& each = *step.instruction;
          each.kind == Kind::kAcquire || each.kind == Kind::kSend || each.kind == Kind::kRetire ||
          each.kind == Kind::kReceive || each.kind == Kind::kRelease)
        events[static_cast<size_t>(worker)].push_back(
            {each.kind, each.route, step.action.micro_batch, each.retained});
  return events;
}

// All that can happen. A state is how far each worker is; what is under way follows.
class Oracle {
 public:
  // `credits`: slots of each route.
  Oracle(const Events& events, std::vector<int> credits)
      : events_(events), credits_(std::move(credits)) {}

  // Whether some order leaves somebody waiting for ever; nothing if there are too many to try.
  std::optional<bool> can_stick() {
    std::vector<std::vector<size_t>> open{std::vector<size_t>(events_.size())};
    std::set<std::vector<size_t>> seen{open.front()};
    bool stuck = false;
    while (!open.empty()) {
      if (seen.size() > 60'000) return {};
      const std::vector<size_t> at = open.back();
      open.pop_back();
      bool moves = false, over = true;
      for (size_t worker = 0; worker < at.size(); ++worker) {
        if (at[worker] == events_[worker].size()) continue;
        over = false;
        if (!may(at, events_[worker][at[worker]])) continue;
        moves = true;
        std::vector<size_t> next = at;
        ++next[worker];
        if (seen.insert(next).second) open.push_back(std::move(next));
      }
      stuck = stuck || (!moves && !over);
    }
    return stuck;
  }

 private:
  template <class Counted>
  int64_t count(const std::vector<size_t>& at, const Counted& counted) const {
    int64_t found = 0;
    for (size_t worker = 0; worker < at.size(); ++worker)
      for (size_t i = 0; i < at[worker]; ++i) found += counted(events_[worker][i]) ? 1 : 0;
    return found;
  }
  // A slot is taken until the receiver gives it back and the sender no longer retains it; a message
  // that comes early keeps its own.
  int64_t free_again(const std::vector<size_t>& at, int route) const {
    std::map<int, int> ends;  // micro-batch -> who has yet to be done with it
    for (size_t worker = 0; worker < at.size(); ++worker)
      for (size_t i = 0; i < at[worker]; ++i) {
        const Event& e = events_[worker][i];
        if (e.route != route) continue;
        if (e.kind == Kind::kSend) ends[e.micro_batch] += e.retained ? 2 : 1;
        if (e.kind == Kind::kRelease || e.kind == Kind::kRetire) --ends[e.micro_batch];
      }
    return std::ranges::count_if(ends, [](const auto& each) { return each.second == 0; });
  }
  bool may(const std::vector<size_t>& at, const Event& event) const {
    if (event.kind == Kind::kAcquire)
      return count(at,
                   [&](const Event& e) {
                     return e.kind == Kind::kAcquire && e.route == event.route;
                   }) -
                 free_again(at, event.route) <
             credits_[static_cast<size_t>(event.route)];
    return event.kind != Kind::kReceive || count(at, [&](const Event& e) {
                                             return e.kind == Kind::kSend &&
                                                    e.route == event.route &&
                                                    e.micro_batch == event.micro_batch;
                                           }) > 0;
  }

  const Events& events_;
  std::vector<int> credits_;  // by route
};

// What an end has at once of a route's messages: the receiver from kReceive to kRelease, the sender
// of what it retains from kSend to kRetire.
std::vector<int> held_by_one_end(const Events& events, size_t routes) {
  std::vector<int> most(routes);
  for (const auto& worker : events)
    for (const auto& [begin, end] :
         {std::pair(Kind::kReceive, Kind::kRelease), std::pair(Kind::kSend, Kind::kRetire)}) {
      std::vector<int> now(routes);
      for (const Event& event : worker) {
        const auto route = static_cast<size_t>(event.route);
        if (event.kind == begin && (begin == Kind::kReceive || event.retained)) ++now[route];
        if (event.kind == end) --now[route];
        most[route] = std::max(most[route], now[route]);
      }
    }
  return most;
}

TEST(VerifyOracle, FindsExactlyTheDeadlocksThatSomeOrderOfMessagesHas) {
  int stuck = 0, free = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    partitioner::Random random(seed);
    const auto model = random_net(partitioner::Family::kExact, random);
    const auto plan = random_plan(
        model, {.workers = 2, .stages = 3, .divides = seed % 3 == 0, .micro_batches = 2}, random);
    const Schedule schedule = random_rows(model, plan, random, Order::kAny);
    const auto parts = lower(model, plan, lowering_for(schedule));
    const Events events = events_of(parts, schedule);
    for (const int slots : {1, 2}) {
      const Verdict verdict = verify(model, plan, parts, schedule, {.slots = slots});
      std::vector<int> credits = verdict.held;
      for (int& each : credits) each += slots;
      const auto can = Oracle(events, credits).can_stick();
      if (!can) continue;
      EXPECT_EQ(verdict.ok(), !*can) << "seed " << seed << ", " << slots
                                     << " slots: " << ::testing::PrintToString(verdict.problems);
      ++(*can ? stuck : free);
      if (*can) continue;
      const std::vector<int> least = held_by_one_end(events, plan.routes.size());
      for (size_t route = 0; route < least.size(); ++route)
        EXPECT_GE(verdict.held[route], least[route]) << "seed " << seed << ", route " << route;
    }
  }
  EXPECT_GE(stuck, 20);
  EXPECT_GE(free, 20);
}

}  // namespace
}  // namespace kerf::schedmp
