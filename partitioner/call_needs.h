// What lowering asks operators about their calls: every such question stands here.
#pragma once

#include <span>
#include <vector>

#include "partitioner/model.h"
#include "partitioner/part.h"

namespace kerf::partitioner {

enum class Pass : uint8_t { kForward, kInputGradient, kWeightGradient };

// Of a kForward or kGradient.
Pass pass_of(const Instruction& instruction);
// The locals whose contents the kernel reads, the gradients of outputs included.
std::vector<int> locals_read(const Model& model, const LocalCall& call, Pass pass);
// The locals that an instruction reads or writes, aliases as such.
std::vector<int> locals_touched(const Model& model, const Part& part,
                                const Instruction& instruction);
// Those that it writes to; -1 among them stands for an output that is absent.
std::vector<int> locals_written(const Part& part, const Instruction& instruction);
// Whether the pass has to do with what forward reserved, and with what I hands to W.
bool uses_reserve(const Model& model, const LocalCall& call, Pass pass);
bool uses_handed(const LocalCall& call, Pass pass);
// Output 0 is input 0 with another shape, and nothing is computed.
bool shares_memory(const Model& model, NodeId node);
// Fill in the call's bytes on such a device, in blocks, for micro-batches of up to `largest`;
// `gradients`: of a part that has them. Parameters that `change` before every micro-batch, as where
// a step has one or updates them within it, are not kept packed. `times_only`: of what depends on
// the kernel nothing.
struct CallSetting {
  int64_t largest = 0;
  int threads = 1;
  runtime::DeviceKind device{};
  bool gradients = true;
  bool change = false;
  bool times_only = false;
};
void measure_call(const Model& model, const CallSetting& setting, LocalCall& call);
// The most for micro-batches of any of these `sizes`. Of what it makes for gradients of parameters
// some is added to what is there, or nothing.
void measure_workspace(const Model& model, const CallSetting& setting,
                       std::span<const int64_t> sizes, bool accumulates, LocalCall& call);

}  // namespace kerf::partitioner
