// Dropout on a GPU: the same masks as on the CPU, drawn by each element for itself.
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/cuda/fault.cuh"
#include "ops/cuda/index_table.cuh"
#include "ops/operators/dropout.h"

namespace kerf::ops::cuda {
namespace {

// Where an element of the part lies in the global tensor of the micro-batch.
struct GlobalPlace {
  IndexView axes[Shape::kMaxRank];
  int64_t local[Shape::kMaxRank];   // extents of the part
  int64_t global[Shape::kMaxRank];  // of the whole
  int rank = 0;
  KERF_DEVICE int64_t of(int64_t i) const {
    int64_t place = 0;
    int64_t stride = 1;
    for (int axis = rank - 1; axis >= 0; --axis) {
      place += axes[axis].global(i % local[axis]) * stride;
      i /= local[axis];
      stride *= global[axis];
    }
    return place;
  }
};

// The ratio, as the forward pass settled it for itself and the gradient.
struct SettleRatio {
  const float* input;  // null: the attribute
  double attribute;
  double* reserve;  // null in evaluation
  FaultPlace fault;
  KERF_DEVICE void operator()(int64_t) const {
    const double ratio = input == nullptr ? attribute : static_cast<double>(*input);
    if (reserve != nullptr) *reserve = ratio;
    // What is no input was checked when the operator was bound.
    if (!(ratio >= 0 && ratio < 1)) fault.keep(0, 0, ratio);
  }
};

struct Drop {
  GlobalPlace place;
  RandomStream random;
  const double* ratio;
  const float* from;
  float* to;
  KERF_DEVICE void operator()(int64_t i) const {
    const auto least = static_cast<float>(*ratio);
    const auto scale = static_cast<float>(1 / (1 - *ratio));
    const float draw = random.uniform(static_cast<uint64_t>(place.of(i)));
    to[i] = draw >= least ? from[i] * scale : 0.0F;
  }
};

class DropoutKernel final : public PlainKernel {
 public:
  explicit DropoutKernel(const KernelSite& site)
      : queue_(queue_of(site)),
        op_(site.as<Dropout>()),
        shape_(site.op.outputs()[0].shape),
        report_(workbench_of(site), [](const Fault& fault) { check_dropout_ratio(fault.ratio); }) {
    const Shape largest = shape_.with_batch(site.largest);
    for (int axis = 0; axis < largest.rank(); ++axis)
      axes_.emplace_back(queue_, site.iterations.axes[static_cast<size_t>(axis)], largest[axis]);
  }

  void forward(const Call& call) override {
    const float* input = call.inputs.size() > 1 ? call.inputs[1].f32() : nullptr;
    auto* reserve = reinterpret_cast<double*>(call.reserve.data());
    for_each(queue_, 1, SettleRatio{input, op_.ratio(), reserve, fault_place(report_, call)});
    pass(call, reserve, call.inputs[0].f32(), call.outputs[0]);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      if (target.input == 1) {  // the ratio is no function's argument
        if (!target.accumulate) clear(queue_, target.to);
        continue;
      }
      KERF_CHECK(!target.accumulate, "Dropout's data is an activation, whose gradient is no sum");
      pass(call, reinterpret_cast<const double*>(call.reserve.data()),
           call.output_gradients[0].f32(), target.to);
    }
  }

 private:
  void pass(const Call& call, const double* ratio, const float* from, const TensorView& to) const {
    if (!call.training) return copy_or_add(queue_, from, to.elements(), to.f32(), false);
    KERF_CHECK(ratio != nullptr, "Dropout trains without a reserve");
    GlobalPlace place{};
    const Shape whole = shape_.with_batch(call.samples);
    for (int axis = 0; axis < whole.rank(); ++axis) {
      place.axes[axis] = axes_[static_cast<size_t>(axis)].view();
      place.local[axis] = to.shape[axis];
      place.global[axis] = whole[axis];
    }
    place.rank = whole.rank();
    for_each(queue_, to.elements(),
             Drop{place, stream_of(op_.key(call.key)), ratio, from, to.f32()});
  }

  const Queue& queue_;
  const Dropout& op_;
  Shape shape_;                   // of the whole, maybe symbolic
  std::vector<IndexTable> axes_;  // of this part
  FaultReport report_;
};

}  // namespace

KernelEntries register_dropout() {
  return {{.op = "Dropout", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             if (site.op.outputs().size() > 1)
               throw Error(ErrorCode::kUnavailable,
                           format("Dropout on device {} gives no mask; run it on device cpu",
                                  site.bench.device().name()));
             return std::make_unique<DropoutKernel>(site);
           }}};
}

}  // namespace kerf::ops::cuda
