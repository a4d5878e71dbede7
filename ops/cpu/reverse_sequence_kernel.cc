// ReverseSequence on the CPU: row by row; its gradient is itself.
#include <cstring>

#include "ops/kernel.h"
#include "ops/operators/reverse_sequence.h"

namespace kerf::ops::cpu {
namespace {

class ReverseSequenceKernel final : public PlainKernel {
 public:
  explicit ReverseSequenceKernel(int time_axis) : time_axis_(time_axis) {}

  void forward(const Call& call) override {
    const size_t element = size_of(call.outputs[0].dtype);
    for_rows(call.inputs[1], call.outputs[0].shape, [&](int64_t from, int64_t to, int64_t width) {
      std::memcpy(call.outputs[0].data + static_cast<size_t>(to) * element,
                  call.inputs[0].data + static_cast<size_t>(from) * element,
                  static_cast<size_t>(width) * element);
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* dy = call.output_gradients[0].f32();
    for (const GradientTarget& target : targets)
      for_rows(call.inputs[1], target.to.shape, [&](int64_t to, int64_t from, int64_t width) {
        for (int64_t j = 0; j < width; ++j) {
          float& dx = target.to.f32()[to + j];
          dx = target.accumulate ? dx + dy[from + j] : dy[from + j];
        }
      });
  }

 private:
  // Calls visit(element of a row of the input, of the row that it becomes, elements of a row).
  template <class Visit>
  void for_rows(const TensorView& lengths, const Shape& shape, const Visit& visit) const {
    if (shape.elements() == 0) return;
    const int64_t times = shape[time_axis_];
    const int64_t samples = shape[1 - time_axis_];
    const int64_t width = shape.elements() / times / samples;
    const auto row = [&](int64_t time, int64_t sample) {
      return (time_axis_ == 0 ? time * samples + sample : sample * times + time) * width;
    };
    for (int64_t sample = 0; sample < samples; ++sample) {
      const int64_t length = lengths.i64()[sample];
      if (length < 0 || length > times)
        throw Error(ErrorCode::kUsage,
                    format("ReverseSequence: sample {} of those that its part holds has the length "
                           "{}, of {} steps",
                           sample, length, times));
      for (int64_t time = 0; time < times; ++time)
        visit(row(time < length ? length - 1 - time : time, sample), row(time, sample), width);
    }
  }

  int time_axis_;
};

}  // namespace

KernelEntries register_reverse_sequence() {
  return {{.op = "ReverseSequence", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<ReverseSequenceKernel>(site.as<ReverseSequence>().time_axis());
           }}};
}

}  // namespace kerf::ops::cpu
