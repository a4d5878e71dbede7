// The workbench of the CPU: every entry is work of the host's processor.
#include "ops/cpu/kernel_work.h"
#include "ops/metrics.h"
#include "ops/workbench.h"

namespace kerf::ops::cpu {
namespace {

using runtime::launch;
using runtime::Memory;

Memory<const std::byte> read(const TensorView& view) {
  return {view.data, view.data == nullptr ? 0 : view.bytes()};
}
Memory<std::byte> written(const TensorView& view) {
  return {view.data, view.data == nullptr ? 0 : view.bytes()};
}
Memory<double> entry_of(double* entry) { return {entry, sizeof(double)}; }
Memory<const double> condition(const double* cause) { return {cause, sizeof(double)}; }

// The same tensor where the processor finds it.
TensorView at(TensorView view, const std::byte* data) {
  view.data = const_cast<std::byte*>(data);
  return view;
}

class CpuWorkbench final : public Workbench {
 public:
  using Workbench::Workbench;

  void forward(Kernel& kernel, const Call& call) override { run(kernel, Pass::kForward, call, {}); }
  void input_gradient(Kernel& kernel, const Call& call,
                      std::span<const GradientTarget> targets) override {
    run(kernel, Pass::kInputGradient, call, targets);
  }
  void weight_gradient(Kernel& kernel, const Call& call,
                       std::span<const GradientTarget> targets) override {
    run(kernel, Pass::kWeightGradient, call, targets);
  }

  void pack(const Selection& selection, const TensorView& local, std::byte* dense,
            int64_t samples) override {
    move(selection, &Selection::pack, read(local), dense, samples);
  }
  void pack_add(const Selection& selection, const TensorView& local, std::byte* dense,
                int64_t samples) override {
    move(selection, &Selection::pack_add, read(local), dense, samples);
  }
  void unpack(const Selection& selection, const std::byte* dense, const TensorView& local,
              int64_t samples) override {
    move(selection, &Selection::unpack, dense, written(local), samples);
  }
  void unpack_add(const Selection& selection, const std::byte* dense, const TensorView& local,
                  int64_t samples) override {
    move(selection, &Selection::unpack_add, dense, written(local), samples);
  }

  void update(const UpdateRule& rule, const TensorView& parameter, const TensorView& gradient,
              std::span<const TensorView> states, const StepSays& step) override;
  void update_state(const TensorView& state, const TensorView& statistics, float keep,
                    const double* cause) override {
    launch(
        stream(),
        [keep, count = state.elements()](float* to, const float* from, const double* stop) {
          if (*stop != 0) return;
          for (int64_t i = 0; i < count; ++i) to[i] = keep * to[i] + (1 - keep) * from[i];
        },
        Memory<float>{state.f32(), state.bytes()},
        Memory<const float>{statistics.f32(), statistics.bytes()}, condition(cause));
  }

  void add_squared_norm(const TensorView& tensor, double* entry) override {
    launch(
        stream(),
        [tensor](const std::byte* data, double* to) { *to += squared_norm(at(tensor, data)); },
        read(tensor), entry_of(entry));
  }
  void add_scalar(const TensorView& scalar, double* entry) override {
    launch(
        stream(), [](const float* from, double* to) { *to += double{*from}; },
        Memory<const float>{scalar.f32(), scalar.bytes()}, entry_of(entry));
  }
  void add_correct(Answers answers, const TensorView& scores, const TensorView& labels,
                   double* entry, int64_t among) override;

 private:
  using Move = void (Selection::*)(const std::byte* from, std::byte* to, int64_t samples) const;
  void move(const Selection& selection, Move act, Memory<const std::byte> local, std::byte* dense,
            int64_t samples) {
    move(selection, act, local, Memory<std::byte>{dense, selection.bytes(samples)}, samples);
  }
  void move(const Selection& selection, Move act, const std::byte* dense, Memory<std::byte> local,
            int64_t samples) {
    move(selection, act, Memory<const std::byte>{dense, selection.bytes(samples)}, local, samples);
  }
  void move(const Selection& selection, Move act, Memory<const std::byte> from,
            Memory<std::byte> to, int64_t samples) {
    launch(
        stream(),
        [&selection, act, samples](const std::byte* source, std::byte* target) {
          (selection.*act)(source, target, samples);
        },
        from, to);
  }
  void run(Kernel& kernel, Pass pass, const Call& call, std::span<const GradientTarget> targets) {
    KernelWork work(kernel, pass, call, targets);
    stream().launch(work);
  }
};

void CpuWorkbench::update(const UpdateRule& rule, const TensorView& parameter,
                          const TensorView& gradient, std::span<const TensorView> states,
                          const StepSays& step) {
  KERF_CHECK(std::ssize(states) == states_of(rule.kind), "{} states instead of {}", states.size(),
             states_of(rule.kind));
  const TensorView first = states.empty() ? TensorView{} : states[0];
  const TensorView second = states.size() < 2 ? TensorView{} : states[1];
  launch(
      stream(),
      [rule, parameter, gradient, first, second](std::byte* w, const std::byte* g, std::byte* m,
                                                 std::byte* v, const double* stop,
                                                 const double* norm) {
        if (*stop != 0) return;
        const TensorView moved[] = {at(first, m), at(second, v)};
        ops::update(rule, clip_scale(rule.most_norm, *norm), at(parameter, w), at(gradient, g),
                    {moved, static_cast<size_t>(states_of(rule.kind))});
      },
      written(parameter), read(gradient), written(first), written(second), condition(step.cause),
      condition(step.squared_norm));
}

void CpuWorkbench::add_correct(Answers answers, const TensorView& scores, const TensorView& labels,
                               double* entry, int64_t among) {
  if (answers == Answers::kNone || (answers == Answers::kPicked && among > 1)) return;
  const auto count = [picked = answers == Answers::kPicked, among](const TensorView& s,
                                                                   const TensorView& l) {
    return picked ? count_picked(s, l) : count_correct(s, l, among);
  };
  launch(
      stream(),
      [count, scores, labels](const std::byte* s, const std::byte* l, double* to) {
        *to += static_cast<double>(count(at(scores, s), at(labels, l)));
      },
      read(scores), read(labels), entry_of(entry));
}

}  // namespace
}  // namespace kerf::ops::cpu

namespace kerf::ops {

std::unique_ptr<Workbench> make_cpu_workbench(runtime::Device& device, runtime::Stream& stream) {
  return std::make_unique<cpu::CpuWorkbench>(device, stream);
}

}  // namespace kerf::ops
