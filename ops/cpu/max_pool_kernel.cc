// MaxPool on the CPU. The forward pass saves which entry of its window each output took, so that
// the gradient reads neither input nor output. NaN wins, so that a diverged run shows.
#include "ops/cpu/kernels.h"
#include "ops/cpu/pool_taps.h"
#include "ops/cpu/simd.h"
#include "ops/pool.h"

namespace kerf::ops::cpu {
namespace {

// 2x2 windows side by side: the common case, in vectors.
KERF_CLONES void max_row_2x2(const float* top, const float* bottom, int64_t count, float* y,
                             uint8_t* index) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float best = top[2 * i];
    int entry = 0;
    const float b = top[2 * i + 1];
    const bool take_b = (b > best) | (b != b);
    best = take_b ? b : best;
    entry = take_b ? 1 : entry;
    const float c = bottom[2 * i];
    const bool take_c = (c > best) | (c != c);
    best = take_c ? c : best;
    entry = take_c ? 2 : entry;
    const float d = bottom[2 * i + 1];
    const bool take_d = (d > best) | (d != d);
    y[i] = take_d ? d : best;
    index[i] = static_cast<uint8_t>(take_d ? 3 : entry);
  }
}

KERF_CLONES void max_row_gradient_2x2(const float* dy, const uint8_t* index, int64_t count,
                                      float* top, float* bottom) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    top[2 * i] = index[i] == 0 ? dy[i] : 0;
    top[2 * i + 1] = index[i] == 1 ? dy[i] : 0;
    bottom[2 * i] = index[i] == 2 ? dy[i] : 0;
    bottom[2 * i + 1] = index[i] == 3 ? dy[i] : 0;
  }
}

bool tiles_2x2(const Window& w) {
  const Extent2 two{2, 2};
  return w.kernel == two && w.strides == two && w.dilations == Extent2{1, 1} &&
         w.pads_begin == Extent2{} && 2 * w.output[0] <= w.input[0] &&
         2 * w.output[1] <= w.input[1];
}

template <class Index>
void max_plane(const Window& w, const float* x, float* y, Index* index) {
  for (int64_t oy = 0; oy < w.output[0]; ++oy) {
    const Taps rows = taps(w, 0, oy);
    for (int64_t ox = 0; ox < w.output[1]; ++ox) {
      const Taps columns = taps(w, 1, ox);
      float best = x[rows.at * w.input[1] + columns.at];
      int64_t entry = rows.first * w.kernel[1] + columns.first;
      for (int64_t ky = rows.first; ky < rows.last; ++ky)
        for (int64_t kx = columns.first; kx < columns.last; ++kx) {
          const int64_t iy = rows.at + (ky - rows.first) * w.dilations[0];
          const int64_t ix = columns.at + (kx - columns.first) * w.dilations[1];
          const float value = x[iy * w.input[1] + ix];
          if (!(value > best) && value == value) continue;
          best = value;
          entry = ky * w.kernel[1] + kx;
        }
      *y++ = best;
      if (index != nullptr) *index++ = static_cast<Index>(entry);
    }
  }
}

template <class Index>
void add_max_plane_gradient(const Window& w, const float* dy, const Index* index, float* dx) {
  for (int64_t oy = 0; oy < w.output[0]; ++oy)
    for (int64_t ox = 0; ox < w.output[1]; ++ox) {
      const int64_t entry = *index++;
      const int64_t iy = oy * w.strides[0] - w.pads_begin[0] + entry / w.kernel[1] * w.dilations[0];
      const int64_t ix = ox * w.strides[1] - w.pads_begin[1] + entry % w.kernel[1] * w.dilations[1];
      dx[iy * w.input[1] + ix] += *dy++;
    }
}

void max_plane_2x2(const Window& w, const float* x, float* y, uint8_t* index) {
  for (int64_t oy = 0; oy < w.output[0]; ++oy) {
    const float* top = x + 2 * oy * w.input[1];
    max_row_2x2(top, top + w.input[1], w.output[1], y + oy * w.output[1], index + oy * w.output[1]);
  }
}

void max_plane_gradient_2x2(const Window& w, const float* dy, const uint8_t* index, float* dx) {
  const int64_t used = 2 * w.output[1];
  for (int64_t oy = 0; oy < w.output[0]; ++oy) {
    float* top = dx + 2 * oy * w.input[1];
    float* bottom = top + w.input[1];
    max_row_gradient_2x2(dy + oy * w.output[1], index + oy * w.output[1], w.output[1], top, bottom);
    std::fill(top + used, top + w.input[1], 0.0F);
    std::fill(bottom + used, bottom + w.input[1], 0.0F);
  }
  std::fill(dx + 2 * w.output[0] * w.input[1], dx + input_plane(w), 0.0F);
}

class MaxPoolKernel final : public Kernel {
 public:
  explicit MaxPoolKernel(const WindowOptions& options) : options_(options) {}

  void forward(const Call& call) override {
    const TensorView& x = call.inputs[0];
    const TensorView& y = call.outputs[0];
    const Window w = make_window("MaxPool", options_, {x.shape[2], x.shape[3]});
    const int64_t planes = y.shape[0] * y.shape[1];
    const bool fast = call.saved != nullptr && tiles_2x2(w);
    with_index(call.saved, [&](auto* index) {
      parallel_pieces(planes, 1 + kLeastElements / input_plane(w), [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          const float* from = x.f32() + p * input_plane(w);
          float* to = y.f32() + p * output_plane(w);
          auto* at = index == nullptr ? nullptr : index + p * output_plane(w);
          if (fast)
            max_plane_2x2(w, from, to, reinterpret_cast<uint8_t*>(at));
          else
            max_plane(w, from, to, at);
        }
      });
    });
  }

  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const auto& target : targets) {
      const Window w = make_window("MaxPool", options_, {target.to.shape[2], target.to.shape[3]});
      const int64_t planes = target.to.shape[0] * target.to.shape[1];
      const bool fast = tiles_2x2(w) && !target.accumulate;
      const float* dy = call.output_gradients[0].f32();
      with_index(call.saved, [&](const auto* index) {
        parallel_pieces(
            planes, 1 + kLeastElements / input_plane(w), [&](int64_t begin, int64_t end) {
              for (int64_t p = begin; p < end; ++p) {
                float* to = target.to.f32() + p * input_plane(w);
                const float* from = dy + p * output_plane(w);
                const auto* at = index + p * output_plane(w);
                if (fast) {
                  max_plane_gradient_2x2(w, from, reinterpret_cast<const uint8_t*>(at), to);
                  continue;
                }
                if (!target.accumulate) std::fill_n(to, input_plane(w), 0.0F);
                add_max_plane_gradient(w, from, at, to);
              }
            });
      });
    }
  }

 private:
  template <class Work>
  void with_index(std::byte* saved, const Work& work) const {
    if (max_pool_index_bytes(options_) == 1)
      work(reinterpret_cast<uint8_t*>(saved));
    else
      work(reinterpret_cast<int32_t*>(saved));
  }

  WindowOptions options_;
};

}  // namespace

std::unique_ptr<Kernel> make_max_pool_kernel(const WindowOptions& options) {
  return std::make_unique<MaxPoolKernel>(options);
}

}  // namespace kerf::ops::cpu
