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
#include "schedmp/schedule.h"

namespace kerf::schedmp {

// A run of one list of a worker's parts of a stage: what an action of a row comes to. Where an
// update, or a reduction, of a stage stands, it contributes. The rest of all of a row's updates is
// taken together at its end, where the last of them stands, so that no part of a worker waits for
// what another of its parts has yet to send: all reduce, the root of the step vector concludes, all
// update, all fetch. Nothing of a stage stands behind its update, so that no sum is another for it.
// An update that names a micro-batch waits for nobody: it is taken where it stands, and what is
// left of the stage's lists at the row's end. A forward that the row recomputes keeps what its
// stage was sent alone.
struct ListRun {
  Action action;
  partitioner::InstructionList partitioner::Part::*list = nullptr;
  int behind = 0;  // how many updates behind the newest are the weights that it reads
  // Of an update that names a micro-batch: its number among the stage's in the row, and the first
  // micro-batch whose gradients it takes.
  int update = 0;
  int first = 0;
};
std::vector<ListRun> list_runs_of(const std::vector<Action>& row);
// How a plan's parts are lowered so that they have the lists of all rows.
partitioner::LowerOptions lowering_for(const Schedule& schedule,
                                       const partitioner::Setting& setting = {});

// Where an instruction stands.
struct Site {
  size_t part = 0;  // among the worker's parts
  const partitioner::InstructionList* list = nullptr;
  int micro_batch = -1;  // -1: of the step
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
  Interpreter(std::vector<const partitioner::Part*> parts, int micro_batches, Machine& machine);

  // Runs the lists of the worker's parts of the action's stage, each when its turn comes. Throws
  // Error{kInternal} where a region is taken twice or given before it was taken: the row was never
  // proved.
  void run(const ListRun& list_run);

  const partitioner::Part& part(size_t index) const { return *parts_[index]; }
  size_t parts() const { return parts_.size(); }
  // The instance that the site's micro-batch has; 0 of a region that is the worker's.
  int instance(const Site& site, partitioner::RegionKind region) const;
  // So far, by part of the worker.
  const std::vector<RegionNeeds>& needs() const { return needs_; }

 private:
  struct Regions {                    // of one part and kind
    std::vector<int> of_micro_batch;  // instance, -1: none
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
  std::vector<std::array<Regions, partitioner::kRegions>> regions_;
  std::vector<RegionNeeds> needs_;
  std::vector<std::vector<char>> empty_;  // by part, by local: an accumulator that counts as zero
  std::vector<char> accumulate_;          // scratch
  std::vector<Running> running_;          // scratch
};

// What a worker's row needs, found by running it on a machine that does nothing.
std::vector<RegionNeeds> region_needs(const std::vector<const partitioner::Part*>& parts,
                                      const std::vector<ListRun>& runs, int micro_batches);

// What a row's lists take of the regions that micro-batches have, and give back, in bytes.
struct RegionUse {
  struct OfList {
    int64_t taken = 0;
    int64_t given = 0;
  };
  std::vector<OfList> lists;  // of the runs, in order
  int64_t room = 0;           // for as many instances as the row needs at once
};
RegionUse region_use(const std::vector<const partitioner::Part*>& parts,
                     const std::vector<ListRun>& runs, int micro_batches);

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
