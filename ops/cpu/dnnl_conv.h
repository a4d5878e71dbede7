// Convolution by oneDNN: layouts of its choice inside, plain NCHW outside, primitives cached by
// shape.
//
// Owned by a kernel; belongs to its thread. Scratch memory comes from the device, for the time of
// the call.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "ops/cpu/dnnl_engine.h"
#include "ops/window.h"

namespace kerf::ops::cpu {

// One convolution: extents of X, W and Y, all local.
struct ConvProblem {
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t filters = 0;
  int64_t groups = 1;
  Window window;
};

class DnnlConv {
 public:
  // bias may be null.
  void forward(const ConvProblem& problem, const float* x, const float* w, const float* bias,
               float* y, runtime::Device& device);
  void input_gradient(const ConvProblem& problem, const float* w, const float* dy, float* dx,
                      runtime::Device& device);
  void weight_gradient(const ConvProblem& problem, const float* x, const float* dy, float* dw,
                       runtime::Device& device);
  // The most that one of the three takes from the device while it runs.
  size_t workspace_bytes(const ConvProblem& problem);

 private:
  enum Kind : int64_t { kForward, kForwardBias, kInput, kWeight };
  // A tensor in the layout the primitive chose, and the way there from the plain one (or back).
  struct Side {
    dnnl::memory::desc plain;
    dnnl::memory::desc chosen;
    bool result = false;     // leaves by the reorder; the others enter by it
    dnnl::reorder reorder;   // empty if they are the same
    runtime::Buffer memory;  // in the chosen layout, while a call runs
    bool same() const { return plain == chosen; }
    size_t bytes() const { return same() ? 0 : chosen.get_size(); }
  };
  struct Plan {
    dnnl::primitive_desc_base description;
    dnnl::primitive primitive;
    Side x, w, y;
    dnnl::memory::desc bias;
  };
  class Running;
  using Key = std::array<int64_t, 19>;

  Plan& plan(Kind kind, const ConvProblem& problem);
  // Without primitives, which take long to make.
  Plan describe(Kind kind, const ConvProblem& problem) const;
  void complete(Plan& plan) const;
  dnnl::memory enter(Side& side, const float* data);
  dnnl::memory room(Side& side, float* data);
  void leave(Side& side, dnnl::memory& from, float* data);

  DnnlEngine engine_;
  std::map<Key, Plan> plans_;
};

}  // namespace kerf::ops::cpu
