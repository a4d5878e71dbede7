// The interpreter of instruction lists: what a worker's row comes to, instruction by instruction.
//
// One interpreter serves the proof (verify.h), which only counts, and the run
// (training/executor.h), which does it: a Machine carries out what the interpreter says. The
// interpreter itself keeps what both must agree on: which instance of a region is whose, and which
// accumulators count as zero. Instances are numbered from 0, and the lowest free one is taken, so
// that the number that was proved is the number that runs.
//
// Used by one thread. Parts and machine outlive it.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "partitioner/part.h"
#include "partitioner/setting.h"
#include "schedmp/steps.h"

namespace kerf::schedmp {

// How a plan's parts are lowered so that they have the lists of all rows.
partitioner::LowerOptions lowering_for(const Schedule& schedule,
                                       const partitioner::Setting& setting = {});

// Where an instruction stands.
struct Site {
  size_t part = 0;  // among the worker's parts
  const partitioner::InstructionList* list = nullptr;
  int micro_batch = -1;  // of that step; -1: of the step itself
  int step = 0;          // 1: of the next, -1: of the one before
};

// Carries instructions out, in the order in which they are called; every call is one instruction.
// kTake, kGive and kClear the interpreter does by itself; of the first two it tells.
class Machine {
 public:
  using Instruction = partitioner::Instruction;
  virtual ~Machine() = default;
  virtual void read(const Site&, const Instruction&) {}
  virtual void forward(const Site&, const Instruction&) {}
  virtual void report_loss(const Site&, const Instruction&) {}
  virtual void write(const Site&, const Instruction&) {}
  // accumulate[i]: add to target i instead of overwriting it.
  virtual void gradient(const Site&, const Instruction&, std::span<const char> /*accumulate*/) {}
  virtual void acquire(const Site&, const Instruction&) {}
  virtual void send(const Site&, const Instruction&) {}
  virtual void retire(const Site&, const Instruction&) {}
  virtual void receive(const Site&, const Instruction&) {}
  virtual void release(const Site&, const Instruction&) {}
  virtual void copy(const Site&, const Instruction&) {}
  virtual void zero(const Site&, int /*local*/) {}
  virtual void measure(const Site&, const Instruction&) {}
  virtual void conclude(const Site&, const Instruction&) {}
  virtual void update(const Site&, const Instruction&) {}
  virtual void update_state(const Site&, const Instruction&) {}
  virtual void taken(const Site&, partitioner::RegionKind) {}
  virtual void given(const Site&, partitioner::RegionKind) {}
};

// A machine that is told of what has to do with messages and their slots by one call.
class MessageMachine : public Machine {
 public:
  // Of a kAcquire, kSend, kRetire, kReceive or kRelease.
  virtual void message(const Site&, const Instruction&) = 0;

  void acquire(const Site& site, const Instruction& i) final { message(site, i); }
  void send(const Site& site, const Instruction& i) final { message(site, i); }
  void retire(const Site& site, const Instruction& i) final { message(site, i); }
  void receive(const Site& site, const Instruction& i) final { message(site, i); }
  void release(const Site& site, const Instruction& i) final { message(site, i); }
};

// What a row needs of the regions of a part.
struct RegionNeeds {
  std::array<int, partitioner::kRegions> instances{};  // of those that micro-batches take
  int64_t transient_bytes = 0;                         // of the lists that run
};

class Interpreter {
 public:
  // `parts`: of one worker.
  Interpreter(std::vector<const partitioner::Part*> parts, const Steps& steps, Machine& machine);

  // Runs the lists of the worker's parts of the action's stage, each when its turn comes. Throws
  // Error{kInternal} where a region is taken twice or given before it was taken: the row was never
  // proved.
  void run(const ListRun& list_run);
  // What was of the next step is of this one from now on.
  void next_step();

  const partitioner::Part& part(size_t index) const { return *parts_[index]; }
  size_t parts() const { return parts_.size(); }
  // Among those that have a number at once, whatever the step: where what is kept of the site's
  // micro-batch lies.
  size_t place(const Site& site) const {
    return static_cast<size_t>(first_ + site.step * micro_batches_ + site.micro_batch) %
           static_cast<size_t>(under_way_);
  }
  // The instance that the site's micro-batch has; 0 of a region that is the worker's.
  int instance(const Site& site, partitioner::RegionKind region) const;
  // So far, by part of the worker.
  const std::vector<RegionNeeds>& needs() const { return needs_; }

 private:
  struct Regions {                    // of one part and kind
    std::vector<int> of_micro_batch;  // by place: the instance, -1: none
    std::vector<int> free;            // given back, as a heap: the lowest first
  };
  Regions& regions(size_t part, partitioner::RegionKind kind) {
    return regions_[part][static_cast<size_t>(kind)];
  }
  struct Running {  // the list of one part
    Site site;
    size_t at = 0;
    bool over() const { return at == site.list->instructions.size(); }
    int turn() const { return site.list->turns.empty() ? 0 : site.list->turns[at]; }
    const partitioner::Instruction& take() { return site.list->instructions[at++]; }
  };
  Running* whose_turn();
  void run(const Site& site, const partitioner::Instruction& instruction);
  void take(const Site& site, partitioner::RegionKind kind);
  void give(const Site& site, partitioner::RegionKind kind);
  void gradient(const Site& site, const partitioner::Instruction& instruction);
  // Zeroes those of the locals that are accumulators to which nothing was written yet.
  void fill(const Site& site, const partitioner::Instruction& instruction);
  void fill(const Site& site, int local);

  std::vector<const partitioner::Part*> parts_;
  Machine& machine_;
  const int micro_batches_;
  const int under_way_;
  int first_ = 0;  // the place of this step's first micro-batch
  std::vector<std::array<Regions, partitioner::kRegions>> regions_;
  std::vector<RegionNeeds> needs_;
  std::vector<std::vector<char>> empty_;  // by part, by local: an accumulator that counts as zero
  std::vector<char> accumulate_;          // scratch
  std::vector<Running> running_;          // scratch
};

// Runs `list` for each list of so many steps of a worker that follow each other, and `end` behind
// each step.
template <class List, class End>
void run_steps(Interpreter& interpreter, const Steps& steps, int worker, int count,
               const List& list, const End& end) {
  for (int step = 0; step < count; ++step) {
    const Ramps ramps = steps.ramps(step, count);
    for (const ListRun& run : steps.runs(worker, ramps)) list(run);
    interpreter.next_step();
    end(ramps);
  }
}

// What a worker's rows need, found by running them on a machine that does nothing. `mine`: its
// parts.
std::vector<RegionNeeds> region_needs(const std::vector<const partitioner::Part*>& mine,
                                      const Steps& steps, int worker);

// What the lists of a row take of the regions that micro-batches have, and give back, in bytes.
struct RegionUse {
  struct OfList {
    int64_t taken = 0;
    int64_t given = 0;
  };
  std::vector<OfList> lists;  // of the runs, in order
  int64_t room = 0;           // for as many instances as rows need at once
  int64_t before = 0;         // what is taken when the row begins
};
// Of a step that goes on where it may.
RegionUse region_use(const std::vector<const partitioner::Part*>& mine, const Steps& steps,
                     int worker);

// The parts that are bound to `worker`, by number.
std::vector<const partitioner::Part*> parts_of(const std::vector<partitioner::Part>& parts,
                                               int worker);

// One worker's arena: the instances of every part's regions, one after the other, and at the end
// the transient regions, which stages share.
class ArenaPlan {
 public:
  ArenaPlan() = default;
  ArenaPlan(const std::vector<const partitioner::Part*>& parts,
            const std::vector<RegionNeeds>& needs);

  int64_t bytes() const { return bytes_; }
  // Of the first byte of an instance, from the arena's start.
  int64_t start(const partitioner::Part& part, size_t index, partitioner::RegionKind region,
                int instance) const {
    return starts_[index][static_cast<size_t>(region)] + instance * part.bytes_of(region);
  }

 private:
  std::vector<std::array<int64_t, partitioner::kRegions>> starts_;
  int64_t bytes_ = 0;
};

}  // namespace kerf::schedmp
