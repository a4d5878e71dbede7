#include "tests/support/cuda_on_host/dnn_engine.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>

namespace kerf::tests {
namespace {

enum Index : int {
  kTf32,
  kOfEvenPads = 1,  // the real one's number
  kRacing,
  kCompiled,
  kWinograd,
  kGreedy,
  kImplicit,
  kPlain,
  kEngines
};

const std::array<DnnEngine, kEngines>& engines() {
  static const std::array<DnnEngine, kEngines> kAll{{
      {"tf32", {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}, {}},
      {"of_even_pads", {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, {}},
      {"racing", {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, {}},
      {"compiled", {}, {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}},
      {"winograd", {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4}, {}},
      {"greedy", {}, {}},
      {"implicit",
       {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP},
       {CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API}},
      {"plain", {}, {}},
  }};
  return kAll;
}

struct Runs {
  std::mutex mutex;
  std::map<std::string, int64_t> counts;
};

Runs& runs() {
  static Runs all;
  return all;
}

using Sizes = std::array<int64_t, 4>;

Sizes packed(const Sizes& sizes, bool channels_last) {
  const auto [count, channels, rows, columns] = sizes;
  if (channels_last) return {rows * columns * channels, 1, columns * channels, channels};
  return {channels * rows * columns, rows * columns, columns, 1};
}

// Images alike, of either order, and filters in theirs or channels first.
bool is_known_layout(const DnnProblem& p) {
  for (const bool last : {false, true})
    if (p.x.strides == packed(p.x.sizes, last) && p.y.strides == packed(p.y.sizes, last))
      return p.w.strides == packed(p.w.sizes, last) || p.w.strides == packed(p.w.sizes, false);
  return false;
}

bool is_uneven(const DnnProblem& p) { return p.pads_before != p.pads_behind; }

bool is_dilated(const DnnProblem& p) { return p.dilations != std::array<int64_t, 2>{1, 1}; }

float cut_to_tf32(float number) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(number) & ~uint32_t{0x1fff});
}

// The products of a problem, in the loops' order, taps first. Sums of float32.
struct Loops {
  const DnnProblem& p;
  int index;
  bool backwards;  // what comes first is not always first

  float product(float a, float b) const {
    return index == kTf32 ? cut_to_tf32(a) * cut_to_tf32(b) : a * b;
  }
  int64_t row(int64_t y, int64_t tap) const { return under(0, y, tap); }
  int64_t column(int64_t x, int64_t tap) const { return under(1, x, tap); }
  int64_t filters_of_group() const { return p.w.sizes[0] / (p.x.sizes[1] / p.w.sizes[1]); }

  // act(output row, output column, input row, input column) for what a tap sees.
  template <class Act>
  void each_place(int64_t r, int64_t s, const Act& act) const {
    for (int64_t oy = 0; oy < p.y.sizes[2]; ++oy) {
      const int64_t iy = row(oy, r);
      if (iy < 0 || iy >= p.x.sizes[2]) continue;
      for (int64_t ox = 0; ox < p.y.sizes[3]; ++ox) {
        const int64_t ix = column(ox, s);
        if (ix >= 0 && ix < p.x.sizes[3]) act(oy, ox, iy, ix);
      }
    }
  }
  template <class Act>
  void each_tap(const Act& act) const {
    const int64_t taps = p.w.sizes[2] * p.w.sizes[3];
    for (int64_t i = 0; i < taps; ++i) {
      const int64_t tap = backwards ? taps - 1 - i : i;
      act(tap / p.w.sizes[3], tap % p.w.sizes[3]);
    }
  }
  void put(float* to, float sum) const {
    const float old = p.beta == 0 ? 0.0F : p.beta * *to;  // which is not read where beta is 0
    *to = p.alpha * sum + old;
  }

  void forward() const {
    const int64_t columns = p.y.sizes[3];
    std::vector<float> sums(static_cast<size_t>(p.y.sizes[2] * columns));
    for (int64_t n = 0; n < p.y.sizes[0]; ++n)
      for (int64_t o = 0; o < p.y.sizes[1]; ++o) {
        std::fill(sums.begin(), sums.end(), 0.0F);
        const int64_t first = o / filters_of_group() * p.w.sizes[1];
        each_tap([&](int64_t r, int64_t s) {
          for (int64_t c = 0; c < p.w.sizes[1]; ++c) {
            const float weight = p.w.data[p.w.at(o, c, r, s)];
            each_place(r, s, [&](int64_t oy, int64_t ox, int64_t iy, int64_t ix) {
              sums[static_cast<size_t>(oy * columns + ox)] +=
                  product(p.x.data[p.x.at(n, first + c, iy, ix)], weight);
            });
          }
        });
        for (int64_t i = 0; i < std::ssize(sums); ++i)
          put(p.y.data + p.y.at(n, o, i / columns, i % columns), sums[static_cast<size_t>(i)]);
      }
  }

  void input_gradient() const {
    const int64_t columns = p.x.sizes[3];
    std::vector<float> sums(static_cast<size_t>(p.x.sizes[2] * columns));
    for (int64_t n = 0; n < p.x.sizes[0]; ++n)
      for (int64_t c = 0; c < p.x.sizes[1]; ++c) {
        std::fill(sums.begin(), sums.end(), 0.0F);
        const int64_t first = c / p.w.sizes[1] * filters_of_group();
        each_tap([&](int64_t r, int64_t s) {
          for (int64_t o = first; o < first + filters_of_group(); ++o) {
            const float weight = p.w.data[p.w.at(o, c % p.w.sizes[1], r, s)];
            each_place(r, s, [&](int64_t oy, int64_t ox, int64_t iy, int64_t ix) {
              sums[static_cast<size_t>(iy * columns + ix)] +=
                  product(p.y.data[p.y.at(n, o, oy, ox)], weight);
            });
          }
        });
        for (int64_t i = 0; i < std::ssize(sums); ++i)
          put(p.x.data + p.x.at(n, c, i / columns, i % columns), sums[static_cast<size_t>(i)]);
      }
  }

  void weight_gradient() const {
    for (int64_t o = 0; o < p.w.sizes[0]; ++o)
      for (int64_t c = 0; c < p.w.sizes[1]; ++c) {
        const int64_t channel = o / filters_of_group() * p.w.sizes[1] + c;
        each_tap([&](int64_t r, int64_t s) {
          float sum = 0;
          for (int64_t i = 0; i < p.x.sizes[0]; ++i) {
            const int64_t n = backwards ? p.x.sizes[0] - 1 - i : i;
            each_place(r, s, [&](int64_t oy, int64_t ox, int64_t iy, int64_t ix) {
              sum += product(p.x.data[p.x.at(n, channel, iy, ix)], p.y.data[p.y.at(n, o, oy, ox)]);
            });
          }
          put(p.w.data + p.w.at(o, c, r, s), sum);
        });
      }
  }

 private:
  int64_t under(size_t axis, int64_t out, int64_t tap) const {
    const int64_t pads = (index == kOfEvenPads ? p.pads_behind : p.pads_before)[axis];
    return out * p.strides[axis] - pads + tap * p.dilations[axis];
  }
};

}  // namespace

int64_t DnnTensor::bytes() const {
  int64_t last = 0;
  for (size_t i = 0; i < 4; ++i) last += (sizes[i] - 1) * strides[i];
  return (last + 1) * int64_t{sizeof(float)};
}

const DnnEngine& dnn_engine(int index) { return engines()[static_cast<size_t>(index)]; }

// The better ones know nothing of dilations, and their mode nothing of dilated columns. One is
// recommended for what it does wrong, as the real one is (ops/cuda/dnn_conv_plan.cc).
std::optional<std::vector<int>> dnn_engines_for(const DnnProblem& problem,
                                                cudnnBackendHeurMode_t mode) {
  if (mode == CUDNN_HEUR_MODE_FALLBACK) return {{kPlain}};
  if (problem.dilations[1] > 1) return std::nullopt;
  if (is_uneven(problem) && problem.kind == DnnKind::kWeightGradient) return {{kOfEvenPads}};
  if (is_dilated(problem)) return std::vector<int>{};
  return {{kTf32, kRacing, kCompiled, kWinograd, kGreedy, kImplicit}};
}

cudnnStatus_t dnn_engine_takes(int index, const DnnProblem& problem) {
  if (!is_known_layout(problem)) return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
  if (index == kOfEvenPads) return CUDNN_STATUS_SUCCESS;
  if (is_uneven(problem) && (index != kPlain || is_dilated(problem)))
    return CUDNN_STATUS_NOT_SUPPORTED_PADDING;
  return CUDNN_STATUS_SUCCESS;
}

int64_t dnn_workspace_bytes(int index, const DnnProblem& problem) {
  if (index == kPlain) return 0;
  // Each tensor once more, and the weights twice; one takes what nobody grants.
  const int64_t some = problem.x.bytes() + problem.y.bytes() + 2 * problem.w.bytes();
  return index == kGreedy ? 1000 * some : some;
}

void dnn_compute(int index, const DnnProblem& problem) {
  static std::atomic<int> turn = 0;
  const Loops loops{problem, index, index == kRacing && turn++ % 2 == 1};
  switch (problem.kind) {
    case DnnKind::kForward:
      return loops.forward();
    case DnnKind::kInputGradient:
      return loops.input_gradient();
    case DnnKind::kWeightGradient:
      return loops.weight_gradient();
  }
}

std::map<std::string, int64_t> dnn_runs() {
  const std::lock_guard guard(runs().mutex);
  return runs().counts;
}

void count_dnn_run(int index) {
  const std::lock_guard guard(runs().mutex);
  ++runs().counts[dnn_engine(index).name];
}

}  // namespace kerf::tests
