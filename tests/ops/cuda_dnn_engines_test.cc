// Every engine of cuDNN that Kerf would take for a convolution of one micro-batch, the preferred
// and all others, against the CPU: on a real GPU what cuDNN says of its engines is not always so.
#include <gtest/gtest.h>

#include "ops/cuda/dnn_conv.h"
#include "ops/operators/conv.h"
#include "tests/ops/on_cuda.h"

namespace kerf::ops {
namespace {

using cuda::DnnConv;
using cuda::DnnConvKind;
using cuda::DnnConvProblem;

constexpr int64_t kPartSamples = 2;
// What may be left between two orders of a sum.
constexpr double kRounding = 1e-5;

// The whole of an axis, its ends, and what is between: parts with all pads there can be.
std::vector<IndexSet> stretches(int64_t extent) {
  std::vector<IndexSet> all{IndexSet()};
  for (const auto& [begin, end] :
       {std::pair{int64_t{0}, int64_t{1}}, std::pair{int64_t{0}, int64_t{2}},
        std::pair{int64_t{1}, extent - 1}, std::pair{int64_t{1}, extent},
        std::pair{extent - 1, extent}})
    if (begin < end && end <= extent) all.push_back(IndexSet::range(begin, end));
  return all;
}

// A part of a convolution with all its tensors on the host.
struct Part {
  DnnConvProblem problem;
  std::vector<HostTensor> inputs;
  HostTensor dy;
  std::vector<HostTensor> results;  // as DnnConvKind has them
};

class CudaDnnEngines : public OnCuda {
 protected:
  Part part_of(const OperatorCase& scene, const Box& iterations) const {
    const auto op = bind(scene);
    const auto& conv = static_cast<const Conv&>(*op);
    Part part;
    for (size_t i = 0; i < 2; ++i)
      part.inputs.push_back(cut(draw_inputs(scene, kPartSamples, 1)[i],
                                input_box(*op, static_cast<int>(i), iterations, kPartSamples)));
    part.dy =
        cut(draw_upstream(*op, kPartSamples, 2)[0], output_box(*op, 0, iterations, kPartSamples));
    const Shape& w = part.inputs[1].shape;
    part.problem = {.format = conv.images(),
                    .samples = kPartSamples,
                    .groups = conv.groups(),
                    .channels = w[1],
                    .filters = w[0] / conv.groups(),
                    .window = conv.local_window(iterations)};
    OperatorRunner kernel(op, *cpu_.device, iterations, kPartSamples);
    part.results = kernel.forward(part.inputs, {.samples = kPartSamples});
    for (HostTensor& each :
         kernel.gradients(part.inputs, {.samples = kPartSamples}, {part.dy}, ask(*op, part.inputs)))
      part.results.push_back(std::move(each));
    return part;
  }

  // What cuDNN makes of it by the engine of this rank; nothing where there is none.
  std::optional<HostTensor> by_engine(const Part& part, DnnConvKind kind, int rank) {
    auto& bench = dynamic_cast<cuda::CudaWorkbench&>(*gpu_->workbench);
    DnnConv convolution(bench, rank);
    DnnConvProblem problem = part.problem;
    problem.kind = kind;
    if (!convolution.has(problem)) return std::nullopt;
    std::vector<runtime::Buffer> tensors;
    for (const HostTensor* each : {&part.inputs[0], &part.inputs[1], &part.dy})
      tensors.push_back(gpu_->filled(each->floats));
    const runtime::Buffer workspace =
        gpu_->device->allocate(piece_bytes<std::byte>(DnnConv::workspace_bytes(problem)));
    const auto at = [&](size_t i) { return reinterpret_cast<float*>(tensors[i].data()); };
    convolution.run(problem, {at(0), at(1), at(2)},
                    Workspace({workspace.data(), workspace.bytes()}));
    constexpr std::array<size_t, 3> kWritten{2, 0, 1};
    HostTensor result = part.results[static_cast<size_t>(kind)];
    result.floats =
        gpu_->content<float>(tensors[kWritten[static_cast<size_t>(kind)]], result.floats.size());
    return result;
  }

  void expect_all_alike(const Part& part, const std::string& what) {
    for (const auto kind :
         {DnnConvKind::kForward, DnnConvKind::kInputGradient, DnnConvKind::kWeightGradient})
      for (int rank = 0;; ++rank, ++engines_) {
        const auto result = by_engine(part, kind, rank);
        if (!result) break;
        EXPECT_LT(difference(*result, part.results[static_cast<size_t>(kind)]), kRounding)
            << what << ", kind " << static_cast<int>(kind) << ", engine " << rank;
      }
  }

  int engines_ = 0;
};

TEST_F(CudaDnnEngines, EachGivesWhatTheCpuGivesOfEveryPart) {
  for (OperatorCase each : window_cases()) {
    each.inputs.resize(std::min<size_t>(2, each.inputs.size()));  // no bias, which cuDNN sees not
    if (each.op != "Conv" || each.name.find("many_channels") == std::string::npos) continue;
    for (const OperatorCase& scene : {each, *channels_last(each)}) {
      const auto op = bind(scene);
      const auto& axes = op->space().axes;
      const size_t rows = axes.size() - 2;
      for (const IndexSet& of_rows : stretches(axes[rows].extent))
        for (const IndexSet& of_columns : stretches(axes[rows + 1].extent)) {
          Box iterations = Box::whole(static_cast<int>(axes.size()));
          iterations.axes[rows] = of_rows;
          iterations.axes[rows + 1] = of_columns;
          expect_all_alike(part_of(scene, iterations), scene.name);
        }
    }
  }
  EXPECT_GT(engines_, 1000);
}

}  // namespace
}  // namespace kerf::ops
