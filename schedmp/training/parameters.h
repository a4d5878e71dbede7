// A worker's shares of the parameters, with their gradients and the optimizer's state: what lives
// from the first step to the last. Used by the compute thread only.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "ops/optimizer.h"
#include "partitioner/part.h"

namespace kerf::schedmp {

class Parameters {
 public:
  // Initialised from `seed`, by the elements' place in the whole tensor; gradients and state are 0.
  // All references outlive this.
  Parameters(const partitioner::Model& model, const partitioner::Part& part,
             runtime::Device& device, const ops::OptimizerOptions& optimizer, uint64_t seed);

  // Of a persistent local.
  ops::TensorView view(int local) const { return tensors_[static_cast<size_t>(local)].view(); }
  void update(int parameter, int gradient);

  // This worker's shares out of a file of whole tensors. Throws Error{kUsage} naming what is
  // missing or of another shape.
  void load(const std::filesystem::path& safetensors);
  void save(const std::filesystem::path& safetensors) const;

 private:
  void initialize(size_t local, uint64_t seed);
  ops::Tensor zeros(const ops::ValueSpec& spec);

  const partitioner::Model& model_;
  const partitioner::Part& part_;
  runtime::Device& device_;
  std::unique_ptr<ops::Optimizer> optimizer_;
  std::vector<ops::Tensor> tensors_;              // by local; only persistent ones have memory
  std::vector<std::vector<ops::Tensor>> states_;  // by local
};

}  // namespace kerf::schedmp
