// What lowering asks operators about their calls: every such question stands here.
#pragma once

#include <vector>

#include "partitioner/model.h"
#include "partitioner/part.h"

namespace kerf::partitioner {

enum class Pass : uint8_t { kForward, kInputGradient, kWeightGradient };

// Of a kForward or kGradient of `part`.
Pass pass_of(const Part& part, const Instruction& instruction);
// The locals whose contents the kernel reads, but for the gradients of outputs.
std::vector<int> locals_read(const Model& model, const LocalCall& call, Pass pass);
// Output 0 is input 0 with another shape, and nothing is computed.
bool shares_memory(const Model& model, NodeId node);
// Fills in the call's saved and workspace bytes, in blocks, for micro-batches of up to `samples`.
void measure_call(const Model& model, const Part& part, int64_t samples, int threads,
                  LocalCall& call);

}  // namespace kerf::partitioner
