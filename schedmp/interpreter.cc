#include "schedmp/interpreter.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "partitioner/turns.h"
#include "runtime/error.h"
#include "schedmp/versions.h"

namespace kerf::schedmp {

using partitioner::Instruction;
using partitioner::InstructionList;
using partitioner::kRegions;
using partitioner::Part;
using partitioner::RegionKind;

namespace {

class UseCount : public Machine {
 public:
  explicit UseCount(const std::vector<const Part*>& parts) : parts_(parts) {}
  RegionUse::OfList of_list;

  void taken(const Site& site, RegionKind kind) override {
    of_list.taken += parts_[site.part]->bytes_of(kind);
  }
  void given(const Site& site, RegionKind kind) override {
    of_list.given += parts_[site.part]->bytes_of(kind);
  }

 private:
  const std::vector<const Part*>& parts_;
};

}  // namespace

partitioner::LowerOptions lowering_for(const Schedule& schedule,
                                       const partitioner::Setting& setting) {
  partitioner::LowerOptions options{.gradients = schedule.trains(),
                                    .threads = setting.threads,
                                    .devices = setting.devices,
                                    .in_parallel = true};
  options.stages.resize(static_cast<size_t>(schedule.stages()));
  for (const std::vector<Action>& row : schedule.rows)
    for (const auto& [stage, micro_batch] : recomputed_in(row))
      options.stages[static_cast<size_t>(stage)].recomputes = true;
  if (!schedule.updates_within()) return options;
  const std::vector<StageVersions> versions = versions_of(schedule);
  const int ahead = ahead_of(schedule);
  for (size_t stage = 0; stage < versions.size(); ++stage) {
    options.stages[stage].versions = versions[stage].kept;
    options.stages[stage].ahead = ahead;
  }
  return options;
}

Interpreter::Interpreter(std::vector<const Part*> parts, const Steps& steps, Machine& machine)
    : parts_(std::move(parts)),
      machine_(machine),
      micro_batches_(steps.micro_batches()),
      under_way_(steps.under_way()),
      regions_(parts_.size()),
      needs_(parts_.size()) {
  const auto numbers = static_cast<size_t>(under_way_);
  size_t most_targets = 0;
  for (size_t p = 0; p < parts_.size(); ++p) {
    empty_.emplace_back(parts_[p]->locals.size(), char{1});
    for (Regions& regions : regions_[p]) {
      regions.of_micro_batch.assign(numbers, -1);
      regions.free.reserve(numbers);
    }
    for (const partitioner::LocalCall& call : parts_[p]->calls)
      most_targets = std::max(most_targets, call.inputs.size());
  }
  accumulate_.reserve(most_targets);
  running_.reserve(parts_.size());
}

void Interpreter::run(const ListRun& list_run) {
  KERF_CHECK(list_run.list != nullptr, "{} is no action of a part", to_string(list_run.action));
  running_.clear();
  for (size_t p = 0; p < parts_.size(); ++p)
    if (parts_[p]->stage == list_run.action.stage) {
      const bool again = list_run.list == &Part::checkpointed_forward;
      KERF_CHECK(!again || parts_[p]->recomputes() || parts_[p]->forward.instructions.empty(),
                 "{} is recomputed, and part {} was not lowered for that",
                 to_string(list_run.action), parts_[p]->part);
      const InstructionList& list = parts_[p]->*list_run.list;
      running_.push_back({{p, &list, list_run.micro_batch, list_run.step}});
      needs_[p].transient_bytes = std::max(needs_[p].transient_bytes, list.transient_bytes);
    }
  while (Running* first = whose_turn()) run(first->site, first->take());
}

void Interpreter::next_step() { first_ = (first_ + micro_batches_) % under_way_; }

// Of the parts whose lists run: the one whose next instruction comes first; null at the end.
Interpreter::Running* Interpreter::whose_turn() {
  Running* first = nullptr;
  for (Running& each : running_)
    if (!each.over() && (first == nullptr || each.turn() < first->turn())) first = &each;
  return first;
}

void Interpreter::run(const Site& site, const Instruction& instruction) {
  using Kind = Instruction::Kind;
  switch (instruction.kind) {
    case Kind::kTake:
      return take(site, instruction.region);
    case Kind::kGive:
      return give(site, instruction.region);
    case Kind::kRead:
      return machine_.read(site, instruction);
    case Kind::kForward:
      return machine_.forward(site, instruction);
    case Kind::kLoss:
      return machine_.report_loss(site, instruction);
    case Kind::kWrite:
      return machine_.write(site, instruction);
    case Kind::kGradient:
      return gradient(site, instruction);
    case Kind::kAcquire:
      return machine_.acquire(site, instruction);
    case Kind::kSend:
      fill(site, instruction);
      return machine_.send(site, instruction);
    case Kind::kRetire:
      return machine_.retire(site, instruction);
    case Kind::kReceive:
      return machine_.receive(site, instruction);
    case Kind::kRelease:
      return machine_.release(site, instruction);
    case Kind::kCopy:
      fill(site, instruction);
      return machine_.copy(site, instruction);
    case Kind::kZero:
      return machine_.zero(site, instruction.local);
    case Kind::kMeasure:
      fill(site, instruction.local);
      return machine_.measure(site, instruction);
    case Kind::kConclude:
      return machine_.conclude(site, instruction);
    case Kind::kUpdate:
      fill(site, instruction.other);
      return machine_.update(site, instruction);
    case Kind::kUpdateState:
      return machine_.update_state(site, instruction);
    case Kind::kClear:
      empty_[site.part][static_cast<size_t>(instruction.local)] = 1;
      return;
  }
}

void Interpreter::take(const Site& site, RegionKind kind) {
  Regions& all = regions(site.part, kind);
  int& mine = all.of_micro_batch[place(site)];
  KERF_CHECK(mine < 0, "micro-batch {} takes a region twice", site.micro_batch);
  int& most = needs_[site.part].instances[static_cast<size_t>(kind)];
  if (all.free.empty()) {
    mine = most++;
  } else {
    std::pop_heap(all.free.begin(), all.free.end(), std::greater<>());
    mine = all.free.back();
    all.free.pop_back();
  }
  machine_.taken(site, kind);
}

void Interpreter::give(const Site& site, RegionKind kind) {
  Regions& all = regions(site.part, kind);
  int& mine = all.of_micro_batch[place(site)];
  KERF_CHECK(mine >= 0, "micro-batch {} gives a region that it never took", site.micro_batch);
  all.free.push_back(mine);
  std::push_heap(all.free.begin(), all.free.end(), std::greater<>());
  mine = -1;
  machine_.given(site, kind);
}

int Interpreter::instance(const Site& site, RegionKind region) const {
  if (region == RegionKind::kTransient) return 0;
  return regions_[site.part][static_cast<size_t>(region)].of_micro_batch[place(site)];
}

void Interpreter::gradient(const Site& site, const Instruction& instruction) {
  accumulate_.clear();
  for (const Instruction::Target& target : instruction.targets) {
    const auto local = static_cast<size_t>(target.local);
    if (parts_[site.part]->locals[local].kind == partitioner::LocalKind::kParameterGradient) {
      accumulate_.push_back(empty_[site.part][local] == 0 ? 1 : 0);
      empty_[site.part][local] = 0;
    } else {
      accumulate_.push_back(0);
    }
  }
  machine_.gradient(site, instruction, accumulate_);
}

void Interpreter::fill(const Site& site, const Instruction& instruction) {
  for (const partitioner::Move& move : instruction.moves) fill(site, move.local);
}

void Interpreter::fill(const Site& site, int local) {
  if (parts_[site.part]->locals[static_cast<size_t>(local)].kind !=
      partitioner::LocalKind::kParameterGradient)
    return;
  char& empty = empty_[site.part][static_cast<size_t>(local)];
  if (empty == 0) return;
  machine_.zero(site, local);
  empty = 0;
}

// Behind a step that fills, every other has as much in flight as the one before it had.
std::vector<RegionNeeds> region_needs(const std::vector<const Part*>& mine, const Steps& steps,
                                      int worker) {
  Machine nothing;
  Interpreter interpreter(mine, steps, nothing);
  run_steps(
      interpreter, steps, worker, steps.go_on() ? 2 : 1,
      [&](const ListRun& run) { interpreter.run(run); }, [](const Ramps&) {});
  return interpreter.needs();
}

RegionUse region_use(const std::vector<const Part*>& mine, const Steps& steps, int worker) {
  UseCount count(mine);
  Interpreter interpreter(mine, steps, count);
  RegionUse use;
  if (steps.go_on()) {
    for (const ListRun& run : steps.runs(worker, {.fills = true, .drains = false}))
      interpreter.run(run);
    interpreter.next_step();
    const RegionUse::OfList filled = std::exchange(count.of_list, {});
    use.before = filled.taken - filled.given;
  }
  for (const ListRun& run : steps.runs(worker, steps.ramps(1, 3))) {
    interpreter.run(run);
    use.lists.push_back(std::exchange(count.of_list, {}));
  }
  for (size_t p = 0; p < mine.size(); ++p)
    for (const RegionKind kind : {RegionKind::kKept, RegionKind::kKeptForWeights,
                                  RegionKind::kHanded, RegionKind::kEntered})
      use.room +=
          interpreter.needs()[p].instances[static_cast<size_t>(kind)] * mine[p]->bytes_of(kind);
  return use;
}

std::vector<const Part*> parts_of(const std::vector<Part>& parts, int worker) {
  std::vector<const Part*> found;
  for (const Part& part : parts)
    if (part.worker == worker) found.push_back(&part);
  return found;
}

ArenaPlan::ArenaPlan(const std::vector<const Part*>& parts, const std::vector<RegionNeeds>& needs)
    : starts_(parts.size()) {
  constexpr auto kTransient = static_cast<size_t>(RegionKind::kTransient);
  for (size_t p = 0; p < parts.size(); ++p)
    for (size_t kind = 0; kind < kRegions; ++kind) {
      if (kind == kTransient) continue;
      starts_[p][kind] = bytes_;
      bytes_ += needs[p].instances[kind] * parts[p]->region_bytes[kind];
    }
  std::vector<int64_t> transient_bytes;
  for (const RegionNeeds& each : needs) transient_bytes.push_back(each.transient_bytes);
  const partitioner::Transient transient = transient_of(parts, transient_bytes);
  for (size_t p = 0; p < parts.size(); ++p) starts_[p][kTransient] = bytes_ + transient.starts[p];
  bytes_ += transient.bytes;
}

}  // namespace kerf::schedmp
