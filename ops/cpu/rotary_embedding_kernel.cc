// RotaryEmbedding on the CPU.
#include "ops/activation_kernel.h"
#include "ops/operators/rotary_embedding.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

// Turns `pairs` pairs, by minus the angles where `sign` is -1.
KERF_CLONES void turn_halves(const float* x, const float* cosines, const float* sines, float sign,
                             int64_t pairs, float* y) {
#pragma omp simd
  for (int64_t j = 0; j < pairs; ++j) {
    const float sine = sign * sines[j];
    y[j] = cosines[j] * x[j] - sine * x[pairs + j];
    y[pairs + j] = sine * x[j] + cosines[j] * x[pairs + j];
  }
}

void turn_neighbours(const float* x, const float* cosines, const float* sines, float sign,
                     int64_t pairs, float* y) {
  for (int64_t j = 0; j < pairs; ++j) {
    const float sine = sign * sines[j];
    y[2 * j] = cosines[j] * x[2 * j] - sine * x[2 * j + 1];
    y[2 * j + 1] = sine * x[2 * j] + cosines[j] * x[2 * j + 1];
  }
}

class RotaryEmbeddingKernel final : public ActivationKernel {
 public:
  explicit RotaryEmbeddingKernel(const KernelSite& site)
      : ActivationKernel(site.op), op_(site.as<RotaryEmbedding>()) {}

  void forward(const Call& call) override {
    turn(call, 1, call.inputs[0].shape, call.inputs[0].f32(), call.outputs[0].f32());
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      turn(call, -1, target.to.shape, call.output_gradients[0].f32(), target.to.f32());
  }

 private:
  void turn(const Call& call, float sign, const Shape& shape, const float* from, float* to) const {
    const int64_t width = op_.width();
    const bool side = op_.side_by_side();
    const int64_t positions = side ? shape[1] : shape[2];
    const int64_t heads = side ? shape[2] / width : shape[1];
    // Heads of a sample, in the order in which they lie.
    simd::parallel_pieces(shape.elements() / width, 1 + simd::kLeastElements / width,
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i) {
                              const int64_t sample = i / (heads * positions);
                              const int64_t t = side ? i / heads % positions : i % positions;
                              turn_head(call, sign, row_of(call, sample * positions + t),
                                        from + i * width, to + i * width);
                            }
                          });
  }

  // Of the caches, for a sample's position.
  static int64_t row_of(const Call& call, int64_t position) {
    if (call.inputs.size() < 4 || call.inputs[3].data == nullptr) return position;
    const int64_t row = call.inputs[3].i64()[position];
    const int64_t rows = call.inputs[1].shape[0];
    if (row < 0 || row >= rows)
      throw Error(
          ErrorCode::kUsage,
          format("RotaryEmbedding: position_ids has {}, the caches have {} positions", row, rows));
    return row;
  }

  void turn_head(const Call& call, float sign, int64_t row, const float* x, float* y) const {
    const int64_t pairs = op_.turned() / 2;
    const float* cosines = call.inputs[1].f32() + row * pairs;
    const float* sines = call.inputs[2].f32() + row * pairs;
    (op_.interleaved() ? turn_neighbours : turn_halves)(x, cosines, sines, sign, pairs, y);
    std::copy(x + op_.turned(), x + op_.width(), y + op_.turned());
  }

  const RotaryEmbedding& op_;
};

}  // namespace

KernelEntries register_rotary_embedding() {
  return {{"RotaryEmbedding", [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<RotaryEmbeddingKernel>(site);
           }}};
}

}  // namespace kerf::ops::cpu
