// Kernels: arithmetic on local dense tensors, on a device.
//
// Kernels register by (operator, kind of device): one file each in cpu/ (and cuda/), from which
// CMake makes the registry. A Kernel belongs to one call of one part and to one stream; it caches
// prepared primitives by shape, and in Call::packed its parameters in a library's layout, for as
// long as Call::version is the same. Kernels are pure: what they compute depends on the Call only,
// never on neighbours, earlier calls or the clock.
#pragma once

#include <memory>
#include <span>

#include "ops/operator.h"
#include "ops/random.h"
#include "runtime/device.h"

namespace kerf::ops {

class Workbench;

// What a kernel is made for: the iterations that its calls compute, of an operator that outlives
// it, with a workbench that does.
struct KernelSite {
  const BoundOperator& op;
  Box iterations;
  int64_t largest = 0;  // samples of the largest micro-batch, to which `iterations` refer
  Workbench& bench;

  // The operator as what it is known to be.
  template <class Op>
  const Op& as() const {
    return static_cast<const Op&>(op);
  }
};

// One execution for one micro-batch. Shapes are concrete; any extent may be 0 (an empty
// micro-batch, or a share of it that is). The data of absent operands, of operands whose box is
// empty, and in gradients of what backward_reads() does not list, is null.
struct Call {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  std::span<const TensorView> output_gradients;  // null data: absent, and 1 for a loss
  std::span<std::byte> reserve;                  // of reserve_bytes() at least
  std::span<std::byte> handed;                   // of handed_bytes() at least
  std::span<std::byte> workspace;                // scratch, of workspace_bytes() at least
  std::span<std::byte> packed;                   // the call's own for good, of packed_bytes()
  int64_t version = 0;                           // of the parameters; 0: unlike any other call's
  int64_t samples = 0;                           // of the whole micro-batch
  int64_t first_sample = 0;                      // of it, within the step: for messages
  RandomKey key;                                 // seed, node, step, micro-batch
  bool training = true;                          // false: evaluation (dropout passes through)
  // Divides the loss: by what the step has; of a gradient, by what its update takes.
  double normaliser = 1;
};

struct GradientTarget {
  int input = 0;
  TensorView to;
  bool accumulate = false;  // W only: add to `to` instead of overwriting it
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void forward(const Call& call) = 0;
  // I: gradients of activations, overwritten; and what W is handed. W: gradients of parameters.
  virtual void input_gradient(const Call& call, std::span<const GradientTarget> targets) = 0;
  virtual void weight_gradient(const Call& call, std::span<const GradientTarget> targets) = 0;
};

// A kernel that treats all gradients alike and hands nothing over.
class PlainKernel : public Kernel {
 public:
  void input_gradient(const Call& call, std::span<const GradientTarget> targets) final {
    gradient(call, targets);
  }
  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) final {
    gradient(call, targets);
  }

 protected:
  virtual void gradient(const Call& call, std::span<const GradientTarget> targets) = 0;
};

// A kernel for an operator on one kind of device.
struct KernelEntry {
  std::string op;
  std::unique_ptr<Kernel> (*make)(const KernelSite& site) = nullptr;
  // Scratch memory that one call on local tensors of these shapes takes with so many threads, at
  // most; null: none. It is granted by the plan, as the most of the sizes want that
  // micro-batches of its steps have; a call of fewer rows gets as much, and does with it.
  size_t (*workspace)(const BoundOperator& op, const LocalSpecs& local, int threads) = nullptr;
  // Memory for parameters in a layout of the kernel's own, kept from micro-batch to micro-batch and
  // step to step; null: none. `gradients`: for those too.
  size_t (*packed)(const BoundOperator& op, const LocalSpecs& local, int threads,
                   bool gradients) = nullptr;
};
using KernelEntries = std::vector<KernelEntry>;

// Throws Error{kUnavailable} naming operator and device where there is no kernel.
std::unique_ptr<Kernel> make_kernel(const KernelSite& site);
bool has_kernel(const std::string& op, runtime::DeviceKind device);
// Of one call on a device of that kind; 0 where there is no kernel.
size_t workspace_bytes(const BoundOperator& op, runtime::DeviceKind device, const LocalSpecs& local,
                       int threads);
size_t packed_bytes(const BoundOperator& op, runtime::DeviceKind device, const LocalSpecs& local,
                    int threads, bool gradients);
// What is said of a device that an operator has no kernel for: Error{kUnavailable}.
[[noreturn]] void throw_no_kernel(std::string_view op, const runtime::Device& device);

}  // namespace kerf::ops
