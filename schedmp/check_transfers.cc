#include "schedmp/check_transfers.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "schedmp/row_check.h"

namespace kerf::schedmp {

namespace {

// Values go up the chain, gradients down.
struct Direction {
  ActionKind send, receive, await;
  int step;  // to the stage that reads
  const char* made_by;
};
constexpr Direction kValues = {ActionKind::kSendForward, ActionKind::kReceiveForward,
                               ActionKind::kAwaitSentForward, 1, "its forward"};
constexpr Direction kGradients = {ActionKind::kSendGradient, ActionKind::kReceiveGradient,
                                  ActionKind::kAwaitSentGradient, -1, "its input gradient"};

// One worker's row, of one direction.
class RowTransfers {
 public:
  RowTransfers(const Schedule& schedule, int worker, const Direction& direction, Problems& problems)
      : schedule_(schedule), worker_(worker), direction_(direction), problems_(problems) {}

  void run() {
    for (const Action& action : schedule_.rows[static_cast<size_t>(worker_)]) take(action);
    for (const auto& [stage, micro_batch] : made_)
      if (crosses(stage, direction_.step) && !sent_.contains({stage, micro_batch}))
        problems_.add("worker {}: {} is missing", worker_,
                      to_string(Action{stage, direction_.send, micro_batch}));
  }

 private:
  using Key = std::pair<int, int>;  // stage, micro-batch

  bool computes(ActionKind kind) const {
    if (direction_.step > 0) return kind == ActionKind::kForward;
    return kind == ActionKind::kInputGradient || kind == ActionKind::kBackward;
  }
  // Whether there is a neighbour, on another worker.
  bool crosses(int stage, int step) const {
    const int other = stage + step;
    return other >= 0 && other < schedule_.stages() &&
           schedule_.groups[static_cast<size_t>(other)] !=
               schedule_.groups[static_cast<size_t>(stage)];
  }
  void problem(const Action& action, const std::string& what) {
    problems_.add("worker {}: {}: {}", worker_, to_string(action), what);
  }

  void take(const Action& action) {
    const Key key{action.stage, action.micro_batch};
    if (computes(action.kind)) {
      if (crosses(action.stage, -direction_.step) && !received_.contains(key))
        problem(action,
                kerf::format("comes before {}", to_string(Action{action.stage, direction_.receive,
                                                                 action.micro_batch})));
      made_.insert(key);
      return;
    }
    const bool receives = action.kind == direction_.receive;
    if (!receives && action.kind != direction_.send && action.kind != direction_.await) return;
    if (action.stage >= schedule_.stages()) return problem(action, "there is no such stage");
    if (action.micro_batch >= schedule_.micro_batches)
      return problem(action, "there is no such micro-batch");
    if (schedule_.groups[static_cast<size_t>(action.stage)][0] != worker_)
      return problem(action, "the stage is not this worker's");
    if (!crosses(action.stage, receives ? -direction_.step : direction_.step))
      return problem(action, "no other worker is at the other end");
    if (action.kind == direction_.await) {
      if (!sent_.contains(key)) problem(action, "comes before what it awaits is sent");
    } else if (receives) {
      if (!received_.insert(key).second) problem(action, "stands twice");
    } else {
      if (!made_.contains(key))
        problem(action, kerf::format("comes before {}", direction_.made_by));
      if (!sent_.insert(key).second) problem(action, "stands twice");
    }
  }

  const Schedule& schedule_;
  int worker_;
  const Direction& direction_;
  Problems& problems_;
  std::set<Key> made_, sent_, received_;
};

}  // namespace

namespace {

// By stage that sends, or receives: the micro-batches in their order.
using Orders = std::map<int, std::vector<int>>;

Orders orders_of(const Schedule& schedule, ActionKind kind) {
  Orders orders;
  for (const std::vector<Action>& row : schedule.rows)
    for (const Action& action : row)
      if (action.kind == kind) orders[action.stage].push_back(action.micro_batch);
  return orders;
}

// Messages have no names on their way: what is sent first is received first.
void check_same_order(const Schedule& schedule, const Direction& direction, Problems& problems) {
  Orders received = orders_of(schedule, direction.receive);
  for (const auto& [stage, sent] : orders_of(schedule, direction.send)) {
    const std::vector<int>& there = received[stage + direction.step];
    for (size_t i = 0; i < std::min(sent.size(), there.size()); ++i) {
      if (sent[i] == there[i]) continue;
      problems.add("{} would get what {} sends: both ends have one order",
                   to_string(Action{stage + direction.step, direction.receive, there[i]}),
                   to_string(Action{stage, direction.send, sent[i]}));
      break;
    }
  }
}

}  // namespace

std::vector<std::string> check_transfers(const Schedule& schedule) {
  Problems problems;
  for (const Direction* direction : {&kValues, &kGradients})
    check_same_order(schedule, *direction, problems);
  for (int worker = 0; worker < schedule.workers(); ++worker)
    for (const Direction* direction : {&kValues, &kGradients})
      RowTransfers(schedule, worker, *direction, problems).run();
  return problems.take();
}

}  // namespace kerf::schedmp
