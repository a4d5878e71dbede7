// Runs a step of all parts of a plan in one thread, messages in memory, and watches that the
// instruction lists keep their promises: no local is read before it was written or after something
// else was written to its place, every region, slot and view is taken once and given back once,
// kernels read only what they said, every message is received, nobody waits for ever with one
// message per route under way, and after the step every copy of a parameter is what its home is. It
// has an interpreter of its own on purpose: what it finds was not assumed.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/workbench.h"
#include "partitioner/at.h"
#include "partitioner/part.h"
#include "partitioner/step_vector.h"
#include "tests/partitioner/step_data.h"

namespace kerf::partitioner {

// How the backward pass runs: I and W apart, or B.
enum class Backward { kApart, kTogether };

struct RunOptions {
  Backward backward = Backward::kApart;
  Numbers numbers = Numbers::kNormal;
  float rate = 0.5F;      // of the update
  int64_t first_row = 0;  // of all rows, that a step begins with
};

// All of whole tensors, however they were divided.
struct StepResult {
  using Tensors = std::map<std::string, std::vector<float>>;
  std::vector<float> losses;      // by micro-batch
  Tensors values;                 // by name and micro-batch; of what calls compute in float32
  Tensors gradients;              // of parameters, by name
  Tensors parameters;             // after the update: what is trained, and states
  std::vector<double> step_sums;  // the step vector: all shares together, and
  std::vector<double> step;       // what they come to
  std::vector<Traffic> traffic;   // by route
};

inline bool holds_weights(const Local& local) {
  return local.kind == LocalKind::kParameter || local.kind == LocalKind::kHome;
}

// The local's share of the whole tensor.
inline ops::Selection selection_of(const Local& local) {
  return {ops::Box::whole(local.whole.shape.rank()), local.box, local.whole};
}

class PartRunner {
 public:
  PartRunner(const Model& model, const Plan& plan, const RunOptions& options = {});
  ~PartRunner();

  // A step, after those that were run: forward of all micro-batches, then backward of all, then the
  // lists of the step. `sizes`: rows
  // of each, none above the division's largest.
  StepResult run(const std::vector<int64_t>& sizes);
  // What was found wrong; empty if nothing.
  const std::vector<std::string>& faults() const { return faults_; }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  static constexpr int64_t kBlock = 64;
  using Memory = std::vector<std::byte>;
  struct MicroBatch {
    std::map<RegionKind, Memory> regions;
    std::map<int, Memory> views;       // by route
    std::map<int, Memory> retained;    // slots that were sent, likewise
    std::map<int, Memory> statistics;  // by local
  };
  struct Player {  // of a part
    std::vector<std::unique_ptr<ops::Kernel>> kernels;
    std::map<int, Memory> persistent;  // by local
    std::vector<Memory> packed;        // by call
    std::vector<bool> cleared;         // by local
    Memory transient;
    std::map<int, Memory> slots;                        // by route: the one acquired
    std::vector<MicroBatch> micro_batches;              // and the step, which is the last
    std::unordered_map<const std::byte*, int> owners;   // block -> root that was written there
    std::vector<std::pair<InstructionList*, int>> row;  // list, micro-batch
    size_t action = 0;
    size_t instruction = 0;
  };

  void begin(size_t part, int local);
  void prepare(size_t part);
  bool advance(size_t part);
  bool execute(size_t part, const Instruction& instruction, int micro_batch);
  bool send(size_t part, const Instruction& instruction, int micro_batch);
  bool receive(size_t part, const Instruction& instruction, int micro_batch);
  void call(size_t part, const Instruction& instruction, int micro_batch);
  void copy(size_t part, const Instruction& instruction, int micro_batch);
  void measure(size_t part, const Instruction& instruction);
  void conclude(size_t part, const Instruction& instruction);
  // A part's share of the step vector, and what it has of the result.
  std::span<double> share(size_t part);
  std::vector<double> heard(size_t part);
  void update(size_t part, const Instruction& instruction);
  void update_state(size_t part, const Instruction& instruction);
  // An accumulator to which nothing was written yet counts as zero.
  void fill(size_t part, const Instruction& instruction);
  void fill(size_t part, int local);
  void record_outputs(size_t part, const LocalCall& call, int micro_batch);
  bool is_replica(size_t part, const LocalCall& call) const;
  void read_data(const Local& local, std::byte* to, int micro_batch) const;
  std::string waiting(size_t part) const;
  void check_end(size_t part);
  void collect_parameters();
  void check_copies(size_t part);

  enum class Access { kRead, kWrite, kPeek };
  ops::TensorView view(size_t part, int local, int micro_batch, Access access);
  std::byte* memory_of(size_t part, int root, int micro_batch);
  std::byte* memory_at(size_t part, const Place& place, int micro_batch);
  MicroBatch& of(size_t part, int micro_batch) {
    return players_[part].micro_batches[micro_batch < 0 ? sizes_.size() : at(micro_batch)];
  }
  // 0 of the step.
  int64_t samples(int micro_batch) const { return micro_batch < 0 ? 0 : sizes_[at(micro_batch)]; }
  int64_t first_sample(int micro_batch) const;
  ops::Call make_call(size_t part, const Instruction& instruction, int micro_batch);
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
  const RunOptions options_;
  std::vector<Part> parts_;
  std::unique_ptr<runtime::Device> device_;
  std::unique_ptr<runtime::Stream> stream_;
  std::unique_ptr<ops::Workbench> bench_;
  std::vector<Player> players_;
  const StepVector step_vector_;
  int64_t step_ = 0;  // from 1
  std::vector<int64_t> sizes_;
  std::map<int, std::deque<Memory>> mail_;  // by route
  StepResult result_;
  std::vector<std::string> faults_;
};

}  // namespace kerf::partitioner
