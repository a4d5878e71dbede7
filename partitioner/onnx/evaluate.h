// Computing a bound operator, or a model, once, on this thread and processor: constants of a graph,
// and ONNX's own tests.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/workbench.h"
#include "partitioner/model.h"

namespace kerf::partitioner::onnx {

// Used by one thread, whose kernels have no others from then on.
class Evaluator {
 public:
  Evaluator();
  ~Evaluator();

  // What forward gives for a micro-batch of `samples`; absent inputs are null. Throws
  // Error{kUnavailable} where there is no kernel.
  std::vector<ops::TensorLiteral> run(const ops::BoundOperator& op,
                                      const std::vector<const ops::TensorLiteral*>& inputs,
                                      int64_t samples, uint32_t key = 0);

 private:
  std::unique_ptr<runtime::Device> device_;
  std::unique_ptr<runtime::Stream> stream_;
  std::unique_ptr<ops::Workbench> bench_;
};

// The model's results, in order, for inputs by name, of weights as they begin. Throws Error{kUsage}
// for inputs that are missing or do not fit.
std::vector<ops::TensorLiteral> evaluate(const Model& model,
                                         const std::map<std::string, ops::TensorLiteral>& inputs,
                                         Evaluator& evaluator);

}  // namespace kerf::partitioner::onnx
