// Runs all parts of a plan in one thread, messages in memory, and watches that the instruction lists
// keep their promises: no local is read before it was written or after something else was written
// to its place, every region, slot and view is taken once and given back once, kernels read only
// what they said, every message is received, nobody waits for ever with one message per route under
// way. It has an interpreter of its own on purpose: what it finds was not assumed.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "partitioner/part.h"

namespace kerf::partitioner {

// How the backward pass runs: I and W apart, or B.
enum class Backward { kApart, kTogether };

struct StepResult {
  std::vector<float> losses;                            // by micro-batch
  std::map<std::string, std::vector<float>> gradients;  // of whole parameters, by name
  int64_t messages = 0;
  int64_t bytes = 0;
};

class PartRunner {
 public:
  PartRunner(const Model& model, const Plan& plan, Backward backward = Backward::kApart);
  ~PartRunner();

  // Forward of all micro-batches, then backward of all. `sizes`: rows of each.
  StepResult run(const std::vector<int64_t>& sizes);
  // What was found wrong; empty if nothing.
  const std::vector<std::string>& faults() const { return faults_; }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  using Memory = std::vector<std::byte>;
  struct MicroBatch {
    std::map<RegionKind, Memory> regions;
    std::map<int, Memory> views;  // by route
  };
  struct Player {  // of a part
    std::vector<std::unique_ptr<ops::Kernel>> kernels;
    std::map<int, Memory> persistent;  // by local
    std::vector<bool> cleared;         // by local
    Memory transient;
    std::map<int, Memory> slots;  // by route
    std::vector<MicroBatch> micro_batches;
    std::unordered_map<const std::byte*, int> owners;   // block -> root that was written there
    std::vector<std::pair<InstructionList*, int>> row;  // list, micro-batch
    size_t action = 0;
    size_t instruction = 0;
  };

  void prepare(size_t part);
  bool advance(size_t part);
  bool execute(size_t part, const Instruction& instruction, int micro_batch);
  bool send(size_t part, const Instruction& instruction, int micro_batch);
  bool receive(size_t part, const Instruction& instruction, int micro_batch);
  void call(size_t part, const Instruction& instruction, int micro_batch);
  void copy(size_t part, const Instruction& instruction, int micro_batch);
  void read_data(const Local& local, std::byte* to, int micro_batch) const;
  void check_end(size_t part);
  void collect(size_t part, StepResult& result);

  enum class Access { kRead, kWrite, kPeek };
  ops::TensorView view(size_t part, int local, int micro_batch, Access access);
  std::byte* memory_of(size_t part, int root, int micro_batch);
  std::byte* memory_at(size_t part, const Place& place, int micro_batch);
  void own(size_t part, int root, const ops::TensorView& view, Access access);
  const InstructionList& list(size_t part) const {
    return *players_[part].row[players_[part].action].first;
  }
  void fault(std::string text) {
    if (faults_.size() < 20) faults_.push_back(std::move(text));
  }
  std::string name(size_t part, int local) const;

  const Model& model_;
  const Plan& plan_;
  const Backward backward_;
  std::vector<Part> parts_;
  std::unique_ptr<runtime::Device> device_;
  std::vector<Player> players_;
  std::vector<int64_t> sizes_;
  std::map<int, std::deque<Memory>> mail_;  // by route
  StepResult result_;
  std::vector<std::string> faults_;
};

}  // namespace kerf::partitioner
