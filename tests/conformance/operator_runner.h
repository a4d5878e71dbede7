// Runs a bound operator's kernel on tensors of the host, on any device.
//
// Inputs travel to the device and results back through a stream, so the suite is right for
// asynchronous devices too. Every call is held to what the operator and the kernel say of memory:
// every buffer has exactly the bytes asked for, with a guard behind it that is looked at
// afterwards; inputs must be left as they are; nothing may be taken from the device; in gradients
// there is no data but of what backward_reads() lists. A breach throws Error{kInternal}.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ops/workbench.h"
#include "tests/conformance/guarded_memory.h"

namespace kerf::ops {

// A tensor on the host. Floating-point numbers are in `floats`, integers and bool in `integers`; of
// results integers are in both, for small ones compare as well as floats.
struct HostTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<float> floats;
  std::vector<int64_t> integers;
};

HostTensor zeros(const Shape& shape);
// Flat indices, ascending, of the elements that the box holds; its sets are clipped to the shape.
std::vector<int64_t> elements_of(const Box& box, const Shape& shape);
HostTensor cut(const HostTensor& whole, const Box& box);
void paste(const HostTensor& piece, const Box& box, HostTensor& whole, bool add);

// What a call says beside its tensors.
struct Moment {
  int64_t samples = 0;  // of the whole micro-batch
  bool training = true;
  double normaliser = 1;
  int32_t micro_batch = 1;
  int64_t version = 0;  // of the parameters; 0: unlike any other
  int in_place = -1;    // forward writes output 0 over this input
};

struct Asked {
  int input = 0;
  bool accumulate = false;
  HostTensor before;  // what the target holds
};

class OperatorRunner {
 public:
  // For calls that compute `iterations` on one thread, or as many as said.
  OperatorRunner(std::shared_ptr<const BoundOperator> op, runtime::Device& device, Box iterations,
                 int64_t largest, int threads = 1);
  // The same for the whole.
  OperatorRunner(const std::shared_ptr<const BoundOperator>& op, runtime::Device& device,
                 int64_t largest, int threads = 1);

  // Inputs are local; of absent ones anything. Outputs likewise.
  std::vector<HostTensor> forward(const std::vector<HostTensor>& inputs, const Moment& moment);
  // Forward, then I, then W; the gradients in the order in which they are asked for. Each is one of
  // I or of W by the role of its operand. An output gradient without floats is absent.
  std::vector<HostTensor> gradients(const std::vector<HostTensor>& inputs, const Moment& moment,
                                    const std::vector<HostTensor>& output_gradients,
                                    const std::vector<Asked>& asked);

 private:
  struct Placed;
  enum class Phase : uint8_t { kInputGradient, kWeightGradient };

  // With a workspace as for gradients that are added to what is there, or not.
  Placed place(const std::vector<HostTensor>& inputs, const Moment& moment, bool accumulates);
  Call call_of(const Placed& placed, const Moment& moment) const;
  void run_forward(Placed& placed, const Moment& moment);
  void run_gradients(Placed& placed, const Moment& moment, Phase phase,
                     const std::vector<GradientTarget>& targets);
  void run(Placed& placed, const std::function<void()>& call);

  std::shared_ptr<const BoundOperator> op_;
  runtime::Device& device_;
  Box iterations_;
  int64_t largest_;
  int threads_;
  std::unique_ptr<runtime::Stream> stream_;
  std::unique_ptr<GuardedPages> pages_ = std::make_unique<GuardedPages>();
  GuardedMemory packed_;
  std::unique_ptr<Workbench> bench_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace kerf::ops
