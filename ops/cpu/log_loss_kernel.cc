// LogLoss on the CPU: in double, for there are few segments.
#include <cmath>

#include "ops/folded.h"
#include "ops/kernel.h"

namespace kerf::ops::cpu {
namespace {

// One row's segments, `step` apart.
struct Row {
  const float* maximum = nullptr;
  const float* log_sum = nullptr;
  int64_t segments = 0;
  int64_t step = 1;

  double most() const {
    double most = maximum[0];
    for (int64_t s = 1; s < segments; ++s)
      most = std::max(most, static_cast<double>(maximum[s * step]));
    return most;
  }
  // The segment's share of the denominator, times exp(-most).
  double weight(int64_t s, double most) const {
    return std::exp(static_cast<double>(maximum[s * step]) - most +
                    static_cast<double>(log_sum[s * step]));
  }
  double sum(double most) const {
    double sum = 0;
    for (int64_t s = 0; s < segments; ++s) sum += weight(s, most);
    return sum;
  }
};

int64_t first_of(const Folded& segments, int64_t row) {
  return row / segments.inner * segments.length * segments.inner + row % segments.inner;
}

Row row_of(const Call& call, const Folded& segments, int64_t row) {
  const int64_t at = first_of(segments, row);
  return {call.inputs[0].f32() + at, call.inputs[1].f32() + at, segments.length, segments.inner};
}

class LogLossKernel final : public PlainKernel {
 public:
  void forward(const Call& call) override {
    const Folded segments = fold(call.inputs[0].shape, 1);
    double loss = 0;
    for (int64_t i = 0; i < segments.outer * segments.inner; ++i) {
      const Row row = row_of(call, segments, i);
      const double most = row.most();
      loss += most - static_cast<double>(call.inputs[2].f32()[i]) + std::log(row.sum(most));
    }
    *call.outputs[0].f32() = static_cast<float>(loss / call.normaliser);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const bool given = !call.output_gradients.empty() && call.output_gradients[0].data != nullptr;
    const double dy =
        (given ? static_cast<double>(*call.output_gradients[0].f32()) : 1.0) / call.normaliser;
    const Folded segments = fold(call.inputs[0].shape, 1);
    for (const GradientTarget& target : targets)
      for (int64_t i = 0; i < segments.outer * segments.inner; ++i)
        if (target.input == 2)
          put(target, i, static_cast<float>(-dy));
        else
          segment_gradients(call, segments, i, dy, target);
  }

 private:
  static void put(const GradientTarget& target, int64_t at, float gradient) {
    float& entry = target.to.f32()[at];
    entry = target.accumulate ? entry + gradient : gradient;
  }

  static void segment_gradients(const Call& call, const Folded& segments, int64_t i, double dy,
                                const GradientTarget& target) {
    const Row row = row_of(call, segments, i);
    const double most = row.most();
    const double scale = dy / row.sum(most);
    for (int64_t s = 0; s < segments.length; ++s)
      put(target, first_of(segments, i) + s * segments.inner,
          static_cast<float>(scale * row.weight(s, most)));
  }
};

}  // namespace

KernelEntries register_log_loss() {
  return {{.op = "LogLoss", .make = [](const KernelSite&) -> std::unique_ptr<Kernel> {
             return std::make_unique<LogLossKernel>();
           }}};
}

}  // namespace kerf::ops::cpu
