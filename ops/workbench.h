// The workbench: everything that a worker does to memory of its device, in the order of its stream.
//
// Nothing here waits, and nothing else touches the device's memory: what a call is given must stay
// as it is until the stream has come to it, memory as well as the objects referred to (selections,
// kernels, optimizers). Kernels are made with a workbench; one kind of device has one
// implementation, with its library handles in it. Conditions that a step decides are read on the
// device: `cause` points to an entry of the step vector, and where it is not 0 nothing changes.
//
// Used by the compute thread only. Device and stream outlive it.
#pragma once

#include <memory>
#include <span>

#include "ops/kernel.h"
#include "ops/optimizer.h"
#include "ops/pack.h"

namespace kerf::ops {

// What a step decides about its updates: entries of the step vector, on the device.
struct StepSays {
  const double* cause = nullptr;         // not 0: nothing changes
  const double* squared_norm = nullptr;  // of all gradients together
};

class Workbench {
 public:
  Workbench(runtime::Device& device, runtime::Stream& stream) : device_(device), stream_(stream) {}
  virtual ~Workbench() = default;
  Workbench(const Workbench&) = delete;

  runtime::Device& device() const { return device_; }
  runtime::Stream& stream() const { return stream_; }

  // The three calls of a kernel. Spans of the call need not outlive this.
  virtual void forward(Kernel& kernel, const Call& call) = 0;
  virtual void input_gradient(Kernel& kernel, const Call& call,
                              std::span<const GradientTarget> targets) = 0;
  virtual void weight_gradient(Kernel& kernel, const Call& call,
                               std::span<const GradientTarget> targets) = 0;

  // As the functions of Selection; `dense` has selection.bytes(samples). All of the local tensor
  // counts as touched.
  virtual void pack(const Selection& selection, const TensorView& local, std::byte* dense,
                    int64_t samples) = 0;
  virtual void pack_add(const Selection& selection, const TensorView& local, std::byte* dense,
                        int64_t samples) = 0;
  virtual void unpack(const Selection& selection, const std::byte* dense, const TensorView& local,
                      int64_t samples) = 0;
  virtual void unpack_add(const Selection& selection, const std::byte* dense,
                          const TensorView& local, int64_t samples) = 0;

  // As update() of optimizer.h, with the gradient clipped where the rule says so.
  virtual void update(const UpdateRule& rule, const TensorView& parameter,
                      const TensorView& gradient, std::span<const TensorView> states,
                      const StepSays& step) = 0;
  // state = keep * state + (1 - keep) * statistics, of float32.
  virtual void update_state(const TensorView& state, const TensorView& statistics, float keep,
                            const double* cause) = 0;

  // What a step reports (metrics.h), added to entries.
  virtual void add_squared_norm(const TensorView& tensor, double* entry) = 0;
  virtual void add_scalar(const TensorView& scalar, double* entry) = 0;
  // By how the loss says that answers are right, the label's among the `among` largest scores;
  // nothing for kNone, nor for kPicked and more than one.
  virtual void add_correct(Answers answers, const TensorView& scores, const TensorView& labels,
                           double* entry, int64_t among = 1) = 0;

  // Writes `number` to memory of the host (allocate_pinned()) when all that was enqueued before is
  // done: what still tells how far the device came when it answers nothing any more. False, and
  // nothing is written, where all is done when it was enqueued.
  virtual bool mark(int64_t* /*place*/, int64_t /*number*/) { return false; }
  // Throws what kernels found wrong in their data (a label that is no class), the first of it;
  // after the stream was synchronized. Kernels that run on the host throw by themselves.
  virtual void check_data() {}
  // What kernels hold of the device beside its Buffers.
  virtual size_t kernel_bytes() const { return 0; }

 private:
  runtime::Device& device_;
  runtime::Stream& stream_;
};

// Throws Error{kUnavailable} for a kind of device without kernels.
std::unique_ptr<Workbench> make_workbench(runtime::Device& device, runtime::Stream& stream);

// By kind of device; for make_workbench().
std::unique_ptr<Workbench> make_cpu_workbench(runtime::Device& device, runtime::Stream& stream);
std::unique_ptr<Workbench> make_cuda_workbench(runtime::Device& device, runtime::Stream& stream);

}  // namespace kerf::ops
