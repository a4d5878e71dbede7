// SegmentLogSumExp on a GPU, a segment of a row to a block. The gradient of the maximum goes to the
// first entry that equals it, that of log_sum is softmax minus the same.
#include <cmath>

#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/cuda/device_table.h"
#include "ops/folded.h"
#include "ops/operators/segment_log_sum_exp.h"

namespace kerf::ops::cuda {
namespace {

// Row r of the work is segment r % count of row r / count of the scores, [outer, classes, inner].
struct Segments {
  const int64_t* begins;  // of each among the classes held here, and the end of the last
  int64_t count;
  int64_t classes;
  int64_t inner;
  KERF_DEVICE int64_t size(int64_t r) const { return begins[r % count + 1] - begins[r % count]; }
  KERF_DEVICE int64_t score(int64_t r, int64_t i) const {
    const int64_t row = r / count;
    return (row / inner * classes + begins[r % count] + i) * inner + row % inner;
  }
  KERF_DEVICE int64_t output(int64_t r) const {
    const int64_t row = r / count;
    return (row / inner * count + r % count) * inner + row % inner;
  }
};

struct SegmentForward {
  using First = float;
  using Second = double;
  Segments segments;
  const float* scores;
  float* maximum;
  float* log_sum;
  KERF_DEVICE int64_t length(int64_t row) const { return segments.size(row); }
  KERF_DEVICE First first(int64_t row, int64_t i) const { return scores[segments.score(row, i)]; }
  KERF_DEVICE static First first_zero() { return -INFINITY; }
  KERF_DEVICE static First join_first(First a, First b) { return a < b ? b : a; }
  KERF_DEVICE static float shift_of(First most) {
    return most - most == 0 ? most : 0.0F;  // of nothing but -inf
  }
  KERF_DEVICE Second second(int64_t row, int64_t i, First most) const {
    return static_cast<double>(std::exp(scores[segments.score(row, i)] - shift_of(most)));
  }
  KERF_DEVICE static Second second_zero() { return 0; }
  KERF_DEVICE static Second join_second(Second a, Second b) { return a + b; }
  KERF_DEVICE void finish(int64_t row, First most, Second sum) const {
    maximum[segments.output(row)] = shift_of(most);
    log_sum[segments.output(row)] = static_cast<float>(std::log(sum));
  }
  KERF_DEVICE void each(int64_t, int64_t, First, Second) const {}
};

struct SegmentBackward {
  using Value = int64_t;  // the first entry that is the maximum
  Segments segments;
  const float* scores;
  const float* maximum;
  const float* log_sum;
  const float* of_maximum;  // what flows into either; null: 0
  const float* of_log_sum;
  float* to;
  bool accumulate;
  KERF_DEVICE int64_t length(int64_t row) const { return segments.size(row); }
  KERF_DEVICE Value term(int64_t row, int64_t i) const {
    const bool largest = scores[segments.score(row, i)] == maximum[segments.output(row)];
    return largest ? i : INT64_MAX;
  }
  KERF_DEVICE static Value zero() { return INT64_MAX; }
  KERF_DEVICE static Value join(Value a, Value b) { return a < b ? a : b; }
  KERF_DEVICE void finish(int64_t, Value) const {}
  KERF_DEVICE void each(int64_t row, int64_t i, Value largest) const {
    const int64_t at = segments.score(row, i);
    const int64_t out = segments.output(row);
    const float given = of_log_sum == nullptr ? 0.0F : of_log_sum[out];
    float gradient = given * std::exp((scores[at] - maximum[out]) - log_sum[out]);
    if (i == largest) gradient += (of_maximum == nullptr ? 0.0F : of_maximum[out]) - given;
    put(to + at, accumulate, gradient);
  }
};

class SegmentLogSumExpKernel final : public PlainKernel {
 public:
  explicit SegmentLogSumExpKernel(const KernelSite& site)
      : queue_(queue_of(site)),
        axis_(site.as<SegmentLogSumExp>().axis()),
        numbers_(begins_of(site)),
        begins_(queue_, numbers_) {}

  void forward(const Call& call) override {
    const Folded folded = fold(call.inputs[0].shape, axis_);
    reduce_rows_twice(queue_, rows_of(folded),
                      SegmentForward{segments_of(folded), call.inputs[0].f32(),
                                     call.outputs[0].f32(), call.outputs[1].f32()});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const Folded folded = fold(target.to.shape, axis_);
      reduce_rows_then_each(
          queue_, rows_of(folded),
          SegmentBackward{segments_of(folded), call.inputs[0].f32(), call.outputs[0].f32(),
                          call.outputs[1].f32(), call.output_gradients[0].f32(),
                          call.output_gradients[1].f32(), target.to.f32(), target.accumulate});
    }
  }

 private:
  static std::vector<int64_t> begins_of(const KernelSite& site) {
    const auto& boundaries = site.as<SegmentLogSumExp>().boundaries();
    const auto axis = static_cast<size_t>(site.as<SegmentLogSumExp>().axis());
    const auto segments = static_cast<int64_t>(boundaries.size()) - 1;
    std::vector<int64_t> begins{0};
    for (const Range& range : site.iterations.axes[axis].ranges(segments))
      for (auto s = static_cast<size_t>(range.begin); s < static_cast<size_t>(range.end); ++s)
        begins.push_back(begins.back() + boundaries[s + 1] - boundaries[s]);
    return begins;
  }
  int64_t count() const { return static_cast<int64_t>(numbers_.size()) - 1; }
  int64_t rows_of(const Folded& folded) const { return folded.outer * folded.inner * count(); }
  Segments segments_of(const Folded& folded) const {
    return {begins_.data(), count(), folded.length, folded.inner};
  }

  const Queue& queue_;
  int axis_;
  std::vector<int64_t> numbers_;
  DeviceTable begins_;
};

}  // namespace

KernelEntries register_segment_log_sum_exp() {
  return {{.op = "SegmentLogSumExp", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<SegmentLogSumExpKernel>(site);
           }}};
}

}  // namespace kerf::ops::cuda
