// Convolution by oneDNN: layouts of its choice inside, plain NCHW outside, primitives cached by
// shape.
//
// Owned by a kernel; belongs to its thread. Tensors in chosen layouts lie in the workspace; where
// that is too small for them, the plain layouts are used throughout, slower.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "ops/cpu/dnnl_engine.h"
#include "ops/cpu/workspace.h"
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
               float* y, Workspace& workspace);
  void input_gradient(const ConvProblem& problem, const float* w, const float* dy, float* dx,
                      Workspace& workspace);
  void weight_gradient(const ConvProblem& problem, const float* x, const float* dy, float* dw,
                       Workspace& workspace);
  // What the layouts of choice take, of the one of the three that takes most.
  size_t workspace_bytes(const ConvProblem& problem) const;

 private:
  enum Kind : int64_t { kForward, kForwardBias, kInput, kWeight };
  enum class Layouts : uint8_t { kChosen, kPlain };
  // A tensor in the layout the primitive chose, and the way there from the plain one (or back).
  struct Side {
    dnnl::memory::desc plain;
    dnnl::memory::desc chosen;
    bool result = false;         // leaves by the reorder; the others enter by it
    dnnl::reorder reorder = {};  // empty if they are the same
    dnnl::memory outside = {};   // in the plain layout
    dnnl::memory inside = {};    // in the chosen one
    bool same() const { return plain == chosen; }
    size_t bytes() const {
      return same() ? 0 : piece_bytes<std::byte>(static_cast<int64_t>(chosen.get_size()));
    }
  };
  struct Plan {
    dnnl::primitive_desc_base description;
    dnnl::primitive primitive;
    Side x, w, y;
    dnnl::memory::desc bias_desc;
    dnnl::memory bias;
    size_t bytes() const { return x.bytes() + w.bytes() + y.bytes(); }
  };
  using Key = std::array<int64_t, 19>;

  Plan& plan(Kind kind, const ConvProblem& problem, const Workspace& workspace);
  // Without primitives, which take long to make.
  Plan describe(Kind kind, const ConvProblem& problem, Layouts layouts) const;
  void complete(Plan& plan) const;
  // The memory that the primitive reads or writes for the plain tensor at `data`.
  const dnnl::memory& enter(Side& side, const float* data, Workspace& workspace);
  const dnnl::memory& room(Side& side, float* data, Workspace& workspace);
  void leave(Side& side);

  DnnlEngine engine_;
  std::map<Key, Plan> plans_;
};

}  // namespace kerf::ops::cpu
