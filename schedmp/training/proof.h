// The proof of a training: its schedule, and that of its evaluations, are legal for its plan, and
// this is the memory that each worker takes. The scheduler's; made before any worker has a job, and
// once more when the workers have said where they are.
#pragma once

#include "partitioner/setting.h"
#include "schedmp/program.h"
#include "schedmp/training/training.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

// Where the slots of a channel lie that goes over such a transport.
partitioner::SlotPlace slot_place_of(runtime::TransportKind kind);

class TrainingProof {
 public:
  // With slots where options.setting says, those of all channels alike. Throws Error{kUsage} with
  // the verdict's problems, Error{kInfeasible} where a worker would take more than options.memory.
  // Keeps references to all four.
  TrainingProof(const partitioner::Model& model, const partitioner::Plan& plan,
                const Schedule& schedule, const TrainingOptions& options);

  // Counts the slots of each pair of workers where they are. Throws as the constructor.
  void channels_go_over(const TransportTable& transports);

  bool trains() const { return options_.steps != 0; }
  const Verdict& verdict() const { return verdict_; }
  // Lowered for the schedule.
  std::vector<partitioner::Part> parts() const { return parts_of(schedule_); }

 private:
  std::vector<partitioner::Part> parts_of(const Schedule& schedule) const;
  Verdict proved(const Schedule& schedule, const std::vector<partitioner::Part>& parts,
                 const std::vector<int>& least_held = {}) const;
  void prove_evaluation();
  void check_cap() const;

  const partitioner::Model& model_;
  const partitioner::Plan& plan_;
  const Schedule& schedule_;
  const TrainingOptions& options_;
  partitioner::Setting setting_;
  Verdict verdict_;
  std::vector<int64_t> alike_;  // by worker: peak bytes where all slots are as the setting says
};

}  // namespace kerf::schedmp
