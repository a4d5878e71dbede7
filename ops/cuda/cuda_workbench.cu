#include <algorithm>

#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cublas_check.h"
#include "ops/cuda/cuda_workbench.h"
#include "ops/cuda/cudnn_check.h"
#include "ops/cuda/piece_map.cuh"
#include "ops/cuda/pieced_sum.cuh"
#include "ops/element_size.h"
#include "runtime/error.h"

namespace kerf::ops::cuda {
namespace {

constexpr int64_t kLeastPieceOfNorm = 4096;  // entries of a norm

// Between the local tensor and the dense piece.
template <class T, bool kToDense, bool kAdd>
struct MovePiece {
  PieceMap map;
  T* local;
  T* dense;
  KERF_DEVICE void operator()(int64_t i) const {
    const PieceOffsets at = offsets_of(map, i);
    const T from = kToDense ? local[at.local] : dense[at.piece];
    T& to = kToDense ? dense[at.piece] : local[at.local];
    to = kAdd ? static_cast<T>(to + from) : from;
  }
};

template <class T, bool kToDense, bool kAdd>
void move_as(const Queue& queue, const PieceMap& map, std::byte* local, std::byte* dense) {
  for_each(
      queue, map.elements,
      MovePiece<T, kToDense, kAdd>{map, reinterpret_cast<T*>(local), reinterpret_cast<T*>(dense)});
}

// Copies the piece, in either direction.
template <bool kToDense>
void move(const Queue& queue, PieceMaps& maps, const Selection& selection, std::byte* local,
          std::byte* dense, int64_t samples) {
  if (selection.everything()) {
    queue.runtime_stream().copy(kToDense ? dense : local, kToDense ? local : dense,
                                selection.bytes(samples));
    return;
  }
  with_element(selection.dtype(), [&](auto zero) {
    move_as<decltype(zero), kToDense, false>(queue, maps.of(queue, selection, samples), local,
                                             dense);
  });
}

// What optimizer.cc does on the host. Where the step says so, nothing changes.
struct UpdateStep {
  StepSays step;
  UpdateRule rule;
  const float* gradient;
  float* first;   // velocity, sum of squares or mean; null without
  float* second;  // mean of squares; null without
  float* weight;

  KERF_DEVICE float own_gradient(int64_t i) const {
    float scale = 1;
    if (rule.most_norm != 0) {
      const double clipped = rule.most_norm / (sqrt(*step.squared_norm) + 1e-6);
      scale = clipped < 1 ? static_cast<float>(clipped) : 1;
    }
    const float own = scale * gradient[i];
    return rule.decay != 0 ? own + rule.decay * weight[i] : own;
  }
  KERF_DEVICE void operator()(int64_t i) const {
    if (*step.cause != 0) return;
    const float own = own_gradient(i);
    switch (rule.kind) {
      case UpdateKind::kSgd:
        weight[i] -= rule.rate * own;
        return;
      case UpdateKind::kMomentum:
        return momentum(i, own);
      case UpdateKind::kAdagrad:
        return adagrad(i, own);
      case UpdateKind::kAdam:
        return adam(i, own);
    }
  }
  KERF_DEVICE void momentum(int64_t i, float own) const {
    const float velocity = rule.momentum * first[i] + own;
    first[i] = velocity;
    weight[i] -= rule.rate * (rule.nesterov ? own + rule.momentum * velocity : velocity);
  }
  KERF_DEVICE void adagrad(int64_t i, float own) const {
    const float squares = first[i] + own * own;
    first[i] = squares;
    weight[i] -= rule.rate * own / (sqrtf(squares) + rule.epsilon);
  }
  KERF_DEVICE void adam(int64_t i, float own) const {
    const float mean = rule.beta1 * first[i] + rule.one_less_beta1 * own;
    const float square = rule.beta2 * second[i] + rule.one_less_beta2 * own * own;
    first[i] = mean;
    second[i] = square;
    const float below = sqrtf(square) / rule.root + rule.epsilon;
    weight[i] = rule.kept * weight[i] - rule.rate * mean / below;
  }
};

struct StateStep {
  const double* cause;
  float keep;
  const float* statistics;
  float* state;
  KERF_DEVICE void operator()(int64_t i) const {
    if (*cause != 0) return;
    state[i] = keep * state[i] + (1 - keep) * statistics[i];
  }
};

struct AddScalar {
  const float* from;
  double* entry;
  KERF_DEVICE void operator()(int64_t) const { *entry += static_cast<double>(*from); }
};

struct SquaredEntry {
  const float* x;
  KERF_DEVICE double operator()(int64_t i) const {
    const auto entry = static_cast<double>(x[i]);
    return entry * entry;
  }
};

struct AddTo {
  double* entry;
  KERF_DEVICE void operator()(double sum) const { *entry += sum; }
};

// Whether the answer is right in rows along axis 1 of scores [n, length, ...]: where the entry at
// `label` is one of the first `among` largest, or no entry is above `picked` (metrics.h). Row r of
// the work is row begin + r of these.
struct IsRight {
  using Value = int64_t;  // classes so far that come before the answer
  const float* scores;
  const int64_t* labels;  // null: `picked` counts
  const float* picked;
  int64_t classes;
  int64_t step;
  int64_t begin;
  int64_t among;
  double* right;  // 1 or 0, of each row of the work

  KERF_DEVICE float score(int64_t row, int64_t i) const {
    return scores[(row / step * classes + i) * step + row % step];
  }
  KERF_DEVICE int64_t length(int64_t) const { return classes; }
  // What stands before the label comes before it unless it is smaller; where the score was picked,
  // an entry may be as large as that. Nothing is right about a label that is no class, or a NaN:
  // all classes come before it.
  KERF_DEVICE Value term(int64_t r, int64_t i) const {
    const int64_t row = begin + r;
    const int64_t label = labels == nullptr ? classes : labels[row];
    if (label < 0 || (labels != nullptr && label >= classes)) return 1;
    const float best = labels == nullptr ? picked[row] : score(row, label);
    const float other = score(row, i);
    return (labels != nullptr && i < label ? other < best : other <= best) ? 0 : 1;
  }
  KERF_DEVICE static Value zero() { return 0; }
  KERF_DEVICE static Value join(Value a, Value b) { return a + b; }
  KERF_DEVICE void finish(int64_t r, Value before) const {
    right[r] = before < among && before < classes ? 1 : 0;
  }
};

struct Mark {
  int64_t* place;
  int64_t number;
  KERF_DEVICE void operator()(int64_t) const { *place = number; }
};

// A stream knows its device.
int index_of(const Queue& queue) {
  int index = -1;
  runtime::check_cuda(cudaStreamGetDevice(queue.stream(), &index), "cudaStreamGetDevice",
                      queue.name());
  return index;
}

}  // namespace

CudaWorkbench::CudaWorkbench(runtime::Device& device, runtime::Stream& stream)
    : Workbench(device, stream),
      memory_(device.name()),
      queue_(stream, device.name(), memory_),
      index_(index_of(queue_)) {
  use();
  partial_sums_ = memory_.allocate(static_cast<size_t>(kMostPieces) * sizeof(double));
}

cublasLtHandle_t CudaWorkbench::cublas_lt() {
  if (cublas_lt_ == nullptr) {
    cublasLtHandle_t handle = nullptr;
    check_cublas(cublasLtCreate(&handle), "cublasLtCreate", queue_);
    cublas_lt_.reset(handle);
  }
  return cublas_lt_.get();
}

cudnnHandle_t CudaWorkbench::cudnn() {
  if (cudnn_ == nullptr) {
    cudnnHandle_t handle = nullptr;
    check_cudnn(cudnnCreate(&handle), "cudnnCreate", queue_);
    cudnn_.reset(handle);
    check_cudnn(cudnnSetStream(handle, queue_.stream()), "cudnnSetStream", queue_);
  }
  return cudnn_.get();
}

void CudaWorkbench::forward(Kernel& kernel, const Call& call) {
  use();
  kernel.forward(call);
}

void CudaWorkbench::input_gradient(Kernel& kernel, const Call& call,
                                   std::span<const GradientTarget> targets) {
  use();
  kernel.input_gradient(call, targets);
}

void CudaWorkbench::weight_gradient(Kernel& kernel, const Call& call,
                                    std::span<const GradientTarget> targets) {
  use();
  kernel.weight_gradient(call, targets);
}

void CudaWorkbench::pack(const Selection& selection, const TensorView& local, std::byte* dense,
                         int64_t samples) {
  use();
  move<true>(queue_, maps_, selection, local.data, dense, samples);
}

void CudaWorkbench::unpack(const Selection& selection, const std::byte* dense,
                           const TensorView& local, int64_t samples) {
  use();
  move<false>(queue_, maps_, selection, local.data, const_cast<std::byte*>(dense), samples);
}

void CudaWorkbench::pack_add(const Selection& selection, const TensorView& local, std::byte* dense,
                             int64_t samples) {
  KERF_CHECK(selection.dtype() == DType::kFloat32, "sums of {}", to_string(selection.dtype()));
  use();
  move_as<float, true, true>(queue_, maps_.of(queue_, selection, samples), local.data, dense);
}

void CudaWorkbench::unpack_add(const Selection& selection, const std::byte* dense,
                               const TensorView& local, int64_t samples) {
  use();
  auto* from = const_cast<std::byte*>(dense);
  const PieceMap& map = maps_.of(queue_, selection, samples);
  if (selection.dtype() == DType::kFloat64)
    return move_as<double, false, true>(queue_, map, local.data, from);
  KERF_CHECK(selection.dtype() == DType::kFloat32, "sums of {}", to_string(selection.dtype()));
  move_as<float, false, true>(queue_, map, local.data, from);
}

void CudaWorkbench::update(const UpdateRule& rule, const TensorView& parameter,
                           const TensorView& gradient, std::span<const TensorView> states,
                           const StepSays& step) {
  KERF_CHECK(std::ssize(states) == states_of(rule.kind), "{} states instead of {}", states.size(),
             states_of(rule.kind));
  use();
  for_each(queue_, parameter.elements(),
           UpdateStep{step, rule, gradient.f32(), states.empty() ? nullptr : states[0].f32(),
                      states.size() < 2 ? nullptr : states[1].f32(), parameter.f32()});
}

void CudaWorkbench::update_state(const TensorView& state, const TensorView& statistics, float keep,
                                 const double* cause) {
  use();
  for_each(queue_, state.elements(), StateStep{cause, keep, statistics.f32(), state.f32()});
}

void CudaWorkbench::add_squared_norm(const TensorView& tensor, double* entry) {
  KERF_CHECK(tensor.dtype == DType::kFloat32, "the norm of {}", to_string(tensor.dtype));
  use();
  sum_in_pieces(*this, tensor.elements(), kLeastPieceOfNorm, SquaredEntry{tensor.f32()},
                AddTo{entry});
}

void CudaWorkbench::add_scalar(const TensorView& scalar, double* entry) {
  use();
  for_each(queue_, 1, AddScalar{scalar.f32(), entry});
}

void CudaWorkbench::add_correct(Answers answers, const TensorView& scores, const TensorView& labels,
                                double* entry, int64_t among) {
  if (answers == Answers::kNone || (answers == Answers::kPicked && among > 1)) return;
  use();
  int64_t step = 1;
  for (int axis = 2; axis < scores.shape.rank(); ++axis) step *= scores.shape[axis];
  const bool picked = answers == Answers::kPicked;
  const int64_t rows = scores.shape[0] * step;
  for (int64_t begin = 0; begin < rows; begin += kMostPieces) {
    const int64_t count = std::min(rows - begin, kMostPieces);
    reduce_rows(
        queue_, count,
        IsRight{scores.f32(), picked ? nullptr : labels.i64(), picked ? labels.f32() : nullptr,
                scores.shape[1], step, begin, among, partial_sums()});
    add_partial_sums(*this, count, AddTo{entry});
  }
}

bool CudaWorkbench::mark(int64_t* place, int64_t number) {
  use();
  for_each(queue_, 1, Mark{place, number});
  return true;
}

void CudaWorkbench::check_data() {
  const FaultReport* first = nullptr;
  for (const FaultReport* each : reports_)
    if (each->place().at >= 0 && (first == nullptr || each->place().turn < first->place().turn))
      first = each;
  if (first == nullptr) return;
  const Fault fault = first->place();
  for (const FaultReport* each : reports_) each->place() = Fault{};
  first->refuse()(fault);
}

}  // namespace kerf::ops::cuda

namespace kerf::ops {

std::unique_ptr<Workbench> make_cuda_workbench(runtime::Device& device, runtime::Stream& stream) {
  return std::make_unique<cuda::CudaWorkbench>(device, stream);
}

}  // namespace kerf::ops
