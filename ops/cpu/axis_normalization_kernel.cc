// LpNormalization and MeanVarianceNormalization on the CPU, in double. With n the
// norm, m the number of numbers, d the deviation and z the centred X,
//   p = 1:  dX = (dY - sign(X) * sum(dY * X) / n) / n,
//   p = 2:  dX = (dY - X * sum(dY * X) / n^2) / n,
//   mean and variance:  dX = (dY - mean(dY) - z * sum(dY * z) / (m * d * e)) / e,  e = d + 1e-9.
#include <cmath>

#include "ops/activation_kernel.h"
#include "ops/cpu/walk.h"
#include "ops/operators/axis_normalization.h"

namespace kerf::ops::cpu {
namespace {

using NormKind = AxisNormalization::Kind;

constexpr double kNoDeviation = 1e-9;  // as ONNX has it

// The elements of a tensor by sets that are normalised together.
class NormSets {
 public:
  NormSets(const Shape& shape, const std::vector<bool>& together) {
    const auto strides = strides_of(shape);
    for (size_t axis = 0; axis < together.size(); ++axis)
      (together[axis] ? within_ : sets_).add({shape[static_cast<int>(axis)], strides[axis], 0});
  }
  int64_t size() const { return within_.indices(); }

  // Calls work(where the set begins) for every set, on all threads.
  template <class Work>
  void for_each(const Work& work) const {
    if (size() == 0) return;
    simd::parallel_pieces(sets_.indices(), 1 + simd::kLeastElements / size(),
                          [&](int64_t begin, int64_t end) {
                            WalkPlace place(sets_, begin);
                            for (int64_t i = begin; i < end; ++i, place.next()) work(place.from());
                          });
  }

  // Calls element(place) for the elements of the set that begins there, in order.
  template <class Element>
  void visit(int64_t begin, const Element& element) const {
    if (within_.count() == 0) return element(begin);
    const WalkAxis& row = within_[within_.count() - 1];
    const Walk rows = within_.without(within_.count() - 1);
    WalkPlace place(rows, 0);
    for (int64_t i = rows.indices(); i > 0; --i, place.next())
      for (int64_t j = 0; j < row.extent; ++j) element(begin + place.from() + j * row.from);
  }

 private:
  Walk sets_;  // whose other side stays
  Walk within_;
};

class AxisNormalizationKernel final : public ActivationKernel {
 public:
  explicit AxisNormalizationKernel(const KernelSite& site)
      : ActivationKernel(site.op), op_(site.as<AxisNormalization>()) {}

  void forward(const Call& call) override {
    const NormSets sets(call.inputs[0].shape, op_.normalised());
    const float* x = call.inputs[0].f32();
    float* y = call.outputs[0].f32();
    sets.for_each([&](int64_t set) {
      const Measures m = measure(sets, set, x);
      sets.visit(set, [&](int64_t at) {
        y[at] = static_cast<float>(m.norm == 0 ? 0 : (double{x[at]} - m.mean) / m.norm);
      });
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const NormSets sets(call.inputs[0].shape, op_.normalised());
    for (const GradientTarget& target : targets)
      sets.for_each([&](int64_t set) {
        gradient_of_set(sets, set, call.inputs[0].f32(), call.output_gradients[0].f32(),
                        target.to.f32());
      });
  }

 private:
  struct Measures {
    double mean = 0;
    double deviation = 0;
    double norm = 0;  // what is divided by
  };

  Measures measure(const NormSets& sets, int64_t set, const float* x) const {
    Measures m;
    const auto count = static_cast<double>(sets.size());
    const auto sum = [&](const auto& term) {
      double result = 0;
      sets.visit(set, [&](int64_t at) { result += term(double{x[at]}); });
      return result;
    };
    if (op_.kind() == NormKind::kMeanVariance) {
      m.mean = sum([](double value) { return value; }) / count;
      m.deviation =
          std::sqrt(sum([&](double value) { return (value - m.mean) * (value - m.mean); }) / count);
      m.norm = m.deviation + kNoDeviation;
    } else if (op_.kind() == NormKind::kAbsolute) {
      m.norm = sum([](double value) { return std::abs(value); });
    } else {
      m.norm = std::sqrt(sum([](double value) { return value * value; }));
    }
    return m;
  }

  void gradient_of_set(const NormSets& sets, int64_t set, const float* x, const float* dy,
                       float* dx) const {
    const Measures m = measure(sets, set, x);
    double sum = 0;      // of dY
    double product = 0;  // of dY times the centred X
    sets.visit(set, [&](int64_t at) {
      sum += double{dy[at]};
      product += double{dy[at]} * (double{x[at]} - m.mean);
    });
    const auto count = static_cast<double>(sets.size());
    sets.visit(set, [&](int64_t at) {
      const double value = double{x[at]} - m.mean;
      double of_norm = 0;  // what the norm's change takes away
      if (op_.kind() == NormKind::kAbsolute)
        of_norm = value == 0 ? 0 : std::copysign(1.0, value) * product / m.norm;
      else if (op_.kind() == NormKind::kEuclidean)
        of_norm = m.norm == 0 ? 0 : value * product / (m.norm * m.norm);
      else
        of_norm =
            sum / count + (m.deviation == 0 ? 0 : value * product / (count * m.deviation * m.norm));
      dx[at] = m.norm == 0 ? 0.0F : static_cast<float>((double{dy[at]} - of_norm) / m.norm);
    });
  }

  const AxisNormalization& op_;
};

std::unique_ptr<Kernel> make_axis_normalization(const KernelSite& site) {
  return std::make_unique<AxisNormalizationKernel>(site);
}

}  // namespace

KernelEntries register_axis_normalization() {
  return {{"LpNormalization", make_axis_normalization},
          {"MeanVarianceNormalization", make_axis_normalization}};
}

}  // namespace kerf::ops::cpu
