// The proof: the messages of every worker's row, played against each other under limited slots.
#include "schedmp/verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "partitioner/memory.h"
#include "runtime/error.h"
#include "schedmp/walk.h"

namespace kerf::schedmp {

using partitioner::Instruction;
using partitioner::Local;
using partitioner::LocalKind;
using partitioner::Model;
using partitioner::Part;
using partitioner::Plan;
using partitioner::Storage;
using partitioner::whole_blocks;

namespace {

// What a worker does with a route, in the order in which it does it.
struct Step {
  enum class Kind : uint8_t { kAcquire, kSend, kReceive, kRelease };
  Kind kind{};
  int route = -1;
  int micro_batch = -1;
  const Action* action = nullptr;
};

std::vector<Step> message_steps(const Part& part, const std::vector<Action>& row) {
  std::vector<Step> steps;
  std::set<std::pair<int, int>> acquired;  // route, micro-batch
  const auto acquire = [&](int route, const Action& action) {
    if (acquired.insert({route, action.micro_batch}).second)
      steps.push_back({Step::Kind::kAcquire, route, action.micro_batch, &action});
  };
  for (const Action& action : row)
    for (const auto* list : lists_of(part, action))
      for (const Instruction& instruction : *list) {
        for (const int local : locals_touched(part, instruction))
          if (part.locals[static_cast<size_t>(local)].storage == Storage::kSent)
            acquire(part.locals[static_cast<size_t>(local)].route, action);
        const auto add = [&](Step::Kind kind, int route) {
          steps.push_back({kind, route, action.micro_batch, &action});
        };
        if (instruction.kind == Instruction::Kind::kSend) {
          acquire(instruction.route, action);
          add(Step::Kind::kSend, instruction.route);
        } else if (instruction.kind == Instruction::Kind::kReceive) {
          add(Step::Kind::kReceive, instruction.route);
          if (!instruction.moves.empty()) add(Step::Kind::kRelease, instruction.route);
        } else if (instruction.kind == Instruction::Kind::kFree) {
          const Local& local = part.locals[static_cast<size_t>(instruction.local)];
          if (local.storage == Storage::kReceived) add(Step::Kind::kRelease, local.route);
        }
      }
  return steps;
}

std::vector<int> held_at_most(const std::vector<std::vector<Step>>& workers, size_t routes) {
  std::vector<int> held(routes), now(routes);
  for (const std::vector<Step>& steps : workers)
    for (const Step& step : steps) {
      const auto route = static_cast<size_t>(step.route);
      if (step.kind == Step::Kind::kReceive) held[route] = std::max(held[route], ++now[route]);
      if (step.kind == Step::Kind::kRelease) --now[route];
    }
  return held;
}

// Plays all rows until nothing moves. `slots` 0: every send meets its receive.
class Play {
 public:
  Play(const Model& model, const Plan& plan, const std::vector<std::vector<Step>>& workers,
       const std::vector<int>& held, int slots)
      : model_(model),
        plan_(plan),
        workers_(workers),
        held_(held),
        slots_(slots),
        at_(workers.size()),
        outstanding_(held.size()) {
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
  const Step& current(size_t worker) const { return workers_[worker][at_[worker]]; }
  size_t worker_of(int part) const {
    return static_cast<size_t>(plan_.binding[static_cast<size_t>(part)]);
  }
  const partitioner::Route& route(const Step& step) const {
    return plan_.routes[static_cast<size_t>(step.route)];
  }

  size_t waits_for(size_t worker) const {
    const Step& step = current(worker);
    return worker_of(step.kind == Step::Kind::kReceive ? route(step).from : route(step).to);
  }

  std::string describe(size_t worker) const {
    const Step& step = current(worker);
    const char* what = step.kind == Step::Kind::kReceive ? "for"
                       : step.kind == Step::Kind::kSend  ? "for the receiver of"
                                                         : "for a free slot of";
    return kerf::format("worker {} at {} waits {} {}{} of micro-batch {} {} worker {}", worker,
                        to_string(*step.action), what,
                        route(step).gradient ? "the gradient of " : "",
                        model_.value(route(step).value).name, step.micro_batch,
                        step.kind == Step::Kind::kReceive ? "from" : "to", waits_for(worker));
  }

  bool advance(size_t worker) {
    const Step& step = current(worker);
    const auto r = static_cast<size_t>(step.route);
    switch (step.kind) {
      case Step::Kind::kAcquire:
        if (slots_ > 0 && outstanding_[r] >= held_[r] + slots_) return false;
        ++outstanding_[r];
        break;
      case Step::Kind::kSend: {
        const size_t receiver = waits_for(worker);
        const bool met = at_[receiver] < workers_[receiver].size() &&
                         current(receiver).kind == Step::Kind::kReceive &&
                         current(receiver).route == step.route &&
                         current(receiver).micro_batch == step.micro_batch;
        if (slots_ == 0 && !met) return false;
        committed_.insert({step.route, step.micro_batch});
        break;
      }
      case Step::Kind::kReceive:
        if (!committed_.count({step.route, step.micro_batch})) return false;
        break;
      case Step::Kind::kRelease:
        --outstanding_[r];
        break;
    }
    ++at_[worker];
    return true;
  }

  const Model& model_;
  const Plan& plan_;
  const std::vector<std::vector<Step>>& workers_;
  const std::vector<int>& held_;
  int slots_;
  std::vector<size_t> at_;
  std::vector<int> outstanding_;
  std::set<std::pair<int, int>> committed_;
};

// Bytes of tensors while a row runs: what the executor will allocate, when it will.
class MemoryWalk {
 public:
  MemoryWalk(const Model& model, const Part& part, const partitioner::Setting& setting,
             int64_t samples)
      : model_(model), part_(part), setting_(setting), samples_(samples) {
    for (const partitioner::LocalCall& call : part.calls) measure(call);
  }

  int64_t peak(const std::vector<Action>& row) {
    bool trains = false;
    for (const Action& action : row) trains |= action.kind == ActionKind::kUpdate;
    for (const Local& local : part_.locals) {
      if (local.kind == LocalKind::kParameter)
        now_ += bytes(local) * (1 + (trains ? setting_.optimizer_states : 0));
      if (local.kind == LocalKind::kParameterGradient && trains) now_ += bytes(local);
    }
    peak_ = now_;
    for (const Action& action : row)
      for (const auto* list : lists_of(part_, action))
        for (const Instruction& instruction : *list) take(instruction, action.micro_batch);
    return peak_;
  }

 private:
  int64_t bytes(const Local& local) const {
    return whole_blocks(static_cast<int64_t>(local.spec.bytes(samples_)));
  }

  void measure(const partitioner::LocalCall& call) {
    std::vector<ops::ValueSpec> inputs;
    for (const int input : call.inputs) {
      ops::ValueSpec spec = part_.locals[static_cast<size_t>(input)].spec;
      spec.shape = spec.shape.with_batch(samples_);
      inputs.push_back(spec);
    }
    const ops::Operator& op = model_.op(call.node);
    const ops::Attributes& attributes = model_.node(call.node).attributes;
    saved_.push_back(call.saved == 0 ? 0 : in_blocks(op.saved_bytes(attributes, inputs)));
    workspace_.push_back(in_blocks(op.workspace_bytes(attributes, inputs, setting_.threads)));
  }

  static int64_t in_blocks(size_t bytes) { return whole_blocks(static_cast<int64_t>(bytes)); }

  void take(const Instruction& instruction, int micro_batch) {
    for (const int local : locals_touched(part_, instruction)) allocate(local, micro_batch);
    const auto call = static_cast<size_t>(instruction.call);
    if (instruction.kind == Instruction::Kind::kForward) now_ += saved_[call];
    peak_ = std::max(peak_, now_ + scratch(instruction, micro_batch));
    if (instruction.kind == Instruction::Kind::kFreeSaved) now_ -= saved_[call];
    if (instruction.kind == Instruction::Kind::kFree &&
        live_.erase({instruction.local, micro_batch}) > 0)
      now_ -= bytes(part_.locals[static_cast<size_t>(instruction.local)]);
  }

  // What is taken while an instruction runs.
  int64_t scratch(const Instruction& instruction, int micro_batch) const {
    if (instruction.kind == Instruction::Kind::kForward ||
        instruction.kind == Instruction::Kind::kGradient)
      return workspace_[static_cast<size_t>(instruction.call)];
    if (instruction.kind != Instruction::Kind::kCopy) return 0;
    const ops::Region& from = instruction.moves[0].region;
    return from.everything() ? 0 : in_blocks(from.bytes(micro_batch < 0 ? 0 : samples_));
  }

  void allocate(int index, int micro_batch) {
    const Local& local = part_.locals[static_cast<size_t>(index)];
    if (local.persistent() || local.storage != Storage::kOwn) return;
    if (!live_.insert({index, micro_batch}).second) return;
    now_ += bytes(local);
    // Shares of data are cut out of whole rows, one at a time.
    if (local.kind == LocalKind::kData && !local.box.is_whole())
      peak_ = std::max(peak_, now_ + in_blocks(model_.value(local.value).spec.bytes(1)));
  }

  const Model& model_;
  const Part& part_;
  const partitioner::Setting& setting_;
  int64_t samples_;
  std::vector<int64_t> saved_;      // by call
  std::vector<int64_t> workspace_;  // by call
  int64_t now_ = 0;
  int64_t peak_ = 0;
  std::set<std::pair<int, int>> live_;
};

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

Verdict verify(const Model& model, const Plan& plan, const std::vector<Part>& parts,
               const Schedule& schedule, const partitioner::Setting& setting) {
  Verdict verdict;
  verdict.problems = check_order(schedule);
  for (std::string& problem : check_fits(schedule, plan))
    verdict.problems.push_back(std::move(problem));
  if (setting.slots < 1) verdict.problems.push_back("a route needs at least 1 free slot");
  if (!verdict.problems.empty()) return verdict;

  std::vector<std::vector<Step>> steps;
  for (size_t worker = 0; worker < parts.size(); ++worker)
    steps.push_back(message_steps(parts[worker], schedule.rows[worker]));
  verdict.held = held_at_most(steps, plan.routes.size());
  const auto safe = [&](int k) { return Play(model, plan, steps, verdict.held, k).finished(); };
  if (safe(schedule.micro_batches))
    verdict.smallest_safe_slots = first_true(0, schedule.micro_batches, safe);
  const Play play(model, plan, steps, verdict.held, setting.slots);
  if (!play.finished()) verdict.problems.push_back(play.explain());

  const int64_t samples = partitioner::micro_batch_sizes(plan.batch, plan.micro_batches).front();
  verdict.peak_bytes = partitioner::slot_bytes(model, plan, verdict.held, setting, samples);
  for (size_t worker = 0; worker < parts.size(); ++worker)
    verdict.peak_bytes[worker] +=
        MemoryWalk(model, parts[worker], setting, samples).peak(schedule.rows[worker]);
  return verdict;
}

}  // namespace kerf::schedmp
