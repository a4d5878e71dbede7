// Runs the parts of all workers in one thread, messages in memory, and watches that the instruction
// lists keep their promises: no local is used before it is written or after it is freed, each is
// freed exactly once and after its aliases, kernels read only what keeps() lists, every message is
// received, nobody waits for ever with one message per route under way.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/part.h"

namespace kerf::partitioner {

struct StepResult {
  std::vector<float> losses;                            // by micro-batch
  std::map<std::string, std::vector<float>> gradients;  // of whole parameters, by name
  int64_t messages = 0;
  int64_t bytes = 0;
};

class PartRunner {
 public:
  PartRunner(const Model& model, const Plan& plan);
  ~PartRunner();

  // Forward of all micro-batches, then backward of all. `sizes`: rows of each.
  StepResult run(const std::vector<int64_t>& sizes);
  // What was found wrong; empty if nothing.
  const std::vector<std::string>& faults() const { return faults_; }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  struct Cell {
    runtime::Buffer buffer;
    bool written = false;
    int frees = 0;
  };
  struct Worker {
    std::vector<std::unique_ptr<ops::Kernel>> kernels;
    std::map<int, runtime::Buffer> persistent;                         // by local
    std::vector<std::vector<Cell>> cells;                              // micro-batch, local
    std::vector<std::map<int, runtime::Buffer>> saved;                 // micro-batch, call
    std::vector<std::pair<const std::vector<Instruction>*, int>> row;  // list, micro-batch
    size_t action = 0;
    size_t instruction = 0;
  };

  void prepare(size_t worker);
  bool advance(size_t worker);
  bool execute(size_t worker, const Instruction& instruction, int micro_batch);
  bool send(size_t worker, const Instruction& instruction, int micro_batch);
  bool receive(size_t worker, const Instruction& instruction, int micro_batch);
  void call(size_t worker, const Instruction& instruction, int micro_batch);
  void copy(size_t worker, const Instruction& instruction, int micro_batch);
  void free(size_t worker, int local, int micro_batch);
  void read_data(const Local& local, std::byte* to, int micro_batch) const;
  void note_losses(size_t worker, int micro_batch);
  void check_end(size_t worker);
  void collect(size_t worker, StepResult& result);

  enum class Access { kRead, kWrite, kPeek };
  ops::TensorView view(size_t worker, int local, int micro_batch, Access access);
  void fault(std::string text) { faults_.push_back(std::move(text)); }
  std::string name(size_t worker, int local) const;

  const Model& model_;
  const Plan& plan_;
  std::vector<Part> parts_;
  std::unique_ptr<runtime::Device> device_;
  std::vector<Worker> workers_;
  std::vector<int64_t> sizes_;
  std::map<int, std::deque<std::vector<std::byte>>> mail_;  // by route
  StepResult result_;
  std::vector<std::string> faults_;
};

}  // namespace kerf::partitioner
