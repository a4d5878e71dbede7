// The operators of operator_bench by oneDNN's own primitives, on tensors that lie as ours do: the
// figures that a kernel written by hand must beat to stay.
//
// Belongs to one thread, and takes as many as OpenMP has when it is made.
#pragma once

#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <unordered_map>

#include "ops/kernel.h"

namespace kerf::bench {

enum class Phase { kForward, kInputGradient, kWeightGradient };

class OnednnPeer {
 public:
  // Reads the call's inputs and gradients of outputs, which outlive this; writes into memory of its
  // own. `op` is one of the kinds that has().
  OnednnPeer(const ops::BoundOperator& op, const ops::Call& call);
  static bool has(std::string_view op);

  bool has(Phase phase) const { return step(phase).primitive.get(true) != nullptr; }
  void run(Phase phase);
  // What forward, and the input's gradient, computed last.
  std::span<const float> result(Phase phase) const;

 private:
  using Memory = dnnl::memory;
  struct Step {
    dnnl::primitive primitive;
    std::unordered_map<int, Memory> arguments;
    int result = 0;
  };

  void set_steps(const dnnl::primitive& forward, const dnnl::primitive& backward,
                 const dnnl::memory::desc& desc);
  void make_elementwise(const std::string& op);
  void make_add();
  void make_transpose(const ops::BoundOperator& op);
  void make_softmax(const ops::BoundOperator& op);
  void make_pool(const ops::BoundOperator& op);
  void make_layer_normalization(const ops::BoundOperator& op);
  void make_batch_normalization(const ops::BoundOperator& op);
  // What both normalisations are given, once described.
  template <class Forward, class Backward>
  void make_normalization(const typename Forward::desc& forward,
                          const typename Backward::desc& backward, const Memory::desc& data);

  Memory at(const Memory::desc& desc, const ops::TensorView& tensor) const;
  Memory room(const Memory::desc& desc) const { return Memory(desc, engine_); }
  Step& step(Phase phase) { return steps_[static_cast<size_t>(phase)]; }
  const Step& step(Phase phase) const { return steps_[static_cast<size_t>(phase)]; }

  const ops::Call& call_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::array<Step, 3> steps_;
};

}  // namespace kerf::bench
