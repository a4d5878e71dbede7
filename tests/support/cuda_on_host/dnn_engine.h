// What the played cuDNN (cudnn.cc) computes a convolution with: engines of as many kinds as the
// real one has, of which some do not do what is wanted of them.
#pragma once

#include <cudnn_backend.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kerf::tests {

enum class DnnKind : uint8_t { kForward, kInputGradient, kWeightGradient };

// X [N, C, H, W], W [O, C/groups, kh, kw], Y [N, O, H', W'], each with its strides.
struct DnnTensor {
  float* data;
  std::array<int64_t, 4> sizes;
  std::array<int64_t, 4> strides;
  int64_t at(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
  }
  int64_t bytes() const;  // from the first element's to the last one's
  bool operator==(const DnnTensor&) const = default;
};

struct DnnProblem {
  DnnKind kind;
  DnnTensor x;
  DnnTensor w;
  DnnTensor y;
  std::array<int64_t, 2> pads_before;
  std::array<int64_t, 2> pads_behind;
  std::array<int64_t, 2> strides;
  std::array<int64_t, 2> dilations;
  float alpha;
  float beta;
};

struct DnnEngine {
  const char* name;
  std::vector<cudnnBackendNumericalNote_t> numbers;
  std::vector<cudnnBackendBehaviorNote_t> behavior;
};

const DnnEngine& dnn_engine(int index);
// Indices, best first. Nothing: the mode knows no such problem, which is more than that it has no
// engine for it.
std::optional<std::vector<int>> dnn_engines_for(const DnnProblem& problem,
                                                cudnnBackendHeurMode_t mode);
// Whether an engine does it after all.
cudnnStatus_t dnn_engine_takes(int index, const DnnProblem& problem);
int64_t dnn_workspace_bytes(int index, const DnnProblem& problem);
// On the GPU.
void dnn_compute(int index, const DnnProblem& problem);

// How often each engine was given work since the process began, by its name.
std::map<std::string, int64_t> dnn_runs();
void count_dnn_run(int index);

}  // namespace kerf::tests
