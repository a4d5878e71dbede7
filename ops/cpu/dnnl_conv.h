// Convolution by oneDNN: layouts of its choice inside, plain NCHW outside, primitives cached by
// shape.
//
// Owned by a kernel; belongs to its thread. Scratch memory comes from the device.
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
  explicit DnnlConv(runtime::Device& device) : device_(device) {}

  // bias may be null.
  void forward(const ConvProblem& problem, const float* x, const float* w, const float* bias,
               float* y);
  void input_gradient(const ConvProblem& problem, const float* w, const float* dy, float* dx);
  void weight_gradient(const ConvProblem& problem, const float* x, const float* dy, float* dw);

 private:
  enum Kind : int64_t { kForward, kForwardBias, kInput, kWeight };
  // A tensor in the layout the primitive chose, and the way there from the plain one (or back).
  struct Side {
    dnnl::memory::desc plain;
    dnnl::memory::desc chosen;
    dnnl::reorder reorder;
    runtime::Buffer scratch;
    bool same() const { return plain == chosen; }
  };
  struct Plan {
    dnnl::primitive primitive;
    Side x, w, y;
    dnnl::memory::desc bias;
  };
  using Key = std::array<int64_t, 19>;

  Plan& plan(Kind kind, const ConvProblem& problem);
  Plan make_plan(Kind kind, const ConvProblem& problem);
  Side make_side(const dnnl::memory::desc& plain, const dnnl::memory::desc& chosen, bool result);
  dnnl::memory enter(Side& side, const float* data);
  dnnl::memory room(Side& side, float* data);
  void leave(Side& side, dnnl::memory& from, float* data);

  runtime::Device& device_;
  DnnlEngine engine_;
  std::map<Key, Plan> plans_;
};

}  // namespace kerf::ops::cpu
