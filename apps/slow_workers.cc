#include "apps/slow_workers.h"

#include <algorithm>

#include "apps/main/crew_flags.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

constexpr double kSlow = RunRecord::Rebalance::kSlow;
constexpr double kFast = 1.1;  // who was slow is so until then, lest it is told again and again

}  // namespace

bool SlowWorkers::can_tell(const schedmp::TrainingOptions& options) {
  return options.replicas.count == 1 && !options.lbfgs;
}

SlowWorkers::SlowWorkers(int workers, int64_t batch, int64_t traced_steps)
    : batch_(batch),
      traced_steps_(traced_steps),
      paces_(workers),
      now_(static_cast<size_t>(workers)) {}

void SlowWorkers::are_here(std::span<const runtime::WorkerInfo> workers) {
  off_ = off_ || std::ranges::any_of(workers, [](const runtime::WorkerInfo& each) {
           return each.device != kDefaultDevice;
         });
}

std::vector<std::string> SlowWorkers::computed(const schedmp::StepRecord& step,
                                               std::span<const int64_t> compute_ns,
                                               int64_t now_ns) {
  std::vector<std::string> notes;
  if (off_ || steps_++ < traced_steps_ || step.rows != batch_) return notes;
  paces_.add(compute_ns, now_ns);
  const auto slowness = paces_.slowness();
  if (!slowness) return notes;
  for (size_t worker = 0; worker < slowness->size(); ++worker) {
    std::string note = look_at(static_cast<int>(worker), (*slowness)[worker], step.step);
    if (!note.empty()) notes.push_back(std::move(note));
  }
  return notes;
}

std::string SlowWorkers::look_at(int worker, double slowness, int64_t step) {
  std::optional<size_t>& now = now_[static_cast<size_t>(worker)];
  const double before = now ? seen_[*now].times : 1;
  if (now && slowness >= kFast && slowness < before * kSlow && slowness > before / kSlow) return {};
  if (!now && slowness < kSlow) return {};
  if (now) seen_[*now].to_step = step;
  now.reset();
  if (slowness < kSlow)
    return format("worker {} is about as fast as it was, beside the others", worker);
  now = seen_.size();
  seen_.push_back({.worker = worker, .from_step = step, .to_step = {}, .times = slowness});
  return format(
      "worker {} takes {:.1f} times as long as it did, beside the others; --rebalance would plan "
      "anew",
      worker, slowness);
}

}  // namespace kerf::apps
