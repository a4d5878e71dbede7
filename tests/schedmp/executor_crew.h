// A plan's workers as threads of this process that run one step of a schedule each: the executor as
// a run has it, without scheduler and sockets.
#pragma once

#include <filesystem>
#include <vector>

#include "partitioner/plan.h"
#include "schedmp/safetensors.h"
#include "schedmp/verify.h"

namespace kerf::tests {

struct CrewStep {
  double loss = 0;                            // of the whole step
  std::vector<schedmp::NamedTensor> weights;  // after it, whole
  std::vector<partitioner::Traffic> traffic;  // by route, as the senders counted
  std::vector<int64_t> peak_bytes;            // by worker
};

// With as many slots as `setting` says beyond what `verdict` found that receivers hold. Weights are
// read from `weights`; rows are small whole numbers, or `normal` ones. Throws what a worker threw
// first.
CrewStep run_crew(const partitioner::Model& model, const partitioner::Plan& plan,
                  const schedmp::Schedule& schedule, const schedmp::Verdict& verdict,
                  const partitioner::Setting& setting, const std::filesystem::path& weights,
                  bool normal);

}  // namespace kerf::tests
