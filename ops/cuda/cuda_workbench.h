// The workbench of a GPU: its stream, and the handles of cuBLASLt and cuDNN, which kernels share.
//
// Arithmetic is float32 strictly: no TF32, no reordered atomics; equal calls give equal bits on
// GPUs of one kind.
#pragma once

#include <cublasLt.h>
#include <cudnn_backend.h>

#include <memory>
#include <vector>

#include "ops/cuda/fault.h"
#include "ops/cuda/piece_maps.h"
#include "ops/cuda/queue.h"
#include "ops/workbench.h"

namespace kerf::ops::cuda {

class CudaWorkbench final : public Workbench {
 public:
  // `device` is a CUDA device, `stream` one of its.
  CudaWorkbench(runtime::Device& device, runtime::Stream& stream);

  const Queue& queue() const { return queue_; }
  // Of the sum of one launch, for the next: kMostPieces of them.
  static constexpr int64_t kMostPieces = 4096;
  double* partial_sums() const { return static_cast<double*>(partial_sums_.get()); }
  // Made at the first use. Throws Error{kUnavailable}.
  cublasLtHandle_t cublas_lt();
  cudnnHandle_t cudnn();  // of this stream

  // Faults that check_data() looks for, and the number of the next call that may find one.
  void watch(FaultReport& report) { reports_.push_back(&report); }
  void forget(const FaultReport& report) { std::erase(reports_, &report); }
  int64_t next_turn() { return ++turn_; }

  void forward(Kernel& kernel, const Call& call) override;
  void input_gradient(Kernel& kernel, const Call& call,
                      std::span<const GradientTarget> targets) override;
  void weight_gradient(Kernel& kernel, const Call& call,
                       std::span<const GradientTarget> targets) override;

  void pack(const Selection& selection, const TensorView& local, std::byte* dense,
            int64_t samples) override;
  void pack_add(const Selection& selection, const TensorView& local, std::byte* dense,
                int64_t samples) override;
  void unpack(const Selection& selection, const std::byte* dense, const TensorView& local,
              int64_t samples) override;
  void unpack_add(const Selection& selection, const std::byte* dense, const TensorView& local,
                  int64_t samples) override;

  void update(const UpdateRule& rule, const TensorView& parameter, const TensorView& gradient,
              std::span<const TensorView> states, const StepSays& step) override;
  void update_state(const TensorView& state, const TensorView& statistics, float keep,
                    const double* cause) override;

  void add_squared_norm(const TensorView& tensor, double* entry) override;
  void add_scalar(const TensorView& scalar, double* entry) override;
  void add_correct(Answers answers, const TensorView& scores, const TensorView& labels,
                   double* entry, int64_t among) override;
  bool mark(int64_t* place, int64_t number) override;
  void check_data() override;
  size_t kernel_bytes() const override { return memory_.bytes(); }

 private:
  struct Destroy {
    void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
    void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
  };

  // Makes the device current for this thread.
  void use() const { runtime::use_cuda_device(index_); }

  KernelMemory memory_;
  Queue queue_;
  int index_;
  std::unique_ptr<cublasLtContext, Destroy> cublas_lt_;
  std::unique_ptr<cudnnContext, Destroy> cudnn_;
  KernelMemory::Piece partial_sums_;
  PieceMaps maps_;
  std::vector<FaultReport*> reports_;
  int64_t turn_ = 0;
};

// The workbench that a kernel of this folder is made with.
inline CudaWorkbench& workbench_of(const KernelSite& site) {
  return static_cast<CudaWorkbench&>(site.bench);
}
inline const Queue& queue_of(const KernelSite& site) { return workbench_of(site).queue(); }

}  // namespace kerf::ops::cuda
