// Convolution by oneDNN. Images that lie channels last it takes as they are; where ONNX's order has
// them, and for weights, it has layouts of its own choice, with reorders before and after.
// Primitives are cached by shape.
//
// Weights that are read are kept packed, for as long as their version is the same, where the layout
// is the one that the library likes for ConvProblem::layout_samples.
//
// Owned by a kernel; belongs to its thread. Other tensors in chosen layouts, and scratchpads, lie
// in the workspace.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ops/cpu/conv_problem.h"
#include "ops/cpu/dnnl_engine.h"

namespace kerf::ops::cpu {

// What a kernel keeps, of packed_bytes(), and the version of the weights (Call). The input
// gradient's are at its start, forward's at its end. Without memory, weights are packed call by
// call.
struct PackedWeights {
  std::span<std::byte> memory;
  int64_t version = 0;
};

class DnnlConv {
 public:
  // Whether forward() reads w, instead of what is kept of it; `bias`: it has one.
  bool reads_weights(const ConvProblem& problem, bool bias, const PackedWeights& packed,
                     const Workspace& workspace);
  // bias may be null. Where the problem's ending adds, y is read too.
  void forward(const ConvProblem& problem, const float* x, const float* w, const float* bias,
               float* y, const PackedWeights& packed, const Workspace& workspace);
  void input_gradient(const ConvProblem& problem, const float* w, const float* dy, float* dx,
                      const PackedWeights& packed, const Workspace& workspace);
  // dbias may be null.
  void weight_gradient(const ConvProblem& problem, const float* x, const float* dy, float* dw,
                       float* dbias, const Workspace& workspace);
  // What the one of the three takes that takes most, or one of them alone, on so many threads. With
  // room for weights in a layout that is not kept.
  enum class Passes : uint8_t { kAll, kInputGradient, kForward };
  static size_t workspace_bytes(const ConvProblem& problem, int threads,
                                Passes passes = Passes::kAll);
  // Of those that a kernel calls.
  static size_t packed_bytes(const ConvProblem& problem, int threads, bool forward,
                             bool input_gradient);

 private:
  enum Kind : int64_t { kForward, kForwardBias, kInput, kWeight, kWeightBias };
  // A tensor as it lies, and in the layout that the primitive chose.
  struct Forms {
    dnnl::memory::desc plain;
    dnnl::memory::desc chosen;
    bool result = false;  // leaves by a reorder; the others enter by it
    bool kept = false;    // the chosen one is in memory that is kept, not the workspace's
    bool same() const { return plain == chosen; }
    size_t bytes() const {
      return same() || kept ? 0 : piece_bytes<std::byte>(static_cast<int64_t>(chosen.get_size()));
    }
  };
  // What a primitive works on; descriptions take more memory than all else of it.
  struct Described {
    dnnl::primitive_desc_base primitive;
    Forms x, w, y;
    int64_t scratch_bytes = 0;

    size_t bytes() const {
      return x.bytes() + w.bytes() + y.bytes() + piece_bytes<std::byte>(scratch_bytes);
    }
  };
  // A tensor of a call, and the way into the layout that the primitive chose, or back.
  struct Side {
    dnnl::memory outside;      // in the plain layout
    dnnl::memory inside = {};  // in the chosen one; empty if they are the same, as is the next
    dnnl::reorder reorder = {};
    int64_t inside_bytes = 0;
    bool result = false;  // as Forms have it
    bool kept = false;
    bool same() const { return !inside; }
  };
  // What is kept packed for one of the two that read weights.
  struct Kept {
    dnnl::memory::desc layout;
    size_t bytes = 0;     // 0: it is the plain one
    int64_t version = 0;  // of what is there
  };
  struct Plan {
    dnnl::primitive primitive;
    Side x, w, y;
    dnnl::memory bias;     // or its gradient
    dnnl::memory scratch;  // the scratchpad
    int64_t scratch_bytes = 0;
  };
  // What tensors are to a call, by which its plans share memory objects: each is pointed anew.
  enum class Role : uint8_t { kX, kW, kY, kChosenX, kChosenW, kChosenY, kBias, kScratch };
  using Key = std::array<int64_t, 29>;
  // Of one call, beside the sides that enter and leave.
  struct Operands {
    const float* x = nullptr;
    const float* w = nullptr;
    const float* bias = nullptr;
    const float* y = nullptr;
  };

  template <class Describe>
  static size_t described(const ConvProblem& problem, int threads, int asked,
                          const Describe& describe);
  static Key key_of(int64_t first, const ConvProblem& problem, size_t granted);
  Plan& plan(Kind kind, const ConvProblem& problem, const PackedWeights& packed, size_t granted);
  // Without primitives, which take long to make.
  static Described describe(Kind kind, const ConvProblem& problem, size_t granted, const Kept* kept,
                            const DnnlEngine& engine);
  enum class Layouts : uint8_t { kChosen, kPlain };
  static std::optional<Described> describe_in(Layouts layouts, Kind kind,
                                              const ConvProblem& problem, size_t granted,
                                              const Kept* kept, const DnnlEngine& engine);
  static Kept layout_to_keep(Kind kind, const ConvProblem& problem, const DnnlEngine& engine);
  Plan complete(const Described& described, const ConvProblem& problem);
  Side side_of(const Forms& forms, Role plain, Role chosen);
  dnnl::memory room_for(Role role, const dnnl::memory::desc& desc);
  void run(Kind kind, const ConvProblem& problem, const Operands& operands,
           const PackedWeights& packed, const Workspace& workspace);
  // The memory that the primitive reads or writes for the plain tensor at `data`.
  const dnnl::memory& enter(Side& side, const float* data, Workspace& workspace);
  // Likewise, where it is kept.
  const dnnl::memory& enter_kept(Kind kind, Side& side, const float* data,
                                 const PackedWeights& packed, Kept& kept);
  Kept* kept(Kind kind, const ConvProblem& problem);
  void leave(Side& side);

  DnnlEngine engine_;
  std::optional<Kept> forward_kept_;
  std::optional<Kept> input_kept_;
  std::map<Key, Plan> plans_;
  std::vector<std::pair<Role, dnnl::memory>> rooms_;
};

}  // namespace kerf::ops::cpu
