// RNN, GRU and LSTM on the CPU: products by oneDNN over several steps at once where nothing recurs,
// and one or two a step where it does. As any kernel, one call at a time.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "ops/cpu/matrix_product.h"
#include "ops/cpu/sequence.h"
#include "ops/kernel.h"
#include "ops/operators/recurrent.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {

class RecurrentKernel final : public Kernel {
 public:
  explicit RecurrentKernel(const KernelSite& site);
  void forward(const Call& call) override;
  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override;
  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override;
  static size_t workspace(const Recurrent& op, const LocalSpecs& local, int threads);

 private:
  struct Scratch {
    float* bias = nullptr;
    float* gates = nullptr;
    float* h = nullptr;
    float* c = nullptr;
    float* more = nullptr;  // a GRU's r * h, or R h + b_R
    Workspace left;         // for products
  };
  // Of the gates' arguments (and, apart, of R h + b_R of n), of the states, of r * h.
  struct Back {
    float* gates = nullptr;
    float* apart = nullptr;
    float* dh = nullptr;
    float* dc = nullptr;
    float* reset = nullptr;
  };

  // One of the call's, which may be absent.
  static const float* data_of(std::span<const TensorView> views, int i) {
    return i < static_cast<int>(views.size()) ? views[static_cast<size_t>(i)].f32() : nullptr;
  }
  bool apart() const { return op_.linear_before_reset(); }
  bool is(Recurrent::Kind kind) const { return op_.kind() == kind; }

  Sequence sequence(const Call& call) const {
    return {op_, call.inputs[Recurrent::kX].shape, static_cast<int64_t>(held_.size()), largest_};
  }

  struct Directions {
    std::array<Direction, 2> all{};
    size_t count = 0;
    const Direction* begin() const { return all.data(); }
    const Direction* end() const { return all.data() + count; }
  };
  Directions directions(const Sequence& q) const;

  // b of one direction: that of W first, then that of R.
  static const float* bias_of(const Call& call, const Sequence& q, int64_t d) {
    const float* b = data_of(call.inputs, Recurrent::kB);
    return b == nullptr ? nullptr : b + d * 2 * q.gates();
  }

  void run_forward(const Call& call, const Sequence& q, const Direction& direction, const float* x,
                   const Scratch& scratch);
  void run_step(const Call& call, const Sequence& q, const Direction& direction, int64_t t,
                float* gates, const Scratch& scratch);

  // Steps that a sample has.
  static int64_t length_of(const Call& call, const Sequence& q, int64_t s);
  void check_lengths(const Call& call, const Sequence& q) const;
  void advance(const Call& call, const Direction& direction, float* gates, float* c,
               float* h) const;

  // A GRU's z, r and the argument of n.
  void open(const Call& call, const Sequence& q, const Direction& direction, int64_t t,
            const float* r, float* gates, const Scratch& scratch);

  static float* reserved_gates(const Call& call, const Sequence& q, int64_t d, int64_t t) {
    return reinterpret_cast<float*>(call.reserve.data()) + q.gate_row(d, t);
  }
  // What is kept beside the gates, behind all of them; null where nothing is reserved.
  float* kept_rows(const Call& call, const Sequence& q, int64_t d, int64_t t) const;

  // What step `p` of a direction began with, of sample `s`; null: zeros.
  static const float* h_before(const Call& call, const Sequence& q, const Direction& direction,
                               int64_t p, int64_t s);
  const float* c_before(const Call& call, const Sequence& q, const Direction& direction, int64_t p,
                        int64_t s) const;

  // Fills the gradients of the gates' arguments; dh and dc end as those of the initial states.
  void run_back(const Call& call, const Sequence& q, const Direction& direction, const Back& back,
                const Workspace& left);

  // A GRU's gradients behind those of z and n.
  void close(const Call& call, const Sequence& q, const Direction& direction, int64_t p,
             const float* r, const Back& back, const Workspace& left);
  void x_gradient(const Call& call, const Sequence& q, const float* dg, Workspace& workspace,
                  float* dx);

  // Of R h + b_R of n, where it is not that of n's argument.
  const float* handed_apart(const Call& call, const Sequence& q, int64_t d) const {
    return reinterpret_cast<const float*>(call.handed.data()) + q.all_gates() + q.unit_row(d, 0);
  }

  void bias_gradient(const Call& call, const Sequence& q, const Direction& direction,
                     const float* dg, float* to, bool accumulate) const;
  void recurrent_weights(const Call& call, const Sequence& q, const Direction& direction,
                         const float* dg, float* before, float* to, bool accumulate,
                         const Workspace& left);

  const Recurrent& op_;
  int64_t largest_ = 0;        // samples of the largest call
  std::vector<int64_t> held_;  // directions
  MatrixProduct matmul_;
};

}  // namespace kerf::ops::cpu
