// The simulation against another way to the same times: what every instruction of every row waits
// for is written down as edges, and the longest path to each is taken. Random plans, on workers of
// several speeds and links, which have several stages, and several parts of one.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "schedmp/schedules.h"
#include "schedmp/simulate.h"
#include "tests/partitioner/random_models.h"
#include "tests/schedmp/random_rows.h"
#include "tests/schedmp/row_steps.h"

namespace kerf::schedmp {
namespace {

using partitioner::DeviceSpeed;
using partitioner::draw;
using partitioner::Model;
using partitioner::Part;
using partitioner::Plan;
using partitioner::Random;
using Kind = partitioner::Instruction::Kind;

// Ends of instructions, raised until none is too early. A message crosses its link after what its
// sender put on the same link before, which is in the order of the sender's row.
class LongestPaths {
 public:
  LongestPaths(const Model& model, const Plan& plan, const std::vector<Part>& parts,
               const Schedule& schedule, const DeviceSpeed& speed)
      : model_(model), plan_(plan), speed_(speed) {
    for (int worker = 0; worker < schedule.workers(); ++worker) add_row(parts, schedule, worker);
    for (bool raised = true; raised;) {
      raised = false;
      for (Event& event : events_) raised = raise(event) || raised;
    }
  }

  double step_seconds() const {
    double most = 0;
    for (const Event& event : events_) most = std::max(most, event.end);
    return most;
  }
  double busy(int worker) const { return sum_of(worker, &Event::computes); }
  double copying(int worker) const { return sum_of(worker, &Event::copies); }
  // From the first that is computed or copied to the end; both the end where nothing is, `before`
  // where it does nothing at all.
  std::pair<double, double> span(int worker, const Action& action, double before) const {
    std::optional<double> begin;
    double end = before;
    for (const Event& event : events_) {
      if (event.worker != worker || !(event.step.action == action)) continue;
      if ((event.computes || event.copies) && !begin) begin = event.end - event.seconds;
      end = event.end;
    }
    return {begin.value_or(end), end};
  }

 private:
  struct Event {
    RowStep step;
    int worker = 0;
    int before = -1;   // event of the same worker
    int on_link = -1;  // kSend: event of the one before on the same link
    double seconds = 0;
    bool computes = false;
    bool copies = false;
    double end = 0;
    double off_link = 0;  // kSend: when the link is free again
  };
  using Message = std::pair<int, int>;  // route, micro-batch

  double sum_of(int worker, bool Event::*kind) const {
    double sum = 0;
    for (const Event& event : events_)
      if (event.worker == worker && event.*kind) sum += event.seconds;
    return sum;
  }
  void add_row(const std::vector<Part>& parts, const Schedule& schedule, int worker) {
    int last = -1;
    std::map<int, int> last_to;  // by receiver
    for (const RowStep& step : steps_of_row(parts, schedule, worker)) {
      Event event{step, worker, last};
      const auto& instruction = *step.instruction;
      event.computes = instruction.kind == Kind::kForward || instruction.kind == Kind::kGradient;
      event.copies = instruction.kind != Kind::kRead && !instruction.moves.empty();
      const double seconds = event.computes ? seconds_of(step)
                             : event.copies ? seconds_of_moves(step)
                                            : 0;
      event.seconds = seconds / speed_.capacities.speed_of(worker);
      last = static_cast<int>(events_.size());
      if (instruction.kind == Kind::kSend) {
        const int to = worker_of(plan_.routes[static_cast<size_t>(instruction.route)].to);
        const auto [previous, first] = last_to.try_emplace(to, last);
        if (!first) event.on_link = std::exchange(previous->second, last);
        sent_[{instruction.route, step.action.micro_batch}] = last;
      }
      events_.push_back(event);
    }
  }
  int worker_of(int part) const { return plan_.binding[static_cast<size_t>(part)]; }
  int64_t samples_of(const Action& action) const {
    const auto sizes = plan_.sizes().of(plan_.batch);
    return action.micro_batch < 0 ? 0 : sizes[static_cast<size_t>(action.micro_batch)];
  }
  double seconds_of(const RowStep& step) const {
    const auto& call = step.part->calls[static_cast<size_t>(step.instruction->call)];
    const auto cost =
        partitioner::node_cost(model_, call.node, call.iterations, plan_.largest_micro_batch(),
                               samples_of(step.action), speed_);
    if (step.instruction->kind == Kind::kForward) return cost.forward_seconds;
    return step.instruction->weights ? cost.weight_gradient_seconds : cost.input_gradient_seconds;
  }
  // Every byte is read and written; where it is added, so is what it is added to read.
  double seconds_of_moves(const RowStep& step) const {
    const auto& moves = step.instruction->moves;
    double bytes = 0;
    for (const auto& move : moves)
      bytes += static_cast<double>(move.selection.bytes(samples_of(step.action))) *
               (moves.back().add && step.instruction->kind == Kind::kCopy ? 3
                : move.add                                                ? 3
                                                                          : 2);
    if (step.instruction->kind == Kind::kCopy) bytes /= 2;  // both ends are of the same bytes
    return bytes / speed_.bytes_per_second;
  }
  // On the wire; nothing where sender and receiver are one worker.
  double transfer(const Event& send) const {
    const auto& route = plan_.routes[static_cast<size_t>(send.step.instruction->route)];
    if (worker_of(route.to) == send.worker) return 0;
    const auto bytes =
        static_cast<double>(message_bytes(model_, route, samples_of(send.step.action)));
    return bytes /
           partitioner::link_costs(speed_, send.worker, worker_of(route.to)).bytes_per_second;
  }
  double latency(const Event& send) const {
    const auto& route = plan_.routes[static_cast<size_t>(send.step.instruction->route)];
    if (worker_of(route.to) == send.worker) return 0;
    return partitioner::link_costs(speed_, send.worker, worker_of(route.to)).seconds;
  }

  bool raise(Event& event) {
    const std::pair had(event.end, event.off_link);
    double begin = event.before < 0 ? 0 : events_[static_cast<size_t>(event.before)].end;
    const auto& instruction = *event.step.instruction;
    if (instruction.kind == Kind::kReceive) {
      const Event& send = events_[static_cast<size_t>(
          sent_.at({instruction.route, event.step.action.micro_batch}))];
      begin = std::max(begin, send.off_link + latency(send));
    }
    event.end = begin + event.seconds;
    if (instruction.kind == Kind::kSend) {
      const double free =
          event.on_link < 0 ? 0 : events_[static_cast<size_t>(event.on_link)].off_link;
      const auto& route = plan_.routes[static_cast<size_t>(instruction.route)];
      event.off_link = worker_of(route.to) == event.worker
                           ? event.end
                           : std::max(free, event.end) + transfer(event);
    }
    return std::pair(event.end, event.off_link) != had;
  }

  const Model& model_;
  const Plan& plan_;
  const DeviceSpeed& speed_;
  std::vector<Event> events_;
  std::map<Message, int> sent_;  // event
};

DeviceSpeed random_speed(int workers, Random& random) {
  DeviceSpeed speed{1e9, 1e9, 2e-6, 1e7 * (1 + draw(random, 50)), 1e-6 * draw(random, 40)};
  for (int worker = 0; worker < workers; ++worker)
    speed.capacities.workers.push_back({0.25 * (1 + draw(random, 12))});
  for (int a = 0; a < workers; ++a)
    for (int b = a + 1; b < workers; ++b)
      if (draw(random, 2) == 0)
        speed.capacities.links[{a, b}] = {1e6 * (1 + draw(random, 90)), 1e-6 * draw(random, 90)};
  return speed;
}

// Every message of the step, from a list that was not over to one that could not go on before.
void expect_messages(const Model& model, const Plan& plan, const Timeline& timeline) {
  int64_t messages = 0;
  for (const auto& traffic : partitioner::predict_traffic(model, plan, plan.batch))
    messages += traffic.messages;
  EXPECT_EQ(std::ssize(timeline.messages), messages);
  for (const TimedMessage& each : timeline.messages) {
    const Moment& sends = timeline.rows[static_cast<size_t>(each.from)].at(each.sent_in);
    const Moment& takes = timeline.rows[static_cast<size_t>(each.to)].at(each.taken_in);
    EXPECT_LE(each.sent, sends.end);
    EXPECT_LE(each.sent, each.arrived);
    EXPECT_LE(each.arrived, each.taken);
    EXPECT_LE(each.taken, takes.end);
  }
}

void expect_equal(const Model& model, const Plan& plan, const Schedule& schedule,
                  const DeviceSpeed& speed) {
  const auto parts = lower(model, plan, lowering_for(schedule));
  const auto timeline = simulate(model, plan, parts, schedule, speed);
  ASSERT_TRUE(timeline);
  const LongestPaths paths(model, plan, parts, schedule, speed);
  const double room = 1e-9 * paths.step_seconds();
  EXPECT_NEAR(timeline->step_seconds, paths.step_seconds(), room);
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    EXPECT_NEAR(timeline->busy[static_cast<size_t>(worker)], paths.busy(worker), room);
    EXPECT_NEAR(timeline->copying[static_cast<size_t>(worker)], paths.copying(worker), room);
    double in_lists = 0;
    for (const Moment& moment : timeline->rows[static_cast<size_t>(worker)])
      in_lists += moment.busy;
    EXPECT_NEAR(in_lists, paths.busy(worker) + paths.copying(worker), room);
    size_t actions = 0;
    double before = 0;
    for (const Moment& moment : timeline->rows[static_cast<size_t>(worker)]) {
      const auto [begin, end] =
          paths.span(worker, moment.action, std::exchange(before, moment.end));
      if (moment.action.micro_batch < 0) continue;
      ++actions;
      EXPECT_NEAR(moment.begin, begin, room) << to_string(moment.action);
      EXPECT_NEAR(moment.end, end, room) << to_string(moment.action);
    }
    EXPECT_EQ(actions, std::ranges::count_if(schedule.rows[static_cast<size_t>(worker)],
                                             [](const Action& a) { return a.micro_batch >= 0; }));
  }
  expect_messages(model, plan, *timeline);
}

TEST(SimulateOracle, TakesTheLongestPathOfWhatWaitsForWhat) {
  int shared = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Model model = random_net(partitioner::Family::kScaled, random);
    partitioner::Placing placing{
        .workers = 1 + draw(random, 4), .stages = 5, .divides = seed % 2 == 0};
    if (seed % 4 < 2) placing.give_sizes(random);
    const Plan plan = random_plan(model, placing, random);
    const DeviceSpeed speed = random_speed(plan.workers_bound(), random);
    for (const char* name : {"gpipe", "1f1b"})
      expect_equal(model, plan, make_schedule(name, model, plan), speed);
    expect_equal(model, plan, random_rows(model, plan, random), speed);
    if (plan.stages.size() > static_cast<size_t>(plan.workers_bound())) ++shared;
  }
  EXPECT_GE(shared, 20) << "plans of workers with several stages";
}

}  // namespace
}  // namespace kerf::schedmp
